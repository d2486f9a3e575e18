/* The command palette: "/" or Ctrl-K, words, arrows, Enter. Without this, /search is a plain page. */
"use strict";

(() => {
  const WAIT_MS = 120;
  const NO_ANSWER = "The service does not answer.";
  const REFUSALS = { 401: "Sign in to search.", 403: "You may not search here." };
  let palette;
  let asked = 0;
  let entered = false; // Enter was pressed before the hits of what is typed had come

  function element(tag, attributes, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.append(...children);
    return made;
  }

  function make() {
    const input = element("input", {
      type: "search", role: "combobox", "aria-label": "Search everything", "aria-expanded": "true",
      "aria-controls": "palette-hits", "aria-autocomplete": "list", autocomplete: "off",
      spellcheck: "false", maxlength: "200", placeholder: "Series, findings, revisions, pages …",
    });
    const hits = element("ul", { id: "palette-hits", role: "listbox", "aria-label": "Hits" });
    const said = element("p", { class: "muted small", role: "status" });
    palette = element("dialog", { class: "palette", "aria-label": "Search" }, input, hits, said);
    document.body.append(palette);
    let waiting;
    input.addEventListener("input", () => {
      clearTimeout(waiting);
      asked += 1; // what is under way answers older words
      entered = false;
      select(null);
      waiting = setTimeout(() => look(input.value), WAIT_MS);
    });
    input.addEventListener("keydown", press);
    palette.addEventListener("close", () => {
      clearTimeout(waiting);
      asked += 1;
    });
    palette.addEventListener("click", (event) => {
      if (event.target === palette) palette.close(); // beside it
    });
  }

  function open() {
    if (!palette) make();
    palette.querySelector("input").value = "";
    entered = false;
    select(null);
    palette.showModal();
    look("");
  }

  /** The pages of the navigation that are called so. */
  function pages(text) {
    const links = [...document.querySelectorAll(".nav a, .foot a")];
    return links
      .map((link) => ({ kind: "page", title: link.firstChild.textContent.trim(), said: "", page: link.getAttribute("href") }))
      .filter((one) => text && one.title.toLowerCase().startsWith(text.toLowerCase()));
  }

  async function look(text) {
    const mine = ++asked;
    const items = pages(text.trim());
    let trouble = "";
    try {
      const answer = await fetch(`/api/v1/search?${new URLSearchParams({ q: text })}`);
      if (answer.ok) items.push(...(await answer.json()).items);
      else trouble = REFUSALS[answer.status] ?? NO_ANSWER;
    } catch {
      trouble = NO_ANSWER;
    }
    if (mine !== asked) return; // somebody typed on
    const usual = items.length ? "↑ ↓ choose, Enter opens, Esc closes" : "Nothing is called so.";
    palette.querySelector("p").textContent = trouble || usual;
    show(items);
    if (entered) enter();
  }

  function show(items) {
    const options = items.map((one, at) => {
      const link = element("a", { href: one.page, tabindex: "-1" }, one.title);
      const kind = element("span", { class: "muted small" }, one.said ? `${one.kind} · ${one.said}` : one.kind);
      return element("li", { role: "option", id: `palette-${at}`, "aria-selected": "false" }, link, kind);
    });
    palette.querySelector("ul").replaceChildren(...options);
    for (const option of options) option.addEventListener("click", () => option.querySelector("a").click());
    select(options[0]);
  }

  function select(option) {
    palette.querySelector('[aria-selected="true"]')?.setAttribute("aria-selected", "false");
    option?.setAttribute("aria-selected", "true");
    option?.scrollIntoView({ block: "nearest" });
    palette.querySelector("input").setAttribute("aria-activedescendant", option?.id ?? "");
  }

  /** Opens the selected hit, or the first one as soon as there are any. */
  function enter() {
    const chosen = palette.querySelector('[aria-selected="true"]');
    entered = !chosen;
    chosen?.querySelector("a").click();
  }

  function press(event) {
    const chosen = palette.querySelector('[aria-selected="true"]');
    if (event.key === "ArrowDown") select(chosen?.nextElementSibling ?? chosen);
    else if (event.key === "ArrowUp") select(chosen?.previousElementSibling ?? chosen);
    else if (event.key === "Escape") palette.close(); // the field alone would only be emptied
    else if (event.key === "Enter") enter();
    else return;
    event.preventDefault();
  }

  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest?.("input, select, textarea, [contenteditable]");
    const slash = event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey;
    const control = event.key.toLowerCase() === "k" && (event.ctrlKey || event.metaKey);
    if (!(slash || control) || palette?.open) return;
    event.preventDefault();
    open();
  });
  document.addEventListener("DOMContentLoaded", () => {
    document.querySelector("[data-search]")?.addEventListener("click", (event) => {
      event.preventDefault();
      open();
    });
  });
})();
