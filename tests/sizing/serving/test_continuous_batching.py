"""How prompts and tokens share steps, worked by hand: prompts of 10 ms, steps of 20 ms, 200 tokens after the
first.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from app.sizing.serving.continuous_batching import (
    DecodeCadence,
    SchedulingTerms,
    Stream,
    arriving_prompts,
    arriving_prompts_per_step,
    build_stream,
    busy_stages,
    decode_cadence,
    later_tokens,
    mean_batch_wait_steps,
    prefill_own_s,
    prompts_in_step,
    prompts_per_full_step,
)
from tests.examples import col
from tests.sizing.serving.given import flat_prefill, flat_step


def stream(*, step: float = 0.020, prompt: float = 0.010, new_tokens: float = 800.0, **scheduled: Any) -> Stream:
    """Requests of 201 tokens out on a replica whose steps hold 1,000."""
    rules = SchedulingTerms.mixing_only(col(1000.0))
    rules = replace(rules, **{name: np.array([value]) for name, value in scheduled.items()})
    return build_stream(flat_step(step), flat_prefill(prompt, new_tokens=new_tokens), rules, output_tokens=201.0)


def at(batch: float, **changes: Any) -> DecodeCadence:
    return decode_cadence(stream(**changes), col(batch))


def test_a_token_takes_its_step_and_the_prompts_that_come_meanwhile() -> None:
    # 21 sequences: a tenth of a prompt comes with every step
    found = at(21)
    assert found.tpot_s[0] == pytest.approx(0.020 + 0.1 * 0.010)
    assert found.mean_step_s[0] == found.tpot_s[0]
    assert found.prefill_own_s[0] == pytest.approx(0.020 + 1.1 * 0.010)
    assert at(1).tpot_s[0] == pytest.approx(0.020)


def test_prompts_that_go_first_have_steps_of_their_own() -> None:
    found = at(21, prefill_first=True)
    assert found.tpot_s[0] == pytest.approx(0.020 + 0.1 * 0.010)
    assert found.prefill_own_s[0] == pytest.approx(1.1 * 0.010)
    # 20 ms of every 21 a step of decodes runs, else one of prompts
    assert found.mean_step_s[0] == pytest.approx((20 * 0.020 + 1 * 0.011) / 21)


def test_a_step_holds_what_its_tokens_allow() -> None:
    assert prompts_per_full_step(col(1000), np.array([False, True]), col(200), col(400)).tolist() == [2, 2.5]
    assert prompts_in_step(col(3, 3), col(2, 8)).tolist() == [2, 4]
    long = at(21, new_tokens=2400.0, prompt=0.030)
    # three steps shared with the decodes, and the prompt itself
    assert long.prefill_own_s[0] == pytest.approx(3 * 0.020 + 0.030)
    assert long.prompt_service_s[0] == pytest.approx(0.030 + 0.020 / long.prompts_per_full_step[0], rel=0.02)


def test_a_scheduler_that_looks_seldom_or_waits_for_company_lets_prompts_gather() -> None:
    assert arriving_prompts(col(0.1), col(10), 5.0)[0] == pytest.approx(1.5)
    assert mean_batch_wait_steps(col(20), col(0.9), col(10), col(0.1, 0.9)).tolist() == pytest.approx([20, 10])
    seldom = at(21, receive_interval_steps=10.0)
    assert seldom.arriving_prompts[0] == pytest.approx(1)
    assert seldom.scheduler_delay_s[0] == pytest.approx(4.5 * seldom.tpot_s[0])
    waiting = at(21, batch_wait_steps=20.0, batch_wait_share=0.9)
    # the first of three waits 20 steps, the last none
    steps = min(20, 0.9 * waiting.prompts_per_full_step[0] / 0.1)
    gathered = 1 + 0.1 * steps
    assert waiting.scheduler_delay_s[0] == pytest.approx(steps * (1 + 1 / gathered) / 2 * waiting.tpot_s[0])
    assert at(21, planning_lag_steps=1.0).scheduler_delay_s[0] == at(21).mean_step_s[0]


def test_a_pipeline_takes_as_many_prompts_as_wait_for_it() -> None:
    step = replace(flat_step(0.020), pipeline_parallel=col(4))

    def filled(load: float) -> float:
        return float(busy_stages(col(load * 0.020), col(1), col(1), col(0.020), col(0.5), step)[0])

    assert filled(0.1) == 1
    assert filled(6) == pytest.approx((0.5 + np.sqrt(0.25 + 2 * 6)) / 2)
    assert filled(1000) == 4


def test_formulas_hold_at_their_ends() -> None:
    assert later_tokens(col(1.0, 2.5)).tolist() == [1, 1.5]
    assert arriving_prompts_per_step(col(0.5, 3.0), col(100, 100)).tolist() == [0, 0.02]
    none = flat_prefill(0.01)
    assert prefill_own_s(col(0.01), col(0.5), 1.0, col(400), none, np.array([True]), col(0.02))[0] == pytest.approx(
        0.02
    )


def test_ranks_that_gather_prompts_are_held_up_no_longer_than_by_their_own() -> None:
    def ranks(count: float, **rules: float) -> float:
        streams = stream(**rules)
        streams = replace(streams, step=replace(streams.step, data_parallel=col(count)))
        return float(decode_cadence(streams, col(21)).tpot_s[0])

    alone, apart = ranks(1), ranks(8)
    # one in eleven steps of a rank holds prompts, 1.1 of them: of all steps 1 - (10 / 11)^8
    assert apart - 0.020 == pytest.approx((1 - (10 / 11) ** 8) * 11 * (alone - 0.020))
    waits = {"batch_wait_steps": 60.0, "batch_wait_share": 0.9}
    assert ranks(8, **waits) == pytest.approx(ranks(1, **waits))
    # a wait of two steps meets a fifth of a prompt
    brief = {"batch_wait_steps": 2.0, "batch_wait_share": 0.9}
    assert ranks(1, **brief) < ranks(8, **brief) < apart


def test_ranks_that_start_their_prompts_together_are_delayed_by_no_other() -> None:
    def added(count: float, *, in_step: bool, pooled: float = 0.0) -> float:
        asked = stream()
        step, prefill = replace(asked.step, data_parallel=col(count)), replace(asked.prefill, pooled_share=col(pooled))
        asked = replace(asked, step=step, prefill=prefill, ranks_in_step=col(in_step))
        return float(decode_cadence(asked, col(21)).added_prompt_s[0])

    assert added(8, in_step=True) == added(1, in_step=True) == added(1, in_step=False)
    # a prompt in one of eleven steps of a rank, so 1 - (10 / 11)^8 of all steps hold one: 5.87 times as many
    apart = (1 - (10 / 11) ** 8) * 11
    assert added(8, in_step=False) == pytest.approx(apart * added(1, in_step=True))
    # of a prompt whose experts take half of its time, the ranks compute that half together either way
    assert added(8, in_step=False, pooled=0.5) == pytest.approx((1 + (apart - 1) / 2) * added(1, in_step=True))


@pytest.mark.parametrize("first", [False, True])
def test_prompts_of_others_are_computed_in_as_many_stages_as_they_fill(first: bool) -> None:
    """A thousand prompts arrive in the time of one: four stages compute them at the same time, one stage one by one."""
    added = []
    for stages in (1.0, 4.0):
        busy = stream(step=1e-5, prompt=0.010, prefill_first=first, new_tokens=1000.0)
        busy = replace(busy, step=replace(busy.step, pipeline_parallel=col(stages)))
        added.append(decode_cadence(busy, col(201)).added_prompt_s[0])
    assert added[1] == pytest.approx(added[0] / 4)
