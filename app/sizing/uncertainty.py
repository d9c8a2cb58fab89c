"""How far off a prediction may be: the spread of what sources published that no fit had seen, by quantity.

A spread is small next to published results and grows with the distance to them and where few sources stand
behind; its shape is the quantiles that were seen. Everything here counts in `worse`: the logarithm of how much
slower, or larger, a result is than its prediction.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from app.sizing.columns import Column, Columns
from app.sizing.formula import formula

NORMAL = NormalDist()
# Shares of results that are no worse: both ends of an interval of 80 %, and what may be asked for.
LEVELS = (0.05, 0.1, 0.2, 0.5, 0.8, 0.9, 0.95)
LOW, HIGH = 0.1, 0.9
# Beyond it a result says nothing more: another vendor, another runtime, another size.
FARTHEST = 2.0


@dataclass(frozen=True, slots=True)
class Around(Columns):
    """What was published around some settings, one row each."""

    sources: Column  # independent ones, of the same runtime on the same family
    distance: Column  # to the nearest result
    untabulated: Column  # 1 where base values come from no kernel tables of the maker's own
    widened: Column  # how many times as far what only rules say may be off; 1 where it is documented


@dataclass(frozen=True, slots=True)
class Spread:
    """How far one quantity may be off.

    `worse` are its quantiles at LEVELS where many sources stand right beside. In squares of that, `alone` is what
    the first source takes away again, `remote` what a distance of 1 adds, `untabulated` what hardware adds whose
    kernels were never tabulated.
    """

    quantity: str
    alone: float
    remote: float
    untabulated: float
    worse: tuple[float, ...]
    rows: int
    sources: int

    def scale(self, around: Around) -> Column:
        """How many times as far as next to many sources each may be off."""
        return spread_scale(self, around.sources, around.distance, around.untabulated) * around.widened

    def at(self, confidence: float, scale: Column) -> Column:
        """Logarithm of how much worse than predicted a result is at most, with a confidence."""
        return scale * self.quantile(NORMAL.inv_cdf(confidence))

    def quantile(self, standing: Column | float) -> Column:
        """The same right beside many sources, at the standing of a confidence in a normal distribution."""
        return np.asarray(np.interp(standing, NORMAL_LEVELS, self.worse))

    def factor(self, confidence: float, scale: Column) -> Column:
        """The same as a factor of the time or size predicted; below 1 where better is asked for."""
        return np.exp(self.at(confidence, scale))

    def confidence(self, worse: Column, scale: Column) -> Column:
        """Probability that a result is no worse than this. Beyond the quantiles seen the outermost slope goes on."""
        standing = worse / scale
        seen, levels = np.array(self.worse), NORMAL_LEVELS
        found = np.interp(standing, seen, levels)
        up, down = ((levels[i] - levels[j]) / (seen[i] - seen[j]) for i, j in ((-1, -2), (1, 0)))
        found = np.where(standing > seen[-1], levels[-1] + (standing - seen[-1]) * up, found)
        found = np.where(standing < seen[0], levels[0] + (standing - seen[0]) * down, found)
        return np.array([NORMAL.cdf(min(max(z, -MOST_SURE), MOST_SURE)) for z in found.tolist()])


NORMAL_LEVELS: Column = np.array([NORMAL.inv_cdf(level) for level in LEVELS])
MOST_SURE = 3.1  # 99.9 %: nothing here is surer


@formula(unit="1", source="sources left out of the fit")
def spread_scale(spread: Spread, sources: Column, distance: Column, unfamiliar: Column) -> Column:
    """How many times as far as next to many sources a result may be off.

    Source: variances of independent errors add.
    Limits: beyond a distance of 2 it grows no more.
    Check:
        >>> known = Spread("tpot", alone=3.0, remote=0.5, untabulated=0.0, worse=(), rows=0, sources=0)
        >>> float(spread_scale(known, 0.0, 0.0, 0.0))  # nobody measured the runtime on the family
        2.0
    """
    far = spread.remote * np.minimum(distance, FARTHEST)
    return np.sqrt(1 + spread.alone / (1 + sources) + far**2 + spread.untabulated * unfamiliar)


@formula(unit="1", source="Gneiting and Raftery 2007")
def interval_score(result: Column, low: Column, high: Column) -> Column:
    """Width of an 80 % interval, and ten times by how far a result is outside; less is better.

    Source: Gneiting and Raftery 2007 (doi:10.1198/016214506000001437), eq. 43.
    Limits: of logarithms where errors are shares.
    Check:
        >>> round(float(interval_score(1.2, 0.5, 1.0)), 3)  # 0.5 wide, 0.2 outside
        2.5
    """
    missed: Column = np.maximum(low - result, 0.0) + np.maximum(result - high, 0.0)
    return high - low + 10 * missed


# Where the catalogue has no spreads: a factor of two to either side at 80 %.
UNKNOWN = Spread("unknown", 0.0, 0.0, 0.0, (-0.9, -0.7, -0.45, 0.0, 0.45, 0.7, 0.9), 0, 0)


def sample_spreads(low: float, high: float) -> tuple[Spread, ...]:
    """How far work on samples may be off wherever it runs, of the 10th and 90th percentile of measured over predicted.

    Limits: straight in logarithms between them, 1 and beyond.
    """
    worst, best = max(-math.log(low), 0.0), min(-math.log(high), 0.0)
    of_one = NORMAL.inv_cdf(HIGH)
    worse = tuple((worst if z > 0 else -best) * z / of_one for z in NORMAL_LEVELS.tolist())
    return tuple(Spread(quantity, 0.0, 0.0, 0.0, worse, 0, 0) for quantity in ("samples", "sample_latency"))


class Spreads:
    """The spreads of a catalogue, by quantity."""

    def __init__(self, spreads: Mapping[str, Spread]) -> None:
        self._spreads = dict(spreads)

    def of(self, quantity: str) -> Spread:
        """The spread of a quantity; a wide one where nothing was ever compared."""
        return self._spreads.get(quantity, UNKNOWN)
