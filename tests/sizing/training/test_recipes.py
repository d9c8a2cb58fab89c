"""Buffers of exchanged gradients and gathered weights, worked by hand. Precisions, optimizers and what they make
of one parameter, against the published counts of bytes. Bytes of a parameter by what a framework keeps in 32
bit.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from app.sizing.hardware.recipes import Recipes, TrainingRecipe
from app.sizing.training.counts import counts_of
from app.sizing.training.recipes import (
    CHECKPOINT_BYTES_PER_PARAM,
    OPTIMIZERS,
    PRECISIONS,
    ParamBytes,
    Recipe,
    gradient_bucket_bytes,
    live_bytes,
    nf4_bytes,
    param_bytes,
    param_kinds,
    recipe_of,
    subspace_state_bytes,
)
from app.sizing.workload import Method
from tests.examples import LLAMA_8B, PRETRAIN, PRETRAIN_COUNTS, col

YES = np.array([True])


@pytest.mark.parametrize("gradients", [1e6, 1e9, 1e12])
@pytest.mark.parametrize("bucket", [0.0, 2.5e7, 1e9, np.inf])
def test_buckets_are_never_more_than_the_gradients(gradients: float, bucket: float) -> None:
    found = gradient_bucket_bytes(col(bucket), col(gradients), YES)[0]
    assert found == min(bucket, gradients)
    assert gradient_bucket_bytes(col(bucket), col(gradients), ~YES).tolist() == [0.0]


def test_what_is_live_is_as_much_as_may_be() -> None:
    assert live_bytes(YES, col(70e9), col(1e9)).tolist() == [2e9]
    assert live_bytes(YES, col(70e9), col(0)).tolist() == [0]
    assert live_bytes(~YES, col(70e9), col(1e9)).tolist() == [0]


@pytest.mark.parametrize(
    ("precision", "optimizer", "weights", "gradients", "master", "states"),
    [
        # Rajbhandari et al. 2020: 2 + 2 + 12 bytes of a parameter
        ("bf16", "adamw", 2, 2, 4, 8),
        ("fp16", "sgd", 2, 2, 4, 4),
        ("fp8", "adamw", 2, 2, 4, 8),
        ("fp32", "adamw", 4, 4, 0, 8),
        # everything in 16 bit: states too, where the optimizer has them in 32
        ("bf16-true", "adamw", 2, 2, 0, 4),
        ("bf16-true", "adamw-8bit", 2, 2, 0, 2.03),
        ("bf16", "adafactor", 2, 2, 4, 0.02),
        ("bf16", "lion", 2, 2, 4, 4),
    ],
)
def test_bytes_of_a_trained_parameter(
    precision: str, optimizer: str, weights: float, gradients: float, master: float, states: float
) -> None:
    found = recipe_of(replace(PRETRAIN, precision=precision, optimizer=optimizer))
    assert (found.weight_bytes_per_param, found.gradient_bytes_per_param) == (weights, gradients)
    assert (found.master_bytes_per_param, found.state_bytes_per_param) == (master, states)
    assert found.base_bytes_per_param == found.weight_bytes_per_param
    assert found.mixed == (master > 0)
    assert (found.frozen, found.products_per_param, found.adapter_rank) == (False, 3.0, 0.0)


def test_a_frozen_base_has_one_gradient_product_less() -> None:
    lora = recipe_of(replace(PRETRAIN, method=Method.LORA))
    assert (lora.frozen, lora.mixed, lora.products_per_param) == (True, False, 2.0)
    assert (lora.base_bytes_per_param, lora.adapter_rank, lora.wide_state_bytes_per_param) == (2, 16, 8)
    assert lora.dequantised_bytes_per_param == 0
    assert recipe_of(replace(PRETRAIN, method=Method.LORA, precision="fp8")).base_bytes_per_param == 1


def test_a_quantised_base_is_held_in_four_bits_and_widened_to_sixteen() -> None:
    qlora = recipe_of(replace(PRETRAIN, method=Method.QLORA))
    # 4 bits, a scale of 8 bits to 64 elements, a second scale of 32 bits to 256 of those: 4.127 bits
    bits = 4 + 8 / 64 + 32 / (64 * 256)
    linear = LLAMA_8B.linear_params / LLAMA_8B.total_params
    assert nf4_bytes(LLAMA_8B) == pytest.approx(linear * bits / 8 + (1 - linear) * 2)
    assert qlora.base_bytes_per_param == qlora.gathered_bytes_per_param == nf4_bytes(LLAMA_8B)
    # read once, written and read once in 16 bit
    assert qlora.dequantised_bytes_per_param == pytest.approx(bits / 8 + 4)


@pytest.mark.parametrize(
    ("precision", "conversion", "saved"),
    [("bf16", 0, 0), ("fp32", 0, 0), ("fp8", 5, 1), ("mxfp8", 5, 1), ("nvfp4", 5, 1)],
)
def test_narrow_matrices_convert_their_inputs_and_keep_them_narrower(
    precision: str, conversion: float, saved: float
) -> None:
    found = recipe_of(replace(PRETRAIN, precision=precision))
    assert (found.conversion_bytes_per_input, found.kept_bytes_saved_per_input) == (conversion, saved)


def test_an_optimizer_reads_everything_and_writes_all_but_the_gradient() -> None:
    # reads the gradient in 32 bit, the master copy and two moments; writes those and the weights in 16
    assert OPTIMIZERS["adamw"].moved_bytes == 4 + (4 + 8) + (4 + 8) + 2
    # one moment less, read and written
    assert OPTIMIZERS["sgd"].moved_bytes == OPTIMIZERS["adamw"].moved_bytes - 2 * 4
    # five iterations of three products, two operations each
    assert OPTIMIZERS["muon"].flops_per_param_width == 5 * 3 * 2
    assert all(
        o.flops_per_param_width == 0 for name, o in OPTIMIZERS.items() if not name.startswith(("muon", "galore"))
    )


@pytest.mark.parametrize("name", ["galore-adamw", "galore-adafactor", "apollo-adamw"])
def test_projected_states_are_those_of_whole_weights_and_not_of_adapters(name: str) -> None:
    whole, adapters, layerwise = (
        recipe_of(replace(PRETRAIN, optimizer=optimizer, method=method))
        for optimizer, method in ((name, Method.FULL), (name, Method.LORA), (f"{name}-layerwise", Method.FULL))
    )
    assert whole.state_bytes_per_param == subspace_state_bytes(PRETRAIN.model, OPTIMIZERS[name])
    assert whole.state_bytes_per_param < OPTIMIZERS["adamw"].state_bytes / 3
    assert adapters.state_bytes_per_param == OPTIMIZERS[name].state_bytes
    assert (whole.in_backward, layerwise.in_backward) == (False, True)


def test_a_checkpoint_keeps_weights_master_copy_and_two_moments() -> None:
    assert CHECKPOINT_BYTES_PER_PARAM == 2 + 4 + 8


def test_only_pure_16_bit_keeps_nothing_in_32() -> None:
    assert [name for name, p in PRECISIONS.items() if p.only_16_bit] == ["bf16-true"]
    assert {name for name, p in PRECISIONS.items() if p.needs_bf16} == {"bf16", "bf16-true"}


MIXED = PRETRAIN_COUNTS.recipe


def bytes_of(run: Recipe = MIXED, *, sharded: bool = False, **recipe: Any) -> ParamBytes:
    said = Recipes.from_recipes([TrainingRecipe("pytorch", **{"optimizer_implementation": "fused", **recipe})])
    return param_bytes(run, param_kinds(run, said, np.array([sharded])))


@pytest.mark.parametrize(
    ("weights", "sharded", "each"),
    [
        ("master", False, (2, 2, 12, 0)),
        ("sharded", True, (4, 4, 8, 0)),
        ("sharded", False, (4, 4, 8, 2)),  # on one device it computes under autocast
        ("autocast", True, (4, 4, 8, 2)),
        ("16bit", False, (2, 2, 4, 0)),
    ],
)
def test_weights_gradients_and_states(weights: str, sharded: bool, each: tuple[float, ...]) -> None:
    found = bytes_of(weights=weights, sharded=sharded)
    assert (found.weights[0], found.gradients[0], found.states[0], found.casts[0]) == each
    assert bytes_of(weights=weights, sharded=sharded, gradients="32bit").gradients[0] == (
        2 if weights == "16bit" else 4
    )


def test_what_an_implementation_copies_and_where_states_lie() -> None:
    assert bytes_of(optimizer_implementation="foreach").update.tolist() == [4]
    assert bytes_of(optimizer_implementation="foreach", weights="16bit").update.tolist() == [2]
    assert bytes_of().update.tolist() == [0]
    assert (bytes_of(gradients="copied").states[0], bytes_of(gradients="copied").update[0]) == (12, 4)
    assert bytes_of(optimizer_implementation="paged").on_host.tolist() == [True]
    both = bytes_of(optimizer_implementation="paged_in_backward")
    assert both.on_host.tolist() == both.in_backward.tolist() == [True]
    assert bytes_of(optimizer_implementation="in_backward").in_backward.tolist() == [True]
    assert bytes_of().lasting.tolist() == [True]
    assert bytes_of(weights="16bit").lasting.tolist() == [False]


def test_adapters_are_as_wide_as_their_recipe_says() -> None:
    lora = counts_of(replace(PRETRAIN, phase="fine_tuning", method=Method.QLORA)).recipe
    wide = bytes_of(lora, adapter_precision="fp32", kbit_widening=True)
    assert (wide.adapters[0], wide.gradients[0], wide.states[0], wide.ends[0]) == (4, 4, 8, 4)
    narrow = bytes_of(lora, adapter_precision="16bit")
    assert (narrow.adapters[0], narrow.gradients[0], narrow.states[0], narrow.ends[0]) == (2, 2, 4, 2)
    assert bytes_of(lora, adapter_precision="autocast", kbit_widening=True).head_casts.tolist() == [2]
