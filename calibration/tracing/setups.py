"""A traced setup: the model's shape and the complete recipe of one step, as one row of the grid."""

from __future__ import annotations

from dataclasses import dataclass

GIB_BYTES = float(2**30)
PARTS = ("params", "casts", "grads", "optimizer", "kept", "working", "logits", "update", "gathered")
MOMENTS = ("loss", "backward", "gradients", "update")


@dataclass(frozen=True, slots=True)
class Shape:
    """Shape of a decoder; widths of latent attention (MLA) and of experts are 0 without them."""

    name: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    mlp_width: int
    vocab: int
    gated: bool = True
    relu: bool = False  # activation of a plain MLP; else GELU
    gelu_written_out: bool = False  # one kernel per operation, in modules without fusion
    layer_norm: bool = False  # else RMSNorm
    norm_bias: bool = False
    parallel: bool = False  # attention and MLP read the same input
    parallel_norms: int = 2  # norms of such a layer: one shared, or one each
    qk_norm: bool = False
    tied: bool = False
    bias: bool = False  # on all matrices
    qkv_bias: bool = False
    positions: int = 0  # learned position embeddings; 0: rotary or none
    rotary: bool = True
    sandwich_norms: bool = False  # also norms after attention and MLP
    experts: int = 0
    experts_per_token: int = 0
    expert_width: int = 0
    shared_width: int = 0
    dense_layers: int = 0  # first layers of a mixture of experts, without experts
    q_latent: int = 0
    kv_latent: int = 0
    rope_dim: int = 0
    value_dim: int = 0
    head_bias: bool = False
    no_norm_weights: bool = False


def fused_chunks(shape: Shape, tokens: int) -> int:
    """Chunks of a fused loss: the logits of a chunk stay within the size of its input; tokens per chunk are a power of
    two.

    Source: Liger's fused linear cross entropy (arXiv:2410.10989).
    Check:
        >>> fused_chunks(Shape("llama", 32, 4096, 32, 8, 128, 14336, 128256), 8192)
        32
    """
    each = -(-tokens // -(-shape.vocab // shape.hidden))
    return -(-tokens // (1 << (each - 1).bit_length()))


@dataclass(frozen=True, slots=True)
class Setup:
    """One training step; the vocabulary is that of `app.sizing.hardware.recipes`."""

    shape: Shape
    sequence: int
    batch: int = 1  # sequences of a micro-batch
    method: str = "full"  # full | lora | qlora
    weights: str = "16bit"  # master | sharded | autocast | 16bit
    gradients: str = "as_weights"  # as_weights | 32bit | copied
    kernels: str = "eager"  # eager | fused
    attention: str = "flash"  # flash | eager
    recomputation: str = "none"  # none | operators | attention | every_second_layer | full
    loss: str = "upcast"  # a word of the recipe vocabulary, or "shift"
    loss_chunks: int = 8
    optimizer: str = "adamw"  # adamw | adamw-8bit | adafactor | lion | sgd | none
    optimizer_implementation: str = "fused"  # fused | foreach | paged | in_backward | offloaded
    accumulates: bool = False  # gradients of earlier micro-batches are in memory
    activation_offload: bool = False
    optimizer_offload: bool = False
    shards: int = 1  # FSDP ranks
    adapter_rank: int = 8
    adapter_targets: str = "all-linear"  # all-linear | attention | q_v
    adapter_precision: str = "fp32"  # fp32 | autocast | 16bit
    adapter_dropout: bool = False
    kbit_widening: bool = False

    @property
    def micro_batch_tokens(self) -> int:
        return self.sequence * self.batch

    @property
    def frozen(self) -> bool:
        """Whether only adapters are trained."""
        return self.method != "full"

    @property
    def has_gradient_buffers(self) -> bool:
        """Whether gradients are kept in persistent buffers, as with a master copy."""
        return not self.frozen and (self.weights == "master" or self.gradients == "32bit")

    @property
    def computes_under_autocast(self) -> bool:
        if self.frozen:
            return self.adapter_precision == "autocast"
        return self.weights == "autocast" or (self.weights == "sharded" and self.shards <= 1)


@dataclass(frozen=True, slots=True)
class Traced:
    """Memory of one traced step, in bytes: the peak, its moment and operator, and its parts."""

    peak_bytes: float
    reserved_bytes: float
    moment: str
    operator: str
    parts: dict[str, float]
    moments: dict[str, float]
    params: int
    seconds: float = 0.0
