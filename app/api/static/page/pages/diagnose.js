// Diagnoses a service or a training run from pasted metrics, a log, or single figures.
import { post } from "../api.js";
import { about, during, element, list, money, section, show, table, words } from "../dom.js";
import { dropBox, field, form, hardware, input, number, requestChooser, values, view } from "../kit.js";
import { named, quantityName } from "../names.js";
import { requests } from "../past.js";
import { PRESETS } from "../presets.js";

const SERVICE = [["requests_per_s", "Requests/s"], ["output_tokens_per_s", "Output tokens/s"], ["ttft_p95_ms", "TTFT p95, ms"], ["tpot_p95_ms", "TPOT p95, ms"], ["running", "Running requests of a replica"], ["preemptions_per_request", "Preemptions per request"]];
const TRAINING = [["tokens_per_s", "Tokens/s"], ["step_time_s", "Step time, s"], ["memory_peak_gib", "Peak memory, GiB"], ["input_s", "Wait for data, s per step"]];
const found = element("div", { "aria-live": "polite" });
const box = dropBox("Metrics or a log", { hint: "Prometheus metrics of vLLM, SGLang, TGI, TensorRT-LLM or DCGM; a log of a server, a start or a training run; an out-of-memory error.", placeholder: "vllm:num_requests_running 12" });

// Metrics are Prometheus text or JSON of its query API; anything else is a log.
const isMetrics = (text) => /^# (HELP|TYPE) /m.test(text) || /^\s*\{"status":/.test(text) || /^[a-zA-Z_:]\w*[\w:]*(\{[^}]*\})? [\d.eE+-]+\s*$/m.test(text);

const percent = (share) => (share === null || share === undefined ? "Cost unknown" : `Costs ${show(100 * share, 2)} %`);

const settingsOf = (settings) => (Object.keys(settings ?? {}).length ? ` with ${Object.entries(settings).map(([name, value]) => `${words(name)} ${value ?? "default"}`).join(", ")} alone` : "");

const finding = (f) => element("article", { class: "card" },
  element("h3", {}, element("span", { class: "rank" }, f.rank), ` ${f.text}`), element("p", {}, `${percent(f.costs.share)}${f.costs.usd_per_month ? `, ${money(f.costs.usd_per_month)} per month` : ""}. ${f.cause}`), element("p", {}, element("strong", {}, f.change.text), f.change.gain_share ? ` Gain${settingsOf(f.change.settings)}: ${show(100 * f.change.gain_share, 2)} %.` : ""),
  f.do_not_buy ? element("p", { class: "warning" }, `Do not buy ${f.do_not_buy}.`) : null,
  f.evidence.length ? table(["Quantity", "Observed", "Expected", "Unit"], f.evidence.map((e) => [quantityName(e.quantity), e.observed, e.expected ?? null, e.unit === "1" ? "" : e.unit]), `Evidence: ${words(f.code)}`) : null);

function result(answer) {
  const { expected } = answer;
  const rows = ["ttft_ms", "tpot_ms", "e2e_ms"].filter((k) => expected[k]?.p50).map((k) => [quantityName(k), about(expected[k].p50), about(expected[k].p95)]);
  return [
    element("p", { class: answer.healthy === false ? "warning" : "summary" }, answer.summary),
    element("div", { class: "cards" }, ...answer.findings.map(finding)),
    rows.length ? section("Expected at this load", table(["Latency", "p50", "p95"], rows, "Expected")) : null,
    answer.read?.length ? section("Values read from the text", table(["Quantity", "Value", "Unit", "From"], answer.read.map((r) => [quantityName(r.quantity), r.value, r.unit === "1" ? "" : r.unit, r.from]), "Values read")) : null,
    answer.not_read && answer.not_read.metrics + answer.not_read.lines ? element("p", { class: "source" }, `Not used: ${answer.not_read.metrics} metrics and ${answer.not_read.lines} lines, such as ${answer.not_read.first.slice(0, 3).join("; ")}.`) : null,
    answer.notes?.length ? list(answer.notes) : null,
  ];
}

const part = (given, fields) => Object.fromEntries(fields.filter(([name]) => given[name] !== undefined).map(([name]) => [name, given[name]]));

async function diagnose(asked) {
  const { workload } = chooser.request();
  const given = values(asked);
  const [service, training] = [part(given, SERVICE), part(given, TRAINING)];
  const observed = {
    ...(given.pasted ? { [isMetrics(given.pasted) ? "exposition" : "log"]: given.pasted } : {}), ...(given.at_s ? { at_s: given.at_s } : {}),
    ...(Object.keys(service).length ? { service } : {}), ...(Object.keys(training).length ? { training } : {}),
  };
  const software = workload.phase === "inference" ? "engine" : "framework";
  const deployment = { accelerator: given.accelerator ?? "", total_accelerators: given.count, [software]: given.software, weight_format: given.weight_format };
  const [answer] = await Promise.all([post("/diagnose", { workload, deployment, observed }), named]);
  return result(answer);
}

const figures = { service: element("div", { class: "fields" }, ...SERVICE.map(([name, label]) => field(label, number(name)))), training: element("div", { class: "fields" }, ...TRAINING.map(([name, label]) => field(label, number(name)))) };
const arrange = () => {
  const serving = chooser.request().workload.phase === "inference";
  [figures.service.hidden, figures.training.hidden] = [!serving, serving];
};
const chooser = requestChooser(requests(PRESETS), arrange);
const asking = form([
  chooser.made,
  element("fieldset", {}, element("legend", {}, "What runs"), element("div", { class: "fields" }, field("Accelerator", hardware("accelerator")), field("How many", number("count")), field("Engine or framework", input("software", { placeholder: "vllm" })), field("Weight format", input("weight_format", { placeholder: "fp8" })))),
  element("fieldset", { class: "grow" }, element("legend", {}, "What you observe"), box.made, element("details", {}, element("summary", {}, "Or single figures"), figures.service, figures.training, field("Time of the metrics, seconds since 1970", number("at_s"), "Rates need it, or two scrapes."))),
], (made) => during(found, () => diagnose(made)), "Diagnose");
view.replaceChildren(asking, found);
arrange();
