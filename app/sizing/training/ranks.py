"""Share of a model and of a step's batch that one rank of a layout holds: parameters, tokens, micro-batches, groups."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.sizing.columns import Column, Columns, Mask
from app.sizing.formula import formula, trace_label
from app.sizing.training.counts import Counts
from app.sizing.training.layouts import MAX_VIRTUAL_PIPELINE
from app.sizing.training.pipeline import stage_share
from app.sizing.training.plans import TrainingPlans


@formula(unit="accelerators", source="definition")
def accelerators(plans: TrainingPlans, data_parallel: Column) -> Column:
    """Number of accelerators of a run: the product of all degrees of parallelism, data parallelism included.

    Parameters:
        plans: layouts without their data-parallel degree (`TrainingPlans`).
        data_parallel: replicas of the model.
    Limits: expert parallelism uses these ranks and adds none.
    Check: tensor 8, pipeline 4, context 2 and 16 replicas.
        >>> layout = row(tensor_parallel=col(8), pipeline_parallel=col(4), context_parallel=col(2))
        >>> accelerators(layout, col(16)).tolist()
        [1024.0]
    """
    return plans.tensor_parallel * plans.pipeline_parallel * plans.context_parallel * data_parallel


@formula(unit="chunks", source="Narayanan et al. 2021 (arXiv:2104.04473), section 2.2")
def virtual_pipeline(counts: Counts, plans: TrainingPlans) -> Column:
    """Model chunks per pipeline stage.

    This is the requested number; otherwise one layer per chunk, up to the usual maximum, in frameworks that
    interleave.

    Parameters:
        counts: model and run numbers (`Counts`).
        plans: layouts without their data-parallel degree (`TrainingPlans`).
    Limits: some frameworks require the layers to divide evenly by stages and chunks; this schedule may be uneven.
    Check: 32 layers on four stages with an interleaved schedule, without one, and with two chunks requested.
        >>> interleaved, requested = np.array([True, False, True]), col(0, 0, 2)
        >>> stages = col(4, 4, 4)
        >>> layout = row(
        ...     pipeline_parallel=stages, interleaved_pipeline=interleaved, asked_virtual_pipeline=requested
        ... )
        >>> virtual_pipeline(PRETRAIN_COUNTS, layout).tolist()
        [8.0, 1.0, 2.0]
    """
    chunks = np.clip(np.floor(counts.num_layers / plans.pipeline_parallel), 1.0, MAX_VIRTUAL_PIPELINE)
    usual = np.where(plans.interleaved_pipeline, chunks, 1.0)
    requested = np.where(plans.asked_virtual_pipeline > 0, plans.asked_virtual_pipeline, usual)
    return np.where(plans.pipeline_parallel > 1, requested, 1.0)


@formula(unit="1", source="Narayanan et al. 2021 (arXiv:2104.04473)")
def stage_unevenness(
    pipeline_parallel: Column, virtual_pipeline: Column, num_layers: float, head_layers: float
) -> Column:
    """Work of a pipeline's fullest stage over the mean stage: whole layers per stage, plus the output head on the last
    stage.

    Parameters:
        pipeline_parallel: pipeline stages.
        virtual_pipeline: model chunks per pipeline stage.
        num_layers: layers of the model.
        head_layers: layers that the output head costs as much as.
    Limits: the embedding is a look-up and costs nothing; the last stage has at least one layer per chunk.
    Check: 32 layers and a head worth 2.4 on four stages: 10.4 where the mean is 8.6. 126 layers on 16: eight each.
        >>> stage_unevenness(col(4, 1), col(8, 1), 32, 2.4).round(3).tolist()
        [1.209, 1.0]
        >>> stage_unevenness(col(16), col(7), 126, 0.66).round(3)[0]
        np.float64(1.011)
    """
    each = np.ceil(num_layers / pipeline_parallel)
    last = np.maximum(virtual_pipeline, num_layers - (pipeline_parallel - 1) * each) + head_layers
    return np.maximum(each, last) * pipeline_parallel / (num_layers + head_layers)


@formula(unit="1", source="fitted to published pipelines: the fullest stage sets the step time")
def stage_slowdown(stage_unevenness: Column, published_stage_unevenness: float) -> Column:
    """Slowdown of a pipeline that is less even than the published pipelines.

    The fitted shares already contain the unevenness of published pipelines. Up to an unevenness of 1.1, published
    pipelines are predicted as well as runs without a pipeline; beyond 1.2 they are a third slower.

    Parameters:
        stage_unevenness: work of the fullest stage over the mean stage.
        published_stage_unevenness: unevenness that the fit contains.
    Check: an unevenness of 1.05 and of 1.21 where published pipelines have 1.1.
        >>> stage_slowdown(col(1.05, 1.21), 1.1).round(3).tolist()
        [1.0, 1.1]
    """
    return np.maximum(1.0, stage_unevenness / published_stage_unevenness)


@formula(unit="tokens", source="definition")
def tokens_per_micro_batch(counts: Counts, plans: TrainingPlans) -> Column:
    """Tokens of a micro-batch on one rank of the context group.

    Parameters:
        counts: model and run numbers (`Counts`).
        plans: layouts without their data-parallel degree (`TrainingPlans`).
    Check: two sequences of 4,096 tokens on four context-parallel ranks.
        >>> two = row(micro_batch_sequences=col(2), context_parallel=col(4))
        >>> tokens_per_micro_batch(PRETRAIN_COUNTS, two)[0]
        np.float64(2048.0)
    """
    return plans.micro_batch_sequences * counts.units_per_sequence / plans.context_parallel


@formula(unit="micro-batches", source="definition")
def micro_batches(counts: Counts, plans: TrainingPlans, data_parallel: Column) -> Column:
    """Micro-batches that each replica processes per step: the number whose batch is nearest to the requested batch.

    Parameters:
        counts: model and run numbers (`Counts`).
        plans: layouts without their data-parallel degree (`TrainingPlans`).
        data_parallel: replicas of the model.
    Limits: for training on samples the number may be fractional: the last micro-batch is partly filled.
    Check: 512 sequences on 24 replicas of two at a time are 10.7 micro-batches: eleven.
        >>> micro_batches(PRETRAIN_COUNTS, row(micro_batch_sequences=col(2)), col(24))[0]
        np.float64(11.0)
    """
    requested = counts.global_batch / (data_parallel * plans.micro_batch_sequences)
    return np.maximum(1.0, np.where(counts.in_samples, requested, np.floor(requested + 0.5)))


@formula(unit="sequences", source="definition")
def step_batch(plans: TrainingPlans, data_parallel: Column, micro_batches: Column) -> Column:
    """Batch of one step: the requested global batch, or the nearest one that divides over the replicas.

    Parameters:
        plans: layouts without their data-parallel degree (`TrainingPlans`).
        data_parallel: replicas of the model.
        micro_batches: micro-batches per replica and step.
    Check: eleven micro-batches of two sequences on 24 replicas.
        >>> step_batch(row(micro_batch_sequences=col(2)), col(24), col(11))[0]
        np.float64(528.0)
    """
    return data_parallel * plans.micro_batch_sequences * micro_batches


@formula(unit="ranks", source="definition")
def data_group(plans: TrainingPlans, data_parallel: Column) -> Column:
    """Ranks that hold the same dense weights: all replicas and their context-parallel ranks.

    Parameters:
        plans: layouts without their data-parallel degree (`TrainingPlans`).
        data_parallel: replicas of the model.
    Check: 16 replicas of two context-parallel ranks.
        >>> data_group(row(context_parallel=col(2)), col(16)).tolist()
        [32.0]
    """
    return data_parallel * plans.context_parallel


@formula(unit="ranks", source="Fedus et al. 2021 (arXiv:2101.03961)")
def expert_shards(plans: TrainingPlans) -> Column:
    """Ranks that share a layer's routed experts: the expert-parallel group, otherwise the tensor-parallel group.

    Parameters:
        plans: layouts without their data-parallel degree (`TrainingPlans`).
    Check: expert parallel 16, then none, with tensor parallel 4.
        >>> expert_shards(row(expert_parallel=col(16, 1), tensor_parallel=col(4, 4))).tolist()
        [16.0, 4.0]
    """
    return np.where(plans.expert_parallel > 1, plans.expert_parallel, plans.tensor_parallel)


@formula(unit="ranks", source="definition")
def expert_group(plans: TrainingPlans, data_parallel: Column, expert_shards: Column) -> Column:
    """Ranks that hold the same routed experts.

    Parameters:
        plans: layouts without their data-parallel degree (`TrainingPlans`).
        data_parallel: replicas of the model.
        expert_shards: ranks that share the routed experts of a layer.
    Check: 16 replicas of tensor parallel 4, experts over 16 ranks.
        >>> expert_group(row(context_parallel=col(1), tensor_parallel=col(4)), col(16), col(16)).tolist()
        [4.0]
    """
    return np.maximum(1.0, data_parallel * plans.context_parallel * plans.tensor_parallel / expert_shards)


@formula(unit="ranks", source="Korthikanti et al. 2022 (arXiv:2205.05198), section 4.2.2")
def sequence_split(plans: TrainingPlans) -> Column:
    """Ranks that share the tokens between matrices: the tensor-parallel group with sequence parallelism, otherwise one.

    Parameters:
        plans: layouts without their data-parallel degree (`TrainingPlans`).
    Check: tensor parallel 8 with and without sequence parallelism.
        >>> sequence_split(row(sequence_parallel=np.array([True, False]), tensor_parallel=col(8, 8))).tolist()
        [8.0, 1.0]
    """
    return np.where(plans.sequence_parallel, plans.tensor_parallel, 1.0)


@formula(unit="parameters", source="Narayanan et al. 2021 (arXiv:2104.04473)")
def dense_params_per_rank(counts: Counts, plans: TrainingPlans) -> Column:
    """Dense parameters of the fullest model-parallel rank: its share of the layers, and embedding, head or both.

    Parameters:
        counts: model and run numbers (`Counts`).
        plans: layouts without their data-parallel degree (`TrainingPlans`).
    Limits: layers count as equal. The first pipeline stage has the embedding, the last the head.
    Check: Llama-3.1-8B on one rank, and on tensor parallel 2 times pipeline parallel 4.
        >>> layout = row(tensor_parallel=col(1, 2), pipeline_parallel=col(1, 4))
        >>> (dense_params_per_rank(PRETRAIN_COUNTS, layout) / 1e9).round(3).tolist()
        [8.03, 1.135]
    """
    ends = counts.embedding_params + counts.head_params
    largest_end = np.maximum(counts.embedding_params, counts.head_params)
    share = stage_share(counts.num_layers, plans.pipeline_parallel)
    layers = (counts.total_params - counts.routed_params - ends) * share / plans.tensor_parallel
    return layers + np.where(plans.pipeline_parallel > 1, largest_end, ends) / plans.tensor_parallel


@formula(unit="parameters", source="definition")
def trained_dense_params_per_rank(counts: Counts, plans: TrainingPlans, dense_params_per_rank: Column) -> Column:
    """Dense parameters of a rank that are trained: all except the frozen text encoders and decoder of a diffusion
    model.

    Parameters:
        counts: model and run numbers (`Counts`).
        plans: layouts without their data-parallel degree (`TrainingPlans`).
        dense_params_per_rank: dense parameters of the fullest model-parallel rank.
    Check: 2.6e9 parameters of which 0.2e9 are frozen, on two tensor-parallel ranks.
        >>> layout = row(tensor_parallel=col(2), pipeline_parallel=col(1))
        >>> trained_dense_params_per_rank(row(frozen_params=0.2e9), layout, col(1.3e9)).tolist()
        [1200000000.0]
    """
    return dense_params_per_rank - counts.frozen_params / (plans.tensor_parallel * plans.pipeline_parallel)


@formula(unit="parameters", source="Fedus et al. 2021 (arXiv:2101.03961)")
def routed_params_per_rank(counts: Counts, plans: TrainingPlans, expert_shards: Column) -> Column:
    """Parameters of routed experts on one model-parallel rank.

    Parameters:
        counts: model and run numbers (`Counts`).
        plans: layouts without their data-parallel degree (`TrainingPlans`).
        expert_shards: ranks that share the routed experts of a layer.
    Check: 28e9 parameters in 48 layers on four stages, experts over eight ranks.
        >>> experts = row(routed_params=28e9, num_layers=48.0)
        >>> routed_params_per_rank(experts, row(pipeline_parallel=col(4)), col(8)).tolist()
        [875000000.0]
    """
    return counts.routed_params * stage_share(counts.num_layers, plans.pipeline_parallel) / expert_shards


@formula(unit="parameters", source="Hu et al. 2021 (arXiv:2106.09685)")
def adapter_params_per_rank(counts: Counts, plans: TrainingPlans) -> Column:
    """Parameters of adapters on one model-parallel rank.

    Parameters:
        counts: model and run numbers (`Counts`).
        plans: layouts without their data-parallel degree (`TrainingPlans`).
    Check: 40e6 parameters in 32 layers on two stages and tensor parallel 2.
        >>> layout = row(tensor_parallel=col(2), pipeline_parallel=col(2))
        >>> adapter_params_per_rank(row(adapter_params=40e6, num_layers=32.0), layout).tolist()
        [10000000.0]
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
    """Parameters of a rank that one accelerator holds: its shard where ZeRO shards them, otherwise all.

    Parameters:
        dense_params: dense parameters of the rank.
        routed_params: routed-expert parameters of the rank.
        shards: whether ZeRO shards them.
        data_group: ranks that hold the same dense weights.
        expert_group: ranks that hold the same routed experts.
    Check: 8e9 dense parameters, in millions: sharded over 64 ranks, and whole.
        >>> held_params(col(8e9, 8e9), col(0, 0), np.array([True, False]), col(64, 64), col(64, 64)) / 1e6
        array([ 125., 8000.])
    """
    dense = dense_params / np.where(shards, data_group, 1.0)
    return dense + routed_params / np.where(shards, expert_group, 1.0)


@dataclass(frozen=True, slots=True)
class RankParams(Columns):
    """Parameters of the fullest rank, the same at every data-parallel degree. `trained` parameters have gradients."""

    dense: Column  # dense parameters
    routed: Column  # routed-expert parameters
    trained_dense: Column  # trained dense parameters, or adapter parameters
    trained_routed: Column  # trained routed-expert parameters
    expert_shards: Column  # ranks that share a layer's routed experts


def rank_params(counts: Counts, plans: TrainingPlans) -> RankParams:
    """Return the parameters of the fullest rank."""
    shards = expert_shards(plans)
    dense, none = dense_params_per_rank(counts, plans), np.zeros(len(plans))
    routed = routed_params_per_rank(counts, plans, shards) if counts.routed_params else none
    if not counts.recipe.frozen:
        return RankParams(dense, routed, trained_dense_params_per_rank(counts, plans, dense), routed, shards)
    return RankParams(dense, routed, adapter_params_per_rank(counts, plans), none, shards)


@dataclass(frozen=True, slots=True)
class RankGroups(Columns):
    """Groups of ranks and sizes per step of a run at a data-parallel degree."""

    accelerators: Column  # accelerators of the run
    micro_batches: Column  # micro-batches per replica and step
    batch: Column  # batch of one step, sequences or samples
    data_group: Column  # ranks that hold the same dense weights
    expert_group: Column  # ranks that hold the same routed experts
    updated_params: Column  # parameters that the optimizer of one accelerator updates


def rank_groups(counts: Counts, plans: TrainingPlans, rank: RankParams, data_parallel: Column) -> RankGroups:
    """Return the groups of ranks, the micro-batches and the optimizer's share at a data-parallel degree."""
    dense, routed = data_group(plans, data_parallel), expert_group(plans, data_parallel, rank.expert_shards)
    with trace_label("optimizer"):
        updated = held_params(rank.trained_dense, rank.trained_routed, plans.zero_stage >= 1, dense, routed)
    micro = micro_batches(counts, plans, data_parallel)
    batch = step_batch(plans, data_parallel, micro)
    return RankGroups(accelerators(plans, data_parallel), micro, batch, dense, routed, updated)
