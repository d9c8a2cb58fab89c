"""Cards that their driver cuts into slices, each a smaller card by itself (NVIDIA's MIG): which slices, and where they
may lie beside one another.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache


@dataclass(frozen=True, slots=True, order=True)
class Slice:
    """So many of a card's parts of compute and of memory, and the parts of memory that it may begin at."""

    compute: int
    memory: int
    starts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Profile:
    """A slice that an accelerator's driver offers, and what it is called."""

    accelerator: str
    name: str
    slice: Slice


@dataclass(frozen=True, slots=True)
class Slicing:
    """How a card is cut: its slices by the names that the driver gives them. The largest of them is the whole card.

    Check: an H100 has seven parts of compute and eight of memory.
        >>> card = Slicing({"1g.10gb": Slice(1, 1, tuple(range(7))), "7g.80gb": Slice(7, 8, (0,))})
        >>> card.compute, card.memory, card.name(Slice(7, 8, (0,)))
        (7, 8, '7g.80gb')
    """

    names: Mapping[str, Slice]

    @property
    def slices(self) -> tuple[Slice, ...]:
        """What it is cut into, the smallest first."""
        return tuple(sorted(self.names.values()))

    @property
    def compute(self) -> int:
        """Parts of compute in all."""
        return max(s.compute for s in self.names.values())

    @property
    def memory(self) -> int:
        """Parts of memory in all."""
        return max(s.memory for s in self.names.values())

    def name(self, of: Slice) -> str:
        """As the driver calls it."""
        return next(name for name, each in self.names.items() if each == of)


def slicings_of(profiles: Iterable[Profile]) -> Mapping[str, Slicing]:
    """How every accelerator is cut that has any slices; the others are not."""
    names: dict[str, dict[str, Slice]] = {}
    for each in sorted(profiles, key=lambda p: (p.accelerator, p.slice)):
        names.setdefault(each.accelerator, {})[each.name] = each.slice
    return {accelerator: Slicing(slices) for accelerator, slices in names.items()}


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
