"use strict";
/* An episode over time: its calls as bars, its ledger as a line, both over one axis. */
costgym.gantt = (() => {
  const { make, draw, number } = costgym;
  const CLASS = { ok: "m-ok", "looks ok, is not": "m-looks", failed: "m-failed", "agent's error": "m-agent", refused: "m-refused", "cut off": "m-cut", running: "m-cold" };
  const round = (value) => Math.round(value * 10) / 10;

  function ticks(span, most) {
    const raw = span / Math.max(1, most), power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].find((factor) => factor * power >= raw * (1 - 1e-9)) * power;
    return Array.from({ length: Math.floor((span / step) * (1 + 1e-9)) + 1 }, (_, i) => Number((i * step).toPrecision(12)));
  }
  /* Rows of tools in order of their first call; calls of one tool that overlap lie in lanes below each other. */
  function rowsOf(episode) {
    const rows = new Map();
    episode.calls.forEach((call, index) => {
      const [name, , , asked, , , end] = call;
      if (!rows.has(name)) rows.set(name, { name, ends: [], bars: [] });
      const row = rows.get(name);
      let lane = row.ends.findIndex((last) => last <= asked + 1e-9);
      if (lane < 0) lane = row.ends.length;
      row.ends[lane] = Math.max(end, asked);
      row.bars.push({ call, index, lane });
    });
    return [...rows.values()];
  }
  /* The agent thinks from the last thing that happened to the moment it pays for its tokens. */
  function thoughts(episode) {
    const moments = [...new Set([0, ...episode.steps.map((step) => step[0] ?? 0), ...episode.charges.map((charge) => charge[0])])].sort((a, b) => a - b);
    return episode.charges.filter((charge) => charge[1] === "think").map((charge) => [moments.filter((at) => at < charge[0] - 1e-9).at(-1) ?? 0, charge[0], charge[3]]);
  }
  const cut = (text, room) => (text.length * 6.9 <= room ? text : `${text.slice(0, Math.max(4, Math.floor(room / 6.9) - 1))}…`);

  function frame(holder, episode, height) {
    const width = Math.max(280, holder.clientWidth);
    const narrow = width < 720;
    const left = narrow ? 6 : Math.min(300, 24 + 6.9 * Math.max(12, ...episode.calls.map((call) => call[0].length)));
    const box = { width, narrow, left, right: width - (narrow ? 34 : 48) };
    const span = (Math.max(0, episode.final.seconds ?? 0, ...episode.calls.map((call) => call[6])) || 1) * 1.01;
    return { box, span, x: (at) => box.left + (at / span) * (box.right - box.left) };
  }
  function axis(svg, { box, span, x }, top, bottom, label) {
    for (const at of ticks(span, box.narrow ? 4 : 8)) {
      svg.append(draw("line", { class: "grid", x1: round(x(at)), x2: round(x(at)), y1: top, y2: bottom }));
      if (label) svg.append(draw("text", { x: round(x(at)), y: bottom + 16, "text-anchor": at === 0 && box.narrow ? "start" : "middle" }, `${at}${at ? "" : " s"}`));
    }
  }
  function chart(holder, episode) {
    const rows = rowsOf(episode), thinking = thoughts(episode);
    const scene = frame(holder, episode), { box, x } = scene;
    const LANE = 20, head = box.narrow ? 18 : 0;
    const bottom = 8 + (thinking.length ? LANE + head + 6 : 0) + rows.reduce((sum, row) => sum + head + row.ends.length * LANE + 6, 0);
    const svg = draw("svg", { width: box.width, height: bottom + 24, viewBox: `0 0 ${box.width} ${bottom + 24}`, role: "group", "aria-label": `Gantt chart of ${episode.calls.length} calls over ${number(episode.final.seconds)} seconds` });
    const back = draw("g", { "aria-hidden": "true" });
    svg.append(back);
    for (const [begin, end] of episode.outages) back.append(draw("rect", { class: "outage", x: round(x(begin)), y: 2, width: Math.max(1, round(x(end) - x(begin))), height: bottom - 2 }));
    axis(back, scene, 4, bottom, true);
    let y = 6;
    const title = (text, height) => {
      back.append(box.narrow ? draw("text", { class: "tool", x: box.left, y: y + 12 }, cut(text, box.right - box.left))
        : draw("text", { class: "tool", x: box.left - 12, y: y + height / 2 + 4, "text-anchor": "end" }, cut(text, box.left - 16)));
    };
    if (thinking.length) {
      title("(thinking)", LANE);
      y += head;
      for (const [begin, end] of thinking) back.append(draw("rect", { class: "think", x: round(x(begin)), y: y + 5, width: Math.max(1, round(x(end) - x(begin))), height: LANE - 10, rx: 2 }));
      y += LANE + 6;
    }
    for (const row of rows) {
      title(row.name, row.ends.length * LANE);
      y += head;
      for (const { call, index, lane } of row.bars) {
        const [name, status, meaning, asked, begun, ready, ended, price, reason] = call;
        const top = y + lane * LANE + 3, tall = LANE - 6;
        const refused = meaning === "refused";
        const end = Math.max(ended, asked), start = refused || begun < 0 ? asked : begun, warm = Math.min(Math.max(refused ? start : ready, start), end);
        const said = `Call ${index + 1}: ${name}, ${status.replaceAll("_", " ")}, from ${number(asked)} to ${number(end)} s, price ${number(price)}${reason ? `; ${reason}` : ""}`;
        const link = draw("a", { href: `#call-${index + 1}`, "aria-label": said, "data-call": index + 1 }, draw("title", {}, said));
        const part = (kind, from, to, least) => { if (to > from || least) link.append(draw("rect", { class: `bar ${kind}`, x: round(x(from)), y: top, width: Math.max(least, round(x(to) - x(from))), height: tall, rx: 2 })); };
        part("queue", asked, start, 0);
        part("cold", start, warm, 0);
        part(CLASS[meaning] ?? "m-cut", warm, end, 3);
        svg.append(link);
        const after = x(Math.max(end, warm)) + 5;
        const nextOne = row.bars.find((other) => other.index > index && other.lane === lane);
        if (price > 0 && (!nextOne || x(nextOne.call[3]) - after > 24)) svg.append(draw("text", { class: "price", x: round(Math.max(after, x(warm) + 8)), y: top + 11, "aria-hidden": "true" }, number(price)));
      }
      y += row.ends.length * LANE + 6;
    }
    for (const [at, text] of episode.events) {
      back.append(draw("line", { class: "event", x1: round(x(at)), x2: round(x(at)), y1: 4, y2: bottom }), draw("text", { x: round(x(at)) + 3, y: bottom - 4 }, text));
    }
    holder.replaceChildren(svg);
  }
  function ledger(holder, episode, limit, unit) {
    const scene = frame(holder, episode), { box, x } = scene;
    const bottom = 122, top = 26;
    const total = episode.final.price ?? 0;
    const most = Math.max(total, limit !== undefined && limit <= Math.max(total * 2.5, 1e-9) ? limit : 0) || limit || 1;
    const y = (value) => bottom - (value / (most * 1.08)) * (bottom - top);
    const svg = draw("svg", { width: box.width, height: bottom + 26, viewBox: `0 0 ${box.width} ${bottom + 26}`, role: "img", "aria-label": `Price spent over time: ${number(total)}${limit === undefined ? "" : ` of a budget of ${number(limit)}`} ${unit}` });
    axis(svg, scene, top, bottom, false);
    svg.append(draw("line", { class: "axis", x1: box.left, x2: box.right, y1: bottom, y2: bottom }));
    svg.append(draw("text", { x: box.narrow ? box.left : box.left - 12, y: 14, "text-anchor": box.narrow ? "start" : "end", class: "label" }, `Spent${unit ? `, ${unit}` : ""}`));
    let spent = 0;
    const path = [`M${round(x(0))},${bottom}`], dots = [];
    for (const [at, what, price] of episode.charges) {
      if (!price) continue;
      path.push(`H${round(x(at))}`);
      spent += price;
      path.push(`V${round(y(spent))}`);
      dots.push(draw("circle", { class: "dot", cx: round(x(at)), cy: round(y(spent)), r: 3.5 }, draw("title", {}, `${number(at)} s: ${what} costs ${number(price)}, ${number(spent)} spent`)));
    }
    path.push(`H${round(x(episode.final.seconds ?? 0))}`);
    svg.append(draw("path", { class: "area", d: `${path.join("")}V${bottom}Z` }), draw("path", { class: "spent", d: path.join("") }), ...dots);
    if (total) svg.append(draw("text", { class: "label", x: round(x(episode.final.seconds ?? 0) + 6), y: round(y(spent) + 4) }, number(spent)));
    if (limit !== undefined && limit <= most) {
      svg.append(draw("line", { class: "limit", x1: box.left, x2: box.right, y1: round(y(limit)), y2: round(y(limit)) }));
      svg.append(draw("text", { class: "label", x: box.left + 4, y: round(y(limit) - 5) }, `budget ${number(limit)}`));
    }
    holder.replaceChildren(svg);
  }
  function key(holder, episode) {
    const seen = new Set(episode.calls.map((call) => call[2]));
    const items = Object.entries(CLASS).filter(([meaning]) => seen.has(meaning)).map(([meaning, kind]) => [kind, meaning]);
    if (thoughts(episode).length) items.push(["m-think", "thinking"]);
    if (episode.calls.some((call) => call[2] !== "refused" && call[4] > call[3] + 1e-9)) items.push(["m-queue", "queueing"]);
    if (episode.calls.some((call) => call[2] !== "refused" && call[5] > call[4] + 1e-9)) items.push(["m-cold", "cold start"]);
    if (episode.outages.length) items.push(["m-outage", "outage"]);
    holder.replaceChildren(...items.map(([kind, text]) => make("li", {}, make("i", { class: kind }), text)));
  }
  return { chart, ledger, key, CLASS };
})();
