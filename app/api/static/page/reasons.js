// Shows the texts of an answer: reasons, sensitivity, assumptions and rejected hardware.
import { get, post } from "./api.js";
import { assumed } from "./assumed.js";
import { counted } from "./deployment.js";
import { tornado } from "./drawings.js";
import { during, element, folded, later, list, money, show, sought, table, wide, words } from "./dom.js";
import { called, typeOf } from "./names.js";
import { completed } from "./wide.js";

// Rejected accelerators. An answer contains only the closest ones; the rest is requested when needed.
function searchableRejections(answer, cells, heads) {
  const held = element("div", {});
  const more = async () => sought((await post("/recommend?store=false", { ...answer.request, rejected_limit: 200 })).rejected, cells, heads, "All rejected accelerators");
  held.append(element("button", { type: "button", click: () => during(held, more) }, "Load all"), ...sought(answer.rejected, cells, heads, "Closest rejected accelerators"));
  return held;
}

function rejected(answer, form) {
  const counts = Object.entries(answer.rejected_by_code).map(([code, n]) => `${words(code)} ${n}`);
  const total = Object.values(answer.rejected_by_code).reduce((a, b) => a + b, 0);
  const cells = (r) => [typeOf(r.accelerator), form.spoken(r.text), words(r.code)];
  return folded(`Rejected: ${counted(total, "accelerator type")}`, element("p", {}, counts.join(", ")), searchableRejections(answer, cells, ["Accelerator", "Reason", "Category"]));
}

function cheaper(answer) {
  if (!answer.cheaper_if?.length) return null;
  const rows = answer.cheaper_if.map((c) => [c.if, `${c.total_accelerators} × ${typeOf(c.accelerator)}`, called(c.provider), money(c.usd_per_hour), `${show(100 * c.saves_share, 2)} %`, c.risk]);
  return table(["If you accept", "Hardware", "Provider", "USD/h", "Saves", "Trade-off"], rows, "Cheaper alternatives");
}

// The sensitivity of an answer: each call examines a part and says where the next one starts.
async function sensitivityOf(id) {
  const all = { flips: [], holds: [] };
  for (let start = 0; start !== null;) {
    const found = await get(`/recommendations/${id}/sensitivity?start=${start}`);
    all.flips.push(...found.flips);
    all.holds.push(...found.holds);
    start = found.next ?? null;
  }
  return all;
}

// Effects of another limit, load or price, how far each value may change, and cheaper options if the buyer accepts more.
async function changes(answer, form) {
  const ranges = answer.recommendations.length ? sensitivityOf(answer.id) : null;
  const [whole, found] = await Promise.all([completed(answer), ranges]);
  const additions = answer.recommendations.length ? [] : whole.warnings.filter((w) => w.code === "inventory").map((w) => w.text);
  return [found && tornado(found), additions.length ? list(additions) : null, list(whole.sensitivity.map((s) => form.spoken(`${s.change}: ${s.effect}.`).replace(/^[a-z]/, (c) => c.toUpperCase()))), cheaper(whole)];
}

export function reasons(answer, form, change) {
  const [first] = answer.recommendations;
  const { verification } = answer;
  const sensitivity = later(first ? "Sensitivity and cheaper alternatives" : "What would make it feasible", () => changes(answer, form));
  sensitivity.open = !first;
  return [
    first ? element("details", { open: wide.matches }, element("summary", {}, "Why this option"), element("p", { class: "summary" }, answer.summary), list([...first.explanation.map((e) => e.text).filter((text) => !answer.summary.includes(text)), ...(answer.hosted_api ? [answer.hosted_api.text] : [])])) : null,
    first || !answer.mixed_fleet ? sensitivity : null,
    verification ? folded("Benchmark before deciding", element("pre", { tabindex: 0 }, verification.command), element("p", {}, `${verification.accelerators} × ${typeOf(verification.accelerator)}, about ${show(verification.minutes)} minutes${verification.usd ? `, ${money(verification.usd)}` : ""}. ${verification.decides}`)) : null,
    assumed(answer, form, change),
    rejected(answer, form),
  ].filter(Boolean);
}
