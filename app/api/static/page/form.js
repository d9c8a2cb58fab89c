// The form and its request: each field is one location in the body of POST /recommend.
import { element } from "./dom.js";
import { HEADINGS } from "./fields.js";
import { read, written } from "./numbers.js";
import { dropBox } from "./kit.js";
import { picker } from "./picker.js";
import { busiest, readTrace, writeTrace } from "./recorded.js";

const FIELDS = HEADINGS.flatMap((h) => h.fields.map((f) => ({ when: h.when, ...f })));
const LOADS = FIELDS.find((f) => f.path === "load").options.map(([name]) => name);
const LOAD_FIELDS = Object.fromEntries(LOADS.map((load) => [load, load === "users" ? "workload.traffic.users.count" : `workload.traffic.${load}`]));
// Current names of values in requests stored by earlier versions.
const RENAMED = { "reckoned": "estimate" };
const SPECIAL = ["load", "more", "workload.phase"];

class Unreadable extends Error {
  // missing: the field is empty, and the request needs it.
  constructor(path, message, missing = false) {
    super(message);
    Object.assign(this, { path, missing });
  }
}

const formatShares = (shares) => Object.entries(shares).map(([name, share]) => `${name} ${Number((100 * share).toPrecision(12))}%`).join(", ");
const pairs = (options) => options.map((o) => (Array.isArray(o) ? o : [o, o]));

function input(field) {
  const named = { name: field.path, id: field.path, "aria-describedby": field.hint ? `${field.path}-hint` : null };
  if (field.kind === "choice") {
    return element("select", named, ...pairs(field.options).map(([value, text]) => element("option", { value }, text)));
  }
  if (field.kind === "json") return element("textarea", { ...named, rows: 3, spellcheck: "false", placeholder: field.placeholder ?? "{ }" });
  const numeric = field.kind === "number" ? { inputmode: "decimal", class: "short" } : {};
  return element("input", { ...named, ...numeric, type: "text", list: field.list, autocomplete: "off", spellcheck: "false" });
}

function ticked(field) {
  const type = field.kind === "radio" ? "radio" : "checkbox";
  const boxes = pairs(field.options).map(([value, text]) =>
    element("label", { class: "tick" }, element("input", { type, name: field.path, value }), text),
  );
  return element("div", { class: "field wide", "data-path": field.path, role: "group", "aria-label": field.label },
    element("span", { class: "label" }, field.label), ...boxes);
}

const PICKED = ["owned", "types"];

function shown(field) {
  if (PICKED.includes(field.kind)) return picker(field);
  if (field.kind === "trace") return element("div", { class: "field wide", "data-path": field.path }, dropBox(field.label, { name: field.path, rows: 3, hint: field.hint, placeholder: field.placeholder, reading: busiest }).made);
  if (field.kind === "radio" || field.kind === "choices") return ticked(field);
  const hint = field.hint ? element("small", { id: `${field.path}-hint` }, field.hint) : null;
  const reading = field.kind === "number" ? element("output", { for: field.path, class: "reading" }) : null;
  return element("div", { class: field.wide ? "field wide" : field.kind === "choice" ? "field choice" : "field", "data-path": field.path },
    element("label", { for: field.path }, field.label), input(field), reading, hint);
}

function nested(target, path, value) {
  const names = path.split(".");
  const last = names.pop();
  const holder = names.reduce((at, name) => (at[name] ??= {}), target);
  holder[last] = value;
}

// Removes and returns the value at a path, together with objects that become empty.
function taken(source, path) {
  const [name, ...rest] = path.split(".");
  if (source === null || typeof source !== "object" || !(name in source)) return undefined;
  if (!rest.length) {
    const value = source[name];
    delete source[name];
    return value;
  }
  const value = taken(source[name], rest.join("."));
  const left = source[name];
  if (left && typeof left === "object" && !Array.isArray(left) && !Object.keys(left).length) delete source[name];
  return value;
}

function merged(target, source) {
  for (const [name, value] of Object.entries(source)) {
    const both = value && target[name] && typeof value === "object" && typeof target[name] === "object" && !Array.isArray(value);
    if (both) merged(target[name], value);
    else target[name] = value;
  }
  return target;
}

export class Form {
  constructor(form) {
    this.form = form;
    for (const h of HEADINGS) {
      const fields = element("div", { class: "fields" }, ...h.fields.map(shown));
      const held = h.open
        ? element("fieldset", {}, element("legend", {}, h.heading), fields)
        : element("details", { class: "more" }, element("summary", {}, h.heading, element("span", { class: "said" })), fields);
      held.dataset.when = (h.when || []).join(" ");
      document.getElementById(h.open ? "questions" : "details").append(held);
    }
    form.addEventListener("input", ({ target }) => {
      if (target.hasAttribute("aria-invalid")) this.unmark();
      this.#echo(target);
    });
    form.addEventListener("change", () => this.arrange());
  }

  get phase() {
    return this.form.elements["workload.phase"].value;
  }

  get load() {
    return this.form.elements.load.value;
  }

  #active(field) {
    return !field.when || !field.when.length || field.when.includes(this.phase) || (this.phase === "inference" && field.when.includes(this.load));
  }

  // Shows only fields that apply to the phase and the kind of load.
  arrange() {
    for (const field of FIELDS) {
      this.form.querySelector(`.field[data-path="${field.path}"]`).hidden = !this.#active(field);
    }
    for (const held of this.form.querySelectorAll("[data-when]")) {
      held.hidden = held.dataset.when !== "" && !held.dataset.when.split(" ").includes(this.phase);
    }
    for (const more of this.form.querySelectorAll("details.more")) {
      const filled = [...more.querySelectorAll("input[name], textarea, select")].filter((c) => (c.type === "checkbox" ? c.checked : c.value !== ""));
      more.querySelector(".said").textContent = filled.length ? ` (${filled.length} set)` : "";
    }
  }

  // Shows how a number typed in words is interpreted.
  #echo(target) {
    const reading = target.parentElement?.querySelector(".reading");
    if (!reading) return;
    const value = read(target.value);
    const grouped = value.toLocaleString("en", { maximumFractionDigits: 6 });
    const plain = ["", String(value), grouped].includes(target.value.trim());
    reading.value = plain ? "" : Number.isNaN(value) ? "not a number" : `= ${grouped}`;
  }

  #value(field) {
    const control = this.form.elements[field.path];
    if (field.kind === "choices") {
      const boxes = [...this.form.querySelectorAll(`input[name="${field.path}"]:checked`)].map((box) => box.value);
      return boxes.length ? boxes : undefined;
    }
    const text = control.value.trim();
    if (text === "") return undefined;
    if (field.many) return [text];
    if (field.kind === "number") return this.#number(field, text);
    if (field.kind === "list") return text.split(",").map((part) => part.trim()).filter(Boolean);
    if (field.kind === "numbers") return text.split(/[,;\s]+/).filter(Boolean).map((part) => this.#number(field, part));
    if (field.kind === "json" || PICKED.includes(field.kind)) return this.#json(field, text);
    if (field.kind === "trace") return this.#trace(field, text);
    if (field.kind === "shares") return this.#shares(field, text);
    return text;
  }

  #number(field, text) {
    const value = read(text);
    if (Number.isNaN(value)) throw new Unreadable(field.path, `${field.label}: “${text}” is not a number. Use a form such as 1,000,000, 1 million, 70b or 1e9.`);
    return value;
  }

  // Parses shares by name: "h100 sxm 20%, b200 sxm 0.1".
  #shares(field, text) {
    const parts = text.split(",").map((part) => part.trim()).filter(Boolean);
    if (parts.some((part) => !/\s/.test(part))) throw new Unreadable(field.path, `${field.label}: write a share after each name, such as h100 sxm 20%.`);
    return Object.fromEntries(parts.map((part) => [part.replace(/\s*\S+$/, ""), this.#number(field, part.split(/\s+/).at(-1))]));
  }

  #trace(field, text) {
    if (text.startsWith("[")) return this.#json(field, text);
    try {
      return readTrace(text);
    } catch ({ message }) {
      throw new Unreadable(field.path, `${field.label}: ${message}`);
    }
  }

  #json(field, text) {
    try {
      return JSON.parse(text);
    } catch ({ message }) {
      throw new Unreadable(field.path, `${field.label}: this is not valid JSON (${message}).`);
    }
  }

  // The request body. Throws Unreadable if a field cannot be parsed.
  body() {
    const made = { workload: { phase: this.phase } };
    // Additional fields may state the load in another way: classes, samples.
    const needed = this.form.elements.more.value.trim() ? null : this.phase === "inference" ? LOAD_FIELDS[this.load] : this.phase === "training" ? "workload.training_tokens" : null;
    for (const field of FIELDS) {
      if (SPECIAL.includes(field.path) || !this.#active(field)) continue;
      const value = this.#value(field);
      if (value === undefined && field.path === needed) throw new Unreadable(field.path, `${field.label}: enter a value.`, true);
      if (value === undefined) continue;
      if (field.path === "workload.model.huggingface_config") made.workload.model = { huggingface_config: value };
      else nested(made, field.path, value);
    }
    const { workload } = made;
    if (this.phase === "inference") {
      workload.traffic ??= {};
      if (this.load === "offline") workload.traffic.offline = true;
      for (const name of ["input_tokens", "output_tokens"]) {
        const length = workload.traffic[name];
        if (length && Object.keys(length).join() === "mean") workload.traffic[name] = length.mean;
      }
    }
    const size = typeof workload.model === "string" && !Number.isNaN(read(workload.model)) ? read(workload.model) : null;
    if (size) workload.model = { parameters_billion: size >= 1e6 ? size / 1e9 : size };
    const more = this.#value(FIELDS.find((f) => f.path === "more"));
    if (more && (typeof more !== "object" || Array.isArray(more))) throw new Unreadable("more", "Additional request fields: enter a JSON object, such as { \"limit\": 3 }.");
    return more ? merged(made, more) : made;
  }

  // Fills the form from a request; values without a form field go to "Additional request fields".
  fill(request) {
    const rest = structuredClone(request);
    this.form.reset();
    const workload = rest.workload ?? {};
    this.form.elements["workload.phase"].value = taken(rest, "workload.phase") ?? "inference";
    this.form.elements.load.value = LOADS.find((load) => load in (workload.traffic ?? {})) ?? "peak_requests_per_s";
    if (workload.traffic) {
      if (workload.traffic.offline) delete workload.traffic.offline;
      for (const name of ["input_tokens", "output_tokens"]) {
        if (typeof workload.traffic[name] === "number") workload.traffic[name] = { mean: workload.traffic[name] };
      }
    }
    if (workload.model && workload.model.parameters_billion && Object.keys(workload.model).length === 1) {
      workload.model = `${workload.model.parameters_billion}b`;
    }
    if (workload.deadline_hours) {
      workload.deadline_days = workload.deadline_hours / 24;
      delete workload.deadline_hours;
    }
    for (const field of FIELDS) {
      if (!SPECIAL.includes(field.path)) this.#set(field, this.#active(field) ? this.#takenFor(field, rest) : undefined);
    }
    if (rest.workload && rest.workload.traffic && !Object.keys(rest.workload.traffic).length) delete rest.workload.traffic;
    if (rest.workload && !Object.keys(rest.workload).length) delete rest.workload;
    this.form.elements.more.value = Object.keys(rest).length ? JSON.stringify(rest, null, 1) : "";
    this.arrange();
  }

  #takenFor(field, rest) {
    if (field.path === "workload.model" && typeof rest.workload?.model !== "string") return undefined;
    return taken(rest, field.path);
  }

  #set(field, value) {
    if (field.kind === "choices") {
      const chosen = (value ?? []).map((name) => RENAMED[name] ?? name);
      for (const box of this.form.querySelectorAll(`input[name="${field.path}"]`)) box.checked = chosen.includes(box.value);
      return;
    }
    const control = this.form.elements[field.path];
    if (control.draw) control.draw(value);
    else if (field.many) control.value = value?.length === 1 ? value[0] : "";
    else if (value === undefined || value === null) {
      if (field.kind !== "choice" || pairs(field.options).some(([name]) => name === "")) control.value = "";
    } else if (field.kind === "json") control.value = JSON.stringify(value, null, 1);
    else if (field.kind === "trace") control.value = writeTrace(value);
    else if (field.kind === "list" || field.kind === "numbers") control.value = value.join(", ");
    else if (field.kind === "shares") control.value = formatShares(value);
    else control.value = typeof value === "number" ? written(value) : value;
    this.#echo(control);
  }

  // True if a field applies to the phase and the kind of load.
  asks(path) {
    return this.#active(FIELDS.find((f) => f.path === path));
  }

  // The number in the field at a path, or null.
  number(path) {
    const value = this.asks(path) ? read(this.form.elements[path].value) : NaN;
    return Number.isNaN(value) ? null : value;
  }

  put(path, value) {
    this.form.elements[path].value = written(value);
    this.#echo(this.form.elements[path]);
    this.arrange();
  }

  shares(path) {
    return this.#value(FIELDS.find((f) => f.path === path)) ?? {};
  }

  share(path, name, value) {
    const shares = { ...this.shares(path), [name]: value };
    if (!value) delete shares[name];
    this.form.elements[path].value = formatShares(shares);
    this.arrange();
  }

  // The active field for the value with this name in an answer.
  home(name) {
    return FIELDS.find((f) => (f.path === name || f.path.endsWith(`.${name}`) || f.path.endsWith(`.${name}.mean`)) && this.#active(f));
  }

  // True if the name has a field only for another kind of load, so that here its value is derived.
  derives(name) {
    return FIELDS.some((f) => f.path.endsWith(`.${name}`)) && !this.home(name);
  }

  // A copy of a field's control for use in another place.
  twin(field, value) {
    if (field.kind !== "choice") return element("input", { type: "text", class: "short", value: Array.isArray(value) ? value.join(", ") : typeof value === "number" ? written(value) : value });
    const made = element("select", {}, ...pairs(field.options).map(([option, text]) => element("option", { value: option }, text)));
    made.value = this.form.elements[field.path].value;
    return made;
  }

  enter(field, text) {
    if (field.kind === "choices" || field.many) this.#set(field, text.split(",").map((part) => part.trim()));
    else {
      this.form.elements[field.path].value = text;
      this.#echo(this.form.elements[field.path]);
    }
    this.arrange();
  }

  assume(name, text) {
    const field = this.form.elements.assumptions;
    const value = read(text);
    field.value = JSON.stringify({ ...JSON.parse(field.value || "{}"), [name]: Number.isNaN(value) ? text : value }, null, 1);
    this.arrange();
  }

  // The field for a path of the request, or for the nearest part of it.
  #at(path) {
    return FIELDS.find(({ path: p }) => path === p || path.startsWith(`${p}.`) || p.startsWith(`${path}.`));
  }

  // A text of the service with labels in place of the names of fields.
  spoken(text) {
    const label = (name) => FIELDS.find((f) => f.path === name || f.path.endsWith(`.${name}`))?.label;
    return text.replace(/`([^`]+)`/g, (_, name) => (label(name) ? `“${label(name)}”` : name));
  }

  labelAt(path) {
    return this.#at(path)?.label;
  }

  // Marks the field that an error points to, shows the error there, and opens its section.
  mark(path, text) {
    const name = this.#at(path)?.path;
    const holder = name ? this.form.querySelector(`.field[data-path="${name}"]`) : null;
    const control = holder?.querySelector("input:not([type=hidden]), select, textarea, button");
    if (!control || holder.hidden) return null;
    const fault = element("small", { class: "fault", id: `${name}-fault` }, text);
    holder.append(fault);
    control.setAttribute("aria-invalid", "true");
    control.setAttribute("aria-describedby", [control.getAttribute("aria-describedby"), fault.id].filter(Boolean).join(" "));
    for (let around = control.closest("details"); around; around = around.parentElement.closest("details")) around.open = true;
    return control;
  }

  unmark() {
    for (const fault of this.form.querySelectorAll(".fault")) fault.remove();
    for (const control of this.form.querySelectorAll("[aria-invalid]")) {
      control.removeAttribute("aria-invalid");
      control.setAttribute("aria-describedby", control.getAttribute("aria-describedby").split(" ").filter((id) => !id.endsWith("-fault")).join(" "));
    }
  }

  label(path) {
    return FIELDS.find((f) => f.path === path)?.label;
  }
}
