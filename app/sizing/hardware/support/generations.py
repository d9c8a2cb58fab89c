"""Generations of chips: the runtimes that drive them and the formats that their matrix units multiply."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from app.sizing.facts import build_rows
from app.sizing.hardware.parts import Accelerator
from app.sizing.hardware.support.records import Generation, Runtime

RUNTIMES: Mapping[str, Runtime] = MappingProxyType({r.name: r for r in build_rows(Runtime, "runtimes.csv")})
# Within a family, single chips come before architectures, and the entry for the rest comes last.
GENERATIONS: tuple[Generation, ...] = build_rows(Generation, "generations.csv")
CAPABILITY = "compute capability"  # how names of CUDA generations begin


def generation_of(accelerator: Accelerator) -> Generation:
    """Generation of a chip. A chip without a record multiplies the formats that its data sheet gives a rate for.

    Check: two chips of one family.
        >>> [generation_of(catalogued(slug)).name for slug in ("nvidia-a100-sxm4-80gb", "nvidia-a10")]
        ['compute capability 8.0', 'compute capability 8.6']
    """
    known = _listed_generation(accelerator.family, accelerator.architecture, accelerator.slug)
    if known is not None:
        return known
    rates = tuple(sorted(accelerator.flops_per_s))
    return Generation(accelerator.family, accelerator.family.replace("_", " "), (), rates)


def multiprocessor_cycle_s(accelerator: Accelerator) -> float:
    """Time per clock cycle of all multiprocessors together, s; 0 if unknown. An FP32 lane multiplies and adds.

    Check: an A100 has 108 multiprocessors at 1.41 GHz; cycles per second in 1e9.
        >>> round(1e-9 / multiprocessor_cycle_s(catalogued("nvidia-a100-sxm4-80gb")), 1)
        152.3
    """
    lanes, rate = generation_of(accelerator).fp32_lanes, accelerator.flops_per_s.get("fp32")
    return 2 * lanes / rate if lanes and rate else 0.0


@cache
def _listed_generation(family: str, architecture: str, slug: str) -> Generation | None:
    for g in GENERATIONS:
        anything = not g.slugs and not g.architectures
        if g.family == family and (anything or slug in g.slugs or architecture in g.architectures):
            return g
    return None
