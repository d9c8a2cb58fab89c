"""Stored answers as hand-offs read them: one kind of replica, two pools, a run."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from app.export.handoff.option import Option, load_options
from app.sizing.hardware.benchmarks import BENCHMARKS, Benchmark
from tests.export.stored import ACCELERATOR, MACHINE

USED = {
    "vllm": BENCHMARKS["vllm"],
    "sglang": BENCHMARKS["sglang"],
    "tensorrt-llm": BENCHMARKS["tensorrt-llm"],
    "llama.cpp": BENCHMARKS["llama.cpp"],
    "ollama": BENCHMARKS["ollama"],
    "lmdeploy": BENCHMARKS["lmdeploy"],
    "tgi": BENCHMARKS["tgi"],
    "text-embeddings-inference": BENCHMARKS["text-embeddings-inference"],
    "mlx": BENCHMARKS["mlx"],
    "ctranslate2": BENCHMARKS["faster-whisper"],
    "diffusers": BENCHMARKS["pictures"],
    "pytorch": BENCHMARKS["passes"],
}
LOAD = {
    "rate": 4.0,
    "prompts": 2400,
    "batch": 32,
    "prompt": 1024,
    "output": 256,
    "held": 40_960,
    "input": 1024,
    "spread": 0.5,
    "seconds": 600,
    "percentile": "95",
}
PLACES: dict[str, Any] = {
    "model": "org/Model-70B",
    "stem": "./Model-70B-q4_k_m",
    "source_model": "org/Model-70B",
    "format": "bf16",
    "stored": "float16",
    "passes": 30,
    "rounds": 10,
    "gguf_file": "./Model-70B-q4_k_m.gguf",
    "gguf_origin": "./Model-70B-q4_k_m.gguf",
    "tokenizer": "org/Model-70B",
    "tensor": 8,
    "stage": 8,
    "accelerators": 8,
    "ranks": 8,
    "sequences": 64,
    "batched": 8192,
    "all_sequences": 64,
    "all_batched": 8192,
    "fraction": 0.9,
    "device_layers": 99,
    "context": 8192,
    "served": 8192,
    "served_limit": "window",
    "refused_share": 0.0,
    **LOAD,
}
TRAINED: dict[str, Any] = {
    "model": "org/Model-7B",
    "task": "pretrain",
    "steps": 50,
    "all_steps": 100_000,
    "mock": "",
    "mock_words": 32_000,
    "accelerators": 16,
    "per_machine": 8,
    "machines": 2,
    "machine_count": 2,
    "sharding": "fsdp2",
    "tensor": 1,
    "shards": 16,
    "copies": 1,
    "adapting": "full",
    "script": "run_clm.py",
    "length": 4096,
    "block": 4096,
    "micro_batch": 2,
    "global_batch": 256,
    "micro_batch_tokens": 8192,
    "global_batch_tokens": 1_048_576,
    "accumulated": 8,
    "batch_each": 2.0,
    "forward_each": 2.0,
    "forward_passes": 8,
    "recompute": True,
    "recomputes": "",
    "granularity": "full",
    "recomputed": 1,
    "precision": "bf16",
    "layers": 32,
    "hidden": 4096,
    "width": 11_008,
    "heads": 32,
    "kv_heads": 32,
}


def start(software: str, used: Benchmark, role: str = "serve", **places: Any) -> dict[str, Any]:
    """One kind of replica as it is kept."""
    server = {} if used.server is None else {"server": asdict(used.server)}
    values = {**(TRAINED if role == "train" else PLACES), **places}
    kept = {name: value for name, value in values.items() if value is not None}
    return {
        "role": role,
        "software": software,
        "replicas": 1 if role == "train" else 3,
        "machines": kept.get("machines", 1),
        **server,
        "load": used.load,
        "places": kept,
    }


# Of three replicas, one of them spare, of which two run at night.
DAY: dict[str, Any] = {
    "hours": [{"requests_per_s": rate, "replicas": 3 if rate > 6 else 2} for rate in (2.0,) * 8 + (8.0,) * 16],
    "autoscaled": {"least_replicas": 2},
    "cold_start": {"seconds": 95.5},
    "scale_out": {"fast_enough": False},
    "cheaper": "autoscaled",
}


def option(
    *starts: dict[str, Any],
    offer: Any = None,
    maker: str = "NVIDIA",
    day: Any = None,
    claim: str | None = None,
    **deployment: Any,
) -> Option:
    """A first rank with these starts, on machines of eight."""
    lot = {
        "accelerator": {**ACCELERATOR, "maker": maker},
        "accelerators": 80,
        "machines": 10,
        "machine": MACHINE,
    }
    pools: dict[str, Any] = {"pools": {each["role"]: {} for each in starts}} if len(starts) > 1 else {}
    shown = {"system": "a-machine", **({"offer": offer} if offer else {}), **deployment, **pools}
    answer = {
        "id": "rec_0123456789abcdef0123456789ab",
        "as_of": "2026-11-23",
        "catalog": {"snapshot": "614f6a1a7f1b2af2"},
        "day": day,
        "recommendations": [
            {
                "deployment": shown,
                "memory": {"kv_cache_tokens": 300_000, "per_accelerator_gib": {"weights": 16.4}},
                "performance": {"cold_start_s": 120.0, "e2e_ms": {"p99": 14_200.0}},
            }
        ],
    }
    return load_options(answer, {"ranks": [[lot for _ in starts]], "starts": [list(starts)]}, 1, claim)[0]


def served(
    software: str = "vllm",
    *,
    offer: Any = None,
    maker: str = "NVIDIA",
    day: Any = None,
    claim: str | None = None,
    spare: bool = False,
    **places: Any,
) -> Option:
    """Three replicas of an engine, one of them spare where it has a day."""
    spares = {"spare_replicas": 1} if day is not None or spare else {}
    return option(start(software, USED[software], **places), offer=offer, maker=maker, day=day, claim=claim, **spares)


def pooled(software: str = "vllm", **places: Any) -> Option:
    """Three replicas that read and three that write."""
    used = USED[software]
    return option(start(software, used, "prefill", **places), start(software, used, "decode", **places))


def trained(software: str, used: Benchmark, **places: Any) -> Option:
    """A run on two machines of eight."""
    deployment: dict[str, Any] = {"data_parallel": 16, "zero_stage": 3, "activation_checkpointing": "full"}
    return option(start(software, used, "train", **places), **deployment)
