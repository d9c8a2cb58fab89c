"""Number formats: what a weight or a cached value occupies, and which rate it computes at."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class WeightFormat:
    """How weights are stored.

    `linear_bits` is what one element of a quantised matrix occupies, scales included;
    `head_bits` and `embedding_bits` are what the output head and the look-up tables keep, and
    `other_bits` everything else (norms, routers, encoder towers).
    `rate` names the matrix rate the hardware would use when it computes in this format, and None
    says that weights are widened to 16 bit before they are multiplied (weight-only).
    """

    name: str
    linear_bits: float
    rate: str | None
    head_bits: float = 16.0
    embedding_bits: float = 16.0
    other_bits: float = 16.0
    routed_experts_only: bool = False

    @property
    def is_gguf(self) -> bool:
        return self.name.startswith("gguf-")

    @property
    def nominal_bits(self) -> int:
        """The width in the format's name: 4 for every 4-bit scheme whatever its scales cost."""
        return 32 if self.linear_bits > 16 else 16 if self.linear_bits > 9 else int(self.linear_bits)


def _gguf(name: str, linear_bits: float, *, head_bits: float, embedding_bits: float) -> WeightFormat:
    return WeightFormat(
        name=f"gguf-{name}",
        linear_bits=linear_bits,
        rate=None,
        head_bits=head_bits,
        embedding_bits=embedding_bits,
        other_bits=32.0 if linear_bits < 16 else 16.0,
    )


# Bits of each scheme: scales included. INT4 keeps one fp16 scale and one packed zero point per
# 128 weights (4 + 16/128 + 4/128), NF4 one fp32 scale per 64 (4.5), MXFP4 one byte per 32, NVFP4
# one byte per 16. Q8_0 and Q6_K are pure block types; the K mixtures raise some matrices, so their
# linear bits are what llama.cpp's table of Llama-3.1-8B file sizes leaves after head and embedding.
WEIGHT_FORMATS = MappingProxyType(
    {
        f.name: f
        for f in (
            WeightFormat("fp32", 32.0, "fp32", head_bits=32.0, embedding_bits=32.0, other_bits=32.0),
            WeightFormat("bf16", 16.0, "bf16"),
            WeightFormat("fp16", 16.0, "fp16"),
            WeightFormat("fp8", 8.0, "fp8"),
            WeightFormat("int8", 8.0, "int8"),
            WeightFormat("int4-awq", 4.15625, None),
            WeightFormat("int4-gptq", 4.15625, None),
            WeightFormat("int4-mlx", 4.5, None, head_bits=4.5, embedding_bits=4.5),
            WeightFormat("int8-mlx", 8.5, None, head_bits=8.5, embedding_bits=8.5),
            WeightFormat("nf4", 4.5, None),
            WeightFormat("nvfp4", 4.5, "fp4"),
            WeightFormat("mxfp4", 4.25, "fp4", routed_experts_only=True),
            _gguf("f16", 16.0, head_bits=16.0, embedding_bits=16.0),
            _gguf("q8_0", 8.5, head_bits=8.5, embedding_bits=8.5),
            _gguf("q6_k", 6.5625, head_bits=6.5625, embedding_bits=6.5625),
            _gguf("q5_k_m", 5.655, head_bits=6.5625, embedding_bits=5.5),
            _gguf("q4_k_m", 4.799, head_bits=6.5625, embedding_bits=4.5),
            _gguf("q4_k_s", 4.538, head_bits=6.5625, embedding_bits=4.5),
            _gguf("q4_0", 4.5, head_bits=6.5625, embedding_bits=4.5),
            _gguf("q3_k_m", 3.845, head_bits=6.5625, embedding_bits=3.4375),
            _gguf("q2_k", 2.944, head_bits=6.5625, embedding_bits=2.625),
        )
    }
)

# Bytes of one cached element.
KV_FORMATS = MappingProxyType({"bf16": 2.0, "fp16": 2.0, "fp8": 1.0, "int8": 1.0, "gguf-q8_0": 1.0625, "gguf-q4_0": 0.5625})

SIXTEEN_BIT = ("bf16", "fp16")
