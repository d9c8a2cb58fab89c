// Sends requests, shows answers, and sends a new request when a value changes.
import { fleetOf } from "./answer.js";
import { get, latest, post, save } from "./api.js";
import { showDecision, warningsOf } from "./decision.js";
import { typesOf } from "./deployment.js";
import { element, plain, trouble, wide } from "./dom.js";
import { Form } from "./form.js";
import { knobs } from "./knobs.js";
import { named } from "./names.js";
import { keep, linked, linkTo, showPast } from "./past.js";
import { PRESETS } from "./presets.js";
import { reasons } from "./reasons.js";
import { explored } from "./selected.js";
import { narrowed, widened } from "./wide.js";

// Idle time after which a slider change counts as final.
const REST_MS = 150;
const MOST_WARNINGS = 2;
const at = (id) => document.getElementById(id);
const form = new Form(at("form"));
const recommend = latest((body, signal) => post("/recommend", body, signal));
let before = null;
let exploring = null;
let timer = 0;

// Shows an error and marks its fields. `changed`: the field whose change sent the request. A field that it makes necessary
// is named without an error, and the focus stays: nothing was entered there yet.
function complain(error, changed = null) {
  const early = changed && error.missing && error.path !== changed;
  at("result").classList.add("stale");
  if (early) return setStatus(`${error.message} Below is the answer to the previous request.`);
  const faults = error.path ? [{ path: error.path, detail: error.message }] : (error.errors ?? []).map((e) => ({ path: e.pointer.replace(/^#?\//, "").replaceAll("/", "."), detail: e.detail }));
  const marked = faults.map((f) => form.mark(f.path, plain(f.detail)));
  error.errors = error.errors?.filter((e, i) => !marked[i]) ?? (error.path ? [] : undefined);
  const [fault] = faults;
  const names = fault?.path === "workload.model" ? error.body?.nearest ?? error.body?.choices ?? [] : [];
  at("problem").replaceChildren(...trouble(error, (path) => form.labelAt(path)), ...(names.length ? [element("p", { class: "buttons" }, "Use ", ...names.map((name) => element("button", { type: "button", click: () => assume("model", name) }, name)))] : []),
    ...(fault?.path === "workload.model" && error.body?.type === "/problems/unknown-model" ? [element("p", {}, "For a model that is not in the catalog, paste its config.json under More options, Your own model, or enter its size, such as 70b.")] : []),
    ...(at("answer").childElementCount ? [element("p", {}, "Below is the answer to the previous request.")] : []));
  setStatus("");
  if (document.activeElement?.type !== "range") marked.find(Boolean)?.focus();
}

// Keeps open sections and the focus when a new answer replaces the old one. Sections that send a request close.
function keepState(render) {
  const title = (summary) => summary.textContent.split(/[:,]| of /)[0];
  const open = [...at("answer").querySelectorAll("details[open]:not(.later) > summary")].map(title);
  const focused = at("answer").contains(document.activeElement) ? document.activeElement.getAttribute("aria-label") : null;
  render();
  for (const summary of at("answer").querySelectorAll("details:not(.later) > summary")) {
    if (open.includes(title(summary))) summary.parentElement.open = true;
  }
  if (focused) [...at("answer").querySelectorAll("[aria-label]")].find((e) => e.getAttribute("aria-label") === focused)?.focus();
}

// Sets the status text; `unseen` shows it only to screen readers.
function setStatus(text, unseen = false) {
  at("status").textContent = text;
  at("status").classList.toggle("unseen", unseen);
}

function showHeadline(answer) {
  setStatus(showDecision(answer, before, at("top"), at("decision")), true);
}

// Shows at once that a request is in progress, in the line above the answer and on the button.
function setBusy(busy) {
  at("answer").toggleAttribute("aria-busy", busy);
  if (busy) at("answer").setAttribute("aria-busy", "true");
  at("progress").classList.toggle("busy", busy);
  at("form").querySelector(".go").textContent = busy ? "Sizing…" : "Get recommendations";
}

// On a narrow screen, the answer comes first: the request folds into its heading.
function fold() {
  at("question").open = at("turn").open = wide.matches;
}

// The load that an inventory can carry, where it cannot carry the requested one.
function largest({ workload, inventory, maximize }) {
  const quantity = workload.phase !== "inference" ? "tokens" : workload.traffic?.users ? "users" : workload.traffic?.peak_requests_per_s ? "requests_per_s" : null;
  return inventory?.length && quantity && !maximize ? element("button", { type: "button", click: () => assume("maximize", quantity) }, "Find the largest load for your hardware") : null;
}

// On a narrow screen, only the first warnings; the others are folded.
function warned(answer) {
  const passed = answer.recommendations[0]?.explanation.filter((e) => e.code === "published_use" && e.text.includes("ranks first")) ?? [];
  const warnings = [...passed, ...warningsOf(answer)];
  if (!warnings.length) return null;
  const items = warnings.map(({ code, text }) => element("li", {}, form.spoken(text), code === "inventory" && text.includes("your inventory has") ? largest(answer.request) : null));
  const more = wide.matches ? [] : items.splice(MOST_WARNINGS);
  return element("div", { class: "warning" }, element("ul", {}, ...items), more.length ? element("details", {}, element("summary", {}, `Warnings: ${more.length} more`), element("ul", {}, ...more)) : null);
}

function render(answer) {
  at("result").classList.remove("stale");
  showHeadline(answer);
  exploring = answer.recommendations.length ? explored(answer) : null;
  const found = exploring?.nodes ?? [];
  keepState(() => at("answer").replaceChildren(
    ...[fleetOf(answer), warned(answer)].filter(Boolean), ...found, ...reasons(answer, form, assume),
    element("p", { class: "source" }, `Catalog ${answer.catalog.snapshot}, prices up to ${answer.catalog.prices_as_of}, price ages as of ${answer.as_of}. `,
      element("a", { href: `#a=${answer.id}` }, "Link to this answer"), ". ", element("a", { href: `/pages/share?id=${answer.id}` }, "One-page view"), ". ", element("a", { href: `/pages/answers?id=${answer.id}` }, "Approve or price it again"), ". ", element("a", { href: `/recommendations/${answer.id}`, click: save }, "JSON"), "."),
  ));
  turning.among = typesOf(answer);
  at("answer").classList.remove("turning");
  at("answer").dataset.id = answer.id;
}

// Shows the first option of a preview. The rest stays, dimmed, until the slider is idle.
function renderFirst(answer) {
  showHeadline(answer);
  keepState(() => exploring?.follow(answer));
  at("answer").classList.add("turning");
}

// `settled`: the request does not come from a moving slider. `shown`: scrolls the answer into view.
// `example`: the request that the page opens with, which enters neither the address nor the recent requests.
async function ask({ settled = true, shown = false, example = false, changed = null } = {}) {
  clearTimeout(timer);
  at("problem").replaceChildren();
  form.unmark();
  try {
    const body = form.body();
    if (settled) setStatus("Sizing…");
    setBusy(true);
    const begun = performance.now();
    const [answer] = await Promise.all([recommend(widened(body)), named]);
    if (answer === null) return;
    render(answer);
    at("answer").dataset.ms = performance.now() - begun;
    at("permalink").hidden = false;
    at("permalink").href = linkTo(body);
    if (!example && linkTo(body) !== location.hash) history[shown ? "pushState" : "replaceState"](null, "", linkTo(body));
    if (settled) settle(answer, body, { shown, example });
  } catch (error) {
    complain(error, changed);
  }
  if (!recommend.asking()) setBusy(false);
}

function settle(answer, body, { shown, example }) {
  before = answer;
  if (!example) keep(answer, body);
  showPast(at("past"));
  turnable(answer);
  if (shown) fold();
  if (shown && at("top").getBoundingClientRect().top > innerHeight / 2) at("result").scrollIntoView({ block: "start" });
}

function soon(wait_ms, how) {
  clearTimeout(timer);
  timer = setTimeout(() => ask(how), wait_ms);
}

// While a slider moves, the page requests only the best option among the ranked hardware, one request at a time with the
// slider's current value, without the parts of its drawings; the service does not store these previews. When the slider
// is idle, the page requests the full answer. Any other request takes precedence.
const turning = { due: false, asking: false, among: [] };

function ofRanked(body) {
  const constraints = turning.among.length ? { ...body.constraints, accelerators: turning.among } : body.constraints;
  return { ...body, constraints, limit: 1, rejected_limit: 0, include: [] };
}

async function turn() {
  clearTimeout(timer);
  recommend.forget();
  turning.due = true;
  if (turning.asking) return;
  turning.asking = true;
  try {
    while (turning.due) {
      turning.due = false;
      const begun = performance.now();
      const answer = await post("/recommend?store=false", ofRanked(form.body()));
      if (recommend.asking()) break;
      // If no ranked hardware is feasible, the full answer shows the hardware that is feasible.
      if (!answer.recommendations.length) continue;
      renderFirst(answer);
      at("top").dataset.ms = performance.now() - begun;
    }
  } catch (error) {
    if (!recommend.asking()) complain(error);
  }
  turning.asking = turning.due = false;
  if (!recommend.asking()) soon(REST_MS, { settled: false });
}

function turnable(answer) {
  const [asked, rest] = knobs(form, answer, turn);
  at("knobs").replaceChildren(...asked);
  at("assumed").replaceChildren(...rest);
}

// Changes a value in its form field, or in the assumptions.
function assume(name, text) {
  const field = form.home(name);
  if (field) form.enter(field, text);
  else form.assume(name, text);
  ask();
}

function start(request) {
  form.fill(request);
  before = null;
  return ask({ shown: true });
}

async function arrive() {
  const { request, answer, unreadable } = linked();
  if (request) await start(request);
  else if (answer) {
    try {
      const [stored] = await Promise.all([get(`/recommendations/${encodeURIComponent(answer)}`), named]);
      form.fill(narrowed(stored.request));
      before = null;
      render(stored);
      before = stored;
      at("permalink").hidden = false;
      at("permalink").href = linkTo(form.body());
      turnable(stored);
      fold();
    } catch (error) {
      complain(error);
    }
  } else await ask({ example: true });
  if (unreadable) at("problem").replaceChildren(element("p", { class: "error" }, "The link is incomplete, so its request cannot be read. Below is the example."));
}

async function suggest(event) {
  const text = event.target.value.trim();
  if (text.length < 2) return;
  const found = await models(text).catch(() => null);
  if (found) at("models").replaceChildren(...found.items.map((m) => element("option", { value: m.id })));
}

const models = latest((text, signal) => get(`/catalog/models?limit=12&q=${encodeURIComponent(text)}`, signal));

at("presets").append(...PRESETS.map(({ name, request }) => element("button", { type: "button", class: "preset", click: () => start(request) }, name)));
at("form").addEventListener("submit", (event) => {
  event.preventDefault();
  ask({ shown: true });
});
at("form").addEventListener("change", ({ target }) => at("answer").childElementCount && soon(60, { settled: true, changed: target.name }));
at("turn").addEventListener("change", (event) => event.stopPropagation()); // a slider has a request of its own
at("form").elements["workload.model"].addEventListener("input", suggest);
at("permalink").addEventListener("click", () => navigator.clipboard?.writeText(at("permalink").href).then(() => setStatus("Link copied."), () => null));
addEventListener("hashchange", arrive);
addEventListener("headroom:key", arrive);
wide.addEventListener("change", fold);
fold();
form.fill(PRESETS[0].request);
showPast(at("past"));
arrive();
