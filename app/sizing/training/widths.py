"""Bytes of one parameter on an accelerator: weight, gradient and optimizer states, from what a framework keeps in
FP32.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.sizing.columns import Column, Columns, Mask
from app.sizing.formula import formula
from app.sizing.hardware.recipes import Recipes, vocabulary_code
from app.sizing.training.recipes import BYTES_16_BIT, BYTES_32_BIT, Recipe

MASTER, SHARDED, AUTOCAST, PURE = (
    vocabulary_code("weights", name) for name in ("master", "sharded", "autocast", "16bit")
)
GRADIENTS_32_BIT, GRADIENTS_COPIED = vocabulary_code("gradients", "32bit"), vocabulary_code("gradients", "copied")
FOREACH, PAGED, IN_BACKWARD, OFFLOADED = (
    vocabulary_code("optimizer_implementation", name) for name in ("foreach", "paged", "in_backward", "offloaded")
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
        in_backward=recipe.optimizer_implementation == IN_BACKWARD,
        on_host=(recipe.optimizer_implementation == PAGED) | (recipe.optimizer_implementation == OFFLOADED),
        lasting=(recipe.weights == MASTER) & (recipe.gradients != GRADIENTS_COPIED) & ~run.frozen,
        narrow_adapters=recipe.adapter_precision == ADAPTERS_16_BIT,
        autocast_adapters=recipe.adapter_precision == ADAPTERS_AUTOCAST,
        widened=run.quantized & recipe.kbit_widening,
    )


@formula(unit="B", source="Rajbhandari et al. 2020 (arXiv:1910.02054); PyTorch's documentation of FSDP and autocast")
def bytes_per_weight(kinds: ParamKinds, recipe: Recipe) -> Column:
    """Bytes of a weight in memory: 4 where the weight is its own FP32 master copy.

    Parameters:
        kinds: recipe properties that change a parameter's bytes (`ParamKinds`).
        recipe: bytes and products per parameter, from method, precision and optimizer (`Recipe`).
    Check: mixed precision with a separate master copy, and with FP32 weights.
        >>> bytes_per_weight(row(own_master=np.array([False, True])), PRETRAIN_COUNTS.recipe).tolist()
        [2.0, 4.0]
    """
    return np.where(kinds.own_master, BYTES_32_BIT, recipe.base_bytes_per_param)


@formula(unit="B", source="Rajbhandari et al. 2020 (arXiv:1910.02054)")
def bytes_per_gradient(kinds: ParamKinds, recipe: Recipe) -> Column:
    """Bytes of a gradient: 4 where weights are in FP32 or the framework accumulates in FP32.

    Parameters:
        kinds: recipe properties that change a parameter's bytes (`ParamKinds`).
        recipe: bytes and products per parameter, from method, precision and optimizer (`Recipe`).
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

    Parameters:
        kinds: recipe properties that change a parameter's bytes (`ParamKinds`).
        recipe: bytes and products per parameter, from method, precision and optimizer (`Recipe`).
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

    Parameters:
        kinds: recipe properties that change a parameter's bytes (`ParamKinds`).
    Check: 16-bit and FP32 adapters.
        >>> bytes_per_adapter_weight(row(narrow_adapters=np.array([True, False]))).tolist()
        [2.0, 4.0]
    """
    return np.where(kinds.narrow_adapters, BYTES_16_BIT, BYTES_32_BIT)


@formula(unit="B", source="Hu et al. 2021 (arXiv:2106.09685)")
def bytes_of_adapter_states(kinds: ParamKinds, recipe: Recipe) -> Column:
    """Bytes of optimizer states per adapter parameter, in the width of the adapter.

    Parameters:
        kinds: recipe properties that change a parameter's bytes (`ParamKinds`).
        recipe: bytes and products per parameter, from method, precision and optimizer (`Recipe`).
    Check: AdamW with 16-bit and FP32 adapters.
        >>> bytes_of_adapter_states(row(narrow_adapters=np.array([True, False])), PRETRAIN_COUNTS.recipe).tolist()
        [4.0, 8.0]
    """
    return np.where(kinds.narrow_adapters, recipe.narrow_state_bytes_per_param, recipe.wide_state_bytes_per_param)


@formula(unit="B", source="definition")
def stepped_bytes_per_param(kinds: ParamKinds, recipe: Recipe) -> Column:
    """Bytes of a parameter in the copy that the optimizer updates: the master copy if there is one.

    Parameters:
        kinds: recipe properties that change a parameter's bytes (`ParamKinds`).
        recipe: bytes and products per parameter, from method, precision and optimizer (`Recipe`).
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

    Parameters:
        kinds: recipe properties that change a parameter's bytes (`ParamKinds`).
        recipe: bytes and products per parameter, from method, precision and optimizer (`Recipe`).
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
    """Return the bytes of one parameter by use."""
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
