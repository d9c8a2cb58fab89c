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
from app.sizing.diagnosis.training import (
    MICRO_BATCH_CAUSE,
    PARALLELISM_CAUSE,
    Variant,
    describe_settings,
    expected_interruptions_per_day,
    expected_scaling_ratio,
    find_allocator_retries,
    find_checkpoint_stalls,
    find_evaluation_overhead,
    find_frequent_restarts,
    find_high_memory,
    find_miscounted_mfu,
    find_slow_layout,
    find_slow_parts,
    find_slow_rank,
    find_slow_step,
    find_slow_warm_up,
    has_room,
    has_speed_observation,
    memory_evidence,
    observed_step,
)
from app.sizing.estimate import estimate_deployment
from app.sizing.question import Deployment, Question
from app.sizing.snapshot import Catalog
from tests.examples import PRETRAIN, registered
from tests.sizing.compare.given import HEAVY
from tests.sizing.diagnosis.given import (
    PLANNED_RUN,
    PLANNED_SERVICE,
    RUNS,
    SERVES,
    case_by_hand,
    codes,
    expected,
    first,
    of_run,
    shows,
    training,
)
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
        "nvidia-h200-sxm-141gb",
        total_accelerators=128,
        activation_checkpointing="none",
        activation_offload=True,
        framework="fsdp",
    )
    found = diagnose(Question(large), asked, catalog, SPEED).findings
    missing = next(f for f in found if f.code == "missing_recomputation")
    assert missing.settings["activation_checkpointing"] in ("selective", "full") and missing.known_cost_share > 0.3


def test_a_run_that_runs_is_diagnosed_although_it_is_not_expected_to_fit(catalog: Catalog) -> None:
    large = replace(PRETRAIN, model=registered("meta-llama/Llama-3.1-70B-Instruct"))
    asked = Deployment(
        "nvidia-h200-sxm-141gb", total_accelerators=128, activation_checkpointing="none", framework="fsdp"
    )
    planned = estimate_deployment(Question(large), asked, catalog)
    assert not planned.fits and planned.performance is not None
    assert diagnose(Question(large), asked, catalog, SPEED).findings


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


GIB = 2**30


def test_checkpoints_cost_their_part_of_the_time_and_gain_what_is_not_expected() -> None:
    # 90 s every 900 s; 10 s are expected.
    slow = of_run(find_checkpoint_stalls, checkpoint_s=90.0, checkpoint_interval_s=810.0)
    assert slow.code == "slow_checkpoints" and slow.share == pytest.approx(0.1)
    assert slow.gain == pytest.approx(0.1 - 10 / 820) and shows(slow, 10.0)
    assert [(e.observed, e.expected) for e in slow.evidence] == [(90.0, 10.0)]
    # 10 s every 100 s instead of every 1,000.
    often = of_run(find_checkpoint_stalls, checkpoint_s=10.0, checkpoint_interval_s=90.0)
    assert often.code == "frequent_checkpoints" and often.share == pytest.approx(0.1)
    assert often.gain == pytest.approx(0.1 - 10 / 1010) and "1,000 s" in often.change
    assert [(e.observed, e.expected) for e in often.evidence] == [(90.0, 1000.0)]
    assert of_run(find_checkpoint_stalls, checkpoint_s=10.0, checkpoint_interval_s=1000.0) is None
    unplanned = replace(PLANNED_RUN, checkpoint_interval_s=None)
    assert of_run(find_checkpoint_stalls, unplanned, checkpoint_s=10.0, checkpoint_interval_s=90.0) is None
    for unknown in ({"checkpoint_s": 90.0}, {"checkpoint_interval_s": 90.0}):
        assert of_run(find_checkpoint_stalls, **unknown) is None
    assert of_run(find_checkpoint_stalls, replace(PLANNED_RUN, checkpoint_stall_s=None), checkpoint_s=90.0) is None


def test_restarts_beyond_those_expected_cost_their_time() -> None:
    # Half an interruption a day is expected; each costs ten minutes and half of 1,000 s.
    found = of_run(find_frequent_restarts, restarts_per_day=12.5)
    assert found.share == pytest.approx(12 * 1100 / 86_400) == found.gain and shows(found, 12.5, 0.5)
    assert [(e.observed, e.expected) for e in found.evidence] == [(12.5, 0.5)]
    assert of_run(find_frequent_restarts, restarts_per_day=12.5, checkpoint_interval_s=2000.0).share == pytest.approx(
        12 * 1600 / 86_400
    )
    plain = replace(PLANNED_RUN, checkpoint_interval_s=None)
    assert of_run(find_frequent_restarts, plain, restarts_per_day=12.5).share == pytest.approx(12 * 600 / 86_400)
    assert of_run(find_frequent_restarts, restarts_per_day=1e3).share == 1.0
    assert of_run(find_frequent_restarts, restarts_per_day=2.0) is None
    for bare in (replace(PLANNED_RUN, days=None), replace(PLANNED_RUN, expected_interruptions=None)):
        assert expected_interruptions_per_day(case_by_hand(performance=bare)) is None
        assert of_run(find_frequent_restarts, bare, restarts_per_day=12.5) is None
    assert expected_interruptions_per_day(case_by_hand(performance=None)) is None


def test_a_slow_warm_up_costs_what_exceeds_the_planned_ten_minutes_at_each_start() -> None:
    found = of_run(find_slow_warm_up, warmup_s=2400.0, restarts_per_day=6.0)
    assert found.share == pytest.approx(6 * 1800 / 86_400) == found.gain and shows(found, 2400.0, 600.0)
    assert [(e.observed, e.expected) for e in found.evidence] == [(2400.0, 600.0)]
    assert of_run(find_slow_warm_up, warmup_s=20_000.0).share == pytest.approx(0.5 * 19_400 / 86_400)
    assert of_run(find_slow_warm_up, warmup_s=20_000.0, restarts_per_day=0.0) is None
    assert of_run(find_slow_warm_up, warmup_s=740.0, restarts_per_day=100.0) is None
    assert of_run(find_slow_warm_up, warmup_s=4000.0, restarts_per_day=100.0).share == 1.0
    for share, found_share in ((0.09, None), (0.11, 0.11)):
        evaluated = of_run(find_evaluation_overhead, evaluation_share=share)
        assert (None if evaluated is None else evaluated.share) == found_share
        assert evaluated is None or (shows(evaluated, 11.0) and evaluated.gain == 0.11)


def test_a_part_of_a_step_costs_what_exceeds_its_expectation() -> None:
    for code, field, usual in (
        ("slow_kernels", "compute_s", 6.0),
        ("exposed_communication", "communication_s", 2.0),
        ("input_bound", "input_s", 0.0),
        ("synchronisation", "synchronisation_s", 0.0),
        ("outside_kernels", "outside_kernels_s", 0.0),
        ("slow_optimizer", "optimizer_s", 1.0),
        ("pipeline_bubble", "bubble_s", 0.0),
    ):
        found = of_run(find_slow_parts, step_time_s=20.0, **{field: usual + 5.0})
        assert found.code == code and found.share == pytest.approx(0.25) == found.gain
        assert shows(found, usual + 5.0, usual)
        assert [(e.quantity, e.observed, e.expected) for e in found.evidence] == [(field, usual + 5.0, usual)]
        assert of_run(find_slow_parts, step_time_s=20.0, **{field: usual * 1.24 + 0.9 * (usual == 0)}) is None
        alone = of_run(find_slow_parts, **{field: usual + 5.0})
        assert alone.share == pytest.approx(5.0 / max(10.0, usual + 5.0))
    assert of_run(find_slow_parts, replace(PLANNED_RUN, step_breakdown_s=None), step_time_s=20.0, compute_s=9.0) is None


def test_a_slow_step_is_shown_in_the_quantity_that_was_reported() -> None:
    for seen, code, observed, usual in (
        ({"step_time_s": 16.0}, "slow_step", 16.0, 10.0),
        ({"tokens_per_s": 625.0}, "slow_step", 625.0, 1000.0),
        ({"mfu": 0.3125}, "low_mfu", 0.3125, 0.5),
    ):
        found = of_run(find_slow_step, **seen)
        assert found.code == code and found.share == pytest.approx(1 - 10 / 16) == found.gain
        assert [(e.observed, e.expected) for e in found.evidence] == [(observed, usual)]
        percent = 100 if code == "low_mfu" else 1
        assert shows(found, percent * observed, percent * usual)
        assert "No times" in found.cause
    parts = of_run(find_slow_step, step_time_s=16.0, compute_s=6.0)
    assert "do not explain" in parts.cause
    for step_s, slow in ((12.4, False), (12.6, True)):
        assert (of_run(find_slow_step, step_time_s=step_s) is not None) == slow
    # Published runs of its kind are up to twice as slow.
    wide = replace(PLANNED_RUN, interval=replace(PLANNED_RUN.interval, low=500.0))
    for step_s, slow in ((19.9, False), (20.1, True)):
        assert (of_run(find_slow_step, wide, step_time_s=step_s) is not None) == slow
    other = replace(wide, interval=replace(wide.interval, quantity="samples_per_s"))
    assert of_run(find_slow_step, other, step_time_s=16.0) is not None
    assert of_run(find_slow_step) is None and of_run(find_slow_step, None, step_time_s=16.0) is None
    first_of = observed_step(case_by_hand(performance=PLANNED_RUN, workload=PRETRAIN, step_time_s=16.0, mfu=0.1))
    assert first_of is not None and first_of[0] == 16.0


def test_a_reported_utilization_that_contradicts_the_step_is_miscounted() -> None:
    # 20 s instead of 10 s: a quarter.
    found = of_run(find_miscounted_mfu, step_time_s=20.0, mfu=0.4)
    assert shows(found, 40.0, 25.0) and (found.evidence[0].observed, found.evidence[0].expected) == (0.4, 0.25)
    for mfu, wrong in ((0.31, False), (0.32, True), (0.21, False), (0.19, True)):
        assert (of_run(find_miscounted_mfu, step_time_s=20.0, mfu=mfu) is not None) == wrong
    assert of_run(find_miscounted_mfu, mfu=0.01) is None and of_run(find_miscounted_mfu, step_time_s=20.0) is None


def test_a_slow_rank_costs_what_it_takes_longer_than_the_median() -> None:
    found = of_run(find_slow_rank, slowest_rank_s=12.5, median_rank_s=10.0)
    assert found.share == pytest.approx(0.2) == found.gain and shows(found, 12.5, 10.0)
    assert [(e.observed, e.expected) for e in found.evidence] == [(12.5, 10.0)]
    for slowest_s, slow in ((11.7, False), (11.8, True)):
        assert (of_run(find_slow_rank, slowest_rank_s=slowest_s, median_rank_s=10.0) is not None) == slow
    assert of_run(find_slow_rank, slowest_rank_s=12.5) is of_run(find_slow_rank, median_rank_s=10.0) is None


def test_allocator_retries_cost_the_idle_time_of_a_step_else_its_excess() -> None:
    assert of_run(find_allocator_retries, allocator_retries_per_step=0.04) is None
    assert of_run(find_allocator_retries, allocator_retries_per_step=2.0).share is None
    excess = of_run(find_allocator_retries, allocator_retries_per_step=2.0, step_time_s=16.0)
    assert excess.share == pytest.approx(1 - 10 / 16) == excess.gain and shows(excess, 2.0)
    idle = of_run(find_allocator_retries, allocator_retries_per_step=2.0, step_time_s=16.0, outside_kernels_s=4.0)
    assert idle.share == pytest.approx(0.25)
    assert (
        of_run(find_allocator_retries, allocator_retries_per_step=2.0, step_time_s=1.0, outside_kernels_s=4.0).share
        == 1.0
    )


def test_memory_is_compared_with_what_is_expected_and_what_is_usable() -> None:
    # 60 GB are expected of 70 usable.
    much = of_run(find_high_memory, memory_peak_bytes=76e9)
    assert shows(much, 76e9 / GIB, 60e9 / GIB)
    assert [(e.observed, e.expected) for e in much.evidence] == [(76e9 / GIB, 60e9 / GIB)]
    assert of_run(find_high_memory, memory_peak_bytes=74e9) is None
    for seen, observed in (({}, 60e9), ({"memory_peak_bytes": 66e9}, 66e9)):
        case = case_by_hand(performance=PLANNED_RUN, workload=PRETRAIN, **seen)
        (evidence,) = memory_evidence(case)
        assert (evidence.observed, evidence.expected) == (observed / GIB, 70e9 / GIB)
    devices = replace(case.devices, memory_used_bytes=65e9)
    seen_by_device = case_by_hand(performance=PLANNED_RUN, workload=PRETRAIN, devices=devices)
    assert memory_evidence(seen_by_device)[0].observed == 65e9 / GIB
    # A change that adds 5 GB has room above 65 GB, and not above 66.
    planned = case.expected_estimate.memory
    assert planned is not None
    larger = replace(case.expected_estimate, memory=replace(planned, activation_bytes=25e9))
    assert has_room(seen_by_device, larger) and not has_room(case, larger)
    assert has_room(case, replace(larger, memory=None))


def test_a_speed_is_seen_in_any_of_its_quantities() -> None:
    for workload, fields in (
        (PRETRAIN, ("step_time_s", "tokens_per_s", "mfu", "compute_s")),
        (HEAVY, ("requests_per_s", "output_tokens_per_s", "ttft_p50_s", "tpot_p50_s")),
    ):
        planned = PLANNED_RUN if workload is PRETRAIN else PLANNED_SERVICE
        assert not has_speed_observation(case_by_hand(performance=planned, workload=workload))
        for field in fields:
            assert has_speed_observation(case_by_hand(performance=planned, workload=workload, **{field: 1.0}))


def test_another_layout_is_named_where_it_gains_more_than_single_settings() -> None:
    """A fifth slower than the best one is a gain of 1/6; of it, at least twice the least share is beyond settings."""
    case = case_by_hand(performance=PLANNED_RUN, workload=PRETRAIN)
    case = replace(case, requested_deployment=replace(case.requested_deployment, tensor_parallel=8))
    slower, least = case.assumptions.diagnosed_slower_share, case.assumptions.diagnosed_least_share
    bound = slower / (1 + slower)
    for gain, single, named in (
        (bound * 1.01, 0.0, True),
        (bound * 0.99, 0.0, False),
        (0.5, 0.5 - 2.01 * least, True),
        (0.5, 0.5 - 1.99 * least, False),
    ):
        best = Variant(gain, {"tensor_parallel": 2, "micro_batch_sequences": 4}, case.expected_estimate)
        with patch.object(scaling_checks, "try_variant", return_value=best):
            found = list(find_slow_layout(case, single))
        assert bool(found) == named
        if found:
            assert found[0].share == found[0].gain == gain and shows(found[0], 1 / (1 - gain))
            assert found[0].cause == PARALLELISM_CAUSE and found[0].settings == best.settings
    best = Variant(0.5, {"micro_batch_sequences": 4}, case.expected_estimate)
    with patch.object(scaling_checks, "try_variant", return_value=best):
        assert next(find_slow_layout(case, 0.0)).cause == MICRO_BATCH_CAUSE
    open_layout = replace(case, requested_deployment=Deployment("acme-big"))
    with patch.object(scaling_checks, "try_variant", return_value=best):
        assert not list(find_slow_layout(open_layout, 0.0))


@pytest.mark.parametrize(
    ("few", "many", "ratio"), [(100.0, 80.0, 0.8), (80.0, 100.0, 1.25), (None, 80.0, None), (100.0, None, None)]
)
def test_scaling_is_the_speed_of_each_of_many_over_that_of_each_of_few(
    few: float | None, many: float | None, ratio: float | None
) -> None:
    with patch.object(scaling_checks, "expected_each", side_effect=lambda _case, count: {8: few, 32: many}[count]):
        assert expected_scaling_ratio(case_training(), 8, 32) == ratio
