"""Which plans are simulated, and in which order: the best of each type, then others where these turn out worse."""

from __future__ import annotations

from bisect import insort

import numpy as np

from app.sizing.columns import Codes, Column, Mask
from app.sizing.serving.options import Options

MOST_OTHERS = 12  # that are simulated in the place of types' best ones that failed, or beside those that cost far more
BETTER_BY = 1.25  # what a simulation adds to a cost at most times


class Trial:
    """Rows that wait to be simulated, best first. Of a type whose best failed another layout is tried, so often."""

    def __init__(self, options: Options, score: Column, best: Codes) -> None:
        self.options, self.score = options, score
        self.waiting: list[int] = best.tolist()
        self.left: Mask = np.ones(len(options), bool)
        self.tries = MOST_OTHERS

    def next(self, count: int) -> Codes:
        """The best so many of those that wait."""
        rows, self.waiting = self.waiting[:count], self.waiting[count:]
        return np.array(rows, np.int64)

    def may_beat(self, score: float) -> bool:
        """Whether the best that waits would be better by far, were it as formulas say; so often."""
        found = (
            bool(self.waiting) and self.tries > 0 and float(self.score[self.waiting[0]]) * BETTER_BY < score < np.inf
        )
        self.tries -= found
        return found

    def failed(self, rows: Codes) -> None:
        """Has the best other layout of each row's type wait in its place."""
        for row in rows[: self.tries].tolist():
            self.tries -= 1
            of_type = np.flatnonzero((self.options.accelerator == self.options.accelerator[row]) & self.left)
            alike = self.alike(of_type) == self.alike(np.array([row]))
            self.left[of_type[alike]] = False
            other = of_type[~alike]
            if len(other):
                insort(self.waiting, int(other[np.argmin(self.score[other])]), key=self.score.__getitem__)

    def alike(self, rows: Codes) -> Codes:
        """A number that rows share whose replicas are laid out alike."""
        plans = self.options.plans.take(rows)
        return (plans.engine * 4096 + plans.weight_format) * 4096 + plans.accelerators_per_replica.astype(np.int64)
