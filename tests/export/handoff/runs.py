"""Stored answers of training runs: every trainer with every method that the service can answer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from app.export.handoff.option import Option, load_options
from app.export.handoff.trainers import PRETRAIN, TRAINERS
from app.sizing.answer.pipelines import own_stage_places, pipeline_places
from app.sizing.hardware.benchmarks import BENCHMARKS
from app.sizing.hardware.engines import engine_named
from tests.export.handoff.stored import start
from tests.export.stored import ACCELERATOR, MACHINE

ADAPTED = ["down_proj", "gate_proj", "k_proj", "o_proj", "q_proj", "up_proj", "v_proj"]
MODEL = "meta-llama/Llama-3.1-8B"
LARGE_MODEL = "meta-llama/Llama-3.1-70B"
# 16 GiB/s of checkpoints of 100 GB, three of them kept; 39.2 minutes of 33.6 s are 70 steps.
PERFORMANCE: dict[str, Any] = {
    "checkpoint_interval_minutes": 39.2,
    "step_time_s": 33.6,
    "checkpoint_gb": 100.0,
    "cluster": {"checkpoint_capacity_tb": 0.3},
}


def run_places(engine: str, trains: str, machines: int, accelerators: int) -> dict[str, Any]:
    """Values of the templates of a run."""
    adapts = trains in ("lora", "qlora")
    return {
        "model": MODEL,
        "kind": "decoder",
        "task": PRETRAIN if trains == PRETRAIN else "finetune",
        "optimizer_name": "adamw",
        "numbers": "bf16",
        "untied": "",
        "accelerators": accelerators,
        "machines": machines if machines > 1 else None,
        "machine_count": machines,
        "per_machine": -(-accelerators // machines),
        "shards": accelerators,
        "sharding": "single_gpu" if accelerators == 1 else "fsdp2",
        "adapter": trains if adapts else None,
        "adapting": "lora" if adapts else "full",
        "adapted": ADAPTED if adapts else None,
        "magnitudes": False if adapts else None,
        "rank": 16 if adapts else None,
        "in_4_bits": "" if trains == "qlora" else None,
        "adapter_length": 4096 if adapts else None,
        "block": None if adapts else 4096,
        "script": "run_lora_clm.py" if adapts else "run_clm.py",
        "global_batch": 16 * accelerators,
        "bridge_mode": PRETRAIN if trains == PRETRAIN else "lora" if adapts else "sft",
        "bridge_data": "mock" if trains == PRETRAIN else "squad",
        "tuned": None if trains == PRETRAIN else "",
        "hardware": "gpu" if engine == "maxtext" else None,
    }


def run_option(
    engine: str,
    trains: str,
    *,
    machines: int = 1,
    accelerators: int = 1,
    handoff: dict[str, Any] | None = None,
    maker: str = "NVIDIA",
    performance: dict[str, Any] = PERFORMANCE,
    offer: dict[str, Any] | None = None,
    deployment: dict[str, Any] | None = None,
    **places: Any,
) -> Option:
    """A first rank that trains with an engine. `places` replace the values of its templates."""
    own = run_places(engine, trains, machines, accelerators) | places
    trial = engine_named(engine).trial
    used = trial if trial.tunes or trains == PRETRAIN else BENCHMARKS["nemo"]
    started = start(engine, used, "train", **own)
    lot = {
        "accelerator": {**ACCELERATOR, "maker": maker},
        "accelerators": accelerators,
        "machines": machines,
        "machine": MACHINE,
    }
    shown = {
        "system": "a-machine",
        "data_parallel": accelerators,
        "zero_stage": 3 if accelerators > 1 else 0,
        "activation_checkpointing": "full",
        "recipe": {"optimizer_implementation": "fused"},
        **({"offer": offer} if offer else {}),
        **(deployment or {}),
    }
    answer = {
        "id": "rec_0123456789abcdef0123456789ab",
        "as_of": "2026-11-26",
        "catalog": {"snapshot": "614f6a1a7f1b2af2"},
        "request": {"handoff": handoff} if handoff else {},
        "recommendations": [
            {
                "deployment": shown,
                "memory": {"per_accelerator_gib": {"total": 40.0, "usable": 78.0}},
                "performance": performance,
            }
        ],
    }
    option = load_options(answer, {"ranks": [[lot]], "starts": [[started]]}, 1)[0]
    return replace(option, groups=(replace(option.groups[0], machine_accelerators=8),))


# Every launcher with every method, on one accelerator, and on 16 of two machines where it spans machines. The engines
# that share TRL's launcher differ in their sharding: PyTorch's, or DeepSpeed's.
SHARED = ("accelerate", "transformers", "pytorch", "fsdp")
PAIRS = [
    (trainer.name, engine, trains)
    for trainer in TRAINERS.values()
    for engine in trainer.engines
    for trains in trainer.trains
    if engine not in SHARED
]


def sizes_of(engine: str, trainer: str) -> tuple[tuple[int, int], ...]:
    """Machines and accelerators on which a framework trains."""
    if engine_named(engine).framework.single_accelerator:
        return ((1, 1),)
    return ((1, 1), (1, 8)) if TRAINERS[trainer].machines == 1 else ((1, 1), (1, 8), (2, 16))


RUNS: dict[str, Option] = {
    f"{trainer}-{engine}-{trains}-{accelerators}": run_option(
        engine, trains, machines=machines, accelerators=accelerators
    )
    for trainer, engine, trains in PAIRS
    for machines, accelerators in sizes_of(engine, trainer)
}
# 126 layers on 16 stages, 341 micro-batches: neither divides evenly.
PIPELINE: dict[str, Any] = {
    "machines": 16,
    "accelerators": 128,
    "tensor": 8,
    "with_tensor": "",
    "pipeline": 16,
    "micro_batch": 1,
    "accumulated": 341,
    "forward_passes": 341,
    "global_batch": 341,
    "deployment": {"data_parallel": 1, "zero_stage": 1, "virtual_pipeline": 7},
    "layers": 126,
    **pipeline_places(126, 16, 7, 341),
    **own_stage_places(126, 0, 16, 7, 341),
}
RUNS |= {
    f"pipeline-{engine}": run_option(engine, "pretrain", **PIPELINE)
    for engine in ("megatron", "nemo", "torchtitan", "maxtext")
}
