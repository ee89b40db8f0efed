// Takes samples from the stream and shows them. All names are set as text.
(function () {
  "use strict";
  const MOST = 600, EVENTS = 100, AGAIN = 3000;
  const { short } = seeklessCharts, { bytes } = seeklessHeat;
  const byId = (id) => document.getElementById(id);
  const url = (path) => path + location.search;
  let samples = [], events = [], now = null, wall = true;

  function make(tag, text, name) {
    const one = document.createElement(tag);
    if (text !== undefined) one.textContent = text;
    if (name) one.className = name;
    return one;
  }

  function span(seconds) {
    if (seconds < 60) return short(Math.round(seconds)) + " s";
    const minutes = Math.round(seconds / 60);
    return minutes < 60 ? minutes + " min" : Math.floor(minutes / 60) + " h " + minutes % 60 + " min";
  }
  const pad = (number) => String(number).padStart(2, "0");
  function clock(seconds) {
    if (!wall) return short(seconds) + " s";
    const at = new Date(seconds * 1000);
    return [at.getHours(), at.getMinutes(), at.getSeconds()].map(pad).join(":");
  }

  function table(title, heads, rows, wordy) {
    const box = make("div", undefined, "scroll"), all = make("table", undefined, wordy ? "wordy" : "");
    box.tabIndex = 0;
    box.append(all);
    all.append(make("caption", title));
    const head = make("tr");
    heads.forEach((text) => head.append(make("th", text)));
    if (heads.length) all.createTHead().append(head);
    const body = all.createTBody();
    for (const row of rows) {
      const line = body.insertRow();
      row.forEach((text, at) => line.append(make(at ? "td" : "th", text)));
    }
    return box;
  }

  // Keeps the choice as long as it is there.
  function choices(select, names) {
    const had = [...select.options].map((option) => option.value);
    if (had.length === names.length && had.every((name, at) => name === names[at])) return;
    select.replaceChildren(...names.map((name) => new Option(name, name)));
    // The first one until a person chooses.
    if (names.includes(select.dataset.chosen)) select.value = select.dataset.chosen;
  }
  function names(list) {
    const all = new Set();
    for (const sample of samples) for (const one of sample[list]) all.add(one.name);
    const order = { export: 0, layer: 1, device: 2 };
    const rank = (name) => order[name.split(" ", 1)[0]] ?? 3;
    return [...all].sort((one, other) => rank(one) - rank(other));
  }

  // The samples of the chosen time; with a gap where there were none.
  function shown() {
    if (samples.length === 0) return [];
    const last = samples[samples.length - 1].at, least = wall ? last - byId("span").value : 0;
    const kept = wall ? samples.filter((sample) => sample.at >= least) : samples.slice(-byId("span").value);
    return kept.flatMap((sample, at) => {
      const before = kept[at - 1];
      return wall && before && sample.at - before.at > 3 ? [{ since: before.at, at: before.at + 1, places: [], layers: [], maps: [] }, sample] : [sample];
    });
  }

  function charts(kept) {
    const place = byId("place").value;
    const at = kept.map((sample) => sample.places.find((one) => one.name === place));
    const figure = (kind, index, by, idle) => at.map((one) => !one ? null : one[kind] ? one[kind][index] / by : idle);
    const layers = names("layers");
    const ofLayers = (of) => layers.map((name) => kept.map((sample) => {
      const layer = sample.layers.find((one) => one.name === name);
      return layer ? of(layer) : null;
    }));
    const all = [
      { title: "Throughput", unit: "MB/s", series: ["read", "written"], values: [figure("read", 1, 1e6, 0), figure("write", 1, 1e6, 0)] },
      { title: "Requests", unit: "requests/s", series: ["reads", "writes"], values: [figure("read", 0, 1, 0), figure("write", 0, 1, 0)] },
      {
        title: "Response times", unit: "ms", log: true,
        series: ["reads, half of them", "reads, 99 %", "writes, half of them", "writes, 99 %"],
        values: [["read", 2], ["read", 3], ["write", 2], ["write", 3]].map(([kind, index]) => figure(kind, index, 1, null).map((value) => value == null ? null : Math.max(value, 0.001))),
      },
      { title: "In flight", unit: "requests", whole: true, series: ["requests"], values: [at.map((one) => one ? one.queue : null)] },
    ];
    const hits = ofLayers((layer) => layer.hits == null ? null : layer.hits * 100);
    const has = (values) => values.some((value) => value != null);
    const hitting = layers.filter((_, at) => has(hits[at]));
    if (hitting.length) all.push({ title: "Hits of layers", unit: "%", most: 100, series: hitting, values: hits.filter(has) });
    const dirty = ofLayers((layer) => layer.dirty / 2 ** 20);
    if (dirty.some((values) => values.some((value) => value > 0))) all.push({ title: "Dirty data of layers", unit: "MiB", series: layers, values: dirty });
    return all;
  }

  function tiles(last) {
    const place = last && last.places.find((one) => one.name === byId("place").value);
    const read = place && place.read, write = place && place.write;
    const hits = last ? last.layers.filter((layer) => layer.hits != null) : [];
    const all = [
      ["read", last ? short((read ? read[1] : 0) / 1e6) : "–", "MB/s"],
      ["written", last ? short((write ? write[1] : 0) / 1e6) : "–", "MB/s"],
      ["requests", last ? short((read ? read[0] : 0) + (write ? write[0] : 0)) : "–", "/s"],
      ["99 % of reads within", read ? short(read[3]) : "–", "ms"],
      ["99 % of writes within", write ? short(write[3]) : "–", "ms"],
      ...hits.slice(0, 2).map((layer) => ["hits of " + layer.name, short(layer.hits * 100), "%"]),
    ];
    byId("tiles").replaceChildren(...all.map(([name, value, unit]) => {
      const box = make("div"), figure = make("dd", value + " ", "figure");
      figure.append(make("small", unit));
      box.append(make("dt", name), figure);
      return box;
    }));
  }

  function job(work) {
    const box = make("div", undefined, "job");
    const parts = [];
    if (work.for_s != null) parts.push("for " + span(work.for_s));
    if (work.left) parts.push((work.left[1] === "bytes" ? bytes(work.left[0]) : short(work.left[0]) + " " + work.left[1]) + " left");
    parts.push(work.left_s != null ? "about " + span(work.left_s) + " left" : "no end known yet");
    box.append(make("p", work.layer + ": " + work.what + ", " + parts.join(", ")));
    if (work.done != null) {
      const bar = make("progress");
      bar.max = 1;
      bar.value = work.done;
      bar.setAttribute("aria-label", work.layer + ": " + work.what);
      box.append(bar);
    }
    return box;
  }

  function state() {
    const box = byId("state");
    box.className = now ? now.state : "gone";
    byId("of").textContent = now ? now.of : "…";
    document.title = now ? now.of + " – seekless" : "seekless";
    const words = { live: "live", gone: "no answer, trying again every second: ", ended: "the run has ended: " };
    byId("words").textContent = now ? words[now.state] + now.words : "no sample yet";
  }

  function tables() {
    const jobs = now.work.map(job);
    byId("work").replaceChildren(...(jobs.length ? jobs : [make("p", "No work is going on.", "quiet")]));
    const open = new Set([...byId("layers").querySelectorAll("details[open]")].map((one) => one.dataset.name));
    const parts = now.layers.map((layer) => {
      const line = make("details"), words = layer.is === layer.name ? [] : [layer.is];
      line.dataset.name = layer.name;
      line.open = open.has(layer.name);
      if (layer.dirty) words.push(bytes(layer.dirty) + " dirty");
      if (layer.hits != null) words.push(short(layer.hits * 100) + " % hits");
      if (layer.background != null) words.push("background " + bytes(Math.round(layer.background)) + "/s");
      line.append(make("summary", [layer.name, ...words].join(", ")));
      line.append(table("", [], layer.counters.map(([name, count]) => [name.replaceAll("_", " "), count.toLocaleString("en")])));
      return line;
    });
    byId("layers").replaceChildren(...parts);
    byId("works").hidden = !jobs.length && !parts.length;
    byId("now").hidden = false;
    const rows = now.rows.map((row) => [row.at + " " + row.name, row.op, short(row.requests_per_s), short(row.bytes_per_s / 1e6), short(row.p50_ms), short(row.p99_ms), short(row.p999_ms), short(row.failed), String(row.in_flight)]);
    const heads = ["place", "kind", "requests/s", "MB/s", "50 %, ms", "99 %, ms", "99.9 %, ms", "failed", "in flight"];
    byId("rows").replaceChildren(...(rows.length ? [table("Requests in the last interval", heads, rows)] : [make("p", "No requests yet.", "quiet")]));
    byId("facts").replaceChildren(table("Volume", [], now.facts, true));
  }

  // An event in words: the server's own, or one of a layer.
  function words(event) {
    const [kind, what] = Object.entries(event || {})[0] || ["unknown", {}];
    switch (kind) {
      case "subscribed": return "events from here on";
      case "began": return what.layer + ": " + what.what + " began";
      case "ended": return what.layer + ": " + what.what + (what.error ? " failed: " + what.error : " ended");
      case "resized": return "resized: " + Object.entries(what).filter(([key]) => key !== "at_s").map(([key, value]) => key + " " + value).join(", ");
      case "lost": return what.events + " events were lost";
      case "stopping": return "the server stops";
      default: return kind + " " + JSON.stringify(what);
    }
  }
  function log() {
    const lines = events.slice().reverse().map((event) => {
      const line = make("li");
      line.append(make("time", clock(event.at)), words(event.event));
      return line;
    });
    byId("events").replaceChildren(...(lines.length ? lines : [make("li", "None yet.", "quiet")]));
  }

  function show() {
    state();
    choices(byId("place"), names("places"));
    choices(byId("map"), names("maps"));
    const kept = shown(), xs = kept.map((sample) => sample.at), from = kept.length ? kept[0].since : 0;
    tiles(now && now.state !== "gone" ? samples[samples.length - 1] : undefined);
    seeklessCharts.show(byId("charts"), charts(kept), xs, wall, from);
    const columns = kept.flatMap((sample) =>
      sample.maps.filter((map) => map.name === byId("map").value).map((map) => ({ since: sample.since, at: sample.at, ...map })));
    byId("heat").hidden = columns.length === 0;
    if (columns.length) seeklessHeat.draw(byId("heat").querySelector("canvas"), columns, from, xs[xs.length - 1], clock);
    if (now && now.state !== "gone") return tables();
    // What was before is not so any more.
    byId("works").hidden = byId("now").hidden = true;
  }

  function connect() {
    const source = new EventSource(url("events"));
    source.addEventListener("history", (event) => {
      const history = JSON.parse(event.data);
      wall = history.clock === "wall";
      ({ samples, events, now } = history);
      show();
      log();
    });
    source.addEventListener("sample", (event) => {
      const message = JSON.parse(event.data);
      if (message.sample) samples.push(message.sample);
      samples.splice(0, samples.length - MOST);
      now = message.now;
      show();
      if (message.events.length) {
        events.push(...message.events);
        events.splice(0, events.length - EVENTS);
        log();
      }
    });
    source.addEventListener("error", () => {
      byId("state").className = "gone";
      byId("words").textContent = "no connection to seekless; trying again. If it was started anew, open the address that it printed.";
      // Of a refusal the browser does not try again.
      if (source.readyState === EventSource.CLOSED) setTimeout(connect, AGAIN);
    });
  }

  seeklessHeat.scale(byId("scale"));
  for (const id of ["place", "span", "map"]) byId(id).addEventListener("change", (event) => {
    event.target.dataset.chosen = event.target.value;
    show();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    seeklessCharts.forget();
    show();
  });
  addEventListener("resize", () => requestAnimationFrame(show));
  connect();
})();
