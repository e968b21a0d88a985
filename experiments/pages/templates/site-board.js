"use strict";
/* The ranking's page: tables of one budget at a time, and the sliders. */
(async () => {
  const { make, number, percent } = costgym;
  const form = document.getElementById("controls");
  const chosen = () => form.elements.condition?.value ?? "all";
  const follow = () => {
    for (const part of document.querySelectorAll("[data-of-condition]")) part.hidden = chosen() !== "all" && part.dataset.ofCondition !== chosen();
  };
  form.addEventListener("change", follow);
  follow();

  const run = await costgym.load("run");
  const track = document.body.dataset.track;
  const entries = run.entries.filter((entry) => !track || entry.track === track);
  const section = document.getElementById("sliders");
  const labels = [...new Set([...document.querySelectorAll('#controls input[name="condition"]')].filter((input) => input.value !== "all").map((input) => input.nextElementSibling.textContent))];
  const budgets = labels.length ? labels : [...new Set(entries.map((entry) => entry.label))];
  const all = new Map();
  const load = async () => {
    for (const entry of entries) all.set(entry.id, await costgym.load(entry.id));
  };
  const under = () => {
    const value = chosen();
    const label = value === "all" ? budgets.at(-1) : budgets[Number(value)];
    return entries.filter((entry) => entry.label === label);
  };
  const limits = { price: Infinity, seconds: Infinity, tokens: Infinity };
  const units = { price: run.currency, seconds: "s", tokens: "" };
  const quantile = (values, q) => {
    const sorted = values.slice().sort((a, b) => a - b);
    return sorted[Math.min(sorted.length - 1, Math.floor(q * sorted.length))];
  };
  const wilson = (passed, n) => {
    const z = 1.959964, p = passed / n, centre = (p + (z * z) / (2 * n)) / (1 + (z * z) / n);
    const half = (z / (1 + (z * z) / n)) * Math.sqrt((p * (1 - p)) / n + (z * z) / (4 * n * n));
    return [Math.max(0, centre - half), Math.min(1, centre + half)];
  };
  const race = section.querySelector(".race");
  const lanes = new Map();
  function show() {
    const rows = [];
    for (const entry of under()) {
      const found = all.get(entry.id), passes = found[run.grading === "judge" ? "judge" : "strict"];
      const n = found.outcome.reduce((sum, outcome) => sum + (outcome !== "void"), 0);
      if (!n) continue;
      let passed = 0;
      for (let i = 0; i < passes.length; i += 1) if (passes[i] && found.price[i] <= limits.price && found.seconds[i] <= limits.seconds && found.tokens[i] <= limits.tokens) passed += 1;
      rows.push({ entry, rate: passed / n, ends: wilson(passed, n) });
    }
    rows.sort((a, b) => b.rate - a.rate || (a.entry.agent < b.entry.agent ? -1 : 1));
    race.replaceChildren(...rows.map(({ entry, rate, ends }) => {
      if (!lanes.has(entry.id)) {
        const bar = make("b"), whisker = make("i"), figure = make("span");
        const name = make("a", { href: entry.page }, entry.agent);
        lanes.set(entry.id, { node: make("div", { class: `lane${entry.reference ? " reference" : ""}` }, make("span", {}, name, entry.simulated ? " †" : ""), make("span", { class: "rail", "aria-hidden": "true" }, bar, whisker), figure), bar, whisker, figure });
      }
      const lane = lanes.get(entry.id);
      lane.bar.style.width = `${100 * rate}%`;
      lane.whisker.style.left = `${100 * ends[0]}%`;
      lane.whisker.style.width = `${100 * (ends[1] - ends[0])}%`;
      lane.figure.replaceChildren(`${percent(rate)} %`, make("small", {}, `${percent(ends[0])} to ${percent(ends[1])}`));
      return lane.node;
    }));
  }
  function sliders() {
    const holder = section.querySelector(".sliders");
    const nodes = [];
    for (const name of ["price", "seconds", "tokens"]) {
      // the long tail would take most of the slider's length: it ends where 98 % of the episodes do
      const values = under().flatMap((entry) => all.get(entry.id)[name]);
      const top = quantile(values, 0.98);
      limits[name] = Infinity;
      if (!(top > 0)) continue;
      const steps = 200;
      const input = make("input", { type: "range", min: 1, max: steps, value: steps, "aria-label": `${name} at most` });
      const said = make("output", {}, "no further limit");
      input.addEventListener("input", () => {
        const value = Number(input.value);
        limits[name] = value === steps ? Infinity : (top * value) / steps;
        said.textContent = value === steps ? "no further limit" : `≤ ${number(limits[name])} ${units[name]}`.trim();
        input.setAttribute("aria-valuetext", said.textContent);
        show();
      });
      input.setAttribute("aria-valuetext", "no further limit");
      nodes.push(make("label", {}, make("span", {}, `${name[0].toUpperCase()}${name.slice(1)} at most`), said, input));
    }
    holder.replaceChildren(...nodes);
    show();
  }
  await load();
  section.hidden = false;
  sliders();
  let before = chosen();
  form.addEventListener("change", () => {
    if (chosen() === before) return;
    before = chosen();
    sliders();
  });
})();
