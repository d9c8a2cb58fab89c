"""Why accelerator types are rejected: one reason each, with the shortfall in numbers or the rule that excludes them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from app.sizing.columns import Codes, Column, Mask
from app.sizing.hardware.parts import Accelerator
from app.sizing.hardware.support.records import Work
from app.sizing.hardware.support.rules import unsupported_text
from app.sizing.result import FilterStage, Rejection
from app.sizing.snapshot import Catalog
from app.sizing.words import format_name, product_name

# Answers show six digits, so limits copied from them are rounded; the tolerance never admits one more whole unit.
SHOWN_ROUNDING, LESS_THAN_ONE = 5e-6, 0.5


def is_at_most(needed: Column, limit: float) -> Mask:
    """Whether the needed value is within a limit; a limit that was copied from an answer is rounded to six digits."""
    kept: Mask = needed <= limit + min(limit * SHOWN_ROUNDING, LESS_THAN_ONE)
    return kept


@dataclass(slots=True)
class Rejections:
    """Collects rejected accelerator types, one reason each: the first filter that none of their plans passed."""

    accelerators: Sequence[Accelerator]
    by_accelerator: dict[int, Rejection] = field(default_factory=dict)

    def reject(self, accelerators: Codes, code: str, text: str, reached: FilterStage = FilterStage.OFFERS) -> None:
        """Reject types for a reason without a number."""
        for i in accelerators.tolist():
            if i not in self.by_accelerator:
                a = self.accelerators[i]
                self.by_accelerator[i] = Rejection(a.slug, a.name, code, text, stage=reached)

    def reject_by_rule(self, accelerators: Codes, code: str, text: str, rule: Callable[[int], str]) -> None:
        """Reject types because of a support rule, which is looked up only for types not rejected before."""
        for i in accelerators.tolist():
            if i not in self.by_accelerator:
                a = self.accelerators[i]
                self.by_accelerator[i] = Rejection(a.slug, a.name, code, text, rule=rule(i))

    def reject_if_none_left(
        self, before: Codes, after: Codes, code: str, text: str, reached: FilterStage = FilterStage.OFFERS
    ) -> None:
        """Reject the types that have rows before a filter and none after it, for a reason without a number."""
        gone = np.zeros(len(self.accelerators), dtype=bool)
        gone[before] = True
        gone[after] = False
        self.reject(np.flatnonzero(gone), code, text, reached)

    def rows_of_eliminated_types(self, accelerator: Codes, kept: Mask, among: Mask) -> Codes:
        """Rows in `among` of types that kept no row and were not rejected before.

        These are few, so that reasons are worked out for them only.
        """
        gone = np.ones(len(self.accelerators), dtype=bool)
        gone[accelerator[kept]] = False
        gone[list(self.by_accelerator)] = False
        return np.flatnonzero(gone[accelerator] & among)

    def reject_with_shortfall(
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
        reached: FilterStage,
        among: Mask | None = None,
        fit_probability: Callable[[Codes], Column] | None = None,
    ) -> None:
        """Reject the types that kept no row, with the shortfall and accelerator count of their closest row.

        Parameters:
            among: rows that count; all by default.
            fit_probability: the probability that given rows fit in memory, called for the closest rows only.
        """
        counted = np.ones(len(accelerator), dtype=bool) if among is None else among
        rows = self.rows_of_eliminated_types(accelerator, kept, counted)
        if not len(rows):
            return
        of_row = accelerator[rows]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            ratio = needed[rows] / available[rows]
            miss = np.maximum(ratio, np.where(ratio > 0, 1 / ratio, np.inf))
            miss = np.nan_to_num(np.where(available[rows] > 0, miss, needed[rows]), nan=np.inf)
        least = np.full(len(self.accelerators), np.inf)
        np.minimum.at(least, of_row, miss)
        nearest = rows[miss <= least[of_row]]
        first = np.full(len(self.accelerators), -1)
        first[accelerator[nearest[::-1]]] = nearest[::-1]  # the first of several rows of a type wins
        closest = first[first >= 0]
        likely = np.zeros(len(closest)) if fit_probability is None else fit_probability(closest)
        for row, probability in zip(closest.tolist(), likely.tolist(), strict=True):
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
                counted_as=a.counted_as,
                fit_probability=probability,
            )

    def empty_copy(self) -> Rejections:
        """An empty collection of the same class, for an alternative search of some of the types."""
        return type(self)(self.accelerators)

    def merge_alternative(self, other: Rejections, found: Codes) -> None:
        """Remove the types that the alternative search accepted; for the others, keep the reason that came closer."""
        for i in np.unique(found).tolist():
            self.by_accelerator.pop(i, None)
        for i, reason in other.by_accelerator.items():
            own = self.by_accelerator.get(i)
            if own is None or (-reason.stage, reason.shortfall_ratio) < (-own.stage, own.shortfall_ratio):
                self.by_accelerator[i] = reason

    def withdraw(self, accelerators: Collection[int]) -> None:
        """Forget why accelerator types were rejected: another layout of each is feasible."""
        self.by_accelerator = {i: reason for i, reason in self.by_accelerator.items() if i not in accelerators}

    def closest_first(self) -> list[Rejection]:
        """All rejections, closest first, stable by name.

        Types that passed more filters come first; within one filter, those with the smaller shortfall.
        """
        return sorted(self.by_accelerator.values(), key=lambda r: (-r.stage, r.shortfall_ratio, r.accelerator))


class NullRejections(Rejections):
    """No-op collector for searches that only need the result."""

    def reject(self, accelerators: Codes, code: str, text: str, reached: FilterStage = FilterStage.OFFERS) -> None:
        pass

    def reject_by_rule(self, accelerators: Codes, code: str, text: str, rule: Callable[[int], str]) -> None:
        pass

    def reject_if_none_left(
        self, before: Codes, after: Codes, code: str, text: str, reached: FilterStage = FilterStage.OFFERS
    ) -> None:
        pass

    def rows_of_eliminated_types(self, accelerator: Codes, kept: Mask, among: Mask) -> Codes:  # noqa: ARG002
        return np.zeros(0, dtype=np.int64)

    def reject_with_shortfall(self, accelerator: Codes, kept: Mask, **why: Any) -> None:
        pass


@dataclass(frozen=True, slots=True)
class SupportFilter:
    """The requested engines, weight formats and kind of work; without engines, any engine counts."""

    catalog: Catalog
    engines: tuple[str, ...]
    formats: frozenset[str]
    work: Work

    def reject_unsupported(self, rejections: Rejections, before: Codes, after: Codes) -> None:
        """Reject the types that have rows in `before` and none in `after`."""
        code = "no_framework" if self.work.is_training else "no_engine"
        few = len(self.formats) < 3
        formats = " or ".join(format_name(f) for f in sorted(self.formats)) if few else "the allowed formats"
        if self.work.precision:  # compute precision, if it differs from the storage format of the weights
            formats = f"{formats} with {format_name(self.work.precision)}"
        engines = " or ".join(map(product_name, self.engines))
        text = f"{unsupported_text(engines, self.work)} in {formats} on {{name}}."
        rejections.reject_by_rule(np.setdiff1d(before, after), code, text, self.refusal_rule)

    def refusal_rule(self, accelerator: int) -> str:
        """The support rule that excludes a type; empty if the software runs there and something else is missing."""
        return self.catalog.software.refusal_reason(accelerator, self.engines, self.formats, self.work)
