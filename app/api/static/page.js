"use strict";
const form = document.getElementById("form");
const answer = document.getElementById("answer");
const accuracy = document.getElementById("accuracy");

function element(tag, text, className) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

function show(value, digits = 3) {
  if (value === null || value === undefined) return "–";
  return Number(value).toLocaleString("en", { maximumSignificantDigits: digits });
}

function phase() {
  return form.elements.phase.value;
}

function showPhase() {
  for (const part of document.querySelectorAll("[data-phase]")) {
    part.hidden = !part.dataset.phase.split(" ").includes(phase());
  }
}

function body() {
  const f = form.elements;
  const workload = { phase: phase(), model: f.model.value.trim() };
  if (phase() === "inference") {
    workload.traffic = {
      users: { count: Number(f.users.value), requests_per_hour_each: Number(f.requests.value) },
      input_tokens: Number(f.input.value),
      output_tokens: Number(f.output.value),
    };
  } else {
    workload.training_tokens = Number(f.tokens.value);
    workload.sequence_length = Number(f.sequence.value);
    workload.deadline_days = Number(f.days.value);
    if (phase() === "fine_tuning") workload.method = f.method.value;
  }
  const constraints = f.where.value ? { environments: [f.where.value] } : {};
  return { workload, constraints, objective: f.objective.value };
}

function bar(memory) {
  const made = element("div", undefined, "bar");
  const parts = memory.per_accelerator_gib;
  const kept = ["weights", "kv_cache", "activations", "overhead", "gradients", "optimizer"];
  made.title = kept.map((k) => `${k} ${show(parts[k])} GiB`).join(", ") + ` of ${show(parts.capacity)} GiB`;
  for (const size of [parts.weights, parts.kv_cache, parts.activations + parts.gradients, parts.overhead + parts.optimizer]) {
    const piece = element("span");
    piece.style.width = `${(100 * size) / parts.capacity}%`;
    made.append(piece);
  }
  return made;
}

function row(r) {
  const d = r.deployment;
  const c = r.cost;
  const p = r.performance;
  const made = element("tr");
  const where = d.offer ? `${d.offer.provider}, ${d.offer.region}, ${d.offer.pricing_model}` : "no price";
  made.append(element("td", r.rank));
  made.append(element("td", `${d.total_accelerators} × ${d.accelerator}`));
  made.append(element("td", where));
  const memory = element("td");
  memory.append(bar(r.memory));
  made.append(memory);
  const speed = p.tokens_per_s ?? p.output_tokens_per_s ?? p.samples_per_s;
  made.append(element("td", show(speed), "number"));
  const wait = p.days !== undefined ? `${show(p.days)} days` : p.tpot_ms ? `${show(p.tpot_ms.p95)} ms/token` : p.e2e_ms ? `${show(p.e2e_ms.p95)} ms` : "–";
  made.append(element("td", wait, "number"));
  made.append(element("td", show(c.usd_per_hour), "number"));
  made.append(element("td", c.usd_total !== null ? show(c.usd_total) : show(c.usd_per_million_tokens ?? c.usd_per_million_samples), "number"));
  return made;
}

function render(a) {
  answer.replaceChildren(element("h2", "Answer"), element("p", a.summary));
  for (const w of a.warnings) answer.append(element("p", w.text, "warning"));
  if (a.recommendations.length) {
    const table = element("table");
    const head = element("tr");
    for (const name of ["", "Hardware", "From", "Memory", "Per second", "p95 / duration", "USD/h", "USD per million or run"]) {
      head.append(element("th", name));
    }
    table.append(head, ...a.recommendations.map(row));
    const scroll = element("div", undefined, "scroll");
    scroll.append(table);
    answer.append(scroll, element("h3", "Why the first"));
    const list = element("ul");
    for (const reason of a.recommendations[0].explanation) list.append(element("li", reason.text));
    answer.append(list);
  }
  if (a.sensitivity.length) {
    const list = element("ul");
    for (const s of a.sensitivity) list.append(element("li", `${s.change}: ${s.effect}`));
    answer.append(element("h3", "What if"), list);
  }
  const turned = element("details");
  turned.append(element("summary", `Turned down: ${Object.values(a.rejected_by_code).reduce((x, y) => x + y, 0)} types`));
  const list = element("ul");
  for (const r of a.rejected) list.append(element("li", r.text));
  turned.append(list);
  answer.append(turned, element("p", `Snapshot ${a.catalog.snapshot}, prices as of ${a.catalog.prices_as_of}, answer ${a.id}`));
}

function percent(share) {
  return `${Math.round(100 * share)} %`;
}

function slice(s) {
  const made = element("tr");
  made.append(element("td", s.metric.replaceAll("_", " ")), element("td", s.value));
  for (const value of [s.rows, s.sources, percent(s.unseen_source.median), percent(s.coverage), s.width.toFixed(1), percent(s.kept)]) {
    made.append(element("td", value, "number"));
  }
  return made;
}

accuracy.addEventListener("toggle", async () => {
  if (!accuracy.open || accuracy.querySelector("table")) return;
  const response = await fetch("/accuracy");
  if (!response.ok) return;
  const found = await response.json();
  const table = element("table");
  const head = element("tr");
  for (const name of ["Quantity", "Family", "Results", "Sources", "Median error", "In interval", "High / low", "Kept"]) {
    head.append(element("th", name));
  }
  table.append(head, ...found.overall.map(slice), ...found.by.accelerator_family.map(slice));
  const scroll = element("div", undefined, "scroll");
  scroll.append(table);
  accuracy.append(scroll);
});

form.addEventListener("change", showPhase);
form.addEventListener("submit", async (event) => {
  event.preventDefault();
  answer.replaceChildren(element("p", "Sizing…"));
  try {
    const response = await fetch("/recommend", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(body()),
    });
    const result = await response.json();
    if (response.ok) render(result);
    else {
      answer.replaceChildren(element("p", result.detail, "error"));
      for (const e of result.errors ?? []) answer.append(element("p", `${e.pointer}: ${e.detail}`, "error"));
    }
  } catch {
    answer.replaceChildren(element("p", "The service did not answer.", "error"));
  }
});

form.elements.model.addEventListener("input", async (event) => {
  const text = event.target.value.trim();
  if (text.length < 2) return;
  const response = await fetch(`/catalog/models?limit=12&q=${encodeURIComponent(text)}`);
  if (!response.ok) return;
  const options = (await response.json()).items.map((m) => {
    const option = element("option");
    option.value = m.id;
    return option;
  });
  document.getElementById("models").replaceChildren(...options);
});
showPhase();
