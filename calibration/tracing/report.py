"""Compares traced and estimated memory by part and moment, as lines for a terminal; needs no PyTorch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from calibration.tracing.setups import GIB_BYTES, MOMENTS, Traced

# Parts of an estimate, and the parts of a trace that they are compared with.
PARTS_OF = {
    "weights": ("params",),
    "gradients": ("grads",),
    "optimizer": ("optimizer",),
    "activations": ("casts", "kept", "working", "logits", "update", "gathered"),
}


def comparison_lines(memory: Mapping[str, Any], traced: Traced) -> Iterator[str]:
    """One line per part and moment: estimated and traced GiB."""
    parts = memory["per_accelerator_gib"]
    yield f"{'GiB':28}{'estimated':>12}{'traced':>12}"
    for part, made_of in PARTS_OF.items():
        yield _format_line(part, parts[part], sum(traced.parts[name] for name in made_of) / GIB_BYTES)
        for name in made_of if len(made_of) > 1 else ():
            said = (memory.get("activation_parts_gib") or {}).get(name)
            yield _format_line(f"  {name}", said, traced.parts[name] / GIB_BYTES)
    yield _format_line("allocated", parts["total"] - parts["overhead"], traced.peak_bytes / GIB_BYTES)
    yield _format_line("reserved plus context", parts["total"], traced.reserved_bytes / GIB_BYTES)
    yield f"peak in {memory.get('peak_moment', '?')} estimated, {traced.moment} traced ({traced.operator})"
    moments = memory.get("moments_gib") or {}
    for moment in MOMENTS:
        yield _format_line(f"  {moment}", moments.get(moment), traced.moments[moment] / GIB_BYTES)


def _format_line(name: str, estimated: float | None, traced: float) -> str:
    shown = "" if estimated is None else f"{estimated:.3f}"
    return f"{name:28}{shown:>12}{traced:12.3f}"
