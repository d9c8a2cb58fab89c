// Asks, shows, and asks again when anything is changed.
import { showAccuracy } from "./accuracy.js";
import { headline, options } from "./answer.js";
import { get, latest, post, Problem } from "./api.js";
import { nameOf } from "./deployment.js";
import { element, section } from "./dom.js";
import { Form, Unreadable } from "./form.js";
import { knobs } from "./knobs.js";
import { keep, linked, linkTo, showPast } from "./past.js";
import { plots } from "./plots.js";
import { PRESETS } from "./presets.js";
import { reasons } from "./reasons.js";

const at = (id) => document.getElementById(id);
const form = new Form(at("form"));
const recommend = latest((body, signal) => post("/recommend", body, signal));
let asked = false;
let timer = 0;

function complain(error) {
  const lines = [element("p", { class: "error" }, error instanceof Unreadable || error instanceof Problem ? error.message : "The service did not answer. Try again.")];
  for (const e of error.errors ?? []) lines.push(element("p", { class: "error" }, `${e.pointer}: ${e.detail}`));
  const pointed = error.path ?? error.errors?.[0]?.pointer.replace(/^#\//, "").replaceAll("/", ".");
  at("problem").replaceChildren(...lines);
  at("status").textContent = error.message;
  if (pointed && document.activeElement?.type !== "range") form.mark(pointed);
}

function opened() {
  return [...at("answer").querySelectorAll("details[open] > summary")].map((s) => s.textContent.split(":")[0]);
}

function render(answer) {
  const open = opened();
  const warnings = answer.warnings.map((w) => element("p", { class: "warning" }, w.text));
  const found = answer.recommendations.length ? [...options(answer), section("Plots", ...plots(answer))] : [];
  const [first] = answer.recommendations;
  at("top").replaceChildren(element("h2", {}, first ? nameOf(first) : "Nothing fits these limits"), first ? headline(first) : "");
  at("answer").replaceChildren(
    element("p", { class: "summary" }, answer.summary),
    ...warnings, ...found, ...reasons(answer, assume),
    element("p", { class: "source" }, `Snapshot ${answer.catalog.snapshot}, prices up to ${answer.catalog.prices_as_of}, ages counted to ${answer.as_of}. `,
      element("a", { href: `#a=${answer.id}` }, "Link to this answer"), ". ", element("a", { href: `/recommendations/${answer.id}` }, "As JSON"), "."),
  );
  for (const summary of at("answer").querySelectorAll("details > summary")) {
    if (open.includes(summary.textContent.split(":")[0])) summary.parentElement.open = true;
  }
  at("answer").dataset.id = answer.id;
  at("status").textContent = first ? `${nameOf(first)} is first.` : "Nothing fits these limits.";
}

// A question is settled when it was not asked by a knob that still moves; the answer to a click is brought into view.
async function ask({ settled = true, shown = false } = {}) {
  clearTimeout(timer);
  at("problem").replaceChildren();
  let body = null;
  try {
    body = form.body();
    if (settled || !asked) at("status").textContent = "Sizing…";
    at("answer").setAttribute("aria-busy", "true");
    const begun = performance.now();
    const answer = await recommend(body);
    if (answer === null) return;
    render(answer);
    at("answer").dataset.ms = performance.now() - begun;
    at("permalink").hidden = false;
    at("permalink").href = linkTo(body);
    if (settled || !asked) {
      if (linkTo(body) !== location.hash) history[shown ? "pushState" : "replaceState"](null, "", linkTo(body));
      keep(answer, body);
      showPast(at("past"));
      turnable();
      if (shown) at("top").scrollIntoView({ block: "start" });
    }
    asked = true;
  } catch (error) {
    complain(error);
  }
  at("answer").removeAttribute("aria-busy");
}

function soon(wait_ms, how) {
  clearTimeout(timer);
  timer = setTimeout(() => ask(how), wait_ms);
}

function turnable() {
  at("knobs").replaceChildren(...knobs(form, () => soon(15, { settled: false })));
  at("knobs").closest("section").hidden = !at("knobs").children.length;
}

function assume(name, text) {
  const field = at("form").elements.assumptions;
  const value = Number(text);
  field.value = JSON.stringify({ ...JSON.parse(field.value || "{}"), [name]: Number.isNaN(value) ? text : value }, null, 1);
  field.closest("details").open = true;
  ask();
}

function start(request) {
  form.fill(request);
  return ask({ shown: true });
}

async function arrive() {
  const { request, answer } = linked();
  if (request) await start(request);
  else if (answer) {
    try {
      const stored = await get(`/recommendations/${encodeURIComponent(answer)}`);
      form.fill(stored.request);
      asked = true;
      render(stored);
      turnable();
    } catch (error) {
      complain(error);
    }
  }
}

async function suggest(event) {
  const text = event.target.value.trim();
  if (text.length < 2) return;
  const found = await models(text).catch(() => null);
  if (found) at("models").replaceChildren(...found.items.map((m) => element("option", { value: m.id })));
}

const models = latest((text, signal) => fetch(`/catalog/models?limit=12&q=${encodeURIComponent(text)}`, { signal }).then((r) => r.json()));

at("presets").append(...PRESETS.map(({ name, request }) => element("button", { type: "button", class: "preset", click: () => start(request) }, name)));
at("form").addEventListener("submit", (event) => {
  event.preventDefault();
  ask({ shown: true });
});
at("form").addEventListener("change", () => asked && soon(60, { settled: true }));
at("form").elements["workload.model"].addEventListener("input", suggest);
at("knobs").addEventListener("change", async () => {
  await ask({ settled: false });
  history.replaceState(null, "", at("permalink").href);
});
at("copy").addEventListener("click", async () => {
  await navigator.clipboard.writeText(at("permalink").href).catch(() => null);
  at("status").textContent = "The link is copied.";
});
at("accuracy").addEventListener("toggle", () => showAccuracy(at("accuracy")));
addEventListener("hashchange", arrive);
form.fill(PRESETS[0].request);
showPast(at("past"));
arrive();
