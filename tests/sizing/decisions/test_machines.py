"""Machines on sale, each at its cheapest allowed price."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.decisions.machines import candidates, oversubscribed, undominated
from app.sizing.decisions.rejections import Rejections
from app.sizing.estimate import estimate
from app.sizing.question import Constraints, Deployment, Economics, Question
from app.sizing.snapshot import Market
from tests.sizing.training.layouts import H100, WORKLOAD


def test_an_oversubscribed_network_slows_what_crosses_it(market: Market) -> None:
    found = candidates(market, Constraints(accelerators=(H100,)), Economics(), Assumptions(), Rejections(market))
    halved = oversubscribed(found, Assumptions(network_oversubscription=2.0))
    known = ~np.isnan(found.node.network_bytes_per_s)
    assert np.allclose(halved.node.network_bytes_per_s[known] * 2, found.node.network_bytes_per_s[known])
    workload = replace(WORKLOAD, global_batch=512, units=1e12)
    fast, slow = (
        estimate(
            Question(workload, assumptions=a),
            Deployment(H100, accelerators_per_replica=256, framework="fsdp", zero_stage=3),
            market,
        )
        for a in (Assumptions(), Assumptions(network_oversubscription=8.0))
    )
    assert slow.performance.step_time_s > fast.performance.step_time_s  # type: ignore[union-attr, operator]


def test_dropped_machines_are_beaten_in_everything(market: Market) -> None:
    found = candidates(market, Constraints(), Economics(), Assumptions(), Rejections(market))
    kept = undominated(found)
    assert 0 < len(kept) < len(found)
    assert set(kept.node.accelerator.tolist()) == set(found.node.accelerator.tolist())
    cheapest = {
        a: float(found.usd_per_hour[found.node.accelerator == a].min()) for a in set(found.node.accelerator.tolist())
    }
    assert all(float(kept.usd_per_hour[kept.node.accelerator == a].min()) == usd for a, usd in cheapest.items())
