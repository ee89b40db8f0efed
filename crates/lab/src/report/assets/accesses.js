// Draws addresses over time with zoom, pan and tooltips. All traces of a page show the same range.
// Without it, or on paper, the still picture remains.
(function () {
  "use strict";
  const told = JSON.parse(document.getElementById("accesses-data").textContent);
  const figure = document.getElementById("accesses");
  if (!figure) return;
  const KINDS = ["reads", "writes", "discards"];
  const LEFT = 70, RIGHT = 10, TOP = 18, BOTTOM = 30;
  // Smallest ranges: a microsecond, a page.
  const LEAST = { seconds: 1e-6, sectors: 8 };
  const WHOLE = { from: 0, to: Math.max(told.seconds, 1e-5), low: 0, high: Math.max(told.sectors, 8) };
  const STRETCHES = [[604800, "a week"], [86400, "a day"], [3600, "an hour"], [60, "a minute"], [10, "10 seconds"], [1, "a second"], [0.1, "0.1 s"], [0.01, "10 ms"]];
  let view = { ...WHOLE };
  let byKind = !told.byProcess;
  let hidden = new Set();

  const { many, bytes, span, unpack, steps } = seeklessMarks;
  const clock = (seconds, step) => seeklessMarks.clock(seconds, step, WHOLE.to);

  const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  function rgb(colour) {
    const value = parseInt(colour.slice(1), 16);
    return [value >> 16, (value >> 8) & 255, value & 255];
  }

  // The first mark at this time or later.
  function firstAt(times, time) {
    let low = 0, high = times.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (times[middle] < time) low = middle + 1; else high = middle;
    }
    return low;
  }

  const colourOf = (map, kind, family) => byKind ? kind : map.families[family][1];

  function build(map, box) {
    const element = (name, className) => {
      const one = document.createElement(name);
      one.className = className;
      return one;
    };
    const around = element("div", "map"), canvas = element("canvas", ""), tip = element("div", "tip"), select = element("div", "box");
    tip.hidden = select.hidden = true;
    canvas.tabIndex = 0;
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", map.name + ": requests by address over time. Arrow keys pan, plus and minus zoom, 0 shows all of it.");
    around.append(canvas, select, tip);
    box.append(around);
    box.classList.add("live");
    const panel = { map, canvas, tip, select, hit: new Int32Array(0), size: null };
    listen(panel);
    return panel;
  }

  // Index of the mark of each dot: of several, the one with the most requests. Dots are in column order, as
  // the marks are.
  function rasterise(panel, wide, high, dot) {
    const { map } = panel;
    const dots = wide * high;
    if (panel.hit.length !== dots) {
      panel.hit = new Int32Array(dots);
      panel.best = new Float32Array(dots);
      panel.sums = new Float32Array(dots);
    }
    const { hit, best, sums } = panel;
    hit.fill(-1);
    best.fill(0);
    sums.fill(0);
    const across = wide / (view.to - view.from), up = high / (view.high - view.low);
    const shown = new Uint8Array(128);
    for (let family = 0; family < map.families.length; family++) {
      for (let kind = 0; kind < 3; kind++) shown[family * 3 + kind] = hidden.has(colourOf(map, kind, family)) ? 0 : 1;
    }
    const cell = map.points ? 0 : map.unitSeconds;
    const start = firstAt(map.times, (view.from - cell) / map.unitSeconds);
    const end = firstAt(map.times, view.to / map.unitSeconds + 0.5);
    // Very many are easier to distinguish when they are small.
    const least = Math.max(1, Math.round((end - start < 300000 ? 2 : 1) * dot));
    let requests = 0;
    for (let mark = start; mark < end; mark++) {
      if (!shown[map.classes[mark]]) continue;
      const count = map.points ? 1 : map.counts[mark];
      const tall = (map.points ? map.counts[mark] : 1) * map.unitSectors * up;
      const bottom = high - (map.places[mark] * map.unitSectors - view.low) * up;
      const left = (map.times[mark] * map.unitSeconds - view.from) * across;
      if (bottom < 0 || bottom - tall > high) continue;
      requests += count;
      const x0 = Math.min(wide - 1, Math.max(0, Math.floor(left))), y1 = Math.min(high, Math.max(1, Math.ceil(bottom)));
      const x1 = Math.min(wide, Math.max(x0 + least, Math.floor(left + cell * across)));
      const y0 = Math.max(0, Math.min(y1 - least, Math.ceil(bottom - tall)));
      for (let x = x0; x < x1; x++) {
        for (let at = x * high + y0, last = x * high + y1; at < last; at++) {
          sums[at] += count;
          if (count > best[at]) {
            best[at] = count;
            hit[at] = mark;
          }
        }
      }
    }
    return requests;
  }

  // More requests are drawn stronger, on a power scale between the fewest and the most visible.
  function paint(panel, ctx, wide, high) {
    const { map, hit, sums } = panel;
    const image = ctx.createImageData(wide, high), dots = new Uint32Array(image.data.buffer);
    const colours = Array.from({ length: 9 }, (_, at) => rgb(style("--a" + at)));
    const ofClass = new Uint32Array(128);
    for (let family = 0; family < map.families.length; family++) {
      for (let kind = 0; kind < 3; kind++) {
        const [r, g, b] = colours[colourOf(map, kind, family)];
        ofClass[family * 3 + kind] = (b << 16) | (g << 8) | r;
      }
    }
    let most = 1, fewest = Infinity;
    for (const sum of sums) {
      if (sum > most) most = sum;
      if (sum > 0 && sum < fewest) fewest = sum;
    }
    const weakest = map.points ? 0.8 : 0.55, low = Math.log(fewest), reach = Math.max(Math.log(most) - low, Math.log(4));
    for (let x = 0, at = 0; x < wide; x++) {
      for (let y = 0; y < high; y++, at++) {
        const mark = hit[at];
        if (mark < 0) continue;
        const strength = most > 1 ? weakest + (1 - weakest) * (Math.log(sums[at]) - low) / reach : 1;
        dots[y * wide + x] = ((255 * strength) << 24) | ofClass[map.classes[mark]];
      }
    }
    return image;
  }

  function addressTicks() {
    const step = Math.pow(2, Math.max(0, Math.ceil(Math.log2(Math.max(view.high - view.low, 1) / 6))));
    const ticks = [];
    for (let at = Math.ceil(view.low / step) * step; at <= view.high; at += step) ticks.push(at);
    return ticks;
  }

  function timeTicks(width) {
    const letters = clock(view.to, (view.to - view.from) / 8).length;
    const most = Math.max(2, Math.floor(width / (letters * 7 + 22)));
    const step = steps.find((each) => (view.to - view.from) / each <= most) || (view.to - view.from);
    const ticks = [];
    for (let at = Math.ceil(view.from / step - 1e-9); at * step <= view.to * (1 + 1e-12); at++) ticks.push([at * step, clock(at * step, step)]);
    return ticks;
  }

  function draw(panel) {
    const { canvas, map } = panel;
    const width = canvas.parentElement.clientWidth, height = width < 600 ? 320 : 430;
    const dot = Math.min(devicePixelRatio || 1, 2);
    canvas.style.height = height + "px";
    canvas.width = Math.round(width * dot);
    canvas.height = Math.round(height * dot);
    const inside = { wide: width - LEFT - RIGHT, high: height - TOP - BOTTOM };
    panel.size = inside;
    const wide = Math.max(1, Math.round(inside.wide * dot)), high = Math.max(1, Math.round(inside.high * dot));
    const ctx = canvas.getContext("2d");
    panel.dot = dot;
    panel.wide = wide;
    const requests = rasterise(panel, wide, high, dot);
    ctx.putImageData(paint(panel, ctx, wide, high), Math.round(LEFT * dot), Math.round(TOP * dot));
    ctx.scale(dot, dot);
    ctx.globalCompositeOperation = "destination-over";
    ctx.font = "12px system-ui, sans-serif";
    ctx.lineWidth = 1;
    const x = (seconds) => LEFT + (seconds - view.from) / (view.to - view.from) * inside.wide;
    const y = (sector) => TOP + (view.high - sector) / (view.high - view.low) * inside.high;
    ctx.fillStyle = style("--soft");
    ctx.strokeStyle = style("--line");
    const line = (...points) => {
      ctx.beginPath();
      points.forEach(([px, py], at) => at ? ctx.lineTo(px, py) : ctx.moveTo(px, py));
      ctx.stroke();
    };
    ctx.textAlign = "right";
    ctx.textBaseline = "middle";
    for (const tick of addressTicks()) {
      line([LEFT, y(tick)], [LEFT + inside.wide, y(tick)]);
      ctx.fillText(bytes(tick * 512), LEFT - 6, Math.max(y(tick), 7));
    }
    ctx.textBaseline = "top";
    for (const [tick, text] of timeTicks(inside.wide)) {
      line([x(tick), TOP], [x(tick), TOP + inside.high]);
      const half = ctx.measureText(text).width / 2;
      ctx.textAlign = "left";
      ctx.fillText(text, Math.min(x(tick) - half, width - 2 * half), TOP + inside.high + 8);
    }
    ctx.globalCompositeOperation = "source-over";
    ctx.strokeStyle = style("--soft");
    line([LEFT, TOP], [LEFT, TOP + inside.high], [LEFT + inside.wide, TOP + inside.high]);
    if (map.borders && map.volumes.length > 1) volumes(ctx, map, y, line, inside);
    return requests;
  }

  function volumes(ctx, map, y, line, inside) {
    ctx.textAlign = "right";
    ctx.textBaseline = "bottom";
    ctx.lineJoin = "round";
    let free = Infinity;
    for (const [name, first] of map.volumes) {
      const at = y(first);
      if (at < TOP || at > TOP + inside.high + 0.5) continue;
      ctx.strokeStyle = style("--soft");
      line([LEFT, at], [LEFT + inside.wide, at]);
      if (at > free - 15) continue;
      free = at;
      ctx.strokeStyle = style("--paper");
      ctx.fillStyle = style("--ink");
      ctx.lineWidth = 3;
      const text = Array.from(name).slice(0, 24).join("");
      ctx.strokeText(text, LEFT + inside.wide - 4, at - 2);
      ctx.fillText(text, LEFT + inside.wide - 4, at - 2);
      ctx.lineWidth = 1;
    }
  }

  let waiting = 0;
  function redraw() {
    cancelAnimationFrame(waiting);
    waiting = requestAnimationFrame(all);
  }
  function all() {
    const requests = panels.map(draw);
    const span = view.to - view.from;
    // Cells at the edges count in full.
    const entire = view.from === 0 && view.to === WHOLE.to && view.low === 0 && view.high === WHOLE.high;
    const about = (count, at) => (entire || maps[at].points ? "" : "about ") + many(count);
    const parts = requests.map((count, at) => panels.length > 1 ? maps[at].name + ": " + about(count, at) : about(count, at));
    const unit = WHOLE.to < 120 ? " s" : "";
    viewLine.textContent = clock(view.from, span / 100) + " to " + clock(view.to, span / 100) + unit + ", " +
      bytes(view.low * 512) + " to " + bytes(view.high * 512) + "; requests: " + parts.join(", ");
  }

  // A range within the whole, no smaller than the minimum.
  function fit(from, to, low, high, least) {
    const size = Math.min(high - low, Math.max(to - from, least));
    const start = Math.min(Math.max(from + (to - from - size) / 2, low), high - size);
    return [start, start + size];
  }
  function show(from, to, low, high) {
    [from, to] = fit(from, to, 0, WHOLE.to, LEAST.seconds);
    [low, high] = fit(low, high, 0, WHOLE.high, LEAST.sectors);
    const moved = from !== view.from || to !== view.to;
    view = { from, to, low, high };
    redraw();
    if (moved) dispatchEvent(new CustomEvent("seekless-time", { detail: { from, to, all: from === 0 && to === WHOLE.to, by: show } }));
  }
  // The charts along time show the same part of it.
  addEventListener("seekless-time", ({ detail }) => {
    if (detail.by === show) return;
    const [from, to] = detail.all ? [0, WHOLE.to] : fit(detail.from, detail.to, 0, WHOLE.to, LEAST.seconds);
    view = { ...view, from, to };
    redraw();
  });
  // Zooms by factors, around a position from 0 to 1.
  function zoom(acrossBy, upBy, x = 0.5, y = 0.5) {
    const time = view.from + x * (view.to - view.from), sector = view.low + y * (view.high - view.low);
    show(time - (time - view.from) * acrossBy, time + (view.to - time) * acrossBy,
      sector - (sector - view.low) * upBy, sector + (view.high - sector) * upBy);
  }
  function pan(x, y) {
    const across = x * (view.to - view.from), up = y * (view.high - view.low);
    show(view.from + across, view.to + across, view.low + up, view.high + up);
  }
  const whole = () => show(WHOLE.from, WHOLE.to, WHOLE.low, WHOLE.high);

  // Position in the picture, both from 0 to 1 inside; y from below.
  function place(panel, event) {
    const box = panel.canvas.getBoundingClientRect();
    return {
      x: (event.clientX - box.left - LEFT) / panel.size.wide,
      y: 1 - (event.clientY - box.top - TOP) / panel.size.high,
      left: event.clientX - box.left,
      top: event.clientY - box.top,
    };
  }

  // The mark at the pointer, or the nearest within a few dots.
  function nearest(panel, at) {
    const high = panel.hit.length / panel.wide;
    const x = Math.floor(at.x * panel.wide), y = Math.floor((1 - at.y) * high);
    const reach = Math.round(5 * panel.dot);
    for (let far = 0; far <= reach; far++) {
      for (let dy = -far; dy <= far; dy++) {
        for (let dx = -far; dx <= far; dx += Math.abs(dy) === far ? 1 : 2 * far || 1) {
          const [px, py] = [x + dx, y + dy];
          if (px < 0 || py < 0 || px >= panel.wide || py >= high) continue;
          const mark = panel.hit[px * high + py];
          if (mark >= 0) return mark;
        }
      }
    }
    return -1;
  }

  function says(map, mark) {
    const kind = KINDS[map.classes[mark] % 3], sector = map.places[mark] * map.unitSectors;
    const volume = map.volumes.filter(([, first]) => first <= sector + (map.points ? 0 : map.unitSectors - 1)).pop();
    const start = volume ? Math.max(0, sector - volume[1]) : sector;
    const whose = told.byProcess ? [map.families[(map.classes[mark] / 3) | 0][0]] : [];
    const where = map.volumes.length > 1 && volume ? [volume[0]] : [];
    const at = clock(map.times[mark] * map.unitSeconds, map.points ? 1e-6 : map.unitSeconds / 2) + (WHOLE.to < 120 ? " s" : "");
    if (map.points) {
      const one = kind.slice(0, -1) + " of " + bytes(map.counts[mark] * 512);
      return [...whose, one, "at " + at, ...where, "sector " + many(start)].join("\n");
    }
    const long = span(map.unitSeconds);
    return [...whose, many(map.counts[mark]) + " " + kind, "in the " + long + " from " + at, ...where,
      "in the " + bytes(map.unitSectors * 512) + " from " + bytes(start * 512)].join("\n");
  }

  function point(panel, at) {
    const { tip, map, size } = panel;
    const mark = at.x < 0 || at.x > 1 || at.y < 0 || at.y > 1 ? -1 : nearest(panel, at);
    tip.hidden = mark < 0;
    if (mark < 0) return;
    tip.textContent = says(map, mark);
    const right = at.left > LEFT + size.wide / 2;
    tip.style.left = right ? "" : at.left + 14 + "px";
    tip.style.right = right ? LEFT + RIGHT + size.wide - at.left + 14 + "px" : "";
    tip.style.top = Math.max(0, Math.min(at.top - 20, size.high - 70)) + "px";
  }

  function listen(panel) {
    const { canvas, tip, select } = panel;
    const held = new Map();
    let start = null;
    const stop = () => {
      start = null;
      select.hidden = true;
    };
    canvas.addEventListener("pointerdown", (event) => {
      if (event.button > 1) return;
      canvas.setPointerCapture(event.pointerId);
      const at = place(panel, event);
      held.set(event.pointerId, at);
      const pans = event.pointerType !== "mouse" || event.shiftKey || event.button === 1;
      if (held.size === 1) start = { at, pans };
      if (event.button === 1) event.preventDefault();
    });
    canvas.addEventListener("pointermove", (event) => {
      const at = place(panel, event), before = held.get(event.pointerId);
      if (!before) return point(panel, at);
      held.set(event.pointerId, at);
      if (held.size === 2) {
        const [other] = [...held].filter(([id]) => id !== event.pointerId).map(([, one]) => one);
        const apart = (one, two) => Math.max(0.02, Math.abs(one.x - two.x));
        zoom(apart(before, other) / apart(at, other), 1, other.x, other.y);
      } else if (start && start.pans) {
        pan(before.x - at.x, at.y - before.y);
        if (event.pointerType !== "mouse") point(panel, at);
      } else if (start) {
        tip.hidden = true;
        select.hidden = false;
        const [x0, x1] = [start.at.left, at.left].sort((a, b) => a - b), [y0, y1] = [start.at.top, at.top].sort((a, b) => a - b);
        Object.assign(select.style, { left: x0 + "px", top: y0 + "px", width: x1 - x0 + "px", height: y1 - y0 + "px" });
      }
    });
    canvas.addEventListener("pointerup", (event) => {
      const at = place(panel, event);
      held.delete(event.pointerId);
      if (start && !start.pans && Math.abs(at.left - start.at.left) > 4) {
        const inside = (value) => Math.min(1, Math.max(0, value));
        const [x0, x1] = [inside(start.at.x), inside(at.x)].sort((a, b) => a - b);
        let [y0, y1] = [inside(start.at.y), inside(at.y)].sort((a, b) => a - b);
        // A horizontal stroke selects a range of time.
        if (Math.abs(at.top - start.at.top) < 12) [y0, y1] = [0, 1];
        const across = view.to - view.from, up = view.high - view.low;
        show(view.from + x0 * across, view.from + x1 * across, view.low + y0 * up, view.low + y1 * up);
      } else if (start) {
        point(panel, at);
      }
      stop();
    });
    canvas.addEventListener("pointercancel", (event) => {
      held.delete(event.pointerId);
      stop();
    });
    canvas.addEventListener("pointerleave", () => tip.hidden = true);
    canvas.addEventListener("dblclick", whole);
    canvas.addEventListener("wheel", (event) => {
      // A passing pointer scrolls the page.
      if (!event.ctrlKey && document.activeElement !== canvas) return;
      event.preventDefault();
      const at = place(panel, event), by = Math.exp(Math.max(-1, Math.min(1, event.deltaY / 200)));
      zoom(event.shiftKey ? 1 : by, event.shiftKey ? by : 1, at.x, at.y);
    }, { passive: false });
    canvas.addEventListener("keydown", (event) => {
      const keys = {
        ArrowLeft: () => pan(-0.2, 0), ArrowRight: () => pan(0.2, 0), ArrowUp: () => pan(0, 0.2), ArrowDown: () => pan(0, -0.2),
        "+": () => zoom(0.5, 1), "=": () => zoom(0.5, 1), "-": () => zoom(2, 1), "0": whole, Home: whole, Escape: whole,
      };
      if (!keys[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      keys[event.key]();
    });
  }

  const viewLine = document.createElement("p");
  function controls() {
    const bar = document.createElement("div");
    bar.className = "controls";
    const button = (text, says, does) => {
      const one = document.createElement("button");
      one.type = "button";
      one.textContent = text;
      one.setAttribute("aria-label", says);
      one.title = says;
      one.addEventListener("click", does);
      bar.append(one);
    };
    button("\u25c0", "earlier", () => pan(-0.5, 0));
    button("\u25b6", "later", () => pan(0.5, 0));
    button("+", "zoom in along time", () => zoom(0.5, 1));
    button("\u2212", "zoom out along time", () => zoom(2, 1));
    choice(bar, "zoom to", [["", "choose\u2026"], ["whole", "all of it"], ...STRETCHES.filter(([seconds]) => seconds < WHOLE.to)], (value, box) => {
      box.value = "";
      if (value === "whole") return whole();
      const middle = (view.from + view.to) / 2;
      show(middle - value / 2, middle - -value / 2, view.low, view.high);
    });
    if (told.byProcess) {
      choice(bar, "colours", [["process", `by ${told.source}`], ["kind", "by kind"]], (value) => {
        byKind = value === "kind";
        hidden = new Set();
        keys();
        redraw();
      });
    }
    viewLine.className = "view";
    viewLine.setAttribute("role", "status");
    bar.append(viewLine);
    return bar;
  }
  function choice(bar, name, values, does) {
    const label = document.createElement("label"), box = document.createElement("select");
    for (const [value, text] of values) box.add(new Option(text, value));
    box.addEventListener("change", () => box.value && does(box.value, box));
    label.append(name, box);
    bar.append(label);
  }

  // The legend; each part can be switched off.
  const list = document.createElement("ul");
  list.className = "legend keys";
  function keys() {
    list.replaceChildren(...(byKind ? told.kinds.map((kind) => [KINDS[kind], kind]) : told.colours.map((name, colour) => [name, colour])).map(([name, colour]) => {
      const item = document.createElement("li"), one = document.createElement("button"), text = document.createElement("span");
      one.type = "button";
      one.setAttribute("aria-pressed", "true");
      one.innerHTML = '<svg class="key" viewBox="0 0 32 14" aria-hidden="true"><rect class="a' + colour + '" width="32" height="14"/></svg>';
      text.textContent = text.title = name;
      one.append(text);
      one.addEventListener("click", () => {
        const on = hidden.delete(colour) || !hidden.add(colour);
        one.setAttribute("aria-pressed", String(on));
        redraw();
      });
      item.append(one);
      return item;
    }));
  }

  const maps = told.maps.map(unpack);
  const boxes = figure.querySelectorAll(".plot");
  const panels = maps.map((map, at) => build(map, boxes[at]));
  const still = figure.querySelector(".legend");
  still.classList.add("still");
  const frame = document.createElement("div");
  frame.className = "live";
  still.replaceWith(frame);
  keys();
  frame.append(still, list, controls());
  redraw();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  addEventListener("resize", redraw);
})();
