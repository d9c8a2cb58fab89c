// Sliders over the decisive numbers of a question: a tenth to ten times what was asked.
import { element } from "./dom.js";
import { written } from "./numbers.js";

const KNOBS = [
  "workload.traffic.users.count", "workload.traffic.peak_requests_per_s", "workload.traffic.concurrent_requests", "workload.traffic.samples_per_s",
  "workload.traffic.input_tokens.mean", "workload.traffic.output_tokens.mean", "workload.slo.ttft_ms", "workload.slo.tpot_ms", "workload.slo.e2e_ms",
  "workload.training_tokens", "workload.deadline_days",
];
const WHOLE = ["users.count", "concurrent_requests"];

export function knobs(form, turned) {
  const made = KNOBS.map((path) => [path, form.number(path)]).filter(([, value]) => value > 0).map(([path, base]) => {
    const reading = element("output", {}, written(base));
    const range = element("input", { type: "range", min: -1, max: 1, step: 0.02, value: 0, "aria-label": form.label(path), "data-path": path });
    range.addEventListener("input", () => {
      const exact = base * 10 ** Number(range.value);
      const value = WHOLE.some((w) => path.endsWith(w)) ? Math.max(1, Math.round(exact)) : Number(exact.toPrecision(3));
      form.put(path, value);
      reading.value = written(value);
      range.setAttribute("aria-valuetext", written(value));
      turned();
    });
    return element("label", { class: "knob" }, element("span", {}, form.label(path)), range, reading);
  });
  return made;
}
