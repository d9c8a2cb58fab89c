// Errors of predictions against published results, by a property of the results.
import { get } from "../api.js";
import { during, element, list, show, table, words } from "../dom.js";
import { choice, field, view } from "../kit.js";
import { quantityName } from "../names.js";

const percent = (share) => `${Math.round(100 * share)} %`;
const HEADS = ["Quantity", "Group", "Results", "Sources", "Median error", "90th percentile", "In the 80 % interval", "High / low", "Plan met"];
const row = (s) => [quantityName(s.metric), words(s.value), s.rows, s.sources, percent(s.unseen_source.median), percent(s.unseen_source.p90), percent(s.coverage), s.width.toFixed(1), percent(s.kept)];

await during(view, async () => {
  const found = await get("/accuracy");
  const held = element("div", {});
  const by = choice("by", Object.keys(found.by).map((name) => [name, words(name)]), { change: () => fill() });
  const fill = () => held.replaceChildren(table(HEADS, found.by[by.value].map(row), `Errors by ${words(by.value)}`));
  by.value = "accelerator_family";
  fill();
  return [
    element("p", {}, "Each result is predicted by a fit that excludes its source. “In the 80 % interval” should be 80 %. “Plan met” is the share of results at least as good as the 80 % confidence plan."),
    table(HEADS, found.overall.map(row), "Errors of all results"), field("By", by), held,
    element("h2", {}, "Quantities"), list(Object.entries(found.definitions).map(([name, text]) => `${quantityName(name)}: ${text}`)),
    element("p", {}, `Catalog ${found.snapshot}. `, element("a", { href: "/guide/accuracy" }, `How these ${show(found.overall.reduce((n, s) => n + s.rows, 0))} results are compared`)),
  ];
});
