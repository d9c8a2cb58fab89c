"""How often predictions tell the faster of two published results: the question of everybody who compares offers."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import combinations
from types import MappingProxyType

from app.sizing.evidence import RATES, TRAINING_KINDS, Compared, lower_is_better

MIN_DIFFERENCE = 1.05  # ratio of two measurements; closer ones have no order
MIN_PAIRS = 20  # fewest pairs of a quantity that are reported
ORDERED_QUANTITIES = ("throughput", "tpot", "ttft", "single_stream", "prefill", "e2e", "training", "training_samples")
ALL = "all"


@dataclass(frozen=True, slots=True)
class Comparison:
    """The compared property of a pair; the rest of both settings is the same."""

    first: str  # attribute of a setting that differs
    free: tuple[str, ...] = ()  # attributes that may differ too
    per_accelerator: bool = False  # compares rates of one accelerator


COMPARISONS: Mapping[str, Comparison] = MappingProxyType(
    {
        "engine": Comparison("engine"),
        "hardware": Comparison("accelerator", ("family",)),
        "hardware_per_accelerator": Comparison("accelerator", ("family", "devices"), per_accelerator=True),
        "degree": Comparison("devices"),
        "format": Comparison("format_class"),
    }
)


@dataclass(frozen=True, slots=True)
class OrderShare:
    """Shares of pairs whose faster result is predicted to be the faster one; equal predictions count as wrong."""

    compared: str  # key of COMPARISONS
    metric: str  # quantity, or ALL
    pairs: int
    sources: int
    held_out: float  # by fits without the source of the pair
    in_sample: float  # by the fit to all sources


def _log_speeds(result: Compared, *, per_accelerator: bool) -> tuple[float, float, float]:
    """Logarithms of the measured, the held-out and the fitted speed; a time counts as its inverse."""
    sign = -1.0 if lower_is_better(result.metric) else 1.0
    share = math.log(result.setting.devices) if per_accelerator and result.metric not in TRAINING_KINDS else 0.0
    measured, held_out, fitted = (
        sign * math.log(value) - share for value in (result.measured, result.held_out, result.predicted)
    )
    return measured, held_out, fitted


def _pairs(rows: Iterable[Compared], comparison: Comparison) -> Iterator[tuple[Compared, Compared]]:
    """Pairs of results of one source, model, metric and setting but for the compared property."""
    differ = {comparison.first, *comparison.free}
    groups: dict[tuple[object, ...], list[Compared]] = defaultdict(list)
    for row in rows:
        same = (getattr(row.setting, each.name) for each in fields(row.setting) if each.name not in differ)
        groups[row.source, row.model, row.metric, *same].append(row)
    for found in groups.values():
        for one, other in combinations(found, 2):
            if getattr(one.setting, comparison.first) != getattr(other.setting, comparison.first):
                yield one, other


def order_shares(rows: Sequence[Compared], *, fewest: int = MIN_PAIRS) -> tuple[OrderShare, ...]:
    """Shares by comparison, over all quantities and by quantity with at least `fewest` pairs.

    Two results make a pair if one source measured both under the same conditions and they differ by at least
    MIN_DIFFERENCE. Results that no fit uses make no pairs.
    """
    usable = [row for row in rows if not row.excluded and row.kind in ORDERED_QUANTITIES]
    found = []
    for name, comparison in COMPARISONS.items():
        rated = comparison.per_accelerator
        fit = [row for row in usable if not rated or row.metric in RATES or row.metric in TRAINING_KINDS]
        right: dict[str, list[tuple[str, bool, bool]]] = {quantity: [] for quantity in (ALL, *ORDERED_QUANTITIES)}
        for one, other in _pairs(fit, comparison):
            speeds = (_log_speeds(each, per_accelerator=rated) for each in (one, other))
            measured, held_out, fitted = (a - b for a, b in zip(*speeds, strict=True))
            if abs(measured) >= math.log(MIN_DIFFERENCE):
                entry = (one.source, measured * held_out > 0, measured * fitted > 0)
                right[ALL].append(entry)
                right[one.kind].append(entry)
        for quantity, pairs in right.items():
            if len(pairs) >= (1 if quantity == ALL else fewest):
                sources, unseen, seen = zip(*pairs, strict=True)
                count = len(pairs)
                shares = (sum(unseen) / count, sum(seen) / count)
                found.append(OrderShare(name, quantity, count, len(set(sources)), *shares))
    return tuple(found)
