"""What number formats require of a chip, and how they are written."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from app.sizing.hardware.support.generations import GENERATIONS
from app.sizing.model.formats import WEIGHT_FORMATS

# Format that matrix units must multiply so that no conversion is needed. Other formats are always converted.
UNITS: Mapping[str, str] = MappingProxyType(
    {f.name: {"nvfp4": "fp4", "mxfp4": "fp4"}.get(f.name, f.rate) for f in WEIGHT_FORMATS.values() if f.rate}
    | {"tf32": "fp32", "mxfp8": "mx"}
)
# Formats in evidence that also document another format: FP32 runs wherever 16-bit formats do.
EVIDENCE_NAMES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "mxfp8": ("fp8", "mxfp8"),
        "fp32": ("fp32", "tf32", "bf16", "fp16"),
        "tf32": ("tf32", "fp32", "bf16"),
    }
)
# Precisions that keep everything in 16 bits, and the format they multiply in.
_PRECISIONS: Mapping[str, str] = MappingProxyType({"bf16-true": "bf16"})


def stored_as(precision: str) -> str:
    """Format in which a training precision multiplies.

    Check:
        >>> stored_as("bf16-true"), stored_as("mxfp8")
        ('bf16', 'mxfp8')
    """
    return _PRECISIONS.get(precision, precision)


def keeps_16_bit(precision: str) -> bool:
    """Whether a training precision keeps nothing in 32 bits.

    Check:
        >>> keeps_16_bit("bf16-true"), keeps_16_bit("bf16")
        (True, False)
    """
    return precision in _PRECISIONS


def format_words(weight_format: str) -> str:
    """A format as sentences write it.

    Check:
        >>> format_words("gguf-q4_k_m"), format_words("int4-awq")
        ('GGUF Q4_K_M', 'INT4 AWQ')
    """
    return weight_format.upper().replace("-", " ")


def least_capability(unit: str) -> float:
    """Lowest CUDA compute capability whose matrix units multiply the format.

    Check: FP8 since Ada, 4 bits since Blackwell.
        >>> least_capability("fp8"), least_capability("fp4")
        (8.9, 10.0)
    """
    return min(g.capability for g in GENERATIONS if g.capability is not None and unit in g.multiplies)
