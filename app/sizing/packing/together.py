"""The model asked about and its companions on the same cards, beside each on machines of its own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from app.sizing.columns import at
from app.sizing.decisions.cost import Cost, deployment_cost, within_limits
from app.sizing.decisions.rejections import Unread
from app.sizing.formula import unrecorded
from app.sizing.hardware.slices import Slicing
from app.sizing.packing.apart import companions_usd
from app.sizing.packing.cards import Arrangement, Option, Room, arranged
from app.sizing.packing.shares import Member, Share, as_simulated, shares_of
from app.sizing.packing.slices import slices_of
from app.sizing.question import Question
from app.sizing.result import Estimate
from app.sizing.serving.kinds import kind_of
from app.sizing.serving.measured import Settings
from app.sizing.serving.memory import STATIC
from app.sizing.serving.plans import Plans
from app.sizing.serving.search import judge, plans_of
from app.sizing.snapshot import Snapshot
from app.sizing.values.packing import Packed, Packing, Placed
from app.sizing.words import counted
from app.sizing.workload import InferenceWorkload
from app.sizing.workload.companions import Companion


def with_packing(
    question: Question, workload: InferenceWorkload, found: Estimate, plan: Plans, market: Snapshot
) -> Estimate:
    """An estimate with its companions packed onto its cards, where there are any and it fits; `plan` is its own."""
    if not question.companions or not found.fits or found.cost is None:
        return found
    with unrecorded():
        beside = companions_usd(question, market)
        return replace(found, packing=packing_of(question, workload, found, plan, market, beside))


def beside_pools(question: Question, found: Estimate, market: Snapshot) -> Estimate:
    """A deployment in pools with its companions apart: its cards are shared with no other model."""
    if not question.companions or not found.fits or found.cost is None:
        return found
    with unrecorded():
        apart = apart_usd(found, companions_usd(question, market))
    text = "Pools share their cards with no other model: its companions stand apart."
    cheaper = None if apart is None else "apart"
    return replace(found, packing=Packing(None, None, None, (), (), apart, cheaper, text))


def apart_usd(found: Estimate, beside: float | None) -> float | None:
    """The deployment, and every companion `beside` it on machines of its own; None where one has no price."""
    own = None if found.cost is None else found.cost.usd_per_hour
    return None if own is None or beside is None else own + beside


def total_usd(found: Estimate) -> float:
    """What all models cost per hour, together or apart as is cheaper; infinite where neither is known."""
    packing = found.packing
    ways = () if packing is None else (packing.usd_per_hour, packing.apart_usd_per_hour)
    return min((usd for usd in ways if usd is not None), default=math.inf)


def packing_of(
    question: Question,
    workload: InferenceWorkload,
    found: Estimate,
    plan: Plans,
    market: Snapshot,
    beside: float | None,
) -> Packing:
    """All models on cards of the deployment's kind, in the machines that it stands in; its companions cost so much
    `beside` it.
    """
    members = [own_member(question, workload, found, plan)]
    members += [member_of(question, c, plan, market) for c in question.companions]
    slicing = market.slicings.get(found.deployment.accelerator)
    shares = [ways_of(question, market, m, slicing) for m in members]
    shares[0] = [*shares[0], as_judged(found, workload)]
    apart = apart_usd(found, beside)
    missing = [m.name for m, ways in zip(members, shares, strict=True) if not ways]
    chosen = None if missing else simulated(question, market, members, shares, slicing)
    if chosen is None:
        return unpacked(found, missing, apart)
    arrangement, ways = chosen
    nodes = max(found.deployment.nodes or 1, math.ceil(arrangement.count / at(plan.accelerators_per_node, 0) - 1e-9))
    cost = cost_on(question, plan, nodes)
    paid, limits = nodes * plan.accelerators_per_node, question.constraints
    if not within_limits(plan.accelerator, paid, cost, limits, Unread(market.accelerators))[0]:
        return beyond_limits(found, arrangement.count, len(members), apart)
    usd = usd_of(cost)
    return Packing(
        cards=arrangement.count,
        machines=nodes,
        usd_per_hour=usd,
        on=placed(arrangement, members, ways, slicing),
        models=tuple(running(member, share, found, market) for member, share in zip(members, ways, strict=True)),
        apart_usd_per_hour=apart,
        cheaper=cheaper_of(usd, apart),
        why=why(found, arrangement.count, len(members), usd, apart),
    )


def ways_of(question: Question, market: Snapshot, member: Member, slicing: Slicing | None) -> list[Share]:
    """The ways a model runs on such cards: in slices first, which keep others from slowing it, then in shares."""
    sliced = [] if slicing is None else slices_of(question, market, member, slicing)
    return [*sliced, *shares_of(question, market, member)]


def own_member(question: Question, workload: InferenceWorkload, found: Estimate, plan: Plans) -> Member:
    """The model asked about in its own layout, by share of memory where its engine's fraction is of the device."""
    d = found.deployment
    shared = Settings(
        max_batched_tokens=None if d.max_batched_tokens is None else np.array([d.max_batched_tokens * 1.0])
    )
    placed = (d.replicas or 1) + (d.spare_replicas or 0)
    fixed = bool(plan.away[0]) or (plan.memory_rules.rule[0] >= STATIC and not plan.small_engine[0])
    plans, settings = by_memory(question, workload, plan if not fixed else plan.take(np.zeros(0, np.int64)), shared)
    return Member(workload.model.name, workload, plans, settings, plan, d, placed)


def member_of(question: Question, companion: Companion, plan: Plans, market: Snapshot) -> Member:
    """A companion on one of these cards at a time: of each format the stack that does most, by share of memory."""
    workload = companion.workload
    unread, constraints = Unread(market.accelerators), question.constraints
    anything = replace(constraints, accelerators=(), weight_formats=(), kv_formats=(), engines=())
    kind = kind_of(workload)
    plans = plans_of(
        workload.model,
        market,
        plan.offered,
        anything,
        unread,
        question.assumptions,
        phase=kind.phase,
        personal=workload.personal,
    )
    shareable = (plans.memory_rules.rule < STATIC) | plans.small_engine | workload.single_pass
    plans = plans.take(np.flatnonzero((plans.accelerators_per_replica == 1) & shareable))
    whole = fastest(question, workload, plans)
    return Member(companion.name, workload, *by_memory(question, workload, whole, Settings()), whole)


def fastest(question: Question, workload: InferenceWorkload, plans: Plans) -> Plans:
    """Of each weight format the stack that does most on a whole card, the best first."""
    if not len(plans):
        return plans
    judged = judge(question, workload, plans, Settings())
    does = np.where(judged.memory.fits, judged.options.capacity_per_s, 0.0)
    order = np.lexsort((plans.stacks.rows, -does))
    _, first = np.unique(plans.weight_format[order], return_index=True)
    return plans.take(order[np.sort(first)])


def by_memory(
    question: Question, workload: InferenceWorkload, plans: Plans, settings: Settings
) -> tuple[Plans, Settings]:
    """Every plan at every share of memory below what its engine takes by itself, and at that."""
    own = kind_of(workload).memory(workload, plans, question.assumptions, Settings()).memory_fraction
    step = question.assumptions.packing_step_share
    some = np.array([round(step * k, 9) for k in range(1, int(1 / step + 1e-9))])
    rows, fractions = np.arange(len(plans)), np.zeros(0)
    pairs = [(row, f) for row in rows.tolist() for f in [*some[some < own[row] - 1e-9].tolist(), float(own[row])]]
    rows = np.array([row for row, _ in pairs], dtype=np.int64)
    fractions = np.array([f for _, f in pairs])
    tokens = settings.max_batched_tokens
    tokens = None if tokens is None else np.full(len(rows), tokens[0])
    return plans.take(rows), Settings(max_batched_tokens=tokens, memory_fraction=fractions)


def as_judged(found: Estimate, workload: InferenceWorkload) -> Share:
    """The deployment as it was judged: all of the time of its cards, and the memory that its engine takes."""
    d, memory = found.deployment, found.memory
    placed = (d.replicas or 1) + (d.spare_replicas or 0)
    taken = 1.0 if memory is None else min(1.0, memory.usable_bytes / memory.capacity_bytes)
    option = Option(placed * (d.accelerators_per_replica or 1), taken, 1.0)
    return Share(option, placed, workload, None, None, simulated=True)


def simulated(
    question: Question, market: Snapshot, members: Sequence[Member], shares: list[list[Share]], slicing: Slicing | None
) -> tuple[Arrangement, list[Share]] | None:
    """The arrangement of fewest cards every share of which holds in a simulation: shares are simulated as they are
    chosen, and those that need more cards than closed forms said are weighed again as what they are.
    """
    assumed = question.assumptions
    parts = 0 if slicing is None else slicing.memory
    room = Room(assumed.packed_memory_share, assumed.packed_time_share, parts)
    while True:
        options = [[share.option for share in ways] for ways in shares]
        arrangement = arranged(options, room)
        if arrangement is None:
            return None
        fresh = [(i, j) for i, j in enumerate(arrangement.taken) if not shares[i][j].simulated]
        if not fresh:
            return arrangement, [ways[j] for ways, j in zip(shares, arrangement.taken, strict=True)]
        for i, j in fresh:
            share = as_simulated(question, market, members[i], shares[i][j])
            shares[i] = [*shares[i][:j], *([] if share is None else [share]), *shares[i][j + 1 :]]


def cost_on(question: Question, plan: Plans, nodes: int) -> Cost:
    """What so many of the deployment's machines cost."""
    on = plan.offered, np.array([float(nodes)]), plan.linked_nodes
    return deployment_cost(*on, question.assumptions, question.economics, host_bytes=plan.host_bytes)


def usd_of(cost: Cost) -> float | None:
    """USD per hour; None without a price."""
    usd = at(cost.usd_per_hour, 0)
    return None if math.isnan(usd) else usd


def placed(
    arrangement: Arrangement, members: Sequence[Member], ways: Sequence[Share], slicing: Slicing | None
) -> tuple[Placed, ...]:
    """Who stands on which card."""
    found: list[Placed] = []
    card = 1
    for tenants, count in sorted(arrangement.cards.items()):
        for i in sorted(tenants):
            option = ways[i].option
            name = slicing.name(option.slice) if slicing is not None and option.slice is not None else None
            found.append(Placed(card, count, members[i].name, option.memory_share, option.time_share, name))
        card += count
    return tuple(found)


def running(member: Member, share: Share, found: Estimate, market: Snapshot) -> Packed:
    """How a model runs in its shares."""
    engine, stored = found.deployment.engine or "", found.deployment.weight_format or ""
    if member.deployment is None and share.plan is not None:
        engine = market.engines[int(share.plan.engine[0])]
        stored = market.formats[int(share.plan.weight_format[0])]
    return Packed(member.name, engine, stored, share.replicas)


def cheaper_of(together: float | None, apart: float | None) -> str | None:
    """Which costs less; None where neither has a price."""
    if together is None or apart is None:
        return None if together is None and apart is None else "apart" if together is None else "together"
    return "together" if together <= apart * (1 + 1e-9) else "apart"


def unpacked(found: Estimate, missing: Sequence[str], apart: float | None) -> Packing:
    """What is said where some model has no way to run on a card of this kind."""
    names = " and ".join(missing) or "One of them"
    text = f"{names} cannot run within its limits on one {found.deployment.accelerator}."
    return Packing(None, None, None, (), (), apart, None if apart is None else "apart", text)


def beyond_limits(found: Estimate, cards: int, models: int, apart: float | None) -> Packing:
    """What is said where all models together take more than is allowed of number, money or power."""
    text = f"{counted(models, 'model')} would share {counted(cards, 'card')} of {found.deployment.accelerator}"
    text = f"{text}, which is more than allowed."
    return Packing(None, None, None, (), (), apart, None if apart is None else "apart", text)


def why(found: Estimate, cards: int, models: int, usd: float | None, apart: float | None) -> str:
    """The comparison in a sentence."""
    text = f"{counted(models, 'model')} share {counted(cards, 'card')} of {found.deployment.accelerator}"
    if usd is None or apart is None:
        return f"{text}."
    return f"{text} for {usd:,.2f} USD per hour; each on the cheapest machines of its own they cost {apart:,.2f}."
