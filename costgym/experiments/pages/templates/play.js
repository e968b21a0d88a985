// Shows the state that the worker sends, and sends it the moves. All texts are set as text, so no tool can write markup.
const $ = (id) => document.getElementById(id);
const worker = new Worker("play-worker.js", { type: "module" });
let state = null;

const amount = (value) => Number(value.toPrecision(3)).toLocaleString("en", { maximumFractionDigits: 6 });

function element(name, text, className) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

function busy(on) {
  for (const button of document.querySelectorAll("main button")) if (button.id !== "copy") button.disabled = on || Boolean(state?.result);
}

function send(move) {
  busy(true);
  worker.postMessage({ move });
}

// -- tools -------------------------------------------------------------------------------------------------------------------

function argumentField(argument) {
  const label = element("label", `${argument.name}${argument.required ? "" : " (optional)"}: ${argument.about}`);
  const field = element(argument.choices.length ? "select" : "input");
  if (argument.choices.length) field.append(...["", ...argument.choices].map((choice) => element("option", choice)));
  field.name = argument.name;
  field.required = argument.required;
  field.autocomplete = "off";
  label.append(field);
  return label;
}

function toolItem(tool) {
  const item = element("li"), details = element("details"), summary = element("summary"), form = element("form");
  const name = element("span", tool.name, "name");
  if (tool.calls) name.append(element("span", ` (${tool.calls})`, "calls"));
  const success = element("span", `${Math.round(100 * tool.success)} %`);
  success.title = "advertised success";
  summary.append(element("span", `${amount(tool.price)} ${state.currency}`), success, name, element("span", tool.about, "about"));
  form.append(...tool.arguments.map(argumentField));
  const buttons = element("p"), cancel = element("button", "Cancel");
  cancel.type = "button";
  cancel.onclick = () => { form.reset(); details.open = false; summary.focus(); };
  buttons.append(element("button", `Call for ${amount(tool.price)} ${state.currency}`), " ", cancel);
  form.append(buttons);
  form.onsubmit = (event) => {
    event.preventDefault();
    send({ tool: tool.name, arguments: Object.fromEntries(new FormData(form)) });
  };
  details.name = "tool";
  details.append(summary, form);
  item.append(details);
  item.dataset.text = `${tool.name} ${tool.about} ${tool.provider}`.toLowerCase();
  return item;
}

function filter() {
  const words = $("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  for (const item of $("tools").children) {
    item.hidden = !words.every((word) => item.dataset.text.includes(word));
    shown += !item.hidden;
  }
  $("count").textContent = `${shown} of ${state.tools.length}; price of a call and advertised success`;
}

// -- the rest ----------------------------------------------------------------------------------------------------------------

function leftItem(left) {
  const item = element("span"), meter = element("meter");
  const words = `${amount(left.rest)} of ${amount(left.limit)} ${left.unit} left`;
  [meter.max, meter.value, meter.low] = [left.limit, Math.max(0, left.rest), left.limit / 5];
  meter.setAttribute("aria-label", words);
  item.append(meter, words);
  return item;
}

function logEntry(entry) {
  const box = element("div"), text = element("pre", entry.text || "(nothing)");
  text.tabIndex = 0;
  box.append(element("h3", entry.title), text);
  if (entry.text !== entry.whole) {
    const more = element("button", "Show all");
    more.type = "button";
    more.onclick = () => { text.textContent = entry.whole; more.remove(); };
    box.append(more);
  }
  return box;
}

function showResult(result) {
  $("result").hidden = false;
  $("why").textContent = `${result.verdict}. ${result.why}`;
  $("unit").textContent = `price, ${state.currency}`;
  $("scores").replaceChildren(...result.scores.map((score) => {
    const row = element("tr"), name = element("th", score.name);
    name.scope = "row";
    row.append(name, ...[score.success ? "pass" : "fail", amount(score.price), score.seconds.toFixed(1), score.calls].map((cell) => element("td", cell)));
    return row;
  }));
  $("line").value = result.line;
  $("record").href = URL.createObjectURL(new Blob([result.record], { type: "application/x-ndjson" }));
  $("next").href = `?task=${state.index + 1}`;
  $("result-title").focus();
}

function show() {
  $("problem").textContent = state.problem;
  if (state.problem) return busy(false);
  $("query").textContent = state.query;
  $("left").replaceChildren(...state.left.map(leftItem), element("span", `${state.seconds.toFixed(1)} s passed`));
  $("tools").replaceChildren(...state.tools.map(toolItem));
  $("search").hidden = !state.can_search;
  if (state.log.length) $("log").replaceChildren(...state.log.map(logEntry).reverse());
  filter();
  if (state.result) showResult(state.result);
  busy(false);
}

worker.onmessage = ({ data }) => {
  if (data.progress) $("status").textContent = data.progress;
  if (data.failure) $("status").textContent = `The simulator stopped: ${data.failure}`;
  $("status").hidden = Boolean(data.state);
  if (!data.state) return;
  state = JSON.parse(data.state);
  $("game").hidden = false;
  document.documentElement.dataset.ready = "true";
  show();
};

$("filter").oninput = filter;
$("answer").onsubmit = (event) => { event.preventDefault(); send({ answer: $("text").value }); };
$("wait").onsubmit = (event) => { event.preventDefault(); send({ wait: Number($("seconds").value) }); };
$("search").onsubmit = (event) => { event.preventDefault(); send({ search: $("words").value }); };
$("give-up").onclick = () => send({ give_up: true });
$("copy").onclick = () => { $("line").select(); navigator.clipboard?.writeText($("line").value); };

const start = await (await fetch("start.json")).json();
const wanted = new URLSearchParams(location.search).get("task");
const day = Math.floor(Date.now() / 86_400_000);
worker.postMessage({ start, task: wanted === null ? start.task ?? day : Number(wanted) });
