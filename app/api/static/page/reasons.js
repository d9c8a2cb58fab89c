// Why the first, what if, what is assumed, what was turned down: the words of an answer.
import { post } from "./api.js";
import { element, money, section, show, table, words } from "./dom.js";

const list = (texts) => element("ul", {}, ...texts.map((text) => element("li", {}, text)));

function folded(title, ...children) {
  return element("details", { class: "folded" }, element("summary", {}, title), ...children);
}

function sought(rows, cells, heads, caption) {
  const held = element("div", {});
  const fill = (text) => held.replaceChildren(table(heads, rows.filter((row) => JSON.stringify(row).toLowerCase().includes(text.toLowerCase())).map(cells), caption));
  const search = element("input", { type: "search", "aria-label": `Search: ${caption}`, placeholder: "Search", input: () => fill(search.value) });
  fill("");
  return [search, held];
}

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

function assumed(answer, change) {
  const cells = (a) => {
    const name = words(a.name);
    const input = element("input", { type: "text", class: "short", value: a.value, "aria-label": name, change: () => change(a.name, input.value) });
    const numeric = typeof a.value === "number";
    return [name, numeric ? input : show(a.value), a.unit, a.range ? a.range.map((v) => show(v)).join(" to ") : null, a.asked ? "you" : null, a.reason, a.source ?? null];
  };
  const rows = [...answer.assumptions].sort((a, b) => Number(b.asked ?? false) - Number(a.asked ?? false));
  return folded(`What is assumed: ${rows.length} figures, to be changed in place`, ...sought(rows, cells, ["Assumption", "Value", "Unit", "Range", "Said by", "Reason", "Source"], "Assumptions"),
    element("p", {}, answer.assumptions_omitted ? `${answer.assumptions_omitted} more play a part here: ` : "", element("a", { href: "/catalog/assumptions" }, "all assumptions"), "."));
}

function turnedDown(answer) {
  const counts = Object.entries(answer.rejected_by_code).map(([code, n]) => `${words(code)} ${n}`);
  const total = Object.values(answer.rejected_by_code).reduce((a, b) => a + b, 0);
  const cells = (r) => [r.accelerator, r.text, words(r.code)];
  return folded(`Turned down: ${total} types of accelerator`, element("p", {}, counts.join(", ")), everyone(answer, cells, ["Accelerator", "Why", "Kind"]));
}

function cheaper(answer) {
  if (!answer.cheaper_if?.length) return null;
  const rows = answer.cheaper_if.map((c) => [c.if, `${c.total_accelerators} × ${c.accelerator}`, c.provider, money(c.usd_per_hour), `${show(100 * c.saves_share, 2)} %`, c.risk]);
  return section("Cheaper if", table(["If", "Hardware", "From", "USD/h", "Saves", "What it owes"], rows, "Cheaper if"));
}

function sources(answer) {
  const prices = answer.recommendations.filter((r) => r.cost.price).map((r) => [r.deployment.accelerator, "price", r.cost.price.source, r.cost.price.observed]);
  const measured = answer.recommendations.flatMap((r) => (r.nearest_measurements ?? []).map((m) => [r.deployment.accelerator, `measured ${show(m.measured)}, predicted ${show(m.predicted)} ${m.unit ?? ""}`, m.source, null]));
  return folded("Sources: prices and measurements", table(["Of", "What", "Source", "Seen"], [...prices, ...measured], "Sources"));
}

export function reasons(answer, change) {
  const [first] = answer.recommendations;
  const sure = first?.confidence?.by_level;
  return [
    first ? section("Why the first", list(first.explanation.map((e) => e.text))) : null,
    answer.sensitivity.length ? section("What if", list(answer.sensitivity.map((s) => `${s.change}: ${s.effect}`))) : null,
    cheaper(answer),
    answer.hosted_api ? section("Or an API", element("p", {}, answer.hosted_api.text)) : null,
    sure ? folded("What more certainty costs", table(["Certain with", "Accelerators", sure[0].usd_total ? "The run" : "USD/h"], sure.map((l) => [`${show(100 * l.confidence)} %`, l.total_accelerators ?? "none does it", money(l.usd_total ?? l.usd_per_hour)]), "Certainty")) : null,
    answer.verification ? folded("Try it before buying", element("pre", { tabindex: 0 }, answer.verification.command), element("p", {}, `${answer.verification.accelerators} × ${answer.verification.accelerator}, ${show(answer.verification.minutes)} minutes, ${money(answer.verification.usd)}. ${answer.verification.decides}`)) : null,
    assumed(answer, change),
    turnedDown(answer),
    sources(answer),
  ].filter(Boolean);
}
