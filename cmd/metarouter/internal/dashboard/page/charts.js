// The two charts. uPlot draws on a canvas, whose colours come from the style sheet, and
// its values stand next to it as text.
import uPlot from "./vendor/uplot/dist/uPlot.esm.js";

/** colour asks the style sheet, since light-dark() means nothing to a canvas. */
function colour(name) {
  const probe = document.createElement("span");
  probe.className = `paint-${name}`;
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

const height = 160;

/** A chart owns its element; update gives it data, and it draws itself anew when the theme changes. */
function chart(options, data) {
  const element = document.createElement("div");
  element.className = "plot";
  element.setAttribute("role", "img");
  let plot, latest = data, colours;
  const make = () => {
    colours = Object.fromEntries(["ok", "ok-soft", "bad", "bad-soft", "muted", "grid", "accent", "accent-soft", "text"].map((c) => [c, colour(c)]));
    plot?.destroy();
    plot = new uPlot({ width: Math.max(200, element.clientWidth), height, legend: { show: false }, padding: [4, 8, 0, 0], ...options(colours) }, latest, element);
  };
  new ResizeObserver(() => {
    if (!element.clientWidth) return;
    if (plot) plot.setSize({ width: element.clientWidth, height });
    else make();
  }).observe(element);
  addEventListener("themechange", () => { if (plot) make(); });
  return {
    element,
    /** @param {string} label what it shows, in words */
    update(data, label) {
      latest = data;
      if (element.getAttribute("aria-label") !== label) element.setAttribute("aria-label", label);
      if (element.isConnected) plot?.setData(data);
    },
  };
}

const font = "11px system-ui, sans-serif";
const axis = (c, more) => ({ stroke: c.muted, font, grid: { stroke: c.grid, width: 1 }, ticks: { show: false }, ...more });

/** rates draws calls per second: all as an area, those that failed on top of it. */
export const rates = () => chart((c) => ({
  cursor: { show: false },
  scales: { x: { time: true }, y: { range: (_, __, top) => [0, Math.max(top * 1.15, 2)] } },
  axes: [
    axis(c, { size: 26, gap: 3, space: 70, grid: { show: false }, values: (_, at) => at.map((t) => new Date(t * 1000).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" })) }),
    axis(c, { size: 36, space: 32, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000] }),
  ],
  series: [{},
    { stroke: c.accent, fill: c["accent-soft"], width: 1.5, points: { show: false } },
    { stroke: c.bad, fill: c["bad-soft"], width: 1.5, dash: [4, 3], points: { show: false } },
  ],
}), [[], [], []]);

const bars = uPlot.paths.bars({ size: [0.86, 60], radius: 0.12 });

const short = (ms) => (ms < 1000 ? `${ms}` : `${ms / 1000} s`);

/** latencies draws a histogram whose buckets grow; bounds are those of the router. */
export function latencies() {
  let bounds = [], marks = [];
  const at = (ms) => { // where a time stands among the buckets
    const i = bounds.findIndex((b) => ms <= b);
    if (i < 0) return bounds.length;
    const low = i ? bounds[i - 1] : 0;
    return i - 0.5 + (ms - low) / (bounds[i] - low);
  };
  const drawMarks = (c) => (u) => {
    const { ctx, bbox } = u;
    ctx.save();
    ctx.font = `${11 * devicePixelRatio}px system-ui, sans-serif`;
    ctx.textAlign = "left";
    ctx.strokeStyle = c.text;
    ctx.fillStyle = c.text;
    ctx.setLineDash([3 * devicePixelRatio, 3 * devicePixelRatio]);
    let free = -Infinity;
    for (const [name, ms] of marks) {
      const x = Math.round(u.valToPos(at(ms), "x", true));
      const wide = ctx.measureText(name).width;
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
      const left = Math.max(free, Math.min(x - wide / 2, bbox.left + bbox.width - wide));
      ctx.fillText(name, left, bbox.top - 4 * devicePixelRatio);
      free = left + wide + 6 * devicePixelRatio;
    }
    ctx.restore();
  };
  const c = chart((c) => ({
    cursor: { show: false },
    padding: [16, 8, 0, 0], // the names of the marks stand there
    scales: { x: { time: false, range: () => [-0.6, bounds.length + 0.6] }, y: { range: (_, __, top) => [0, Math.max(top * 1.1, 4)] } },
    axes: [
      axis(c, { size: 26, gap: 3, grid: { show: false }, splits: () => bounds.map((_, i) => i + 0.5), filter: (u, all) => thin(u, all, bounds), values: (_, all) => all.map((i) => (i === null ? "" : i === 0.5 ? `${short(bounds[0])} ms` : short(bounds[i - 0.5]))) }),
      axis(c, { size: 40, space: 32, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000] }),
    ],
    series: [{}, { stroke: c.accent, fill: c["accent-soft"], width: 1, paths: bars, points: { show: false } }],
    hooks: { draw: [drawMarks(c)] },
  }), [[], []]);
  return {
    element: c.element,
    update(histogram, label) {
      bounds = histogram.bounds;
      marks = histogram.counts.some(Boolean) ? [["p50", histogram.p50], ["p95", histogram.p95], ["p99", histogram.p99]] : [];
      c.update([histogram.counts.map((_, i) => i), histogram.counts], label);
    },
  };
}

/** thin leaves out labels where they would touch. */
function thin(u, all, bounds) {
  const each = Math.ceil((bounds.length * 34) / Math.max(1, u.bbox.width / devicePixelRatio));
  return all.map((v, i) => (i % each ? null : v));
}
