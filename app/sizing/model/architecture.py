"""A model as the arithmetic sees it: counts of parameters, cache, FLOPs and activations.

Symbols of the room: h hidden size, L layers, n query heads, m key/value heads, d head size,
f MLP width, V vocabulary, E routed experts, k experts per token.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum

from app.sizing.model.activations import activation_bytes_per_layer, attention_activation_bytes, logits_bytes
from app.sizing.model.adapters import Targets, lora_params
from app.sizing.model.attention import AttentionGroup
from app.sizing.model.encoder import EncoderPass, ImageInput, tower_flops
from app.sizing.model.formats import NativeQuantisation, WeightFormat, native_bits, stored_bits
from app.sizing.model.sample import SampleLaw, SampleShape, SampleWork
from app.sizing.model.tasks import ModelTask, task_of
from app.sizing.model.tensors import USUAL_BLOCK, BlockKind, Part, Per, Tensor

SAMPLE_NOTE = "a sample is "  # how the note on a sample's size begins


class ModelKind(StrEnum):
    """What a model does with one request."""

    DECODER = "decoder"  # generates tokens one after another
    ENCODER = "encoder"  # one pass over the tokens: embeddings, rerankers
    SAMPLES = "samples"  # one or more passes over a sample: images, audio, diffusion


@dataclass(frozen=True, slots=True)
class ModelArchitecture:
    """Every count that sizing rests on, for one model; all parameter counts are sums over `tensors`.

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
    tensors: tuple[Tensor, ...]
    attention: tuple[AttentionGroup, ...] = ()
    state_bytes_per_sequence: float = 0.0
    recurrent_flops_per_token: float = 0.0
    num_experts: int = 0
    experts_per_token: int = 0
    moe_layers: int = 0
    max_context_tokens: int | None = None
    tied_head: bool = False
    block: BlockKind = USUAL_BLOCK
    mtp_params: int = 0
    native: NativeQuantisation | None = None
    encoder: EncoderPass | None = None
    images: ImageInput | None = None
    sample: SampleWork | None = None
    law: SampleLaw | None = None
    assumed: tuple[str, ...] = ()
    shape_is_assumed: bool = False
    reranks: bool = False  # scores pairs of texts
    source: str = ""
    parts: dict[str, int] = field(init=False, compare=False)
    total_params: int = field(init=False, compare=False)
    active_params: int = field(init=False, compare=False)
    linear_params: int = field(init=False, compare=False)
    routed_params: int = field(init=False, compare=False)
    matmul_params: float = field(init=False, compare=False)
    source_matmul_params: float = field(init=False, compare=False)
    kv_heads: int = field(init=False, compare=False)  # that tensor parallelism splits; of 1 every rank has a copy
    _bytes: dict[str, float] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        parts = {part.value: 0 for part in Part}
        for t in self.tensors:
            parts[t.part.value] += t.params
        sums: dict[str, object] = {
            "parts": {name: count for name, count in parts.items() if count},
            "total_params": sum(parts.values()),
            "active_params": sum(parts.values()) - sum(t.inactive_params for t in self.tensors),
            "linear_params": sum(t.params for t in self.tensors if t.quantised),
            "routed_params": sum(t.params for t in self.tensors if t.quantised and t.part is Part.ROUTED_EXPERTS),
            "matmul_params": float(sum(t.multiplied for t in self.tensors if t.per is Per.TOKEN)),
            "source_matmul_params": float(sum(t.multiplied for t in self.tensors if t.per is Per.SOURCE)),
            "kv_heads": min((g.kv_heads for g in self.attention), default=max(1, self.num_heads)),
            "_bytes": {},
        }
        for name, value in sums.items():
            object.__setattr__(self, name, value)

    def with_law(self, law: SampleLaw) -> ModelArchitecture:
        """This model on samples of its usual size."""
        return replace(self, kind=ModelKind.SAMPLES, law=law).sized(SampleShape())

    def sized(self, shape: SampleShape) -> ModelArchitecture:
        """This model on samples of a size; one that works on tokens is unchanged."""
        if self.law is None:
            return self
        note = SAMPLE_NOTE + self.law.described(shape) + (f"; {self.law.basis}" if self.law.basis else "")
        kept = tuple(a for a in self.assumed if not a.startswith(SAMPLE_NOTE))
        return replace(self, sample=self.law.work(shape), assumed=(note, *kept))

    @property
    def task(self) -> ModelTask:
        return task_of(self.kind.value, self.law, reranks=self.reranks)

    @property
    def native_format(self) -> str:
        """The format the weights are published in; 16 bit where the file says nothing."""
        return self.native.format if self.native is not None else "bf16"

    @property
    def is_moe(self) -> bool:
        return self.num_experts > 1

    @property
    def head_matmul_params(self) -> float:
        """Elements of the output head that a sampled token multiplies, tied or not."""
        return float(sum(t.multiplied for t in self.tensors if t.part is Part.HEAD and t.per is Per.TOKEN))

    def kv_cache_bytes_per_token(self, element_bytes: float = 2.0, *, tensor_parallel: int = 1) -> float:
        """Cache one device adds for one token while windows still fill.

        Heads are split over tensor-parallel ranks and copied once there are more ranks than heads;
        MLA's one latent is copied to every rank.

        Source: Kwon et al. 2023 (arXiv:2309.06180); DeepSeek-V2 (arXiv:2405.04434) for MLA.
        Limits: contexts below the window; `cache_bytes` counts a whole context.
        Check: OPT-13B in FP16, 2 * 40 * 40 * 128 * 2.
            >>> OPT_13B.kv_cache_bytes_per_token()
            819200.0
        """
        return sum(
            g.layers * g.held_elements(1.0) * element_bytes / min(g.kv_heads, tensor_parallel) for g in self.attention
        )

    @property
    def kv_cache_bytes_per_token_beyond_window(self) -> float:
        """The part of the cache (16 bit) that still grows once every window is full.

        Source: counted.
        Check: every other layer of Gemma 2 9B, 21 of 42, of 8 heads of 256.
            >>> registered("google/gemma-2-9b-it").kv_cache_bytes_per_token_beyond_window == 2 * 21 * 8 * 2 * 256
            True
        """
        return sum(2.0 * g.layers * g.held_elements(1.0) for g in self.attention if g.window_tokens is None)

    @property
    def cross_kv_bytes_per_source_token(self) -> float:
        """Keys and values (16 bit) the decoder keeps of one position of its encoder, once per sequence.

        Source: counted.
        Check: T5-base, 12 layers of 12 heads of 64.
            >>> registered("google-t5/t5-base").cross_kv_bytes_per_source_token == 2 * 12 * 2 * 12 * 64
            True
        """
        crossing = [g for g in self.attention if g.crosses]
        if crossing or self.encoder is None or self.images is not None:
            return sum(2.0 * g.layers * g.kv_elements for g in crossing)
        return sum(2.0 * g.layers * g.kv_elements for g in self.attention)

    def cache_bytes(self, context_tokens: float, element_bytes: float = 2.0, *, tensor_parallel: int = 1) -> float:
        """Cache and state of one sequence at a context, on one device.

        Source: counted; windows and latents as `kv_cache_bytes_per_token`, states as the mixers keep them.
        Limits: without the rounding to blocks of an engine.
        Check: Llama-3.1-8B in BF16 at 8192 tokens.
            >>> LLAMA_8B.cache_bytes(8192) / GIB
            1.0
        """
        cache = sum(
            g.layers * g.held_elements(context_tokens) * element_bytes / min(g.kv_heads, tensor_parallel)
            for g in self.attention
        )
        return cache + self.state_bytes_per_sequence / tensor_parallel

    def read_bytes(self, context_tokens: float, element_bytes: float = 2.0, *, tensor_parallel: int = 1) -> float:
        """Cache and state one device reads to decode one token at a context; a state is written back as well.

        Source: counted.
        Limits: sparse attention reads what its indexer chose, and scans the keys of the indexer whole.
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
        """Attention of one new token over its cache, in the form engines decode with.

        Source: counted: two multiply-adds per element of every query head and cached token.
        Limits: MLA in its absorbed form, which does more of them on a smaller cache.
        Check: Llama-3.1-8B, 2 * 32 layers * 32 heads * (128 + 128) * 8192 tokens.
            >>> LLAMA_8B.decode_attention_flops(8192) / 1e9
            4.294967296
        """
        return sum(
            2 * g.layers * (g.decode_macs * g.read(context_tokens) + g.index_macs * g.kept(context_tokens))
            for g in self.attention
        )

    @property
    def routed_matmul_params(self) -> float:
        """Elements of routed experts that a token multiplies."""
        return float(sum(t.multiplied for t in self.tensors if t.part is Part.ROUTED_EXPERTS and t.per is Per.TOKEN))

    @property
    def reads_source(self) -> bool:
        """Whether a prompt goes through an encoder of its own, to which the decoder looks back (T5, BART)."""
        return self.encoder is not None and self.images is None

    @property
    def prompt_matmul_params(self) -> float:
        """Elements one prompt token multiplies, the head left out.

        In an encoder-decoder that is the encoder, and the decoder's projections of its output.

        Source: counted.
        Check: Llama-3.1-8B without its head of 128 256 x 4 096.
            >>> LLAMA_8B.prompt_matmul_params == LLAMA_8B.matmul_params - 128_256 * 4096
            True
        """
        if not self.reads_source:
            return self.matmul_params - self.head_matmul_params
        crossing = sum(t.params for t in self.tensors if t.role.endswith(("cross.k_proj", "cross.v_proj")))
        return self.source_matmul_params + crossing

    @property
    def training_matmul_params(self) -> float:
        """Elements one token of a training sequence multiplies; half of an encoder-decoder's tokens are source."""
        return (self.prompt_matmul_params + self.matmul_params) / 2 if self.reads_source else self.matmul_params

    def image_flops(self, width: int, height: int) -> float:
        """FLOPs of the vision tower and projector for one image: see `encoder.tower_flops`."""
        if self.images is None or self.encoder is None:
            return 0.0
        projector = sum(t.multiplied for t in self.tensors if t.per is Per.IMAGE_TOKEN)
        return tower_flops(
            self.encoder, self.images, self.source_matmul_params, float(projector), width=width, height=height
        )

    def prefill_attention_flops(self, prompt_tokens: float) -> float:
        """Attention of one whole causal prompt: masked scores are not computed.

        Source: counted; Dao 2023 (arXiv:2307.08691) for kernels that skip what the mask hides.
        Limits: an encoder's tokens all see one another, so nothing is masked there.
        Check: half of 8192 tokens are seen on average.
            >>> LLAMA_8B.prefill_attention_flops(8192) == 8192 * LLAMA_8B.decode_attention_flops(8193 / 2)
            True
        """
        if self.reads_source and self.encoder is not None:
            return self.encoder.attention_flops(prompt_tokens)
        if self.kind is ModelKind.ENCODER:
            return sum(2 * g.layers * g.prefill_macs * g.kept(prompt_tokens) * prompt_tokens for g in self.attention)
        scanned = (prompt_tokens + 1) / 2
        return sum(
            2 * g.layers * (g.prefill_macs * g.mean_read(prompt_tokens) + g.index_macs * scanned) * prompt_tokens
            for g in self.attention
        )

    def flops_per_token(self, context_tokens: float) -> float:
        """Forward FLOPs of one token that sees `context_tokens` (attention in expanded form).

        Source: counted: two per element a token multiplies, the head included, and attention over the context.
        Limits: norms, activations and sampling are left out (under one per cent).
        Check: Llama-3.1-8B at a context of 8192.
            >>> round(LLAMA_8B.flops_per_token(8192) / 1e9, 3)
            19.304
        """
        scores = sum(
            2 * g.layers * (g.prefill_macs * g.read(context_tokens) + g.index_macs * g.kept(context_tokens))
            for g in self.attention
        )
        return 2 * self.matmul_params + scores + self.recurrent_flops_per_token

    def training_flops_per_token(self, sequence_length: float) -> float:
        """Forward and backward FLOPs per token of a sequence: three times the forward.

        Each matrix product has two gradient products.

        Source: Llama 3 (arXiv:2407.21783), where 15.6e12 tokens of 405B come to 3.8e25; Narayanan et al. 2021.
        Limits: recomputation is not counted; masked scores are not, which papers often count.
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
        """All weights in a format: linear matrices quantised, the rest as the format keeps it.

        In the format a checkpoint is published in, what it left wide stays wide.

        Source: counted; bits of each format as `formats` cites them.
        Limits: block scales of FP8 (0.02 %) are left out.
        Check: Llama-3.1-70B in BF16, FP8 and INT4 (group 128), in GiB.
            >>> [round(LLAMA_70B.weights_bytes(WEIGHT_FORMATS[f]) / GIB, 3) for f in ("bf16", "fp8", "int4-awq")]
            [131.417, 67.667, 37.037]
        """
        return self._cached(stored.name, lambda: sum(self._stored_bytes(stored, t) for t in self.tensors))

    def published_bytes(self) -> float:
        """The checkpoint as published: its own quantisation where it states one, scales and wide tensors included.

        Source: counted from the file's own quantisation.
        Limits: modules left wide are known by name only.
        Check: gpt-oss-120b, experts in MXFP4, in GiB.
            >>> round(registered("openai/gpt-oss-120b").published_bytes() / GIB, 2)
            60.77
        """
        if self.native is None:
            return 2.0 * self.total_params
        return sum(t.count * native_bits(self.native, t) for t in self.tensors) / 8

    def idle_bytes(self, stored: WeightFormat) -> float:
        """Weights that a decoding step does not read: look-up tables (unless the head is one), encoders and towers.

        Source: counted.
        Check: Llama-3.1-8B's table, in 16 bit.
            >>> LLAMA_8B.idle_bytes(WEIGHT_FORMATS["bf16"]) == 2 * 128_256 * 4096
            True
        """
        return self._cached(
            f"idle {stored.name}", lambda: sum(self._stored_bytes(stored, t) for t in self.tensors if self._is_idle(t))
        )

    def _is_idle(self, tensor: Tensor) -> bool:
        if tensor.part is Part.EMBEDDING:
            return not (self.tied_head and tensor.role == "embed_tokens")
        return tensor.part is Part.ENCODER_TOWER or tensor.per is Per.SOURCE

    def _cached(self, key: str, compute: Callable[[], float]) -> float:
        """A sum over the tensors that is asked for with every request, worked out once."""
        known = self._bytes.get(key)
        if known is None:
            known = self._bytes[key] = compute()
        return known

    def routed_expert_bytes(self, stored: WeightFormat) -> float:
        """Experts that tokens are routed to, in a format.

        Source: counted.
        Check: Mixtral 8x7B, 32 layers of 8 experts of 3 x 4 096 x 14 336.
            >>> mixtral = registered("mistralai/Mixtral-8x7B-v0.1")
            >>> mixtral.routed_expert_bytes(WEIGHT_FORMATS["bf16"]) == 2 * 32 * 8 * 3 * 4096 * 14336
            True
        """
        routed = Part.ROUTED_EXPERTS
        return self._cached(
            f"experts {stored.name}",
            lambda: sum(self._stored_bytes(stored, t) for t in self.tensors if t.part is routed),
        )

    def lora_params(self, rank: int, target_modules: Targets) -> float:
        """Trainable elements of adapters of a rank: see `adapters.lora_params`."""
        return lora_params(self.tensors, rank, target_modules)

    def activation_bytes_per_layer(self, *, fused: bool = True) -> float:
        """Bytes of 16-bit activations one token keeps for backward in one mean layer: see `activations`."""
        attention = self.attention_activation_bytes
        return activation_bytes_per_layer(self.hidden_size, self.mlp_width, attention, gated=self.is_gated, fused=fused)

    @property
    def is_gated(self) -> bool:
        """Whether an MLP multiplies two products of its input (SwiGLU and the like)."""
        return any("gate_proj" in t.role or "gate_up" in t.role for t in self.tensors)

    @property
    def attention_activation_bytes(self) -> float:
        """What attention keeps of one token in a mean layer, 16 bit: see `activations`."""
        return attention_activation_bytes(
            self.attention, heads=self.num_heads, kv_heads=self.kv_heads, head_dim=self.head_dim
        )

    def logits_bytes(self, tokens: float) -> float:
        """Peak of the loss over a micro-batch of tokens: see `activations`."""
        return logits_bytes(tokens, self.vocab_size)
