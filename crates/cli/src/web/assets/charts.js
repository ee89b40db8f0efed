// The charts over time, which share their axis and the pointer.
const seeklessCharts = (function () {
  "use strict";
  const DASHES = [[], [7, 4], [2, 3], [9, 3, 2, 3], [14, 4]];
  const HEIGHT = 210;
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const short = (value) => value == null ? "–" : value.toLocaleString("en", { maximumSignificantDigits: 4 });

  function mark(value) {
    for (const [size, unit, by] of [[1e9, "G", 1e9], [1e6, "M", 1e6], [1e4, "k", 1e3]]) {
      if (Math.abs(value) >= size) return short(value / by) + unit;
    }
    return short(value);
  }
  const decades = (u, ticks) => ticks.map((tick) => Math.abs(Math.log10(tick) - Math.round(Math.log10(tick))) < 1e-9 ? tick : null);
  // Whole powers of ten around the values.
  function powers(u, from, to) {
    if (!(from > 0) || !(to > 0)) return [0.01, 1];
    const low = Math.floor(Math.log10(from)), high = Math.ceil(Math.log10(to));
    return [10 ** low, 10 ** Math.max(high, low + 1)];
  }

  function options(chart, box, wall) {
    const ink = colour("--soft"), grid = colour("--line");
    const axis = { stroke: ink, grid: { stroke: grid, width: 1 }, ticks: { stroke: grid, width: 1 }, font: "12px system-ui, sans-serif", labelFont: "12px system-ui, sans-serif", labelSize: 20 };
    const x = { ...axis, size: 34 };
    if (!wall) {
      x.values = (u, ticks) => ticks.map(mark);
      x.label = "virtual time, s";
    }
    const y = { ...axis, size: 52, label: chart.unit, values: (u, ticks) => ticks.map((tick) => tick == null ? "" : mark(tick)) };
    if (chart.log) y.filter = y.grid.filter = y.ticks.filter = decades;
    const pad = (two) => String(two).padStart(2, "0");
    const clock = (value) => {
      const at = new Date(value * 1000);
      return [at.getHours(), at.getMinutes(), at.getSeconds()].map(pad).join(":");
    };
    if (wall) x.values = (u, ticks) => ticks.map(clock);
    if (wall) {
      x.space = 74;
      x.incrs = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600];
    }
    if (chart.whole) y.incrs = [1, 2, 5].flatMap((first) => [1, 10, 100, 1e3, 1e4, 1e5].map((by) => first * by)).sort((a, b) => a - b);
    return {
      width: Math.max(box.clientWidth, 100),
      height: HEIGHT,
      scales: {
        x: { time: wall, range: () => ends },
        y: chart.log ? { distr: 3, range: powers } : { range: (u, from, to) => [0, chart.most ?? (to > 0 ? to * 1.08 : 1)] },
      },
      axes: [x, y],
      series: [{ label: wall ? "at" : "s", value: (u, value) => value == null ? "–" : wall ? clock(value) : short(value) }, ...chart.series.map((label, at) => {
        const stroke = colour("--c" + at % DASHES.length);
        return { label, stroke, width: 2, dash: DASHES[at % DASHES.length], spanGaps: false, points: { show: (u) => u.data[0].length <= 40, size: 4, fill: stroke }, value: (u, value) => short(value) };
      })],
      legend: { markers: { show: false } },
      cursor: { drag: { x: false, y: false }, sync: { key: "time" } },
    };
  }

  // A line in the colour and with the dashes of a series.
  function key(at) {
    const space = "http://www.w3.org/2000/svg";
    const svg = document.createElementNS(space, "svg"), path = document.createElementNS(space, "path");
    svg.setAttribute("class", "key");
    svg.setAttribute("viewBox", "0 0 32 14");
    svg.setAttribute("aria-hidden", "true");
    path.setAttribute("d", "M0 7H32");
    path.setAttribute("fill", "none");
    path.setAttribute("stroke", "var(--c" + at % DASHES.length + ")");
    path.setAttribute("stroke-width", "2");
    path.setAttribute("stroke-dasharray", DASHES[at % DASHES.length].join(" "));
    svg.append(path);
    return svg;
  }

  function legend(series) {
    const list = document.createElement("ul");
    list.className = "legend";
    series.forEach((name, at) => {
      const item = document.createElement("li");
      item.append(key(at), name);
      list.append(item);
    });
    return list;
  }

  const live = [];
  let drawn = "", ends = [0, 1];

  // Shows charts: each with title, unit, names of its series, and their values at the times, from `from` on.
  function show(root, charts, xs, wall, from) {
    ends = xs.length ? [from, xs[xs.length - 1]] : [0, 1];
    const shape = JSON.stringify([wall, charts.map((chart) => [chart.title, chart.series])]);
    if (shape !== drawn) {
      drawn = shape;
      live.splice(0).forEach((chart) => chart.destroy());
      root.replaceChildren(...charts.map((chart) => {
        const figure = document.createElement("figure"), caption = document.createElement("figcaption");
        const title = document.createElement("h3"), box = document.createElement("div");
        title.textContent = chart.title;
        box.className = "plot";
        caption.append(title);
        figure.append(caption, legend(chart.series), box);
        return figure;
      }));
      root.querySelectorAll(".plot").forEach((box, at) => {
        live.push(new uPlot(options(charts[at], box, wall), [xs, ...charts[at].values], box));
      });
      return;
    }
    live.forEach((chart, at) => chart.setData([xs, ...charts[at].values]));
  }

  function resize() {
    live.forEach((chart) => chart.setSize({ width: Math.max(chart.root.parentElement.clientWidth, 100), height: HEIGHT }));
  }
  let waiting = 0;
  addEventListener("resize", () => {
    cancelAnimationFrame(waiting);
    waiting = requestAnimationFrame(resize);
  });

  return { show, short, colour, forget: () => { drawn = ""; } };
})();
