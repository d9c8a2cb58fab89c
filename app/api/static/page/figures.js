// Shows the figures of one option, price and speed first.
import { about, element, money, show } from "./dom.js";

export const speedOf = ({ performance: p }) => p.output_tokens_per_s ?? p.tokens_per_s ?? p.samples_per_s;
export const unitOf = ({ performance: p }) => (p.output_tokens_per_s !== undefined || p.tokens_per_s !== undefined ? "tokens/s" : "samples/s");
// Probability that all limits hold, as a share; as text, it is never certain.
export const chanceOf = (r) => r.confidence?.meets_slo ?? r.confidence?.meets_deadline;
export const chanceText = (share) => `${show(Math.min(99, 100 * share), 2)} %`;
// The cost of a run at the confidence of the request, by which options rank; its median where they are equal.
export const plannedCost = ({ cost, confidence: c }) => c?.by_level?.find((level) => level.confidence === c.asked)?.usd_total ?? cost.usd_total;
export const priceOf = ({ cost: c }) => (c.usd_total ? { value: c.usd_total, of: "run cost" } : { value: c.usd_per_hour, of: "price" });

const range = (low, high, unit) => `${about(low)} to ${about(high)} ${unit}`;

// The headline of an option: price and speed.
export function headline(r) {
  const price = r.cost.usd_total ? `${money(r.cost.usd_total)} per run` : `${money(r.cost.usd_per_hour)}/h`;
  const speed = r.performance.days ? lasting(r.performance.days) : `${about(speedOf(r))} ${unitOf(r)}`;
  return element("p", { class: "headline" }, element("strong", {}, price), element("strong", {}, speed));
}

// Formats a duration, in hours below two days.
export const lasting = (days) => (days < 2 ? `${show(days * 24)} hours` : `${show(days)} days`);

function rows(r) {
  const { performance: p, cost: c } = r;
  const unit = unitOf(r);
  const made = [[c.usd_total ? "Per hour" : "Per month", money(c.usd_total ? c.usd_per_hour : c.usd_per_month)]];
  if (c.purchase_usd) made.push(["Purchase", money(c.purchase_usd)]);
  if (c.usd_per_million_tokens) made.push(["Per million tokens", money(c.usd_per_million_tokens)]);
  else if (c.usd_per_million_samples) made.push(["Per million samples", money(c.usd_per_million_samples)]);
  if (p.days) made.push(["Speed", `${about(speedOf(r))} ${unit}`]);
  if (p.interval) made.push(["Speed, 80 % interval", range(p.interval.low, p.interval.high, unit)]);
  for (const [kind, name] of [["ttft_ms", "TTFT"], ["tpot_ms", "TPOT"], ["e2e_ms", "Request"]]) {
    if (p[kind]) made.push([`${name}, p50 / p95`, `${about(p[kind].p50)} / ${about(p[kind].p95)} ms`]);
  }
  if (p.mfu) made.push(["MFU (share of peak FLOPs)", `${show(100 * p.mfu)} %`]);
  if (p.utilization_at_peak) made.push(["Utilization at peak", `${show(100 * p.utilization_at_peak, 2)} %`]);
  made.push(["Power", `${show(c.power_kw)} kW`]);
  return made;
}

export const facts = (r) => element("dl", {}, ...rows(r).map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, value))));
