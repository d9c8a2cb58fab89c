"""What tensors of a layer are divided by, worked by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from app.sizing.training.splits import shares_of, stage_layers
from tests.examples import PRETRAIN_COUNTS, col, row
from tests.sizing.training.counted import COUNTS, layout


def test_matrices_are_split_by_tensor_parallelism_and_what_lies_between_them_with_sequences_only() -> None:
    split, whole = shares_of(COUNTS, layout()), shares_of(COUNTS, layout(sequence_parallel=False))
    assert (split.heads[0], split.hidden[0]) == (0.25, 0.25)
    assert (whole.heads[0], whole.hidden[0]) == (0.25, 1.0)


def test_key_heads_are_copied_where_there_are_more_ranks() -> None:
    assert shares_of(COUNTS, layout()).kv_heads.tolist() == [0.5]  # two of them over four ranks
    assert shares_of(replace(COUNTS, kv_heads=8.0), layout()).kv_heads.tolist() == [0.25]


def test_tokens_at_their_experts_are_split_where_experts_are() -> None:
    assert shares_of(COUNTS, layout()).experts.tolist() == [0.25]
    assert shares_of(COUNTS, layout(expert_parallel=1)).experts.tolist() == [1.0]


@pytest.mark.parametrize(("stages", "layers"), [(1, 32), (3, 11), (16, 2), (32, 1)])
def test_a_stage_has_whole_layers(stages: int, layers: int) -> None:
    plans: Any = row(pipeline_parallel=col(stages))
    assert stage_layers(PRETRAIN_COUNTS.num_layers, plans).tolist() == [layers]


@pytest.mark.parametrize("name", ["hidden", "heads", "kv_heads", "layers"])
@pytest.mark.parametrize("degree", ["tensor_parallel", "pipeline_parallel"])
def test_no_degree_raises_a_share(name: str, degree: str) -> None:
    found = [getattr(shares_of(COUNTS, layout(**{degree: d})), name)[0] for d in (1, 2, 4, 8, 16)]
    assert found == sorted(found, reverse=True)
