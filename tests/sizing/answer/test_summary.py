"""The assumptions that an answer lists in addition to the values of its request. The comparison of each
recommendation with the best one. One deployment in two or three sentences. The sentences a buyer reads first.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from app.sizing.answer.summary import (
    add_comparisons,
    collect_assumptions,
    compare_with_best,
    describe_deployment,
    describe_hardware,
    describe_layout,
    describe_load,
    describe_maximum,
    describe_pools,
    describe_question,
    describe_separate_services,
    describe_service,
    describe_workload,
    duration_s,
    figures_of_merit,
    find_near_ties,
    impossible_estimate,
    limiting_resource,
    price_of_saved_energy,
    ratio_or_none,
    spent_usd,
    write_summary,
)
from app.sizing.assumptions import Assumed, Assumptions
from app.sizing.columns import GIB
from app.sizing.hardware.parts import Commitment, PriceKind, PricingModel
from app.sizing.question import Constraints, Deployment, Objective, Pools, Question
from app.sizing.result import (
    Assurance,
    Carbon,
    DeviceMemory,
    Estimate,
    Level,
    MaximumThatFits,
    Percentiles,
    Ranked,
    Reason,
    Rejection,
    RunnerUp,
    SeparateService,
    SharedFleet,
)
from app.sizing.workload import Load, Method, Trace
from tests.examples import CHAT, LLAMA_8B, PRETRAIN
from tests.sizing.answer.given import COST, RUN, SPEED, estimated, ranked
from tests.sizing.small import BIG, CARD, RARE


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
    firm = "provider, reseller, quote, survey, list"
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


LEAD = "Compared with the best option, {name}"


def cost(usd_per_hour: float | None) -> Any:
    return replace(COST, usd_per_hour=usd_per_hour)


def speed(e2e_s: float) -> Any:
    return replace(SPEED, e2e=Percentiles(e2e_s, e2e_s, 2 * e2e_s, 3 * e2e_s))


@pytest.mark.parametrize(
    ("usd_per_hour", "e2e_s", "words", "money"),
    [
        (60.0, 3.0, "costs 50 % more and takes 1.5 times as long per request", 1.5),
        (90.0, 2.0, "costs 2.25 times as much and is equally fast", 2.25),
        (30.0, 1.0, "costs 25 % less and takes 50 % less time per request", 0.75),
        (40.1, 2.05, "costs the same and is equally fast", 1.0025),
        (40.4, 2.2, "costs 1 % more and takes 1.1 times as long per request", 1.01),
        (None, 4.0, "takes 2 times as long per request", 0.0),
    ],
)
def test_a_comparison_with_the_best_states_both_ratios(
    usd_per_hour: float | None, e2e_s: float, words: str, money: float
) -> None:
    other = ranked(2, CARD, cost=cost(usd_per_hour), performance=speed(e2e_s), total_accelerators=24)
    found = compare_with_best(other, ranked(), lead=LEAD)
    assert found.text.startswith(f"Compared with the best option, Acme Card {words}. It uses 24 accelerators with ")
    assert found.value == pytest.approx(money)


@pytest.mark.parametrize(("bought", "stated"), [(450_000.0, True), (14_000.0, False), (None, False)])
def test_a_comparison_states_purchases_that_differ_more_than_costs(bought: float | None, *, stated: bool) -> None:
    """An owned machine costs a run little, however expensive it is to buy."""
    own = ranked(cost=replace(cost(40.0), purchase_usd=4_700.0))
    other = ranked(2, CARD, cost=replace(cost(80.0), purchase_usd=bought))
    text = compare_with_best(other, own, lead=LEAD).text
    assert text.endswith(" Its purchase costs 450,000 USD instead of 4,700 USD.") == stated


def test_where_neither_money_nor_time_is_known_the_price_is_said_to_be_missing() -> None:
    found = compare_with_best(ranked(2, CARD, cost=None, performance=None), ranked(), lead=LEAD)
    assert "Acme Card has no known price. " in found.text


@pytest.mark.parametrize(
    ("bottleneck", "words"),
    [
        ("compute", "1,000 TFLOP/s of 16-bit compute"),
        ("memory_capacity", "80 GiB of memory"),
        ("interconnect", "450 GB/s of link bandwidth"),
        ("memory_bandwidth", "3.2 TB/s of memory bandwidth"),
        (None, "3.2 TB/s of memory bandwidth"),
        ("host", ""),
    ],
)
def test_the_limiting_resource_is_shown_in_its_own_unit(bottleneck: str | None, words: str) -> None:
    assert limiting_resource(bottleneck, BIG) == words


def test_the_limit_is_the_other_plans_own_and_counts_are_of_accelerators() -> None:
    other = ranked(2, CARD, bottleneck="memory_capacity", total_accelerators=24)
    assert compare_with_best(other, ranked(), lead=LEAD).text.endswith(
        ". It uses 24 accelerators with 24 GiB of memory each; the best option uses 8 with 80 GiB each."
    )


def test_pools_are_named_with_spares_and_sellers() -> None:
    size: dict[str, Any] = {
        "accelerators_per_replica": 1,
        "weight_format": "fp8",
        "pricing_model": PricingModel.ON_DEMAND,
    }
    spared = Deployment(BIG.slug, provider="lambda", region="x", replicas=1, spare_replicas=1, **size)
    single = Deployment(CARD.slug, provider="lambda", region="unspecified", replicas=1, spare_replicas=0, **size)
    bought = replace(single, provider="dell", pricing_model=PricingModel.OWNED, system="dell-8")
    names = {BIG.slug: "Big", CARD.slug: "Card", "dell-8": "Dell 8x Card"}
    assert describe_pools(Pools(spared, single), "vllm", names, frozenset({"US"})) == (
        "two pools with vLLM: 1 prefill replica and 1 spare on 1 × Big each from Lambda (x, on demand) in FP8, "
        "and 1 decode replica on 1 × Card from Lambda (on demand, in US) in FP8"
    )
    assert describe_pools(Pools(single, bought), "vllm", names, frozenset({"US"})) == (
        "two pools with vLLM: 1 prefill replica on 1 × Card from Lambda (on demand) in FP8, "
        "and 1 decode replica on 1 × Card (purchase, Dell 8x Card) in FP8"
    )


def test_pools_of_two_types_are_compared_by_their_accelerators() -> None:
    """The amount of one type's resource says nothing about the other's."""
    pools = Pools(Deployment("h100", total_accelerators=48), Deployment("b200", total_accelerators=16))
    mixed = ranked(pools=pools, total_accelerators=64)
    text = compare_with_best(ranked(2, CARD, total_accelerators=104), mixed, lead=LEAD).text
    assert text.endswith("It uses 104 × Acme Card; the best option uses 48 × h100 and 16 × b200.")


@pytest.mark.parametrize(
    ("objective", "figures"),
    [
        (Objective.COST, []),
        (Objective.LATENCY, ["median latency 2,000 ms"]),
        (Objective.ENERGY, ["energy 0.0304 kWh per million tokens"]),
        (Objective.CARBON, ["carbon 1.09 g CO2e per million tokens"]),
        (Objective.BALANCED, ["median latency 2,000 ms", "energy 0.0304 kWh per million tokens"]),
    ],
)
def test_the_figures_by_which_the_objective_ranks_follow_the_price(objective: Objective, figures: list[str]) -> None:
    carbon = Carbon(35.7, 0.00109, "month", ())
    option = ranked(cost=replace(COST, kwh_per_million=0.0304, carbon=carbon), performance=speed(2.0))
    assert figures_of_merit(option.estimate, objective)[1:] == figures


def test_where_hosts_limit_only_accelerators_are_counted() -> None:
    other = ranked(2, CARD, bottleneck="host", total_accelerators=24)
    assert compare_with_best(other, ranked(), lead=LEAD).text.endswith(
        ". It uses 24 accelerators; the best option uses 8."
    )


def test_the_best_says_why_it_leads_and_the_others_what_they_lack() -> None:
    places = (ranked(), ranked(2, CARD, cost=cost(50.0)), ranked(3, RARE, cost=cost(80.0)))
    first, second, third = (r.estimate.explanation for r in add_comparisons(places, Question(CHAT), 7))
    assert [r.code for r in first] == ["choice", "comparison"]
    assert first[0].text == (
        "Of the 7 accelerator types that meet the limits, this one has the lowest cost: "
        "8 × Acme Big from sky (us-1, on demand), 40.00 USD/h, 0.25 USD per million tokens."
    )
    assert first[1].text.startswith("Next best: Acme Card. It costs 25 % more")
    assert [(r.code, r.value) for r in second] == [("comparison", 1.25)]
    assert [(r.code, r.value) for r in third] == [("comparison", 2.0)]


def test_the_only_type_and_an_empty_ranking() -> None:
    (only,) = add_comparisons((ranked(),), Question(CHAT), 1)
    assert [r.text for r in only.estimate.explanation] == ["This is the only accelerator type that meets the limits."]
    assert add_comparisons((), Question(CHAT), 0) == ()


def test_a_run_is_compared_by_its_money_and_days_a_service_by_its_hour_and_request() -> None:
    run = estimated(cost=replace(COST, usd_total=4800.0), performance=RUN)
    assert (spent_usd(run), duration_s(run)) == (4800.0, 5 * 86400.0)
    assert (spent_usd(estimated()), duration_s(estimated())) == (40.0, 2.0)
    assert (spent_usd(estimated(cost=None)), duration_s(estimated(performance=None))) == (None, None)

    def sure(accelerators: int, usd: float) -> Ranked:
        place = ranked(cost=replace(COST, usd_total=4800.0), performance=RUN, total_accelerators=accelerators)
        level = Level(0.8, accelerators, usd_total=usd)
        return replace(place, estimate=replace(place.estimate, assurance=Assurance(0.8, 1.0, None, 0.9, (level,))))

    # by what they are ranked by, which the text names
    text = compare_with_best(sure(16, 9000.0), sure(8, 6000.0), lead=LEAD).text
    assert "costs 50 % more at 80 % confidence and" in text
    assert (ratio_or_none(3.0, 2.0), ratio_or_none(None, 2.0), ratio_or_none(3.0, 0.0)) == (1.5, None, None)


def near(worse: float | None, stored: str | None = "fp8", **place: Any) -> Ranked:
    """A place with another engine so much worse on its accelerator."""
    rival = None if worse is None else RunnerUp("sglang", stored, worse)
    return replace(ranked(), runner_up=rival, **place)


SECOND = replace(ranked(2, CARD), score=1 / 1.02)


@pytest.mark.parametrize(
    ("places", "named", "differs", "difference"),
    [
        ((near(0.02),), "SGLang in FP8", " (2 % more expensive)", 0.02),
        ((near(0.05, None),), "SGLang", " (5 % more expensive)", 0.05),
        ((near(0.004), ranked(2)), "SGLang in FP8", "", 0.004),
        ((near(0.03), SECOND), "SGLang in FP8", " (3 % more expensive)", 0.03),
    ],
)
def test_what_comes_near_to_a_plan_is_named(
    places: tuple[Ranked, ...], named: str, differs: str, difference: float
) -> None:
    (reason,) = find_near_ties(places, Objective.COST, 0.05)
    assert reason.code == "near_tie"
    assert reason.value == pytest.approx(difference)
    assert reason.text == f"{named} costs about the same{differs}; use whichever you know."


def test_nothing_is_named_where_nothing_comes_near() -> None:
    for places in ((near(None),), (near(0.06), ranked(2)), (near(0.051), SECOND)):
        assert find_near_ties(places, Objective.COST, 0.05) == ()


@pytest.mark.parametrize(("second", "tied"), [(SECOND, True), (ranked(2, CARD), False)])
def test_the_next_type_at_a_similar_cost_is_named_once(second: Ranked, tied: bool) -> None:
    first, _ = add_comparisons((near(None), second), Question(CHAT), 2)
    named = [r for r in first.estimate.explanation if "Acme Card" in r.text]
    assert [r.code for r in named] == ["comparison"]
    assert ("near tie: choose by availability" in named[0].text) == tied


def test_each_recommendation_names_its_own_near_tie_the_first_also_the_next_type() -> None:
    places = (near(0.01), replace(SECOND, runner_up=RunnerUp("vllm", "int8", 0.0)))
    question = Question(CHAT, objective=Objective.ENERGY)
    first, second = (
        [r.text for r in place.estimate.explanation if r.code == "near_tie"]
        for place in add_comparisons(places, question, 2)
    )
    assert first == [
        "SGLang in FP8 (1 % worse) and Acme Card (2 % worse) use about as much energy; choose by availability."
    ]
    assert second == ["vLLM in INT8 uses about as much energy; use whichever you know."]


MEMORY = DeviceMemory(8 * GIB, 8 * GIB, GIB, GIB, 0.0, 0.0, 24 * GIB, 22 * GIB)
SERVED = replace(
    SPEED,
    requests_per_s_capacity=9.0,
    ttft=Percentiles(0.2, 0.2, 0.4, 0.5),
    tpot=Percentiles(0.03, 0.03, 0.04, 0.05),
    e2e=None,
)
SURE = Assurance(0.8, 1.0, 0.84, None, ())


def of(found: Estimate, question: Question) -> str:
    return describe_deployment(question, Ranked(1, 1.0, found, BIG))


def service(**changes: Any) -> Estimate:
    return replace(estimated(performance=SERVED), **{"memory": MEMORY, "assurance": SURE, **changes})


def test_a_service_says_what_it_carries_how_quickly_how_surely_and_for_how_much() -> None:
    assert of(service(), Question(CHAT)) == (
        f"{describe_workload(CHAT)} on 8 × Acme Big from sky (us-1, on demand): 3 replicas and 1 spare, 2 GPUs each, "
        "BF16, vLLM. It fits and serves up to 9 requests/s within the limits. At peak, TTFT is 200 ms (p95 400 ms) and "
        "TPOT is 30 ms (p95 40 ms). It is 84 % likely to meet every limit. It costs 40.00 USD/h, 0.25 USD per million "
        "tokens."
    )


def test_more_than_it_carries_is_said_in_requests() -> None:
    text = of(service(assurance=replace(SURE, meets_slo=0.0)), Question(replace(CHAT, peak_per_s=12.0)))
    assert "It fits but serves only 9 of the requested 12 requests/s within the limits. It costs" in text


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"load": Load.OFFLINE}, "It fits and serves 9 requests/s. It is 84 % likely"),
        ({"load": Load.CLOSED, "in_flight": 4.0}, "It fits and serves 9 requests/s. With this load, TTFT is 200 ms"),
    ],
)
def test_what_is_in_flight_is_done_as_quickly_as_it_can(changes: dict[str, Any], words: str) -> None:
    assert words in of(service(), Question(replace(CHAT, **changes)))


@pytest.mark.parametrize(
    ("capacity", "rate"), [(0.996, "0.996 requests/s"), (1.0, "1 request/s"), (9.0, "9 requests/s")]
)
def test_one_request_per_second_is_in_the_singular(capacity: float, rate: str) -> None:
    assert describe_service(CHAT, replace(SPEED, requests_per_s_capacity=capacity)).startswith(
        f"and serves up to {rate} "
    ) == (capacity >= CHAT.peak_per_s)
    offline = replace(CHAT, load=Load.OFFLINE)
    assert describe_service(offline, replace(SPEED, requests_per_s_capacity=capacity)) == f"and serves {rate}"


def test_what_does_not_fit_says_by_how_much_and_what_was_never_made_says_so() -> None:
    short = Reason("out_of_memory", "It does not fit: 30 of 22 GiB.", "needed_gib", 30.0, "GiB")
    text = of(service(fits=False, explanation=(short,), cost=None), Question(CHAT))
    assert text.endswith("It does not fit: 30 of 22 GiB.")
    never = impossible_estimate(Deployment("acme-big", engine="mlx"), LLAMA_8B, BIG, None)
    assert of(never, Question(CHAT)) == f"{describe_workload(CHAT)}. {never.explanation[0].text}"


@pytest.mark.parametrize(
    ("days", "words"), [(5.0, "and takes 5 days, within"), (20.0, "but takes 20 days, longer than")]
)
def test_a_run_is_held_against_its_deadline(days: float, words: str) -> None:
    found = estimated(
        cost=replace(COST, usd_total=4800.0), performance=replace(RUN, days=days), framework="fsdp", engine=None
    )
    text = of(replace(found, memory=MEMORY), Question(PRETRAIN))
    assert f": FSDP on 2 GPUs. It fits {words} the deadline of 14 days. It costs 4,800 USD" in text


def test_the_largest_value_that_fits_is_named() -> None:
    largest = MaximumThatFits("sequence_length", 8192.0, 8320.0)
    assert describe_maximum(service(maximum=largest)) == ", with the longest sequences that fit (8,192 tokens),"
    assert describe_maximum(service()) == ""


TRACE = Trace(np.arange(2.0), np.full(2, 900), np.full(2, 90), np.zeros(2, np.int64))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "at up to 5 requests/s"),
        ({"load": Load.OFFLINE}, "offline without latency limits"),
        ({"load": Load.CLOSED, "in_flight": 1.0}, "to one user at a time"),
        ({"load": Load.CLOSED, "in_flight": 12.0}, "with 12 requests in flight"),
        ({"load": Load.CLOSED, "in_flight": 64.0, "requests": 640.0}, "for a run of 640 requests with 64 in flight"),
        ({"trace": TRACE}, "at up to 5 requests/s (recorded traffic)"),
        ({"load": Load.BATCH, "in_flight": 32.0}, "in static batches of 32 requests"),
    ],
)
def test_a_load_in_words(changes: dict[str, Any], words: str) -> None:
    assert describe_load(replace(CHAT, **changes)) == words


@pytest.mark.parametrize(
    ("question", "words"),
    [
        (Question(CHAT), "Serving Llama-3.1-8B at up to 5 requests/s. Objective: lowest cost"),
        (
            Question(PRETRAIN, objective=Objective.LATENCY),
            "Training Llama-3.1-8B on 100 billion tokens within 14 days. Objective: lowest latency",
        ),
        (
            Question(replace(PRETRAIN, phase="fine_tuning", method=Method.LORA, units=2e6, deadline_s=36 * 3600.0)),
            "LoRA fine-tuning of Llama-3.1-8B on 2 million tokens within 36 hours. Objective: lowest cost",
        ),
    ],
)
def test_the_three_questions_before_buying(question: Question, words: str) -> None:
    assert describe_question(question) == words


def test_hardware_is_named_with_its_number_and_its_seller() -> None:
    assert describe_hardware(ranked()) == "8 × Acme Big from sky (us-1, on demand)"
    assert (
        describe_hardware(ranked(region="unspecified", total_accelerators=1024))
        == "1,024 × Acme Big from sky (on demand)"
    )
    assert describe_hardware(ranked(pricing_model=PricingModel.OWNED)) == "8 × Acme Big (purchase, system big-8)"
    listed = replace(ranked(pricing_model=PricingModel.OWNED), names={"big-8": "Acme Server 8x Big"})
    assert describe_hardware(listed) == "8 × Acme Big (purchase, Acme Server 8x Big)"
    unlisted = ranked(provider=None, region=None, pricing_model=None)
    assert describe_hardware(unlisted) == "8 × Acme Big (no listed price)"


def test_a_summary_of_serving_names_hardware_replicas_format_and_price() -> None:
    second = ranked(2, CARD, cost=replace(COST, usd_per_hour=50.0), total_accelerators=24)
    text = write_summary(Question(CHAT), (ranked(), second), None)
    assert text == (
        f"{describe_question(Question(CHAT))}. Recommended: 8 × Acme Big from sky (us-1, on demand): 3 replicas and 1 "
        "spare, 2 GPUs each, BF16, vLLM. Cost: 40.00 USD/h, 0.25 USD per million tokens. At least 80 % likely to meet "
        "every limit. Next best: 24 × Acme Card from sky (us-1, on demand), 50.00 USD/h, 0.25 USD per million tokens."
    )
    why = "vLLM has 80 published recipes. Of two options, the one with more published recipes ranks first."
    used = Reason("published_use", why, "published_recipes", 80.0, "recipes")
    passing = ranked()
    passing = replace(passing, estimate=replace(passing.estimate, explanation=(used,)))
    assert write_summary(Question(CHAT), (passing, second), None) == f"{text} {why}"
    alone = write_summary(Question(CHAT), (ranked(replicas=1, spare_replicas=0),), None)
    assert ": 1 replica on 2 GPUs, BF16, vLLM." in alone
    assert "Next best" not in alone


@pytest.mark.parametrize(("days", "words"), [(5.0, "5 days"), (0.5, "12 hours")])
def test_a_summary_of_training_names_layout_duration_and_money(days: float, words: str) -> None:
    run = ranked(cost=replace(COST, usd_total=4800.0), performance=replace(RUN, days=days), framework="fsdp")
    text = write_summary(Question(PRETRAIN), (run,), None)
    assert text.endswith(
        f"Recommended: 8 × Acme Big from sky (us-1, on demand): FSDP on 2 GPUs. Duration: {words}. "
        "Cost: 4,800 USD for the run (40.00 USD/h). At least 80 % likely to meet every limit."
    )


def test_without_a_feasible_option_the_closest_one_is_named() -> None:
    miss = Rejection("acme-card", "Acme Card", "out_of_memory", "{name} needs {needed} of {available}.", 30.0, 24.0)
    assert write_summary(Question(CHAT), (), miss).endswith("Closest option: Acme Card needs 30 of 24.")
    assert write_summary(Question(CHAT), (), None).endswith("Closest option: The catalog is empty.")


@pytest.mark.parametrize(
    ("known", "code", "words"),
    [
        (None, "no_layout", "tensor_parallel must divide 32 attention heads, and divide or be a multiple of 8"),
        (Rejection("acme-big", "Acme Big", "missing_data", "No bandwidth of {name}."), "missing_data", "of Acme Big."),
        (
            Rejection("acme-big", "Acme Big", "no_engine", "vllm does not run on {name}.", rule="It has no FP8."),
            "unsupported",
            "vllm does not run on Acme Big. It has no FP8.",
        ),
    ],
)
def test_what_cannot_run_together_says_why(known: Rejection | None, code: str, words: str) -> None:
    found = impossible_estimate(Deployment("acme-big", engine="vllm", weight_format="fp8"), LLAMA_8B, BIG, known)
    (reason,) = found.explanation
    assert (found.fits, reason.code) == (False, code)
    assert words in reason.text


def test_a_tensor_parallel_degree_that_splits_no_heads_is_said() -> None:
    none = Rejection(
        "acme-big", "Acme Big", "no_layout", "No layout of this model on {name} fits one replica.", None, None, None
    )
    (reason,) = impossible_estimate(Deployment("acme-big", tensor_parallel=3), LLAMA_8B, BIG, none).explanation
    assert "must divide 32 attention heads, and divide or be a multiple of 8 key/value heads" in reason.text
    (reason,) = impossible_estimate(Deployment("acme-big", nodes=1), LLAMA_8B, BIG, none).explanation
    assert reason.text == "No layout of this model on Acme Big fits one replica."


@pytest.mark.parametrize(
    ("replicas", "spares", "size", "text"),
    [
        (1, 0, 1, "1 replica on one GPU"),
        (1, None, 4, "1 replica on 4 GPUs"),
        (1, 1, 1, "1 replica and 1 spare, one GPU each"),
        (2, 1, 1, "2 replicas and 1 spare, one GPU each"),
        (2, 0, 4, "2 replicas, 4 GPUs each"),
        (3, 2, 2, "3 replicas and 2 spares, 2 GPUs each"),
    ],
)
def test_a_layout_counts_replicas_and_spares_and_the_size_of_each(
    replicas: int, spares: int | None, size: int, text: str
) -> None:
    found = describe_layout(ranked(replicas=replicas, spare_replicas=spares, accelerators_per_replica=size))
    assert found.replace("accelerator", "GPU") == f"{text}, BF16, vLLM"


def test_another_type_ties_only_at_a_similar_price_where_money_does_not_rank() -> None:
    """A score 2 % lower is near; at 4 % more it is a tie, at 6 % more or half more it is none unless money ranks."""
    for usd, tied in ((41.6, True), (42.4, False), (60.0, False), (100.0, False)):
        places = (near(None), replace(SECOND, estimate=estimated(cost=replace(COST, usd_per_hour=usd))))
        assert bool(find_near_ties(places, Objective.LATENCY, 0.05)) == tied


def test_classes_that_are_cheaper_apart_are_answered_apart() -> None:
    def fleet(*usd_per_hour: float | None) -> SharedFleet:
        services = tuple(
            SeparateService(f"class {i}", BIG.slug, 2, usd, 16, "vllm", BIG.name) for i, usd in enumerate(usd_per_hour)
        )
        return SharedFleet(4, 100.0, (), services, None, None, "")

    assert describe_separate_services(fleet(20.0, 30.0), 0.05) == (
        f"2 separate services, class 0 on 16 × {BIG.name} (vLLM, 20.00 USD/h); class 1 on 16 × {BIG.name} (vLLM, "
        "30.00 USD/h); together 50.00 USD/h. Request each class alone for its full plan. One shared service needs "
    )
    for together in (fleet(60.0, 36.0), fleet(20.0, None), None):  # a near tie, an infeasible class, and no classes
        assert describe_separate_services(together, 0.05) == ""


def test_the_objective_energy_states_the_price_of_a_saved_kwh() -> None:
    dear, cheap = (
        ranked(rank, cost=replace(COST, usd_per_hour=usd, usd_per_million=usd / 40, kwh_per_million=kwh))
        for rank, usd, kwh in ((1, 80.0, 0.2), (2, 40.0, 0.3))
    )
    (reason,) = price_of_saved_energy((dear, cheap))
    assert reason.value == pytest.approx((2.0 - 1.0) / (0.3 - 0.2))
    assert "saves 0.1 kWh and costs 1.00 USD more per million tokens: 10.00 USD per kWh saved" in reason.text
    assert list(price_of_saved_energy((cheap, dear))) == []  # the first is the cheapest
    assert list(price_of_saved_energy((dear,))) == []
    first, _ = add_comparisons((dear, cheap), Question(CHAT, objective=Objective.ENERGY), 2)
    assert "price_of_saved_energy" in [r.code for r in first.estimate.explanation]
    first, _ = add_comparisons((dear, cheap), Question(CHAT), 2)
    assert "price_of_saved_energy" not in [r.code for r in first.estimate.explanation]
