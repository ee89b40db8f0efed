// Links at each chart and table that save its numbers as CSV or JSON: from the page itself, without a network.
(function () {
  "use strict";
  const plots = JSON.parse(document.getElementById("plots").textContent);

  // A cell as the number that it shows; a dash is no value.
  function value(text) {
    const plain = text.trim().replace(/\u00a0/g, " ").replace(/\u2212/g, "-");
    if (plain === "\u2013") return null;
    const number = plain.replace(/(\d),(?=\d{3})/g, "$1");
    return /^-?\d+(\.\d+)?$/.test(number) ? Number(number) : plain;
  }

  function ofTable(table) {
    const [head, ...rows] = Array.from(table.rows, (row) => Array.from(row.cells, (cell) => cell.textContent));
    return { columns: head, rows: rows.map((row) => row.map(value)) };
  }

  function ofPlot(plot) {
    const place = (at) => plot.names ? plot.names[at] : plot.xs[at];
    const row = (_, at) => [place(at), ...plot.values.map((values) => values[at])];
    return { columns: [plot.xLabel, ...plot.series], rows: plot.xs.map(row) };
  }

  // Names of columns, each once.
  function keys(columns) {
    const known = new Set();
    return columns.map((column) => {
      const name = column.trim() || "name";
      let key = name;
      for (let number = 2; known.has(key); number += 1) key = `${name} ${number}`;
      known.add(key);
      return key;
    });
  }

  function csv({ columns, rows }) {
    const cell = (one) => one == null ? "" : /[",\n\r]/.test(one) ? `"${String(one).replace(/"/g, '""')}"` : String(one);
    return [keys(columns), ...rows].map((row) => row.map(cell).join(",") + "\n").join("");
  }

  function json({ columns, rows }) {
    const names = keys(columns);
    const object = (row) => Object.fromEntries(names.map((name, at) => [name, row[at] ?? null]));
    return JSON.stringify(rows.map(object), null, 1) + "\n";
  }

  // Both links for the numbers that `data` gives.
  function links(title, data) {
    const file = title.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "") || "data";
    const box = document.createElement("span");
    for (const [name, type, written] of [["CSV", "text/csv", csv], ["JSON", "application/json", json]]) {
      const link = document.createElement("a");
      link.textContent = name;
      link.setAttribute("aria-label", `${title} as ${name}`);
      link.download = `${file}.${name.toLowerCase()}`;
      link.href = "#";
      link.addEventListener("click", () => {
        const place = URL.createObjectURL(new Blob([written(data())], { type }));
        link.href = place;
        setTimeout(() => { URL.revokeObjectURL(place); link.href = "#"; }, 10000);
      });
      box.append(link);
    }
    return box;
  }

  function line(...parts) {
    const box = document.createElement("p");
    box.className = "data";
    box.append(...parts);
    return box;
  }

  for (const table of document.querySelectorAll("table:not(.u-legend)")) {
    table.parentElement.append(line(links(table.caption.textContent, () => ofTable(table))));
  }
  for (const figure of document.querySelectorAll("figure")) {
    const title = figure.querySelector("h3").textContent;
    const names = Array.from(figure.querySelectorAll("h4"), (name) => name.textContent);
    const drawn = plots.filter((plot) => plot.id === figure.id);
    const parts = drawn.length > 0
      ? drawn.map((plot) => [names[plot.panel], () => ofPlot(plot)])
      : Array.from(figure.querySelectorAll("details table"), (table, at) => [names[at], () => ofTable(table)]);
    for (const [name, data] of parts) {
      const label = name && parts.length > 1 ? [`${name}:`] : [];
      figure.querySelector("figcaption").append(line(...label, links(name ? `${title}: ${name}` : title, data)));
    }
  }
})();
