"use strict";
(() => {
  const SVG = "http://www.w3.org/2000/svg";
  const byId = (id) => document.getElementById(id);
  const data = JSON.parse(byId("data").textContent);
  const MAIN = { strict: "pass_rate_under_budget", judge: "judged_pass_rate_under_budget" };
  const state = { condition: "all", grading: document.body.dataset.grading, intervals: true, hidden: new Set(), sort: "rank", down: false };

  // Data reaches the page as text nodes and attributes only, never as markup.
  const el = (name, attributes = {}, ...children) => {
    const node = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    node.append(...children);
    return node;
  };
  const figure = (row, metric) => row.figures[state.grading === "judge" && data.judged[metric] ? data.judged[metric] : metric] ?? null;
  const interval = (row, metric) => row.ci95[state.grading === "judge" && data.judged[metric] ? data.judged[metric] : metric] ?? null;
  const shown = (row) => state.condition === "all" || row.condition === Number(state.condition);
  const round = (value) => Math.round(value * 10) / 10;
  const number = (value) => (Math.abs(value) >= 0.1 || value === 0 ? value.toFixed(2) : value.toPrecision(3));

  /* ---- table ---- */

  const body = document.querySelector("#board tbody");
  const lines = [...body.rows];
  const heads = [...document.querySelectorAll("#board thead th")];

  function sortTable() {
    const key = state.sort;
    const value = (row) => {
      if (key === "rank") return row.place[state.grading];
      if (key === "agent") return data.series[row.series].label.toLowerCase();
      if (key === "condition") return row.condition;
      return figure(row, key);
    };
    const sign = state.down ? -1 : 1;
    const order = data.rows.map((row, index) => index).sort((i, j) => {
      const [a, b] = [value(data.rows[i]), value(data.rows[j])];
      if (a === null || b === null) return (a === null) - (b === null) || data.rows[i].place[state.grading] - data.rows[j].place[state.grading];
      return (a < b ? -sign : a > b ? sign : 0) || data.rows[i].place[state.grading] - data.rows[j].place[state.grading];
    });
    let before = null;
    for (const index of order) {
      body.append(lines[index]);
      lines[index].classList.toggle("opens", key === "rank" && before !== null && data.rows[index].condition !== before);
      before = data.rows[index].condition;
    }
    for (const head of heads) {
      if (head.dataset.sort === key) head.setAttribute("aria-sort", state.down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    }
  }
  function filterTable() {
    lines.forEach((line, index) => { line.hidden = !shown(data.rows[index]); });
    document.body.dataset.condition = state.condition;
    document.body.dataset.grading = state.grading;
    document.body.classList.toggle("plain", !state.intervals);
  }
  function announce() {
    const title = heads.find((head) => head.dataset.sort === state.sort).dataset.title;
    byId("status").textContent = `${lines.filter((line) => !line.hidden).length} rows, sorted by ${title}, ${state.down ? "descending" : "ascending"}`;
  }

  /* ---- marks: a shape and a colour an agent ---- */

  const polygon = (n, r, turn = 0, inner = 1) => Array.from({ length: inner === 1 ? n : 2 * n }, (_, i) => {
    const angle = (Math.PI * 2 * i) / (inner === 1 ? n : 2 * n) - Math.PI / 2 + turn;
    const radius = inner !== 1 && i % 2 ? r * inner : r;
    return `${round(radius * Math.cos(angle))},${round(radius * Math.sin(angle))}`;
  }).join(" ");
  const SHAPES = [
    (r) => el("circle", { class: "mark", r }),
    (r) => el("rect", { class: "mark", x: -r * 0.9, y: -r * 0.9, width: r * 1.8, height: r * 1.8 }),
    (r) => el("polygon", { class: "mark", points: polygon(3, r * 1.3) }),
    (r) => el("polygon", { class: "mark", points: polygon(4, r * 1.25) }),
    (r) => el("polygon", { class: "mark", points: polygon(3, r * 1.3, Math.PI) }),
    (r) => el("circle", { class: "mark open", r: r * 0.9 }),
    (r) => el("polygon", { class: "mark", points: polygon(5, r * 1.45, 0, 0.45) }),
    (r) => el("path", { class: "mark stroke", d: `M${-r * 0.8},${-r * 0.8}L${r * 0.8},${r * 0.8}M${r * 0.8},${-r * 0.8}L${-r * 0.8},${r * 0.8}` }),
    (r) => el("rect", { class: "mark open", x: -r * 0.8, y: -r * 0.8, width: r * 1.6, height: r * 1.6 }),
  ];
  const colour = (index) => (data.series[index].reference ? "k-reference" : `k${data.series[index].colour}`);
  const seriesClass = (index) => `series ${colour(index)}${data.series[index].reference ? " reference" : ""}`;
  const mark = (index, r) => SHAPES[data.series[index].shape](r);
  const swatch = (index) => el("svg", { class: `swatch ${colour(index)}`, width: 14, height: 14, viewBox: "-7 -7 14 14", "aria-hidden": "true" }, mark(index, 4.5));

  /* ---- figures ---- */

  const tip = byId("tip");
  function describe(row) {
    const series = data.series[row.series];
    const [passed, cost] = [figure(row, MAIN.strict), figure(row, "average_cost")];
    const span = (ends, write) => (ends ? `  (${write(ends[0])} to ${write(ends[1])})` : "");
    const percent = (value) => (100 * value).toFixed(1);
    return [
      series.label + (series.simulated ? ", simulated model" : series.reference ? ", bound" : ""),
      data.conditions[row.condition].label,
      passed === null ? "" : `${data.names[MAIN.strict]} ${percent(passed)}${span(interval(row, MAIN.strict), percent)}`,
      cost === null ? "" : `${data.names.average_cost} ${number(cost)}${span(interval(row, "average_cost"), number)}`,
    ].filter(Boolean).join("\n");
  }
  function point(plot, row, x, y, r) {
    const group = el("g", { transform: `translate(${round(x)} ${round(y)})` }, mark(row.series, r), el("circle", { class: "hit", r: 11 }));
    group.addEventListener("pointerenter", (event) => {
      light(row.series);
      tip.textContent = describe(row);
      tip.hidden = false;
      const box = tip.getBoundingClientRect();
      tip.style.left = `${Math.max(8, Math.min(event.clientX + 14, innerWidth - box.width - 8))}px`;
      tip.style.top = `${event.clientY + 18 + box.height > innerHeight ? event.clientY - box.height - 12 : event.clientY + 18}px`;
    });
    group.addEventListener("pointerleave", () => { light(null); tip.hidden = true; });
    return group;
  }
  function light(index) {
    for (const plot of document.querySelectorAll(".plot svg")) {
      plot.classList.toggle("dimmed", index !== null);
      for (const node of plot.querySelectorAll("[data-series]")) node.classList.toggle("lit", Number(node.dataset.series) === index);
    }
  }
  function ticks(low, high, wanted) {
    const rough = (high - low) / wanted || 1;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 2.5, 5, 10].find((factor) => factor * power >= rough) * power;
    const found = [];
    for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; k += 1) found.push(Number((k * step).toPrecision(12)));
    return found;
  }
  function frame(id, label, right) {
    const holder = byId(id);
    const width = Math.max(260, holder.clientWidth);
    const height = Math.round(Math.max(300, Math.min(400, width * 0.72)));
    const box = { left: 40, right: width - right, top: 22, bottom: height - 46, width, height };
    const svg = el("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
    const y = (value) => box.bottom - value * (box.bottom - box.top);
    for (const value of [0, 0.2, 0.4, 0.6, 0.8, 1]) {
      svg.append(el("line", { class: value ? "grid" : "axis", x1: box.left, x2: box.right, y1: y(value), y2: y(value) }));
      svg.append(el("text", { x: box.left - 8, y: y(value) + 4, "text-anchor": "end" }, String(value * 100)));
    }
    svg.append(el("text", { x: 0, y: 8 }, data.names[MAIN.strict] + (state.grading === "judge" ? " (judge)" : "")));
    holder.replaceChildren(svg);
    return { svg, box, y };
  }
  const axisTitle = (svg, box, text) => svg.append(el("text", { x: (box.left + box.right) / 2, y: box.height - 6, "text-anchor": "middle" }, text));
  const cut = (text) => (text.length > 26 ? `${text.slice(0, 25)}…` : text);
  const name = (index) => cut(data.series[index].label) + (data.series[index].simulated ? " †" : "");
  const textWidth = (text) => text.length * 6.6;

  function drawLines() {
    const rows = data.rows.filter((row) => !state.hidden.has(row.series) && figure(row, MAIN.strict) !== null);
    const labelled = byId("lines").clientWidth >= 430 && data.series.length <= 18;
    const area = (index) => data.series[index].area[state.grading];
    const ended = (index) => name(index) + (area(index) === null ? "" : ` ${(100 * area(index)).toFixed(0)}`);
    const longest = Math.max(0, ...data.series.map((_, index) => textWidth(ended(index))));
    const { svg, box, y } = frame("lines", `${data.names[MAIN.strict]} over the ${data.axis} limit, one line an agent; the table holds the same numbers`, labelled ? Math.min(190, longest + 34) : 14);
    const limits = [...new Set(data.rows.map((row) => row.x))].filter((x) => x !== null).sort((a, b) => a - b);
    const open = data.rows.some((row) => row.x === null);
    const pad = 26, end = box.right - pad - (open && limits.length ? 84 : 0);
    const [low, high] = [Math.log(limits[0] ?? 1), Math.log(limits.at(-1) ?? 1)];
    const x = (limit) => (limit === null ? (limits.length ? box.right - pad : (box.left + box.right) / 2)
      : high > low ? box.left + pad + ((Math.log(limit) - low) / (high - low)) * (end - box.left - pad) : (box.left + end) / 2);
    let last = -Infinity;
    for (const limit of open ? [...limits, null] : limits) {
      const text = limit === null ? "unlimited" : limit.toLocaleString("en");
      svg.append(el("line", { class: "axis", x1: x(limit), x2: x(limit), y1: box.bottom, y2: box.bottom + 4 }));
      if (x(limit) - last < textWidth(text) / 2 + 22) continue;
      svg.append(el("text", { x: x(limit), y: box.bottom + 18, "text-anchor": "middle" }, text));
      last = x(limit);
    }
    axisTitle(svg, box, `Budget: ${data.axis}${data.unit ? ` (${data.unit})` : ""}${limits.length > 1 ? ", logarithmic" : ""}`);
    const names = el("g", {});  // above the lines of all references
    for (const label of new Set(data.references.map((row) => row.label))) {
      const own = data.references.filter((row) => row.label === label && row.x !== null && limits.includes(row.x)).sort((a, b) => a.x - b.x);
      const value = (row) => row.figures[MAIN[state.grading]] ?? row.figures[MAIN.strict];
      if (!own.length) continue;
      svg.append(el("polyline", { class: "ruler", points: own.map((row) => `${round(x(row.x))},${round(y(value(row)))}`).join(" ") }));
      names.append(el("text", { class: "ruler-name", x: round(x(own[0].x)), y: round(y(value(own[0])) - 5), "text-anchor": "start" }, label));
    }
    svg.append(names);
    const present = [...new Set(rows.map((row) => row.series))].sort((a, b) => a - b);
    const ends = [];
    present.forEach((index, place) => {
      const shift = present.length > 1 ? (place / (present.length - 1) - 0.5) * Math.min(30, 4 * present.length) : 0;
      const group = el("g", { class: seriesClass(index), "data-series": index });
      const own = rows.filter((row) => row.series === index);
      const marks = [];
      for (const rest of [...new Set(own.map((row) => row.rest))]) {
        const points = own.filter((row) => row.rest === rest).sort((a, b) => (a.x ?? Infinity) - (b.x ?? Infinity));
        const at = points.map((row) => [x(row.x) + shift, y(figure(row, MAIN.strict))]);
        group.append(el("polyline", { class: "line", points: at.map((p) => p.map(round).join(",")).join(" ") }));
        points.forEach((row, i) => {
          const ci = interval(row, MAIN.strict);
          if (ci && state.intervals) group.append(el("line", { class: "whisker", x1: at[i][0], x2: at[i][0], y1: y(ci[0]), y2: y(ci[1]) }));
          marks.push(point(svg, row, ...at[i], 4.5));
        });
        if (at.length) ends.push({ index, x: at.at(-1)[0], y: at.at(-1)[1] });
      }
      group.append(...marks);
      svg.append(group);
    });
    if (!labelled) return;
    ends.sort((a, b) => a.y - b.y);
    const spread = ends.map((end) => end.y);
    for (let i = 1; i < spread.length; i += 1) spread[i] = Math.max(spread[i], spread[i - 1] + 15);
    let floor = box.bottom + 4;
    for (let i = spread.length - 1; i >= 0; i -= 1) { spread[i] = Math.min(spread[i], floor); floor = spread[i] - 15; }
    const labels = el("g", { class: "labels" });
    ends.forEach((from, i) => {
      const left = box.right + 16;
      labels.append(el("g", { "data-series": from.index },
        el("path", { class: "leader", d: `M${round(from.x + 7)},${round(from.y)}L${box.right + 2},${round(from.y)}L${left - 4},${round(spread[i])}` }),
        el("text", { class: "label", x: left, y: round(spread[i] + 4) }, ended(from.index))));
    });
    svg.append(labels);
  }

  function drawScatter() {
    const rows = data.rows.filter((row) => shown(row) && !state.hidden.has(row.series) && figure(row, MAIN.strict) !== null && figure(row, "average_cost") !== null);
    const { svg, box, y } = frame("scatter", `${data.names[MAIN.strict]} against ${data.names.average_cost}, one mark an agent and budget; the table holds the same numbers`, 14);
    const limit = state.condition === "all" ? null : data.conditions[Number(state.condition)].price;
    const costs = rows.flatMap((row) => [figure(row, "average_cost"), ...(state.intervals ? [interval(row, "average_cost")?.[1] ?? 0] : [])]);
    const most = Math.max(0, ...costs);
    const paid = rows.map((row) => figure(row, "average_cost")).filter((cost) => cost > 0);
    const least = Math.min(...paid), log = paid.length > 1 && Math.max(...paid) / least > 15;
    const steps = ticks(0, (limit !== null && limit <= most * 1.6 ? Math.max(limit, most) : most) || 1, box.width < 420 ? 4 : 6);
    const step = (steps[1] ?? 1) - steps[0];
    const top = Math.max(steps.at(-1), 0) >= most ? steps.at(-1) : steps.at(-1) + step;
    const foot = log ? [5, 2, 1].map((factor) => factor * 10 ** Math.floor(Math.log10(least))).find((value) => value <= least) : 0;
    const share = (value) => (log ? Math.log(Math.max(value, foot) / foot) / Math.log(top / foot) : value / top);
    const x = (value) => box.left + share(value) * (box.right - box.left);
    const marks = [];
    if (log) for (let power = Math.floor(Math.log10(foot)); 10 ** power <= top; power += 1) for (const factor of [1, 2, 5]) marks.push(factor * 10 ** power);
    else for (let value = 0; value <= top + step / 2; value += step) marks.push(value);
    for (const value of marks.filter((mark) => mark >= foot && mark <= top * 1.001)) {
      svg.append(el("line", { class: "axis", x1: x(value), x2: x(value), y1: box.bottom, y2: box.bottom + 4 }));
      svg.append(el("text", { x: x(value), y: box.bottom + 18, "text-anchor": "middle" }, Number(value.toPrecision(6)).toLocaleString("en", { maximumSignificantDigits: 4 })));
    }
    axisTitle(svg, box, `${data.names.average_cost} per episode${log ? ", logarithmic" : ""}`);
    const taken = [];
    if (limit !== null && limit <= top) {
      svg.append(el("line", { class: "limit", x1: x(limit), x2: x(limit), y1: box.top, y2: box.bottom }));
      const flip = x(limit) + 70 > box.right;
      svg.append(el("text", { x: x(limit) + (flip ? -5 : 5), y: box.bottom - 8, "text-anchor": flip ? "end" : "start" }, `budget ${limit.toLocaleString("en")}`));
      taken.push([x(limit) - 2, box.top, x(limit) + 2, box.bottom], [x(limit) + (flip ? -75 : 0), box.bottom - 20, x(limit) + (flip ? 0 : 75), box.bottom]);
    }
    const rivals = rows.filter((row) => !data.series[row.series].reference)
      .sort((a, b) => figure(a, "average_cost") - figure(b, "average_cost") || figure(b, MAIN.strict) - figure(a, MAIN.strict));
    const front = [];
    for (const row of rivals) {
      const at = [x(figure(row, "average_cost")), y(figure(row, MAIN.strict))];
      if (!front.length) front.push(at);
      else if (at[1] < front.at(-1)[1]) front.push([at[0], front.at(-1)[1]], at);
    }
    if (front.length) front.push([box.right, front.at(-1)[1]]);
    for (let i = 1; i < front.length; i += 1) taken.push([front[i - 1][0] - 1, front[i][1] - 1, front[i][0] + 1, front[i - 1][1] + 1]);
    svg.append(el("polyline", { class: "front", points: front.map((p) => p.map(round).join(",")).join(" ") }));
    const order = (row) => row.condition / Math.max(1, data.conditions.length - 1);
    for (const index of [...new Set(rows.map((row) => row.series))].sort((a, b) => a - b)) {
      const own = rows.filter((row) => row.series === index).sort((a, b) => a.condition - b.condition);
      const group = el("g", { class: seriesClass(index), "data-series": index });
      const at = own.map((row) => [x(figure(row, "average_cost")), y(figure(row, MAIN.strict))]);
      if (own.length > 1) group.append(el("polyline", { class: "path", points: at.map((p) => p.map(round).join(",")).join(" ") }));
      own.forEach((row, i) => {
        const [across, up] = [interval(row, "average_cost"), interval(row, MAIN.strict)];
        if (across && state.intervals) group.append(el("line", { class: "whisker", x1: x(across[0]), x2: x(across[1]), y1: at[i][1], y2: at[i][1] }));
        if (up && state.intervals) group.append(el("line", { class: "whisker", x1: at[i][0], x2: at[i][0], y1: y(up[0]), y2: y(up[1]) }));
        const r = own.length > 1 ? 3.5 + 2.5 * order(row) : 5;
        group.append(point(svg, row, ...at[i], r));
        taken.push([at[i][0] - 8, at[i][1] - 8, at[i][0] + 8, at[i][1] + 8]);
      });
      svg.append(group);
    }
    svg.append(labelPoints(rows, (row) => [x(figure(row, "average_cost")), y(figure(row, MAIN.strict))], box, taken));
  }

  // A label goes to the nearest free place about its mark; where there is none, the legend has to do.
  function labelPoints(rows, place, box, taken) {
    const labels = el("g", { class: "labels" });
    const last = new Map();
    for (const row of rows) if (!last.has(row.series) || row.condition > last.get(row.series).condition) last.set(row.series, row);
    for (const row of last.values()) {
      const [cx, cy] = place(row);
      const text = name(row.series), wide = textWidth(text);
      for (const [dx, dy, anchor] of [[10, 4, "start"], [-10, 4, "end"], [9, -9, "start"], [9, 18, "start"], [-9, -9, "end"], [-9, 18, "end"], [0, -14, "middle"], [0, 23, "middle"], [14, -22, "start"], [14, 31, "start"], [-14, -22, "end"], [-14, 31, "end"]]) {
        const left = cx + dx - (anchor === "end" ? wide : anchor === "middle" ? wide / 2 : 0);
        const rect = [left, cy + dy - 11, left + wide, cy + dy + 4];
        const free = rect[0] >= box.left + 2 && rect[2] <= box.width && rect[1] >= box.top - 10 && rect[3] <= box.bottom - 1
          && !taken.some((other) => rect[0] < other[2] && rect[2] > other[0] && rect[1] < other[3] && rect[3] > other[1]);
        if (!free) continue;
        taken.push(rect);
        labels.append(el("g", { "data-series": row.series }, el("text", { class: "label", x: round(cx + dx), y: round(cy + dy), "text-anchor": anchor }, text)));
        break;
      }
    }
    return labels;
  }

  function draw() {
    if (!data.rows.length || !byId("plots")) return;
    drawLines();
    drawScatter();
  }
  function refresh() {
    filterTable();
    sortTable();
    announce();
    draw();
  }

  /* ---- controls ---- */

  for (const head of heads) {
    head.querySelector("button").addEventListener("click", () => {
      const first = head.dataset.first === "down";
      state.down = state.sort === head.dataset.sort ? !state.down : first;
      state.sort = head.dataset.sort;
      sortTable();
      announce();
    });
  }
  const form = byId("controls");
  form.hidden = false;
  form.addEventListener("submit", (event) => event.preventDefault());
  // Read also at the start: a browser may restore what was chosen before a reload.
  function readControls() {
    state.condition = form.elements.condition.value;
    state.grading = (form.elements.grading?.value ?? document.body.dataset.grading);
    state.intervals = byId("intervals").checked;
    refresh();
  }
  form.addEventListener("change", readControls);
  data.series.forEach((series, index) => {
    const button = document.createElement("button");
    button.type = "button";
    button.setAttribute("aria-pressed", "true");
    button.append(swatch(index), series.label + (series.simulated ? ", simulated" : series.reference ? ", bound" : ""));
    button.addEventListener("click", () => {
      if (!state.hidden.delete(index)) state.hidden.add(index);
      button.setAttribute("aria-pressed", String(!state.hidden.has(index)));
      draw();
    });
    for (const kind of ["pointerenter", "focus"]) button.addEventListener(kind, () => light(index));
    for (const kind of ["pointerleave", "blur"]) button.addEventListener(kind, () => light(null));
    const item = document.createElement("li");
    item.append(button);
    byId("legend")?.append(item);
  });
  for (const line of lines) line.querySelector(".name").prepend(swatch(data.rows[lines.indexOf(line)].series));

  const theme = byId("theme");
  const themes = ["auto", "light", "dark"];
  const paint = (wanted) => {
    if (wanted === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = wanted;
    theme.textContent = `Theme: ${wanted}`;
    theme.dataset.now = wanted;
  };
  const remembered = () => { try { return localStorage.getItem("costgym-theme"); } catch { return null; } };
  paint(themes.includes(remembered()) ? remembered() : "auto");
  theme.hidden = false;
  theme.addEventListener("click", () => {
    paint(themes[(themes.indexOf(theme.dataset.now) + 1) % 3]);
    try { localStorage.setItem("costgym-theme", theme.dataset.now); } catch { /* a page that cannot remember still works */ }
  });

  readControls();
  // A resize is only news when the width changed: drawing changes the height.
  const plots = byId("plots");
  let width = plots?.clientWidth;
  if (plots) new ResizeObserver(() => {
    if (plots.clientWidth === width) return;
    width = plots.clientWidth;
    draw();
  }).observe(plots);
  addEventListener("beforeprint", draw);
})();
