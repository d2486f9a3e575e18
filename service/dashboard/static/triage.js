/* The inbox by keyboard, and several findings at once. Without this the inbox is a plain table. */
"use strict";

(() => {
  const chosen = new Map(); // the version that was seen of each chosen finding, by its id
  const rows = () => [...document.querySelectorAll("tr:has(.pick input)")];
  const seen = () => rows().filter((row) => !row.hidden);
  const form = () => document.querySelector("[data-triage]");
  const answer = () => form().querySelector("[data-answer]");

  /** Forgets what is in the list no longer, and takes the versions of what is shown now. */
  function refresh() {
    const boxes = new Map(rows().map((row) => row.querySelector(".pick input")).map((box) => [box.value, box]));
    for (const id of [...chosen.keys()]) {
      if (boxes.has(id)) chosen.set(id, Number(boxes.get(id).dataset.version));
      else chosen.delete(id);
    }
  }

  function show() {
    refresh();
    for (const row of rows()) {
      const box = row.querySelector(".pick input");
      box.checked = chosen.has(box.value);
      row.classList.toggle("picked", box.checked);
    }
    form().hidden = chosen.size === 0 && !answer().hasChildNodes();
    const unseen = chosen.size - seen().filter((row) => row.matches(".picked")).length;
    form().querySelector("[data-count]").textContent = `${chosen.size} chosen${unseen ? `, ${unseen} of them hidden by the filter` : ""}`;
  }

  function choose(box, wanted) {
    if (wanted) chosen.set(box.value, Number(box.dataset.version));
    else chosen.delete(box.value);
    answer().replaceChildren();
    show();
  }

  function move(by) {
    const all = seen();
    const at = all.findIndex((row) => row.contains(document.activeElement));
    const next = at < 0 ? (by > 0 ? 0 : all.length - 1) : Math.min(Math.max(at + by, 0), all.length - 1);
    all[next]?.querySelector(".pick input").focus();
  }

  function press(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("form, dialog")) return;
    const row = event.target.closest?.("tr:has(.pick input)");
    if (event.key === "j" || event.key === "k") move(event.key === "j" ? 1 : -1);
    else if (event.key === "x" && row) {
      const box = row.querySelector(".pick input");
      choose(box, !chosen.has(box.value));
    } else if (event.key === "Enter" && event.target.matches(".pick input")) row.querySelector("th a").click();
    else return;
    event.preventDefault();
  }

  async function record(event) {
    event.preventDefault();
    const said = Object.fromEntries(new FormData(form()));
    const refused = [];
    for (const [id, version] of [...chosen]) {
      const why = await window.throughline.act(`/api/v1/findings/${id}/actions`, { ...said, version });
      if (why) refused.push(why);
      else chosen.delete(id);
    }
    if (refused.length === 0) {
      location.reload();
      return;
    }
    window.throughline.say(answer(), `${refused.length} refused: ${[...new Set(refused)].join(" ")}`);
    show();
    window.htmx.ajax("GET", location.href, { source: "#live", target: "#live", swap: "outerMorph" }); // as it is now
  }

  document.addEventListener("DOMContentLoaded", () => {
    if (!form()) return;
    form().querySelector("[data-actor]").value = window.throughline.storedActor();
    form().addEventListener("submit", record);
    document.addEventListener("keydown", press);
    document.addEventListener("change", (event) => {
      if (event.target.matches(".pick input")) choose(event.target, event.target.checked);
    });
    document.addEventListener("input", (event) => {
      if (event.target.matches(".narrow input")) show();
    });
    document.addEventListener("htmx:after:swap", show);
  });
})();
