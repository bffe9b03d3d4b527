// 4: why kernels were compiled: the nearest one that existed, and what differs.

// The lines of two texts, as [mark, line of the first or -1, of the second or -1]. Lines are equal
// if they are so but for the numbers of their variables, which shift where a statement is added.
function difference(one, other) {
  const key = text => text.replace(/\b[vc]\d+\b|\bp\[\d+/g, "·");
  const a = one.map(key), b = other.map(key), result = [];
  let low = 0, m = a.length, n = b.length;
  while (low < m && low < n && a[low] === b[low]) result.push([" ", low, low++]);
  while (m > low && n > low && a[m - 1] === b[n - 1]) { m--; n--; }
  const width = n - low + 1, small = (m - low + 1) * width < 4e6; // longer texts are marked whole
  const best = new Uint32Array(small ? (m - low + 1) * width : 0); // common lines from here on
  const cell = (i, j) => (i - low) * width + j - low;
  for (let i = m - 1; small && i >= low; i--) for (let j = n - 1; j >= low; j--) {
    best[cell(i, j)] = a[i] === b[j] ? best[cell(i + 1, j + 1)] + 1 :
      Math.max(best[cell(i + 1, j)], best[cell(i, j + 1)]);
  }
  let i = low, j = low;
  while (i < m || j < n) {
    if (small && i < m && j < n && a[i] === b[j]) result.push([" ", i++, j++]);
    else if (j === n || i < m && best[cell(i + 1, j)] >= best[cell(i, j + 1)]) {
      result.push(["−", i++, -1]);
    } else result.push(["+", -1, j++]);
  }
  for (; m < a.length; m++, n++) result.push([" ", m, n]);
  return result;
}

views.why = (() => {
  let chosen = 0, list, detail;
  const open = index => go("kernel", [index]);

  function compared(near, kernel) {
    if (!near?.text?.length || !kernel?.text?.length) return null;
    const lines = difference(near.text, kernel.text), rows = [];
    const changed = lines.map(([mark]) => mark !== " ");
    let skipped = 0;
    lines.forEach(([mark, i, j], k) => {
      const shown = changed.slice(Math.max(0, k - 3), k + 4).some(Boolean);
      if (!shown) skipped++;
      if (skipped && (shown || k === lines.length - 1)) {
        rows.push(codeLine("", `⋯ ${plural(skipped, "equal line")}`, "div.gap"));
        skipped = 0;
      }
      const kind = {"−": "div.minus", "+": "div.plus"}[mark] || "div";
      const [number, text] = j < 0 ? [i + 1, near.text[i]] : [j + 1, kernel.text[j]];
      if (shown) rows.push(codeLine(number, `${mark} ${colored(text, PYTHON)}`, kind));
    });
    return el("div.panel", el("h2", "What differs in the texts"),
      el("p.soft", `− ${near.title} (nearest), + ${kernel.title} (new)`), changed.some(Boolean) ?
        el("div.code.part", {tabindex: 0}, rows) : el("p", "Nothing but numbers of variables."));
  }

  function draw() {
    const cells = entry => [el("button.plain", where(entry.place)),
      prose(entry.reasons[0]?.text || "nothing like it existed"), duration(entry.time),
      seconds(entry.seconds)];
    const rows = data.why.map((entry, k) => [k === chosen, () => go("why", [k]), cells(entry)]);
    list.replaceChildren(...table(["Compiled for", "Because", "At", "Took"], rows, 2));
    const entry = data.why[chosen], {[entry.nearest]: near, [entry.kernel]: kernel} = data.kernels;
    detail.replaceChildren();
    fill(detail, [
      el("div.panel", el("h2", kernel?.title || where(entry.place)),
        el("p", near ? ["The nearest kernel that existed: ",
          link(near.title, () => open(entry.nearest)), "."] : "No kernel resembled it."),
        entry.reasons.map(({text, fix, place: p}) => el("div.reason", el("strong", prose(text)),
          fix && el("div", "What to do: ", prose(fix)), p > 0 && around(p, 1))),
        kernel && button("Open the kernel", () => open(entry.kernel))),
      compared(near, kernel),
    ]);
  }
  const step = by => go("why", [clamp(chosen + by, 0, data.why.length - 1)], true);

  return {
    title: "Why compiled",
    missing: () => data.why.length ? null : ["Nothing was compiled",
      "Every kernel was there already, in this process or in the cache on disk. " +
      "With an empty cache, each is compiled, and listed here with the reason:",
      "DRJIT_CACHE_DIR=new python -m drjit report program.py --out run.html"],
    build(root) {
      const lines = new Map();
      for (const {place: p, nearest} of data.why) {
        if (nearest >= 0) lines.set(p, (lines.get(p) || 0) + 1);
      }
      const [worst, times] = [...lines].sort((a, b) => b[1] - a[1])[0] || [];
      const spent = seconds(sum(data.why.map(entry => entry.seconds)));
      root.append(el("div.panel", el("p", `${plural(data.why.length, "compilation")} in ${spent}`,
        times > 1 ? `; ${where(worst)} had ${times} kernels compiled that resemble others.` : "."),
      el("div.scroll", list = el("table"))), detail = el("div.two"));
    },
    show([index]) {
      chosen = data.why[index] ? Number(index) : chosen;
      draw();
    },
    keys: [["↑ , ↓", "compilation", {ArrowUp: () => step(-1), ArrowDown: () => step(1)}],
      ["Enter", "open the kernel", {Enter: () => open(data.why[chosen].kernel)}]],
  };
})();
