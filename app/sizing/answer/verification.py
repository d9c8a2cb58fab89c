"""Benchmark of one estimate: its command, accelerators, duration and cost, or the part of a large run that it takes."""

from __future__ import annotations

import json
import math
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from app.sizing.answer.parts_words import adapter_settings, chunk_places, host_cache_places, llama_cpp_layers
from app.sizing.answer.pipelines import (
    bridge_places,
    leading_layers,
    moe_pattern,
    optional_flag,
    own_stage_places,
    passes_together,
    pipeline_places,
    shape_places,
)
from app.sizing.answer.served_context import batch_in_flight, served_context
from app.sizing.assumptions import Assumptions
from app.sizing.hardware.benchmarks import (
    BENCHMARKS,
    READY,
    SERVERS,
    STOP,
    Benchmark,
    Places,
    Server,
    draft_limit,
    fill_template,
    place_names,
)
from app.sizing.hardware.checkpoints import GGUF, gguf_reference, published_checkpoint
from app.sizing.hardware.engines import engine_named
from app.sizing.hardware.pool_servers import DECODE, POOL_SERVERS, PREFILL, PoolServers
from app.sizing.hardware.recipes import apply_settings, recipe_of_framework
from app.sizing.model.architecture import ModelArchitecture, is_adapted
from app.sizing.model.formats import SIXTEEN_BIT
from app.sizing.question import Deployment, DraftMethod, Pools, Question
from app.sizing.result import Estimate, Performance
from app.sizing.serving.draft_heads import eagle_head
from app.sizing.workload import InferenceWorkload, Load, Method, TrainingWorkload

REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", re.ASCII)
MINUTES_PER_HOUR = 60.0
RANKS_CONFIG_FILE = "config.yaml"  # for an engine that takes some settings only from a file
# NeuronCores of a chip, over which tensor parallelism counts; those of Trainium 2 and 3 work in pairs. AWS Neuron
# documentation: NeuronCore-v2 and Trainium3 pages; tutorial trn2-llama3.3-70b-dp (2 x 32 cores, 16 chips), 2026-11-28.
NEURON_CORES = {"aws-inferentia2": 2, "aws-trainium1": 2, "aws-trainium2": 4, "aws-trainium3": 4}
MAX_LENGTH_SPREAD = 0.9  # largest half-width of the length distribution, as a share of its mean
SECTION_PLACES = {"layers", "fewer_layers"}  # places of a command that sets the number of layers
LOCAL_DRAFT = "./draft"  # path of a draft that is not published
Hosts = Mapping[str, int]  # number of hosts of the machines that have several, by slug
ONE_HOST: Hosts = MappingProxyType({})  # every machine is one host
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
    section: RunSection | None = None  # the part of a run that the command measures; None for the whole deployment


@dataclass(frozen=True, slots=True)
class RunSection:
    """One machine with a few layers of a run on several machines, and its rate relative to the whole run."""

    deployment: Deployment
    layers: int  # layers of the section
    all_layers: int  # layers of the model
    accelerators: int  # accelerators of the whole run
    sequences: int  # sequences per step of the section
    rate_share: float  # rate of the section as a share of the rate of the whole run

    @property
    def note(self) -> str:
        """What the section measures, and what it leaves to the prediction."""
        return (
            f" This measures {self.layers:,} of {self.all_layers:,} layers on one machine; the scaling to "
            f"{self.accelerators:,} accelerators is extrapolated."
        )


def plan_benchmark(question: Question, estimate: Estimate, host_counts: Hosts = ONE_HOST) -> BenchmarkPlan | None:
    """Benchmark plan of an estimate; None where the plan does not fit, has no predicted performance, or drafts tokens
    in a way for which no command is known.
    """
    workload, d, p = question.workload, estimate.deployment, estimate.performance
    if p is None or not estimate.fits or not covers_drafting(workload, d):
        return None
    if isinstance(workload, TrainingWorkload):
        used = training_benchmark(workload, d)
        section = run_section(workload, estimate, used)
        minutes = math.ceil(training_minutes(p, question.assumptions))
        if section is not None:
            command = used.fill_places(section_places(workload, section, used, question.assumptions, host_counts))
            taken, rent = section.deployment.total_accelerators or 1, rent_usd(estimate, 1, minutes)
            return BenchmarkPlan(command, used.counts, taken, minutes, rent, section)
        command = used.fill_places(training_places(workload, d, used, question.assumptions, host_counts))
        accelerators, machines = d.accelerators_per_replica or 1, d.nodes or 1
    else:
        used = serving_benchmark(workload, d)
        command = used.fill_places(serving_places(workload, d, estimate, used, question.assumptions, host_counts))
        accelerators, machines = d.accelerators_per_replica or 1, machines_per_replica(d)
        minutes = math.ceil(serving_minutes(p, question.assumptions))
    return BenchmarkPlan(command, used.counts, accelerators, minutes, rent_usd(estimate, machines, minutes))


def run_section(workload: TrainingWorkload, estimate: Estimate, used: Benchmark) -> RunSection | None:
    """The part of a run on several machines that fits on one, without pipeline stages; None for a run on one machine
    and where the command cannot set the number of layers.

    Layers are limited to those of one stage, and to those whose states fit without the other machines.
    """
    d, memory, p = estimate.deployment, estimate.memory, estimate.performance
    nodes, all_layers = d.nodes or 1, workload.model.num_layers
    if nodes <= 1 or memory is None or p is None or not SECTION_PLACES & place_names(used.load):
        return None
    each = max(1, (d.total_accelerators or nodes) // nodes)
    tensor = min(d.tensor_parallel or 1, each)
    contexts = min(d.context_parallel or 1, each // tensor)
    data, before, stage = max(1, each // (tensor * contexts)), d.data_parallel or 1, d.zero_stage or 0
    unsharded = [1.0 if stage < least else before / data for least in (3, 2, 1)]
    states = (memory.weights_bytes, memory.gradient_bytes, memory.optimizer_bytes)
    needed = sum(part * more for part, more in zip(states, unsharded, strict=True)) * (d.tensor_parallel or 1) / tensor
    left = memory.usable_bytes - memory.activation_bytes - memory.overhead_bytes
    layers = max(1, math.floor(all_layers / (d.pipeline_parallel or 1) * min(1.0, left / max(needed, 1.0))))
    part = replace(
        d,
        accelerators_per_replica=tensor * contexts * data,
        total_accelerators=tensor * contexts * data,
        nodes=1,
        tensor_parallel=tensor,
        context_parallel=contexts,
        pipeline_parallel=1,
        virtual_pipeline=None,
        data_parallel=data,
        expert_parallel=None if d.expert_parallel is None else min(d.expert_parallel, data),
    )
    model = workload.model
    kept = work_share(model.matmul_params, model.head_matmul_params, layers / all_layers)
    share = 1 / kept / nodes / (p.scaling_efficiency or 1.0)
    sequences = step_batch(workload.global_batch * data / before, part)
    return RunSection(part, layers, all_layers, d.total_accelerators or 0, sequences, share)


def work_share(matmul_params: float, head_params: float, layers_share: float) -> float:
    """Share of a model's multiplications that a copy with fewer layers keeps: those of its layers, and the LM head.

    Parameters:
        matmul_params: elements that one token multiplies, LM head included.
        head_params: elements of the LM head.
        layers_share: share of the layers that the copy keeps, from 0 to 1.
    Check: half of the layers, and a head as large as a fifth of the whole.
        >>> work_share(500.0, 100.0, 0.5)
        0.6
    """
    return ((matmul_params - head_params) * layers_share + head_params) / matmul_params


def section_places(
    workload: TrainingWorkload, section: RunSection, used: Benchmark, assumed: Assumptions, host_counts: Hosts
) -> Places:
    """Placeholders of the training command of a section."""
    smaller = replace(workload, global_batch=section.sequences)
    return {
        **training_places(smaller, section.deployment, used, assumed, host_counts),
        "layers": section.layers,
        "fewer_layers": section.layers,
        "moe_pattern": moe_pattern(workload.model, section.layers),
    }


def machines_per_replica(d: Deployment) -> int:
    """Whole machines that one replica needs."""
    each = max(1, (d.total_accelerators or 1) // max(1, d.nodes or 1))
    return math.ceil((d.accelerators_per_replica or 1) / each)


def hosts_per_replica(d: Deployment, host_counts: Hosts) -> int:
    """Hosts that one replica or run needs; as many as machines, but for machines of several hosts."""
    hosts, taken = host_counts.get(d.system or "", 1), d.accelerators_per_replica or 1
    each = max(1, (d.total_accelerators or 1) // max(1, d.nodes or 1))
    return math.ceil(taken / max(1, each // hosts))


def serving_minutes(p: Performance, assumed: Assumptions) -> float:
    """Minutes to start a replica, warm it up and measure it."""
    return (p.cold_start_s or 0.0) / 60 + assumed.benchmark_warm_up_min + assumed.benchmark_window_min


def training_minutes(p: Performance, assumed: Assumptions) -> float:
    """Minutes to start a run and take the benchmark steps."""
    return assumed.benchmark_warm_up_min + assumed.benchmark_steps * (p.step_time_s or 0.0) / 60


def rent_usd(estimate: Estimate, machines: int, minutes: float) -> float | None:
    """Rent in USD of this many machines for this many minutes; None for owned hardware and where there is no price."""
    cost, d = estimate.cost, estimate.deployment
    if cost is None or cost.full_usd_per_hour is None or cost.purchase_usd is not None:
        return None
    return round(cost.full_usd_per_hour / max(1, d.nodes or 1) * machines * minutes / MINUTES_PER_HOUR, 2)


def file_name(name: str) -> str:
    """Last part of a name, reduced to characters that are safe in a file name."""
    return re.sub(r"[^\w.-]+", "-", name.rsplit("/", 1)[-1], flags=re.ASCII).strip("-.") or "model"


def repository_name(name: str) -> str:
    """Repository of a model, or a local path where its name is not a repository."""
    return name if REPOSITORY.fullmatch(name) else f"./{file_name(name)}"


def local_checkpoint_path(model: ModelArchitecture, stored: str) -> str:
    """Local path of a checkpoint that the user has to convert or download."""
    return f"./{file_name(model.name)}-{stored.removeprefix('gguf-')}"


def weight_places(model: ModelArchitecture, d: Deployment, benchmark: Benchmark) -> Places:
    """Placeholders for the weights that an engine loads.

    These are the model's own repository or a published one in the format of the deployment, else the model's own that
    the engine converts, else a path where the user puts converted weights.
    """
    native, stored = model.native_format, d.weight_format or "bf16"
    wide, local = native in SIXTEEN_BIT, local_checkpoint_path(model, stored)
    own = stored == native or (wide and stored in SIXTEEN_BIT)
    published = None if own else published_checkpoint(model.name, stored, d.engine or "", d.accelerator.split("-")[0])
    at_start = stored in benchmark.converts and not d.accelerator.startswith("aws-")  # launches.toml: lacks
    converted = wide and not own and published is None and at_start
    reference = gguf_reference(published, stored) if published and published.tool == GGUF else None
    repository = published.repository if published else repository_name(model.name)
    return {
        "model": repository if own or published or converted else local,
        "source_model": repository_name(model.name),
        "format": stored,
        "stem": local,
        "gguf_repository": reference,
        "gguf_file": None if reference else f"{local}.gguf",
        "gguf_origin": f"hf.co/{reference}" if reference else f"{local}.gguf",
        "conversion": benchmark.converts[stored] if converted else None,
        "stored": benchmark.converts.get(stored),
    }


def single_forward_benchmark(model: ModelArchitecture) -> Benchmark:
    """Benchmark of a single-forward workload, by the type of model."""
    if model.sample is None:
        return BENCHMARKS["embeddings"]
    return BENCHMARKS["pictures"] if model.sample.passes > 1 and not model.sample.decodes else BENCHMARKS["passes"]


def serving_benchmark(workload: InferenceWorkload, d: Deployment) -> Benchmark:
    """Benchmark of the deployment's engine, for token streams or for single-forward work."""
    engine = engine_named(d.engine or "")
    if workload.single_pass:
        heard = engine.speech if workload.model.sample is not None and workload.model.sample.decodes else None
        used = heard or engine.one_pass or single_forward_benchmark(workload.model)
        return replace(used, load=used.reranks) if workload.model.reranks and used.reranks else used
    own = engine.benchmark
    if workload.images is not None and own.images and d.speculative is None:
        return replace(own, load=own.images)
    return own if d.speculative is None or not own.own_prompts else replace(own, load=own.own_prompts)


def covers_drafting(workload: InferenceWorkload | TrainingWorkload, d: Deployment) -> bool:
    """Whether a benchmark command starts the engine with the drafting of a deployment, and sends own prompts."""
    if d.speculative is None or not isinstance(workload, InferenceWorkload):
        return True
    used = serving_benchmark(workload, d)
    return used.server is not None and bool(used.own_prompts) and d.speculative.method in used.server.drafting


def drafting_places(model: ModelArchitecture, d: Deployment, used: Benchmark, config: str | None) -> Places:
    """Placeholders of speculative decoding; empty without it.

    The draft is a published head of the model, or one that the user puts at a local path. `config` is the file that
    the command has already begun, for engines that are configured by a file.
    """
    s, server = d.speculative, used.server or SERVERS.get(d.engine or "")
    if s is None:
        return {}
    looks_up, separate = s.method is DraftMethod.NGRAM, s.method in (DraftMethod.EAGLE, DraftMethod.DRAFT_MODEL)
    published = eagle_head(model.name) if s.method is DraftMethod.EAGLE else None
    file = RANKS_CONFIG_FILE if used.server is SERVERS["tensorrt-llm"] else None
    return {
        "draft_method": s.method.value,
        "drafting": None if server is None else server.drafting.get(s.method),
        "draft": (published or LOCAL_DRAFT) if separate else None,
        "draft_gguf": f"{LOCAL_DRAFT}.gguf" if separate else None,
        "draft_tokens": s.draft_tokens,
        "draft_limit": draft_limit(s.method.value),
        "draft_steps": None if looks_up else s.draft_tokens,
        "lookup_tokens": s.draft_tokens if looks_up else None,
        "verified_tokens": s.draft_tokens + 1,
        "draft_config": file if config is None else None,
        "written_config": file,
        "config": config or file,
    }


def serving_places(
    workload: InferenceWorkload,
    d: Deployment,
    estimate: Estimate,
    used: Benchmark,
    assumed: Assumptions,
    host_counts: Hosts,
) -> Places:
    """Placeholders of the serving command: one replica under the load it is predicted to carry.

    Parameters:
        d: the deployment of the estimate, or one of its pools.
        estimate: estimate with a predicted performance.
    """
    p = estimate.performance
    assert p is not None
    model, machines = workload.model, hosts_per_replica(d, host_counts)
    spread = spread_places(d, machines, used)
    begun = bool(spread["config"] or d.speculative)
    return {
        **weight_places(model, d, used),
        "tokenizer": repository_name(model.name),
        "cache": used.caches.get(d.kv_format or ""),
        "tensor": (d.tensor_parallel or 1) * NEURON_CORES.get(d.accelerator, 1),
        "stage": (d.tensor_parallel or 1) * (d.data_parallel or 1),
        "data": degree_above_one(d.data_parallel),
        "contexts": degree_above_one(d.context_parallel),
        "pipeline": degree_above_one(d.pipeline_parallel),
        "experts": degree_above_one(d.expert_parallel),
        "with_experts": optional_flag((d.expert_parallel or 1) > 1),
        "accelerators": d.accelerators_per_replica or 1,
        "ranks": degree_above_one(d.accelerators_per_replica),
        "machines": degree_above_one(machines),
        **spread,
        **drafting_places(model, d, used, spread["config"]),
        **host_cache_places(estimate, d, used, RANKS_CONFIG_FILE, begun=begun),
        "sequences": d.max_batch,
        "batched": d.max_batched_tokens,
        "fraction": d.memory_fraction,
        "skips_images": optional_flag(bool(d.skip_mm_profiling)),
        **adapter_settings(model, used, RANKS_CONFIG_FILE, begun=begun),
        **llama_cpp_layers(model, d),
        **context_places(workload, estimate, used, assumed),
        **chunk_places(workload, d),
        "percentile": f"{workload.slo.percentile:g}",
        "seconds": round(assumed.benchmark_window_min * 60),
        **load_places(workload, d, p, assumed),
    }


def context_places(workload: InferenceWorkload, estimate: Estimate, used: Benchmark, assumed: Assumptions) -> Places:
    """Placeholders for the planning length and for the context that the server accepts, with what limits it."""
    planned = {"window": workload.model.max_context_tokens, "context": math.ceil(workload.max_context_tokens)}
    if workload.single_pass:  # takes fewer tokens than the configuration has positions: the server keeps its own limit
        tokens = max(planned["window"] or 0, round((estimate.deployment.max_batch or 1) * workload.input_tokens.mean))
        return {**planned, "embeds": optional_flag(workload.model.sample is None), "batch_tokens": tokens}
    d, slots = estimate.deployment, 1
    if used.server is SERVERS["ollama"]:
        slots = batch_in_flight(estimate.performance)
    elif used.server is SERVERS["tgi"] and d.accelerator in NEURON_CORES:  # a static batch of the whole length
        slots = d.max_batch or 1
    served = served_context(workload, estimate, assumed, slots=slots)
    return {
        **planned,
        "served": served.tokens,
        "served_limit": served.limit.value,
        "refused_share": served.refused_share,
    }


def spread_places(d: Deployment, machines: int, used: Benchmark) -> dict[str, Any]:
    """Placeholders for attention data parallelism and for replicas on several machines.

    Scheduler settings apply to each rank. The `all_` placeholders hold the sums over all ranks, for engines that divide
    the settings among their ranks.
    """
    data = d.data_parallel or 1
    config = RANKS_CONFIG_FILE if data > 1 and used.server is SERVERS["tensorrt-llm"] else None
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
    batch = batch_in_flight(p)
    prompt, output = max(1, round(workload.input_tokens.mean)), max(1, round(workload.output_tokens.mean))
    images, encoder, text, sample = workload.images, workload.model.images, prompt, workload.model.sample
    if images is not None and encoder is not None:
        text = max(1, prompt - round(images.per_prompt * encoder.token_count(images.width, images.height)))
    prefix = min(round(prompt * workload.cached_prefix_fraction), prompt if images is None else text - 1)
    run = None if workload.requests is None else math.ceil(workload.requests / replicas)
    prompts = run or max(10, math.ceil(served * (assumed.benchmark_window_min * 60)))
    return {
        "rate": served if paced else None,
        "burstiness": max(workload.burstiness, MIN_BURSTINESS) ** -2 if paced and workload.burstiness != 1 else None,
        "concurrency": None if workload.in_flight <= 0 else math.ceil(workload.in_flight / replicas),
        "prompts": prompts,
        "rounds": max(1, prompts // batch),
        **({"passes": 1} if sample is None else sample.as_places()),
        "batch": batch,
        "batch_each": math.ceil(batch / (d.accelerators_per_replica or 1)),
        "prompt": prompt,
        "output": output,
        "held": batch * (prompt + output),
        "prefix": prefix or None,
        "input": max(1, text - prefix),
        "query": max(1, prompt // 2),
        "passage": max(1, prompt - prompt // 2),
        "spread": uniform_spread(workload),
        **({} if images is None else images.as_places()),
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
        return BENCHMARKS["denoising"] if sample.passes > 1 and not sample.decodes else BENCHMARKS["images"]
    return own if own.tunes or workload.phase != "fine_tuning" else BENCHMARKS["nemo"]


def _shards_weights(d: Deployment) -> bool:
    """Whether sharding is PyTorch's own, which keeps no master copy of the weights."""
    recipe = apply_settings(recipe_of_framework(d.framework or "", d.framework_version), d.recipe)
    return recipe.weights != "master"


def training_places(
    workload: TrainingWorkload, d: Deployment, used: Benchmark, assumed: Assumptions, host_counts: Hosts
) -> Places:
    """Placeholders of the training command: steps of the whole layout."""
    model = workload.model
    adapts = workload.method is not Method.FULL
    stage = d.zero_stage or 0
    sharding = "multi_gpu" if stage == 0 else "fsdp2" if _shards_weights(d) else f"zero{stage}"
    accelerators, nodes = d.accelerators_per_replica or 1, hosts_of_run(d, host_counts)
    accumulated = accumulated_batches(workload.global_batch, d)
    pipeline = (d.pipeline_parallel or 1, d.virtual_pipeline or 1, accumulated)
    staged = pipeline_places(model.num_layers, *pipeline)
    return {
        "model": repository_name(model.name),
        "kind": model.task,
        "task": "finetune" if workload.phase == "fine_tuning" else "pretrain",
        "optimizer_name": workload.optimizer,
        "numbers": workload.precision,
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
        "adapted": adapted_roles(model, workload.lora_targets) if adapts else None,
        "magnitudes": workload.lora_magnitudes if adapts else None,
        "untied": optional_flag(not model.tied_head),
        "script": "run_lora_clm.py" if adapts else "run_clm.py",
        "in_4_bits": optional_flag(workload.method is Method.QLORA),
        **batch_places(workload, d),
        **recompute_places(d),
        **precision_places(workload),
        **maker_places(d, used),
        **shape_places(model, d),
        **staged,
        **bridge_places(workload, d, staged),
        **own_stage_places(model.num_layers, leading_layers(model), *pipeline),
    }


def hosts_of_run(d: Deployment, host_counts: Hosts) -> int:
    """Hosts of a training run."""
    return hosts_per_replica(d, host_counts) if d.system in host_counts else d.nodes or 1


def adapted_roles(model: ModelArchitecture, targets: str | tuple[str, ...]) -> list[str]:
    """Names of the matrices that adapters modify, in the spelling of Transformers."""
    return sorted({tensor.role for tensor in model.tensors if is_adapted(tensor, targets)})


def copy_places(d: Deployment) -> Places:
    """Placeholders for the number of ranks that shard the weights, and for the number of copies of the weights."""
    shards = (d.data_parallel or 1) if d.zero_stage else 1
    return {"shards": shards, "copies": (d.data_parallel or 1) // shards}


def accumulated_batches(requested: float, d: Deployment) -> int:
    """Micro-batches of a step on each data-parallel rank: those that bring the batch nearest to the requested one, or
    the larger of two that are as near, as in the prediction.
    """
    return max(1, math.floor(requested / ((d.micro_batch_sequences or 1) * (d.data_parallel or 1)) + 0.5))


def step_batch(requested: float, d: Deployment) -> int:
    """Sequences or samples of a step: the batch nearest to the requested one that divides evenly over the ranks."""
    return accumulated_batches(requested, d) * (d.micro_batch_sequences or 1) * (d.data_parallel or 1)


def batch_places(workload: TrainingWorkload, d: Deployment) -> Places:
    """Placeholders for the batch of a step, which divides evenly over the ranks, and for its micro-batches."""
    micro, data, length = d.micro_batch_sequences or 1, d.data_parallel or 1, round(workload.units_per_sequence)
    adapts = workload.method is not Method.FULL
    batch, accumulated = step_batch(workload.global_batch, d), accumulated_batches(workload.global_batch, d)
    together = passes_together(accumulated, d.pipeline_parallel or 1)
    return {
        "length": length,
        "adapter_length": length if adapts else None,
        "block": None if adapts else length,
        "micro_batch": micro,
        "global_batch": batch,
        "micro_batch_tokens": micro * length,
        "global_batch_tokens": batch * length,
        "accumulated": accumulated,
        "batch_each": micro * data / (d.accelerators_per_replica or 1),
        "forward_each": together * micro * data / (d.accelerators_per_replica or 1),
        "forward_passes": accumulated // together,
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


def maker_places(d: Deployment, used: Benchmark) -> Places:
    """Placeholders for names that the software gives the hardware of one maker; catalog names begin with the maker."""
    maker = d.accelerator.partition("-")[0]
    return {"hardware": used.hardware.get(maker), "fp8": used.fp8.get(maker)}


def degree_above_one(value: int | None) -> int | None:
    """The degree where it is above 1 and must be passed; else None."""
    return value if value is not None and value > 1 else None


CONFIG_FILE = "config.yaml"
WAIT_FOR_POOLS = (
    "until curl -sfo /dev/null $PREFILL_HOST:{port}/{path} && curl -sfo /dev/null $DECODE_HOST:{port}/{path}; "
    "do sleep 5; done; "
)


def pool_pair_share(estimate: Estimate) -> float:
    """Share of the deployment's load that one replica of each pool carries; 1 where it is not known."""
    d, p = estimate.deployment, estimate.performance
    if d.pools is None or p is None or p.pools is None or not p.requests_per_s_capacity:
        return 1.0
    each = (
        load.requests_per_s_capacity / max(1, pool.replicas or 1)
        for load, pool in ((p.pools.prefill, d.pools.prefill), (p.pools.decode, d.pools.decode))
    )
    return min(1.0, min(each) / p.requests_per_s_capacity)


def plan_pools_benchmark(question: Question, estimate: Estimate, host_counts: Hosts = ONE_HOST) -> BenchmarkPlan | None:
    """Benchmark plan of two pools; None where the deployment does not fit or no command covers it."""
    workload, d, p = question.workload, estimate.deployment, estimate.performance
    if not isinstance(workload, InferenceWorkload) or d.pools is None or p is None or not estimate.fits:
        return None
    servers, used = POOL_SERVERS.get(d.engine or ""), serving_benchmark(workload, d)
    ranks = any((pool.data_parallel or 1) > 1 for pool in prefill_and_decode(d.pools))
    files = servers is not None and servers.config and (ranks or d.speculative is not None)
    if servers is None or used.server is None or files or not covers_drafting(workload, d):
        return None
    share = pool_pair_share(estimate)
    pair = replace(p, requests_per_s_capacity=(p.requests_per_s_capacity or 0.0) * share)
    part = replace(
        workload,
        in_flight=math.ceil(workload.in_flight * share),
        requests=None if workload.requests is None else math.ceil(workload.requests * share),
    )
    places = {
        name: pool_places(
            part,
            replace(pool, engine=d.engine, replicas=1),
            replace(estimate, performance=pair),
            used,
            servers,
            question,
            host_counts,
        )
        for name, pool in zip((PREFILL, DECODE), prefill_and_decode(d.pools), strict=True)
    }
    machines = sum(machines_per_replica(pool) for pool in prefill_and_decode(d.pools))
    minutes = math.ceil(serving_minutes(p, question.assumptions))
    nodes = sum(pool.nodes or 1 for pool in prefill_and_decode(d.pools))
    rented = replace(estimate, deployment=replace(d, nodes=nodes))
    return BenchmarkPlan(
        command=pools_command(used, used.server, servers, places),
        rate_expression=used.counts,
        accelerators=sum(pool.accelerators_per_replica or 1 for pool in prefill_and_decode(d.pools)),
        minutes=minutes,
        usd=rent_usd(rented, machines, minutes),
    )


def prefill_and_decode(pools: Pools) -> tuple[Deployment, Deployment]:
    """Prefill pool and decode pool."""
    return pools.prefill, pools.decode


def pool_places(
    workload: InferenceWorkload,
    pool: Deployment,
    estimate: Estimate,
    used: Benchmark,
    servers: PoolServers,
    question: Question,
    host_counts: Hosts,
) -> Places:
    """Placeholders for one replica of a pool under the load of the pair, with a config file if the engine needs one."""
    places = serving_places(workload, pool, estimate, used, question.assumptions, host_counts)
    return {**places, "config": CONFIG_FILE} if servers.config else places


def pools_command(used: Benchmark, server: Server, servers: PoolServers, places: dict[str, Places]) -> str:
    """One command line for every machine; `$ROLE` selects what a machine does.

    Prefill and decode start their server. Any other role waits for both, starts the router and measures.
    """
    name = None if places[PREFILL]["model"] == places[DECODE]["model"] else str(places[DECODE]["source_model"])
    asked = {**places[DECODE], "model": name or places[DECODE]["model"]}
    ready = WAIT_FOR_POOLS.format(port=server.port, path=server.path) + servers.router
    measured = ready + READY.format(port=server.port, path=server.path) + fill_template(used.load, asked) + STOP
    stages = places[PREFILL]["pipeline"] is not None
    flags = {role: servers.flags_of(role, name, has_stages=stages) for role in places}
    commands = {role: pool_server_command(server, servers, role, own, flags[role]) for role, own in places.items()}
    starts = (f"{role}) {command} ;;" for role, command in commands.items())
    return f"case $ROLE in {' '.join(starts)} *) {measured} ;; esac"


def pool_server_command(server: Server, servers: PoolServers, role: str, places: Places, flags: str) -> str:
    """Command that starts the server of a pool's replica with the flags of the pool."""
    written = (
        f"echo {shlex.quote(json.dumps(servers.config[role]))} > {CONFIG_FILE}; " if role in servers.config else ""
    )
    parts = (
        servers.environment.get(role, ""),
        fill_template(server.command, places),
        flags,
        servers.listen_flags,
    )
    return written + " ".join(part for part in parts if part)


@dataclass(frozen=True, slots=True)
class LaunchSpec:
    """Replicas of one kind, or a run.

    `role` is serve, prefill, decode or train. `machines` counts the hosts of one replica, and `hosts` those of one
    machine as it is sold.
    """

    role: str
    software: str
    version: str | None
    replicas: int
    machines: int
    benchmark: Benchmark
    places: Places
    hosts: int = 1


def launch_specs(question: Question, estimate: Estimate, host_counts: Hosts = ONE_HOST) -> tuple[LaunchSpec, ...]:
    """Launch specifications of an estimate; empty where it has no predicted performance."""
    workload, d, p = question.workload, estimate.deployment, estimate.performance
    if p is None:
        return ()
    if isinstance(workload, TrainingWorkload):
        used = training_benchmark(workload, d)
        steps = math.ceil(workload.units / max(1.0, step_batch(workload.global_batch, d) * workload.units_per_sequence))
        places = {**training_places(workload, d, used, question.assumptions, host_counts), "all_steps": steps}
        machines, hosts = hosts_of_run(d, host_counts), host_counts.get(d.system or "", 1)
        return (LaunchSpec("train", d.framework or "", d.framework_version, 1, machines, used, places, hosts),)
    if d.pools is None:
        return (build_launch_spec(question, workload, d, estimate, "serve", host_counts),)
    alone = load_places(workload, replace(d, replicas=1), p, question.assumptions)
    pools = {"prefill": d.pools.prefill, "decode": d.pools.decode}
    starts = [
        build_launch_spec(question, workload, replace(pool, engine=d.engine), estimate, role, host_counts)
        for role, pool in pools.items()
    ]
    return tuple(replace(start, places={**start.places, **alone}) for start in starts)


def build_launch_spec(
    question: Question,
    workload: InferenceWorkload,
    d: Deployment,
    estimate: Estimate,
    role: str,
    host_counts: Hosts,
) -> LaunchSpec:
    """Launch specification for the replicas of one kind, of an estimate with a predicted performance."""
    used, p = serving_benchmark(workload, d), estimate.performance
    assert p is not None
    places = serving_places(workload, d, estimate, used, question.assumptions, host_counts)
    machines, hosts = hosts_per_replica(d, host_counts), host_counts.get(d.system or "", 1)
    replicas = (d.replicas or 1) + (d.spare_replicas or 0)
    return LaunchSpec(role, d.engine or "", d.engine_version, replicas, machines, used, places, hosts)
