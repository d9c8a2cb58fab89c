"""What is assumed of a model that is known in part."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ModelAssumptions:
    # Samples
    pass
