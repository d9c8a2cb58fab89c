"""Length distributions of prompts and answers, and the model details that a request sets."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate
from statistics import NormalDist
from typing import Any

import numpy as np

from app.errors import Unanswerable
from app.sizing.columns import Codes, Column, column, exp_of, interpolate_linear, log_of, normal_grid
from app.sizing.model.architecture import ModelArchitecture
from app.sizing.model.sample import SampleShape
from app.sizing.model.tensors import Per

_NORMAL = NormalDist()
Z_95 = 1.6448536269514722
MAX_P95_TO_MEAN = math.exp(Z_95**2 / 2)  # largest ratio that a log-normal can have; wider inputs are limited to it
QUANTILES_PER_PART = 400  # quantiles that represent each distribution of a mixture


def z_score(percentile: float) -> float:
    """Standard normal quantile of a percentile (0 to 100)."""
    return _NORMAL.inv_cdf(percentile / 100)


@lru_cache(maxsize=1024)
def log_normal_sigma(p95_to_mean: float) -> float:
    """Sigma of a log-normal distribution from its p95 over its mean (the smaller root); cached per ratio."""
    ratio = min(float(log_of(column((p95_to_mean,)))[0]), Z_95 * Z_95 / 2)
    return Z_95 - math.sqrt(Z_95 * Z_95 - 2 * ratio)


@dataclass(frozen=True, slots=True)
class Lengths:
    """A distribution of token counts: log-normal through mean and p95, or constant at the mean if there is no p95.

    `bounds`: a uniform distribution over the integers from the first to the second. `values`: a histogram of these
    values in ascending order, where `upto` holds their cumulative shares.
    """

    mean: float  # tokens
    p95: float | None = None  # tokens
    bounds: tuple[int, int] | None = None
    values: tuple[int, ...] = ()
    upto: tuple[float, ...] = ()

    @classmethod
    def uniform(cls, low: int, high: int) -> Lengths:
        """Uniform distribution over the integers from low to high."""
        return cls((low + high) / 2, bounds=(low, high))

    @classmethod
    def from_histogram(cls, values: Sequence[int], weights: Sequence[float]) -> Lengths:
        """Distribution of values with weights.

        Check:
            >>> Lengths.from_histogram([100, 300], [3, 1]).mean
            150.0
        """
        counted = sorted((value, weight) for value, weight in zip(values, weights, strict=True) if weight > 0)
        values_found, shares = zip(*counted, strict=True)
        total = math.fsum(shares)
        upto = [share / total for share in accumulate(shares)]
        mean = math.fsum(value * share for value, share in counted) / total
        return cls(mean, values=values_found, upto=(*upto[:-1], 1.0))

    @classmethod
    def from_mixture(cls, parts: Sequence[tuple[float, Lengths]]) -> Lengths:
        """Mixture of several distributions with their shares, as a histogram of equally spaced quantiles of each part.

        Check:
            >>> Lengths.from_mixture([(0.75, Lengths(100)), (0.25, Lengths(500))]).mean
            200.0
        """
        first = parts[0][1]
        if all(lengths == first for _, lengths in parts):
            return first
        at = (np.arange(QUANTILES_PER_PART) + 0.5) / QUANTILES_PER_PART
        values = [value for _, lengths in parts for value in lengths.draw_lengths(at).tolist()]
        weights = [share for share, _ in parts for _ in range(QUANTILES_PER_PART)]
        return replace(cls.from_histogram(values, weights), mean=math.fsum(share * each.mean for share, each in parts))

    @property
    def sigma(self) -> float:
        """Log-normal sigma from ln(p95 / mean) = z * sigma - sigma^2 / 2; for other shapes that with the same
        variation.
        """
        if self.bounds is not None or self.values:
            return math.sqrt(math.log1p(self.squared_variation))
        if self.p95 is None or self.mean <= 0 or self.p95 <= self.mean:
            return 0.0
        return log_normal_sigma(self.p95 / self.mean)

    @property
    def squared_variation(self) -> float:
        """Squared coefficient of variation."""
        if self.bounds is not None:
            low, high = self.bounds
            return ((high - low + 1) ** 2 - 1) / 12 / self.mean**2
        if self.values:
            shares = np.diff(column(self.upto), prepend=0.0)
            return float(np.sum(shares * (column(self.values) / self.mean - 1) ** 2))
        return math.expm1(self.sigma**2)

    def quantile(self, percentile: float) -> float:
        """Length in tokens at a percentile (0 to 100)."""
        if self.mean <= 0:
            return 0.0
        if self.bounds is not None:
            low, high = self.bounds
            return low + (high - low) * percentile / 100
        if self.values:
            return float(self.values[bisect_left(self.upto, percentile / 100)])
        return self.mean * math.exp(z_score(percentile) * self.sigma - self.sigma**2 / 2)

    def add_tokens(self, tokens: float) -> Lengths:
        """The same distribution with `tokens` added to each length."""
        if self.bounds is not None:
            return Lengths.uniform(*(bound + round(tokens) for bound in self.bounds))
        mean, values = self.mean + tokens, tuple(value + round(tokens) for value in self.values)
        return replace(self, mean=mean, p95=None if self.p95 is None else self.p95 + tokens, values=values)

    def draw_lengths(self, uniforms: Column) -> Codes:
        """Integer lengths at the given quantiles (0 to 1), identical on every machine; at least one token."""
        if self.bounds is not None:
            low, high = self.bounds
            lengths = np.minimum(low + np.floor(uniforms * (high - low + 1)), high)
        elif self.values:
            place = np.searchsorted(column(self.upto), uniforms, side="right")
            lengths = column(self.values)[np.minimum(place, len(self.values) - 1)]
        elif sigma := self.sigma:
            z, shares = normal_grid()
            lengths = np.rint(interpolate_linear(uniforms, shares, self.mean * exp_of(sigma * z - sigma * sigma / 2)))
        else:
            lengths = np.full(len(uniforms), np.rint(self.mean))
        least = 1.0 if self.mean > 0 else 0.0
        whole: Codes = np.maximum(lengths, least).astype(np.int64)
        return whole


def resize_samples(model: ModelArchitecture, requested: Mapping[str, Any]) -> ModelArchitecture:
    """The model for samples of the given size.

    Raises Unanswerable for a size that the model does not depend on.
    """
    accepted = model.law.size_fields if model.law is not None else ()
    for name in requested:
        if name not in accepted:
            hint = (
                f"accepted fields are {', '.join(accepted)}"
                if accepted
                else "its work does not depend on the size of a sample"
            )
            raise Unanswerable(f"sample.{name} does not apply to {model.name}: {hint}.")
    return model.with_sample_shape(SampleShape(**requested))


def adapted_matrices(model: ModelArchitecture, target_modules: str | Sequence[str]) -> str | tuple[str, ...]:
    """Matrices that adapters modify: the name of a preset, or names of matrices.

    Raises Unanswerable if the model has no matrix of that name.
    """
    if isinstance(target_modules, str):
        return target_modules
    roles = sorted({t.role for t in model.tensors if t.per is Per.TOKEN and t.inputs > 1})
    for name in target_modules:
        if name not in roles:
            raise Unanswerable(f"{model.name} has no matrix {name!r} to adapt. Available matrices: {', '.join(roles)}.")
    return tuple(target_modules)
