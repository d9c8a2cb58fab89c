// Shows all feasible options, and the figures and drawings of the one that is selected.
import { card } from "./answer.js";
import { post } from "./api.js";
import { comparisonOf, MOST_COMPARED } from "./compared.js";
import { nameOf } from "./deployment.js";
import { during, element, section, wide } from "./dom.js";
import { laterPlots, plotsOf } from "./plots.js";
import { tradeoff } from "./tradeoff.js";

async function compare(answer, ranks) {
  const { workload, economics, assumptions, as_of, constraints } = answer.request;
  const options = ranks.map((rank) => answer.recommendations[rank - 1]).map((r) => ({ name: `${r.rank}. ${nameOf(r)}`.slice(0, 60), deployment: r.deployment }));
  const shared = constraints?.confidence ? { constraints: { confidence: constraints.confidence } } : {};
  return comparisonOf(await post("/compare", { workload, economics, assumptions, as_of, ...shared, options }));
}

function comparison(answer) {
  const into = element("div", { class: "comparison" });
  const ticked = () => [...document.querySelectorAll("input[name=compared]:checked")].map((box) => Number(box.value));
  const button = element("button", { type: "button", disabled: true, click: () => during(into, () => compare(answer, ticked())) }, "Compare selected");
  const follow = () => (button.disabled = ticked().length < 2 || ticked().length > MOST_COMPARED);
  return { nodes: [element("p", {}, button, " ", element("small", {}, `Tick two to ${MOST_COMPARED} options in the table.`)), into], follow };
}

// The sections of an answer's options. `follow` shows the figures of the first option of a preview; its drawings stay.
export function explored(answer) {
  const figures = element("div", {});
  const drawings = element("div", { class: "plots of-first" });
  const drawn = element("details", { class: "plain", open: wide.matches }, element("summary", {}, "Drawings of this option"), drawings);
  const { nodes, follow: ticking } = comparison(answer);
  let chosen = 0;
  function choose(index) {
    chosen = index;
    figures.replaceChildren(card(answer, answer.recommendations[index]));
    drawings.replaceChildren(...plotsOf(answer, answer.recommendations[index]));
    views.mark(index);
  }
  const views = tradeoff(answer.recommendations.map((r) => ({ r })), choose);
  const all = element("div", { class: "explored", change: ticking }, ...views.made);
  choose(0);
  return {
    nodes: [section("All feasible options", all, ...nodes), section("Selected option", figures, drawn), ...laterPlots(answer)],
    follow: (newer) => chosen === 0 && figures.replaceChildren(card(newer, newer.recommendations[0])),
  };
}
