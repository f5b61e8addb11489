/*
 * The mixed direction in three dimensions, to be turned by hand: a cloud of u = normalize(w mu + (1-w) xi) for one
 * kappa, the support cone, and beside it the exact density of the angle against the cloud's histogram.
 *
 * geoactSphere(container) fills an element. No libraries; colours come from the page's CSS variables (--ink,
 * --soft, --line, --accent, --c1, each with a fallback), so that light and dark pages both work.
 * The same noise is kept while kappa moves: one sees the cloud contract, not flicker.
 */

/* Exact formulas for d = 3, where z = <xi, mu> is uniform on [-1, 1]; t = exp(kappa). */
const geoactSphereMath = {
  meanCosine(kappa) {
    const t = Math.exp(kappa);
    return t <= 1 ? (2 * t) / 3 : 1 - 1 / (3 * t * t);
  },

  /* The largest angle from mu that a sample can have. */
  rim(kappa) {
    return kappa > 0 ? Math.asin(Math.exp(-kappa)) : Math.PI;
  },

  /* Density of the angle theta on (0, pi): 2 pi sin(theta) f, f = (1/4 pi) sum of rho^2 / root. */
  angleDensity(theta, kappa) {
    const t = Math.exp(kappa), sin = Math.sin(theta), cos = Math.cos(theta);
    const square = 1 - t * t * sin * sin;
    if (square <= 0 || (t >= 1 && cos <= 0)) return 0;
    const root = Math.sqrt(square), large = t * cos + root, small = t * cos - root;
    return (0.5 * sin * (large * large + (t > 1 ? small * small : 0))) / root;
  },

  /* Differential entropy: closed form for t < 1, midpoint rule over sin(theta) = cos(s) / t for t >= 1. */
  entropy(kappa) {
    const t = Math.exp(kappa), area = Math.log(4 * Math.PI), xlogx = (x) => (x > 0 ? x * Math.log(x) : 0);
    if (t < 1e-3) return area - (2 / 3) * t * t;
    if (t < 1) {
      const logR = (xlogx((1 + t) ** 2) - xlogx((1 - t) ** 2) - 4 * t) / (8 * t);
      return area - 3 * logR + (xlogx(1 + t) - xlogx(1 - t)) / (2 * t) - 1;
    }
    let total = 0;
    const n = 4000;
    for (let i = 0; i < n; i++) {
      const s = ((i + 0.5) / n) * (Math.PI / 2), sin = Math.sin(s);
      const q = Math.sqrt(Math.max(t * t - 1 + sin * sin, 0));
      const roots = (q + sin) ** 2 + (q - sin) ** 2;
      total += ((Math.cos(s) / t) * roots * (Math.log(roots) - Math.log(sin))) / q;
    }
    return area - ((total / n) * (Math.PI / 2)) / 2;
  },
};

function geoactSphere(container) {
  "use strict";
  const exact = geoactSphereMath;
  const COUNT = 1500, BINS = 45;
  let kappa = 0.5, yaw = 0.6, pitch = 0.45, seed = 1, noise = [];

  const element = (tag, attributes, parent) => {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) node.setAttribute(name, value);
    if (parent) parent.appendChild(node);
    return node;
  };
  container.textContent = "";
  const controls = element("div", { style: "display:flex;flex-wrap:wrap;gap:.4rem 1rem;align-items:center;margin-bottom:.5rem" }, container);
  const label = element("label", { style: "display:flex;gap:.5rem;align-items:center;flex:1 1 16rem" }, controls);
  element("span", {}, label).textContent = "concentration κ";
  const slider = element("input", { type: "range", min: "-3", max: "4", step: "0.05", value: String(kappa), style: "flex:1;min-width:7rem" }, label);
  const shown = element("output", { style: "min-width:3.2em;text-align:right;font-variant-numeric:tabular-nums" }, label);
  const again = element("button", { type: "button" }, controls);
  again.textContent = "new noise";
  const row = element("div", { style: "display:flex;flex-wrap:wrap;gap:.8rem;align-items:stretch" }, container);
  const ball = element("canvas", { role: "img", style: "flex:1 1 260px;min-width:0;width:100%;max-width:460px;aspect-ratio:1;cursor:grab;touch-action:pan-y" }, row);
  const side = element("div", { style: "flex:1 1 260px;min-width:0;display:flex;flex-direction:column" }, row);
  const plot = element("canvas", { role: "img", style: "width:100%;height:240px" }, side);
  const facts = element("div", { style: "font-size:.85em;line-height:1.6;font-variant-numeric:tabular-nums;margin-top:.4rem" }, side);
  element("p", { style: "font-size:.85em;opacity:.8;margin:.5rem 0 0" }, container).textContent =
    "Drag to turn. Each dot is an action before scaling, d = 3, coloured by its cosine to the direction (arrow). For κ > 0 no sample " +
    "can leave the cone. With slack, the policy mixes on a sphere of more dimensions and drops the surplus coordinates: " +
    "the shadow of this sphere on the plane is what two action dimensions with slack 1 can reach, gentle actions included.";

  const color = (name, fallback) => getComputedStyle(container).getPropertyValue(name).trim() || fallback;

  /* after viridis, with ends that show on a white page and on a dark one */
  const STOPS = [[112, 62, 160], [66, 98, 165], [33, 145, 140], [94, 185, 85], [238, 186, 20]];
  function shade(cosine) {
    const x = Math.min(Math.max((cosine + 1) / 2, 0), 1) * (STOPS.length - 1), i = Math.min(Math.floor(x), STOPS.length - 2);
    return "rgb(" + STOPS[i].map((low, j) => Math.round(low + (x - i) * (STOPS[i + 1][j] - low))).join(",") + ")";
  }

  /* mulberry32: small, seeded, the same cloud for everyone */
  function random(state) {
    return () => {
      state = (state + 0x6d2b79f5) | 0;
      let r = Math.imul(state ^ (state >>> 15), 1 | state);
      r = (r + Math.imul(r ^ (r >>> 7), 61 | r)) ^ r;
      return ((r ^ (r >>> 14)) >>> 0) / 4294967296;
    };
  }
  function draw_noise() {
    const next = random(seed);
    noise = Array.from({ length: COUNT }, () => {
      const z = 2 * next() - 1, a = 2 * Math.PI * next(), r = Math.sqrt(1 - z * z);
      return [r * Math.cos(a), r * Math.sin(a), z];
    });
  }

  /* mu is the third axis */
  function mix() {
    const t = Math.exp(kappa);
    return noise.map(([x, y, z]) => {
      const height = t + z, length = Math.hypot(x, y, height) || 1;
      return [x / length, y / length, height / length];
    });
  }

  function turn([x, y, z]) {
    const cy = Math.cos(yaw), sy = Math.sin(yaw), cp = Math.cos(pitch), sp = Math.sin(pitch);
    const across = cy * x + sy * y, away = -sy * x + cy * y;
    return [across, cp * z + sp * away, sp * z - cp * away]; /* right, up, towards the eye */
  }

  function prepare(canvas) {
    const scale = window.devicePixelRatio || 1, box = canvas.getBoundingClientRect();
    const width = Math.max(box.width, 1), height = Math.max(box.height, 1);
    if (canvas.width !== Math.round(width * scale)) canvas.width = Math.round(width * scale);
    if (canvas.height !== Math.round(height * scale)) canvas.height = Math.round(height * scale);
    const context = canvas.getContext("2d");
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.clearRect(0, 0, width, height);
    return [context, width, height];
  }

  function drawBall(points) {
    const [context, width, height] = prepare(ball);
    const radius = 0.4 * Math.min(width, height), ink = color("--ink", "#16202c"), soft = color("--soft", "#5b6775");
    const at = (p) => [width / 2 + radius * p[0], height / 2 + 0.06 * height - radius * p[1]];
    const path = (list, front, stroke, thick) => {
      context.strokeStyle = stroke;
      context.lineWidth = thick;
      context.beginPath();
      let pen = false;
      for (const p of list) {
        const turned = turn(p);
        if (turned[2] >= 0 === front) {
          const [x, y] = at(turned);
          if (pen) context.lineTo(x, y);
          else context.moveTo(x, y);
          pen = true;
        } else pen = false;
      }
      context.stroke();
    };
    const ring = (polar) => Array.from({ length: 97 }, (_, i) => {
      const a = (i / 96) * 2 * Math.PI;
      return [Math.sin(polar) * Math.cos(a), Math.sin(polar) * Math.sin(a), Math.cos(polar)];
    });
    const meridian = (a) => Array.from({ length: 97 }, (_, i) => {
      const b = (i / 96) * 2 * Math.PI;
      return [Math.sin(b) * Math.cos(a), Math.sin(b) * Math.sin(a), Math.cos(b)];
    });
    const dots = (front) => {
      for (const p of points) {
        const turned = turn(p);
        if (turned[2] >= 0 !== front) continue;
        const [x, y] = at(turned);
        context.globalAlpha = front ? 0.95 : 0.3;
        context.fillStyle = shade(p[2]);
        context.fillRect(x - 1.4, y - 1.4, 2.8, 2.8);
      }
      context.globalAlpha = 1;
    };
    const grid = (front) => {
      context.globalAlpha = front ? 0.45 : 0.18;
      for (const polar of [Math.PI / 6, Math.PI / 3, Math.PI / 2, (2 * Math.PI) / 3, (5 * Math.PI) / 6]) path(ring(polar), front, soft, 0.7);
      for (let i = 0; i < 6; i++) path(meridian((i * Math.PI) / 6), front, soft, 0.7);
      context.globalAlpha = 1;
    };
    const cone = (front) => {
      if (kappa <= 0) return;
      const rim = exact.rim(kappa), stroke = color("--c1", "#d55e00");
      context.globalAlpha = front ? 1 : 0.45;
      path(ring(rim), front, stroke, 2);
      if (!front) {
        context.globalAlpha = 0.5;
        context.lineWidth = 1;
        context.strokeStyle = stroke;
        for (let i = 0; i < 12; i++) {
          const a = (i * Math.PI) / 6;
          const [x0, y0] = at([0, 0, 0]);
          const [x1, y1] = at(turn([Math.sin(rim) * Math.cos(a), Math.sin(rim) * Math.sin(a), Math.cos(rim)]));
          context.beginPath();
          context.moveTo(x0, y0);
          context.lineTo(x1, y1);
          context.stroke();
        }
      }
      context.globalAlpha = 1;
    };
    grid(false);
    dots(false);
    cone(false);
    context.strokeStyle = color("--line", "#c8d0d8");
    context.lineWidth = 1.2;
    context.beginPath();
    context.arc(width / 2, height / 2 + 0.06 * height, radius, 0, 2 * Math.PI);
    context.stroke();
    grid(true);
    dots(true);
    cone(true);
    const tip = turn([0, 0, 1.22]), [x0, y0] = at([0, 0, 0]), [x1, y1] = at(tip);
    const length = Math.hypot(x1 - x0, y1 - y0), ux = length ? (x1 - x0) / length : 0, uy = length ? (y1 - y0) / length : 0;
    context.globalAlpha = tip[2] < 0 ? 0.5 : 1;
    context.strokeStyle = context.fillStyle = ink;
    context.lineWidth = 2;
    context.beginPath();
    context.moveTo(x0, y0);
    context.lineTo(x1, y1);
    context.stroke();
    context.beginPath();
    context.moveTo(x1 + 9 * ux, y1 + 9 * uy);
    context.lineTo(x1 - 4 * uy, y1 + 4 * ux);
    context.lineTo(x1 + 4 * uy, y1 - 4 * ux);
    context.fill();
    context.globalAlpha = 1;
    context.font = "italic 15px serif";
    context.fillText("μ", x1 + 12 * ux + 4, y1 + 12 * uy + 4);
    ball.setAttribute("aria-label", "sphere with " + COUNT + " sampled directions at kappa " + kappa.toFixed(2));
  }

  function drawPlot(points) {
    const [context, width, height] = prepare(plot);
    const left = 12, right = 18, top = 20, bottom = 34, ink = color("--ink", "#16202c"), soft = color("--soft", "#5b6775");
    const end = Math.min(Math.PI, 1.25 * exact.rim(kappa));
    const bins = new Array(BINS).fill(0);
    let sum = 0;
    for (const p of points) {
      sum += p[2];
      const theta = Math.atan2(Math.hypot(p[0], p[1]), p[2]);
      if (theta < end) bins[Math.floor((theta / end) * BINS)] += BINS / (end * COUNT);
    }
    const curve = [];
    for (let i = 0; i <= 600; i++) curve.push(exact.angleDensity((i / 600) * end, kappa));
    /* The density has a pole at the rim: let the histogram set the height, not the pole. */
    const ceiling = 1.25 * Math.max(...bins, 1e-9);
    const px = (theta) => left + (theta / end) * (width - left - right);
    const py = (value) => height - bottom - (Math.min(value, ceiling) / ceiling) * (height - top - bottom);
    bins.forEach((value, i) => {
      const theta = ((i + 0.5) / BINS) * end;
      context.globalAlpha = 0.75;
      context.fillStyle = shade(Math.cos(theta));
      context.fillRect(px((i / BINS) * end) + 0.5, py(value), (width - left - right) / BINS - 1, height - bottom - py(value));
    });
    context.globalAlpha = 1;
    if (kappa > 0) {
      context.strokeStyle = color("--c1", "#d55e00");
      context.setLineDash([4, 3]);
      context.lineWidth = 1.5;
      context.beginPath();
      context.moveTo(px(exact.rim(kappa)), top);
      context.lineTo(px(exact.rim(kappa)), height - bottom);
      context.stroke();
      context.setLineDash([]);
    }
    context.strokeStyle = ink;
    context.lineWidth = 1.8;
    context.beginPath();
    curve.forEach((value, i) => {
      const theta = (i / 600) * end;
      if (i === 0) context.moveTo(px(0), py(value));
      else if (theta < exact.rim(kappa)) context.lineTo(px(theta), py(value));
    });
    context.stroke();
    context.strokeStyle = soft;
    context.lineWidth = 1;
    context.beginPath();
    context.moveTo(left, top);
    context.lineTo(left, height - bottom);
    context.lineTo(width - right, height - bottom);
    context.stroke();
    context.fillStyle = soft;
    context.font = "11px system-ui, sans-serif";
    context.textAlign = "center";
    const degrees = (end * 180) / Math.PI, step = [1, 2, 5, 10, 15, 30, 45].find((s) => degrees / s <= 6) || 60;
    for (let d = 0; d <= degrees + 1e-9; d += step) context.fillText(d + "°", px((d * Math.PI) / 180), height - bottom + 14);
    context.fillText("angle between action and direction", (left + width) / 2, height - 5);
    context.textAlign = "left";
    context.fillText("density: exact (line), this cloud (bars)", left + 4, 12);
    plot.setAttribute("aria-label", "density of the angle at kappa " + kappa.toFixed(2));
    facts.textContent = "";
    const fact = (name, value) => {
      const line = element("div", { style: "display:flex;justify-content:space-between;gap:1rem;border-bottom:1px solid " + color("--line", "#dfe4ea") }, facts);
      element("span", {}, line).textContent = name;
      element("span", {}, line).textContent = value;
    };
    fact("weight w = sigmoid(κ)", (1 / (1 + Math.exp(-kappa))).toFixed(3));
    fact("mean cosine: exact, this cloud", exact.meanCosine(kappa).toFixed(3) + ",  " + (sum / COUNT).toFixed(3));
    fact("largest possible angle", kappa > 0 ? ((exact.rim(kappa) * 180) / Math.PI).toFixed(1) + "°" : "no limit (κ ≤ 0)");
    fact("exact entropy", exact.entropy(kappa).toFixed(3) + " nats");
  }

  let pending = false;
  function redraw() {
    if (pending) return;
    pending = true;
    requestAnimationFrame(() => {
      pending = false;
      shown.textContent = kappa.toFixed(2);
      const points = mix();
      drawBall(points);
      drawPlot(points);
    });
  }

  slider.addEventListener("input", () => { kappa = Number(slider.value); redraw(); });
  again.addEventListener("click", () => { seed += 1; draw_noise(); redraw(); });
  let held = null;
  ball.addEventListener("pointerdown", (event) => {
    held = [event.clientX, event.clientY];
    ball.setPointerCapture(event.pointerId);
    ball.style.cursor = "grabbing";
  });
  ball.addEventListener("pointermove", (event) => {
    if (!held) return;
    yaw += (event.clientX - held[0]) * 0.01;
    pitch = Math.min(Math.max(pitch + (event.clientY - held[1]) * 0.01, -Math.PI / 2), Math.PI / 2);
    held = [event.clientX, event.clientY];
    redraw();
  });
  for (const name of ["pointerup", "pointercancel"]) {
    ball.addEventListener(name, () => { held = null; ball.style.cursor = "grab"; });
  }
  new ResizeObserver(redraw).observe(container);
  new MutationObserver(redraw).observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme", "class", "style"] });
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  draw_noise();
  redraw();
}
