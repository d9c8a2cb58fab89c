"""Numbers that the training formulas read from a workload, computed once per question."""

from __future__ import annotations

from dataclasses import dataclass

from app.sizing.model.architecture import AdapterWidths, ModelArchitecture, adapter_widths, layer_widths
from app.sizing.model.sample import Footprint, SampleWork
from app.sizing.model.tasks import ModelTask
from app.sizing.training.recipes import BYTES_16_BIT, Recipe, recipe_of
from app.sizing.workload import Method, TrainingWorkload


@dataclass(frozen=True, slots=True)
class Layer:
    """Widths of an average layer, in elements per token, and properties of its implementation."""

    queries: float  # width of the queries and of the attention output
    keys: float  # width of the keys and values
    dense: float  # width of the MLP and of shared experts
    routed: float  # width of routed experts
    sent: float  # width sent to routed experts, all copies
    router: float  # router scores
    choices: float  # chosen experts
    norms: float  # width of the norms
    written_norms: float  # width of norms that eager kernels run operation by operation
    readers: float  # matrices that read a norm
    products: float  # MLP-wide tensors that fused kernels keep
    written_products: float  # MLP-wide tensors that eager kernels keep
    last_kept: float  # 1 if operator-level recomputation keeps the output of the layer's last matrix, else 0
    adapted_inputs: float  # inputs of adapted matrices, each counted
    unshared_inputs: float  # inputs of adapted matrices, each tensor counted once
    adapted_outputs: float  # attention outputs that the next adapted matrix reads
    adapts_mlp: float  # 1 if a matrix of the MLP or of the experts is adapted, else 0
    adapted_matrices: float  # number of adapted matrices


@dataclass(frozen=True, slots=True)
class Counts:
    """Numbers of a model and of a training run; none depends on the hardware or the layout.

    Parameters that a token multiplies are split into three groups: `dense` (in every layer), `head` (once) and
    `routed` (in the experts that receive the token). Activation fields are bytes per token in an average layer, in
    16 bit.
    """

    in_samples: bool  # whether the model processes samples instead of tokens
    units: float  # tokens or samples to process
    units_per_sequence: float  # tokens per sequence; 1 for samples
    global_batch: float  # requested sequences or samples per step
    near_batch_share: float  # largest relative distance of a step's batch from the requested one
    published_stage_unevenness: float  # load imbalance of pipeline stages in a published run
    experiment_overhead: float  # share of extra experiments, relative to the run
    dataset_bytes: float  # data set size, bytes; 0 if not stated
    asked_checkpoint_interval_s: float  # requested checkpoint interval, seconds; 0 to choose the best
    synchronous_checkpoints: bool  # whether training stops while a checkpoint is written
    recipe: Recipe  # bytes and operations per parameter

    num_layers: float  # layers of the model
    num_sublayers: float  # mixers and feed-forward parts of the model
    weight_layers: float  # layers whose weights and gradients are exchanged
    hidden_size: float  # hidden size, elements
    mlp_width: float  # intermediate size of the MLP, elements
    gated: float  # 1 if the MLP is gated and norms subtract no mean, else 0
    num_heads: float  # attention heads
    attention_width: float  # width of all attention heads, elements
    kv_heads: float  # KV heads
    kv_elements: float  # keys and values of one token in all layers, elements
    vocab_size: float  # vocabulary size, tokens
    is_moe: bool  # whether the model is a mixture of experts
    experts_per_token: float  # experts that each token is routed to
    expert_inputs: float  # input width of an expert, elements
    routing_layers: float  # layers that route tokens to experts; 0 with a single expert

    total_params: float  # parameters of the model
    routed_params: float  # parameters of routed experts
    embedding_params: float  # parameters of the embedding
    head_params: float  # parameters of the output head
    dense_matmul_params: float  # parameters outside experts and head that a token multiplies
    head_matmul_params: float  # parameters of the head that a token multiplies
    routed_matmul_params: float  # parameters of routed experts that a token multiplies
    linear_params: float  # parameters of linear layers
    adapter_params: float  # trained adapter parameters
    checkpointed_params: float  # trained parameters, which a checkpoint holds
    frozen_params: float  # parameters that only run with a denoiser: text encoders and image decoder

    score_flops_per_token: float  # forward attention FLOPs of an average token in a sequence
    recurrent_flops_per_token: float  # forward FLOPs of recurrent layers per token
    adapter_flops_per_token: float  # forward and backward FLOPs of adapters per token
    flops_per_unit: float  # forward and backward FLOPs per token or sample, without recomputation

    attention_activation_bytes: float  # attention activations of one token in an average layer, bytes
    layer: Layer  # widths of an average layer
    unquantised_share: float  # share of parameters that stay in 16 bit: embedding, head and norms
    tied_params: float  # parameters of an embedding that is also the head
    largest_matrix_params: float  # parameters of the largest matrix

    # Per sample, forward pass, with activations in the width of the precision.
    sample_forward_flops: float  # forward FLOPs
    sample_matrix_bytes: float  # bytes moved by matrices
    sample_grouped_bytes: float  # bytes moved by grouped convolutions
    sample_grouped_taps: float  # output elements times kernel positions of grouped convolutions
    sample_elementwise_bytes: float  # bytes moved by elementwise operations
    sample_operations: float  # operations launched
    sample_kept_bytes: float  # activations kept for the backward pass, bytes
    sample_working_bytes: float  # temporary bytes
    sample_score_pairs: float  # attention score pairs of all heads, scaled by the element width

    @property
    def recomputed_share(self) -> float:
        """Share of layers that are recomputed if every second layer is; with an odd number, the extra layer is not."""
        return self.num_layers // 2 / max(1.0, self.num_layers)

    @property
    def last_recomputed(self) -> float:
        """1 if the last layer is recomputed when every second layer is, else 0."""
        return 1.0 - self.num_layers % 2

    @property
    def head_layers(self) -> float:
        """Number of average layers that match the output head in parameters multiplied per token."""
        return self.head_matmul_params * self.num_layers / (self.dense_matmul_params + self.routed_matmul_params)


def counts_of(workload: TrainingWorkload) -> Counts:
    """Return all numbers that the training formulas read from a workload."""
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
        num_sublayers=model.num_sublayers,
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
        score_flops_per_token=attention_flops_per_token(workload),
        recurrent_flops_per_token=model.recurrent_flops_per_token,
        adapter_flops_per_token=adapter_flops_per_token(model, adapters),
        flops_per_unit=flops_per_unit(
            workload, attention_flops_per_token(workload), adapter_flops_per_token(model, adapters)
        ),
        attention_activation_bytes=model.attention_activation_bytes,
        layer=mean_layer(workload),
        **sample_counts(sample, recipe_of(workload).weight_bytes_per_param / BYTES_16_BIT),
    )


def parameter_counts(workload: TrainingWorkload) -> dict[str, float]:
    """Return parameter counts of the model, by their role in training."""
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


def mean_layer(workload: TrainingWorkload) -> Layer:
    """Return the widths of the model's average layer and, for LoRA and QLoRA, of its adapters."""
    model = workload.model
    widths, gated = layer_widths(model), model.is_gated
    frozen = workload.method is not Method.FULL
    adapted = adapter_widths(model, workload.lora_targets) if frozen else AdapterWidths(0.0, 0.0, 0.0, 0.0, 0.0)
    return Layer(
        queries=widths.queries,
        keys=widths.keys,
        dense=widths.dense,
        routed=widths.routed,
        sent=widths.dispatched,
        router=widths.router,
        choices=widths.selected_experts,
        norms=widths.norms,
        written_norms=0.0 if model.block.layer_norm else widths.norms,
        readers=widths.norm_readers,
        products=3.0 if gated else 2.0,
        written_products=4.0 if gated else 5.0 if model.block.writes_gelu else 2.0,
        last_kept=1.0 if gated and not model.is_moe else 0.0,
        adapted_inputs=adapted.inputs,
        unshared_inputs=adapted.unshared,
        adapted_outputs=adapted.outputs,
        adapts_mlp=float(adapted.mlp_inputs > 0),
        adapted_matrices=adapted.matrices,
    )


def frozen_params(model: ModelArchitecture) -> float:
    """Parameters that run together with a diffusion model's denoiser but are never trained.

    Source: the text-to-image examples of Diffusers freeze the text encoders and the autoencoder.
    """
    return float(model.parts.get("encoder_tower", 0)) if model.task is ModelTask.DIFFUSION else 0.0


def sample_counts(sample: SampleWork, width: float) -> dict[str, float]:
    """Return the work and memory of training on one sample.

    `width` is the width of an activation relative to 16 bit. Tensors that are always in 32 bit do not scale with it.
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
    """Trained adapter parameters; 0 if the model itself is trained."""
    if workload.method is Method.FULL:
        return 0.0
    return workload.model.lora_params(workload.lora_rank, workload.lora_targets, magnitudes=workload.lora_magnitudes)


def attention_flops_per_token(workload: TrainingWorkload) -> float:
    """Forward FLOPs of attention per average token; 0 for models that process samples."""
    return 0.0 if workload.in_samples else score_flops_per_token(workload.model, workload.units_per_sequence)


def score_flops_per_token(model: ModelArchitecture, units_per_sequence: float) -> float:
    """Forward FLOPs of attention per average token of a sequence."""
    return model.prefill_attention_flops(units_per_sequence) / units_per_sequence


def adapter_flops_per_token(model: ModelArchitecture, adapter_params: float) -> float:
    """Forward and backward FLOPs of adapters per token.

    A token passes only the adapters of the experts that it is routed to. Source: Hu et al. 2021 (arXiv:2106.09685).
    """
    sharing = max(1, model.num_experts) / max(1, model.experts_per_token)
    return 6 * adapter_params / sharing


def flops_per_unit(workload: TrainingWorkload, score_flops: float, adapter_flops: float) -> float:
    """Model FLOPs per token or sample, forward and backward, without recomputation.

    A frozen matrix needs one backward product instead of two. Source: Chowdhery et al. 2022 (arXiv:2204.02311),
    appendix B.
    Check: Llama-3.1-8B at 4,096 tokens multiplies 7.50e9 parameters: 6 * 7.50e9 FLOPs plus 3 * 1.07e9 of attention.
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
