// Fields for hardware: suggestions of all accelerator types, and a list of types with the number that you own.
import { element } from "./dom.js";
import { allTypes } from "./names.js";

const SUGGESTIONS = "hardware-names";

export const hardwareInput = (attributes = {}) => element("input", { type: "text", list: SUGGESTIONS, placeholder: "h100 sxm", autocomplete: "off", spellcheck: "false", ...attributes });

// The suggestions of every hardware field of the page.
const suggestions = element("datalist", { id: SUGGESTIONS });
const suggest = async () => suggestions.replaceChildren(...(await allTypes()).map(([slug, name]) => element("option", { value: slug }, name)));
document.body.append(suggestions);
addEventListener("headroom:key", suggest);
suggest();

// A hidden input with a JSON list, edited as rows: accelerator types, or types with a count. Its `draw` shows a list.
export function picker({ path, label, kind }) {
  const counted = kind === "owned";
  const held = element("input", { type: "hidden", name: path, id: path });
  const rows = element("div", { class: "picked" });
  function store() {
    const filled = [...rows.children].map((row) => [...row.querySelectorAll("input")].map((c) => c.value.trim())).filter(([name]) => name);
    held.value = filled.length ? JSON.stringify(filled.map(([accelerator, count]) => (counted ? { accelerator, count: Number(count) || 1 } : accelerator))) : "";
  }
  function row(name = "", count = 1) {
    const made = element("div", { class: "buttons" }, hardwareInput({ "aria-label": `${label}: type`, value: name }), counted ? element("input", { type: "number", min: 1, value: count, class: "count", "aria-label": `${label}: how many` }) : null,
      element("button", { type: "button", "aria-label": `Remove ${name || "this type"}`, click: () => (made.remove(), store(), held.dispatchEvent(new Event("change", { bubbles: true }))) }, "×"));
    return made;
  }
  rows.addEventListener("input", store);
  held.draw = (list) => {
    rows.replaceChildren(...(list ?? []).map((each) => (counted ? row(each.accelerator, each.count) : row(each))));
    store();
  };
  const add = () => {
    rows.append(row());
    rows.lastChild.querySelector("input").focus();
  };
  return element("div", { class: "field wide", "data-path": path, role: "group", "aria-label": label }, element("span", { class: "label" }, label), held, rows, element("button", { type: "button", click: add }, "Add a type"));
}
