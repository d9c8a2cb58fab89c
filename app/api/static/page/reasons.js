// Shows the texts of an answer: reasons, sensitivity, assumptions and rejected hardware.
import { post } from "./api.js";
import { assumed } from "./assumed.js";
import { element, folded, later, list, money, show, sought, table, wide, words } from "./dom.js";
import { called, typeOf } from "./names.js";
import { completed } from "./wide.js";

// Rejected accelerators. An answer contains only the closest ones; the rest is requested when needed.
function searchableRejections(answer, cells, heads) {
  const held = element("div", {});
  const more = async () => {
    const whole = await post("/recommend", { ...answer.request, rejected_limit: 200 }).catch(() => null);
    if (whole) held.replaceChildren(...sought(whole.rejected, cells, heads, "All rejected accelerators"));
  };
  held.append(element("button", { type: "button", click: more }, "Load all"), ...sought(answer.rejected, cells, heads, "Closest rejected accelerators"));
  return held;
}

function rejected(answer) {
  const counts = Object.entries(answer.rejected_by_code).map(([code, n]) => `${words(code)} ${n}`);
  const total = Object.values(answer.rejected_by_code).reduce((a, b) => a + b, 0);
  const cells = (r) => [typeOf(r.accelerator), r.text, words(r.code)];
  return folded(`Rejected: ${total} accelerator types`, element("p", {}, counts.join(", ")), searchableRejections(answer, cells, ["Accelerator", "Reason", "Category"]));
}

function cheaper(answer) {
  if (!answer.cheaper_if?.length) return null;
  const rows = answer.cheaper_if.map((c) => [c.if, `${c.total_accelerators} × ${typeOf(c.accelerator)}`, called(c.provider), money(c.usd_per_hour), `${show(100 * c.saves_share, 2)} %`, c.risk]);
  return table(["If you accept", "Hardware", "Provider", "USD/h", "Saves", "Trade-off"], rows, "Cheaper alternatives");
}

// Effects of another limit, load or price, and cheaper options if the buyer accepts more.
async function changes(answer) {
  const whole = await completed(answer);
  return [list(whole.sensitivity.map((s) => `${s.change}: ${s.effect}`)), cheaper(whole)].filter(Boolean);
}

function sources(answer) {
  const prices = answer.recommendations.filter((r) => r.cost.price).map((r) => [typeOf(r.deployment.accelerator), "price", r.cost.price.source, r.cost.price.observed]);
  const measured = answer.recommendations.flatMap((r) => (r.nearest_measurements ?? []).map((m) => [typeOf(r.deployment.accelerator), `measured ${show(m.measured)}, predicted ${show(m.predicted)} ${m.unit ?? ""}`, m.source, null]));
  return folded("Sources: prices and measurements", table(["Hardware", "Value", "Source", "Observed"], [...prices, ...measured], "Sources"));
}

export function reasons(answer, form, change) {
  const [first] = answer.recommendations;
  const levels = first?.confidence?.by_level;
  return [
    element("details", { open: wide.matches }, element("summary", {}, first ? "Why this option" : "Summary"), element("p", { class: "summary" }, answer.summary), first ? list(first.explanation.map((e) => e.text)) : null),
    first ? later("Sensitivity and cheaper alternatives", () => changes(answer)) : null,
    answer.hosted_api ? folded("Hosted API", element("p", {}, answer.hosted_api.text)) : null,
    levels ? folded("Cost by confidence level", table(["Confidence", "Accelerators", levels[0].usd_total ? "Run cost" : "USD/h"], levels.map((l) => [`${show(100 * l.confidence)} %`, l.total_accelerators ?? "not feasible", money(l.usd_total ?? l.usd_per_hour)]), "Cost by confidence level")) : null,
    answer.verification ? folded("Benchmark before buying", element("pre", { tabindex: 0 }, answer.verification.command), element("p", {}, `${answer.verification.accelerators} × ${typeOf(answer.verification.accelerator)}, about ${show(answer.verification.minutes)} minutes${answer.verification.usd ? `, ${money(answer.verification.usd)}` : ""}. ${answer.verification.decides}`)) : null,
    assumed(answer, form, change),
    rejected(answer),
    sources(answer),
  ].filter(Boolean);
}
