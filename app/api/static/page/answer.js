// Shows the ranked options: price and speed first, then a table, exports and comparison.
import { get, post } from "./api.js";
import { layoutOf, nameOf, offerOf } from "./deployment.js";
import { element, table, words } from "./dom.js";
import { facts, headline } from "./figures.js";
import { called } from "./names.js";

const FORMATS = [["html", "Printable memo"], ["xlsx", "Workbook"], ["csv", "CSV"], ["ubl", "UBL"], ["cxml", "cXML"], ["json", "JSON"]];
const PRICES = { provider: "published by the provider", reseller: "reseller price", quote: "quote", survey: "survey of sellers", list: "manufacturer list price", broker: "broker or marketplace price", launch: "launch price", press: "press estimate", estimate: "estimated from parts" };
PRICES["reckoned"] = PRICES.estimate; // spelling in answers stored by earlier versions
const BASES = { measured: "Speeds are based on a published measurement", calibrated: "Speeds are calibrated on published results", roofline: "Speeds are calculated from data sheets; no comparable result is published" };

function exportsOf(answer, r) {
  const at = `/recommendations/${answer.id}`;
  const files = element("div", { "aria-live": "polite" });
  const targets = element("p", { class: "buttons" }, "Deployment files: …");
  const made = element("details", {}, element("summary", {}, "Export"),
    element("p", { class: "buttons" }, "Bill of materials: ", ...FORMATS.map(([format, name]) => element("a", { class: "button", href: `${at}/bill-of-materials?rank=${r.rank}&format=${format}` }, name))),
    targets, files);
  made.addEventListener("toggle", () => showTargets(`${at}/deployment?rank=${r.rank}`, targets, files), { once: true });
  return made;
}

// Draws a button for each target that can start the option.
async function showTargets(address, into, files) {
  try {
    const { targets } = await get(address);
    into.replaceChildren("Deployment files: ", ...targets.map((t) => element("button", { type: "button", click: () => showFiles(`${address}&target=${t}`, files) }, called(t))));
  } catch (problem) {
    into.replaceChildren(`Deployment files: ${problem.message}`);
  }
}

async function showFiles(address, into) {
  try {
    const found = await get(address);
    const files = found.files.map((f) => [element("a", { href: `${address}&file=${encodeURIComponent(f.name)}` }, f.name), element("pre", { tabindex: 0 }, f.text)]);
    into.replaceChildren(element("ul", {}, ...found.notes.map((note) => element("li", {}, note))), ...files.flat());
  } catch (problem) {
    into.replaceChildren(element("p", { class: "error" }, problem.message));
  }
}

export function card(answer, r) {
  const { price } = r.cost;
  const source = price ? `Price: ${PRICES[price.kind] ?? price.kind}, observed ${price.observed}. Source: ${price.source}` : "";
  return element("article", { class: r.rank === 1 ? "card first" : "card", "aria-label": `Rank ${r.rank}: ${nameOf(r)}` },
    element("h3", {}, element("span", { class: "rank" }, r.rank), ` ${nameOf(r)}`),
    headline(r),
    element("p", { class: "where" }, offerOf(r)),
    facts(r),
    element("p", { class: "layout" }, layoutOf(r)),
    element("details", {}, element("summary", {}, "Bottleneck and sources"),
      element("p", {}, `Bottleneck: ${words(r.bottleneck)}. ${BASES[r.performance.basis]}.`), element("p", { class: "source" }, source)),
    exportsOf(answer, r),
    element("label", { class: "tick" }, element("input", { type: "checkbox", name: "compared", value: r.rank }), "compare"),
  );
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
  const comparison = element("div", {});
  const ticked = () => [...cards.querySelectorAll("input[name=compared]:checked")].map((box) => Number(box.value));
  const button = element("button", { type: "button", disabled: true, click: () => compared(answer, ticked(), comparison) }, "Compare selected");
  cards.addEventListener("change", () => (button.disabled = ticked().length < 2));
  return [element("h3", {}, "Best options"), cards, element("p", {}, button), comparison];
}
