// The plots of an answer.
import { get, post } from "./api.js";
import { plot, stacked } from "./charts.js";
import { nameOf, offerOf } from "./deployment.js";
import { element, money, show, words } from "./dom.js";
import { typeOf } from "./names.js";

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
    series: [{ name: "by rank, 80 % range where told", points, line: false }, { name: "Pareto front", points: paretoOf(points).map((p) => ({ x: p.x, y: p.y })), dots: false }],
    xLabel: `${first.name}, ${first.unit}`, yLabel: price(rows[0]).unit, logX: true,
    heads: ["Rank", "Hardware", first.unit, "low", "high", price(rows[0]).unit],
    rows: rows.map((r) => [String(r.rank), nameOf(r), wait(r).value, wait(r).low ?? null, wait(r).high ?? null, price(r).value]),
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
      rows: curve.points.map((p) => [String(p.requests_per_s), p[kind].p50, p[kind].p95]),
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
  return plot(`Cost over time, ${found.of}`, {
    series: shown.map((w) => ({ name: w.name, points: line(w), dots: false })),
    xLabel: "months", yLabel: "USD", heads: ["Way", "USD per hour", "USD to buy", `USD after ${show(months)} months`, "Owning pays from month"],
    rows: shown.map((w) => [w.name, money(w.hour), w.purchase ? money(w.purchase) : null, money(line(w)[1].y), w.pays ?? null]),
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

// All observed prices of one kind of accelerator, page by page.
async function observed(accelerator) {
  const rows = [];
  let after = "";
  do {
    const page = await get(`/catalog/prices?limit=500&accelerator=${encodeURIComponent(accelerator)}${after}`);
    rows.push(...page.items.filter((p) => p.usd_per_hour));
    after = page.next_cursor ? `&cursor=${encodeURIComponent(page.next_cursor)}` : "";
  } while (after);
  return rows.sort((a, b) => (a.observed_on < b.observed_on ? 1 : -1));
}

async function history({ accelerator }) {
  const yearOf = (day) => Number(day.slice(0, 4)) + (Number(day.slice(5, 7) || 7) - 1 + Number(day.slice(8, 10) || 15) / 31) / 12;
  const rows = (await observed(accelerator)).map((p) => ({ ...p, x: yearOf(p.observed_on), y: p.usd_per_hour / p.accelerator_count }));
  if (!rows.length) return element("p", {}, "No prices of earlier days are known.");
  const kinds = [...new Set(rows.map((p) => p.pricing_model))];
  return plot(`Prices seen of ${typeOf(accelerator)}`, {
    series: kinds.map((kind) => ({ name: words(kind), line: false, points: rows.filter((p) => p.pricing_model === kind) })), zeroX: false, xText: (year) => (Number.isInteger(year) ? String(year) : ""),
    xLabel: "year", yLabel: "USD per hour of one", heads: ["Seen", "Provider", "Region", "Way", "USD per hour of one"],
    rows: rows.slice(0, 200).map((p) => [p.observed_on, p.provider, p.region ?? null, words(p.pricing_model), money(p.y)]),
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
  const asked = [later(`Price history of ${typeOf(first.deployment.accelerator)}`, () => history(first.deployment))];
  if (isRun(first)) asked.unshift(later("Scaling of the first, and where it ends", () => scaling(first, answer.request)));
  return [
    element("div", { class: "plots" },
      element("div", { class: "alike of-ranked" }, ...[frontier(answer), memory(answer)].filter(Boolean)),
      element("div", { class: "alike of-first" }, ...plotsOfFirst(answer))),
    ...asked,
  ];
}
