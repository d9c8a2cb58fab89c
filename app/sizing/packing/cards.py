"""Bin packing: places the shares of models on as few cards as possible, within the memory and time of each card."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from app.sizing.hardware.slices import Slice, fit_together

# Branches that the search visits before it returns the best arrangement found so far.
MAX_BRANCHES = 4_000
ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Option:
    """One way to run a model: a number of cards and its share of each."""

    cards: int  # number of cards
    memory_share: float  # share of the memory of each card, 0 to 1
    time_share: float  # share of the time of each card, 0 to 1
    slice: Slice | None = None  # slice of a partitioned card


@dataclass(frozen=True, slots=True)
class Room:
    """What several models together may take of a shared card, and the memory parts of a card that is sliced."""

    memory_share: float  # largest total share of memory, 0 to 1
    time_share: float  # largest total share of time, 0 to 1
    parts: int = 0  # memory parts of a sliced card; 0 where cards are not sliced

    def can_hold(self, options: Sequence[Option]) -> bool:
        """Whether these options fit on one card. A model alone can use the whole card."""
        slices = tuple(sorted(o.slice for o in options if o.slice is not None))
        if slices:
            return len(slices) == len(options) and fit_together(slices, self.parts)
        if len(options) == 1:
            return max(options[0].memory_share, options[0].time_share) <= 1 + ROUNDING
        memory, time = sum(o.memory_share for o in options), sum(o.time_share for o in options)
        return memory <= self.memory_share + ROUNDING and time <= self.time_share + ROUNDING


Tenants = tuple[int, ...]  # indices of the models on a card, in order
Cards = Mapping[Tenants, int]  # number of cards with each set of models


@dataclass(frozen=True, slots=True)
class Arrangement:
    """Option chosen for each model, and the number of cards with each set of models."""

    option_indices: tuple[int, ...]  # index of the chosen option of each model
    cards: Cards  # number of cards with each set of models

    @property
    def count(self) -> int:
        """Number of cards."""
        return sum(self.cards.values())


@dataclass(slots=True)
class CardSearch:
    """Branch-and-bound search for the arrangement with the fewest cards: depth first, largest model first."""

    models: Sequence[Sequence[Option]]
    room: Room
    placed_options: dict[int, Option] = field(default_factory=dict)
    best: Arrangement | None = None
    branches: int = 0

    def find_best(self) -> Arrangement | None:
        """The best arrangement found; None where a model has no option."""
        if not all(self.models):
            return None
        order = sorted(range(len(self.models)), key=lambda i: (-min_volume(self.models[i], self.room), i))
        self.place_models(order, {})
        return self.best

    def place_models(self, remaining: Sequence[int], cards: Cards) -> None:
        """Place the remaining models on cards, some of which already have models."""
        self.branches += 1
        if self.best is not None and (
            self.branches > MAX_BRANCHES or self.min_cards(remaining, cards) >= self.best.count
        ):
            return
        if not remaining:
            chosen = tuple(self.models[i].index(self.placed_options[i]) for i in range(len(self.models)))
            self.best = Arrangement(chosen, dict(sorted(cards.items())))
            return
        model, rest = remaining[0], remaining[1:]
        ways: list[tuple[int, int, int, Option, Cards]] = []
        for number, option in enumerate(self.models[model]):
            for turn, after in enumerate(self.extend_arrangement(model, option, cards)):
                ways.append((sum(after.values()), number, turn, option, after))
        for _, _, _, option, after in sorted(ways, key=lambda way: way[:3]):
            self.placed_options[model] = option
            self.place_models(rest, after)
        self.placed_options.pop(model, None)

    def extend_arrangement(self, model: int, option: Option, cards: Cards) -> Iterator[Cards]:
        """Arrangements that add one model: on as many of the cards with room as possible first, then on new cards."""
        open_to = [t for t in sorted(cards) if self.room.can_hold([*(self.placed_options[i] for i in t), option])]
        for counts in split_counts(option.cards, [cards[t] for t in open_to]):
            after = dict(cards)
            for tenants, count in zip(open_to, counts, strict=True):
                if count:
                    after[tenants] -= count
                    after[(*tenants, model)] = count
            new = option.cards - sum(counts)
            if new:
                after[(model,)] = new
            yield {t: n for t, n in after.items() if n}

    def min_cards(self, remaining: Sequence[int], cards: Cards) -> int:
        """Lower bound of the cards in any arrangement: the load placed so far plus the least of every remaining
        model.
        """
        least = sum(cards.values())
        for name in ("memory_share", "time_share"):
            most = 1.0 if self.room.parts else getattr(self.room, name)
            whole = sum(n * min(most, sum(getattr(self.placed_options[i], name) for i in t)) for t, n in cards.items())
            whole += sum(min(o.cards * min(most, getattr(o, name)) for o in self.models[i]) for i in remaining)
            least = max(least, math.ceil(whole / most - ROUNDING))
        return max([least, *(min(o.cards for o in self.models[i]) for i in remaining)])


def min_volume(options: Sequence[Option], room: Room) -> float:
    """Smallest number of cards that a model fills by itself, in memory or time."""
    return min(o.cards * max(o.memory_share / room.memory_share, o.time_share / room.time_share) for o in options)


def split_counts(wanted: int, piles: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Ways to take up to `wanted` items from some piles, with as many as possible from the first pile to begin with."""
    if not piles:
        yield ()
        return
    for count in range(min(wanted, piles[0]), -1, -1):
        for others in split_counts(wanted - count, piles[1:]):
            yield (count, *others)


def arrange_models(models: Sequence[Sequence[Option]], room: Room) -> Arrangement | None:
    """The models on as few cards as the search finds; None where one of them has no option."""
    return CardSearch(models, room).find_best()
