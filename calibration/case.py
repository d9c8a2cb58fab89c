"""Cases of the fit: a published result with its stack and its measured figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from app.sizing.evidence import Setting
from app.sizing.hardware.achieved import kernels_of, vendor_of
from app.sizing.hardware.engines import engine_named


class NotCompared(Exception):
    """A row is left out; the message is the reason."""


@dataclass(frozen=True, slots=True)
class Stack:
    """The engine, family and format that coefficients depend on."""

    engine: str
    generation: str
    family: str
    format_class: str

    @property
    def vendor(self) -> str:
        return vendor_of(self.family)

    @property
    def kernels(self) -> str:
        return kernels_of(self.family)

    @property
    def runtime(self) -> str:
        return engine_named(self.engine).runtime

    def values_of(self, keys: Sequence[str], coefficient: str) -> tuple[str, ...]:
        """Values of the keys that a factor of the coefficient has."""
        generation = engine_named(self.engine).generation_of(coefficient, self.generation)
        return tuple(generation if key == "generation" else getattr(self, key) for key in keys)


class Case(Protocol):
    """One published result that can be predicted; `measured` is in base units by metric."""

    @property
    def id(self) -> str: ...
    @property
    def source(self) -> str: ...
    @property
    def reference(self) -> str: ...
    @property
    def stack(self) -> Stack: ...
    @property
    def model(self) -> str: ...
    @property
    def group(self) -> Hashable:
        """Cases of one group are predicted as one table."""

    @property
    def measured(self) -> Mapping[str, float]: ...
    @property
    def setting(self) -> Setting: ...
    @property
    def exclusion_reason(self) -> str | None:
        """Why this case is compared but not fitted; None for all others."""


def parse_number(value: Any) -> float | None:
    return float(value) if value not in (None, "") else None


Row = Mapping[str, Any]
Made = TypeVar("Made")


def collect_cases(rows: Iterable[Row], made_of: Callable[[Row], Iterable[Made]]) -> tuple[list[Made], Counter[str]]:
    """The cases of all rows, and the number of rows without a case, by reason."""
    found: list[Made] = []
    left_out: Counter[str] = Counter()
    for row in rows:
        try:
            found.extend(made_of(row))
        except NotCompared as why:
            left_out[str(why)] += 1
    return found, left_out
