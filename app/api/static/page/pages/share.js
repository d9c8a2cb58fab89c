// One answer on one page, to read, print or send: the decision, the best options, risks and reasons.
import { fleetOf } from "../answer.js";
import { get } from "../api.js";
import { showDecision, warningsOf } from "../decision.js";
import { layoutOf, nameOf, sellerOf } from "../deployment.js";
import { during, element, list, money, section, show, table } from "../dom.js";
import { chanceOf, chanceText, lasting } from "../figures.js";
import { view } from "../kit.js";
import { named } from "../names.js";
import { tradeoff } from "../tradeoff.js";

const OPTIONS = 5;
const REASONS = 5;

const cost = ({ cost: c }) => (c.usd_total ? money(c.usd_total) : `${money(c.usd_per_hour)}/h`);
const speed = ({ performance: p }) => (p.days ? lasting(p.days) : `${show((p.ttft_ms ?? p.e2e_ms)?.p95)} / ${show(p.tpot_ms?.p95)} ms`);
const risks = (answer) => list(warningsOf(answer).map((w) => w.text));
const chance = (r) => (chanceOf(r) === undefined ? null : chanceText(chanceOf(r)));

await during(view, async () => {
  const id = new URLSearchParams(location.search).get("id");
  if (!id) return element("p", {}, "Open this page by the link “One-page view” below an answer.");
  const [answer] = await Promise.all([get(`/recommendations/${encodeURIComponent(id)}`), named]);
  const [first] = answer.recommendations;
  const [top, tiles] = [element("div", { id: "top" }), element("div", { id: "decision" })];
  showDecision(answer, null, top, tiles);
  document.querySelector("h1").textContent = answer.request.label ?? "Recommendation";
  document.title = `${answer.request.label ?? "Recommendation"} – Headroom`;
  const evaluated = [
    element("p", { class: "source" }, `Prices up to ${answer.catalog.prices_as_of}, evaluated ${answer.as_of}. Answer ${answer.id}. `, element("a", { href: `/#a=${answer.id}` }, "The whole answer"), ". ", element("a", { href: `/pages/answers?id=${answer.id}` }, "Approve or price it again"), "."),
    element("p", { class: "buttons" }, element("button", { type: "button", click: () => print() }, "Print")),
  ];
  if (!first) return [top, tiles, fleetOf(answer), answer.warnings.length ? section("Risks", risks(answer)) : null, ...evaluated];
  const rows = answer.recommendations.slice(0, OPTIONS).map((r) => [`${r.rank}. ${nameOf(r)}`, sellerOf(r), cost(r), speed(r), chance(r)]);
  const views = tradeoff(answer.recommendations.map((r) => ({ r })), (index) => views.mark(index));
  views.mark(0);
  return [
    element("p", {}, `${answer.summary.split(". ")[0]}.`), top, tiles, element("p", {}, layoutOf(first)),
    section("Options", table(["Option", "Offer", "Cost", first.performance.days ? "Duration" : "First token / per token, p95", "Meets the limits"], rows, "Options")),
    answer.recommendations.length > 2 ? views.made[0] : null,
    element("div", { class: "two" }, section("Risks", risks(answer)), section("Reasons", list(first.explanation.slice(0, REASONS).map((e) => e.text)))),
    ...evaluated,
  ];
});
