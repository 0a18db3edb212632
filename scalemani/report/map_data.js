"use strict";
// The explorable map of a report, first of three parts of one script: what the page holds, as `live.py` packed it.

/**
 * @typedef {[number, number]} Pair
 * @typedef {{name: string, blob: number, low: number, step: number, top: number}} AxisFacts
 * @typedef {{name: string, from: number, to: number, n: number, colour: number}} Kind
 * @typedef {AxisFacts & {about: string, group: string, texts?: number, kinds: Kind[], far?: number, at?: number}} ColumnFacts
 * @typedef {{n: number, name: string, axes: AxisFacts[], columns: ColumnFacts[], rows?: number, ids?: number,
 *   whole?: number}} PointsFacts
 * @typedef {{points: PointsFacts, layers: PointsFacts[], other: AxisFacts[], edges: {pairs: Pair[]}[],
 *   rings: ColumnFacts[], plain: ColumnFacts, arrows: {features: string[], values: number[][]},
 *   colours: {scale: string[], categories: string[], none: string}}} Facts
 * @typedef {Awaited<ReturnType<typeof axisOf>>} Axis
 * @typedef {Awaited<ReturnType<typeof columnOf>>} Column
 */

/** @param {string} id @returns {any} */
const $ = (id) => document.getElementById(id ? `map-${id}` : "map");
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
  const found = used <= 2 ? new Uint16Array(n) : used <= 4 ? new Uint32Array(n) : new Float64Array(n);
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
/** Shares out points as if at random, the same each time: 0 to 65,535. */
const shuffled = (i = 0) => Math.imul(i + 1, 0x9e3779b1) >>> 16;

/** A number with no digits below the step in which it is kept. */
function digits(value = 0, step = 0) {
  if (Number.isNaN(value)) return "";
  const unit = 10 ** Math.ceil(Math.log10(step) - 1e-9);
  const kept = Math.abs(value) < 1e15 * unit ? Math.round(value / unit) * unit : value;
  const short = Number(kept.toPrecision(step ? 15 : 6));
  const long = short !== 0 && (Math.abs(short) >= 1e9 || Math.abs(short) < 1e-5);
  return long ? short.toExponential().replace("e+", "e") : String(short);
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
  return { ...said, codes: await codes(said.blob, n), texts: names, far, on, tint };
}

/** @param {Column} column */
function numberAt(column, i = 0) {
  const code = column.codes[i];
  return code ? ((code === 1 || code === column.top ? column.far[i] : undefined) ?? number(column, code)) : NaN;
}

/** @param {Column} column */
const textAt = (column, i = 0) => column.texts?.[column.codes[i]] ?? digits(numberAt(column, i), column.step);

/** Points with their axes, names and columns: the map's own, or a layer's. */
class Points {
  /** @type {Axis[]} */ axes = [];
  /** @type {Axis[]} Those two that are shown. */ pair = [];
  /** @type {Column[]} */ columns = [];
  /** @type {Float64Array | null} */ rows = null;
  /** @type {string[] | Float64Array | null} */ ids = null;
  drawn = true;

  /** @param {PointsFacts} said */
  constructor(said) {
    this.said = said;
    this.n = said.n;
  }

  /** What isn't loaded yet. */
  async load() {
    const { said, n } = this;
    for (const axis of said.axes.slice(this.axes.length)) this.axes.push(await axisOf(axis, n));
    for (const column of said.columns.slice(this.columns.length)) this.columns.push(await columnOf(column, n));
    if (said.rows !== undefined) this.rows = await summed(said.rows, n);
    if (said.ids !== undefined) this.ids = await texts(said.ids);
    if (said.whole !== undefined) this.ids = await summed(said.whole, n);
  }

  row = (i = 0) => (this.rows ? this.rows[i] : i);
  id = (i = 0) => (this.ids ? String(this.ids[i]) : `row ${this.row(i)}`);
  title = (i = 0) => (this.said.name ? `${this.said.name}: ${this.id(i)}` : this.id(i));
}
