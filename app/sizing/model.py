"""A model as the arithmetic sees it: counts of parameters, cache, FLOPs and activations.

Symbols in comments: h hidden size, L layers, n query heads, m key/value heads, d head size,
f MLP width, V vocabulary, E routed experts, k experts per token.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from app.sizing.precision import WeightFormat


class ModelKind(StrEnum):
    """What a model does with one request."""

    DECODER = "decoder"  # generates tokens one after another
    ENCODER = "encoder"  # one pass over the tokens: embeddings, rerankers
    SAMPLES = "samples"  # one or more passes over a sample: images, audio, diffusion


@dataclass(frozen=True, slots=True)
class AttentionGroup:
    """Layers that attend alike.

    `kv_elements` are cached per token and layer (K and V of all heads, or one MLA latent);
    `window_tokens` caps what is kept and read (None: everything); `read_tokens` caps what is
    read of what is kept (sparse attention). `prefill_macs` and `decode_macs` are multiply-adds
    per cached token and layer: MLA decodes in its absorbed form, which does more of them on less data.
    """

    layers: int
    kv_elements: float
    kv_heads: int
    prefill_macs: float
    decode_macs: float
    window_tokens: float | None = None
    read_tokens: float | None = None

    def kept(self, context_tokens: float) -> float:
        """Tokens in the cache at a context."""
        return context_tokens if self.window_tokens is None else min(context_tokens, self.window_tokens)

    def read(self, context_tokens: float) -> float:
        """Tokens whose cache one new token reads at a context."""
        kept = self.kept(context_tokens)
        return kept if self.read_tokens is None else min(kept, self.read_tokens)

    def mean_read(self, prompt_tokens: float) -> float:
        """Mean of `read` over the tokens of a causal prompt: (s + 1) / 2 without a limit."""
        limit = min(
            self.window_tokens if self.window_tokens is not None else prompt_tokens,
            self.read_tokens if self.read_tokens is not None else prompt_tokens,
        )
        if prompt_tokens <= limit:
            return (prompt_tokens + 1) / 2
        return limit - limit * (limit - 1) / (2 * prompt_tokens)


@dataclass(frozen=True, slots=True)
class ParameterParts:
    """Learnable elements by part; tied tensors once. Parts sum to the total."""

    embedding: int = 0
    head: int = 0
    attention: int = 0
    mlp: int = 0
    routed_experts: int = 0
    shared_experts: int = 0
    router: int = 0
    recurrent: int = 0
    norms_and_other: int = 0
    encoder_tower: int = 0

    @property
    def total(self) -> int:
        return (
            self.embedding
            + self.head
            + self.attention
            + self.mlp
            + self.routed_experts
            + self.shared_experts
            + self.router
            + self.recurrent
            + self.norms_and_other
            + self.encoder_tower
        )


@dataclass(frozen=True, slots=True)
class SampleWork:
    """Work of one sample where tokens are not the unit: an image, a clip, a picture to paint.

    `flops` is one forward pass over one sample; a sample takes `passes` of them (denoising steps,
    decoded tokens), each reading all weights once per batch. `extra_flops` come once per sample
    (text encoders, image decoder).
    """

    flops: float
    passes: float = 1.0
    extra_flops: float = 0.0
    activation_bytes: float = 0.0
    layers: int = 1
    convolutional: bool = False
    unit: str = "sample"

    @property
    def total_flops(self) -> float:
        return self.flops * self.passes + self.extra_flops


@dataclass(frozen=True, slots=True)
class ModelArchitecture:
    """Every count that sizing rests on, for one model.

    `linear_params` are the elements a quantiser converts (projections, MLP, experts);
    `matmul_params` is what one token multiplies, head included; `active_params` is what model
    cards call active. `assumed` lists what had to be assumed about the shape, in words.
    """

    name: str
    kind: ModelKind
    family: str
    num_layers: int
    hidden_size: int
    num_heads: int
    head_dim: int
    mlp_width: float
    vocab_size: int
    parts: ParameterParts
    linear_params: int
    active_params: int
    matmul_params: float
    attention: tuple[AttentionGroup, ...] = ()
    state_bytes_per_sequence: float = 0.0
    recurrent_flops_per_token: float = 0.0
    num_experts: int = 0
    experts_per_token: int = 0
    moe_layers: int = 0
    max_context_tokens: int | None = None
    tied_head: bool = False
    native_format: str = "bf16"
    sample: SampleWork | None = None
    assumed: tuple[str, ...] = ()
    shape_is_assumed: bool = False
    source: str = ""

    @property
    def total_params(self) -> int:
        return self.parts.total

    @property
    def kv_heads(self) -> int:
        """KV heads that tensor parallelism can split; 1 means the cache is copied to every rank."""
        return min((g.kv_heads for g in self.attention), default=max(1, self.num_heads))

    @property
    def is_moe(self) -> bool:
        return self.num_experts > 1

    @property
    def head_matmul_params(self) -> float:
        """Elements of the output head that a sampled token multiplies, tied or not."""
        return float(self.vocab_size * self.hidden_size) if self.kind is ModelKind.DECODER else 0.0

    def kv_cache_bytes_per_token(self, element_bytes: float = 2.0, *, tensor_parallel: int = 1) -> float:
        """Cache one device adds for one token while windows still fill.

        Heads are split over tensor-parallel ranks and copied once there are more ranks than heads;
        MLA's one latent is copied to every rank.

        Source: Kwon et al. 2023 (arXiv:2309.06180); DeepSeek-V2 (arXiv:2405.04434) for MLA.
        Check: OPT-13B in FP16 is 2 * 40 * 40 * 128 * 2 = 819 200 bytes.
        """
        return sum(g.layers * g.kv_elements * element_bytes / min(g.kv_heads, tensor_parallel) for g in self.attention)

    @property
    def kv_cache_bytes_per_token_beyond_window(self) -> float:
        """The part of the cache (16 bit) that still grows once every window is full."""
        return sum(2.0 * g.layers * g.kv_elements for g in self.attention if g.window_tokens is None)

    def cache_bytes(self, context_tokens: float, element_bytes: float = 2.0, *, tensor_parallel: int = 1) -> float:
        """Cache and state of one sequence at a context, on one device.

        Check: Llama-3.1-8B in BF16 at 8192 tokens is exactly 1 GiB.
        """
        cache = sum(
            g.layers * g.kv_elements * element_bytes * g.kept(context_tokens) / min(g.kv_heads, tensor_parallel) for g in self.attention
        )
        return cache + self.state_bytes_per_sequence / tensor_parallel

    def read_bytes(self, context_tokens: float, element_bytes: float = 2.0, *, tensor_parallel: int = 1) -> float:
        """Cache and state one device reads to decode one token at a context."""
        cache = sum(
            g.layers * g.kv_elements * element_bytes * g.read(context_tokens) / min(g.kv_heads, tensor_parallel) for g in self.attention
        )
        return cache + 2 * self.state_bytes_per_sequence / tensor_parallel

    def decode_attention_flops(self, context_tokens: float) -> float:
        """Attention of one new token over its cache, in the form engines decode with."""
        return sum(2 * g.layers * g.decode_macs * g.read(context_tokens) for g in self.attention)

    def prefill_attention_flops(self, prompt_tokens: float) -> float:
        """Attention of one whole causal prompt: masked scores are not computed."""
        if self.kind is ModelKind.ENCODER:
            return sum(2 * g.layers * g.prefill_macs * prompt_tokens**2 for g in self.attention)
        return sum(2 * g.layers * g.prefill_macs * g.mean_read(prompt_tokens) * prompt_tokens for g in self.attention)

    def flops_per_token(self, context_tokens: float) -> float:
        """Forward FLOPs of one token that sees `context_tokens` (attention in expanded form).

        Check: Llama-3.1-8B at a context of 8192 is 19.304 GFLOP.
        """
        scores = sum(2 * g.layers * g.prefill_macs * g.read(context_tokens) for g in self.attention)
        return 2 * self.matmul_params + scores + self.recurrent_flops_per_token

    def training_flops_per_token(self, sequence_length: float) -> float:
        """Forward and backward FLOPs per token of a sequence: three times the forward.

        Each matrix product has two gradient products; recomputation is not counted.
        Check: Llama-3.1-405B at 4096 is 2.47 TFLOP per token.
        """
        scores = self.prefill_attention_flops(sequence_length) / sequence_length
        return 3 * (2 * self.matmul_params + scores + self.recurrent_flops_per_token)

    def weights_bytes(self, stored: WeightFormat) -> float:
        """All weights in a format: linear matrices quantised, the rest as the format keeps it.

        Check: Llama-3.1-70B is 131.417 GiB in BF16, 67.667 in FP8 and 37.037 in INT4 (group 128).
        """
        quantised = self.parts.routed_experts if stored.routed_experts_only else self.linear_params
        kept_linear = self.linear_params - quantised
        head_bits = stored.head_bits if not self.tied_head else 0.0
        embedding_bits = stored.head_bits if self.tied_head else stored.embedding_bits
        other = self.total_params - self.linear_params - self.parts.head - self.parts.embedding
        bits = (
            quantised * stored.linear_bits
            + kept_linear * 16.0
            + self.parts.head * head_bits
            + self.parts.embedding * embedding_bits
            + other * stored.other_bits
        )
        return bits / 8

    def routed_expert_bytes(self, stored: WeightFormat) -> float:
        return self.parts.routed_experts * stored.linear_bits / 8

    def lora_params(self, rank: int, target_modules: str) -> float:
        """Trainable elements of adapters: rank * (in + out) summed over the adapted matrices.

        `all-linear` adapts the seven projections of every layer, `attention` the four of
        attention, `q_v` two of them. Experts count as often as there are experts.

        Check: Llama-3.1-8B, all seven, rank 16: 41 943 040.
        """
        h, n_d = self.hidden_size, self.num_heads * self.head_dim
        m_d = self.kv_heads * self.head_dim
        q_v = (h + n_d) + (h + m_d)
        attention = q_v + (h + m_d) + (n_d + h)
        experts = max(1, self.num_experts)
        width = self.mlp_width / max(1, self.experts_per_token) if self.is_moe else self.mlp_width
        mlp = 3 * experts * (h + width)
        per_layer = {"q_v": q_v, "attention": attention, "all-linear": attention + mlp}[target_modules]
        return float(rank * self.num_layers * per_layer)
