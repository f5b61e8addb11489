// The page's charts: plain SVG, drawn from the JSON block. Every string goes in as text, never as markup.
"use strict";
(() => {
  const { runs, labels } = JSON.parse(document.getElementById("data").textContent);
  const SVG = "http://www.w3.org/2000/svg";
  const svg = (tag, attributes, parent, text) => {
    const node = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    if (text !== undefined) node.textContent = text;
    if (parent) parent.appendChild(node);
    return node;
  };
  const element = (tag, className, parent, text) => {
    const node = document.createElement(tag);
    if (className) node.className = className;
    if (text !== undefined) node.textContent = text;
    if (parent) parent.appendChild(node);
    return node;
  };
  const unique = (values) => [...new Set(values)];
  const color = (label) => `var(--c${labels.indexOf(label) % 8})`;
  const dashes = (label) => ["", "6 3", "2 3"][Math.floor(labels.indexOf(label) / 8) % 3]; // the ninth is dashed

  const AXES = { transitions: "transitions", updates: "gradient updates", hours: "hours" };
  const NAMES = {
    "eval/return_mean": "return, deterministic evaluation", "charts/episodic_return": "return, training episodes",
    "eval/length_mean": "episode length, evaluation", "charts/episodic_length": "episode length, training",
    "policy/kappa": "concentration kappa, mean", "policy/weight": "mixing weight w, mean",
    "policy/scale": "learned scale, mean", "policy/scale_deviation": "learned scale, deviation over dimensions", "policy/scale_std": "learned scale, deviation over dimensions and states (version 0.1)",
    "policy/clipped": "fraction of clipped coordinates", "policy/entropy": "entropy", "losses/alpha": "entropy weight alpha",
    "policy/norm": "norm of the action before clipping, mean", "losses/qf_values": "critic's value, mean", "losses/values": "value network's value, mean (PPO)",
  };
  const KINDS = {
    curves: ["eval/return_mean", "charts/episodic_return", "eval/length_mean", "charts/episodic_length"],
    dynamics: ["policy/kappa", "policy/weight", "policy/scale", "policy/scale_deviation", "policy/scale_std", "policy/clipped", "policy/norm", "policy/entropy", "losses/alpha", "losses/qf_values", "losses/values"],
  };

  const short = (value) => {
    const size = Math.abs(value);
    if (size >= 1e6) return +(value / 1e6).toPrecision(3) + "M";
    if (size >= 1e4) return +(value / 1e3).toPrecision(3) + "k";
    return size >= 100 ? Math.round(value).toLocaleString("en") : String(+value.toPrecision(3));
  };
  const ticks = (low, high, count) => {
    const raw = (high - low) / count, power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((m) => m >= raw * 0.999);
    const found = [];
    for (let v = Math.ceil(low / step - 1e-9) * step; v <= high + step * 1e-9; v += step) found.push(+v.toPrecision(12));
    return found;
  };

  // Mean and standard deviation over runs at each x; a run counts between its own first and last point.
  const aggregate = (members, axis, metric) => {
    const lines = [];
    for (const run of members) {
      const values = run.metrics[metric];
      if (!values) continue;
      const points = [];
      values.forEach((y, i) => { if (y !== null) points.push([run[axis][i], y]); });
      if (points.length) lines.push(points);
    }
    if (!lines.length) return null;
    let grid = unique(lines.flatMap((line) => line.map((p) => p[0]))).sort((a, b) => a - b);
    if (grid.length > 260) {
      const [low, high] = [grid[0], grid[grid.length - 1]];
      grid = Array.from({ length: 161 }, (_, i) => low + (high - low) * i / 160);
    }
    const at = (line, x) => {
      if (x < line[0][0] || x > line[line.length - 1][0]) return null;
      let i = 1;
      while (i < line.length && line[i][0] < x) i++;
      if (i >= line.length) return line[line.length - 1][1];
      const [a, b] = [line[i - 1], line[i]];
      return b[0] === a[0] ? b[1] : a[1] + (b[1] - a[1]) * (x - a[0]) / (b[0] - a[0]);
    };
    const points = [];
    for (const x of grid) {
      const values = lines.map((line) => at(line, x)).filter((v) => v !== null);
      if (!values.length) continue;
      const mean = values.reduce((a, b) => a + b) / values.length;
      const std = values.length > 1 ? Math.sqrt(values.reduce((a, v) => a + (v - mean) ** 2, 0) / (values.length - 1)) : 0;
      points.push({ x, mean, std, n: values.length });
    }
    return { points, seeds: lines.length };
  };

  const chart = (task, parent, state) => {
    const figure = element("figure", "chart", null);
    const caption = element("figcaption", "", figure, task);
    const note = element("span", "", caption);
    const canvas = svg("svg", { role: "img", "aria-label": task }, figure);
    const tip = element("div", "tip", figure);
    tip.hidden = true;
    parent.appendChild(figure);
    const draw = () => {
      canvas.replaceChildren();
      tip.hidden = true;
      const lines = state.shown().map((label) => {
        const found = aggregate(runs.filter((run) => run.task === task && run.label === label), state.axis, state.metric);
        return found && { label, ...found };
      }).filter(Boolean);
      const width = Math.max(240, canvas.clientWidth || 340), height = 230;
      canvas.setAttribute("viewBox", `0 0 ${width} ${height}`);
      note.textContent = lines.length ? "" : "no data";
      figure.hidden = !runs.some((run) => run.task === task && run.metrics[state.metric]);
      if (!lines.length) return;
      const every = lines.flatMap((line) => line.points);
      let [x0, x1] = [0, Math.max(...every.map((p) => p.x)) || 1];
      let y0 = Math.min(...every.map((p) => p.mean - p.std)), y1 = Math.max(...every.map((p) => p.mean + p.std));
      if (y0 === y1) { const pad = Math.abs(y0) * 0.1 || 1; y0 -= pad; y1 += pad; }
      const pad = (y1 - y0) * 0.05;
      y0 -= pad; y1 += pad;
      const yTicks = ticks(y0, y1, 5), left = 12 + 6.6 * Math.max(...yTicks.map((t) => short(t).length));
      const [right, top, bottom] = [width - 10, 8, height - 34];
      const X = (x) => left + (x - x0) / (x1 - x0) * (right - left), Y = (y) => bottom - (y - y0) / (y1 - y0) * (bottom - top);
      for (const t of yTicks) {
        svg("line", { class: "gridline", x1: left, x2: right, y1: Y(t), y2: Y(t) }, canvas);
        svg("text", { x: left - 6, y: Y(t) + 4, "text-anchor": "end" }, canvas, short(t));
      }
      for (const t of ticks(x0, x1, Math.max(2, Math.floor(width / 90)))) {
        svg("text", { x: X(t), y: bottom + 15, "text-anchor": t === 0 ? "start" : "middle" }, canvas, short(t));
      }
      svg("line", { class: "axis", x1: left, x2: right, y1: bottom, y2: bottom }, canvas);
      svg("text", { x: (left + right) / 2, y: height - 4, "text-anchor": "middle" }, canvas, AXES[state.axis]);
      for (const line of lines) {
        const up = line.points.map((p) => `${X(p.x).toFixed(1)},${Y(p.mean + p.std).toFixed(1)}`);
        const down = line.points.map((p) => `${X(p.x).toFixed(1)},${Y(p.mean - p.std).toFixed(1)}`).reverse();
        if (line.seeds > 1) {
          svg("polygon", { class: "band", points: [...up, ...down].join(" "), style: `fill:${color(line.label)};opacity:var(--band)` }, canvas);
        }
        const path = line.points.map((p, i) => `${i ? "L" : "M"}${X(p.x).toFixed(1)},${Y(p.mean).toFixed(1)}`).join("");
        svg("path", { class: "curve", d: path, fill: "none", "stroke-width": 2, "stroke-linejoin": "round", "stroke-dasharray": dashes(line.label), style: `stroke:${color(line.label)}` }, canvas);
        if (line.points.length <= 25) {
          for (const p of line.points) svg("circle", { cx: X(p.x), cy: Y(p.mean), r: 2.6, style: `fill:${color(line.label)}` }, canvas);
        }
      }
      const marks = svg("g", { "pointer-events": "none" }, canvas);
      const hover = (event) => {
        const box = canvas.getBoundingClientRect();
        const x = x0 + ((event.clientX - box.left) * width / box.width - left) / (right - left) * (x1 - x0);
        const all = unique(every.map((p) => p.x));
        const nearest = all.reduce((a, b) => Math.abs(b - x) < Math.abs(a - x) ? b : a);
        marks.replaceChildren();
        svg("line", { class: "cursor", x1: X(nearest), x2: X(nearest), y1: top, y2: bottom }, marks);
        tip.replaceChildren(element("b", "", null, `${short(nearest)} ${AXES[state.axis]}`));
        for (const line of lines) {
          const p = line.points.find((q) => q.x === nearest);
          if (!p) continue;
          svg("circle", { cx: X(p.x), cy: Y(p.mean), r: 4, style: `fill:${color(line.label)}` }, marks);
          const row = element("div", "", tip);
          element("span", "dot", row).style.background = color(line.label);
          element("span", "", row, `${line.label}: ${short(p.mean)}${p.n > 1 ? ` ± ${short(p.std)}` : ""} (n=${p.n})`);
        }
        tip.hidden = false;
        const at = X(nearest) * box.width / width, room = figure.clientWidth - tip.offsetWidth - 8;
        tip.style.left = `${Math.max(8, Math.min(room, at < box.width / 2 ? at + 22 : at - tip.offsetWidth - 6))}px`;
        tip.style.top = "2.2rem";
      };
      canvas.onpointermove = canvas.onpointerdown = hover;
      canvas.onpointerleave = () => { tip.hidden = true; marks.replaceChildren(); };
    };
    return draw;
  };

  const redraws = [];
  for (const holder of document.querySelectorAll(".charts")) {
    const metrics = KINDS[holder.dataset.kind].filter((name) =>
      runs.some((run) => run.metrics[name] && run.metrics[name].some((v) => v !== null)));
    if (!metrics.length) { element("p", "empty", holder, "The runs have no such numbers yet."); continue; }
    const hidden = new Set();
    // A single evaluation makes no curve: then the first metric that has one.
    const longest = (name) => Math.max(...runs.map((run) => (run.metrics[name] || []).filter((v) => v !== null).length));
    metrics.sort((a, b) => (longest(a) < 3) - (longest(b) < 3));
    const state = { axis: "transitions", metric: metrics[0], shown: () => labels.filter((label) => !hidden.has(label)) };
    const controls = element("div", "controls", holder);
    const choose = (name, options, key) => {
      const label = element("label", "", controls, name);
      const select = element("select", "", label);
      select.dataset.choose = key;
      for (const [value, text] of options) element("option", "", select, text).value = value;
      select.onchange = () => { state[key] = select.value; redraw(); };
    };
    choose("show", metrics.map((name) => [name, NAMES[name] || name]), "metric");
    choose("against", Object.entries(AXES), "axis");
    const legend = element("div", "legend", controls);
    for (const label of labels) {
      const button = element("button", "", legend);
      button.type = "button";
      button.setAttribute("aria-pressed", "true");
      element("span", "dot", button).style.background = color(label);
      element("span", "", button, label);
      button.onclick = () => {
        if (!hidden.delete(label)) hidden.add(label);
        button.setAttribute("aria-pressed", String(!hidden.has(label)));
        redraw();
      };
    }
    const grid = element("div", "grid", holder);
    const draws = unique(runs.map((run) => run.task)).map((task) => chart(task, grid, state));
    const redraw = () => draws.forEach((draw) => draw());
    redraw();
    redraws.push(redraw);
  }
  let waiting = 0;
  addEventListener("resize", () => { clearTimeout(waiting); waiting = setTimeout(() => redraws.forEach((r) => r()), 120); });

  document.getElementById("theme").onclick = () => {
    const root = document.documentElement;
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  };
})();
