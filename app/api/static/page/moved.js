// What another question changed of the first option: its hardware, its price, its speed.
import { nameOf } from "./deployment.js";
import { priceOf, speedOf, unitOf } from "./figures.js";
import { show } from "./dom.js";

function change(what, before, now) {
  const share = 100 * (now / before - 1);
  if (!Number.isFinite(share) || Math.abs(share) < 0.05) return null;
  return `${what} ${share > 0 ? "+" : "−"}${show(Math.abs(share), Math.abs(share) < 10 ? 2 : 3)} %`;
}

// Two answers are told apart where both have a first option of the same kind; otherwise there is nothing to tell.
export function moved(before, now) {
  const [was, is] = [before?.recommendations[0], now.recommendations[0]];
  if (!was || !is || before.request.workload.phase !== now.request.workload.phase) return "";
  if (unitOf(was) !== unitOf(is) || priceOf(was).of !== priceOf(is).of) return "";
  const parts = [
    change(priceOf(is).of, priceOf(was).value, priceOf(is).value),
    is.performance.days ? change("duration", was.performance.days, is.performance.days) : change("speed", speedOf(was), speedOf(is)),
    change("first token p95", was.performance.ttft_ms?.p95, is.performance.ttft_ms?.p95),
    change("per token p95", was.performance.tpot_ms?.p95, is.performance.tpot_ms?.p95),
    change("whole answer p95", was.performance.e2e_ms?.p95, is.performance.e2e_ms?.p95),
  ].filter(Boolean);
  const same = nameOf(was) === nameOf(is) ? "" : `before ${nameOf(was)}; `;
  return parts.length || same ? `Moved: ${same}${parts.join(", ")}.` : "Nothing moved.";
}
