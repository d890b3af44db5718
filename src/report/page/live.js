"use strict";
addEventListener("DOMContentLoaded", () => {
  const message = document.getElementById("said");
  const say = text => { if (message) message.textContent = text; };
  say("Connecting to the run.");
  /* Collected now, because searching takes rows out of the document. */
  const all = selector => new Map([...document.querySelectorAll(selector)].map(element => [element.dataset.instance, element]));
  const [rows, dots] = [all("tr"), all("circle")];

  /* For each instance: its row in the table, its dot in the graph, and its status. */
  const stages = new Map();
  const stage = instance => {
    if (!stages.has(instance)) {
      stages.set(instance, { row: rows.get(instance), dot: dots.get(instance), status: "waiting" });
    }
    return stages.get(instance);
  };

  const ORDER = ["failed", "running", "stale", "skipped", "waiting", "computed", "cached", "fresh"];
  const setStatus = (instance, status, note) => {
    const known = stage(instance);
    known.status = status;
    overall.shares.delete(instance);
    if (known.row) {
      const word = known.row.querySelector(".status");
      word.dataset.status = status;
      word.textContent = status;
      known.row.cells[known.row.cells.length - 1].textContent = note ?? "";
    }
    if (known.dot) {
      known.dot.dataset.status = status;
      const node = known.dot.closest(".node");
      const all = [...node.querySelectorAll("circle")].map(dot => dot.dataset.status);
      node.dataset.status = ORDER.find(word => all.includes(word)) ?? "waiting";
      const word = node.querySelector(".word");
      if (word) word.textContent = status;
    }
  };

  /* How far the run is: the share of the stages that are not cached, and how long they took so far. A run is named after its start. */
  const overall = { total: 0, started: 0, shares: new Map(), timer: undefined };
  const overview = document.createElement("p");
  const bar = document.createElement("progress");
  bar.setAttribute("aria-label", "finished stages");
  const words = document.createElement("span");
  words.id = "progress";
  overview.append(bar, " ", words);
  const ENDED = ["computed", "cached", "failed", "skipped"];
  const clock = value => {
    const rounded = Math.max(0, Math.round(value));
    const [hours, minutes] = [Math.floor(rounded / 3600), Math.floor(rounded / 60) % 60];
    if (hours > 0) return `${hours} h ${minutes} min`;
    return rounded >= 60 ? `${minutes} min ${rounded % 60} s` : `${rounded} s`;
  };
  const counted = stages => `${stages} ${stages === 1 ? "stage" : "stages"}`;
  const showOverall = () => {
    const states = [...stages.values()].map(known => known.status);
    const ended = states.filter(status => ENDED.includes(status)).length;
    const cached = states.filter(status => status === "cached").length;
    const computed = ended - cached + [...overall.shares.values()].reduce((sum, share) => sum + share, 0);
    const elapsed = (Date.now() - overall.started) / 1000;
    const left = computed > 0 ? elapsed / computed * (overall.total - cached - computed) : undefined;
    [bar.max, bar.value] = [overall.total, ended];
    const rest = left === undefined ? "" : `, about ${clock(left)} left`;
    words.textContent = `${ended} of ${counted(overall.total)}` + (overall.timer === undefined ? "" : `, ${clock(elapsed)}${rest}`);
  };
  const startOverall = ({ run, instances }) => {
    const [, year, month, day, hour, minute, second] = run.match(/^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z/) ?? [];
    overall.total = instances;
    overall.started = year ? Date.UTC(year, month - 1, day, hour, minute, second) : Date.now();
    message?.after(overview);
    clearInterval(overall.timer);
    overall.timer = setInterval(showOverall, 1000);
    showOverall();
  };

  const seconds = value => value < 1 ? `${Math.round(value * 1000)} ms` : `${value.toFixed(1)} s`;
  const progress = event => {
    const { row } = stage(event.instance);
    if (event.total) overall.shares.set(event.instance, Math.min(1, event.done / event.total));
    if (!row) return;
    const cell = row.cells[row.cells.length - 1];
    const bar = cell.querySelector("progress") ?? document.createElement("progress");
    if (event.total) { bar.max = event.total; bar.value = event.done; } else bar.removeAttribute("value");
    bar.setAttribute("aria-label", `${event.instance}: ${event.message}`);
    cell.replaceChildren(bar, ` ${event.message}`);
  };

  /* One chart per metric that is reported after epochs, one line per instance. */
  const SVG = "http://www.w3.org/2000/svg";
  const [WIDTH, HEIGHT, LEFT, BASE] = [420, 190, 56, 166];
  const charts = new Map();
  const lines = new Map();
  const curves = document.getElementById("curves-drawn");
  document.getElementById("curves").hidden = true;
  /* Three charts next to each other fit on a usual screen without scrolling. */
  curves.style.gridTemplateColumns = "repeat(auto-fill, minmax(min(100%, 20rem), 1fr))";
  const svg = (name, attributes, text) => {
    const element = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    if (text !== undefined) element.textContent = text;
    return element;
  };
  const short = value => value === 0 ? "0" : Math.abs(value) >= 1e-3 && Math.abs(value) < 1e5 ? String(+value.toPrecision(3)) : value.toExponential(2);
  const draw = name => {
    const series = [...charts.get(name)].filter(([, points]) => points.length > 1);
    if (series.length === 0) return;
    let chart = [...curves.children].find(child => child.dataset.metric === name);
    if (!chart) {
      chart = document.createElement("div");
      chart.className = "curve";
      chart.dataset.metric = name;
      const after = [...curves.children].find(child => child.dataset.metric > name);
      curves.insertBefore(chart, after ?? null);
      document.getElementById("curves").hidden = false;
    }
    const points = series.flatMap(([, points]) => points);
    const values = points.map(({ value }) => value).filter(Number.isFinite);
    const epochs = points.map(({ epoch }) => epoch);
    const [low, high] = [Math.min(...values), Math.max(...values)];
    const [first, last] = [Math.min(...epochs), Math.max(...epochs)];
    const x = epoch => LEFT + (epoch - first) / (last - first) * (WIDTH - LEFT - 10);
    /* The first losses are often a hundred times the last ones, which would then be one flat line. */
    const isLogarithmic = name.includes("loss") && low > 0 && high > 30 * low;
    const scale = isLogarithmic ? Math.log : value => value;
    const y = value => BASE - (high > low ? (scale(value) - scale(low)) / (scale(high) - scale(low)) : 0.5) * (BASE - 12);
    const picture = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": `${name} over epochs` });
    picture.append(
      svg("path", { class: "axis", d: `M${LEFT} 10V${BASE}H${WIDTH - 10}` }),
      svg("text", { x: LEFT - 6, y: 16, "text-anchor": "end" }, short(high)),
      svg("text", { x: LEFT - 6, y: BASE, "text-anchor": "end" }, short(low)),
      svg("text", { x: LEFT, y: BASE + 16, "text-anchor": "middle" }, String(first)),
      svg("text", { x: (LEFT + WIDTH - 10) / 2, y: BASE + 16, "text-anchor": "middle" }, "epoch"),
      svg("text", { x: WIDTH - 10, y: BASE + 16, "text-anchor": "end" }, String(last)),
    );
    const legend = document.createElement("ul");
    for (const [instance, points] of series) {
      const colour = `line-${lines.get(instance) % 8}`;
      const drawn = points.filter(({ value }) => Number.isFinite(value));
      const places = drawn.map(({ epoch, value }) => `${x(epoch).toFixed(1)},${y(value).toFixed(1)}`);
      picture.append(svg("polyline", { class: colour, points: places.join(" ") }));
      const item = document.createElement("li");
      item.className = colour;
      item.textContent = `${instance} ${short(points[points.length - 1].value)}`;
      legend.append(item);
    }
    const heading = document.createElement("h3");
    heading.textContent = isLogarithmic ? `${name}, logarithmic` : name;
    chart.replaceChildren(heading, picture, legend);
  };
  /* The metrics whose charts have to be drawn again. */
  const outdated = new Set();
  const metric = ({ instance, name: plain, value, protocol, epoch }) => {
    /* Results of the whole stage are not points of a curve. */
    if (epoch === undefined) return;
    const name = protocol === "oracle" ? `${plain} (oracle)` : plain;
    if (!lines.has(instance)) lines.set(instance, lines.size);
    if (!charts.has(name)) charts.set(name, new Map());
    const series = charts.get(name);
    if (!series.has(instance)) series.set(instance, []);
    /* A training that continues from a checkpoint repeats epochs, and the training for the next fold starts from the first one. */
    const before = series.get(instance).filter(point => point.epoch < epoch);
    series.set(instance, [...before, { epoch, value: Number(value) }]);
    if (outdated.size === 0) requestAnimationFrame(() => { outdated.forEach(draw); outdated.clear(); });
    outdated.add(name);
  };

  const handlers = {
    run_started: event => {
      say(`Run ${event.run}, up to ${counted(event.jobs)} at once.`);
      startOverall(event);
    },
    hit: event => setStatus(event.instance, "cached", `saved ${seconds(event.saved)}`),
    started: event => setStatus(event.instance, "running", event.message),
    waiting: event => setStatus(event.instance, "waiting", "another process is computing it"),
    progress,
    metric,
    done: event => setStatus(event.instance, "computed", seconds(event.seconds)),
    failed: event => setStatus(event.instance, event.will_retry ? "running" : "failed", event.error),
    skipped: event => setStatus(event.instance, "skipped", event.because),
    stopping: () => say("Stopping."),
    run_finished: ({ summary }) => {
      const counts = [[summary.ran, "computed"], [summary.hits, "cached"], [summary.failed, "failed"], [summary.skipped, "skipped"]];
      const text = counts.filter(([count]) => count > 0).map(([count, word]) => `${count} ${word}`).join(", ") || "nothing to do";
      clearInterval(overall.timer);
      overall.timer = undefined;
      showOverall();
      say(`Ended after ${seconds(summary.seconds)}: ${text}. The server has stopped; this page stays as it is.`);
    },
  };
  /* The events so far come all at once, so what they add up to is shown when they have been read. */
  let isOutdated = false;
  const showSoon = () => {
    if (!isOutdated) setTimeout(() => { isOutdated = false; showOverall(); });
    isOutdated = true;
  };
  const source = new EventSource("events");
  source.onmessage = ({ data }) => {
    const event = JSON.parse(data);
    handlers[event.event]?.(event);
    showSoon();
    if (event.event === "run_finished") source.close();
  };
  source.onopen = () => {
    /* After an interruption the server sends all events again. */
    charts.clear();
  };
  source.onerror = () => {
    if (source.readyState === EventSource.CLOSED) say("The connection to the run is lost.");
  };
});
