"""Small models that run on the same accelerators as the main model."""

from __future__ import annotations

from dataclasses import dataclass

from app.sizing.workload.inference import InferenceWorkload


@dataclass(frozen=True, slots=True)
class Companion:
    """A model with its own traffic and limits, and the name that the request gives it."""

    name: str
    workload: InferenceWorkload
