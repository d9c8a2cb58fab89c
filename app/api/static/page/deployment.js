// A deployment in words: one kind of machine, or a pool that reads prompts beside one that writes answers.
import { words } from "./dom.js";
import { called, typeOf } from "./names.js";

const pools = (d) => (d.pools ? [["prompts", d.pools.prefill], ["answers", d.pools.decode]] : [[null, d]]);

export function nameOf(r) {
  return pools(r.deployment).map(([, p]) => `${p.total_accelerators} × ${typeOf(p.accelerator)}`).join(" + ");
}

// Every type of accelerator that an answer ranks.
export const typesOf = (answer) => [...new Set(answer.recommendations.flatMap((r) => pools(r.deployment).map(([, p]) => p.accelerator)))];

// Who sells it and how; "generic" is a market price that no one seller stands for.
function offer(d) {
  if (!d.offer) return "no price";
  const { provider, region, pricing_model } = d.offer;
  if (pricing_model === "owned") return provider === "generic" ? "bought" : `bought from ${called(provider)}`;
  return [`rented from ${called(provider)}`, region === "unspecified" ? null : region, words(pricing_model)].filter(Boolean).join(", ");
}

export function offerOf(r) {
  return [...new Set(pools(r.deployment).map(([, p]) => offer(p)))].join("; ");
}

function layout(d) {
  const degrees = [["tensor", d.tensor_parallel], ["pipeline", d.pipeline_parallel], ["expert", d.expert_parallel], ["data", d.data_parallel], ["context", d.context_parallel]]
    .filter(([, n]) => n > 1).map(([name, n]) => `${name} ${n}`);
  const spare = d.spare_replicas ? ` and ${d.spare_replicas} spare` : "";
  const replicas = d.replicas > 1 || spare ? `${d.replicas} replicas${spare}, each of ${d.accelerators_per_replica}` : `one replica of ${d.accelerators_per_replica}`;
  const formats = [d.weight_format ? `weights ${d.weight_format}` : null, d.kv_format ? `cache ${d.kv_format}` : null, d.activation_checkpointing ? `recomputation ${d.activation_checkpointing}` : null];
  return [`${d.nodes} ${d.nodes === 1 ? "machine" : "machines"}`, replicas, degrees.length ? `${degrees.join(", ")} parallel` : null, ...formats].filter(Boolean).join("; ");
}

export function layoutOf(r) {
  const d = r.deployment;
  const told = pools(d).map(([does, p]) => `${does ? `For ${does}, ${typeOf(p.accelerator)}: ` : ""}${layout(p)}.`).join(" ");
  return `${called(d.engine ?? d.framework)}. ${told}`;
}
