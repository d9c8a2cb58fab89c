"""Micro-batches that a pipeline's stages hold at once: most on the first, fewest where the loss is formed."""

from __future__ import annotations

import numpy as np

from app.sizing.columns import Column
from app.sizing.formula import formula


@formula(unit="micro-batches", source="Narayanan et al. 2021 (arXiv:2104.04473)")
def micro_batches_in_flight(micro_batches: Column, stages: Column, virtual_pipeline: Column, place: Column) -> Column:
    """Micro-batches whose activations a stage holds; the first stage's place is 0.

    One forward, one backward: as many as there are stages from it on. Interleaved: 2 (p - i - 1) + (v - 1) p + 1
    chunks, of which a micro-batch has v. Never more than a step has.
    Source: Narayanan et al. 2021 (arXiv:2104.04473), section 2.2; Megatron-LM's schedules.
    Check: four stages of many micro-batches, the first and the last: without chunks, then with two.
        >>> four, of = col(4, 4, 4, 4), col(0, 3, 0, 3)
        >>> micro_batches_in_flight(col(64, 64, 64, 64), four, col(1, 1, 2, 2), of).tolist()
        [4.0, 1.0, 5.5, 2.5]
    """
    behind = stages - 1 - place
    warm_up = np.where(
        virtual_pipeline > 1, (2 * behind + (virtual_pipeline - 1) * stages + 1) / virtual_pipeline, behind + 1
    )
    return np.minimum(micro_batches, warm_up)
