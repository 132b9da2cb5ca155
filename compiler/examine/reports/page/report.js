"use strict";
(async () => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const COLORS = {quantized: "#2563a8", inside: "#8bb8e0", float: "#8a94a3"};
  const LABELS = {quantized: "quantized", inside: "part of a quantized layer", float: "in float"};
  const NO_BAR = {responsive: true, displayModeBar: false};  // dragging zooms, a double click resets
  const byId = (id) => document.getElementById(id);
  document.querySelectorAll("table:has(thead)").forEach((table) => {
    const heads = [...table.tHead.rows[0].cells].map((cell) => cell.textContent);
    table.classList.add("heads");
    [...table.tBodies[0].rows].forEach((row) => [...row.cells].forEach((cell, i) => { cell.dataset.head = heads[i]; }));
  });
  const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();  // as the page has it
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => location.reload());
  // plotly reads some HTML in texts, and names come from outside
  const plain = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  const short = (text, most) => plain(text.length <= most ? text : "…" + text.slice(1 - most));
  const layout = (more) => ({
    margin: {l: 60, r: 20, t: 40, b: 50}, font: {family: "system-ui, sans-serif", size: 12, color: color("--ink")},
    paper_bgcolor: color("--paper"), plot_bgcolor: color("--paper"), hovermode: "closest", ...more,
  });
  const axis = (text, more) => ({title: {text}, gridcolor: color("--grid"), zeroline: false, ...more});

  function drawCurve(curve, choose) {
    const names = curve.layer.length <= 60;
    const line = {
      ...curve.line, mode: "lines", line: {color: "#c3ccd6", width: 1.5}, hoverinfo: "skip", showlegend: false,
    };
    const traces = Object.keys(COLORS).map((decision) => {
      const at = curve.place.map((_, i) => i).filter((i) => curve.decision[i] === decision);
      return {
        x: at.map((i) => curve.place[i]), y: at.map((i) => curve.sqnr[i]), mode: "markers", name: LABELS[decision],
        marker: {color: COLORS[decision], size: (names ? 8 : 6) - (decision === "float" ? 2 : 0)}, hovertemplate: "%{text}<extra></extra>",
        text: at.map((i) => `${short(curve.layer[i], 80)}<br>${plain(curve.op[i])}, ${curve.decision[i]}<br>` +
          `${curve.sqnr[i] === null ? "" : curve.sqnr[i].toFixed(1) + " dB"}` +
          `${curve.drop[i] === null ? "" : `, ${curve.drop[i].toFixed(1)} dB lost here`}`),
      };
    }).filter((trace) => trace.x.length);
    const ticks = names ? {tickvals: curve.place, ticktext: curve.layer.map((n) => short(n, 24)), tickangle: -60} : {};
    const finite = curve.line.y.filter((y) => y !== null);
    const limit = Math.min(...finite) < data.poor + 10;
    Plotly.newPlot("curve", [line, ...traces], layout({
      height: names ? 480 : 420, margin: {l: 60, r: 20, t: 20, b: names ? 150 : 50},
      xaxis: axis(names ? "" : "layers in the order of the network", ticks), yaxis: axis("SQNR dB"),
      legend: {orientation: "h", y: 1.08},
      shapes: limit ? [{type: "line", xref: "paper", x0: 0, x1: 1, y0: data.poor, y1: data.poor,
        line: {color: "#c23b3b", dash: "dot", width: 1.5}}] : [],
    }), NO_BAR);
    byId("curve").on("plotly_click", (event) => choose(event.points[0].x));
  }

  function decades(traces) {
    const counts = traces.flatMap((trace) => trace.y).filter((count) => count > 0);
    return Math.log10(Math.max(...counts) / Math.min(...counts));
  }

  function drawHistogram(layer) {
    const points = layer.points.filter((point) => data.activations[point.index]);
    if (!points.length) {
      return empty("histogram", layer.points.length ? "The values of its inputs were not measured" : "No quantized input");
    }
    const shapes = [], annotations = [], traces = [];
    points.forEach((point, i) => {
      const seen = data.activations[point.index];
      traces.push({
        type: "bar", x: seen.counts.map((_, n) => seen.start + (n + 0.5) * seen.width), y: seen.counts, name: short(point.name, 40),
        width: seen.width, marker: {color: i ? "#d99a1c" : "#2563a8", opacity: points.length > 1 ? 0.6 : 1},
        hovertemplate: "%{x:.4g}: %{y}<extra></extra>",
      });
      point.clip.forEach((x) => shapes.push({type: "line", x0: x, x1: x, yref: "paper", y0: 0, y1: 1,
        line: {color: i ? "#9a6a08" : "#c23b3b", dash: "dash", width: 1.5}}));
      annotations.push({xref: "paper", yref: "paper", x: 0, y: 1.0 - 0.06 * i, xanchor: "left", yanchor: "bottom", showarrow: false,
        text: `${short(point.name, 40)}: ${seen.low.toPrecision(4)} to ${seen.high.toPrecision(4)}, int${point.bits}, ` +
          `${(100 * seen.clipped).toPrecision(2)} % clipped`});
    });
    Plotly.newPlot("histogram", traces, layout({
      height: 340, title: {text: "Input", x: 0.02}, barmode: "overlay", showlegend: points.length > 1, shapes, annotations,
      margin: {l: 60, r: 20, t: 70, b: 50}, xaxis: axis("value"), yaxis: axis("count", {type: "log", dtick: decades(traces) > 2 ? 1 : "D2"}),
    }), NO_BAR);
  }

  function drawWeights(layer) {
    const weights = layer.weights;
    if (!weights) return empty("weights", "No integer weights");
    const x = weights.low.map((_, i) => i * Math.ceil(weights.channels / weights.low.length));
    const edge = (sign, show) => ({
      x, y: weights.limit.map((y) => sign * y), mode: "lines", line: {color: "#c23b3b", width: 1, shape: "hvh"}, hoverinfo: "skip",
      name: "largest integer", showlegend: show,
    });
    const grouped = weights.low.length < weights.channels;
    Plotly.newPlot("weights", [{
      type: "bar", x, base: weights.low, y: weights.high.map((y, i) => y - weights.low[i]), marker: {color: "#2563a8"}, name: "weights",
      customdata: weights.high, hovertemplate: "channel %{x}: %{base:.4g} to %{customdata:.4g}<extra></extra>",
    }, edge(1, true), edge(-1, false)], layout({
      height: 340, margin: {l: 60, r: 20, t: 70, b: 50}, bargap: 0.15, legend: {orientation: "h", y: 1.12, x: 1, xanchor: "right"},
      title: {text: `Weights: ${weights.channels} channels, int${weights.bits}, ${weights.scales}`, x: 0.02},
      xaxis: axis(grouped ? `channel (${Math.ceil(weights.channels / weights.low.length)} in a bar)` : "channel"), yaxis: axis("weight"),
    }), NO_BAR);
  }

  function empty(id, text) {
    Plotly.newPlot(id, [], layout({height: 340, xaxis: {visible: false}, yaxis: {visible: false},
      annotations: [{text, showarrow: false, xref: "paper", yref: "paper", x: 0.5, y: 0.5}]}), NO_BAR);
  }

  function drawRecovery(rows) {
    const passes = [...new Set(rows.map((row) => row.pass))];
    const palette = ["#2563a8", "#d99a1c", "#2e8b57", "#8d4fa8"];
    Plotly.newPlot("recovered", passes.flatMap((pass, i) => {
      const of = rows.filter((row) => row.pass === pass);
      const hover = of.map((row) => `${short(row.layer, 80)}<br>${plain(pass)}: ${row.before} dB before, ${row.after} dB after` +
        `${row.kind === "missed" ? ", not kept" : ""}`);
      return [{
        x: of.map((_, n) => n), y: of.map((row) => row.after - row.before), type: "bar", name: plain(pass),
        marker: {color: of.map((row) => row.kind === "missed" ? "#c3ccd6" : palette[i % 4])}, text: hover, textposition: "none",
        hovertemplate: "%{text}<extra></extra>", xaxis: `x${i ? i + 1 : ""}`, yaxis: `y${i ? i + 1 : ""}`,
      }];
    }), layout({
      height: 120 + 220 * passes.length, showlegend: false, grid: {rows: passes.length, columns: 1, pattern: "independent", ygap: 0.3},
      ...Object.fromEntries(passes.flatMap((pass, i) => {
        const of = rows.filter((row) => row.pass === pass);
        const ticks = of.length <= 60 ? {tickvals: of.map((_, n) => n), ticktext: of.map((row) => short(row.layer, 20)), tickangle: -45} : {};
        return [[`xaxis${i ? i + 1 : ""}`, axis("", ticks)], [`yaxis${i ? i + 1 : ""}`, axis(`${plain(pass)}<br>dB gained`, {zeroline: true})]];
      })),
      margin: {l: 70, r: 20, t: 20, b: 110},
    }), NO_BAR);
  }

  async function loadPlotly() {
    const packed = Uint8Array.from(atob(byId("plotly").textContent), (c) => c.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
    const script = document.createElement("script");
    script.textContent = await new Response(stream).text();
    document.head.append(script);
  }

  function sortBy(table, column, down) {
    const body = table.tBodies[0];
    const value = (row) => {
      const text = row.cells[column].textContent.trim();
      const number = text === "∞" ? Infinity : parseFloat(text);
      return table.tHead.rows[0].cells[column].classList.contains("number") ? (Number.isNaN(number) ? null : number) : text;
    };
    const rows = [...body.rows].map((row) => [value(row), row]);
    rows.sort(([a], [b]) => a === null || b === null ? (a === null) - (b === null)
      : (down ? -1 : 1) * (typeof a === "number" ? a - b : a.localeCompare(b)));
    rows.forEach(([, row]) => body.append(row));
  }

  const places = new Map(data.layers.map((layer, i) => [layer.place, i]));
  const select = byId("chosen");
  function show(index) {
    select.selectedIndex = index;
    drawHistogram(data.layers[index]);
    drawWeights(data.layers[index]);
  }
  function choose(place) {
    if (!places.has(place)) return;
    show(places.get(place));
    byId("detail").scrollIntoView({behavior: "smooth"});
  }

  const table = byId("table");
  if (table) {
    [...table.tHead.rows[0].cells].forEach((cell, column) => {
      let down = cell.classList.contains("number") && column > 0 && cell.textContent !== "SQNR dB";
      cell.addEventListener("click", () => { sortBy(table, column, down); down = !down; });
    });
    table.tBodies[0].addEventListener("click", (event) => choose(Number(event.target.closest("tr").dataset.place)));
    byId("search").addEventListener("input", (event) => {
      const words = event.target.value.toLowerCase().split(/\s+/);
      let count = 0;
      for (const row of table.tBodies[0].rows) {
        const text = row.textContent.toLowerCase();
        row.hidden = !words.every((word) => text.includes(word));
        count += !row.hidden;
      }
      byId("found").textContent = `${count} of ${table.tBodies[0].rows.length} layers`;
    });
  }
  await loadPlotly();
  if (byId("curve")) drawCurve(data.curve, choose);
  if (select) {
    data.layers.forEach((layer) => select.add(new Option(`${layer.place + 1}  ${layer.name}  (${layer.op})`)));
    select.addEventListener("change", () => show(select.selectedIndex));
    const lost = data.layers.map((layer) => layer.drop ?? -Infinity);
    show(lost.indexOf(Math.max(...lost)));
  }
  if (byId("recovered")) drawRecovery(data.recovery);
  document.body.dataset.drawn = "true";
})();
