"""Training precisions and optimizers: bytes and operations per parameter, gradient buckets and gathered weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from app.sizing.columns import Column, Columns, Mask
from app.sizing.formula import formula
from app.sizing.hardware.recipes import Recipes, vocabulary_code
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
PRECISIONS: Mapping[str, Precision] = {
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


@dataclass(frozen=True, slots=True)
class Optimizer:
    """An optimizer: bytes of states per parameter in 32 bit, and bytes that it moves per parameter of its shard.

    An optimizer step reads gradients, master copy and states, and writes everything except gradients. An optimizer
    that updates one matrix at a time holds `matrix_bytes` for each element of that matrix. `halves` says whether the
    states are 16 bit when nothing is kept in 32 bit. One that updates each gradient during backward keeps none of them.
    """

    name: str  # name of the optimizer
    state_bytes: float  # 32-bit states, bytes per parameter
    moved_bytes: float  # bytes moved per parameter and step
    halves: bool = True  # whether its states can be 16 bit
    matrix_bytes: float = 0.0  # temporary bytes per element of the matrix being updated
    flops_per_param_width: float = 0.0  # FLOPs per parameter and unit of matrix width
    subspace_rank: int = 0  # rank of the subspace in which it keeps the states of block matrices; 0: it keeps all
    in_backward: bool = False  # whether it updates each gradient during backward


# Adafactor keeps a row and a column, AdEMAMix three moments; 8-bit moments have one scale per 256, 4-bit ones one per
# 128. Muon's Newton-Schulz runs five iterations of three products of the momentum matrix with its square.
# GaLore and APOLLO project gradients at the default rank of the Hugging Face Trainer. GaLore decomposes them every 200
# steps, which takes ten minutes for 7B on an A100 (Zhang et al. 2024, arXiv:2407.08296); APOLLO draws its projection.
# LOMO, AdaLomo and the layerwise variants update each matrix as soon as its gradient is known. GrokAdamW keeps an
# average of gradients besides the moments, Adam-mini the first moment and one value per block of the second, CAME a
# momentum besides factored second moments.
# Sources: Loshchilov and Hutter 2019 (arXiv:1711.05101); Dettmers et al. 2022 (arXiv:2110.02861); Shazeer and Stern
# 2018 (arXiv:1804.04235); Chen et al. 2023 (arXiv:2302.06675); Li et al. 2023 (arXiv:2309.01507); Pagliardini et al.
# 2024 (arXiv:2409.03137); Jordan et al. 2024 (Muon); Zhao et al. 2024 (arXiv:2403.03507); Zhu et al. 2024
# (arXiv:2412.05270); Lv et al. 2023 (arXiv:2306.09782, arXiv:2310.10195); Zhang et al. 2024 (arXiv:2406.16793); Luo et
# al. 2023 (arXiv:2307.02047).
_PROJECTED = Optimizer("galore-adamw", 8.0, 18.0, matrix_bytes=4.0, flops_per_param_width=20.0, subspace_rank=128)
_SUBSPACE = (
    _PROJECTED,
    replace(_PROJECTED, name="galore-adamw-8bit", state_bytes=2.03, moved_bytes=16.0, halves=False),
    replace(_PROJECTED, name="galore-adafactor", state_bytes=0.02, moved_bytes=16.0, halves=False),
    replace(_PROJECTED, name="apollo-adamw", flops_per_param_width=0.0),
)
OPTIMIZERS: Mapping[str, Optimizer] = {
    o.name: o
    for o in (
        Optimizer("adamw", 8.0, 30.0),
        Optimizer("adamw-8bit", 2.03, 18.0, halves=False),
        Optimizer("adafactor", 0.02, 16.0, halves=False, matrix_bytes=16.0),
        Optimizer("lion", 4.0, 22.0, matrix_bytes=4.0),
        Optimizer("lion-8bit", 1.02, 16.0, halves=False),
        Optimizer("adamw-4bit", 1.06, 16.0, halves=False),
        Optimizer("ademamix", 12.0, 38.0),
        Optimizer("ademamix-8bit", 3.05, 20.0, halves=False),
        Optimizer("adagrad", 4.0, 22.0),
        Optimizer("rmsprop", 4.0, 22.0),
        Optimizer("muon", 4.0, 22.0, matrix_bytes=10.0, flops_per_param_width=30.0),
        Optimizer("sgd", 4.0, 22.0),
        Optimizer("rmsprop-8bit", 1.02, 16.0, halves=False),
        Optimizer("grokadamw", 12.0, 38.0),
        Optimizer("adam-mini", 4.0, 22.0),
        Optimizer("came", 4.05, 24.0, matrix_bytes=16.0),
        Optimizer("lomo", 0.0, 14.0, in_backward=True),
        Optimizer("adalomo", 0.02, 16.0, halves=False, matrix_bytes=16.0, in_backward=True),
        *_SUBSPACE,
        *(replace(o, name=f"{o.name}-layerwise", in_backward=True) for o in _SUBSPACE),
    )
}

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
    in_backward: bool  # whether the optimizer updates each gradient during backward
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
    states = optimizer.state_bytes
    if optimizer.subspace_rank and not frozen:
        states = subspace_state_bytes(workload.model, optimizer)
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
        state_bytes_per_param=states / (2 if precision.only_16_bit and optimizer.halves else 1),
        wide_state_bytes_per_param=states,
        narrow_state_bytes_per_param=states / (2 if optimizer.halves else 1),
        matrix_update_bytes_per_param=optimizer.matrix_bytes,
        in_backward=optimizer.in_backward,
        optimizer_moved_bytes_per_param=optimizer.moved_bytes,
        optimizer_flops_per_param_width=optimizer.flops_per_param_width,
        dequantised_bytes_per_param=NF4_DOUBLE_QUANTIZED_BITS / 8 + 2 * BYTES_16_BIT if quantized else 0.0,
        conversion_bytes_per_input=precision.conversion_bytes,
        kept_bytes_saved_per_input=precision.kept_bytes_saved,
        products_per_param=2.0 if frozen else 3.0,
    )


def subspace_state_bytes(model: ModelArchitecture, optimizer: Optimizer) -> float:
    """Average bytes of 32-bit states per parameter of an optimizer that projects the gradients of block matrices.

    A matrix has its states on the longer side at the rank of the subspace, and the projection on the shorter side;
    embeddings, head and norms have whole states.
    Source: Zhao et al. 2024 (arXiv:2403.03507), algorithm 1.
    Check: Llama-3.1-8B has 1.05 billion parameters outside its blocks, of 8 bytes each; the others take 0.33.
        >>> round(subspace_state_bytes(LLAMA_8B, OPTIMIZERS["galore-adamw"]), 3)
        1.335
    """
    total = 0.0
    for tensor in model.tensors:
        short, long = sorted((tensor.inputs, tensor.outputs))
        rank = min(optimizer.subspace_rank, short)
        kept = rank * (long * optimizer.state_bytes + short * BYTES_32_BIT)
        total += tensor.count * (kept if tensor.quantized else tensor.size * optimizer.state_bytes)
    return total / max(1, model.total_params)


def nf4_bytes(model: ModelArchitecture) -> float:
    """Average bytes per parameter of an NF4 base model with double quantization.

    Parameters that quantizers do not convert stay in 16 bit. Source: Dettmers et al. 2023 (arXiv:2305.14314).
    """
    quantized = model.linear_params / max(1, model.total_params)
    return quantized * (NF4_DOUBLE_QUANTIZED_BITS / 8) + (1 - quantized) * BYTES_16_BIT


@formula(
    unit="B",
    source="PyTorch's DistributedDataParallel (gradient_as_bucket_view); DeepSpeed's stage_1_and_2.py, stage3.py",
)
def gradient_bucket_bytes(bucket_bytes: Column, whole_gradient_bytes: Column, exchanges: Mask) -> Column:
    """Buckets of gradients that are being reduced, at most as large as the gradients.

    PyTorch's DDP keeps every bucket in addition to the gradients, unless gradients are views of the buckets.
    DeepSpeed fills one bucket at a time. Megatron reduces in place.

    Parameters:
        bucket_bytes: size of the buckets, bytes.
        whole_gradient_bytes: gradients of the rank, bytes.
        exchanges: whether replicas reduce gradients in buckets.
    Check: a bucket of 1 GB with 0.4 and 16 GB of gradients, and one accelerator without replicas.
        >>> gradient_bucket_bytes(col(1e9, 1e9, 1e9), col(0.4e9, 16e9, 16e9), np.array([True, True, False])).tolist()
        [400000000.0, 1000000000.0, 0.0]
    """
    return np.where(exchanges, np.minimum(bucket_bytes, whole_gradient_bytes), 0.0)


@formula(unit="parameters", source="DeepSpeed's partitioned_param_coordinator.py; PyTorch's fully_shard")
def gathered_unit_params(
    layer_params_per_rank: Column, largest_matrix_params: float, tensor_parallel: Column, live_params: Column
) -> Column:
    """Parameters that are gathered and freed together: a layer, or one matrix where the framework frees by number.

    PyTorch's `fully_shard` gathers a layer; DeepSpeed's parameter coordinator gathers what one module holds.

    Parameters:
        largest_matrix_params: parameters of the model's largest matrix.
        tensor_parallel: ranks that share each matrix.
        live_params: most parameters that stay gathered; 0 where units are freed.
    Check: a layer of four matrices.
        >>> gathered_unit_params(col(8e8, 8e8), 2e8, col(1, 1), col(0, 1e9)).tolist()
        [800000000.0, 200000000.0]
    """
    matrix = np.minimum(layer_params_per_rank, largest_matrix_params / tensor_parallel)
    return np.where(live_params > 0, matrix, layer_params_per_rank)


@formula(unit="B", source="DeepSpeed's partitioned_param_coordinator.py (max_live_parameters, max_reuse_distance)")
def live_bytes(gathers: Mask, rank_params: Column, live_params: Column) -> Column:
    """Gathered weights that stay in memory where a framework frees them by number.

    Weights that are used again soon stay, up to `stage3_max_live_parameters`.

    Parameters:
        gathers: whether weights are gathered from other ranks (ZeRO-3).
        rank_params: parameters of the model-parallel rank.
        live_params: most parameters that stay gathered; 0 where units are freed.
    Check: 1e9 parameters of 8e9 may stay; all of 0.5e9 stay; none where units are freed.
        >>> live_bytes(np.array([True, True, True]), col(8e9, 0.5e9, 8e9), col(1e9, 1e9, 0)).tolist()
        [2000000000.0, 1000000000.0, 0.0]
    """
    return np.where(gathers, np.minimum(rank_params, live_params) * BYTES_16_BIT, 0.0)


MASTER, SHARDED, AUTOCAST, PURE = (
    vocabulary_code("weights", name) for name in ("master", "sharded", "autocast", "16bit")
)
GRADIENTS_32_BIT, GRADIENTS_COPIED = vocabulary_code("gradients", "32bit"), vocabulary_code("gradients", "copied")
FOREACH, PAGED, IN_BACKWARD, PAGED_IN_BACKWARD, OFFLOADED = (
    vocabulary_code("optimizer_implementation", name)
    for name in ("foreach", "paged", "in_backward", "paged_in_backward", "offloaded")
)
ADAPTERS_AUTOCAST, ADAPTERS_16_BIT = (
    vocabulary_code("adapter_precision", "autocast"),
    vocabulary_code("adapter_precision", "16bit"),
)


@dataclass(frozen=True, slots=True)
class ParamKinds(Columns):
    """Properties of a training recipe that change the bytes of a parameter."""

    own_master: Mask  # FP32 weights that are their own master copy
    autocast: Mask  # FP32 weights that autocast converts for each product
    pure: Mask  # everything in 16 bit, no master copy
    wide_gradients: Mask  # gradients accumulate in FP32
    copies_gradients: Mask  # the update converts 16-bit gradients to FP32
    foreach: Mask  # the optimizer updates all tensors at once and copies them
    in_backward: Mask  # the optimizer updates each gradient during backward
    on_host: Mask  # optimizer states are in host memory
    lasting: Mask  # gradients keep their memory from step to step
    narrow_adapters: Mask  # adapters in 16 bit
    autocast_adapters: Mask  # FP32 adapters under autocast
    widened: Mask  # k-bit preparation converts unquantized weights to FP32


@dataclass(frozen=True, slots=True)
class ParamBytes(Columns):
    """Bytes of one parameter by use; of one adapter parameter where only adapters are trained."""

    weights: Column  # base weight in memory, B
    gathered: Column  # gathered weight of a layer in use, B
    ends: Column  # embedding or head weight in use, B
    casts: Column  # 16-bit copy of an FP32 layer weight, B
    head_casts: Column  # 16-bit copy of an FP32 head weight, B
    adapters: Column  # adapter weight, and adapter gradient, B
    gradients: Column  # gradient, B
    states: Column  # optimizer states, B
    update: Column  # copy that the optimizer's update makes, B
    widened: Mask  # k-bit preparation converts unquantized weights to FP32
    lasting: Mask  # gradients keep their memory from step to step
    in_backward: Mask  # the optimizer updates each gradient during backward
    on_host: Mask  # optimizer states are in host memory


def param_kinds(run: Recipe, recipe: Recipes, sharded: Mask) -> ParamKinds:
    """Return the properties of each recipe, with sharded or whole weights, that change a parameter's bytes."""
    own = run.mixed & ((recipe.weights == SHARDED) | (recipe.weights == AUTOCAST))
    return ParamKinds(
        own_master=own,
        autocast=own & (~sharded | (recipe.weights == AUTOCAST)),
        pure=run.mixed & (recipe.weights == PURE),
        wide_gradients=run.mixed & (recipe.gradients == GRADIENTS_32_BIT),
        copies_gradients=run.mixed & (recipe.gradients == GRADIENTS_COPIED),
        foreach=recipe.optimizer_implementation == FOREACH,
        in_backward=np.isin(recipe.optimizer_implementation, (IN_BACKWARD, PAGED_IN_BACKWARD)) | run.in_backward,
        on_host=np.isin(recipe.optimizer_implementation, (PAGED, PAGED_IN_BACKWARD, OFFLOADED)),
        lasting=(recipe.weights == MASTER) & (recipe.gradients != GRADIENTS_COPIED) & ~run.frozen,
        narrow_adapters=recipe.adapter_precision == ADAPTERS_16_BIT,
        autocast_adapters=recipe.adapter_precision == ADAPTERS_AUTOCAST,
        widened=run.quantized & recipe.kbit_widening,
    )


@formula(unit="B", source="Rajbhandari et al. 2020 (arXiv:1910.02054); PyTorch's documentation of FSDP and autocast")
def bytes_per_weight(kinds: ParamKinds, recipe: Recipe) -> Column:
    """Bytes of a weight in memory: 4 where the weight is its own FP32 master copy.

    Check: mixed precision with a separate master copy, and with FP32 weights.
        >>> bytes_per_weight(row(own_master=np.array([False, True])), PRETRAIN_COUNTS.recipe).tolist()
        [2.0, 4.0]
    """
    return np.where(kinds.own_master, BYTES_32_BIT, recipe.base_bytes_per_param)


@formula(unit="B", source="Rajbhandari et al. 2020 (arXiv:1910.02054)")
def bytes_per_gradient(kinds: ParamKinds, recipe: Recipe) -> Column:
    """Bytes of a gradient: 4 where weights are in FP32 or the framework accumulates in FP32.

    Check: 16-bit gradients, FP32 weights, FP32 accumulation.
        >>> own, wide = np.array([False, True, False]), np.array([False, False, True])
        >>> kinds = row(own_master=own, wide_gradients=wide, pure=np.zeros(3) > 0)
        >>> bytes_per_gradient(kinds, PRETRAIN_COUNTS.recipe).tolist()
        [2.0, 4.0, 4.0]
    """
    wide = kinds.own_master | (kinds.wide_gradients & (kinds.pure == 0))
    return np.where(wide, BYTES_32_BIT, recipe.gradient_bytes_per_param)


@formula(unit="B", source="Rajbhandari et al. 2020 (arXiv:1910.02054), section 3.1")
def bytes_of_states(kinds: ParamKinds, recipe: Recipe) -> Column:
    """Bytes of the optimizer's master copy and moments per parameter.

    Check: AdamW with a separate master copy 12 bytes, with FP32 weights as their own master copy 8, all in 16 bit
        4.
        >>> kinds = row(own_master=np.array([0, 1, 0]) > 0, pure=np.array([0, 0, 1]) > 0)
        >>> bytes_of_states(kinds, PRETRAIN_COUNTS.recipe).tolist()
        [12.0, 8.0, 4.0]
    """
    mixed = recipe.state_bytes_per_param + np.where(kinds.own_master, 0.0, recipe.master_bytes_per_param)
    return np.where(kinds.pure, recipe.narrow_state_bytes_per_param, mixed)


@formula(unit="B", source="Hu et al. 2021 (arXiv:2106.09685); PEFT's `autocast_adapter_dtype`")
def bytes_per_adapter_weight(kinds: ParamKinds) -> Column:
    """Bytes of an adapter's weight, or of its gradient: 4 unless the framework keeps adapters in 16 bit.

    Check: 16-bit and FP32 adapters.
        >>> bytes_per_adapter_weight(row(narrow_adapters=np.array([True, False]))).tolist()
        [2.0, 4.0]
    """
    return np.where(kinds.narrow_adapters, BYTES_16_BIT, BYTES_32_BIT)


@formula(unit="B", source="Hu et al. 2021 (arXiv:2106.09685)")
def bytes_of_adapter_states(kinds: ParamKinds, recipe: Recipe) -> Column:
    """Bytes of optimizer states per adapter parameter, in the width of the adapter.

    Check: AdamW with 16-bit and FP32 adapters.
        >>> bytes_of_adapter_states(row(narrow_adapters=np.array([True, False])), PRETRAIN_COUNTS.recipe).tolist()
        [4.0, 8.0]
    """
    return np.where(kinds.narrow_adapters, recipe.narrow_state_bytes_per_param, recipe.wide_state_bytes_per_param)


@formula(unit="B", source="definition")
def stepped_bytes_per_param(kinds: ParamKinds, recipe: Recipe) -> Column:
    """Bytes of a parameter in the copy that the optimizer updates: the master copy if there is one.

    Check: mixed precision, and everything in 16 bit.
        >>> stepped_bytes_per_param(row(pure=np.array([False, True])), PRETRAIN_COUNTS.recipe).tolist()
        [4.0, 2.0]
    """
    master = np.maximum(recipe.weight_bytes_per_param, recipe.master_bytes_per_param)
    return np.where(kinds.pure, recipe.weight_bytes_per_param, master)


@formula(unit="B", source="definition; PEFT's `prepare_model_for_kbit_training`")
def bytes_per_end_weight(kinds: ParamKinds, recipe: Recipe) -> Column:
    """Bytes of an embedding or head weight in use.

    Quantization leaves these weights in 16 bit; k-bit preparation (PEFT's `prepare_model_for_kbit_training`)
    converts them to FP32.

    Check: plain 16-bit weights, k-bit preparation, autocast.
        >>> kinds = row(widened=np.array([False, True, False]), autocast=np.array([False, False, True]))
        >>> bytes_per_end_weight(kinds, PRETRAIN_COUNTS.recipe).tolist()
        [2.0, 4.0, 4.0]
    """
    return np.where(kinds.widened | kinds.autocast, BYTES_32_BIT, recipe.weight_bytes_per_param)


def copied_bytes(kinds: ParamKinds, stepped_bytes_per_param: Column) -> Column:
    """Return the bytes per parameter that the optimizer's update copies.

    An optimizer that updates all tensors at once (`foreach`, traced) copies what it updates. An optimizer with
    16-bit gradients converts them to FP32 during the update and frees them afterwards (DeepSpeed's ZeRO optimizers,
    Megatron's optimizer for 16-bit weights).
    """
    widened = np.where(kinds.copies_gradients, BYTES_32_BIT, 0.0)
    return np.where(kinds.foreach, stepped_bytes_per_param, 0.0) + widened


def param_bytes(run: Recipe, kinds: ParamKinds) -> ParamBytes:
    weights, ends, adapters = bytes_per_weight(kinds, run), bytes_per_end_weight(kinds, run), np.zeros(len(kinds))
    if run.frozen:
        adapters = bytes_per_adapter_weight(kinds)
        gradients, states, update = adapters, bytes_of_adapter_states(kinds, run), copied_bytes(kinds, adapters)
        gathered = np.full(len(kinds), run.gathered_bytes_per_param)
    else:
        gradients, states = bytes_per_gradient(kinds, run), bytes_of_states(kinds, run)
        gathered = np.where(kinds.autocast, weights, run.layer_bytes_per_param)
        update = copied_bytes(kinds, stepped_bytes_per_param(kinds, run))
    return ParamBytes(
        weights=weights,
        gathered=gathered,
        ends=ends,
        casts=np.where(kinds.autocast, BYTES_16_BIT, 0.0),
        head_casts=np.where(kinds.autocast | (kinds.widened & kinds.autocast_adapters), BYTES_16_BIT, 0.0),
        adapters=adapters,
        gradients=gradients,
        states=states,
        update=update,
        widened=kinds.widened,
        lasting=kinds.lasting,
        in_backward=kinds.in_backward,
        on_host=kinds.on_host,
    )
