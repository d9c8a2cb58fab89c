// Describes how the first option changed since the previous answer: hardware, price and speed.
import { nameOf } from "./deployment.js";
import { chanceOf, chanceText, priceOf, speedOf, unitOf } from "./figures.js";
import { show } from "./dom.js";

function change(what, before, now) {
  const share = 100 * (now / before - 1);
  if (!Number.isFinite(share) || Math.abs(share) < 0.05) return null;
  return `${what} ${share > 0 ? "+" : "−"}${show(Math.abs(share), Math.abs(share) < 10 ? 2 : 3)} %`;
}

// True if both answers have a first option for the same task and model, with figures of the same kind.
export function comparable(before, now) {
  const [was, is] = [before?.recommendations[0], now.recommendations[0]];
  const task = ({ request: { workload } }) => JSON.stringify([workload.phase, workload.model]);
  return Boolean(was && is) && task(before) === task(now) && unitOf(was) === unitOf(is) && priceOf(was).of === priceOf(is).of;
}

// Describes the change between two comparable answers.
export function moved(before, now) {
  const [was, is] = [before.recommendations[0], now.recommendations[0]];
  const parts = [
    change(priceOf(is).of, priceOf(was).value, priceOf(is).value),
    is.performance.days ? change("duration", was.performance.days, is.performance.days) : change("speed", speedOf(was), speedOf(is)),
    chanceOf(was) && chanceText(chanceOf(was)) !== chanceText(chanceOf(is)) ? `probability ${chanceText(chanceOf(was))} to ${chanceText(chanceOf(is))}` : null,
    change("TTFT p95", was.performance.ttft_ms?.p95, is.performance.ttft_ms?.p95),
    change("TPOT p95", was.performance.tpot_ms?.p95, is.performance.tpot_ms?.p95),
    change("request p95", was.performance.e2e_ms?.p95, is.performance.e2e_ms?.p95),
  ].filter(Boolean);
  const same = nameOf(was) === nameOf(is) ? "" : `previously ${nameOf(was)}; `;
  return parts.length || same ? `Changed: ${same}${parts.join(", ")}.` : "No change.";
}
