"""What was published around a software stack: how near the nearest result is, and how many sources stand behind."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from app.sizing.columns import Codes, Column
from app.sizing.evidence import NUMBERS, WORDS, Compared, runtime_on, word_of
from app.sizing.hardware.achieved import kernels_of
from app.sizing.uncertainty import FARTHEST, Around

# What tells stacks apart, and what tells the questions put to one.
STACK_WORDS = ("vendor", "family", "runtime", "engine", "format_class")
SHAPE_NUMBERS = ("params", "input_tokens", "output_tokens")
# Quantities whose results tell of one another; every other one is of serving.
POOLS: Mapping[str, str] = MappingProxyType(
    {"training": "training", "training_samples": "training", "training_memory": "training_memory"}
)
SERVING = "serving"


class StackKey(NamedTuple):
    """What was made to run together, as far as evidence goes."""

    engine: str
    family: str
    format_class: str


class Shape(NamedTuple):
    """What was asked of it."""

    params: float
    input_tokens: float
    output_tokens: float


def pool_of(quantity: str) -> str:
    """Which results tell of a quantity."""
    return POOLS.get(quantity, SERVING)


def scaled(shapes: Iterable[Shape]) -> Column:
    """Numbers of shapes such that distances add, a row each: powers of two, by what they count for."""
    values = np.array(list(shapes), dtype=np.float64).reshape(-1, len(SHAPE_NUMBERS))
    found: Column = np.log2(np.maximum(values, 1.0)) * [NUMBERS[name].weight for name in SHAPE_NUMBERS]
    return found


class Surroundings:
    """The results of one pool, to be seen from any stack."""

    def __init__(self, rows: Iterable[Compared]) -> None:
        told: dict[StackKey, set[Shape]] = {}
        self._sources: dict[tuple[str, str], set[str]] = {}
        for r in rows:
            s = r.setting
            key = StackKey(s.engine, s.family, s.format_class)
            told.setdefault(key, set()).add(Shape(s.params, s.input_tokens, s.output_tokens))
            self._sources.setdefault(runtime_on(s.engine, s.family), set()).add(r.source)
        self._stacks = sorted(told)
        shapes = [sorted(told[key]) for key in self._stacks]
        self._shapes = scaled(shape for of_stack in shapes for shape in of_stack).T.copy()
        self._first: Codes = np.cumsum([0, *map(len, shapes)])[:-1]
        self._known: dict[StackKey, Column] = {}

    def beside(self, stacks: Sequence[StackKey]) -> Beside:
        """These stacks beside every one that was measured."""
        apart = np.array([self._apart(key) for key in stacks]).reshape(len(stacks), len(self._stacks))
        return Beside(
            apart,
            np.array([float(len(self._sources.get(runtime_on(key.engine, key.family), ()))) for key in stacks]),
            np.array([float(kernels_of(key.family) == "untabulated") for key in stacks]),
            self._shapes,
            self._first,
        )

    def _apart(self, key: StackKey) -> Column:
        """Distance in words to each stack that was measured."""
        if key not in self._known:
            mine = [word_of(name, *key) for name in STACK_WORDS]
            self._known[key] = np.array(
                [
                    sum(
                        WORDS[name].weight
                        for name, word in zip(STACK_WORDS, mine, strict=True)
                        if word_of(name, *other) != word
                    )
                    for other in self._stacks
                ]
            )
        return self._known[key]


def surroundings_of(rows: Iterable[Compared]) -> dict[str, Surroundings]:
    """The results of each pool, those set aside left out."""
    kept: dict[str, list[Compared]] = {pool: [] for pool in (SERVING, *POOLS.values())}
    for r in rows:
        if not r.set_aside:
            kept[pool_of(r.kind)].append(r)
    return {pool: Surroundings(of_pool) for pool, of_pool in kept.items()}


class Beside(NamedTuple):
    """Stacks (rows) beside measured ones (columns): distances in words, and the shapes measured of each."""

    apart: Column
    sources: Column
    untabulated: Column
    shapes: Column
    first: Codes  # of each measured stack's shapes

    def around(self, shape: Shape) -> Around:
        """What stands around each stack when this is asked of it."""
        documented = np.ones(len(self.sources))
        if not len(self.first):
            return Around(self.sources, np.full(len(self.sources), FARTHEST), self.untabulated, documented)
        off = self.shapes - scaled([shape]).T
        nearest = np.minimum.reduceat(np.sqrt(np.einsum("ij,ij->j", off, off)), self.first)
        return Around(self.sources, (self.apart + nearest).min(axis=1), self.untabulated, documented)


def distinct_stacks(keys: Sequence[StackKey]) -> tuple[list[StackKey], Codes]:
    """Each once, and which of them every key is."""
    once = {key: i for i, key in enumerate(dict.fromkeys(keys))}
    return list(once), np.array([once[key] for key in keys], dtype=np.int64)
