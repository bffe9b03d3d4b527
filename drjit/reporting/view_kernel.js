// 3: one kernel as the program's lines, its text, LLVM IR and machine code, side by side.

// Words of Python and kernel texts, and of LLVM IR and assembly: comments, strings, values and
// registers, types, numbers, and the first word of a statement.
const PYTHON = new RegExp(data.token, "g");
const MACHINE = new RegExp([
  /(?<f>[;#].*|\/\/.*)|(?<s>"[^"]*")|(?<o>[%@!$][-\w.]+)/,
  /(?<t>\b(?:i\d+|half|float|double|ptr|void|[xyz]mm\d+|k[0-7]|r\d+[dwb]?|[er][a-ds][xip])\b)/,
  /(?<d>(?<![\w.])-?(?:0x[\da-f]+|\d+(?:\.\d+)?(?:e[-+]?\d+)?)\b)/,
  /(?<k>(?<=^\s*(?:[%@][-\w.]+ = )?(?:tail )?)[a-z_][\w.]*(?![\w.]*:))/,
].map(part => part.source).join("|"), "gi");
const escaped = text => text.replace(/[&<>]/g, c => ({"&": "&amp;", "<": "&lt;", ">": "&gt;"})[c]);
function colored(line, language) {
  let html = "", at = 0;
  for (const {0: text, index, groups} of line.matchAll(language)) {
    const kind = Object.keys(groups).find(name => groups[name] !== undefined);
    html += `${escaped(line.slice(at, index))}<span class=${kind}>${escaped(text)}</span>`;
    at = index + text.length;
  }
  return html + escaped(line.slice(at));
}

// The names that the program gave to values, in place of `v5`; other functions have none.
let named = true;
function kernelLine(kernel, number) {
  const text = kernel.text?.[number - 1] || "", names = kernel.names || {};
  const others = kernel.text?.findIndex((line, k) => k && line.startsWith("def ")) ?? -1;
  return colored(!named || (others > 0 && number > others) ? text :
    text.replace(/\b[a-z]\w*\b/g, v => Object.hasOwn(names, v) ? names[v] : v), PYTHON);
}
const nameSwitch = redraw => el("button", {"aria-pressed": named,
  title: "Names of the program in place of v5", onclick: event => {
    event.target.setAttribute("aria-pressed", named = !named);
    redraw();
  }}, "Names");

views.kernel = (() => {
  const NAMES = {program: "Program", text: "Kernel text", ir: "LLVM IR", asm: "Assembly"};
  if (data.kernels.some(k => k.sass?.length)) NAMES.sass = "SASS";
  const hidden = new Set();
  let chosen = 0, kernel, columns, body, about, select, pinned = false, pointed = ["text", -1];

  // Each column has the HTML and number of its lines, and which lines of the text (from 0) each
  // belongs to; null stands for lines left out.
  function programLines() {
    const rows = [], files = new Map();
    (kernel.places || []).forEach((p, t) => {
      const [path, line] = place(p), file = files.get(path) || files.set(path, new Map()).get(path);
      if (path) file.set(line, [...(file.get(line) || []), t]);
    });
    files.delete("");
    for (const [path, used] of files) {
      const near = new Set([...used.keys()].flatMap(line => [-2, -1, 0, 1, 2].map(k => line + k)));
      let last = 0;
      rows.push([escaped(path), "", null]);
      for (const line of [...near].sort((a, b) => a - b)) {
        const html = sourceLine(path, line);
        if (html === null && !used.has(line)) continue;
        if (last && line > last + 1) rows.push(["⋯", "", null]);
        rows.push([html ?? "(not in the report)", line, used.get(line) || []]);
        last = line;
      }
    }
    return rows;
  }
  // A statement without an instruction of its own, such as a fused product, belongs to the other's.
  function listed(lines = [], links = []) {
    const absorbed = Map.groupBy ? Map.groupBy(kernel.absorbed || [], pair => pair[1]) : new Map();
    return lines.map((line, k) => [colored(line, MACHINE), k + 1, !links[k] ? [] :
      [links[k] - 1, ...(absorbed.get(links[k]) || []).map(([other]) => other - 1)]]);
  }

  function draw(name, index) {
    const text = (kernel.text || []).map((_, k) => [kernelLine(kernel, k + 1), k + 1, [k]]);
    const contents = {program: programLines(), text, ir: listed(kernel.ir, kernel.ir_lines),
      asm: listed(kernel.asm, kernel.asm_lines), sass: listed(kernel.sass, kernel.sass_lines)};
    columns = {};
    for (const [column, lines] of Object.entries(contents)) if (column in NAMES && !hidden.has(column)) {
      const rows = lines.map(([html, number, used]) => codeLine(number, html,
        used === null ? "div.gap" : column === "program" && used.length ? "div.used" : "div"));
      const box = el("div.code", {tabindex: 0, role: "region", "aria-label": NAMES[column],
        "data-column": column}, rows, rows.length ? null : el("p.soft", missing(column)));
      const at = event => rows.indexOf(event.target.closest(".code > div"));
      box.addEventListener("mousemove", event => pinned || point(column, at(event)));
      box.addEventListener("click", event => { point(column, at(event)); pin(); });
      columns[column] = {rows, box, links: lines.map(line => line[2])};
    }
    body.replaceChildren(...Object.entries(columns).map(([column, {box, rows}]) => {
      const title = column === "asm" && kernel.asm_kind || NAMES[column];
      return el("section.panel", el("h2", title,
        el("span.soft", ` ${plural(rows.length, "line")}`)), box);
    }));
    pointed = ["", -1];
    point(name, index, true);
  }
  const missing = column => column === "program" ? "The lines of the program are not known." :
    !kernel.text?.length ? "The report keeps the code of the kernels that cost most." :
      /numpy|python/.test(kernel.state) ? `It ran on ${kernel.state}: there is no machine code.` :
        "The report does not hold it.";

  // Lights up what belongs to a line, and scrolls it there in the other columns.
  function point(column, index, reveal = false) {
    const links = columns[column]?.links[index], used = new Set(links);
    if (!links || !reveal && pointed[0] === column && pointed[1] === index) return;
    pointed = [column, index];
    for (const [other, {rows, box, ...texts}] of Object.entries(columns)) {
      rows.forEach((row, k) => {
        const own = other === column && k === index;
        row.classList.toggle("lit", own || !!texts.links[k]?.some(t => used.has(t)));
        row.classList.toggle("point", own);
      });
      const first = other === column ? rows[index] : rows.find(row => row.matches(".lit"));
      if (!first || other === column && !reveal) continue;
      const top = first.offsetTop - box.scrollTop, tall = box.clientHeight;
      if (top < 20 || top > tall - 40) box.scrollTop = first.offsetTop - tall / 3;
    }
  }
  function pin() {
    pinned = true;
    if (pointed[1] >= 0) go("kernel", [chosen, ...pointed], true);
  }
  function walk(step) { // to another line of the column
    if (!columns[pointed[0]]) return;
    const {links, box} = columns[pointed[0]];
    let k = pointed[1] + step;
    while (links[k] === null) k += step;
    box.focus({preventScroll: true});
    point(pointed[0], k, true);
  }
  function turn(step) { // to the line of another column
    const names = Object.keys(columns).filter(name => columns[name].rows.length);
    if (!names.length) return;
    const name = names[clamp(names.indexOf(pointed[0]) + step, 0, names.length - 1)];
    const {rows, box} = columns[name], lit = rows.findIndex(row => row.matches(".lit"));
    box.focus({preventScroll: true});
    point(name, name === pointed[0] ? pointed[1] : Math.max(0, lit), true);
  }
  const other = step => go("kernel", [clamp(chosen + step, 0, data.kernels.length - 1)]);

  return {
    title: "A kernel", missing: () => views.kernels.missing(),
    build(root) {
      const titles = data.kernels.map(k => `${k.title} (${seconds(k.seconds)})`);
      select = picker("Kernel", titles, k => go("kernel", [k]));
      const toggle = column => event => {
        if (!hidden.delete(column)) hidden.add(column);
        event.target.setAttribute("aria-pressed", !hidden.has(column));
        draw(...pointed);
      };
      const toggles = Object.entries(NAMES).map(([column, text]) =>
        el("button", {"aria-pressed": true, onclick: toggle(column)}, text));
      about = el("div.panel");
      body = el("div.columns");
      root.append(el("div.bar", select, el("span.soft", "Columns"), toggles,
        nameSwitch(() => draw(...pointed))), about, body);
    },
    show([index, column, line]) {
      chosen = data.kernels[index] ? Number(index) : chosen;
      const other = kernel !== data.kernels[chosen];
      kernel = data.kernels[select.value = chosen];
      const {launches, bound} = kernel, words = kernel.words || [];
      about.replaceChildren(el("p", el("strong", kernel.title),
        ` · ${plural(launches, "launch", "launches")} in ${seconds(kernel.seconds)}`,
        bound && `, ${percent(kernel.share)} of the limit, bound by ${bound}`, ". ",
        el("code.soft", kernel.name)), el("ul.words", words.map(word => el("li", prose(word)))));
      pinned = Object.hasOwn(NAMES, column);
      if (other) draw("text", Math.max(0, (kernel.places || []).findIndex(p => p > 0)));
      if (pinned) point(column, Number(line), true);
    },
    keys: [
      ["↑ , ↓", "line, and what belongs to it",
        {ArrowUp: () => walk(-1), ArrowDown: () => walk(1)}],
      ["← , →", "column", {ArrowLeft: () => turn(-1), ArrowRight: () => turn(1)}],
      ["Enter", "hold the line", {Enter: pin}],
      ["Esc", "let it go", {Escape: () => { pinned = false; }}],
      ["[ , ]", "kernel before, next", {"[": () => other(-1), "]": () => other(1)}],
    ],
  };
})();
