// Lists the assumptions with range, reason and source, and lets users change them in place.
import { get } from "./api.js";
import { during, element, folded, show, sought, words } from "./dom.js";
import { written } from "./numbers.js";

const HEADS = ["Assumption", "Value", "Unit", "Range", "Set by", "Reason", "Source"];

const nameOf = (a, form) => form.home(a.name)?.label ?? words(a.name);

// A value is changed in its form field, or by name in the assumptions. A value with neither is derived from other values.
function control(a, form, change) {
  const field = form.home(a.name);
  if (!field && (typeof a.value !== "number" || form.derives(a.name))) return show(a.value);
  const made = field ? form.twin(field, a.value) : element("input", { type: "text", class: "short", value: written(a.value) });
  made.setAttribute("aria-label", nameOf(a, form));
  made.addEventListener("change", () => change(a.name, made.value));
  return made;
}

function listed(rows, form, change, caption) {
  const cells = (a) => [nameOf(a, form), control(a, form, change), ["text", "1"].includes(a.unit) ? "" : a.unit, a.range ? a.range.map((v) => show(v)).join(" to ") : "", a.asked ? "you" : "", a.reason, a.source ?? ""];
  return sought(rows, cells, HEADS, caption);
}

// All other assumptions of the engine, with their default or requested values.
async function everyFigure(answer, form, change) {
  const shownAssumptions = new Map(answer.assumptions.map((a) => [a.name, a]));
  const { items } = await get("/catalog/assumptions?limit=200");
  const requested = answer.request.assumptions ?? {};
  const rows = items.filter((a) => !shownAssumptions.has(a.name)).map((a) => ({ ...a, value: requested[a.name] ?? a.value, asked: a.name in requested, range: [a.low, a.high] }));
  return listed(rows, form, change, "All other assumptions");
}

export function assumed(answer, form, change) {
  const rows = [...answer.assumptions].sort((a, b) => Number(b.asked ?? false) - Number(a.asked ?? false));
  const rest = element("div", {});
  return folded(`Assumptions: ${rows.length} values, editable`, ...listed(rows, form, change, "Assumptions"),
    rest, element("button", { type: "button", click: () => during(rest, () => everyFigure(answer, form, change)) }, "Show all other assumptions"));
}
