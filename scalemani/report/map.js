"use strict";
// The explorable map of a report, from what `live.py` packed. Nothing is fetched, and no text is ever taken for HTML.

/**
 * @typedef {[number, number]} Pair
 * @typedef {{name: string, blob: number, low: number, step: number, top: number}} AxisFacts
 * @typedef {{name: string, from: number, to: number, n: number, colour: number}} Kind
 * @typedef {{about: string, group: string, texts?: number, kinds: Kind[], far?: number, at?: number}} Further
 * @typedef {AxisFacts & Further} ColumnFacts
 * @typedef {{n: number, name: string, axes: AxisFacts[], columns: ColumnFacts[], rows?: number, ids?: number,
 *   whole?: number}} PointsFacts
 * @typedef {{points: PointsFacts, layers: PointsFacts[], other: AxisFacts[], edges: {pairs: Pair[]}[],
 *   rings: ColumnFacts[], plain: ColumnFacts, arrows: {features: string[], values: number[][]},
 *   colours: {scale: string[], categories: string[], none: string}}} Facts
 * @typedef {Awaited<ReturnType<typeof axisOf>>} Axis
 * @typedef {Awaited<ReturnType<typeof columnOf>>} Column
 * @typedef {ReturnType<typeof pointsOf>} Points
 * @typedef {{set: Points, i: number}} Hit
 * @typedef {{left: number, top: number, width: number, height: number, title: string, pair: Axis[]}} Panel
 * @typedef {(i: number, u: number, v: number) => void} Call
 */

const $ = (id = "") => /** @type {any} */ (document.getElementById(id ? `map-${id}` : "map"));
/** @type {Facts} */ const facts = JSON.parse($("facts").textContent);

/** The bytes of a stored array. */
async function bytes(blob = 0) {
  const letters = atob($(`blob-${blob}`).textContent);
  const packed = new Uint8Array(letters.length);
  for (let i = 0; i < packed.length; i++) packed[i] = letters.charCodeAt(i);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** Whole numbers, from the planes of their bytes. */
async function codes(blob = 0, n = 0) {
  const planes = await bytes(blob);
  const used = planes.length / n;
  const found = used <= 2 ? new Uint16Array(n) : new Float64Array(n);
  for (let k = 0; k < used; k++) for (let i = 0; i < n; i++) found[i] += planes[k * n + i] * 256 ** k;
  return found;
}

/** Numbers, from their differences. */
async function summed(blob = 0, n = 0) {
  let sum = 0;
  return Float64Array.from(await codes(blob, n), (step) => (sum += step % 2 ? -(step + 1) / 2 : step / 2));
}

const texts = async (blob = 0) => new TextDecoder().decode(await bytes(blob)).split("\0");
/** Numbers by their codes: 0 is none, 1 is `low`. @param {AxisFacts} said */
const axisOf = async (said, n = 0) => ({ ...said, codes: await codes(said.blob, n) });
/** The number that a code stands for. @param {AxisFacts} axis */
const number = ({ low, step }, code = 1) => low + (code - 1) * step;

/** A number with no digits below the step in which it is kept. */
function digits(value = 0, step = 0) {
  if (Number.isNaN(value)) return "";
  const unit = 10 ** Math.ceil(Math.log10(step) - 1e-9);
  const kept = Math.abs(value) < 1e15 * unit ? Math.round(value / unit) * unit : value;
  return String(Number(kept.toPrecision(step ? 15 : 6))).replace("e+", "e");
}

/** Numbers or texts, with what is known of each code. @param {ColumnFacts} said */
async function columnOf(said, n = 0) {
  const names = said.texts === undefined ? null : await texts(said.texts);
  /** @type {Record<number, number>} Numbers beyond the scale, by their points. */
  const far = said.far === undefined ? {} : JSON.parse((await texts(said.far))[0]);
  const on = new Uint8Array(said.top + 1).fill(1); // whether the legend shows a code
  // A code's number in the palette; 255 is none.
  const tint = on.map((_, code) => (code && !names ? Math.round((254 * (code - 1)) / (said.top - 1 || 1)) : 255));
  for (const { from, to, colour } of said.kinds) tint.fill(colour, from, to);
  return { ...said, codes: await codes(said.blob, n), texts: names, far, on, tint, whole: "" };
}

const numberAt = (column = colour, i = 0) =>
  column.codes[i] ? (column.far[i] ?? number(column, column.codes[i])) : NaN;
const textAt = (column = colour, i = 0) => column.texts?.[column.codes[i]] ?? digits(numberAt(column, i), column.step);

/** Points with their axes, names and columns, before these are loaded. @param {PointsFacts} said */
const pointsOf = (said) => ({
  said, n: said.n, drawn: true, columns: /** @type {Column[]} */ ([]),
  axes: /** @type {Axis[]} */ ([]), pair: /** @type {Axis[]} those two that are shown */ ([]),
  rows: /** @type {Float64Array | null} */ (null), ids: /** @type {string[] | Float64Array | null} */ (null),
});

/** Loads what isn't yet. */
async function load(set = points) {
  const { said, n } = set;
  for (const axis of said.axes.slice(set.axes.length)) set.axes.push(await axisOf(axis, n));
  for (const column of said.columns.slice(set.columns.length)) set.columns.push(await columnOf(column, n));
  if (said.rows !== undefined) set.rows = await summed(said.rows, n);
  if (said.ids !== undefined) set.ids = await texts(said.ids);
  if (said.whole !== undefined) set.ids = await summed(said.whole, n);
}

const points = pointsOf(facts.points);
const { n } = points;
const rowOf = (i = 0, set = points) => String(set.rows ? set.rows[i] : i);
const idOf = (i = 0, set = points) => (set.ids ? String(set.ids[i]) : `row ${rowOf(i, set)}`);
const titleOf = (i = 0, set = points) => `${set.said.name && `${set.said.name}: `}${idOf(i, set)}`;
const layers = facts.layers.map(pointsOf);
const sets = [...layers, points]; // in the order in which the pointer finds them
const [without, rings] = [/** @type {Axis[]} */ ([]), /** @type {Column[]} */ ([])];
let [plain, colour] = /** @type {Column[]} */ ([]);
// Which points pass the filters, and which are selected.
let [shown, chosen] = /** @type {(Uint8Array | null)[]} */ ([null, null]);
let [hovered, picked] = /** @type {(Hit | null)[]} */ ([null, null]);
let [path, panels] = [/** @type {Pair[]} */ ([]), /** @type {Panel[]} */ ([])];
let [across, up, mode, ratio] = [0, 1, "move", 1];
let home = { x: 0, y: 0, scale: 1 }, view = home; // the middle in the data's unit, and pixels to a unit
const [stage, below, over] = [$("stage"), $("points"), $("over")];
/** @type {CanvasRenderingContext2D[]} */ const [paint, pen] = [below.getContext("2d"), over.getContext("2d")];
let [ink, faint, paper] = ["", "", ""];

const ticked = (id = "") => /** @type {boolean} */ ($(id)?.checked);

/** Calls with each shown point, or some, and its pixels. @param {Panel} panel @param {Points} set @param {Call} call */
function each({ left, top, width, height, pair: own }, set, call, from = 0, to = set.n) {
  if (!set.drawn || (set !== points && own !== points.pair)) return; // the second panel has no layers
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
const middle = ({ left, top, width, height } = panels[0]) => /** @type {Pair} */ ([left + width / 2, top + height / 2]);

/** The size of the canvases, where the panels are, and the view of all that is drawn. */
function lay() {
  [across, up] = [Number($("x").value), Number($("y").value)];
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
  const titles = two ? [", with the constant", ", without the constant"] : [""];
  panels = pairs.map((pair, k) => ({ left: 50 + k * (width + 56), top: 26, width, height, title: titles[k], pair }));
  const fits = 0.92 * Math.min(width / wide, height / high);
  const scale = Number.isFinite(fits) ? fits : width / (Math.abs(x) * 1e-3 || 1); // else all points are equal
  home = { x: x + wide / 2, y: y + high / 2, scale };
}

/** After a change of what is drawn or of the window: the same middle and as much of the map, or all of it as before. */
function again() {
  const before = home;
  lay();
  draw(view === before ? home : { ...view, scale: (view.scale * home.scale) / before.scale });
}

/** Zooms so that what is at a pixel stays there. @param {Pair} at */
function zoom(factor = 1, at = middle()) {
  const [x, y] = place(panelAt(at[0]), ...at);
  const scale = Math.min(Math.max(view.scale * factor, home.scale * 0.4), home.scale * 20000);
  draw({ scale, x: x + ((view.x - x) * view.scale) / scale, y: y + ((view.y - y) * view.scale) / scale });
}

/** Moves by pixels. */
const pan = (left = 0, top = 0) => draw({ ...view, x: view.x - left / view.scale, y: view.y + top / view.scale });

/** Draws the map. @param {typeof view} [wanted] Another view. */
function draw(wanted = view) {
  view = wanted;
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

/** Draws points; a pixel is fainter where there are fewer. @param {Panel} panel @param {Uint32Array} colours */
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
  const [{ tint, codes: column }, selects, half, dots] = [colour, chosen, (side - 1) / 2, steps.length];
  // A pixel has the colour of one of its points: of the same at every draw, and as likely of the first as of the last.
  each(panel, points, (i, x, y) => {
    const [u, v] = [Math.round(x * ratio - left - half), Math.round(y * ratio - top - half)];
    if (!(u >= 0 && v >= 0 && u <= wide - side && v <= high - side)) return;
    const behind = selects !== null && selects[i] === 0; // those that are not selected, in grey
    const [rank, shade] = behind ? [1, 255] : [(Math.imul(i + 1, 0x9e3779b1) >>> 16) | 2, tint[column[i]]];
    for (let j = 0; j < dots; j++) {
      const q = v * wide + u + steps[j];
      inked[q] += parts[j];
      if (rank >= ranks[q]) [ranks[q], last[q]] = [rank, shade];
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
    const box = frame(panel);
    pen.save();
    pen.clip(new Path2D(box));
    facts.edges.forEach(({ pairs }, k) => {
      const ends = ticked(`edges-${k}`) ? pairs.map((pair) => pair.map((i) => spot(panel, { set: points, i }))) : [];
      const lines = ends.filter(([from, to]) => from && to).map((line) => `M${line.join("L")}`);
      trace(lines.join(""), k % 2 ? "#e08214" : "#d6304a", pairs.length > 500 ? 0.8 : 1.6);
    });
    layers.forEach((layer, k) => {
      const r = Math.min(5, Math.max(1, 60 / Math.sqrt(layer.n))); // many signs leave the map to be seen
      const [sign, signs] = [new Path2D(k % 2 ? "M-1-1 1 1M-1 1 1-1" : "M0-1 1 0 0 1-1 0Z"), new Path2D()];
      each(panel, layer, (_, u, v) => signs.addPath(sign, { a: r, d: r, e: u, f: v }));
      trace(signs, ink, Math.min(1.4, r / 2));
    });
    if (ticked("arrows") && panel === panels[0]) drawArrows(panel);
    for (const hit of [picked, hovered]) {
      const at = hit && spot(panel, hit);
      if (at) trace(`M${at[0] - 7} ${at[1]}a7 7 0 1 0 14 0a7 7 0 1 0-14 0`);
    }
    pen.restore();
  }
  if (mode !== "move" && path.length) trace(`M${path.join("L")}Z`, "#3b82f6", 1.5);
}

/** A panel's box, with round values and names. @param {Panel} panel */
function frame(panel) {
  const { left, top, width, height, pair, title } = panel;
  const [low, high] = [place(panel, left, top + height), place(panel, left + width, top)];
  const box = `M${left} ${top}h${width}v${height}h${-width}Z`;
  let marks = "";
  for (const k of pair[1].name ? [0, 1] : [0]) {
    const wanted = (high[k] - low[k]) / Math.max(2, k ? height / 60 : width / 90);
    const power = 10 ** Math.floor(Math.log10(wanted));
    const step = ([1, 2, 5].find((factor) => factor * power >= wanted) ?? 10) * power;
    for (let j = Math.ceil(low[k] / step), most = j + 40; j * step <= high[k] && j < most; j++) {
      const part = (j * step - low[k]) / (high[k] - low[k]);
      const [u, v] = k ? [left, top + height * (1 - part)] : [left + width * part, top + height];
      marks += `M${u} ${v}${k ? "h-4" : "v4"}`;
      const text = digits(j * step, power).replace("-", "−");
      write(text, u - 7 * k, v + 13 * (1 - k), k ? "right" : "center", faint, 43);
    }
  }
  trace(box + marks, faint, 0.6);
  write(pair[0].name + title, left + width, top + height + 32, "right", ink, width);
  write(pair[1].name && `↑ ${pair[1].name}`, left - 40, top - 13, "left", ink, width / 2);
  return box;
}

/** The features that go most with the two axes. @param {Panel} panel */
function drawArrows({ left, top, width, height }) {
  const [xs, ys] = [facts.arrows.values[across], facts.arrows.values[up]];
  const all = facts.arrows.features.map((name, i) => ({ name, x: xs[i], y: ys[i] }));
  const strongest = all.sort((a, b) => Math.hypot(b.x, b.y) - Math.hypot(a.x, a.y)).slice(0, 8);
  const reach = (0.36 * Math.min(width, height)) / (Math.hypot(strongest[0].x, strongest[0].y) || 1);
  for (const { name, x, y } of strongest) {
    const [u, v, turn] = [left + width / 2 + x * reach, top + height / 2 - y * reach, Math.atan2(-y, x)];
    const [one, other] = [-0.4, 0.4].map((side) => [u - 9 * Math.cos(turn + side), v - 9 * Math.sin(turn + side)]);
    trace(`M${left + width / 2} ${top + height / 2}L${u} ${v}M${one}L${u} ${v} ${other}`, ink, 1.5);
    const text = [x, y].map((part) => digits(part, 0.01).replace("-", "−")).join(", ");
    const room = Math.max(30, (x < 0 ? u - left : left + width - u) - 9);
    write(`${name.slice(0, 24)} (${text})`, u + (x < 0 ? -6 : 6), v, x < 0 ? "right" : "left", ink, room);
  }
}

let selection = /** @type {number[]} */ ([]);
const everyone = Uint32Array.from({ length: n }, (_, i) => i);

/** An element. @param {string} tag @param {object} properties @param {(string | Node)[]} inside @returns {any} */
function make(tag, properties, ...inside) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...inside);
  return made;
}

const say = (text = "") => ($("said").textContent = text);
const count = (value = 0) => value.toLocaleString("en-GB");

/** The shown point nearest to a pixel, of a layer or of the map. */
function nearest([x, y] = middle(), within = Infinity) {
  let [least, hit] = [within * within, /** @type {Hit | null} */ (null)];
  for (const set of sets) {
    each(panelAt(x), set, (i, u, v) => {
      const far = (u - x) ** 2 + (v - y) ** 2;
      if (far <= least) [least, hit] = [far, { set, i }];
    });
  }
  return hit;
}

/** Shown points within a polygon of the screen, by even and odd crossings. @param {Pair[]} polygon */
function within(polygon) {
  /** @type {Pair[][][]} The sides that cross each row of pixels. */ const rows = [];
  polygon.forEach(([u, v], k) => {
    const [s, t] = polygon[(k || polygon.length) - 1];
    for (let row = Math.floor(Math.min(v, t)); row <= Math.max(v, t); row++) (rows[row] ??= []).push([[u, v], [s, t]]);
  });
  /** @type {number[]} */ const found = [];
  each(panelAt(polygon[0][0]), points, (i, x, y) => {
    let inside = false;
    for (const [[u, v], [s, t]] of rows[Math.floor(y)] ?? []) {
      if (v > y !== t > y && x < ((s - u) * (y - v)) / (t - v) + u) inside = !inside;
    }
    if (inside) found.push(i);
  });
  return found;
}

/** Fills an element by a table. @param {string[]} headings @param {string[][]} rows */
function table(id = "", headings, rows) {
  const cell = (tag = "", text = "", colSpan = 1) => make(tag, { colSpan }, text);
  const line = (tag = "", row = [""]) => make("tr", {}, ...row.map((text) => cell(tag, text, row.length > 1 ? 1 : 2)));
  $(id).replaceChildren(make("thead", {}, line("th", headings)), ...rows.map((row) => line("td", row)));
}

/** Headings, then the columns and axes of points. @param {Iterable<number>} among @param {Points} set */
function* fields(among, set = points) {
  const axes = set.axes.filter(({ name }) => name);
  yield [...(set.ids ? ["id"] : []), "row", ...[...set.columns, ...axes].map(({ name }) => name)];
  for (const i of among) {
    const numbers = axes.map((axis) => digits(number(axis, axis.codes[i]), axis.step));
    const values = set.columns.map((column) => textAt(column, i));
    yield [...(set.ids ? [idOf(i, set)] : []), rowOf(i, set), ...values, ...numbers];
  }
}

/** A point's name and values. @param {Hit | null} hit */
function card(id = "", hit, most = Infinity) {
  $(id).hidden = !hit;
  if (!hit) return;
  const [names, values] = fields([hit.i], hit.set);
  const rows = names.map((name, k) => [name, values[k] || "–"]).slice(1);
  if (colour.group === "rings" && hit.set === points) rows.unshift([colour.name, textAt(colour, hit.i)]);
  if (rows.length > most) rows.splice(most, Infinity, [`and ${rows.length - most} more`, "click"]);
  table(id, [titleOf(hit.i, hit.set)], rows);
}

function hover(hit = hovered) {
  if (hit?.i === hovered?.i && hit?.set === hovered?.set) return;
  hovered = hit;
  overlay();
  card("tip", hit, 10);
  const [u, v] = (hit && panels.map((panel) => spot(panel, hit)).find((at) => at)) ?? middle();
  const { clientWidth: wide, clientHeight: high } = stage;
  const beside = u > wide / 2 ? `right: ${wide - u + 12}px` : `left: ${u + 12}px`;
  $("tip").style = `${beside}; ${v > high / 2 ? `bottom: ${high - v - 10}px` : `top: ${v - 10}px`}`;
}

function pick(hit = picked) {
  picked = hit;
  if (hit) say(`Picked ${titleOf(hit.i, hit.set)}`);
  recolour();
}

/** Mean, or the commonest text and its share. @param {Column} column @param {number[] | Uint32Array} among */
function typical(column, among) {
  const counts = new Uint32Array(column.top + 1);
  for (const i of among) counts[column.codes[i]]++;
  let sum = counts.reduce((all, some, code) => (code ? all + some * number(column, code) : all), 0);
  const beyond = Object.keys(column.far).length ? among : [];
  for (const i of beyond) if (i in column.far) sum += column.far[i] - number(column, column.codes[i]);
  const known = among.length - counts[0];
  const most = counts.reduce((best, some, code) => (code && some > best[0] ? [some, code] : best), [0, 0]);
  if (column.texts && known) return `${column.texts[most[1]]} (${Math.round((100 * most[0]) / known)} %)`;
  return known ? `mean ${digits(sum / known, column.step)}` : "–";
}

function select(found = selection) {
  [selection, chosen] = [found, found.length ? new Uint8Array(n) : null];
  for (const i of found) if (chosen) chosen[i] = 1;
  say(chosen ? `${count(found.length)} of ${count(n)} points selected` : "No point is selected");
  $("selection").hidden = !chosen;
  draw();
  if (!chosen) return;
  const [headings, ...rows] = fields(found.slice(0, 200));
  table("rows", headings, rows);
  const typicals = points.columns.map((one) => [one.name, typical(one, found), (one.whole ||= typical(one, everyone))]);
  table("summary", ["column", "selected", "all"], [["points", count(found.length), count(n)], ...typicals]);
}

function save() {
  const quoted = (text = "") => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  const rows = Array.from(fields(selection), (row) => `${row.map(quoted).join(",")}\r\n`);
  const href = URL.createObjectURL(new Blob(rows, { type: "text/csv" }));
  make("a", { href, download: "selection.csv" }).click();
  setTimeout(() => URL.revokeObjectURL(href), 10000);
}

/** Distances from the point that has them and is nearest along the data to the one picked. */
function nearestRing() {
  const i = picked?.set === points ? picked.i : -1;
  const far = rings.map((ring) => (i < 0 ? NaN : numberAt(ring, i)));
  const k = Math.max(0, far.indexOf(Math.min(...far.filter((one) => one >= 0))));
  let about = `Distances along the data from ${idOf(rings[k].at)}`;
  if (i !== rings[k].at) about += `, the nearest to ${idOf(i)} of the ${rings.length} points that have them`;
  return { ...rings[k], about: i < 0 ? "Click a point." : `${about}.` };
}

/** Colours the map as the menu says, and fills the legend. */
function recolour() {
  const wanted = $("colour").value;
  colour = wanted === "rings" ? nearestRing() : (points.columns[wanted] ?? plain);
  card("picked", picked);
  $("about").textContent = colour.about;
  for (const one of $("legend").children) one.hidden = one.id !== (colour.texts ? `map-kinds-${wanted}` : "map-scale");
  legend();
}

/** Says in the legend what it shows, and leaves out the points that it doesn't. */
function legend() {
  const { name, on, top, step } = colour;
  for (const one of $("legend").querySelectorAll("button")) one.ariaPressed = String(on[one.value] === 1);
  [on.indexOf(1, 1), on.lastIndexOf(1)].forEach((value, k) => {
    Object.assign($(["from", "to"][k]), { max: top, value, ariaLabel: `${name}: ${["from", "to"][k]}` });
    $(["least", "most"][k]).textContent = digits(number(colour, value), Math.max(step, ((top - 1) * step) / 1000));
  });
  const active = [...points.columns, ...rings].filter((column) => column.on.includes(0));
  const mask = (shown = active.length ? new Uint8Array(n).fill(1) : null);
  for (const column of active) for (let i = 0; mask && i < n; i++) mask[i] &= column.on[column.codes[i]];
  $("shown").hidden = !mask;
  const left = count(mask?.reduce((sum, one) => sum + one, 0));
  $("left").textContent = `${left} of ${count(n)} shown, by ${active.map((column) => column.name).join(", ")}`;
  hover(null);
  draw();
}

/** Shows some codes of the colour's column. @param {(code: number) => boolean} passes */
function show(passes) {
  colour.on.set(colour.on.map((_, code) => Number(passes(code))));
  legend();
}

/** Lists points whose id or row has what is sought: first those that are it. */
function find() {
  const wanted = $("find").value.trim().toLowerCase();
  const id = (i = 0) => String(points.ids ? points.ids[i] : rowOf(i)).toLowerCase();
  const hits = wanted ? [...everyone.filter((i) => id(i).includes(wanted))] : [];
  hits.sort((i, j) => Number(id(j) === wanted) - Number(id(i) === wanted));
  const button = (i = 0) => make("button", { type: "button", onclick: () => goTo(i) }, idOf(i));
  $("hits").replaceChildren(...hits.slice(0, 12).map(button));
  say(wanted && `${count(hits.length)} found${hits.length > 12 ? ", 12 listed" : ""}`);
}

/** Picks a point, and moves to it if it is out of view. */
function goTo(i = 0) {
  pick({ set: points, i });
  const { left, top, width, height, pair: [x, y] } = panels[0];
  const [u, v] = spot(panels[0], { set: points, i }) ?? middle();
  if (u > left && u < left + width && v > top && v < top + height) return;
  draw({ ...view, x: number(x, x.codes[i]), y: number(y, y.codes[i]) });
}

/** What each control does. @type {[string, string, (event: any) => void][]} */
const controls = [
  ["in", "onclick", () => zoom(1.5)], ["out", "onclick", () => zoom(1 / 1.5)], ["home", "onclick", () => draw(home)],
  ["csv", "onclick", save], ["clear", "onclick", () => select([])], ["find", "oninput", find],
  ["colour", "onchange", recolour], ["extras", "onchange", again],
  ["view", "onclick", () => {
    const [{ left, top, width, height }] = panels;
    select(within([[left, top], [left + width, top], [left + width, top + height], [left, top + height]]));
  }],
  ["all", "onclick", () => { for (const { on } of [...points.columns, ...rings]) on.fill(1); legend(); }],
  ["axes", "onchange", () => { lay(); draw(home); }],
  ["legend", "onclick", ({ target, shiftKey, detail }) => {
    const { value, dataset: { to } } = target.closest("button") ?? target;
    const [from, alone, was] = [Number(value), shiftKey || detail > 1, colour.on[value]];
    if (to) show((code) => (code >= from && code < to ? alone || !was : !alone && colour.on[code] === 1));
  }],
  ["scale", "oninput", () => {
    const [from, to] = [Number($("from").value), Number($("to").value)];
    show((code) => (from === 1 && to === colour.top) || (code >= from && code <= to));
  }],
  ["search", "onsubmit", (event) => { event.preventDefault(); $("hits").firstChild?.click(); }],
  ["over", "onkeydown", (event) => {
    /** @type {Record<string, () => void>} */ const keys = {
      ArrowLeft: () => pan(60), ArrowRight: () => pan(-60), ArrowUp: () => pan(0, 60), ArrowDown: () => pan(0, -60),
      "+": () => zoom(1.5), "=": () => zoom(1.5), "-": () => zoom(1 / 1.5), 0: () => draw(home),
      Enter: () => pick(nearest()),
    };
    if (event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  }],
  ["", "onkeydown", (event) => { if (event.key === "Escape") select([]); }],
  ["over", "onpointerdown", (event) => {
    if (event.button !== 0 || !event.isPrimary) return;
    over.setPointerCapture(event.pointerId);
    [path, mode] = [[[event.offsetX, event.offsetY]], event.shiftKey ? "lasso" : $("modes").mode.value];
    hover(null);
  }],
  ["over", "onpointermove", (event) => {
    const [start, last] = [path[0], path[path.length - 1]];
    /** @type {Pair} */ const at = [event.offsetX, event.offsetY];
    if (!start) return hover(nearest(at, event.pointerType === "touch" ? 20 : 10));
    if (mode === "move") pan(at[0] - last[0], at[1] - last[1]);
    path = mode === "box" ? [start, [at[0], start[1]], at, [start[0], at[1]]] : [...path, at];
    overlay();
  }],
  ["over", "onpointerup", () => {
    const [drawn, [start]] = [path, path];
    path = [];
    overlay();
    if (!start) return;
    if (drawn.every(([u, v]) => Math.hypot(u - start[0], v - start[1]) <= 4)) pick(nearest(start, 14));
    else if (mode !== "move") select(within(drawn));
  }],
  ["over", "onpointercancel", () => (path = [])], ["over", "onpointerleave", () => hover(null)],
  ["over", "onwheel", (event) => {
    event.preventDefault();
    const lines = event.deltaY * (event.deltaMode ? 1 : 0.05);
    zoom(1.04 ** Math.max(-25, Math.min(25, -lines)), [event.offsetX, event.offsetY]);
  }],
];

void (async () => {
  if (!("DecompressionStream" in window)) return; // of 2023; the pictures stay
  for (const axis of facts.points.axes.slice(0, 2)) points.axes.push(await axisOf(axis, n));
  for (const column of facts.points.columns.slice(0, 1)) points.columns.push(await columnOf(column, n));
  plain = await columnOf(facts.plain, n);
  colour = points.columns[0] ?? plain;
  $("").hidden = false;
  again();
  performance.mark("map drawn");
  if ($("pictures")) $("pictures").open = false;
  new ResizeObserver(again).observe(stage);
  for (const set of [points, ...layers]) await load(set);
  for (const axis of facts.other) without.push(await axisOf(axis, n));
  for (const ring of facts.rings) rings.push(await columnOf(ring, n));
  for (const [id, event, handler] of controls) $(id)[event] = handler;
  again();
  recolour();
  matchMedia("(prefers-color-scheme: dark)").onchange = overlay;
  say(`${count(n)} points`);
  $("").dataset.ready = "yes";
})();
