"""Several models on shared cards: shares of memory and time, slices, bin packing, and the cost apart.

A model with a share of a card's time runs that much slower, so it is judged as a busier load with tighter limits on a
card of its own (`slow_down_workload`); its engine takes a share of the memory. Shares in which each model meets its
limits are placed on cards, and the cost is compared with machines of its own for each model. A model meets its limits
in its share however busy the other models are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np

from app.sizing.answer.money import format_usd
from app.sizing.assumptions import Assumptions
from app.sizing.columns import ROUNDING, Codes, Column, Indexed, at, materialize_as
from app.sizing.decisions.cost import Cost, deployment_cost, within_limits
from app.sizing.decisions.machines import Candidates
from app.sizing.decisions.placement import plan_fleet
from app.sizing.decisions.rejections import NullRejections
from app.sizing.decisions.search import Search, Workload
from app.sizing.formula import formula, suspend_recording
from app.sizing.hardware.parts import Slice, Slicing, fit_together
from app.sizing.hardware.tables import Machines
from app.sizing.question import Deployment, Objective, Question
from app.sizing.result import Estimate, PackedModel, Packing, Placement
from app.sizing.serving.choice import best_single_service
from app.sizing.serving.finalists import has_capacity, simulate_replicas
from app.sizing.serving.interfaces import Settings
from app.sizing.serving.kinds import serving_backend
from app.sizing.serving.memory import STATIC_RULE, capacity_bytes
from app.sizing.serving.plans import Plans
from app.sizing.serving.search import (
    complete_settings,
    confidence_margins,
    enumerate_plans,
    evaluate_plans,
    feasible_plans,
    required_replicas,
)
from app.sizing.snapshot import Catalog
from app.sizing.words import format_count
from app.sizing.workload import InferenceWorkload, Load
from app.sizing.workload.inference import Companion


def companions_usd_per_hour(search: Search[Workload]) -> float | None:
    """Cost of all companions, each on the cheapest machines of its own, USD/h; None where one is infeasible.

    Speculative decoding is that of the requested model.
    """
    question = search.question
    plain = replace(search, question=replace(question, constraints=replace(question.constraints, speculative=None)))
    each = [service_usd_per_hour(plain.of(c.workload)) for c in question.companions]
    return None if None in each else sum(usd for usd in each if usd is not None)


def service_usd_per_hour(search: Search[InferenceWorkload]) -> float | None:
    """Cost of the cheapest machines that carry a load within its limits, USD/h; None where it is infeasible."""
    best = best_single_service(replace(search, question=replace(search.question, objective=Objective.COST)))
    return None if best is None else at(best.cost.usd_per_hour, 0)


# Branches that the search visits before it returns the best arrangement found so far.
MAX_BRANCHES = 4_000
MAX_SIZED_MEMBERS = 12  # models sized for shared cards, over all types tried; each takes some 0.1 s


@dataclass(frozen=True, slots=True)
class Option:
    """One way to run a model: a number of cards and its share of each."""

    cards: int  # number of cards
    memory_share: float  # share of the memory of each card, 0 to 1
    time_share: float  # share of the time of each card, 0 to 1
    slice: Slice | None = None  # slice of a partitioned card


@dataclass(frozen=True, slots=True)
class Room:
    """What several models together may take of a shared card, and the memory parts of a card that is sliced."""

    memory_share: float  # largest total share of memory, 0 to 1
    time_share: float  # largest total share of time, 0 to 1
    parts: int = 0  # memory parts of a sliced card; 0 where cards are not sliced

    def can_hold(self, options: Sequence[Option]) -> bool:
        """Whether these options fit on one card. A model alone can use the whole card."""
        slices = tuple(sorted(o.slice for o in options if o.slice is not None))
        if slices:
            return len(slices) == len(options) and fit_together(slices, self.parts)
        if len(options) == 1:
            return max(options[0].memory_share, options[0].time_share) <= 1 + ROUNDING
        memory, time = sum(o.memory_share for o in options), sum(o.time_share for o in options)
        return memory <= self.memory_share + ROUNDING and time <= self.time_share + ROUNDING


SHARES = ("memory_share", "time_share")  # what options take of a card
Tenants = tuple[int, ...]  # indices of the models on a card, in order
Cards = Mapping[Tenants, int]  # number of cards with each set of models


@dataclass(frozen=True, slots=True)
class Arrangement:
    """Option chosen for each model, and the number of cards with each set of models."""

    option_indices: tuple[int, ...]  # index of the chosen option of each model
    cards: Cards  # number of cards with each set of models

    @property
    def count(self) -> int:
        """Number of cards."""
        return sum(self.cards.values())


@dataclass(slots=True)
class CardSearch:
    """Branch-and-bound search for the arrangement with the fewest cards: depth first, largest model first."""

    models: Sequence[Sequence[Option]]
    room: Room
    placed_options: dict[int, Option] = field(default_factory=dict)
    best: Arrangement | None = None
    branches: int = 0
    least: Mapping[str, Sequence[float]] = field(init=False)  # what each model takes at least, by resource
    least_cards: Sequence[int] = field(init=False)  # of each model

    def __post_init__(self) -> None:
        self.least_cards = [min((o.cards for o in options), default=0) for options in self.models]
        self.least = {
            name: [
                min((o.cards * min(self.most(name), getattr(o, name)) for o in options), default=0.0)
                for options in self.models
            ]
            for name in SHARES
        }

    def most(self, name: str) -> float:
        """Largest total share of a card."""
        return 1.0 if self.room.parts else float(getattr(self.room, name))

    def find_best(self) -> Arrangement | None:
        """The best arrangement found; None where a model has no option."""
        if not all(self.models):
            return None
        order = sorted(range(len(self.models)), key=lambda i: (-min_volume(self.models[i], self.room), i))
        self.place_models(order, {})
        return self.best

    def place_models(self, remaining: Sequence[int], cards: Cards) -> None:
        """Place the remaining models on cards, some of which already have models."""
        self.branches += 1
        if self.best is not None and (
            self.branches > MAX_BRANCHES or self.min_cards(remaining, cards) >= self.best.count
        ):
            return
        if not remaining:
            chosen = tuple(self.models[i].index(self.placed_options[i]) for i in range(len(self.models)))
            self.best = Arrangement(chosen, dict(sorted(cards.items())))
            return
        model, rest = remaining[0], remaining[1:]
        ways: list[tuple[int, int, int, Option, Cards]] = []
        for number, option in enumerate(self.models[model]):
            for turn, after in enumerate(self.extend_arrangement(model, option, cards)):
                ways.append((sum(after.values()), number, turn, option, after))
        for _, _, _, option, after in sorted(ways, key=lambda way: way[:3]):
            self.placed_options[model] = option
            self.place_models(rest, after)
        self.placed_options.pop(model, None)

    def extend_arrangement(self, model: int, option: Option, cards: Cards) -> Iterator[Cards]:
        """Arrangements that add one model: on as many of the cards with room as possible first, then on new cards."""
        open_to = [t for t in sorted(cards) if self.room.can_hold([*(self.placed_options[i] for i in t), option])]
        for counts in split_counts(option.cards, [cards[t] for t in open_to]):
            after = dict(cards)
            for tenants, count in zip(open_to, counts, strict=True):
                if count:
                    after[tenants] -= count
                    after[(*tenants, model)] = count
            new = option.cards - sum(counts)
            if new:
                after[(model,)] = new
            yield {t: n for t, n in after.items() if n}

    def min_cards(self, remaining: Sequence[int], cards: Cards) -> int:
        """Lower bound of the cards in any arrangement: the load placed so far plus the least of every remaining
        model.
        """
        least = sum(cards.values())
        for name in SHARES:
            most = self.most(name)
            whole = sum(n * min(most, sum(getattr(self.placed_options[i], name) for i in t)) for t, n in cards.items())
            whole += sum(self.least[name][i] for i in remaining)
            least = max(least, math.ceil(whole / most - ROUNDING))
        return max([least, *(self.least_cards[i] for i in remaining)])


def min_volume(options: Sequence[Option], room: Room) -> float:
    """Smallest number of cards that a model fills by itself, in memory or time."""
    return min(o.cards * max(o.memory_share / room.memory_share, o.time_share / room.time_share) for o in options)


def split_counts(wanted: int, piles: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Ways to take up to `wanted` items from some piles, with as many as possible from the first pile to begin with."""
    if not piles:
        yield ()
        return
    for count in range(min(wanted, piles[0]), -1, -1):
        for others in split_counts(wanted - count, piles[1:]):
            yield (count, *others)


def arrange_models(models: Sequence[Sequence[Option]], room: Room) -> Arrangement | None:
    """The models on as few cards as the search finds; None where one of them has no option."""
    return CardSearch(models, room).find_best()


MEMORY_SHARE_STEP = 1e-4  # shares of memory are rounded up to multiples of this
SHARE_ROUNDING = 1e-6


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
    taken: Column = np.ceil(memory.usable_bytes / visible / MEMORY_SHARE_STEP - SHARE_ROUNDING) * MEMORY_SHARE_STEP
    return taken


def candidate_time_shares(question: Question, *, whole: bool) -> list[float]:
    """Candidate shares of a card's time, largest first."""
    step = question.assumptions.packing_step_share
    some = [round(step * k, 9) for k in range(int(1 / step + ROUNDING), 0, -1)]
    return ([1.0] if whole else []) + [s for s in some if s <= question.assumptions.packed_time_share]


def find_shares(search: Search[Workload], member: Member) -> list[Share]:
    """Pareto-optimal ways to run a model in shares, by cards, memory and time, according to the closed formulas."""
    if not len(member.plans):
        return []
    memory_taken, shares = memory_shares(search.question, member), list[Share]()
    whole = member.placed_replicas is None
    candidates = (
        candidate_time_shares(search.question, whole=whole) if leaves_time_to_others(member.workload) else [1.0] * whole
    )
    sized = cache(lambda place: size_at_time_share(search, member, memory_taken, candidates[place]))
    memory_by_cards = cache(lambda place: {s.option.cards: s.option.memory_share for s in reversed(sized(place))})
    for place in distinct_places(memory_by_cards, len(candidates)):
        if not sized(place):
            break  # a smaller share of time is infeasible too
        shares += sized(place)
    beaten = [any(dominates_share(o, s, j < i) for j, o in enumerate(shares) if j != i) for i, s in enumerate(shares)]
    return [s for s, worse in zip(shares, beaten, strict=True) if not worse or s.option.time_share == 1]


def distinct_places(value_at: Callable[[int], object], count: int) -> list[int]:
    """Places in order without those between two of equal value: a value that changes does not return to what it was.

    Check:
        >>> distinct_places([1, 1, 1, 1, 2, 3, 3, 3].__getitem__, 8)
        [0, 3, 4, 5, 7]
    """
    chosen, between = {0, count - 1} if count else set[int](), [(0, count - 1)]
    while between:
        low, high = between.pop()
        if high - low > 1 and value_at(low) != value_at(high):
            middle = (low + high) // 2
            chosen.add(middle)
            between += [(low, middle), (middle, high)]
    return sorted(chosen)


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
    search: Search[InferenceWorkload], member: Member, plans: Plans, requested: Settings
) -> FeasibleMemberPlans:
    """Plans of a member that meet the limits of a workload at the requested confidence, by the closed formulas."""
    margins = confidence_margins(search, plans)
    rows, memory, speed, _ = feasible_plans(search.unrecorded(), plans, margins, requested)
    serving = np.flatnonzero(speed.has_capacity)
    rows, memory, speed = rows[serving], memory.take(serving), speed.take(serving)
    plans, requested = plans.take(rows), requested.take(rows)
    replicas = required_replicas(
        search.question,
        search.workload,
        plans,
        speed.planned_capacity_per_s(search.workload),
        speed.slo_batch,
        Settings(),
    )
    settings, cards = (
        complete_settings(memory, speed, replicas, requested),
        required_cards(member, plans, search.workload, replicas),
    )
    return FeasibleMemberPlans(member, search.workload, rows, plans, settings, cards)


def size_at_time_share(search: Search[Workload], member: Member, taken: Column, time_share: float) -> list[Share]:
    """At one share of time: for each number of cards the least memory, and on a whole card also the most."""
    workload = slow_down_workload(member.workload, time_share)
    found = size_member_plans(search.of(workload), member, member.plans, member.settings)
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


def with_simulated_cards(search: Search[Workload], member: Member, share: Share) -> Share | None:
    """The share with the cards that it needs in a simulation; None where the limits cannot be met."""
    plan, settings, share = share.plan, share.settings, replace(share, simulated=True)
    if plan is None or settings is None:
        return share
    runs = simulate_replicas(search.of(share.workload), plan, settings, member.deployment)
    if runs is None:
        return share
    capacity, batch = runs.planned_capacity(share.workload)
    if not has_capacity(capacity, batch)[0]:
        return None
    replicas = required_replicas(search.question, share.workload, plan, capacity, batch, Settings())
    cards = at(required_cards(member, plan, share.workload, replicas), 0)
    if not np.isfinite(cards):
        return None
    count = max(share.option.cards, int(cards))
    size = at(plan.accelerators_per_replica, 0)
    return replace(share, option=replace(share.option, cards=count), replicas=int(count / size))


@formula(unit="B", source="output of nvidia-smi mig -lgip on A100 and H100")
def slice_memory_bytes(memory_bytes: Column, memory_share: Column, assumed: Assumptions) -> Column:
    """Usable memory of a slice.

    Parameters:
        memory_bytes: memory of the whole card, bytes.
        memory_share: share of the card's memory parts, 0 to 1.
        assumed: assumptions, for the share of a slice's memory that the driver leaves.
    Limits: an eighth of an A100 80 GB has 9.5 GiB; larger slices lose less.
    Check:
        >>> float(slice_memory_bytes(80.0, 0.125, Assumptions()))
        9.5
    """
    taken: Column = memory_bytes * memory_share * assumed.slice_memory_fraction
    return taken


@formula(unit="1", source="output of nvidia-smi mig -lgip on A100 and H100")
def slice_compute_share(compute_share: Column, assumed: Assumptions) -> Column:
    """Share of a card's compute that a slice has; some multiprocessors belong to no slice.

    Parameters:
        compute_share: share of the card's compute parts, 0 to 1.
        assumed: assumptions, for the share of multiprocessors that slices use.
    Limits: a seventh of an H100 has 16 of 132 multiprocessors; larger slices have all of theirs.
    Check: 16 / 132 = 0.1212.
        >>> round(float(slice_compute_share(1 / 7, Assumptions())), 4)
        0.1214
    """
    return compute_share * assumed.slice_compute_fraction


def slice_plans(plans: Plans, slicing: Slicing, assumed: Assumptions) -> tuple[Plans, list[Slice]]:
    """Every plan on every slice of its card, and the slice of each row."""
    count = len(slicing.slices)
    rows = np.repeat(np.arange(len(plans)), count)
    slice_of_row = list(slicing.slices) * len(plans)
    compute = np.array([s.compute / slicing.compute for s in slice_of_row])
    memory = np.array([s.memory / slicing.memory for s in slice_of_row])
    whole = plans.take(rows)
    machines = materialize_as(Candidates, whole.offered)
    node = materialize_as(Machines, machines.node)
    node = replace(node, memory_bytes=slice_memory_bytes(node.memory_bytes, memory, assumed))
    compute_share = slice_compute_share(compute, assumed)
    sliced = replace(
        whole,
        machines=Indexed(replace(machines, node=node), np.arange(len(rows))),
        linear_flops_per_s=whole.linear_flops_per_s * compute_share,
        bit16_flops_per_s=whole.bit16_flops_per_s * compute_share,
        bytes_per_s=whole.bytes_per_s * memory,
    )
    return sliced, slice_of_row


def find_slice_shares(search: Search[Workload], member: Member, slicing: Slicing) -> list[Share]:
    """For each slice, the plan that needs the fewest cards, by the closed formulas."""
    single = np.flatnonzero(
        (member.whole_card_plans.accelerators_per_replica == 1) & ~member.whole_card_plans.offloads_weights
    )
    if not len(single):
        return []
    plans, slice_of_row = slice_plans(member.whole_card_plans.take(single), slicing, search.question.assumptions)
    found = size_member_plans(search.of(member.workload), member, plans, Settings())
    best: dict[Slice, tuple[int, int]] = {}
    for row, count in enumerate(found.cards.tolist()):
        slice_of = slice_of_row[found.rows[row]]
        if np.isfinite(count) and (slice_of not in best or count < best[slice_of][0]):
            best[slice_of] = (int(count), row)
    return [
        found.make_share(
            row,
            Option(
                count,
                slice_of.memory / slicing.memory,
                slice_of.compute / slicing.compute,
                slice_of,
            ),
        )
        for slice_of, (count, row) in sorted(best.items())
    ]


def add_packing(search: Search[InferenceWorkload], found: Estimate, plan: Plans) -> Estimate:
    """An estimate with its companions packed onto its cards; unchanged without companions or where it does not fit.

    `plan` is the plan of the estimate.
    """
    if not search.question.companions or not found.fits or found.cost is None:
        return found
    with suspend_recording():
        companion_usd = companions_usd_per_hour(search)
        return replace(found, packing=pack_models(search, found, plan, companion_usd))


def add_separate_companions(search: Search[Workload], found: Estimate) -> Estimate:
    """A deployment in prefill and decode pools, with its companions on separate machines; pools share no cards."""
    if not search.question.companions or not found.fits or found.cost is None:
        return found
    with suspend_recording():
        separate_usd = separate_total_usd(found, companions_usd_per_hour(search))
    text = "Prefill and decode pools share their cards with no other model; the companions need separate machines."
    cheaper = None if separate_usd is None else "apart"
    return replace(found, packing=Packing(None, None, None, (), (), separate_usd, cheaper, text))


def separate_total_usd(found: Estimate, companion_usd: float | None) -> float | None:
    """Cost of the deployment plus every companion on machines of its own at the peak, USD/h; None where one has no
    price.
    """
    own = None if found.cost is None else found.cost.full_usd_per_hour
    return None if own is None or companion_usd is None else own + companion_usd


def pack_models(
    search: Search[InferenceWorkload],
    found: Estimate,
    plan: Plans,
    companion_usd: float | None,
) -> Packing:
    """All models on cards of the deployment's type and machines, compared with separate deployments."""
    members = [requested_member(search.question, search.workload, found, plan)]
    members += [companion_member(search, c, plan) for c in search.question.companions]
    slicing = search.catalog.slicings.get(found.deployment.accelerator)
    name = search.catalog.accelerators[search.catalog.accelerator_index[found.deployment.accelerator]].name
    shares = [candidate_shares(search, m, slicing) for m in members]
    shares[0] = [*shares[0], share_as_estimated(found, search.workload)]
    separate_usd = separate_total_usd(found, companion_usd)
    missing = [m.name for m, ways in zip(members, shares, strict=True) if not ways]
    chosen = None if missing else arrange_simulated(search, members, shares, slicing)
    if chosen is None:
        return infeasible_packing(name, missing, separate_usd)
    arrangement, ways = chosen
    nodes = max(
        found.deployment.nodes or 1, math.ceil(arrangement.count / at(plan.accelerators_per_node, 0) - ROUNDING)
    )
    cost = machines_cost(search.question, plan, nodes)
    paid, limits = nodes * plan.accelerators_per_node, search.question.constraints
    if not within_limits(plan.accelerator, paid, cost, limits, NullRejections(search.catalog.accelerators))[0]:
        return packing_over_limits(name, arrangement.count, len(members), separate_usd)
    usd = known_usd_per_hour(cost)
    return Packing(
        cards=arrangement.count,
        machines=nodes,
        usd_per_hour=usd,
        on=list_placements(arrangement, members, ways, slicing),
        models=tuple(
            describe_member(member, share, found, search.catalog) for member, share in zip(members, ways, strict=True)
        ),
        apart_usd_per_hour=separate_usd,
        cheaper=cheaper_choice(usd, separate_usd),
        why=explain_packing(name, arrangement.count, len(members), usd, separate_usd),
    )


def candidate_shares(search: Search[Workload], member: Member, slicing: Slicing | None) -> list[Share]:
    """Candidate shares of a model on these cards: slices first, which isolate models from each other, then time
    shares.
    """
    sliced = [] if slicing is None else find_slice_shares(search, member, slicing)
    return [*sliced, *find_shares(search, member)]


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


def companion_member(search: Search[Workload], companion: Companion, plan: Plans) -> Member:
    """A companion on single cards of this type: for each weight format the fastest stack, at every share of memory."""
    workload = companion.workload
    unread, constraints = NullRejections(search.catalog.accelerators), search.question.constraints
    anything = replace(constraints, accelerators=(), weight_formats=(), kv_formats=(), engines=(), speculative=None)
    kind = serving_backend(workload)
    plans = enumerate_plans(
        workload.model,
        search.catalog,
        plan.offered,
        anything,
        unread,
        search.question.assumptions,
        phase=kind.phase,
        personal=workload.is_personal,
    )
    shareable = (plans.memory_rules.rule < STATIC_RULE) | plans.small_engine | workload.single_pass
    plans = plans.take(np.flatnonzero((plans.accelerators_per_replica == 1) & shareable))
    whole = fastest_stacks(search.question, workload, plans)
    return Member(companion.name, workload, *expand_memory_shares(search.question, workload, whole, Settings()), whole)


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
    some = np.array([round(step * k, 9) for k in range(1, int(1 / step + ROUNDING))])
    rows, fractions = np.arange(len(plans)), np.zeros(0)
    pairs = [(row, f) for row in rows.tolist() for f in [*some[some < own[row] - ROUNDING].tolist(), float(own[row])]]
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
    search: Search[Workload], members: Sequence[Member], shares: list[list[Share]], slicing: Slicing | None
) -> tuple[Arrangement, list[Share]] | None:
    """The arrangement with the fewest cards in which every share meets its limits in a simulation.

    Chosen shares are simulated; a share that needs more cards than the closed formulas gave is updated, and the search
    repeats.
    """
    assumed = search.question.assumptions
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
            share = with_simulated_cards(search, members[i], shares[i][j])
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
    return "together" if packed_usd <= separate_usd * (1 + ROUNDING) else "apart"


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


def with_enough_finalists(question: Question) -> Question:
    """The question with enough finalists to try with their companions."""
    if not ranks_by_total_cost(question):
        return question
    return replace(question, limit=max(question.limit, packed_types(question)))


def packed_types(question: Question) -> int:
    """How many accelerator types are tried: fewer where many companions make each one expensive."""
    return max(1, min(int(question.assumptions.packed_types), MAX_SIZED_MEMBERS // (1 + len(question.companions))))


def ranks_by_total_cost(question: Question) -> bool:
    """Whether the cost of all models at peak load decides the ranking."""
    workload = question.workload
    by_day = isinstance(workload, InferenceWorkload) and bool(workload.hourly_shares)
    return bool(question.companions) and question.objective is Objective.COST and not by_day


def pack_finalists(
    search: Search[InferenceWorkload],
    estimates: Sequence[Estimate],
    plans: Plans,
    scores: Column,
) -> tuple[tuple[Estimate, ...], Codes, Column]:
    """Estimates with companions packed onto their cards, the order of the total cost, and the ranking values.

    Finalists that are not packed cost the sum of separate deployments. Where money does not decide, only the first
    finalist is packed and the order stays.
    """
    order = np.arange(len(estimates))
    if not search.question.companions:
        return tuple(estimates), order, scores
    with suspend_recording():
        companion_usd = companions_usd_per_hour(search)
        count = packed_types(search.question) if ranks_by_total_cost(search.question) else 1
        packed = [
            replace(e, packing=pack_models(search, e, plans.take(order[i : i + 1]), companion_usd))
            for i, e in enumerate(estimates[:count])
        ]
    every = (*packed, *estimates[count:])
    if not ranks_by_total_cost(search.question):
        return every, order, scores
    separate_usd = [separate_total_usd(found, companion_usd) for found in estimates[count:]]
    every_usd = (*(e.packing and e.packing.total_usd_per_hour for e in packed), *separate_usd)
    totals = np.array([np.inf if usd is None else usd for usd in every_usd])
    order = np.argsort(totals, kind="stable")
    return tuple(every[row] for row in order.tolist()), order, totals[order]
