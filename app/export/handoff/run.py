"""A training run as its files describe it: trainer, inputs and outputs, steps, checkpoints, and values of templates."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.export.handoff.option import Option, ReplicaGroup, StartNotStored
from app.export.handoff.trainers import LEARNING_RATES, PRETRAIN, NoLauncher, Trainer, find_trainer
from app.sizing.answer.pipelines import bridge_stage_places
from app.sizing.hardware.engines import engine_named
from app.sizing.words import format_count, product_name

LOG_STEPS = 10
WARMUP_SHARE = 0.03  # of the steps: Dettmers et al. 2023 (arXiv:2305.14314), appendix B, warm up for 3 %
UNTIMED_SAVES = 10  # checkpoints of a run whose answer states no interval
DEFAULT_KEPT = 3  # checkpoints that stay, if the answer states no capacity
DROPOUT = 0.05  # of adapters in frameworks that were sized with dropout
SHARDED = 3  # the ZeRO stage that also shards the weights
# Lightning's names of mixed and pure half precision; all others are 32 bit.
LIGHTNING_PRECISION = {"bf16": "bf16-mixed", "bf16-true": "bf16-true", "fp16": "16-mixed"}
SEVEN_MATRICES = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


@dataclass(frozen=True, slots=True)
class Slot:
    """An input or output of a run: the variable that holds it, what it is, and its value if it is known."""

    name: str
    meaning: str
    value: str | None = None


@dataclass(frozen=True, slots=True)
class TrainingRun:
    """One training run with its launcher."""

    option: Option
    trainer: Trainer
    trains: str  # pretrain, full, lora or qlora

    @property
    def group(self) -> ReplicaGroup:
        """Machines and values of the run."""
        return self.option.groups[0]

    @property
    def pretrains(self) -> bool:
        """Whether the run starts from random weights unless the request names a checkpoint."""
        return self.trains == PRETRAIN

    @property
    def engine(self) -> str:
        """Engine whose behavior applies: that of the framework, or the one that it runs on."""
        return engine_named(self.option.software).base_engine()

    @property
    def uses_deepspeed(self) -> bool:
        """Whether DeepSpeed shards or offloads the states."""
        sharded = int(self.option.deployment.get("zero_stage") or 0) > 0
        return self.engine == "deepspeed" and (self.group.accelerators > 1 or sharded)

    @property
    def data_ranks(self) -> int:
        return int(self.option.deployment.get("data_parallel") or 1)

    @property
    def batch(self) -> int:
        """Sequences of a step: the batch nearest to the requested one that divides evenly over the ranks."""
        return self.group.int_place("micro_batch") * self.group.int_place("accumulated") * self.data_ranks

    @property
    def steps(self) -> int:
        """Optimizer steps of the whole run: as many sequences as the requested batch would take."""
        return math.ceil(
            self.group.int_place("all_steps") * self.group.int_place("global_batch", self.batch) / self.batch
        )

    @property
    def save_steps(self) -> int:
        """Steps between checkpoints, from the interval in minutes that the run was sized with."""
        performance = self.option.performance
        minutes, step_s = performance.get("checkpoint_interval_minutes"), performance.get("step_time_s")
        if not minutes or not step_s:
            return max(1, self.steps // UNTIMED_SAVES)
        return max(1, min(self.steps, round(60 * float(minutes) / float(step_s))))

    @property
    def kept_checkpoints(self) -> int:
        """Checkpoints that stay on the storage whose capacity the answer states."""
        performance = self.option.performance
        capacity_tb = (performance.get("cluster") or {}).get("checkpoint_capacity_tb")
        size_gb = performance.get("checkpoint_gb")
        return max(2, round(1000 * capacity_tb / size_gb)) if capacity_tb and size_gb else DEFAULT_KEPT

    @property
    def warmup_steps(self) -> int:
        """Steps in which the learning rate rises."""
        return max(1, math.ceil(WARMUP_SHARE * self.steps))

    @property
    def predicted_gib(self) -> float | None:
        """Predicted peak memory of each accelerator in GiB."""
        total = (self.option.memory.get("per_accelerator_gib") or {}).get("total")
        return None if total is None else float(total)

    @property
    def recomputes(self) -> str:
        """Which activations are recomputed: none, selective or full."""
        return str(self.option.deployment.get("activation_checkpointing") or "none")

    def slots(self) -> tuple[Slot, ...]:
        """Inputs and outputs of the run. The ones without a value stop the run with a sentence until the user acts."""
        asked, trainer, known = (
            self.option.handoff,
            self.trainer,
            self.trainer.known_variables(self.group.model, self.trains),
        )
        named = None if self.group.model.startswith("./") else self.group.model
        start = asked.get("base_checkpoint") or named
        base = "the model whose configuration and tokenizer the run uses" if self.pretrains else "the base checkpoint"
        tokenizer = {"TOKENIZER": named} if named else {}
        resumed = asked.get("resume_from")  # else a variable: auto
        return (
            Slot("DATASET", trainer.data, asked.get("dataset")),
            Slot("START_FROM", f"{base}: a repository of the Hugging Face hub, or its folder", start),
            Slot(
                "OUTPUT_DIR",
                "the folder for checkpoints and the model, on storage that outlives the machine",
                asked.get("output"),
            ),
            *([Slot("RESUME_FROM", "a checkpoint to resume from", resumed)] if resumed else []),
            Slot(
                "LEARNING_RATE", f"the peak learning rate, which Headroom does not size; {LEARNING_RATES[self.trains]}"
            ),
            *(
                Slot(name, meaning, known.get(name) or tokenizer.get(name))
                for name, meaning in trainer.variables.items()
            ),
        )


def training_run(option: Option) -> TrainingRun:
    """The run of an option. Raises NoLauncher, and StartNotStored for an answer of an older version."""
    group = option.groups[0]
    places = group.places
    if "kind" not in places:
        raise StartNotStored("This answer was stored by a version without launchers of runs. Send its request again.")
    trains = PRETRAIN if places["task"] == PRETRAIN else str(places.get("adapter") or "full")
    trainer = find_trainer(option.software, trains, str(places["kind"]))
    if trainer.machines and group.machines > trainer.machines:
        raise NoLauncher(
            f"Headroom starts {product_name(option.software)} on {format_count(trainer.machines, 'machine')} only; "
            f"this run takes {group.machines}."
        )
    if group.accelerators % group.machines:  # chips that are rented one by one
        raise NoLauncher(
            f"Launchers start as many processes on every machine: {group.accelerators} accelerators do not fill "
            f"{format_count(group.machines, 'machine')} evenly. Choose another number of accelerators."
        )
    if places["optimizer_name"] not in trainer.optimizers:
        raise NoLauncher(
            f"{product_name(option.software)} has no optimizer {places['optimizer_name']}. Set workload.optimizer to "
            f"one of: {', '.join(trainer.optimizers)}."
        )
    if "fp8" in str(places["numbers"]) and "{in_fp8}" not in trainer.command:
        raise NoLauncher(
            f"Headroom starts {product_name(option.software)} in 16 or 32 bit only. Set workload.precision to bf16, or "
            "name megatron or maxtext in constraints.engines."
        )
    return TrainingRun(option, trainer, trains)


def run_places(run: TrainingRun) -> dict[str, Any]:
    """Values of the templates: those stored with the answer, and those that follow from them."""
    places, deployment = dict(run.group.places), run.option.deployment
    return {
        **places,
        "global_batch": run.batch,
        "global_batch_tokens": run.batch * run.group.int_place("length"),
        **_optimizer_places(run),
        **_number_places(run),
        **_memory_places(run),
        **_adapter_places(run),
        **_layout_places(run),
        "log_steps": LOG_STEPS,
        "kept": run.kept_checkpoints,
        "warmup_share": WARMUP_SHARE,
        "lr_scheduler": "cosine",
        "weight_decay": 0.0 if "adapter" in places else 0.1,
        "packing_strategy": "wrapped" if run.pretrains else "bfd",
        "random_weights": run.pretrains and not run.option.handoff.get("base_checkpoint"),
        "saves_async": None if deployment.get("checkpoint_mode") == "synchronous" else "",
        "factory_stage": "pt" if run.pretrains else "sft",
        "packs_neatly": not run.pretrains,
        "bridge_mode": "lora" if run.trains == "lora" else "sft",
        "habana_script": places.get("script"),
    }


def _optimizer_places(run: TrainingRun) -> dict[str, Any]:
    """Optimizer under the name that the tool gives it, fused if the run was sized so."""
    recipe = run.option.deployment.get("recipe") or {}
    name = str(run.group.places["optimizer_name"])
    own = run.trainer.optimizers[name]
    fused = recipe.get("optimizer_implementation") == "fused"
    return {
        "optimizer": run.trainer.fused.get(own, own) if fused else own,
        "is_fused": "" if fused and name == "adamw" else None,
        "eight_bits": "" if name.endswith("8bit") else None,
    }


def _number_places(run: TrainingRun) -> dict[str, Any]:
    """Number formats: of computation, and of the weights in memory."""
    numbers, adapts = str(run.group.places["numbers"]), run.trains in ("lora", "qlora")
    half = "float16" if numbers == "fp16" else "bfloat16"
    wide = numbers in ("fp32", "tf32")
    narrow_weights = adapts or run.uses_deepspeed or numbers == "bf16-true"
    return {
        "in_bf16": half == "bfloat16" and not wide and numbers != "bf16-true",
        "in_fp16": numbers == "fp16",
        "in_tf32": numbers == "tf32" or None,
        "pure_bf16": numbers == "bf16-true",
        "weight_type": half if narrow_weights and not wide else "float32",
        "maxtext_weights": "bfloat16" if narrow_weights else "float32",
        "megatron_precision": None if wide else "fp16" if numbers == "fp16" else "bf16",
        "tune_precision": "fp32" if wide else "bf16",
        "lightning_precision": LIGHTNING_PRECISION.get(numbers, "32-true"),
        "four_bit_compute": half if run.trains == "qlora" else None,
    }


def _memory_places(run: TrainingRun) -> dict[str, Any]:
    """Recomputation and offload."""
    deployment, kept = run.option.deployment, run.recomputes
    offloads = bool(deployment.get("activation_offload"))
    states = offloads_states(run)
    in_sharding = shards_with_fsdp(run) and kept == "full"
    return {
        "trainer_recomputes": kept != "none" and not in_sharding,
        "keeps_activations": kept == "none",
        "offloads_activations": offloads,
        "offloads_flag": offloads and kept != "none",
        "offloads_states": states or None,
        "recompute": kept != "none",
        "recomputation": kept,
        "unsloth_checkpointing": "unsloth" if offloads else kept != "none",
        "adapter_checkpointing": ("unsloth" if offloads else kept != "none") if "adapter" in run.group.places else None,
        "remat_policy": "minimal_offloaded" if offloads else {"selective": "minimal"}.get(kept, kept),
        "bridge_granularity": "null" if kept == "none" else kept,
    }


def _adapter_places(run: TrainingRun) -> dict[str, Any]:
    """Adapters and 4-bit weights; None for what a full run leaves out."""
    places, recipe = run.group.places, run.option.deployment.get("recipe") or {}
    adapts, four_bit = run.trains in ("lora", "qlora"), run.trains == "qlora"
    roles = places.get("adapted")
    targets = [str(role) for role in roles] if isinstance(roles, list) else SEVEN_MATRICES
    rank = run.group.int_place("rank")
    return {
        "alpha": 2 * rank if adapts else None,
        "adapts": "" if adapts else None,
        "dropout": (DROPOUT if recipe.get("adapter_dropout") else 0.0) if adapts else None,
        "targets": targets if adapts else None,
        "target_list": targets if adapts else None,
        "target_text": ",".join(targets) if adapts else None,
        "adapter_task": "CAUSAL_LM" if adapts else None,
        "adapter_bias": "none" if adapts else None,
        "is_full": not adapts,
        "loads_4_bits": four_bit,
        "loads_16_bits": not four_bit,
        "four_bit": True if four_bit else None,
        "four_bit_type": "nf4" if four_bit else None,
        "bits": 4 if four_bit else None,
        "bits_method": "bnb" if four_bit else None,
        "mlx_scale": 2.0 if adapts else None,
    }


def _layout_places(run: TrainingRun) -> dict[str, Any]:
    """Sharding, and degrees under the names and defaults of single tools."""
    group, deployment = run.group, run.option.deployment
    stage, machines = int(deployment.get("zero_stage") or 0), group.machines
    single = group.accelerators == 1
    kind = {"full": "full_finetune", "lora": "lora_finetune", "qlora": "lora_finetune"}.get(run.trains)
    return {
        "pipeline_degree": group.int_place("pipeline"),
        "context_degree": group.int_place("contexts"),
        "forward_each": group.places.get("forward_each", group.places.get("batch_each")),
        "forward_passes": group.int_place("forward_passes", group.int_place("accumulated")),
        "several_ranks": None if single else group.per_machine,
        "tune_recipe": f"{kind}_{'single_device' if single else 'distributed'}",
        "with_zero": "" if run.uses_deepspeed else None,
        "zero_file": "ds_config.json" if run.uses_deepspeed and not single else None,
        "fsdp_mode": "full_shard auto_wrap" if shards_with_fsdp(run) else None,
        "fsdp_version": 2 if shards_with_fsdp(run) else None,
        "fsdp_strategy": ("FULL_SHARD" if stage == SHARDED else "SHARD_GRAD_OP") if shards_with_fsdp(run) else None,
        "offloads_sharded": offloads_states(run) if shards_with_fsdp(run) else None,
        "fsdp_settings": _fsdp_settings(run) if shards_with_fsdp(run) else None,
        "maxtext_shards": -1 if stage else 1,
        "maxtext_copies": 1 if stage else -1,
        "shard_machines": machines if machines > 1 and stage else None,
        "copy_machines": machines if machines > 1 and not stage else None,
        "on_gpu": "" if group.places.get("hardware") else None,
        **bridge_stage_places(group.int_place("layers"), group.int_place("pipeline"), group.places),
    }


def offloads_states(run: TrainingRun) -> bool:
    """Whether weights or the states of the optimizer are in host memory."""
    return bool(run.option.deployment.get("optimizer_offload") or run.option.deployment.get("parameter_offload"))


def shards_with_fsdp(run: TrainingRun) -> bool:
    """Whether PyTorch shards or offloads the states: over several accelerators, or from one to the host."""
    sharded = int(run.option.deployment.get("zero_stage") or 0) > 0 and run.group.accelerators > 1
    return not run.uses_deepspeed and (sharded or offloads_states(run))


def _fsdp_settings(run: TrainingRun) -> Mapping[str, Any]:
    """FSDP settings without the prefix that accelerate gives them."""
    deployment = run.option.deployment
    return {
        "offload_params": offloads_states(run),
        "auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
        "state_dict_type": "FULL_STATE_DICT",
        "reshard_after_forward": int(deployment.get("zero_stage") or 0) == SHARDED,
        "activation_checkpointing": run.recomputes == "full",
    }
