// Creates elements and formats numbers for the page.

export function element(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

export function drawn(tag, attributes = {}, ...children) {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function filled(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") made.addEventListener(name, value);
    else if (value !== undefined && value !== null && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined).map((child) => child?.nodeType ? child : String(child)));
  return made;
}

export function show(value, digits = 3) {
  if (value === null || value === undefined || value === "") return "–";
  if (typeof value !== "number") return String(value);
  const rounded = Math.abs(value) >= 1000 ? Math.round(value) : value;
  return rounded.toLocaleString("en", Math.abs(value) >= 1000 ? {} : { maximumSignificantDigits: digits });
}

// Formats an estimate with its significant digits.
export function about(value, digits = 3) {
  if (value === null || value === undefined) return "–";
  return value.toLocaleString("en", { maximumSignificantDigits: digits });
}

export function money(value) {
  if (value === null || value === undefined) return "–";
  const digits = Math.abs(value) < 0.1 ? { maximumSignificantDigits: 2 } : Math.abs(value) < 100 ? { minimumFractionDigits: 2, maximumFractionDigits: 2 } : { maximumFractionDigits: 0 };
  return `$${value.toLocaleString("en", digits)}`;
}

// Formats an axis label, with suffixes for thousands and millions.
export function short(value) {
  return value.toLocaleString("en", Math.abs(value) >= 1000 ? { notation: "compact", maximumSignificantDigits: 3 } : { maximumSignificantDigits: 4 });
}

export function words(name) {
  return name.replaceAll("_", " ").replace(/\b(kv|api)\b/, (term) => term.toUpperCase());
}

export function table(heads, rows, caption) {
  const isNumber = (cell) => typeof cell === "number" || /^[+$\d–-][$\d.,]*( %)?$/.test(cell.textContent ?? cell);
  const right = heads.map((_, i) => i > 0 && rows.some((cells) => (cells[i] ?? "–") !== "–") && rows.every((cells) => isNumber(cells[i] ?? "–")));
  const head = element("tr", {}, ...heads.map((name, i) => element("th", { scope: "col", class: right[i] ? "number" : null }, name || element("span", { class: "unseen" }, "Action"))));
  const body = rows.map((cells) =>
    element("tr", {}, ...cells.map((cell, i) => {
      const text = typeof cell === "number" ? show(cell) : (cell ?? "–");
      return element(i ? "td" : "th", { class: right[i] ? "number" : String(text.textContent ?? text).length > 12 ? "long" : null, scope: i ? null : "row" }, text);
    })),
  );
  const made = element("table", {}, caption ? element("caption", {}, caption) : null, element("thead", {}, head), element("tbody", {}, ...body));
  return element("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": caption || heads.join(", ") }, made);
}

// Whether the window shows the request and the answer next to each other.
export const wide = matchMedia("(min-width: 64.01rem)");

export const list = (texts) => element("ul", {}, ...texts.map((text) => element("li", {}, text)));

// Below the title of a task page, or below the decision of the sizing page.
const HEADING = document.getElementById("view") ? "h2" : "h3";

export function section(title, ...children) {
  return element("section", {}, element(HEADING, {}, title), ...children);
}

export function folded(title, ...children) {
  return element("details", { class: "folded" }, element("summary", {}, title), ...children);
}

// A table with a search box over the full content of its rows.
export function sought(rows, cells, heads, caption) {
  const held = element("div", {});
  const searchable = rows.map((row) => [JSON.stringify(row).toLowerCase().replaceAll("_", " "), row]);
  const fill = (text) => held.replaceChildren(table(heads, searchable.filter(([words]) => words.includes(text)).map(([, row]) => cells(row)), caption));
  const search = element("input", { type: "search", "aria-label": `Search: ${caption}`, placeholder: "Search", input: () => fill(search.value.toLowerCase()) });
  fill("");
  return [search, held];
}

// A section that requests its content when it is opened.
export function later(title, fill) {
  const made = element("details", { class: "later" }, element("summary", {}, title));
  made.addEventListener("toggle", async () => {
    if (!made.open || made.dataset.asked) return;
    made.dataset.asked = "yes";
    const held = element("div", {});
    made.append(held);
    await during(held, fill);
  });
  return made;
}

// Shows progress in an element at once, then what a task returns, or its problem with a way to try again. A newer task of the element replaces an older one.
export async function during(into, task) {
  const working = element("p", { class: "working" }, "Loading…");
  into.replaceChildren(working);
  const again = (problem) => [...trouble(problem), temporary(problem) ? element("button", { type: "button", click: () => during(into, task) }, "Try again") : null];
  const shown = await Promise.resolve().then(task).catch(again);
  working.replaceWith(...[shown].flat().filter(Boolean));
}

// True if the same request may succeed later.
export const temporary = ({ errors, body }) => errors === undefined || body.status === 429 || body.status >= 500;

const ROUTE = /\b(GET|POST|PUT|PATCH|DELETE) \/|`huggingface_config`/;
const last = (path) => words(path.split(/[./]/).filter((part) => !/^(#|\d*)$/.test(part)).at(-1) ?? "request");

// The detail of an error as a person reads it: without routes of the API, bounds in words.
export function plain(detail) {
  const sentences = detail.split(/(?<=[.?!]) (?=[A-Z`'])/);
  const kept = sentences.filter((s) => !ROUTE.test(s));
  return (kept.length ? kept : sentences).join(" ").replace(/^(String|List|Input) should /, "Must ").replace(/^(Field required|Must have at least 1 character)/, "Enter a value")
    .replace("greater than or equal to", "at least").replace("less than or equal to", "at most");
}

// A problem of the service: its sentence, and each error that the sentence does not contain. `label` names the field at a path.
export function trouble(problem, label = last) {
  const known = problem.errors !== undefined;
  if (!known) console.error(problem);
  const named = (path, detail) => `${label(path.replace(/^#?\//, "").replaceAll("/", ".")) ?? last(path)}: ${plain(detail)}`.replace(/^./, (c) => c.toUpperCase());
  const more = (problem.errors ?? []).filter((e) => !problem.message.includes(e.detail.replace(/\.$/, "")));
  const [, path, detail] = /^At (#\S*): (.*)$/s.exec(problem.message) ?? [];
  return [element("p", { class: "error", role: "alert" }, !known ? "The service did not respond." : path ? named(path, detail) : plain(problem.message.replace(/^At \S+: /, ""))),
    ...more.map((e) => element("p", { class: "error" }, e.pointer ? named(e.pointer, e.detail) : plain(e.detail)))];
}
