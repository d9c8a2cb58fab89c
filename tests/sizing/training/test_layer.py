"""What frameworks keep, looked up by plans. Bytes kept per token and layer, against the sums that traced steps
were solved for.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from app.sizing.hardware.recipes import Recipes, TrainingRecipe
from app.sizing.model.architecture import ModelArchitecture
from app.sizing.training.counts import counts_of
from app.sizing.training.layer import LayerBytes, build_framework_bytes_table, framework_bytes
from app.sizing.workload import Method
from tests.examples import LLAMA_8B, OPT_13B, PRETRAIN, PRETRAIN_COUNTS, col, registered

SHARDED = TrainingRecipe("pytorch", weights="sharded")
EVERY = TrainingRecipe("pytorch", kernels="fused", selective="every_second_layer")


@pytest.mark.parametrize("stack", [0, 1])
@pytest.mark.parametrize("stage", [0.0, 1.0, 3.0])
@pytest.mark.parametrize("checkpointing", [0, 1, 2])
def test_a_plan_finds_what_would_be_counted_for_it(stack: int, stage: float, checkpointing: int) -> None:
    recipes = Recipes.from_recipes([SHARDED, EVERY])
    table = build_framework_bytes_table(PRETRAIN_COUNTS, recipes, flash=True)
    place = table.row_indices(np.array([stack]), col(stage), np.array([checkpointing]))
    found, own = table.rows.take(place), recipes.take(np.array([stack]))
    counted = framework_bytes(PRETRAIN_COUNTS, own, np.array([stage >= 3]), np.array([checkpointing]), flash=True)
    for part in ("layer", "params"):
        for name in getattr(found, part).__slots__:
            assert getattr(getattr(found, part), name)[0] == getattr(getattr(counted, part), name)[0], name


def test_every_second_layer_keeps_half_of_all_and_half_of_the_inputs() -> None:
    def kept(checkpointing: int) -> float:
        rows = framework_bytes(
            PRETRAIN_COUNTS, Recipes.from_recipes([EVERY]), np.array([False]), np.array([checkpointing]), flash=True
        )
        return float((rows.layer.kept_hidden + rows.layer.kept_split)[0])

    assert kept(1) == pytest.approx((kept(0) + kept(2)) / 2)
    assert kept(2) == 2 * 4096


# h, nd = h, md and f of Llama-3.1-8B, and 4n + 8
H, MD, F, SUMS = 4096, 1024, 14336, 4 * 32 + 8
NONE, SELECTIVE, FULL = 0, 1, 2


def layer(
    model: ModelArchitecture = LLAMA_8B,
    checkpointing: int = NONE,
    *,
    sharded: bool = False,
    flash: bool = True,
    workload: dict[str, Any] | None = None,
    **recipe: Any,
) -> LayerBytes:
    """What one recipe keeps of a layer."""
    counts = counts_of(replace(PRETRAIN, model=model, **(workload or {})))
    said = Recipes.from_recipes([TrainingRecipe("pytorch", **recipe)])
    return framework_bytes(counts, said, np.array([sharded]), np.array([checkpointing]), flash=flash).layer


def kept(*args: Any, **said: Any) -> float:
    found = layer(*args, **said)
    return float((found.kept_hidden + found.kept_split + found.kept_routed + found.kept_sent)[0])


def working(*args: Any, **said: Any) -> float:
    found = layer(*args, **said)
    return float((found.working_hidden + found.working_split + found.working_routed + found.working_sent)[0])


@pytest.mark.parametrize(
    ("recipe", "expected"),
    [
        ({"kernels": "eager"}, 20 * H + 4 * MD + 8 * F + SUMS),
        ({"kernels": "fused"}, 12 * H + 4 * MD + 6 * F + SUMS),
        ({"kernels": "compiled"}, 12 * H + 4 * MD + 6 * F + SUMS),
        ({"kernels": "eager", "weights": "autocast"}, 30 * H + 4 * MD + 8 * F + SUMS),
    ],
)
def test_kernels_and_autocast(recipe: dict[str, Any], expected: float) -> None:
    assert kept(**recipe) == expected


def test_recomputation_keeps_less_in_this_order() -> None:
    assert kept(checkpointing=SELECTIVE) == 8 * H + 2 * MD + 2 * F + 4 * 32
    assert kept(checkpointing=FULL) == 2 * H
    assert kept(checkpointing=FULL, weights="autocast") == 4 * H
    for kernels in ("eager", "fused"):
        each = [
            kept(checkpointing=NONE, kernels=kernels),
            kept(checkpointing=SELECTIVE, kernels=kernels, selective="attention"),
            kept(checkpointing=SELECTIVE, kernels=kernels, selective="every_second_layer"),
            kept(checkpointing=SELECTIVE, kernels=kernels, selective="operators"),
            kept(checkpointing=FULL, kernels=kernels),
        ]
        assert each == sorted(each, reverse=True)


def test_the_layer_in_backward_holds_all_of_itself_and_gradients() -> None:
    assert working(kernels="eager") == 2 * H + 4 * F
    assert working(kernels="fused") == 4 * F
    assert working(checkpointing=FULL, kernels="fused") == 12 * H + 4 * MD + 10 * F + SUMS
    assert working(checkpointing=FULL, kernels="eager") == 22 * H + 4 * MD + 12 * F + SUMS


def test_stored_scores_and_plain_blocks() -> None:
    flash, stored = kept(), kept(flash=False)
    assert stored - flash == 6 * 32 * 4096 - 4 * 32 + 4 * (H - MD)
    h, f, heads = 5120, 20480, 40
    assert kept(OPT_13B) == 8 * h + 8 * h + 4 * f + 4 * heads + 8
    gelu, parallel = registered("openai-community/gpt2-xl"), registered("microsoft/phi-1_5")
    assert kept(gelu) == 8 * 1600 + 8 * 1600 + 10 * 6400 + 4 * 25 + 8
    assert kept(gelu, kernels="fused") == 8 * 1600 + 8 * 1600 + 4 * 6400 + 4 * 25 + 8
    assert kept(parallel, kernels="fused") == 4 * 2048 + 8 * 2048 + 4 * 8192 + 4 * 32 + 4


def test_experts_keep_tokens_on_their_way_and_products() -> None:
    h, kh, kf = 2048, 8 * 2048, 8 * 768
    heads = 4 * 32 * 128 + 4 * 4 * 128 + 4 * 32 + 8
    model = registered("Qwen/Qwen3-30B-A3B")
    assert kept(model) == 16 * h + heads + 6 * kh + 8 * kf + 4 * 128 + 20 * 8
    assert kept(model, kernels="fused") == 8 * h + heads + 6 * kh + 6 * kf + 4 * 128 + 20 * 8


def test_a_list_of_operators_has_no_grouped_products() -> None:
    """Of a layer with experts its input, queries, values, attention's output, and the router's product."""
    model = registered("Qwen/Qwen3-30B-A3B")
    held = 2 * 2048 + 4 * 32 * 128 + 2 * 4 * 128 + 4 * 32 + 2 * 128
    assert kept(model, checkpointing=SELECTIVE, kernels="fused") == held


def test_of_an_odd_number_of_layers_one_more_is_not_recomputed() -> None:
    def every_second(model: ModelArchitecture) -> tuple[float, float]:
        said: dict[str, Any] = {"selective": "every_second_layer"}
        return kept(model, SELECTIVE, **said), working(model, SELECTIVE, **said)

    odd = replace(LLAMA_8B, num_layers=31)
    assert every_second(LLAMA_8B) == ((kept() + 2 * H) / 2, kept() + working())
    assert np.allclose(every_second(odd), ((16 * kept(odd) + 15 * 2 * H) / 31, working(odd)))  # its last one is whole


@pytest.mark.parametrize(
    ("targets", "recipe", "expected"),
    [
        ("all-linear", {"adapter_precision": "fp32", "adapter_dropout": True}, 42 * H + 4 * MD + 11 * F),
        ("all-linear", {"adapter_precision": "autocast", "adapter_dropout": True}, 30 * H + 4 * MD + 9 * F),
        ("all-linear", {"adapter_precision": "16bit"}, 16 * H + 4 * MD + 8 * F),
        ("all-linear", {"adapter_precision": "autocast"}, 24 * H + 4 * MD + 8 * F),
        ("q_v", {"adapter_precision": "fp32", "adapter_dropout": True}, 22 * H + 4 * MD + 6 * F),
    ],
)
def test_adapters(targets: str, recipe: dict[str, Any], expected: float) -> None:
    """33h + 9nd, 23h + 7nd, 12h + 4nd, 18h + 4nd: nd is h here; each with what their ranks put out."""
    adapted = {"phase": "fine_tuning", "method": Method.LORA, "lora_rank": 16, "lora_targets": targets}
    width = 4 if recipe["adapter_precision"] == "fp32" else 2
    outputs = width * 16 * (7 if targets == "all-linear" else 2)
    assert kept(workload=adapted, **recipe) == expected + SUMS + outputs


def test_quantised_weights_that_widen_keep_the_mlp_in_32_bit() -> None:
    adapted = {"phase": "fine_tuning", "method": Method.QLORA}
    said = {"adapter_precision": "autocast", "adapter_dropout": True}
    assert kept(workload=adapted, kbit_widening=True, **said) - kept(workload=adapted, **said) == 6 * F
    assert kept(workload=adapted, checkpointing=FULL, kbit_widening=True, **said) == 4 * H


def test_adapters_as_wide_as_the_residual_stream_keep_no_copies_of_it() -> None:
    """Norms' outputs, attention's output and the product once each in place of seven inputs: 12h less."""
    adapted = {"phase": "fine_tuning", "method": Method.QLORA, "lora_targets": "all-linear"}
    once = kept(workload=adapted, kbit_widening=True, adapter_precision="fp32", adapter_dropout=False)
    each = kept(workload=adapted, kbit_widening=True, adapter_precision="fp32", adapter_dropout=True)
    assert each - once == 12 * H + 6 * H + F  # and a byte of each for the dropout mask


def test_mlp_adapters_add_the_gradients_of_their_input_copies() -> None:
    def work(targets: str) -> float:
        adapted = {"phase": "fine_tuning", "method": Method.LORA, "lora_targets": targets}
        return working(workload=adapted, kernels="fused", adapter_precision="fp32", adapter_dropout=False)

    assert work("all-linear") - work("attention") == 16 * H


def test_eight_bits_keep_inputs_of_matrices_narrower_unless_compiled() -> None:
    eight = {"precision": "fp8"}
    wide = kept(kernels="fused")
    assert wide - kept(kernels="fused", workload=eight) == 2 * H + F - H  # attention's output is kept twice
    assert kept(kernels="compiled", workload=eight) == kept(kernels="compiled")
