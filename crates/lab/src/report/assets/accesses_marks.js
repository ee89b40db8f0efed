// Helpers of accesses.js: decoding marks from text, and formatting values.
const seeklessMarks = (function () {
  "use strict";
  // Numbers of seven bits a byte, the lowest first; see pack.rs and accesses.rs.
  function unpack(map) {
    const text = atob(map.data);
    const times = new Float64Array(map.marks), places = new Float64Array(map.marks);
    const counts = new Float64Array(map.marks), classes = new Uint8Array(map.marks);
    let at = 0, time = 0, place = 0;
    const next = () => {
      let value = 0, scale = 1, byte;
      do {
        byte = text.charCodeAt(at++);
        value += (byte & 127) * scale;
        scale *= 128;
      } while (byte > 127);
      return value;
    };
    for (let mark = 0; mark < map.marks; mark++) {
      const head = text.charCodeAt(at++);
      if (head > 127) time += next();
      const change = next();
      place += change % 2 ? -(change + 1) / 2 : change / 2;
      times[mark] = time;
      places[mark] = place;
      classes[mark] = head & 127;
      counts[mark] = next();
    }
    map.data = "";
    return { ...map, times, places, counts, classes };
  }

  const number = (value) => value.toLocaleString("en", { maximumSignificantDigits: 4 });
  const many = (value) => value.toLocaleString("en");
  function bytes(value) {
    const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let unit = 0;
    while (value >= 1024 && unit + 1 < units.length) {
      value /= 1024;
      unit++;
    }
    return number(value) + "\u00a0" + units[unit];
  }

  // As a clock shows it, as fine as `step` seconds need, of a trace of `whole` seconds: 2d 03:04:05.678, 04:05, 5.678.
  function clock(seconds, step, whole) {
    const digits = Math.min(9, Math.max(0, Math.ceil(-Math.log10(step) - 1e-9)));
    const scale = Math.pow(10, digits);
    const ticks = Math.round(seconds * scale);
    const full = Math.floor(ticks / scale);
    const fraction = digits ? "." + String(ticks % scale).padStart(digits, "0") : "";
    if (whole < 120) return full + fraction;
    const two = (value) => String(value).padStart(2, "0");
    const [d, h, m, s] = [Math.floor(full / 86400), Math.floor(full / 3600) % 24, Math.floor(full / 60) % 60, full % 60];
    const day = whole >= 86400 ? d + "d " : "";
    const hours = whole >= 3600 ? two(h) + ":" : "";
    if (step >= 86400) return d + "d";
    if (step >= 60 && hours) return day + hours + two(m);
    return day + hours + two(m) + ":" + two(s) + fraction;
  }

  function timeSteps() {
    const steps = [];
    for (let power = 1e-7; power < 0.5; power *= 10) steps.push(power, power * 2, power * 5);
    return steps.concat([1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 432000, 864000, 8640000, 86400000]);
  }
  // A short time with its unit.
  function span(seconds) {
    const [size, unit] = seconds < 1e-3 ? [1e6, "\u00b5s"] : seconds < 1 ? [1e3, "ms"] : [1, "s"];
    return number(seconds * size) + "\u00a0" + unit;
  }

  return { unpack, many, bytes, span, clock, steps: timeSteps() };
})();
