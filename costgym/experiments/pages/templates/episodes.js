"use strict";
/* The list of episodes: all of them in memory, a page of them in the document. */
(async () => {
  const { make, number } = costgym;
  const PAGE = 100;
  const run = await costgym.load("run");
  const queries = await costgym.load("queries").catch(() => ({}));
  const asked = (row) => queries[`${row.entry.track} ${row.of.task[row.index]}`] ?? "";
  const byId = (id) => document.getElementById(id);
  const form = byId("filters"), body = byId("list").tBodies[0], pager = byId("pager");
  const heads = [...document.querySelectorAll("#list th[data-sort]")];
  const state = { sort: "place", down: false, page: 0, fitting: [], found: [] };
  const rows = [];
  document.querySelector("#list th[data-sort=share] button").textContent = run.share;
  const option = (select, value, text) => select.append(make("option", { value }, text));

  // the ranked come first: a bound is no episode to begin with
  run.entries.sort((a, b) => a.reference - b.reference);
  run.entries.forEach((entry, place) => { entry.place = place; });
  const agents = [...new Set(run.entries.map((entry) => entry.agent))].sort();
  const budgets = [...new Set(run.entries.map((entry) => entry.where))];
  for (const agent of agents) option(form.elements.agent, agent, agent);
  for (const budget of budgets) option(form.elements.budget, budget, budget);

  const VALUE = {
    place: (row) => row.entry.place * 1e7 + row.index,
    agent: (row) => row.entry.agent,
    budget: (row) => budgets.indexOf(row.entry.where),
    regret: (row) => row.of.regret[row.index],
  };
  const value = (row, key) => (VALUE[key] ? VALUE[key](row) : row.of[key][row.index]);

  function find() {
    const { agent, budget, outcome, task } = form.elements;
    const wanted = task.value.trim().toLowerCase();
    state.fitting = rows.filter((row) => (!agent.value || row.entry.agent === agent.value) && (!budget.value || row.entry.where === budget.value)
      && (!outcome.value || row.of.outcome[row.index] === outcome.value) && (!wanted || wanted.split(/\s+/).every((word) => row.of.task[row.index].toLowerCase().includes(word) || asked(row).toLowerCase().includes(word))));
    order();
  }
  /* Sorting is stable, and what fits is in the order of the ranking: so equals keep that order. */
  function order() {
    const keys = state.fitting.map((row) => value(row, state.sort));
    const places = keys.map((_, place) => place);
    if (keys.some((key) => typeof key === "string")) places.sort((i, j) => (keys[i] < keys[j] ? -1 : keys[i] > keys[j] ? 1 : 0));
    else {
      const none = state.down ? -Infinity : Infinity;
      const numbers = Float64Array.from(keys, (key) => key ?? none);
      places.sort((i, j) => numbers[i] - numbers[j] || 0);
    }
    if (state.down) places.reverse();
    state.found = places.map((place) => state.fitting[place]);
    for (const head of heads) {
      if (head.dataset.sort === state.sort) head.setAttribute("aria-sort", state.down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    }
    state.page = 0;
    show();
  }
  function line(row) {
    const { entry, of, index } = row;
    const figure = (text) => make("td", { class: "figure" }, text);
    const place = String(of.episode[index]);
    const head = index < entry.detailed ? make("a", { href: costgym.link("episode.html", { entry: entry.id, at: String(index) }) }, place) : place;
    return make("tr", {}, make("th", { scope: "row", class: "figure" }, head), make("td", { title: entry.agent }, entry.agent),
      make("td", {}, entry.where), make("td", { title: asked(row) || of.task[index], class: "asked" }, of.task[index], make("small", {}, asked(row))), make("td", {}, costgym.tag(of.outcome[index])),
      figure((100 * of.share[index]).toFixed(0)), figure(number(of.price[index])), figure(number(of.seconds[index])), figure(number(of.tokens[index])),
      figure(number(of.calls[index])), figure(number(of.errors[index])), figure(of.regret[index] === null ? "–" : of.regret[index].toFixed(3)));
  }
  function show() {
    const pages = Math.max(1, Math.ceil(state.found.length / PAGE));
    state.page = Math.min(Math.max(0, state.page), pages - 1);
    const from = state.page * PAGE, shown = state.found.slice(from, from + PAGE);
    body.replaceChildren(...shown.map(line));
    const total = rows.length.toLocaleString("en");
    byId("count").textContent = state.found.length
      ? `${(from + 1).toLocaleString("en")} to ${(from + shown.length).toLocaleString("en")} of ${state.found.length.toLocaleString("en")}${state.found.length < rows.length ? ` that fit, ${total} in all` : " episodes"}`
      : `None of ${total} episodes fits`;
    pager.hidden = pages === 1;
    const input = pager.querySelector("input");
    input.value = state.page + 1;
    input.max = pages;
    pager.querySelector("span").textContent = `of ${pages.toLocaleString("en")}`;
    for (const button of pager.querySelectorAll("button")) button.disabled = (["first", "back"].includes(button.dataset.step) ? state.page === 0 : state.page === pages - 1);
  }
  const turn = (page) => {
    state.page = page;
    show();
    document.querySelector("#list").closest(".scroll").scrollIntoView({ block: "nearest" });
  };
  for (const button of pager.querySelectorAll("button")) {
    button.addEventListener("click", () => turn({ first: 0, back: state.page - 1, on: state.page + 1, last: Infinity }[button.dataset.step]));
  }
  pager.querySelector("input").addEventListener("change", (event) => turn((Number(event.target.value) || 1) - 1));
  for (const head of heads) {
    head.querySelector("button").addEventListener("click", () => {
      state.down = state.sort === head.dataset.sort ? !state.down : false;
      state.sort = head.dataset.sort;
      order();
    });
  }
  form.addEventListener("submit", (event) => event.preventDefault());
  let timer = 0;
  form.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(() => { remember(); find(); }, 80);
  });
  // The address remembers what is shown, so that Back returns to it.
  function remember() {
    const values = Object.fromEntries(["agent", "budget", "outcome", "task"].map((name) => [name, form.elements[name].value]).filter(([, text]) => text));
    history.replaceState(null, "", `#${new URLSearchParams(values)}`);
  }
  function recall() {
    const wanted = costgym.address();
    const entry = run.entries.find((each) => each.id === wanted.entry);
    if (entry) [wanted.agent, wanted.budget] = [entry.agent, entry.where];
    for (const name of ["agent", "budget", "outcome", "task"]) form.elements[name].value = wanted[name] ?? "";
  }
  recall();
  addEventListener("hashchange", () => { recall(); find(); });
  form.hidden = false;
  let last = performance.now();
  for (const entry of run.entries) {
    const of = await costgym.load(entry.id);
    for (let index = 0; index < of.episode.length; index += 1) rows.push({ entry, of, index });
    // what is there is shown at once, and again as more comes in
    if (performance.now() - last > 150 || rows.length === of.episode.length) { find(); last = performance.now(); }
  }
  find();
  document.body.dataset.ready = String(rows.length);
})().catch((error) => { document.getElementById("count").textContent = `The list cannot be shown: ${error.message}`; });
