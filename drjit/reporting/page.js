"use strict";
// What all views share: elements, numbers, places in the program, tabs, keys and addresses.

const packed = atob(document.getElementById("data").textContent);
const unpacked = new Blob([Uint8Array.from(packed, letter => letter.charCodeAt(0))]).stream()
  .pipeThrough(new DecompressionStream("deflate"));
const data = await new Response(unpacked).json();
for (const list of ["places", "threads", "events", "memory", "kernels", "why", "lanes",
  "derivatives", "lost"]) data[list] ||= [];
const program = data.program || {};
data.kernels = data.kernels.map(kernel => ({launches: 0, seconds: 0, gain: 0, share: 0, read: 0,
  written: 0, operations: 0, name: "", ...kernel, title: kernelTitle(kernel)}));
data.lanes = data.lanes.filter(record => record.steps.length);
function kernelTitle({title = "a kernel", name = ""}) { // several of one line have names as well
  const several = data.kernels.filter(other => other.title === title).length > 1;
  return several ? `${title} ${name.slice(0, 5)}` : title;
}
// By name, in the order of the tabs: {title, missing, build, show, redraw, keys}. `keys` has rows
// of what the list of keys shows, and of functions by the key that calls them.
const views = {};

// Elements: el("div.panel", {id: "a"}, "text", other elements). Attributes that are functions are
// called for events; `html` was made by page.py, or by `colored`, which escape it.
function fill(node, parts) {
  for (const part of parts.flat(3)) {
    if (part === null || part === undefined || part === false) continue;
    if (typeof part !== "object" || part instanceof Node) { node.append(part); continue; }
    for (const [name, value] of Object.entries(part)) {
      if (name === "html") node.innerHTML = value;
      else if (typeof value === "function") node.addEventListener(name.slice(2), value);
      else if (value !== null && value !== undefined) node.setAttribute(name, value);
    }
  }
  return node;
}
function el(kind, ...parts) {
  const [name, ...classes] = kind.split("."), node = document.createElement(name);
  if (classes.length) node.className = classes.join(" ");
  return fill(node, parts);
}
const svg = (name, ...parts) =>
  fill(document.createElementNS("http://www.w3.org/2000/svg", name), parts);
const button = (text, action, name) => el("button", {onclick: action}, text,
  name && {title: name, "aria-label": name});
const link = (text, action) => el("button.plain", {onclick: action}, text);
const picker = (name, texts, action) => el("select", {"aria-label": name,
  onchange: event => action(event.target.value)},
texts.map((text, k) => el("option", {value: k}, text)));
const swatch = name => el("i", {style: `background:var(--${name})`});
const legend = items => items.map(([name, text]) => el("li", swatch(name), text));

// A table whose rows, [whether it is the chosen one, action, cells], open something. Columns but
// for the first `texts` are numbers.
function table(heads, rows, texts = 1) {
  const kind = (name, k) => k < texts ? name : `${name}.number`;
  return [el("thead", el("tr", heads.map((head, k) => el(kind("th", k), {scope: "col"}, head)))),
    el("tbody", rows.map(([chosen, action, cells]) =>
      el(chosen ? "tr.open.chosen" : "tr.open", {onclick: action},
        cells.map((cell, k) => el(kind("td", k), cell)))))];
}

// A slider between buttons, for steps in time.
function stepper(name, move) {
  const slider = el("input", {type: "range", min: 0, "aria-label": name,
    oninput: () => move(Number(slider.value))});
  const label = el("span.soft.step", {"aria-live": "polite"});
  const by = step => move(Number(slider.value) + step);
  return {
    parts: [button("←", () => by(-1), "Step back (←)"), slider,
      button("→", () => by(1), "Step (→)"), label],
    set(at, last, text) {
      slider.max = last;
      slider.value = at;
      slider.setAttribute("aria-valuetext", label.textContent = text);
    },
  };
}

// Numbers, with three digits and a unit.
const clamp = (x, low, high) => Math.max(low, Math.min(high, x));
const sum = numbers => numbers.reduce((a, b) => a + b, 0);
const plural = (n, word, words = word + "s") =>
  `${n.toLocaleString("en")} ${n === 1 ? word : words}`;
function scaled(value, units) {
  let k = 0;
  while (Math.abs(value) >= 1000 && k < units.length - 1) { value /= 1000; k++; }
  const size = Math.abs(value), digits = size >= 100 ? 0 : size >= 10 ? 1 : 2;
  if (Number.isInteger(value)) return `${value} ${units[k]}`.trim();
  return `${value.toFixed(digits)} ${units[k]}`.trim();
}
const duration = us => us >= 6e7 ? `${Math.floor(us / 6e7)} min ${(us % 6e7 / 1e6).toFixed(0)} s` :
  us && us < 1 ? scaled(us * 1000, ["ns"]) : scaled(us, ["µs", "ms", "s"]);
const seconds = s => duration(s * 1e6);
const bytes = n => scaled(n, ["B", "kB", "MB", "GB", "TB"]);
const count = n =>
  n < 1e5 ? Math.round(n).toLocaleString("en") : scaled(n, ["", "k", "M", "G", "T"]);
const percent = x => `${(100 * x).toFixed(x && x < 0.1 ? 1 : 0)}%`;
const short = v => String(typeof v !== "number" || Number.isInteger(v) ? v : +v.toPrecision(5));

// Places in the program.
const place = p => data.places[p] || ["", 0, ""];
function where(p) {
  const [path, line, name] = place(p), file = path.split(/[\\/]/).pop();
  if (!path) return "an unknown line";
  return `${file}:${line}${name && name !== "<module>" ? " " + name : ""}`;
}
function sourceLine(path, line) {
  for (const [first, lines] of data.files?.[path] || []) {
    if (line >= first && line < first + lines.length) return lines[line - first];
  }
  return null;
}
function located(p) { // a place, and what stands there
  const html = sourceLine(...place(p));
  return [el("strong", where(p)), " ", html === null ? null : el("code", {html: html.trim()})];
}
const codeLine = (number, html, kind = "div") => el(kind, {"data-n": number}, el("span", {html}));
function around(p, extent = 2) { // the lines around a place
  const [path, line] = place(p), lines = [];
  for (let n = line - extent; n <= line + extent; n++) lines.push([n, sourceLine(path, n)]);
  const known = lines.filter(([, html]) => html !== null);
  const indent = Math.min(...known.map(([, html]) => html.trim() ? html.search(/\S/) : Infinity));
  return el("div.code.part", known.map(([n, html]) =>
    codeLine(n, html.slice(indent), n === line ? "div.lit" : "div")));
}
// A sentence in which `names` are code.
const prose = text => text.split("`").map((part, k) => k % 2 ? el("code", part) : part);

// Colours of the style sheet, as a canvas needs them.
let palette = {};
function color(name) {
  if (!palette[name]) {
    const probe = document.body.appendChild(el("i", {style: `color:var(--${name})`}));
    palette[name] = getComputedStyle(probe).color;
    probe.remove();
  }
  return palette[name];
}
function canvasContext(canvas, height) { // in pixels of the page
  const ratio = devicePixelRatio || 1, context = canvas.getContext("2d");
  canvas.style.height = `${height}px`;
  canvas.width = canvas.clientWidth * ratio;
  canvas.height = height * ratio;
  context.scale(ratio, ratio);
  return context;
}

const tipBox = document.getElementById("tip");
function tip(x, y, ...parts) {
  tipBox.replaceChildren();
  fill(tipBox, parts).hidden = false;
  const {width, height} = tipBox.getBoundingClientRect();
  tipBox.style.left = `${clamp(x + 14, 4, Math.max(4, innerWidth - width - 4))}px`;
  tipBox.style.top = `${y + 18 + height > innerHeight ? Math.max(4, y - height - 10) : y + 18}px`;
}
const untip = () => { tipBox.hidden = true; };

// Addresses: #view/argument/argument opens the same place again.
let current = "";
function go(view, args = [], replace = false) {
  const hash = "#" + [view, ...args].map(encodeURIComponent).join("/");
  try {
    if (hash !== location.hash) history[replace ? "replaceState" : "pushState"](null, "", hash);
  } catch { /* a page inside of a notebook has no address */ }
  show(view, args);
}
function route() {
  const [view, ...args] = location.hash.slice(1).split("/").map(decodeURIComponent);
  show(Object.hasOwn(views, view) ? view : Object.keys(views)[0], args);
}
function show(name, args) {
  const view = views[name], missing = view.missing();
  const root = document.getElementById(`view-${name}`);
  untip();
  for (const other of Object.keys(views)) {
    const tab = document.getElementById(`tab-${other}`), chosen = other === name;
    tab.setAttribute("aria-selected", chosen);
    tab.tabIndex = chosen ? 0 : -1;
    document.getElementById(`view-${other}`).hidden = !chosen;
    if (chosen && name !== current) tab.scrollIntoView({block: "nearest", inline: "nearest"});
  }
  current = name;
  if (!root.firstChild) {
    if (missing) {
      const [title, text, code] = missing;
      root.append(el("div.panel.empty", el("h2", title), el("p", text), el("pre", code)));
    } else view.build(root);
  }
  if (!missing) view.show(args);
}

function header() {
  const ended = program.ended || "completed";
  const total = field => sum(data.kernels.map(k => k[field] || 0));
  const peak = data.memory.reduce((most, [, size]) => Math.max(most, size), 0);
  const facts = {
    Took: seconds(program.seconds || 0), Kernels: count(data.kernels.length),
    Launches: count(total("launches")), "In kernels": seconds(total("seconds")),
    Compiling: seconds(total("compile_seconds")), Memory: peak ? bytes(peak) : "–",
    Device: program.device, Python: program.python, "Dr.Jit": program.drjit,
  };
  fill(document.getElementById("header"), [
    el("div.head", el("h1", program.command || "Report"),
      el(ended === "completed" ? "span.badge" : "span.badge.bad", ended),
      el("span.soft", (program.started || "").replace("T", " ").slice(0, 16)),
      el("div.right", el("button", {id: "theme", onclick: () => setTheme(true)}),
        el("button", {onclick: help, "aria-haspopup": "dialog"}, "Keys ", el("kbd", "?")))),
    el("dl.facts", Object.entries(facts).map(([name, value]) =>
      el("div", el("dt", name), el("dd", value || "–")))),
    program.error && el("details", el("summary", "The program ended with: ",
      el("strong", program.error.trim().split("\n").pop())), el("pre", program.error)),
    program.notes?.length > 0 && el("details",
      el("summary", plural(program.notes.length, "note"), " on what this report holds"),
      el("ul", program.notes.map(note => el("li", prose(note))))),
  ]);
}

function setTheme(next) {
  const root = document.documentElement, system = matchMedia("(prefers-color-scheme: dark)");
  let theme = root.dataset.theme || (system.matches ? "dark" : "light");
  if (next) root.dataset.theme = theme = theme === "dark" ? "light" : "dark";
  document.getElementById("theme").textContent = theme === "dark" ? "☀ Light" : "☾ Dark";
  palette = {};
  views[current]?.redraw?.();
}

const general = [["1 – 6", "the views", {}], ["t", "light or dark", {t: () => setTheme(true)}],
  ["?", "this list", {"?": help}], ["Esc", "closes it", {}]];
function help() {
  const dialog = document.getElementById("keys");
  const keys = shown => shown.split(" ").map(key =>
    /^[–,]$/.test(key) ? ` ${key} ` : el("kbd", key));
  const rows = list => el("table", list.map(([shown, text]) =>
    el("tr", el("td", keys(shown)), el("td", text))));
  dialog.replaceChildren(el("form.head", {method: "dialog"}, el("h2", "Keys"),
    el("div.right", el("button", "Close"))), rows(general));
  fill(dialog, Object.values(views).map(view => [el("h2", view.title), rows(view.keys)]));
  dialog.showModal();
}

function onKey(event) {
  const {target, key} = event, names = Object.keys(views), at = names.indexOf(current);
  const typing = target.tagName === "SELECT" || event.ctrlKey || event.metaKey || event.altKey;
  if (typing || document.getElementById("keys").open) return;
  if (["Enter", " "].includes(key) && /^(BUTTON|SUMMARY)$/.test(target.tagName)) return;
  const tab = {ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: names.length - 1}[key];
  if (target.role === "tab" && tab !== undefined) {
    const name = names[(tab + names.length) % names.length];
    go(name);
    document.getElementById(`tab-${name}`).focus();
  } else if (names[key - 1]) go(names[key - 1]);
  else {
    const rows = views[current].missing() ? general : [...general, ...views[current].keys];
    const name = event.shiftKey && key.length > 1 ? `Shift+${key}` : key;
    const action = rows.map(row => row[2][name]).find(Boolean);
    if (!action) return;
    action();
  }
  event.preventDefault();
}

function start() { // when all views are there
  header();
  Object.entries(views).forEach(([name, view], k) => {
    document.getElementById("tabs").append(el("button", {role: "tab", id: `tab-${name}`,
      "aria-controls": `view-${name}`, onclick: () => go(name)}, el("kbd", k + 1), view.title));
    document.getElementById("main").append(el("section", {role: "tabpanel", id: `view-${name}`,
      "aria-labelledby": `tab-${name}`}));
  });
  setTheme(false);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => setTheme(false));
  addEventListener("keydown", onKey);
  addEventListener("popstate", route);
  addEventListener("resize", () => views[current].redraw?.());
  route();
}
