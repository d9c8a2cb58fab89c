"""What training precisions and optimizers are, one record each, and what they make of one parameter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from app.sizing.model.architecture import ModelArchitecture
from app.sizing.model.formats import NF4_DOUBLE_QUANTISED_BITS
from app.sizing.workload import Method, TrainingWorkload

BYTES_16_BIT, BYTES_32_BIT = 2.0, 4.0
# Bytes moved of one logit, counted: written in 16 bit, read and widened, its gradient written and read twice.
LOSS_BYTES_MOVED_PER_LOGIT = 22.0


@dataclass(frozen=True, slots=True)
class Precision:
    """A training precision.

    `format_class` names the matrix rate and the coefficients. `master_bytes` of a parameter lie in 32 bit beside its
    weights. A matrix in 8 or 4 bit reads what it converts and writes it twice, as it is and transposed
    (`conversion_bytes` per input), and keeps its inputs narrower (`kept_bytes_saved` per input). `frozen_bytes` hold a
    parameter that is not trained.
    """

    name: str
    format_class: str
    weight_bytes: float
    master_bytes: float
    frozen_bytes: float
    conversion_bytes: float = 0.0
    kept_bytes_saved: float = 0.0
    needs_bf16: bool = False

    @property
    def only_16_bit(self) -> bool:
        """Whether nothing is kept in 32 bit."""
        return self.weight_bytes + self.master_bytes <= BYTES_16_BIT


def _mixed(name: str, format_class: str, *, needs_bf16: bool = False) -> Precision:
    """Mixed precision: 16-bit weights beside a 32-bit master copy; matrices in the format the name says."""
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


def _whole(name: str, format_class: str, width: float, *, needs_bf16: bool = False) -> Precision:
    """Everything in one width, without a master copy."""
    return Precision(name, format_class, width, 0.0, width, needs_bf16=needs_bf16)


# Sources: Micikevicius et al. 2018 (arXiv:1710.03740) for mixed precision; Transformer Engine's documentation for
# FP8, MXFP8 and NVFP4; torchtune and Lightning for pure BF16.
PRECISIONS: Mapping[str, Precision] = MappingProxyType(
    {
        p.name: p
        for p in (
            _mixed("bf16", "16bit", needs_bf16=True),
            _mixed("fp16", "16bit"),
            _mixed("fp8", "fp8"),
            _mixed("mxfp8", "fp8"),
            _mixed("nvfp4", "fp4"),
            _whole("fp32", "fp32", BYTES_32_BIT),
            _whole("tf32", "fp32", BYTES_32_BIT),
            _whole("bf16-true", "16bit", BYTES_16_BIT, needs_bf16=True),
        )
    }
)


@dataclass(frozen=True, slots=True)
class Optimizer:
    """An optimizer: bytes of states per parameter in 32 bit, and bytes it moves per parameter of its shard.

    It reads gradient, master copy and states, and writes all but the gradient. One that takes a matrix at a time holds
    `matrix_bytes` of each of its elements. `halves` says that its states are
    16 bit where nothing is kept in 32.
    """

    name: str
    state_bytes: float
    moved_bytes: float
    halves: bool = True
    matrix_bytes: float = 0.0
    flops_per_param_width: float = 0.0


# Adafactor keeps a row and a column; eight-bit moments carry a scale per block. Muon's Newton-Schulz: five iterations
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

# A checkpoint keeps weights, master copy and two moments of a parameter, whatever the run's own optimizer.
CHECKPOINT_BYTES_PER_PARAM = (
    PRECISIONS["bf16"].weight_bytes + PRECISIONS["bf16"].master_bytes + OPTIMIZERS["adamw"].state_bytes
)


@dataclass(frozen=True, slots=True)
class Recipe:
    """What method, precision and optimizer make of one parameter: bytes held, sent and moved, and extra FLOPs.

    Mixed precision keeps 16-bit weights beside a master copy in 32 bit; gradients are 32 bit in Megatron
    and where they follow sharded 32-bit weights, 16 bit elsewhere. Frameworks that copy the gradients of
    their shard into 32 bit keep 4 bytes more.
    Source: Rajbhandari et al. 2020 (arXiv:1910.02054), section 3.1; Dettmers et al. 2023 (arXiv:2305.14314).
    Check: AdamW in BF16 is 16 bytes, with 32-bit gradients 18, with a 32-bit copy of them 20; 8 in bf16-true.
        >>> bf16 = PRETRAIN_COUNTS.recipe
        >>> weights = bf16.weight_bytes_per_param + bf16.gradient_bytes_per_param
        >>> weights + bf16.master_bytes_per_param + bf16.state_bytes_per_param
        16.0
        >>> pure = counts_of(PURE_BF16).recipe
        >>> weights = pure.weight_bytes_per_param + pure.gradient_bytes_per_param
        >>> weights + pure.master_bytes_per_param + pure.state_bytes_per_param
        8.0
    """

    frozen: bool  # only adapters are trained
    quantised: bool  # beside weights in 4 bit
    adapter_rank: float
    element_bytes: float  # of an activation
    mixed: bool  # trained weights have a master copy in 32 bit
    weight_bytes_per_param: float  # as multiplied
    base_bytes_per_param: float  # of a weight as it is held: trained, or frozen and perhaps quantised
    gathered_bytes_per_param: float  # of a weight on its way from other ranks
    layer_bytes_per_param: float  # of a gathered weight while its layer is in use
    gradient_bytes_per_param: float  # where they are not kept in 32 bit
    master_bytes_per_param: float
    state_bytes_per_param: float
    wide_state_bytes_per_param: float  # where they are in 32 bit
    narrow_state_bytes_per_param: float  # where weights and states are all in 16 bit
    matrix_update_bytes_per_param: float  # of the matrix that is stepped, where one is at a time
    optimizer_moved_bytes_per_param: float
    optimizer_flops_per_param_width: float
    dequantised_bytes_per_param: float  # read and written to widen a quantised weight once
    conversion_bytes_per_input: float  # per input of a matrix
    kept_bytes_saved_per_input: float
    products_per_param: float  # forward and backward; half of backward where weights are frozen


def recipe_of(workload: TrainingWorkload) -> Recipe:
    """The recipe of a run."""
    precision, optimizer = PRECISIONS[workload.precision], OPTIMIZERS[workload.optimizer]
    frozen, quantised = workload.method is not Method.FULL, workload.method is Method.QLORA
    held = nf4_bytes(workload.model) if quantised else precision.frozen_bytes
    base = held if frozen else precision.weight_bytes
    return Recipe(
        frozen=frozen,
        quantised=quantised,
        adapter_rank=float(workload.lora_rank) if frozen else 0.0,
        element_bytes=BYTES_32_BIT if precision.weight_bytes == BYTES_32_BIT else BYTES_16_BIT,
        mixed=not frozen and precision.master_bytes > 0,
        weight_bytes_per_param=precision.weight_bytes,
        base_bytes_per_param=base,
        gathered_bytes_per_param=held if quantised else precision.weight_bytes,
        layer_bytes_per_param=BYTES_32_BIT if base == BYTES_32_BIT else BYTES_16_BIT,
        gradient_bytes_per_param=precision.weight_bytes,
        master_bytes_per_param=precision.master_bytes,
        state_bytes_per_param=optimizer.state_bytes / (2 if precision.only_16_bit and optimizer.halves else 1),
        wide_state_bytes_per_param=optimizer.state_bytes,
        narrow_state_bytes_per_param=optimizer.state_bytes / (2 if optimizer.halves else 1),
        matrix_update_bytes_per_param=optimizer.matrix_bytes,
        optimizer_moved_bytes_per_param=optimizer.moved_bytes,
        optimizer_flops_per_param_width=optimizer.flops_per_param_width,
        dequantised_bytes_per_param=NF4_DOUBLE_QUANTISED_BITS / 8 + 2 * BYTES_16_BIT if quantised else 0.0,
        conversion_bytes_per_input=precision.conversion_bytes,
        kept_bytes_saved_per_input=precision.kept_bytes_saved,
        products_per_param=2.0 if frozen else 3.0,
    )


def nf4_bytes(model: ModelArchitecture) -> float:
    """Bytes of a mean parameter of a base in NF4, quantised twice; what no quantiser converts stays in 16 bit.

    Source: Dettmers et al. 2023 (arXiv:2305.14314).
    """
    quantised = model.linear_params / max(1, model.total_params)
    return quantised * (NF4_DOUBLE_QUANTISED_BITS / 8) + (1 - quantised) * BYTES_16_BIT
