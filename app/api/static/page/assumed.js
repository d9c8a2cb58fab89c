// What is assumed: every figure with its range, reason and source, and a place to change it.
import { get } from "./api.js";
import { element, folded, show, sought, words } from "./dom.js";

const HEADS = ["Assumption", "Value", "Unit", "Range", "Said by", "Reason", "Source"];

// Changed in the field that asks for it, or among the assumptions by name. What has neither follows from other figures.
function control(a, form, change) {
  const field = form.home(a.name);
  if (!field && (typeof a.value !== "number" || form.derives(a.name))) return show(a.value);
  const made = field ? form.twin(field, a.value) : element("input", { type: "text", class: "short", value: a.value });
  made.setAttribute("aria-label", words(a.name));
  made.addEventListener("change", () => change(a.name, made.value));
  return made;
}

function listed(rows, form, change, caption) {
  const cells = (a) => [words(a.name), control(a, form, change), a.unit === "text" ? "" : a.unit, a.range ? a.range.map((v) => show(v)).join(" to ") : "", a.asked ? "you" : "", a.reason, a.source ?? ""];
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
