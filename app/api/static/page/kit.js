// Components of the task pages: fields, forms, the hardware list and the box for files.
import { Problem } from "./api.js";
import { element } from "./dom.js";
import { read } from "./numbers.js";
import { hardwareInput } from "./picker.js";

export const view = document.getElementById("view");

export function field(label, control, hint) {
  return element("div", { class: "field" }, element("label", { for: control.id }, label), control, hint ? element("small", {}, hint) : null);
}

export const input = (name, attributes = {}) => element("input", { id: name, name, type: "text", autocomplete: "off", spellcheck: "false", ...attributes });
export const number = (name) => input(name, { inputmode: "decimal", class: "short", "data-number": true });
export const hardware = (name) => hardwareInput({ id: name, name });

// options: [value or [value, text]]
export function choice(name, options, attributes = {}) {
  return element("select", { id: name, name, ...attributes }, ...options.map((o) => (Array.isArray(o) ? o : [o, o])).map(([value, text]) => element("option", { value }, text)));
}

// A form with its buttons; `submitted` receives it.
export function form(parts, submitted, label = "Show", ...buttons) {
  const made = element("form", { novalidate: true }, element("div", { class: "fields" }, ...parts), element("p", { class: "buttons" }, element("button", { class: "go" }, label), ...buttons));
  made.addEventListener("submit", (event) => {
    event.preventDefault();
    submitted(made);
  });
  return made;
}

// The filled fields of an element by name; numbers are read as people type them.
export function values(within) {
  const filled = [...within.querySelectorAll("input[name], select[name], textarea[name]")].filter((c) => (c.type === "checkbox" ? c.checked : c.value.trim() !== ""));
  return Object.fromEntries(filled.map((control) => {
    const text = control.value.trim();
    if (!("number" in control.dataset)) return [control.name, control.type === "checkbox" ? true : text];
    const value = read(text);
    if (Number.isNaN(value)) throw new Problem({ detail: `${control.labels[0].textContent}: “${text}” is not a number.` });
    return [control.name, value];
  }));
}

function readJson(text, name) {
  try {
    return JSON.parse(text);
  } catch {
    throw new Problem({ detail: `${name}: invalid JSON.` });
  }
}

// A box to paste text into, to drop a file on, or to choose one for.
// `reading`: returns the part of the text of a file to keep, and a note about it.
export function dropBox(label, { name = "pasted", rows = 8, hint = "", placeholder = "", reading = (text) => [text, `${text.length.toLocaleString("en")} characters`] } = {}) {
  const text = element("textarea", { id: name, name, rows, spellcheck: "false", placeholder, "aria-describedby": `${name}-hint` });
  const named = element("small", { id: `${name}-hint`, role: "status" }, hint);
  async function take(file) {
    if (!file) return;
    const [kept, note] = reading(await file.text());
    text.value = kept;
    named.textContent = `${file.name}: ${note}`;
    text.dispatchEvent(new Event("change", { bubbles: true }));
  }
  const chosen = element("input", { type: "file", id: `${name}-file`, change: (event) => (event.stopPropagation(), take(chosen.files[0])) });
  const made = element("div", { class: "drop" }, element("label", { for: name }, label), text, element("p", { class: "buttons" }, element("label", { for: `${name}-file` }, "Or choose a file, or drop it here:"), chosen), named);
  for (const kind of ["dragover", "dragleave", "drop"]) {
    made.addEventListener(kind, (event) => {
      event.preventDefault();
      made.classList.toggle("over", kind === "dragover");
      if (kind === "drop") take(event.dataTransfer.files[0]);
    });
  }
  return { made, text };
}

// The request to work on: one of this browser's recent requests, an example, or its JSON. `then` follows a choice.
export function requestChooser(choices, then = () => null) {
  const body = element("textarea", { id: "request", name: "request", rows: 6, spellcheck: "false" });
  const show = () => (body.value = JSON.stringify(choices[chosen.value][1], null, 1));
  const chosen = choice("chosen", choices.map(([name], i) => [i, name]), { change: () => (show(), then()) });
  show();
  return {
    made: element("fieldset", {}, element("legend", {}, "Workload"), field("Recent requests and examples", chosen), element("details", {}, element("summary", {}, "Edit the request as JSON"), element("label", { for: "request" }, "Request"), body)),
    request: () => readJson(body.value, "Request"),
  };
}
