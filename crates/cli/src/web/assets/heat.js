// Accesses over time and addresses: a column for each sample, a row for each part of the address space.
const seeklessHeat = (function () {
  "use strict";
  const LEFT = 62, BOTTOM = 22, TOP = 8, RIGHT = 8;
  // Of a letter: 0 is none; each further one is a doubling.
  const STEPS = [0, 1, 3, 5, 7, 10];
  const step = (letter) => STEPS.reduce((at, from, index) => letter >= from ? index : at, 0);

  function bytes(value) {
    for (const [size, unit] of [[2 ** 50, "PiB"], [2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]]) {
      if (value >= size) return (value / size).toLocaleString("en", { maximumSignificantDigits: 3 }) + " " + unit;
    }
    return value + " B";
  }

  function scale(list) {
    const words = ["none", "1–3", "4–15", "16–63", "64–511", "512 or more"];
    list.replaceChildren(...words.map((word, at) => {
      const item = document.createElement("li"), patch = document.createElement("i");
      patch.className = "k" + at;
      item.append(patch, word);
      return item;
    }));
  }

  // Draws columns {since, at, part, bytes, heat} of the times from `from` to `to`.
  function draw(canvas, columns, from, to, tick) {
    const wide = canvas.clientWidth, high = canvas.clientHeight, dot = devicePixelRatio || 1;
    canvas.width = Math.round(wide * dot);
    canvas.height = Math.round(high * dot);
    const ctx = canvas.getContext("2d");
    ctx.scale(dot, dot);
    const inside = { wide: wide - LEFT - RIGHT, high: high - TOP - BOTTOM };
    // All in the largest parts.
    const part = Math.max(...columns.map((column) => column.part), 1);
    const rows = Math.max(...columns.map((column) => Math.ceil(Math.max(column.heat.length * column.part, column.bytes) / part)), 1);
    const colours = STEPS.map((_, at) => seeklessCharts.colour("--h" + at));
    ctx.fillStyle = colours[0];
    ctx.fillRect(LEFT, TOP, inside.wide, inside.high);
    const x = (at) => LEFT + (at - from) / (to - from || 1) * inside.wide;
    columns.forEach((column) => {
      const left = Math.max(LEFT, x(column.since)), end = x(column.at);
      const cells = new Array(rows).fill(0);
      for (let index = 0; index < column.heat.length; index++) {
        const row = Math.floor(index * column.part / part);
        cells[row] = Math.max(cells[row], parseInt(column.heat[index], 16));
      }
      cells.forEach((letter, row) => {
        if (letter === 0) return;
        ctx.fillStyle = colours[step(letter)];
        const top = TOP + inside.high * (1 - (row + 1) / rows);
        ctx.fillRect(left, Math.floor(top), Math.max(end - left, 1.5), Math.max(Math.ceil(inside.high / rows), 2));
      });
    });
    ctx.font = "12px system-ui, sans-serif";
    ctx.fillStyle = ctx.strokeStyle = seeklessCharts.colour("--soft");
    ctx.textAlign = "right";
    ctx.textBaseline = "middle";
    for (const share of [0, 0.25, 0.5, 0.75, 1]) {
      const y = TOP + inside.high * (1 - share);
      ctx.fillText(share ? bytes(rows * part * share) : "0", LEFT - 6, Math.min(Math.max(y, 8), TOP + inside.high - 3));
    }
    ctx.textBaseline = "top";
    const marks = Math.max(2, Math.min(6, Math.floor(inside.wide / 90)));
    for (let at = 0; at < marks; at++) {
      const time = from + (to - from) * at / (marks - 1);
      ctx.textAlign = at === 0 ? "left" : at === marks - 1 ? "right" : "center";
      ctx.fillText(tick(time), x(time), TOP + inside.high + 6);
    }
    ctx.strokeRect(LEFT - 0.5, TOP - 0.5, inside.wide + 1, inside.high + 1);
  }

  return { draw, bytes, scale };
})();
