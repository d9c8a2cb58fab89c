"""Converts model registry entries to the facts and architectures that the sizing core uses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.sizing.model.architecture import ModelArchitecture
from app.sizing.model.counting.registered import RegisteredFacts, registered_architecture


def entry_facts(entry: Mapping[str, Any]) -> RegisteredFacts:
    """Returns the registered facts of a registry entry."""
    flops = entry.get("flops") or {}
    return RegisteredFacts(
        name=entry["hf_id"],
        family=entry["family"],
        modality=entry["modality"],
        config=entry["config"],
        total_params=int(entry["total_params"]),
        counted_by=entry.get("counted_by", ""),
        side=entry.get("resolution"),
        image_flops=flops.get("forward_flops_per_image"),
        step_flops=flops.get("forward_flops_per_step"),
        footprint=entry.get("footprint"),
        components=entry.get("components") or {},
    )


def entry_architecture(entry: Mapping[str, Any]) -> ModelArchitecture:
    """Returns the parameter and operation counts of a registry entry."""
    return registered_architecture(entry_facts(entry))
