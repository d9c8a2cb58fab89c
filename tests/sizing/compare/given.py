"""Outcomes on the small catalogue that the tests of this room share, each found once."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

from app.sizing.hardware.parts import Accelerator
from app.sizing.outcomes import Option, Outcome, evaluate_option
from app.sizing.question import Constraints, Deployment, Question
from app.sizing.result import CostSummary, Performance
from app.sizing.workload import InferenceWorkload, Lengths, Slo, TrainingWorkload
from tests.examples import CHAT, PRETRAIN
from tests.sizing.answer.given import COST, SPEED, estimated
from tests.sizing.small import BIG, SMALL

# Short prompts and patience: seven cards or a board.
HEAVY = replace(
    CHAT,
    peak_per_s=30.0,
    average_per_s=10.0,
    slo=Slo(ttft_s=10.0, tpot_s=0.5, e2e_s=None, percentile=95),
    input_tokens=Lengths(200, 500),
    output_tokens=Lengths(100, 200),
    max_context_tokens=2048,
)


@cache
def best() -> Outcome:
    return evaluate_option(Option("best", Question(HEAVY)), SMALL)


@cache
def on_big() -> Outcome:
    """The same on boards of eight."""
    limits = Constraints(accelerators=("acme-big",))
    return evaluate_option(Option("big", Question(HEAVY, limits)), SMALL)


@cache
def one_card() -> Outcome:
    """One card, which is too few."""
    return evaluate_option(Option("a card", Question(HEAVY), Deployment("acme-card", total_accelerators=1)), SMALL)


@cache
def four_cards() -> Outcome:
    """Four, which carry it with less in reserve than is planned for."""
    deployment = Deployment("acme-card", replicas=4, accelerators_per_replica=1)
    return evaluate_option(Option("four cards", Question(HEAVY), deployment), SMALL)


@cache
def nothing() -> Outcome:
    """What no money buys."""
    return evaluate_option(Option("for a cent", Question(HEAVY, Constraints(max_usd_per_hour=0.01))), SMALL)


@cache
def run() -> Outcome:
    return evaluate_option(Option("training", Question(PRETRAIN)), SMALL)


@cache
def small_run() -> Outcome:
    return evaluate_option(Option("a tenth", Question(replace(PRETRAIN, units=PRETRAIN.units / 10))), SMALL)


def made(
    name: str = "made",
    *,
    workload: InferenceWorkload | TrainingWorkload = HEAVY,
    cost: CostSummary | None = COST,
    performance: Performance | None = SPEED,
    accelerator: Accelerator = BIG,
    bottleneck: str = "compute",
    **deployment: Any,
) -> Outcome:
    """An outcome made by hand: three replicas of two accelerators and one spare, 40 USD/h."""
    estimate = estimated(cost=cost, performance=performance, bottleneck=bottleneck, **deployment)
    return Outcome(name, Question(workload), estimate, accelerator)
