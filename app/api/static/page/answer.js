// The ranked options: price and speed first, then a table, and what can be done with each.
import { get, post } from "./api.js";
import { layoutOf, nameOf, offerOf } from "./deployment.js";
import { element, money, section, show, table, words } from "./dom.js";

const FORMATS = [["html", "Memo to print"], ["xlsx", "Workbook"], ["csv", "CSV"], ["ubl", "UBL"], ["cxml", "cXML"], ["json", "JSON"]];
const ENGINES = ["vllm", "sglang", "tensorrt-llm", "llama.cpp"];
const TARGETS = {
  inference: ["kubernetes", "docker-compose", "kserve", "skypilot", "dstack"],
  training: ["torchrun", "slurm", "skypilot", "dstack", "accelerate", "deepspeed", "megatron"],
};

const span = (low, high, unit) => `${show(low)} to ${show(high)} ${unit}`;

const speedOf = (p) => p.output_tokens_per_s ?? p.tokens_per_s ?? p.samples_per_s;
const unitOf = (p) => (p.output_tokens_per_s !== undefined || p.tokens_per_s !== undefined ? "tokens/s" : "samples/s");

// Price and speed, the two that are looked for first.
export function headline(r) {
  const price = r.cost.usd_total ? `${money(r.cost.usd_total)} the run` : `${money(r.cost.usd_per_hour)}/h`;
  const speed = r.performance.days ? `${show(r.performance.days)} days` : `${show(speedOf(r.performance))} ${unitOf(r.performance)}`;
  return element("p", { class: "headline" }, element("strong", {}, price), element("strong", {}, speed));
}

function figures({ performance: p, cost: c }) {
  const unit = unitOf(p);
  const per = c.usd_per_million_tokens ?? c.usd_per_million_samples;
  const rows = [[c.usd_total ? "Per hour" : "Per month", money(c.usd_total ? c.usd_per_hour : c.usd_per_month)]];
  if (c.purchase_usd) rows.push(["To buy", money(c.purchase_usd)]);
  if (per) rows.push([c.usd_per_million_tokens ? "Million tokens" : "Million samples", money(per)]);
  rows.push(["Power", `${show(c.power_kw)} kW`]);
  if (p.days) rows.push(["Speed", `${show(speedOf(p))} ${unit}`]);
  if (p.interval) rows.push(["80 % of such results", span(p.interval.low, p.interval.high, unit)]);
  for (const [kind, name] of [["ttft_ms", "First token"], ["tpot_ms", "Per token"], ["e2e_ms", "Whole answer"]]) {
    if (p[kind]) rows.push([`${name}, p50 / p95`, `${show(p[kind].p50)} / ${show(p[kind].p95)} ms`]);
  }
  if (p.mfu) rows.push(["MFU", `${show(100 * p.mfu)} %`]);
  if (p.utilization_at_peak) rows.push(["Busy at peak", `${show(100 * p.utilization_at_peak, 2)} %`]);
  return rows;
}

const facts = (rows) => element("dl", {}, ...rows.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]));

function exportsOf(answer, r, phase) {
  const at = `/recommendations/${answer.id}`;
  const files = element("div", { "aria-live": "polite" });
  const engine = ENGINES.includes(r.deployment.engine) ? [r.deployment.engine] : [];
  const targets = [...engine, ...TARGETS[phase]];
  return element("details", {}, element("summary", {}, "Take it along"),
    element("p", { class: "buttons" }, "Bill of materials: ", ...FORMATS.map(([format, name]) => element("a", { class: "button", href: `${at}/bill-of-materials?rank=${r.rank}&format=${format}` }, name))),
    element("p", { class: "buttons" }, "Files that start it: ", ...targets.map((t) => element("button", { type: "button", click: () => handedOff(`${at}/deployment?rank=${r.rank}&target=${t}`, files) }, t))),
    files);
}

async function handedOff(address, into) {
  try {
    const found = await get(address);
    const files = found.files.map((f) => [element("a", { href: `${address}&file=${encodeURIComponent(f.name)}` }, f.name), element("pre", { tabindex: 0 }, f.text)]);
    into.replaceChildren(element("ul", {}, ...found.notes.map((note) => element("li", {}, note))), ...files.flat());
  } catch (problem) {
    into.replaceChildren(element("p", { class: "error" }, problem.message));
  }
}

function card(answer, r) {
  const phase = answer.request.workload.phase === "inference" ? "inference" : "training";
  const source = r.cost.price ? `${r.cost.price.kind} price, seen ${r.cost.price.observed}, ${r.cost.price.source}` : "";
  return element("article", { class: r.rank === 1 ? "card first" : "card", "aria-label": `Rank ${r.rank}: ${nameOf(r)}` },
    element("h3", {}, element("span", { class: "rank" }, r.rank), ` ${nameOf(r)}`),
    headline(r),
    element("p", { class: "where" }, offerOf(r)),
    facts(figures(r)),
    element("details", { open: r.rank === 1 }, element("summary", {}, "Layout, software and source"),
      element("p", {}, `${layoutOf(r)} Limited by ${words(r.bottleneck)}; speeds are ${words(r.performance.basis)}.`), element("p", { class: "source" }, source)),
    exportsOf(answer, r, phase),
    element("label", { class: "tick" }, element("input", { type: "checkbox", name: "compared", value: r.rank }), "compare"),
  );
}

function ranked(answer) {
  const rows = answer.recommendations.map((r) => {
    const p = r.performance;
    return [String(r.rank), nameOf(r), offerOf(r), money(r.cost.usd_per_hour), r.cost.usd_total ? money(r.cost.usd_total) : money(r.cost.usd_per_month),
      speedOf(p) ?? null, p.ttft_ms?.p95 ?? null, p.tpot_ms?.p95 ?? null, p.e2e_ms?.p95 ?? null, p.days ?? null, r.cost.power_kw];
  });
  const heads = ["Rank", "Hardware", "From", "USD/h", answer.recommendations[0].cost.usd_total ? "The run" : "Per month", "Per second", "TTFT p95, ms", "TPOT p95, ms", "Answer p95, ms", "Days", "kW"];
  const told = heads.map((_, i) => i < 4 || rows.some((row) => row[i] !== null && row[i] !== "–"));
  return table(heads.filter((_, i) => told[i]), rows.map((row) => row.filter((_, i) => told[i])), "Ranked options");
}

async function compared(answer, ranks, into) {
  const { workload, economics, assumptions, as_of, constraints } = answer.request;
  const options = ranks.map((rank) => answer.recommendations[rank - 1]).map((r) => ({ name: `${r.rank}. ${nameOf(r)}`.slice(0, 60), deployment: r.deployment }));
  const shared = constraints?.confidence ? { constraints: { confidence: constraints.confidence } } : {};
  into.replaceChildren(element("p", {}, "Comparing…"));
  try {
    const found = await post("/compare", { workload, economics, assumptions, as_of, ...shared, options });
    const rows = found.table.map((line) => [`${words(line.quantity)}, ${line.unit}`, ...line.values, line.best ?? "–"]);
    into.replaceChildren(element("p", {}, found.summary), table(["Quantity", ...options.map((o) => o.name), "Best"], rows, "Side by side"));
  } catch (problem) {
    into.replaceChildren(element("p", { class: "error" }, problem.message));
  }
}

export function options(answer) {
  const cards = element("div", { class: "cards" }, ...answer.recommendations.map((r) => card(answer, r)));
  const beside = element("div", {});
  const ticked = () => [...cards.querySelectorAll("input[name=compared]:checked")].map((box) => Number(box.value));
  const button = element("button", { type: "button", disabled: true, click: () => compared(answer, ticked(), beside) }, "Compare the ticked ones");
  cards.addEventListener("change", () => (button.disabled = ticked().length < 2));
  return [cards, element("p", {}, button), beside, section("As a table", ranked(answer))];
}
