// Errors of predictions against published results, by a property of the results.
import { get } from "../api.js";
import { during, element, list, show, table, words } from "../dom.js";
import { choice, field, view } from "../kit.js";
import { called, named, quantityName } from "../names.js";

const percent = (share) => `${Math.round(100 * share)} %`;
// A group as its makers write it: AMD CDNA3, NVIDIA Hopper, TensorRT-LLM.
function groupName(by, value) {
  if (by === "engine") return called(value);
  const spelled = words(value).replace(/\b(amd|cdna\d|fp\d+|gpu|lora|qlora|rdna|nvidia|tpu)\b/g, (term) => NAMES[term] ?? term.toUpperCase());
  return by === "source" ? spelled : spelled.replace(by === "accelerator_family" ? /\b[a-z]/g : /^[a-z]/, (c) => c.toUpperCase());
}

const NAMES = { lora: "LoRA", qlora: "QLoRA" };
const HEADS = ["Quantity", "Results", "Sources", "Median error", "90th percentile", "In the 80 % interval", "High / low", "Plan met"];
const row = (s, ...group) => [quantityName(s.metric), ...group, s.rows, s.sources, percent(s.unseen_source.median), percent(s.unseen_source.p90), percent(s.coverage), s.width.toFixed(1), percent(s.kept)];

await during(view, async () => {
  const [found] = await Promise.all([get("/accuracy"), named]);
  const held = element("div", {});
  const by = choice("by", Object.keys(found.by).map((name) => [name, words(name)]), { change: () => fill() });
  const fill = () => held.replaceChildren(table([HEADS[0], "Group", ...HEADS.slice(1)], found.by[by.value].map((s) => row(s, groupName(by.value, s.value))), `Errors by ${words(by.value)}`));
  by.value = "accelerator_family";
  fill();
  return [
    element("p", {}, "Each result is predicted by a fit that excludes its source. “In the 80 % interval” should be 80 %. “High / low” is the ratio of the ends of that interval. “Plan met” is the share of results at least as good as the 80 % confidence plan."),
    table(HEADS, found.overall.map((s) => row(s)), "Errors of all results"), field("By", by), held,
    element("h2", {}, "Order of two results"),
    element("p", {}, "How often the faster of two published results is predicted to be the faster one: pairs of one source that differ by at least 5 %, under the same conditions but for the compared property; two engines have the same layout. Equal predictions count as wrong."),
    table(["Compared", "Quantity", "Pairs", "Sources", "Right, unseen source", "Right, in sample"], found.order.map((o) => [words(o.compared), o.metric === "all" ? "All" : quantityName(o.metric), o.pairs, o.sources, percent(o.unseen_source), percent(o.in_sample)]), "Pairs in the right order"),
    element("h2", {}, "Quantities"), list(Object.entries(found.definitions).map(([name, text]) => `${quantityName(name)}: ${text}`)),
    element("p", {}, `Catalog ${found.snapshot}. `, element("a", { href: "/guide/accuracy" }, `How these ${show(found.overall.reduce((n, s) => n + s.rows, 0))} results are compared`)),
  ];
});
