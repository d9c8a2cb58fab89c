"""Training and fine-tuning: how much is gone through, in which steps, by when."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from app.errors import Unanswerable
from app.sizing.assumptions import Assumed, Assumptions
from app.sizing.model.architecture import ModelArchitecture
from app.sizing.units import SECONDS_PER_DAY, SECONDS_PER_HOUR
from app.sizing.workload.sizes import adapted_matrices

DEFAULT_PRECISION, DEFAULT_OPTIMIZER = "bf16", "adamw"


class Method(StrEnum):
    FULL = "full"
    LORA = "lora"
    QLORA = "qlora"


@dataclass(frozen=True, slots=True)
class TrainingWorkload:
    """A training or fine-tuning run, in tokens or in samples.

    `units` are tokens (or samples) to go through, `units_per_sequence` tokens of one sequence
    (1 for samples), `global_batch` sequences (or samples) per optimizer step.
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
    experiment_overhead: float
    dataset_bytes: float | None
    checkpoint_interval_s: float | None
    synchronous_checkpoints: bool
    lora_rank: int
    lora_targets: str | tuple[str, ...]
    derived: tuple[Assumed, ...] = ()  # what was chosen, or given in its place, as an answer shows it

    @property
    def in_samples(self) -> bool:
        return self.model.sample is not None


@dataclass(frozen=True, slots=True)
class Amount:
    """How much a run goes through, as it was said: one of these."""

    tokens: float | None = None
    samples: float | None = None
    examples: float | None = None
    epochs: float = 1.0

    def units(self, sequence_tokens: int, *, in_samples: bool) -> float | None:
        """Tokens, or samples; None where neither follows."""
        if self.tokens is not None:
            return self.tokens
        if self.examples is not None:
            return self.examples * self.epochs * (1 if in_samples else sequence_tokens)
        return self.samples if in_samples else None


@dataclass(frozen=True, slots=True)
class GlobalBatch:
    """What an optimizer step goes through, as it was said."""

    tokens: float | None = None
    sequences: int | None = None
    samples: int | None = None

    def size(self, *, phase: str, sequence_tokens: int, in_samples: bool, assumed: Assumptions) -> int:
        """Sequences, or samples."""
        if in_samples:
            return self.samples or self.sequences or int(assumed.default_batch_samples)
        if self.tokens is not None:
            return max(1, round(self.tokens / sequence_tokens))
        if self.sequences is not None:
            return self.sequences
        fine_tuning = phase == "fine_tuning"
        return int(
            assumed.default_fine_tuning_batch_sequences if fine_tuning else assumed.default_training_batch_sequences
        )


def training_workload(
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
) -> TrainingWorkload:
    """A complete run from what was said of it; None is chosen. Raises Unanswerable where the parts contradict."""
    if model.reads_source:
        model = replace(
            model, assumed=(*model.assumed, "half the tokens of a training sequence are source, half target")
        )
    in_samples, adapts = model.sample is not None, method is not Method.FULL
    length = sequence_tokens or (1 if in_samples else int(assumed.default_sequence_tokens))
    units = _units(model, phase, method, amount, length, assumed)
    if deadline_s is None:
        deadline_s = usual_deadline_s(phase, assumed)
    return TrainingWorkload(
        model=model,
        phase=phase,
        method=method,
        units=units,
        units_per_sequence=1.0 if in_samples else float(length),
        global_batch=batch.size(phase=phase, sequence_tokens=length, in_samples=in_samples, assumed=assumed),
        precision=precision or DEFAULT_PRECISION,
        optimizer=optimizer or DEFAULT_OPTIMIZER,
        deadline_s=deadline_s,
        experiment_overhead=experiment_overhead,
        dataset_bytes=dataset_bytes,
        checkpoint_interval_s=checkpoint_interval_s,
        synchronous_checkpoints=synchronous_checkpoints,
        lora_rank=lora_rank or (int(assumed.default_lora_rank) if adapts else 0),
        lora_targets=adapted_matrices(model, lora_targets) if adapts else "all-linear",
        derived=(
            _text("precision", precision, DEFAULT_PRECISION, "of matrices"),
            _text("optimizer", optimizer, DEFAULT_OPTIMIZER, "whose states are kept"),
        ),
    )


def _text(name: str, given: str | None, usual: str, reason: str) -> Assumed:
    """A name that was given, or the usual one."""
    return Assumed(name, given or usual, "text", reason, "chosen: usual", asked=given is not None)


def _units(
    model: ModelArchitecture, phase: str, method: Method, amount: Amount, length: int, assumed: Assumptions
) -> float:
    """Tokens or samples of the run; raises Unanswerable where they do not follow, or go with nothing else said."""
    in_samples = model.sample is not None
    units = amount.units(length, in_samples=in_samples)
    if units is None:
        wanted = "training_samples" if in_samples else "training_tokens"
        raise Unanswerable(f"The run needs {wanted}" + (", or examples and epochs." if phase == "fine_tuning" else "."))
    if in_samples and method is not Method.FULL:
        raise Unanswerable(
            "Adapters (lora, qlora) are sized for models that work on tokens; method full is accepted here."
        )
    most = (model.max_context_tokens or 0) * assumed.longest_sequence_over_context
    if not in_samples and model.max_context_tokens and length > most:
        raise Unanswerable(
            f"sequence_length {length:,} is far beyond {model.name}'s {model.max_context_tokens:,} tokens."
        )
    return units


def usual_deadline_s(phase: str, assumed: Assumptions) -> float:
    """Seconds a run may take where nobody says."""
    if phase == "fine_tuning":
        return assumed.default_fine_tuning_hours * SECONDS_PER_HOUR
    return assumed.default_training_days * SECONDS_PER_DAY
