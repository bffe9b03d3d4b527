// 5: the values of some lanes, statement by statement, forward and back in time.

views.lanes = (() => {
  const BEFORE = 8, ROWS = 18; // of the table around the current step
  const HUES = ["kernel", "trace", "compile", "schedule", "load", "traverse"];
  let chosen = 0, now = 0, record, kernel, rounds, blocks, bad, origin;
  let select, time, list, strip, stripBox, names, about, chainBox, sourceBox;

  const nonfinite = value => /^\[?[-+]?(nan|inf)|[ ,][-+]?(nan|inf)/i.test(value);
  const roundName = counts => counts.map(k => k + 1).join(" · ");
  function stepName(step) {
    const [, counts] = record.steps[step];
    return `step ${step + 1}${counts.length ? ", round " + roundName(counts) : ""}`;
  }
  const lineHtml = line => kernelLine(kernel, line).trim();
  const hue = branch => branch === undefined ? "wait" : HUES[branch % HUES.length];
  function branchName(line) { // by its first line in the program
    const p = kernel.places?.[line + 1];
    return p ? located(p) : el("code", {html: lineHtml(line + 1)});
  }

  // The `if` that a line of the text is in, or -1.
  function branches(lines) {
    let open = [];
    return lines.map((text, k) => {
      const indent = text.search(/\S/);
      open = open.filter(block => block.indent < indent);
      const inside = open.findLast(block => block.branch)?.line ?? -1;
      if (text.endsWith(":")) open.push({indent, line: k, branch: /^\s*(if|else)/.test(text)});
      return inside;
    });
  }

  // Rounds are runs of steps with the same counts; of each, the active lanes and their branches.
  function load() {
    record = data.lanes[chosen];
    kernel = data.kernels[record.kernel] || {};
    const inside = branches(kernel.text || []);
    [rounds, blocks, bad, origin, now] = [[], [], [], record.origins?.[0], 0];
    record.steps.forEach(([line, counts, , values, active], step) => {
      if (values.some((value, lane) => nonfinite(value) && active[lane])) bad.push(step);
      if (!counts.length) return;
      const name = roundName(counts), branch = inside[line - 1] ?? -1;
      if (rounds.at(-1)?.name !== name || rounds.at(-1).last !== step - 1) {
        rounds.push({name, first: step, active: new Set(), bad: new Set(), branch: []});
      }
      const round = rounds.at(-1);
      round.last = step;
      if (branch >= 0 && !blocks.includes(branch)) blocks.push(branch);
      active.forEach((on, lane) => {
        if (!on) return;
        round.active.add(lane);
        if (branch >= 0) round.branch[lane] = blocks.indexOf(branch);
        if (nonfinite(values[lane])) round.bad.add(lane);
      });
    });
  }

  function drawStrip() {
    stripBox.hidden = !rounds.length;
    if (!rounds.length || !strip.clientWidth) return;
    const tall = clamp(160 / record.lanes.length, 4, 14), height = record.lanes.length * tall;
    const context = canvasContext(strip, height), wide = strip.clientWidth / rounds.length;
    rounds.forEach((round, k) => record.lanes.forEach((_, lane) => {
      const taken = round.active.has(lane) ? hue(round.branch[lane]) : "idle";
      context.fillStyle = color(round.bad.has(lane) ? "bad" : taken);
      context.fillRect(k * wide, lane * tall, wide - (wide > 4 ? 1 : 0), tall - 1);
    }));
    const at = rounds.findIndex(round => now >= round.first && now <= round.last);
    context.strokeStyle = color("text");
    context.lineWidth = 2;
    if (at >= 0) context.strokeRect(at * wide, 1, Math.max(wide - 1, 3), height - 2);
  }
  const entry = (share, {length}) => clamp(Math.floor(share * length), 0, length - 1);
  const pointedRound = event => rounds[entry(event.offsetX / strip.clientWidth, rounds)];
  function tell(event) {
    const round = pointedRound(event), lane = entry(event.offsetY / strip.clientHeight,
      record.lanes);
    const branch = blocks[round.branch[lane]], taken = branch === undefined ? "active" :
      branchName(branch);
    tip(event.clientX, event.clientY, el("strong",
      `round ${round.name}, lane ${record.lanes[lane]}`),
      el("div", round.bad.has(lane) && "NaN or infinity, ", round.active.has(lane) ? taken :
        "not active"));
  }

  function drawTable() {
    const first = clamp(now - BEFORE, 0, Math.max(0, record.steps.length - ROWS));
    const scope = {scope: "col"}, heads = record.lanes.map(lane => el("th.number", scope, lane));
    const cell = (value, active) => active ? el(nonfinite(value) ? "td.bad" : "td", short(value)) :
      el("td.off", {title: "not active"}, short(value));
    const rows = record.steps.slice(first, first + ROWS).map(([line, counts, , values, active],
      k) => {
      const step = first + k, number = `<span class=soft>${String(line).padStart(3)}</span> `;
      const kind = (step === now ? "tr.now" : "tr") + (origin?.chain.includes(step) ? ".chain" :
        "");
      return el(kind, {onclick: () => move(step), "aria-current": step === now ? "step" : null},
        el("th", {scope: "row", html: number + lineHtml(line)}), el("td.off", roundName(counts)),
        values.map((value, lane) => cell(value, active[lane])));
    });
    list.replaceChildren(el("thead", el("tr", el("th.corner", scope, "statement, lane →"),
      el("th", scope, "round"), heads)), el("tbody", rows));
  }

  function drawChain() {
    chainBox.replaceChildren(el("h2", origin ? "Where it came from" : "NaN and infinities"));
    if (!origin) {
      chainBox.append(el("p.soft", bad.length ? "The way back to an input is not recorded." :
        "Every value of these lanes is finite."));
      return;
    }
    const lane = record.lanes.indexOf(origin.lane),
      value = step => short(record.steps[step][3][lane]);
    const choose = o => el("button", {"aria-pressed": o === origin,
      onclick: () => { origin = o; move(o.step); }}, `lane ${o.lane}`);
    fill(chainBox, [el("div.bar", record.origins.map(choose)),
      el("p", `Lane ${origin.lane}: ${value(origin.step)} at ${stepName(origin.step)}, made of`),
      el("ol.chain", origin.chain.map(step => {
        const [line] = record.steps[step], p = kernel.places?.[line - 1];
        return el(step === now ? "li.now" : "li", link(stepName(step), () => move(step)), " = ",
          el("strong", value(step)), " ", el("code", {html: lineHtml(line)}),
          p > 0 && el("div.soft", located(p)));
      }))]);
  }

  function draw() {
    const {length} = record.steps, p = kernel.places?.[record.steps[now][0] - 1];
    time.set(now, length - 1, `${stepName(now)} (${plural(length, "step")})`);
    sourceBox.replaceChildren(el("h2", p ? where(p) : "The line of the program is not known"),
      p ? around(p, 3) : "");
    drawTable();
    drawChain();
    drawStrip();
  }
  const move = step => go("lanes", [chosen, clamp(step, 0, record.steps.length - 1)], true);
  const back = () => move(rounds.findLast(round => round.first < now)?.first ?? 0);
  const ahead = () => move(rounds.find(round => round.first > now)?.first ?? Infinity);
  const nextBad = () => bad.length && move(bad.find(step => step > now) ?? bad[0]);

  return {
    title: "Lanes", redraw: drawStrip,
    missing: () => data.lanes.length ? null : ["No lanes recorded",
      "Values of lanes are recorded when asked for: by index, by mask, or the first with a NaN:",
      "python -m drjit report program.py --lanes nan --out run.html"],
    build(root) {
      select = picker("Recording", data.lanes.map(r =>
        `${data.kernels[r.kernel]?.title || "a kernel"}, launch ${r.launch + 1}: ` +
        `${plural(r.lanes.length, "lane")} of ${count(r.size)}`), k => go("lanes", [k]));
      time = stepper("Step", step => move(step));
      strip = el("canvas", {role: "img", "aria-label": "Active lanes of each round",
        onclick: event => move(pointedRound(event).first), onmousemove: tell, onmouseleave: untip});
      root.append(
        el("div.bar", select, nameSwitch(() => draw()),
          button("Next NaN", nextBad, "Next NaN or infinity (n)"), about = el("span.soft")),
        el("div.panel", el("div.bar", button("⇤", back, "Round before (Shift ←)"), time.parts,
          button("⇥", ahead, "Next round (Shift →)")),
        el("div.lanes.scroll", {tabindex: 0, role: "region", "aria-label": "Values"},
          list = el("table"))),
        stripBox = el("div.panel", el("h2", "Lanes of each round"), strip, names = el("ul.legend")),
        el("div.two", sourceBox = el("div.panel"), chainBox = el("div.panel")));
      new ResizeObserver(drawStrip).observe(stripBox);
    },
    show([index, step]) {
      if (!record || data.lanes[index] && Number(index) !== chosen) {
        chosen = data.lanes[index] ? Number(index) : 0;
        load();
        about.textContent = `chosen: ${record.chosen || "by index"}; ` +
          (bad.length ? `${plural(bad.length, "step")} with NaN or infinities` :
            "all values are finite");
        names.replaceChildren(...legend([...blocks.map((line, k) => [hue(k), branchName(line)]),
          ["wait", "active, in no branch"], ["idle", "not active"], ["bad", "NaN or infinity"]]));
      }
      select.value = chosen;
      if (step !== undefined) now = clamp(Number(step) || 0, 0, record.steps.length - 1);
      draw();
    },
    keys: [
      ["← , →", "step back, step", {ArrowLeft: () => move(now - 1),
        ArrowRight: () => move(now + 1)}],
      ["Shift← , Shift→", "round before, next",
        {"Shift+ArrowLeft": back, "Shift+ArrowRight": ahead}],
      ["n", "next NaN or infinity", {n: nextBad}],
      ["Home , End", "first, last step", {Home: () => move(0), End: () => move(Infinity)}],
    ],
  };
})();
