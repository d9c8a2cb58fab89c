// Compares options for one workload, or one model in several phases.
import { post } from "../api.js";
import { comparisonOf, MOST_COMPARED } from "../compared.js";
import { during, element } from "../dom.js";
import { choice, field, form, hardware, input, number, requestChooser, values, view } from "../kit.js";
import { called, named } from "../names.js";
import { requests } from "../past.js";
import { PRESETS } from "../presets.js";

const found = element("div", { "aria-live": "polite" });
const chooser = requestChooser(requests(PRESETS));
const rows = element("div", {});
let made = 0;

// An option: hardware that the reader names, or the best option within limits.
function optionRow(kind, filled = {}) {
  const id = ++made;
  const withId = (control, name) => ((control.id = `${name}-${id}`), control);
  const kinds = withId(choice("kind", [["deployment", "this hardware"], ["best", "the best option"]]), "kind");
  const own = element("div", { class: "fields" }, field("Accelerator", withId(hardware("accelerator"), "accelerator")), field("How many", withId(number("count"), "count")), field("Engine or framework", withId(input("engine"), "engine"), "Omit it to let the service choose."));
  const best = element("div", { class: "fields" }, field("Where", withId(choice("environment", [["", "anywhere"], ["cloud", "cloud"], ["on_prem", "own machines"]]), "environment")), field("Vendor", withId(input("vendor"), "vendor")), field("Accelerator", withId(hardware("only"), "only")));
  const name = withId(input("name"), "name");
  const row = element("fieldset", { class: "option" }, element("legend", {}, `Option ${id}`), element("div", { class: "fields" }, field("Compare", kinds), own, best, field("Name (optional)", name),
    element("button", { type: "button", class: "low", click: () => rows.children.length > 2 && row.remove() }, "Remove")));
  const arrange = () => ([own.hidden, best.hidden] = [kinds.value !== "deployment", kinds.value === "deployment"]);
  kinds.addEventListener("change", arrange);
  kinds.value = kind;
  for (const [key, value] of Object.entries(filled)) row.querySelector(`[name=${key}]`).value = value;
  arrange();
  return row;
}

function optionOf(row, phase) {
  const { kind, accelerator, count, engine, environment, vendor, only, name } = values(row);
  if (kind === "deployment") {
    const deployment = { accelerator, total_accelerators: count, [phase === "inference" ? "engine" : "framework"]: engine };
    return { name: name ?? `${count ?? ""} × ${accelerator ?? "?"}${engine ? `, ${called(engine)}` : ""}`.slice(0, 60), deployment };
  }
  const constraints = { ...(environment ? { environments: [environment] } : {}), ...(vendor ? { vendors: [vendor] } : {}), ...(only ? { accelerators: [only] } : {}) };
  return { name: name ?? `Best: ${[environment && { cloud: "cloud", on_prem: "own machines" }[environment], vendor, only].filter(Boolean).join(", ") || "anywhere"}`, constraints };
}

async function options() {
  const { workload, economics, assumptions, as_of } = chooser.request();
  const compared = [...rows.children].map((row) => optionOf(row, workload.phase));
  const [answer] = await Promise.all([post("/compare", { workload, economics, assumptions, as_of, options: compared }), named]);
  return comparisonOf(answer);
}

async function phases(asked) {
  const { model, training_tokens, tuning_tokens, requests_per_s, input_tokens, output_tokens } = values(asked);
  const body = { model, phases: {
    ...(training_tokens ? { training: { training_tokens } } : {}), ...(tuning_tokens ? { fine_tuning: { training_tokens: tuning_tokens, method: "lora" } } : {}),
    ...(requests_per_s ? { inference: { traffic: { peak_requests_per_s: requests_per_s, input_tokens: input_tokens ?? 1000, output_tokens: output_tokens ?? 300 } } } : {}),
  } };
  const [answer] = await Promise.all([post("/compare", body), named]);
  return comparisonOf(answer);
}

rows.append(optionRow("best", { environment: "cloud" }), optionRow("best", { environment: "on_prem" }));
const byOption = form([chooser.made, rows], () => during(found, options), "Compare", element("button", { type: "button", click: () => rows.children.length < MOST_COMPARED && rows.append(optionRow("deployment")) }, "Add an option"));
const byPhase = form([field("Model", input("model", { value: "llama-3.1-8b" })), field("Pretraining tokens", number("training_tokens")), field("LoRA fine-tuning tokens", number("tuning_tokens")), field("Requests per second", number("requests_per_s")), field("Input tokens", number("input_tokens")), field("Output tokens", number("output_tokens"))], (asked) => during(found, () => phases(asked)), "Compare phases");
view.replaceChildren(byOption, element("details", {}, element("summary", {}, "Compare training, fine-tuning and serving of one model"), byPhase), found);
