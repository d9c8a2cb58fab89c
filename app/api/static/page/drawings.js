// Drawings of one option: machines and replicas, the bill of certainty and its cost, the day, and how far values may change.
import { bars, figure, frame, legendOf, place, scale, widthNow } from "./charts.js";
import { counted } from "./deployment.js";
import { about, drawn, element, money, show, words } from "./dom.js";
import { labelOf, quantityName } from "./names.js";

const SQUARE = 16;
const MOST_MACHINES = 24;
const MOST_COLOURS = 5;

// Accelerators that work as one: a replica, or a data-parallel rank of a run.
function groups(d) {
  const ranks = d.replicas === 1 && d.data_parallel > 1;
  return { size: ranks ? d.accelerators_per_replica / d.data_parallel : d.accelerators_per_replica, name: ranks ? "data-parallel rank" : "replica", working: d.replicas * d.accelerators_per_replica };
}

function machine(d, index, per) {
  const { size, name, working } = groups(d);
  const columns = Math.min(8, per);
  const squares = Array.from({ length: per }, (_, k) => index * per + k).filter((i) => i < d.total_accelerators).map((i, k) => {
    const number = Math.floor(i / size) + 1;
    const spare = i >= working;
    const [x, y] = [4 + (k % columns) * SQUARE, 4 + Math.floor(k / columns) * SQUARE];
    return drawn("g", {}, drawn("rect", { x, y, width: SQUARE - 2, height: SQUARE - 2, class: spare ? "spare" : `fill-${(number - 1) % MOST_COLOURS}` }, drawn("title", {}, spare ? "spare" : `${name} ${number}`)));
  });
  const [width, height] = [columns * SQUARE + 6, Math.ceil(per / columns) * SQUARE + 6];
  return drawn("svg", { width, height, viewBox: `0 0 ${width} ${height}`, class: "machine", "aria-hidden": "true" }, drawn("rect", { x: 1, y: 1, width: width - 2, height: height - 2, class: "case" }), ...squares);
}

function drawPool(name, d, zones) {
  const per = Math.ceil(d.total_accelerators / d.nodes);
  const { size, name: group, working } = groups(d);
  const spare = Math.max(0, d.total_accelerators - working);
  const text = [`${counted(d.nodes, "machine")} with ${counted(per, "accelerator")}${d.nodes > 1 ? " each" : ""}`, `${counted(working / size, group)} with ${counted(size, "accelerator")}${working > size ? " each" : ""}`,
    spare ? `${show(spare)} spare` : null, zones > 1 ? `${show(zones)} zones` : null].filter(Boolean).join("; ");
  const shown = Math.min(d.nodes, MOST_MACHINES);
  return [element("p", {}, `${name ? `${words(name)}: ` : ""}${text}.`),
    element("div", { class: "machines" }, ...Array.from({ length: shown }, (_, i) => machine(d, i, per)), shown < d.nodes ? element("span", {}, `and ${counted(d.nodes - shown, "more machine")}`) : null)];
}

// Machines as boxes, accelerators as squares; accelerators of one replica have one colour, spares are outlined.
export function layoutDrawing(r, request) {
  const d = r.deployment;
  const zones = request.workload.availability?.zones;
  const pools = d.pools ? Object.entries(d.pools) : [[null, d]];
  return element("figure", { class: "layout-drawing" }, element("figcaption", {}, "Machines and replicas"), ...pools.flatMap(([name, pool]) => (pool.nodes ? drawPool(name, pool, zones) : [])));
}

const FACTORS = { predicted: "at full speed, as predicted", whole_machines: "whole machines", limits: "latency limits" };

// Every factor between the accelerators that the load needs at full speed and those recommended.
export function certaintyBill(r) {
  const bill = r.confidence?.bill ?? [];
  if (bill.length < 2) return null;
  const count = bill.at(-1).total_accelerators;
  const most = Math.max(...bill.map((b) => b.total_accelerators));
  const name = (b) => FACTORS[b.factor] ?? words(b.factor);
  const ends = (b, i) => [i ? bill[i - 1].total_accelerators : 0, b.total_accelerators].sort((low, high) => low - high);
  return bars(`Why ${counted(count, "accelerator")}`, {
    rows: bill.map((b, i) => ({ text: `${name(b)}${i ? ` × ${about(b.multiplier)}` : ""}: ${about(b.total_accelerators)}`, parts: [[...ends(b, i), `fill-${i ? 1 : 0}`]] })),
    at: (value) => value / most, spoken: `From ${about(bill[0].total_accelerators)} accelerators at full speed to ${about(count)}.`,
    heads: ["Factor", "Multiplier", "Accelerators", "USD/h", "Removed by"], numbers: bill.map((b) => [name(b), b.multiplier, b.total_accelerators, money(b.usd_per_hour), b.removed_by ?? null]),
  });
}

// What each confidence costs: with this option, or for the first option with the cheapest type.
export function certaintyCost(r) {
  const levels = r.confidence?.by_level ?? [];
  if (levels.length < 2) return null;
  const cost = (l) => l.usd_total ?? l.usd_per_hour;
  const unit = levels.some((l) => l.usd_total) ? " per run" : "/h";
  const most = Math.max(...levels.map((l) => cost(l) ?? 0));
  const hardware = (l) => (l.total_accelerators ? `${show(l.total_accelerators)} × ${labelOf(l.deployment?.accelerator ?? r.deployment.accelerator ?? "two pools")}` : "not feasible");
  const level = (l) => `${show(100 * l.confidence)} %`;
  return bars("Cost by confidence", {
    rows: levels.map((l) => ({ text: `${level(l)}: ${cost(l) ? `${money(cost(l))}${unit}, ` : ""}${hardware(l)}`, parts: cost(l) ? [[0, cost(l), `fill-${l.confidence === r.confidence.asked ? 0 : 5}`]] : [] })),
    at: (value) => value / most, spoken: `Cost at ${counted(levels.length, "confidence level")}.`, legend: legendOf(["requested confidence"]),
    heads: ["Confidence", "Hardware", `USD${unit}`], numbers: levels.map((l) => [level(l), hardware(l), money(cost(l))]),
  });
}

// Load and replicas by hour of the day.
export function dayPlot(r) {
  const { day } = r;
  if (!day?.hours?.length) return null;
  const width = widthNow();
  const replicas = day.hours.map((h) => h.replicas);
  const peak = Math.max(...day.hours.map((h) => h.requests_per_s));
  const x = scale([0, 24], place.left, width - place.right);
  const y = scale([0, ...replicas], place.height - place.bottom, place.top);
  const usdPerReplicaHour = day.autoscaled ? day.autoscaled.usd_per_day / day.autoscaled.replica_hours : null;
  const foot = place.height - place.bottom;
  const load = day.hours.map((h, i) => `${x.at(i)},${foot - (h.requests_per_s / peak) * (foot - place.top)} ${x.at(i + 1)},${foot - (h.requests_per_s / peak) * (foot - place.top)}`).join(" ");
  const picture = drawn("svg", { viewBox: `0 0 ${width} ${place.height}`, role: "img", "aria-label": `Replicas by hour: ${Math.min(...replicas)} to ${Math.max(...replicas)}. The hours are in the table below.` },
    frame(x, y, width, { xLabel: "hour of the day", yLabel: "replicas", xText: String }),
    ...replicas.map((n, i) => drawn("rect", { x: x.at(i) + 1, y: y.at(n), width: x.at(i + 1) - x.at(i) - 2, height: foot - y.at(n), class: "fill-0" })),
    drawn("polyline", { points: load, class: "line stroke-1" }));
  const heads = ["Hour", "Requests/s", "Replicas", ...(usdPerReplicaHour ? ["USD in this hour, autoscaled"] : [])];
  const rows = day.hours.map((h, i) => [String(i), h.requests_per_s, h.replicas, ...(usdPerReplicaHour ? [money(h.replicas * usdPerReplicaHour)] : [])]);
  const made = figure("The day", picture, heads, rows, legendOf(["replicas", `load, up to ${about(peak)} requests/s`]));
  if (day.autoscaled) made.append(element("p", { class: "source" }, `Fixed: ${money(day.fixed.usd_per_day)} per day. Autoscaled: ${money(day.autoscaled.usd_per_day)} per day. ${day.autoscaled.note ?? ""}`));
  return made;
}

const SPAN = 4;

// How far each value may change, as a factor of the request, until another type ranks first. The narrowest range is on top.
export function tornado({ flips, holds }) {
  const knobs = new Map();
  const entry = (name) => knobs.get(name) ?? knobs.set(name, { name: quantityName(name), low: 1 / SPAN, high: SPAN, texts: [] }).get(name);
  const numeric = (each) => each.now > 0 && each.value > 0;
  const others = flips.filter((each) => !numeric(each)).map((each) => element("li", {}, each.text));
  for (const f of flips.filter(numeric)) {
    const at = entry(f.knob);
    const factor = f.value / f.now;
    if (factor < 1) at.low = Math.max(at.low, factor);
    else at.high = Math.min(at.high, factor);
    if (f.unit === "1") at.high = Math.min(at.high, 1 / f.now); // a share
    at.texts.push(f.text);
  }
  for (const h of holds) entry(h.knob).texts.push(h.text);
  const rows = [...knobs.values()].sort((a, b) => a.high / a.low - b.high / b.low);
  if (!rows.length) return others.length ? element("ul", {}, ...others) : element("p", {}, "No changed value was examined for this request.");
  const made = bars("Range of each value in which the first option stays first", {
    rows: rows.map((k) => ({ text: `${k.name}: × ${about(k.low, 2)} to × ${about(k.high, 2)}${k.low === 1 / SPAN && k.high === SPAN ? " (no change found)" : ""}`, parts: [[k.low, k.high, "fill-0"]] })),
    at: (factor) => 0.5 + Math.log(factor) / Math.log(SPAN) / 2, mark: 1, spoken: `Ranges of ${counted(rows.length, "value")}.`,
    heads: ["Value", "Lowest factor", "Highest factor", "Changes"], numbers: rows.map((k) => [k.name, k.low, k.high, k.texts.join(" ")]),
  });
  if (others.length) made.append(element("ul", {}, ...others));
  return made;
}
