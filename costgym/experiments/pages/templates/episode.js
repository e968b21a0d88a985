"use strict";
/* The viewer: one episode, named by the address. */
(async () => {
  const { make, number } = costgym;
  const PIECE = 20;
  const byId = (id) => document.getElementById(id);
  const run = await costgym.load("run");
  let shown = null;

  const facts = (final) => `${(100 * (final.share ?? 0)).toFixed(0)} % of the facts; strict: ${final.strict ? "success" : "failure"}, judge: ${final.judged ? "success" : "failure"}${final.exceeded ? `; over its budget of ${final.exceeded}` : ""}`;
  const failed = (problem) => {
    byId("where").textContent = "";
    byId("query").textContent = "No such episode";
    byId("verdict").textContent = problem;
  };
  async function show() {
    const wanted = costgym.address();
    const entry = run.entries.find((each) => each.id === wanted.entry) ?? (run.entries.length === 1 ? run.entries[0] : undefined);
    const at = Number(wanted.at ?? 0);
    if (!entry || !(at >= 0 && at < entry.detailed)) return entry ? failed("There is no detail of this episode here; \`costgym leaderboard --detail N\` shows more.") : failed("Choose one from the list of episodes.");
    const [piece, columns] = await Promise.all([costgym.load(`${entry.id}-${Math.floor(at / PIECE)}`), costgym.load(entry.id)]);
    const episode = piece[at % PIECE];
    const scene = episode.made?.scene ? await costgym.load(episode.made.scene) : {};
    shown = { entry, episode };
    const outcome = columns.outcome[at];
    document.title = `Episode ${episode.episode}, ${entry.agent}, ${entry.label}`;
    byId("where").replaceChildren(entry.page ? make("a", { href: `${entry.page}#search=${encodeURIComponent(entry.agent)}` }, entry.agent) : entry.agent, ` · ${entry.label} · episode ${episode.episode} · task ${episode.task} · seed ${episode.seed}`);
    byId("query").textContent = episode.query || `Task ${episode.task}`;
    const final = episode.final;
    byId("verdict").replaceChildren(costgym.tag(outcome), `${episode.verdict ?? facts(final)}${episode.truncated ? "; cut off by the limit of steps" : ""}`);
    reason(episode);
    byId("warning").hidden = episode.replayed;
    byId("warning").textContent = episode.note;
    neighbours(entry, at);
    meters(entry, final);
    costgym.gantt.key(byId("key"), episode);
    charts();
    calls(episode);
    charges(episode);
    messages(episode);
    images(episode.made, scene);
    document.body.dataset.ready = `${entry.id}/${at}`;
    others(entry, at, columns);
  }
  /* Why it failed or what it wasted; the calls that the sentence names are links. */
  function reason(episode) {
    byId("why").hidden = !episode.why;
    const parts = (episode.why ?? "").split(/\b(call \d+)\b/);
    byId("why").replaceChildren(...parts.map((part, i) => (i % 2 ? make("a", { href: `#call-${part.slice(5)}`, "data-call": part.slice(5) }, part) : part)));
  }
  function neighbours(entry, at) {
    const to = (place, text, rel) => (place >= 0 && place < entry.detailed ? make("a", { href: costgym.link("episode.html", { entry: entry.id, at: String(place) }), rel }, text) : make("span", { "aria-hidden": "true" }, text));
    byId("steps").replaceChildren(to(at - 1, "← Previous", "prev"), to(at + 1, "Next →", "next"));
  }
  function meters(entry, final) {
    const unit = { price: (shown.entry.currency ?? run.currency), seconds: "s", tokens: "", calls: "" };
    byId("meters").replaceChildren(...["price", "seconds", "tokens", "calls"].map((name) => {
      const limit = entry.budget[name], used = final[name] ?? 0, over = limit !== undefined && used > limit;
      const value = make("span", { class: "value" }, number(used), make("small", {}, limit === undefined ? ` ${unit[name]}` : ` of ${number(limit)} ${unit[name]}`));
      const parts = [make("span", { class: "name" }, name === "price" ? "Cost" : name[0].toUpperCase() + name.slice(1)), value];
      if (limit !== undefined) {
        const fill = make("i");
        fill.style.width = `${Math.min(100, (100 * used) / limit)}%`;
        parts.push(make("span", { class: "gauge", "aria-hidden": "true" }, fill));
      }
      return make("div", { class: over ? "over" : null }, ...parts);
    }));
  }
  function charts() {
    if (!shown) return;
    costgym.gantt.chart(byId("gantt"), shown.episode);
    costgym.gantt.ledger(byId("ledger"), shown.episode, shown.entry.budget.price, (shown.entry.currency ?? run.currency));
  }
  const figure = (text) => make("td", { class: "figure" }, text);
  const none = (columns, text) => make("tr", {}, make("td", { colspan: columns }, text));
  function calls(episode) {
    const rows = episode.calls.map(([tool, status, meaning, asked, , , end, price, reason, given], index) => {
      const state = make("span", { class: `state ${costgym.gantt.CLASS[meaning] ?? "m-cut"}` }, make("span", {}, status.replaceAll("_", " ")));
      const what = make("td", {}, costgym.name(tool), make("br"), state);
      if (reason) what.append(make("span", { class: "reason" }, reason));
      if (given) what.append(make("span", { class: "reason" }, make("code", {}, given)));
      return make("tr", { id: `call-${index + 1}` }, make("th", { scope: "row", class: "figure" }, String(index + 1)), what, figure(asked.toFixed(2)), figure(Math.max(0, end - asked).toFixed(2)), figure(number(price)));
    });
    byId("call-table").tBodies[0].replaceChildren(...(rows.length ? rows : [none(5, "No call was made.")]));
  }
  function charges(episode) {
    let spent = 0;
    const rows = episode.charges.map(([at, what, price, tokens]) => {
      spent += price;
      return make("tr", {}, figure(at.toFixed(2)), make("td", {}, costgym.name(what)), figure(number(price)), figure(number(tokens)), figure(number(spent)));
    });
    byId("charge-table").tBodies[0].replaceChildren(...(rows.length ? rows : [none(5, "Nothing was charged.")]));
  }
  function messages(episode) {
    const items = episode.steps.map(([at, said, heard, made], index) => {
      const when = at === null ? "" : `${number(at)} s`;
      const item = make("li", {}, make("span", { class: "stamp" }, index === 0 && !said ? "The task" : `Step ${index}${when ? `, ${when}` : ""}`));
      if (said) item.append(make("p", { class: "said" }, make("span", { class: "who" }, "Agent"), said));
      if (heard) item.append(make("p", { class: "heard" }, make("span", { class: "who" }, "World"), heard));
      else if (made.length) item.append(make("p", { class: "heard" }, make("span", { class: "who" }, "World"), made.map((call) => `call ${call + 1}: ${episode.calls[call][1].replaceAll("_", " ")}`).join("\n")));
      return item.children.length > 1 ? item : null;
    }).filter(Boolean);
    byId("messages").replaceChildren(...(items.length ? items : [make("li", {}, "No message is on record.")]));
    for (const text of byId("messages").querySelectorAll("p")) if (text.scrollHeight > text.clientHeight) text.tabIndex = 0; // keys scroll it
  }
  /* What was given, what each tool made of it, and what was wanted; small images of the scene beside the texts. */
  function images(made, scene) {
    byId("images").hidden = !made;
    if (!made) return;
    const artefact = ([title, about, key, alt, text]) => {
      const data = scene[key];
      const shown = data ? make("img", { src: `data:image/png;base64,${data}`, alt, width: "120", height: "120" }) : make("p", {}, text || (key || alt ? "not shown" : "–"));
      return make("figure", {}, shown, make("figcaption", {}, title.includes("_") ? costgym.name(title) : make("b", {}, title), " ", make("span", {}, about.replaceAll("_", " "))));
    };
    byId("images-note").hidden = !made.note;
    byId("images-note").textContent = made.note;
    byId("film").replaceChildren(...made.made.map((each) => make("li", {}, artefact(each))));
    byId("answers").replaceChildren(...made.answers.map(([title, score, given, truth]) => make("div", { role: "group", "aria-label": `Wanted: ${title}` }, make("h3", {}, title, make("small", {}, score === null ? "none was made, score 0" : `score ${score.toFixed(2)}`)), make("div", { class: "film" }, artefact(given), artefact(truth)))));
  }
  async function others(entry, at, columns) {
    const rivals = run.entries.filter((each) => each.label === entry.label && each.track === entry.track && each.id !== entry.id);
    const world = columns.episode[at], rows = [];
    for (const rival of rivals) {
      const theirs = await costgym.load(rival.id).catch(() => null);
      const place = theirs ? theirs.episode.indexOf(world) : -1;
      if (place < 0 || theirs.task[place] !== columns.task[at]) continue;
      const name = place < rival.detailed ? make("a", { href: costgym.link("episode.html", { entry: rival.id, at: String(place) }) }, rival.agent) : rival.agent;
      rows.push(make("tr", {}, make("th", { scope: "row" }, name), make("td", {}, costgym.tag(theirs.outcome[place])), figure(number(theirs.price[place])), figure(number(theirs.seconds[place])), figure(number(theirs.tokens[place])), figure(number(theirs.calls[place]))));
    }
    if (shown.entry !== entry) return;
    byId("other-table").tBodies[0].replaceChildren(...rows);
    byId("same").hidden = !rows.length;
  }
  const go = () => show().catch((error) => failed(error.message));
  /* A link to a call stays on the page: it must not take the place of the episode's address. */
  byId("content").addEventListener("click", (event) => {
    const link = event.target.closest("a[data-call]");
    const row = link && byId(`call-${link.dataset.call}`);
    if (!link) return;
    event.preventDefault();
    if (!row) return;
    for (const other of document.querySelectorAll("#call-table .chosen")) other.classList.remove("chosen");
    row.classList.add("chosen");
    row.tabIndex = -1;
    row.focus();
    row.scrollIntoView({ block: "nearest" });
  });
  addEventListener("hashchange", () => { scrollTo(0, 0); go(); });
  addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey || event.shiftKey || event.target.closest("input, select, textarea, .scroll, [tabindex]")) return;
    const link = { ArrowLeft: "prev", ArrowRight: "next" }[event.key];
    if (link) byId("steps").querySelector(`a[rel="${link}"]`)?.click();
  });
  let width = 0;
  new ResizeObserver(() => {
    if (byId("gantt").clientWidth === width) return;
    width = byId("gantt").clientWidth;
    charts();
  }).observe(byId("gantt"));
  await go();
})();
