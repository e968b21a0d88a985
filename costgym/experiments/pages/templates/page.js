"use strict";
(() => {
  const byId = (id) => document.getElementById(id);
  const all = (selector, from = document) => [...from.querySelectorAll(selector)];
  const data = JSON.parse(byId("data").textContent);
  const controls = byId("controls"), ask = byId("ask"), more = byId("more");

  /* The choices stand in the address, those that differ from the page's own. */
  const own = { ...data.start, condition: new FormData(controls).get("condition") ?? document.body.dataset.condition, search: "", columns: "few", sort: "rank" };
  const state = { ...own };
  function readAddress() {
    Object.assign(state, own, Object.fromEntries([...new URLSearchParams(location.hash.slice(1))].filter(([key]) => key in own)));
    if (!data.advice?.[state.world]?.[state.kind]?.[state.grading]?.[state.by]) for (const key of ["world", "kind", "grading", "by"]) state[key] = own[key];
    if (!(Number(state.budget) >= 0)) state.budget = own.budget;
    if (!all("[data-sort]").some((head) => head.dataset.sort === state.sort.split(".")[0])) state.sort = own.sort;
  }
  function writeAddress() {
    const said = new URLSearchParams(Object.entries(state).filter(([key, value]) => String(value) !== String(own[key])));
    if (location.hash.slice(1) !== String(said)) history.replaceState(null, "", `#${said}`);
  }

  /* ---- the agent for a budget: the steps were found when the page was made ---- */

  const short = (value) => Number(Number(value).toPrecision(3)).toLocaleString("en", { maximumSignificantDigits: 3 });
  const axis = () => data.axes[state.by];
  const share = (value) => {
    const { low, high, log } = axis();
    return Math.min(1, Math.max(0, log ? Math.log(Math.max(value, low) / low) / Math.log(high / low) : (value - low) / (high - low)));
  };
  const valueAt = (at) => {
    const { low, high, log } = axis();
    return Number((log ? low * (high / low) ** at : low + at * (high - low)).toPrecision(3));
  };
  const within = (steps, budget) => steps.findLast(([from]) => from <= budget * (1 + 1e-9));
  const middle = () => {  // a budget at which there is something to choose
    const steps = data.advice[state.world][state.kind][state.grading][state.by].best;
    if (!steps.length) return axis().high;
    const least = steps[Math.floor(steps.length / 2)][0], unit = 10 ** (Math.floor(Math.log10(least)) - 1);
    return Number((Math.ceil(least / unit - 1e-9) * unit).toPrecision(6));
  };
  const costText = (row) => {
    const [value, ends] = row.cost[state.by];
    return `${value} an episode${ends ? ` (${ends})` : ""}${row.limit ? `, ${row.limit}` : ""}`;
  };
  const rivals = (others) => {
    if (!others.length) return data.words.only;
    if (others.every(([, , alike]) => !alike)) return others.some(([, , alike]) => alike === null) ? "" : data.words.alone;
    const names = others.filter(([, , alike]) => alike).map(([, name]) => name);
    const rest = names.length > 4 ? ` and ${names.length - 4} more` : "";
    return `Not significantly better than ${names.slice(0, 4).join(", ")}${rest}.`;
  };
  function fill(key, row, texts) {
    const card = byId(`card-${key}`);
    card.toggleAttribute("data-empty", !row);
    const shown = { name: row ? row.name : "", figure: "", ends: "", cost: "", under: data.words[key], ...texts };
    for (const slot of all("[data-slot]", card)) if (slot.dataset.slot in shown) slot.textContent = shown[slot.dataset.slot];
  }
  function answer() {
    if (!data.advice) return;
    const { by, grading } = state, budget = Number(state.budget), places = data.places, unit = data.units[by];
    const found = data.advice[state.world][state.kind][grading][by];
    const best = within(found.best, budget), cheap = within(found.cheap, budget);
    const next = found.best.find(([from]) => !best || from > best[0]);
    const said = `${short(budget)} ${unit}`.trim();
    byId("spend").textContent = said;
    byId("budget").setAttribute("aria-valuetext", said);
    const of = (step) => (step ? places[step[1]] : null);
    const [first, saver, dearer] = [of(best), of(cheap), of(next)];
    fill("best", first, first && { figure: first.main[grading][0], ends: first.main[grading][1], cost: costText(first),
      under: rivals(best[2].filter(([from]) => from <= budget)) });
    fill("cheap", saver, saver && { figure: saver.cheap[grading][0], under: `${data.words.main} ${saver.main[grading][0]}, ${costText(saver)}` });
    fill("next", dearer, dearer && { figure: dearer.main[grading][0], under: `from ${short(next[0])} ${unit} a task, ${costText(dearer)}`.replace("  ", " ") });
    const ends = first?.main[grading][2], band = all(".band i")[0];
    band.parentElement.hidden = !ends;
    if (ends) Object.assign(band.style, { left: `${100 * ends[0]}%`, right: `${100 * (1 - ends[1])}%` });
    chart(found.best, best);
    for (const line of lines) line.classList.toggle("chosen", Number(line.dataset.row) === best?.[1]);
  }
  const dots = all("#plot > i");
  function chart(steps, best) {
    const { by, grading } = state, places = data.places;
    const named = new Map([...steps].reverse().map(([, row]) => [places[row].name, row]));
    const leads = new Set(steps.map(([, row]) => row)), names = new Set(named.values());
    dots.forEach((dot, index) => {
      const row = places[index], x = row.x[by], y = row.y[grading];
      dot.hidden = x === null || y === null || row.world !== Number(state.world);
      Object.assign(dot.style, { left: `${100 * x}%`, bottom: `${100 * y}%` });
      dot.className = [row.kind === "bound" || row.kind === state.kind ? row.kind : "other", leads.has(index) && "lead", (row.named || names.has(index)) && "named", best?.[1] === index && "chosen", x !== null && x < 0.12 && "west"].filter(Boolean).join(" ");
    });
    let level = null;
    const corners = steps.flatMap(([, row]) => {
      const [x, y] = [places[row].x[by], places[row].y[grading]], before = level ?? y;
      level = y;
      return [[x, before], [x, y]];
    });
    if (corners.length) corners.push([1, level]);
    byId("front").setAttribute("points", corners.map(([x, y]) => `${(100 * x).toFixed(2)},${(100 * (1 - y)).toFixed(2)}`).join(" "));
    byId("limit").style.left = `${100 * share(Number(state.budget))}%`;
    for (const part of all(".frontier [data-by]")) part.hidden = part.dataset.by !== by;
  }
  const tip = byId("tip"), plot = byId("plot");
  plot?.addEventListener("pointermove", (event) => {
    let nearest = null, least = 22;
    dots.forEach((dot, index) => {
      if (dot.hidden) return;
      const box = dot.getBoundingClientRect();
      const far = Math.hypot(event.clientX - box.left - box.width / 2, event.clientY - box.top - box.height / 2);
      if (far < least) [nearest, least] = [index, far];
    });
    tip.hidden = nearest === null;
    if (tip.hidden) return;
    const row = data.places[nearest], [figure, ends] = row.main[state.grading];
    tip.textContent = [row.name + (row.kind === "simulated" ? " † simulated" : row.kind === "bound" ? ", a bound" : ""), `${figure}${ends ? ` (${ends})` : ""}`, costText(row)].join("\n");
    const box = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(8, Math.min(event.clientX + 14, innerWidth - box.width - 8))}px`;
    tip.style.top = `${event.clientY + 18 + box.height > innerHeight ? event.clientY - box.height - 12 : event.clientY + 18}px`;
  });
  plot?.addEventListener("pointerleave", () => { tip.hidden = true; });

  /* ---- table ---- */

  const heads = all("#board thead th");
  const bodies = all("#board tbody"), lines = all("#board tr[data-row]");
  const rowOf = (line) => data.rows[Number(line.dataset.row)];
  function table() {
    const [key, way] = state.sort.split("."), sign = way === "down" ? -1 : 1, wanted = state.search.trim().toLowerCase();
    const place = (row) => row.place[state.grading];
    const value = (row) => (key === "rank" ? place(row) : key === "agent" ? row.agent.toLowerCase() : key === "condition" ? row.condition : row.figures[key][state.grading]);
    for (const body of bodies) {
      const ordered = all("tr[data-row]", body).sort((one, other) => {
        const [a, b] = [value(rowOf(one)), value(rowOf(other))];
        const tie = place(rowOf(one)) - place(rowOf(other));
        if (a === null || b === null) return (a === null) - (b === null) || tie;
        return (a < b ? -sign : a > b ? sign : 0) || tie;
      });
      let before = null;
      for (const line of ordered) {
        const row = rowOf(line);
        line.hidden = !((state.condition === "all" || row.condition === Number(state.condition)) && line.cells[1].textContent.toLowerCase().includes(wanted));
        line.classList.toggle("opens", key === "rank" && before !== null && row.condition !== before);
        before = row.condition;
        body.append(line);
      }
      const heading = body.querySelector(".heading");
      if (heading) heading.hidden = ordered.every((line) => line.hidden);
    }
    document.body.dataset.condition = state.condition;
    document.body.dataset.grading = state.grading;
    byId("board").classList.toggle("all", state.columns === "all");
    more?.setAttribute("aria-pressed", String(state.columns === "all"));
    for (const part of all("[data-of-condition]")) part.hidden = state.condition !== "all" && part.dataset.ofCondition !== state.condition;
    for (const head of heads) {
      if (head.dataset.sort === key) head.setAttribute("aria-sort", way === "down" ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    }
    const title = heads.find((head) => head.dataset.sort === key).dataset.title;
    byId("status").textContent = `${lines.filter((line) => !line.hidden).length} rows, sorted by ${title}, ${way === "down" ? "descending" : "ascending"}`;
  }

  /* ---- controls ---- */

  function show() {
    for (const form of [ask, controls]) for (const field of form?.elements ?? []) {
      if (field.type === "radio") field.checked = field.value === String(state[field.name]);
      else if (field.name && field.name !== "budget") field.value = state[field.name];
    }
    if (data.advice) byId("budget").value = Math.round(1000 * share(Number(state.budget)));
    refresh();
  }
  function refresh() {
    answer();
    table();
    writeAddress();
  }
  controls.hidden = false;
  for (const form of [ask, controls]) {
    form?.addEventListener("submit", (event) => event.preventDefault());
    form?.addEventListener("input", ({ target }) => {
      if (!(target.name in own)) return;
      state[target.name] = target.name === "budget" ? valueAt(Number(target.value) / 1000) : target.value;
      if (form === ask && target.name !== "budget") {
        state.budget = middle();
        show();
      } else refresh();
    });
  }
  more?.addEventListener("click", () => { state.columns = state.columns === "all" ? "few" : "all"; refresh(); });
  for (const head of heads) {
    head.querySelector("button").addEventListener("click", () => {
      const [key, way] = state.sort.split(".");
      const down = key === head.dataset.sort ? way !== "down" : head.dataset.first === "down";
      state.sort = head.dataset.sort + (down ? ".down" : "");
      refresh();
    });
  }
  addEventListener("hashchange", () => { readAddress(); show(); });

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

  readAddress();
  show();
})();
