"""Numbers chosen for counting: within their range, with a reason, a source and a date."""

from __future__ import annotations

import re
from dataclasses import Field, fields
from typing import Any

import pytest

from app.sizing.model.figures import FIGURES
from app.sizing.model.sample import FLOPS_PER_ACTIVATION, Network


@pytest.mark.parametrize("figure", fields(FIGURES), ids=lambda f: f.name)
def test_a_figure_lies_in_its_range_and_says_where_it_is_from(figure: Field[Any]) -> None:
    facts = figure.metadata
    assert facts["low"] <= getattr(FIGURES, figure.name) <= facts["high"]
    assert facts["reason"]
    assert facts["source"]
    assert facts["unit"]
    assert re.fullmatch(r"20\d\d-\d\d", facts["as_of"])


def test_every_kind_of_network_has_its_work_per_activation() -> None:
    assert set(FLOPS_PER_ACTIVATION) == set(Network)
