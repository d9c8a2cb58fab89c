"""Adapters on a shared base in words."""

from __future__ import annotations

from collections.abc import Iterator

from app.sizing.model.adapted import ADAPTER_ELEMENT_BYTES, loaded_adapters
from app.sizing.model.architecture import ModelArchitecture
from app.sizing.result import Reason
from app.sizing.units import GIB
from app.sizing.words import counted


def adapter_reasons(model: ModelArchitecture) -> Iterator[Reason]:
    """What the adapters beside a base take, where there are any."""
    beside = loaded_adapters(model)
    if beside is not None:
        taken = beside.params * ADAPTER_ELEMENT_BYTES / GIB
        share = beside.multiplied / (model.matmul_params - beside.multiplied)
        text = (
            f"{counted(beside.copies, 'adapter')} loaded beside the base: {taken:.2f} GiB of every replica, and "
            f"{share:.1%} more arithmetic for a token."
        )
        yield Reason("adapters", text, "adapters_gib", taken, "GiB")
