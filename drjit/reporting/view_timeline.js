// 1: what ran when, a row for each thread, and the memory in use.

views.timeline = (() => {
  const KINDS = {
    trace: "tracing", schedule: "scheduling", compile: "compiling", load: "loading from the cache",
    wait: "waiting for results", kernel: "running kernels", traverse: "derivatives",
    lanes: "recording lanes for this report",
  };
  const APART = ["wait", "lanes"]; // costs of no line
  const ROW = 24, TOP = 26, MEMORY = 56, {events} = data;
  const end = events.reduce((last, event) => Math.max(last, event[3]), program.seconds * 1e6 || 1);
  let from = 0, to = end, rows, own, width, height, gutter, chosen = -1;
  let canvas, context, sentence, detail, later;
  const isWorker = row => row.name.startsWith("worker");

  // Events that begin within another one are shown below it, and their time is not its own.
  function arrange() {
    rows = data.threads.map(name => ({name, levels: [[]], open: []}));
    own = events.map(([, , start, stop]) => stop - start);
    events.forEach(([, thread, start, stop], index) => {
      const {open, levels} = rows[thread];
      while (open.length && events[open.at(-1)][3] <= start) open.pop();
      if (open.length) own[open.at(-1)] -= Math.min(stop, events[open.at(-1)][3]) - start;
      (levels[open.length] ||= []).push(index);
      open.push(index);
    });
    height = TOP;
    for (const row of rows) {
      row.y = height;
      height += row.levels.length * ROW + 8;
    }
    if (data.memory.length) height += MEMORY;
  }

  const x = t => gutter + (t - from) / (to - from) * (width - gutter);
  const time = px => from + (px - gutter) / (width - gutter) * (to - from);
  function firstAfter(list, t) { // the first event of a level that ends after t
    let low = 0, high = list.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (events[list[middle]][3] > t) high = middle; else low = middle + 1;
    }
    return low;
  }

  function draw() {
    width = canvas.clientWidth;
    if (!width) return;
    gutter = width < 600 ? 74 : 96;
    context = canvasContext(canvas, height);
    context.font = "12px system-ui, sans-serif";
    context.textBaseline = "middle";
    drawAxis();
    for (const row of rows) drawRow(row);
    if (data.memory.length) drawMemory();
    const range = to - from < end ? `${duration(from)} to ${duration(to)}` : `All ${duration(end)}`;
    const idly = rows.some(isWorker) ? `: workers idle ${percent(idle())} of the time.` : "";
    sentence.textContent = range + idly;
  }

  function write(name, text, px, y, align = "left", room = undefined) {
    context.fillStyle = color(name);
    context.textAlign = align;
    context.fillText(text, px, y, room);
  }

  function drawAxis() {
    const wish = (to - from) / Math.max(2, (width - gutter) / 110);
    const power = 10 ** Math.floor(Math.log10(wish));
    const step = [1, 2, 5, 10].map(k => k * power).find(s => s >= wish);
    for (let t = Math.ceil(from / step) * step; t <= to; t += step) {
      const px = x(t), align = px > width - 30 ? "right" : px < gutter + 20 ? "left" : "center";
      context.fillStyle = color("line");
      context.fillRect(px, 18, 1, height);
      write("soft", t ? duration(+t.toPrecision(6)) : "0", px, 9, align);
    }
  }

  function drawRow(row) {
    write("text", row.name, 0, row.y + ROW / 2);
    context.fillStyle = color("idle");
    if (isWorker(row)) context.fillRect(gutter, row.y, width - gutter, ROW);
    row.levels.forEach((list, level) => {
      const y = row.y + level * ROW + 1, tall = ROW - 2;
      let pixel = 0, shares = {}; // of the kinds of events that are narrower than a pixel
      const flush = () => {
        for (const [kind, share] of Object.entries(shares)) {
          context.globalAlpha = clamp(share, 0.1, 1);
          context.fillStyle = color(kind);
          context.fillRect(pixel, y, 1, tall);
        }
        context.globalAlpha = 1;
        shares = {};
      };
      for (let k = firstAfter(list, from); k < list.length && events[list[k]][2] <= to; k++) {
        const event = events[list[k]], left = Math.max(gutter, x(event[2]));
        const wide = Math.min(width, x(event[3])) - left;
        if (wide < 1 && list[k] !== chosen) {
          if (pixel !== Math.floor(left)) flush();
          pixel = Math.floor(left);
          shares[event[0]] = (shares[event[0]] || 0) + wide;
        } else drawEvent(event, left, wide, y, tall, list[k] === chosen);
      }
      flush();
    });
  }

  function drawEvent(event, left, wide, y, tall, isChosen) {
    const room = Math.floor((wide - 8) / 6.4), text = room < 4 ? "" : title(event);
    context.fillStyle = color(event[0]);
    context.fillRect(left, y, Math.max(1, wide > 3 ? wide - 1 : wide), tall);
    if (isChosen) {
      context.strokeStyle = color("text");
      context.lineWidth = 2;
      context.strokeRect(left, y, Math.max(2, wide), tall);
    }
    const shown = text.length > room ? text.slice(0, room - 1) + "…" : text;
    if (text) write("on-accent", shown, left + 4, y + tall / 2 + 0.5, "left", wide - 8);
  }

  function drawMemory() {
    const most = Math.max(1, ...data.memory.map(point => point[1]));
    const bottom = height - 4, tall = MEMORY - 20;
    let level = 0;
    context.beginPath();
    context.moveTo(gutter, bottom);
    for (const [t, size] of [...data.memory.filter(point => point[0] < to), [to, 0]]) {
      const px = Math.max(gutter, x(t));
      context.lineTo(px, bottom - level);
      level = size / most * tall;
      context.lineTo(px, bottom - level);
    }
    context.strokeStyle = context.fillStyle = color("accent");
    context.lineWidth = 1;
    context.stroke();
    context.globalAlpha = 0.25;
    context.fill();
    context.globalAlpha = 1;
    write("text", "memory", 0, bottom - tall + 6);
    write("soft", `≤ ${bytes(most)}`, 0, bottom - tall + 22);
  }

  function idle() { // the share of the time shown
    const workers = rows.filter(isWorker);
    const busy = sum(workers.flatMap(row => row.levels[0].map(index =>
      Math.max(0, Math.min(events[index][3], to) - Math.max(events[index][2], from)))));
    return 1 - busy / (workers.length * (to - from));
  }

  const title = event => data.kernels[event[5]]?.title || event[6] || KINDS[event[0]];
  function describe(event) {
    const [kind, thread, start, stop, p, kernel, text] = event;
    const more = text && data.kernels[kernel] ? ` · ${text}` : "";
    return [el("div", el("strong", title(event)), ` · ${KINDS[kind]} · ${duration(stop - start)}`),
      el("div.soft", `${data.threads[thread]}, at ${duration(start)}${more}`), p > 0 && located(p)];
  }

  function hit(event) { // the event under the pointer, and the row
    const {offsetX: px, offsetY: y} = event;
    const row = rows.find(r => y >= r.y && y < r.y + r.levels.length * ROW);
    if (!row || px < gutter) return [-1, null];
    const list = row.levels[Math.floor((y - row.y) / ROW)], slack = 2 * (to - from) / width;
    const index = list[firstAfter(list, time(px) - slack)];
    return [events[index]?.[2] <= time(px) + slack ? index : -1, row];
  }

  function move(low, high) {
    const span = clamp(high - low, end / 1e6, end);
    from = clamp(low, 0, end - span);
    to = from + span;
    draw();
    clearTimeout(later); // browsers allow few changes of the address in a second
    later = setTimeout(() => {
      const args = to - from < end ? [from.toFixed(1), to.toFixed(1)] : [];
      if (current === "timeline") go("timeline", args, true);
    }, 300);
  }
  const pan = share => move(from + share * (to - from), to + share * (to - from));
  const zoom = (factor, at = (from + to) / 2) =>
    move(at - (at - from) * factor, at + (to - at) * factor);

  function open(index) {
    if (events[index]?.[5] >= 0) go("kernel", [events[index][5]]);
  }
  function choose(index) {
    const event = events[chosen = clamp(index, 0, events.length - 1)], half = (to - from) / 2;
    if (event[3] < from || event[2] > to) move(event[2] - half, event[2] + half);
    detail.replaceChildren();
    fill(detail, [describe(event), event[4] ? around(event[4]) : null, event[5] >= 0 &&
      el("button", {onclick: () => open(chosen)}, "Open the kernel ", el("kbd", "Enter"))]);
    draw();
  }
  const step = by => choose(chosen < 0 ? events.findIndex(event => event[3] >= from) : chosen + by);

  function listen() {
    let grip = null;
    canvas.addEventListener("wheel", event => {
      event.preventDefault();
      if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
        pan((event.deltaX || event.deltaY) / width);
      } else zoom(1.0015 ** event.deltaY, time(Math.max(gutter, event.offsetX)));
    }, {passive: false});
    canvas.addEventListener("pointerdown", event => {
      grip = {x: event.clientX, from, to, moved: false};
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", event => {
      const [index, row] = hit(event);
      if (grip) {
        const shift = (grip.x - event.clientX) / (width - gutter) * (grip.to - grip.from);
        grip.moved ||= Math.abs(event.clientX - grip.x) > 4;
        if (grip.moved) move(grip.from + shift, grip.to + shift);
      } else if (index >= 0) tip(event.clientX, event.clientY, describe(events[index]));
      else if (row && isWorker(row)) tip(event.clientX, event.clientY, "idle");
      else untip();
    });
    canvas.addEventListener("pointerup", event => {
      const [index] = grip?.moved ? [-1] : hit(event);
      grip = null;
      if (index < 0) return;
      choose(index);
      if (events[index][0] === "kernel") open(index);
    });
    canvas.addEventListener("pointerleave", untip);
  }

  // The lines of the program that cost most: kernels that they launch, and what they have compiled.
  function costs() {
    const lines = new Map(), kinds = Object.keys(KINDS).filter(kind => !APART.includes(kind));
    events.forEach(([kind, , , , p], index) => {
      if (!p || APART.includes(kind)) return;
      const line = lines.get(p) || lines.set(p, {total: 0}).get(p);
      line[kind] = (line[kind] || 0) + own[index];
      line.total += own[index];
    });
    const sorted = [...lines].sort((a, b) => b[1].total - a[1].total).slice(0, 8);
    const bar = (line, kind) => el("i", {title: `${KINDS[kind]}: ${duration(line[kind])}`,
      style: `width:${100 * line[kind] / sorted[0][1].total}%;background:var(--${kind})`});
    return el("div.panel.scroll", el("h2", "Lines that cost most, on all threads"), el("table",
      sorted.map(([p, line]) => el("tr", el("td.number", duration(line.total)), el("td",
        el("span.meter.parts", kinds.filter(kind => line[kind]).map(kind => bar(line, kind)))),
      el("td", located(p))))));
  }

  function build(root) {
    arrange();
    const total = kind => sum(own.filter((_, index) => events[index][0] === kind));
    const kinds = Object.entries(KINDS).map(([kind, name]) => [kind, name, total(kind)]);
    canvas = el("canvas", {tabindex: 0, role: "application",
      "aria-label": "Timeline: plus and minus zoom, arrows move, n and p go through events"});
    sentence = el("strong", {id: "idle"});
    detail = el("div", {"aria-live": "polite"}, el("p.soft", "Point at an event, or go through ",
      "them with ", el("kbd", "n"), " and ", el("kbd", "p"), ". A click on a kernel opens it."));
    root.append(el("div.panel", el("div.bar", sentence, button("+", () => zoom(0.5), "Zoom in (+)"),
      button("−", () => zoom(2), "Zoom out (-)"), button("Fit", () => move(0, end)),
      el("span.soft", "wheel zooms, dragging moves")), canvas,
    el("ul.legend", legend([...kinds.filter(([, , t]) => t).map(([kind, name, t]) =>
      [kind, `${name}: ${duration(t)}`]), ["idle", "idle"]]))),
    el("div.two", el("div.panel", el("h2", "Event"), detail), costs()));
    listen();
    new ResizeObserver(draw).observe(canvas.parentElement);
  }

  return {
    title: "Timeline", build, redraw: draw,
    missing: () => events.length ? null : ["No events",
      "The program did nothing that a report records. Evaluate an array while it records:",
      "with dr.report() as r:\n    dr.eval(y)\nr.save('run.html')"],
    show([low, high]) {
      if (Number(high) > Number(low)) {
        from = clamp(Number(low), 0, end);
        to = clamp(Number(high), from + 1e-3, end);
      }
      draw();
    },
    keys: [
      ["+ , −", "zoom", {"+": () => zoom(0.6), "=": () => zoom(0.6), "-": () => zoom(1 / 0.6)}],
      ["← , →", "move", {ArrowLeft: () => pan(-1 / 6), ArrowRight: () => pan(1 / 6)}],
      ["0", "show all", {0: () => move(0, end)}],
      ["n , p", "next event, the one before", {n: () => step(1), p: () => step(-1)}],
      ["Enter", "open its kernel", {Enter: () => open(chosen)}],
    ],
  };
})();
