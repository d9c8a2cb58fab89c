// Shows all feasible options, and the drawings of the one that is selected.
import { post } from "./api.js";
import { card } from "./answer.js";
import { nameOf } from "./deployment.js";
import { element, section } from "./dom.js";
import { laterPlots, plotsOf } from "./plots.js";
import { tradeoff } from "./tradeoff.js";

const MOST = 50;

const typeOf = (r) => JSON.stringify([r.deployment.accelerator, r.deployment.pools && Object.values(r.deployment.pools).map((p) => p.accelerator)]);

// The ranked options, then the further feasible types, each with the answer that contains it.
function optionsOf(answer, whole) {
  const ranked = answer.recommendations.map((r) => ({ answer, r }));
  const known = new Set(answer.recommendations.map(typeOf));
  return [...ranked, ...(whole?.recommendations ?? []).filter((r) => !known.has(typeOf(r))).map((r) => ({ answer: whole, r }))];
}

// `include` without `sensitivity` and `cheaper_if`: the further options need neither.
const wider = (request) => ({ ...request, limit: MOST, rejected_limit: 0, include: ["load_curve", "alternatives", "day"] });

// The sections of all feasible options and of the selected one. `widen` requests the options that the answer omits.
export function explored(answer) {
  const all = element("div", { class: "explored" });
  const title = element("h3", {});
  const further = element("div", { class: "further" });
  const drawings = element("div", { class: "plots of-first" });
  let options = [];
  let shown = null;
  let chosen = 0;
  function choose(index) {
    chosen = index;
    const { answer: from, r } = options[index];
    title.textContent = `Selected: ${nameOf(r)}`;
    further.replaceChildren(...(index < answer.recommendations.length ? [] : [card(from, r)]));
    drawings.replaceChildren(...plotsOf(from, r));
    shown.mark(index);
  }
  function draw(whole) {
    options = optionsOf(answer, whole);
    shown = tradeoff(options, choose);
    all.replaceChildren(...shown.made);
    choose(chosen);
  }
  draw(null);
  async function widen(signal) {
    const whole = await post("/recommend", wider(answer.request), signal).catch(() => null);
    if (whole && all.isConnected && whole.recommendations.length > answer.recommendations.length) draw(whole);
    if (all.isConnected) all.dataset.whole = "yes";
  }
  // While a slider moves, the drawings show the first option of the newer answer.
  const follow = (newer) => {
    if (chosen === 0) drawings.replaceChildren(...plotsOf(newer, newer.recommendations[0]));
  };
  return { all: section("All feasible options", all), nodes: [element("section", {}, title, further, drawings), ...laterPlots(answer)], widen, follow };
}
