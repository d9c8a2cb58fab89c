"""What a caller of the API probably meant by a field or a document that it does not take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson
from pydantic import BaseModel

from app.api.schemas.requests import EstimateRequest, RecommendRequest

# Fields that other tools have, by name: where the same is said here. Fields of the request come first in a sentence.
WEIGHTS, CACHE = "constraints.weight_formats (for example fp8 or int4-awq)", "constraints.kv_formats"
HARDWARE, BUDGET = "constraints.accelerators", "constraints.max_usd_per_hour or max_purchase_usd"
RATE = "workload.traffic.peak_requests_per_s"
ADAPTERS, IMAGES = "workload.adapters", "workload.traffic.images.per_request"
MISNAMED: Mapping[str, str] = {
    **dict.fromkeys(
        ("quantization", "quantisation", "quant", "precision", "dtype", "weight_format", "weights"), WEIGHTS
    ),
    **dict.fromkeys(("kv_cache_dtype", "kv_dtype", "cache_format"), CACHE),
    **dict.fromkeys(("gpu", "gpus", "gpu_type", "gpu_types", "gpu_name", "device", "hardware"), HARDWARE),
    **dict.fromkeys(("gpu_count", "num_gpus", "n_gpus", "max_gpus"), "constraints.max_accelerators"),
    **dict.fromkeys(("budget", "max_cost", "max_price", "price_limit"), BUDGET),
    **dict.fromkeys(("max_usd_per_month", "monthly_budget"), "constraints.max_usd_per_hour: USD per month / 730"),
    **dict.fromkeys(("requests_per_minute", "rpm"), f"{RATE}: requests per minute / 60"),
    **dict.fromkeys(("tokens_per_s", "tokens_per_second", "tps"), f"{RATE}: tokens per second / tokens of a request"),
    **dict.fromkeys(("lora", "loras", "num_loras", "lora_adapters", "max_loras"), ADAPTERS),
    **dict.fromkeys(("images_per_request", "num_images", "image_count"), IMAGES),
    **dict.fromkeys(("qps", "rps", "request_rate", "requests_per_second", "requests_per_s"), RATE),
    **dict.fromkeys(("concurrency", "max_concurrency", "num_users"), "workload.traffic.concurrent_requests"),
    **dict.fromkeys(("prompt_tokens", "isl", "input_length", "prompt_length"), "workload.traffic.input_tokens"),
    **dict.fromkeys(("completion_tokens", "max_tokens", "osl", "output_length"), "workload.traffic.output_tokens"),
    **dict.fromkeys(("latency_ms", "max_latency_ms"), "workload.slo.e2e_ms"),
    **dict.fromkeys(("max_model_len", "context_length", "context_window"), "workload.max_context_tokens"),
    **dict.fromkeys(("cloud", "clouds", "vendor_cloud"), "constraints.providers"),
    **dict.fromkeys(("spot", "reserved"), "constraints.pricing_models"),
    **dict.fromkeys(("epochs_tokens", "dataset_tokens", "num_tokens", "tokens"), "workload.training_tokens"),
}
# The same fields where a request describes its hardware in `deployment`.
OF_DEPLOYMENT: Mapping[str, str] = {
    WEIGHTS: "deployment.weight_format",
    CACHE: "deployment.kv_format",
    HARDWARE: "deployment.accelerator",
    "constraints.max_accelerators": "deployment.total_accelerators",
}
# Limits that a request cannot set, by a word of the field: what to do instead.
UNLIMITED: Mapping[str, str] = {
    **dict.fromkeys(
        ("rack", "racks"),
        "Racks, their space and power, cannot be limited; constraints.max_power_kw limits the total power",
    ),
    **dict.fromkeys(
        ("cooled", "cooling"),
        "Cooling cannot be limited; list liquid-cooled types in constraints.exclude_accelerators",
    ),
}
# Where only serving has fields.
OF_SERVING = ("workload.traffic", "workload.slo", "workload.adapters", "workload.max_context_tokens")
FOREIGN_CURRENCIES = {"currency", "eur", "euro", "euros", "gbp", "chf"}
PHASES_MEANT: Mapping[str, str] = {
    **dict.fromkeys(("serving", "serve", "chat", "deployment", "batch"), "inference"),
    **dict.fromkeys(("pretraining", "pre_training", "pretrain", "train", "continued_pretraining"), "training"),
    **dict.fromkeys(("finetuning", "finetune", "fine_tune", "sft", "lora", "qlora"), "fine_tuning"),
}
CURRENCY = (
    "Requests and answers are in USD. A bill of materials converts: "
    "GET /recommendations/{id}/bill-of-materials?currency=EUR&usd_rate=0.92&rate_date=2026-11-01"
)
# Keys of a model's config.json; two of them make a document one.
CONFIG_KEYS = ("architectures", "model_type", "hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size")
MIN_CONFIG_KEYS = 2


def explain_misnamed(name: str, root: type[BaseModel], *, serves: bool) -> str:
    """Where a field that other tools have belongs, in a request for serving or for training; empty for other names."""
    name = name.lower().replace("-", "_")
    words = name.split("_")
    if not FOREIGN_CURRENCIES.isdisjoint(words):
        return CURRENCY
    if unlimited := next((UNLIMITED[word] for word in words if word in UNLIMITED), ""):
        return unlimited
    place = MISNAMED.get(name, "")
    if not serves and place.startswith(OF_SERVING):
        return ""
    if "deployment" in root.model_fields:
        place = OF_DEPLOYMENT.get(place, place)
    return f"Send it as {place}" if place else ""


def phase_message(tag: str, accepted: str) -> str:
    """Message for an unknown phase, with the one that other names stand for; `accepted` lists the phases."""
    meant = PHASES_MEANT.get(tag.strip().lower().replace("-", "_").replace(" ", "_"))
    return (f"Did you mean {meant}? " if meant else "") + f"Accepted values: {accepted}"


def is_configuration(document: Any) -> bool:
    """Whether a document is a model's config.json."""
    return isinstance(document, dict) and sum(key in document for key in CONFIG_KEYS) >= MIN_CONFIG_KEYS


def first_stated(document: Any, *names: str) -> Any:
    """The first of several values that a document states at its top; None if it states none."""
    return next((document[name] for name in names if isinstance(document, dict) and name in document), None)


def smallest_request(root: type[BaseModel], document: Any) -> str:
    """The smallest request of a kind, with what a document states under other names; empty for other kinds."""
    if root not in (RecommendRequest, EstimateRequest):
        return ""
    rate = first_stated(document, *(name for name, place in MISNAMED.items() if place == RATE))
    model = first_stated(document, "model", "model_id", "model_name")
    traffic = {
        "peak_requests_per_s": rate if isinstance(rate, int | float) and rate > 0 else 1,
        "input_tokens": 1000,
        "output_tokens": 300,
    }
    named = model if isinstance(model, str) and model.isprintable() and len(model) <= 200 else "llama-3.1-8b-instruct"
    request: dict[str, Any] = {"workload": {"phase": "inference", "model": named, "traffic": traffic}}
    if root is EstimateRequest:
        request["deployment"] = {"accelerator": "h100 sxm"}
    return f"The smallest request: {orjson.dumps(request).decode()}"


def related_fields(name: str, here: Sequence[str]) -> list[str]:
    """Accepted fields whose own name has every word of a name, units apart; fields may be dotted paths.

    Check:
        >>> related_fields("ttft_ms", ["ttft_p50_ms", "ttft_p95_ms", "running"])
        ['ttft_p50_ms', 'ttft_p95_ms']
    """
    words = {word for word in name.lower().split("_") if len(word) > 2}
    return [field for field in here if words and words <= {*field.rpartition(".")[2].split("_")}]
