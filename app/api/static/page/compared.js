// Shows a comparison: its summary, the quantities side by side, the causes of differences and the cost over time.
import { plot } from "./charts.js";
import { nameOf, sellerOf } from "./deployment.js";
import { element, list, money, show, table, words } from "./dom.js";
import { chanceText } from "./figures.js";
import { called } from "./names.js";

export const MOST_COMPARED = 8;

const QUANTITIES = {
  usd_per_hour: "Price", usd_total: "Run cost", usd_per_million: "Per million tokens or samples", purchase_usd: "Purchase", tco_usd: "Total cost of ownership", power_kw: "Power", total_accelerators: "Accelerators",
  ttft_p95_ms: "TTFT, p95", tpot_p95_ms: "TPOT, p95", e2e_p95_ms: "Request, p95", requests_per_s_capacity: "Capacity", output_tokens_per_s: "Speed", samples_per_s: "Speed", days: "Duration", tokens_per_s: "Speed",
  mfu: "MFU (share of peak FLOPs)", confidence: "Meets every limit", weights_gib: "Weights per accelerator", gradients_gib: "Gradients per accelerator", optimizer_gib: "Optimizer states per accelerator",
  activations_gib: "Activations per accelerator", kv_cache_gib: "KV cache per accelerator", memory_total_gib: "Memory in use per accelerator",
};

// The best value is bold.
const row = (names) => ({ quantity, unit, values, best }) => {
  const share = unit === "1";
  const shown = (value) => (value === null ? null : unit.startsWith("USD") ? money(value) : quantity === "confidence" ? chanceText(value) : share ? `${show(100 * value, 2)} %` : show(value));
  const cells = values.map((value, i) => (names[i] === best ? element("strong", {}, shown(value)) : shown(value)));
  return [`${QUANTITIES[quantity] ?? words(quantity)}${share || ["USD", "accelerators"].includes(unit) ? "" : `, ${unit}`}`, ...cells];
};

function spending({ name, ways, overtakes }) {
  return [
    plot(`Cost over time: ${name}`, {
      series: ways.slice(0, 5).map((w) => ({ name: `${words(w.way)}, ${called(w.provider)}`, points: w.months.map((m) => ({ x: m.month, y: m.usd })), dots: false })),
      xLabel: "months", yLabel: "USD", heads: ["Way to pay", "Provider", "Resale value", "Net cost at the end"], rows: ways.map((w) => [words(w.way), called(w.provider), money(w.left_usd), money(w.net_usd)]),
    }),
    overtakes.length ? list(overtakes.map((o) => `${words(o.way)} costs less than ${words(o.overtakes)} from month ${show(o.month)} on.`)) : null,
  ];
}

// The name of an option, with its hardware and seller if the service chose them.
const headOf = ({ name, deployment: d, id }) => element("span", {}, id ? element("a", { href: `/#a=${id}` }, name) : name, d?.offer ? element("small", {}, [name.includes(nameOf({ deployment: d })) ? null : nameOf({ deployment: d }), sellerOf({ deployment: d })].filter(Boolean).join(", ")) : null);

export function comparisonOf(found) {
  const names = found.options.map((o) => o.name);
  return [
    element("p", { class: "summary" }, found.summary),
    table(["Quantity", ...found.options.map(headOf)], found.table.map(row(names)), "Side by side"),
    ...found.options.filter((o) => o.why_not).map((o) => element("p", { class: "warning" }, `${o.name}: ${o.why_not}`)),
    found.differences.length ? list(found.differences.map((d) => `${d.name} costs ${show(d.ratio)} times as much as ${d.compared_with}: ${d.causes.map((c) => c.text).join("; ")}.`)) : null,
    ...(found.priorities ?? []).map((p) => element("p", {}, p.text)), ...(found.elsewhere ?? []).map((e) => element("p", {}, e.text)),
    element("div", { class: "plots" }, ...found.spending.filter((s) => s.ways.length > 1).flatMap(spending).filter(Boolean)),
  ];
}
