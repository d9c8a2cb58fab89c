"""Translates models, frameworks, precisions and layouts of published training results into the catalog's names."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from app.sizing.columns import GIB
from app.sizing.hardware.engines import ENGINES, engine_named
from app.sizing.hardware.parts import Accelerator
from app.sizing.hardware.stacks import training_work
from app.sizing.hardware.support.generations import generation_of
from app.sizing.hardware.support.rules import verdict
from app.sizing.model.architecture import ModelArchitecture
from app.sizing.model.counting.read import read_architecture
from app.sizing.model.counting.registered import assumed_architecture
from app.sizing.model.tasks import ModelTask
from app.sizing.model.tensors import ONCE
from app.sizing.question import Deployment
from app.sizing.snapshot import Catalog
from app.sizing.training.recipes import PRECISIONS
from app.sizing.workload import Method, TrainingWorkload
from calibration.case import NotCompared, parse_number
from calibration.training.recipes import SourceRecipe, recipe_of

# Hidden size per layer: GPT-3 175B has 12,288 / 96; Megatron's models of 1 to 530 billion parameters have 96 to 200.
GPT_WIDTH_PER_LAYER = 128

_PRECISIONS: Mapping[str, str] = MappingProxyType(
    {
        "fp16-mixed": "fp16",
        "bf16-mixed": "bf16",
        "bf16 or fp16": "bf16",
        "nf4+bf16": "bf16",
        "nf4+fp16": "fp16",
        "bf16 base+fp32 adapter": "bf16",
        "int4 (bnb)+bf16": "bf16",
        "bf16": "bf16",
        "fp16": "fp16",
        "fp8": "fp8",
        "mxfp8": "mxfp8",
        "nvfp4": "nvfp4",
        "fp32": "fp32",
        "tf32": "tf32",
    }
)
# Sources that keep weights, gradients and moments in 16 bit in full fine-tuning.
ALL_16_BIT = (
    "litgpt_config_hub",
    "ms_swift_benchmark",
    "ms_swift_tuners",
    "ms_swift_examples",
    "torchao_bench",
    "peft_method_comparison",
)


def precision_of(row: Mapping[str, Any]) -> str | None:
    """The training precision as a request names it; None if not published."""
    found = _PRECISIONS.get(row.get("precision") or "")
    if found is None and row["source_key"].startswith("mlperf") and not row.get("hidden"):
        found = "fp16"  # vision networks of MLPerf train in mixed precision, although their logs do not print it
    if (
        found == "bf16"
        and row["method"] == "full_ft"
        and row["source_key"] in ALL_16_BIT
        and "Megatron" not in row["framework"]
    ):
        return "bf16-true"
    return found


def executed_precision(precision: str, accelerator: Accelerator) -> str:
    """The precision that a run used: trainers use FP16 instead of BF16 on chips without BF16."""
    lacks = precision == "bf16" and "bf16" not in generation_of(accelerator).multiplies
    return "fp16" if lacks else precision


def optimizer_of(row: Mapping[str, Any]) -> str | None:
    """The optimizer as a request names it; None if its states are not modeled."""
    name = (row.get("optimizer") or "").lower()
    if any(word in name for word in ("galore", "4-bit", "fp8", "lora-fa")):
        return None
    if "8-bit" in name or "8bit" in name:
        return "adamw-8bit"
    return next((o for o in ("adafactor", "muon", "lion", "sgd") if o in name), "adamw")


def published_trainer(framework: str) -> str | None:
    """The catalog's framework for a published name: the first match, and of matches at one position the longest."""
    said = framework.lower()
    found = [
        (said.index(word), -len(word), engine.name)
        for engine in ENGINES.values()
        for word in engine.published_as
        if word in said
    ]
    return min(found)[2] if found else None


def trainer_of(
    row: Mapping[str, Any], phase: str, method: Method, precision: str, task: ModelTask, catalog: Catalog
) -> str | None:
    """The catalog's framework; None if open, or if it is not known to train this way on the family."""
    name = published_trainer(row.get("framework") or "")
    if (
        row["source_key"].startswith("mlperf_training")
        and row["accelerator"].startswith("nvidia")
        and row.get("hidden")
    ):
        name = "megatron"
    if name == "deepspeed" and any((parse_number(row.get(degree)) or 1) > 1 for degree in ("tp", "pp", "cp")):
        name = "megatron"  # DeepSpeed splits no layers; Megatron does
    if name in (None, "fsdp"):
        name = "fsdp" if method is Method.FULL else "peft+bitsandbytes"
    accelerator = catalog.accelerators[catalog.accelerator_index[row["accelerator"]]]
    asked = training_work(phase, method.value, precision, task)
    return name if verdict(accelerator, name, *asked, catalog.documents).is_supported else None


def coefficient_framework(row: Mapping[str, Any], framework: str) -> str:
    """The framework whose coefficients a row informs: that of its layout, unless the run used another framework."""
    # MLPerf rows name every framework of the submission.
    said = "" if row["source_key"].startswith("mlperf") else row["framework"].lower()
    return next((other for other in _OTHER_FRAMEWORKS if said.startswith(other)), framework)


def shape_of(
    row: Mapping[str, Any], model_named: Callable[[str], ModelArchitecture | None]
) -> ModelArchitecture | None:
    """A model from the shape or the size in its row; a proxy is its model with fewer layers."""
    name = row["model"]
    if not row.get("hidden"):
        plain = re.sub(r" \((?:MXNet|Paddle)\)$|^timm/", "", name)
        known = model_named(plain) if plain != name else None
        if known is not None:
            return known
    tuned = model_named(name.removesuffix("-Base") + "-Instruct") if name.endswith("-Base") else None
    if tuned is not None:
        return tuned
    proxy = re.match(r"(.+) \(proxy, (\d+) layers\)", name)
    whole = model_named(proxy[1]) if proxy else None
    if proxy and whole is not None:
        return with_layers(whole, int(proxy[2]))
    number = {k: int(parse_number(row.get(k)) or 0) for k in ("hidden", "layers", "heads", "kv_heads", "ffn", "vocab")}
    assumed = False
    if not number["hidden"] or not number["layers"] or not number["heads"]:
        size = parse_number(row.get("model_params_b"))
        if size and name.startswith("GPT"):
            assumed, number = (
                True,
                gpt_shape(size * 1e9, int(parse_number(row.get("tp")) or 1), int(parse_number(row.get("pp")) or 1)),
            )
        else:
            return assumed_architecture(size * 1e9) if size and name.startswith("Llama") else None
    h = number["hidden"]
    gated = number["ffn"] < 4 * h if number["ffn"] else False
    config: dict[str, Any] = {
        "model_type": "llama" if gated else "gpt2",
        "hidden_size": h,
        "num_hidden_layers": number["layers"],
        "num_attention_heads": number["heads"],
        "vocab_size": number["vocab"] or 51200,
    }
    if gated:
        config |= {"num_key_value_heads": number["kv_heads"] or number["heads"], "intermediate_size": number["ffn"]}
    else:
        config |= {
            "n_embd": h,
            "n_layer": number["layers"],
            "n_head": number["heads"],
            "n_inner": number["ffn"] or 4 * h,
            "n_positions": 2048,
        }
    return replace(read_architecture(config, name=name), shape_is_assumed=assumed)


def gpt_shape(parameters: float, tensor_parallel: int, pipeline_parallel: int) -> dict[str, int]:
    """Shape of a GPT of known size: proportions of GPT-3's family, 12 h^2 parameters per layer, heads of 128.

    Layers and width are rounded to values that the run's layout divides.

    Check: GPT-3 on eight tensor ranks and as many stages.
        >>> shape = gpt_shape(175e9, 8, 8)
        >>> shape["hidden"], shape["layers"]
        (12288, 96)
    """
    usual = (parameters / 12 / GPT_WIDTH_PER_LAYER**2) ** (1 / 3)
    layers = pipeline_parallel * max(1, round(usual / pipeline_parallel))
    each = 128 * tensor_parallel
    hidden = each * max(1, round((parameters / 12 / layers) ** 0.5 / each))
    return {"hidden": hidden, "layers": layers, "heads": hidden // 128, "kv_heads": 0, "ffn": 0, "vocab": 0}


def with_layers(model: ModelArchitecture, layers: int) -> ModelArchitecture:
    """The model with its first layers only, as in proxies of reduced depth."""
    share = layers / model.num_layers
    tensors = tuple(
        t if t.layers == ONCE else replace(t, layers=tuple(i for i in t.layers if i < layers)) for t in model.tensors
    )
    return replace(
        model,
        num_layers=layers,
        tensors=tuple(t for t in tensors if t.layers),
        moe_layers=round(model.moe_layers * share),
        attention=tuple(replace(g, layers=max(1, round(g.layers * share))) for g in model.attention),
        recurrent_flops_per_token=model.recurrent_flops_per_token * share,
    )


# Before this month, attention kernels stored their scores and tensor parallelism had no sequence parallelism.
FUSED_SINCE = "2023-01"
# Notes of figures that no run reached: extrapolated, or the capacity of the card.
_NOT_A_PEAK = ("card capacity", "upper bound", "capacity of the card", "naive layer split")
# Note of runs that only show that a recipe works, in the words of the source.
_UNTUNED = "NOT performance-tuned"
# Sources that state the longest allowed length and run shorter samples unpadded: they give no token rate.
_SHORTER_IN_PRACTICE = ("ms_swift_benchmark", "ms_swift_tuners", "ms_swift_examples", "litgpt_config_hub")
# NVIDIA's BERT examples sort Wikipedia by length: their second phase pads to the longest sample in a bin of 64
# (changelogs of their READMEs), not to 512.
_BINNED = {"source_key": "nvidia_dle", "model": "bert-large-uncased", "method": "pretrain", "seq_len": "512"}
_BINNING = ("PyTorch", "PaddlePaddle")
# Sources whose code always stores attention scores: examples of 2020 to 2022.
_STORED_SCORES = ("nvidia_dle",)
# Frameworks that are neither based on PyTorch nor in the catalog: they have their own coefficients.
_OTHER_FRAMEWORKS = ("tensorflow", "paddlepaddle", "mxnet")
_NETWORK = re.compile(r"(\d+)\s*x\s*(?:[\w-]+ )*?(\d+)\s*Gb", re.IGNORECASE)


def _is_binned(row: Mapping[str, Any]) -> bool:
    """Whether a row's samples are shorter than its sequence length."""
    return row["framework"] in _BINNING and all(row[column] == value for column, value in _BINNED.items())


@dataclass(frozen=True, slots=True)
class Run:
    """A row's run: accelerators, machines and layout."""

    row: Mapping[str, Any]
    accelerator: str
    accelerators: float
    per_machine: float | None
    network_bytes_per_s: float | None  # bandwidth of one machine, bytes/s

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Run:
        cards = [
            float(count) * float(gbit) / 8 * 1e9 for count, gbit in _NETWORK.findall(row.get("interconnect") or "")
        ]
        across = float(row["num_accelerators"]) > (parse_number(row.get("accelerators_per_node")) or 0.0)
        # MLPerf's field lists every network card of a machine, including those for storage and management.
        return cls(
            row,
            row["accelerator"],
            float(row["num_accelerators"]),
            parse_number(row.get("accelerators_per_node")),
            max(cards) if cards and across and not row["source_key"].startswith("mlperf") else None,
        )

    def parse_column(self, name: str) -> int | None:
        value = parse_number(self.row.get(name))
        return None if value is None else int(value)

    def read_layout(self, trainer: str | None, model: ModelArchitecture) -> tuple[Deployment, int]:
        """(deployment as /estimate takes it, global batch); raises NotCompared if the batch is not known."""
        row, notes = self.row, self.row.get("notes") or ""
        tp, pp, cp, ep = (
            self.parse_column("tp"),
            self.parse_column("pp"),
            self.parse_column("cp"),
            self.parse_column("ep"),
        )
        micro, batch = self.parse_column("micro_batch"), self.parse_column("global_batch")
        if trainer == "neuronx" and tp is not None and tp > 1:
            tp = max(1, tp // 2)  # published in cores; a chip has two
        ranks = (tp or 1) * (pp or 1) * (cp or 1)
        if batch is None:
            if micro is None:
                raise NotCompared("batch is not given")
            batch = int(micro * max(1.0, self.accelerators // ranks) * (self.parse_column("grad_accum") or 1))
        if micro is not None and (batch * ranks) % (micro * self.accelerators):
            micro = None  # the published micro-batch contradicts the published layout
        traits = engine_named(trainer or "").framework
        if not traits.splits:
            ranks, tp, pp, cp, ep = 1, None, None, None, None
        if ranks > self.accelerators or self.accelerators % ranks:
            tp, pp, cp, ep = None, None, None, None
        if "ETP=" in notes:
            raise NotCompared("expert tensor parallelism (ETP) is not supported")
        virtual, known = re.search(r"VP=(\d+)", notes), recipe_of(row)
        old = (row.get("source_date") or "9") < FUSED_SINCE or row["source_key"] in _STORED_SCORES
        zero = self.parse_column("zero_stage")
        if traits.splits and not traits.shards and zero is None:
            zero = 1
        states, parameters, activations = self.offload_flags(known)
        return Deployment(
            accelerator=self.accelerator,
            total_accelerators=int(self.accelerators),
            tensor_parallel=tp,
            pipeline_parallel=pp,
            context_parallel=cp,
            expert_parallel=ep if model.is_moe else None,
            micro_batch_sequences=micro,
            zero_stage=None if trainer is None or traits.single_accelerator else zero,
            activation_checkpointing=self.checkpointing_mode(known),
            optimizer_offload=states,
            parameter_offload=parameters,
            activation_offload=activations,
            framework=trainer,
            virtual_pipeline=int(virtual[1]) if virtual else 1 if old else None,
            sequence_parallel=False if old else known.sequence_parallel,
            flash_attention=False if old else None,
            recipe=known.said,
        ), batch

    def offload_flags(self, known: SourceRecipe) -> tuple[bool | None, bool | None, bool | None]:
        """Whether optimizer states, parameters and activations are in host memory; None if not known.

        Raises NotCompared if only some of them are.
        """
        said = self.row.get("offload") or ""
        if "may be" in said:
            return None, None, None
        if any(part in said for part in ("25%", "50%", "75%", "activations of")):
            raise NotCompared("offload of a share of the states or of some layers is not modeled")
        parameters = "params" in said
        trained = self.row["method"] in ("pretrain", "full_ft")
        activations = None if known.may_offload else "activations to" in said
        return ("optimizer" in said and trained) or (parameters and trained), parameters, activations

    def checkpointing_mode(self, known: SourceRecipe) -> str | None:
        """Activation checkpointing of the row, else of its source; None if open."""
        if "remat custom" in (self.row.get("notes") or ""):
            return "full"
        said: str | None = self.row.get("activation_checkpointing") or None
        return said if said is not None or known.said is None else known.said.recomputation_layout

    def units_per_s_per_accelerator(
        self, model: ModelArchitecture, workload: TrainingWorkload, catalog: Catalog, precision: str
    ) -> float | None:
        """Tokens (or samples) per second of one accelerator, from any rate in the row; None if the row has none."""
        row = self.row
        if _UNTUNED in (row.get("notes") or "") or row["source_key"] in _SHORTER_IN_PRACTICE or _is_binned(row):
            return None
        tokens, samples, step = (
            parse_number(row.get("tokens_s_per_accelerator")),
            parse_number(row.get("samples_s_total")),
            parse_number(row.get("step_time_s")),
        )
        if workload.in_samples:
            return samples / self.accelerators if samples else None
        if tokens:
            return tokens
        if samples:
            return samples * workload.units_per_sequence / self.accelerators
        if step and self.parse_column("global_batch"):
            return workload.global_batch * workload.units_per_sequence / step / self.accelerators
        share, rate = parse_number(row.get("mfu")), parse_number(row.get("tflops_per_accelerator"))
        if share is None and rate is None:
            return None
        peak = self._peak_flops_per_s(catalog, precision)
        useful = share * peak if share is not None else (rate or 0.0) * 1e12
        wide = model.num_heads * model.head_dim
        return useful / (6 * model.matmul_params + 12 * model.num_layers * wide * workload.units_per_sequence)

    def _peak_flops_per_s(self, catalog: Catalog, precision: str) -> float:
        rates = catalog.accelerators[catalog.accelerator_index[self.accelerator]].flops_per_s
        names = {"16bit": ("bf16", "fp16"), "fp8": ("fp8",), "fp4": ("fp4", "nvfp4"), "fp32": ("tf32", "fp32")}[
            PRECISIONS[precision].format_class
        ]
        found = next((rates[n] for n in names if n in rates), None)
        if found is None:
            raise NotCompared("declined: the accelerator has no rate in this precision")
        return found

    def peak_memory_bytes(self) -> float | None:
        notes = self.row.get("notes") or ""
        peak = parse_number(self.row.get("peak_mem_gib_per_accelerator"))
        return None if peak is None or any(words in notes for words in _NOT_A_PEAK) else peak * GIB

    def layout_is_known(self, model: ModelArchitecture) -> bool:
        """Whether memory is determined: the shape is known, and so is the split over several accelerators."""
        split = self.parse_column("tp") is not None or self.parse_column("zero_stage") is not None
        return not model.shape_is_assumed and (self.accelerators == 1 or split)
