"""One deployment in two or three sentences."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from app.sizing.answer.described import describe_deployment, describe_maximum
from app.sizing.answer.summary import describe_workload, impossible_estimate
from app.sizing.question import Deployment, Question
from app.sizing.result import Assurance, DeviceMemory, Estimate, Ranked, Reason
from app.sizing.units import GIB
from app.sizing.values.latencies import Percentiles
from app.sizing.values.runs import MaximumThatFits
from app.sizing.workload import Load
from tests.examples import CHAT, LLAMA_8B, PRETRAIN
from tests.sizing.answer.given import COST, RUN, SPEED, estimated
from tests.sizing.small import BIG

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
        "BF16, "
        "vLLM. It fits and serves up to 9 requests/s within the limits. At peak, TTFT is 200 ms (p95 400 ms) and TPOT "
        "is 30 ms (p95 40 ms). It is 84 % likely to meet every limit. "
        "It costs 40.00 USD/h, 0.25 USD per million tokens."
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
