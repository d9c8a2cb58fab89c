"""Selects and orders the plans to simulate: the best of each accelerator type first, then alternative layouts."""

from __future__ import annotations

from bisect import insort

import numpy as np

from app.sizing.columns import Codes, Column, Mask
from app.sizing.serving.options import Options

MAX_REPLACEMENTS = 12  # maximum number of replacement layouts for failed or far more expensive types
MAX_EXTRA_LAYOUTS = 24  # maximum number of extra layouts for types that already passed a simulation
MAX_SIMULATION_RATIO = 1.25  # usual upper bound of simulated cost over cost by formulas
MIN_SCORE_RATIO = 1.1  # minimum ratio of a type's best simulated score to another layout's score by formulas


class SimulationQueue:
    """Queue of rows to simulate, best first.

    If the best layout of a type fails, or its simulation is much worse than the formula result of another layout, an
    alternative layout is queued. Layouts with a larger batch are preferred. Alternatives to a successful layout are
    tried only if `try_extra_layouts` is set.
    """

    def __init__(self, options: Options, score: Column, best: Codes, *, try_extra_layouts: bool = True) -> None:
        self.options, self.score = options, score
        self.waiting: list[int] = best.tolist()
        self.alternatives: list[
            tuple[float, int]
        ] = []  # alternatives for types with a simulated layout, most likely first
        self.best_scores: dict[int, float] = {}  # best simulated score by type
        plans = options.plans  # rows with equal engine, format and replica size share a key
        self.layouts: Codes = (
            plans.engine * 4096 + plans.weight_format
        ) * 4096 + plans.accelerators_per_replica.astype(np.int64)
        self.unqueued: Mask = np.ones(len(options), bool)
        self.replacement_budget, self.extra_layouts_budget = MAX_REPLACEMENTS, MAX_EXTRA_LAYOUTS * try_extra_layouts

    def next_rows(self, types: int) -> Codes:
        """Up to `types` rows from the queue, and one alternative layout that may clearly beat the best of its type."""
        rows, self.waiting = self.waiting[:types], self.waiting[types:]
        while self.alternatives and self.extra_layouts_budget:
            _, row = self.alternatives.pop(0)
            if self.score[row] * MIN_SCORE_RATIO < self.best_scores[int(self.options.accelerator[row])]:
                self.extra_layouts_budget -= 1
                return np.array([*rows, row], np.int64)
        return np.array(rows, np.int64)

    def may_beat(self) -> bool:
        """Whether the next row would clearly beat every simulated row if formulas were exact; uses up the budget."""
        if not self.waiting or not self.best_scores or not self.replacement_budget:
            return False
        would_win = float(self.score[self.waiting[0]]) * MAX_SIMULATION_RATIO < min(self.best_scores.values())
        self.replacement_budget -= would_win
        return would_win

    def record_scores(self, rows: Codes, scores: Column) -> None:
        """Record the simulated scores of rows, best first; infinite for failures."""
        for row, score in zip(rows.tolist(), scores.tolist(), strict=True):
            kind = int(self.options.accelerator[row])
            if score < self.best_scores.get(kind, np.inf):
                self.best_scores[kind] = score
            self.queue_alternative(row, kind, score)

    def queue_alternative(self, row: int, kind: int, score: float) -> None:
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
        batch, enough = self.options.slo_batch, self.best_scores.get(kind, np.inf) / MIN_SCORE_RATIO
        larger_batch = others[(batch[others] > batch[row]) & (self.score[others] < enough)]
        among = larger_batch if len(larger_batch) else others
        other = int(among[np.argmin(self.score[among])])
        if kind in self.best_scores:
            times = 1.0 if len(larger_batch) else score / float(self.score[row])
            insort(self.alternatives, (float(self.score[other]) * times, other))
        elif len(larger_batch) or self.replacement_budget > 0:
            insort(self.waiting, other, key=self.score.__getitem__)
            self.replacement_budget -= not len(larger_batch)

    @property
    def type_count(self) -> int:
        """Number of types that passed a simulation or are still queued."""
        return len({*self.best_scores, *self.options.accelerator[self.waiting].tolist()})
