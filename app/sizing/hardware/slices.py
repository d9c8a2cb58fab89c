"""Cards that their driver divides into slices, each used as a smaller card (NVIDIA MIG), and which slices fit
together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache


@dataclass(frozen=True, slots=True, order=True)
class Slice:
    """Size of a slice in compute and memory parts of the card, and the memory parts at which it may start."""

    compute: int
    memory: int
    starts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Profile:
    """A slice that the driver of an accelerator offers, and its name."""

    accelerator: str
    name: str
    slice: Slice


@dataclass(frozen=True, slots=True)
class Slicing:
    """The slices of a card by the names that the driver gives them. The largest slice is the whole card.

    Check: an H100 has seven parts of compute and eight of memory.
        >>> card = Slicing({"1g.10gb": Slice(1, 1, tuple(range(7))), "7g.80gb": Slice(7, 8, (0,))})
        >>> card.compute, card.memory, card.profile_name(Slice(7, 8, (0,)))
        (7, 8, '7g.80gb')
    """

    names: Mapping[str, Slice]

    @property
    def slices(self) -> tuple[Slice, ...]:
        """All slices, smallest first."""
        return tuple(sorted(self.names.values()))

    @property
    def compute(self) -> int:
        """Number of compute parts of the card."""
        return max(s.compute for s in self.names.values())

    @property
    def memory(self) -> int:
        """Number of memory parts of the card."""
        return max(s.memory for s in self.names.values())

    def profile_name(self, of: Slice) -> str:
        """Name that the driver gives to a slice."""
        return next(name for name, each in self.names.items() if each == of)


def slicings_by_accelerator(profiles: Iterable[Profile]) -> Mapping[str, Slicing]:
    """Slicing of every accelerator that has slices."""
    names: dict[str, dict[str, Slice]] = {}
    for each in sorted(profiles, key=lambda p: (p.accelerator, p.slice)):
        names.setdefault(each.accelerator, {})[each.name] = each.slice
    return {accelerator: Slicing(slices) for accelerator, slices in names.items()}


@cache
def fit_together(slices: tuple[Slice, ...], memory: int) -> bool:
    """Whether slices fit on a card with `memory` memory parts without overlap.

    Check: two of three sevenths leave no room for a third model; three of two do.
        >>> fit_together((Slice(3, 4, (0, 4)), Slice(3, 4, (0, 4)), Slice(1, 1, tuple(range(7)))), 8)
        False
        >>> fit_together((*[Slice(2, 2, (0, 2, 4))] * 3, Slice(1, 1, tuple(range(7)))), 8)
        True
    """

    def place_remaining(left: Sequence[Slice], taken: frozenset[int]) -> bool:
        if not left:
            return True
        first, rest = left[0], left[1:]
        for start in first.starts:
            under = frozenset(range(start, start + first.memory))
            if max(under) < memory and not under & taken and place_remaining(rest, taken | under):
                return True
        return False

    return place_remaining(sorted(slices, reverse=True), frozenset())
