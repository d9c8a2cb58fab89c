"""Counts of a model that sizing uses: parameters, cache, FLOPs and activations.

Symbols used in this package: h hidden size, L layers, n query heads, m key/value heads, d head size, f MLP width, V
vocabulary, E routed experts, k experts per token.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum

from app.sizing.model.activations import activation_bytes_per_layer, attention_activation_bytes, logits_bytes
from app.sizing.model.adapters import Targets, lora_params
from app.sizing.model.attention import AttentionGroup
from app.sizing.model.encoder import EncoderPass, ImageInput, tower_flops
from app.sizing.model.formats import NativeQuantization, WeightFormat, native_bits, stored_bits
from app.sizing.model.sample import SampleLaw, SampleShape, SampleWork
from app.sizing.model.tasks import ModelTask, classify_task
from app.sizing.model.tensors import DEFAULT_BLOCK, BlockKind, Part, Per, Tensor

SAMPLE_NOTE_PREFIX = "a sample is "  # prefix of the assumption about a sample's size


class ModelKind(StrEnum):
    """What a model does with one request."""

    DECODER = "decoder"  # generates tokens one after another
    ENCODER = "encoder"  # reads all tokens in one pass: embeddings, rerankers
    SAMPLES = "samples"  # makes one or more passes over a sample: images, audio, diffusion


@dataclass(frozen=True, slots=True)
class ModelArchitecture:
    """All counts of one model; every parameter count is a sum over `tensors`.

    `linear_params` are the elements that a quantizer converts (projections, MLP, experts). `matmul_params` are the
    elements that one token multiplies, output head included. `active_params` is the active parameter count of model
    cards. `assumed` lists assumptions about the shape, as sentences.
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
    tensors: tuple[Tensor, ...]
    attention: tuple[AttentionGroup, ...] = ()
    state_bytes_per_sequence: float = 0.0
    recurrent_flops_per_token: float = 0.0
    num_experts: int = 0
    experts_per_token: int = 0
    moe_layers: int = 0
    max_context_tokens: int | None = None
    tied_head: bool = False
    block: BlockKind = DEFAULT_BLOCK
    mtp_params: int = 0
    native: NativeQuantization | None = None
    encoder: EncoderPass | None = None
    images: ImageInput | None = None
    sample: SampleWork | None = None
    law: SampleLaw | None = None
    assumed: tuple[str, ...] = ()
    shape_is_assumed: bool = False
    reranks: bool = False  # whether the model scores pairs of texts
    source: str = ""
    parts: dict[str, int] = field(init=False, compare=False)
    total_params: int = field(init=False, compare=False)
    active_params: int = field(init=False, compare=False)
    linear_params: int = field(init=False, compare=False)
    routed_params: int = field(init=False, compare=False)
    matmul_params: float = field(init=False, compare=False)
    source_matmul_params: float = field(init=False, compare=False)
    kv_heads: int = field(init=False, compare=False)  # heads that tensor parallelism splits; one head is copied
    _bytes: dict[str, float] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        parts = {part.value: 0 for part in Part}
        for t in self.tensors:
            parts[t.part.value] += t.params
        sums: dict[str, object] = {
            "parts": {name: count for name, count in parts.items() if count},
            "total_params": sum(parts.values()),
            "active_params": sum(parts.values()) - sum(t.inactive_params for t in self.tensors),
            "linear_params": sum(t.params for t in self.tensors if t.quantized),
            "routed_params": sum(t.params for t in self.tensors if t.quantized and t.part is Part.ROUTED_EXPERTS),
            "matmul_params": float(sum(t.multiplied_elements for t in self.tensors if t.per is Per.TOKEN)),
            "source_matmul_params": float(sum(t.multiplied_elements for t in self.tensors if t.per is Per.SOURCE)),
            "kv_heads": min((g.kv_heads for g in self.attention), default=max(1, self.num_heads)),
            "_bytes": {},
        }
        for name, value in sums.items():
            object.__setattr__(self, name, value)

    def with_law(self, law: SampleLaw) -> ModelArchitecture:
        """This model on samples of the usual size, with `law` as the law of its work."""
        return replace(self, kind=ModelKind.SAMPLES, law=law).with_sample_shape(SampleShape())

    def with_sample_shape(self, shape: SampleShape) -> ModelArchitecture:
        """This model on samples of the given shape. A model that works on tokens is returned unchanged."""
        if self.law is None:
            return self
        note = SAMPLE_NOTE_PREFIX + self.law.describe_sample(shape) + (f"; {self.law.basis}" if self.law.basis else "")
        kept = tuple(a for a in self.assumed if not a.startswith(SAMPLE_NOTE_PREFIX))
        return replace(self, sample=self.law.sample_work(shape), assumed=(note, *kept))

    @property
    def task(self) -> ModelTask:
        return classify_task(self.kind.value, self.law, reranks=self.reranks)

    @property
    def native_format(self) -> str:
        """The format in which the weights are published; "bf16" if the file states none."""
        return self.native.format if self.native is not None else "bf16"

    @property
    def is_moe(self) -> bool:
        return self.num_experts > 1

    @property
    def head_matmul_params(self) -> float:
        """Elements of the output head that a sampled token multiplies, whether the head is tied or not."""
        return float(sum(t.multiplied_elements for t in self.tensors if t.part is Part.HEAD and t.per is Per.TOKEN))

    def kv_cache_bytes_per_token(self, element_bytes: float = 2.0, *, tensor_parallel: int = 1) -> float:
        """KV cache bytes that one device adds per token, while attention windows still fill.

        Tensor-parallel ranks share the key/value heads. With more ranks than heads, heads are copied. Every rank has
        a copy of the MLA latent.

        Parameters:
            element_bytes: bytes per element of the cache format.
            tensor_parallel: ranks that share the key/value heads.
        Source: Kwon et al. 2023 (arXiv:2309.06180); DeepSeek-V2 (arXiv:2405.04434) for MLA.
        Limits: contexts shorter than the window; `cache_bytes` counts a whole context.
        Check: OPT-13B in FP16, 2 * 40 * 40 * 128 * 2.
            >>> OPT_13B.kv_cache_bytes_per_token()
            819200.0
        """
        return sum(
            g.layers * g.cached_elements(1.0) * element_bytes / min(g.kv_heads, tensor_parallel) for g in self.attention
        )

    @property
    def kv_cache_bytes_per_token_beyond_window(self) -> float:
        """KV cache bytes per token (16 bit) that are still added once every window is full.

        Check: every other layer of Gemma 2 9B, 21 of 42, of 8 heads of 256.
            >>> registered("google/gemma-2-9b-it").kv_cache_bytes_per_token_beyond_window == 2 * 21 * 8 * 2 * 256
            True
        """
        return sum(2.0 * g.layers * g.cached_elements(1.0) for g in self.attention if g.window_tokens is None)

    @property
    def cross_kv_bytes_per_source_token(self) -> float:
        """Cross-attention cache bytes (16 bit) per position of the encoder, stored once per sequence.

        Check: T5-base, 12 layers of 12 heads of 64.
            >>> registered("google-t5/t5-base").cross_kv_bytes_per_source_token == 2 * 12 * 2 * 12 * 64
            True
        """
        crossing = [g for g in self.attention if g.crosses]
        if crossing or self.encoder is None or self.images is not None:
            return sum(2.0 * g.layers * g.kv_elements for g in crossing)
        return sum(2.0 * g.layers * g.kv_elements for g in self.attention)

    def cache_bytes(self, context_tokens: float, element_bytes: float = 2.0, *, tensor_parallel: int = 1) -> float:
        """KV cache and recurrent state bytes of one sequence at a context length, on one device.

        Limits: does not include the rounding of an engine to cache blocks.
        Check: Llama-3.1-8B in BF16 at 8192 tokens.
            >>> LLAMA_8B.cache_bytes(8192) / GIB
            1.0
        """
        cache = sum(
            g.layers * g.cached_elements(context_tokens) * element_bytes / min(g.kv_heads, tensor_parallel)
            for g in self.attention
        )
        return cache + self.state_bytes_per_sequence / tensor_parallel

    def read_bytes(self, context_tokens: float, element_bytes: float = 2.0, *, tensor_parallel: int = 1) -> float:
        """Cache and state bytes that one device moves to decode one token at a context length. A state is read and
        written back.

        Limits: sparse attention reads the tokens that its indexer selects, and scans all keys of the indexer.
        Check: all of Llama-3.1-8B's cache, on eight devices.
            >>> LLAMA_8B.read_bytes(8192, tensor_parallel=8) * 8 / GIB
            1.0
        """
        cache = sum(
            g.layers * g.read_elements(context_tokens) * element_bytes / min(g.kv_heads, tensor_parallel)
            for g in self.attention
        )
        return cache + 2 * self.state_bytes_per_sequence / tensor_parallel

    def decode_attention_flops(self, context_tokens: float) -> float:
        """Attention FLOPs of one new token over its cache, in the form that engines use for decode.

        Each query head does two multiply-adds per element and cached token.

        Limits: MLA is counted in its absorbed form, which does more multiply-adds on a smaller cache.
        Check: Llama-3.1-8B, 2 * 32 layers * 32 heads * (128 + 128) * 8192 tokens.
            >>> LLAMA_8B.decode_attention_flops(8192) / 1e9
            4.294967296
        """
        return sum(
            2
            * g.layers
            * (g.decode_macs * g.tokens_read(context_tokens) + g.index_macs * g.cached_tokens(context_tokens))
            for g in self.attention
        )

    @property
    def routed_matmul_params(self) -> float:
        """Elements of routed experts that one token multiplies."""
        return float(
            sum(t.multiplied_elements for t in self.tensors if t.part is Part.ROUTED_EXPERTS and t.per is Per.TOKEN)
        )

    @property
    def reads_source(self) -> bool:
        """Whether a separate encoder reads the prompt and the decoder attends to its output (T5, BART)."""
        return self.encoder is not None and self.images is None

    @property
    def prompt_matmul_params(self) -> float:
        """Elements that one prompt token multiplies, without the output head.

        In an encoder-decoder these are the elements of the encoder and the decoder's projections of the encoder
        output.

        Check: Llama-3.1-8B without its head of 128,256 x 4,096.
            >>> LLAMA_8B.prompt_matmul_params == LLAMA_8B.matmul_params - 128_256 * 4096
            True
        """
        if not self.reads_source:
            return self.matmul_params - self.head_matmul_params
        crossing = sum(t.params for t in self.tensors if t.role.endswith(("cross.k_proj", "cross.v_proj")))
        return self.source_matmul_params + crossing

    @property
    def training_matmul_params(self) -> float:
        """Elements that one token of a training sequence multiplies.

        In an encoder-decoder, half of the tokens are source tokens.
        """
        return (self.prompt_matmul_params + self.matmul_params) / 2 if self.reads_source else self.matmul_params

    def image_flops(self, width: int, height: int) -> float:
        """FLOPs of the vision tower and projector for one image; see `encoder.tower_flops`."""
        if self.images is None or self.encoder is None:
            return 0.0
        projector = sum(t.multiplied_elements for t in self.tensors if t.per is Per.IMAGE_TOKEN)
        return tower_flops(
            self.encoder, self.images, self.source_matmul_params, float(projector), width=width, height=height
        )

    def prefill_attention_flops(self, prompt_tokens: float) -> float:
        """Attention FLOPs of one whole causal prompt. Masked scores are not computed.

        Source: Dao 2023 (arXiv:2307.08691) for kernels that skip masked scores.
        Limits: the tokens of an encoder all attend to each other, so an encoder has no masked scores.
        Check: half of 8192 tokens are seen on average.
            >>> LLAMA_8B.prefill_attention_flops(8192) == 8192 * LLAMA_8B.decode_attention_flops(8193 / 2)
            True
        """
        if self.reads_source and self.encoder is not None:
            return self.encoder.attention_flops(prompt_tokens)
        if self.kind is ModelKind.ENCODER:
            return sum(
                2 * g.layers * g.prefill_macs * g.cached_tokens(prompt_tokens) * prompt_tokens for g in self.attention
            )
        scanned = (prompt_tokens + 1) / 2
        return sum(
            2 * g.layers * (g.prefill_macs * g.mean_tokens_read(prompt_tokens) + g.index_macs * scanned) * prompt_tokens
            for g in self.attention
        )

    def flops_per_token(self, context_tokens: float) -> float:
        """Forward FLOPs of one token that attends to `context_tokens`, with attention in expanded form.

        The count is two FLOPs per element that a token multiplies, head included, plus attention over the context.

        Limits: norms, activations and sampling are not included (under 1 %).
        Check: Llama-3.1-8B at a context of 8192.
            >>> round(LLAMA_8B.flops_per_token(8192) / 1e9, 3)
            19.304
        """
        scores = sum(
            2
            * g.layers
            * (g.prefill_macs * g.tokens_read(context_tokens) + g.index_macs * g.cached_tokens(context_tokens))
            for g in self.attention
        )
        return 2 * self.matmul_params + scores + self.recurrent_flops_per_token

    def training_flops_per_token(self, sequence_length: float) -> float:
        """Forward and backward FLOPs per token of a sequence: three times the forward.

        Each matrix product has two gradient products.

        Source: Llama 3 (arXiv:2407.21783), where 405B parameters and 15.6e12 tokens take 3.8e25 FLOPs; Narayanan et
        al. 2021.
        Limits: recomputation is not counted. Masked scores are not counted either, although papers often count them.
        Check: Llama-3.1-405B at 4096, in TFLOP.
            >>> round(registered("meta-llama/Llama-3.1-405B").training_flops_per_token(4096) / 1e12, 3)
            2.473
        """
        scores = self.prefill_attention_flops(sequence_length) / sequence_length
        return 3 * (2 * self.training_matmul_params + scores + self.recurrent_flops_per_token)

    def _stored_bytes(self, stored: WeightFormat, tensor: Tensor) -> float:
        if self.native is not None and stored.name == self.native.format:
            return tensor.count * native_bits(self.native, tensor, scales=False) / 8
        shared = self.num_heads / min(self.kv_heads, self.num_heads)
        bits = stored_bits(stored, tensor, layers=self.num_layers, heads_per_kv=shared, tied_head=self.tied_head)
        return tensor.params * bits / 8

    def weights_bytes(self, stored: WeightFormat) -> float:
        """Bytes of all weights in a format: linear matrices quantized, all other tensors as the format stores them.

        In the format of the published checkpoint, tensors that the checkpoint left in 16 bit stay in 16 bit.

        Limits: block scales of FP8 (0.02 %) are not included.
        Check: Llama-3.1-70B in BF16, FP8 and INT4 (group 128), in GiB.
            >>> [round(LLAMA_70B.weights_bytes(WEIGHT_FORMATS[f]) / GIB, 3) for f in ("bf16", "fp8", "int4-awq")]
            [131.417, 67.667, 37.037]
        """
        return self._sum_once(stored.name, lambda: sum(self._stored_bytes(stored, t) for t in self.tensors))

    def published_bytes(self) -> float:
        """Bytes of the checkpoint as published, in the quantization that its file states, with scales and unquantized
        tensors.

        Limits: modules left unquantized are recognized by name only.
        Check: gpt-oss-120b, experts in MXFP4, in GiB.
            >>> round(registered("openai/gpt-oss-120b").published_bytes() / GIB, 2)
            60.77
        """
        if self.native is None:
            return 2.0 * self.total_params
        return sum(t.count * native_bits(self.native, t) for t in self.tensors) / 8

    def idle_bytes(self, stored: WeightFormat) -> float:
        """Weight bytes that a decode step does not read: look-up tables (unless one is the head), encoders and vision
        towers.

        Check: Llama-3.1-8B's table, in 16 bit.
            >>> LLAMA_8B.idle_bytes(WEIGHT_FORMATS["bf16"]) == 2 * 128_256 * 4096
            True
        """
        return self._sum_once(
            f"idle {stored.name}", lambda: sum(self._stored_bytes(stored, t) for t in self.tensors if self._is_idle(t))
        )

    def _is_idle(self, tensor: Tensor) -> bool:
        if tensor.part is Part.EMBEDDING:
            return not (self.tied_head and tensor.role == "embed_tokens")
        return tensor.part is Part.ENCODER_TOWER or tensor.per is Per.SOURCE

    def _sum_once(self, key: str, compute: Callable[[], float]) -> float:
        """A sum over the tensors that every request needs; it is computed once and then cached."""
        known = self._bytes.get(key)
        if known is None:
            known = self._bytes[key] = compute()
        return known

    def routed_expert_bytes(self, stored: WeightFormat) -> float:
        """Bytes of all routed experts in a format.

        Check: Mixtral 8x7B, 32 layers of 8 experts of 3 x 4,096 x 14,336.
            >>> mixtral = registered("mistralai/Mixtral-8x7B-v0.1")
            >>> mixtral.routed_expert_bytes(WEIGHT_FORMATS["bf16"]) == 2 * 32 * 8 * 3 * 4096 * 14336
            True
        """
        routed = Part.ROUTED_EXPERTS
        return self._sum_once(
            f"experts {stored.name}",
            lambda: sum(self._stored_bytes(stored, t) for t in self.tensors if t.part is routed),
        )

    def lora_params(self, rank: int, target_modules: Targets) -> float:
        """Trainable elements of adapters of a rank; see `adapters.lora_params`."""
        return lora_params(self.tensors, rank, target_modules)

    def activation_bytes_per_layer(self, *, fused: bool = True) -> float:
        """Activation bytes (16 bit) that one token keeps for backward in one mean layer; see `activations`."""
        attention = self.attention_activation_bytes
        return activation_bytes_per_layer(self.hidden_size, self.mlp_width, attention, gated=self.is_gated, fused=fused)

    @property
    def is_gated(self) -> bool:
        """Whether an MLP multiplies two products of its input (SwiGLU and similar)."""
        return any("gate_proj" in t.role or "gate_up" in t.role for t in self.tensors)

    @property
    def attention_activation_bytes(self) -> float:
        """Bytes (16 bit) that attention keeps per token in a mean layer; see `activations`."""
        return attention_activation_bytes(
            self.attention, heads=self.num_heads, kv_heads=self.kv_heads, head_dim=self.head_dim
        )

    def logits_bytes(self, tokens: float) -> float:
        """Peak bytes of the loss over a micro-batch of tokens; see `activations`."""
        return logits_bytes(tokens, self.vocab_size)
