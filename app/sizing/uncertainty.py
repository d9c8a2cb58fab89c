"""Uncertainty of predictions, from the spread of published results and the distance to the nearest ones.

A spread is small near published results. It grows with the distance to them and where few sources exist. Its shape is
given by the observed quantiles. All values are in `worse`: the logarithm of how much slower, or larger, a result is
than its prediction.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from app.sizing.columns import Codes, Column, Columns, Mask
from app.sizing.evidence import CATEGORICAL_WEIGHTS, NUMERIC_WEIGHTS, Compared, runtime_and_family, stack_attribute
from app.sizing.formula import formula
from app.sizing.hardware.achieved import kernels_of
from app.sizing.measured import NOISE, STEP_VARIANCE, MeasuredEffect, remaining_share

NORMAL = NormalDist()
# Probabilities of the stored quantiles: both ends of an 80 % interval, and confidences that requests may ask for.
LEVELS = (0.05, 0.1, 0.2, 0.5, 0.8, 0.9, 0.95)
LOW, HIGH = 0.1, 0.9
# Distance beyond which a result carries no more information: another vendor, runtime and size.
MAX_DISTANCE = 2.0


OUTCOME_DEVIATIONS = (1.0, 0.0, -1.0)  # of result.Outcome, in standard deviations of the time


def outcome_levels(asked: float, metric: str = "output_tokens_per_s") -> tuple[float, ...]:
    """Confidences that need as much before a benchmark as `asked` needs after it, one for each of its outcomes: a
    standard deviation slower, as predicted, and a standard deviation faster.

    The benchmark moves the prediction to its result, and a share of the standard deviation remains.

    Parameters:
        metric: what the benchmark measures, a name of NOISE: output tokens/s of a service, tokens/s of a run.
    Limits: the remaining share is that of one measurement of the same setting.
    Check: 0.2365 of the deviation remains; at 80 % that is 0.199 deviations on top of each outcome.
        >>> [round(level, 3) for level in outcome_levels(0.8)]
        [0.885, 0.579, 0.212]
    """
    noise = NOISE[metric]
    explained = np.array([STEP_VARIANCE / (STEP_VARIANCE + noise**2) * STEP_VARIANCE])
    remaining = float(remaining_share(STEP_VARIANCE, explained, noise)[0])
    return tuple(NORMAL.cdf(each + remaining * NORMAL.inv_cdf(asked)) for each in OUTCOME_DEVIATIONS)


@dataclass(frozen=True, slots=True)
class Neighborhood(Columns):
    """Published evidence near some settings, one row each."""

    sources: Column  # independent sources for the same runtime on the same family
    distance: Column  # distance to the nearest result
    untabulated: Column  # 1 where base values come from no kernel tables of the maker
    prior_width: Column  # factor on the spread where support is only inferred from rules; 1 where it is documented
    measured: MeasuredEffect | None = None  # effect of the user's own measurements; None where there are none


@dataclass(frozen=True, slots=True)
class Spread:
    """Spread of the prediction error of one quantity."""

    quantity: str  # name of the quantity
    alone: float  # added variance without any source, as a multiple of the variance with many
    remote: float  # added spread per unit of distance, as a multiple of the spread with many sources
    untabulated: float  # added variance on hardware without tabulated kernels, as such a multiple
    worse: tuple[float, ...]  # quantiles at LEVELS, with many sources nearby
    rows: int  # results in the fit
    sources: int  # sources in the fit

    def relative_spread(self, neighborhood: Neighborhood) -> Column:
        """Spread relative to one with many sources, by row."""
        scale = (
            spread_scale(self, neighborhood.sources, neighborhood.distance, neighborhood.untabulated)
            * neighborhood.prior_width
        )
        return scale if neighborhood.measured is None else scale * neighborhood.measured.narrowing(self.quantity)

    def log_factor(self, confidence: float, scale: Column) -> Column:
        """Logarithm of how much worse than predicted a result is at most, at a confidence."""
        return scale * self.error_quantile(NORMAL.inv_cdf(confidence))

    def error_quantile(self, z_score: Column | float) -> Column:
        """The same with many sources, at a z-score."""
        return np.asarray(np.interp(z_score, NORMAL_LEVELS, self.worse))

    def error_factor(self, confidence: float, scale: Column) -> Column:
        """Factor on the predicted time or size at a confidence; below 1 for confidences below the median."""
        return np.exp(self.log_factor(confidence, scale))

    def probability_within(self, worse: Column, scale: Column) -> Column:
        """Probability that a result is no worse than this; beyond the observed quantiles the outermost slope
        continues.
        """
        standing = worse / scale
        seen, levels = np.array(self.worse), NORMAL_LEVELS
        found = np.interp(standing, seen, levels)
        up, down = ((levels[i] - levels[j]) / (seen[i] - seen[j]) for i, j in ((-1, -2), (1, 0)))
        found = np.where(standing > seen[-1], levels[-1] + (standing - seen[-1]) * up, found)
        found = np.where(standing < seen[0], levels[0] + (standing - seen[0]) * down, found)
        return np.array([NORMAL.cdf(min(max(z, -MAX_Z_SCORE), MAX_Z_SCORE)) for z in found.tolist()])


NORMAL_LEVELS: Column = np.array([NORMAL.inv_cdf(level) for level in LEVELS])
MAX_Z_SCORE = 3.1  # largest z-score used: 99.9 %


@formula(unit="1", source="variances of independent errors add; fitted to held-out sources")
def spread_scale(spread: Spread, sources: Column, distance: Column, unfamiliar: Column) -> Column:
    """Spread of a prediction relative to one with many sources.

    Parameters:
        spread: spread of the quantity.
        sources: independent sources for the runtime on the family.
        distance: distance to the nearest published result.
        unfamiliar: 1 where base values come from no kernel tables of the maker, else 0.
    Limits: constant beyond a distance of 2.
    Check: no source for the runtime on the family.
        >>> known = Spread("tpot", alone=3.0, remote=0.5, untabulated=0.0, worse=(), rows=0, sources=0)
        >>> float(spread_scale(known, 0.0, 0.0, 0.0))
        2.0
    """
    far = spread.remote * np.minimum(distance, MAX_DISTANCE)
    return np.sqrt(1 + spread.alone / (1 + sources) + far**2 + spread.untabulated * unfamiliar)


@formula(unit="1", source="Gneiting and Raftery 2007 (doi:10.1198/016214506000001437), eq. 43")
def interval_score(result: Column, low: Column, high: Column) -> Column:
    """Interval score (Winkler score) of an 80 % interval: its width plus a penalty for results outside.

    The penalty is ten (2 / 0.2) times the distance of the result from the interval. Less is better.

    Parameters:
        result: observed value.
        low: lower end of the interval.
        high: upper end of the interval.
    Limits: for relative errors, all arguments are logarithms.
    Check: an interval of width 0.5, with the result 0.2 outside.
        >>> round(float(interval_score(1.2, 0.5, 1.0)), 3)
        2.5
    """
    missed: Column = np.maximum(low - result, 0.0) + np.maximum(result - high, 0.0)
    return high - low + 10 * missed


# Default where the catalog has no spread: a factor of two to either side at 80 %.
UNKNOWN_SPREAD = Spread("unknown", 0.0, 0.0, 0.0, (-0.9, -0.7, -0.45, 0.0, 0.45, 0.7, 0.9), 0, 0)


def sample_spreads(low: float, high: float) -> tuple[Spread, ...]:
    """Spreads for work on samples, the same on all hardware.

    Linear in logarithms between the low percentile, 1 and the high percentile, and beyond.

    Parameters:
        low: 10th percentile of measured over predicted.
        high: 90th percentile of measured over predicted.
    """
    worst, best = max(-math.log(low), 0.0), min(-math.log(high), 0.0)
    of_one = NORMAL.inv_cdf(HIGH)
    worse = tuple((worst if z > 0 else -best) * z / of_one for z in NORMAL_LEVELS.tolist())
    return tuple(Spread(quantity, 0.0, 0.0, 0.0, worse, 0, 0) for quantity in ("samples", "sample_latency"))


class Spreads:
    """The spreads of a catalog, by quantity."""

    def __init__(self, spreads: Mapping[str, Spread]) -> None:
        self._spreads = dict(spreads)

    def get_spread(self, quantity: str) -> Spread:
        """The spread of a quantity; a wide default where none was ever compared."""
        return self._spreads.get(quantity, UNKNOWN_SPREAD)


# Attributes that distinguish stacks, and numbers that distinguish the questions about one stack.
STACK_WORDS = ("vendor", "family", "runtime", "engine", "format_class")
SHAPE_NUMBERS = ("params", "input_tokens", "output_tokens")
# Pool of results for each training quantity; results of a pool are evidence for each other. All others are serving.
POOLS: Mapping[str, str] = MappingProxyType(
    {"training": "training", "training_samples": "training", "training_memory": "training_memory"}
)
SERVING = "serving"


class StackKey(NamedTuple):
    """Software stack, as far as evidence depends on it."""

    engine: str
    family: str
    format_class: str


class Shape(NamedTuple):
    """Size of the model and of the requests."""

    params: float  # parameters of the model
    input_tokens: float  # tokens of a prompt
    output_tokens: float  # tokens of an output


def evidence_pool(quantity: str) -> str:
    """Pool of results that are evidence for a quantity."""
    return POOLS.get(quantity, SERVING)


def scale_shapes(shapes: Iterable[Shape]) -> Column:
    """Shapes as rows of weighted binary logarithms, so that distances add."""
    values = np.array(list(shapes), dtype=np.float64).reshape(-1, len(SHAPE_NUMBERS))
    found: Column = np.log2(np.maximum(values, 1.0)) * [NUMERIC_WEIGHTS[name].weight for name in SHAPE_NUMBERS]
    return found


class EvidencePool:
    """The results of one pool, ready to be compared with any stack."""

    def __init__(self, rows: Iterable[Compared]) -> None:
        measured: dict[StackKey, set[Shape]] = {}
        self._sources: dict[tuple[str, str], set[str]] = {}
        for r in rows:
            s = r.setting
            key = StackKey(s.engine, s.family, s.format_class)
            measured.setdefault(key, set()).add(Shape(s.params, s.input_tokens, s.output_tokens))
            self._sources.setdefault(runtime_and_family(s.engine, s.family), set()).add(r.source)
        self._stacks = sorted(measured)
        shapes = [sorted(measured[key]) for key in self._stacks]
        self._shapes = scale_shapes(shape for of_stack in shapes for shape in of_stack).T.copy()
        self._first: Codes = np.cumsum([0, *map(len, shapes)])[:-1]
        self._words = {
            name: np.array([stack_attribute(name, *key) for key in self._stacks], object) for name in STACK_WORDS
        }
        self._known: dict[StackKey, Column] = {}

    def lacks_results(self, stacks: Sequence[tuple[str, str]]) -> Mask:
        """Whether no source has results of each engine on its hardware family."""
        known = {(key.engine, key.family) for key in self._stacks}
        return np.array([pair not in known for pair in stacks], bool)

    def index_stacks(self, stacks: Sequence[StackKey]) -> EvidenceIndex:
        """Distances from these stacks to every measured stack."""
        apart = np.array([self._categorical_distances(key) for key in stacks]).reshape(len(stacks), len(self._stacks))
        return EvidenceIndex(
            apart,
            np.array([float(len(self._sources.get(runtime_and_family(key.engine, key.family), ()))) for key in stacks]),
            np.array([float(kernels_of(key.family) == "untabulated") for key in stacks]),
            self._shapes,
            self._first,
        )

    def _categorical_distances(self, key: StackKey) -> Column:
        """Distance in categorical attributes from one stack to each measured stack."""
        if key not in self._known:
            apart = np.zeros(len(self._stacks))
            for name, words in self._words.items():
                apart += CATEGORICAL_WEIGHTS[name].weight * (words != stack_attribute(name, *key))
            self._known[key] = apart
        return self._known[key]


def build_evidence_pools(rows: Iterable[Compared]) -> dict[str, EvidencePool]:
    """Results by pool, without those that are excluded from fits."""
    results_by_pool: dict[str, list[Compared]] = {pool: [] for pool in (SERVING, *POOLS.values())}
    for r in rows:
        if not r.excluded:
            results_by_pool[evidence_pool(r.kind)].append(r)
    return {pool: EvidencePool(of_pool) for pool, of_pool in results_by_pool.items()}


class EvidenceIndex(NamedTuple):
    """Stacks (rows) compared with measured stacks (columns)."""

    categorical_distance: (
        Column  # distance in categorical attributes, one row per stack and one column per measured stack
    )
    sources: Column  # independent sources for the runtime on the family
    untabulated: Column  # 1 where base values come from no kernel tables of the maker
    shapes: Column  # weighted logarithms of the measured shapes, one column each
    first_shape: Codes  # first shape of each measured stack

    def neighborhood(self, shape: Shape) -> Neighborhood:
        """Evidence near each stack for this model and request size."""
        documented = np.ones(len(self.sources))
        if not len(self.first_shape):
            return Neighborhood(self.sources, np.full(len(self.sources), MAX_DISTANCE), self.untabulated, documented)
        off = self.shapes - scale_shapes([shape]).T
        nearest = np.minimum.reduceat(np.sqrt(np.einsum("ij,ij->j", off, off)), self.first_shape)
        return Neighborhood(
            self.sources, (self.categorical_distance + nearest).min(axis=1), self.untabulated, documented
        )


def distinct_stacks(keys: Sequence[StackKey]) -> tuple[list[StackKey], Codes]:
    """Each key once, and for every key the index of its first occurrence in that list."""
    once = {key: i for i, key in enumerate(dict.fromkeys(keys))}
    return list(once), np.array([once[key] for key in keys], dtype=np.int64)
