"""What number formats ask of a chip, and how people write them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from app.sizing.hardware.support.generations import GENERATIONS
from app.sizing.model.formats import WEIGHT_FORMATS

# What matrix units must multiply so that nothing is widened. Formats that are not named here are unpacked everywhere.
UNITS: Mapping[str, str] = MappingProxyType(
    {f.name: {"nvfp4": "fp4", "mxfp4": "fp4"}.get(f.name, f.rate) for f in WEIGHT_FORMATS.values() if f.rate}
    | {"tf32": "fp32", "mxfp8": "mx"}
)
# Names of formats one of which evidence gives where it means another: FP32 runs wherever 16 bits do.
SAID_AS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "mxfp8": ("fp8", "mxfp8"),
        "fp32": ("fp32", "tf32", "bf16", "fp16"),
        "tf32": ("tf32", "fp32", "bf16"),
    }
)
# Precisions that are another one with everything in 16 bit.
_PRECISIONS: Mapping[str, str] = MappingProxyType({"bf16-true": "bf16"})


def stored_as(precision: str) -> str:
    """The format that a training precision multiplies in.

    Check:
        >>> stored_as("bf16-true"), stored_as("mxfp8")
        ('bf16', 'mxfp8')
    """
    return _PRECISIONS.get(precision, precision)


def keeps_16_bit(precision: str) -> bool:
    """Whether a training precision keeps nothing in 32 bit.

    Check:
        >>> keeps_16_bit("bf16-true"), keeps_16_bit("bf16")
        (True, False)
    """
    return precision in _PRECISIONS


def words(weight_format: str) -> str:
    """A format as people write it.

    Check:
        >>> words("gguf-q4_k_m"), words("int4-awq")
        ('GGUF Q4_K_M', 'INT4 AWQ')
    """
    return weight_format.upper().replace("-", " ")


def least_capability(unit: str) -> float:
    """The first compute capability whose matrix units multiply it.

    Check: FP8 since Ada, 4 bits since Blackwell.
        >>> least_capability("fp8"), least_capability("fp4")
        (8.9, 10.0)
    """
    return min(g.capability for g in GENERATIONS if g.capability is not None and unit in g.multiplies)
