"""How long prompts and answers are."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

_NORMAL = NormalDist()


def z_score(percentile: float) -> float:
    """Standard normal quantile of a percentile in 0..100."""
    return _NORMAL.inv_cdf(percentile / 100)


@dataclass(frozen=True, slots=True)
class Lengths:
    """A token-length distribution: fixed at the mean, or log-normal through mean and p95."""

    mean: float
    p95: float | None = None

    @property
    def sigma(self) -> float:
        """Log-normal sigma from ln(p95 / mean) = z * sigma - sigma^2 / 2, the smaller root."""
        if self.p95 is None or self.mean <= 0 or self.p95 <= self.mean:
            return 0.0
        z = z_score(95)
        ratio = min(math.log(self.p95 / self.mean), z * z / 2)
        return z - math.sqrt(z * z - 2 * ratio)

    @property
    def squared_variation(self) -> float:
        """Squared coefficient of variation."""
        return math.expm1(self.sigma**2)

    def quantile(self, percentile: float) -> float:
        if self.mean <= 0:
            return 0.0
        return self.mean * math.exp(z_score(percentile) * self.sigma - self.sigma**2 / 2)
