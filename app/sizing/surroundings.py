"""Published evidence near a software stack: the distance to the nearest result and the number of independent
sources.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from app.sizing.columns import Codes, Column
from app.sizing.evidence import CATEGORICAL_WEIGHTS, NUMERIC_WEIGHTS, Compared, runtime_and_family, stack_attribute
from app.sizing.hardware.achieved import kernels_of
from app.sizing.uncertainty import MAX_DISTANCE, Neighborhood

# Attributes that distinguish stacks, and numbers that distinguish the questions about one stack.
STACK_WORDS = ("vendor", "family", "runtime", "engine", "format_class")
SHAPE_NUMBERS = ("params", "input_tokens", "output_tokens")
# Pool of results for each training quantity; results of a pool are evidence for each other. All others are serving.
POOLS: Mapping[str, str] = MappingProxyType(
    {"training": "training", "training_samples": "training", "training_memory": "training_memory"}
)
SERVING = "serving"


class StackKey(NamedTuple):
    """Software stack, as far as evidence depends on it."""

    engine: str
    family: str
    format_class: str


class Shape(NamedTuple):
    """Size of the model and of the requests."""

    params: float  # parameters of the model
    input_tokens: float  # tokens of a prompt
    output_tokens: float  # tokens of an output


def evidence_pool(quantity: str) -> str:
    """Pool of results that are evidence for a quantity."""
    return POOLS.get(quantity, SERVING)


def scale_shapes(shapes: Iterable[Shape]) -> Column:
    """Shapes as rows of weighted binary logarithms, so that distances add."""
    values = np.array(list(shapes), dtype=np.float64).reshape(-1, len(SHAPE_NUMBERS))
    found: Column = np.log2(np.maximum(values, 1.0)) * [NUMERIC_WEIGHTS[name].weight for name in SHAPE_NUMBERS]
    return found


class EvidencePool:
    """The results of one pool, ready to be compared with any stack."""

    def __init__(self, rows: Iterable[Compared]) -> None:
        measured: dict[StackKey, set[Shape]] = {}
        self._sources: dict[tuple[str, str], set[str]] = {}
        for r in rows:
            s = r.setting
            key = StackKey(s.engine, s.family, s.format_class)
            measured.setdefault(key, set()).add(Shape(s.params, s.input_tokens, s.output_tokens))
            self._sources.setdefault(runtime_and_family(s.engine, s.family), set()).add(r.source)
        self._stacks = sorted(measured)
        shapes = [sorted(measured[key]) for key in self._stacks]
        self._shapes = scale_shapes(shape for of_stack in shapes for shape in of_stack).T.copy()
        self._first: Codes = np.cumsum([0, *map(len, shapes)])[:-1]
        self._known: dict[StackKey, Column] = {}

    def index_stacks(self, stacks: Sequence[StackKey]) -> EvidenceIndex:
        """Distances from these stacks to every measured stack."""
        apart = np.array([self._categorical_distances(key) for key in stacks]).reshape(len(stacks), len(self._stacks))
        return EvidenceIndex(
            apart,
            np.array([float(len(self._sources.get(runtime_and_family(key.engine, key.family), ()))) for key in stacks]),
            np.array([float(kernels_of(key.family) == "untabulated") for key in stacks]),
            self._shapes,
            self._first,
        )

    def _categorical_distances(self, key: StackKey) -> Column:
        """Distance in categorical attributes from one stack to each measured stack."""
        if key not in self._known:
            mine = [stack_attribute(name, *key) for name in STACK_WORDS]
            self._known[key] = np.array(
                [
                    sum(
                        CATEGORICAL_WEIGHTS[name].weight
                        for name, word in zip(STACK_WORDS, mine, strict=True)
                        if stack_attribute(name, *other) != word
                    )
                    for other in self._stacks
                ]
            )
        return self._known[key]


def build_evidence_pools(rows: Iterable[Compared]) -> dict[str, EvidencePool]:
    """Results by pool, without those that are excluded from fits."""
    results_by_pool: dict[str, list[Compared]] = {pool: [] for pool in (SERVING, *POOLS.values())}
    for r in rows:
        if not r.excluded:
            results_by_pool[evidence_pool(r.kind)].append(r)
    return {pool: EvidencePool(of_pool) for pool, of_pool in results_by_pool.items()}


class EvidenceIndex(NamedTuple):
    """Stacks (rows) compared with measured stacks (columns)."""

    categorical_distance: (
        Column  # distance in categorical attributes, one row per stack and one column per measured stack
    )
    sources: Column  # independent sources for the runtime on the family
    untabulated: Column  # 1 where base values come from no kernel tables of the maker
    shapes: Column  # weighted logarithms of the measured shapes, one column each
    first_shape: Codes  # first shape of each measured stack

    def neighborhood(self, shape: Shape) -> Neighborhood:
        """Evidence near each stack for this model and request size."""
        documented = np.ones(len(self.sources))
        if not len(self.first_shape):
            return Neighborhood(self.sources, np.full(len(self.sources), MAX_DISTANCE), self.untabulated, documented)
        off = self.shapes - scale_shapes([shape]).T
        nearest = np.minimum.reduceat(np.sqrt(np.einsum("ij,ij->j", off, off)), self.first_shape)
        return Neighborhood(
            self.sources, (self.categorical_distance + nearest).min(axis=1), self.untabulated, documented
        )


def distinct_stacks(keys: Sequence[StackKey]) -> tuple[list[StackKey], Codes]:
    """Each key once, and for every key the index of its first occurrence in that list."""
    once = {key: i for i, key in enumerate(dict.fromkeys(keys))}
    return list(once), np.array([once[key] for key in keys], dtype=np.int64)
