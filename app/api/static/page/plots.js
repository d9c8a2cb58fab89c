// The plots of an answer.
import { get, post } from "./api.js";
import { plot, stacked } from "./charts.js";
import { nameOf } from "./deployment.js";
import { element, money, words } from "./dom.js";

const PARTS = ["weights", "kv_cache", "activations", "gradients", "optimizer", "overhead"];

const isRun = (r) => r.performance.days !== undefined;

// What a user waits for: the token, the answer, or the run; with its interval where the answer has one.
function wait(r) {
  const p = r.performance;
  const interval = (quantity) => (p.intervals ?? []).find((i) => i.quantity === quantity) ?? {};
  if (isRun(r)) return { value: p.days, unit: "days", name: "Duration", ...picked(interval("days")) };
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
  const rows = answer.recommendations.filter((r) => wait(r).value && price(r).value !== null);
  if (rows.length < 2) return null;
  const points = rows.map((r) => ({ x: wait(r).value, y: price(r).value, name: String(r.rank), ...picked(wait(r)) }));
  const first = wait(rows[0]);
  return plot("Cost against latency", {
    series: [{ name: "by rank, with the interval", points, line: false }, { name: "Pareto front", points: paretoOf(points).map((p) => ({ x: p.x, y: p.y })), dots: false }],
    xLabel: `${first.name}, ${first.unit}`, yLabel: price(rows[0]).unit, logX: true,
    heads: ["Rank", "Hardware", first.unit, "low", "high", price(rows[0]).unit],
    rows: rows.map((r) => [String(r.rank), nameOf(r), wait(r).value, wait(r).low ?? null, wait(r).high ?? null, price(r).value]),
  });
}

function memory(answer) {
  const all = answer.recommendations.map((r) => r.memory.per_accelerator_gib);
  const used = PARTS.filter((part) => all.some((m) => m[part] > 0));
  const bars = answer.recommendations.map((r, i) => ({ name: `${r.rank}. ${r.deployment.accelerator}`, parts: used.map((p) => all[i][p]), of: all[i].capacity }));
  return stacked("Memory of one accelerator", { bars, parts: used.map(words), unit: "GiB" });
}

function curves(r, slo) {
  const curve = r.performance.load_curve;
  if (!curve || curve.points.length < 3) return [];
  const kinds = [["ttft_ms", "Time to first token"], ["tpot_ms", "Time per token"]];
  return kinds.filter(([kind]) => curve.points[0][kind]).map(([kind, name]) => {
    const at = (statistic) => curve.points.map((p) => ({ x: p.requests_per_s, y: p[kind][statistic] }));
    const marks = [{ x: curve.knee_requests_per_s, text: "knee" }];
    if (slo?.[kind]) marks.push({ y: slo[kind], text: "limit" });
    return plot(`${name} by load, first recommendation`, {
      series: [{ name: "p95", points: at("p95") }, { name: "p50", points: at("p50") }], marks,
      xLabel: "requests per second", yLabel: "ms", logY: spread(at("p95")) > 30, heads: ["Requests per second", "p50, ms", "p95, ms"],
      rows: curve.points.map((p) => [String(p.requests_per_s), p[kind].p50, p[kind].p95]),
    });
  });
}

function rentOrOwn(r, request) {
  const months = request.economics?.horizon_months ?? 36;
  const own = { name: r.deployment.offer?.pricing_model ?? "first", purchase: r.cost.purchase_usd, hour: r.cost.usd_per_hour };
  const ways = [own, ...(r.alternatives ?? []).map((a) => ({ name: a.way, purchase: a.purchase_usd, hour: a.usd_per_hour, pays: a.break_even_month }))];
  const isRunOnce = isRun(r);
  if (isRunOnce || ways.length < 2) return null;
  const hours = 730;
  // A way that is bought is paid at once; what its hours cost beyond the purchase is power and care.
  const line = (w) => {
    const running = w.purchase ? Math.max(0, w.hour * hours * months - w.purchase) / months : w.hour * hours;
    return [0, months].map((m) => ({ x: m, y: (w.purchase ?? 0) + running * m }));
  };
  const named = ways.slice(0, 6).map((w) => ({ name: words(w.name), points: line(w), dots: false }));
  return plot("Cost over time, first recommendation", {
    series: named, xLabel: "months", yLabel: "USD", heads: ["Way", "USD per hour", "USD to buy", `USD after ${months} months`, "Owning pays from month"],
    rows: ways.slice(0, 6).map((w) => [words(w.name), w.hour, w.purchase ?? null, line(w)[1].y, w.pays ?? null]),
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
    return found && found.fits && found.performance ? { n: total_accelerators, speed: found.performance.tokens_per_s ?? found.performance.samples_per_s, share: found.performance.scaling_efficiency } : null;
  });
  const points = (await Promise.all(asked)).filter(Boolean);
  if (points.length < 2) return element("p", {}, "It runs at no other size.");
  const per = points[0].speed / points[0].n;
  const knee = points.filter((p) => p.speed / p.n >= 0.8 * per).at(-1);
  return plot("Speed by accelerators", {
    series: [{ name: "expected", points: points.map((p) => ({ x: p.n, y: p.speed })) }, { name: "if it scaled evenly", points: points.map((p) => ({ x: p.n, y: per * p.n })), dots: false }],
    marks: [{ x: knee.n, text: "four fifths still" }], logX: true, logY: true,
    xLabel: "accelerators", yLabel: "per second", heads: ["Accelerators", "Per second", "Efficiency"], rows: points.map((p) => [String(p.n), p.speed, p.share]),
  });
}

async function history(r) {
  const found = await get(`/catalog/prices?limit=500&accelerator=${encodeURIComponent(r.deployment.accelerator)}`);
  const rows = found.items.filter((p) => p.usd_per_hour).map((p) => ({ x: Number(p.observed_on.slice(0, 4)) + (Number(p.observed_on.slice(5, 7) || 7) - 0.5) / 12, y: p.usd_per_hour / p.accelerator_count, ...p }));
  if (!rows.length) return element("p", {}, "No prices of earlier days are known.");
  const kinds = [...new Set(rows.map((p) => p.pricing_model))];
  return plot(`Prices seen of ${r.deployment.accelerator}`, {
    series: kinds.map((kind) => ({ name: words(kind), line: false, points: rows.filter((p) => p.pricing_model === kind) })), zeroX: false, xText: (year) => (Number.isInteger(year) ? String(year) : ""),
    xLabel: "year", yLabel: "USD per hour of one", heads: ["Seen", "Provider", "Region", "Way", "USD per hour of one"],
    rows: rows.slice(0, 200).map((p) => [p.observed_on, p.provider, p.region ?? null, words(p.pricing_model), money(p.y)]),
  });
}

export function plots(answer) {
  const [first] = answer.recommendations;
  if (!first) return [];
  const { request } = answer;
  const asked = [later(`Price history of ${first.deployment.accelerator}`, () => history(first))];
  if (isRun(first)) asked.unshift(later("Scaling of the first, and where it ends", () => scaling(first, request)));
  return [
    element("div", { class: "plots" }, ...[frontier(answer), memory(answer), ...curves(first, request.workload.slo), rentOrOwn(first, request)].filter(Boolean)),
    ...asked,
  ];
}
