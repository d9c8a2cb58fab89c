// Shows the errors of predictions against published results.
import { get } from "./api.js";
import { table, words } from "./dom.js";

const percent = (share) => `${Math.round(100 * share)} %`;

export async function showAccuracy(details) {
  if (!details.open || details.querySelector("table")) return;
  const found = await get("/accuracy").catch(() => null);
  if (!found) return;
  const row = (s) => [words(s.metric), s.value, s.rows, s.sources, percent(s.unseen_source.median), percent(s.coverage), s.width.toFixed(1), percent(s.kept)];
  const heads = ["Quantity", "Family", "Results", "Sources", "Median error", "In interval", "High / low", "Plan met"];
  details.append(table(heads, [...found.overall.map(row), ...found.by.accelerator_family.map(row)], "Errors by quantity and family"));
}
