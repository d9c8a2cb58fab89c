"""Training precisions and optimizers, and their bytes and operations per parameter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from app.sizing.model.architecture import ModelArchitecture
from app.sizing.model.formats import NF4_DOUBLE_QUANTIZED_BITS
from app.sizing.workload import Method, TrainingWorkload

BYTES_16_BIT, BYTES_32_BIT = 2.0, 4.0
# Bytes moved per logit: written in 16 bit, read and converted to 32 bit, its gradient written and read twice.
LOSS_BYTES_MOVED_PER_LOGIT = 22.0


@dataclass(frozen=True, slots=True)
class Precision:
    """A training precision.

    `format_class` selects the matrix rate and the coefficients. `master_bytes` is the 32-bit master copy of a
    parameter, in addition to its weights. A matrix in 8 or 4 bit reads its inputs and writes them twice, as they are
    and transposed (`conversion_bytes` per input), and keeps narrower inputs (`kept_bytes_saved` per input).
    `frozen_bytes` is the size of a parameter that is not trained.
    """

    name: str  # name of the precision
    format_class: str  # format class of its matrices
    weight_bytes: float  # weight as multiplied, bytes per parameter
    master_bytes: float  # 32-bit master copy, bytes per parameter
    frozen_bytes: float  # frozen weight, bytes per parameter
    conversion_bytes: float = 0.0  # bytes moved per converted matrix input
    kept_bytes_saved: float = 0.0  # bytes saved per kept matrix input
    needs_bf16: bool = False  # whether the hardware must support BF16

    @property
    def only_16_bit(self) -> bool:
        """Whether weights and master copy use no more than 16 bit."""
        return self.weight_bytes + self.master_bytes <= BYTES_16_BIT


def _mixed_precision(name: str, format_class: str, *, needs_bf16: bool = False) -> Precision:
    """Mixed precision: 16-bit weights with a 32-bit master copy; matrices run in the format of the name."""
    narrow = format_class in ("fp8", "fp4")
    return Precision(
        name,
        format_class,
        weight_bytes=BYTES_16_BIT,
        master_bytes=BYTES_32_BIT,
        frozen_bytes=1.0 if narrow else BYTES_16_BIT,
        conversion_bytes=5.0 if narrow else 0.0,
        kept_bytes_saved=1.0 if narrow else 0.0,
        needs_bf16=needs_bf16,
    )


def _uniform_precision(name: str, format_class: str, width: float, *, needs_bf16: bool = False) -> Precision:
    """A precision with one width for everything and no master copy."""
    return Precision(name, format_class, width, 0.0, width, needs_bf16=needs_bf16)


# Sources: Micikevicius et al. 2018 (arXiv:1710.03740) for mixed precision; Transformer Engine's documentation for
# FP8, MXFP8 and NVFP4; torchtune and Lightning for pure BF16.
PRECISIONS: Mapping[str, Precision] = MappingProxyType(
    {
        p.name: p
        for p in (
            _mixed_precision("bf16", "16bit", needs_bf16=True),
            _mixed_precision("fp16", "16bit"),
            _mixed_precision("fp8", "fp8"),
            _mixed_precision("mxfp8", "fp8"),
            _mixed_precision("nvfp4", "fp4"),
            _uniform_precision("fp32", "fp32", BYTES_32_BIT),
            _uniform_precision("tf32", "fp32", BYTES_32_BIT),
            _uniform_precision("bf16-true", "16bit", BYTES_16_BIT, needs_bf16=True),
        )
    }
)


@dataclass(frozen=True, slots=True)
class Optimizer:
    """An optimizer: bytes of states per parameter in 32 bit, and bytes that it moves per parameter of its shard.

    An optimizer step reads gradients, master copy and states, and writes everything except gradients. An optimizer
    that updates one matrix at a time holds `matrix_bytes` for each element of that matrix. `halves` says whether the
    states are 16 bit when nothing is kept in 32 bit.
    """

    name: str  # name of the optimizer
    state_bytes: float  # 32-bit states, bytes per parameter
    moved_bytes: float  # bytes moved per parameter and step
    halves: bool = True  # whether its states can be 16 bit
    matrix_bytes: float = 0.0  # temporary bytes per element of the matrix being updated
    flops_per_param_width: float = 0.0  # FLOPs per parameter and unit of matrix width


# Adafactor keeps a row and a column; 8-bit moments have one scale per block. Muon's Newton-Schulz runs five iterations
# of three products of the momentum matrix with its square.
# Sources: Loshchilov and Hutter 2019 (arXiv:1711.05101); Dettmers et al. 2022 (arXiv:2110.02861); Shazeer and Stern
# 2018 (arXiv:1804.04235); Chen et al. 2023 (arXiv:2302.06675); Jordan et al. 2024 (Muon).
OPTIMIZERS: Mapping[str, Optimizer] = MappingProxyType(
    {
        o.name: o
        for o in (
            Optimizer("adamw", 8.0, 30.0),
            Optimizer("adamw-8bit", 2.03, 18.0, halves=False),
            Optimizer("adafactor", 0.02, 16.0, halves=False, matrix_bytes=16.0),
            Optimizer("lion", 4.0, 22.0, matrix_bytes=4.0),
            Optimizer("muon", 4.0, 22.0, matrix_bytes=10.0, flops_per_param_width=30.0),
            Optimizer("sgd", 4.0, 22.0),
        )
    }
)

# A checkpoint keeps weights, master copy and two moments per parameter, for every optimizer.
CHECKPOINT_BYTES_PER_PARAM = (
    PRECISIONS["bf16"].weight_bytes + PRECISIONS["bf16"].master_bytes + OPTIMIZERS["adamw"].state_bytes
)


@dataclass(frozen=True, slots=True)
class Recipe:
    """Bytes held, sent and moved per parameter, and extra FLOPs, for a method, a precision and an optimizer.

    Mixed precision keeps 16-bit weights and a 32-bit master copy. Gradients are 32 bit in Megatron-LM and wherever
    they follow sharded 32-bit weights, and 16 bit elsewhere. Frameworks that copy the gradients of their shard into
    32 bit keep 4 bytes more.

    Source: Rajbhandari et al. 2020 (arXiv:1910.02054), section 3.1; Dettmers et al. 2023 (arXiv:2305.14314).
    Check: AdamW in BF16 takes 16 bytes, 18 with 32-bit gradients, 20 with a 32-bit copy of them; bf16-true takes 8.
        >>> bf16 = PRETRAIN_COUNTS.recipe
        >>> weights = bf16.weight_bytes_per_param + bf16.gradient_bytes_per_param
        >>> weights + bf16.master_bytes_per_param + bf16.state_bytes_per_param
        16.0
        >>> pure = counts_of(PURE_BF16).recipe
        >>> weights = pure.weight_bytes_per_param + pure.gradient_bytes_per_param
        >>> weights + pure.master_bytes_per_param + pure.state_bytes_per_param
        8.0
    """

    frozen: bool  # whether only adapters are trained
    quantized: bool  # whether the frozen base weights are in 4 bit
    adapter_rank: float  # rank of the adapters; 0 without adapters
    element_bytes: float  # activation, bytes per element
    mixed: bool  # whether trained weights have a 32-bit master copy
    weight_bytes_per_param: float  # weight as multiplied, bytes
    base_bytes_per_param: float  # weight as stored (trained, or frozen and perhaps quantized), bytes
    gathered_bytes_per_param: float  # weight as gathered from other ranks, bytes
    layer_bytes_per_param: float  # gathered weight while its layer is in use, bytes
    gradient_bytes_per_param: float  # gradient that is not kept in 32 bit, bytes
    master_bytes_per_param: float  # 32-bit master copy, bytes
    state_bytes_per_param: float  # optimizer states, bytes
    wide_state_bytes_per_param: float  # optimizer states in 32 bit, bytes
    narrow_state_bytes_per_param: float  # optimizer states if weights and states are all in 16 bit, bytes
    matrix_update_bytes_per_param: float  # temporaries of an optimizer that updates one matrix at a time, bytes
    optimizer_moved_bytes_per_param: float  # bytes moved by the optimizer step
    optimizer_flops_per_param_width: float  # FLOPs of the optimizer step per unit of matrix width
    dequantised_bytes_per_param: float  # bytes moved to dequantize a weight once
    conversion_bytes_per_input: float  # bytes moved to convert one matrix input
    kept_bytes_saved_per_input: float  # bytes saved per kept matrix input
    products_per_param: float  # matrix products, forward and backward; a frozen weight has one backward product


def recipe_of(workload: TrainingWorkload) -> Recipe:
    """Return the bytes and operations per parameter of a workload's method, precision and optimizer."""
    precision, optimizer = PRECISIONS[workload.precision], OPTIMIZERS[workload.optimizer]
    frozen, quantized = workload.method is not Method.FULL, workload.method is Method.QLORA
    frozen_bytes = nf4_bytes(workload.model) if quantized else precision.frozen_bytes
    base = frozen_bytes if frozen else precision.weight_bytes
    return Recipe(
        frozen=frozen,
        quantized=quantized,
        adapter_rank=float(workload.lora_rank) if frozen else 0.0,
        element_bytes=BYTES_32_BIT if precision.weight_bytes == BYTES_32_BIT else BYTES_16_BIT,
        mixed=not frozen and precision.master_bytes > 0,
        weight_bytes_per_param=precision.weight_bytes,
        base_bytes_per_param=base,
        gathered_bytes_per_param=frozen_bytes if quantized else precision.weight_bytes,
        layer_bytes_per_param=BYTES_32_BIT if base == BYTES_32_BIT else BYTES_16_BIT,
        gradient_bytes_per_param=precision.weight_bytes,
        master_bytes_per_param=precision.master_bytes,
        state_bytes_per_param=optimizer.state_bytes / (2 if precision.only_16_bit and optimizer.halves else 1),
        wide_state_bytes_per_param=optimizer.state_bytes,
        narrow_state_bytes_per_param=optimizer.state_bytes / (2 if optimizer.halves else 1),
        matrix_update_bytes_per_param=optimizer.matrix_bytes,
        optimizer_moved_bytes_per_param=optimizer.moved_bytes,
        optimizer_flops_per_param_width=optimizer.flops_per_param_width,
        dequantised_bytes_per_param=NF4_DOUBLE_QUANTIZED_BITS / 8 + 2 * BYTES_16_BIT if quantized else 0.0,
        conversion_bytes_per_input=precision.conversion_bytes,
        kept_bytes_saved_per_input=precision.kept_bytes_saved,
        products_per_param=2.0 if frozen else 3.0,
    )


def nf4_bytes(model: ModelArchitecture) -> float:
    """Average bytes per parameter of an NF4 base model with double quantization.

    Parameters that quantizers do not convert stay in 16 bit. Source: Dettmers et al. 2023 (arXiv:2305.14314).
    """
    quantized = model.linear_params / max(1, model.total_params)
    return quantized * (NF4_DOUBLE_QUANTIZED_BITS / 8) + (1 - quantized) * BYTES_16_BIT
