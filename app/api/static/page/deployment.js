// Describes a deployment in words: identical replicas, or separate prefill and decode pools.
import { words } from "./dom.js";
import { called, formatName, typeOf } from "./names.js";

const pools = (d) => (d.pools ? [["Prefill", d.pools.prefill], ["Decode", d.pools.decode]] : [[null, d]]);

export function nameOf(r) {
  return pools(r.deployment).map(([, p]) => `${p.total_accelerators} × ${typeOf(p.accelerator)}`).join(" + ");
}

// All accelerator types that an answer ranks.
export const typesOf = (answer) => [...new Set(answer.recommendations.flatMap((r) => pools(r.deployment).map(([, p]) => p.accelerator)))];

// Seller and pricing model; "generic" is a market price without a particular seller.
function offer(d) {
  if (!d.offer) return "no price";
  const { provider, region, pricing_model } = d.offer;
  if (pricing_model === "owned") return provider === "generic" ? "bought" : `bought from ${called(provider)}`;
  return [`rented from ${called(provider)}`, region === "unspecified" ? null : region, words(pricing_model)].filter(Boolean).join(", ");
}

export function offerOf(r) {
  return [...new Set(pools(r.deployment).map(([, p]) => offer(p)))].join("; ");
}

const counted = (count, thing) => `${count} ${thing}${count === 1 ? "" : "s"}`;

function layout(d) {
  const degrees = [["tensor parallel", d.tensor_parallel], ["pipeline parallel", d.pipeline_parallel], ["expert parallel", d.expert_parallel], ["data parallel", d.data_parallel], ["context parallel", d.context_parallel]]
    .filter(([, n]) => n > 1).map(([name, n]) => `${name} ${n}`);
  const spare = d.spare_replicas ? ` and ${d.spare_replicas} spare` : "";
  const replicas = d.replicas > 1 || spare ? `${counted(d.replicas, "replica")}${spare}, ${counted(d.accelerators_per_replica, "accelerator")} each` : `1 replica with ${counted(d.accelerators_per_replica, "accelerator")}`;
  const formats = [d.weight_format ? `weights in ${formatName(d.weight_format)}` : null, d.kv_format ? `KV cache in ${formatName(d.kv_format)}` : null, d.activation_checkpointing ? `activation checkpointing: ${words(d.activation_checkpointing)}` : null];
  return [counted(d.nodes, "machine"), replicas, degrees.join(", "), ...formats].filter(Boolean).join("; ");
}

export function layoutOf(r) {
  const d = r.deployment;
  const layouts = pools(d).map(([pool, p]) => `${pool ? `${pool} pool, ${typeOf(p.accelerator)}: ` : ""}${layout(p)}.`).join(" ");
  return `${called(d.engine ?? d.framework)}. ${layouts}`;
}
