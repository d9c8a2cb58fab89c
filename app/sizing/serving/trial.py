"""Selects and orders the plans to simulate: the best of each accelerator type first, then alternative layouts."""

from __future__ import annotations

from bisect import insort

import numpy as np

from app.sizing.columns import Codes, Column, Mask
from app.sizing.serving.options import Options

MOST_OTHERS = 12  # maximum number of replacement layouts for failed or far more expensive types
MOST_BESIDE = 24  # maximum number of extra layouts for types that already passed a simulation
BETTER_BY = 1.25  # usual upper bound of simulated cost over cost by formulas
WORSE_BY = 1.1  # minimum ratio of a type's best simulated score to another layout's score by formulas


class SimulationQueue:
    """Queue of rows to simulate, best first.

    If the best layout of a type fails, or its simulation is much worse than the formula result of another layout, an
    alternative layout is queued. Layouts with a larger batch are preferred. Alternatives to a successful layout are
    tried only if `try_extra_layouts` is set.
    """

    def __init__(self, options: Options, score: Column, best: Codes, *, try_extra_layouts: bool = True) -> None:
        self.options, self.score = options, score
        self.waiting: list[int] = best.tolist()
        self.alternatives: list[tuple[float, int]] = []  # alternatives for types with a simulated layout, most likely first
        self.reached: dict[int, float] = {}  # best simulated score by type
        plans = options.plans  # rows with equal engine, format and replica size share a key
        self.layouts: Codes = (
            plans.engine * 4096 + plans.weight_format
        ) * 4096 + plans.accelerators_per_replica.astype(np.int64)
        self.unqueued: Mask = np.ones(len(options), bool)
        self.replacement_budget, self.extra_layouts_budget = MOST_OTHERS, MOST_BESIDE * try_extra_layouts

    def next(self, types: int) -> Codes:
        """Up to `types` rows from the queue, and one alternative layout that may clearly beat the best of its type."""
        rows, self.waiting = self.waiting[:types], self.waiting[types:]
        while self.alternatives and self.extra_layouts_budget:
            _, row = self.alternatives.pop(0)
            if self.score[row] * WORSE_BY < self.reached[int(self.options.accelerator[row])]:
                self.extra_layouts_budget -= 1
                return np.array([*rows, row], np.int64)
        return np.array(rows, np.int64)

    def may_beat(self) -> bool:
        """Whether the next row would clearly beat every simulated row if formulas were exact; uses up the budget."""
        if not self.waiting or not self.reached or not self.replacement_budget:
            return False
        would_win = float(self.score[self.waiting[0]]) * BETTER_BY < min(self.reached.values())
        self.replacement_budget -= would_win
        return would_win

    def record_scores(self, rows: Codes, scores: Column) -> None:
        """Record the simulated scores of rows, best first; infinite for failures."""
        for row, score in zip(rows.tolist(), scores.tolist(), strict=True):
            kind = int(self.options.accelerator[row])
            if score < self.reached.get(kind, np.inf):
                self.reached[kind] = score
            self.try_another(row, kind, score)

    def try_another(self, row: int, kind: int, score: float) -> None:
        """Queue an alternative layout of the same accelerator type; prefer one with a larger batch than the simulated
        one.

        Otherwise queue the best remaining layout, which is likely to score like the simulated one.
        """
        of_type = np.flatnonzero((self.options.accelerator == kind) & self.unqueued)
        alike = self.layouts[of_type] == self.layouts[row]
        self.unqueued[of_type[alike]] = False
        others = of_type[~alike]
        if not len(others):
            return
        batch, enough = self.options.slo_batch, self.reached.get(kind, np.inf) / WORSE_BY
        abler = others[(batch[others] > batch[row]) & (self.score[others] < enough)]
        among = abler if len(abler) else others
        other = int(among[np.argmin(self.score[among])])
        if kind in self.reached:
            times = 1.0 if len(abler) else score / float(self.score[row])
            insort(self.alternatives, (float(self.score[other]) * times, other))
        elif len(abler) or self.replacement_budget > 0:
            insort(self.waiting, other, key=self.score.__getitem__)
            self.replacement_budget -= not len(abler)

    @property
    def types(self) -> int:
        """Number of types that passed a simulation or are still queued."""
        return len({*self.reached, *self.options.accelerator[self.waiting].tolist()})
