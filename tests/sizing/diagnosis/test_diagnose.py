"""Findings in order of what they cost, without those that others explain, in a sentence."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.errors import Conflict
from app.sizing.assumptions import Assumptions
from app.sizing.diagnosis.case import Observations, TrainingObservation
from app.sizing.diagnosis.diagnose import diagnose, rank_findings, remaining_finding, summarize_findings
from app.sizing.diagnosis.findings import Finding
from app.sizing.question import Deployment, Pools, Question
from tests.examples import PRETRAIN
from tests.sizing.compare.given import HEAVY
from tests.sizing.diagnosis.given import RUNS, SERVES, codes, first, run, service, serving, training
from tests.sizing.small import SMALL

A = Finding("a", "A.", 0.3, (), "", "Do it.", 0.3, explains=("b",), accounts_for=("c",))
B = replace(A, code="b", share=0.5, explains=("a",), accounts_for=())
C = replace(A, code="c", share=0.4, explains=(), accounts_for=())
UNKNOWN = replace(C, code="d", share=None, gain=None)


@pytest.mark.parametrize("noise", [0.9, 1.0, 1.1])
def test_what_is_as_expected_is_healthy(noise: float) -> None:
    assert diagnose(Question(HEAVY), SERVES, SMALL, Observations(service(noise))).findings == ()
    assert diagnose(Question(PRETRAIN), RUNS, SMALL, Observations(training=run(noise))).findings == ()


@settings(max_examples=15)
@given(st.lists(st.floats(0.9, 1.1), min_size=6, max_size=6))
def test_noise_on_every_figure_is_no_finding(noise: list[float]) -> None:
    s = service()
    names = ("requests_per_s", "ttft_p50_s", "tpot_p50_s", "queue_p50_s", "running", "cache_usage")
    noisy = {name: getattr(s, name) * n for name, n in zip(names, noise, strict=True)}
    assert codes(serving(**{**noisy, "requests_per_s": 30.0})) == []
    t = run()
    of_run = ("step_time_s", "compute_s", "communication_s", "input_s", "checkpoint_s", "checkpoint_interval_s")
    assert codes(training(**{name: getattr(t, name) * n for name, n in zip(of_run, noise, strict=True)})) == []


def test_a_finding_explains_others_whatever_they_cost_or_as_far_as_it_costs() -> None:
    assumed = Assumptions()
    assert [f.code for f in rank_findings([A, replace(B, explains=())], assumed)] == ["a"]
    assert [f.code for f in rank_findings([A, C], assumed)] == ["a"]
    (c, a) = rank_findings([A, replace(C, share=0.9)], assumed)
    assert (c.code, a.code) == ("c", "a") and c.share == pytest.approx(0.6)


def test_a_finding_that_explains_a_part_comes_before_the_rest() -> None:
    host, slow = replace(A, share=0.6, accounts_for=("c",)), replace(C, share=0.85, gain=0.85)
    first_, rest = rank_findings([slow, host], Assumptions())
    assert first_.code == "a" and rest.share == rest.gain == pytest.approx(0.25)


def test_findings_that_explain_one_another_do_not_both_vanish() -> None:
    assert [f.code for f in rank_findings([A, B], Assumptions())] == ["b", "a"]
    assert [f.code for f in rank_findings([A, replace(B, explains=(), accounts_for=("a",))], Assumptions())] == [
        "b",
        "a",
    ]
    found = serving(replace(SERVES, max_batch=4), running=4.0, waiting=30.0, cache_usage=0.9)
    assert first(found).code == "batch_limit"
    found = serving(requests_per_s=90.0, cache_usage=0.99, waiting=40.0, queue_p50_s=3.0, ttft_p50_s=4.0)
    assert codes(found) == ["overloaded"]


def test_a_finding_of_unknown_cost_explains_nothing_and_comes_last() -> None:
    unknown = replace(UNKNOWN, explains=("c",))
    assert [f.code for f in rank_findings([unknown, C], Assumptions())] == ["c", "d"]
    assert summarize_findings([unknown]) == "A. Do it. The loss is unknown."


def test_the_summary_names_the_first_and_counts_the_others() -> None:
    assert summarize_findings([A, C]) == "A. Do it. Estimated loss: 30 %. 1 further finding."
    assert summarize_findings([]) == "All judged values are within the range expected of this hardware."


def test_nothing_follows_from_nothing() -> None:
    assert diagnose(Question(PRETRAIN), RUNS, SMALL, Observations(training=TrainingObservation())).findings == ()
    assert diagnose(Question(HEAVY), replace(SERVES, max_batch=4), SMALL, Observations()).findings == ()


def test_what_was_not_expected_to_run_is_evidence_and_pools_are_refused() -> None:
    alone = Deployment("acme-card", total_accelerators=1)
    found = diagnose(Question(PRETRAIN), alone, SMALL, Observations(training=TrainingObservation(step_time_s=1.0)))
    assert found.findings == () and "not expected to" in found.notes[0]
    pools = replace(SERVES, pools=Pools(SERVES, SERVES))
    with pytest.raises(Conflict, match="Pools"):
        diagnose(Question(HEAVY), pools, SMALL, Observations())


def test_what_helps_none_of_it_is_said_once() -> None:
    found = training(input_s=4.0, step_time_s=12.0)
    assert found.not_to_buy == ("faster accelerators",)


def test_the_rest_of_a_finding_is_kept_unless_it_is_small_in_both_ways() -> None:
    """Dropped are at most half of it and less than a deployment that counts as slower loses."""
    slower = Assumptions().diagnosed_slower_share
    bound = slower / (1 + slower)
    cause = replace(A, explains=(), accounts_for=("c",))
    for rest, share, kept in (
        (1.01 * bound, 0.6, True),
        (0.99 * bound, 0.6, False),
        (0.06, 0.11, True),  # more than half of it
        (0.05, 0.11, False),
    ):
        part = replace(C, share=share, gain=1.0)
        found = remaining_finding(part, [part, replace(cause, share=share - rest)], Assumptions())
        assert (found is not None) == kept
        if found is not None:
            assert found.share == found.gain == pytest.approx(rest)
    part = replace(C, share=0.9, gain=0.2)
    found = remaining_finding(part, [part, replace(cause, share=0.3)], Assumptions())
    assert found is not None and found.share == pytest.approx(0.6) and found.gain == 0.2
