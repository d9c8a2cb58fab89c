"""What each kind of kept tensor is divided by on a rank: tensor, sequence, context, pipeline and expert parallelism.

Matrices' products (heads, gates, logits) are split by tensor parallelism alone. What lies between matrices (the
residual stream, norms, their outputs) lies whole on every tensor rank unless sequences are split too; gathered inputs
are gathered again in backward, not kept. Context parallelism divides the tokens; experts' tokens go with them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.sizing.columns import Column, Columns
from app.sizing.formula import formula
from app.sizing.training.counts import Counts
from app.sizing.training.plans import TrainingPlans
from app.sizing.training.ranks import sequence_split

# Megatron-LM of 2026-08 (megatron/core/transformer, tensor_parallel) and Korthikanti et al. 2022, section 4.2.
SOURCE = "Korthikanti et al. 2022 (arXiv:2205.05198), section 4.2"


@dataclass(frozen=True, slots=True)
class Shares(Columns):
    """Share of each kind of tensor, of a micro-batch's tokens on its context rank, that one rank holds."""

    hidden: Column  # residual stream, norms and their outputs; outputs of frozen matrices' inputs alike
    heads: Column  # queries, attention's output, statistics and scores; gates; logits
    kv_heads: Column  # copied where there are more tensor ranks than heads
    experts: Column  # tokens as they lie at their experts
    layers: Column  # of the model, on the fullest stage


@formula(unit="1", source=SOURCE)
def hidden_share(sequence_split: Column) -> Column:
    """Share of what lies between matrices.

    Source: Korthikanti et al. 2022 (arXiv:2205.05198), section 4.2.2.
    """
    return 1.0 / sequence_split


@formula(unit="1", source="Shoeybi et al. 2019 (arXiv:1909.08053)")
def head_share(plans: TrainingPlans) -> Column:
    """Share of matrices' products: heads, gates and logits.

    Source: Shoeybi et al. 2019 (arXiv:1909.08053), section 3.
    """
    return 1.0 / plans.tensor_parallel


@formula(unit="1", source="Megatron-LM: key and value heads are copied beyond their number")
def kv_head_share(counts: Counts, plans: TrainingPlans) -> Column:
    """Share of keys and values; heads are copied where there are more tensor ranks.

    Source: Megatron-LM's grouped-query attention.
    Check: eight heads over four and sixteen ranks.
        >>> kv_head_share(PRETRAIN_COUNTS, row(tensor_parallel=col(4, 16))).tolist()
        [0.25, 0.125]
    """
    return 1.0 / np.minimum(plans.tensor_parallel, counts.kv_heads)


@formula(unit="1", source="Megatron-LM: token dispatchers, expert tensor parallelism")
def expert_share(plans: TrainingPlans, sequence_split: Column) -> Column:
    """Share of tokens as they lie at their experts: with expert parallelism each rank's own, routing being even;
    without it every tensor rank has a part of every expert, and all the tokens.

    Source: Megatron-LM's token dispatchers.
    Limits: routing is even, and no token is dropped.
    Check:
        >>> expert_share(row(expert_parallel=col(8, 1)), col(4, 4)).tolist()
        [0.25, 1.0]
    """
    return np.where(plans.expert_parallel > 1, 1.0 / sequence_split, 1.0)


@formula(unit="layers", source="Narayanan et al. 2021 (arXiv:2104.04473)")
def stage_layers(layers: float, plans: TrainingPlans) -> Column:
    """Layers of a pipeline's fullest stage: whole ones.

    Source: Narayanan et al. 2021 (arXiv:2104.04473).
    Check: 126 layers on sixteen stages: eight.
        >>> stage_layers(126.0, row(pipeline_parallel=col(1, 16))).tolist()
        [126.0, 8.0]
    """
    return np.ceil(layers / plans.pipeline_parallel)


def shares_of(counts: Counts, plans: TrainingPlans) -> Shares:
    """What one rank holds of each kind."""
    split = sequence_split(plans)
    return Shares(
        hidden=hidden_share(split),
        heads=head_share(plans),
        kv_heads=kv_head_share(counts, plans),
        experts=expert_share(plans, split),
        layers=stage_layers(counts.num_layers, plans),
    )
