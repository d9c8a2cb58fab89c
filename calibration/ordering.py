"""How often predictions tell the faster of two published results: the question of everybody who compares offers."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import combinations
from types import MappingProxyType
from typing import Any

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
    same_layout: bool = False  # the published layouts must be equal
    per_accelerator: bool = False  # compares rates of one accelerator


COMPARISONS: Mapping[str, Comparison] = MappingProxyType(
    {
        "engine": Comparison("engine", same_layout=True),
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
    unseen_source: float  # by fits without the source of the pair
    in_sample: float  # by the fit to all sources


def _log_speeds(result: Compared, *, per_accelerator: bool) -> tuple[float, float, float]:
    """Logarithms of the measured, the held-out and the fitted speed; a time counts as its inverse."""
    sign = -1.0 if lower_is_better(result.metric) else 1.0
    share = math.log(result.setting.devices) if per_accelerator and result.metric not in TRAINING_KINDS else 0.0
    measured, held_out, fitted = (
        sign * math.log(value) - share for value in (result.measured, result.held_out, result.predicted)
    )
    return measured, held_out, fitted


# Columns of published results that describe the layout of a run: parallel degrees, and memory against time in training.
LAYOUT = ("tp", "pp", "cp", "ep", "dp", "zero_stage", "micro_batch", "activation_checkpointing", "offload")


def published_layouts(rows: Iterable[Mapping[str, Any]]) -> dict[str, tuple[object, ...]]:
    """Layouts by measurement, as far as published."""
    return {row["id"]: tuple(row.get(name) for name in LAYOUT) for row in rows}


def _pairs(
    rows: Iterable[Compared], comparison: Comparison, layouts: Mapping[str, tuple[object, ...]]
) -> Iterator[tuple[Compared, Compared]]:
    """Pairs of results of one source, model, metric and setting but for the compared property."""
    differ = {comparison.first, *comparison.free}
    groups: dict[tuple[object, ...], list[Compared]] = defaultdict(list)
    for row in rows:
        same = (getattr(row.setting, each.name) for each in fields(row.setting) if each.name not in differ)
        layout = layouts[row.measurement] if comparison.same_layout else ()
        groups[row.source, row.model, row.metric, *same, layout].append(row)
    for found in groups.values():
        for one, other in combinations(found, 2):
            if getattr(one.setting, comparison.first) != getattr(other.setting, comparison.first):
                yield one, other


def order_shares(
    rows: Sequence[Compared], layouts: Mapping[str, tuple[object, ...]], *, fewest: int = MIN_PAIRS
) -> list[OrderShare]:
    """Shares by comparison, over all quantities and by quantity with at least `fewest` pairs.

    Two results make a pair if one source measured both under the same conditions and they differ by at least
    MIN_DIFFERENCE. Results that no fit uses make no pairs. `layouts` is by measurement.
    """
    usable = [row for row in rows if not row.excluded and row.kind in ORDERED_QUANTITIES]
    found = []
    for name, comparison in COMPARISONS.items():
        rated = comparison.per_accelerator
        fit = [row for row in usable if not rated or row.metric in RATES or row.metric in TRAINING_KINDS]
        right: dict[str, list[tuple[str, bool, bool]]] = {quantity: [] for quantity in (ALL, *ORDERED_QUANTITIES)}
        for one, other in _pairs(fit, comparison, layouts):
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
    return found


def order_figures(shares: Iterable[OrderShare]) -> list[dict[str, Any]]:
    """The shares as rows of accuracy.json."""
    return [
        asdict(s) | {"unseen_source": round(s.unseen_source, 4), "in_sample": round(s.in_sample, 4)} for s in shares
    ]
