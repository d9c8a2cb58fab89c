"""Comparison of runs: by the objective, with a handicap for pipeline parallelism."""

from __future__ import annotations

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import Codes, Column
from app.sizing.decisions.ranking import ranking_key
from app.sizing.formula import formula


@formula(unit="1", source="assumed: predictions do not resolve smaller differences")
def pipeline_handicap(pipeline_parallel: Column, assumed: Assumptions) -> Column:
    """Factor on the compared figure of a layout with pipeline parallelism.

    A pipeline must be better by more than a near tie. The model assumes evenly balanced stages, and published
    pipelines train large models.
    Parameters:
        pipeline_parallel: pipeline stages.
        assumed: assumptions, with the share that counts as a near tie.
    Check: no handicap for one stage, 5 % for a pipeline.
        >>> pipeline_handicap(col(1, 8), Assumptions()).tolist()
        [1.0, 1.05]
    """
    return np.where(pipeline_parallel > 1, 1 + assumed.near_tie_share, 1.0)


def best_row_per_type(accelerator: Codes, score: Column, usd: Column, tie: Column) -> Codes:
    """Return the row with the lowest score of each accelerator type.

    The cheapest of equal rows wins, then the row with the lowest `tie` key.
    """
    order = np.lexsort((tie, ranking_key(usd), ranking_key(score), accelerator))
    return order[np.unique(accelerator[order], return_index=True)[1]]
