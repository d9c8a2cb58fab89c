"""A replica under load: batch, queue and latencies, worked by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from app.sizing.serving.load import mean_batch, queue_wait_s, rate_per_s, tpot_s
from app.sizing.serving.step import StepTerms, step_s
from tests.examples import col


def flat_step(seconds: float) -> StepTerms:
    """A step that takes the same time whatever the batch."""
    terms: dict[str, Any] = {name: col(0.0) for name in StepTerms.__dataclass_fields__}
    same = {"pipeline_parallel": col(1), "exponent": col(2.0), "drafted": 0.0, "draft_share": 0.0, "gained": 1.0}
    return StepTerms(**terms | same | {"host_fixed_s": col(seconds)})


def test_littles_law() -> None:
    # 32 sequences: 32 prompts of 10 ms and 255 further tokens in steps of 20 ms make a turn of 5.42 s
    assert rate_per_s(col(32), col(0.010), 255.0, step_s(flat_step(0.020), col(32)))[0] == pytest.approx(
        32 / (0.32 + 255 * 0.020)
    )


def test_one_sequence_alone_waits_for_no_prompt_but_its_own() -> None:
    step = flat_step(0.001)
    alone = tpot_s(step_s(step, col(1)), col(1), 99.0, col(5.0))[0]
    assert alone == step_s(step, col(1))[0]
    pair = tpot_s(step_s(step, col(2)), col(2), 99.0, col(5.0))[0]
    assert pair == pytest.approx(step_s(step, col(2))[0] + 5.0 / 99)


def test_mean_occupancy_below_a_quantile() -> None:
    mean = mean_batch(col(100), 1.645)[0]
    assert mean == pytest.approx(84.9, abs=0.1)
    assert mean + 1.645 * np.sqrt(mean) == pytest.approx(100)


def test_queue_quantile_is_exact_for_m_m_1() -> None:
    # load 0.8, service 1 s: P(wait > t) = 0.8 exp(-0.2 t), so p95 is ln(0.8 / 0.05) / 0.2
    assert queue_wait_s(col(0.8), col(1.0), 95, 1.0)[0] == pytest.approx(np.log(16) / 0.2)
    assert queue_wait_s(col(0.01), col(1.0), 95, 1.0)[0] == 0
    assert np.isinf(queue_wait_s(col(1.0), col(1.0), 95, 1.0)[0])
