"""Number formats: bytes of a weight or of a cached value, and the matrix rate that a format computes at."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from app.sizing.model.tensors import Part, Tensor


class FormatUse(StrEnum):
    """Which requests consider a format if they name none."""

    SERVICE = "service"  # considered for every request: formats of 16 and 8 bits
    PERSONAL = "personal"  # considered for personal use too: 4 bits, if the user accepts the loss of accuracy
    REQUESTED = "asked"  # considered only if the request names the format


@dataclass(frozen=True, slots=True)
class WeightFormat:
    """How weights are stored.

    `linear_bits` are the bits per element of a quantized matrix, scales included; `row_bits` are added per output
    row. `head_bits` and `embedding_bits` apply to the output head and the look-up tables, and `other_bits` to all
    other tensors (norms, routers, encoder towers). `rate` names the matrix rate of hardware that computes in this
    format; None means that weights are widened to 16 bit before they are multiplied (weight-only). `default_use`
    says which requests consider the format if they name none.
    """

    name: str
    linear_bits: float
    rate: str | None
    default_use: FormatUse = FormatUse.REQUESTED
    head_bits: float = 16.0
    embedding_bits: float = 16.0
    other_bits: float = 16.0
    routed_experts_only: bool = False
    row_bits: float = 0.0

    @property
    def is_gguf(self) -> bool:
        return self.name.startswith("gguf-")

    @property
    def nominal_bits(self) -> int:
        """The width in the format's name: 4 for every 4-bit scheme, whatever its scales cost.

        Check:
            >>> [WEIGHT_FORMATS[name].nominal_bits for name in ("fp32", "bf16", "gguf-q8_0", "int4-awq", "nf4")]
            [32, 16, 8, 4, 4]
        """
        return 32 if self.linear_bits > 16 else 16 if self.linear_bits > 9 else int(self.linear_bits)

    def format_class(self, *, native: bool) -> str:
        """The class of coefficients that apply to the format: its matrix rate if the device supports it natively.

        Check:
            >>> fp8 = WEIGHT_FORMATS["fp8"]
            >>> fp8.format_class(native=True), fp8.format_class(native=False)
            ('fp8', 'weight_only')
        """
        if self.linear_bits == 16.0:
            return "16bit"
        return self.rate if native and self.rate is not None else "weight_only"


@dataclass(frozen=True, slots=True)
class KvFormat:
    """How keys and values are cached: bytes per element, and the formats of a software stack that provide it."""

    name: str
    element_bytes: float
    provided_by: tuple[str, ...]

    def is_supported_by(self, supported_formats: Collection[str]) -> bool:
        """Whether a stack with these cache formats supports this one. A stack that names none supports 16 bit."""
        return any(f in (supported_formats or SIXTEEN_BIT) for f in self.provided_by)


# Bits per element of GGUF block types: bits of a block divided by its elements.
BLOCK_BITS: Mapping[str, float] = {
    "f32": 32.0,
    "f16": 16.0,
    "q8_0": 8.5,
    "q6_k": 6.5625,
    "q5_k": 5.5,
    "q5_1": 6.0,
    "q5_0": 5.5,
    "q4_k": 4.5,
    "q4_1": 5.0,
    "q4_0": 4.5,
    "iq4_nl": 4.5,
    "q3_k": 3.4375,
    "q2_k": 2.625,
    "iq4_xs": 4.25,
    "iq3_s": 3.4375,
    "iq3_xxs": 3.0625,
    "iq2_s": 2.5625,
    "iq2_xs": 2.3125,
    "iq2_xxs": 2.0625,
    "iq1_m": 1.75,
    "iq1_s": 1.5625,
}


@dataclass(frozen=True, slots=True)
class _ImportanceMixture:
    """Block types of a GGUF file that is made with an importance matrix.

    Those of most matrices, the embedding, the head, attention outputs, values, values of key/value heads that serve
    fewer than four query heads, the first eighth of down projections, queries and keys, and gate and up projections of
    the layers in the middle; "" is the type of most matrices.
    """

    base: str
    embedding: str
    head: str
    output: str = ""
    values: str = "q4_k"
    own_values: str = ""
    first_down: str = ""
    queries: str = ""
    middle: str = ""

    def block_type(self, role: str, layer: int, layers: int, heads_per_kv: float) -> str:
        if role in _VALUES:
            return self.values if heads_per_kv >= 4 or role != "v_proj" else self.own_values or self.base
        if role in _DOWN and layer < layers // 8:
            return self.first_down or self.base
        if role in _OUT:
            return self.output or self.base
        if role in ("q_proj", "k_proj"):
            return self.queries or self.base
        if role.endswith(("gate_proj", "up_proj")) and layers // 8 <= layer < 7 * layers // 8:
            return self.middle or self.base
        return self.base


# As llama.cpp chooses them (src/llama-quant.cpp, llama_tensor_get_type_impl, read 2026-11-27).
_IMPORTANCE_MIXTURES: Mapping[str, _ImportanceMixture] = {
    "iq4_nl": _ImportanceMixture("iq4_nl", "iq4_nl", "q6_k", values="q5_k", first_down="q5_k"),
    "iq4_xs": _ImportanceMixture("iq4_xs", "iq4_xs", "q6_k", values="q5_k", first_down="q5_k"),
    "iq3_m": _ImportanceMixture("iq3_s", "iq3_s", "q6_k", output="q4_k", own_values="q4_k", first_down="q4_k"),
    "iq3_s": _ImportanceMixture("iq3_s", "iq3_s", "q6_k"),
    "iq3_xs": _ImportanceMixture("iq3_s", "iq3_s", "q6_k", queries="iq3_xxs", middle="iq3_xxs"),
    "iq3_xxs": _ImportanceMixture("iq3_xxs", "iq3_s", "q5_k", output="iq3_s", queries="iq2_s"),
    "iq2_m": _ImportanceMixture("iq2_s", "iq3_s", "q5_k", output="iq3_s", own_values="iq3_s", first_down="iq3_s"),
    "iq2_s": _ImportanceMixture("iq2_xs", "iq3_s", "q5_k", output="iq3_s", own_values="iq3_s", first_down="iq3_s"),
    "iq2_xs": _ImportanceMixture("iq2_xs", "q2_k", "q5_k", own_values="q2_k", first_down="q2_k"),
    "iq2_xxs": _ImportanceMixture("iq2_xxs", "q2_k", "q5_k", own_values="q2_k", first_down="q2_k"),
    "iq1_m": _ImportanceMixture("iq1_m", "q2_k", "q5_k", output="iq2_xxs", own_values="q2_k", first_down="q2_k"),
    "iq1_s": _ImportanceMixture("iq1_s", "q2_k", "q5_k", output="iq2_xxs", own_values="q2_k", first_down="q2_k"),
}
# Fallback block types for rows whose length is not a multiple of 256.
_SHORT_ROWS = {"q6_k": "q8_0", "q5_k": "q5_1", "q4_k": "q5_0", "q3_k": "iq4_nl", "q2_k": "iq4_nl"}
_VALUES, _DOWN, _OUT = ("v_proj", "kv_b_proj"), ("down_proj", "experts.down_proj"), ("o_proj",)


def _has_extra_bits(layer: int, layers: int) -> bool:
    """Layers whose value and down projections get more bits in a medium mixture: both ends, and every third layer
    between.
    """
    return layer < layers // 8 or layer >= 7 * layers // 8 or (layer - layers // 8) % 3 == 2


def _gguf_block_type(mixture: str, role: str, layer: int, layers: int, heads_per_kv: float) -> str:
    """Block type of one matrix in a GGUF file type, as llama.cpp chooses it without an importance matrix."""
    if mixture in _IMPORTANCE_MIXTURES:
        return _IMPORTANCE_MIXTURES[mixture].block_type(role, layer, layers, heads_per_kv)
    base = mixture if mixture in BLOCK_BITS else mixture.rsplit("_", 1)[0]
    values, down, out, fused = role in _VALUES, role in _DOWN, role in _OUT, role == "qkv_proj"
    if mixture == "q2_k":
        if values:
            return "q4_k" if heads_per_kv >= 4 else "q3_k"
        return "q3_k" if down or out else base
    if mixture == "q3_k_m":
        if values:
            return "q5_k" if layer < 2 else "q4_k"
        if down:
            return "q5_k" if layer < layers // 16 else "q4_k"
        return "q4_k" if out or fused else base
    if mixture == "q3_k_l":
        return "q5_k" if values or down or out else "q4_k" if fused else base
    if mixture == "q4_k_s" and ((values and layer < 4) or (down and layer < layers // 8)):
        return "q5_k"
    if mixture in ("q4_k_m", "q5_k_m"):
        if (values or down) and _has_extra_bits(layer, layers):
            return "q6_k"
        if fused:
            return "q5_k" if mixture == "q4_k_m" else "q6_k"
    return base


def _gguf_bits(stored: WeightFormat, tensor: Tensor, *, layers: int, heads_per_kv: float, tied_head: bool) -> float:
    """Mean bits per element of one tensor in a GGUF file type.

    Vectors and routers stay in 32 bit. The head is Q6_K, and a tied embedding has the type of the head.

    Source: llama.cpp, which chooses without an importance matrix.
    Limits: files made with an importance matrix differ by a few percent.
    Check: Llama-3.1-8B in Q4_K_M, bits per weight over the whole file.
        >>> round(8 * LLAMA_8B.weights_bytes(WEIGHT_FORMATS["gguf-q4_k_m"]) / LLAMA_8B.total_params, 4)
        4.8944
    """
    mixture = stored.name.removeprefix("gguf-")
    if tensor.inputs == 1 or tensor.part is Part.ROUTER:
        return 32.0
    whole, own = mixture in ("f16", "q8_0"), _IMPORTANCE_MIXTURES.get(mixture)
    if tensor.part is Part.HEAD or (tensor.part is Part.EMBEDDING and tied_head and tensor.role == "embed_tokens"):
        return _row_bits(mixture if whole else "q6_k" if own is None else own.head, tensor.inputs)
    if tensor.part is Part.ENCODER_TOWER:
        return 16.0  # stored in a separate projector file
    if whole or tensor.part is Part.EMBEDDING:
        usual = mixture if whole else _gguf_block_type(mixture, "", 0, 1, 1.0)
        return _row_bits(usual if own is None else own.embedding, tensor.inputs)
    chosen = [_gguf_block_type(mixture, tensor.role, layer, layers, heads_per_kv) for layer in tensor.layers]
    return sum(_row_bits(kind, tensor.inputs) for kind in chosen) / len(chosen)


def _row_bits(kind: str, row: int) -> float:
    if row % 256:
        kind = _SHORT_ROWS.get(kind, "iq4_nl" if kind.startswith("iq") else kind)
    return BLOCK_BITS["f16" if kind not in ("f16", "f32") and row % 32 else kind]


def stored_bits(
    stored: WeightFormat,
    tensor: Tensor,
    *,
    layers: int,
    heads_per_kv: float,
    tied_head: bool,
    native: NativeQuantization | None = None,
) -> float:
    """Mean bits per element of a tensor in a format.

    A GGUF file keeps experts that were published in MXFP4 as they are, whatever its type.
    """
    if stored.is_gguf:
        kept = None if native is None or tensor.part is not Part.ROUTED_EXPERTS else native_bits(native, tensor)
        if kept == MXFP4_BITS * tensor.size:
            return MXFP4_BITS
        return _gguf_bits(stored, tensor, layers=layers, heads_per_kv=heads_per_kv, tied_head=tied_head)
    if tensor.quantized:
        if stored.routed_experts_only and tensor.part is not Part.ROUTED_EXPERTS:
            return 16.0
        return stored.linear_bits + stored.row_bits / tensor.inputs
    if tensor.part is Part.HEAD:
        return stored.head_bits
    if tensor.part is Part.EMBEDDING:
        return stored.head_bits if tied_head else stored.embedding_bits
    return stored.other_bits


def _gguf_format(kind: str, default_use: FormatUse = FormatUse.REQUESTED) -> WeightFormat:
    own = _IMPORTANCE_MIXTURES.get(kind)
    base = BLOCK_BITS[own.base if own is not None else kind if kind in BLOCK_BITS else kind.rsplit("_", 1)[0]]
    return WeightFormat(
        f"gguf-{kind}",
        base,
        None,
        default_use,
        head_bits=base if base in (16.0, 8.5) else BLOCK_BITS["q6_k"],
        embedding_bits=base,
        other_bits=32.0,
    )


def _index_by_name(*formats: WeightFormat) -> Mapping[str, WeightFormat]:
    return MappingProxyType({f.name: f for f in formats})


# Bits of each scheme, scales included. INT8 has one FP32 scale per output row; INT4 one FP16 scale and one packed zero
# point per 128 weights; NF4 one FP32 scale per 64; MXFP4 one byte per 32; NVFP4 one byte per 16; MLX an FP16 scale and
# offset per 64. A GGUF file type is a mixture of block types, by matrix and depth.
# Sources: AWQ (arXiv:2306.00978), GPTQ (arXiv:2210.17323), QLoRA (arXiv:2305.14314), OCP Microscaling formats 1.0,
# NVIDIA NVFP4, quantized layers of MLX, block types of llama.cpp.
INT4_BITS = 4 + 16 / 128 + 4 / 128
INT8_GPTQ_BITS = 8 + 16 / 128 + 4 / 128
NF4_BITS = 4 + 32 / 64
NF4_DOUBLE_QUANTIZED_BITS = 8 * 0.515869  # one byte per 64 and one FP32 scale per 256 bytes: 4 + 8/64 + 32/(64 * 256)
MXFP4_BITS = 4 + 8 / 32
NVFP4_BITS = 4 + 8 / 16
MLX_4_BITS, MLX_8_BITS = 4 + 32 / 64, 8 + 32 / 64

WEIGHT_FORMATS = _index_by_name(
    WeightFormat("fp32", 32.0, "fp32", head_bits=32.0, embedding_bits=32.0, other_bits=32.0),
    WeightFormat("bf16", 16.0, "bf16", FormatUse.SERVICE),
    WeightFormat("fp16", 16.0, "fp16", FormatUse.SERVICE),
    WeightFormat("fp8", 8.0, "fp8", FormatUse.SERVICE),
    WeightFormat("int8", 8.0, "int8", FormatUse.SERVICE, row_bits=32.0),
    WeightFormat("int4-awq", INT4_BITS, None, FormatUse.PERSONAL),
    WeightFormat("int4-gptq", INT4_BITS, None, FormatUse.PERSONAL),
    WeightFormat("int4-mlx", MLX_4_BITS, None, FormatUse.PERSONAL, head_bits=MLX_4_BITS, embedding_bits=MLX_4_BITS),
    WeightFormat("int8-mlx", MLX_8_BITS, None, FormatUse.SERVICE, head_bits=MLX_8_BITS, embedding_bits=MLX_8_BITS),
    WeightFormat("int8-gptq", INT8_GPTQ_BITS, None),
    WeightFormat("nf4", NF4_BITS, None),
    WeightFormat("nvfp4", NVFP4_BITS, "fp4", FormatUse.PERSONAL),
    WeightFormat("mxfp4", MXFP4_BITS, "fp4", FormatUse.PERSONAL, routed_experts_only=True),
    _gguf_format("f16"),
    _gguf_format("q8_0", FormatUse.SERVICE),
    _gguf_format("q6_k"),
    _gguf_format("q5_k_m", FormatUse.PERSONAL),
    _gguf_format("q5_k_s"),
    _gguf_format("q5_1"),
    _gguf_format("q5_0"),
    _gguf_format("q4_k_m", FormatUse.PERSONAL),
    _gguf_format("q4_k_s"),
    _gguf_format("q4_1"),
    _gguf_format("q4_0"),
    _gguf_format("q3_k_l"),
    _gguf_format("q3_k_m"),
    _gguf_format("q3_k_s"),
    _gguf_format("q2_k"),
    *(_gguf_format(kind) for kind in _IMPORTANCE_MIXTURES),
)
SIXTEEN_BIT = ("bf16", "fp16")

INT4_CACHE_BITS = 4 + 32 / 128  # a 16-bit scale and zero point for each token and head of 128 elements

# The engine chooses the KV cache format itself; engines use the same name.
AUTO_KV = "auto"
KV_FORMATS: Mapping[str, KvFormat] = {
    f.name: f
    for f in (
        KvFormat("bf16", 2.0, SIXTEEN_BIT),
        KvFormat("fp16", 2.0, SIXTEEN_BIT),
        KvFormat("fp8", 1.0, ("fp8",)),
        KvFormat("int8", 1.0, ("int8", "gguf-q8_0")),
        KvFormat("gguf-q8_0", BLOCK_BITS["q8_0"] / 8, ("int8", "gguf-q8_0")),
        KvFormat("gguf-q4_0", BLOCK_BITS["q4_0"] / 8, ("gguf-q4_0",)),
        KvFormat("nvfp4", NVFP4_BITS / 8, ("nvfp4",)),
        KvFormat("int4", INT4_CACHE_BITS / 8, ("int4",)),
    )
}


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """Bits of one copy of a tensor in a checkpoint (mean of its layers), without and of the scales of square blocks."""

    part: Part
    role: str
    layers: tuple[int, ...]
    bits: float
    block_scale_bits: float = 0.0


@dataclass(frozen=True, slots=True)
class NativeQuantization:
    """How the weights are published: the format of most quantized elements, and the tensors that are not in 16 bit."""

    format: str
    stored: tuple[StoredTensor, ...] = ()


def native_bits(native: NativeQuantization, tensor: Tensor, *, scales: bool = True) -> float:
    """Total bits of one tensor in the checkpoint. Scales of square blocks are a fraction of a percent."""
    for each in native.stored:
        if (each.role, each.part, each.layers) == (tensor.role, tensor.part, tensor.layers):
            return each.bits + each.block_scale_bits * scales
    return tensor.size * 16.0
