// The explorable map of a report, second part: points into pixels on a canvas, and what is drawn over them. Nothing is
// fetched, and no text is ever taken for HTML.

// ---- what is shown ----

/** @typedef {{set: Points, i: number}} Hit */
const points = new Points(facts.points, "");
const { n } = points;
const layers = facts.layers.map((layer) => new Points(layer, layer.name));
/** @type {Axis[]} */ const without = [];
/** @type {Column[]} */ const rings = [];
const oneAxis = facts.points.axes.length === 1;
const view = { x: 0, y: 0, across: 1, up: 1 }; // the middle in the data's unit, and pixels to a unit
let [home, across, up, mode, size] = [{ ...view }, 0, oneAxis ? -1 : 1, "move", { width: 0, height: 0, scale: 1 }];
let [beside, arrows, ringed, loaded, asked] = [false, false, false, false, false];
/** @type {Set<Edges>} */ const lines = new Set();
/** @type {Column | null} */ let colour = points.columns[0] ?? null;
/** @type {Uint8Array | null} Whether each point passes the filters. */ let shown = null;
/** @type {Uint8Array | null} Whether each point is selected. */ let chosen = null;
/** @type {number[]} */ let selection = [];
/** @type {Hit | null} */ let hovered = null;
/** @type {Hit | null} */ let picked = null;
/** @type {Pair[]} */ let path = [];
/** @type {Panel[]} */ let panels = [];
const [stage, below, over] = [$("stage"), $("points"), $("over")];
/** @type {CanvasRenderingContext2D[]} */ const [paint, pen] = [below.getContext("2d"), over.getContext("2d")];
const dark = matchMedia("(prefers-color-scheme: dark)");

/** An element with a text or with children. @param {string} tag @param {string | any[]} [inside] @param {object} [properties] @returns {any} */
function make(tag, inside = "", properties = {}) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...(typeof inside === "string" ? [inside] : inside));
  return made;
}

/** @param {string} text @param {() => void} onclick @param {object} [more] */
const button = (text, onclick, more) => make("button", text, { type: "button", onclick, ...more });
/** @param {string} text */
const faint = (text) => make("p", text, { className: "faint" });
/** @param {string} text */
const say = (text) => ($("said").textContent = text);
/** @param {string} text @param {number} [most] */
const cut = (text, most = 60) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);
/** @param {number} value */
const grouped = (value) => value.toLocaleString("en-GB");
/** @param {number} value @param {string} noun */
const count = (value, noun) => `${grouped(value)} ${noun}${value === 1 ? "" : "s"}`;

/** Colours as 0xBBGGRR by the numbers that `tint` gives: lighter on dark paper, every second ring paler. */
function palette() {
  const names = colour && colour.shown >= 0 ? facts.colours.categories : facts.colours.scale;
  return Uint32Array.from({ length: 256 }, (_, k) => {
    const name = !colour && k === 0 ? "#2166ac" : k < names.length ? names[k] : facts.colours.none;
    const pale = ringed && k < 255 && Math.floor(k / 17) % 2 ? 0.5 : 1;
    return [5, 3, 1].reduce((sum, at) => {
      const part = parseInt(name.slice(at, at + 2), 16);
      return sum * 256 + Math.round(dark.matches ? (255 - (255 - part) * 0.8) * pale : 255 - (255 - part) * pale);
    }, 0);
  });
}

/** @param {number} tint */
const css = (tint) => `rgb(${tint & 255} ${(tint >> 8) & 255} ${tint >> 16})`;

// ---- points into pixels ----

let [ink, best, last] = [new Uint32Array(0), new Uint16Array(0), new Uint8Array(0)];
const [FULL, MOST_INK] = [8, 2048]; // what a point adds to a pixel that it covers; more counts as this

/** The pixels of a dot: larger of few points, and where one zooms in. */
function stencil() {
  const least = Math.min(5, Math.max(1, Math.sqrt(12000 / n)));
  const radius = Math.min(5, least * (view.across / home.across) ** 0.3) * size.scale * 0.9;
  const side = Math.max(1, Math.round(2 * radius));
  const found = [];
  for (let k = 0; k < side * side; k++) {
    const [x, y] = [k % side, Math.floor(k / side)];
    const cover = radius + 0.5 - Math.hypot(x - (side - 1) / 2, y - (side - 1) / 2);
    if (side < 4 || cover >= 1 / FULL) found.push({ x, y, ink: side < 4 ? FULL : Math.round(Math.min(1, cover) * FULL) });
  }
  return { side, found };
}

/**
 * Draws a panel's points. A pixel has the colour of one of its points, the same one at every draw and no rather the
 * last than the first, and is fainter where there are fewer. @param {Panel} panel @param {Uint8Array} tints @param {Uint32Array} colours
 */
function splat({ left, top, width, height, x, y }, tints, colours) {
  const { scale } = size;
  const [wide, high] = [width, height].map((side) => Math.max(1, Math.round(side * scale)));
  const image = paint.createImageData(wide, high);
  const out = new Uint32Array(image.data.buffer);
  if (ink.length !== out.length) [ink, best, last] = [new Uint32Array(out.length), new Uint16Array(out.length), new Uint8Array(out.length)];
  const { side, found } = stencil();
  const steps = Int32Array.from(found, (one) => one.y * wide + one.x);
  const inks = Uint8Array.from(found, (one) => one.ink);
  const [ax, ay] = [x.step * view.across * scale, -y.step * view.up * scale];
  const bx = (x.low - x.step - view.x) * view.across * scale + (wide - side + 1) / 2;
  const by = -(y.low - y.step - view.y) * view.up * scale + (high - side + 1) / 2;
  // Plain variables: this loop is what a frame waits for.
  const [inked, ranks, tinted, chooses, shows, xs, ys, dots] = [ink, best, last, chosen, shown, x.at, y.at, steps.length];
  const [right, bottom] = [wide - side, high - side];
  for (let pass = chooses ? 0 : 1; pass < 2; pass++) {
    inked.fill(0);
    ranks.fill(0);
    for (let i = 0; i < n; i++) {
      const u = xs[i] * ax + bx;
      const v = ys[i] * ay + by;
      if (!(u >= 0 && v >= 0 && u < right && v < bottom)) continue;
      if (ys[i] === 0 || (shows !== null && shows[i] === 0) || (chooses !== null && chooses[i] !== pass)) continue;
      const at = (v | 0) * wide + (u | 0);
      const rank = shuffled(i) | 1;
      const tint = tints[i];
      for (let j = 0; j < dots; j++) {
        const q = at + steps[j];
        inked[q] += inks[j];
        if (rank >= ranks[q]) {
          ranks[q] = rank;
          tinted[q] = tint;
        }
      }
    }
    const shade = opacity(pass === 0);
    for (let q = 0; q < out.length; q++) if (ink[q]) out[q] = (shade[Math.min(ink[q], MOST_INK - 1)] << 24) | colours[last[q]];
  }
  paint.putImageData(image, Math.round(left * scale), Math.round(top * scale));
}

/** Opacity by ink. A pixel in a hundred may be fuller than the fullest. @param {boolean} dim */
function opacity(dim) {
  const counts = new Uint32Array(MOST_INK);
  for (let q = 0; q < ink.length; q++) counts[Math.min(ink[q], MOST_INK - 1)]++;
  const few = (ink.length - counts[0]) / 100;
  let fullest = MOST_INK - 1;
  for (let above = 0; fullest > 2 * FULL && above + counts[fullest] < few; fullest--) above += counts[fullest];
  const least = n > 20000 ? 0.5 : 0.8;
  return Uint8Array.from(counts, (_, some) => {
    const depth = Math.min(1, Math.max(0, Math.log(some / FULL) / Math.log(fullest / FULL)));
    return 255 * (dim ? 0.13 : 1) * Math.min(1, some / FULL) * (least + (1 - least) * depth);
  });
}

// ---- the view ----

/** The place of a value on the screen. @param {Panel} panel @param {number} x @param {number} y @returns {Pair} */
const toScreen = ({ left, top, width, height }, x, y) => [left + width / 2 + (x - view.x) * view.across, top + height / 2 - (y - view.y) * view.up];
/** @param {Panel} panel @param {number} u @param {number} v @returns {Pair} */
const toData = ({ left, top, width, height }, u, v) => [view.x + (u - left - width / 2) / view.across, view.y - (v - top - height / 2) / view.up];
/** @param {number} left */
const panelAt = (left) => panels.find((panel) => left <= panel.left + panel.width + 10) ?? panels[0];
/** @returns {Pair} */
const middle = () => [panels[0].left + panels[0].width / 2, panels[0].top + panels[0].height / 2];

/** What a single axis is drawn against: the numbers that colour it, or places that keep points apart. @returns {Axis} */
function second() {
  if (!oneAxis) return points.axes[up];
  const numbers = colour && colour.shown < 0 ? colour : null;
  const [low, high] = numbers?.limits ?? [0, 1];
  const step = (high - low) / 65534;
  const at = Float32Array.from(points.axes[0].at, (_, i) => {
    if (!numbers) return Math.max(1, shuffled(i));
    return numbers.codes[i] ? 1 + Math.min(65534, Math.max(0, (numbers.number(i) - low) / step)) : 0;
  });
  return { name: numbers?.name ?? "", at, low, step, high };
}

/** Where the panels are, and what they show. */
function lay() {
  const box = stage.getBoundingClientRect();
  size = { width: box.width, height: box.height, scale: devicePixelRatio || 1 };
  for (const canvas of [below, over]) [canvas.width, canvas.height] = [box.width, box.height].map((side) => Math.round(side * size.scale));
  const two = beside && without[across] && without[up];
  const [top, height, room] = [two ? 24 : 8, Math.max(40, box.height - (two ? 66 : 50)), Math.max(40, box.width - 64)];
  const width = two ? (room - 50) / 2 : room;
  panels = [{ left: 56, top, width, height, title: two ? "with the constant" : "", x: points.axes[across], y: second(), main: true }];
  if (two) panels.push({ ...panels[0], left: width + 106, title: "without the constant", x: without[across], y: without[up], main: false });
}

/** The view of all points, with the layers that are drawn. */
function whole() {
  const [{ x, y, width, height }] = panels;
  const more = layers.filter((layer) => layer.drawn);
  const ends = /** @type {[Axis, number][]} */ ([[x, across], [y, up]]).map(([axis, k]) => {
    const all = k < 0 ? [axis] : [axis, ...more.map((layer) => layer.axes[k])];
    return [Math.min(...all.map((one) => one.low)), Math.max(...all.map((one) => one.high))];
  });
  const [wide, high] = ends.map(([low, top]) => top - low);
  const fits = 0.92 * Math.min(wide ? width / wide : Infinity, oneAxis || !high ? Infinity : height / high);
  const equal = Number.isFinite(fits) ? fits : width / (Math.abs(x.low) * 1e-3 || 1); // else all points are equal
  home = { x: ends[0][0] + wide / 2, y: ends[1][0] + high / 2, across: equal, up: oneAxis ? (0.92 * height) / (high || 1) : equal };
}

function reset() {
  whole();
  Object.assign(view, home);
  ask();
}

/** Zooms so that what is at a place of the screen stays there. @param {number} factor @param {Pair} at */
function zoom(factor, at) {
  const [x, y] = toData(panelAt(at[0]), ...at);
  const done = Math.min(Math.max(view.across * factor, home.across * 0.4), home.across * 20000) / view.across;
  Object.assign(view, { across: view.across * done, up: view.up * done, x: x + (view.x - x) / done, y: y + (view.y - y) / done });
  pan(0, 0);
}

/** Moves by pixels; some of the points' range stays in view. @param {number} left @param {number} top */
function pan(left, top) {
  const { x, y, width, height } = panels[0];
  const [wide, high] = [(0.4 * width) / view.across, (0.4 * height) / view.up];
  view.x = Math.min(Math.max(view.x - left / view.across, x.low - wide), x.high + wide);
  view.y = Math.min(Math.max(view.y + top / view.up, y.low - high), y.high + high);
  ask();
}

function ask() {
  if (!asked) requestAnimationFrame(draw);
  asked = true;
}

function draw() {
  asked = false;
  paint.clearRect(0, 0, below.width, below.height);
  const [tints, colours] = [colour ? colour.tint() : new Uint8Array(n), palette()];
  for (const panel of panels) splat(panel, tints, colours);
  overlay();
  // For whoever drives the page by a script: the middle in pixels and in the data, and pixels to a unit.
  over.dataset.view = JSON.stringify([...middle(), view.x, view.y, view.across, view.up]);
}

// ---- over the points: axes, edges, layers, arrows, marks ----

/** @param {Path2D} shape @param {string} stroke @param {number} lineWidth */
function stroke(shape, stroke, lineWidth) {
  Object.assign(pen, { strokeStyle: stroke, lineWidth });
  pen.stroke(shape);
}

/** @param {string} text @param {number} x @param {number} y @param {CanvasTextAlign} textAlign @param {string} fill @param {number} [most] */
function write(text, x, y, textAlign, fill, most) {
  Object.assign(pen, { fillStyle: fill, textAlign, textBaseline: "middle" });
  pen.fillText(text, x, y, most);
}

function overlay() {
  const style = getComputedStyle(stage);
  const [dark, grey, paper] = ["--ink", "--faint", "--paper"].map((name) => style.getPropertyValue(name));
  pen.setTransform(size.scale, 0, 0, size.scale, 0, 0);
  pen.clearRect(0, 0, size.width, size.height);
  pen.font = "12px system-ui, sans-serif";
  for (const panel of panels) {
    frame(panel, dark, grey);
    pen.save();
    pen.beginPath();
    pen.rect(panel.left, panel.top, panel.width, panel.height);
    pen.clip();
    facts.edges.forEach((edges, k) => lines.has(edges) && drawEdges(panel, edges, k % 2 ? "#e08214" : "#d6304a"));
    layers.forEach((layer, k) => panel.main && layer.drawn && drawLayer(panel, layer, k, dark, paper));
    if (arrows && panel.main && facts.arrows) drawArrows(panel, facts.arrows, dark, paper);
    for (const hit of [picked, hovered]) {
      const at = hit && spot(panel, hit);
      if (!at) continue;
      const circle = new Path2D();
      circle.arc(...at, hit === picked ? 8 : 6, 0, 7);
      stroke(circle, paper, 4.5);
      stroke(circle, dark, 2);
    }
    pen.restore();
  }
  if (path.length < 2) return;
  const drawn = new Path2D();
  for (const at of path) drawn.lineTo(...at);
  drawn.closePath();
  pen.fillStyle = "rgb(59 130 246 / .12)";
  pen.fill(drawn);
  stroke(drawn, "#3b82f6", 1.5);
}

/** @param {Panel} panel @param {string} dark @param {string} grey */
function frame(panel, dark, grey) {
  const { left, top, width, height, x, y, title, main } = panel;
  const box = new Path2D();
  box.rect(left, top, width, height);
  for (const [value, text] of ticks(toData(panel, left, 0)[0], toData(panel, left + width, 0)[0], width / 90)) {
    const [at] = toScreen(panel, value, 0);
    write(text, at, top + height + 13, "center", grey);
    box.rect(at, top + height, 0, 4);
  }
  for (const [value, text] of y.name ? ticks(toData(panel, 0, top + height)[1], toData(panel, 0, top)[1], height / 60) : []) {
    const at = toScreen(panel, 0, value)[1];
    write(text, left - 7, at, "right", grey, 34);
    box.rect(left - 4, at, 4, 0);
  }
  stroke(box, grey, 0.6);
  write(x.name, left + width / 2, top + height + 32, "center", dark, width);
  write(title, left + width / 2, top - 11, "center", dark, width);
  if (!main) return;
  pen.save();
  pen.translate(9, top + height / 2);
  pen.rotate(-Math.PI / 2);
  write(y.name, 0, 0, "center", dark, height);
  pen.restore();
}

/** Round values between two, with their texts. @param {number} low @param {number} high @param {number} most */
function ticks(low, high, most) {
  const power = 10 ** Math.floor(Math.log10((high - low) / Math.max(2, most)));
  const step = ([1, 2, 5].find((factor) => (high - low) / (factor * power) <= Math.max(2, most)) ?? 10) * power;
  const found = [];
  for (let k = Math.ceil(low / step); k * step <= high && found.length < 40; k++) {
    found.push(/** @type {[number, string]} */ ([k * step, digits(k * step, power, 12).replace("-", "−")]));
  }
  return found;
}

/** Where a point is on the screen. @param {Panel} panel @param {Hit} hit @returns {Pair | null} */
function spot(panel, { set, i }) {
  if (set === points) return panel.y.at[i] ? toScreen(panel, where(panel.x, i), where(panel.y, i)) : null;
  return panel.main ? toScreen(panel, where(set.axes[across], i), oneAxis ? panel.y.low : where(set.axes[up], i)) : null;
}

/** @param {Panel} panel @param {Edges} edges @param {string} tint */
function drawEdges(panel, edges, tint) {
  const drawn = new Path2D();
  for (const pair of edges.pairs) {
    const [from, to] = pair.map((i) => spot(panel, { set: points, i }));
    if (!from || !to) continue;
    drawn.moveTo(...from);
    drawn.lineTo(...to);
  }
  stroke(drawn, tint, edges.pairs.length > 500 ? 0.8 : 1.6);
}

/** Diamonds or crosses. @param {Panel} panel @param {Points} layer @param {number} k @param {string} dark @param {string} paper */
function drawLayer(panel, layer, k, dark, paper) {
  const r = Math.min(5, Math.max(2.5, 60 / Math.sqrt(layer.n)));
  const signs = new Path2D();
  for (let i = 0; i < layer.n; i++) {
    const [x, y] = /** @type {Pair} */ (spot(panel, { set: layer, i }));
    if (x < panel.left || x > panel.left + panel.width) continue;
    const corners = k % 2 ? [[-r, -r], [r, r], [0, 0], [-r, r], [r, -r]] : [[0, -r], [r, 0], [0, r], [-r, 0], [0, -r]];
    corners.forEach(([a, b], corner) => (corner && (corner !== 3 || k % 2 === 0) ? signs.lineTo(x + a, y + b) : signs.moveTo(x + a, y + b)));
  }
  stroke(signs, paper, 3.5);
  stroke(signs, dark, 1.4);
}

/** The features that go most with the two axes. @param {Panel} panel @param {Arrows} said @param {string} dark @param {string} paper */
function drawArrows(panel, said, dark, paper) {
  const all = said.features.map((name, i) => ({ name, x: said.values[across][i], y: oneAxis ? 0 : said.values[up][i] }));
  const strongest = all.sort((a, b) => Math.hypot(b.x, b.y) - Math.hypot(a.x, a.y)).slice(0, 8);
  const reach = (0.36 * Math.min(panel.width, panel.height)) / (Math.hypot(strongest[0].x, strongest[0].y) || 1);
  const [x0, y0] = [panel.left + panel.width / 2, panel.top + panel.height / 2];
  for (const { name, x, y } of strongest) {
    const [x1, y1, turn] = [x0 + x * reach, y0 - y * reach, Math.atan2(-y, x)];
    const arrow = new Path2D();
    arrow.moveTo(x0, y0);
    for (const side of [-0.4, 0.4]) {
      arrow.lineTo(x1, y1);
      arrow.lineTo(x1 - 9 * Math.cos(turn + side), y1 - 9 * Math.sin(turn + side));
    }
    const values = (oneAxis ? [x] : [x, y]).map((value) => digits(value, 0.01).replace("-", "−")).join(", ");
    stroke(arrow, paper, 4);
    stroke(arrow, dark, 1.5);
    const text = `${cut(name, 24)} (${values})`;
    const place = /** @type {const} */ ([x1 + (x < 0 ? -6 : 6), y1]);
    Object.assign(pen, { strokeStyle: paper, lineWidth: 4, textAlign: x < 0 ? "right" : "left", textBaseline: "middle" });
    pen.strokeText(text, ...place);
    write(text, ...place, x < 0 ? "right" : "left", dark);
  }
}
