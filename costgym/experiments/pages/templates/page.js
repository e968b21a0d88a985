"use strict";
(() => {
  const byId = (id) => document.getElementById(id);
  const all = (selector, from = document) => [...from.querySelectorAll(selector)];
  const data = JSON.parse(byId("data").textContent);
  const controls = byId("controls"), ask = byId("ask"), over = byId("over"), more = byId("more"), every = byId("every");

  /* The choices stand in the address, those that differ from the page's own. */
  const own = { ...data.start, condition: document.body.dataset.condition, search: "", rows: "one", columns: "few", sort: "rank" };
  const state = { ...own };
  const offered = (name, value) => all(`form [name="${name}"]`).some((field) => (field.tagName === "SELECT" ? [...field.options] : [field]).some((each) => each.value === value));
  function readAddress() {
    Object.assign(state, own, Object.fromEntries([...new URLSearchParams(location.hash.slice(1))].filter(([key]) => Object.hasOwn(own, key))));
    for (const name of ["condition", "kind", "grading", "by"]) if (!offered(name, state[name])) state[name] = own[name];
    if (!all("[data-sort]").some((head) => head.dataset.sort === state.sort.split(".")[0])) state.sort = own.sort;
  }
  function writeAddress() {
    const said = new URLSearchParams(Object.entries(state).filter(([key, value]) => String(value) !== String(own[key])));
    if (location.hash.slice(1) !== String(said)) history.replaceState(null, "", `#${said}`);
  }

  /* ---- the answer under a budget, and the chart: all was worked out when the page was made ---- */

  const dots = all("#plot > i"), lines = all("#board tr[data-row]");
  const corner = (dot) => [dot.x[state.by], dot.y[state.grading]];
  const points = (corners) => corners.map(([x, y]) => `${(100 * x).toFixed(2)},${(100 * (1 - y)).toFixed(2)}`).join(" ");
  function answer() {
    if (!data.dots) return;
    for (const cards of all(".cards")) cards.hidden = ["condition", "kind", "grading"].some((name) => cards.dataset[name] !== state[name]);
    const { by, kind, grading } = state, condition = Number(state.condition);
    const world = data.dots.find((dot) => dot.condition === condition).world;
    const front = data.fronts[`${condition} ${kind} ${grading} ${by}`] ?? [];
    const best = document.querySelector(".cards:not([hidden])").dataset.best, named = new Set();
    dots.forEach((mark, index) => {
      const dot = data.dots[index], [x, y] = corner(dot);
      mark.hidden = x === null || y === null || dot.world !== world;
      Object.assign(mark.style, { left: `${100 * x}%`, bottom: `${100 * y}%` });
      const rival = dot.kind === kind && dot.condition === condition, chosen = String(index) === best;
      const name = !mark.hidden && dot.condition === condition && (chosen || dot.kind === "bound" || front.includes(index));
      if (name) named.add(index);
      mark.className = [dot.kind, dot.condition === condition && (rival || dot.kind === "bound") ? "" : "faint", front.includes(index) && "lead", chosen && "chosen", name && "named"].filter(Boolean).join(" ");
    });
    let level = null;
    const corners = front.flatMap((index) => {
      const [x, y] = corner(data.dots[index]), before = level ?? y;
      level = y;
      return [[x, before], [x, y]];
    });
    byId("front").setAttribute("points", points(corners));
    const joined = data.lines.map((line) => line.filter((index) => !dots[index].hidden && (data.dots[index].kind === kind || data.dots[index].kind === "bound"))).filter((line) => line.length > 1);
    byId("lines").replaceChildren(...joined.map((line) => {
      const drawn = document.createElementNS(byId("front").namespaceURI, "polyline");
      drawn.setAttribute("points", points(line.map((index) => corner(data.dots[index]))));
      drawn.style.stroke = `var(--c${data.dots[line[0]].colour})`;
      return drawn;
    }));
    const limit = data.limits[by][condition];
    byId("limit").hidden = limit === null;
    byId("limit").style.left = `${100 * limit}%`;
    byId("limit").classList.toggle("late", limit > 0.9);
    for (const part of all(".frontier [data-by]")) part.hidden = part.dataset.by !== by;
    for (const line of lines) line.classList.toggle("chosen", line.dataset.row === best);
    name(named, corners);
  }
  /* A name stands beside its mark where it covers no mark, no other name and nothing of the frontier; where there is no room it
     stays away, and the tip shows it. */
  const SIDES = ["left", "above", "right", "below"];
  function name(named, corners) {
    const frame = byId("plot").getBoundingClientRect(), taken = [];
    const ordered = [...named].sort((a, b) => (dots[b].classList.contains("chosen") - dots[a].classList.contains("chosen")) || (dots[b].classList.contains("lead") - dots[a].classList.contains("lead")));
    for (const mark of dots) if (!mark.hidden && !mark.classList.contains("faint")) taken.push(mark.getBoundingClientRect());
    for (const old of all("#plot > b")) old.remove();
    const path = corners.map(([x, y]) => [frame.left + x * frame.width, frame.bottom - y * frame.height]);
    const steps = path.slice(1).map(([x, y], index) => {
      const [a, b] = path[index];
      return { left: Math.min(a, x), right: Math.max(a, x), top: Math.min(b, y), bottom: Math.max(b, y) };
    });
    for (const index of ordered) {
      const label = document.createElement("b"), box = dots[index].getBoundingClientRect();
      label.textContent = data.dots[index].name;
      label.className = dots[index].className;
      byId("plot").append(label);
      const { width, height } = label.getBoundingClientRect();
      const middle = [box.left + box.width / 2, box.top + box.height / 2];
      const spots = { left: [box.left - width - 3, middle[1] - height / 2], right: [box.right + 3, middle[1] - height / 2], above: [middle[0] - width / 2, box.top - height - 1], below: [middle[0] - width / 2, box.bottom + 1] };
      const free = SIDES.map((side) => spots[side]).find(([x, y]) => x >= frame.left && x + width <= frame.right && y >= frame.top - 18 && y + height <= frame.bottom
        && ![...taken, ...steps].some((other) => x < other.right && x + width > other.left && y < other.bottom && y + height > other.top));
      if (!free) { label.remove(); continue; }
      Object.assign(label.style, { left: `${free[0] - frame.left}px`, top: `${free[1] - frame.top}px` });
      taken.push(label.getBoundingClientRect());
    }
  }
  addEventListener("resize", () => answer());
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
    tip.textContent = data.dots[nearest].tip[state.grading];
    const box = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(8, Math.min(event.clientX + 14, innerWidth - box.width - 8))}px`;
    tip.style.top = `${event.clientY + 18 + box.height > innerHeight ? event.clientY - box.height - 12 : event.clientY + 18}px`;
  });
  plot?.addEventListener("pointerleave", () => { tip.hidden = true; });

  /* ---- table ---- */

  const heads = all("#board thead th"), bodies = all("#board tbody");
  const rowOf = (line) => data.rows[Number(line.dataset.row)];
  function table() {
    const [key, way] = state.sort.split("."), sign = way === "down" ? -1 : 1, wanted = state.search.trim().toLowerCase();
    const rank = (row) => row.place[state.grading];
    const value = (row) => (key === "rank" ? rank(row) : key === "agent" ? row.agent.toLowerCase() : key === "condition" ? row.condition : row.figures[key][state.grading]);
    for (const body of bodies) {
      const ordered = all("tr[data-row]", body).sort((one, other) => {
        const [a, b] = [value(rowOf(one)), value(rowOf(other))];
        const tie = rank(rowOf(one)) - rank(rowOf(other));
        if (a === null || b === null) return (a === null) - (b === null) || tie;
        return (a < b ? -sign : a > b ? sign : 0) || tie;
      });
      let before = null;
      for (const line of ordered) {
        const row = rowOf(line);
        line.hidden = !((state.rows === "all" || row.condition === Number(state.condition)) && line.cells[1].textContent.toLowerCase().includes(wanted));
        line.classList.toggle("opens", key === "rank" && before !== null && row.condition !== before);
        before = row.condition;
        body.append(line);
      }
      const heading = body.querySelector(".heading");
      if (heading) heading.hidden = ordered.every((line) => line.hidden);
    }
    document.body.dataset.rows = state.rows;
    document.body.dataset.grading = state.grading;
    byId("board").classList.toggle("all", state.columns === "all");
    more?.setAttribute("aria-pressed", String(state.columns === "all"));
    every?.setAttribute("aria-pressed", String(state.rows === "all"));
    for (const part of all("[data-of-condition]")) part.hidden = state.rows !== "all" && part.dataset.ofCondition !== state.condition;
    for (const head of heads) {
      if (head.dataset.sort === key) head.setAttribute("aria-sort", way === "down" ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    }
    const title = heads.find((head) => head.dataset.sort === key).dataset.title;
    byId("status").textContent = `${lines.filter((line) => !line.hidden).length} rows, sorted by ${title}, ${way === "down" ? "descending" : "ascending"}`;
  }

  /* ---- controls ---- */

  function show() {
    for (const form of [ask, over, controls]) for (const field of form?.elements ?? []) {
      if (field.type === "radio") field.checked = field.value === String(state[field.name]);
      else if (field.name) field.value = state[field.name];
    }
    refresh();
  }
  function refresh() {
    answer();
    table();
    writeAddress();
  }
  controls.hidden = false;
  for (const form of [ask, over, controls]) {
    form?.addEventListener("submit", (event) => event.preventDefault());
    form?.addEventListener("input", ({ target }) => {
      if (!(target.name in own)) return;
      state[target.name] = target.value;
      refresh();
    });
  }
  every?.addEventListener("click", () => { state.rows = state.rows === "all" ? "one" : "all"; refresh(); });
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
