// 6: what a traversal visited, in which order, and where gradients were lost.

views.derivatives = (() => {
  let chosen = 0, now = 0, graph, order, nodes, paths, numbers, index, selected, timer = 0;
  let select, time, box, detail, play, rest;

  function load() {
    const {size: [width, height], boxes, rows, curves} = graph.layout, {variables, edges} = graph;
    index = new Map(variables.map((v, k) => [v.id, k]));
    order = edges.map((_, k) => k).filter(k => edges[k][2] >= 0);
    order.sort((a, b) => edges[a][2] - edges[b][2]);
    now = order.length;
    selected = -1;
    const omitted = graph.layout.left_out;
    rest.textContent = omitted ? `${plural(omitted, "variable")} not drawn` : "";
    const drawing = svg("svg", {width: width + 8, height: height + 8, role: "group",
      viewBox: `-4 -4 ${width + 8} ${height + 8}`, "aria-label": "Graph of variables"});
    box.replaceChildren(drawing);
    paths = curves.map(d => drawing.appendChild(svg("path", {d})));
    nodes = boxes.map(([x, y, w, h], k) => {
      const p = variables[k].place, [name, ...more] = rows[k], says = more.join(", ");
      const tell = ({clientX, clientY}) =>
        tip(clientX, clientY, el("div", el("strong", name), " ", says), p > 0 && located(p));
      return drawing.appendChild(svg("g", {tabindex: 0, role: "button", onclick: () => choose(k),
        onfocus: () => choose(k), onmousemove: tell, onmouseleave: untip,
        "aria-label": `${name}, ${says}, ${where(p)}`},
      svg("rect", {x, y, width: w, height: h, rx: 6}), rows[k].map((text, r) =>
        svg("text", {x: x + w / 2, y: y + 15 + 20 * r, class: r ? "soft" : "name"}, text))));
    });
    numbers = paths.map((path, k) => {
      if (edges[k][2] < 0 || !curves[k]) return null;
      const {x, y} = path.getPointAtLength(path.getTotalLength() / 2);
      return drawing.appendChild(svg("text", {class: "order", x, y: y + 4}, order.indexOf(k) + 1));
    });
  }

  const lost = v => !v.root && !v.norm && (v.norm === 0 || !v.visited);
  function choose(k) {
    const v = graph.variables[selected = k];
    const says = v.root ? "The traversal starts here." : v.norm === 0 ? "Its gradient is zero." :
      lost(v) ? "The traversal did not reach it." : v.leaf ? "It is an input." : "";
    const unknown = v.norm === undefined || v.norm === null;
    const norm = unknown ? (v.visited || v.root ? "" : "No gradient. ") :
      `Norm of its gradient: ${short(v.norm)}. `;
    detail.replaceChildren();
    fill(detail, [el("h2", `${v.label || v.op}: ${v.type} × ${count(v.size)}`), el("p", norm, says),
      v.place > 0 && [el("strong", where(v.place)), around(v.place)]]);
    mark();
  }

  function mark() {
    const done = new Set(order.slice(0, now));
    const reached = new Set(graph.variables.flatMap((v, k) => v.root ? [k] : []));
    paths.forEach((path, k) => {
      const [a, b, visited] = graph.edges[k];
      if (done.has(k)) reached.add(index.get(a)).add(index.get(b));
      path.setAttribute("class", k === order[now - 1] ? "now" :
        done.has(k) ? "visited" : visited < 0 ? "never" : "");
      numbers[k]?.setAttribute("visibility", done.has(k) ? "visible" : "hidden");
    });
    nodes.forEach((node, k) => node.setAttribute("class", [reached.has(k) && "visited",
      lost(graph.variables[k]) && "lost", k === selected && "now"].filter(Boolean).join(" ")));
  }

  function draw() {
    const edge = graph.edges[order[now - 1]]?.slice(0, 2), name = v => v.label || v.op;
    if (graph.direction === "backward") edge?.reverse();
    const [from, to] = edge?.map(id => graph.variables[index.get(id)]) || [];
    time.set(now, order.length, !from ? `Before the first of ${plural(order.length, "edge")}` :
      `${now} of ${order.length}: ${name(from)} → ${name(to)}, ${where(to.place)}`);
    mark();
    const [x, y] = (to && graph.layout.boxes[index.get(to.id)]) || [box.scrollLeft, box.scrollTop];
    const {scrollLeft: left, scrollTop: top, clientWidth: wide, clientHeight: tall} = box;
    if (y < top || y > top + tall - 100) box.scrollTop = y - tall / 2;
    if (x < left || x > left + wide - 100) box.scrollLeft = x - wide / 2;
  }
  const move = step => go("derivatives", [chosen, clamp(step, 0, order.length)], true);
  function toggle() {
    play.setAttribute("aria-pressed", !timer);
    if (timer) { timer = clearInterval(timer); return; }
    if (now === order.length) move(0);
    timer = setInterval(() => {
      if (current !== "derivatives" || now === order.length) toggle(); else move(now + 1);
    }, 400);
  }

  const lostList = () => el("div.panel", el("h2", "Where gradients were lost"),
    el("ul.words", data.lost.map(({kind, count: times, text, place: p}) => el("li",
      el("strong", kind),
      times > 1 && ` (${times} times)`, ": ", prose(text), p > 0 && around(p, 0)))),
    !data.lost.length && el("p.soft", "Nowhere that was seen: nothing was detached or suspended, " +
      "and no integers or comparisons stood between."));

  return {
    title: "Derivatives",
    missing: () => data.derivatives.length || data.lost.length ? null : ["No derivatives",
      "The program did not traverse a graph of derivatives while the report recorded:",
      "dr.enable_grad(x)\nwith dr.report() as r:\n    dr.backward(loss(x))"],
    build(root) {
      if (!data.derivatives.length) { root.append(lostList()); return; }
      select = picker("Traversal", data.derivatives.map((g, k) =>
        `${k + 1}: ${g.direction} at ${where(g.place)} (${duration(g.time)})`),
      k => go("derivatives", [k]));
      time = stepper("Edges visited", step => move(step));
      play = el("button", {"aria-pressed": false, onclick: toggle}, "Play ", el("kbd", "space"));
      box = el("div.graph");
      detail = el("div.panel", el("h2", "A variable"),
        el("p.soft", "Choose a variable to see its line and gradient."));
      const marks = legend([["good-back", "visited"], ["bad-back", "no gradient, or zero"],
        ["accent", "now"]]);
      root.append(el("div.side", el("div.panel", el("div.bar", select, play, time.parts), box,
        el("ul.legend", marks, el("li", "dashed: never visited"), rest = el("li"))),
      el("div", lostList(), detail)));
    },
    show([traversal, step]) {
      if (!data.derivatives.length) return;
      if (!graph || data.derivatives[traversal] && Number(traversal) !== chosen) {
        chosen = data.derivatives[traversal] ? Number(traversal) : 0;
        graph = data.derivatives[chosen];
        load();
      }
      select.value = chosen;
      if (step !== undefined) now = clamp(Number(step) || 0, 0, order.length);
      draw();
    },
    keys: [
      ["← , →", "edge before, next", {ArrowLeft: () => move(now - 1),
        ArrowRight: () => move(now + 1)}],
      ["space", "play", {" ": toggle}],
      ["Home , End", "begin, end", {Home: () => move(0), End: () => move(Infinity)}],
    ],
  };
})();
