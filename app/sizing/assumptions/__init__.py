"""All assumed values of the engine, each with its range, unit, reason, source and date; one module per area.

A request can override every assumption. An answer lists the assumptions that it used; `RecordingAssumptions` records
them. Achieved shares of hardware rates are not assumptions: they are coefficients in the catalog.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

from app.errors import Unanswerable
from app.sizing.assumptions.answer import AnswerAssumptions, DecisionsAssumptions, DiagnosisAssumptions
from app.sizing.assumptions.chosen import Assumed, assumption
from app.sizing.assumptions.hardware import HardwareAssumptions, HostAssumptions, MachineAssumptions, ModelAssumptions
from app.sizing.assumptions.serving import DayAssumptions, PackingAssumptions, ServingAssumptions
from app.sizing.assumptions.training import TrainingAssumptions
from app.sizing.assumptions.workload import WorkloadAssumptions

__all__ = ["Assumed", "Assumptions", "RecordingAssumptions", "assumption"]


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
    """All assumptions. The base classes define the fields; read each one as `assumed.name`."""

    @classmethod
    def default_value(cls, name: str) -> float:
        """Default value of an assumption."""
        value: float = getattr(cls(), name)
        return value

    @classmethod
    def allowed_range(cls, name: str) -> tuple[float, float]:
        """Smallest and largest value that an override may set."""
        facts = BY_NAME[name].metadata
        return facts["low"], facts["high"]

    @classmethod
    def list_all(cls) -> tuple[Mapping[str, float | str], ...]:
        """Every assumption by name, with its default value, range, unit, reason, source and date."""
        ordered = sorted(fields(cls), key=lambda f: f.name)
        return tuple({"name": f.name, "value": cls.default_value(f.name), **f.metadata} for f in ordered)

    def with_overrides(self, overrides: Mapping[str, float]) -> Assumptions:
        """A copy with some values replaced.

        Raises Unanswerable for an unknown name or for a value outside its range.
        """
        known = {f.name: f for f in fields(self)}
        for name, value in overrides.items():
            if name not in known:
                raise Unanswerable(f"Unknown assumption {name[:60]!r}. Accepted: {', '.join(sorted(known))}.")
            low, high = known[name].metadata["low"], known[name].metadata["high"]
            unit = "" if known[name].metadata["unit"] == "1" else f" {known[name].metadata['unit']}"
            if not low <= value <= high:
                raise Unanswerable(f"{name} must be between {low:g} and {high:g}{unit}.")
        return replace(self, **dict(overrides))

    @property
    def without_recording(self) -> Assumptions:
        """The same values without recording of reads. Use it for trial calculations that the answer does not rest
        on.
        """
        return self

    def with_recording(self, overrides: Mapping[str, float] | None = None) -> RecordingAssumptions:
        """A copy for one answer that records which assumptions are read, with `overrides` applied."""
        given = dict(overrides or {})
        return RecordingAssumptions(self.with_overrides(given) if given else self, frozenset(given))


FIELDS = fields(Assumptions)
BY_NAME = {f.name: f for f in FIELDS}


class RecordingAssumptions(Assumptions):
    """Assumptions that record which of their fields are read.

    Their own slots start empty. The first read of a field calls `__getattr__`, which records the name and fills the
    slot, so later reads cost no more than without recording.
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
    def without_recording(self) -> Assumptions:
        """The underlying values; reads of them are not recorded."""
        return self._values

    def with_recording(self, overrides: Mapping[str, float] | None = None) -> RecordingAssumptions:
        """These assumptions themselves, with the reads recorded so far. Raises TypeError if there are overrides."""
        if overrides:
            raise TypeError("override before noting")
        return self

    @property
    def read_names(self) -> frozenset[str]:
        """Names of the fields read so far."""
        return frozenset(self._read)

    def used_assumptions(self) -> tuple[Assumed, ...]:
        """The assumptions read so far and those that the request sets, in the order of the fields."""
        wanted = self._read | self._asked
        return tuple(
            Assumed(
                f.name,
                getattr(self._values, f.name),
                f.metadata["unit"],
                f.metadata["reason"],
                f.metadata["source"],
                Assumptions.allowed_range(f.name),
                asked=f.name in self._asked,
            )
            for f in FIELDS
            if f.name in wanted
        )
