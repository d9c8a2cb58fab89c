"""Fills cards with shares of models: on every card within its memory and its time, on as few cards as can be."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from app.sizing.hardware.slices import Slice, lie_beside

# Arrangements that are tried before the best so far is taken; a few models take fewer.
MOST_TRIED = 4_000
ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Option:
    """One way to run a model: on so many cards, with a share of each."""

    cards: int
    memory_share: float
    time_share: float
    slice: Slice | None = None  # that it is, of a card that is cut


@dataclass(frozen=True, slots=True)
class Room:
    """What several models together may take of a card that they share, and the parts of memory of one that is cut."""

    memory_share: float
    time_share: float
    parts: int = 0

    def holds(self, options: Sequence[Option]) -> bool:
        """Whether these stand on one card; a model alone has all of it."""
        slices = tuple(sorted(o.slice for o in options if o.slice is not None))
        if slices:
            return len(slices) == len(options) and lie_beside(slices, self.parts)
        if len(options) == 1:
            return max(options[0].memory_share, options[0].time_share) <= 1 + ROUNDING
        memory, time = sum(o.memory_share for o in options), sum(o.time_share for o in options)
        return memory <= self.memory_share + ROUNDING and time <= self.time_share + ROUNDING


Tenants = tuple[int, ...]  # models on a card, in order
Cards = Mapping[Tenants, int]  # how many cards are divided so


@dataclass(frozen=True, slots=True)
class Arrangement:
    """Which option of each model was taken, and how many cards are shared by which models."""

    taken: tuple[int, ...]
    cards: Cards

    @property
    def count(self) -> int:
        """Cards in all."""
        return sum(self.cards.values())


@dataclass(slots=True)
class Search:
    """The arrangement of fewest cards, depth first, the largest model first; no branch that cannot be better."""

    models: Sequence[Sequence[Option]]
    room: Room
    taken: dict[int, Option] = field(default_factory=dict)
    best: Arrangement | None = None
    tried: int = 0

    def run(self) -> Arrangement | None:
        """The best found; None where a model has no option."""
        if not all(self.models):
            return None
        order = sorted(range(len(self.models)), key=lambda i: (-least_volume(self.models[i], self.room), i))
        self.descend(order, {})
        return self.best

    def descend(self, left: Sequence[int], cards: Cards) -> None:
        """Place the models that are left on cards of which some are divided already."""
        self.tried += 1
        if self.best is not None and (self.tried > MOST_TRIED or self.fewest(left, cards) >= self.best.count):
            return
        if not left:
            chosen = tuple(self.models[i].index(self.taken[i]) for i in range(len(self.models)))
            self.best = Arrangement(chosen, dict(sorted(cards.items())))
            return
        model, rest = left[0], left[1:]
        ways: list[tuple[int, int, int, Option, Cards]] = []
        for number, option in enumerate(self.models[model]):
            for turn, after in enumerate(self.placed(model, option, cards)):
                ways.append((sum(after.values()), number, turn, option, after))
        for _, _, _, option, after in sorted(ways, key=lambda way: way[:3]):
            self.taken[model] = option
            self.descend(rest, after)
        self.taken.pop(model, None)

    def placed(self, model: int, option: Option, cards: Cards) -> Iterator[Cards]:
        """Ways to give a model its cards: of those that have room as many as can be first, then new ones."""
        open_to = [t for t in sorted(cards) if self.room.holds([*(self.taken[i] for i in t), option])]
        for counts in spread(option.cards, [cards[t] for t in open_to]):
            after = dict(cards)
            for tenants, count in zip(open_to, counts, strict=True):
                if count:
                    after[tenants] -= count
                    after[(*tenants, model)] = count
            new = option.cards - sum(counts)
            if new:
                after[(model,)] = new
            yield {t: n for t, n in after.items() if n}

    def fewest(self, left: Sequence[int], cards: Cards) -> int:
        """A number of cards below which no arrangement comes: what is taken already and what is left at its least."""
        least = sum(cards.values())
        for name in ("memory_share", "time_share"):
            most = 1.0 if self.room.parts else getattr(self.room, name)
            whole = sum(n * min(most, sum(getattr(self.taken[i], name) for i in t)) for t, n in cards.items())
            whole += sum(min(o.cards * min(most, getattr(o, name)) for o in self.models[i]) for i in left)
            least = max(least, math.ceil(whole / most - ROUNDING))
        return max([least, *(min(o.cards for o in self.models[i]) for i in left)])


def least_volume(options: Sequence[Option], room: Room) -> float:
    """Cards that a model would fill by itself at the least, in memory or time."""
    return min(o.cards * max(o.memory_share / room.memory_share, o.time_share / room.time_share) for o in options)


def spread(wanted: int, held: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Ways to take up to so many of some heaps, as many of the first as there are to begin with."""
    if not held:
        yield ()
        return
    for count in range(min(wanted, held[0]), -1, -1):
        for others in spread(wanted - count, held[1:]):
            yield (count, *others)


def arranged(models: Sequence[Sequence[Option]], room: Room) -> Arrangement | None:
    """The models on as few cards as were found; None where one of them has no way to run."""
    return Search(models, room).run()
