"""What the formulas of training read of a workload: plain numbers, counted once per question."""

from __future__ import annotations

from dataclasses import dataclass

from app.sizing.model.architecture import ModelArchitecture
from app.sizing.model.footprint import Footprint
from app.sizing.model.layer import AdapterWidths, adapter_widths, layer_widths
from app.sizing.model.sample import SampleWork
from app.sizing.model.tasks import ModelTask
from app.sizing.training.recipes import BYTES_16_BIT, Recipe, recipe_of
from app.sizing.workload import Method, TrainingWorkload


@dataclass(frozen=True, slots=True)
class Layer:
    """Widths of a mean layer, in elements of one token, and how its code is written."""

    queries: float  # and attention's output
    keys: float  # and values
    dense: float  # of the MLP and of shared experts
    routed: float  # of routed experts
    sent: float  # to routed experts, all copies
    router: float  # scores of experts
    choices: float  # of experts
    norms: float
    written_norms: float  # of these, written out operation by operation where kernels are eager
    readers: float  # matrices that read a norm
    products: float  # of an MLP, as wide as it: those that fused kernels keep
    written_products: float  # those that eager ones keep
    last_kept: float  # whether a list of operators keeps the output of the layer's last matrix: it keeps every second
    adapted_inputs: float  # that adapted matrices read, each
    unshared_inputs: float  # the same, each tensor once
    adapted_outputs: float  # of attention, read by the matrix after it
    adapts_mlp: float  # whether any of its matrices, or of experts'
    adapted_matrices: float


@dataclass(frozen=True, slots=True)
class Counts:
    """Numbers of a model and of a run over it; nothing here depends on hardware or layout.

    Parameters that a token multiplies are apart: `dense` in every layer, `head` once, `routed` in the experts it
    is sent to. Activations are bytes of one token in a mean layer, 16 bit.
    """

    in_samples: bool
    units: float  # tokens or samples to go through
    units_per_sequence: float
    global_batch: float  # asked
    near_batch_share: float  # how far a step may be from it
    published_stage_unevenness: float
    experiment_overhead: float
    dataset_bytes: float  # 0: not said
    asked_checkpoint_interval_s: float  # 0: the best is chosen
    synchronous_checkpoints: bool
    recipe: Recipe

    num_layers: float
    weight_layers: float  # whose weights and gradients travel; of a network on samples its own
    hidden_size: float
    mlp_width: float
    gated: float  # 1 where its MLP multiplies two matrices' outputs, and norms have no mean
    num_heads: float
    attention_width: float  # of all heads
    kv_heads: float
    kv_elements: float  # of one token in all layers
    vocab_size: float
    is_moe: bool
    experts_per_token: float
    expert_inputs: float  # width of what is sent to an expert
    routing_layers: float  # that send tokens to experts; with a single expert there is nowhere to send them

    total_params: float
    routed_params: float
    embedding_params: float
    head_params: float
    dense_matmul_params: float
    head_matmul_params: float
    routed_matmul_params: float
    linear_params: float
    adapter_params: float
    checkpointed_params: float  # what is trained
    frozen_params: float  # of what only runs beside a denoiser: text encoders and image decoder

    score_flops_per_token: float  # attention of a mean token of a sequence, forward
    recurrent_flops_per_token: float
    adapter_flops_per_token: float
    flops_per_unit: float  # of a token or sample, forward and backward, without recomputation

    attention_activation_bytes: float
    layer: Layer
    unquantised_share: float  # of the parameters: embedding, head, norms
    tied_params: float  # of an embedding that is the head too
    largest_matrix_params: float

    # One sample, forward, activations as wide as the precision's.
    sample_forward_flops: float
    sample_matrix_bytes: float
    sample_grouped_bytes: float
    sample_grouped_taps: float
    sample_elementwise_bytes: float
    sample_operations: float
    sample_kept_bytes: float
    sample_working_bytes: float
    sample_score_pairs: float

    @property
    def layer_params(self) -> float:
        """Parameters of a mean layer, ends left out."""
        return (self.total_params - self.embedding_params - self.head_params) / max(1.0, self.weight_layers)

    @property
    def recomputed_share(self) -> float:
        """Of the layers, where every second is recomputed: of an odd number one more is not."""
        return self.num_layers // 2 / max(1.0, self.num_layers)

    @property
    def last_recomputed(self) -> float:
        """Whether the last of them is, where every second layer is recomputed."""
        return 1.0 - self.num_layers % 2

    @property
    def head_layers(self) -> float:
        """Mean layers that the output head is worth, by what a token multiplies."""
        return self.head_matmul_params * self.num_layers / (self.dense_matmul_params + self.routed_matmul_params)


def counts_of(workload: TrainingWorkload) -> Counts:
    """Everything that formulas read of a workload."""
    model, sample = workload.model, workload.model.sample or SampleWork(0.0, layers=0)
    adapters = adapter_params(workload)
    return Counts(
        in_samples=workload.in_samples,
        units=workload.units,
        units_per_sequence=workload.units_per_sequence,
        global_batch=workload.global_batch,
        near_batch_share=workload.near_batch_share,
        published_stage_unevenness=workload.published_stage_unevenness,
        experiment_overhead=workload.experiment_overhead,
        dataset_bytes=workload.dataset_bytes or 0.0,
        asked_checkpoint_interval_s=workload.checkpoint_interval_s or 0.0,
        synchronous_checkpoints=workload.synchronous_checkpoints,
        recipe=recipe_of(workload),
        num_layers=model.num_layers,
        weight_layers=sample.layers if workload.in_samples else model.num_layers,
        hidden_size=model.hidden_size,
        mlp_width=model.mlp_width,
        gated=float(model.is_gated),
        num_heads=model.num_heads,
        attention_width=model.num_heads * model.head_dim,
        kv_heads=model.kv_heads,
        kv_elements=sum(g.layers * g.kv_elements for g in model.attention),
        vocab_size=model.vocab_size,
        is_moe=model.is_moe,
        experts_per_token=model.experts_per_token,
        expert_inputs=float(next((t.inputs for t in model.tensors if t.role == "experts.up_proj"), 0)),
        routing_layers=float(model.moe_layers if model.is_moe else 0),
        **parameter_counts(workload),
        score_flops_per_token=scores_of(workload),
        recurrent_flops_per_token=model.recurrent_flops_per_token,
        adapter_flops_per_token=adapter_flops_per_token(model, adapters),
        flops_per_unit=flops_per_unit(workload, scores_of(workload), adapter_flops_per_token(model, adapters)),
        attention_activation_bytes=model.attention_activation_bytes,
        layer=layer_of(workload),
        **sample_counts(sample, recipe_of(workload).weight_bytes_per_param / BYTES_16_BIT),
    )


def parameter_counts(workload: TrainingWorkload) -> dict[str, float]:
    """Parameters by what is done with them."""
    model, adapters = workload.model, adapter_params(workload)
    head, routed, frozen = model.head_matmul_params, model.routed_matmul_params, frozen_params(model)
    return {
        "total_params": model.total_params,
        "routed_params": model.routed_params,
        "embedding_params": model.parts.get("embedding", 0),
        "head_params": model.parts.get("head", 0),
        "dense_matmul_params": model.training_matmul_params - head - routed,
        "head_matmul_params": head,
        "routed_matmul_params": routed,
        "linear_params": model.linear_params,
        "adapter_params": adapters,
        "checkpointed_params": model.total_params - frozen if workload.method is Method.FULL else adapters,
        "frozen_params": frozen,
        "unquantised_share": 1 - model.linear_params / max(1, model.total_params),
        "tied_params": head if model.tied_head else 0.0,
        "largest_matrix_params": float(max((t.size for t in model.tensors if t.copies), default=0)),
    }


def layer_of(workload: TrainingWorkload) -> Layer:
    """A mean layer of the model and, where adapters are trained, what they read."""
    model = workload.model
    widths, gated = layer_widths(model), model.is_gated
    frozen = workload.method is not Method.FULL
    adapted = adapter_widths(model, workload.lora_targets) if frozen else AdapterWidths(0.0, 0.0, 0.0, 0.0, 0.0)
    return Layer(
        queries=widths.queries,
        keys=widths.keys,
        dense=widths.dense,
        routed=widths.routed,
        sent=widths.sent,
        router=widths.router,
        choices=widths.choices,
        norms=widths.norms,
        written_norms=0.0 if model.block.layer_norm else widths.norms,
        readers=widths.readers,
        products=3.0 if gated else 2.0,
        written_products=4.0 if gated else 5.0 if model.block.writes_gelu else 2.0,
        last_kept=1.0 if gated and not model.is_moe else 0.0,
        adapted_inputs=adapted.inputs,
        unshared_inputs=adapted.unshared,
        adapted_outputs=adapted.outputs,
        adapts_mlp=float(adapted.of_mlp > 0),
        adapted_matrices=adapted.matrices,
    )


def frozen_params(model: ModelArchitecture) -> float:
    """Parameters of what runs beside a denoiser and is never trained with it.

    Source: the text-to-image examples of diffusers freeze text encoders and autoencoder.
    """
    return float(model.parts.get("encoder_tower", 0)) if model.task is ModelTask.DIFFUSION else 0.0


def sample_counts(sample: SampleWork, width: float) -> dict[str, float]:
    """What training does with one sample, by the width of its activations over 16 bit; what is kept in 32 bit anyway
    does not widen.

    Source: counted operation by operation.
    """
    done = sample.footprint or Footprint(sample.flops, 0.0, 0.0, 0.0, float(sample.layers))
    return {
        "sample_forward_flops": max(sample.forward_flops, done.tiled_flops),
        "sample_matrix_bytes": width * done.matrix_bytes,
        "sample_grouped_bytes": width * done.grouped_bytes,
        "sample_grouped_taps": done.grouped_taps,
        "sample_elementwise_bytes": width * done.elementwise_bytes,
        "sample_operations": done.operations,
        "sample_kept_bytes": width * (done.kept_bytes - done.kept_wide_bytes) + done.kept_wide_bytes,
        "sample_working_bytes": width * done.working_bytes,
        "sample_score_pairs": width * done.score_pairs,
    }


def adapter_params(workload: TrainingWorkload) -> float:
    """Parameters of adapters; none where the model itself is trained."""
    if workload.method is Method.FULL:
        return 0.0
    return workload.model.lora_params(workload.lora_rank, workload.lora_targets)


def scores_of(workload: TrainingWorkload) -> float:
    """Attention of a mean token, forward; none in what works on samples."""
    return 0.0 if workload.in_samples else score_flops_per_token(workload.model, workload.units_per_sequence)


def score_flops_per_token(model: ModelArchitecture, units_per_sequence: float) -> float:
    """Attention of a mean token of a sequence, forward."""
    return model.prefill_attention_flops(units_per_sequence) / units_per_sequence


def adapter_flops_per_token(model: ModelArchitecture, adapter_params: float) -> float:
    """Adapters, forward and backward; of those on routed experts a token passes its experts' only.

    Source: Hu et al. 2021 (arXiv:2106.09685).
    """
    sharing = max(1, model.num_experts) / max(1, model.experts_per_token)
    return 6 * adapter_params / sharing


def flops_per_unit(workload: TrainingWorkload, score_flops: float, adapter_flops: float) -> float:
    """Model FLOPs per token (or sample), forward and backward, without recomputation.

    A frozen matrix has one gradient product in place of two.
    Source: Chowdhery et al. 2022 (arXiv:2204.02311), appendix B.
    Check: Llama-3.1-8B at 4096 tokens: 6 * 7.50e9 multiplied parameters and 3 * 0.27e9 of attention.
        >>> counts = PRETRAIN_COUNTS
        >>> round(counts.flops_per_unit / 1e9, 2), round(counts.score_flops_per_token / 1e9, 3)
        (48.25, 1.074)
    """
    model = workload.model
    if model.sample is not None:
        return 3 * model.sample.forward_flops
    if workload.method is Method.FULL:
        return model.training_flops_per_token(workload.units_per_sequence)
    return 4 * model.training_matmul_params + 3 * score_flops + adapter_flops + 3 * model.recurrent_flops_per_token
