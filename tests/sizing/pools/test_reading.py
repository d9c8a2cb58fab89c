"""A pool that reads prompts, as the search expects it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from app.sizing.decisions.rejections import NullRejections
from app.sizing.pools.parts import prefill_workload
from app.sizing.pools.reading import late_share, max_load, prefill_options
from app.sizing.question import Question
from app.sizing.serving.finalists import simulate_replicas
from app.sizing.serving.search import enumerate_allowed_plans
from app.sizing.workload import Slo
from tests.examples import col
from tests.sizing.pools.given import at_rate
from tests.sizing.small import SMALL


def test_the_largest_load_is_where_just_as_many_are_late_as_may_be() -> None:
    wait, service = col(0.1, 1.0, 10.0, 0.0), col(0.5, 0.5, 0.5, 0.5)
    load = max_load(wait, service, 2.0, 0.05)
    assert load[3] == 0.0
    assert (np.diff(load[:3]) > 0).all()
    assert late_share(load[:3], wait[:3], service[:3], 2.0) == pytest.approx([0.05] * 3, rel=1e-4)


def test_what_is_expected_of_readers_is_near_what_their_schedulers_do() -> None:
    workload = replace(prefill_workload(at_rate(400.0), 0.0, 1.0), slo=Slo(0.3, None, None, 95))
    question = Question(workload)
    plans = enumerate_allowed_plans(question, workload, SMALL, NullRejections(SMALL.accelerators))
    options = prefill_options(question, workload, plans, SMALL, NullRejections(SMALL.accelerators))
    runs = simulate_replicas(question, workload, options.plans, options.settings, SMALL)
    assert runs is not None
    simulated, _ = runs.capacity_at_confidence(workload)
    assert options.capacity_per_s == pytest.approx(simulated, rel=0.25)
