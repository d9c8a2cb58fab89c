// Draws the plots of an answer.
import { all, post } from "./api.js";
import { bars, legendOf, plot } from "./charts.js";
import { nameOf, offerOf, typesOf } from "./deployment.js";
import { about, element, later, money, show, temporary, words } from "./dom.js";
import { certaintyBill, certaintyCost, dayPlot, layoutDrawing } from "./drawings.js";
import { speedOf, unitOf } from "./figures.js";
import { called, typeOf } from "./names.js";
import { isRun } from "./tradeoff.js";

const PARTS = ["weights", "kv_cache", "activations", "gradients", "optimizer", "overhead"];

const spread = (points) => Math.max(...points.map((p) => p.y)) / Math.min(...points.map((p) => p.y));

function memory(r) {
  const gib = r.memory.per_accelerator_gib;
  const used = PARTS.filter((part) => gib[part] > 0);
  const name = typeOf(r.deployment.accelerator ?? "each pool");
  let end = 0;
  const parts = used.map((part, i) => [end, (end += gib[part]), `fill-${i}`, `${words(part)}: ${show(gib[part])} GiB`]);
  const text = `${name}: ${show(end)} of ${show(gib.capacity)} GiB`;
  return bars("Memory of one accelerator", {
    rows: [{ text, parts: [[0, gib.capacity, "empty"], ...parts] }], at: (value) => value / gib.capacity, spoken: `${text}.`, legend: legendOf(used.map(words)),
    heads: ["Hardware", ...used.map(words), "capacity"], numbers: [[name, ...used.map((part) => gib[part]), gib.capacity]],
  });
}

function curves(r, slo, load) {
  const curve = r.performance.load_curve;
  if (!curve || curve.points.length < 3) return [];
  const kinds = [["ttft_ms", "Time to first token"], ["tpot_ms", "Time per token"]];
  return kinds.filter(([kind]) => curve.points[0][kind]).map(([kind, name]) => {
    const at = (statistic) => curve.points.map((p) => ({ x: p.requests_per_s, y: p[kind][statistic] }));
    const marks = [{ x: curve.knee_requests_per_s, text: "knee" }, ...(load ? [{ x: load, text: "your peak", low: true }] : [])];
    if (slo?.[kind]) marks.push({ y: slo[kind], text: "limit" });
    return plot(`${name} by load`, {
      series: [{ name: "p95", points: at("p95") }, { name: "p50", points: at("p50") }], marks,
      xLabel: "requests per second", yLabel: "ms", logY: spread(at("p95")) > 30, heads: ["Requests per second", "p50, ms", "p95, ms"],
      rows: curve.points.map((p) => [show(p.requests_per_s), p[kind].p50, p[kind].p95]),
    });
  });
}

// Ways to pay for an option, or for other ranked options if it has only one.
function ways({ recommendations }, first) {
  const others = recommendations.filter((r) => nameOf(r) !== nameOf(first));
  const way = (r, name) => ({ name, purchase: r.cost?.purchase_usd ?? r.purchase_usd, hour: r.cost?.usd_per_hour ?? r.usd_per_hour });
  const own = way(first, words(first.deployment.offer?.pricing_model ?? "first"));
  const more = (first.alternatives ?? []).map((a) => ({ ...way(a, words(a.way)), pays: a.break_even_month }));
  const bought = Boolean(own.purchase);
  if (more.some((w) => Boolean(w.purchase) !== bought)) return { of: "this option", ways: [own, ...more] };
  const other = others.filter((r) => Boolean(r.cost.purchase_usd) !== bought).map((r) => way(r, `${r.rank}. ${nameOf(r)}, ${offerOf(r)}`));
  return { of: "buy or rent", ways: [way(first, `${nameOf(first)}, ${offerOf(first)}`), ...more, ...other.slice(0, 2)] };
}

function rentOrOwn(answer, first) {
  const found = ways(answer, first);
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
    marks: shown.filter((w) => w.pays > 0 && w.pays <= months).slice(0, 1).map((w) => ({ x: w.pays, text: `break-even, month ${about(w.pays, 2)}` })),
    xLabel: "months", yLabel: "USD", heads: ["Option", "USD per hour", "Purchase, USD", `USD after ${show(months)} months`, ...(pays ? ["Break-even month"] : [])],
    rows: shown.map((w) => [w.name, money(w.hour), w.purchase ? money(w.purchase) : null, money(line(w)[1].y), ...(pays ? [w.pays ?? null] : [])]),
  });
}

async function scaling(r, request) {
  const kept = r.deployment;
  const counts = [0.25, 0.5, 1, 2, 4].map((f) => Math.round(kept.total_accelerators * f)).filter((n) => n >= 1);
  const asked = [...new Set(counts)].map(async (total_accelerators) => {
    const deployment = { accelerator: kept.accelerator, system: kept.system, total_accelerators, framework: kept.framework };
    const { workload, economics, assumptions, as_of } = request;
    const found = await post("/estimate", { workload, economics, assumptions, as_of, deployment }).catch((error) => (temporary(error) ? Promise.reject(error) : null));
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

// All observed prices of one accelerator type.
const observed = async (accelerator) => (await all(`/catalog/prices?accelerator=${encodeURIComponent(accelerator)}`)).filter((p) => p.usd_per_hour);

const dayOf = (year) => (Number.isInteger(year) ? String(year) : `${Math.floor(year)}-${String(Math.round((year % 1) * 12) + 1).padStart(2, "0")}`);

export async function history(types) {
  const yearOf = (day) => Number(day.slice(0, 4)) + (Number(day.slice(5, 7) || 7) - 1 + Number(day.slice(8, 10) || 15) / 31) / 12;
  const found = (await Promise.all(types.map(observed))).flat().filter((p) => p.pricing_model === "on_demand");
  const rows = found.map((p) => ({ ...p, x: yearOf(p.observed_on), y: p.usd_per_hour / p.accelerator_count })).sort((a, b) => b.x - a.x);
  if (!rows.length) return element("p", {}, "No price history is available for the ranked hardware.");
  const seen = [...new Set(rows.map((p) => p.accelerator))];
  return plot(`Observed on-demand prices${seen.length === 1 ? `: ${typeOf(seen[0])}` : ""}`, {
    series: seen.map((type) => ({ name: typeOf(type), line: false, points: rows.filter((p) => p.accelerator === type) })), zeroX: false, xText: dayOf,
    xLabel: "observed", yLabel: "USD/h per accelerator", heads: ["Observed", "Accelerator", "Provider", "Region", "USD/h per accelerator"],
    rows: rows.slice(0, 200).map((p) => [p.observed_on, typeOf(p.accelerator), called(p.provider), p.region ?? null, money(p.y)]),
  });
}

// Plots of the selected option; they are updated while a slider moves.
export function plotsOf(answer, r) {
  const asked = answer.request.workload.traffic ?? {};
  const load = answer.assumptions.find((a) => a.name === "peak_requests_per_s")?.value ?? asked.peak_requests_per_s;
  return [layoutDrawing(r, answer.request), r.memory ? memory(r) : null, ...curves(r, answer.request.workload.slo, load), certaintyBill(r), certaintyCost(r), dayPlot(r), rentOrOwn(answer, r)].filter(Boolean);
}

// Sections that request their content when the reader opens them: scaling of a run, price history.
export function laterPlots(answer) {
  const [first] = answer.recommendations;
  return [
    isRun(first) ? later("Scaling of the first option", () => scaling(first, answer.request)) : null,
    later("Price history", () => history(typesOf(answer))),
  ].filter(Boolean);
}
