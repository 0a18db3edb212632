// The explorable map of a report, third part: which points are meant, what is said of them, and the controls.

// ---- which point, which points ----

/** The shown point nearest to a place of the screen; a layer's before the map's. @param {Pair} place @param {number} within @returns {Hit | null} */
function nearest([left, top], within) {
  const panel = panelAt(left);
  let [least, found] = [within * within, /** @type {Hit | null} */ (null)];
  for (const layer of layers) {
    for (let i = 0; layer.drawn && i < layer.n; i++) {
      const at = spot(panel, { set: layer, i });
      const far = at ? (at[0] - left) ** 2 + (at[1] - top) ** 2 : Infinity;
      if (far < least) [least, found] = [far, { set: layer, i }];
    }
  }
  if (found) return found;
  const { x, y } = panel;
  const [u, v] = toData(panel, left, top);
  const [ax, bx, ay, by] = [x.step * view.across, (x.low - x.step - u) * view.across, y.step * view.up, (y.low - y.step - v) * view.up];
  let one = -1;
  for (let i = 0; i < n; i++) {
    const dx = x.at[i] * ax + bx;
    if (dx > within || dx < -within) continue;
    const dy = y.at[i] * ay + by;
    const far = dx * dx + dy * dy;
    if (far <= least && y.at[i] && (!shown || shown[i])) [least, one] = [far, i];
  }
  return one < 0 ? null : { set: points, i: one };
}

/** Shown points within a polygon of the screen, by even and odd crossings. @param {Pair[]} polygon */
function within(polygon) {
  const panel = panelAt(polygon[0][0]);
  const { x, y } = panel;
  // The corners in the steps in which points are kept, and which sides cross each of 256 bands upwards.
  const corners = polygon.map((corner) => {
    const [u, v] = toData(panel, ...corner);
    return [(u - x.low) / (x.step || 1) + 1, (v - y.low) / (y.step || 1) + 1];
  });
  const [left, bottom] = [0, 1].map((k) => corners.reduce((least, corner) => Math.min(least, corner[k]), Infinity));
  const [right, top] = [0, 1].map((k) => corners.reduce((most, corner) => Math.max(most, corner[k]), -Infinity));
  /** @param {number} v */
  const band = (v) => Math.min(255, Math.max(0, Math.floor((256 * (v - bottom)) / (top - bottom || 1))));
  /** @type {number[][][]} */ const sides = Array.from({ length: 256 }, () => []);
  corners.forEach(([u, v], k) => {
    const [s, t] = corners[(k || corners.length) - 1];
    for (let b = band(Math.min(v, t)); b <= band(Math.max(v, t)); b++) sides[b].push([u, v, s, t]);
  });
  const found = [];
  for (let i = 0; i < n; i++) {
    const p = x.at[i];
    const q = y.at[i];
    if (!(p >= left && p <= right && q >= bottom && q <= top) || !q || (shown && !shown[i])) continue;
    let inside = false;
    for (const side of sides[band(q)]) {
      if (side[1] > q !== side[3] > q && p < ((side[2] - side[0]) * (q - side[1])) / (side[3] - side[1]) + side[0]) inside = !inside;
    }
    if (inside) found.push(i);
  }
  return found;
}

// ---- what is said of points: tip, panel, tables, CSV ----

/** Names and values of a point. @param {Hit} hit */
function said({ set, i }) {
  const columns = ringed && colour && set === points ? [colour, ...set.columns] : set.columns;
  const found = columns.map((column) => [column.name, column.text(i) || "–"]);
  return set.ids ? [["row", String(set.row(i))], ...found] : found;
}

/** @param {Hit | null} hit */
function hover(hit) {
  if (hit?.i === hovered?.i && hit?.set === hovered?.set) return;
  hovered = hit;
  overlay();
  const at = hit && panels.map((panel) => spot(panel, hit)).find((place) => place);
  $("tip").hidden = !at;
  if (!hit || !at) return;
  const all = said(hit);
  const few = all.length > 10 ? 9 : 10;
  const rows = all.slice(0, few).map(([name, value]) => make("div", [make("span", `${cut(name)} `), cut(value)]));
  if (all.length > few) rows.push(make("div", `and ${all.length - few} more: click`));
  $("tip").replaceChildren(make("div", cut(hit.set.title(hit.i))), ...rows);
  const box = $("tip").getBoundingClientRect();
  $("tip").style.left = `${at[0] > size.width / 2 ? at[0] - box.width - 12 : at[0] + 12}px`;
  $("tip").style.top = `${Math.max(0, Math.min(at[1] - 10, size.height - box.height))}px`;
}

/** @param {Hit | null} hit */
function pick(hit) {
  picked = hit;
  if (ringed && hit) colourBy("rings");
  panel();
  if (hit) say(`Picked ${hit.set.title(hit.i)}`);
  ask();
}

/** The values of the point that is picked. */
function panel() {
  $("picked").hidden = !picked;
  if (!picked) return;
  const { set, i } = picked;
  const axes = set.axes.slice(0, 6).map((axis) => [axis.name, digits(where(axis, i), axis.step)]);
  $("picked").replaceChildren(make("h3", set.title(i)), table([], [...said(picked), ...axes]));
}

/** @param {string[]} headings @param {string[][]} rows */
function table(headings, rows) {
  const head = make("thead", [make("tr", headings.map((text) => make("th", cut(text), { scope: "col" })))]);
  const body = make("tbody", rows.map((row) => make("tr", row.map((text) => make("td", cut(text))))));
  return make("div", [make("table", headings.length ? [head, body] : [body])], { className: "scroll", tabIndex: 0 });
}

/** Mean, or the commonest text and its share, of some points or of all. @param {Column} column @param {number[] | null} among */
function typical(column, among) {
  let [sum, known] = [0, 0];
  const counts = new Uint32Array(column.texts ? column.texts.length + 1 : 1);
  for (let k = 0; k < (among ? among.length : n); k++) {
    const i = among ? among[k] : k;
    if (!column.codes[i]) continue;
    known++;
    if (column.texts) counts[column.codes[i]]++;
    else sum += column.number(i);
  }
  if (!known) return "–";
  if (!column.texts) return `mean ${digits(sum / known, column.step, 4)}`;
  const top = counts.reduce((found, some, code) => (some > counts[found] ? code : found), 0);
  return `${cut(column.texts[top - 1], 40)} (${Math.round((100 * counts[top]) / known)} %)`;
}

/** @param {number[]} found */
function select(found) {
  selection = found;
  const mask = (chosen = found.length ? new Uint8Array(n) : null);
  if (mask) for (const i of found) mask[i] = 1;
  say(found.length ? `${count(found.length, "point")} of ${grouped(n)} selected` : "No point is selected");
  for (const id of ["csv", "clear", "selected"]) $(id).hidden = !found.length;
  ask();
  if (!found.length) return;
  const rows = points.columns.map((column) => [column.name, typical(column, found), (column.whole ||= typical(column, null))]);
  const rest = found.length > 200 ? `The first 200 of ${grouped(found.length)}; the CSV has all.` : "";
  $("selected").replaceChildren(
    table(["column", "selected", "all"], [["points", grouped(found.length), grouped(n)], ...rows]),
    table(headings(), found.slice(0, 200).map((i) => fields(i))), faint(rest),
  );
}

const headings = () => [...(points.ids ? ["id"] : []), "row", ...[...points.axes, ...points.columns].map(({ name }) => name)];
/** @param {number} i @param {number} [most] */
const fields = (i, most) => [
  ...(points.ids ? [points.id(i)] : []), String(points.row(i)),
  ...points.axes.map((axis) => digits(where(axis, i), axis.step, most)), ...points.columns.map((column) => column.text(i, most)),
];

function save() {
  /** @param {string} text */
  const quoted = (text) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  const rows = [headings(), ...selection.map((i) => fields(i, 17))].map((row) => `${row.map(quoted).join(",")}\r\n`);
  const href = URL.createObjectURL(new Blob(rows, { type: "text/csv" }));
  make("a", "", { href, download: "selection.csv" }).click();
  setTimeout(() => URL.revokeObjectURL(href), 10000);
}

// ---- colour, legend, filters ----

/** Distances from the point that has them and is nearest along the data to the one picked. */
function fromPicked() {
  const i = picked && picked.set === points ? picked.i : null;
  const far = rings.map((ring) => (i !== null && ring.codes[i] ? ring.codes[i] : Infinity));
  const k = far.indexOf(Math.min(...far));
  const at = facts.rings?.kept[k].at ?? 0;
  const others = i === null ? "Click a point for distances from near it." : `It is the nearest to ${points.id(i)} of the ${rings.length} points that have them.`;
  rings[k].about = `Distances along the data from ${points.id(at)}. ${at === i ? "" : others}`;
  return rings[k];
}

/** @param {string} value A column's number, "rings", or "" for none. */
function colourBy(value) {
  ringed = value === "rings";
  colour = ringed ? fromPicked() : value === "" ? null : points.columns[Number(value)];
  $("about").textContent = colour?.about ?? "";
  legend();
  panel();
  if (oneAxis) again();
  ask();
}

function again() {
  lay();
  reset();
}

function filter() {
  const active = [...points.columns, ...rings].filter((column) => column.filters);
  const mask = (shown = active.length ? new Uint8Array(n) : null);
  let left = 0;
  for (let i = 0; mask && i < n; i++) if (active.every((column) => column.passes(i))) left += mask[i] = 1;
  const all = button("Show all", () => {
    for (const column of active) [column.range, column.on] = [[-Infinity, Infinity], column.on.map(() => true)];
    legend();
    filter();
  });
  const words = `${grouped(left)} of ${grouped(n)} shown, by ${active.map(({ name }) => cut(name)).join(", ")}`;
  $("shown").replaceChildren(...(mask ? [make("span", words), all] : []));
  hover(null);
  ask();
}

function legend() {
  const [column, colours] = [colour, palette()];
  $("legend").replaceChildren(...(!column ? [] : column.shown < 0 ? scale(column, colours) : [kinds(column, colours)]));
}

/** A button for each category. @param {Column} column @param {Uint32Array} colours */
function kinds(column, colours) {
  const counts = new Array(column.shown + 2).fill(0);
  for (let i = 0; i < n; i++) counts[column.kind(i)]++;
  /** @type {[number, HTMLElement][]} */ const entries = [];
  /** @param {number} kind @param {boolean} alone */
  const toggle = (kind, alone) => {
    column.on = column.on.map((on, other) => (alone ? other === kind : on !== (other === kind)));
    for (const [other, entry] of entries) entry.ariaPressed = String(column.on[other]);
    filter();
  };
  counts.forEach((some, kind) => {
    if (!some) return;
    const named = kind < column.shown ? (column.texts ? column.texts[kind] : digits(column.table?.[kind] ?? NaN, 0)) : "";
    const name = kind < column.shown ? named : kind > column.shown ? "no value" : column.shown ? "others" : "all values";
    const dot = make("i");
    dot.style.background = css(colours[kind < column.shown ? kind : 255]);
    entries.push([kind, make("button", [dot, make("span", cut(name)), make("span", grouped(some))], {
      type: "button", title: name, ariaPressed: String(column.on[kind]), ondblclick: () => toggle(kind, true),
      onclick: (/** @type {MouseEvent} */ event) => toggle(kind, event.shiftKey),
    })]);
  });
  return make("div", entries.map(([, entry]) => entry), { className: "kinds", role: "group", ariaLabel: "Groups to show" });
}

/** A bar of the scale, and two sliders that filter. @param {Column} column @param {Uint32Array} colours */
function scale(column, colours) {
  const [low, high] = column.limits;
  const bar = make("div", "", { className: "bar" });
  bar.style.background = `linear-gradient(to right, ${Array.from({ length: 128 }, (_, k) => css(colours[2 * k])).join(", ")})`;
  const ends = [low, high].map((end) => make("span", digits(end, column.step, 4)));
  const sliders = ["from", "to"].map((name, k) => {
    const at = column.range[k];
    const value = String(Number.isFinite(at) ? Math.round((1000 * (at - low)) / (high - low)) : 1000 * k);
    const slider = make("input", "", { type: "range", min: "0", max: "1000", ariaLabel: `${column.name}: ${name}`, oninput: () => {
      const part = Number(slider.value);
      // At its end a slider leaves values beyond the scale in.
      column.range[k] = part === 1000 * k ? [-Infinity, Infinity][k] : low + ((high - low) * part) / 1000;
      ends[k].textContent = digits(low + ((high - low) * part) / 1000, column.step, 4);
      filter();
    } });
    slider.value = value;
    return slider;
  });
  let [missing, beyond] = [0, 0];
  for (let i = 0; i < n; i++) {
    if (!column.codes[i]) missing++;
    else if (column.number(i) < low || column.number(i) > high) beyond++;
  }
  const far = beyond ? `${count(beyond, "value")} beyond the scale's ends: they have the end's colour. ` : "";
  const none = missing ? `${count(missing, "point")} without a value: ${oneAxis ? "left out" : "grey"}.` : "";
  return [bar, make("div", ends, { className: "ends" }), make("div", sliders, { className: "row" }), faint(far + none)];
}

// ---- the controls ----

/** @param {string} wanted */
function find(wanted) {
  const text = wanted.trim().toLowerCase();
  /** @type {number[][]} */ const [exact, part] = [[], []];
  for (let i = 0; text && i < n; i++) {
    const id = (points.ids ? points.id(i) : String(points.row(i))).toLowerCase();
    if (id.includes(text)) (id === text ? exact : part).push(i);
  }
  const hits = [...exact, ...part.slice(0, 12)];
  const total = exact.length + part.length;
  const found = hits.slice(0, 12).map((i) => button(cut(points.id(i)), () => goTo(i)));
  $("hits").replaceChildren(make("p", found, { className: "row" }), faint(total > 12 ? `${grouped(total)} found, 12 listed` : ""));
  if (text) say(total ? `${grouped(total)} found` : "Nothing found");
  return hits;
}

/** Picks a point, and moves to it if it is out of view. @param {number} i */
function goTo(i) {
  const [one] = panels;
  pick({ set: points, i });
  const at = spot(one, { set: points, i });
  const inside = at && at[0] > one.left && at[0] < one.left + one.width && at[1] > one.top && at[1] < one.top + one.height;
  if (at && !inside) [view.x, view.y] = [where(one.x, i), where(one.y, i)];
}

/** @param {string} wanted */
function setMode(wanted) {
  mode = over.dataset.mode = wanted;
  for (const one of modes) one.ariaPressed = String(one.dataset.mode === mode);
}
/** @type {NodeListOf<HTMLElement>} */ const modes = map.querySelectorAll("button[data-mode]");

function controls() {
  const [x, y, colours] = [$("x"), $("y"), $("colour")];
  /** @param {string} text @param {string | number} value */
  const option = (text, value) => make("option", text, { value: String(value) });
  const groups = ["columns", "how well points are kept", "distance"].map((label) => make("optgroup", "", { label }));
  points.columns.forEach((column, k) => groups[column.said.group === "quality" ? 1 : 0].append(option(cut(column.name), k)));
  if (rings.length) groups[2].append(option("distance from a clicked point", "rings"));
  colours.append(...groups.filter((one) => one.children.length), option("none", ""));
  colours.value = points.columns.length ? "0" : "";
  colours.onchange = () => colourBy(colours.value);
  for (const one of [x, y]) {
    one.append(...points.axes.map((axis, k) => option(axis.name, k)));
    one.onchange = () => {
      [across, up] = x.value === y.value ? [up, across] : [Number(x.value), Number(y.value)];
      [x.value, y.value] = [across, up];
      again();
    };
  }
  [x.value, y.value] = [across, up];
  $("axes").hidden = points.axes.length < 3;
  /** @param {string} name @param {string} title @param {(on: boolean) => void} change */
  const box = (name, title, change) => {
    const made = make("input", "", { type: "checkbox", onchange: () => change(made.checked) });
    $("extras").append(make("div", [make("label", [made, ` ${name}`], { title })]));
  };
  for (const layer of layers) box(`${layer.name} (${grouped(layer.n)})`, "", (on) => { layer.drawn = on; again(); });
  for (const edges of facts.edges) {
    box(`${edges.name} (${grouped(edges.pairs.length)})`, edges.about, (on) => { lines[on ? "add" : "delete"](edges); ask(); });
  }
  if (facts.arrows) box(`arrows: ${facts.arrows.name}`, "", (on) => { arrows = on; ask(); });
  if (without.length) box("without the constant beside it", "", (on) => { beside = on; again(); });
  for (const one of modes) one.onclick = () => setMode(one.dataset.mode ?? "");
  $("in").onclick = () => zoom(1.5, middle());
  $("out").onclick = () => zoom(1 / 1.5, middle());
  $("home").onclick = reset;
  $("csv").onclick = save;
  $("clear").onclick = () => select([]);
  $("view").onclick = () => {
    const { left, top, width, height } = panels[0];
    select(within([[left, top], [left + width, top], [left + width, top + height], [left, top + height]]));
  };
  const words = $("find");
  let wait = 0;
  words.oninput = () => {
    clearTimeout(wait);
    wait = setTimeout(() => find(words.value), 150);
  };
  words.onkeydown = (/** @type {KeyboardEvent} */ event) => {
    const hits = event.key === "Enter" ? find(words.value) : [];
    if (hits.length) goTo(hits[0]);
  };
}

function pointers() {
  /** @type {Map<number, Pair>} */ const down = new Map();
  let [start, doing, moved] = [/** @type {Pair} */ ([0, 0]), "", false];
  /** @param {MouseEvent} event @returns {Pair} */
  const place = (event) => [event.offsetX, event.offsetY];
  over.onpointerdown = (/** @type {PointerEvent} */ event) => {
    if (event.button !== 0) return;
    over.setPointerCapture(event.pointerId);
    down.set(event.pointerId, place(event));
    [start, moved, path] = [place(event), down.size > 1, []];
    doing = down.size > 1 ? "move" : event.shiftKey ? "lasso" : mode;
    hover(null);
  };
  over.onpointermove = (/** @type {PointerEvent} */ event) => {
    const [at, before] = [place(event), down.get(event.pointerId)];
    if (!before) return loaded && hover(nearest(at, event.pointerType === "touch" ? 20 : 10));
    moved ||= Math.hypot(at[0] - start[0], at[1] - start[1]) > 4;
    if (!moved) return;
    down.set(event.pointerId, at);
    const other = [...down].find(([id]) => id !== event.pointerId)?.[1];
    if (other) {
      const [wide, was] = [at, before].map((one) => Math.max(1, Math.hypot(one[0] - other[0], one[1] - other[1])));
      pan((at[0] - before[0]) / 2, (at[1] - before[1]) / 2);
      zoom(wide / was, [(at[0] + other[0]) / 2, (at[1] + other[1]) / 2]);
    } else if (doing === "move") pan(at[0] - before[0], at[1] - before[1]);
    else {
      path = doing === "box" ? [start, [at[0], start[1]], at, [start[0], at[1]]] : [...(path.length ? path : [start]), at];
      overlay();
    }
  };
  over.onpointerup = over.onpointercancel = (/** @type {PointerEvent} */ event) => {
    if (!down.delete(event.pointerId)) return;
    const drawn = path;
    path = [];
    ask();
    if (!loaded || event.type === "pointercancel") return;
    if (drawn.length > 2) select(within(drawn));
    else if (!moved && !down.size) pick(nearest(place(event), 14));
  };
  over.onpointerleave = () => hover(null);
  over.addEventListener("wheel", (/** @type {WheelEvent} */ event) => {
    event.preventDefault();
    zoom(Math.exp(Math.max(-1, Math.min(1, (-event.deltaY * (event.deltaMode ? 20 : 1)) / 500))), place(event));
  }, { passive: false });
}

function keys() {
  /** @type {Record<string, () => void>} */
  const actions = {
    ArrowLeft: () => pan(60, 0), ArrowRight: () => pan(-60, 0), ArrowUp: () => pan(0, 60), ArrowDown: () => pan(0, -60), 0: reset,
    "+": () => zoom(1.3, middle()), "=": () => zoom(1.3, middle()), "-": () => zoom(1 / 1.3, middle()),
    Enter: () => pick(nearest(middle(), Math.hypot(size.width, size.height))),
  };
  over.onkeydown = (/** @type {KeyboardEvent} */ event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !actions[event.key]) return;
    event.preventDefault();
    actions[event.key]();
  };
  map.onkeydown = (event) => { if (event.key === "Escape") select([]); };
}

// ---- the start: the first picture, then the rest ----

void (async () => {
  if (!("DecompressionStream" in window)) return; // of 2023; the pictures stay
  map.hidden = false;
  for (const axis of facts.points.axes.slice(0, 2)) points.axes.push(await axisOf(axis, n));
  if (colour) await colour.load();
  again();
  draw();
  performance.mark("map drawn");
  if ($("pictures")) $("pictures").open = false;
  pointers();
  new ResizeObserver(() => {
    lay();
    const was = home.across;
    whole();
    view.across *= home.across / was;
    view.up = oneAxis ? home.up * (view.across / home.across) : view.across;
    ask();
  }).observe(stage);
  await points.load();
  for (const layer of layers) await layer.load();
  for (const axis of facts.other ?? []) without.push(await axisOf(axis, n));
  for (const ring of facts.rings?.kept ?? []) {
    const more = { about: "", group: "distance", name: "distance", limits: /** @type {Pair} */ ([ring.low, ring.high]) };
    rings.push(await new Column({ ...ring, ...more }, n).load());
  }
  $("notes").append(...facts.notes.map(faint));
  controls();
  keys();
  colourBy($("colour").value);
  dark.onchange = () => { legend(); ask(); };
  loaded = true;
  say(`${count(n, "point")} on ${points.axes.length === 1 ? "one axis" : `${points.axes.length} axes`}`);
  map.dataset.ready = "yes";
})();
