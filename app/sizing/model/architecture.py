"""Counts of a model that sizing uses: parameters, cache, FLOPs and activations.

Symbols used in this package: h hidden size, L layers, n query heads, m key/value heads, d head size, f MLP width, V
vocabulary, E routed experts, k experts per token.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

import numpy as np

from app.sizing.columns import Column
from app.sizing.model.formats import NativeQuantization, StoredTensor, WeightFormat, native_bits, stored_bits
from app.sizing.model.sample import SampleLaw, SampleShape, SampleWork
from app.sizing.model.tasks import ModelTask, classify_task
from app.sizing.model.tensors import DEFAULT_BLOCK, BlockKind, Part, Per, Tensor

Targets = str | Sequence[str]

_Q_V_ROLES = ("q_proj", "v_proj", "qkv_proj", "q_b_proj", "kv_b_proj")
MIXER_PARTS = (Part.ATTENTION, Part.RECURRENT)
# Matrices of which every tensor-parallel rank has a copy: down-projections of latent attention, and its indexer.
UNSPLIT_ROLES = ("q_a_proj", "kv_a_proj_with_mqa", "indexer.w")


def is_adapted(tensor: Tensor, targets: Targets) -> bool:
    """Whether an adapter is attached to a matrix.

    `all-linear` adapts every projection, MLP and expert matrix; `attention` adapts the matrices of attention (or of
    the recurrent mixer); `q_v` adapts queries and values. A list names roles ("q_proj", "down_proj"). A fused matrix
    is adapted as a whole.
    """
    if not tensor.quantized:
        return not isinstance(targets, str) and tensor.role in targets and tensor.per is Per.TOKEN
    if targets == "all-linear":
        return True
    if targets == "attention":
        return tensor.part in MIXER_PARTS
    return tensor.role in (_Q_V_ROLES if targets == "q_v" else targets)


def lora_params(tensors: Iterable[Tensor], rank: int, targets: Targets, *, magnitudes: bool = False) -> float:
    """Trainable elements of the adapters: rank * (inputs + outputs), summed over the adapted matrices.

    With `magnitudes` (DoRA), each adapted matrix also trains one element per output.

    Source: Hu et al. 2021 (arXiv:2106.09685); Liu et al. 2024 (arXiv:2402.09353) for DoRA.
    Limits: one rank for all matrices; each expert has its own adapter.
    Check: Llama-3.1-8B, all seven matrices of a layer, as PEFT counts them.
        >>> lora_params(LLAMA_8B.tensors, rank=16, targets="all-linear")
        41943040.0
    """
    adapted = [t for t in tensors if is_adapted(t, targets)]
    rows = sum(t.outputs * t.count for t in adapted) if magnitudes else 0
    return float(rank * sum((t.inputs + t.outputs) * t.count for t in adapted) + rows)


@dataclass(frozen=True, slots=True)
class AttentionGroup:
    """Layers with the same kind of attention.

    `kv_elements` are cached per token and layer: K and V of all heads, or one MLA latent. `window_tokens` limits the
    tokens that are cached and read (None: no limit). `read_tokens` limits the cached tokens that are read (sparse
    attention). `prefill_macs` and `decode_macs` are multiply-adds per cached token and layer; MLA decodes in its
    absorbed form, with more multiply-adds on less data. Sparse layers scan `index_elements` of every cached token
    and spend `index_macs` on it. Layers that only attend to an encoder's output (`crosses`) cache nothing for a text
    token.
    """

    layers: int
    kv_elements: float
    kv_heads: int
    prefill_macs: float
    decode_macs: float
    window_tokens: float | None = None
    read_tokens: float | None = None
    index_elements: float = 0.0
    index_macs: float = 0.0
    crosses: bool = False

    @property
    def is_latent(self) -> bool:
        """Whether the layers cache one latent for all heads (MLA) and decode in the absorbed form.

        Check:
            >>> [g.is_latent for g in (registered("deepseek-ai/DeepSeek-R1").attention[0], LLAMA_8B.attention[0])]
            [True, False]
        """
        return self.decode_macs > self.prefill_macs

    def cached_elements(self, context_tokens: float) -> float:
        """Elements that one layer caches at a context length, including the keys of an indexer.

        Limits: a layer that only attends to an encoder caches nothing of the text.
        Check: Llama-3.1-8B, keys and values of 8 heads of 128, of 10 tokens.
            >>> LLAMA_8B.attention[0].cached_elements(10)
            20480.0
        """
        return 0.0 if self.crosses else (self.kv_elements + self.index_elements) * self.cached_tokens(context_tokens)

    def read_elements(self, context_tokens: float) -> float:
        """Elements that one layer reads for one new token. Sparse layers scan the index of every cached token.

        Check: DeepSeek-V3.2 at 131,072 tokens: 2,048 latents of 576 and the scan of all keys of 128.
            >>> sparse = registered("deepseek-ai/DeepSeek-V3.2").attention[0]
            >>> sparse.read_elements(131_072) == 2048 * 576 + 131_072 * 128
            True
        """
        scanned = self.index_elements * self.cached_tokens(context_tokens)
        return 0.0 if self.crosses else self.kv_elements * self.tokens_read(context_tokens) + scanned

    def cached_tokens(self, context_tokens: float) -> float:
        """Tokens in the cache at a context length, without the rounding of an engine to cache blocks.

        Check: a window of 4,096.
            >>> AttentionGroup(1, 2048.0, 8, 8192.0, 8192.0, window_tokens=4096.0).cached_tokens(10_000)
            4096.0
        """
        return context_tokens if self.window_tokens is None else min(context_tokens, self.window_tokens)

    def tokens_read(self, context_tokens: float) -> float:
        """Cached tokens that one new token reads at a context length."""
        kept = self.cached_tokens(context_tokens)
        return kept if self.read_tokens is None else min(kept, self.read_tokens)

    def mean_tokens_read(self, prompt_tokens: float) -> float:
        """Mean of `tokens_read` over the tokens of a causal prompt: (s + 1) / 2 if there is no limit.

        Tokens before the limit read 1, 2, ... tokens; all later tokens read the limit.

        Limits: a prompt that is read from its first token; the caller subtracts a cached prefix.
        Check: five tokens under a window of two read 1, 2, 2, 2, 2.
            >>> AttentionGroup(1, 2048.0, 8, 8192.0, 8192.0, window_tokens=2.0).mean_tokens_read(5)
            1.8
        """
        limit = min(
            self.window_tokens if self.window_tokens is not None else prompt_tokens,
            self.read_tokens if self.read_tokens is not None else prompt_tokens,
        )
        if prompt_tokens <= limit:
            return (prompt_tokens + 1) / 2
        return limit - limit * (limit - 1) / (2 * prompt_tokens)


LOGIT_BYTES_IN_BACKWARD = 12.0  # the 16-bit logit, its float32 copy, the probability and the 16-bit gradient


def activation_bytes_per_layer(
    hidden_size: float, mlp_width: float, attention_bytes: float, *, gated: bool, fused: bool
) -> float:
    """Activation bytes that one token keeps for backward in one mean layer, if attention scores are never materialized.

    With fused kernels: 8h + 4(n + m)d + 6f + 4n. In eager modules: 16h + 8f + 4(n + m)d + 4n + 8. An MLP without a
    gate keeps only its two products (4f).

    Parameters:
        hidden_size: h, elements.
        mlp_width: f, elements.
        attention_bytes: bytes that attention keeps per token, from `attention_activation_bytes`.
        gated: whether the MLP multiplies two products of its input.
        fused: whether fused kernels are used.
    Source: Korthikanti et al. 2022 (arXiv:2205.05198), re-derived for gated MLPs and FlashAttention.
    Limits: no dropout; activations of a router are not included.
    Check: Llama-3.1-8B, fused and eager.
        >>> activation_bytes_per_layer(4096, 14336, 20608, gated=True, fused=True)
        139392
        >>> activation_bytes_per_layer(4096, 14336, 20608, gated=True, fused=False)
        200840
    """
    products = 4 * mlp_width if not gated else 6 * mlp_width if fused else 8 * mlp_width
    kept = 8 * hidden_size + attention_bytes + products
    return kept if fused else 16 * hidden_size + attention_bytes + products + 8


def attention_activation_bytes(groups: Sequence[AttentionGroup], *, heads: int, kv_heads: int, head_dim: int) -> float:
    """Bytes that attention keeps per token in a mean layer: 4(n + m)d + 4n.

    These are queries, keys, values, output and softmax statistics. MLA expands keys and values to every head in
    training, so all four are as wide as the query heads.

    Limits: a mean over the layers that attend; recurrent mixers keep less.
    Check: Llama-3.1-8B, 4 * (32 + 8) * 128 + 4 * 32.
        >>> attention_activation_bytes(LLAMA_8B.attention, heads=32, kv_heads=8, head_dim=128)
        20608.0
    """
    spread = [g for g in groups if g.prefill_macs]
    if not spread:
        return float(4 * (heads + min(kv_heads, heads)) * head_dim + 4 * heads)
    wide = sum(
        g.layers * (g.prefill_macs + (g.kv_elements if g.decode_macs <= g.prefill_macs else g.prefill_macs))
        for g in spread
    )
    return 2 * wide / sum(g.layers for g in spread) + 4 * heads


def logits_bytes(tokens: float, vocab_size: int) -> float:
    """Peak bytes of a loss that is neither fused nor split into chunks: 12 bytes per logit in backward (10 in forward).

    The 12 bytes are the logit in 16 bit, its float32 copy, the probability and the gradient.

    Limits: frameworks that fuse the loss need less; the training model uses a fitted value per framework.
    Check: Llama-3.1-8B, 8192 tokens, in GiB.
        >>> round(logits_bytes(8192, 128_256) / GIB, 2)
        11.74
    """
    return LOGIT_BYTES_IN_BACKWARD * tokens * vocab_size


@dataclass(frozen=True, slots=True)
class EncoderPass:
    """An encoder that reads all its positions at once: patches of a vision tower, frames of speech, or a source text.

    Its matrices are the tensors counted per source position. Attention costs `attention_macs` multiply-adds per pair
    of positions and layer.
    """

    layers: int
    hidden_size: int
    attention_macs: float
    mlp_width: float

    def live_elements(self, *, rotary: bool, gated: bool, tensor_parallel: Column) -> Column:
        """Elements of 16 bit that the widest moment of a layer holds per position.

        In attention: the residual, the joint product, its three parts made contiguous, and rotated queries (two copies
        of 32 bit and one of 16 bit); without rotation the joint product and the output. In the MLP: residual, input,
        and two (gated: three) tensors of its width. Ranks split all but residual and input.

        Source: vLLM: model_executor/models/qwen2_5_vl.py and clip.py, 2026-11-26.
        Check: Qwen2.5-VL, 12 x 1,280.
            >>> float(EncoderPass(32, 1280, 2560.0, 3420.0).live_elements(rotary=True, gated=True, tensor_parallel=1))
            15360.0
        """
        h, f = self.hidden_size, self.mlp_width
        attention = h + (11 if rotary else 4) * h / tensor_parallel
        mlp = 2 * h + (3 if gated else 2) * f / tensor_parallel
        return np.maximum(attention, mlp)

    def attention_flops(self, positions: float) -> float:
        """Attention FLOPs of one pass, in which every position attends to every other.

        Limits: towers with windowed layers compute less.
        Check: CLIP ViT-L/14's 576 patches, 2 * 24 layers * 2 * 1024 * 576^2.
            >>> EncoderPass(24, 1024, 2 * 1024.0, 4096.0).attention_flops(576) / 1e9
            32.614907904
        """
        return 2 * self.layers * self.attention_macs * positions**2


@dataclass(frozen=True, slots=True)
class ImageInput:
    """How an image becomes patches for the vision tower and tokens for the language model.

    With `tile_pixels`, the image is cut into tiles of that side, up to `max_tiles`. Each tile gives
    `tokens_per_tile`. If there is more than one tile, one overview tile is added. Without `tile_pixels`, the image
    is read at its own size: `merge` x `merge` patches become one token, up to `max_tokens`. `video_frames` is the
    number of frames of the longest video, two of which become the tokens of one image; 0 without videos.
    """

    patch_pixels: int
    merge: int = 1
    tile_pixels: int | None = None
    max_tiles: int = 1
    tokens_per_tile: int | None = None
    max_tokens: int | None = None
    row_breaks: bool = False
    video_frames: int = 0

    def largest_item(self, context_tokens: float) -> tuple[float, float]:
        """Tokens and patches of the largest image, or of the longest video of such images that a context holds.

        Source: vLLM: model_executor/models/qwen2_vl.py, get_num_frames_with_most_features, 2026-11-26.
        Limits: the processor's default limits of pixels and tiles.
        Check: Qwen2.5-VL at 128,000 tokens: seven pairs of frames of 16,384 tokens, as vLLM logs.
            >>> ImageInput(14, 2, max_tokens=16_384, video_frames=14).largest_item(128_000)
            (114688.0, 458752.0)
        """
        if self.tile_pixels is not None:
            tiles = self.max_tiles + 1 if self.max_tiles > 1 else 1
            own = self.tokens_per_tile if self.tokens_per_tile is not None else self.tile_patches // self.merge**2
            return float(tiles * own), float(tiles * self.tile_patches)
        one = self.max_tokens or 0
        frames = max(1.0, float(min(self.video_frames // 2, context_tokens // max(one, 1))))
        return frames * one, frames * one * self.merge**2

    def _tile_count(self, width: int, height: int) -> int:
        side = self.tile_pixels or 1
        across, down = -(-width // side), -(-height // side)
        if across * down > self.max_tiles:
            scale = math.sqrt(across * down / self.max_tiles)
            across, down = max(1, int(across / scale)), max(1, int(down / scale))
        tiles = across * down
        return tiles + 1 if tiles > 1 else 1

    @property
    def tile_patches(self) -> int:
        """Patches of one tile; 0 if an image is read as a whole."""
        return (self.tile_pixels // self.patch_pixels) ** 2 if self.tile_pixels is not None else 0

    def token_count(self, width: int, height: int) -> int:
        """Tokens of the language model that an image becomes.

        Source: the image processors of the transformers library, one rule per family.
        Limits: processors round sides to multiples of their own; the result is accurate to one or two tokens per
        side.
        Check: Qwen2.5-VL (patch 14, merged 2 x 2), 36 * 36 for 1008 x 1008.
            >>> ImageInput(14, 2).token_count(1008, 1008)
            1296
        """
        if self.tile_pixels is not None:
            own = self.tokens_per_tile if self.tokens_per_tile is not None else self.tile_patches // self.merge**2
            return own * self._tile_count(width, height)
        side = self.patch_pixels * self.merge
        across, down = max(1, round(width / side)), max(1, round(height / side))
        count = across * down + (down if self.row_breaks else 0)
        return count if self.max_tokens is None else min(count, self.max_tokens)

    def patch_count(self, width: int, height: int) -> int:
        """Positions that the vision tower reads."""
        if self.tile_pixels is not None:
            return self.tile_patches * self._tile_count(width, height)
        count = max(1, round(width / self.patch_pixels)) * max(1, round(height / self.patch_pixels))
        return count if self.max_tokens is None else min(count, self.max_tokens * self.merge**2)


def tower_flops(
    tower: EncoderPass, images: ImageInput, patch_params: float, token_params: float, *, width: int, height: int
) -> float:
    """FLOPs of a vision tower and its projector for one image.

    Matrices of the tower count per patch, matrices of the projector per token, and attention per tile.

    Parameters:
        tower: shape of the vision tower.
        images: rule that gives patches and tokens of an image.
        patch_params: elements multiplied per patch.
        token_params: elements multiplied per image token.
        width: width of the image, pixels.
        height: height of the image, pixels.
    Limits: the patches of a tile attend only to each other; pooling inside the tower is not modeled.
    Check: CLIP ViT-L/14 at 336 (LLaVA 1.5): 576 patches through 2 * 302 M elements, attention and projector, in
    TFLOP.
        >>> round(registered("llava-hf/llava-1.5-7b-hf").image_flops(336, 336) / 1e12, 4)
        0.4047
    """
    patches, tokens = images.patch_count(width, height), images.token_count(width, height)
    tiles = max(1.0, patches / images.tile_patches) if images.tile_patches else 1.0
    attention = tiles * tower.attention_flops(patches / tiles)
    return 2 * patch_params * patches + attention + 2.0 * token_params * tokens


SAMPLE_NOTE_PREFIX = "a sample is "  # prefix of the assumption about a sample's size
OTHER_WEIGHTS_NOTE = ", a model of the same shape with other weights"  # end of the assumption on a name


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
    step_state_bytes: float = 0.0  # states of compressors for one token of a step, B
    recurrent_flops_per_token: float = 0.0
    absent_parts: int = 0  # mixers and feed-forward parts that layers lack, as in Nemotron-H and Mamba
    num_experts: int = 0
    experts_per_token: int = 0
    moe_layers: int = 0
    max_context_tokens: int | None = None
    tied_head: bool = False
    block: BlockKind = DEFAULT_BLOCK
    mtp_params: int = 0
    native: NativeQuantization | None = None
    cache_format: str = ""  # KV cache format that the checkpoint states; empty if it states none
    encoder: EncoderPass | None = None
    images: ImageInput | None = None
    sample: SampleWork | None = None
    law: SampleLaw | None = None
    assumed: tuple[str, ...] = ()
    shape_is_assumed: bool = False
    reranks: bool = False  # whether the model scores pairs of texts
    reads_images: bool = True  # False for requests without images; a GGUF checkpoint keeps its vision tower apart
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
    def num_sublayers(self) -> int:
        """Mixers and feed-forward parts. Tensor-parallel ranks add up the output of each.

        Check: Nemotron-H 8B, 52 layers of one part each, and Llama-3.1-8B, 32 layers of two.
            >>> registered("nvidia/Nemotron-H-8B-Base-8K").num_sublayers, LLAMA_8B.num_sublayers
            (52, 64)
        """
        return 2 * self.num_layers - self.absent_parts

    @property
    def expert_width(self) -> float:
        """MLP width of one routed expert; 0 without experts.

        Check:
            >>> registered("Qwen/Qwen3-30B-A3B").expert_width, LLAMA_8B.expert_width
            (768.0, 0.0)
        """
        return self._widest_inner(Part.ROUTED_EXPERTS)

    @property
    def dense_mlp_width(self) -> float:
        """MLP width of the widest layer without its routed experts.

        Check: a shared expert of 2,048, and three layers of 18,432; a shared expert of 512 in a model of 2,048.
            >>> registered("deepseek-ai/DeepSeek-R1").dense_mlp_width, LLAMA_8B.dense_mlp_width
            (18432.0, 14336.0)
            >>> registered("Qwen/Qwen3-Next-80B-A3B-Instruct").dense_mlp_width
            512.0
        """
        return self._widest_inner(Part.MLP, Part.SHARED_EXPERTS) if self.is_moe else self.mlp_width

    def _widest_inner(self, *parts: Part) -> float:
        """Largest width between the matrices of the MLPs in these parts of the model; 0 without any."""
        inner = (t.inputs for t in self.tensors if t.part in parts and t.role.endswith("down_proj"))
        return float(max(inner, default=0))

    @property
    def latent_up_elements(self) -> int:
        """Elements of the up-projections of latent attention (MLA) in all layers; 0 without it.

        Check:
            >>> registered("deepseek-ai/DeepSeek-V2-Lite").latent_up_elements == 27 * 512 * 4096
            True
        """
        return sum(t.params for t in self.tensors if t.role == "kv_b_proj")

    @property
    def latent_product_elements(self) -> int:
        """Elements of the products of these up-projections with the projections of queries and outputs, in all layers.

        A head's queries are projected to the latent and to the part with positions, and its latent to the output.
        """
        shapes = {t.role: t for t in self.tensors if t.part is Part.ATTENTION}
        down = shapes.get("kv_a_proj_with_mqa")
        queries = shapes.get("q_b_proj") or shapes.get("q_proj")
        if down is None or queries is None:
            return 0
        latent, layers = shapes["kv_b_proj"].inputs, len(down.layers)
        return layers * self.num_heads * (queries.inputs * down.outputs + latent * self.hidden_size)

    @property
    def patch_elements(self) -> int:
        """Pixel values of one patch; 0 without a vision tower."""
        return max((t.inputs for t in self.tensors if t.role == "patch_embedding"), default=0)

    @property
    def has_gated_tower(self) -> bool:
        """Whether the MLPs of the vision tower are gated."""
        return any(t.role == "tower.gate_proj" for t in self.tensors)

    @property
    def index_elements(self) -> float:
        """Elements of the key that an indexer of sparse attention caches per token; 0 without one."""
        return max((g.index_elements for g in self.attention), default=0.0)

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
        if stored.is_gguf and tensor.part is Part.ENCODER_TOWER and not self.reads_images:
            return 0.0
        if self.native is not None and stored.name == self.native.format:
            return tensor.count * native_bits(self.native, tensor, scales=False) / 8
        return tensor.params * self._bits_in(stored, tensor) / 8

    def _bits_in(self, stored: WeightFormat, tensor: Tensor) -> float:
        """Mean bits per element of a tensor that is converted to a format.

        A format of routed experts holds all linear matrices of a model that has none.
        """
        if stored.routed_experts_only and not self.is_moe:
            stored = replace(stored, routed_experts_only=False)
        shared = self.num_heads / min(self.kv_heads, self.num_heads)
        return stored_bits(
            stored,
            tensor,
            layers=self.num_layers,
            heads_per_kv=shared,
            tied_head=self.tied_head,
            native=self.native,
        )

    def published_in(self, stored: WeightFormat) -> ModelArchitecture:
        """This model as a checkpoint that was converted to a format.

        Check: Llama-3.1-8B in FP8, in GiB.
            >>> round(LLAMA_8B.published_in(WEIGHT_FORMATS["fp8"]).published_bytes() / GIB, 2)
            8.46
        """
        sizes = ((t, t.size * self._bits_in(stored, t)) for t in self.tensors)
        converted = tuple(StoredTensor(t.part, t.role, t.layers, bits) for t, bits in sizes if bits != 16.0 * t.size)
        return replace(self, native=NativeQuantization(stored.name, converted))

    def weights_bytes(self, stored: WeightFormat) -> float:
        """Bytes of all weights in a format: linear matrices quantized, all other tensors as the format stores them.

        In the format of the published checkpoint, tensors that the checkpoint left in 16 bit stay in 16 bit. A GGUF
        checkpoint keeps its vision tower in a file of its own, which counts only if the model reads images.

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

    def unsplit_bytes(self, stored: WeightFormat) -> float:
        """Bytes of the matrices that engines do not split over tensor-parallel ranks: routers, and the down-projections
        and indexers of latent attention.

        Source: vLLM: model_executor/models/deepseek_v2.py; SGLang: layers/attention/nsa/nsa_indexer.py
            (ReplicatedLinear), 2026-11-28.
        Check: DeepSeek-R1, 61 layers of 7,168 x (1,536 + 576) in FP8, and 58 routers of 7,168 x 256 in 16 bit.
            >>> unsplit = registered("deepseek-ai/DeepSeek-R1").unsplit_bytes(WEIGHT_FORMATS["fp8"])
            >>> round(unsplit / (61 * 7168 * 2112 + 2 * 58 * 7168 * 256), 2)
            1.0
        """
        return self._sum_once(
            f"unsplit {stored.name}",
            lambda: sum(
                self._stored_bytes(stored, t)
                for t in self.tensors
                if t.part is Part.ROUTER or t.role.startswith(UNSPLIT_ROLES)
            ),
        )

    def lora_params(self, rank: int, target_modules: Targets, *, magnitudes: bool = False) -> float:
        """Trainable elements of adapters of a rank; see `lora_params`."""
        return lora_params(self.tensors, rank, target_modules, magnitudes=magnitudes)

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


@dataclass(frozen=True, slots=True)
class LayerWidths:
    """Elements of one token in a mean layer. For experts, the elements of all copies of the token are summed."""

    queries: float  # elements of queries and attention output
    keys: float  # elements of keys and values
    dense: float  # width of the MLP and of shared experts
    routed: float  # width of routed experts
    dispatched: float  # elements dispatched to routed experts
    router: float  # router scores
    selected_experts: float  # experts selected
    norms: float  # norms before attention and MLP
    norm_readers: float  # matrices that read the output of a norm


@dataclass(frozen=True, slots=True)
class AdapterWidths:
    """Elements of one token in a mean layer that adapted matrices read."""

    inputs: float  # elements read by all adapted matrices
    unshared: float  # the same with each input once and without the attention output, which is kept anyway
    outputs: float  # elements of the attention output, if the output projection is adapted
    mlp_inputs: float  # elements read by adapted matrices of MLPs and experts
    matrices: float  # adapted matrices


def attention_widths(
    groups: Iterable[AttentionGroup], *, heads: int, kv_heads: int, head_dim: int
) -> tuple[float, float]:
    """(queries and output, keys and values) of one token in a mean layer that attends, in elements.

    MLA expands keys and values to every head in training, so all four are as wide as the query heads.

    Limits: recurrent mixers keep less.
    Check: Llama-3.1-8B, 2 * 32 * 128 and 2 * 8 * 128.
        >>> attention_widths(LLAMA_8B.attention, heads=32, kv_heads=8, head_dim=128)
        (8192.0, 2048.0)
    """
    spread = [g for g in groups if g.prefill_macs]
    if not spread:
        return float(2 * heads * head_dim), float(2 * min(kv_heads, heads) * head_dim)
    layers = sum(g.layers for g in spread)
    keys = sum(g.layers * (g.kv_elements if g.decode_macs <= g.prefill_macs else g.prefill_macs) for g in spread)
    return sum(g.layers * g.prefill_macs for g in spread) / layers, keys / layers


def layer_widths(model: ModelArchitecture) -> LayerWidths:
    """Widths of a mean layer. The width of an MLP is the input width of its last matrix.

    Check: Llama-3.1-8B.
        >>> widths = layer_widths(LLAMA_8B)
        >>> widths.queries, widths.keys, widths.dense, widths.routed, widths.norms, widths.norm_readers
        (8192.0, 2048.0, 14336.0, 0.0, 2.0, 5.0)
    """
    layers = max(1, model.num_layers)
    down = [t for t in model.tensors if t.role.endswith("down_proj") and t.per is not Per.NEVER]
    routed = [t for t in down if t.part is Part.ROUTED_EXPERTS]
    share = (model.moe_layers if model.is_moe else 0) / layers
    queries, keys = attention_widths(
        model.attention, heads=model.num_heads, kv_heads=model.kv_heads, head_dim=model.head_dim
    )
    return LayerWidths(
        queries=queries,
        keys=keys,
        dense=sum(_input_elements(t) for t in down if t.part is not Part.ROUTED_EXPERTS) / layers,
        routed=sum(map(_input_elements, routed)) / layers,
        dispatched=sum(t.outputs * t.used * len(t.layers) for t in routed) / layers,
        router=model.num_experts * share,
        selected_experts=model.experts_per_token * share,
        norms=float(model.block.norms),
        norm_readers=5.0 if model.is_gated else 4.0,
    )


def _input_elements(tensor: Tensor) -> float:
    """Elements of one token that the copies of a tensor read in all layers."""
    return float(tensor.inputs * tensor.used * len(tensor.layers))


def adapter_widths(model: ModelArchitecture, targets: Targets) -> AdapterWidths:
    """Elements that the adapters of a mean layer read.

    Check: Llama-3.1-8B, all seven matrices: 5h + nd + f; two inputs of h and the MLP product are read only by
    adapters.
        >>> widths = adapter_widths(LLAMA_8B, "all-linear")
        >>> widths.inputs == 5 * 4096 + 4096 + 14336, widths.unshared == 2 * 4096 + 14336, widths.matrices
        (True, True, 7.0)
    """
    adapted = [t for t in model.tensors if t.per is Per.TOKEN and is_adapted(t, targets)]
    layers = max(1, model.num_layers)
    elements_by_input: dict[tuple[str, tuple[int, ...]], float] = {}
    for t in adapted:
        name = _input_name(t, parallel=model.block.norms == 1)
        if name:
            elements_by_input[name, t.layers] = max(elements_by_input.get((name, t.layers), 0.0), _input_elements(t))
    return AdapterWidths(
        inputs=sum(map(_input_elements, adapted)) / layers,
        unshared=sum(elements_by_input.values()) / layers,
        outputs=sum(_input_elements(t) for t in adapted if t.role.endswith("o_proj")) / layers,
        mlp_inputs=sum(_input_elements(t) for t in adapted if t.part not in MIXER_PARTS) / layers,
        matrices=sum(t.used * len(t.layers) for t in adapted) / layers,
    )


def _input_name(tensor: Tensor, *, parallel: bool) -> str:
    """Name of the activation that a matrix reads; empty for the attention output, which is kept anyway."""
    if tensor.role.endswith("o_proj"):
        return ""
    if tensor.role.endswith("down_proj"):
        return f"{tensor.part}.product"
    return "norm" if parallel else str(tensor.part)
