/* Throughline's dashboard: theme, charts, live refresh, filters, copying, acting. No dependency is required
   for reading a page; htmx refreshes and plotly draws where they are loaded. */
"use strict";

(() => {
  const root = document.documentElement;

  // -- theme: what was chosen by hand wins over the system ---------------------------------

  const THEME = "throughline-theme";
  const THEMES = { auto: "System", light: "Light", dark: "Dark" };

  function storedTheme() {
    try {
      const stored = localStorage.getItem(THEME);
      return stored in THEMES ? stored : "auto";
    } catch {
      return "auto"; // storage may be forbidden
    }
  }

  function applyTheme(theme) {
    if (theme === "auto") root.removeAttribute("data-theme");
    else root.dataset.theme = theme;
  }

  applyTheme(storedTheme()); // before the first paint

  function prepareThemeButton() {
    const button = document.querySelector("[data-theme-button]");
    if (!button) return;
    const names = Object.keys(THEMES);
    const label = () => {
      button.title = `Theme: ${THEMES[storedTheme()]}`;
      button.querySelector("[data-theme-name]").textContent = button.title;
    };
    button.hidden = false;
    label();
    button.addEventListener("click", () => {
      const next = names[(names.indexOf(storedTheme()) + 1) % names.length];
      try {
        localStorage.setItem(THEME, next);
      } catch {
        /* the choice then lasts for this page only */
      }
      applyTheme(next);
      label();
      drawCharts();
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawCharts);
    matchMedia("print").addEventListener("change", drawCharts); // paper shows them all
  }

  // -- charts ------------------------------------------------------------------------------

  /** Replace each "var(--name)" in a figure by the colour that the theme gives it. */
  function themed(figure) {
    const probe = document.createElement("span");
    probe.hidden = true;
    document.body.append(probe);
    const known = new Map();
    const colour = (name) => {
      if (!known.has(name)) {
        probe.style.color = name;
        known.set(name, getComputedStyle(probe).color);
      }
      return known.get(name);
    };
    const walk = (value) => {
      if (typeof value === "string") return value.startsWith("var(--") ? colour(value) : value;
      if (Array.isArray(value)) return value.map(walk);
      if (value === null || typeof value !== "object") return value;
      return Object.fromEntries(Object.entries(value).map(([key, part]) => [key, walk(part)]));
    };
    const result = walk(figure);
    probe.remove();
    return result;
  }

  function drawCharts() {
    if (!window.Plotly) return;
    for (const chart of document.querySelectorAll("[data-chart]")) drawChart(chart);
  }

  /** Draw each chart when it is about to be seen: drawing is what makes a page slow to answer. */
  function drawChartsOnceSeen() {
    if (!window.Plotly) return;
    const seen = new IntersectionObserver((entries) => {
      for (const { target } of entries.filter((one) => one.isIntersecting)) {
        seen.unobserve(target);
        drawChart(target);
      }
    }, { rootMargin: "300px" });
    for (const chart of document.querySelectorAll("[data-chart]")) seen.observe(chart);
  }

  /** Draw a chart; its figure, or null while that is on its way. */
  function drawChart(chart) {
    const plot = chart.querySelector(".plot");
    const said = chart.querySelector("script").textContent;
    if (!said) return null; // its numbers are on their way
    const source = JSON.parse(said);
    const figure = themed(source);
    figure.layout.uirevision ??= "same"; // a new theme keeps the zoom
    if (figure.layout.height) plot.style.height = `${figure.layout.height}px`;
    else figure.layout.height = plot.clientHeight;
    figure.layout.width = plot.clientWidth || undefined; // paper is narrower than the window
    if (matchMedia("(pointer: coarse)").matches) {
      figure.layout.dragmode = false; // let fingers scroll
      figure.config.displayModeBar = false; // a finger does not hover: it would never go away
    }
    window.Plotly.react(plot, figure.data, figure.layout, figure.config);
    if (chart.dataset.drawn) return source;
    chart.dataset.drawn = "yes";
    const kind = chart.dataset.chart;
    if (kind !== "explorer" && kind !== "history") offerNumbers(chart, source); // they have all points as CSV
    if (kind === "history" || kind === "points") openRuns(plot);
    if (kind === "icicle") enlargeBoxes(plot);
    if (kind === "history") plot.on("plotly_relayout", () => rememberZoom(plot, source.state));
    return source;
  }

  const COLUMNS = ["ids", "base", "x", "y"];

  /** A link below a chart to the numbers that it draws. */
  function offerNumbers(chart, figure) {
    const link = document.createElement("a");
    link.className = "small numbers";
    link.textContent = "CSV";
    link.title = "The numbers that this chart draws";
    link.download = `${(chart.getAttribute("aria-label") ?? "chart").replace(/[^\w.-]+/g, "-").slice(0, 80)}.csv`;
    link.href = "#";
    link.addEventListener("click", () => {
      link.href = URL.createObjectURL(new Blob([numbers(figure)], { type: "text/csv" }));
      setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
    });
    chart.append(link);
  }

  function numbers(figure) {
    const used = COLUMNS.filter((name) => figure.data.some((trace) => Array.isArray(trace[name])));
    const titled = (name) => {
      const title = figure.layout[`${name}axis`]?.title;
      return [name, title?.text ?? title].filter((part) => typeof part === "string").join(": ");
    };
    const rows = [["trace", ...used.map(titled)]];
    for (const trace of figure.data) {
      const length = Math.max(0, ...used.map((name) => trace[name]?.length ?? 0));
      for (let at = 0; at < length; at++) rows.push([trace.name ?? "", ...used.map((name) => trace[name]?.[at] ?? "")]);
    }
    return rows.map((row) => row.map(cell).join(",")).join("\r\n") + "\r\n";
  }

  function cell(value) {
    const text = String(value);
    const safe = typeof value !== "number" && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text; // no formula
    return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  }

  /** A click on a box makes it as wide as the chart; one on the whole step shows all of it again. */
  function enlargeBoxes(plot) {
    plot.on("plotly_click", ({ points: [{ data, pointNumber: at }] }) => {
      window.Plotly.relayout(plot, { "xaxis.range": [data.base[at], data.base[at] + data.x[at]] });
    });
  }

  function openRuns(plot) {
    plot.on("plotly_click", (event) => {
      const spot = event.points.find((point) => point.customdata);
      if (spot) location.assign(`/runs/${encodeURIComponent(spot.customdata[0])}`);
    });
  }

  function rememberZoom(plot, state) {
    const { xaxis, yaxis } = plot.layout;
    const zoom = { start: null, end: null, low: null, high: null };
    if (!xaxis.autorange && xaxis.range) [zoom.start, zoom.end] = ends(xaxis.range, state);
    if (!yaxis.autorange && yaxis.range && !state.zero) {
      [zoom.low, zoom.high] = yaxis.range.map((end) => String(Number((end / state.factor).toPrecision(7))));
    }
    history.replaceState(null, "", withParameters(location.href, zoom));
    for (const link of document.querySelectorAll("a[data-keep]")) {
      const kept = link.dataset.keep === "revisions" ? { start: zoom.start, end: zoom.end } : zoom;
      link.href = withParameters(link.href, kept);
    }
  }

  /** An axis of revisions is remembered by their names, so that a link outlives new points. */
  function ends(range, state) {
    if (state.x === "time") return range.map((end) => String(end).replace(" ", "T"));
    const last = state.names.length - 1;
    const within = (index) => Math.min(Math.max(index, 0), last);
    const first = within(Math.ceil(range[0]));
    return [state.names[first], state.names[Math.max(first, within(Math.floor(range[1])))]];
  }

  function withParameters(href, parameters) {
    const url = new URL(href);
    for (const [name, value] of Object.entries(parameters)) {
      if (value === null) url.searchParams.delete(name);
      else url.searchParams.set(name, value);
    }
    return url.href;
  }

  // -- live refresh ------------------------------------------------------------------------

  let stream = null;
  let polling = 0;

  const refresh = () => document.querySelector("[data-live]")?.dispatchEvent(new Event("refresh"));

  /** Be told of changes while something runs and the page is seen: a browser has six connections for all its pages. */
  function followChanges() {
    const pace = document.hidden ? 0 : Number(document.querySelector("[data-live]")?.dataset.live ?? 0);
    if (!pace) {
      stream?.close();
      clearInterval(polling);
      stream = polling = null;
    } else if (!stream) {
      stream = new EventSource(`/live?pace_s=${pace}`);
      stream.onmessage = refresh;
      stream.onerror = () => {
        if (stream?.readyState !== EventSource.CLOSED) refresh(); // it connects anew; the page says if it cannot
        else polling ||= setInterval(refresh, pace * 1000); // it was refused
      };
    }
  }

  const NO_ANSWER = "the service does not answer";

  /** Why the numbers are not new, by the status of an answer; empty if they are. */
  function trouble(status) {
    if (status < 400) return "";
    if (status === 429) return "too many requests at once; this page tries again";
    if (status >= 500) return `the service has an error (${status}); this page tries again`;
    return `the service refuses this page (${status})`;
  }

  function watchConnection() {
    const offline = document.querySelector("[data-offline]");
    let signedOut = false;
    const say = (reason) => {
      if (!offline) return;
      offline.textContent = `● Not updating: ${reason}`;
      offline.hidden = !reason;
    };
    document.addEventListener("htmx:before:request", (event) => {
      const polls = event.target.hasAttribute?.("data-live");
      if (signedOut || (polls && document.hidden)) event.preventDefault(); // nobody looks: do not ask
    });
    document.addEventListener("htmx:after:request", (event) => {
      const status = event.detail?.ctx?.response?.raw?.status ?? 200;
      if (status === 401) {
        signedOut = true;
        location.reload(); // shows the form to sign in, which leads back here
        return;
      }
      say(trouble(status));
    });
    document.addEventListener("htmx:error", () => say(NO_ANSWER));
    document.addEventListener("visibilitychange", followChanges);
    let typing = ""; // the filter that has the focus while a refresh takes it away
    document.addEventListener("htmx:before:swap", () => {
      typing = document.activeElement?.closest(".narrow") ? document.activeElement.ariaLabel : "";
    });
    document.addEventListener("htmx:after:swap", () => {
      const shown = document.querySelector("[data-live]")?.getAttribute("hx-get");
      if (shown) history.replaceState(null, "", shown + location.hash); // the filter in force
      followChanges();
      addFilters();
      if (typing) document.querySelector(`.narrow [aria-label="${CSS.escape(typing)}"]`)?.focus();
      prepareActing(); // of a worker that has come, say
    });
  }

  // -- small things ------------------------------------------------------------------------

  const LONG = 8; // rows: of a table with more, some can be chosen by words
  const ROWS = ":scope > tbody > tr:not(.group)";
  const filters = new Map(); // what was typed, by the name of its field: a refresh takes the field away

  function prepareFilters() {
    for (const input of document.querySelectorAll("[data-filter]")) {
      input.closest("[hidden]")?.removeAttribute("hidden");
      const part = document.querySelector(input.dataset.filter);
      input.addEventListener("input", () => filter(part.querySelectorAll("tbody tr"), part.querySelectorAll("[data-group]"), input));
    }
    addFilters();
  }

  /** A field above each long table that has none, and columns that sort; both outlast a refresh. */
  function addFilters() {
    for (const table of document.querySelectorAll("main table:not(.overview, [data-group] *)")) {
      const place = table.closest(".scroll") ?? table;
      if (table.querySelectorAll(ROWS).length <= LONG || place.previousElementSibling?.matches(".narrow")) continue;
      const [label, input] = [document.createElement("label"), document.createElement("input")];
      const name = `Filter rows of ${nameOf(table, place)}`;
      addSorting(table, name);
      label.className = "narrow";
      Object.assign(input, { type: "search", placeholder: "Filter rows", ariaLabel: name, value: filters.get(name) ?? "" });
      const apply = () => filter(table.querySelectorAll(ROWS), table.tBodies, input);
      input.addEventListener("input", () => {
        filters.set(name, input.value);
        apply();
      });
      label.append(input);
      place.before(label);
      if (input.value) apply();
    }
  }

  const sorts = new Map(); // column and direction, by the name of a table's filter
  const PREFIX = { n: 1e-9, "µ": 1e-6, m: 1e-3, k: 1e3, K: 1e3, M: 1e6, G: 1e9, T: 1e12, Ki: 2 ** 10, Mi: 2 ** 20, Gi: 2 ** 30, Ti: 2 ** 40 };
  const QUANTITY = /([+\-−]?\d[\d,.]*)\s*([nµmkKMGT]i?(?=s\b|B|J|W|Hz|FLOP|\s|$))?/;
  const SPAN = /^(?:(\d+) d)?\s*(?:(\d+) h)?\s*(?:(\d+) min)?\s*(?:([\d.]+) s)?/; // such as 2 min 5 s

  /** Make a button of each column's title, where every row has a cell for every column. */
  function addSorting(table, name) {
    const heads = [...table.querySelectorAll(":scope > thead > tr:only-child > th")];
    const rows = [...table.querySelectorAll(ROWS)];
    if (!heads.length || rows.some((row) => row.cells.length !== heads.length)) return;
    for (const [column, head] of heads.entries()) {
      if (!head.textContent.trim()) continue;
      const button = Object.assign(document.createElement("button"), { type: "button", className: "sort" });
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const largestFirst = head.classList.contains("num") ? "descending" : "ascending";
        const other = { ascending: "descending", descending: "ascending" };
        sorts.set(name, [column, other[head.ariaSort] ?? largestFirst]);
        sort(table, heads, ...sorts.get(name));
      });
    }
    if (sorts.has(name)) sort(table, heads, ...sorts.get(name));
  }

  /** Order the rows of each part of a table; cells that say nothing come last. */
  function sort(table, heads, column, direction) {
    for (const [at, head] of heads.entries()) head.ariaSort = at === column ? direction : null;
    const isNumber = heads[column].classList.contains("num");
    const sign = direction === "ascending" ? 1 : -1;
    for (const part of table.tBodies) {
      const keyed = [...part.querySelectorAll(":scope > tr:not(.group)")].map((row) => [keyOf(row.cells[column], isNumber), row]);
      keyed.sort(([a], [b]) => (a === null) - (b === null) || sign * (isNumber ? a - b : String(a).localeCompare(b, "en", { numeric: true })));
      part.append(...keyed.map(([, row]) => row));
    }
  }

  /** A cell's number in its unit without prefix, its time, or its text; null: it says nothing. */
  function keyOf(cell, isNumber) {
    const text = cell.querySelector("time")?.dateTime ?? cell.textContent.trim();
    if (!isNumber) return text && text !== "–" ? text : null;
    const span = text.match(SPAN);
    if (span[1] || span[2] || span[3]) return [86400, 3600, 60, 1].reduce((sum, unit, at) => sum + unit * (span[at + 1] ?? 0), 0);
    const [, number, prefix] = text.match(QUANTITY) ?? [];
    return number ? parseFloat(number.replaceAll(",", "").replace("−", "-")) * (PREFIX[prefix] ?? 1) : null;
  }

  function nameOf(table, place) {
    const heading = document.getElementById(place.getAttribute("aria-labelledby"));
    return (place.ariaLabel || (table.caption ?? heading ?? place.closest("section, main").querySelector("h1, h2"))?.textContent || "this table").trim();
  }

  /** Show the rows that hold every word of a field, and the groups that hold such a row. */
  function filter(rows, groups, input) {
    const wanted = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const row of rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !wanted.every((word) => text.includes(word));
    }
    for (const group of groups) group.hidden = !group.querySelector("tr:not([hidden], .group)");
  }

  /** The address holds the tab that is open. A browser opens the one that it names, but not again. */
  function prepareTabs() {
    const named = document.getElementById(location.hash.slice(1))?.closest("[data-tabs] > details");
    if (named) named.open = true; // after a reload
    for (const tab of document.querySelectorAll("[data-tabs] > details")) {
      tab.querySelector("summary").addEventListener("click", (event) => {
        if (tab.open) event.preventDefault(); // one is always open
        else nameTab(tab);
      });
    }
  }

  function nameTab(tab) {
    history.replaceState(null, "", `#${tab.querySelector("[id]").id}`);
  }

  async function copyText(source) {
    try {
      await navigator.clipboard.writeText(source.textContent);
      return true;
    } catch {
      const range = document.createRange(); // plain HTTP: select it, so that one key copies it
      range.selectNodeContents(source);
      getSelection().removeAllRanges();
      getSelection().addRange(range);
      return document.execCommand("copy");
    }
  }

  function prepareCopying() {
    for (const button of document.querySelectorAll("[data-copy]")) {
      button.hidden = false;
      button.addEventListener("click", async () => {
        const done = await copyText(document.getElementById(button.dataset.copy));
        button.textContent = done ? "Copied" : "Press Ctrl+C";
        setTimeout(() => {
          button.textContent = "Copy";
        }, 2000);
      });
    }
  }

  // -- acting: forms that call the JSON API ------------------------------------------------

  // The API takes JSON only, which no form of another site can send: a script of this origin must.

  const ACTOR = "throughline-actor";

  function storedActor() {
    try {
      return localStorage.getItem(ACTOR) ?? "";
    } catch {
      return "";
    }
  }

  function rememberActor(name) {
    try {
      localStorage.setItem(ACTOR, name);
    } catch {
      /* then it is asked for again */
    }
  }

  function request(form, submitter) {
    const [method, place] = form.dataset.send.split(" ");
    const said = { ...JSON.parse(form.dataset.body ?? "{}"), ...Object.fromEntries(new FormData(form, submitter)) };
    const path = place.replace("{name}", encodeURIComponent(said.name));
    if (path !== place) delete said.name; // it is part of the address alone
    if (said.actor) rememberActor(said.actor);
    const headers = proofHeaders();
    if (method === "DELETE") return [`${path}?${new URLSearchParams(said)}`, { method, headers }];
    for (const name of ["due_on", "expires_in_s", "project"]) if (name in said) said[name] ||= null; // left empty
    if (said.expires_in_s) said.expires_in_s = Number(said.expires_in_s);
    if (form.dataset.version) said.version = Number(form.dataset.version);
    headers["Content-Type"] = "application/json";
    return [path, { method, headers, body: JSON.stringify(said) }];
  }

  function proofHeaders() {
    const proof = document.querySelector('meta[name="csrf-token"]')?.content;
    return proof ? { "X-CSRF-Token": proof } : {}; // where one signs in
  }

  /** Post to the API; why it was refused, or nothing. */
  async function act(path, said) {
    if (said.actor) rememberActor(said.actor);
    const headers = { ...proofHeaders(), "Content-Type": "application/json" };
    try {
      const response = await fetch(path, { method: "POST", headers, body: JSON.stringify(said) });
      return response.ok ? "" : await problem(response);
    } catch {
      return "The service does not answer; nothing was changed.";
    }
  }

  async function problem(response) {
    if (response.status === 401) return "You are signed out; nothing was changed."; // no header for people
    try {
      return (await response.json()).detail;
    } catch {
      return "The service could not answer; its log says why.";
    }
  }

  async function send(form, submitter) {
    const answer = form.querySelector("[data-answer]");
    const fields = form.querySelector("[data-enabled]");
    const [path, options] = request(form, submitter);
    answer.replaceChildren();
    fields.disabled = true;
    try {
      const response = await fetch(path, options);
      if (response.ok && form.dataset.tells) {
        tellOnce(form.querySelector("[data-told]"), (await response.json())[form.dataset.tells]);
        return;
      }
      if (response.ok) {
        const tab = form.closest("[data-tabs] > details");
        if (tab) nameTab(tab); // one that was opened before this script ran has no name yet
        location.reload();
        return; // and the fields stay as they are: nothing is sent twice
      }
      say(answer, await problem(response), wayOut(response.status));
    } catch {
      say(answer, "The service does not answer; nothing was changed.");
    }
    fields.disabled = false;
  }

  /** Show a secret until the page is left; who comes back to it does not find it. */
  function tellOnce(told, secret) {
    const shown = told.querySelector("pre");
    shown.textContent = secret;
    told.hidden = false;
    told.querySelector("a").focus();
    const forget = () => {
      shown.textContent = "";
      told.hidden = true;
    };
    window.addEventListener("pagehide", forget, { once: true });
  }

  /** Where a refusal leads on: what to show, and its address; nothing if there is no such place. */
  function wayOut(status) {
    const here = location.pathname + location.search;
    if (status === 401) return ["Sign in again", `/sign-in?${new URLSearchParams({ to: here })}`];
    return status === 409 ? ["Show it as it is now", location.pathname] : null;
  }

  function say(answer, text, next = null) {
    const note = document.createElement("p");
    note.className = "note bad";
    note.textContent = text;
    if (next) {
      const link = document.createElement("a");
      [link.textContent, link.href] = next;
      note.append(" ", link);
    }
    answer.replaceChildren(note);
  }

  function prepareActing(part = document) {
    for (const form of part.querySelectorAll("form[data-send]:not([data-ready])")) {
      form.dataset.ready = "yes";
      form.querySelector("[data-enabled]").disabled = false;
      for (const input of form.querySelectorAll("[data-actor]")) input.value ||= storedActor();
      form.addEventListener("submit", (event) => {
        event.preventDefault();
        send(form, event.submitter);
      });
    }
  }

  window.throughline = { act, drawChart, prepareActing, say, storedActor };

  document.addEventListener("DOMContentLoaded", () => {
    prepareThemeButton();
    prepareFilters();
    prepareTabs();
    prepareCopying();
    prepareActing();
    watchConnection();
    followChanges();
    drawChartsOnceSeen();
  });
})();
