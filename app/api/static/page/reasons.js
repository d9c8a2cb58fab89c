// Why the first, what if, what is assumed, what was turned down: the words of an answer.
import { post } from "./api.js";
import { assumed } from "./assumed.js";
import { element, folded, money, section, show, sought, table, words } from "./dom.js";
import { called, typeOf } from "./names.js";

const list = (texts) => element("ul", {}, ...texts.map((text) => element("li", {}, text)));

// All that were turned down: an answer keeps the nearest, so that it stays small.
function everyone(answer, cells, heads) {
  const held = element("div", {});
  const more = async () => {
    const whole = await post("/recommend", { ...answer.request, rejected_limit: 200 }).catch(() => null);
    if (whole) held.replaceChildren(...sought(whole.rejected, cells, heads, "All that were turned down"));
  };
  held.append(element("button", { type: "button", click: more }, "Search all of them"), ...sought(answer.rejected, cells, heads, "The nearest misses"));
  return held;
}

function turnedDown(answer) {
  const counts = Object.entries(answer.rejected_by_code).map(([code, n]) => `${words(code)} ${n}`);
  const total = Object.values(answer.rejected_by_code).reduce((a, b) => a + b, 0);
  const cells = (r) => [typeOf(r.accelerator), r.text, words(r.code)];
  return folded(`Turned down: ${total} types of accelerator`, element("p", {}, counts.join(", ")), everyone(answer, cells, ["Accelerator", "Why", "Kind"]));
}

function cheaper(answer) {
  if (!answer.cheaper_if?.length) return null;
  const rows = answer.cheaper_if.map((c) => [c.if, `${c.total_accelerators} × ${typeOf(c.accelerator)}`, called(c.provider), money(c.usd_per_hour), `${show(100 * c.saves_share, 2)} %`, c.risk]);
  return section("Cheaper if", table(["If", "Hardware", "From", "USD/h", "Saves", "What it owes"], rows, "Cheaper if"));
}

function sources(answer) {
  const prices = answer.recommendations.filter((r) => r.cost.price).map((r) => [typeOf(r.deployment.accelerator), "price", r.cost.price.source, r.cost.price.observed]);
  const measured = answer.recommendations.flatMap((r) => (r.nearest_measurements ?? []).map((m) => [typeOf(r.deployment.accelerator), `measured ${show(m.measured)}, predicted ${show(m.predicted)} ${m.unit ?? ""}`, m.source, null]));
  return folded("Sources: prices and measurements", table(["Of", "What", "Source", "Seen"], [...prices, ...measured], "Sources"));
}

export function reasons(answer, form, change) {
  const [first] = answer.recommendations;
  const sure = first?.confidence?.by_level;
  return [
    first ? section("Why the first", list(first.explanation.map((e) => e.text))) : null,
    answer.sensitivity.length ? section("What if", list(answer.sensitivity.map((s) => `${s.change}: ${s.effect}`))) : null,
    cheaper(answer),
    answer.hosted_api ? section("Or an API", element("p", {}, answer.hosted_api.text)) : null,
    sure ? folded("What more certainty costs", table(["Certain with", "Accelerators", sure[0].usd_total ? "The run" : "USD/h"], sure.map((l) => [`${show(100 * l.confidence)} %`, l.total_accelerators ?? "none does it", money(l.usd_total ?? l.usd_per_hour)]), "Certainty")) : null,
    answer.verification ? folded("Try it before buying", element("pre", { tabindex: 0 }, answer.verification.command), element("p", {}, `${answer.verification.accelerators} × ${typeOf(answer.verification.accelerator)}, about ${show(answer.verification.minutes)} minutes${answer.verification.usd ? `, ${money(answer.verification.usd)}` : ""}. ${answer.verification.decides}`)) : null,
    assumed(answer, form, change),
    turnedDown(answer),
    sources(answer),
  ].filter(Boolean);
}
