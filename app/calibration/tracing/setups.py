"""What is traced: a model's shape and everything a recipe says of one step, as one row of the grid."""

from __future__ import annotations

from dataclasses import dataclass

GIB_BYTES = float(2**30)
PARTS = ("params", "casts", "grads", "optimizer", "kept", "working", "logits", "update", "gathered")
MOMENTS = ("loss", "backward", "gradients", "update")


@dataclass(frozen=True, slots=True)
class Shape:
    """A decoder's shape. Widths of latent attention (MLA) and of experts are 0 where it has none."""

    name: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    mlp_width: int
    vocab: int
    gated: bool = True
    relu: bool = False  # of a plain MLP; else GELU
    gelu_written_out: bool = False  # by modules that fuse nothing
    layer_norm: bool = False  # else RMSNorm
    norm_bias: bool = False
    parallel: bool = False  # attention and MLP side by side
    parallel_norms: int = 2  # of such a layer: one for both, or one each
    qk_norm: bool = False
    tied: bool = False
    bias: bool = False  # of all matrices
    qkv_bias: bool = False
    positions: int = 0  # learned; 0: rotary or none
    rotary: bool = True
    sandwich_norms: bool = False  # norms after attention and MLP too
    experts: int = 0
    experts_per_token: int = 0
    expert_width: int = 0
    shared_width: int = 0
    dense_layers: int = 0  # of a mixture, the first that are dense
    q_latent: int = 0
    kv_latent: int = 0
    rope_dim: int = 0
    value_dim: int = 0
    head_bias: bool = False
    no_norm_weights: bool = False


def fused_chunks(shape: Shape, tokens: int) -> int:
    """Chunks of a fused loss: as many as keep its logits within the size of its input, of a power of two of tokens.

    Source: Liger's fused linear cross entropy (arXiv:2410.10989).
    Check:
        >>> fused_chunks(Shape("llama", 32, 4096, 32, 8, 128, 14336, 128256), 8192)
        32
    """
    each = -(-tokens // -(-shape.vocab // shape.hidden))
    return -(-tokens // (1 << (each - 1).bit_length()))


@dataclass(frozen=True, slots=True)
class Setup:
    """One step of training; words as `app.sizing.hardware.recipes` has them."""

    shape: Shape
    sequence: int
    batch: int = 1  # sequences of a micro-batch
    method: str = "full"  # full | lora | qlora
    weights: str = "16bit"  # master | sharded | autocast | 16bit
    gradients: str = "as_weights"  # as_weights | 32bit | copied
    kernels: str = "eager"  # eager | fused
    attention: str = "flash"  # flash | eager
    recomputation: str = "none"  # none | operators | attention | every_second_layer | full
    loss: str = "upcast"  # a recipe's word, or "shift"
    loss_chunks: int = 8
    optimizer: str = "adamw"  # adamw | adamw-8bit | adafactor | lion | sgd | none
    optimizer_implementation: str = "fused"  # fused | foreach | paged | in_backward | offloaded
    accumulates: bool = False  # gradients of earlier micro-batches are there
    activation_offload: bool = False
    optimizer_offload: bool = False
    shards: int = 1  # FSDP
    adapter_rank: int = 8
    adapter_targets: str = "all-linear"  # all-linear | attention | q_v
    adapter_precision: str = "fp32"  # fp32 | autocast | 16bit
    adapter_dropout: bool = False
    kbit_widening: bool = False

    @property
    def tokens(self) -> int:
        return self.sequence * self.batch

    @property
    def frozen(self) -> bool:
        """Whether only adapters are trained."""
        return self.method != "full"

    @property
    def has_gradient_buffers(self) -> bool:
        """Whether gradients lie in buffers that stay, as where the optimizer holds a master copy."""
        return not self.frozen and (self.weights == "master" or self.gradients == "32bit")

    @property
    def computes_under_autocast(self) -> bool:
        if self.frozen:
            return self.adapter_precision == "autocast"
        return self.weights == "autocast" or (self.weights == "sharded" and self.shards <= 1)


@dataclass(frozen=True, slots=True)
class Traced:
    """What a step took, in bytes: the most that was allocated, where, and what it was made of."""

    peak_bytes: float
    reserved_bytes: float
    moment: str
    operator: str
    parts: dict[str, float]
    moments: dict[str, float]
    params: int
    seconds: float = 0.0
