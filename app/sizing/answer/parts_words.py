"""Text and values of LoRA adapters on a shared base model, of host memory, and of prompts in chunks."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from app.sizing.columns import GB, GIB, at, one
from app.sizing.hardware.benchmarks import ADAPTED_MODULES, SERVERS, Benchmark, Places
from app.sizing.hardware.engines import engine_named
from app.sizing.model.adapted import ADAPTER_ELEMENT_BYTES, loaded_adapters, served_adapter_params
from app.sizing.model.architecture import ModelArchitecture
from app.sizing.model.formats import WEIGHT_FORMATS
from app.sizing.question import Deployment
from app.sizing.result import Estimate, Reason
from app.sizing.serving.host_weights import expert_share_on_host, layer_share_on_host
from app.sizing.serving.options import PlanEvaluations
from app.sizing.serving.plans import Plans
from app.sizing.words import format_count, format_number, percent
from app.sizing.workload import InferenceWorkload

# Maximum ranks for which vLLM reserves memory: vllm/config/lora.py of 0.33.0, read 2026-11-23.
VLLM_LORA_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)


def adapter_settings(model: ModelArchitecture, used: Benchmark, file: str, *, begun: bool) -> Places:
    """Number of loaded adapters and the rank for which memory is reserved; empty without adapters.

    TensorRT-LLM reads both from a configuration file; `begun` tells whether the command has already begun it.
    """
    loaded = loaded_adapters(model)
    if loaded is None:
        return {}
    base = replace(model, tensors=tuple(tensor for tensor in model.tensors if tensor is not loaded))
    rank = round(loaded.params / loaded.copies / served_adapter_params(base, 1))
    room = next((each for each in VLLM_LORA_RANKS if each >= rank), rank)
    settings: dict[str, object] = {"adapters": loaded.copies, "adapter_rank": room}
    if used.server is not SERVERS["tensorrt-llm"]:
        return settings
    modules = f"[{', '.join(ADAPTED_MODULES)}]"
    return {**settings, "adapted_modules": modules, "adapter_config": file, **config_places(file, begun=begun)}


def adapter_reasons(model: ModelArchitecture) -> Iterator[Reason]:
    """Memory and compute that loaded adapters add, where there are any."""
    loaded = loaded_adapters(model)
    if loaded is not None:
        taken = loaded.params * ADAPTER_ELEMENT_BYTES / GIB
        share = loaded.multiplied_elements / (model.matmul_params - loaded.multiplied_elements)
        text = (
            f"With {format_count(loaded.copies, 'adapter')} loaded, each replica needs {taken:.2f} GiB more memory and "
            f"{percent(share, 1)} more compute per token."
        )
        yield Reason("adapters", text, "adapters_gib", taken, "GiB")


SMALLEST_SHOWN_SHARE = 0.005  # smaller shares of the layers are not shown
ALL_LAYERS = 99  # the usual llama.cpp setting for "all layers"


def share_on_host(plans: Plans, row: int) -> float:
    """Share of a plan's weights in host memory, from 0 to 1."""
    return 0.0 if plans.on_host is None else at(plans.on_host.weights_share, row)


def host_memory_fields(judged: PlanEvaluations[Any, Any, Any], row: int) -> dict[str, Any]:
    """Host memory of one replica by field name of DeviceMemory; empty if no weights are in host memory."""
    host = judged.memory.host
    if host is None or not host.weights_bytes[row]:
        return {}
    return {
        "host_weights_bytes": at(host.weights_bytes, row),
        "host_cache_bytes": at(host.cache_bytes, row),
        "host_usable_bytes": at(host.room_bytes, row),
    }


def host_weight_reasons(
    workload: InferenceWorkload, judged: PlanEvaluations[Any, Any, Any], row: int, share_of_step: float
) -> Iterator[Reason]:
    """Weights in host memory and the share of a step that reading them takes."""
    on = judged.plans.on_host
    if on is None or not share_on_host(judged.plans, row):
        return
    gib, rate = at(on.weights_bytes, row) / GIB, at(on.bytes_per_s, row) / GB
    text = (
        f"{gib:,.1f} GiB of the weights ({percent(at(on.weights_share, row))}) are in host memory: "
        f"{describe_host_parts(workload, judged.plans, row)}. The host reads them at about {format_number(rate)} GB/s "
        f"and takes {percent(share_of_step)} of each step. The host's speed is estimated from data sheets: measure it "
        "before deciding."
    )
    yield Reason("weights_on_host", text, "weights_on_host_gib", gib, "GiB")


def describe_host_parts(workload: InferenceWorkload, plans: Plans, row: int) -> str:
    """Parts of the model in host memory: "16 of 32 layers with their KV cache"."""
    on, model = plans.on_host, workload.model
    assert on is not None
    experts, layers = at(on.experts_share, row), at(on.layers_share, row)
    parts = []
    if experts > SMALLEST_SHOWN_SHARE and abs(experts - layers) > SMALLEST_SHOWN_SHARE:
        parts.append(f"the routed experts of {format_count(round(experts * model.moe_layers), 'layer')}")
    if layers > SMALLEST_SHOWN_SHARE:
        parts.append(f"{round(layers * model.num_layers)} of {model.num_layers} layers with their KV cache")
    return " and ".join(parts) or "part of a layer"


def llama_cpp_layers(model: ModelArchitecture, d: Deployment) -> dict[str, int | None]:
    """Layers that llama.cpp keeps on the accelerators, and layers whose routed experts stay in host memory.

    Without weights in host memory, all layers stay on the accelerators.
    """
    everything = max(ALL_LAYERS, model.num_layers + 1)
    if not d.weights_on_host or d.weight_format is None:
        return {"device_layers": everything, "host_expert_layers": None}
    stored = WEIGHT_FORMATS[d.weight_format]
    at_host = d.weights_on_host, np.array([model.weights_bytes(stored)]), np.array([model.routed_expert_bytes(stored)])
    first = np.ones(1, dtype=bool)
    layers = round(one(layer_share_on_host(*at_host, first)) * model.num_layers)
    experts = round(one(expert_share_on_host(*at_host, first)) * model.moe_layers)
    return {
        "device_layers": model.num_layers - layers if layers else everything,
        "host_expert_layers": max(0, experts + model.num_layers - model.moe_layers) if experts else None,
    }


def out_of_host_memory(judged: PlanEvaluations[Any, Any, Any], row: int) -> Reason | None:
    """Reason that the weights do not fit into host memory; None if they fit."""
    host = getattr(judged.memory, "host", None)
    if host is None or host.fits[row]:
        return None
    needed, room = at(host.needed_bytes, row) / GIB, at(host.room_bytes, row) / GIB
    text = f"It does not fit: {needed:,.1f} GiB of host memory are needed, but only {room:,.1f} GiB are usable."
    return Reason("out_of_memory", text, "host_needed_gib", needed, "GiB")


def chunk_places(workload: InferenceWorkload, d: Deployment) -> Places:
    """Placeholders for prompts that take several steps.

    Without chunks, tensorrt_llm/llmapi/llm.py (_check_arguments, 1.2) refuses prompts beyond --max_num_tokens. With
    asynchronous scheduling, a pipeline stage of vLLM waits for the last stage in every step with a decode
    (vllm-project/vllm#38726), so the chunks of a prompt do not follow each other.
    """
    step = d.max_batched_tokens or math.inf
    staged = (d.pipeline_parallel or 1) > 1 and bool(engine_named(d.engine or "").pipelines_chunks)
    return {
        "chunked": "" if (workload.model.max_context_tokens or math.inf) > step else None,
        "chunks_in_stages": "" if staged and workload.uncached_prompt_tokens > step else None,
    }


def host_cache_places(estimate: Estimate, d: Deployment, used: Benchmark, file: str, *, begun: bool) -> Places:
    """Placeholders of the host memory in which a replica keeps copies of cached prefixes; empty without.

    vLLM takes the sum over all ranks, SGLang and TensorRT-LLM the memory of one rank. TensorRT-LLM needs a
    configuration file; `begun` tells whether the command has already begun it.
    """
    room = 0.0 if estimate.prefixes is None else estimate.prefixes.host_bytes
    if not room:
        return {}
    rank = room / (d.accelerators_per_replica or 1)
    sizes = {
        "host_cache_gib": int(room / GIB),
        "host_cache_rank_gb": int(rank / GB),
        "host_cache_rank_bytes": int(rank),
    }
    if used.server is not SERVERS["tensorrt-llm"]:
        return sizes
    return {**sizes, "host_config": file, **config_places(file, begun=begun)}


def config_places(file: str, *, begun: bool) -> Places:
    """Placeholders of TensorRT-LLM's configuration file, which the command empties unless it has already begun it."""
    return {"config": file, **({} if begun else {"draft_config": file})}
