// Draws the plots of an answer.
import { get, post } from "./api.js";
import { plot, stacked } from "./charts.js";
import { nameOf, offerOf, typesOf } from "./deployment.js";
import { about, element, money, show, words } from "./dom.js";
import { speedOf, unitOf } from "./figures.js";
import { called, typeOf } from "./names.js";

const PARTS = ["weights", "kv_cache", "activations", "gradients", "optimizer", "overhead"];

const isRun = (r) => r.performance.days !== undefined;

// Duration of a run, in hours if the shortest takes less than two days.
function lasted(days, { low, high }, hours) {
  const by = hours ? 24 : 1;
  return { value: days * by, unit: hours ? "hours" : "days", name: "Duration", ...(low === undefined ? {} : { low: low * by, high: high * by }) };
}

// The latency that matters: per token, per request, or the duration of the run; with its interval if available.
function wait(r, hours) {
  const p = r.performance;
  const interval = (quantity) => (p.intervals ?? []).find((i) => i.quantity === quantity) ?? {};
  if (isRun(r)) return lasted(p.days, interval("days"), hours);
  if (p.tpot_ms && p.tpot_ms.p50) return { value: p.tpot_ms.p50, unit: "ms per token", name: "Time per token, median", ...picked(interval("tpot_ms")) };
  if (p.e2e_ms) return { value: p.e2e_ms.p50, unit: "ms", name: "Time per request, median", ...picked(interval("e2e_ms")) };
  return { value: null, unit: "", name: "" };
}

const spread = (points) => Math.max(...points.map((p) => p.y)) / Math.min(...points.map((p) => p.y));
const picked = ({ low, high }) => (low === undefined ? {} : { low, high });
const price = (r) => (isRun(r) && r.cost.usd_total ? { value: r.cost.usd_total, unit: "USD for the run" } : { value: r.cost.usd_per_hour, unit: "USD per hour" });

function paretoOf(points) {
  const sorted = [...points].sort((a, b) => a.x - b.x || a.y - b.y);
  let best = Infinity;
  return sorted.filter((p) => p.y < best && ((best = p.y), true));
}

function frontier(answer) {
  const hours = answer.recommendations.some((r) => r.performance.days < 2);
  const rows = answer.recommendations.map((r) => ({ r, w: wait(r, hours) })).filter(({ r, w }) => w.value && price(r).value !== null);
  if (rows.length < 2) return null;
  const points = rows.map(({ r, w }) => ({ x: w.value, y: price(r).value, name: String(r.rank), ...picked(w) }));
  const first = rows[0].w;
  return plot("Cost against latency", {
    series: [{ name: "options by rank, 80 % interval if available", points, line: false }, { name: "Pareto front", points: paretoOf(points).map((p) => ({ x: p.x, y: p.y })), dots: false }],
    xLabel: `${first.name}, ${first.unit}`, yLabel: price(rows[0].r).unit, logX: true,
    heads: ["Rank", "Hardware", first.unit, "low", "high", price(rows[0].r).unit],
    rows: rows.map(({ r, w }) => [String(r.rank), nameOf(r), w.value, w.low ?? null, w.high ?? null, money(price(r).value)]),
  });
}

function memory(answer) {
  const all = answer.recommendations.map((r) => r.memory.per_accelerator_gib);
  const used = PARTS.filter((part) => all.some((m) => m[part] > 0));
  const bars = answer.recommendations.map((r, i) => ({ name: `${r.rank}. ${typeOf(r.deployment.accelerator)}`, parts: used.map((p) => all[i][p]), of: all[i].capacity }));
  return stacked("Memory of one accelerator", { bars, parts: used.map(words), unit: "GiB" });
}

function curves(r, slo, load) {
  const curve = r.performance.load_curve;
  if (!curve || curve.points.length < 3) return [];
  const kinds = [["ttft_ms", "Time to first token"], ["tpot_ms", "Time per token"]];
  return kinds.filter(([kind]) => curve.points[0][kind]).map(([kind, name]) => {
    const at = (statistic) => curve.points.map((p) => ({ x: p.requests_per_s, y: p[kind][statistic] }));
    const marks = [{ x: curve.knee_requests_per_s, text: "knee" }, ...(load ? [{ x: load, text: "your peak", low: true }] : [])];
    if (slo?.[kind]) marks.push({ y: slo[kind], text: "limit" });
    return plot(`${name} by load, first recommendation`, {
      series: [{ name: "p95", points: at("p95") }, { name: "p50", points: at("p50") }], marks,
      xLabel: "requests per second", yLabel: "ms", logY: spread(at("p95")) > 30, heads: ["Requests per second", "p50, ms", "p95, ms"],
      rows: curve.points.map((p) => [show(p.requests_per_s), p[kind].p50, p[kind].p95]),
    });
  });
}

// Ways to pay for the first option, or for other ranked options if the first has only one.
function ways({ recommendations, request }) {
  const [first, ...others] = recommendations;
  const way = (r, name) => ({ name, purchase: r.cost?.purchase_usd ?? r.purchase_usd, hour: r.cost?.usd_per_hour ?? r.usd_per_hour });
  const own = way(first, words(first.deployment.offer?.pricing_model ?? "first"));
  const more = (first.alternatives ?? []).map((a) => ({ ...way(a, words(a.way)), pays: a.break_even_month }));
  const bought = Boolean(own.purchase);
  if (more.some((w) => Boolean(w.purchase) !== bought)) return { of: "first recommendation", ways: [own, ...more] };
  const other = others.filter((r) => Boolean(r.cost.purchase_usd) !== bought).map((r) => way(r, `${r.rank}. ${nameOf(r)}, ${offerOf(r)}`));
  return { of: "buy or rent", ways: [way(first, `1. ${nameOf(first)}, ${offerOf(first)}`), ...more, ...other.slice(0, 2)] };
}

function rentOrOwn(answer) {
  const [first] = answer.recommendations;
  const found = ways(answer);
  if (isRun(first) || found.ways.length < 2) return null;
  const months = answer.request.economics?.horizon_months ?? answer.assumptions.find((a) => a.name === "horizon_months")?.value ?? 36;
  const hours = 730;
  // Bought machines are paid upfront; their remaining hourly cost is power and maintenance.
  const line = (w) => {
    const running = w.purchase ? Math.max(0, w.hour * hours * months - w.purchase) / months : w.hour * hours;
    return [0, months].map((m) => ({ x: m, y: (w.purchase ?? 0) + running * m }));
  };
  const shown = found.ways.slice(0, 5);
  const pays = shown.some((w) => w.pays);
  return plot(`Cost over time, ${found.of}`, {
    series: shown.map((w) => ({ name: w.name, points: line(w), dots: false })),
    xLabel: "months", yLabel: "USD", heads: ["Option", "USD per hour", "Purchase, USD", `USD after ${show(months)} months`, ...(pays ? ["Break-even month"] : [])],
    rows: shown.map((w) => [w.name, money(w.hour), w.purchase ? money(w.purchase) : null, money(line(w)[1].y), ...(pays ? [w.pays ?? null] : [])]),
  });
}

// A section that requests its content when it is opened.
function later(title, fill) {
  const made = element("details", { class: "later" }, element("summary", {}, title));
  made.addEventListener("toggle", async () => {
    if (!made.open || made.dataset.asked) return;
    made.dataset.asked = "yes";
    const placeholder = element("p", {}, "Loading…");
    made.append(placeholder);
    try {
      placeholder.replaceWith(await fill());
    } catch (problem) {
      placeholder.replaceWith(element("p", { class: "error" }, problem.message));
    }
  });
  return made;
}

async function scaling(r, request) {
  const kept = r.deployment;
  const counts = [0.25, 0.5, 1, 2, 4].map((f) => Math.round(kept.total_accelerators * f)).filter((n) => n >= 1);
  const asked = [...new Set(counts)].map(async (total_accelerators) => {
    const deployment = { accelerator: kept.accelerator, system: kept.system, total_accelerators, framework: kept.framework };
    const { constraints, objective, limit, rejected_limit, label, reference, cost_centre, ...shared } = request;
    const found = await post("/estimate", { ...shared, deployment }).catch(() => null);
    return found && found.fits && found.performance ? { n: total_accelerators, speed: speedOf(found) } : null;
  });
  const points = (await Promise.all(asked)).filter(Boolean);
  if (points.length < 2) return element("p", {}, "It does not run at any other size.");
  const per = points[0].speed / points[0].n;
  const knee = points.filter((p) => p.speed / p.n >= 0.8 * per).at(-1);
  const ends = knee !== points.at(-1);
  return plot(`Speed by number of accelerators, ${ends ? `knee at ${knee.n}` : `no knee up to ${knee.n}`}`, {
    series: [{ name: "expected", points: points.map((p) => ({ x: p.n, y: p.speed })) }, { name: "linear scaling", points: points.map((p) => ({ x: p.n, y: per * p.n })), dots: false }],
    marks: ends ? [{ x: knee.n, text: "knee: 80 % of linear" }] : [], logX: true, logY: true,
    xLabel: "accelerators", yLabel: unitOf(r), heads: ["Accelerators", unitOf(r), "Share of linear scaling"],
    rows: points.map((p) => [String(p.n), about(p.speed), `${about((100 * p.speed) / p.n / per)} %`]),
  });
}

// All observed prices of one accelerator type, page by page.
async function observed(accelerator) {
  const rows = [];
  let after = "";
  do {
    const page = await get(`/catalog/prices?limit=500&accelerator=${encodeURIComponent(accelerator)}${after}`);
    rows.push(...page.items.filter((p) => p.usd_per_hour));
    after = page.next_cursor ? `&cursor=${encodeURIComponent(page.next_cursor)}` : "";
  } while (after);
  return rows;
}

const dayOf = (year) => (Number.isInteger(year) ? String(year) : `${Math.floor(year)}-${String(Math.round((year % 1) * 12) + 1).padStart(2, "0")}`);

async function history(types) {
  const yearOf = (day) => Number(day.slice(0, 4)) + (Number(day.slice(5, 7) || 7) - 1 + Number(day.slice(8, 10) || 15) / 31) / 12;
  const found = (await Promise.all(types.map(observed))).flat().filter((p) => p.pricing_model === "on_demand");
  const rows = found.map((p) => ({ ...p, x: yearOf(p.observed_on), y: p.usd_per_hour / p.accelerator_count })).sort((a, b) => b.x - a.x);
  if (!rows.length) return element("p", {}, "No price history is available for the ranked hardware.");
  const seen = types.filter((type) => rows.some((p) => p.accelerator === type));
  return plot("Observed on-demand prices", {
    series: seen.map((type) => ({ name: typeOf(type), line: false, points: rows.filter((p) => p.accelerator === type) })), zeroX: false, xText: dayOf,
    xLabel: "observed", yLabel: "USD/h per accelerator", heads: ["Observed", "Accelerator", "Provider", "Region", "USD/h per accelerator"],
    rows: rows.slice(0, 200).map((p) => [p.observed_on, typeOf(p.accelerator), called(p.provider), p.region ?? null, money(p.y)]),
  });
}

// Plots of the first option are updated while a slider moves; plots of all ranked options are updated afterwards.
export function plotsOfFirst(answer) {
  const [first] = answer.recommendations;
  const asked = answer.request.workload.traffic ?? {};
  const load = answer.assumptions.find((a) => a.name === "peak_requests_per_s")?.value ?? asked.peak_requests_per_s;
  return [...curves(first, answer.request.workload.slo, load), rentOrOwn(answer)].filter(Boolean);
}

export function plots(answer) {
  const [first] = answer.recommendations;
  if (!first) return [];
  const asked = [later("Price history of the ranked hardware", () => history(typesOf(answer)))];
  if (isRun(first)) asked.unshift(later("Scaling of the first option", () => scaling(first, answer.request)));
  return [
    element("div", { class: "plots" },
      element("div", { class: "alike of-ranked" }, ...[frontier(answer), memory(answer)].filter(Boolean)),
      element("div", { class: "alike of-first" }, ...plotsOfFirst(answer))),
    ...asked,
  ];
}
