// The plots of an answer.
import { get, post } from "./api.js";
import { plot, stacked } from "./charts.js";
import { nameOf, offerOf, typesOf } from "./deployment.js";
import { about, element, money, show, words } from "./dom.js";
import { speedOf, unitOf } from "./figures.js";
import { called, typeOf } from "./names.js";

const PARTS = ["weights", "kv_cache", "activations", "gradients", "optimizer", "overhead"];

const isRun = (r) => r.performance.days !== undefined;

// A run's time, in hours where the shortest is over within two days.
function lasted(days, { low, high }, hours) {
  const by = hours ? 24 : 1;
  return { value: days * by, unit: hours ? "hours" : "days", name: "Duration", ...(low === undefined ? {} : { low: low * by, high: high * by }) };
}

// What a user waits for: the token, the answer, or the run; with its interval where the answer has one.
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
    series: [{ name: "by rank, 80 % range where told", points, line: false }, { name: "Pareto front", points: paretoOf(points).map((p) => ({ x: p.x, y: p.y })), dots: false }],
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

// Ways to pay for the first, or where it has only one, for the others that were ranked.
function ways({ recommendations, request }) {
  const [first, ...others] = recommendations;
  const way = (r, name) => ({ name, purchase: r.cost?.purchase_usd ?? r.purchase_usd, hour: r.cost?.usd_per_hour ?? r.usd_per_hour });
  const own = way(first, words(first.deployment.offer?.pricing_model ?? "first"));
  const more = (first.alternatives ?? []).map((a) => ({ ...way(a, words(a.way)), pays: a.break_even_month }));
  const bought = Boolean(own.purchase);
  if (more.some((w) => Boolean(w.purchase) !== bought)) return { of: "first recommendation", ways: [own, ...more] };
  const other = others.filter((r) => Boolean(r.cost.purchase_usd) !== bought).map((r) => way(r, `${r.rank}. ${nameOf(r)}, ${offerOf(r)}`));
  return { of: "bought against rented", ways: [way(first, `1. ${nameOf(first)}, ${offerOf(first)}`), ...more, ...other.slice(0, 2)] };
}

function rentOrOwn(answer) {
  const [first] = answer.recommendations;
  const found = ways(answer);
  if (isRun(first) || found.ways.length < 2) return null;
  const months = answer.request.economics?.horizon_months ?? answer.assumptions.find((a) => a.name === "horizon_months")?.value ?? 36;
  const hours = 730;
  // A way that is bought is paid at once; what its hours cost beyond the purchase is power and care.
  const line = (w) => {
    const running = w.purchase ? Math.max(0, w.hour * hours * months - w.purchase) / months : w.hour * hours;
    return [0, months].map((m) => ({ x: m, y: (w.purchase ?? 0) + running * m }));
  };
  const shown = found.ways.slice(0, 5);
  const pays = shown.some((w) => w.pays);
  return plot(`Cost over time, ${found.of}`, {
    series: shown.map((w) => ({ name: w.name, points: line(w), dots: false })),
    xLabel: "months", yLabel: "USD", heads: ["Way", "USD per hour", "USD to buy", `USD after ${show(months)} months`, ...(pays ? ["Owning pays from month"] : [])],
    rows: shown.map((w) => [w.name, money(w.hour), w.purchase ? money(w.purchase) : null, money(line(w)[1].y), ...(pays ? [w.pays ?? null] : [])]),
  });
}

// Filled when it is opened: what asks the service again.
function later(title, fill) {
  const made = element("details", { class: "later" }, element("summary", {}, title));
  made.addEventListener("toggle", async () => {
    if (!made.open || made.dataset.asked) return;
    made.dataset.asked = "yes";
    const said = element("p", {}, "Asking…");
    made.append(said);
    try {
      said.replaceWith(await fill());
    } catch (problem) {
      said.replaceWith(element("p", { class: "error" }, problem.message));
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
  if (points.length < 2) return element("p", {}, "It runs at no other size.");
  const per = points[0].speed / points[0].n;
  const knee = points.filter((p) => p.speed / p.n >= 0.8 * per).at(-1);
  const ends = knee !== points.at(-1);
  return plot(`Speed by accelerators, ${ends ? `with its knee at ${knee.n}` : `no knee up to ${knee.n}`}`, {
    series: [{ name: "expected", points: points.map((p) => ({ x: p.n, y: p.speed })) }, { name: "if it scaled evenly", points: points.map((p) => ({ x: p.n, y: per * p.n })), dots: false }],
    marks: ends ? [{ x: knee.n, text: "knee: 80 % of even" }] : [], logX: true, logY: true,
    xLabel: "accelerators", yLabel: unitOf(r), heads: ["Accelerators", unitOf(r), "Of even scaling"],
    rows: points.map((p) => [String(p.n), about(p.speed), `${about((100 * p.speed) / p.n / per)} %`]),
  });
}

// All observed prices of one kind of accelerator, page by page.
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
  if (!rows.length) return element("p", {}, "No prices of earlier days are known of the hardware that is ranked.");
  const seen = types.filter((type) => rows.some((p) => p.accelerator === type));
  return plot("Prices seen, on demand", {
    series: seen.map((type) => ({ name: typeOf(type), line: false, points: rows.filter((p) => p.accelerator === type) })), zeroX: false, xText: dayOf,
    xLabel: "seen", yLabel: "USD per hour of one", heads: ["Seen", "Accelerator", "Provider", "Region", "USD per hour of one"],
    rows: rows.slice(0, 200).map((p) => [p.observed_on, typeOf(p.accelerator), called(p.provider), p.region ?? null, money(p.y)]),
  });
}

// What is drawn of the first alone moves with a knob; what is drawn of all that were ranked follows.
export function plotsOfFirst(answer) {
  const [first] = answer.recommendations;
  const asked = answer.request.workload.traffic ?? {};
  const load = answer.assumptions.find((a) => a.name === "peak_requests_per_s")?.value ?? asked.peak_requests_per_s;
  return [...curves(first, answer.request.workload.slo, load), rentOrOwn(answer)].filter(Boolean);
}

export function plots(answer) {
  const [first] = answer.recommendations;
  if (!first) return [];
  const asked = [later("Price history of what is ranked", () => history(typesOf(answer)))];
  if (isRun(first)) asked.unshift(later("Scaling of the first, and where it ends", () => scaling(first, answer.request)));
  return [
    element("div", { class: "plots" },
      element("div", { class: "alike of-ranked" }, ...[frontier(answer), memory(answer)].filter(Boolean)),
      element("div", { class: "alike of-first" }, ...plotsOfFirst(answer))),
    ...asked,
  ];
}
