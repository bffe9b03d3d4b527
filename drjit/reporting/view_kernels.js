// 2: the kernels, by what could be won, and how far they are from the limits of the machine.

views.kernels = (() => {
  const BOUNDS = { // its colour, and what it means
    memory: ["trace", "memory: touch fewer bytes, or compute more with each"],
    arithmetic: ["kernel", "arithmetic: use fewer or cheaper operations"],
    launch: ["compile", "launches: use larger arrays, or one kernel for several"],
    latency: ["traverse", "latency: random gathers, spills and chains of operations take the time"],
  };
  const {kernels} = data, all = sum(kernels.map(k => k.seconds)) || 1;
  const most = field => Math.max(1e-12, ...kernels.map(k => k[field] || 0));
  const lanes = k => Math.max(0, ...(k.sizes || []).map(size => size[0]));
  const meter = (share, text) => [el("span.meter",
    el("i", {style: `width:${100 * clamp(share || 0, 0, 1)}%`})), " ", el("span", text)];
  const COLUMNS = [ // name, what it is sorted by, what it shows
    ["Kernel", k => k.title, k => el("button.plain", k.title)],
    ["Could be won", k => k.gain, k => meter(k.gain / most("gain"), seconds(k.gain))],
    ["Time", k => k.seconds, k => meter(k.seconds / most("seconds"), seconds(k.seconds))],
    ["Bound by", k => k.bound, k => k.bound ? el(`span.bound.${k.bound}`, k.bound) : "–"],
    ["Of the limit", k => k.share, k => meter(k.share, percent(k.share))],
    ["Launches", k => k.launches, k => count(k.launches)],
    ["Lanes", lanes, k => count(lanes(k))],
    ["Read", k => k.read, k => bytes(k.read)],
    ["Written", k => k.written, k => bytes(k.written)],
    ["Operations", k => k.operations, k => count(k.operations)],
    ["Compiled in", k => k.compile_seconds || 0,
      k => k.compile_seconds ? seconds(k.compile_seconds) : k.state],
  ];
  const open = index => go("kernel", [index]);
  let list, sort = 1, down = true, chosen = 0, order;

  function draw() {
    const key = COLUMNS[sort][1];
    order = kernels.map((_, k) => k).sort((a, b) => {
      const [x, y] = [key(kernels[a]), key(kernels[b])];
      const greater = x > y ? 1 : x < y ? -1 : 0;
      return (down ? -greater : greater) || kernels[b].seconds - kernels[a].seconds;
    });
    const heads = COLUMNS.map(([name], c) => button(name + (c !== sort ? "" : down ? " ▾" : " ▴"),
      () => go("kernels", [c, Number(c === sort ? !down : c > 0)])));
    list.replaceChildren(...table(heads, order.map((index, row) => [row === chosen,
      () => open(index), COLUMNS.map(([, , cell]) => cell(kernels[index]))])));
    list.querySelectorAll("th")[sort].setAttribute("aria-sort", down ? "descending" : "ascending");
  }
  function choose(step) {
    chosen = clamp(chosen + step, 0, order.length - 1);
    draw();
    list.querySelector(".chosen").scrollIntoView({block: "nearest"});
  }

  function summary() {
    const best = kernels.reduce((a, b) => a.gain >= b.gain ? a : b);
    const sorted = kernels.map(k => k.seconds).sort((a, b) => b - a);
    let share = 0, few = 0;
    while (share < 0.8 * all && few < sorted.length) share += sorted[few++];
    return el("p", `${plural(few, "kernel")} of ${kernels.length} ${few === 1 ? "takes" : "take"} `,
      `${percent(share / all)} of the time in kernels. `,
      best.gain > 0 && ["Most can be won in ", el("strong", best.title),
        `: ${seconds(best.gain)} of ${seconds(best.seconds)}. `,
        best.bound && `It is bound by ${BOUNDS[best.bound][1]}.`],
      kernels.some(k => k.modelled) &&
        " Figures of GPU kernels are those of a model, not measured.");
  }

  // Operations per byte and per second, and the limits that no kernel passes (S. Williams, A.
  // Waterman, D. Patterson: Roofline, 2009).
  function roofline({bandwidth, flops}, points) {
    const W = 720, H = 400, left = 74, bottom = 46, top = 14, right = 16;
    const rates = [...new Set(Object.values(flops))].sort((a, b) => b - a);
    const peak = rates[0], ridge = peak / bandwidth;
    const decades = values => [Math.floor(Math.log10(Math.min(...values))),
      Math.ceil(Math.log10(Math.max(...values)) + 0.05)];
    const [x0, x1] = decades([...points.map(p => p.x), ridge * 3, 0.1]);
    const [y0, y1] = decades([...points.map(p => p.y), peak]);
    const X = v => left + (Math.log10(v) - x0) / (x1 - x0) * (W - left - right);
    const Y = v => H - bottom - (Math.log10(v) - y0) / (y1 - y0) * (H - bottom - top);
    const drawing = svg("svg", {viewBox: `0 0 ${W} ${H}`, role: "group",
      "aria-label": "Operations per second over operations per byte"});
    const line = (kind, d) => drawing.append(svg("path", {class: kind, d}));
    const write = (text, x, y, anchor, more) =>
      drawing.append(svg("text", {x, y, "text-anchor": anchor}, more, text));
    const soft = {class: "soft"};
    for (let d = x0; d <= x1; d++) {
      line("grid", `M${X(10 ** d)},${top}V${H - bottom}`);
      write(d < 0 ? (10 ** d).toFixed(-d) : 10 ** d, X(10 ** d), H - bottom + 16, "middle", soft);
    }
    for (let d = y0; d <= y1; d++) {
      line("grid", `M${left},${Y(10 ** d)}H${W - right}`);
      write(scaled(10 ** d, ["", "k", "M", "G", "T", "P"]) + "/s", left - 6, Y(10 ** d) + 4, "end",
        soft);
    }
    write("operations per byte read or written", W / 2, H - 8, "middle", soft);
    const low = Math.max(10 ** x0, 10 ** y0 / bandwidth), at = Math.sqrt(low * ridge);
    const angle = Math.atan2(Y(10) - Y(1), X(10) - X(1)) * 180 / Math.PI;
    line("limit", `M${X(low)},${Y(low * bandwidth)}L${X(ridge)},${Y(peak)}`);
    const turned = `translate(${X(at)} ${Y(at * bandwidth)}) rotate(${angle})`;
    write(`memory: ${bytes(bandwidth)}/s`, 0, -8, "middle", {class: "soft", transform: turned});
    for (const rate of rates) {
      const types = Object.keys(flops).filter(type => flops[type] === rate).join(", ");
      line("limit", `M${X(rate / bandwidth)},${Y(rate)}H${W - right}`);
      write(`${types}: ${count(rate)} operations/s`, W - right - 4,
        Y(rate) + (rate === peak ? -6 : 14), "end", soft);
    }
    const named = []; // where names of kernels are
    points.sort((a, b) => b.k.seconds - a.k.seconds).forEach(({k, index, x, y}, rank) => {
      const r = 5 + 14 * Math.sqrt(k.seconds / all), flip = X(x) > W - 190 ? -1 : 1;
      const says = `${seconds(k.seconds)}, ${percent(k.share)} of the limit, bound by ${k.bound}`;
      const rate = `${count(y)} operations/s, ${short(+x.toPrecision(3))} a byte`;
      const tell = event => {
        const {right: px, bottom: py} = event.target.getBoundingClientRect();
        tip(px, py - 18, el("strong", k.title), el("div", says), el("div.soft", rate));
      };
      drawing.append(svg("circle", {cx: X(x), cy: Y(y), r, class: k.bound, tabindex: 0,
        role: "link",
        "aria-label": `${k.title}: ${says}`, onmouseenter: tell, onfocus: tell, onmouseleave: untip,
        onblur: untip, onclick: () => open(index), onkeydown: event => {
          if (event.key !== "Enter") return;
          event.stopPropagation();
          open(index);
        }}));
      const middle = X(x) + flip * (r + 5 + 3.2 * k.title.length), room = 6.4 * k.title.length;
      const free = named.every(([a, b, c]) =>
        Math.abs(a - middle) > (c + room) / 2 || Math.abs(b - Y(y)) > 14);
      if (rank > 2 || !free) return;
      write(k.title, X(x) + flip * (r + 5), Y(y) + 4, flip < 0 ? "end" : "start");
      named.push([middle, Y(y), room]);
    });
    const bounds = Object.keys(BOUNDS).filter(b => kernels.some(k => k.bound === b));
    return el("div.panel", el("h2", "How far from the limits"),
      el("p.soft", "Under the slope, memory limits a kernel; under the flat line, arithmetic. ",
        "The larger a circle, the more time it takes."),
      el("div.side", el("div.plot.scroll", drawing),
        el("ul.legend", legend(bounds.map(b => BOUNDS[b])))));
  }

  return {
    title: "Kernels",
    missing: () => kernels.length ? null : ["No kernels",
      "Nothing was evaluated while the report recorded. Print an array, or evaluate it:",
      "with dr.report() as r:\n    dr.eval(y)"],
    build(root) {
      root.append(el("div.panel", summary(), el("div.scroll", list = el("table"))));
      const points = kernels.map((k, index) => ({k, index, y: k.operations / k.seconds,
        x: k.operations / Math.max(1, k.read + k.written)})).filter(p => p.x > 0 && isFinite(p.y));
      if (data.machine?.flops && points.length) root.append(roofline(data.machine, points));
    },
    show([column, descending]) {
      if (COLUMNS[column]) { sort = Number(column); down = Number(descending) === 1; }
      draw();
    },
    keys: [["↑ , ↓", "choose a kernel", {ArrowUp: () => choose(-1), ArrowDown: () => choose(1)}],
      ["Enter", "open it", {Enter: () => open(order[chosen])}]],
  };
})();
