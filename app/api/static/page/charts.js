// SVG plots: axes, lines, points with intervals, bars. Each has a title and a table of its numbers.
import { about, drawn, element, short, show, table } from "./dom.js";

export const place = { height: 300, left: 62, right: 14, top: 14, bottom: 44 };
// Limited to the window width, so that text has the same size on a phone.
export const widthWithin = (most) => Math.min(most, Math.max(300, innerWidth - 50));
export const widthNow = () => widthWithin(440);

function ticks(low, high, log) {
  if (log) {
    const all = [];
    for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++) {
      for (const m of [1, 2, 5]) all.push(m * 10 ** power);
    }
    const inside = all.filter((t) => t >= low * 0.999 && t <= high * 1.001);
    if (inside.length < 2) return ticks(low, high, false);
    return inside.length > 7 ? inside.filter((t) => /^1/.test(t.toExponential())) : inside;
  }
  const raw = (high - low) / 5 || 1;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = power * [1, 2, 5, 10].find((m) => m * power >= raw);
  const made = [];
  for (let t = Math.ceil(low / step) * step; t <= high + step / 1e6; t += step) made.push(Number(t.toPrecision(12)));
  return made;
}

export function scale(values, from, to, { log = false, zero = true } = {}) {
  const finite = values.filter((v) => Number.isFinite(v) && (!log || v > 0));
  let low = zero && !log ? Math.min(0, ...finite) : Math.min(...finite);
  let high = Math.max(...finite);
  if (low === high) [low, high] = log ? [low / 2, high * 2] : [low === 0 ? 0 : low * 0.9, high * 1.1 || 1];
  else if (log) [low, high] = [low / 1.15, high * 1.15];
  else high += (high - low) * 0.06;
  const f = log ? Math.log10 : (x) => x;
  const at = (v) => from + ((f(v) - f(low)) / (f(high) - f(low))) * (to - from);
  return { at, ticks: ticks(low, high, log) };
}

export function frame(x, y, width, { xLabel, yLabel, xText }) {
  const { height, left, right, top, bottom } = place;
  const made = drawn("g", { class: "axes" });
  for (const t of x.ticks) {
    made.append(drawn("line", { x1: x.at(t), x2: x.at(t), y1: top, y2: height - bottom, class: "grid" }));
    made.append(drawn("text", { x: x.at(t), y: height - bottom + 16, "text-anchor": "middle" }, xText(t)));
  }
  for (const t of y.ticks) {
    made.append(drawn("line", { x1: left, x2: width - right, y1: y.at(t), y2: y.at(t), class: "grid" }));
    made.append(drawn("text", { x: left - 6, y: y.at(t) + 4, "text-anchor": "end" }, short(t)));
  }
  made.append(drawn("text", { x: (left + width - right) / 2, y: height - 6, "text-anchor": "middle" }, xLabel));
  made.append(drawn("text", { transform: `translate(13 ${(top + height - bottom) / 2}) rotate(-90)`, "text-anchor": "middle" }, yLabel));
  return made;
}

// Text alternative of a plot: number of points and ranges of each line.
function spoken(title, series, xLabel, yLabel) {
  const ends = (values) => `${about(Math.min(...values))} to ${about(Math.max(...values))}`;
  const lines = series.map((s) => `${s.name}, ${s.points.length} points: ${xLabel} ${ends(s.points.map((p) => p.x))}, ${yLabel} ${ends(s.points.map((p) => p.y))}`);
  return `${title}. ${lines.join(". ")}. The numbers are in the table below.`;
}

export function figure(title, picture, heads, rows, legend) {
  const numbers = element("details", { class: "numbers" }, element("summary", {}, "Numbers"), table(heads, rows, title));
  return element("figure", {}, element("figcaption", {}, title), legend ?? null, picture, numbers);
}

export function legendOf(names) {
  return element("ul", { class: "legend" }, ...names.map((name, i) =>
    element("li", {}, drawn("svg", { width: 12, height: 12, viewBox: "0 0 12 12", "aria-hidden": "true" }, drawn("rect", { width: 12, height: 12, class: `fill-${i}` })), name)));
}

// Position of a label: left of its line, or right of it where the left has no room.
const labelPosition = (x, y, text) => (x - 7.5 * text.length > place.left ? { x: x - 5, y, "text-anchor": "end" } : { x: x + 5, y });

// series: [{name, points: [{x, y, low?, high?, name?}], line?, dots?}]; marks: [{x?, y?, text, low?}], low: label one line lower.
export function plot(title, { series, marks = [], xLabel, yLabel, logX = false, logY = false, zeroX = true, xText = short, heads, rows }) {
  const { height, left, right, top, bottom } = place;
  const width = widthNow();
  const points = series.flatMap((s) => s.points);
  const xs = [...points.flatMap((p) => [p.x, p.low ?? p.x, p.high ?? p.x]), ...marks.flatMap((m) => (m.x === undefined ? [] : [m.x]))];
  const ys = [...points.map((p) => p.y), ...marks.flatMap((m) => (m.y === undefined ? [] : [m.y]))];
  const x = scale(xs, left, width - right, { log: logX, zero: zeroX });
  const y = scale(ys, height - bottom, top, { log: logY });
  const picture = drawn("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": spoken(title, series, xLabel, yLabel) }, frame(x, y, width, { xLabel, yLabel, xText }));
  // A limit near the top leaves no room for labels above it.
  const labelOffset = marks.some((m) => m.y !== undefined && y.at(m.y) < top + 34) ? 34 : 0;
  for (const m of marks) {
    const line = m.x === undefined ? { x1: left, x2: width - right, y1: y.at(m.y), y2: y.at(m.y) } : { x1: x.at(m.x), x2: x.at(m.x), y1: top, y2: height - bottom };
    const text = m.x === undefined ? { x: left + 4, y: y.at(m.y) + (y.at(m.y) < top + 20 ? 14 : -5) } : labelPosition(x.at(m.x), top + 12 + (m.low ? 16 : 0) + labelOffset, m.text);
    picture.append(drawn("line", { ...line, class: "mark" }), drawn("text", { ...text, class: "marked" }, m.text));
  }
  series.forEach((s, i) => {
    if (s.line !== false && s.points.length > 1) {
      picture.append(drawn("polyline", { points: s.points.map((p) => `${x.at(p.x)},${y.at(p.y)}`).join(" "), class: `line stroke-${i}` }));
    }
    for (const p of s.dots === false ? [] : s.points) {
      if (p.low !== undefined) picture.append(drawn("line", { x1: x.at(p.low), x2: x.at(p.high), y1: y.at(p.y), y2: y.at(p.y), class: `whisker stroke-${i}` }));
      picture.append(drawn("circle", { cx: x.at(p.x), cy: y.at(p.y), r: p.name ? 6 : 3.5, class: `fill-${i}` }, drawn("title", {}, `${p.name ?? s.name}: ${show(p.x)}, ${show(p.y)}`)));
      if (p.name) picture.append(drawn("text", { x: x.at(p.x) + 9, y: y.at(p.y) - 6, class: "marked" }, p.name));
    }
  });
  return figure(title, picture, heads, rows, series.length > 1 ? legendOf(series.map((s) => s.name)) : null);
}

const ROW = 40;

// Horizontal bars, each below its text. rows: [{text, parts: [[from, to, class, title?]]}]; `at` places a value between 0 and 1; `mark` is a value with a line through all rows.
export function bars(title, { rows, at, mark, spoken, legend, heads, numbers }) {
  const width = widthNow();
  const x = (value) => 2 + at(value) * (width - 4);
  const part = (y) => ([from, to, kind, name]) => drawn("rect", { x: x(from), y: y + 19, width: Math.max(2, x(to) - x(from)), height: 14, class: kind }, name ? drawn("title", {}, name) : null);
  const drawings = rows.flatMap(({ text, parts }, i) => [drawn("text", { x: 2, y: i * ROW + 14, class: "marked" }, text), ...parts.map(part(i * ROW))]);
  const line = mark === undefined ? null : drawn("line", { x1: x(mark), x2: x(mark), y1: 0, y2: rows.length * ROW, class: "mark" });
  return figure(title, drawn("svg", { viewBox: `0 0 ${width} ${rows.length * ROW}`, role: "img", "aria-label": `${spoken} The numbers are in the table below.` }, ...drawings, line), heads, numbers, legend);
}
