"""Which plans are simulated, and in which order: the best of each type, then others where these turn out worse."""

from __future__ import annotations

from bisect import insort

import numpy as np

from app.sizing.columns import Codes, Column, Mask
from app.sizing.serving.options import Options

MOST_OTHERS = 12  # that are simulated in the place of types' best ones that failed, or of types that cost far more
MOST_BESIDE = 24  # other layouts that are simulated beside types' best ones
BETTER_BY = 1.25  # what a simulation adds to a cost at most times
WORSE_BY = 1.1  # by how much another layout of a type has to be better by formulas than what its best turned out to be


class Trial:
    """Rows that wait to be simulated, best first. Where the best of a type failed, or turned out far worse than another
    layout by formulas, others are tried, those that hold more first; beside what did the work only where `beside` says.
    """

    def __init__(self, options: Options, score: Column, best: Codes, *, beside: bool = True) -> None:
        self.options, self.score = options, score
        self.waiting: list[int] = best.tolist()
        self.beside: list[tuple[float, int]] = []  # other layouts of types that have one already, likeliest first
        self.reached: dict[int, float] = {}  # by type, the best score of what was simulated
        plans = options.plans  # rows share a number whose replicas are laid out alike
        self.layouts: Codes = (
            plans.engine * 4096 + plans.weight_format
        ) * 4096 + plans.accelerators_per_replica.astype(np.int64)
        self.left: Mask = np.ones(len(options), bool)
        self.tries, self.tries_beside = MOST_OTHERS, MOST_BESIDE * beside

    def next(self, types: int) -> Codes:
        """The best of so many types that wait, and what may beat by far the best of its type."""
        rows, self.waiting = self.waiting[:types], self.waiting[types:]
        while self.beside and self.tries_beside:
            _, row = self.beside.pop(0)
            if self.score[row] * WORSE_BY < self.reached[int(self.options.accelerator[row])]:
                self.tries_beside -= 1
                return np.array([*rows, row], np.int64)
        return np.array(rows, np.int64)

    def may_beat(self) -> bool:
        """Whether the best that waits would be better by far than all, were it as formulas say; so often."""
        if not self.waiting or not self.reached or not self.tries:
            return False
        found = float(self.score[self.waiting[0]]) * BETTER_BY < min(self.reached.values())
        self.tries -= found
        return found

    def became(self, rows: Codes, scores: Column) -> None:
        """Takes what rows came to as they ran, best first; infinite where they failed."""
        for row, score in zip(rows.tolist(), scores.tolist(), strict=True):
            kind = int(self.options.accelerator[row])
            if score < self.reached.get(kind, np.inf):
                self.reached[kind] = score
            self.try_another(row, kind, score)

    def try_another(self, row: int, kind: int, score: float) -> None:
        """Has another layout of a row's type wait, beside what did the work or in the place of what failed: the best of
        those that hold more within the limits, else the best that is left, which is likely to turn out as this did.
        """
        of_type = np.flatnonzero((self.options.accelerator == kind) & self.left)
        alike = self.layouts[of_type] == self.layouts[row]
        self.left[of_type[alike]] = False
        others = of_type[~alike]
        if not len(others):
            return
        held, enough = self.options.slo_batch, self.reached.get(kind, np.inf) / WORSE_BY
        abler = others[(held[others] > held[row]) & (self.score[others] < enough)]
        among = abler if len(abler) else others
        other = int(among[np.argmin(self.score[among])])
        if kind in self.reached:
            times = 1.0 if len(abler) else score / float(self.score[row])
            insort(self.beside, (float(self.score[other]) * times, other))
        elif len(abler) or self.tries > 0:
            insort(self.waiting, other, key=self.score.__getitem__)
            self.tries -= not len(abler)

    @property
    def types(self) -> int:
        """How many types did the work or may yet do it."""
        return len({*self.reached, *self.options.accelerator[self.waiting].tolist()})
