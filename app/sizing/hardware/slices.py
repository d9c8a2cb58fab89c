"""Cards that their driver cuts into slices, each a smaller card by itself (NVIDIA's MIG): which slices, and where they
may lie beside one another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache


@dataclass(frozen=True, slots=True, order=True)
class Slice:
    """So many of a card's parts of compute and of memory, and the parts of memory that it may begin at."""

    compute: int
    memory: int
    starts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Slicing:
    """How a card is cut. `gigabytes` name a slice by its parts of memory."""

    compute: int  # parts in all
    memory: int
    slices: tuple[Slice, ...]
    gigabytes: Mapping[int, int]
    source: str
    as_of: str

    def name(self, of: Slice) -> str:
        """As the driver calls it.

        Check: the smallest of an H100.
            >>> SLICINGS["nvidia-h100-sxm5-80gb"].name(Slice(1, 1, (0,)))
            '1g.10gb'
        """
        return f"{of.compute}g.{self.gigabytes[of.memory]}gb"


@cache
def lie_beside(slices: tuple[Slice, ...], memory: int) -> bool:
    """Whether slices lie on a card with so many parts of memory, none over another.

    Check: two of three sevenths leave no room for a third model; three of two do.
        >>> lie_beside((Slice(3, 4, (0, 4)), Slice(3, 4, (0, 4)), Slice(1, 1, tuple(range(7)))), 8)
        False
        >>> lie_beside((*[Slice(2, 2, (0, 2, 4))] * 3, Slice(1, 1, tuple(range(7)))), 8)
        True
    """

    def placed(left: Sequence[Slice], taken: frozenset[int]) -> bool:
        if not left:
            return True
        first, rest = left[0], left[1:]
        for start in first.starts:
            under = frozenset(range(start, start + first.memory))
            if max(under) < memory and not under & taken and placed(rest, taken | under):
                return True
        return False

    return placed(sorted(slices, reverse=True), frozenset())


SEVENTHS = (
    Slice(1, 1, (0, 1, 2, 3, 4, 5, 6)),
    Slice(1, 2, (0, 2, 4, 6)),
    Slice(2, 2, (0, 2, 4)),
    Slice(3, 4, (0, 4)),
    Slice(4, 4, (0,)),
    Slice(7, 8, (0,)),
)
QUARTERS = (Slice(1, 1, (0, 1, 2, 3)), Slice(2, 2, (0, 2)), Slice(4, 4, (0,)))
GUIDE = "docs.nvidia.com MIG user guide: supported GPUs, supported profiles"
AWS = "github aws/sagemaker-hyperpod-cli inference/constant.py; MIG user guide: supported GPUs"


def sevenths(one: int, two: int, four: int, eight: int, source: str = GUIDE) -> Slicing:
    """Seven parts of compute, eight of memory; slices of one, two, four and eight of these are called so."""
    return Slicing(7, 8, SEVENTHS, {1: one, 2: two, 4: four, 8: eight}, source, "2026-11-22")


def quarters(one: int, two: int, four: int) -> Slicing:
    """Four parts of each."""
    return Slicing(4, 4, QUARTERS, {1: one, 2: two, 4: four}, GUIDE, "2026-11-22")


# By accelerator; what is not here is not cut.
SLICINGS: Mapping[str, Slicing] = {
    "nvidia-a30": quarters(6, 12, 24),
    "nvidia-a100-pcie-40gb": sevenths(5, 10, 20, 40),
    "nvidia-a100-sxm4-40gb": sevenths(5, 10, 20, 40),
    "nvidia-a100-pcie-80gb": sevenths(10, 20, 40, 80),
    "nvidia-a100-sxm4-80gb": sevenths(10, 20, 40, 80),
    "nvidia-h100-pcie-80gb": sevenths(10, 20, 40, 80),
    "nvidia-h100-sxm5-80gb": sevenths(10, 20, 40, 80),
    "nvidia-h100-nvl-94gb": sevenths(12, 24, 47, 94),
    "nvidia-h20-96gb": sevenths(12, 24, 48, 96),
    "nvidia-gh200-96gb": sevenths(12, 24, 48, 96),
    "nvidia-h200-sxm-141gb": sevenths(18, 35, 71, 141),
    "nvidia-h200-nvl-141gb": sevenths(18, 35, 71, 141),
    "nvidia-b200-sxm-180gb": sevenths(23, 45, 90, 180, AWS),
    "nvidia-gb200-186gb": sevenths(23, 47, 93, 186, AWS),
    "nvidia-rtx-pro-6000-blackwell-ws": quarters(24, 48, 96),
    "nvidia-rtx-pro-6000-blackwell-maxq": quarters(24, 48, 96),
    "nvidia-rtx-pro-6000-blackwell-server": quarters(24, 48, 96),
}
