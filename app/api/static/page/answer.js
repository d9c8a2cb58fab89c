// Shows one option: price and speed first, then its figures and its files.
import { get, save } from "./api.js";
import { layoutOf, nameOf, offerOf } from "./deployment.js";
import { about, during, element, later, list, money, show, table, words } from "./dom.js";
import { facts, headline } from "./figures.js";
import { called, quantityName } from "./names.js";
import { completed } from "./wide.js";

const FORMATS = [["html", "Printable memo"], ["xlsx", "Workbook"], ["csv", "CSV"], ["ubl", "UBL"], ["cxml", "cXML"], ["json", "JSON"]];
const PRICES = { provider: "published by the provider", reseller: "reseller price", quote: "quote", survey: "survey of sellers", list: "manufacturer list price", broker: "broker or marketplace price", launch: "launch price", press: "press estimate", estimate: "estimated from parts" };
PRICES["reckoned"] = PRICES.estimate; // spelling in answers stored by earlier versions
const BASES = { measured: "Speeds are based on a published measurement", calibrated: "Speeds are calibrated on published results", roofline: "Speeds are calculated from data sheets; no comparable result is published" };

// The bill of materials and the deployment files. The memo shows the sensitivity, so they belong to the complete answer if it ranks the option.
async function exportsOf(answer, r) {
  const whole = await completed(answer);
  const same = whole.recommendations[r.rank - 1];
  const { id } = same && nameOf(same) === nameOf(r) ? whole : answer;
  return filesAt(id, r.rank);
}

async function filesAt(id, rank) {
  const at = `/recommendations/${id}`;
  const address = `${at}/deployment?rank=${rank}`;
  const files = element("div", { "aria-live": "polite" });
  const { targets } = await get(address);
  return [
    element("p", { class: "buttons" }, "Bill of materials: ", ...FORMATS.map(([format, name]) => element("a", { class: "button", href: `${at}/bill-of-materials?rank=${rank}&format=${format}`, click: save }, name))),
    element("p", { class: "buttons" }, "Deployment files: ", ...targets.map((t) => element("button", { type: "button", click: () => during(files, () => filesOf(`${address}&target=${t}`)) }, called(t)))),
    files];
}

async function filesOf(address) {
  const found = await get(address);
  return [list(found.notes), ...found.files.flatMap((f) => [element("a", { href: `${address}&file=${encodeURIComponent(f.name)}`, click: save }, f.name), element("pre", { tabindex: 0 }, f.text)])];
}

// The groups of machines that carry the load together where no single deployment of the inventory does. Their rank is 0.
export function fleetOf({ id, mixed_fleet: fleet, recommendations }) {
  if (!fleet) return null;
  const rows = fleet.groups.map((g) => [nameOf(g), offerOf(g), `${show(100 * g.share)} %`, money(g.usd_per_hour)]);
  return element("section", { class: "fleet", "aria-label": "Mixed fleet" },
    element("h3", {}, "Mixed fleet"), recommendations.length ? element("p", {}, fleet.text) : null,
    table(["Hardware", "Source", "Requests", "Per hour"], rows, "Groups of replicas behind one router"),
    later("Export", () => filesAt(id, 0)));
}

export function card(answer, r) {
  const { price } = r.cost;
  const measured = (r.nearest_measurements ?? []).slice(0, 3).map((m) => element("p", { class: "source" }, `Nearest result: ${quantityName(m.quantity ?? "value")}: measured ${about(m.measured)}, predicted ${about(m.predicted)}. ${m.source}`));
  return element("article", { class: r.rank === 1 ? "card selected first" : "card selected", "aria-label": `Rank ${r.rank}: ${nameOf(r)}` },
    element("h3", {}, element("span", { class: "rank" }, r.rank), ` ${nameOf(r)}`),
    headline(r),
    element("p", { class: "where" }, offerOf(r)),
    facts(r),
    element("p", { class: "layout" }, layoutOf(r)),
    element("details", {}, element("summary", {}, "Bottleneck, evidence and price source"),
      element("p", {}, `Bottleneck: ${words(r.bottleneck)}. ${BASES[r.performance.basis]}.`), ...measured,
      price ? element("p", { class: "source" }, `Price: ${PRICES[price.kind] ?? price.kind}, observed ${price.observed}. Source: ${price.source}`) : null),
    later("Export", () => exportsOf(answer, r)),
  );
}
