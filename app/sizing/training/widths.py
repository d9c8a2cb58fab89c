"""Bytes of one parameter on an accelerator: weights, gradients, states, by what a framework keeps in 32 bit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.sizing.columns import Column, Columns, Mask
from app.sizing.formula import formula
from app.sizing.hardware.recipes import Recipes, code
from app.sizing.training.recipes import BYTES_16_BIT, BYTES_32_BIT, Recipe

MASTER, SHARDED, AUTOCAST, PURE = (code("weights", name) for name in ("master", "sharded", "autocast", "16bit"))
GRADIENTS_32_BIT, GRADIENTS_COPIED = code("gradients", "32bit"), code("gradients", "copied")
FOREACH, PAGED, IN_BACKWARD, OFFLOADED = (
    code("optimizer_implementation", name) for name in ("foreach", "paged", "in_backward", "offloaded")
)
ADAPTERS_AUTOCAST, ADAPTERS_16_BIT = code("adapter_precision", "autocast"), code("adapter_precision", "16bit")


@dataclass(frozen=True, slots=True)
class ParamKinds(Columns):
    """What of a recipe tells parameters apart."""

    own_master: Mask  # weights in 32 bit, their own master copy
    autocast: Mask  # of these, computed as they are under autocast
    pure: Mask  # everything in 16 bit
    wide_gradients: Mask
    copies_gradients: Mask
    foreach: Mask
    in_backward: Mask
    on_host: Mask
    lasting: Mask
    narrow_adapters: Mask
    autocast_adapters: Mask
    widened: Mask  # what no quantiser converts is in 32 bit


@dataclass(frozen=True, slots=True)
class ParamBytes(Columns):
    """Of one parameter; of adapters where only these are trained."""

    weights: Column  # that are not adapters
    gathered: Column  # of a layer that other ranks sent
    ends: Column  # of embedding and head
    casts: Column  # 16-bit copies of layers' weights in 32 bit
    head_casts: Column  # and of the head's
    adapters: Column  # and of each of their gradients
    gradients: Column
    states: Column
    update: Column  # a copy that the optimizer's step makes
    widened: Mask
    lasting: Mask  # gradients have memory of their own from step to step
    in_backward: Mask  # the optimizer steps each as it forms
    on_host: Mask  # states lie in host memory


def param_kinds(run: Recipe, recipe: Recipes, sharded: Mask) -> ParamKinds:
    """What tells parameters apart, by recipe and by whether their weights are sharded."""
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
        widened=run.quantised & recipe.kbit_widening,
    )


@formula(unit="B", source="Rajbhandari et al. 2020 (arXiv:1910.02054)")
def bytes_per_weight(kinds: ParamKinds, recipe: Recipe) -> Column:
    """A weight as it is held: in 32 bit where it is its own master copy.

    Source: Rajbhandari et al. 2020 (arXiv:1910.02054); PyTorch's documentation of FSDP and of autocast.
    """
    return np.where(kinds.own_master, BYTES_32_BIT, recipe.base_bytes_per_param)


@formula(unit="B", source="Rajbhandari et al. 2020 (arXiv:1910.02054)")
def bytes_per_gradient(kinds: ParamKinds, recipe: Recipe) -> Column:
    """A gradient: 32 bit where weights are, or where the framework sums in 32 bit.

    Source: Rajbhandari et al. 2020 (arXiv:1910.02054).
    """
    wide = kinds.own_master | (kinds.wide_gradients & (kinds.pure == 0))
    return np.where(wide, BYTES_32_BIT, recipe.gradient_bytes_per_param)


@formula(unit="B", source="Rajbhandari et al. 2020 (arXiv:1910.02054)")
def bytes_of_states(kinds: ParamKinds, recipe: Recipe) -> Column:
    """Master copy and moments.

    Source: Rajbhandari et al. 2020 (arXiv:1910.02054), section 3.1.
    Check: AdamW beside a master copy is 12 bytes, where weights are their own 8, all in 16 bit 4.
        >>> kinds = row(own_master=np.array([0, 1, 0]) > 0, pure=np.array([0, 0, 1]) > 0)
        >>> bytes_of_states(kinds, PRETRAIN_COUNTS.recipe).tolist()
        [12.0, 8.0, 4.0]
    """
    mixed = recipe.state_bytes_per_param + np.where(kinds.own_master, 0.0, recipe.master_bytes_per_param)
    return np.where(kinds.pure, recipe.narrow_state_bytes_per_param, mixed)


@formula(unit="B", source="Hu et al. 2021 (arXiv:2106.09685)")
def bytes_per_adapter_weight(kinds: ParamKinds) -> Column:
    """A weight of an adapter, or its gradient: 32 bit unless the framework says 16.

    Source: Hu et al. 2021 (arXiv:2106.09685); PEFT's `autocast_adapter_dtype`.
    """
    return np.where(kinds.narrow_adapters, BYTES_16_BIT, BYTES_32_BIT)


@formula(unit="B", source="Hu et al. 2021 (arXiv:2106.09685)")
def bytes_of_adapter_states(kinds: ParamKinds, recipe: Recipe) -> Column:
    """States of an adapter's parameter, as wide as itself.

    Source: Hu et al. 2021 (arXiv:2106.09685).
    """
    return np.where(kinds.narrow_adapters, recipe.narrow_state_bytes_per_param, recipe.wide_state_bytes_per_param)


@formula(unit="B", source="definition")
def stepped_bytes_per_param(kinds: ParamKinds, recipe: Recipe) -> Column:
    """A parameter as its optimizer steps it: the master copy where there is one.

    Source: definition.
    """
    master = np.maximum(recipe.weight_bytes_per_param, recipe.master_bytes_per_param)
    return np.where(kinds.pure, recipe.weight_bytes_per_param, master)


@formula(unit="B", source="definition")
def bytes_per_end_weight(kinds: ParamKinds, recipe: Recipe) -> Column:
    """A weight of embedding or head in use: no quantiser converts it, and k-bit preparation widens it.

    Source: definition; PEFT's `prepare_model_for_kbit_training`.
    """
    return np.where(kinds.widened | kinds.autocast, BYTES_32_BIT, recipe.weight_bytes_per_param)


def copied_bytes(kinds: ParamKinds, stepped_bytes_per_param: Column) -> Column:
    """What a step copies of each parameter: one that steps all tensors at once what it steps (traced steps of
    `foreach`), one on 16-bit gradients these in 32 (DeepSpeed's ZeRO optimizers and Megatron's of 16-bit weights form
    them in the step and let go of them after it).
    """
    widened = np.where(kinds.copies_gradients, BYTES_32_BIT, 0.0)
    return np.where(kinds.foreach, stepped_bytes_per_param, 0.0) + widened


def param_bytes(run: Recipe, kinds: ParamKinds) -> ParamBytes:
    """Bytes of one parameter."""
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
