// Your own measurements: upload a file, see what it states and what it changes, list and delete.
import { all, post, Problem, send } from "../api.js";
import { about, during, element, list, section, table } from "../dom.js";
import { dropBox, field, form, hardware, input, number, values, view } from "../kit.js";
import { named, quantityName, typeOf } from "../names.js";

const MISSING = [["model", "Model", input], ["accelerator", "Accelerator", hardware], ["accelerators", "How many", number], ["engine", "Engine or framework", input], ["engine_version", "Its version", input], ["weight_format", "Weight format", input], ["input_tokens", "Input tokens", number], ["output_tokens", "Output tokens", number], ["concurrent_requests", "Concurrent requests", number], ["method", "Training method", input], ["sequence_length", "Sequence length", number], ["global_batch_sequences", "Sequences per step", number]];
const box = dropBox("Result of a benchmark, or a training log", { hint: "vLLM, SGLang, GuideLLM, AIPerf, inference-perf, llama-bench, MLPerf or a trainer's log. The service recognizes the file." });
const result = element("div", { "aria-live": "polite" });
const listed = element("div", { "aria-live": "polite" });

const runText = (run) => [run.model, run.accelerator ? `${run.accelerators ?? 1} × ${typeOf(run.accelerator)}` : null, run.engine, run.weight_format, run.concurrent_requests ? `${run.concurrent_requests} concurrent` : null].filter(Boolean).join(", ");
const figureRows = (m) => m.figures.map((f) => [runText(m.run), quantityName(f.quantity), about(f.measured), about(f.predicted), `× ${about(f.measured / f.predicted, 2)}${f.cut ? " (counts only partly)" : ""}`]);
const figures = (items, caption) => table(["Run", "Quantity", "Measured", "Predicted without it", "Measured / predicted"], items.flatMap(figureRows), caption);

// The prediction of a measured service as the next answer would have it, or null for other runs.
async function prediction({ run }) {
  if (!run.concurrent_requests || !run.accelerator) return null;
  const { model, concurrent_requests, input_tokens, output_tokens, accelerator, accelerators, engine, weight_format, tensor_parallel } = run;
  const body = { workload: { phase: "inference", model, traffic: { concurrent_requests, input_tokens, output_tokens } }, deployment: { accelerator, total_accelerators: accelerators ?? 1, engine, weight_format, tensor_parallel } };
  return (await post("/estimate", body).catch(() => null))?.performance ?? null;
}

const query = (dry) => {
  const asked = values(details);
  return `/measurements?${new URLSearchParams({ ...asked, ...(dry ? { dry_run: true } : {}) })}`;
};

async function upload(dry) {
  const body = box.text.value;
  const type = /^\s*[{[]/.test(body) ? (body.trim().includes("\n{") ? "application/x-ndjson" : "application/json") : "text/plain";
  try {
    const { body: read } = await send("POST", query(true), { body, type });
    const before = dry ? [] : await Promise.all(read.measurements.map(prediction));
    const { body: answer } = dry ? { body: read } : await send("POST", query(false), { body, type });
    const after = dry ? [] : await Promise.all(answer.measurements.map(prediction));
    if (!dry) await during(listed, stored);
    const changes = answer.measurements.flatMap((m, i) => (before[i] && after[i] ? [[runText(m.run), about(before[i].output_tokens_per_s), about(after[i].output_tokens_per_s), about(before[i].tpot_ms?.p50), about(after[i].tpot_ms?.p50)]] : []));
    return [element("p", { class: "summary" }, answer.stored ? "Stored. Later answers use it." : "This is what the file states. Nothing is stored yet."), figures(answer.measurements, "Runs of the file"),
      changes.length ? section("What it changed", table(["Run", "Tokens/s before", "Tokens/s now", "TPOT p50 before, ms", "TPOT p50 now, ms"], changes, "Predictions before and after")) : null, answer.notes.length ? list(answer.notes) : null];
  } catch (problem) {
    const lacking = (problem.body?.missing ?? []).map((name) => details.querySelector(`[name="${name}"]`)).filter(Boolean);
    if (!lacking.length) throw problem;
    details.open = true;
    lacking[0].focus();
    throw new Problem({ detail: `The file does not state: ${lacking.map((control) => control.labels[0].textContent).join(", ")}. Fill these fields in.` });
  }
}

async function stored() {
  const [items] = await Promise.all([all("/measurements"), named]);
  if (!items.length) return element("p", {}, "Nothing is stored.");
  const remove = (m) => element("button", { type: "button", "aria-label": `Delete ${runText(m.run)} of ${m.day}`, click: () => during(listed, async () => (await send("DELETE", `/measurements/${m.id}`), stored())) }, "Delete");
  return table(["Day", "Run", "Measured / predicted", ""], items.map((m) => [m.day, runText(m.run), m.figures.map((f) => `${quantityName(f.quantity)} × ${about(f.measured / f.predicted, 2)}`).join(", "), remove(m)]), "Your measurements");
}

const details = element("details", {}, element("summary", {}, "What the file does not state"), element("div", { class: "fields" }, ...MISSING.map(([name, label, control]) => field(label, control(name)))));
const asking = form([box.made, details], () => during(result, () => upload(true)), "Check", element("button", { type: "button", click: () => during(result, () => upload(false)) }, "Store"));
view.replaceChildren(section("Upload", asking, result), section("Stored", listed));
addEventListener("headroom:key", () => during(listed, stored));
during(listed, stored);
