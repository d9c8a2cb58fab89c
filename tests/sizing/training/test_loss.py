"""Logits at the end of forward, worked by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from app.sizing.hardware.recipes import Recipes, TrainingRecipe
from app.sizing.training.loss import LossBytes, logits_at_a_time, loss_bytes
from tests.examples import col, row
from tests.sizing.training.counted import COUNTS, layout

TOKENS, VOCAB = 1000, 5000
HEAD = 2 * 0.7e6 / 4
STREAM = 17.0


def loss(**said: Any) -> LossBytes:
    """Of 1000 tokens on a quarter of the matrices."""
    recipe = Recipes.from_recipes([TrainingRecipe("pytorch", **said)])
    plans = layout()
    plans.stack = row(recipe=recipe)
    return loss_bytes(COUNTS, plans, col(TOKENS), col(4), col(STREAM))


@pytest.mark.parametrize(("kind", "per_logit"), [("shifted", 22), ("held", 14), ("upcast", 12), ("compiled", 4)])
def test_logits_by_kind(kind: str, per_logit: float) -> None:
    assert loss(loss=kind).logits_bytes.tolist() == [TOKENS * VOCAB / 4 * per_logit]


def test_the_heads_own_gradient_may_be_more() -> None:
    plans = layout()
    plans.stack = row(recipe=Recipes.from_recipes([TrainingRecipe("pytorch", loss="compiled")]))
    found = loss_bytes(COUNTS, plans, col(10), col(4), col(STREAM))
    assert found.logits_bytes.tolist() == [2 * 10 * VOCAB / 4 + HEAD + STREAM]
    assert found.head_gradient_bytes.tolist() == [HEAD]


def test_a_fused_loss_takes_a_power_of_two_of_tokens() -> None:
    recipe = Recipes.from_recipes([TrainingRecipe("pytorch", loss="fused")])
    # 1000 * 100 / 5000 tokens are twenty: 32
    found = logits_at_a_time(COUNTS, layout(), recipe, col(TOKENS), np.array([TOKENS * VOCAB / 4]))
    assert found.tolist() == [32 * VOCAB / 4]
    assert loss(loss="fused").logits_bytes.tolist() == [12 * 32 * VOCAB / 4 + HEAD + STREAM]


@pytest.mark.parametrize(("logits", "chunks"), [(2**30, 1), (2**30 + 4, 4), (2**32, 4), (2**32 + 8, 8)])
def test_a_limited_loss_takes_a_multiple_of_four_chunks(logits: int, chunks: int) -> None:
    recipe = Recipes.from_recipes([TrainingRecipe("pytorch", loss="fused_limited")])
    found = logits_at_a_time(COUNTS, layout(), recipe, col(TOKENS), np.array([float(logits)]))
    assert found.tolist() == [logits / chunks]


def test_the_last_norm() -> None:
    assert loss(kernels="eager").norm_bytes.tolist() == [TOKENS * 10 * 100 / 4]
    assert loss(kernels="fused").norm_bytes.tolist() == [TOKENS * 4 * 100 / 4]


@pytest.mark.parametrize("chunks", [1, 4, 8])
def test_a_chunked_loss_takes_a_chunk_of_the_logits(chunks: int) -> None:
    recipe = Recipes.from_recipes([TrainingRecipe("pytorch", loss="chunked", loss_chunks=chunks)])
    found = logits_at_a_time(COUNTS, layout(), recipe, col(TOKENS), np.array([TOKENS * VOCAB / 4]))
    assert found.tolist() == [TOKENS * VOCAB / 4 / chunks]
