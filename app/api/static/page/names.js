// Hardware, sellers and software by the names they go by; where one is missing, by the catalogue's key.
import { get } from "./api.js";

const NAMES = new Map();
const SPELLED = {
  asus: "ASUS", aws: "AWS", "aws-sagemaker": "AWS SageMaker", coreweave: "CoreWeave", digitalocean: "DigitalOcean", fal: "fal", fireworks: "Fireworks AI",
  gcp: "Google Cloud", generic: "nobody yet, a market price", gigabyte: "GIGABYTE", gmicloud: "GMI Cloud", gmktec: "GMKtec", gpuhub: "GPUhub", hotaisle: "Hot Aisle", hpe: "HPE",
  latitude: "Latitude.sh", massedcompute: "Massed Compute", novita: "Novita AI", nvidia: "NVIDIA", oci: "Oracle Cloud", ovh: "OVHcloud", "packet-ai": "Packet.ai",
  primeintellect: "Prime Intellect", qubrid: "Qubrid AI", sambanova: "SambaNova", tensordock: "TensorDock", thundercompute: "Thunder Compute", together: "Together AI", vast: "Vast.ai",
  deepspeed: "DeepSpeed", fsdp: "FSDP", kserve: "KServe", "llama.cpp": "llama.cpp", lmdeploy: "LMDeploy", maxtext: "MaxText", mlx: "MLX", nemo: "NeMo", openvino: "OpenVINO",
  "peft+bitsandbytes": "PEFT + bitsandbytes", pytorch: "PyTorch", sglang: "SGLang", skypilot: "SkyPilot", "tensorrt-llm": "TensorRT-LLM", tgi: "TGI", torchrun: "torchrun",
  torchtitan: "TorchTitan", trl: "TRL", vllm: "vLLM", dstack: "dstack",
};

async function read() {
  let after = "";
  do {
    const page = await get(`/catalog/accelerators?limit=200${after}`);
    for (const { slug, name } of page.items) NAMES.set(slug, name);
    after = page.next_cursor ? `&cursor=${encodeURIComponent(page.next_cursor)}` : "";
  } while (after);
}

// Settled once the names are read, or cannot be.
export const named = read().catch(() => null);

export const typeOf = (accelerator) => NAMES.get(accelerator) ?? accelerator;

// Who sells it, what runs it, what it is handed to.
export const called = (key) => SPELLED[key] ?? key.split("-").map((part) => part.charAt(0).toUpperCase() + part.slice(1)).join(" ");
