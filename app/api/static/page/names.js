// Display names of hardware, sellers and software, or the catalog key if there is none.
import { get } from "./api.js";

const NAMES = new Map();
const SPELLED = {
  asus: "ASUS", deepinfra: "DeepInfra", aws: "AWS", "aws-sagemaker": "AWS SageMaker", coreweave: "CoreWeave", digitalocean: "DigitalOcean", fal: "fal", fireworks: "Fireworks AI",
  gcp: "Google Cloud", generic: "market price, no seller", gigabyte: "GIGABYTE", gmicloud: "GMI Cloud", gmktec: "GMKtec", gpuhub: "GPUhub", hotaisle: "Hot Aisle", hpe: "HPE",
  latitude: "Latitude.sh", massedcompute: "Massed Compute", novita: "Novita AI", nvidia: "NVIDIA", oci: "Oracle Cloud", ovh: "OVHcloud", "packet-ai": "Packet.ai",
  primeintellect: "Prime Intellect", qubrid: "Qubrid AI", sambanova: "SambaNova", tensordock: "TensorDock", thundercompute: "Thunder Compute", together: "Together AI", vast: "Vast.ai",
  deepspeed: "DeepSpeed", fsdp: "FSDP", kserve: "KServe", "llama.cpp": "llama.cpp", lmdeploy: "LMDeploy", maxtext: "MaxText", mlx: "MLX", nemo: "NeMo", openvino: "OpenVINO",
  "peft+bitsandbytes": "PEFT + bitsandbytes", pytorch: "PyTorch", sglang: "SGLang", skypilot: "SkyPilot", "tensorrt-llm": "TensorRT-LLM", tgi: "TGI", torchrun: "torchrun",
  torchtitan: "TorchTitan", trl: "TRL", vllm: "vLLM", dstack: "dstack", dynamo: "Dynamo", "llm-d": "llm-d",
};

async function read() {
  let after = "";
  do {
    const page = await get(`/catalog/accelerators?limit=200${after}`);
    for (const { slug, name } of page.items) NAMES.set(slug, name);
    after = page.next_cursor ? `&cursor=${encodeURIComponent(page.next_cursor)}` : "";
  } while (after);
}

// Resolves when the names are loaded or cannot be loaded.
export const named = read().catch(() => null);

export const typeOf = (accelerator) => NAMES.get(accelerator) ?? accelerator;

// Display name of a seller, an engine or a hand-off target.
export const called = (key) => SPELLED[key] ?? key.split("-").map((part) => part.charAt(0).toUpperCase() + part.slice(1)).join(" ");

// Number formats as their makers write them: BF16, FP8, INT4-AWQ.
export const formatName = (format) => format.toUpperCase();
