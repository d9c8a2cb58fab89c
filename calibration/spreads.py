"""Fits the spreads of prediction errors for unseen sources, from which intervals are built.

Quantities whose errors have common causes share one spread. The interval score of sources left out in turn selects how
the spread grows; the score penalizes width and every result outside. The interval of a result uses the quantiles of all
other sources.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from app.sizing.columns import Codes, Column
from app.sizing.evidence import Compared, lower_is_better
from app.sizing.hardware.achieved import kernels_of
from app.sizing.uncertainty import (
    HIGH,
    LEVELS,
    LOW,
    UNKNOWN_SPREAD,
    EvidencePool,
    Neighborhood,
    Shape,
    Spread,
    StackKey,
    evidence_pool,
    interval_score,
)

# Candidate terms of the scale. Distance and few sources always widen it, whatever the data show.
ALONE = (0.5, 1.0, 2.0, 4.0)
REMOTE = (0.25, 0.5, 1.0, 1.5)
UNTABULATED = (0.0, 0.5, 1.0, 2.0)
SHAPES = tuple(product(ALONE, REMOTE, UNTABULATED))
# More sources make peaks of memory no more certain: their distance is from the memory that is counted to the byte.
PEAKS = ("training_memory",)
PEAK_SHAPES = tuple(product((0.0,), (0.5, 1.0, 2.0, 4.0, 8.0), (0.0,)))
# Quantities whose errors have common causes share one spread per group.
GROUPS = (
    ("throughput", "tpot", "e2e"),
    ("single_stream",),  # without a batch or a queue
    ("ttft",),
    ("prefill",),
    ("training", "training_samples"),
    PEAKS,
)
CROWDING_EXPONENT = 0.5  # n results of one source count as n ** 0.5
MIN_QUANTILE = 0.02  # logarithm by which runs of one setting differ
FEWEST_SOURCES = 2
DEFAULT_CONFIDENCE = 0.8  # default confidence of a request


@dataclass(frozen=True, slots=True)
class Errors:
    """Errors of a group of quantities, one row per result."""

    worse: Column
    source: Codes
    weight: Column
    around: Neighborhood

    def row_scales(self, shape: tuple[float, float, float]) -> Column:
        """The scale of every row for these terms."""
        return Spread("", *shape, (), 0, 0).relative_spread(self.around)


def seen_from(rows: Sequence[Compared]) -> dict[tuple[str, str], Neighborhood]:
    """The evidence of other sources around every result, by (measurement, metric)."""
    found: dict[tuple[str, str], Neighborhood] = {}
    for pool in sorted({evidence_pool(r.kind) for r in rows}):
        of_pool = [r for r in rows if evidence_pool(r.kind) == pool]
        for source in sorted({r.source for r in of_pool}):
            others = EvidencePool(r for r in of_pool if r.source != source and not r.excluded)
            known: dict[tuple[StackKey, Shape], Neighborhood] = {}
            for r in of_pool:
                if r.source != source:
                    continue
                s = r.setting
                asked = StackKey(s.engine, s.family, s.format_class), Shape(s.params, s.input_tokens, s.output_tokens)
                if asked not in known:
                    known[asked] = others.index_stacks(asked[:1]).neighborhood(asked[1])
                found[r.measurement, r.metric] = known[asked]
    return found


def errors_of(group: Sequence[str], rows: Sequence[Compared]) -> Errors:
    """The errors of a group's quantities.

    Excluded results are left out, except peaks of memory: their distance states how little is known of them.
    """
    kept = [r for r in rows if r.kind in group and (r.kind in PEAKS or not r.excluded)]
    names = {name: i for i, name in enumerate(sorted({r.source for r in kept}))}
    count = Counter((r.source, r.kind) for r in kept)
    return Errors(
        np.array([r.log_shortfall for r in kept]),
        np.array([names[r.source] for r in kept], dtype=np.int64),
        np.array([count[r.source, r.kind] ** (CROWDING_EXPONENT - 1.0) for r in kept]),
        around_of(kept),
    )


def around_of(rows: Sequence[Compared]) -> Neighborhood:
    """The evidence of other sources around results, as the results record it."""
    return Neighborhood(
        np.array([r.neighbor_sources for r in rows]),
        np.array([r.distance for r in rows]),
        np.array([float(r.kind not in PEAKS and kernels_of(r.setting.family) == "untabulated") for r in rows]),
        np.ones(len(rows)),
    )


def weighted_quantiles(values: Column, weight: Column) -> tuple[float, ...]:
    """Weighted quantiles at LEVELS, centered on 0 and never narrower than `MIN_QUANTILE`."""
    order = np.argsort(values, kind="stable")
    share = np.cumsum(weight[order])
    places = (share - weight[order] / 2) / share[-1]
    found = []
    for level in LEVELS:
        value = 0.0 if level == 0.5 else float(np.interp(level, places, values[order]))
        least = MIN_QUANTILE * (level - 0.5) / (HIGH - 0.5)
        found.append(max(value, least) if level > 0.5 else min(value, least))
    return tuple(found)


def mean_interval_score(errors: Errors, shape: tuple[float, float, float]) -> float:
    """Weighted mean interval score of 80 % intervals in logarithms; each source's intervals are fitted without it."""
    scale, total = errors.row_scales(shape), 0.0
    for source in range(int(errors.source.max()) + 1):
        own, others = errors.source == source, errors.source != source
        at = weighted_quantiles(errors.worse[others] / scale[others], errors.weight[others])
        low, high = at[LEVELS.index(LOW)] * scale[own], at[LEVELS.index(HIGH)] * scale[own]
        total += float((errors.weight[own] * interval_score(errors.worse[own], low, high)).sum())
    return total / float(errors.weight.sum())


def shape_of(group: Sequence[str], errors: Errors) -> tuple[float, float, float]:
    """The terms of the scale with the best interval score for unseen sources."""
    tried = PEAK_SHAPES if group == PEAKS else SHAPES
    return min(tried, key=lambda shape: (mean_interval_score(errors, shape), shape))


def fit_spreads(group: Sequence[str], errors: Errors, shape: tuple[float, float, float]) -> dict[str, Spread]:
    """The spreads of a group's quantities for given terms of the scale."""
    at = weighted_quantiles(errors.worse / errors.row_scales(shape), errors.weight)
    rows, sources = len(errors.worse), len(np.unique(errors.source))
    return {quantity: Spread(quantity, *shape, at, rows, sources) for quantity in group}


def groups_with_sources(
    rows: Sequence[Compared],
) -> Iterator[tuple[Sequence[str], list[Compared], tuple[float, float, float]]]:
    """Every group with its results and its terms; groups with a single source are left out."""
    for group in GROUPS:
        own = [r for r in rows if r.kind in group]
        errors = errors_of(group, own)
        if len(np.unique(errors.source)) >= FEWEST_SOURCES:
            yield group, own, shape_of(group, errors)


def spreads_of(rows: Sequence[Compared]) -> dict[str, Spread]:
    """The spread of every quantity with results from several sources."""
    found: dict[str, Spread] = {}
    for group, own, shape in groups_with_sources(rows):
        found |= fit_spreads(group, errors_of(group, own), shape)
    return found


def add_interval(row: Compared, spread: Spread) -> Compared:
    """A result with the interval and the guaranteed value that its prediction would have carried."""
    scale = spread.relative_spread(around_of([row]))
    best, planned, worst = (float(spread.error_factor(level, scale)[0]) for level in (LOW, DEFAULT_CONFIDENCE, HIGH))
    if lower_is_better(row.metric):
        return replace(row, low=row.held_out * best, high=row.held_out * worst, promised=row.held_out * planned)
    return replace(row, low=row.held_out / worst, high=row.held_out / best, promised=row.held_out / planned)


def with_intervals(rows: Sequence[Compared]) -> list[Compared]:
    """Every result with the interval from spreads that never saw its source."""
    around = seen_from([r for r in rows if r.kind not in PEAKS])
    placed = []
    for r in rows:
        if r.kind in PEAKS:
            placed.append(r)
            continue
        here = around[r.measurement, r.metric]
        placed.append(replace(r, neighbor_sources=float(here.sources[0]), distance=float(here.distance[0])))
    known = {(r.measurement, r.metric): spread for r, spread in leave_one_source_out(placed)}
    return [add_interval(r, known.get((r.measurement, r.metric), UNKNOWN_SPREAD)) for r in placed]


def leave_one_source_out(rows: Sequence[Compared]) -> Iterator[tuple[Compared, Spread]]:
    """Every result with the spread whose quantiles never saw its source."""
    for group, own, shape in groups_with_sources(rows):
        for source in sorted({r.source for r in own}):
            found = fit_spreads(group, errors_of(group, [r for r in own if r.source != source]), shape)
            yield from ((r, found[r.kind]) for r in own if r.source == source)
