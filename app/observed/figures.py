"""What a pasted text says: figures with where each stands, what was not read, and what it leaves open."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeVar

from app.errors import Unanswerable
from app.sizing.diagnosis.observed import DevicesObserved, LoadSeen, Observed, ServiceObserved, TrainingObserved

T = TypeVar("T", ServiceObserved, TrainingObserved, DevicesObserved)
SHOWN = 5  # names or lines of what was not read that are told, each of so many letters
LETTERS = 80


class UnreadableText(Unanswerable):
    """A pasted text in which nothing is known."""

    code = "unreadable-text"


@dataclass(frozen=True, slots=True)
class Runs:
    """What the text is of: how much of it the deployment has, and what a step of the workload is."""

    replicas: float = 1.0
    accelerators: float = 1.0
    tokens_per_step: float | None = None
    sequences_per_step: float | None = None
    draft_tokens: int | None = None
    of_replicas: float | None = None  # that the text is of, where it was told


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure of a group of observations, by the name it has there; `low` and `high`: the bucket it lies in."""

    group: str
    quantity: str
    value: float
    source: str
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Unread:
    """What was not understood: names of metrics, and lines by their numbers."""

    metrics: tuple[str, ...] = ()
    lines: int = 0
    first: tuple[str, ...] = ()

    def __add__(self, other: Unread) -> Unread:
        metrics = tuple(dict.fromkeys((*self.metrics, *other.metrics)))
        return Unread(metrics, self.lines + other.lines, (*self.first, *other.first)[:SHOWN])


@dataclass(frozen=True, slots=True)
class Reading:
    """All that a text says; of two figures of one quantity the first stands."""

    figures: tuple[Figure, ...] = ()
    unread: Unread = field(default_factory=Unread)
    notes: tuple[str, ...] = ()
    by_load: tuple[LoadSeen, ...] = ()  # waits between scrapes of different loads

    def __add__(self, other: Reading) -> Reading:
        known = {(f.group, f.quantity) for f in self.figures}
        further = tuple(f for f in other.figures if (f.group, f.quantity) not in known)
        notes = tuple(dict.fromkeys((*self.notes, *other.notes)))
        return Reading((*self.figures, *further), self.unread + other.unread, notes, self.by_load or other.by_load)

    def observed(self) -> Observed:
        """The figures as observations."""
        return Observed(
            filled(ServiceObserved(by_load=self.by_load), self.figures, "service"),
            filled(TrainingObserved(), self.figures, "training"),
            filled(DevicesObserved(), self.figures, "devices"),
        )


def filled(empty: T, figures: Iterable[Figure], group: str) -> T:
    """Observations of one group."""
    read: dict[str, Any] = {f.quantity: f.value for f in figures if f.group == group}
    return replace(empty, **read)


def over(told: Observed, read: Observed) -> Observed:
    """What was told, and what was read where nothing was told."""
    return Observed(
        _over(told.service, read.service), _over(told.training, read.training), _over(told.devices, read.devices)
    )


def _over(told: T, read: T) -> T:
    said = {f.name: getattr(told, f.name) for f in fields(told)}
    return replace(read, **{name: value for name, value in said.items() if value is not None and value != ()})


def plain(line: str) -> str:
    """A line of a text as it may be shown: printable and short."""
    return "".join(c if c.isprintable() else " " for c in line[: 2 * LETTERS]).strip()[:LETTERS]
