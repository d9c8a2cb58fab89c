"""Formats numbers and counts for sentences: three significant digits, no exponents, singular for one."""

from __future__ import annotations

import math
from collections.abc import Sequence

from app.sizing.columns import HOURS_PER_DAY, TINY

PRODUCTS = {
    "accelerate": "Accelerate",
    "autoawq": "AutoAWQ",
    "autotrain": "AutoTrain",
    "axolotl": "Axolotl",
    "cambricon-bangtransformer": "Cambricon BangTransformer",
    "cerebras": "Cerebras",
    "colossalai": "Colossal-AI",
    "ctranslate2": "CTranslate2",
    "deepspeed": "DeepSpeed",
    "deepspeed-mii": "DeepSpeed-MII",
    "diffusers": "Diffusers",
    "efficient-transformers": "Efficient Transformers",
    "exllamav2": "ExLlamaV2",
    "exllamav3": "ExLlamaV3",
    "fastertransformer": "FasterTransformer",
    "fsdp": "FSDP",
    "fsdp_qlora": "FSDP-QLoRA",
    "gpt-neox": "GPT-NeoX",
    "groq-api": "Groq API",
    "internevo": "InternEvo",
    "ipex-llm": "IPEX-LLM",
    "jetstream": "JetStream",
    "ktransformers": "KTransformers",
    "lightllm": "LightLLM",
    "lightning": "PyTorch Lightning",
    "litgpt": "LitGPT",
    "llama-factory": "LLaMA-Factory",
    "llama.cpp": "llama.cpp",
    "llm-foundry": "LLM Foundry",
    "lmdeploy": "LMDeploy",
    "maxtext": "MaxText",
    "megatron": "Megatron-LM",
    "megatron-deepspeed": "Megatron-DeepSpeed",
    "mindie": "MindIE",
    "mindspeed": "MindSpeed",
    "mlc-llm": "MLC LLM",
    "mlx": "MLX",
    "nemo": "NeMo",
    "nemo-automodel": "NeMo AutoModel",
    "neuronx": "NeuronX",
    "nvidia-dynamo": "NVIDIA Dynamo",
    "ollama": "Ollama",
    "onnxruntime": "ONNX Runtime",
    "open-instruct": "Open Instruct",
    "openrlhf": "OpenRLHF",
    "openvino": "OpenVINO",
    "optimum-habana": "Optimum Habana",
    "optimum-neuron": "Optimum Neuron",
    "peft+bitsandbytes": "PEFT with bitsandbytes",
    "primus": "Primus",
    "pytorch": "PyTorch",
    "sambaflow": "SambaFlow",
    "sglang": "SGLang",
    "tensorrt": "TensorRT",
    "tensorrt-llm": "TensorRT-LLM",
    "text-embeddings-inference": "Text Embeddings Inference",
    "tgi": "TGI",
    "torchtitan": "TorchTitan",
    "transformers": "Transformers",
    "trl": "TRL",
    "tt-metal": "TT-Metal",
    "unsloth": "Unsloth",
    "vllm": "vLLM",
    "xtuner": "XTuner",
    "zhilight": "ZhiLight",
}
PROVIDERS = {
    "akash": "Akash Network",
    "aws": "Amazon Web Services",
    "aws-sagemaker": "Amazon SageMaker",
    "azure": "Microsoft Azure",
    "baseten": "Baseten",
    "cerebrium": "Cerebrium",
    "coreweave": "CoreWeave",
    "crusoe": "Crusoe",
    "digitalocean": "DigitalOcean",
    "fal": "fal",
    "fireworks": "Fireworks AI",
    "gcp": "Google Cloud",
    "genesis-cloud": "Genesis Cloud",
    "gmicloud": "GMI Cloud",
    "gpuhub": "GPUhub",
    "hotaisle": "Hot Aisle",
    "hyperstack": "Hyperstack",
    "jarvislabs": "Jarvislabs",
    "koyeb": "Koyeb",
    "lambda": "Lambda",
    "latitude": "Latitude.sh",
    "massedcompute": "Massed Compute",
    "modal": "Modal",
    "nebius": "Nebius",
    "novita": "Novita AI",
    "oci": "Oracle Cloud",
    "ovh": "OVHcloud",
    "packet-ai": "Packet.ai",
    "primeintellect": "Prime Intellect",
    "qubrid": "Qubrid AI",
    "replicate": "Replicate",
    "runpod": "Runpod",
    "salad": "Salad",
    "scaleway": "Scaleway",
    "shadeform": "Shadeform",
    "spheron": "Spheron",
    "tensordock": "TensorDock",
    "thundercompute": "Thunder Compute",
    "together": "Together AI",
    "vast": "Vast.ai",
    "verda": "Verda",
    "vultr": "Vultr",
    "apple": "Apple",
    "asus": "ASUS",
    "cerebras": "Cerebras",
    "cisco": "Cisco",
    "dell": "Dell",
    "framework": "Framework",
    "generic": "A plain host",
    "gigabyte": "Gigabyte",
    "gmktec": "GMKtec",
    "groq": "Groq",
    "hpe": "HPE",
    "huawei": "Huawei",
    "intel": "Intel",
    "lenovo": "Lenovo",
    "nvidia": "NVIDIA",
    "quanta": "Quanta",
    "sambanova": "SambaNova",
    "supermicro": "Supermicro",
    "tenstorrent": "Tenstorrent",
}
# Hosts of model APIs that rent out no machines.
API_HOSTS = {
    "ai21": "AI21 Labs",
    "aws-bedrock": "Amazon Bedrock",
    "azure-ai": "Azure AI",
    "cohere": "Cohere",
    "dashscope": "Alibaba Cloud DashScope",
    "deepinfra": "DeepInfra",
    "deepseek": "DeepSeek",
    "friendliai": "FriendliAI",
    "gmi": "GMI Cloud",
    "google-vertex": "Google Vertex AI",
    "minimax": "MiniMax",
    "mistral": "Mistral AI",
    "moonshot": "Moonshot AI",
    "nscale": "Nscale",
    "ovhcloud": "OVHcloud",
    "tensormesh": "Tensormesh",
    "wandb": "Weights & Biases",
    "watsonx": "IBM watsonx",
    "zai": "Z.ai",
}


def product_name(slug: str) -> str:
    """An engine's or framework's name as its maker writes it; a slug that is not listed stays as it is."""
    return PRODUCTS.get(slug, slug)


def provider_name(slug: str) -> str:
    """A provider's, maker's or API host's name; a slug that is not listed stays as it is."""
    return PROVIDERS.get(slug) or API_HOSTS.get(slug, slug)


def format_name(slug: str) -> str:
    """A number format in upper case: "FP8", "BF16", "INT4-AWQ", "GGUF-Q4_K_M"."""
    return slug.upper()


LARGE_UNITS = ((1e12, "trillion"), (1e9, "billion"), (1e6, "million"))
MINUTES_PER_HOUR = 60
DIGITS, MAX_DIGITS = 3, 9


def format_number(value: float, digits: int = DIGITS) -> str:
    """A number as text: whole with thousands separators from 100 up, else three significant digits."""
    if abs(value) >= 10 ** (digits - 1) or value == 0:
        return f"{value:,.0f}"
    places = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    return f"{value:,.{places}f}".rstrip("0").rstrip(".") if places else f"{value:,.0f}"


def percent(share: float, digits: int = 0) -> str:
    """A share from 0 to 1 as a percentage with a space before the sign: "80 %"."""
    return f"{share * 100:,.{digits}f} %"


def format_distinct_numbers(first: float, second: float) -> tuple[str, str]:
    """Two numbers as text, with as many digits as it takes to distinguish them."""
    for digits in range(DIGITS, MAX_DIGITS):
        if format_number(first, digits) != format_number(second, digits):
            return format_number(first, digits), format_number(second, digits)
    return format_number(first, MAX_DIGITS), format_number(second, MAX_DIGITS)


def format_distinct_amounts(first: float, second: float) -> tuple[str, str]:
    """Two amounts of money as text: whole from 100 up, else with cents; with more digits if they would look alike."""
    shown, other = (f"{value:,.0f}" if value >= 100 else f"{value:,.2f}" for value in (first, second))
    return (shown, other) if shown != other else format_distinct_numbers(first, second)


def format_large_number(value: float) -> str:
    """A large number in millions, billions or trillions."""
    for size, name in LARGE_UNITS:
        if value >= size:
            return f"{format_number(value / size)} {name}"
    return format_number(value)


def join_words(words: Sequence[str], last: str = "and") -> str:
    """A list as text: "a", "a and b", "a, b and c"."""
    return f" {last} ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def format_count(count: float, thing: str) -> str:
    """A count with its noun: "1 machine", "1,024 machines"."""
    return f"{count:,.0f} {thing if count == 1 else f'{thing}s'}"


def format_quantity(value: float, unit: str) -> str:
    """A quantity with its unit: "1 hour", "36 hours", "0.25 hours"."""
    shown = format_number(value)
    return f"{shown} {unit}" if shown == "1" else f"{shown} {unit}s"


def format_duration(days: float) -> str:
    """A duration in days, hours or minutes."""
    hours = days * HOURS_PER_DAY
    value, unit = (
        (days, "day") if days >= 2 else (hours, "hour") if hours >= 1 else (hours * MINUTES_PER_HOUR, "minute")
    )
    return format_quantity(value, unit)


def round_up_to_digits(value: float) -> float:
    """The smallest number with three significant digits that is at least a positive value."""
    if value <= 0:
        return 0.0
    step = 10.0 ** (math.floor(math.log10(value)) - DIGITS + 1)
    return float(f"{math.ceil(value / step * (1 - TINY)) * step:.12g}")
