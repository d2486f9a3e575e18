/* The explorer: its state is the page's address. Whatever a reader chooses becomes an address, which
   is shown without loading the page anew; without scripts the same links and forms load it. */
"use strict";

(() => {
  const { drawChart, prepareActing } = window.throughline;
  const PANEL = ["point", "other"]; // what the chart does not depend on
  let drawn = null; // the address of the chart that is shown
  let newest = 0; // number of the last request: an earlier one that answers later is dropped

  const chart = () => document.querySelector("[data-chart='explorer']");
  const plot = () => chart().querySelector(".plot");

  function go(url) {
    if (String(url) === location.href) return; // Enter in a field changes it and sends its form
    history.pushState(null, "", url);
    show();
  }

  async function show() {
    const mine = ++newest;
    const numbers = ask();
    const response = await fetch(location.href);
    if (!response.ok) return location.reload(); // shows what is wrong, or the form to sign in
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    if (mine !== newest) return;
    put(page);
    await draw(numbers, mine);
  }

  function put(page) {
    const focused = document.activeElement?.name;
    for (const part of document.querySelectorAll("[data-part]")) {
      part.replaceChildren(...page.querySelector(`[data-part="${part.dataset.part}"]`).childNodes);
      window.htmx?.process(part);
      prepareActing(part);
    }
    document.querySelector("[data-plot]").hidden = page.querySelector("[data-plot]").hidden;
    if (focused) document.querySelector(`#choice [name="${CSS.escape(focused)}"]:not([type=hidden])`)?.focus();
    else document.getElementById("panel")?.focus({ preventScroll: true });
  }

  // -- the chart ---------------------------------------------------------------------------

  /** The address of the chart's numbers: that of the page, without what only its panel shows. */
  function source(path) {
    const url = new URL(location.href);
    url.pathname = path;
    for (const name of PANEL) url.searchParams.delete(name);
    return url;
  }

  /** Ask for the chart's numbers; nothing if it shows them already. */
  async function ask() {
    const url = source("/explore/figure");
    document.querySelector("[data-csv]").href = source("/explore/points.csv");
    const wanted = url.href;
    if (wanted === drawn) return null;
    url.searchParams.set("width", plot().clientWidth || innerWidth - 64);
    const response = await fetch(url);
    return response.ok ? { wanted, text: await response.text() } : null;
  }

  async function draw(numbers, mine) {
    const found = await numbers;
    await plotly();
    if (mine !== newest) return;
    if (found) {
      drawn = found.wanted;
      plot().style.height = "";
      chart().querySelector("script").textContent = found.text;
      const first = !chart().dataset.drawn;
      const figure = drawChart(chart());
      if (first) listen();
      say(figure.said);
    }
    mark();
  }

  /** Until plotly is there: it is large, and its numbers are asked for meanwhile. */
  function plotly() {
    if (window.Plotly) return Promise.resolve();
    return new Promise((resolve) => document.addEventListener("DOMContentLoaded", resolve, { once: true }));
  }

  function say(lines) {
    const list = document.querySelector("[data-said]");
    list.replaceChildren(...lines.map((line) => Object.assign(document.createElement("li"), { textContent: line })));
  }

  function listen() {
    plot().on("plotly_relayout", zoom);
    plot().on("plotly_click", (event) => {
      const spot = event.points.find((point) => point.customdata);
      if (!spot) return;
      const url = new URL(location.href);
      const second = event.event.shiftKey && url.searchParams.get("point");
      if (!second) url.searchParams.delete("other");
      url.searchParams.set(second ? "other" : "point", spot.customdata[0]);
      go(url);
    });
  }

  /** A brush becomes dates in the address, so that the server sends the part in full detail. */
  function zoom(change) {
    const url = new URL(location.href);
    const axis = Object.keys(change).find((key) => /^xaxis\d*\.(range\[0\]|range|autorange)$/.test(key));
    if (!axis) return;
    for (const name of ["since", "until", "first", "last"]) url.searchParams.delete(name);
    if (!axis.endsWith("autorange")) {
      const [low, high] = plot().layout[axis.split(".")[0]].range;
      const [since, until] = typeof low === "string" ? [low, high] : dates(low, high);
      if (!since) return;
      url.searchParams.set("since", minute(since, Math.floor));
      url.searchParams.set("until", minute(until, Math.ceil));
    }
    go(url);
  }

  /** The dates of the first and the last drawn point between two places of an axis of revisions. */
  function dates(low, high) {
    const inside = plot().data.flatMap((trace) =>
      (trace.customdata ?? []).filter((one, at) => one && trace.x[at] >= low && trace.x[at] <= high).map((one) => one[1]),
    );
    inside.sort();
    return [inside[0], inside.at(-1)];
  }

  function minute(said, round) {
    const at = Date.parse(`${said.replace(" ", "T")}Z`.replace(/^(\d{4}-\d{2}-\d{2})Z$/, "$1T00:00Z"));
    return new Date(round(at / 60000) * 60000).toISOString().slice(0, 16);
  }

  /** Ring the points whose panel is open. */
  function mark() {
    if (!plot().data) return; // nothing was chosen yet
    const asked = new URL(location.href).searchParams;
    const rings = PANEL.flatMap((name, number) => ring(asked.get(name), number));
    const others = (plot().layout.annotations ?? []).filter((one) => one.name !== "ring");
    window.Plotly.relayout(plot(), { annotations: [...others, ...rings] });
  }

  function ring(id, number) {
    if (!id) return [];
    for (const trace of plot().data) {
      const at = (trace.customdata ?? []).findIndex((one) => one?.[0] === id);
      if (at < 0) continue;
      const colour = getComputedStyle(document.body).color;
      return [{
        name: "ring", x: trace.x[at], y: trace.y[at], xref: trace.xaxis ?? "x", yref: trace.yaxis ?? "y",
        text: `<b>${number + 1}</b>`, ax: 0, ay: -28, arrowhead: 6, arrowcolor: colour, font: { color: colour },
      }];
    }
    return [];
  }

  /** Dim all series but one while the pointer, or the focus, is on its row. */
  function highlight(event) {
    const id = event.target.closest?.("[data-series]")?.dataset.series;
    const data = plot().data;
    if (!data || plot().dataset.lit === (id ?? "")) return;
    plot().dataset.lit = id ?? "";
    const lit = data.map((trace) => (!id || !trace.meta || trace.meta === id ? 1 : 0.15));
    window.Plotly.restyle(plot(), { opacity: lit });
  }

  // -- choosing ----------------------------------------------------------------------------

  function chosenBy(form) {
    const url = new URL(form.action);
    for (const [name, value] of new FormData(form)) if (value) url.searchParams.append(name, value);
    return url;
  }

  document.addEventListener("submit", (event) => {
    if (!event.target.matches("form[data-explore]")) return;
    event.preventDefault();
    go(chosenBy(event.target));
  });
  document.addEventListener("change", (event) => {
    if (event.target.matches("#choice select, #choice input:not([type=datetime-local])")) go(chosenBy(event.target.form));
  });
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-explore]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    event.preventDefault();
    go(link.href);
  });
  document.addEventListener("mouseover", highlight);
  document.addEventListener("focusin", highlight);
  addEventListener("popstate", show);

  draw(ask(), ++newest);
})();
