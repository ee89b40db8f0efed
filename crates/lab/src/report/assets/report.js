// Replaces the still line and bar charts by ones that show the values under the pointer and zoom.
// Without it, or on paper, the still ones remain.
(function () {
  "use strict";
  // Number of colours in the style.
  const DASHES = [[], [7, 4], [2, 3], [9, 3, 2, 3], [14, 4]];
  const plots = JSON.parse(document.getElementById("plots").textContent);
  const live = [];

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const short = (value) => value == null ? "\u2013" : value.toLocaleString("en", { maximumSignificantDigits: 4 });

  // As in the still charts: short enough for a tick.
  function mark(value) {
    for (const [size, unit] of [[1e9, "G"], [1e6, "M"], [1e4, "k"]]) {
      if (Math.abs(value) >= size) return short(value / (unit === "k" ? 1e3 : size)) + unit;
    }
    return short(value);
  }
  const marks = (u, ticks) => ticks.map((tick) => tick == null ? "" : mark(tick));
  const decades = (u, ticks) => ticks.map((tick) => Math.abs(Math.log10(tick) - Math.round(Math.log10(tick))) < 1e-9 ? tick : null);

  function hatch(ctx, stroke) {
    const tile = document.createElement("canvas");
    tile.width = tile.height = 8;
    const pen = tile.getContext("2d");
    pen.strokeStyle = stroke;
    pen.lineWidth = 3;
    for (const shift of [-8, 0, 8]) {
      pen.beginPath();
      pen.moveTo(shift, 8);
      pen.lineTo(shift + 8, 0);
      pen.stroke();
    }
    return ctx.createPattern(tile, "repeat");
  }

  function shade(u, shaded) {
    const { ctx, bbox } = u;
    ctx.save();
    ctx.fillStyle = colour("--shade");
    shaded.forEach((on, at) => {
      if (!on) return;
      const from = Math.max(u.valToPos(at - 0.5, "x", true), bbox.left);
      const to = Math.min(u.valToPos(at + 0.5, "x", true), bbox.left + bbox.width);
      if (to > from) ctx.fillRect(from, bbox.top, to - from, bbox.height);
    });
    ctx.restore();
  }

  // Charts along the time of a recording show the same part of it: a zoom of one is a zoom of all.
  const wholeTime = () => plots.filter((plot) => plot.timeUnit).reduce((end, plot) => Math.max(end, plot.xs[plot.xs.length - 1] * plot.timeUnit), 0);
  function tellTime(u, key, unit) {
    if (key !== "x") return;
    const { min, max } = u.scales.x;
    u.root.dataset.shown = [min, max].map((end) => (end * unit).toPrecision(3)).join(" to ");
    if (!ready || u.told) return;
    const all = min <= u.data[0][0] && max >= u.data[0][u.data[0].length - 1];
    dispatchEvent(new CustomEvent("seekless-time", { detail: { from: min * unit, to: max * unit, all, by: u } }));
  }
  addEventListener("seekless-time", ({ detail }) => live.forEach((chart, at) => {
    const unit = plots[at].timeUnit;
    if (!unit || chart === detail.by) return;
    const [min, max] = detail.all ? [0, wholeTime() / unit] : [detail.from / unit, detail.to / unit];
    const now = chart.scales.x;
    if (Math.abs(now.min - min) + Math.abs(now.max - max) < 1e-9 * (max - min)) return;
    chart.told = true;
    chart.batch(() => chart.setScale("x", { min, max }));
    chart.told = false;
  }));

  function options(plot, box) {
    const ink = colour("--soft"), grid = colour("--line");
    const axis = (label) => ({ label, stroke: ink, grid: { stroke: grid, width: 1 }, ticks: { stroke: grid, width: 1 }, labelSize: 22, font: "12px system-ui", labelFont: "12px system-ui" });
    const x = axis(plot.xLabel), y = axis(plot.yLabel);
    y.size = 58;
    y.values = x.values = marks;
    if (plot.yLog) y.filter = y.grid.filter = y.ticks.filter = decades;
    if (plot.names) {
      const longest = Math.max(...plot.names.map((name) => name.length));
      x.space = longest * 6 + 8;
      x.incrs = [1, 2, 5, 10, 20, 50, 100];
      x.values = (u, ticks) => ticks.map((tick) => plot.names[tick] ?? "");
      x.grid.show = false;
    } else {
      if (plot.xLog) x.filter = x.grid.filter = x.ticks.filter = decades;
    }
    const last = plot.xs.length - 1;
    const series = plot.series.map((label, at) => {
      const stroke = colour("--c" + at % DASHES.length);
      const one = { label, stroke, width: 2, dash: DASHES[at % DASHES.length], spanGaps: true, value: (u, value) => short(value) };
      if (plot.bars) {
        one.dash = [];
        one.width = 1;
        one.paths = uPlot.paths.bars({ size: [0.8 / plot.series.length, 60], align: plot.series.length === 1 ? 0 : at === 0 ? -1 : 1 });
        one.fill = at === 0 ? stroke : (u) => hatch(u.ctx, stroke);
        one.points = { show: false };
      } else {
        one.points = { show: plot.xs.length <= 40, size: 6, fill: stroke };
      }
      return one;
    });
    // Unzoomed, a shared axis is shown in full.
    const whole = (from, to) => from <= plot.xs[0] && to >= plot.xs[last];
    const xRange = plot.names ? (u, from, to) => [Math.max(from, 0) - 0.5, Math.min(to, last) + 0.5]
      : plot.xEnds ? (u, from, to) => whole(from, to) ? plot.xEnds : [from, to] : undefined;
    return {
      width: box.clientWidth,
      height: 300,
      scales: {
        x: { time: false, distr: plot.xLog ? 3 : 1, range: xRange },
        y: plot.yLog ? { distr: 3, range: plot.yEnds ? () => plot.yEnds : undefined } : { range: (u, from, to) => [0, plot.yEnds ? plot.yEnds[1] : (to || 1) * 1.05] },
      },
      axes: [x, y],
      series: [{ label: plot.xLabel, value: (u, value) => value == null ? "\u2013" : plot.names ? plot.names[value] : short(value) }, ...series],
      hooks: {
        drawClear: plot.shaded.some(Boolean) ? [(u) => shade(u, plot.shaded)] : [],
        setScale: plot.timeUnit ? [(u, key) => tellTime(u, key, plot.timeUnit)] : [],
      },
      legend: { markers: { show: false } },
      cursor: { drag: { x: true, y: false } },
    };
  }

  let ready = false;
  function draw() {
    ready = false;
    live.splice(0).forEach((chart) => chart.destroy());
    for (const plot of plots) {
      const box = document.querySelectorAll("#" + plot.id + " .plot")[plot.panel];
      box.classList.add("live");
      live.push(new uPlot(options(plot, box), [plot.xs, ...plot.values], box));
    }
    ready = true;
  }

  draw();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  let waiting = 0;
  addEventListener("resize", () => {
    cancelAnimationFrame(waiting);
    waiting = requestAnimationFrame(() => live.forEach((chart) => {
      chart.setSize({ width: chart.root.parentElement.clientWidth, height: 300 });
    }));
  });
})();
