// The market: prices by accelerator, class, provider, region or pricing model, as a chart and a table.
import { get } from "../api.js";
import { scale, widthWithin } from "../charts.js";
import { about, during, drawn, element, money, section, short, table, words } from "../dom.js";
import { choice, field, form, hardware, input, values, view } from "../kit.js";
import { called, labelOf, named, typeOf } from "../names.js";
import { history } from "../plots.js";

const ROW = 22;
const HEAD = 22;
const MOST = 60;
const GROUPS = [["accelerator", "accelerator"], ["class", "training or inference"], ["provider", "provider"], ["region", "region"], ["pricing_model", "pricing model"]];
const found = element("div", { "aria-live": "polite" });

const nameOf = (by, name) => ({ accelerator: labelOf, provider: called }[by] ?? words)(name);
// An accelerator leads to its prices by provider.
const labelCell = (by, name) => (by === "accelerator" ? element("a", { href: `?by=provider&accelerator=${encodeURIComponent(name)}` }, typeOf(name)) : nameOf(by, name));
const trend = (share) => (share === undefined || share === null ? null : `${share > 0 ? "+" : ""}${about(100 * share, 2)} %`);

// Lowest, median and highest price of each group.
function chart(by, items) {
  const shown = items.slice(0, MOST);
  const width = widthWithin(900);
  const left = Math.min(260, width * 0.45);
  const x = scale(shown.flatMap((g) => [g.min_usd_per_hour, g.max_usd_per_hour]), left, width - 16, { log: true });
  const foot = HEAD + shown.length * ROW;
  const rows = shown.flatMap((g, i) => {
    const y = HEAD + i * ROW + ROW / 2;
    const name = nameOf(by, g.name);
    const fits = Math.floor(left / 7.2);
    return [drawn("text", { x: 0, y: y + 4, class: "marked" }, name.length > fits ? `${name.slice(0, fits - 1)}…` : name),
      drawn("line", { x1: x.at(g.min_usd_per_hour), x2: x.at(g.max_usd_per_hour), y1: y, y2: y, class: "whisker stroke-0" }),
      drawn("circle", { cx: x.at(g.median_usd_per_hour), cy: y, r: 5, class: "fill-0" }, drawn("title", {}, `${name}: ${money(g.min_usd_per_hour)} to ${money(g.max_usd_per_hour)}, median ${money(g.median_usd_per_hour)}`))];
  });
  const axis = x.ticks.flatMap((t) => [drawn("line", { x1: x.at(t), x2: x.at(t), y1: HEAD, y2: foot, class: "grid" }), drawn("text", { x: x.at(t), y: HEAD - 6, "text-anchor": "middle" }, short(t))]);
  const picture = drawn("svg", { viewBox: `0 0 ${width} ${foot}`, role: "img", "aria-label": `Prices of ${shown.length} groups. The numbers are in the table below.` }, ...axis, ...rows);
  return element("figure", {}, element("figcaption", {}, `Lowest, median and highest price by ${words(by)}, USD per accelerator and hour`), picture);
}

async function show(asked) {
  remember(asked);
  const [market] = await Promise.all([get(`/catalog/market?${new URLSearchParams(asked)}`), named]);
  const { by } = market;
  const items = market.items.sort((a, b) => a.median_usd_per_hour - b.median_usd_per_hour); // the lowest median on top
  if (!items.length) return element("p", {}, "No current offer matches.");
  const rows = items.map((g) => [labelCell(by, g.name), g.offers, money(g.min_usd_per_hour), money(g.median_usd_per_hour), money(g.max_usd_per_hour), money(g.usd_per_tflops_hour), money(g.usd_per_gb_hour), trend(g.trend_30d), trend(g.trend_90d)]);
  const ratio = market.training_to_inference;
  return [
    chart(by, items), items.length > MOST ? element("p", {}, `The chart shows the ${MOST} lowest of ${items.length}.`) : null,
    table([words(by).replace(/^./, (c) => c.toUpperCase()), "Offers", "Lowest, USD/h", "Median, USD/h", "Highest, USD/h", "Per TFLOPS", "Per GB", "Change in 30 days", "Change in 90 days"], rows, `Prices by ${words(by)}`),
    element("p", { class: "source" }, `Prices up to ${market.prices_as_of}, per accelerator and hour. ${ratio ? `A training accelerator costs ${about(ratio.of_medians, 2)} times an inference accelerator (medians).` : ""}`),
    by !== "accelerator" && asked.accelerator && !asked.accelerator.includes("*") ? section("Price history", element("div", { class: "plots" }, await history([asked.accelerator]))) : null,
  ];
}

// The address names the selection, so a link shows the same.
const remember = (asked) => window.history.replaceState(null, "", `?${new URLSearchParams(asked)}`);

const asking = form([
  field("Group by", choice("by", GROUPS)), field("Accelerator", hardware("accelerator"), "A name or a pattern such as *h100*."), field("Provider", input("provider")),
  field("Region", input("region"), "eu-*, DE, US, …"), field("Pricing model", choice("pricing_model", [["", "on demand"], ["spot", "spot"], ["reserved_1y", "reserved, 1 year"], ["reserved_3y", "reserved, 3 years"]])),
], (made) => during(found, () => show(values(made))));
for (const [name, value] of new URLSearchParams(location.search)) if (asking.elements[name]) asking.elements[name].value = value;
asking.addEventListener("change", () => asking.requestSubmit());
view.replaceChildren(asking, found);
asking.requestSubmit();
