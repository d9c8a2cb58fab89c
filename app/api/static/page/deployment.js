// Describes a deployment in words: identical replicas, or separate prefill and decode pools.
import { show, words } from "./dom.js";
import { called, formatName, typeOf } from "./names.js";

const pools = (d) => (d.pools ? [["Prefill", d.pools.prefill], ["Decode", d.pools.decode]] : [[null, d]]);

export function nameOf(r) {
  return pools(r.deployment).map(([, p]) => `${p.total_accelerators} × ${typeOf(p.accelerator)}`).join(" + ");
}

// The accelerator types of the first five options.
export const typesOf = (answer) => [...new Set(answer.recommendations.slice(0, 5).flatMap((r) => pools(r.deployment).map(([, p]) => p.accelerator)))];

// Owned hardware without a seller; "generic" is a market price.
const OWNED = { generic: "bought", inventory: "from your inventory" };

// Seller and pricing model in words.
function offer(d) {
  if (!d.offer) return "no price";
  const { provider, region, pricing_model } = d.offer;
  if (pricing_model === "owned") return OWNED[provider] ?? `bought from ${called(provider)}`;
  return [`rented from ${called(provider)}`, region === "unspecified" ? null : region, words(pricing_model)].filter(Boolean).join(", ");
}

// The same in a column.
function seller({ offer: o }) {
  if (!o) return "no price";
  return o.pricing_model === "owned" ? (OWNED[o.provider] ?? called(o.provider)) : `${called(o.provider)}, ${words(o.pricing_model)}`;
}

const ofPools = (r, text) => [...new Set(pools(r.deployment).map(([, p]) => text(p)))].join("; ");
export const offerOf = (r) => ofPools(r, offer);
export const sellerOf = (r) => ofPools(r, seller);

export const counted = (count, thing) => `${show(count)} ${thing}${count === 1 ? "" : "s"}`;

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
