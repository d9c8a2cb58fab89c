"""Training and fine-tuning runs: amount of data, batch size and deadline."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from math import log2

from app.errors import Unanswerable
from app.sizing.assumptions import Assumed, Assumptions
from app.sizing.columns import SECONDS_PER_DAY, SECONDS_PER_HOUR
from app.sizing.formula import formula
from app.sizing.model.architecture import ModelArchitecture
from app.sizing.workload.lengths import adapted_matrices

DEFAULT_PRECISION, DEFAULT_OPTIMIZER = "bf16", "adamw"


class Method(StrEnum):
    FULL = "full"
    LORA = "lora"
    QLORA = "qlora"


DEADLINE_NAME = "deadline_days"


@dataclass(frozen=True, slots=True)
class TrainingWorkload:
    """A training or fine-tuning run, in tokens or in samples.

    `units`: tokens (or samples) of the run. `units_per_sequence`: tokens of one sequence (1 for samples).
    `global_batch`: sequences (or samples) per optimizer step.
    """

    model: ModelArchitecture
    phase: str
    method: Method
    units: float
    units_per_sequence: float
    global_batch: int
    precision: str
    optimizer: str
    deadline_s: float
    experiment_overhead: float  # extra experiments as a share of the run
    dataset_bytes: float | None
    checkpoint_interval_s: float | None
    synchronous_checkpoints: bool  # the run waits while a checkpoint is written
    lora_rank: int
    lora_targets: str | tuple[str, ...]  # matrices that adapters modify
    lora_magnitudes: bool = False  # whether adapters train the magnitude of each row (DoRA)
    near_batch_share: float = Assumptions.default_value("near_batch_share")
    published_stage_unevenness: float = Assumptions.default_value("published_stage_unevenness")
    batch_requested: bool = True
    assumed_times: float | None = None  # how many times the usual deadline it has; None: the request sets one
    derived: tuple[Assumed, ...] = ()  # defaults and the values given instead, as an answer lists them

    def with_relaxed_limits(self, times: float) -> TrainingWorkload:
        """The same run with a deadline that is a number of times the assumed one."""
        derived = tuple(a.relaxed(times) if a.name == DEADLINE_NAME else a for a in self.derived)
        return replace(self, deadline_s=self.deadline_s * times, assumed_times=times, derived=derived)

    @property
    def in_samples(self) -> bool:
        return self.model.sample is not None


@dataclass(frozen=True, slots=True)
class Amount:
    """Amount of training data as the request gives it: one of tokens, samples or examples."""

    tokens: float | None = None
    samples: float | None = None
    examples: float | None = None
    epochs: float = 1.0

    def total_units(self, sequence_tokens: int, *, in_samples: bool) -> float | None:
        """Tokens or samples of the run; None if the amount does not determine them."""
        if self.tokens is not None:
            return self.tokens
        if self.examples is not None:
            return self.examples * self.epochs * (1 if in_samples else sequence_tokens)
        return self.samples if in_samples else None


@dataclass(frozen=True, slots=True)
class GlobalBatch:
    """Size of an optimizer step as the request gives it."""

    tokens: float | None = None
    sequences: int | None = None
    samples: int | None = None

    def batch_size(self, sequence_tokens: int, *, in_samples: bool) -> int | None:
        """Sequences or samples per optimizer step; None if the request gives none."""
        if in_samples:
            return self.samples or self.sequences
        if self.tokens is not None:
            return max(1, round(self.tokens / sequence_tokens))
        return self.sequences


def build_training_workload(
    model: ModelArchitecture,
    assumed: Assumptions,
    *,
    phase: str,
    amount: Amount,
    batch: GlobalBatch,
    precision: str | None = None,
    optimizer: str | None = None,
    method: Method = Method.FULL,
    sequence_tokens: int | None = None,
    deadline_s: float | None = None,
    experiment_overhead: float = 0.0,
    dataset_bytes: float | None = None,
    checkpoint_interval_s: float | None = None,
    synchronous_checkpoints: bool = False,
    lora_rank: int | None = None,
    lora_targets: str | list[str] = "all-linear",
    lora_magnitudes: bool = False,
) -> TrainingWorkload:
    """Build a complete run from the given parts; None means the default.

    Raises Unanswerable if the parts contradict one another.
    """
    model = _note_source_split(model)
    in_samples, adapts = model.sample is not None, method is not Method.FULL
    length = sequence_tokens or (1 if in_samples else int(assumed.default_sequence_tokens))
    requested_batch = batch.batch_size(length, in_samples=in_samples)
    size = requested_batch or usual_batch(model, phase, length, assumed)
    limit_s = deadline_s or usual_deadline_s(phase, assumed)
    named = {"batch": requested_batch, "sequence_length": sequence_tokens, DEADLINE_NAME: deadline_s}
    return TrainingWorkload(
        model=model,
        phase=phase,
        method=method,
        units=_run_units(model, phase, method, amount, length, assumed),
        units_per_sequence=1.0 if in_samples else float(length),
        global_batch=size,
        precision=precision or DEFAULT_PRECISION,
        optimizer=optimizer or DEFAULT_OPTIMIZER,
        deadline_s=limit_s,
        experiment_overhead=experiment_overhead,
        dataset_bytes=dataset_bytes,
        checkpoint_interval_s=checkpoint_interval_s,
        synchronous_checkpoints=synchronous_checkpoints,
        lora_rank=lora_rank or (int(assumed.default_lora_rank) if adapts else 0),
        lora_targets=adapted_matrices(model, lora_targets) if adapts else "all-linear",
        lora_magnitudes=lora_magnitudes and adapts,
        near_batch_share=assumed.near_batch_share,
        published_stage_unevenness=assumed.published_stage_unevenness,
        batch_requested=requested_batch is not None,
        assumed_times=None if deadline_s else 1.0,
        derived=(
            *_numeric_assumptions(size, length, limit_s, {n for n, v in named.items() if v}, in_samples=in_samples),
            *_text_assumptions(precision, optimizer),
        ),
    )


def _numeric_assumptions(
    size: int, length: int, limit_s: float, explicit_names: set[str], *, in_samples: bool
) -> Iterator[Assumed]:
    """Batch size, sequence length and deadline with the names of a request, given or default."""
    unit, batch_given = ("samples" if in_samples else "sequences"), "batch" in explicit_names
    yield Assumed(
        f"global_batch_{unit}", size, unit, "global batch of each step", "published batches", (1.0, 1e7), batch_given
    )
    if not in_samples:
        known = "sequence_length" in explicit_names
        reason = "length of a training sequence", "default_sequence_tokens"
        yield Assumed("sequence_length", length, "tokens", *reason, (1.0, 1e7), known)
    known = DEADLINE_NAME in explicit_names
    days = limit_s / SECONDS_PER_DAY
    yield Assumed(DEADLINE_NAME, days, "days", "time limit of the run", "assumed: usual value", (0.0, 36500.0), known)


def _text_assumptions(precision: str | None, optimizer: str | None) -> tuple[Assumed, ...]:
    return (
        _text_assumption("precision", precision, DEFAULT_PRECISION, "number format of matrix multiplications"),
        _text_assumption("optimizer", optimizer, DEFAULT_OPTIMIZER, "optimizer, which determines the optimizer states"),
    )


def _text_assumption(name: str, requested: str | None, usual: str, reason: str) -> Assumed:
    """A name from the request, or the default."""
    return Assumed(name, requested or usual, "text", reason, "assumed: usual value", asked=requested is not None)


def _note_source_split(model: ModelArchitecture) -> ModelArchitecture:
    """For a model with a source sequence, note the assumed split of a sequence."""
    if not model.reads_source:
        return model
    note = "half the tokens of a training sequence belong to the source, half to the target"
    return replace(model, assumed=(*model.assumed, note))


def _run_units(
    model: ModelArchitecture, phase: str, method: Method, amount: Amount, length: int, assumed: Assumptions
) -> float:
    """Tokens or samples of the run.

    Raises Unanswerable if they cannot be determined or contradict the rest of the request.
    """
    in_samples = model.sample is not None
    units = amount.total_units(length, in_samples=in_samples)
    if units is None:
        wanted = "training_samples" if in_samples else "training_tokens"
        text = f"Set {wanted}" + (", or examples and epochs." if phase == "fine_tuning" else ".")
        raise Unanswerable.at(f"#/workload/{wanted}", text)
    if in_samples and method is not Method.FULL:
        raise Unanswerable.at(
            "#/workload/method",
            "Adapters (lora, qlora) are supported only for models that process tokens. Use method full.",
        )
    most = (model.max_context_tokens or 0) * assumed.longest_sequence_over_context
    if not in_samples and model.max_context_tokens and length > most:
        raise Unanswerable.at(
            "#/workload/sequence_length",
            f"sequence_length {length:,} is far beyond the context window of {model.name}: "
            f"{model.max_context_tokens:,} tokens. Set at most {int(most):,}.",
        )
    return units


def usual_deadline_s(phase: str, assumed: Assumptions) -> float:
    """Default duration of a run in seconds."""
    if phase == "fine_tuning":
        return assumed.default_fine_tuning_hours * SECONDS_PER_HOUR
    return assumed.default_training_days * SECONDS_PER_DAY


def usual_batch(model: ModelArchitecture, phase: str, sequence_tokens: int, assumed: Assumptions) -> int:
    """Default sequences or samples per step; a power of two for models trained from scratch."""
    if model.sample is not None:
        return int(assumed.default_batch_samples)
    if phase == "fine_tuning":
        return int(assumed.default_fine_tuning_batch_sequences)
    sequences = usual_batch_tokens(float(model.total_params), assumed) / sequence_tokens
    return int(2 ** max(0, round(log2(sequences))))


@formula(unit="tokens", source="Brown et al. 2020 (arXiv:2005.14165); Grattafiori et al. 2024 (arXiv:2407.21783)")
def usual_batch_tokens(total_params: float, assumed: Assumptions) -> float:
    """Tokens per step of pre-training. Published runs use larger batches for larger models.

    The fit covers GPT-3 from 125 M parameters (0.5 M tokens) to Llama 3 405B (16 M tokens).

    Parameters:
        total_params: parameters of the model.
        assumed: assumptions; `default_batch_tokens_at_1b` and `default_batch_exponent`.
    Limits: published batches differ by a factor of two at one model size, and grew over the years.
    Check: 8.4 M tokens for 70 B parameters.
        >>> round(usual_batch_tokens(70e9, Assumptions()) / 1e6, 1)
        8.4
    """
    return assumed.default_batch_tokens_at_1b * float((total_params / 1e9) ** assumed.default_batch_exponent)
