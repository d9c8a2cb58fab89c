"""What one rank of a layout holds and works on: its share of parameters, tokens, layers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.sizing.columns import Column, Columns, Mask
from app.sizing.formula import formula, told_as
from app.sizing.training.counts import Counts
from app.sizing.training.layouts import MOST_VIRTUAL_PIPELINE
from app.sizing.training.pipeline import stage_share
from app.sizing.training.plans import TrainingPlans


@formula(unit="accelerators", source="definition")
def accelerators(plans: TrainingPlans, data_parallel: Column) -> Column:
    """Accelerators of a run: all degrees of parallelism, data parallelism included.

    Source: counted.
    Limits: expert parallelism lies within these ranks and adds none.
    """
    return plans.tensor_parallel * plans.pipeline_parallel * plans.context_parallel * data_parallel


@formula(unit="chunks", source="Narayanan et al. 2021 (arXiv:2104.04473)")
def virtual_pipeline(counts: Counts, plans: TrainingPlans) -> Column:
    """Model chunks per pipeline stage: as asked, else a layer to a chunk as far as is usual, where the framework
    interleaves.

    Source: Narayanan et al. 2021 (arXiv:2104.04473), section 2.2.
    Limits: frameworks may want the layers to divide by stages and chunks; here the schedule may be uneven.
    """
    chunks = np.clip(np.floor(counts.num_layers / plans.pipeline_parallel), 1.0, MOST_VIRTUAL_PIPELINE)
    usual = np.where(plans.interleaved_pipeline, chunks, 1.0)
    asked = np.where(plans.asked_virtual_pipeline > 0, plans.asked_virtual_pipeline, usual)
    return np.where(plans.pipeline_parallel > 1, asked, 1.0)


@formula(unit="1", source="Narayanan et al. 2021 (arXiv:2104.04473)")
def stage_unevenness(
    pipeline_parallel: Column, virtual_pipeline: Column, num_layers: float, head_layers: float
) -> Column:
    """Work of a pipeline's fullest stage over the mean: whole layers for each, and the head beside those of the last.

    Source: counted.
    Limits: the embedding is a look-up; a last stage has a layer for each of its chunks.
    Check: 32 layers and a head worth 2.4 on four stages: 10.4 where the mean is 8.6. 126 layers on 16: eight each.
        >>> stage_unevenness(col(4, 1), col(8, 1), 32, 2.4).round(3).tolist()
        [1.209, 1.0]
        >>> stage_unevenness(col(16), col(7), 126, 0.66).round(3)[0]
        np.float64(1.011)
    """
    each = np.ceil(num_layers / pipeline_parallel)
    last = np.maximum(virtual_pipeline, num_layers - (pipeline_parallel - 1) * each) + head_layers
    return np.maximum(each, last) * pipeline_parallel / (num_layers + head_layers)


@formula(unit="1", source="the fullest stage sets the pace")
def stage_pace(stage_unevenness: Column, published_stage_unevenness: float) -> Column:
    """How much slower a pipeline is than one as even as those published, whose unevenness the fit has in its shares.

    Source: published pipelines are met as well at up to 1.1 as without a pipeline, beyond 1.2 they are a third slower.
    Check:
        >>> stage_pace(col(1.05, 1.21), 1.1).round(3).tolist()
        [1.0, 1.1]
    """
    return np.maximum(1.0, stage_unevenness / published_stage_unevenness)


@formula(unit="tokens", source="definition")
def tokens_per_micro_batch(counts: Counts, plans: TrainingPlans) -> Column:
    """Tokens of a micro-batch on one rank of the context group.

    Source: definition.
    Check:
        >>> two = row(micro_batch_sequences=col(2), context_parallel=col(4))
        >>> tokens_per_micro_batch(PRETRAIN_COUNTS, two)[0]
        np.float64(2048.0)
    """
    return plans.micro_batch_sequences * counts.units_per_sequence / plans.context_parallel


@formula(unit="micro-batches", source="definition")
def micro_batches(counts: Counts, plans: TrainingPlans, data_parallel: Column) -> Column:
    """Micro-batches that each replica goes through in a step: as many as come nearest to the batch asked.

    Source: definition.
    Limits: samples may fill the last one in part.
    Check: 512 sequences on 24 replicas of two at a time are 10.7 micro-batches: eleven.
        >>> micro_batches(PRETRAIN_COUNTS, row(micro_batch_sequences=col(2)), col(24))[0]
        np.float64(11.0)
    """
    asked = counts.global_batch / (data_parallel * plans.micro_batch_sequences)
    return np.maximum(1.0, np.where(counts.in_samples, asked, np.floor(asked + 0.5)))


@formula(unit="sequences", source="definition")
def step_batch(plans: TrainingPlans, data_parallel: Column, micro_batches: Column) -> Column:
    """What a step goes through: the global batch asked, or the nearest that divides over the replicas.

    Source: definition.
    Check: eleven micro-batches of two sequences on 24 replicas.
        >>> step_batch(row(micro_batch_sequences=col(2)), col(24), col(11))[0]
        np.float64(528.0)
    """
    return data_parallel * plans.micro_batch_sequences * micro_batches


@formula(unit="ranks", source="definition")
def data_group(plans: TrainingPlans, data_parallel: Column) -> Column:
    """Ranks that hold the same dense weights: replicas, and the context group with them.

    Source: definition.
    """
    return data_parallel * plans.context_parallel


@formula(unit="ranks", source="definition")
def expert_shards(plans: TrainingPlans) -> Column:
    """Ranks that share a layer's routed experts: the expert group, else the tensor group.

    Source: Fedus et al. 2021 (arXiv:2101.03961).
    """
    return np.where(plans.expert_parallel > 1, plans.expert_parallel, plans.tensor_parallel)


@formula(unit="ranks", source="definition")
def expert_group(plans: TrainingPlans, data_parallel: Column, expert_shards: Column) -> Column:
    """Ranks that hold the same routed experts.

    Source: definition.
    """
    return np.maximum(1.0, data_parallel * plans.context_parallel * plans.tensor_parallel / expert_shards)


@formula(unit="ranks", source="Korthikanti et al. 2022 (arXiv:2205.05198)")
def sequence_split(plans: TrainingPlans) -> Column:
    """Ranks that share the tokens between matrices: the tensor group's, where sequences are split over it.

    Source: Korthikanti et al. 2022 (arXiv:2205.05198), section 4.2.2.
    """
    return np.where(plans.sequence_parallel, plans.tensor_parallel, 1.0)


@formula(unit="parameters", source="Narayanan et al. 2021 (arXiv:2104.04473)")
def dense_params_per_rank(counts: Counts, plans: TrainingPlans) -> Column:
    """Dense parameters of the fullest model-parallel rank: its share of the layers and an end of the model.

    Source: Narayanan et al. 2021 (arXiv:2104.04473).
    Limits: layers are taken to be alike; a pipeline's first stage has the embedding, its last the head.
    """
    ends = counts.embedding_params + counts.head_params
    largest_end = np.maximum(counts.embedding_params, counts.head_params)
    share = stage_share(counts.num_layers, plans.pipeline_parallel)
    layers = (counts.total_params - counts.routed_params - ends) * share / plans.tensor_parallel
    return layers + np.where(plans.pipeline_parallel > 1, largest_end, ends) / plans.tensor_parallel


@formula(unit="parameters", source="definition")
def trained_dense_params_per_rank(counts: Counts, plans: TrainingPlans, dense_params_per_rank: Column) -> Column:
    """Dense parameters of a rank that are trained: all but what only runs beside a denoiser.

    Source: definition.
    """
    return dense_params_per_rank - counts.frozen_params / (plans.tensor_parallel * plans.pipeline_parallel)


@formula(unit="parameters", source="Fedus et al. 2021 (arXiv:2101.03961)")
def routed_params_per_rank(counts: Counts, plans: TrainingPlans, expert_shards: Column) -> Column:
    """Parameters of routed experts on one model-parallel rank.

    Source: Fedus et al. 2021 (arXiv:2101.03961).
    """
    return counts.routed_params * stage_share(counts.num_layers, plans.pipeline_parallel) / expert_shards


@formula(unit="parameters", source="Hu et al. 2021 (arXiv:2106.09685)")
def adapter_params_per_rank(counts: Counts, plans: TrainingPlans) -> Column:
    """Parameters of adapters on one model-parallel rank.

    Source: Hu et al. 2021 (arXiv:2106.09685).
    """
    return counts.adapter_params * stage_share(counts.num_layers, plans.pipeline_parallel) / plans.tensor_parallel


@formula(unit="parameters", source="Rajbhandari et al. 2020 (arXiv:1910.02054)")
def held_params(
    dense_params: Column,
    routed_params: Column,
    shards: Mask,
    data_group: Column,
    expert_group: Column,
) -> Column:
    """Of a rank's parameters those that one accelerator holds: its share of the group where ZeRO shards them.

    Source: Rajbhandari et al. 2020 (arXiv:1910.02054).
    Check:
        >>> held_params(col(8e9, 8e9), col(0, 0), np.array([True, False]), col(64, 64), col(64, 64)) / 1e6
        array([ 125., 8000.])
    """
    dense = dense_params / np.where(shards, data_group, 1.0)
    return dense + routed_params / np.where(shards, expert_group, 1.0)


@dataclass(frozen=True, slots=True)
class RankParams(Columns):
    """Parameters of the fullest rank, the same at every data-parallel degree; `trained` have gradients."""

    dense: Column
    routed: Column
    trained_dense: Column
    trained_routed: Column
    expert_shards: Column


def rank_params(counts: Counts, plans: TrainingPlans) -> RankParams:
    """Parameters of the fullest rank."""
    shards = expert_shards(plans)
    dense, none = dense_params_per_rank(counts, plans), np.zeros(len(plans))
    routed = routed_params_per_rank(counts, plans, shards) if counts.routed_params else none
    if not counts.recipe.frozen:
        return RankParams(dense, routed, trained_dense_params_per_rank(counts, plans, dense), routed, shards)
    return RankParams(dense, routed, adapter_params_per_rank(counts, plans), none, shards)


@dataclass(frozen=True, slots=True)
class Spread(Columns):
    """How a run lies over its accelerators at a data-parallel degree."""

    accelerators: Column
    micro_batches: Column
    batch: Column  # of a step
    data_group: Column
    expert_group: Column
    updated_params: Column  # that one accelerator's optimizer steps


def spread_of(counts: Counts, plans: TrainingPlans, rank: RankParams, data_parallel: Column) -> Spread:
    """Groups of ranks, micro-batches and the optimizer's share at a data-parallel degree."""
    dense, routed = data_group(plans, data_parallel), expert_group(plans, data_parallel, rank.expert_shards)
    with told_as("updated"):
        updated = held_params(rank.trained_dense, rank.trained_routed, plans.zero_stage >= 1, dense, routed)
    micro = micro_batches(counts, plans, data_parallel)
    batch = step_batch(plans, data_parallel, micro)
    return Spread(accelerators(plans, data_parallel), micro, batch, dense, routed, updated)
