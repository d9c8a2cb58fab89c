"""Relations between questions that differ in sellers, regions and jurisdictions, on the real catalog."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from app.sizing.hardware.parts import FIRM, Environment
from app.sizing.question import Question
from app.sizing.snapshot import Catalog
from tests.examples import CHAT
from tests.sizing.scores import best_score
from tests.sizing.test_relations import QUESTIONS, near_tie, question_of

SLOW = settings(max_examples=10)
COUNTRIES = st.frozensets(st.sampled_from(["DE", "FI", "FR", "IE", "IN", "IS", "NL", "PL", "SE", "US"]), min_size=1)
SELLERS = st.frozensets(
    st.sampled_from(["aws", "azure", "gcp", "lambda", "nebius", "ovh", "scaleway", "verda", "vultr"]), min_size=1
)
SERVICE = question_of(CHAT, 0.8)


def score(question: Question, catalog: Catalog, **limits: Any) -> float:
    """Score of the best rented option at firm prices; infinite where there is none."""
    rented = {"environments": (Environment.CLOUD,), "price_kinds": FIRM, **limits}
    return best_score(replace(question, limit=1, constraints=replace(question.constraints, **rented)), catalog)


def placed(catalog: Catalog, countries: frozenset[str]) -> dict[str, tuple[str, ...]]:
    """Constraints of a request for these countries."""
    regions = tuple(sorted(r for r, country in catalog.region_countries.items() if country in countries))
    return {"regions": regions, "countries": tuple(sorted(countries))}


@pytest.mark.slow
@given(QUESTIONS, COUNTRIES, COUNTRIES)
@example(SERVICE, frozenset({"FI"}), frozenset({"IS"}))
@SLOW
def test_more_countries_are_never_worse(
    catalog: Catalog, question: Question, some: frozenset[str], more: frozenset[str]
) -> None:
    few, many = (score(question, catalog, **placed(catalog, asked)) for asked in (some, some | more))
    assert many <= few * (1 + near_tie(question.workload))
    assert score(question, catalog) <= many * (1 + near_tie(question.workload))


@pytest.mark.slow
@given(QUESTIONS, SELLERS, SELLERS)
@example(SERVICE, frozenset({"gcp"}), frozenset({"verda"}))
@SLOW
def test_more_providers_are_never_worse(
    catalog: Catalog, question: Question, some: frozenset[str], more: frozenset[str]
) -> None:
    few, many = (score(question, catalog, providers=tuple(sorted(asked))) for asked in (some, some | more))
    assert many <= few * (1 + near_tie(question.workload))
    assert score(question, catalog) <= many * (1 + near_tie(question.workload))


@pytest.mark.slow
@given(QUESTIONS, COUNTRIES, COUNTRIES)
@example(SERVICE, frozenset({"FI"}), frozenset({"DE", "FI", "FR", "IS", "NL"}))
@SLOW
def test_a_jurisdiction_never_makes_an_answer_cheaper(
    catalog: Catalog, question: Question, seats: frozenset[str], countries: frozenset[str]
) -> None:
    anywhere = placed(catalog, countries)
    under = score(question, catalog, jurisdictions=tuple(sorted(seats)), **anywhere)
    assert under >= score(question, catalog, **anywhere) * (1 - near_tie(question.workload))
    assert score(question, catalog, jurisdictions=tuple(sorted(seats | countries)), **anywhere) <= under * (
        1 + near_tie(question.workload)
    )
