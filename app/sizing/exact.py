"""Mathematical functions with the same last digit on every machine.

They use additions, products, quotients and roots only, which every processor rounds alike. Math libraries disagree on
the last digit of exp and log.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from app.sizing.columns import Column

LN_2 = 0.6931471805599453
ROOT_HALF = 0.7071067811865476
ROOT_TWO_PI = 2.5066282746310002
EXP_TERMS, LOG_TERMS, NORMAL_TERMS = 15, 13, 120  # further terms do not change a double
GRID_PER_SIGMA, WIDEST_SIGMA = 128, 6  # grid of the normal distribution


def exp_of(x: Column) -> Column:
    """e to the power of x.

    Check:
        >>> round(one(exp_of(col(1.0))), 12)
        2.718281828459
    """
    doublings = np.rint(x / LN_2)
    rest = x - doublings * LN_2
    found = np.ones_like(rest)
    for term in range(EXP_TERMS, 0, -1):
        found = 1 + rest / term * found
    return np.ldexp(found, doublings.astype(np.int64))


def log_of(x: Column) -> Column:
    """Natural logarithm of numbers above 0.

    Check:
        >>> round(one(log_of(col(10.0))), 12)
        2.302585092994
    """
    part, doublings = np.frexp(x)
    low = part < ROOT_HALF
    part, doublings = np.where(low, 2 * part, part), doublings - low
    ratio = (part - 1) / (part + 1)
    squared, found = ratio * ratio, np.zeros_like(ratio)
    for term in range(2 * LOG_TERMS + 1, 0, -2):
        found = 1 / term + squared * found
    logarithm: Column = doublings * LN_2 + 2 * ratio * found
    return logarithm


def normal_cdf(z: Column) -> Column:
    """Cumulative standard normal distribution within six sigma, after Marsaglia 2004, J. Stat. Softw. 11(4).

    Check:
        >>> round(one(normal_cdf(col(1.6448536269514722))), 12)
        0.95
    """
    term = found = z
    for factor in range(3, 2 * NORMAL_TERMS, 2):
        term = term * z * z / factor
        found = found + term
    return 0.5 + found * exp_of(-z * z / 2) / ROOT_TWO_PI


@cache
def normal_grid() -> tuple[Column, Column]:
    """Evenly spaced values and their cumulative standard normal probabilities."""
    z = np.arange(-WIDEST_SIGMA * GRID_PER_SIGMA, WIDEST_SIGMA * GRID_PER_SIGMA + 1) / GRID_PER_SIGMA
    return z, np.maximum.accumulate(normal_cdf(z))


def interpolate_linear(x: Column, xs: Column, ys: Column) -> Column:
    """Piecewise linear interpolation at x; beyond the ends, the value at the end."""
    place = np.clip(np.searchsorted(xs, x, side="right") - 1, 0, len(xs) - 2)
    width = np.maximum(xs[place + 1] - xs[place], np.finfo(float).tiny)
    part = np.clip((x - xs[place]) / width, 0.0, 1.0)
    return ys[place] + part * (ys[place + 1] - ys[place])
