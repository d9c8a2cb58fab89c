"""Assumptions about models whose structure is only partly known."""

from __future__ import annotations

from dataclasses import dataclass

from app.sizing.assumptions.chosen import assumption


@dataclass(frozen=True)
class ModelAssumptions:
    # Sample models of unknown layer structure
    sample_flops_per_activation: float = assumption(
        1000,
        low=50,
        high=20000,
        unit="FLOP",
        reason="FLOPs per activation element that a pass writes",
        source="between ResNet-50 (740) and ViT-B/16 (1,200)",
        as_of="2026-11",
    )
    sample_kept_over_live: float = assumption(
        2.5,
        low=1,
        high=50,
        unit="1",
        reason="activations kept for backward over live activations",
        source="assumed: convolution, norm and activation",
        as_of="2026-11",
    )
    sample_layers: float = assumption(
        50,
        low=1,
        high=1000,
        unit="layers",
        reason="layers of a network of which only the FLOPs are known",
        source="ResNet-50 (arXiv:1512.03385)",
        as_of="2015-12",
    )
