"""Shares of a card's memory and time in which a model meets its limits, and the number of cards that it then needs."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from app.sizing.columns import Codes, Column, at
from app.sizing.decisions.placement import plan_fleet
from app.sizing.decisions.rejections import NullRejections
from app.sizing.formula import formula
from app.sizing.packing.cards import Option
from app.sizing.question import Deployment, Question
from app.sizing.serving.finalists import has_capacity, simulate_replicas
from app.sizing.serving.kinds import serving_backend
from app.sizing.serving.measured import Settings
from app.sizing.serving.memory import capacity_bytes
from app.sizing.serving.plans import Plans
from app.sizing.serving.search import complete_settings, confidence_margins, feasible_plans, required_replicas
from app.sizing.snapshot import Catalog
from app.sizing.workload import InferenceWorkload, Load

MEMORY_SHARE_STEP = 1e-4  # shares of memory are rounded up to multiples of this
ROUNDING = 1e-6


@formula(unit="s", source="time slicing")
def shared_s(whole_card_s: float, time_share: float) -> float:
    """Duration of work that has only a share of a card's time.

    Parameters:
        whole_card_s: duration on a whole card, s.
        time_share: share of the time that the model has, 0 to 1.
    Limits: the other models use all of their time; while they idle, the work is faster.
    Check: 20 ms in half of the time.
        >>> shared_s(0.02, 0.5)
        0.04
    """
    return whole_card_s / time_share


def slow_down_workload(workload: InferenceWorkload, time_share: float) -> InferenceWorkload:
    """The load on a whole card that is equivalent to this load on a share of its time.

    The clock runs slower: more requests arrive per second, and the latency limits are tighter.
    """

    def scale_limit(limit_s: float | None) -> float | None:
        return None if limit_s is None else limit_s * time_share

    slo = workload.slo
    return replace(
        workload,
        peak_per_s=shared_s(workload.peak_per_s, time_share),
        average_per_s=shared_s(workload.average_per_s, time_share),
        turn_gap_s=workload.turn_gap_s * time_share,
        slo=replace(slo, ttft_s=scale_limit(slo.ttft_s), tpot_s=scale_limit(slo.tpot_s), e2e_s=scale_limit(slo.e2e_s)),
    )


def leaves_time_to_others(workload: InferenceWorkload) -> bool:
    """Whether a load leaves time to other models: open and closed loops do, work at full speed does not."""
    ends = workload.trace is not None or workload.requests is not None or workload.is_finite
    return workload.load in (Load.OPEN, Load.CLOSED) and not ends


@dataclass(frozen=True, slots=True)
class Member:
    """A model with its candidate plans, one row per share of memory, and the fixed part of their settings."""

    name: str
    workload: InferenceWorkload
    plans: Plans
    settings: Settings
    whole_card_plans: Plans  # the same plans on whole cards, one row each
    deployment: Deployment | None = None  # the deployment of the requested model, which fixes its replicas
    placed_replicas: int | None = None  # replicas of that deployment, spares included


@dataclass(frozen=True, slots=True)
class Share:
    """One way to run a model in a share of each of its cards."""

    option: Option
    replicas: int  # replicas, spares included
    workload: InferenceWorkload  # the equivalent load on a whole card
    plan: Plans | None  # one plan; None for the deployment as estimated
    settings: Settings | None
    simulated: bool = False


def memory_shares(question: Question, member: Member) -> Column:
    """Share of a card's memory that the engine of every row takes."""
    plans, assumed = member.plans, question.assumptions
    memory = serving_backend(member.workload).estimate_memory(member.workload, plans, assumed, member.settings)
    visible = capacity_bytes(plans.memory_bytes, plans.memory_is_reported, assumed)
    taken: Column = np.ceil(memory.usable_bytes / visible / MEMORY_SHARE_STEP - ROUNDING) * MEMORY_SHARE_STEP
    return taken


def candidate_time_shares(question: Question, *, whole: bool) -> list[float]:
    """Candidate shares of a card's time, largest first."""
    step = question.assumptions.packing_step_share
    some = [round(step * k, 9) for k in range(int(1 / step + 1e-9), 0, -1)]
    return ([1.0] if whole else []) + [s for s in some if s <= question.assumptions.packed_time_share]


def find_shares(question: Question, catalog: Catalog, member: Member) -> list[Share]:
    """Pareto-optimal ways to run a model in shares, by cards, memory and time, according to the closed formulas."""
    if not len(member.plans):
        return []
    memory_taken, shares = memory_shares(question, member), list[Share]()
    whole = member.placed_replicas is None
    candidates = (
        candidate_time_shares(question, whole=whole) if leaves_time_to_others(member.workload) else [1.0] * whole
    )
    for time_share in candidates:
        at_share = size_at_time_share(question, catalog, member, memory_taken, time_share)
        if not at_share:
            break  # a smaller share of time is infeasible too
        shares += at_share
    beaten = [any(dominates_share(o, s, j < i) for j, o in enumerate(shares) if j != i) for i, s in enumerate(shares)]
    return [s for s, worse in zip(shares, beaten, strict=True) if not worse or s.option.time_share == 1]


def dominates_share(other: Share, share: Share, before: bool) -> bool:
    """Whether `other` takes no more of any resource, and less of at least one; of two equals the one `before` wins."""
    a, b = other.option, share.option
    mine, theirs = (b.cards, b.memory_share, b.time_share), (a.cards, a.memory_share, a.time_share)
    return all(x <= y for x, y in zip(theirs, mine, strict=True)) and (theirs != mine or before)


@dataclass(frozen=True, slots=True)
class FeasibleMemberPlans:
    """Plans that meet the limits within a share, with the number of cards of each."""

    member: Member
    workload: InferenceWorkload
    rows: Codes  # row of each plan before the filter
    plans: Plans
    settings: Settings
    cards: Column  # cards of each plan; infinite where the replicas do not fit the deployment

    def make_share(self, row: int, option: Option) -> Share:
        """One row as a way to run the model."""
        replicas = int(option.cards / at(self.plans.accelerators_per_replica, row))
        only = np.array([row])
        return Share(option, replicas, self.workload, self.plans.take(only), self.settings.take(only))


def size_member_plans(
    question: Question, catalog: Catalog, member: Member, plans: Plans, requested: Settings, workload: InferenceWorkload
) -> FeasibleMemberPlans:
    """Plans of a member that meet the limits of a workload at the requested confidence, by the closed formulas."""
    margins = confidence_margins(question, workload, plans, catalog)
    drafting = None if member.deployment is None else member.deployment.speculative
    refused = NullRejections(catalog.accelerators)
    rows, memory, speed = feasible_plans(question, workload, plans, margins, refused, requested, drafting)
    serving = np.flatnonzero(speed.has_capacity)
    rows, memory, speed = rows[serving], memory.take(serving), speed.take(serving)
    plans, requested = plans.take(rows), requested.take(rows)
    replicas = required_replicas(question, workload, plans, speed.capacity_per_s, speed.slo_batch, Settings())
    settings, cards = (
        complete_settings(memory, speed, replicas, requested),
        required_cards(member, plans, workload, replicas),
    )
    return FeasibleMemberPlans(member, workload, rows, plans, settings, cards)


def size_at_time_share(
    question: Question, catalog: Catalog, member: Member, taken: Column, time_share: float
) -> list[Share]:
    """At one share of time: for each number of cards the least memory, and on a whole card also the most."""
    workload = slow_down_workload(member.workload, time_share)
    found = size_member_plans(question, catalog, member, member.plans, member.settings, workload)
    memory = taken[found.rows]
    least: dict[int, int] = {}
    for row in np.argsort(memory, kind="stable").tolist():
        if np.isfinite(found.cards[row]):
            least.setdefault(int(found.cards[row]), row)
    ways = [(count, row) for count, row in sorted(least.items())]
    if ways and time_share == 1:
        ways.append((ways[0][0], int(np.lexsort((-memory, found.cards))[0])))
    return [found.make_share(row, Option(count, at(memory, row), time_share)) for count, row in ways]


def required_cards(member: Member, plans: Plans, workload: InferenceWorkload, replicas: Column) -> Column:
    """Cards of the given replicas and their spares; infinite where more are needed than the deployment has."""
    size, each = plans.accelerators_per_replica, plans.accelerators_per_node
    placed = plan_fleet(workload.redundancy, size, each, replicas)
    needed: Column = (placed.replicas + placed.spare_replicas) * size
    if member.placed_replicas is None:
        return needed
    settled = member.placed_replicas * size
    return np.where(needed <= settled, settled, np.inf)


def with_simulated_cards(question: Question, catalog: Catalog, member: Member, share: Share) -> Share | None:
    """The share with the cards that it needs in a simulation; None where the limits cannot be met."""
    plan, settings, share = share.plan, share.settings, replace(share, simulated=True)
    if plan is None or settings is None:
        return share
    runs = simulate_replicas(question, share.workload, plan, settings, catalog, member.deployment)
    if runs is None:
        return share
    capacity, batch = runs.capacity_at_confidence(share.workload)
    if not has_capacity(capacity, batch)[0]:
        return None
    replicas = required_replicas(question, share.workload, plan, capacity, batch, Settings())
    cards = at(required_cards(member, plan, share.workload, replicas), 0)
    if not np.isfinite(cards):
        return None
    count = max(share.option.cards, int(cards))
    size = at(plan.accelerators_per_replica, 0)
    return replace(share, option=replace(share.option, cards=count), replicas=int(count / size))
