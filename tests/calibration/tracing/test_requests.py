"""Rows, setups and request bodies: each way back gives what there was."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from app.api.schemas.requests import EstimateRequest
from app.errors import Unanswerable
from calibration.tracing.grid import draw_cases
from calibration.tracing.requests import AS_RECIPE, body_of, setup_of
from calibration.tracing.rows import case_of, parse_row, row_of
from calibration.tracing.setups import MOMENTS, PARTS, Traced

DRAWN = list(draw_cases())


def test_every_case_is_a_request_and_the_request_that_case() -> None:
    for case in DRAWN:
        body = body_of(case)
        EstimateRequest.model_validate(body)
        back = setup_of(body, case.model_config)
        said = replace(case.setup, shape=replace(case.setup.shape, name=back.shape.name))
        assert AS_RECIPE.get(said.loss, said.loss) == back.loss
        unsaid: dict[str, Any] = {"loss": back.loss}  # what a method does not have is not said of it
        if not said.frozen:
            unsaid |= {name: getattr(back, name) for name in ADAPTERS}
        if said.method != "qlora":
            unsaid |= {"kbit_widening": False}
        assert replace(said, **unsaid) == back


ADAPTERS = ("adapter_rank", "adapter_targets", "adapter_precision", "adapter_dropout")


def test_a_row_is_read_as_it_was_written() -> None:
    figures = Traced(
        peak_bytes=2.0**30,
        reserved_bytes=2.0**31,
        moment="loss",
        operator="aten.mm",
        parts=dict.fromkeys(PARTS, 2.0**29),
        moments=dict.fromkeys(MOMENTS, 2.0**28),
        params=7,
    )
    for case in DRAWN[:50]:
        assert parse_row(row_of(case, figures)) == (case, figures)


def test_the_grid_has_every_method_recomputation_and_kind_of_loss() -> None:
    for field, words in {
        "method": {"full", "lora", "qlora"},
        "recomputation": {"none", "operators", "attention", "every_second_layer", "full"},
        "loss": {"shifted", "held", "upcast", "compiled", "chunked", "fused"},
        "weights": {"16bit", "sharded", "autocast", "master"},
    }.items():
        assert {getattr(case.setup, field) for case in DRAWN} == words
    assert {case.setup.shards for case in DRAWN} >= {1, 2, 8, 64, 512}
    assert {case.setup.sequence for case in DRAWN} >= {512, 131072}


def test_a_layout_that_is_not_traced_is_refused_by_name() -> None:
    body = body_of(case_of("openai-community/gpt2", sequence=512))
    body["deployment"]["tensor_parallel"] = 4
    with pytest.raises(Unanswerable, match="tensor_parallel above 1 is not traced"):
        setup_of(body, {})
