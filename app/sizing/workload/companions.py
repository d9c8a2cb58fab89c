"""Small models that stand beside the one asked about, on the same cards."""

from __future__ import annotations

from dataclasses import dataclass

from app.sizing.workload.inference import InferenceWorkload


@dataclass(frozen=True, slots=True)
class Companion:
    """A model with traffic and limits of its own, and what its owner calls it."""

    name: str
    workload: InferenceWorkload
