"""What runs are compared by: the objective, and a pipeline only where it is worth having."""

from __future__ import annotations

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import Codes, Column
from app.sizing.decisions.ranking import rounded
from app.sizing.formula import formula


@formula(unit="1", source="chosen: a difference that predictions cannot tell apart")
def pipeline_handicap(pipeline_parallel: Column, assumed: Assumptions) -> Column:
    """What a figure is multiplied by where layouts are compared: one with a pipeline must be better by more than a
    near tie, because stages are taken as even and published pipelines are of large models.

    Source: chosen.
    Check:
        >>> pipeline_handicap(col(1, 8), Assumptions()).tolist()
        [1.0, 1.05]
    """
    return np.where(pipeline_parallel > 1, 1 + assumed.near_tie_share, 1.0)


def preferred(accelerator: Codes, score: Column, usd: Column, tie: Column) -> Codes:
    """Of each accelerator type the row with the least score, of equals the cheapest, then the first by a key."""
    order = np.lexsort((tie, rounded(usd), rounded(score), accelerator))
    return order[np.unique(accelerator[order], return_index=True)[1]]
