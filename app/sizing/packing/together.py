"""Packs the requested model and its companions onto the same cards and compares the cost with separate deployments."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from app.sizing.answer.money import format_usd
from app.sizing.columns import at
from app.sizing.decisions.cost import Cost, deployment_cost, within_limits
from app.sizing.decisions.rejections import NullRejections
from app.sizing.formula import suspend_recording
from app.sizing.hardware.slices import Slicing
from app.sizing.packing.apart import companions_usd_per_hour
from app.sizing.packing.cards import Arrangement, Option, Room, arrange_models
from app.sizing.packing.shares import Member, Share, find_shares, with_simulated_cards
from app.sizing.packing.slices import find_slice_shares
from app.sizing.question import Question
from app.sizing.result import Estimate
from app.sizing.serving.kinds import serving_backend
from app.sizing.serving.measured import Settings
from app.sizing.serving.memory import STATIC_RULE
from app.sizing.serving.plans import Plans
from app.sizing.serving.search import enumerate_plans, evaluate_plans
from app.sizing.snapshot import Catalog
from app.sizing.values.packing import PackedModel, Packing, Placement
from app.sizing.words import format_count
from app.sizing.workload import InferenceWorkload
from app.sizing.workload.companions import Companion


def add_packing(
    question: Question, workload: InferenceWorkload, found: Estimate, plan: Plans, catalog: Catalog
) -> Estimate:
    """An estimate with its companions packed onto its cards; unchanged without companions or where it does not fit.

    `plan` is the plan of the estimate.
    """
    if not question.companions or not found.fits or found.cost is None:
        return found
    with suspend_recording():
        companion_usd = companions_usd_per_hour(question, catalog)
        return replace(found, packing=pack_models(question, workload, found, plan, catalog, companion_usd))


def add_separate_companions(question: Question, found: Estimate, catalog: Catalog) -> Estimate:
    """A deployment in prefill and decode pools, with its companions on separate machines; pools share no cards."""
    if not question.companions or not found.fits or found.cost is None:
        return found
    with suspend_recording():
        separate_usd = separate_total_usd(found, companions_usd_per_hour(question, catalog))
    text = "Prefill and decode pools share their cards with no other model; the companions need separate machines."
    cheaper = None if separate_usd is None else "apart"
    return replace(found, packing=Packing(None, None, None, (), (), separate_usd, cheaper, text))


def separate_total_usd(found: Estimate, companion_usd: float | None) -> float | None:
    """Cost of the deployment plus every companion on machines of its own, USD/h; None where one has no price."""
    own = None if found.cost is None else found.cost.usd_per_hour
    return None if own is None or companion_usd is None else own + companion_usd


def cheapest_total_usd(found: Estimate) -> float:
    """Cost of all models, packed or separate, whichever is cheaper, USD/h; infinite where neither is known."""
    packing = found.packing
    ways = () if packing is None else (packing.usd_per_hour, packing.apart_usd_per_hour)
    return min((usd for usd in ways if usd is not None), default=math.inf)


def pack_models(
    question: Question,
    workload: InferenceWorkload,
    found: Estimate,
    plan: Plans,
    catalog: Catalog,
    companion_usd: float | None,
) -> Packing:
    """All models on cards of the deployment's type and machines, compared with separate deployments."""
    members = [requested_member(question, workload, found, plan)]
    members += [companion_member(question, c, plan, catalog) for c in question.companions]
    slicing = catalog.slicings.get(found.deployment.accelerator)
    name = catalog.accelerators[catalog.accelerator_index[found.deployment.accelerator]].name
    shares = [candidate_shares(question, catalog, m, slicing) for m in members]
    shares[0] = [*shares[0], share_as_estimated(found, workload)]
    separate_usd = separate_total_usd(found, companion_usd)
    missing = [m.name for m, ways in zip(members, shares, strict=True) if not ways]
    chosen = None if missing else arrange_simulated(question, catalog, members, shares, slicing)
    if chosen is None:
        return infeasible_packing(name, missing, separate_usd)
    arrangement, ways = chosen
    nodes = max(found.deployment.nodes or 1, math.ceil(arrangement.count / at(plan.accelerators_per_node, 0) - 1e-9))
    cost = machines_cost(question, plan, nodes)
    paid, limits = nodes * plan.accelerators_per_node, question.constraints
    if not within_limits(plan.accelerator, paid, cost, limits, NullRejections(catalog.accelerators))[0]:
        return packing_over_limits(name, arrangement.count, len(members), separate_usd)
    usd = known_usd_per_hour(cost)
    return Packing(
        cards=arrangement.count,
        machines=nodes,
        usd_per_hour=usd,
        on=list_placements(arrangement, members, ways, slicing),
        models=tuple(
            describe_member(member, share, found, catalog) for member, share in zip(members, ways, strict=True)
        ),
        apart_usd_per_hour=separate_usd,
        cheaper=cheaper_choice(usd, separate_usd),
        why=explain_packing(name, arrangement.count, len(members), usd, separate_usd),
    )


def candidate_shares(question: Question, catalog: Catalog, member: Member, slicing: Slicing | None) -> list[Share]:
    """Candidate shares of a model on these cards: slices first, which isolate models from each other, then time
    shares.
    """
    sliced = [] if slicing is None else find_slice_shares(question, catalog, member, slicing)
    return [*sliced, *find_shares(question, catalog, member)]


def requested_member(question: Question, workload: InferenceWorkload, found: Estimate, plan: Plans) -> Member:
    """The requested model in its own layout, at every share of memory where its engine can be limited to one."""
    d = found.deployment
    shared = Settings(
        max_batched_tokens=None if d.max_batched_tokens is None else np.array([d.max_batched_tokens * 1.0])
    )
    placed = (d.replicas or 1) + (d.spare_replicas or 0)
    fixed = bool(plan.offloads_weights[0]) or (plan.memory_rules.rule[0] >= STATIC_RULE and not plan.small_engine[0])
    plans, settings = expand_memory_shares(
        question, workload, plan if not fixed else plan.take(np.zeros(0, np.int64)), shared
    )
    return Member(workload.model.name, workload, plans, settings, plan, d, placed)


def companion_member(question: Question, companion: Companion, plan: Plans, catalog: Catalog) -> Member:
    """A companion on single cards of this type: for each weight format the fastest stack, at every share of memory."""
    workload = companion.workload
    unread, constraints = NullRejections(catalog.accelerators), question.constraints
    anything = replace(constraints, accelerators=(), weight_formats=(), kv_formats=(), engines=())
    kind = serving_backend(workload)
    plans = enumerate_plans(
        workload.model,
        catalog,
        plan.offered,
        anything,
        unread,
        question.assumptions,
        phase=kind.phase,
        personal=workload.is_personal,
    )
    shareable = (plans.memory_rules.rule < STATIC_RULE) | plans.small_engine | workload.single_pass
    plans = plans.take(np.flatnonzero((plans.accelerators_per_replica == 1) & shareable))
    whole = fastest_stacks(question, workload, plans)
    return Member(companion.name, workload, *expand_memory_shares(question, workload, whole, Settings()), whole)


def fastest_stacks(question: Question, workload: InferenceWorkload, plans: Plans) -> Plans:
    """For each weight format, the stack with the highest capacity on a whole card, the best first."""
    if not len(plans):
        return plans
    judged = evaluate_plans(question, workload, plans, Settings())
    capacity = np.where(judged.memory.fits, judged.options.capacity_per_s, 0.0)
    order = np.lexsort((plans.stacks.rows, -capacity))
    _, first = np.unique(plans.weight_format[order], return_index=True)
    return plans.take(order[np.sort(first)])


def expand_memory_shares(
    question: Question, workload: InferenceWorkload, plans: Plans, settings: Settings
) -> tuple[Plans, Settings]:
    """Every plan at each share of memory below the default of its engine, and at that default."""
    own = serving_backend(workload).estimate_memory(workload, plans, question.assumptions, Settings()).memory_fraction
    step = question.assumptions.packing_step_share
    some = np.array([round(step * k, 9) for k in range(1, int(1 / step + 1e-9))])
    rows, fractions = np.arange(len(plans)), np.zeros(0)
    pairs = [(row, f) for row in rows.tolist() for f in [*some[some < own[row] - 1e-9].tolist(), float(own[row])]]
    rows = np.array([row for row, _ in pairs], dtype=np.int64)
    fractions = np.array([f for _, f in pairs])
    tokens = settings.max_batched_tokens
    tokens = None if tokens is None else np.full(len(rows), tokens[0])
    return plans.take(rows), Settings(max_batched_tokens=tokens, memory_fraction=fractions)


def share_as_estimated(found: Estimate, workload: InferenceWorkload) -> Share:
    """The deployment as estimated: all of the time of its cards, and the memory that its engine takes."""
    d, memory = found.deployment, found.memory
    placed = (d.replicas or 1) + (d.spare_replicas or 0)
    taken = 1.0 if memory is None else min(1.0, memory.usable_bytes / memory.capacity_bytes)
    option = Option(placed * (d.accelerators_per_replica or 1), taken, 1.0)
    return Share(option, placed, workload, None, None, simulated=True)


def arrange_simulated(
    question: Question, catalog: Catalog, members: Sequence[Member], shares: list[list[Share]], slicing: Slicing | None
) -> tuple[Arrangement, list[Share]] | None:
    """The arrangement with the fewest cards in which every share meets its limits in a simulation.

    Chosen shares are simulated; a share that needs more cards than the closed formulas gave is updated, and the search
    repeats.
    """
    assumed = question.assumptions
    parts = 0 if slicing is None else slicing.memory
    room = Room(assumed.packed_memory_share, assumed.packed_time_share, parts)
    while True:
        options = [[share.option for share in ways] for ways in shares]
        arrangement = arrange_models(options, room)
        if arrangement is None:
            return None
        fresh = [(i, j) for i, j in enumerate(arrangement.option_indices) if not shares[i][j].simulated]
        if not fresh:
            return arrangement, [ways[j] for ways, j in zip(shares, arrangement.option_indices, strict=True)]
        for i, j in fresh:
            share = with_simulated_cards(question, catalog, members[i], shares[i][j])
            shares[i] = [*shares[i][:j], *([] if share is None else [share]), *shares[i][j + 1 :]]


def machines_cost(question: Question, plan: Plans, nodes: int) -> Cost:
    """Cost of `nodes` machines of the deployment."""
    on = plan.offered, np.array([float(nodes)]), plan.linked_nodes
    return deployment_cost(*on, question.assumptions, question.economics, host_bytes=plan.host_bytes)


def known_usd_per_hour(cost: Cost) -> float | None:
    """Cost in USD/h; None without a price."""
    usd = at(cost.usd_per_hour, 0)
    return None if math.isnan(usd) else usd


def list_placements(
    arrangement: Arrangement, members: Sequence[Member], ways: Sequence[Share], slicing: Slicing | None
) -> tuple[Placement, ...]:
    """Placement of the models on the cards."""
    found: list[Placement] = []
    card = 1
    for tenants, count in sorted(arrangement.cards.items()):
        for i in sorted(tenants):
            option = ways[i].option
            name = slicing.profile_name(option.slice) if slicing is not None and option.slice is not None else None
            found.append(Placement(card, count, members[i].name, option.memory_share, option.time_share, name))
        card += count
    return tuple(found)


def describe_member(member: Member, share: Share, found: Estimate, catalog: Catalog) -> PackedModel:
    """Engine, weight format and replicas of a packed model."""
    engine, stored = found.deployment.engine or "", found.deployment.weight_format or ""
    if member.deployment is None and share.plan is not None:
        engine = catalog.engines[int(share.plan.engine[0])]
        stored = catalog.formats[int(share.plan.weight_format[0])]
    return PackedModel(member.name, engine, stored, share.replicas)


def cheaper_choice(packed_usd: float | None, separate_usd: float | None) -> str | None:
    """Which costs less, "together" or "apart"; None where neither has a price."""
    if packed_usd is None or separate_usd is None:
        return None if packed_usd is None and separate_usd is None else "apart" if packed_usd is None else "together"
    return "together" if packed_usd <= separate_usd * (1 + 1e-9) else "apart"


def infeasible_packing(accelerator: str, missing: Sequence[str], separate_usd: float | None) -> Packing:
    """Answer where some model cannot run on a card of this type."""
    names = " and ".join(missing) or "One of the models"
    text = f"{names} cannot run within {'its' if len(missing) < 2 else 'their'} limits on one {accelerator}."
    return Packing(None, None, None, (), (), separate_usd, None if separate_usd is None else "apart", text)


def packing_over_limits(accelerator: str, cards: int, models: int, separate_usd: float | None) -> Packing:
    """Answer where all models together exceed a limit on accelerators, money or power."""
    text = f"{format_count(models, 'model')} together need {cards:,} × {accelerator}"
    text = f"{text}, which exceeds a limit on accelerators, cost or power."
    return Packing(None, None, None, (), (), separate_usd, None if separate_usd is None else "apart", text)


def explain_packing(accelerator: str, cards: int, models: int, usd: float | None, separate_usd: float | None) -> str:
    """The comparison as a sentence."""
    text = f"{format_count(models, 'model')} share {cards:,} × {accelerator}"
    if usd is None or separate_usd is None:
        return f"{text}."
    return f"{text} for {format_usd(usd)}/h; on separate machines, they cost {format_usd(separate_usd)}/h."
