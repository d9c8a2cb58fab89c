"""The assumptions that an answer lists in addition to the values of its request."""

from __future__ import annotations

from dataclasses import replace

from app.sizing.answer.assumed import collect_assumptions
from app.sizing.assumptions import Assumed, Assumptions
from app.sizing.hardware.parts import PricingModel
from app.sizing.hardware.prices import Commitment, PriceKind
from app.sizing.question import Constraints, Deployment, Question
from tests.examples import CHAT, LLAMA_8B, PRETRAIN


def assumed_values(question: Question, deployment: Deployment | None = None) -> dict[str, Assumed]:
    return {a.name: a for a in collect_assumptions(question, deployment)}


def test_the_answer_states_requested_and_default_choices() -> None:
    usual = assumed_values(Question(CHAT))
    assert usual.keys() == {"pricing_models", "price_kinds", "weight_formats", "kv_formats"}
    assert "spot" not in str(usual["pricing_models"].value)
    assert not any(a.asked for a in usual.values())
    limits = Constraints(weight_formats=("fp8",), kv_formats=("bf16",), pricing_models=(PricingModel.SPOT,))
    asked = assumed_values(Question(CHAT, limits))
    del asked["price_kinds"]
    assert [(a.value, a.asked) for a in asked.values()] == [("spot", True), ("fp8", True), ("bf16", True)]


def test_a_run_is_paid_on_demand_and_has_no_cache() -> None:
    firm = "provider, reseller, quote, list"
    found = {n: a.value for n, a in assumed_values(Question(PRETRAIN)).items()}
    assert found == {"pricing_models": "on_demand", "price_kinds": firm}


def test_what_one_binds_oneself_to_and_whose_prices_count_is_asked() -> None:
    limits = Constraints(commitment=Commitment.ONE_YEAR, price_kinds=(PriceKind.BROKER,))
    found = assumed_values(Question(PRETRAIN, limits))
    assert {n: (a.value, a.asked) for n, a in found.items()} == {
        "pricing_models": ("on_demand, reserved_1y, committed_1y", True),
        "price_kinds": ("broker", True),
    }


def test_what_a_deployment_says_is_no_assumption() -> None:
    question = Question(CHAT, assumptions=Assumptions().with_recording())
    fixed = Deployment("x", weight_format="fp8", kv_format="fp8")
    assert assumed_values(question, fixed).keys() == {"pricing_models"}
    assert assumed_values(question, Deployment("x")).keys() == {"pricing_models", "weight_formats", "kv_formats"}


def test_the_answer_states_read_and_guessed_model_values() -> None:
    guessed = replace(LLAMA_8B, assumed=("hidden size",))
    noted = Assumptions().with_recording()
    assert noted.pue > 1
    for workload in (replace(CHAT, model=guessed), replace(PRETRAIN, model=guessed)):
        found = collect_assumptions(Question(workload, assumptions=noted))
        assert (found[0].name, found[0].value) == ("model_shape", "hidden size")
        assert (found[-1].name, found[-1].bounds) == ("pue", Assumptions.allowed_range("pue"))
