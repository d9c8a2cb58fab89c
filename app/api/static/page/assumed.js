// What is assumed: every figure with its range, reason and source, and a place to change it.
import { get } from "./api.js";
import { element, folded, show, sought, words } from "./dom.js";
import { written } from "./numbers.js";

const HEADS = ["Assumption", "Value", "Unit", "Range", "Said by", "Reason", "Source"];

const nameOf = (a, form) => form.home(a.name)?.label ?? words(a.name);

// Changed in the field that asks for it, or among the assumptions by name. What has neither follows from other figures.
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

// All figures of the engine, as they stand where nobody changed them.
async function everyFigure(answer, form, change) {
  const told = new Map(answer.assumptions.map((a) => [a.name, a]));
  const { items } = await get("/catalog/assumptions?limit=200");
  const said = answer.request.assumptions ?? {};
  const rows = items.filter((a) => !told.has(a.name)).map((a) => ({ ...a, value: said[a.name] ?? a.value, asked: a.name in said, range: [a.low, a.high] }));
  return listed(rows, form, change, "Every other figure");
}

export function assumed(answer, form, change) {
  const rows = [...answer.assumptions].sort((a, b) => Number(b.asked ?? false) - Number(a.asked ?? false));
  const rest = element("div", {});
  const fill = async () => rest.replaceChildren(...(await everyFigure(answer, form, change)));
  return folded(`What is assumed: ${rows.length} figures, to be changed in place`, ...listed(rows, form, change, "Assumptions"),
    rest, element("button", { type: "button", click: fill }, "Show every other figure"));
}
