// What the theme leaves out: a level for captions, names for its sidebars and footnotes, and keys for what scrolls sideways.
document.addEventListener("DOMContentLoaded", () => {
  for (const caption of document.querySelectorAll("p.caption[role=heading]")) caption.ariaLevel = "2";
  document.querySelector("aside.sidebar-drawer")?.setAttribute("aria-label", "Pages");
  document.querySelector("aside.toc-drawer")?.setAttribute("aria-label", "On this page");
  document.querySelectorAll("aside.footnote-list").forEach((notes, number) => notes.setAttribute("aria-label", `Footnotes ${number + 1}`));
  for (const note of document.querySelectorAll("aside.footnote")) note.setAttribute("aria-label", `Footnote ${note.id}`);
  for (const part of document.querySelectorAll("pre, .table-wrapper, article p:has(> img:only-child)")) part.tabIndex = 0;
});
