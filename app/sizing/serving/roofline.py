"""Roofline of compute against memory reads, and the share of experts that a batch reads."""

from __future__ import annotations

import numpy as np

from app.sizing.columns import Column
from app.sizing.formula import formula


@formula(unit="1", source="independent draws with even routing")
def active_expert_share(tokens: Column, expert_share: Column) -> Column:
    """Share of the routed experts that a batch of tokens activates.

    Parameters:
        tokens: tokens in the batch.
        expert_share: experts per token divided by all experts of a layer.
    Limits: experts are routed evenly.
    Check:
        >>> round(one(active_expert_share(col(32), col(8 / 256))), 3)  # 1 - (1 - 1/32)^32
        0.638
    """
    share = np.minimum(expert_share, 1 - 1e-12)
    return -np.expm1(tokens * np.log1p(-share))


@formula(unit="s", source="roofline model (Williams et al. 2009) with a fitted knee; neither bound saturates there")
def smooth_maximum(compute_s: Column, memory_s: Column, exponent: Column) -> Column:
    """Roofline with a rounded knee: (a^p + b^p)^(1/p) for compute time a and memory time b.

    Parameters:
        compute_s: compute time a, s.
        memory_s: memory time b, s.
        exponent: fitted sharpness p of the knee.
    Limits: compute and reads overlap.
    Check:
        >>> round(one(smooth_maximum(col(3), col(4), col(2))), 6)
        5.0
    """
    high = np.maximum(compute_s, memory_s)
    ratio = np.minimum(compute_s, memory_s) / np.maximum(high, 1e-30)
    return high * np.exp2(np.log2(1.0 + ratio**exponent) / exponent)
