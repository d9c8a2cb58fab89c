"""Result of parsing a text: figures with their source, unread parts and open points."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeVar

from app.errors import Unanswerable
from app.sizing.diagnosis.case import (
    DevicesObservation,
    LoadObservation,
    MemoryObservation,
    Observations,
    ServiceObservation,
    TrainingObservation,
)

T = TypeVar("T", ServiceObservation, TrainingObservation, DevicesObservation, MemoryObservation)
MAX_UNREAD_SHOWN = 5  # maximum number of unread lines that an answer lists
MAX_LINE_CHARACTERS = 80  # maximum length of a listed line, characters


class UnreadableText(Unanswerable):
    """The pasted text contains nothing that is known. Parts of it in the sentence are shown printable."""

    code = "unreadable-text"

    def __init__(self, detail: str) -> None:
        super().__init__("".join(c if c.isprintable() else "?" for c in detail))


@dataclass(frozen=True, slots=True)
class RunContext:
    """Context for a text: the size of the deployment and the size of one training step of the workload."""

    accelerator: str = ""  # accelerator type of the deployment, as the catalog names it
    replicas: float = 1.0  # replicas of the deployment
    accelerators: float = 1.0  # accelerators of the deployment
    tokens_per_step: float | None = None  # tokens of one training step of the workload
    sequences_per_step: float | None = None  # sequences of one training step of the workload
    draft_tokens: int | None = None  # draft tokens per decode step with speculative decoding
    of_replicas: float | None = None  # replicas that the text covers; None: derived from labels


@dataclass(frozen=True, slots=True)
class Figure:
    """A value with its field in a group of observations. `low` and `high` bound the histogram bucket around it."""

    group: str
    quantity: str
    value: float
    source: str
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class UnreadContent:
    """What was not understood of a text: unknown metrics, the number of unread lines and the first of them."""

    metrics: tuple[str, ...] = ()
    lines: int = 0
    first: tuple[str, ...] = ()

    def __add__(self, other: UnreadContent) -> UnreadContent:
        metrics = tuple(dict.fromkeys((*self.metrics, *other.metrics)))
        return UnreadContent(metrics, self.lines + other.lines, (*self.first, *other.first)[:MAX_UNREAD_SHOWN])


@dataclass(frozen=True, slots=True)
class Reading:
    """Result of reading a text. If two figures have the same quantity, the first one counts."""

    figures: tuple[Figure, ...] = ()
    unread: UnreadContent = field(default_factory=UnreadContent)
    notes: tuple[str, ...] = ()
    by_load: tuple[LoadObservation, ...] = ()  # latencies between scrapes at different loads

    def __add__(self, other: Reading) -> Reading:
        known = {(f.group, f.quantity) for f in self.figures}
        further = tuple(f for f in other.figures if (f.group, f.quantity) not in known)
        notes = tuple(dict.fromkeys((*self.notes, *other.notes)))
        return Reading((*self.figures, *further), self.unread + other.unread, notes, self.by_load or other.by_load)

    def to_observations(self) -> Observations:
        return Observations(
            fill_observations(ServiceObservation(by_load=self.by_load), self.figures, "service"),
            fill_observations(TrainingObservation(), self.figures, "training"),
            fill_observations(DevicesObservation(), self.figures, "devices"),
            fill_observations(MemoryObservation(), self.figures, "memory"),
        )


def fill_observations(empty: T, figures: Iterable[Figure], group: str) -> T:
    read: dict[str, Any] = {f.quantity: f.value for f in figures if f.group == group}
    return replace(empty, **read)


def merge_observations(explicit: Observations, read: Observations) -> Observations:
    """Merge observations: explicit values take precedence over values read from text."""
    return Observations(
        _merge_group(explicit.service, read.service),
        _merge_group(explicit.training, read.training),
        _merge_group(explicit.devices, read.devices),
        _merge_group(explicit.memory, read.memory),
    )


def _merge_group(explicit: T, read: T) -> T:
    explicit_values = {f.name: getattr(explicit, f.name) for f in fields(explicit)}
    return replace(
        read, **{name: value for name, value in explicit_values.items() if value is not None and value != ()}
    )


def printable_excerpt(line: str) -> str:
    """Printable and shortened version of a line, safe to show in an answer."""
    return "".join(c if c.isprintable() else " " for c in line[: 2 * MAX_LINE_CHARACTERS]).strip()[:MAX_LINE_CHARACTERS]
