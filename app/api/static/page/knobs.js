// Sliders for the main parameters: values of the request, and assumptions about prices and plans.
import { element } from "./dom.js";
import { nameOf } from "./deployment.js";
import { written } from "./numbers.js";

const ASKED = [
  "workload.traffic.users.count", "workload.traffic.peak_requests_per_s", "workload.traffic.concurrent_requests", "workload.traffic.samples_per_s",
  "workload.traffic.volume_requests", "workload.traffic.deadline_hours", "workload.traffic.input_tokens.mean", "workload.traffic.output_tokens.mean",
  "workload.slo.ttft_ms", "workload.slo.tpot_ms", "workload.slo.e2e_ms", "workload.training_tokens", "workload.deadline_days",
  "constraints.max_usd_per_hour", "constraints.max_purchase_usd", "constraints.max_accelerators", "constraints.max_power_kw", "constraints.max_carbon_kg",
];
const ASSUMED = ["workload.target_utilization", "constraints.confidence", "economics.horizon_months", "economics.electricity_usd_per_kwh", "economics.pue"];
const WHOLE = ["users.count", "concurrent_requests", "volume_requests", "max_accelerators"];
const DISCOUNT = "economics.discounts";

function knob(label, { path, min, max, step, value, read, tell, turned }) {
  const reading = element("output", {}, tell(value));
  const range = element("input", { type: "range", min, max, step, value, "aria-label": label, "aria-valuetext": tell(value), "data-path": path });
  range.addEventListener("input", () => {
    const text = tell(Number(range.value));
    reading.value = text;
    range.setAttribute("aria-valuetext", text);
    turned(read(Number(range.value)));
  });
  return element("label", { class: "knob" }, element("span", {}, label), range, reading);
}

// A logarithmic slider from a tenth to ten times the current value, within the allowed range; the start value is exact.
function scaled(form, path, base, [low, high], turned) {
  const exact = (place) => base * 10 ** place;
  const read = (place) => (WHOLE.some((w) => path.endsWith(w)) ? Math.max(1, Math.round(exact(place))) : place === 0 ? base : Number(exact(place).toPrecision(3)));
  const min = Math.max(-1, Math.ceil(50 * Math.log10(low / base)) / 50);
  const max = Math.min(1, Math.floor(50 * Math.log10(high / base)) / 50);
  const set = (value) => {
    form.put(path, value);
    turned();
  };
  return knob(form.label(path), { path, min, max, step: 0.02, value: 0, read, tell: (place) => written(read(place)), turned: set });
}

// A discount slider for the first-ranked hardware.
function discount(form, first, turned) {
  const type = first.deployment.accelerator;
  const set = (share) => {
    form.share(DISCOUNT, type, share);
    turned();
  };
  const value = form.shares(DISCOUNT)[type] ?? 0;
  return knob(`Discount on ${nameOf(first).replace(/^[\d,]+ × /, "")}`, { path: DISCOUNT, min: 0, max: 0.6, step: 0.02, value, read: (share) => share, tell: (share) => `${Math.round(100 * share)} %`, turned: set });
}

// The sliders of a request and its answer: [request values, prices and assumptions].
export function knobs(form, answer, turned) {
  const assumed = Object.fromEntries(answer.assumptions.map((a) => [a.name, a]));
  const asked = ASKED.map((path) => [path, form.number(path)]).filter(([, base]) => base > 0);
  const rest = ASSUMED.filter((path) => form.asks(path)).map((path) => [path, assumed[path.split(".").at(-1)]]).filter(([, a]) => a?.range && a.value > 0);
  const [first] = answer.recommendations;
  return [
    asked.map(([path, base]) => scaled(form, path, base, [0, Infinity], turned)),
    [...rest.map(([path, a]) => scaled(form, path, a.value, a.range, turned)), ...(first && !first.deployment.pools ? [discount(form, first, turned)] : [])],
  ];
}
