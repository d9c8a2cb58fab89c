"""Benchmark plan of a deployment: the command, the accelerators it needs, its duration and its cost."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from app.sizing.answer.adapters import adapter_settings
from app.sizing.answer.host_weights import llama_cpp_layers
from app.sizing.assumptions import Assumptions
from app.sizing.hardware import benchmarks
from app.sizing.hardware.benchmarks import Benchmark, Places
from app.sizing.hardware.engines import engine_named
from app.sizing.hardware.recipes import apply_settings, recipe_of_framework
from app.sizing.model.architecture import ModelArchitecture
from app.sizing.model.formats import SIXTEEN_BIT
from app.sizing.question import Deployment, Question
from app.sizing.result import Estimate, Performance
from app.sizing.workload import InferenceWorkload, Load, Method, TrainingWorkload

REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", re.ASCII)
MINUTES_PER_HOUR = 60.0
MAX_LENGTH_SPREAD = 0.9  # largest half-width of the length distribution, as a share of its mean
RANKS_CONFIG_FILE = "config.yaml"  # for an engine that takes attention data parallelism only from a file
MIN_BURSTINESS = 0.1  # smallest burstiness that a load generator can reproduce


@dataclass(frozen=True, slots=True)
class BenchmarkPlan:
    """Benchmark of one estimate.

    `usd` is the rent; it is None for owned hardware and where there is no price. `counts` says how to compute the
    predicted rate from the report, where the report does not print it.
    """

    command: str
    rate_expression: str
    accelerators: int
    minutes: float
    usd: float | None


def plan_benchmark(question: Question, estimate: Estimate) -> BenchmarkPlan | None:
    """Benchmark plan of an estimate.

    None where the plan does not fit, has no predicted performance or uses speculative decoding, which no command
    covers.
    """
    workload, d, p = question.workload, estimate.deployment, estimate.performance
    if p is None or not estimate.fits or d.speculative is not None:
        return None
    if isinstance(workload, TrainingWorkload):
        used = training_benchmark(workload, d)
        command = used.fill_places(training_places(workload, d, question.assumptions))
        accelerators, machines = d.accelerators_per_replica or 1, d.nodes or 1
        minutes = math.ceil(training_minutes(p, question.assumptions))
    else:
        used = serving_benchmark(workload, d)
        command = used.fill_places(serving_places(workload, d, p, used, question.assumptions))
        accelerators, machines = d.accelerators_per_replica or 1, machines_per_replica(d)
        minutes = math.ceil(serving_minutes(p, question.assumptions))
    return BenchmarkPlan(command, used.counts, accelerators, minutes, rent_usd(estimate, machines, minutes))


def machines_per_replica(d: Deployment) -> int:
    """Whole machines that one replica needs."""
    each = max(1, (d.total_accelerators or 1) // max(1, d.nodes or 1))
    return math.ceil((d.accelerators_per_replica or 1) / each)


def serving_minutes(p: Performance, assumed: Assumptions) -> float:
    """Minutes to start a replica, warm it up and measure it."""
    return (p.cold_start_s or 0.0) / 60 + assumed.benchmark_warm_up_min + assumed.benchmark_window_min


def training_minutes(p: Performance, assumed: Assumptions) -> float:
    """Minutes to start a run and take the benchmark steps."""
    return assumed.benchmark_warm_up_min + assumed.benchmark_steps * (p.step_time_s or 0.0) / 60


def rent_usd(estimate: Estimate, machines: int, minutes: float) -> float | None:
    """Rent in USD of this many machines for this many minutes; None for owned hardware and where there is no price."""
    cost, d = estimate.cost, estimate.deployment
    if cost is None or cost.usd_per_hour is None or cost.purchase_usd is not None:
        return None
    return round(cost.usd_per_hour / max(1, d.nodes or 1) * machines * minutes / MINUTES_PER_HOUR, 2)


def file_name(name: str) -> str:
    """Last part of a name, reduced to characters that are safe in a file name."""
    return re.sub(r"[^\w.-]+", "-", name.rsplit("/", 1)[-1], flags=re.ASCII).strip("-.") or "model"


def repository_name(name: str) -> str:
    """Repository of a model, or a local path where its name is not a repository."""
    return name if REPOSITORY.fullmatch(name) else f"./{file_name(name)}"


def local_checkpoint_path(model: ModelArchitecture, stored: str) -> str:
    """Local path of a checkpoint that the user has to convert or download."""
    return f"./{file_name(model.name)}-{stored.removeprefix('gguf-')}"


def checkpoint_to_load(model: ModelArchitecture, stored: str, benchmark: Benchmark) -> str:
    """Checkpoint that an engine loads: the published repository where the engine can read or convert it, else a
    path.
    """
    native = model.native_format
    wide = native in SIXTEEN_BIT
    if stored == native or (wide and (stored in SIXTEEN_BIT or stored in benchmark.converts)):
        return repository_name(model.name)
    return local_checkpoint_path(model, stored)


def single_forward_benchmark(model: ModelArchitecture) -> Benchmark:
    """Benchmark of a single-forward workload, by the type of model."""
    if model.sample is None:
        return benchmarks.EMBEDDINGS
    return benchmarks.PICTURES if model.sample.passes > 1 and not model.sample.decodes else benchmarks.PASSES


def serving_benchmark(workload: InferenceWorkload, d: Deployment) -> Benchmark:
    """Benchmark of the deployment's engine, for token streams or for single-forward work."""
    engine = engine_named(d.engine or "")
    return engine.benchmark if not workload.single_pass else engine.one_pass or single_forward_benchmark(workload.model)


def serving_places(
    workload: InferenceWorkload, d: Deployment, p: Performance, used: Benchmark, assumed: Assumptions
) -> Places:
    """Placeholders of the serving command: one replica under the load it is predicted to carry."""
    model, stored = workload.model, d.weight_format or "bf16"
    machines = machines_per_replica(d)
    converted = stored != model.native_format and model.native_format in SIXTEEN_BIT
    return {
        "model": checkpoint_to_load(model, stored, used),
        "stem": local_checkpoint_path(model, stored),
        "tokenizer": repository_name(model.name),
        "conversion": used.converts.get(stored) if converted else None,
        "cache": used.caches.get(d.kv_format or ""),
        "tensor": d.tensor_parallel or 1,
        "stage": (d.tensor_parallel or 1) * (d.data_parallel or 1),
        "data": degree_above_one(d.data_parallel),
        "contexts": degree_above_one(d.context_parallel),
        "pipeline": degree_above_one(d.pipeline_parallel),
        "experts": degree_above_one(d.expert_parallel),
        "with_experts": optional_flag((d.expert_parallel or 1) > 1),
        "accelerators": d.accelerators_per_replica or 1,
        "ranks": degree_above_one(d.accelerators_per_replica),
        "machines": degree_above_one(machines),
        **spread_places(d, machines, used),
        "sequences": d.max_batch,
        "batched": d.max_batched_tokens,
        "fraction": d.memory_fraction,
        **adapter_settings(model),
        **llama_cpp_layers(model, d),
        "context": math.ceil(workload.max_context_tokens),
        "percentile": f"{workload.slo.percentile:g}",
        "seconds": round(assumed.benchmark_window_min * 60),
        **load_places(workload, d, p, assumed),
    }


def spread_places(d: Deployment, machines: int, used: Benchmark) -> Places:
    """Placeholders for attention data parallelism and for replicas on several machines.

    Scheduler settings apply to each rank. The `all_` placeholders hold the sums over all ranks, for engines that divide
    the settings among their ranks.
    """
    data = d.data_parallel or 1
    config = RANKS_CONFIG_FILE if data > 1 and used is benchmarks.TENSORRT_LLM else None
    return {
        "all_sequences": d.max_batch and d.max_batch * data,
        "all_batched": d.max_batched_tokens and d.max_batched_tokens * data,
        "stage_machines": degree_above_one(machines) if data == 1 else None,
        "ranks_here": data // machines if machines > 1 and data > 1 and data % machines == 0 else None,
        "config": config,
        "ranks_config": config,
    }


def load_places(workload: InferenceWorkload, d: Deployment, p: Performance, assumed: Assumptions) -> Places:
    """Placeholders for the load on one replica: request rate or concurrency, and prompt and output lengths."""
    replicas = max(1, d.replicas or 1)
    served = (p.requests_per_s_capacity or 0.0) / replicas
    paced = workload.load is Load.OPEN
    window_s = assumed.benchmark_window_min * 60
    batch = max(1, round(p.batch_at_peak or 1))
    prompt, output = max(1, round(workload.input_tokens.mean)), max(1, round(workload.output_tokens.mean))
    prefix = round(prompt * workload.cached_prefix_fraction)
    run = None if workload.requests is None else math.ceil(workload.requests / replicas)
    prompts = run or max(10, math.ceil(served * window_s))
    return {
        "rate": served if paced else None,
        "burstiness": max(workload.burstiness, MIN_BURSTINESS) ** -2 if paced and workload.burstiness != 1 else None,
        "concurrency": None if workload.in_flight <= 0 else math.ceil(workload.in_flight / replicas),
        "prompts": prompts,
        "rounds": max(1, prompts // batch),
        "passes": 1 if workload.model.sample is None else round(workload.model.sample.passes),
        "batch": batch,
        "batch_each": math.ceil(batch / (d.accelerators_per_replica or 1)),
        "prompt": prompt,
        "output": output,
        "held": batch * (prompt + output),
        "prefix": prefix or None,
        "input": max(1, prompt - prefix),
        "spread": uniform_spread(workload),
    }


def uniform_spread(workload: InferenceWorkload) -> float | None:
    """Half-width of the uniform distribution of output lengths, as a share of the mean; None for equal lengths.

    Its variance matches that of the answers, and it stays within the context. Load generators support no other
    distribution.
    """
    room = workload.max_context_tokens / max(1.0, workload.tokens_per_request) - 1
    spread = min(MAX_LENGTH_SPREAD, math.sqrt(3 * workload.output_tokens.squared_variation), room)
    return spread if spread > 0 else None


def training_benchmark(workload: TrainingWorkload, d: Deployment) -> Benchmark:
    """Benchmark of the framework for language models; by the type of model for work in samples."""
    sample, own = workload.model.sample, engine_named(d.framework or "").trial
    if sample is not None:
        return benchmarks.DENOISING if sample.passes > 1 and not sample.decodes else benchmarks.IMAGES
    return own if own.adapts or workload.method is Method.FULL else benchmarks.NEMO


def _shards_weights(d: Deployment) -> bool:
    """Whether sharding is PyTorch's own, which keeps no master copy of the weights."""
    recipe = apply_settings(recipe_of_framework(d.framework or "", d.framework_version), d.recipe)
    return recipe.weights != "master"


def training_places(workload: TrainingWorkload, d: Deployment, assumed: Assumptions) -> Places:
    """Placeholders of the training command: steps of the whole layout."""
    model = workload.model
    adapts = workload.method is not Method.FULL
    stage = d.zero_stage or 0
    sharding = "multi_gpu" if stage == 0 else "fsdp2" if _shards_weights(d) else f"zero{stage}"
    accelerators, nodes = d.accelerators_per_replica or 1, d.nodes or 1
    return {
        "model": repository_name(model.name),
        "task": "finetune" if workload.phase == "fine_tuning" else "pretrain",
        "steps": round(assumed.benchmark_steps),
        "mock": "",
        "accelerators": accelerators,
        "per_machine": math.ceil(accelerators / nodes),
        "machines": degree_above_one(nodes),
        "machine_count": nodes,
        "sharding": sharding if accelerators > 1 else "single_gpu",
        "tensor": d.tensor_parallel or 1,
        "with_tensor": optional_flag((d.tensor_parallel or 1) > 1),
        **copy_places(d),
        "pipeline": degree_above_one(d.pipeline_parallel),
        "contexts": degree_above_one(d.context_parallel),
        "rank": workload.lora_rank if adapts else None,
        "adapter": workload.method.value if adapts else None,
        "adapting": "lora" if adapts else "full",
        "script": "run_lora_clm.py" if adapts else "run_clm.py",
        "in_4_bits": optional_flag(workload.method is Method.QLORA),
        **batch_places(workload, d),
        **recompute_places(d),
        **precision_places(workload),
        **shape_places(model, d),
    }


def copy_places(d: Deployment) -> Places:
    """Placeholders for the number of ranks that shard the weights, and for the number of copies of the weights."""
    shards = (d.data_parallel or 1) if d.zero_stage else 1
    return {"shards": shards, "copies": (d.data_parallel or 1) // shards}


def batch_places(workload: TrainingWorkload, d: Deployment) -> Places:
    """Placeholders for the batch of a step and how it is split into micro-batches."""
    micro, data, length = d.micro_batch_sequences or 1, d.data_parallel or 1, round(workload.units_per_sequence)
    adapts = workload.method is not Method.FULL
    return {
        "length": length,
        "adapter_length": length if adapts else None,
        "block": None if adapts else length,
        "micro_batch": micro,
        "global_batch": workload.global_batch,
        "micro_batch_tokens": micro * length,
        "global_batch_tokens": workload.global_batch * length,
        "accumulated": max(1, round(workload.global_batch / (micro * data))),
        "batch_each": micro * data / (d.accelerators_per_replica or 1),
    }


def recompute_places(d: Deployment) -> Places:
    """Placeholders for activation recomputation."""
    kept = d.activation_checkpointing or "none"
    return {
        "recompute": kept == "full",
        "recomputes": optional_flag(kept == "full"),
        "granularity": None if kept == "none" else kept,
        "recomputed": 1 if kept == "full" else None,
    }


def precision_places(workload: TrainingWorkload) -> Places:
    """Placeholders for the number format of training."""
    wide = workload.precision in ("fp32", "tf32")
    return {
        "precision": None if wide else "fp16" if workload.precision == "fp16" else "bf16",
        "in_fp8": optional_flag("fp8" in workload.precision),
    }


def shape_places(model: ModelArchitecture, d: Deployment) -> Places:
    """Placeholders for the model's shape, for trainers that build the model from numbers."""
    stages = (d.pipeline_parallel or 1) * (d.virtual_pipeline or 1)
    return {
        "layers": model.num_layers,
        "hidden": model.hidden_size,
        "width": round(model.mlp_width),
        "heads": model.num_heads,
        "kv_heads": model.kv_heads,
        "mock_words": model.vocab_size,
        "chunk": max(1, model.num_layers // stages) if (d.virtual_pipeline or 1) > 1 else None,
        "expert_count": model.num_experts if model.is_moe else None,
        "expert_choice": model.experts_per_token if model.is_moe else None,
        "experts": d.expert_parallel or 1 if model.is_moe else None,
    }


def degree_above_one(value: int | None) -> int | None:
    """The degree where it is above 1 and must be passed; else None."""
    return value if value is not None and value > 1 else None


def optional_flag(wanted: bool) -> str | None:
    """Empty placeholder that keeps a part of a command, or None to leave the part out."""
    return "" if wanted else None
