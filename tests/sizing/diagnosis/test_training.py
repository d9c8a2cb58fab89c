"""What keeps a run from stepping. Settings that cost speed by themselves, judged by the core without them. Scaling
compared with the estimate at the same numbers of accelerators. Where a step's time goes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest

from app.sizing.diagnosis import training as scaling_checks
from app.sizing.diagnosis.case import Observations, ScalePoint, TrainingObservation
from app.sizing.diagnosis.diagnose import diagnose
from app.sizing.diagnosis.training import describe_settings, expected_scaling_ratio
from app.sizing.estimate import estimate_deployment
from app.sizing.question import Deployment, Question
from app.sizing.snapshot import Catalog
from tests.examples import PRETRAIN, registered
from tests.sizing.comparing.given import HEAVY
from tests.sizing.diagnosis.given import RUNS, SERVES, codes, expected, first, training
from tests.sizing.diagnosis.given import serving as served
from tests.sizing.diagnosis.test_case import case_training
from tests.sizing.small import SMALL


@pytest.mark.parametrize(
    ("code", "seen"),
    [
        ("slow_checkpoints", {"checkpoint_s": 600.0}),
        ("frequent_checkpoints", {"checkpoint_interval_s": 10.0}),
        ("run_restarts", {"restarts_per_day": 12.0}),
        ("slow_warm_up", {"restarts_per_day": 4.0, "warmup_s": 5400.0, "checkpoint_interval_s": 600.0}),
        ("evaluation", {"evaluation_share": 0.3}),
    ],
)
def test_a_cause_planted_comes_first(code: str, seen: dict[str, Any]) -> None:
    assert first(training(**seen)).code == code


def test_a_restart_costs_the_work_since_the_last_checkpoint_and_the_time_to_be_back() -> None:
    found = first(training(restarts_per_day=12.0, checkpoint_interval_s=3600.0))
    assert found.share == pytest.approx(12 * (600 + 1800) / 86400, rel=0.05)


def test_warming_up_once_costs_next_to_nothing() -> None:
    assert "slow_warm_up" not in codes(training(warmup_s=1200.0))


SLOW = {"step_time_s": None, "compute_s": None, "communication_s": None, "tokens_per_s": 1000.0, "input_s": None}
LATE = {"ttft_p50_s": None, "tpot_p50_s": None, "queue_p50_s": None}


def test_the_layout_that_the_core_chose_is_no_finding() -> None:
    complete = expected(False).deployment
    assert codes(training(asked=complete)) == []
    assert codes(served(expected(True).deployment)) == []


def test_recomputation_that_memory_does_not_need_is_found_with_its_gain() -> None:
    asked = replace(RUNS, activation_checkpointing="full")
    found = next(f for f in training(asked=asked, **SLOW).findings if f.code == "needless_recomputation")
    now = estimate_deployment(Question(PRETRAIN), asked, SMALL)
    then = estimate_deployment(Question(PRETRAIN), replace(now.deployment, **found.settings), SMALL)
    assert now.performance is not None and then.performance is not None
    assert now.performance.tokens_per_s and then.performance.tokens_per_s
    assert found.gain == pytest.approx(1 - now.performance.tokens_per_s / then.performance.tokens_per_s)


def test_recomputation_stays_where_the_memory_seen_leaves_no_room() -> None:
    asked = replace(RUNS, activation_checkpointing="full")
    full = training(asked=asked, **SLOW, memory_peak_bytes=80 * 2**30)
    assert "needless_recomputation" not in codes(full)


def test_an_optimizer_in_the_hosts_memory_is_brought_back() -> None:
    assert "needless_offload" in codes(training(asked=replace(RUNS, optimizer_offload=True), **SLOW))


def test_degrees_that_do_not_suit_are_found() -> None:
    asked = replace(RUNS, tensor_parallel=8, pipeline_parallel=4)
    found = next(f for f in training(asked=asked, **SLOW).findings if f.code == "wrong_layout")
    assert found.gain is not None and found.gain > 0.2 and "tensor_parallel" in found.settings
    cards = replace(SERVES, total_accelerators=4, tensor_parallel=4)
    light = replace(HEAVY, peak_per_s=10.0, average_per_s=5.0)
    assert "wrong_layout" in codes(served(cards, light, requests_per_s=10.0, **LATE))


SPEED = Observations(training=TrainingObservation(tokens_per_s=1000.0))


def test_micro_batches_that_are_too_small_are_found(catalog: Catalog) -> None:
    tiny = replace(PRETRAIN, model=registered("HuggingFaceTB/SmolLM2-135M-Instruct"))
    asked = Deployment("nvidia-a100-sxm4-80gb", total_accelerators=8, micro_batch_sequences=1)
    found = diagnose(Question(tiny), asked, catalog, SPEED).findings
    assert next(f for f in found if f.code == "micro_batch").settings["micro_batch_sequences"] > 1


def test_recomputation_that_would_make_room_is_found(catalog: Catalog) -> None:
    large = replace(PRETRAIN, model=registered("meta-llama/Llama-3.1-70B-Instruct"))
    asked = Deployment(
        "nvidia-h200-sxm-141gb", total_accelerators=128, activation_checkpointing="none", framework="fsdp"
    )
    found = diagnose(Question(large), asked, catalog, SPEED).findings
    missing = next(f for f in found if f.code == "missing_recomputation")
    assert missing.settings["activation_checkpointing"] in ("selective", "full") and missing.known_cost_share > 0.3


def test_settings_are_said_in_words() -> None:
    assert describe_settings({"tensor_parallel": 2, "zero_stage": 1}) == "tensor parallelism to 2 and ZeRO stage to 1"


def test_without_a_reported_speed_settings_are_not_judged() -> None:
    nothing = dict.fromkeys(("step_time_s", "compute_s", "communication_s", "input_s"))
    assert codes(training(asked=replace(RUNS, activation_checkpointing="full"), **nothing)) == []
    assert first(training(asked=replace(RUNS, activation_checkpointing="full"), **SLOW)).share is not None


def scales(ratio: float) -> tuple[ScalePoint, ...]:
    """Each of 32 does so much of what each of 8 does."""
    return ScalePoint(8, 8e4), ScalePoint(32, 4 * 8e4 * ratio)


def test_less_than_the_core_expects_is_found_and_costs_the_difference() -> None:
    usual = min(1.0, expected_scaling_ratio(case_training(), 8, 32) or 0.0)
    found = first(training(scales=scales(0.4)))
    assert found.code == "poor_scaling" and found.share == pytest.approx(1 - 0.4 / usual)


def test_what_the_core_expects_is_no_finding() -> None:
    usual = min(1.0, expected_scaling_ratio(case_training(), 8, 32) or 0.0)
    assert codes(training(scales=scales(usual * 0.95))) == []


def test_where_nothing_runs_at_a_scale_nothing_is_expected_there() -> None:
    with patch.object(scaling_checks, "expected_each", return_value=None):
        assert expected_scaling_ratio(case_training(), 8, 32) is None
        assert codes(training(scales=scales(0.1))) == []


def test_one_scale_says_nothing() -> None:
    assert codes(training(scales=(ScalePoint(8, 1.0),))) == []
    assert codes(training(scales=(ScalePoint(8, 1.0), ScalePoint(8, 100.0)))) == []


NO_TIMES: dict[str, Any] = dict.fromkeys(("step_time_s", "compute_s", "communication_s"))


@pytest.mark.parametrize(
    ("code", "seen"),
    [
        ("slow_kernels", {"compute_s": 20.0, "step_time_s": 21.0}),
        ("exposed_communication", {"communication_s": 5.0, "step_time_s": 13.0}),
        ("input_bound", {"input_s": 4.0, "step_time_s": 12.0}),
        ("synchronisation", {"synchronisation_s": 4.0, "step_time_s": 12.0}),
        ("outside_kernels", {"outside_kernels_s": 4.0, "step_time_s": 12.0}),
        ("slow_optimizer", {"optimizer_s": 4.0, "step_time_s": 12.0}),
        ("pipeline_bubble", {"bubble_s": 4.0, "step_time_s": 12.0}),
        ("slow_step", {**NO_TIMES, "step_time_s": 40.0}),
        ("slow_step", {**NO_TIMES, "tokens_per_s": 1e5}),
        ("low_mfu", {**NO_TIMES, "mfu": 0.05}),
        ("miscounted_mfu", {"mfu": 0.9}),
        ("slow_rank", {"slowest_rank_s": 12.0, "median_rank_s": 8.0, "synchronisation_s": 4.0, "step_time_s": 12.0}),
        ("allocator_retries", {"allocator_retries_per_step": 1.0}),
        ("much_memory", {"memory_peak_bytes": 200 * 2**30}),
    ],
)
def test_a_cause_planted_comes_first_of_step(code: str, seen: dict[str, Any]) -> None:
    assert first(training(**seen)).code == code


def test_a_step_a_rate_and_an_mfu_say_the_same() -> None:
    p = expected(False).performance
    assert p is not None and p.step_time_s and p.tokens_per_s and p.mfu
    said: tuple[dict[str, Any], ...] = (
        {"step_time_s": 3 * p.step_time_s},
        {"tokens_per_s": p.tokens_per_s / 3},
        {"mfu": p.mfu / 3},
    )
    costs = [first(training(**{**NO_TIMES, **seen})).share for seen in said]
    assert costs == pytest.approx([2 / 3] * 3)


def test_allocator_flushes_cost_their_time_or_an_unknown_share() -> None:
    assert first(training(allocator_retries_per_step=1.0)).share is None
    p = expected(False).performance
    assert p is not None and p.step_time_s
    slow = training(allocator_retries_per_step=1.0, step_time_s=1.2 * p.step_time_s)
    assert first(slow).share == pytest.approx(1 - 1 / 1.2)
    outside = training(allocator_retries_per_step=1.0, outside_kernels_s=4.0, step_time_s=12.0)
    assert first(outside).code == "allocator_retries" and first(outside).share == pytest.approx(1 / 3)


def test_an_mfu_that_follows_from_the_step_is_no_finding() -> None:
    p = expected(False).performance
    assert p is not None and p.mfu
    assert codes(training(mfu=p.mfu)) == []
