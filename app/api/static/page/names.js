// Display names of hardware, sellers and software, or the catalog key if there is none.
import { all, get } from "./api.js";

const TYPES = new Map();
// Hand-off targets, and hardware without a seller; the service has the names of sellers and software.
const SPELLED = { generic: "market price, no seller", dynamo: "Dynamo", dstack: "dstack", kserve: "KServe", "llm-d": "llm-d", skypilot: "SkyPilot", torchrun: "torchrun" };

async function read() {
  const [spelled, types] = await Promise.all([get("/pages/names.json"), all("/catalog/accelerators").catch(() => [])]);
  Object.assign(SPELLED, { ...spelled, ...SPELLED });
  for (const { slug, name } of types) TYPES.set(slug, name);
}

// Resolves when the names are loaded or cannot be loaded: without a key, some services refuse them.
export let named = read().catch(() => null);
addEventListener("headroom:key", () => (named = read().catch(() => null)));

export const typeOf = (accelerator) => TYPES.get(accelerator) ?? accelerator;

// The name without its maker, for labels of a drawing.
export const labelOf = (accelerator) => typeOf(accelerator).replace(/^(NVIDIA( GeForce)?|AMD|Intel|Google|Apple) /, "");

// Display name of a seller, an engine or a hand-off target.
export const called = (key) => SPELLED[key] ?? key.split("-").map((part) => part.charAt(0).toUpperCase() + part.slice(1)).join(" ");

const TERMS = { usd: "USD", ttft: "TTFT", tpot: "TPOT", e2e: "request", mfu: "MFU", kv: "KV" };
const UNITS = [[/ per s$/, "/s"], [/ ms$/, ", ms"], [/ s$/, ", s"], [/ gib$/, ", GiB"]];

// A quantity of the API in words: "ttft_p95_ms" is "TTFT p95, ms".
export function quantityName(name) {
  const spoken = name.split(".").at(-1).split("_").map((word) => TERMS[word] ?? word).join(" ");
  return UNITS.reduce((text, [suffix, unit]) => text.replace(suffix, unit), spoken).replace(/^[a-z]/, (c) => c.toUpperCase());
}

// Counts of hardware in texts of the service as the page writes them: 8 × NVIDIA H100.
export const counts = (text) => text.replace(/\b([\d,]+) x /g, "$1 × ");

// Number formats as their makers write them: BF16, FP8, INT4-AWQ.
export const formatName = (format) => format.toUpperCase();

// All accelerator types: [slug, name].
export const allTypes = async () => (await named, [...TYPES]);
