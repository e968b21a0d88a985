"use strict";
/* Data comes in as scripts, because a page opened from disk may not fetch. Texts reach the page as text nodes only. */
const costgym = (() => {
  const arrived = new Map(), awaited = new Map();
  const put = (key, value) => {
    arrived.set(key, value);
    awaited.get(key)?.resolve(value);
  };
  const load = (key) => {
    if (arrived.has(key)) return Promise.resolve(arrived.get(key));
    if (awaited.has(key)) return awaited.get(key).promise;
    const wait = {};
    wait.promise = new Promise((resolve, reject) => { wait.resolve = resolve; wait.reject = reject; });
    awaited.set(key, wait);
    const script = document.createElement("script");
    script.src = `data/${key}.js`;
    script.onerror = () => { awaited.delete(key); wait.reject(new Error(`data/${key}.js is missing`)); };
    script.onload = () => { if (!arrived.has(key)) script.onerror(); script.remove(); };
    document.head.append(script);
    return wait.promise;
  };
  const make = (name, attributes = {}, ...children) => {
    const node = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) if (value !== null && value !== undefined && value !== false) node.setAttribute(key, value);
    node.append(...children.map((child) => (typeof child === "number" ? String(child) : child)));
    return node;
  };
  const draw = (name, attributes = {}, ...children) => {
    const node = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    node.append(...children);
    return node;
  };
  const number = (value) => {
    if (value === null || value === undefined) return "–";
    const size = Math.abs(value);
    if (size >= 1000) return Math.round(value).toLocaleString("en");
    return Number.isInteger(value) ? String(value) : size >= 100 ? value.toFixed(0) : size >= 0.1 ? value.toFixed(2) : value.toPrecision(2);
  };
  const percent = (value) => (100 * value).toFixed(1);
  /* A tool's name, which may break after its underscores. */
  const name = (text) => make("code", {}, ...text.split("_").flatMap((part, index) => (index ? ["_", make("wbr"), part] : [part])));
  const OUTCOMES = { passed: "success", failed: "failure" };
  const tag = (outcome) => make("span", { class: `tag o-${outcome.replace(" ", "-")}` }, OUTCOMES[outcome] ?? outcome);
  const address = () => Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
  const link = (page, values) => `${page}#${new URLSearchParams(values)}`;

  const themes = ["auto", "light", "dark"];
  const remembered = () => { try { return localStorage.getItem("costgym-theme"); } catch { return null; } };
  const paint = (wanted) => {
    if (wanted === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = wanted;
  };
  if (themes.includes(remembered())) paint(remembered());
  document.addEventListener("DOMContentLoaded", () => {
    const button = document.getElementById("theme");
    if (!button || !document.body.classList.contains("page")) return;
    let now = themes.includes(remembered()) ? remembered() : "auto";
    const show = () => { paint(now); button.textContent = `Theme: ${now}`; };
    button.hidden = false;
    button.addEventListener("click", () => {
      now = themes[(themes.indexOf(now) + 1) % 3];
      show();
      try { localStorage.setItem("costgym-theme", now); } catch { /* a page that cannot remember still works */ }
    });
    show();
  });
  return { put, load, make, draw, number, percent, name, tag, address, link };
})();
