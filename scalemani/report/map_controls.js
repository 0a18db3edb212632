// The explorable map of a report, third part: which points are meant, what is said of them, and the controls.

/** @type {number[]} */ let selection = [];
const everyone = Uint32Array.from({ length: n }, (_, i) => i);

/** An element. @param {string} tag @param {object} properties @param {(string | Node)[]} inside @returns {any} */
function make(tag, properties, ...inside) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...inside);
  return made;
}

const say = (text = "") => ($("said").textContent = text);
const count = (value = 0, noun = "") => `${value.toLocaleString("en-GB")}${noun && ` ${noun}${value === 1 ? "" : "s"}`}`;

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
  /** @param {string} tag @param {string[]} row */
  const line = (tag, row) => make("tr", {}, ...row.map((text) => make(tag, {}, text)));
  $(id).replaceChildren(make("thead", {}, line("th", headings)), ...rows.map((row) => line("td", row)));
}

/** Headings, then the axes and columns of points. @param {Iterable<number>} among @param {Points} set */
function* fields(among, set = points) {
  const axes = set.axes.filter(({ name }) => name);
  yield [...(set.ids ? ["id"] : []), "row", ...axes.map(({ name }) => name), ...set.columns.map(({ name }) => name)];
  for (const i of among) {
    const numbers = axes.map((axis) => digits(number(axis, axis.codes[i]), axis.step));
    const values = set.columns.map((column) => textAt(column, i));
    yield [...(set.ids ? [set.id(i)] : []), String(set.row(i)), ...numbers, ...values];
  }
}

/** A point's name and values. @param {Hit | null} hit */
function card(id = "", hit, most = Infinity) {
  $(id).hidden = !hit;
  if (!hit) return;
  const [names, values] = fields([hit.i], hit.set);
  const rows = names.map((name, k) => [name, values[k] || "–"]).slice(hit.set.ids ? 1 : 0);
  if (colour.group === "rings" && hit.set === points) rows.unshift([colour.name, textAt(colour, hit.i)]);
  const more = rows.length > most ? [[`and ${rows.length - most} more`, "click"]] : [];
  table(id, [], [...rows.slice(0, most), ...more]);
  $(id).createCaption().textContent = hit.set.title(hit.i);
}

function hover(hit = hovered) {
  if (hit?.i === hovered?.i && hit?.set === hovered?.set) return;
  hovered = hit;
  overlay();
  card("tip", hit, 10);
  const [u, v] = (hit && panels.map((panel) => spot(panel, hit)).find((at) => at)) ?? middle();
  const [wide, high] = [stage.clientWidth, stage.clientHeight];
  const beside = u > wide / 2 ? `right: ${wide - u + 12}px` : `left: ${u + 12}px`;
  $("tip").style = `${beside}; ${v > high / 2 ? `bottom: ${high - v - 10}px` : `top: ${v - 10}px`}`;
}

function pick(hit = picked) {
  picked = hit;
  if (hit) say(`Picked ${hit.set.title(hit.i)}`);
  recolour();
}

/** Mean, or the commonest text and its share. @param {Column} column @param {number[] | Uint32Array} among */
function typical(column, among) {
  const counts = new Uint32Array(column.top + 1);
  for (const i of among) counts[column.codes[i]]++;
  const known = among.length - counts[0];
  const top = counts.reduce((most, some, code) => (code > 1 && some > counts[most] ? code : most), 1);
  if (!known) return "–";
  if (column.texts) return `${column.texts[top]} (${Math.round((100 * counts[top]) / known)} %)`;
  let sum = 0;
  for (const i of among) sum += numberAt(column, i) || 0;
  return `mean ${digits(sum / known, column.step)}`;
}

function select(found = selection) {
  selection = found;
  chosen = found.length ? new Uint8Array(n) : null;
  for (const i of found) if (chosen) chosen[i] = 1;
  say(chosen ? `${count(found.length, "point")} of ${count(n)} selected` : "No point is selected");
  $("selection").hidden = !chosen;
  ask();
  if (!chosen) return;
  const [headings, ...rows] = fields(found.slice(0, 200));
  table("rows", headings, rows);
  const typicals = points.columns.map((column) => [column.name, typical(column, found), typical(column, everyone)]);
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
  const at = rings[k].at ?? 0;
  const nearer = `, the nearest to ${points.id(i)} of the ${rings.length} points that have them`;
  const near = i < 0 ? ". Click a point for others" : nearer;
  return { ...rings[k], about: `Distances along the data from ${points.id(at)}${i === at ? "" : near}.` };
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
  const left = mask?.reduce((sum, one) => sum + one, 0) ?? n;
  $("left").textContent = `${count(left)} of ${count(n)} shown, by ${active.map((column) => column.name).join(", ")}`;
  hover(null);
  ask();
}

/** Shows some codes of the colour's column. @param {(code: number) => boolean} passes */
function show(passes) {
  colour.on.set(colour.on.map((_, code) => Number(passes(code))));
  legend();
}

/** Lists points whose id or row has what is sought: first those that are it. */
function find() {
  const wanted = $("find").value.trim().toLowerCase();
  const id = (i = 0) => String(points.ids ? points.ids[i] : points.row(i)).toLowerCase();
  const hits = wanted ? [...everyone.filter((i) => id(i).includes(wanted))] : [];
  hits.sort((i, j) => Number(id(j) === wanted) - Number(id(i) === wanted));
  const listed = hits.slice(0, 12).map((i) => make("button", { type: "button", onclick: () => goTo(i) }, points.id(i)));
  $("hits").replaceChildren(...listed);
  say(hits.length ? `${count(hits.length)} found${hits.length > 12 ? ", 12 listed" : ""}` : wanted && "Nothing found");
}

/** Picks a point, and moves to it if it is out of view. */
function goTo(i = 0) {
  pick({ set: points, i });
  const { left, top, width, height, pair: [x, y] } = panels[0];
  const [u, v] = spot(panels[0], { set: points, i }) ?? middle();
  if (u < left || u > left + width || v < top || v > top + height) ask({ ...view, x: number(x, x.codes[i]), y: number(y, y.codes[i]) });
}

/** What each control does. @type {[string, string, (event: any) => void][]} */
const controls = [
  ["in", "onclick", () => zoom(1.5)],
  ["out", "onclick", () => zoom(1 / 1.5)],
  ["home", "onclick", () => ask(home)],
  ["csv", "onclick", save],
  ["clear", "onclick", () => select([])],
  ["view", "onclick", () => {
    const [{ left, top, width, height }] = panels;
    select(within([[left, top], [left + width, top], [left + width, top + height], [left, top + height]]));
  }],
  ["all", "onclick", () => {
    for (const { on } of [...points.columns, ...rings]) on.fill(1);
    legend();
  }],
  ["colour", "onchange", recolour],
  ["extras", "onchange", again],
  ["axes", "onchange", () => {
    const wanted = [Number($("x").value), Number($("y").value)];
    [across, up] = wanted[0] === wanted[1] ? [up, across] : wanted; // they change places
    [$("x").value, $("y").value] = [across, up];
    lay();
    ask(home);
  }],
  ["legend", "onclick", ({ target, shiftKey, detail }) => {
    const { value, dataset: { to } } = target.closest("button") ?? target;
    const [from, alone, was] = [Number(value), shiftKey || detail > 1, colour.on[value]];
    if (to) show((code) => (code >= from && code < to ? alone || !was : !alone && colour.on[code] === 1));
  }],
  ["scale", "oninput", () => {
    const [from, to] = [Number($("from").value), Number($("to").value)];
    show((code) => (from === 1 && to === colour.top) || (code >= from && code <= to));
  }],
  ["find", "oninput", find],
  ["search", "onsubmit", (event) => {
    event.preventDefault();
    $("hits").firstChild?.click();
  }],
  ["over", "onkeydown", (event) => {
    /** @type {Record<string, () => void>} */
    const keys = {
      ArrowLeft: () => pan(60), ArrowRight: () => pan(-60), ArrowUp: () => pan(0, 60), ArrowDown: () => pan(0, -60),
      "+": () => zoom(1.5), "=": () => zoom(1.5), "-": () => zoom(1 / 1.5), 0: () => ask(home),
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
    ask();
    if (drawn.every(([u, v]) => Math.hypot(u - start[0], v - start[1]) <= 4)) pick(nearest(start, 14));
    else if (mode !== "move") select(within(drawn));
  }],
  ["over", "onpointercancel", () => (path = [])],
  ["over", "onpointerleave", () => hover(null)],
  ["over", "onwheel", (event) => {
    event.preventDefault();
    const power = (-event.deltaY * (event.deltaMode ? 20 : 1)) / 500;
    zoom(Math.exp(Math.max(-1, Math.min(1, power))), [event.offsetX, event.offsetY]);
  }],
];

void (async () => {
  if (!("DecompressionStream" in window)) return; // of 2023; the pictures stay
  $("").hidden = false;
  for (const axis of facts.points.axes.slice(0, 2)) points.axes.push(await axisOf(axis, n));
  for (const column of facts.points.columns.slice(0, 1)) points.columns.push(await columnOf(column, n));
  plain = await columnOf(facts.plain, n);
  colour = points.columns[0] ?? plain;
  lay();
  view = home;
  draw();
  performance.mark("map drawn");
  if ($("pictures")) $("pictures").open = false;
  new ResizeObserver(again).observe(stage);
  for (const set of [points, ...layers]) await set.load();
  for (const axis of facts.other) without.push(await axisOf(axis, n));
  for (const ring of facts.rings) rings.push(await columnOf(ring, n));
  for (const [id, event, handler] of controls) $(id)[event] = handler;
  again();
  recolour();
  matchMedia("(prefers-color-scheme: dark)").onchange = overlay;
  say(count(n, "point"));
  $("").dataset.ready = "yes";
})();
