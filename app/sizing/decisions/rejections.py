"""Why accelerator types were turned down: one reason each, with the shortfall in numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from app.sizing.columns import Codes, Column, Mask
from app.sizing.hardware.parts import Accelerator
from app.sizing.result import Reached, Rejection

# Answers show six digits; what is counted one by one is never let through by that.
SHOWN_ROUNDING, LESS_THAN_ONE = 5e-6, 0.5


def no_more(needed: Column, limit: float) -> Mask:
    """Whether no more is needed than a limit, which may be a figure as an answer shows it: rounded to six digits."""
    kept: Mask = needed <= limit + min(limit * SHOWN_ROUNDING, LESS_THAN_ONE)
    return kept


@dataclass(slots=True)
class Rejections:
    """Collects the types that fall out, one reason each: the first filter no plan of theirs survived."""

    accelerators: Sequence[Accelerator]
    by_accelerator: dict[int, Rejection] = field(default_factory=dict)

    def reject(self, accelerators: Codes, code: str, text: str, reached: Reached = Reached.OFFERS) -> None:
        """Turn types down for a reason that has no number."""
        for i in accelerators.tolist():
            if i not in self.by_accelerator:
                a = self.accelerators[i]
                self.by_accelerator[i] = Rejection(a.slug, a.name, code, text, reached=reached)

    def ruled_out(self, accelerators: Codes, code: str, text: str, rule: Callable[[int], str]) -> None:
        """Turn types down for a rule, which is looked up for those that were not before."""
        for i in accelerators.tolist():
            if i not in self.by_accelerator:
                a = self.accelerators[i]
                self.by_accelerator[i] = Rejection(a.slug, a.name, code, text, rule=rule(i))

    def without(self, before: Codes, after: Codes, code: str, text: str, reached: Reached = Reached.OFFERS) -> None:
        """Turn down the types of which no row is left, for a reason that has no number."""
        gone = np.zeros(len(self.accelerators), dtype=bool)
        gone[before] = True
        gone[after] = False
        self.reject(np.flatnonzero(gone), code, text, reached)

    def left_without(self, accelerator: Codes, kept: Mask, among: Mask) -> Codes:
        """Rows among some of the types none of whose rows were kept, and that were not turned down before: few, so
        that reasons are looked at for these only.
        """
        gone = np.ones(len(self.accelerators), dtype=bool)
        gone[accelerator[kept]] = False
        gone[list(self.by_accelerator)] = False
        return np.flatnonzero(gone[accelerator] & among)

    def lost(
        self,
        accelerator: Codes,
        kept: Mask,
        *,
        code: str,
        text: str,
        needed: Column,
        available: Column,
        unit: str,
        count: Column,
        reached: Reached,
    ) -> None:
        """Record the types none of whose rows were kept, with the row that came nearest and its accelerators."""
        rows = self.left_without(accelerator, kept, np.ones(len(accelerator), dtype=bool))
        if not len(rows):
            return
        of_row = accelerator[rows]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            ratio = np.where(available[rows] > 0, needed[rows] / available[rows], np.inf)
            miss = np.nan_to_num(np.maximum(ratio, np.where(ratio > 0, 1 / ratio, np.inf)), nan=np.inf)
        least = np.full(len(self.accelerators), np.inf)
        np.minimum.at(least, of_row, miss)
        nearest = rows[miss <= least[of_row]]
        first = np.full(len(self.accelerators), -1)
        first[accelerator[nearest[::-1]]] = nearest[::-1]  # of several rows of a type the first stays
        for row in first[first >= 0].tolist():
            i = int(accelerator[row])
            a = self.accelerators[i]
            self.by_accelerator[i] = Rejection(
                a.slug,
                a.name,
                code,
                text,
                float(needed[row]),
                float(available[row]),
                unit,
                float(count[row]),
                reached,
            )

    def apart(self) -> Rejections:
        """A collection of the same kind, of another way for some of the types."""
        return type(self)(self.accelerators)

    def joined(self, other: Rejections, found: Codes) -> None:
        """Take back the types that were found the other way; of the rest the reason that came nearer stays."""
        for i in np.unique(found).tolist():
            self.by_accelerator.pop(i, None)
        for i, reason in other.by_accelerator.items():
            own = self.by_accelerator.get(i)
            if own is None or (-reason.reached, reason.miss) < (-own.reached, own.miss):
                self.by_accelerator[i] = reason

    def nearest(self) -> list[Rejection]:
        """All rejections, nearest miss first, stable by name: types that passed more come before those that passed
        less, and those of one kind of filter are in the order of how far off they are.
        """
        return sorted(self.by_accelerator.values(), key=lambda r: (-r.reached, r.miss, r.accelerator))


class Unread(Rejections):
    """Reasons that nobody reads: a search that is asked only what it finds notes none."""

    def reject(self, accelerators: Codes, code: str, text: str, reached: Reached = Reached.OFFERS) -> None:
        pass

    def ruled_out(self, accelerators: Codes, code: str, text: str, rule: Callable[[int], str]) -> None:
        pass

    def without(self, before: Codes, after: Codes, code: str, text: str, reached: Reached = Reached.OFFERS) -> None:
        pass

    def left_without(self, accelerator: Codes, kept: Mask, among: Mask) -> Codes:  # noqa: ARG002
        return np.zeros(0, dtype=np.int64)

    def lost(
        self,
        accelerator: Codes,
        kept: Mask,
        *,
        code: str,
        text: str,
        needed: Column,
        available: Column,
        unit: str,
        count: Column,
        reached: Reached,
    ) -> None:
        pass
