"""Every number we chose rather than derived, with range, unit, reason, source and date; one file per room.

All of them can be overridden per request. What an answer reads of them it echoes: `Noted` keeps the names.
Achieved fractions of hardware rates are not here: they are coefficients, rows of the catalogue.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

from app.errors import Unanswerable
from app.sizing.assumptions.answer import AnswerAssumptions
from app.sizing.assumptions.chosen import Assumed, assumption
from app.sizing.assumptions.day import DayAssumptions
from app.sizing.assumptions.decisions import DecisionsAssumptions
from app.sizing.assumptions.diagnosis import DiagnosisAssumptions
from app.sizing.assumptions.hardware import HardwareAssumptions
from app.sizing.assumptions.hosts import HostAssumptions
from app.sizing.assumptions.machines import MachineAssumptions
from app.sizing.assumptions.model import ModelAssumptions
from app.sizing.assumptions.packing import PackingAssumptions
from app.sizing.assumptions.serving import ServingAssumptions
from app.sizing.assumptions.training import TrainingAssumptions
from app.sizing.assumptions.workload import WorkloadAssumptions

__all__ = ["Assumed", "Assumptions", "Noted", "assumption"]


@dataclass(frozen=True, slots=True)
class Assumptions(
    AnswerAssumptions,
    DecisionsAssumptions,
    DayAssumptions,
    TrainingAssumptions,
    ServingAssumptions,
    HardwareAssumptions,
    HostAssumptions,
    MachineAssumptions,
    WorkloadAssumptions,
    ModelAssumptions,
    PackingAssumptions,
    DiagnosisAssumptions,
):
    """All of them. The rooms' classes hold the fields: read `assumed.name`, wherever it is defined."""

    @classmethod
    def usual(cls, name: str) -> float:
        """The value a number has where nobody replaces it."""
        value: float = getattr(cls(), name)
        return value

    @classmethod
    def bounds(cls, name: str) -> tuple[float, float]:
        """The least and the most a number may be."""
        facts = BY_NAME[name].metadata
        return facts["low"], facts["high"]

    @classmethod
    def all(cls) -> tuple[Mapping[str, float | str], ...]:
        """Every chosen number with its range, unit, reason, source and date, by name."""
        ordered = sorted(fields(cls), key=lambda f: f.name)
        return tuple({"name": f.name, "value": cls.usual(f.name), **f.metadata} for f in ordered)

    def with_overrides(self, overrides: Mapping[str, float]) -> Assumptions:
        """These assumptions with some replaced.

        Raises Unanswerable for a name that is none of them or a value outside its range.
        """
        known = {f.name: f for f in fields(self)}
        for name, value in overrides.items():
            if name not in known:
                raise Unanswerable(f"There is no assumption named {name[:60]!r}. Accepted: {', '.join(sorted(known))}.")
            low, high = known[name].metadata["low"], known[name].metadata["high"]
            unit = "" if known[name].metadata["unit"] == "1" else f" {known[name].metadata['unit']}"
            if not low <= value <= high:
                raise Unanswerable(f"{name} must be from {low:g} to {high:g}{unit}.")
        return replace(self, **dict(overrides))

    @property
    def unnoted(self) -> Assumptions:
        """The same, of which nobody notes what is read: what is only tried is not what an answer rests on."""
        return self

    def noted(self, overrides: Mapping[str, float] | None = None) -> Noted:
        """These, with some replaced, that know which of them are read: one for every answer."""
        given = dict(overrides or {})
        return Noted(self.with_overrides(given) if given else self, frozenset(given))


FIELDS = fields(Assumptions)
BY_NAME = {f.name: f for f in FIELDS}


class Noted(Assumptions):
    """Assumptions that note what is read of them.

    Its own slots are empty at first, so that the first read of a name comes to `__getattr__`, which fills the slot:
    every later read costs what it costs without noting.
    """

    __slots__ = ("_asked", "_read", "_values")

    _values: Assumptions
    _asked: frozenset[str]
    _read: set[str]

    def __init__(self, values: Assumptions, asked: frozenset[str]) -> None:
        for name, value in (("_values", values), ("_asked", asked), ("_read", set())):
            object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> float:
        value: float = getattr(self._values, name)
        self._read.add(name)
        object.__setattr__(self, name, value)
        return value

    @property
    def unnoted(self) -> Assumptions:
        """What is read of these is not noted."""
        return self._values

    def noted(self, overrides: Mapping[str, float] | None = None) -> Noted:
        """Itself: what was read before counts."""
        if overrides:
            raise TypeError("override before noting")
        return self

    def touched(self) -> tuple[Assumed, ...]:
        """What was read so far and what the caller set, in the order of the fields."""
        wanted = self._read | self._asked
        return tuple(
            Assumed(
                f.name,
                getattr(self._values, f.name),
                f.metadata["unit"],
                f.metadata["reason"],
                f.metadata["source"],
                Assumptions.bounds(f.name),
                asked=f.name in self._asked,
            )
            for f in FIELDS
            if f.name in wanted
        )
