// One request has all feasible options, without the parts that are requested only when somebody opens them.
import { post } from "./api.js";

const WIDE = { limit: 50, include: ["load_curve", "alternatives", "day"] };

export const widened = (body) => ({ ...WIDE, ...body });

// The request without the page's own additions.
export function narrowed(request) {
  const same = ([name, value]) => JSON.stringify(WIDE[name]) === JSON.stringify(value);
  return Object.fromEntries(Object.entries(request).filter((field) => !same(field)));
}

const complete = new WeakMap();

// The same answer with its sensitivity and its cheaper alternatives, requested once unless the request fails.
export function completed(answer) {
  if (answer.request.include === undefined) return answer;
  if (!complete.has(answer)) complete.set(answer, post("/recommend", narrowed(answer.request)).catch((problem) => (complete.delete(answer), Promise.reject(problem))));
  return complete.get(answer);
}
