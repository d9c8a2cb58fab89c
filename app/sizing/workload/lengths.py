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
from app.sizing.columns import Codes, Column, Quantiles, column, exp_of, log_of, normal_grid
from app.sizing.model.architecture import ModelArchitecture
from app.sizing.model.modules import matching_roles
from app.sizing.model.sample import SampleShape
from app.sizing.model.tensors import Per

_NORMAL = NormalDist()
Z_95 = 1.6448536269514722
SIGMA_RESOLUTION = 2.0**-40  # sigmas are multiples of it, which removes rounding differences between processors
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


@lru_cache(maxsize=1024)
def truncated_shape(p95_to_mean: float, longest_to_mean: float) -> tuple[float, float]:
    """Sigma and squared variation of a log-normal distribution that is cut at a longest value, cached per shape.

    Values above the longest take the longest. The mean and the p95 of the cut distribution are the given ones.

    Check: lengths with a p95 of twice the mean and a longest value of three times the mean.
        >>> sigma, variation = truncated_shape(2.0, 3.0)
        >>> round(sigma, 3), round(variation, 3), round(math.expm1(log_normal_sigma(2.0) ** 2), 3)
        (0.493, 0.257, 0.279)
    """
    edges, shares = normal_grid()
    z, weights = (edges[1:] + edges[:-1]) / 2, np.diff(shares)

    def lengths_at(sigma: float) -> Column:
        return p95_to_mean * exp_of(sigma * (z - Z_95))

    sigma, low, high = log_normal_sigma(p95_to_mean), 0.0, Z_95
    while high - low > SIGMA_RESOLUTION:  # Newton's method, or bisection where it leaves the interval
        values = lengths_at(sigma)
        excess = float(np.sum(weights * np.minimum(values, longest_to_mean))) - 1
        low, high = (sigma, high) if excess > 0 else (low, sigma)
        slope = float(np.sum(weights * np.where(values < longest_to_mean, values * (z - Z_95), 0.0)))
        then = sigma - excess / slope if slope < 0 else low
        if abs(then - sigma) < SIGMA_RESOLUTION:
            break
        sigma = then if low < then < high else (low + high) / 2
    sigma = round(sigma / SIGMA_RESOLUTION) * SIGMA_RESOLUTION
    values = np.minimum(lengths_at(sigma), longest_to_mean)
    mean, square = float(np.sum(weights * values)), float(np.sum(weights * values**2))
    return sigma, square / mean**2 - 1


@dataclass(frozen=True, slots=True)
class Lengths:
    """A distribution of token counts: log-normal through mean and p95, or constant at the mean if there is no p95.

    `longest` cuts the log-normal: longer values take it, and mean and p95 stay as given. `bounds`: a uniform
    distribution over the integers from the first to the second. `values`: a histogram of these values in ascending
    order, where `upto` holds their cumulative shares.
    """

    mean: float  # tokens
    p95: float | None = None  # tokens
    longest: float | None = None  # tokens
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
        at = Quantiles((np.arange(QUANTILES_PER_PART) + 0.5) / QUANTILES_PER_PART)
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
        if self.longest is not None:
            return truncated_shape(self.p95 / self.mean, self.longest / self.mean)[0]
        return log_normal_sigma(self.p95 / self.mean)

    def scaled_exp(self, deviations: Column) -> Column:
        """Lengths of the log-normal, before it is cut, at these deviations of the logarithm from its median."""
        if self.longest is None or self.p95 is None:
            return self.mean * exp_of(deviations - self.sigma**2 / 2)
        return self.p95 * exp_of(deviations - Z_95 * self.sigma)

    @property
    def squared_variation(self) -> float:
        """Squared coefficient of variation."""
        if self.bounds is not None:
            low, high = self.bounds
            return ((high - low + 1) ** 2 - 1) / 12 / self.mean**2
        if self.values:
            shares = np.diff(column(self.upto), prepend=0.0)
            return float(np.sum(shares * (column(self.values) / self.mean - 1) ** 2))
        if self.longest is not None and self.sigma:
            assert self.p95 is not None
            return truncated_shape(self.p95 / self.mean, self.longest / self.mean)[1]
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
        length = log_normal_quantile(self, percentile)
        return length if self.longest is None else min(length, self.longest)

    def cut_at(self, percentile: float, window: float) -> Lengths:
        """The distribution without its endless tail: cut at a percentile, and at a window of tokens above its p95.

        Uniform, constant and counted lengths, and those with a longest value, stay unchanged.
        """
        if self.longest is not None or self.bounds is not None or self.values or not self.sigma:
            return self
        p95 = self.quantile(95)
        return replace(self, p95=p95, longest=max(p95, min(self.quantile(percentile), window)))

    def add_tokens(self, tokens: float) -> Lengths:
        """The same distribution with `tokens` added to each length."""
        if self.bounds is not None:
            return Lengths.uniform(*(bound + round(tokens) for bound in self.bounds))
        mean, values = self.mean + tokens, tuple(value + round(tokens) for value in self.values)
        p95, longest = (None if length is None else length + tokens for length in (self.p95, self.longest))
        return replace(self, mean=mean, p95=p95, longest=longest, values=values)

    def draw_lengths(self, quantiles: Quantiles) -> Codes:
        """Integer lengths at the given quantiles, identical on every machine; at least one token."""
        uniforms = quantiles.shares
        if self.bounds is not None:
            low, high = self.bounds
            lengths = np.minimum(low + np.floor(uniforms * (high - low + 1)), high)
        elif self.values:
            place = np.searchsorted(column(self.upto), uniforms, side="right")
            lengths = column(self.values)[np.minimum(place, len(self.values) - 1)]
        elif sigma := self.sigma:
            lengths = np.rint(quantiles.interpolate_normal(log_normal_grid(self, sigma)))
            lengths = lengths if self.longest is None else np.minimum(lengths, math.floor(self.longest))
        else:
            lengths = np.full(len(uniforms), np.rint(self.mean))
        least = 1.0 if self.mean > 0 else 0.0
        whole: Codes = np.maximum(lengths, least).astype(np.int64)
        return whole


@lru_cache(maxsize=1024)
def log_normal_quantile(lengths: Lengths, percentile: float) -> float:
    """Length in tokens of a log-normal, before it is cut, at a percentile (0 to 100)."""
    return float(lengths.scaled_exp(column((z_score(percentile) * lengths.sigma,)))[0])


@lru_cache(maxsize=64)
def log_normal_grid(lengths: Lengths, sigma: float) -> Column:
    """Lengths of a log-normal, before it is cut, at each value of `normal_grid`; read-only."""
    values = lengths.scaled_exp(sigma * normal_grid()[0])
    values.flags.writeable = False
    return values


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
            raise Unanswerable.at(f"#/workload/sample/{name}", f"sample.{name} does not apply to {model.name}: {hint}.")
    return model.with_sample_shape(SampleShape(**requested))


def adapted_matrices(model: ModelArchitecture, target_modules: str | Sequence[str]) -> str | tuple[str, ...]:
    """Matrices that adapters modify: the name of a preset, or names of matrices in the spelling of any tool.

    Raises Unanswerable if the model has no matrix of that name.
    """
    if isinstance(target_modules, str):
        return target_modules
    roles = sorted({t.role for t in model.tensors if t.per is Per.TOKEN and t.inputs > 1})
    adapted: dict[str, None] = {}
    for name in target_modules:
        found = matching_roles(name, roles)
        if not found:
            raise Unanswerable.at(
                "#/workload/lora/target_modules",
                f"{model.name} has no matrix {name!r} to adapt. Available matrices: {', '.join(roles)}.",
            )
        adapted |= dict.fromkeys(found)
    return tuple(adapted)
