// Display names of hardware, sellers and software, or the catalog key if there is none.
import { all } from "./api.js";
import { about } from "./dom.js";

const NAMES = new Map();
const SPELLED = {
  asus: "ASUS", deepinfra: "DeepInfra", aws: "AWS", "aws-sagemaker": "AWS SageMaker", coreweave: "CoreWeave", digitalocean: "DigitalOcean", fal: "fal", fireworks: "Fireworks AI",
  gcp: "Google Cloud", generic: "market price, no seller", gigabyte: "GIGABYTE", gmicloud: "GMI Cloud", gmktec: "GMKtec", gpuhub: "GPUhub", hotaisle: "Hot Aisle", hpe: "HPE",
  latitude: "Latitude.sh", massedcompute: "Massed Compute", novita: "Novita AI", nvidia: "NVIDIA", oci: "Oracle Cloud", ovh: "OVHcloud", "packet-ai": "Packet.ai",
  primeintellect: "Prime Intellect", qubrid: "Qubrid AI", sambanova: "SambaNova", tensordock: "TensorDock", thundercompute: "Thunder Compute", together: "Together AI", vast: "Vast.ai",
  deepspeed: "DeepSpeed", fsdp: "FSDP", kserve: "KServe", "llama.cpp": "llama.cpp", lmdeploy: "LMDeploy", maxtext: "MaxText", mlx: "MLX", nemo: "NeMo", openvino: "OpenVINO",
  "peft+bitsandbytes": "PEFT + bitsandbytes", pytorch: "PyTorch", sglang: "SGLang", skypilot: "SkyPilot", "tensorrt-llm": "TensorRT-LLM", tgi: "TGI", torchrun: "torchrun",
  torchtitan: "TorchTitan", trl: "TRL", vllm: "vLLM", dstack: "dstack", dynamo: "Dynamo", "llm-d": "llm-d",
  ai21: "AI21 Labs", "aws-bedrock": "AWS Bedrock", "azure-ai": "Azure AI", dashscope: "DashScope", deepseek: "DeepSeek", friendliai: "FriendliAI", gmi: "GMI Cloud", "google-vertex": "Google Vertex AI", jarvislabs: "JarvisLabs", minimax: "MiniMax", mistral: "Mistral AI", moonshot: "Moonshot AI", ovhcloud: "OVHcloud", wandb: "Weights & Biases", watsonx: "watsonx", zai: "Z.ai",
};

async function read() {
  for (const { slug, name } of await all("/catalog/accelerators")) NAMES.set(slug, name);
}

// Resolves when the names are loaded or cannot be loaded: without a key, some services refuse them.
export let named = read().catch(() => null);
addEventListener("headroom:key", () => (named = read().catch(() => null)));

export const typeOf = (accelerator) => NAMES.get(accelerator) ?? accelerator;

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

// A published result and its prediction.
export const comparedText = ({ quantity, measured, predicted }) => `${quantityName(quantity ?? "value")}: measured ${about(measured)}, predicted ${about(predicted)}`;

// Number formats as their makers write them: BF16, FP8, INT4-AWQ.
export const formatName = (format) => format.toUpperCase();

// All accelerator types: [slug, name].
export const allTypes = async () => (await named, [...NAMES]);
