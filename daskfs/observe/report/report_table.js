"use strict";
// The table of features: sorted, searched, a page at a time, and handed out as CSV. Text only ever becomes text nodes.
(() => {
  const PAGE = 25;
  const LONGEST = 100; // characters of a name that are shown; the rest is in its title
  const NO_PARENT = 2n ** 64n - 1n;
  const data = JSON.parse(document.getElementById("data-features").textContent);
  const numbers = (Kind, packed) =>
    packed === null ? null : new Kind(Uint8Array.from(atob(packed), (letter) => letter.charCodeAt(0)).buffer);
  const { names, classes } = data;
  const ids = numbers(BigUint64Array, data.ids);
  const weights = numbers(Float64Array, data.weights);
  const importance = numbers(Float64Array, data.importance);
  const largest = numbers(Uint32Array, data.largest);
  const times = numbers(Uint32Array, data.times);
  const parents = numbers(BigUint64Array, data.parents);
  const statistics = Object.entries(data.statistics).map(([title, packed]) => [title, numbers(Float64Array, packed)]);
  const byClass = classes.length > 0 && data.whole;
  const element = (id) => document.getElementById(id);
  // of: the class or target whose weights are shown; targets have different units, and so no largest weight
  const state = { column: "rank", down: false, page: 0, of: byClass && !largest ? 0 : -1, query: "" };
  let order = names.map((_, at) => at);
  let searched = null;

  const classOf = (at) => (state.of < 0 ? largest[at] : state.of);
  const weight = (at) => (byClass ? weights[at * classes.length + classOf(at)] : weights[at]);
  const collator = new Intl.Collator("en", { numeric: true });
  const compared = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
  const COLUMNS = [
    { key: "rank", title: "Rank", compare: (a, b) => a - b },
    { key: "name", title: "Feature", compare: (a, b) => collator.compare(names[a], names[b]) },
    { key: "id", title: "Id", compare: (a, b) => compared(ids[a], ids[b]) },
    { key: "importance", title: "Importance", compare: (a, b) => importance[a] - importance[b], downFirst: true },
    { key: "weight", title: "Weight", compare: (a, b) => weight(a) - weight(b), downFirst: true },
  ];
  if (largest) {
    COLUMNS.push({ key: "class", title: "Class", compare: (a, b) => classOf(a) - classOf(b) });
  }
  if (times) COLUMNS.push({ key: "times", title: "Chosen", compare: (a, b) => times[a] - times[b], downFirst: true });

  for (const [title, column] of statistics) {
    COLUMNS.push({ key: title, title, compare: (a, b) => compared(column[a], column[b]) });
  }

  const made = (tag, name, text) => {
    const one = document.createElement(tag);
    if (name) one.className = name;
    if (text !== undefined) one.textContent = text;
    return one;
  };
  const shown = (value) => {
    const size = Math.abs(value);
    const text = size !== 0 && (size < 1e-3 || size >= 1e6) ? value.toExponential(3) : value.toPrecision(4);
    return (value > 0 ? "+" : "") + text.replaceAll("-", "−");
  };

  function header() {
    const row = element("features").tHead.rows[0];
    for (const column of COLUMNS) {
      const cell = made("th", column.key);
      cell.scope = "col";
      const button = made("button", "", column.title);
      button.type = "button";
      button.addEventListener("click", () => {
        state.down = state.column === column.key ? !state.down : Boolean(column.downFirst);
        state.column = column.key;
        arrange();
      });
      cell.append(button);
      row.append(cell);
      if (column.key === "importance") row.append(made("td", "bar-cell"));
    }
  }

  function arrange() {
    const words = state.query.trim().toLowerCase();
    order = names.map((_, at) => at);
    if (words) {
      searched ??= names.map((name, at) => `${name.toLowerCase()}\n${ids[at]}`);
      order = order.filter((at) => searched[at].includes(words));
    }
    const { compare } = COLUMNS.find((column) => column.key === state.column);
    order.sort((a, b) => (state.down ? compare(b, a) : compare(a, b)) || a - b);
    [...element("features").tHead.rows[0].querySelectorAll("th")].forEach((cell, number) => {
      const here = COLUMNS[number].key === state.column;
      cell.setAttribute("aria-sort", here ? (state.down ? "descending" : "ascending") : "none");
    });
    state.page = 0;
    show();
  }

  function line(at, scale) {
    const row = made("tr");
    const name = made("th", "name", names[at].length > LONGEST ? `${names[at].slice(0, LONGEST - 1)}…` : names[at]);
    name.scope = "row";
    if (names[at].length > LONGEST) name.title = names[at];
    const bar = made("span", "importance-bar");
    bar.style.setProperty("--share", String(importance[at] / scale));
    const cell = made("td", "bar-cell");
    cell.setAttribute("aria-hidden", "true");
    cell.append(bar);
    row.append(made("td", "rank", String(at + 1)), name, made("td", "id", String(ids[at])));
    row.append(made("td", "importance", `${(100 * importance[at]).toPrecision(3)} %`), cell);
    row.append(made("td", "weight", shown(weight(at))));
    if (largest) row.append(made("td", "class", classes[classOf(at)]));
    if (times) row.append(made("td", "times", String(times[at])));
    for (const [, column] of statistics) row.append(made("td", "statistic", Number(column[at].toPrecision(3))));
    return row;
  }

  function show() {
    const pages = Math.max(1, Math.ceil(order.length / PAGE));
    const first = state.page * PAGE;
    const some = order.slice(first, first + PAGE);
    let scale = 1e-300;
    for (let at = 0; at < names.length; at += 1) scale = Math.max(scale, importance[at]);
    element("features").tBodies[0].replaceChildren(...some.map((at) => line(at, scale)));
    const all = order.length.toLocaleString("en");
    const range = `${(first + 1).toLocaleString("en")}–${(first + some.length).toLocaleString("en")} of ${all}`;
    element("shown").textContent = some.length ? range : names.length ? "No feature has that in its name or id" : "No feature";
    element("back").disabled = state.page === 0;
    element("next").disabled = state.page >= pages - 1;
  }

  // Names could be formulas to a spreadsheet; numbers stay numbers.
  const named = (text) => quoted(/^[=+\-@\t\r]/.test(text) ? `'${text}` : text);
  const quoted = (text) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);

  function csv() {
    const head = ["rank", "name", "id", "importance"];
    if (byClass) head.push(...classes.map((label) => quoted(`weight of ${label}`)));
    else head.push("weight", ...(largest ? ["class"] : []));
    if (times) head.push("times chosen");
    head.push(...statistics.map(([title]) => quoted(title)));
    if (parents) head.push("parent 1", "parent 2");
    const lines = [head.join(",")];
    for (let at = 0; at < names.length; at += 1) {
      const cells = [at + 1, named(names[at]), ids[at], importance[at]];
      if (byClass) cells.push(...weights.subarray(at * classes.length, (at + 1) * classes.length));
      else cells.push(weights[at], ...(largest ? [named(classes[largest[at]])] : []));
      if (times) cells.push(times[at]);
      cells.push(...statistics.map(([, column]) => column[at]));
      if (parents) cells.push(...Array.from(parents.subarray(2 * at, 2 * at + 2), (id) => (id === NO_PARENT ? "" : id)));
      lines.push(cells.join(","));
    }
    return `${lines.join("\r\n")}\r\n`;
  }

  function classChoice() {
    if (!byClass) return;
    element("class-choice").hidden = false;
    const each = classes.map((label, number) => [number, label]);
    for (const [of, title] of largest ? [[-1, "largest of all classes"], ...each] : each) {
      const option = made("option", "", title);
      option.value = String(of);
      element("class").append(option);
    }
    element("class").addEventListener("change", (event) => {
      state.of = Number(event.target.value);
      arrange();
    });
  }

  header();
  classChoice();
  element("tools").addEventListener("submit", (event) => event.preventDefault());
  element("search").addEventListener("input", (event) => {
    state.query = event.target.value;
    arrange();
  });
  for (const [id, step] of [["back", -1], ["next", 1]]) {
    element(id).addEventListener("click", () => {
      state.page += step;
      show();
    });
  }
  element("download").addEventListener("click", () => {
    const link = document.createElement("a");
    link.download = "selected-features.csv";
    link.href = URL.createObjectURL(new Blob([csv()], { type: "text/csv;charset=utf-8" }));
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000);
  });
  arrange();
})();
