"use strict";
// The explorable map of a report. The page holds what `live.py` packed; this draws it on a canvas, point by point into
// pixels, and answers the mouse, fingers and keys. Nothing is fetched, and no text is ever taken for HTML.

/**
 * @typedef {Uint8Array | Uint16Array | Uint32Array | Float64Array} Codes
 * @typedef {{name: string, codes: number, low: number, step: number, high: number}} AxisFacts
 * @typedef {{name: string, about: string, group: string, codes: number, texts?: number, table?: number, shown?: number,
 *   limits?: [number, number], low?: number, step?: number, far?: number, beyond?: number}} ColumnFacts
 * @typedef {{n: number, axes: AxisFacts[], columns: ColumnFacts[], rows?: number, ids?: number, whole?: number}} PointsFacts
 * @typedef {PointsFacts & {name: string, total: number}} LayerFacts
 * @typedef {{name: string, about: string, pairs: [number, number][]}} EdgesFacts
 * @typedef {{name: string, features: string[], values: number[][]}} ArrowsFacts
 * @typedef {{points: PointsFacts, total: number, other: AxisFacts[] | null, layers: LayerFacts[], edges: EdgesFacts[],
 *   rings: {kept: (AxisFacts & {at: number})[]} | null, arrows: ArrowsFacts | null, notes: string[],
 *   colours: {scale: string[], categories: string[], none: string}}} Facts
 * @typedef {{name: string, at: Float32Array, low: number, step: number, high: number}} Axis
 * @typedef {{left: number, top: number, width: number, height: number, title: string, x: Axis, y: Axis, main: boolean}} Panel
 */

(async () => {
  // ---- what the page holds ----

  /** @param {string} id */
  const $ = (id) => /** @type {HTMLElement} */ (document.getElementById(`map-${id}`));
  /** @param {string} id */
  const input = (id) => /** @type {HTMLInputElement} */ ($(id));
  /** @param {string} id */
  const menu = (id) => /** @type {HTMLSelectElement} */ ($(id));
  /** @type {Facts} */
  const facts = JSON.parse($("facts").textContent || "");

  /** The bytes of a stored array. @param {number} blob */
  async function bytes(blob) {
    const element = $(`blob-${blob}`);
    const letters = atob(element.textContent || "");
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
    for (let plane = 0, factor = 1; plane < used; plane++, factor *= 256) {
      for (let i = 0, at = plane * n; i < n; i++) found[i] += planes[at + i] * factor;
    }
    return found;
  }

  /** Numbers, from their differences. @param {number} blob @param {number} n */
  async function summed(blob, n) {
    const steps = await codes(blob, n);
    const found = new Float64Array(n);
    for (let i = 0, sum = 0; i < n; i++) {
      sum += steps[i] % 2 ? -(steps[i] + 1) / 2 : steps[i] / 2;
      found[i] = sum;
    }
    return found;
  }

  /** @param {number} blob */
  const texts = async (blob) => new TextDecoder().decode(await bytes(blob)).split("\0");
  /** @param {number} blob */
  const floats = async (blob) => new Float64Array((await bytes(blob)).buffer);

  /** A number with the digits that it has: those above the step in which it is kept. @param {number} value @param {number} step @param {number} [most] */
  function digits(value, step, most = 6) {
    if (!Number.isFinite(value)) return "";
    const kept = step > 0 ? Math.floor(Math.log10(Math.abs(value))) - Math.ceil(Math.log10(step) - 1e-9) + 1 : most;
    if (value === 0 || kept < 1) return "0";
    const text = most > 15 && step === 0 ? String(value) : String(Number(value.toPrecision(Math.min(kept, most))));
    return Math.abs(value) >= 1e9 || Math.abs(value) < 1e-5 ? Number(text).toExponential().replace("e+", "e") : text;
  }

  /** A column of values: texts or numbers, by their codes; 0 is none. */
  class Column {
    /** @param {ColumnFacts} said @param {number} n */
    constructor(said, n) {
      this.said = said;
      this.name = said.name;
      this.n = n;
      this.about = said.about;
      this.step = said.table === undefined ? said.step ?? 0 : 0;
      /** @type {Codes} */ this.codes = new Uint8Array(0);
      /** @type {string[] | null} */ this.texts = null;
      /** @type {Float64Array | null} */ this.table = null;
      /** @type {Map<number, number>} */ this.far = new Map();
      /** @type {Uint8Array | null} */ this.tints = null;
      this.top = 0;
      this.whole = "";
      /** Number of categories with a colour, -1 of a scale. */
      this.shown = said.shown ?? -1;
      /** @type {boolean[]} whether each category, the others and those without a value are shown */ this.on = [];
      /** @type {[number, number]} */ this.range = [-Infinity, Infinity];
    }

    async load() {
      const { said } = this;
      this.codes = await codes(said.codes, this.n);
      if (said.texts !== undefined) this.texts = await texts(said.texts);
      if (said.table !== undefined) this.table = await floats(said.table);
      if (said.far !== undefined && said.beyond !== undefined) {
        const beyond = await floats(said.beyond);
        (await summed(said.far, beyond.length)).forEach((i, k) => this.far.set(i, beyond[k]));
      }
      for (const code of this.codes) if (code > this.top) this.top = code;
      if (this.shown >= 0) this.on = new Array(this.shown + 2).fill(true);
      return this;
    }

    /** @param {number} i */
    number(i) {
      const code = this.codes[i];
      if (code === 0) return NaN;
      if (this.table) return this.table[code - 1];
      const far = this.far.size && (code === 1 || code === this.top) ? this.far.get(i) : undefined;
      return far === undefined ? (this.said.low ?? 0) + (code - 1) * this.step : far;
    }

    /** @param {number} i @param {number} [most] */
    text(i, most) {
      const code = this.codes[i];
      if (code === 0) return "";
      return this.texts ? this.texts[code - 1] : digits(this.number(i), this.step, most);
    }

    /** Which category a point is in: that of the others is `shown`, that of no value one more. @param {number} i */
    kind(i) {
      const code = this.codes[i];
      return code === 0 ? this.shown + 1 : Math.min(code - 1, this.shown);
    }

    /** The colour of each point as its number in the palette; the last is that of none. */
    tint() {
      if (this.tints) return this.tints;
      const found = new Uint8Array(this.n);
      const [low, high] = this.said.limits ?? [0, 1];
      const scale = 254 / (high - low);
      for (let i = 0; i < this.n; i++) {
        if (this.shown >= 0) found[i] = this.kind(i) < this.shown ? this.kind(i) : 255;
        else if (this.codes[i] === 0) found[i] = 255;
        else found[i] = Math.round(Math.min(254, Math.max(0, (this.number(i) - low) * scale)));
      }
      this.tints = found;
      return found;
    }

    /** Whether it hides any point. */
    get filters() {
      return this.on.includes(false) || this.range[0] > -Infinity || this.range[1] < Infinity;
    }

    /** @param {number} i */
    passes(i) {
      if (this.shown >= 0) return this.on[this.kind(i)];
      const value = this.number(i);
      return value >= this.range[0] && value <= this.range[1];
    }
  }

  /** Points with their axes, names and columns. */
  class Points {
    /** @param {PointsFacts} said @param {string} name */
    constructor(said, name) {
      this.said = said;
      this.name = name;
      this.n = said.n;
      /** @type {Axis[]} */ this.axes = [];
      /** @type {Column[]} */ this.columns = said.columns.map((column) => new Column(column, said.n));
      /** @type {Float64Array | null} */ this.rows = null;
      /** @type {string[] | Float64Array | null} */ this.ids = null;
      this.drawn = false;
    }

    /** What isn't needed for the first picture. */
    async load() {
      const { said, n } = this;
      for (const axis of said.axes.slice(this.axes.length)) this.axes.push(await axisOf(axis, n));
      for (const column of this.columns) if (!column.codes.length) await column.load();
      if (said.rows !== undefined) this.rows = await summed(said.rows, n);
      if (said.ids !== undefined) this.ids = await texts(said.ids);
      if (said.whole !== undefined) this.ids = await summed(said.whole, n);
      return this;
    }

    /** @param {number} i */
    row(i) {
      return this.rows ? this.rows[i] : i;
    }

    /** @param {number} i */
    id(i) {
      return this.ids ? String(this.ids[i]) : `row ${this.row(i)}`;
    }

    /** @param {Axis} axis @param {number} i */
    where(axis, i) {
      return axis.low + (axis.at[i] - 1) * axis.step;
    }
  }

  /** @typedef {{set: Points, i: number}} Hit */
  /** @param {AxisFacts} said @param {number} n @returns {Promise<Axis>} */
  async function axisOf(said, n) {
    return { name: said.name, at: Float32Array.from(await codes(said.codes, n)), low: said.low, step: said.step, high: said.high };
  }

  // ---- state ----

  const points = new Points(facts.points, "");
  const { n } = points;
  const layers = facts.layers.map((layer) => new Points(layer, layer.name));
  /** @type {Axis[]} */ const without = [];
  /** @type {Column[]} */ const rings = [];
  const oneAxis = facts.points.axes.length === 1;
  /** The middle of the map in units of the data, and pixels to a unit. */
  const view = { x: 0, y: 0, across: 1, up: 1 };
  let home = { ...view };
  let across = 0;
  let up = oneAxis ? -1 : 1;
  let mode = "move";
  let beside = false;
  let arrows = false;
  /** @type {Set<EdgesFacts>} */ const lines = new Set();
  /** @type {Column | null} */ let colour = points.columns[0] ?? null;
  let ringed = false;
  /** @type {Uint8Array | null} */ let shown = null;
  /** @type {Uint8Array | null} */ let chosen = null;
  /** @type {number[]} */ let selection = [];
  /** @type {Hit | null} */ let hovered = null;
  /** @type {Hit | null} */ let picked = null;
  /** @type {[number, number][]} */ let path = [];
  let loaded = false;
  let asked = false;
  /** @type {Panel[]} */ let panels = [];
  let size = { width: 0, height: 0, scale: 1 };

  const map = /** @type {HTMLElement} */ (document.getElementById("map"));
  const stage = $("stage");
  const below = /** @type {HTMLCanvasElement} */ ($("points"));
  const over = /** @type {HTMLCanvasElement} */ ($("over"));
  const paint = /** @type {CanvasRenderingContext2D} */ (below.getContext("2d"));
  const pen = /** @type {CanvasRenderingContext2D} */ (over.getContext("2d"));
  const dark = matchMedia("(prefers-color-scheme: dark)");

  /** @param {string} tag @param {string} [text] @param {Record<string, string>} [attributes] */
  function element(tag, text = "", attributes = {}) {
    const made = document.createElement(tag);
    made.textContent = text;
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    return made;
  }

  /** @param {string} text */
  const say = (text) => { $("said").textContent = text; };
  /** @param {number} value */
  const grouped = (value) => value.toLocaleString("en-GB");
  /** @param {number} value @param {string} noun */
  const count = (value, noun) => `${grouped(value)} ${noun}${value === 1 ? "" : "s"}`;

  /** A colour as 0xBBGGRR, lighter on dark paper. @param {string} hex */
  function packedColour(hex) {
    const parts = [5, 3, 1].map((at) => parseInt(hex.slice(at, at + 2), 16));
    const [blue, green, red] = dark.matches ? parts.map((part) => Math.round(255 - (255 - part) * 0.8)) : parts;
    return (blue << 16) | (green << 8) | red;
  }

  /** @param {number} colour */
  const css = (colour) => `rgb(${colour & 255} ${(colour >> 8) & 255} ${colour >> 16})`;

  /** Colours by the numbers that `tint` gives. */
  function palette() {
    const { scale, categories, none } = facts.colours;
    const found = new Uint32Array(256).fill(packedColour(none));
    const names = colour && colour.shown >= 0 ? categories : scale;
    names.forEach((name, i) => { found[i] = packedColour(name); });
    if (!colour) found[0] = packedColour("#2166ac");
    // Rings: each second band of the distances is paler.
    if (ringed) for (let i = 0; i < 255; i++) if (Math.floor(i / 17) % 2) found[i] = mixed(found[i]);
    return found;
  }

  /** @param {number} colour */
  const mixed = (colour) => {
    const white = dark.matches ? 0 : 255;
    return [0, 8, 16].reduce((sum, shift) => sum | (Math.round(((colour >> shift) & 255) * 0.55 + white * 0.45) << shift), 0);
  };

  // ---- points into pixels ----

  /** @type {Uint32Array} */ let ink = new Uint32Array(0);
  /** @type {Uint16Array} */ let best = new Uint16Array(0);
  /** @type {Uint8Array} */ let last = new Uint8Array(0);
  const FULL = 8; // what a point adds to a pixel that it covers
  const MOST_INK = 2048;

  /** Half the side of a dot in pixels of the screen: larger of few points, and where one zooms in. */
  function radius() {
    const least = Math.min(5, Math.max(1, Math.sqrt(12000 / n)));
    return Math.min(Math.max(5, least), least * (view.across / home.across) ** 0.3) * size.scale * 0.9;
  }

  /** The pixels of a dot, as steps to the side and down, with what each gets. @param {number} r */
  function stencil(r) {
    const side = Math.max(1, Math.round(2 * r));
    const middle = (side - 1) / 2;
    const found = [];
    for (let y = 0; y < side; y++) {
      for (let x = 0; x < side; x++) {
        const cover = side < 4 ? 1 : Math.min(1, Math.max(0, r + 0.5 - Math.hypot(x - middle, y - middle)));
        if (cover >= 1 / FULL) found.push({ x, y, ink: Math.round(cover * FULL) });
      }
    }
    return { side, found };
  }

  /**
   * Draws a panel's points. A pixel has the colour of one of its points, the same at every draw and no rather the last
   * than the first, and is the fainter the fewer points it has.
   * @param {Panel} panel @param {Uint8Array} tints @param {Uint32Array} colours
   */
  function splat(panel, tints, colours) {
    const width = Math.max(1, Math.round(panel.width * size.scale));
    const height = Math.max(1, Math.round(panel.height * size.scale));
    const image = paint.createImageData(width, height);
    const out = new Uint32Array(image.data.buffer);
    if (ink.length !== out.length) {
      ink = new Uint32Array(out.length);
      best = new Uint16Array(out.length);
      last = new Uint8Array(out.length);
    }
    const { side, found } = stencil(radius());
    const steps = Int32Array.from(found, ({ x, y }) => y * width + x);
    const inks = Uint8Array.from(found, (one) => one.ink);
    const { x, y } = panel;
    const ax = x.step * view.across * size.scale;
    const bx = (x.low - x.step - view.x) * view.across * size.scale + width / 2 - side / 2 + 0.5;
    const ay = -y.step * view.up * size.scale;
    const by = -(y.low - y.step - view.y) * view.up * size.scale + height / 2 - side / 2 + 0.5;
    const right = width - side;
    const bottom = height - side;
    for (let pass = chosen ? 0 : 1; pass < 2; pass++) {
      ink.fill(0);
      best.fill(0);
      for (let i = 0; i < n; i++) {
        if (chosen && chosen[i] !== pass) continue;
        if (y.at[i] === 0) continue;
        const u = x.at[i] * ax + bx;
        const v = y.at[i] * ay + by;
        if (!(u >= 0 && v >= 0 && u < right && v < bottom) || (shown && !shown[i])) continue;
        const at = (v | 0) * width + (u | 0);
        const rank = ((Math.imul(i + 1, 0x9e3779b1) >>> 16) & 0xffff) | 1;
        for (let j = 0; j < steps.length; j++) {
          const q = at + steps[j];
          ink[q] += inks[j];
          if (rank >= best[q]) {
            best[q] = rank;
            last[q] = tints[i];
          }
        }
      }
      const shade = opacity(pass === 0);
      for (let q = 0; q < out.length; q++) {
        if (ink[q]) out[q] = (shade[Math.min(ink[q], MOST_INK - 1)] << 24) | colours[last[q]];
      }
    }
    paint.putImageData(image, Math.round(panel.left * size.scale), Math.round(panel.top * size.scale));
  }

  /** Opacity by ink: a pixel in a hundred may be fuller than the fullest. @param {boolean} dim */
  function opacity(dim) {
    const counts = new Uint32Array(MOST_INK);
    let filled = 0;
    for (let q = 0; q < ink.length; q++) if (ink[q]) { counts[Math.min(ink[q], MOST_INK - 1)]++; filled++; }
    let fullest = MOST_INK - 1;
    for (let above = 0; fullest > 2 * FULL && above + counts[fullest] < filled / 100; fullest--) above += counts[fullest];
    const least = n > 20000 ? 0.5 : 0.8;
    return Uint8Array.from(counts, (_, some) => {
      const depth = Math.min(1, Math.max(0, Math.log(some / FULL) / Math.log(fullest / FULL)));
      return 255 * (dim ? 0.13 : 1) * Math.min(1, some / FULL) * (least + (1 - least) * depth);
    });
  }

  // ---- the view ----

  /** The place of a value on the screen. @param {Panel} panel @param {number} x @param {number} y @returns {[number, number]} */
  const toScreen = (panel, x, y) => [
    panel.left + panel.width / 2 + (x - view.x) * view.across, panel.top + panel.height / 2 - (y - view.y) * view.up,
  ];
  /** @param {Panel} panel @param {number} left @param {number} top @returns {[number, number]} */
  const toData = (panel, left, top) => [
    view.x + (left - panel.left - panel.width / 2) / view.across, view.y - (top - panel.top - panel.height / 2) / view.up,
  ];
  /** @param {number} left */
  const panelAt = (left) => panels.find((panel) => left <= panel.left + panel.width + 10) ?? panels[0];

  /** What a single axis is drawn against: the numbers that colour it, or places that keep points apart. @returns {Axis} */
  function second() {
    if (!oneAxis) return points.axes[up];
    const at = new Float32Array(n);
    if (colour && colour.shown < 0) {
      const [low, high] = colour.said.limits ?? [0, 1];
      const step = (high - low) / 65534;
      for (let i = 0; i < n; i++) {
        if (colour.codes[i]) at[i] = 1 + Math.min(65534, Math.max(0, (colour.number(i) - low) / step));
      }
      return { name: colour.name, at, low, step, high };
    }
    for (let i = 0; i < n; i++) at[i] = 1 + (Math.imul(i + 1, 0x9e3779b1) >>> 16);
    return { name: "", at, low: 0, step: 1 / 65535, high: 1 };
  }

  /** Where the panels are, and what they show. */
  function lay() {
    const box = stage.getBoundingClientRect();
    const before = panels.length ? panels[0].width : 0;
    size = { width: box.width, height: box.height, scale: devicePixelRatio || 1 };
    for (const canvas of [below, over]) {
      canvas.width = Math.max(1, Math.round(box.width * size.scale));
      canvas.height = Math.max(1, Math.round(box.height * size.scale));
    }
    const shared = { top: beside ? 24 : 8, height: Math.max(40, box.height - (beside ? 66 : 50)), main: true };
    const width = Math.max(40, box.width - 64);
    const x = points.axes[across];
    const y = second();
    panels = [{ ...shared, left: 56, width, title: "", x, y }];
    if (beside && without[across] && without[up]) {
      const half = (width - 50) / 2;
      panels = [
        { ...shared, left: 56, width: half, title: "with the constant", x, y },
        { ...shared, left: 56 + half + 50, width: half, title: "without the constant", x: without[across], y: without[up], main: false },
      ];
    }
    return before;
  }

  /** The whole map, with the layers that are drawn. */
  function whole() {
    const [panel] = panels;
    /** @type {[Axis, number][]} */
    const kept = [[panel.x, across], [panel.y, up]];
    const [wide, high] = kept.map(([axis, k]) => {
      const more = k < 0 ? [] : layers.filter((layer) => layer.drawn).map((layer) => layer.axes[k]);
      const low = Math.min(axis.low, ...more.map((one) => one.low));
      return { low, span: Math.max(axis.high, ...more.map((one) => one.high)) - low };
    });
    const room = Math.max(wide.span, oneAxis ? 0 : high.span) || Math.abs(wide.low) * 1e-3 || 1;
    const fits = 0.92 * Math.min(panel.width / (wide.span || room * 1e-9), oneAxis ? Infinity : panel.height / (high.span || room * 1e-9));
    const equal = Number.isFinite(fits) && wide.span + (oneAxis ? 0 : high.span) > 0 ? fits : (0.5 * panel.width) / room;
    home = {
      x: wide.low + wide.span / 2, y: high.low + high.span / 2, across: equal,
      up: oneAxis ? (0.92 * panel.height) / (high.span || 1) : equal,
    };
  }

  function reset() {
    whole();
    Object.assign(view, home);
    ask();
  }

  /** Zooms so that what is at a place of the screen stays there. @param {number} factor @param {number} left @param {number} top */
  function zoom(factor, left, top) {
    const panel = panelAt(left);
    const [x, y] = toData(panel, left, top);
    const wanted = Math.min(Math.max(view.across * factor, home.across * 0.4), home.across * 20000);
    const done = wanted / view.across;
    view.across *= done;
    view.up *= done;
    view.x = x + (view.x - x) / done;
    view.y = y + (view.y - y) / done;
    hold();
    ask();
  }

  /** @param {number} left @param {number} top Pixels. */
  function pan(left, top) {
    view.x -= left / view.across;
    view.y += top / view.up;
    hold();
    ask();
  }

  /** Some of the points' range stays in view. */
  function hold() {
    const { x, y, width, height } = panels[0];
    const [wide, high] = [(0.4 * width) / view.across, (0.4 * height) / view.up];
    view.x = Math.min(Math.max(view.x, x.low - wide), x.high + wide);
    view.y = Math.min(Math.max(view.y, y.low - high), y.high + high);
  }

  function ask() {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => {
      asked = false;
      draw();
    });
  }

  function draw() {
    paint.clearRect(0, 0, below.width, below.height);
    const tints = colour ? colour.tint() : new Uint8Array(n);
    const colours = palette();
    for (const panel of panels) splat(panel, tints, colours);
    overlay();
    const [{ left, top, width, height }] = panels;
    // For whoever drives the page by a script: the middle in pixels and in the data, and pixels to a unit.
    over.dataset.view = JSON.stringify([left + width / 2, top + height / 2, view.x, view.y, view.across, view.up]);
  }

  // ---- over the points: axes, layers, edges, arrows, marks ----

  function overlay() {
    const style = getComputedStyle(stage);
    const [inkColour, faint, paper] = ["--ink", "--faint", "--paper"].map((name) => style.getPropertyValue(name));
    pen.setTransform(size.scale, 0, 0, size.scale, 0, 0);
    pen.clearRect(0, 0, size.width, size.height);
    pen.font = "12px system-ui, sans-serif";
    for (const panel of panels) {
      frame(panel, inkColour, faint);
      pen.save();
      pen.beginPath();
      pen.rect(panel.left, panel.top, panel.width, panel.height);
      pen.clip();
      [...lines].forEach((edges, k) => drawEdges(panel, edges, ["#d6304a", "#e08214"][k % 2]));
      if (panel.main) layers.forEach((layer, k) => { if (layer.drawn) drawLayer(panel, layer, k, inkColour, paper); });
      if (arrows && panel.main && facts.arrows) drawArrows(panel, facts.arrows, inkColour, paper);
      if (picked) mark(panel, picked, 8, inkColour, paper);
      if (hovered) mark(panel, hovered, 6, inkColour, paper);
      pen.restore();
    }
    if (path.length > 1) {
      pen.beginPath();
      for (const [left, top] of path) pen.lineTo(left, top);
      pen.closePath();
      pen.fillStyle = "rgb(59 130 246 / .12)";
      pen.fill();
      pen.strokeStyle = "#3b82f6";
      pen.lineWidth = 1.5;
      pen.stroke();
    }
  }

  /** @param {Panel} panel @param {string} inkColour @param {string} faint */
  function frame(panel, inkColour, faint) {
    const { left, top, width, height, x, y, title } = panel;
    pen.strokeStyle = faint;
    pen.lineWidth = 0.6;
    pen.strokeRect(left, top, width, height);
    pen.fillStyle = faint;
    pen.textBaseline = "top";
    pen.textAlign = "center";
    for (const [value, text] of ticks(view.x - width / 2 / view.across, view.x + width / 2 / view.across, width / 90)) {
      const [at] = toScreen(panel, value, 0);
      pen.fillText(text, at, top + height + 6);
      pen.fillRect(at, top + height, 0.6, 4);
    }
    pen.textAlign = "right";
    pen.textBaseline = "middle";
    const rows = y.name ? ticks(view.y - height / 2 / view.up, view.y + height / 2 / view.up, height / 60) : [];
    for (const [value, text] of rows) {
      const [, at] = toScreen(panel, 0, value);
      pen.fillText(text, left - 7, at, 42);
      pen.fillRect(left - 4, at, 4, 0.6);
    }
    pen.fillStyle = inkColour;
    pen.textAlign = "center";
    pen.textBaseline = "alphabetic";
    pen.fillText(x.name, left + width / 2, top + height + 36, width);
    if (title) pen.fillText(title, left + width / 2, top - 8, width);
    pen.save();
    pen.translate(12, top + height / 2);
    pen.rotate(-Math.PI / 2);
    if (panel.main) pen.fillText(y.name, 0, 0, height);
    pen.restore();
  }

  /** Round values between two, with their texts. @param {number} low @param {number} high @param {number} most @returns {[number, string][]} */
  function ticks(low, high, most) {
    const power = 10 ** Math.floor(Math.log10((high - low) / Math.max(2, most)));
    const step = [1, 2, 5, 10].map((factor) => factor * power).find((one) => (high - low) / one <= Math.max(2, most)) ?? power * 10;
    /** @type {[number, string][]} */
    const found = [];
    const least = 10 ** Math.floor(Math.log10(step) + 1e-9);
    for (let k = Math.ceil(low / step); k * step <= high && found.length < 40; k++) found.push([k * step, digits(k * step, least).replace("-", "−")]);
    return found;
  }

  /** @param {Panel} panel @param {Hit} hit @returns {[number, number] | null} */
  function spot(panel, { set, i }) {
    if (set === points) {
      if (!panel.y.at[i]) return null;
      return toScreen(panel, points.where(panel.x, i), points.where(panel.y, i));
    }
    if (!panel.main) return null;
    return toScreen(panel, set.where(set.axes[across], i), oneAxis ? panel.y.low : set.where(set.axes[up], i));
  }

  /** @param {Panel} panel @param {Hit} hit @param {number} r @param {string} inkColour @param {string} paper */
  function mark(panel, hit, r, inkColour, paper) {
    const at = spot(panel, hit);
    if (!at) return;
    for (const [colour, width] of /** @type {[string, number][]} */ ([[paper, 4.5], [inkColour, 2]])) {
      pen.beginPath();
      pen.arc(at[0], at[1], r, 0, 7);
      pen.strokeStyle = colour;
      pen.lineWidth = width;
      pen.stroke();
    }
  }

  /** @param {Panel} panel @param {EdgesFacts} edges @param {string} colour */
  function drawEdges(panel, edges, colour) {
    pen.strokeStyle = colour;
    pen.lineWidth = edges.pairs.length > 500 ? 0.8 : 1.6;
    pen.beginPath();
    for (const [a, b] of edges.pairs) {
      const [from, to] = [spot(panel, { set: points, i: a }), spot(panel, { set: points, i: b })];
      if (!from || !to) continue;
      pen.moveTo(...from);
      pen.lineTo(...to);
    }
    pen.stroke();
  }

  /** @param {Panel} panel @param {Points} layer @param {number} k @param {string} inkColour @param {string} paper */
  function drawLayer(panel, layer, k, inkColour, paper) {
    const r = Math.min(6, Math.max(2.5, 80 / Math.sqrt(layer.n)));
    const signs = new Path2D();
    for (let i = 0; i < layer.n; i++) {
      const at = spot(panel, { set: layer, i });
      if (!at || at[0] < panel.left || at[0] > panel.left + panel.width) continue;
      const [x, y] = at;
      if (k % 2) {
        signs.moveTo(x - r, y - r);
        signs.lineTo(x + r, y + r);
        signs.moveTo(x - r, y + r);
        signs.lineTo(x + r, y - r);
      } else {
        signs.moveTo(x, y - r);
        signs.lineTo(x + r, y);
        signs.lineTo(x, y + r);
        signs.lineTo(x - r, y);
        signs.closePath();
      }
    }
    pen.strokeStyle = paper;
    pen.lineWidth = 3.5;
    pen.stroke(signs);
    pen.strokeStyle = inkColour;
    pen.lineWidth = 1.4;
    pen.stroke(signs);
  }

  /** The features that go most with the two axes, as arrows from the middle. @param {Panel} panel @param {ArrowsFacts} said @param {string} inkColour @param {string} paper */
  function drawArrows(panel, said, inkColour, paper) {
    const length = said.features.map((name, i) => ({ name, x: said.values[across][i], y: oneAxis ? 0 : said.values[up][i] }));
    const strongest = length.sort((a, b) => Math.hypot(b.x, b.y) - Math.hypot(a.x, a.y)).slice(0, 8);
    const most = Math.hypot(strongest[0].x, strongest[0].y) || 1;
    const reach = (0.36 * Math.min(panel.width, panel.height)) / most;
    const [x0, y0] = [panel.left + panel.width / 2, panel.top + panel.height / 2];
    pen.textBaseline = "middle";
    for (const { name, x, y } of strongest) {
      const [x1, y1] = [x0 + x * reach, y0 - y * reach];
      const turn = Math.atan2(y1 - y0, x1 - x0);
      const arrow = new Path2D();
      arrow.moveTo(x0, y0);
      arrow.lineTo(x1, y1);
      for (const side of [-0.4, 0.4]) {
        arrow.moveTo(x1, y1);
        arrow.lineTo(x1 - 9 * Math.cos(turn + side), y1 - 9 * Math.sin(turn + side));
      }
      const text = `${name.length > 24 ? `${name.slice(0, 22)}…` : name} ${digits(Math.hypot(x, y), 0.01)}`;
      pen.textAlign = x < 0 ? "right" : "left";
      pen.strokeStyle = paper;
      pen.lineWidth = 4;
      pen.stroke(arrow);
      pen.strokeText(text, x1 + (x < 0 ? -6 : 6), y1);
      pen.strokeStyle = inkColour;
      pen.fillStyle = inkColour;
      pen.lineWidth = 1.5;
      pen.stroke(arrow);
      pen.fillText(text, x1 + (x < 0 ? -6 : 6), y1);
    }
  }

  // ---- which point, which points ----

  /** The shown point nearest to a place of the screen. @param {number} left @param {number} top @param {number} within @returns {Hit | null} */
  function nearest(left, top, within) {
    const panel = panelAt(left);
    /** @type {Hit | null} */ let found = null;
    let least = within * within;
    for (const layer of panel.main ? layers.filter((one) => one.drawn) : []) {
      for (let i = 0; i < layer.n; i++) {
        const at = spot(panel, { set: layer, i });
        const far = at ? (at[0] - left) ** 2 + (at[1] - top) ** 2 : Infinity;
        if (far < least) [least, found] = [far, { set: layer, i }];
      }
    }
    if (found) return found;
    const { x, y } = panel;
    const [u, v] = toData(panel, left, top);
    const [ax, bx] = [x.step * view.across, (x.low - x.step - u) * view.across];
    const [ay, by] = [y.step * view.up, (y.low - y.step - v) * view.up];
    let nearestOne = -1;
    for (let i = 0; i < n; i++) {
      const dx = x.at[i] * ax + bx;
      if (dx > within || dx < -within) continue;
      const dy = y.at[i] * ay + by;
      const far = dx * dx + dy * dy;
      if (far <= least && y.at[i] && (!shown || shown[i])) [least, nearestOne] = [far, i];
    }
    return nearestOne < 0 ? null : { set: points, i: nearestOne };
  }

  /** Points within a polygon of the screen by even and odd crossings; those filtered out are not. @param {[number, number][]} polygon */
  function within(polygon) {
    const panel = panelAt(polygon[0][0]);
    const { x, y } = panel;
    // The corners in the steps in which the points are kept.
    const corners = polygon.map(([left, top]) => {
      const [u, v] = toData(panel, left, top);
      return [(u - x.low) / (x.step || 1) + 1, (v - y.low) / (y.step || 1) + 1];
    });
    const [wide, high] = [0, 1].map((k) => corners.map((corner) => corner[k]));
    const [left, right, bottom, top] = [Math.min(...wide), Math.max(...wide), Math.min(...high), Math.max(...high)];
    // The sides that cross each of some bands upwards, so that a point is held against few of them.
    const band = (top - bottom) / 256 || 1;
    const sides = Array.from({ length: 256 }, () => /** @type {number[][]} */ ([]));
    corners.forEach(([u, v], k) => {
      const [s, t] = corners[(k || corners.length) - 1];
      const first = Math.max(0, Math.floor((Math.min(v, t) - bottom) / band) - 1);
      const end = Math.min(255, Math.floor((Math.max(v, t) - bottom) / band) + 1);
      for (let b = first; b <= end; b++) sides[b].push([u, v, s, t]);
    });
    const found = [];
    for (let i = 0; i < n; i++) {
      const [p, q] = [x.at[i], y.at[i]];
      if (!(p >= left && p <= right && q >= bottom && q <= top) || !q || (shown && !shown[i])) continue;
      let inside = false;
      for (const [u, v, s, t] of sides[Math.min(255, Math.floor((q - bottom) / band))]) {
        if (v > q !== t > q && p < ((s - u) * (q - v)) / (t - v) + u) inside = !inside;
      }
      if (inside) found.push(i);
    }
    return found;
  }

  /** @param {number[]} found */
  function select(found) {
    selection = found;
    chosen = found.length ? new Uint8Array(n) : null;
    for (const i of found) if (chosen) chosen[i] = 1;
    say(found.length ? `${count(found.length, "point")} of ${grouped(n)} selected` : "No point is selected");
    for (const id of ["csv", "clear", "selected"]) $(id).hidden = !found.length;
    $("selected").replaceChildren(...(found.length ? [summary(), listed()] : []));
    ask();
  }

  // ---- what is said of points: tip, panel, tables, CSV ----

  /** Names and values of a point. @param {Hit} hit @returns {[string, string][]} */
  function said({ set, i }) {
    /** @type {[string, string][]} */
    const found = set.ids ? [["row", String(set.row(i))]] : [];
    const columns = ringed && colour && set === points ? [colour, ...set.columns] : set.columns;
    return [...found, ...columns.map((column) => /** @type {[string, string]} */ ([column.name, column.text(i) || "–"]))];
  }

  /** @param {string} text */
  const cut = (text) => (text.length > 60 ? `${text.slice(0, 58)}…` : text);

  function tip() {
    const panel = hovered && panels.find((one) => hovered && spot(one, hovered));
    const at = hovered && panel ? spot(panel, hovered) : null;
    $("tip").hidden = !at;
    if (!hovered || !at) return;
    const all = said(hovered);
    const lines = all.slice(0, all.length > 10 ? 9 : 10).map(([name, value]) => {
      const line = element("div");
      line.append(element("span", `${cut(name)} `), cut(value));
      return line;
    });
    if (all.length > 10) lines.push(element("div", `and ${all.length - 9} more: click`));
    const { set } = hovered;
    $("tip").replaceChildren(element("div", cut(set.name ? `${set.name}: ${set.id(hovered.i)}` : set.id(hovered.i))), ...lines);
    const box = $("tip").getBoundingClientRect();
    $("tip").style.left = `${at[0] > size.width / 2 ? at[0] - box.width - 12 : at[0] + 12}px`;
    $("tip").style.top = `${Math.max(0, Math.min(at[1] - 10, size.height - box.height))}px`;
  }

  /** @param {Hit | null} hit */
  function hover(hit) {
    if (hit?.i === hovered?.i && hit?.set === hovered?.set) return;
    hovered = hit;
    overlay();
    tip();
  }

  /** @param {Hit | null} hit */
  function pick(hit) {
    picked = hit;
    $("picked").hidden = !hit;
    if (hit) {
      const { set, i } = hit;
      const axes = set.axes.slice(0, 6).map((axis) => [axis.name, digits(set.where(axis, i), axis.step)]);
      const title = set.name ? `${set.name}: ${set.id(i)}` : set.id(i);
      if (ringed) colourBy("rings");
      $("picked").replaceChildren(element("h3", title), table([], [...said(hit), ...axes]));
      say(`Picked ${title}`);
    }
    ask();
  }

  /** @param {string[]} headings @param {string[][]} rows */
  function table(headings, rows) {
    const made = element("table");
    if (headings.length) {
      const line = element("tr");
      line.append(...headings.map((text) => element("th", text, { scope: "col" })));
      made.appendChild(element("thead")).append(line);
    }
    const body = made.appendChild(element("tbody"));
    for (const row of rows) body.appendChild(element("tr")).append(...row.map((text) => element("td", cut(text))));
    const scroll = element("div", "", { class: "scroll", tabindex: "0" });
    scroll.append(made);
    return scroll;
  }

  /** Mean, or the commonest text with its share, of some points. @param {Column} column @param {ArrayLike<number>} among */
  function typical(column, among) {
    let sum = 0;
    let known = 0;
    const counts = new Uint32Array(column.texts ? column.texts.length + 1 : 1);
    for (let k = 0; k < among.length; k++) {
      const i = among[k];
      if (!column.codes[i]) continue;
      known++;
      if (column.texts) counts[column.codes[i]]++;
      else sum += column.number(i);
    }
    if (!known) return "–";
    if (!column.texts) return `mean ${digits(Number((sum / known).toPrecision(4)), column.step)}`;
    const top = counts.reduce((found, some, code) => (some > counts[found] ? code : found), 0);
    return `${cut(column.texts[top - 1])} (${Math.round((100 * counts[top]) / known)} %)`;
  }

  function summary() {
    const every = points.columns.every((column) => column.whole) ? [] : Uint32Array.from(points.axes[0].at, (_, i) => i);
    const rows = points.columns.map((column) => {
      column.whole ||= typical(column, every);
      return [column.name, typical(column, selection), column.whole];
    });
    return table(["column", "selected", "all"], [["points", grouped(selection.length), grouped(n)], ...rows]);
  }

  /** @param {number} i @param {number} [most] */
  const fields = (i, most) => [
    ...(points.ids ? [points.id(i)] : []), String(points.row(i)),
    ...points.axes.map((axis) => digits(points.where(axis, i), axis.step, most)), ...points.columns.map((column) => column.text(i, most)),
  ];
  const headings = () => [...(points.ids ? ["id"] : []), "row", ...[...points.axes, ...points.columns].map(({ name }) => name)];

  function listed() {
    const first = selection.slice(0, 200);
    const both = element("div");
    const rest = selection.length > first.length ? `The first 200 of ${grouped(selection.length)}; the CSV has all.` : "";
    both.append(table(headings(), first.map((i) => fields(i))), element("p", rest, { class: "faint" }));
    return both;
  }

  function save() {
    const quoted = (/** @type {string} */ text) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
    const text = [headings(), ...selection.map((i) => fields(i, 17))].map((row) => `${row.map(quoted).join(",")}\r\n`);
    const link = /** @type {HTMLAnchorElement} */ (element("a"));
    link.href = URL.createObjectURL(new Blob(text, { type: "text/csv" }));
    link.download = "selection.csv";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  }

  // ---- colour, legend, filters ----

  /** Distances from the point that has them and is nearest along the data to the one picked. */
  function fromPicked() {
    const i = picked && picked.set === points ? picked.i : 0;
    const far = rings.map((ring) => (ring.codes[i] ? ring.codes[i] : Infinity));
    const k = far.indexOf(Math.min(...far));
    const at = facts.rings?.kept[k].at ?? 0;
    const which = `Distances along the data from ${points.id(at)}`;
    rings[k].about = at === i ? which : `${which}, the nearest to ${picked ? points.id(i) : "the first"} of the ${rings.length} points that have them; click another point`;
    return rings[k];
  }

  /** @param {string} value Number of a column, "rings", or "" for none. */
  function colourBy(value) {
    ringed = value === "rings";
    colour = ringed ? fromPicked() : value === "" ? null : points.columns[Number(value)];
    $("about").textContent = colour?.about ?? "";
    legend();
    if (oneAxis) {
      lay();
      reset();
    }
    ask();
  }

  function filter() {
    const active = [...points.columns, ...rings].filter((column) => column.filters);
    shown = active.length ? new Uint8Array(n) : null;
    let left = 0;
    for (let i = 0; shown && i < n; i++) if (active.every((column) => column.passes(i))) left += shown[i] = 1;
    const all = element("button", "Show all", { type: "button" });
    all.onclick = () => {
      for (const column of active) {
        column.on.fill(true);
        column.range = [-Infinity, Infinity];
      }
      legend();
      filter();
    };
    const by = active.map(({ name }) => cut(name)).join(", ");
    $("shown").replaceChildren(...(shown ? [element("span", `${grouped(left)} of ${grouped(n)} shown, by ${by}`), all] : []));
    hover(null);
    ask();
  }

  function legend() {
    const column = colour;
    const colours = palette();
    if (!column) $("legend").replaceChildren();
    else if (column.shown < 0) $("legend").replaceChildren(...scale(column, colours));
    else {
      const counts = new Array(column.shown + 2).fill(0);
      for (let i = 0; i < n; i++) counts[column.kind(i)]++;
      const kinds = element("div", "", { class: "kinds", role: "group", "aria-label": "Groups to show" });
      counts.forEach((some, kind) => {
        if (!some) return;
        const named = column.texts ? column.texts[kind] : digits(column.table ? column.table[kind] : NaN, 0);
        const name = kind < column.shown ? named : kind > column.shown ? "no value" : column.shown ? "others" : "all values";
        const entry = element("button", "", { type: "button", "aria-pressed": String(column.on[kind]), title: name });
        const dot = element("i");
        dot.style.background = css(colours[kind < column.shown ? kind : 255]);
        entry.append(dot, element("span", cut(name)), element("span", grouped(some)));
        const alone = () => column.on.forEach((_, other) => { column.on[other] = other === kind; });
        const done = () => {
          [...kinds.children].forEach((child) => child.setAttribute("aria-pressed", String(column.on[Number(child.getAttribute("data-kind"))])));
          filter();
        };
        entry.dataset.kind = String(kind);
        entry.onclick = (event) => {
          if (event.shiftKey) alone();
          else column.on[kind] = !column.on[kind];
          done();
        };
        entry.ondblclick = () => { alone(); done(); };
        kinds.append(entry);
      });
      $("legend").replaceChildren(kinds);
    }
  }

  /** A bar of the scale, and two sliders that filter. @param {Column} column @param {Uint32Array} colours */
  function scale(column, colours) {
    const [low, high] = column.said.limits ?? [0, 1];
    const bar = element("div", "", { class: "bar" });
    bar.style.background = `linear-gradient(to right, ${Array.from({ length: 64 }, (_, i) => css(colours[4 * i - (i > 62 ? 1 : 0)])).join(", ")})`;
    const ends = element("div", "", { class: "ends" });
    const written = (/** @type {number} */ value) => digits(Number(value.toPrecision(4)), column.step);
    const texts = [low, high].map((end) => element("span", written(end)));
    ends.append(...texts);
    const sliders = ["from", "to"].map((name, k) => {
      const at = column.range[k];
      const value = Number.isFinite(at) ? Math.round((1000 * (at - low)) / (high - low)) : 1000 * k;
      const slider = /** @type {HTMLInputElement} */ (element("input", "", {
        type: "range", min: "0", max: "1000", value: String(value), "aria-label": `${column.name}: ${name}`,
      }));
      slider.oninput = () => {
        const part = Number(slider.value);
        // At its end a slider leaves values beyond the scale in.
        column.range[k] = part === 1000 * k ? (k ? Infinity : -Infinity) : low + ((high - low) * part) / 1000;
        texts[k].textContent = written(low + ((high - low) * part) / 1000);
        filter();
      };
      return slider;
    });
    const row = element("div", "", { class: "row" });
    row.append(...sliders);
    let missing = 0;
    for (let i = 0; i < n; i++) if (!column.codes[i]) missing++;
    const beyond = column.far.size ? `${count(column.far.size, "value")} beyond the scale's ends. ` : "";
    const none = missing ? `${count(missing, "point")} without a value: ${oneAxis ? "left out" : "grey"}.` : "";
    return [bar, ends, row, element("p", beyond + none, { class: "faint" })];
  }

  // ---- the controls ----

  /** @param {string} wanted */
  function find(wanted) {
    const text = wanted.trim().toLowerCase();
    /** @type {number[]} */ const exact = [];
    /** @type {number[]} */ const part = [];
    for (let i = 0; text && i < n; i++) {
      const id = (points.ids ? points.id(i) : String(points.row(i))).toLowerCase();
      if (id === text) exact.push(i);
      else if (id.includes(text)) part.push(i);
    }
    const hits = [...exact, ...part];
    const buttons = hits.slice(0, 12).map((i) => {
      const button = element("button", cut(points.id(i)), { type: "button" });
      button.onclick = () => goTo(i);
      return button;
    });
    const row = element("p", "", { class: "row" });
    row.append(...buttons);
    const rest = hits.length > 12 ? `${grouped(hits.length)} found, 12 listed` : hits.length || !text ? "" : "Nothing found";
    $("hits").replaceChildren(row, element("p", rest, { class: "faint" }));
    if (text) say(hits.length ? `${grouped(hits.length)} found` : "Nothing found");
    return hits;
  }

  /** Picks a point, and moves to it if it is out of view. @param {number} i */
  function goTo(i) {
    const [panel] = panels;
    pick({ set: points, i });
    const at = spot(panel, { set: points, i });
    if (!at) return;
    const inside = at[0] > panel.left && at[0] < panel.left + panel.width && at[1] > panel.top && at[1] < panel.top + panel.height;
    if (!inside) [view.x, view.y] = [points.where(panel.x, i), points.where(panel.y, i)];
  }

  /** @param {string} wanted */
  function setMode(wanted) {
    mode = wanted;
    over.dataset.mode = mode;
    document.querySelectorAll("#map button[data-mode]").forEach((button) => {
      button.setAttribute("aria-pressed", String(button.getAttribute("data-mode") === mode));
    });
  }

  /** @param {string} name @param {string} about @param {(on: boolean) => void} change */
  function box(name, about, change) {
    const label = element("label", "", { title: about });
    const made = /** @type {HTMLInputElement} */ (element("input", "", { type: "checkbox" }));
    made.onchange = () => change(made.checked);
    label.append(made, ` ${name}`);
    const line = element("div");
    line.append(label);
    return line;
  }

  function controls() {
    const group = (/** @type {string} */ label) => element("optgroup", "", { label });
    const option = (/** @type {string} */ text, /** @type {string | number} */ value) => element("option", text, { value: String(value) });
    const groups = [group("columns"), group("how well points are kept"), group("distance")];
    points.columns.forEach((column, k) => groups[column.said.group === "quality" ? 1 : 0].append(option(column.name, k)));
    if (rings.length) groups[2].append(option("distance from a clicked point", "rings"));
    menu("colour").append(...groups.filter((one) => one.children.length), option("none", ""));
    menu("colour").value = points.columns.length ? "0" : "";
    menu("colour").onchange = () => colourBy(menu("colour").value);
    for (const id of ["x", "y"]) {
      menu(id).append(...points.axes.map((axis, k) => option(axis.name, k)));
      menu(id).onchange = () => {
        const [x, y] = [Number(menu("x").value), Number(menu("y").value)];
        if (x === y) [across, up] = [up, across];
        else [across, up] = [x, y];
        [menu("x").value, menu("y").value] = [String(across), String(up)];
        lay();
        reset();
      };
    }
    [menu("x").value, menu("y").value] = [String(across), String(up)];
    $("axes").hidden = points.axes.length < 3;
    const again = () => { lay(); reset(); };
    layers.forEach((layer) => $("extras").append(box(`${layer.name} (${grouped(layer.n)})`, "", (on) => { layer.drawn = on; again(); })));
    facts.edges.forEach((edges) => $("extras").append(box(`${edges.name} (${grouped(edges.pairs.length)})`, edges.about, (on) => {
      if (on) lines.add(edges);
      else lines.delete(edges);
      ask();
    })));
    if (facts.arrows) $("extras").append(box(`arrows: ${facts.arrows.name}`, "", (on) => { arrows = on; ask(); }));
    if (without.length) $("extras").append(box("without the constant beside it", "", (on) => { beside = on; again(); }));
    document.querySelectorAll("#map button[data-mode]").forEach((button) => {
      button.addEventListener("click", () => setMode(button.getAttribute("data-mode") ?? ""));
    });
    $("in").onclick = () => zoom(1.5, panels[0].left + panels[0].width / 2, size.height / 2);
    $("out").onclick = () => zoom(1 / 1.5, panels[0].left + panels[0].width / 2, size.height / 2);
    $("home").onclick = reset;
    $("csv").onclick = save;
    $("clear").onclick = () => select([]);
    $("view").onclick = () => {
      const { left, top, width, height } = panels[0];
      select(within([[left, top], [left + width, top], [left + width, top + height], [left, top + height]]));
    };
    let wait = 0;
    input("find").oninput = () => {
      clearTimeout(wait);
      wait = setTimeout(() => find(input("find").value), 150);
    };
    input("find").onkeydown = (event) => {
      const hits = event.key === "Enter" ? find(input("find").value) : [];
      if (hits.length) goTo(hits[0]);
    };
  }

  function keysAndPointers() {
    /** @type {Map<number, [number, number]>} */ const down = new Map();
    let start = /** @type {[number, number]} */ ([0, 0]);
    let doing = "";
    let moved = false;
    const place = (/** @type {MouseEvent} */ event) => /** @type {[number, number]} */ ([event.offsetX, event.offsetY]);
    over.onpointerdown = (event) => {
      if (event.button !== 0) return;
      over.setPointerCapture(event.pointerId);
      down.set(event.pointerId, place(event));
      start = place(event);
      moved = down.size > 1;
      doing = down.size > 1 ? "move" : event.shiftKey ? "lasso" : mode;
      path = [];
      hover(null);
    };
    over.onpointermove = (event) => {
      const at = place(event);
      const before = down.get(event.pointerId);
      if (!before) {
        if (loaded) hover(nearest(...at, event.pointerType === "touch" ? 20 : 10));
        return;
      }
      moved ||= Math.hypot(at[0] - start[0], at[1] - start[1]) > 4;
      if (!moved) return;
      if (down.size === 2) {
        const other = [...down].find(([id]) => id !== event.pointerId)?.[1] ?? before;
        const [wide, was] = [at, before].map((one) => Math.hypot(one[0] - other[0], one[1] - other[1]));
        pan((at[0] - before[0]) / 2, (at[1] - before[1]) / 2);
        zoom(Math.max(wide, 1) / Math.max(was, 1), (at[0] + other[0]) / 2, (at[1] + other[1]) / 2);
      } else if (doing === "move") pan(at[0] - before[0], at[1] - before[1]);
      else if (doing === "lasso") path.push(...(path.length ? [at] : [start, at]));
      else path = [start, [at[0], start[1]], at, [start[0], at[1]]];
      down.set(event.pointerId, at);
      if (doing !== "move") overlay();
    };
    over.onpointerup = over.onpointercancel = (event) => {
      if (!down.delete(event.pointerId)) return;
      const drawn = path;
      path = [];
      if (event.type === "pointercancel" || !loaded) return ask();
      if (drawn.length > 2) select(within(drawn));
      else if (!moved && !down.size) pick(nearest(...place(event), 14));
    };
    over.onpointerleave = () => hover(null);
    over.addEventListener("wheel", (event) => {
      event.preventDefault();
      const lines = event.deltaMode === 1 ? 20 : 1;
      zoom(Math.exp(Math.max(-1, Math.min(1, (-event.deltaY * lines) / 500))), ...place(event));
    }, { passive: false });
    over.onkeydown = (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const { left, top, width, height } = panels[0];
      const middle = /** @type {[number, number]} */ ([left + width / 2, top + height / 2]);
      /** @type {Record<string, () => void>} */
      const actions = {
        ArrowLeft: () => pan(60, 0), ArrowRight: () => pan(-60, 0), ArrowUp: () => pan(0, 60), ArrowDown: () => pan(0, -60),
        "+": () => zoom(1.3, ...middle), "=": () => zoom(1.3, ...middle), "-": () => zoom(1 / 1.3, ...middle), 0: reset,
        Enter: () => pick(nearest(...middle, Math.hypot(width, height))), Escape: () => select([]),
      };
      if (!loaded || !actions[event.key]) return;
      event.preventDefault();
      actions[event.key]();
    };
    map.onkeydown = (event) => { if (event.key === "Escape" && event.target !== over) select([]); };
    new ResizeObserver(() => {
      const before = lay();
      const was = home.across;
      whole();
      if (before) { view.across *= home.across / was; view.up = oneAxis ? home.up * (view.across / home.across) : view.across; }
      ask();
    }).observe(stage);
    dark.onchange = () => { legend(); ask(); };
  }

  // ---- the start: the first picture, then the rest ----

  map.hidden = false;
  for (const axis of facts.points.axes.slice(0, 2)) points.axes.push(await axisOf(axis, n));
  if (colour) await colour.load();
  lay();
  reset();
  draw();
  performance.mark("map drawn");
  const still = /** @type {HTMLDetailsElement | null} */ (document.getElementById("map-pictures"));
  if (still) still.open = false;
  await points.load();
  for (const layer of layers) await layer.load();
  for (const axis of facts.other ?? []) without.push(await axisOf(axis, n));
  for (const ring of facts.rings?.kept ?? []) {
    const about = { ...ring, about: "", group: "distance", name: "distance", limits: /** @type {[number, number]} */ ([ring.low, ring.high]) };
    rings.push(await new Column(about, n).load());
  }
  $("notes").append(...facts.notes.map((note) => element("p", note)));
  if (n > 0) controls();
  keysAndPointers();
  colourBy(menu("colour").value);
  loaded = true;
  say(`${count(n, "point")} on ${points.axes.length === 1 ? "one axis" : `${points.axes.length} axes`}`);
  map.dataset.ready = "yes";
})();
