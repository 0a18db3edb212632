// The explorable map of a report, second part: the view, points into pixels on a canvas, and what is drawn over them.
// Nothing is fetched, and no text is ever taken for HTML.

/**
 * @typedef {{set: Points, i: number}} Hit
 * @typedef {{left: number, top: number, width: number, height: number, title: string, pair: Axis[]}} Panel
 * @typedef {(i: number, u: number, v: number) => void} Call
 */

const points = new Points(facts.points);
const { n } = points;
const layers = facts.layers.map((layer) => new Points(layer));
const sets = [...layers, points]; // in the order in which the pointer finds them
/** @type {Axis[]} */ const without = [];
/** @type {Column[]} */ const rings = [];
let [plain, colour] = /** @type {Column[]} */ ([]);
// Which points pass the filters, and which are selected.
let [shown, chosen] = /** @type {(Uint8Array | null)[]} */ ([null, null]);
let [hovered, picked] = /** @type {(Hit | null)[]} */ ([null, null]);
let [path, panels] = [/** @type {Pair[]} */ ([]), /** @type {Panel[]} */ ([])];
let [across, up, mode, asked, ratio] = [0, 1, "move", false, 1];
let view = { x: 0, y: 0, scale: 1 }; // the middle in the data's unit, and pixels to a unit
let home = view;
const [stage, below, over] = [$("stage"), $("points"), $("over")];
/** @type {CanvasRenderingContext2D[]} */ const [paint, pen] = [below.getContext("2d"), over.getContext("2d")];
let [ink, faint, paper] = ["", "", ""];

/** Whether a box is ticked. @returns {boolean} */
const ticked = (id = "") => $(id)?.checked;

/** Calls with each shown point, or some, and its pixels. @param {Panel} panel @param {Points} set @param {Call} call */
function each({ left, top, width, height, pair: own }, set, call, from = 0, to = set.n) {
  const main = own === points.pair;
  if (!set.drawn || (set !== points && !main)) return; // the second panel has no layers
  const [[x, y], shows] = set === points ? [own, shown] : [set.pair, null];
  const [ax, bx] = [x.step * view.scale, left + width / 2 + (x.low - x.step - view.x) * view.scale];
  const [ay, by] = [-y.step * view.scale, top + height / 2 - (y.low - y.step - view.y) * view.scale];
  const [xs, ys] = [x.codes, y.codes];
  for (let i = from; i < to; i++) if (shows === null || shows[i] !== 0) call(i, xs[i] * ax + bx, ys[i] * ay + by);
}

/** The pixels of a point, if it is shown. @param {Panel} panel @param {Hit} hit */
function spot(panel, { set, i }) {
  /** @type {Pair[]} */ const found = [];
  each(panel, set, (_, u, v) => found.push([u, v]), i, i + 1);
  return found[0];
}

/** The place in the data. @param {Panel} panel @returns {Pair} */
const place = ({ left, top, width, height }, u = 0, v = 0) =>
  [view.x + (u - left - width / 2) / view.scale, view.y - (v - top - height / 2) / view.scale];
const panelAt = (left = 0) => panels.find((panel) => left <= panel.left + panel.width + 10) ?? panels[0];
/** @returns {Pair} */
const middle = () => [panels[0].left + panels[0].width / 2, panels[0].top + panels[0].height / 2];

/** The size of the canvases, where the panels are, and the view of all that is drawn. */
function lay() {
  layers.forEach((layer, k) => (layer.drawn = layer.axes.length > 0 && ticked(`layer-${k}`)));
  for (const set of sets) set.pair = [set.axes[across], set.axes[up]];
  const [[x, wide], [y, high]] = [0, 1].map((k) => {
    const axes = sets.filter((set) => set.drawn).map((set) => set.pair[k]);
    const low = Math.min(...axes.map((axis) => axis.low));
    return [low, Math.max(...axes.map((axis) => number(axis, axis.top))) - low];
  });
  const two = ticked("beside") && without.length > Math.max(across, up);
  const shape = high / wide / (two ? 2 : 1) || 0.5; // the style sheet makes the canvas as high
  stage.style.setProperty("--shape", String(Math.min(0.85, Math.max(0.5, shape))));
  const box = stage.getBoundingClientRect();
  ratio = devicePixelRatio || 1;
  for (const one of [below, over]) Object.assign(one, { width: box.width * ratio, height: box.height * ratio });
  const [width, height] = [Math.max(40, two ? (box.width - 114) / 2 : box.width - 58), Math.max(40, box.height - 68)];
  const pairs = two ? [points.pair, [without[across], without[up]]] : [points.pair];
  panels = pairs.map((pair, k) => {
    const title = two ? ["with the constant", "without the constant"][k] : "";
    return { left: 50 + k * (width + 56), top: 26, width, height, title, pair };
  });
  const fits = 0.92 * Math.min(width / wide, height / high);
  const scale = Number.isFinite(fits) ? fits : width / (Math.abs(x) * 1e-3 || 1); // else all points are equal
  home = { x: x + wide / 2, y: y + high / 2, scale };
}

/** After a change of what is drawn or of the window: the same middle and as much of the map, or all of it as before. */
function again() {
  const before = home;
  lay();
  view = view === before ? home : { ...view, scale: (view.scale * home.scale) / before.scale };
  draw(); // now, for a canvas of another size is empty
}

/** Zooms so that what is at a pixel stays there. @param {Pair} at */
function zoom(factor = 1, at = middle()) {
  const [x, y] = place(panelAt(at[0]), ...at);
  const scale = Math.min(Math.max(view.scale * factor, home.scale * 0.4), home.scale * 20000);
  const part = view.scale / scale;
  ask({ scale, x: x + (view.x - x) * part, y: y + (view.y - y) * part });
}

/** Moves by pixels. */
const pan = (left = 0, top = 0) => ask({ ...view, x: view.x - left / view.scale, y: view.y + top / view.scale });

/** Draws at the next frame. @param {typeof view} [wanted] Another view. */
function ask(wanted = view) {
  view = wanted;
  if (!asked) requestAnimationFrame(draw);
  asked = true;
}

function draw() {
  asked = false;
  for (const panel of panels) splat(panel, palette());
  overlay();
  // For whoever drives the page by a script: the middle in pixels and in the data, and pixels to a unit.
  over.dataset.view = JSON.stringify([...middle(), view.x, view.y, view.scale, view.scale]);
}

/** Colours as 0xBBGGRR by the numbers that `tint` gives; every second ring is paler. */
function palette() {
  const names = colour.texts ? facts.colours.categories : facts.colours.scale;
  return Uint32Array.from({ length: 256 }, (_, k) => {
    const pale = colour.group === "rings" && k < 255 && Math.floor(k / 17) % 2 ? 0.5 : 1;
    const parts = [5, 3, 1].map((at) => parseInt((names[k] ?? facts.colours.none).slice(at, at + 2), 16));
    return parts.reduce((sum, part) => sum * 256 + Math.round(255 - (255 - part) * pale), 0);
  });
}

/**
 * Draws a panel's points. A pixel has the colour of one of its points, the same one at every draw and no rather the
 * last than the first, and is fainter where there are fewer. @param {Panel} panel @param {Uint32Array} colours
 */
function splat(panel, colours) {
  const { left: l, top: t, width, height } = panel;
  const [wide, high, left, top] = [width, height, l, t].map((side) => Math.round(side * ratio));
  const image = paint.createImageData(wide, high);
  const out = new Uint32Array(image.data.buffer);
  // A dot is a disc of pixels, each by so many eighths: larger of few points, and where one zooms in.
  const least = Math.min(5, Math.max(1, Math.sqrt(12000 / n)));
  const radius = Math.min(5, least * (view.scale / home.scale) ** 0.3) * ratio * 0.9;
  const side = Math.max(1, Math.round(2 * radius));
  const [steps, parts] = [/** @type {number[]} */ ([]), /** @type {number[]} */ ([])];
  for (let k = 0; k < side * side; k++) {
    const [u, v] = [k % side, Math.floor(k / side)];
    const part = side < 4 ? 8 : 8 * Math.min(1, radius + 0.5 - Math.hypot(u - (side - 1) / 2, v - (side - 1) / 2));
    if (part >= 1) [steps[steps.length], parts[parts.length]] = [v * wide + u, Math.round(part)];
  }
  const [inked, ranks, last] = [new Uint32Array(out.length), new Uint16Array(out.length), new Uint8Array(out.length)];
  const [selects, tint, column, half, dots] = [chosen, colour.tint, colour.codes, (side - 1) / 2, steps.length];
  const [right, bottom] = [wide - side, high - side];
  each(panel, points, (i, x, y) => {
    const [u, v] = [Math.round(x * ratio - left - half), Math.round(y * ratio - top - half)];
    if (!(u >= 0 && v >= 0 && u <= right && v <= bottom)) return;
    const behind = selects !== null && selects[i] === 0; // those that are not selected, in grey
    const [rank, shade] = behind ? [1, 255] : [shuffled(i) | 2, tint[column[i]]];
    for (let j = 0, q = v * wide + u; j < dots; j++) {
      inked[q + steps[j]] += parts[j];
      if (rank < ranks[q + steps[j]]) continue;
      ranks[q + steps[j]] = rank;
      last[q + steps[j]] = shade;
    }
  });
  // A pixel with four times as much as the mean is as full as any.
  let [sum, used] = [0, 1];
  for (const some of inked) [sum, used] = [sum + some, used + Number(some > 0)];
  const opacity = Uint8Array.from({ length: 2048 }, (_, some) => {
    const depth = Math.min(1, Math.max(0, Math.log(some / 8) / Math.log(Math.max(2, sum / used / 2))));
    return 255 * Math.min(1, some / 8) * (n > 20000 ? 0.5 + 0.5 * depth : 0.8 + 0.2 * depth);
  });
  inked.forEach((some, q) => some && (out[q] = (opacity[Math.min(some, 2047)] << 24) | colours[last[q]]));
  paint.putImageData(image, left, top);
}

/** Strokes a shape on a rim of paper. @param {string | Path2D} shape */
function trace(shape, stroke = ink, wide = 2) {
  for (const [strokeStyle, lineWidth] of [[paper, wide + 2.5], [stroke, wide]]) {
    Object.assign(pen, { strokeStyle, lineWidth });
    pen.stroke(new Path2D(shape));
  }
}

/** @param {CanvasTextAlign} textAlign */
function write(text = "", x = 0, y = 0, textAlign = "right", fillStyle = ink, most = 400) {
  Object.assign(pen, { fillStyle, strokeStyle: paper, lineWidth: 4, textAlign, textBaseline: "middle" });
  pen.strokeText(text, x, y, most);
  pen.fillText(text, x, y, most);
}

function overlay() {
  const style = getComputedStyle(stage);
  [ink, faint, paper] = ["--ink", "--faint", "--paper"].map((name) => style.getPropertyValue(name));
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, over.width, over.height);
  pen.font = "12px system-ui, sans-serif";
  for (const panel of panels) {
    frame(panel);
    pen.save();
    pen.beginPath();
    pen.rect(panel.left, panel.top, panel.width, panel.height);
    pen.clip();
    facts.edges.forEach(({ pairs }, k) => {
      const ends = ticked(`edges-${k}`) ? pairs.map((pair) => pair.map((i) => spot(panel, { set: points, i }))) : [];
      const lines = ends.filter(([from, to]) => from && to).map((line) => `M${line.join("L")}`);
      trace(lines.join(""), k % 2 ? "#e08214" : "#d6304a", pairs.length > 500 ? 0.8 : 1.6);
    });
    layers.forEach((layer, k) => {
      const r = Math.min(5, Math.max(2.5, 60 / Math.sqrt(layer.n)));
      const [sign, signs] = [new Path2D(k % 2 ? "M-1-1 1 1M-1 1 1-1" : "M0-1 1 0 0 1-1 0Z"), new Path2D()];
      each(panel, layer, (_, u, v) => signs.addPath(sign, { a: r, d: r, e: u, f: v }));
      trace(signs, ink, 1.4);
    });
    if (ticked("arrows") && panel === panels[0]) drawArrows(panel);
    for (const hit of [picked, hovered]) {
      const [circle, at] = [new Path2D(), hit && spot(panel, hit)];
      if (at) circle.arc(...at, hit === picked ? 8 : 6, 0, 7);
      trace(circle);
    }
    pen.restore();
  }
  if (mode !== "move" && path.length) trace(`M${path.join("L")}Z`, "#3b82f6", 1.5);
}

/** A panel's box, with round values and names. @param {Panel} panel */
function frame(panel) {
  const { left, top, width, height, pair, title } = panel;
  const [low, high] = [place(panel, left, top + height), place(panel, left + width, top)];
  let box = `M${left} ${top}h${width}v${height}h${-width}Z`;
  for (const k of pair[1].name ? [0, 1] : [0]) {
    const wanted = (high[k] - low[k]) / Math.max(2, k ? height / 60 : width / 90);
    const power = 10 ** Math.floor(Math.log10(wanted));
    const step = ([1, 2, 5].find((factor) => factor * power >= wanted) ?? 10) * power;
    for (let j = Math.ceil(low[k] / step), most = j + 40; j * step <= high[k] && j < most; j++) {
      const part = (j * step - low[k]) / (high[k] - low[k]);
      const [u, v] = k ? [left, top + height * (1 - part)] : [left + width * part, top + height];
      box += `M${u} ${v}${k ? "h-4" : "v4"}`;
      const text = digits(j * step, power).replace("-", "−");
      write(text, u - 7 * k, v + 13 * (1 - k), k ? "right" : "center", faint, 43);
    }
  }
  trace(box, faint, 0.6);
  write(pair[0].name, left + width, top + height + 32, "right", ink, width);
  write(pair[1].name && `↑ ${pair[1].name}`, left - 40, top - 13, "left", ink, width / 2);
  write(title, left + width, top - 13, "right", ink, width / 2);
}

/** The features that go most with the two axes. @param {Panel} panel */
function drawArrows({ left, top, width, height }) {
  const { features, values } = facts.arrows;
  const all = features.map((name, i) => ({ name, x: values[across][i], y: values[up][i] }));
  const strongest = all.sort((a, b) => Math.hypot(b.x, b.y) - Math.hypot(a.x, a.y)).slice(0, 8);
  const reach = (0.36 * Math.min(width, height)) / (Math.hypot(strongest[0].x, strongest[0].y) || 1);
  for (const { name, x, y } of strongest) {
    const [u, v, turn] = [left + width / 2 + x * reach, top + height / 2 - y * reach, Math.atan2(-y, x)];
    const [one, other] = [-0.4, 0.4].map((side) => [u - 9 * Math.cos(turn + side), v - 9 * Math.sin(turn + side)]);
    trace(`M${left + width / 2} ${top + height / 2}L${u} ${v}M${one}L${u} ${v} ${other}`, ink, 1.5);
    const text = [x, y].map((part) => digits(part, 0.01).replace("-", "−")).join(", ");
    write(`${name.slice(0, 24)} (${text})`, u + (x < 0 ? -6 : 6), v, x < 0 ? "right" : "left");
  }
}
