"use strict";
// The explorable map of a report, first of three parts of one script: what the page holds, as `live.py` packed it.

/**
 * @typedef {[number, number]} Pair
 * @typedef {Uint8Array | Uint16Array | Uint32Array | Float64Array} Codes
 * @typedef {{name: string, codes: number, low: number, step: number, high: number}} AxisFacts
 * @typedef {{name: string, about: string, group: string, codes: number, texts?: number, table?: number, shown?: number,
 *   limits?: Pair, low?: number, step?: number, far?: number, beyond?: number}} ColumnFacts
 * @typedef {{n: number, axes: AxisFacts[], columns: ColumnFacts[], rows?: number, ids?: number, whole?: number}} PointsFacts
 * @typedef {{name: string, about: string, pairs: Pair[]}} Edges
 * @typedef {{name: string, features: string[], values: number[][]}} Arrows
 * @typedef {{points: PointsFacts, other: AxisFacts[] | null, layers: (PointsFacts & {name: string})[], edges: Edges[],
 *   rings: {kept: (AxisFacts & {at: number})[]} | null, arrows: Arrows | null, notes: string[],
 *   colours: {scale: string[], categories: string[], none: string}}} Facts
 * @typedef {{name: string, at: Float32Array, low: number, step: number, high: number}} Axis
 * @typedef {{left: number, top: number, width: number, height: number, title: string, x: Axis, y: Axis, main: boolean}} Panel
 */

const map = /** @type {HTMLElement} */ (document.getElementById("map"));
/** @param {string} id @returns {any} */
const $ = (id) => document.getElementById(`map-${id}`);
/** @type {Facts} */ const facts = JSON.parse($("facts").textContent);

/** The bytes of a stored array. @param {number} blob */
async function bytes(blob) {
  const letters = atob($(`blob-${blob}`).textContent);
  const packed = new Uint8Array(letters.length);
  for (let i = 0; i < packed.length; i++) packed[i] = letters.charCodeAt(i);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** Whole numbers, from the planes of their bytes. @param {number} blob @param {number} n @returns {Promise<Codes>} */
async function codes(blob, n) {
  const planes = await bytes(blob);
  const used = planes.length / n;
  if (used === 1) return planes;
  const found = used === 2 ? new Uint16Array(n) : used <= 4 ? new Uint32Array(n) : new Float64Array(n);
  for (let k = 0; k < used; k++) for (let i = 0; i < n; i++) found[i] += planes[k * n + i] * 256 ** k;
  return found;
}

/** Numbers, from their differences. @param {number} blob @param {number} n */
async function summed(blob, n) {
  let sum = 0;
  return Float64Array.from(await codes(blob, n), (step) => (sum += step % 2 ? -(step + 1) / 2 : step / 2));
}

/** @param {number} blob */
const texts = async (blob) => new TextDecoder().decode(await bytes(blob)).split("\0");
/** @param {number} blob */
const floats = async (blob) => new Float64Array((await bytes(blob)).buffer);
/** @param {AxisFacts} said @param {number} n @returns {Promise<Axis>} */
const axisOf = async (said, n) => ({ ...said, at: Float32Array.from(await codes(said.codes, n)) });
/** Shares out points as if at random, the same each time: 0 to 65,535. @param {number} i */
const shuffled = (i) => Math.imul(i + 1, 0x9e3779b1) >>> 16;

/** A number with no digits below the step in which it is kept. @param {number} value @param {number} step @param {number} [most] */
function digits(value, step, most = 6) {
  if (!Number.isFinite(value)) return "";
  const kept = step > 0 ? Math.floor(Math.log10(Math.abs(value))) - Math.ceil(Math.log10(step) - 1e-9) + 1 : most;
  if (value === 0 || kept < 1) return "0";
  const text = most > 15 && step === 0 ? String(value) : String(Number(value.toPrecision(Math.min(kept, most))));
  return Math.abs(value) >= 1e9 || Math.abs(value) < 1e-5 ? Number(text).toExponential().replace("e+", "e") : text;
}

/** A column of texts or numbers, by their codes; 0 is none. */
class Column {
  /** @param {ColumnFacts} said @param {number} n */
  constructor(said, n) {
    this.said = said;
    this.n = n;
    this.name = said.name;
    this.about = said.about;
    this.step = said.step ?? 0;
    this.limits = said.limits ?? /** @type {Pair} */ ([0, 1]);
    /** @type {Codes} */ this.codes = new Uint8Array(0);
    /** @type {string[] | null} */ this.texts = null;
    /** @type {Float64Array | null} */ this.table = null;
    /** @type {Map<number, number>} Numbers beyond the scale by their points. */ this.far = new Map();
    /** @type {Uint8Array | null} */ this.tints = null;
    this.top = 0; // the largest code
    this.whole = ""; // what is typical of all
    this.shown = said.shown ?? -1; // categories with a colour, -1 of a scale
    /** @type {boolean[]} Whether each category, the others and no value are shown. */ this.on = new Array(this.shown + 2).fill(true);
    /** @type {Pair} */ this.range = [-Infinity, Infinity];
  }

  async load() {
    const { said } = this;
    this.codes = await codes(said.codes, this.n);
    for (const code of this.codes) if (code > this.top) this.top = code;
    if (said.texts !== undefined) this.texts = await texts(said.texts);
    if (said.table !== undefined) this.table = await floats(said.table);
    if (said.far === undefined || said.beyond === undefined) return this;
    const beyond = await floats(said.beyond);
    (await summed(said.far, beyond.length)).forEach((i, k) => this.far.set(i, beyond[k]));
    return this;
  }

  /** @param {number} i */
  number(i) {
    const code = this.codes[i];
    if (code === 0) return NaN;
    if (this.table) return this.table[code - 1];
    const far = this.far.size && (code === 1 || code === this.top) ? this.far.get(i) : undefined;
    return far ?? (this.said.low ?? 0) + (code - 1) * this.step;
  }

  /** @param {number} i @param {number} [most] */
  text(i, most) {
    if (!this.texts) return digits(this.number(i), this.step, most);
    return this.codes[i] ? this.texts[this.codes[i] - 1] : "";
  }

  /** A point's category: `shown` for the others, one more for no value. @param {number} i */
  kind(i) {
    return this.codes[i] === 0 ? this.shown + 1 : Math.min(this.codes[i] - 1, this.shown);
  }

  /** Colours of the points as numbers of the palette; 255 is none. */
  tint() {
    if (this.tints) return this.tints;
    const tints = (this.tints = new Uint8Array(this.n));
    const [low, high] = this.limits;
    for (let i = 0; i < this.n; i++) {
      if (this.shown >= 0) tints[i] = this.kind(i) < this.shown ? this.kind(i) : 255;
      else tints[i] = this.codes[i] ? Math.round(254 * Math.min(1, Math.max(0, (this.number(i) - low) / (high - low)))) : 255;
    }
    return tints;
  }

  /** Whether it hides any point. */
  get filters() {
    return this.on.includes(false) || this.range[0] > -Infinity || this.range[1] < Infinity;
  }

  /** @param {number} i */
  passes(i) {
    return this.shown >= 0 ? this.on[this.kind(i)] : this.number(i) >= this.range[0] && this.number(i) <= this.range[1];
  }
}

/** Points with their axes, names and columns: the map's own, or a layer's. */
class Points {
  /** @param {PointsFacts} said @param {string} name */
  constructor(said, name) {
    this.said = said;
    this.name = name;
    this.n = said.n;
    this.drawn = false;
    /** @type {Axis[]} */ this.axes = [];
    this.columns = said.columns.map((column) => new Column(column, said.n));
    /** @type {Float64Array | null} */ this.rows = null;
    /** @type {string[] | Float64Array | null} */ this.ids = null;
  }

  async load() {
    const { said, n } = this;
    for (const axis of said.axes.slice(this.axes.length)) this.axes.push(await axisOf(axis, n));
    for (const column of this.columns) if (!column.codes.length) await column.load();
    if (said.rows !== undefined) this.rows = await summed(said.rows, n);
    if (said.ids !== undefined) this.ids = await texts(said.ids);
    if (said.whole !== undefined) this.ids = await summed(said.whole, n);
  }

  /** @param {number} i */
  row(i) {
    return this.rows ? this.rows[i] : i;
  }

  /** @param {number} i */
  id(i) {
    return this.ids ? String(this.ids[i]) : `row ${this.row(i)}`;
  }

  /** @param {number} i */
  title(i) {
    return this.name ? `${this.name}: ${this.id(i)}` : this.id(i);
  }
}

/** @param {Axis} axis @param {number} i */
const where = (axis, i) => axis.low + (axis.at[i] - 1) * axis.step;
