// Shows the decision: hardware, seller, money, speed and probability, with the hosted API as option zero.
import { nameOf, offerOf, typesOf } from "./deployment.js";
import { about, element, money, show, words } from "./dom.js";
import { chanceOf, chanceText, headline, lasting, plannedCost } from "./figures.js";
import { comparable, moved } from "./moved.js";
import { called, typeOf } from "./names.js";

const LARGEST = { requests_per_s: "load, requests/s", users: "load, users", tokens: "run, tokens" };
const NOTHING = "No hardware meets these limits";

// Warnings about the decision: one about prices of other options is left out.
export function warningsOf({ warnings, recommendations }) {
  const types = typesOf({ recommendations: recommendations.slice(0, 1) });
  return warnings.filter((w) => w.code !== "price_not_firm" || types.some((type) => w.text.includes(typeOf(type))));
}

// A figure with its limit: latencies state the percentile that the limits use.
function latency(r, limits, kind, name) {
  const at = `p${limits?.percentile ?? 95}`;
  const value = r.performance[kind]?.[at] ?? r.performance[kind]?.p95;
  if (!value) return null;
  return { name: `${name}, ${r.performance[kind][at] ? at : "p95"}`, text: `${about(value)} ms`, note: limits?.[kind] ? `limit ${show(limits[kind])} ms` : null, share: limits?.[kind] ? value / limits[kind] : null };
}

// The figures of the decision: [{name, text, note, share of the limit}].
function figures(answer) {
  const [r] = answer.recommendations;
  const { workload } = answer.request;
  const { cost, performance } = r;
  const sure = plannedCost(r);
  const period = cost.usd_per_day ? { name: "Per day", text: money(cost.usd_per_day) } : { name: cost.usd_total ? "Per hour" : "Per month", text: money(cost.usd_total ? cost.usd_per_hour : cost.usd_per_month) };
  const { maximum } = answer;
  return [
    maximum ? { name: `Largest ${LARGEST[maximum.quantity] ?? words(maximum.quantity)}`, text: maximum.model ?? about(maximum.value), note: maximum.model ? null : `${show(100 * maximum.times)} % of the stated load` } : null,
    { ...period, note: cost.purchase_usd ? `purchase ${money(cost.purchase_usd)}` : null },
    sure > cost.usd_total ? { name: `Cost at ${show(100 * r.confidence.asked)} % certainty`, text: money(sure) } : null,
    performance.days ? { name: "Duration", text: lasting(performance.days), note: workload.deadline_days ? `deadline ${lasting(workload.deadline_days)}` : null, share: workload.deadline_days ? performance.days / workload.deadline_days : null } : null,
    latency(r, workload.slo, "ttft_ms", "First token"),
    latency(r, workload.slo, "tpot_ms", "Per token"),
    performance.ttft_ms ? null : latency(r, workload.slo, "e2e_ms", "Request"),
  ].filter(Boolean);
}

function tile(figure, old) {
  const changed = old && old.text !== figure.text;
  return element("li", { class: changed ? "tile changed" : "tile" },
    element("span", { class: "name" }, figure.name), element("strong", {}, figure.text),
    changed ? element("small", { class: "old" }, `was ${old.text}`) : element("small", {}, figure.note ?? ""),
    figure.share ? element("meter", { min: 0, max: 1, value: Math.min(1, figure.share), "aria-label": `${figure.name}: share of the limit` }) : null);
}

// The hosted API, as an option of the same rank as the hardware.
function hosted({ hosted_api: api }) {
  const [host] = api?.hosts ?? [];
  if (!host) return null;
  const note = api.pays_from_requests_per_s ? `Own hardware costs less above ${about(api.pays_from_requests_per_s)} requests/s on average.` : null;
  return element("section", { class: "hosted", "aria-label": "Option 0: hosted API" },
    element("span", { class: "name" }, "Option 0: hosted API"),
    element("strong", {}, called(host.provider), host.usd_per_month ? `, ${money(host.usd_per_month)} per month` : `, ${money(host.usd_per_million_tokens)} per million tokens`),
    element("small", {}, note ?? "Check its speed, rate limits and data location."));
}

// Draws the decision line into `top` and its figures into `tiles`; returns the sentence for the status line.
export function showDecision(answer, before, top, tiles) {
  const [first] = answer.recommendations;
  if (!first) {
    const title = answer.mixed_fleet ? "Only your machines together meet these limits" : NOTHING;
    top.replaceChildren(element("h2", {}, title), element("p", { class: "summary" }, answer.summary));
    tiles.replaceChildren(...[hosted(answer)].filter(Boolean));
    tiles.hidden = !tiles.childElementCount;
    return `${title}.`;
  }
  const was = comparable(before, answer) ? before : null;
  const change = was ? moved(was, answer) : null;
  const old = new Map(was ? figures(was).map((f) => [f.name, f]) : []);
  const line = (r) => {
    const made = headline(r);
    if (chanceOf(r) !== undefined) made.append(element("strong", {}, `${chanceText(chanceOf(r))} likely to meet ${r.performance.days ? "the deadline" : "all limits"}`));
    return made;
  };
  const price = line(first);
  const earlier = was ? [...line(was.recommendations[0]).children].map((part) => part.textContent) : null;
  [...price.children].forEach((part, i) => earlier && part.classList.toggle("changed", part.textContent !== earlier[i]));
  top.replaceChildren(element("h2", {}, nameOf(first), element("small", {}, ` ${offerOf(first)}`)), price, ...(change ? [element("p", { class: "moved" }, change)] : []));
  tiles.hidden = false;
  tiles.replaceChildren(element("ul", { class: "tiles" }, ...figures(answer).map((f) => tile(f, old.get(f.name)))), ...[hosted(answer)].filter(Boolean));
  return [`${nameOf(first)} ranks first.`, change].filter(Boolean).join(" ");
}
