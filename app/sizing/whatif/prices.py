"""Other prices: what costs less if the buyer accepts prices or terms that are excluded by default, at which discount
the runner-up ranks first, and buying against renting.

A price changes no plan: plans that were evaluated before are priced again, and only machines of other kinds are
searched. Options that the request itself settles are not suggested.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from app.sizing.answer.money import confident_usd, format_usd, priced_unit
from app.sizing.columns import (
    HOURS_PER_DAY,
    ROUNDING,
    Codes,
    Column,
    Columns,
    Mask,
    at,
    column_names,
    concat_tables,
)
from app.sizing.decisions.acquisition import (
    ACQUISITION_OPTIONS,
    COUNTED_CODES,
    OPTION_CODES,
    OWNED,
    SoldMachine,
    describe_sold_machines,
    equivalent_or_better,
)
from app.sizing.decisions.cost import deployment_cost, usd_per_million, usd_total
from app.sizing.decisions.machines import (
    Candidates,
    apply_oversubscription,
    candidates_from_listings,
    cheapest_per_machine,
    eligible_types,
    listing_prices,
    listings_on_sale,
    machine_kinds,
    types_allowed,
    types_named,
)
from app.sizing.decisions.placement import plan_fleet
from app.sizing.decisions.places import list_countries, possible_countries, possibly_in_regions
from app.sizing.decisions.prices import outdated_prices, run_pricing, service_pricing
from app.sizing.decisions.ranking import best_per_accelerator, objective_score
from app.sizing.decisions.rejections import NullRejections
from app.sizing.decisions.search import Search
from app.sizing.formula import formula, suspend_recording
from app.sizing.hardware.listings import PRICING
from app.sizing.hardware.parts import COUNTED, KINDS, PricingModel
from app.sizing.pools.search import least_usd_per_hour
from app.sizing.question import Objective, Question
from app.sizing.result import AcquisitionOption, Cheaper, CostSummary, Effect, Estimate, Part, Ranked, describe_risk
from app.sizing.serving.curve_ends import Extent
from app.sizing.serving.finalists import may_carry_below, simulate_candidates
from app.sizing.serving.kinds import serving_backend
from app.sizing.serving.load_curves import is_simulated
from app.sizing.serving.options import Options, measures, served_per_s, stable_key, units_per_request
from app.sizing.serving.search import enumerate_plans, may_be_feasible, search_plans
from app.sizing.snapshot import Catalog
from app.sizing.training.counts import Counts
from app.sizing.training.plans import TrainingMachines, meets_deadline_at_confidence
from app.sizing.training.run import deployed_machines, run_at, run_cost, run_fits_at_confidence
from app.sizing.training.search import CostedRuns, run_measures
from app.sizing.whatif.cases import cost_period
from app.sizing.words import percent
from app.sizing.workload import InferenceWorkload, Load

# What a buyer may accept in addition to the defaults, as text of an answer. The codes below index this tuple.
ACCEPTING = (
    "unquoted hardware",
    "brokers, serverless platforms and small hosts",
    "a commitment",
    "spot capacity",
    "consumer and edge hardware",
    "prices last seen more than a year ago",
    "machines that may stand outside the requested regions",
)
UNQUOTED, BROKERS, COMMITMENT, SPOT, CONSUMER, OLD, PLACE = range(len(ACCEPTING))
MAX_SIMULATED_REQUESTS = 2000  # simulated requests per suggestion
OLD_RISK = "the price may have changed: ask for the current price"
CONSUMER_RISK = "no data-center support, usually no ECC memory"
NOT_ACCEPTABLE = -1  # code of a listing that no single acceptance makes available
MAX_PER_MACHINE = 1 << 20  # more than the accelerators or processors of any machine
COMMITTED = (
    ACQUISITION_OPTIONS.index(AcquisitionOption.ONE_YEAR),
    ACQUISITION_OPTIONS.index(AcquisitionOption.THREE_YEARS),
)
UNCOMMITTED = (ACQUISITION_OPTIONS.index(AcquisitionOption.ON_DEMAND), OWNED)


@dataclass(frozen=True, slots=True)
class PricedDeployments(Columns):
    """Deployments at prices that are not accepted by default."""

    offered: Candidates
    accepting: Codes  # index into ACCEPTING
    accelerators: Column  # accelerators paid for
    usd_per_hour: Column  # USD/h
    usd_total: Column  # cost of work with an end, USD; NaN for a service
    usd: Column  # cost that rows are compared by, USD or USD/h


def acceptance_codes(question: Question, catalog: Catalog) -> Codes:
    """Code of the one thing that a buyer must accept to use each listing; NOT_ACCEPTABLE where none or more than one is
    needed.
    """
    way, firm = OPTION_CODES[catalog.listings.pricing], COUNTED_CODES[catalog.listings.kind]
    found = np.full(len(way), NOT_ACCEPTABLE)
    found[~firm & (way == OWNED)] = UNQUOTED
    found[~firm & (way == ACQUISITION_OPTIONS.index(AcquisitionOption.ON_DEMAND))] = BROKERS
    found[firm & np.isin(way, COMMITTED)] = COMMITMENT
    found[firm & (way == ACQUISITION_OPTIONS.index(AcquisitionOption.SPOT))] = SPOT
    old = outdated_prices(catalog, question.assumptions, serves_many=_serves_many(question))
    found[old] = np.where((firm & np.isin(way, UNCOMMITTED))[old], OLD, NOT_ACCEPTABLE)
    consumer = _not_for_servers(question, catalog)[catalog.listings.accelerator]
    found[consumer] = np.where((firm & np.isin(way, UNCOMMITTED) & ~old)[consumer], CONSUMER, NOT_ACCEPTABLE)
    if question.constraints.names_places:
        unsure = possibly_in_regions(catalog, question.constraints)
        found[unsure] = np.where((firm & np.isin(way, UNCOMMITTED) & ~old & ~consumer)[unsure], PLACE, NOT_ACCEPTABLE)
    return found


def _serves_many(question: Question) -> bool:
    return isinstance(question.workload, InferenceWorkload) and question.workload.serves_many


def _not_for_servers(question: Question, catalog: Catalog) -> Mask:
    """Accelerator types that are allowed but that the workload does not use unless the request names them."""
    limits, unread = question.constraints, NullRejections(catalog.accelerators)
    named = types_named(catalog, limits.named_accelerators)
    left = eligible_types(catalog, limits, named, question.assumptions, unread, serves_many=_serves_many(question))
    return types_allowed(catalog, limits) & ~left


def open_acceptance_codes(question: Question) -> tuple[int, ...]:
    """Codes that the request leaves open. Work with an end gets no suggestion that binds the buyer beyond that end."""
    limits, workload = question.constraints, question.workload
    prices: tuple[int, ...] = () if limits.price_kinds else (UNQUOTED, BROKERS)
    if not limits.price_kinds and limits.max_price_age_days is None:
        prices = (*prices, OLD)
    terms = () if limits.pricing_models else (COMMITMENT, SPOT)
    parts = () if limits.segments else (CONSUMER,)
    places = (PLACE,) if limits.names_places else ()
    outlasting: tuple[int, ...] = ()
    if not isinstance(workload, InferenceWorkload) or workload.is_finite:
        own = PricingModel.OWNED in run_pricing(limits)
        outlasting = (COMMITMENT,) if own else (UNQUOTED, COMMITMENT)
    return tuple(code for code in (*prices, *terms, *parts, *places) if code not in outlasting)


def excluded_machines(question: Question, catalog: Catalog, accepting: Codes, most_usd_per_hour: float) -> Candidates:
    """Excluded machines at their cheapest price for each acceptance code, below a price per machine."""
    workload, listings = question.workload, catalog.listings
    keep = listings_on_sale(question, catalog, types_allowed(catalog, question.constraints), possible=True)
    keep &= np.isin(accepting, open_acceptance_codes(question))
    prices = listing_prices(catalog, keep, question.assumptions, question.economics)
    keep &= prices.usd_per_hour < most_usd_per_hour
    reads_host = isinstance(workload, InferenceWorkload) and workload.single_pass
    vcpus, rows = np.where(reads_host, listings.vcpus, np.nan), np.flatnonzero(keep)
    gives_back = isinstance(workload, InferenceWorkload) and bool(workload.hourly_shares)
    kinds = machine_kinds(listings.machine[rows], listings.pricing[rows], vcpus[rows], gives_back=gives_back)
    each = kinds * len(ACCEPTING) + accepting[rows]
    first = rows[cheapest_per_machine(each, prices.usd_per_hour[rows], np.arange(len(rows)))]
    return candidates_from_listings(catalog, prices, first, vcpus, question.assumptions)


def find_cheaper_services(
    question: Question, workload: InferenceWorkload, options: Options, best: int, catalog: Catalog
) -> tuple[Cheaper, ...]:
    """For each acceptance code, the cheapest feasible service where it costs less than the best accepted one."""
    with suspend_recording():
        usd_per_hour, usd = at(options.cost.usd_per_hour, best), at(measures(workload, options).usd, best)
        steady = not workload.is_finite and workload.load is not Load.OFFLINE
        max_usd_per_hour = usd_per_hour * (1 - question.assumptions.near_tie_share)
        most = max_usd_per_hour / _min_machines(workload) if steady else np.inf
        accepting = acceptance_codes(question, catalog)
        machines = excluded_machines(question, catalog, accepting, most)
        kinds, judged = _machine_keys(catalog, machines), _machine_keys(catalog, options.plans.machines.table)
        known = np.isin(kinds, judged)
        movable = options.take(~options.plans.offloads_weights)  # weights in host memory bind a plan to its host
        found = (
            [_reprice_plans(question, workload, movable, catalog, machines.take(known), accepting)]
            if len(movable)
            else []
        )
        to_beat = np.full(len(ACCEPTING), usd * (1 - question.assumptions.near_tie_share))
        for priced in found:
            np.minimum.at(to_beat, priced.accepting, priced.usd)
        proven = _best_stacks(workload, options)
        others = machines.take(~known)
        if steady and not workload.hourly_shares:
            least_usd = others.usd_per_hour * _min_machines(workload)
            others = others.take(least_usd < to_beat[accepting[others.listing]])
        if len(others):
            limit = max_usd_per_hour if steady else None
            found += _search_machines(question, workload, catalog, others, accepting, proven, limit, to_beat)
        return _cheaper_options(question, catalog, concat_tables(found), usd) if found else ()


def _min_machines(workload: InferenceWorkload) -> float:
    """Machines of the smallest service: one replica in large machines, with the spares of its redundancy."""
    return at(plan_fleet(workload.redundancy, np.ones(1), np.full(1, float(MAX_PER_MACHINE)), np.ones(1)).nodes, 0)


def find_cheaper_runs(
    question: Question, counts: Counts, deadline_s: float, chosen: CostedRuns, catalog: Catalog
) -> tuple[Cheaper, ...]:
    """For each acceptance code, the cheapest training run where it costs less than the best accepted one.

    `chosen` holds the accepted runs, best first. Each keeps its layout and moves to machines that are at least as
    good.
    """
    with suspend_recording():
        accepting = acceptance_codes(question, catalog)
        machines = excluded_machines(question, catalog, accepting, np.inf)
        if not len(machines):
            return ()
        machines = machines.take(np.argsort(machines.usd_per_hour, kind="stable"))
        good = equivalent_or_better(catalog, deployed_machines(chosen.plans, chosen.run, chosen.cost), machines.listing)
        accepted = accepting[machines.listing] == np.arange(len(ACCEPTING))[:, None]
        each = good[:, None, :] & accepted  # axes: run, acceptance code, machine
        of, code = np.nonzero(each.any(axis=2))
        runs = _move_runs(machines.take(each[of, code].argmax(axis=1)), chosen.take(of), counts, question)
        holds = run_fits_at_confidence(runs.plans, runs.run, question.assumptions)
        holds &= meets_deadline_at_confidence(runs.plans.stack.margins, runs.run.wall_s, deadline_s)
        runs, code = runs.take(holds), code[holds]
        paid = runs.run.nodes * runs.plans.accelerators_per_node
        usd = run_measures(counts, runs).usd
        total = usd_total(runs.cost.usd_per_hour, runs.run.wall_s)
        found = PricedDeployments(runs.plans.offered, code, paid, runs.cost.usd_per_hour, total, usd)
        return _cheaper_options(question, catalog, found, at(run_measures(counts, chosen).usd, 0))


def _move_runs(machines: Candidates, runs: CostedRuns, counts: Counts, question: Question) -> CostedRuns:
    """Runs moved to other machines, row by row; spot machines can be reclaimed during the run."""
    kept = {name: getattr(runs.plans.machine, name) for name in column_names(TrainingMachines)}
    taken = {"offered": apply_oversubscription(machines, question.assumptions), "spot": machines.spot}
    plans = replace(runs.plans, machine=TrainingMachines(**{**kept, **taken}))
    run = run_at(counts, plans, runs.run.data_parallel, question.assumptions)
    return CostedRuns(runs.row, plans, run, run_cost(plans, run, question.assumptions, question.economics))


def _machine_keys(catalog: Catalog, machines: Candidates) -> Codes:
    """Key of each machine; replicas and their number per machine are the same for equal keys."""
    count, vcpus = machines.node.accelerators_per_node, np.nan_to_num(machines.vcpus)
    kind: Codes = (
        catalog.alike[1][machines.machine] * MAX_PER_MACHINE + count.astype(np.int64)
    ) * MAX_PER_MACHINE + vcpus.astype(np.int64)
    return kind


def _reprice_plans(
    question: Question,
    workload: InferenceWorkload,
    options: Options,
    catalog: Catalog,
    machines: Candidates,
    accepting: Codes,
) -> PricedDeployments:
    """For each acceptance code, the cheapest of the evaluated plans at the price of an equivalent machine."""
    kinds, accepting = _machine_keys(catalog, machines), accepting[machines.listing]
    known, kind = np.unique(kinds, return_inverse=True)
    price, which = np.full((2, len(ACCEPTING), len(known) + 1), np.inf)
    order = np.argsort(machines.usd_per_hour, kind="stable")[::-1]
    price[accepting[order], kind[order]], which[accepting[order], kind[order]] = machines.usd_per_hour[order], order
    own = _machine_keys(catalog, options.plans.offered)
    place = np.searchsorted(known, own)
    place[~np.isin(own, known)] = len(known)
    each = measures(workload, options).usd / options.cost.usd_per_hour
    stays = np.zeros(price.shape, bool)  # machines that stay paid for in hours that do not need them
    stays[accepting[order], kind[order]] = ~machines.by_the_hour[order] & bool(workload.hourly_shares)
    each = np.where(stays[:, place], 1.0, each)
    usd = price[:, place] * options.fleet.nodes * each
    code = np.flatnonzero(np.isfinite(usd.min(axis=1, initial=np.inf)))
    row = usd[code].argmin(axis=1)
    offered = machines.take(which[code, place[row]].astype(np.int64))
    nodes, linked = options.fleet.nodes[row], options.plans.linked_nodes[row]
    cost = deployment_cost(offered, nodes, linked, question.assumptions, question.economics)
    usd = cost.usd_per_hour * each[code, row]
    total = usd if workload.is_finite else np.full(len(row), np.nan)
    hourly = usd if workload.hourly_shares else cost.usd_per_hour
    return PricedDeployments(offered, code, options.fleet.accelerators[row], hourly, total, usd)


def _best_stacks(workload: InferenceWorkload, options: Options) -> Codes:
    """Software stacks that are the cheapest on at least one accelerator type."""
    best = best_per_accelerator(options.accelerator, Objective.COST, measures(workload, options), stable_key(options))
    return np.unique(options.plans.stacks.rows[best])


def _search_machines(
    question: Question,
    workload: InferenceWorkload,
    catalog: Catalog,
    machines: Candidates,
    accepting: Codes,
    proven: Codes,
    most_usd: float | None,
    to_beat: Column,
) -> list[PricedDeployments]:
    """Plans on machines of other kinds that may cost less. Hardware families that were evaluated use only the stacks
    that were best on them.

    Parameters:
        most_usd: highest cost, USD/h; None without a limit.
        to_beat: cost from which a plan with each acceptance code is of no use, USD or USD/h.
    """
    limits = question.constraints
    if most_usd is not None:
        limits = replace(limits, max_usd_per_hour=most_usd)
    question = replace(question, constraints=limits, objective=Objective.COST, limit=1, trace=False)
    unread, assumed, kind = NullRejections(catalog.accelerators), question.assumptions, serving_backend(workload)
    personal = workload.is_personal
    plans = enumerate_plans(
        workload.model, catalog, machines, limits, unread, assumed, phase=kind.phase, personal=personal
    )
    families = plans.stacks.table.family
    worth = np.isin(plans.stacks.rows, proven) | ~np.isin(families, families[proven])[plans.stacks.rows]
    if most_usd is not None:
        worth &= least_usd_per_hour(workload, plans) < to_beat[accepting[plans.offered.listing]]
    search = Search.start(question, catalog, unread).of(workload)
    plans = plans.take(worth & may_be_feasible(search, plans))
    if not len(plans):
        return []
    options = search_plans(search, plans, breaks_ties=False)
    accepted = accepting[options.plans.offered.listing]
    options = _keep_simulated(question, workload, options, catalog, accepted, unread, to_beat)
    offered = options.plans.offered
    accelerators, usd = options.fleet.accelerators, measures(workload, options).usd
    total = usd if workload.is_finite else np.full(len(usd), np.nan)
    hourly = options.daily_usd_per_hour
    return [PricedDeployments(offered, accepting[offered.listing], accelerators, hourly, total, usd)]


def _keep_simulated(
    question: Question,
    workload: InferenceWorkload,
    options: Options,
    catalog: Catalog,
    accepted: Codes,
    unread: NullRejections,
    to_beat: Column,
) -> Options:
    """The cheapest option of each acceptance code with its simulated performance, without those that fail in
    simulation or cannot cost less than `to_beat`.
    """
    if not len(options) or not is_simulated(workload):
        return options
    first = cheapest_per_machine(accepted, measures(workload, options).usd, np.arange(len(options)))
    search, options = Search.start(question, catalog, unread).of(workload), options.take(first)
    options = options.take(may_carry_below(search, options, to_beat[accepted[first]]))
    if not len(options):
        return options
    # Over a day, the capacity of a replica decides how many are idle.
    extent = Extent.PLANNED if workload.hourly_shares else Extent.COUNT
    return simulate_candidates(search, options, most_requests=MAX_SIMULATED_REQUESTS, extent=extent)[2]


def _cheaper_options(question: Question, catalog: Catalog, found: PricedDeployments, usd: float) -> tuple[Cheaper, ...]:
    """For each acceptance code, the cheapest option where it saves more than a near tie. `usd` is the cost to beat."""
    found = found.take(found.usd < usd * (1 - question.assumptions.near_tie_share))
    order = np.lexsort((found.accelerators, found.usd, found.accepting))
    found = found.take(order[np.unique(found.accepting[order], return_index=True)[1]])
    cheaper = []
    for row, at_sale in enumerate(
        describe_sold_machines(catalog, found.offered, question.today, question.economics.discounts)
    ):
        assert at_sale.price is not None and at_sale.pricing_model is not None and at_sale.provider is not None
        total, accepted = at(found.usd_total, row), int(found.accepting[row])
        way, terms = (
            ACQUISITION_OPTIONS[OPTION_CODES[catalog.listings.pricing[found.offered.listing[row]]]],
            at_sale.price.terms,
        )
        cheaper.append(
            Cheaper(
                accepting=ACCEPTING[accepted],
                accelerator=at_sale.accelerator.slug,
                total_accelerators=int(at(found.accelerators, row)),
                provider=at_sale.provider,
                usd_per_hour=at(found.usd_per_hour, row),
                usd_total=None if np.isnan(total) else total,
                saves_share=1 - at(found.usd, row) / usd,
                kind=terms.kind,
                observed=terms.observed,
                risk=_describe_risk(catalog, accepted, at_sale, describe_risk(way, terms.kind)),
            )
        )
    return tuple(cheaper)


def _describe_risk(catalog: Catalog, accepted: int, at_sale: SoldMachine, of_terms: str) -> str:
    """Risk of what the buyer accepts in words; `of_terms` is that of the terms of the price."""
    if accepted == CONSUMER:
        return CONSUMER_RISK
    if accepted == PLACE and at_sale.provider is not None:
        return f"in {list_countries(possible_countries(catalog, at_sale.provider, None))}; ask the provider where"
    if accepted == OLD:
        return "; ".join((OLD_RISK, of_terms)) if of_terms else OLD_RISK
    return of_terms


CHEAPER_TYPES = 4  # cheaper accelerator types beyond the limits of a request that are tried by formulas


def cheaper_types(question: Question, catalog: Catalog, first: Estimate, usd_per_hour: float) -> tuple[str, ...]:
    """Accelerator types to rent below a price whose memory holds the weights, spread over their prices.

    Parameters:
        first: the deployment whose weights they must hold.
        usd_per_hour: hourly cost that one accelerator must stay below, USD/h.
    """
    listings, per_node = catalog.listings, catalog.machines.accelerators_per_node
    kinds = [KINDS.index(kind) for kind in question.constraints.price_kinds or COUNTED]
    pricing = [PRICING.index(model) for model in service_pricing(question.constraints)]
    open_to_all = ~listings.is_owned & np.isin(listings.kind, kinds) & np.isin(listings.pricing, pricing)
    each = np.where(open_to_all, listings.usd_per_hour / per_node[listings.machine], np.inf)
    least = np.full(len(catalog.accelerators), np.inf)
    np.fmin.at(least, listings.accelerator, each)
    shards = first.deployment.accelerators_per_replica or 1
    weights = 0.0 if first.memory is None else first.memory.weights_bytes * shards
    holds = np.array([(a.memory_bytes or 0.0) > weights for a in catalog.accelerators])
    cheap = np.flatnonzero(holds & (least < usd_per_hour))
    cheap = cheap[np.argsort(least[cheap], kind="stable")]
    tried = np.unique(np.linspace(0, len(cheap) - 1, CHEAPER_TYPES).round().astype(np.int64)) if len(cheap) else cheap
    return tuple(catalog.accelerators[row].slug for row in cheap[tried].tolist())


# Lines of a bill that belong to the price of machines; other lines have prices of their own.
MACHINE_LINES = ("machine", "accelerator", "chassis", "processors", "memory")
UPKEEP, HORIZON = "upkeep_usd", "horizon_hours"
# Larger discounts are unrealistic; smaller differences are reported as near ties.
LARGEST_DISCOUNT, SMALLEST_DISCOUNT = 0.9, 0.005


@formula(unit="1")
def discount_to_lead(own_usd: float, first_usd: float, discountable_usd: float) -> float:
    """Discount on the price of machines at which an option costs as much as the first, as a share.

    Parameters:
        own_usd: cost of the option, USD.
        first_usd: cost of the first recommendation, USD.
        discountable_usd: part of the option's cost that a discount reduces, USD.
    Limits: the option keeps its machines and its layout.
    Check: 12 USD/h, of which 8 USD/h are for machines, against 10 USD/h.
        >>> discount_to_lead(12.0, 10.0, 8.0)
        0.25
    """
    return (own_usd - first_usd) / discountable_usd


def find_leading_discount(question: Question, ranked: tuple[Ranked, ...]) -> tuple[Effect, ...]:
    """Discount at which the runner-up would rank first; empty if cost is not the only criterion, or for hardware that
    the caller owns.
    """
    if question.objective is not Objective.COST or len(ranked) < 2 or question.constraints.stock:
        return ()
    first, second = ranked[0], ranked[1]
    split = first.estimate.deployment.pools or second.estimate.deployment.pools
    if split is not None or first.accelerator.slug == second.accelerator.slug:
        return ()
    least, own, cost = ranking_cost_usd(first.estimate), ranking_cost_usd(second.estimate), second.estimate.cost
    if least is None or own is None or cost is None or not cost.usd_per_hour:
        return ()
    machines = discountable_usd_per_hour(cost) * own / cost.usd_per_hour
    if machines <= 0:
        return ()
    share = math.floor(discount_to_lead(own, least, machines) * 100 + 1) / 100
    if not SMALLEST_DISCOUNT < share < LARGEST_DISCOUNT:
        return ()
    change = f"{percent(share)} off the price of {second.accelerator.name}"
    return (Effect(change, "would rank first", {"economics": {"discounts": {second.accelerator.slug: share}}}),)


def ranking_cost_usd(estimate: Estimate) -> float | None:
    """Cost that decides the ranking, in USD: of the whole run at the requested confidence, else per hour."""
    cost = estimate.cost
    return None if cost is None else confident_usd(estimate) or cost.usd_total or cost.usd_per_hour


def discountable_usd_per_hour(cost: CostSummary) -> float:
    """Part of the cost per hour that a discount reduces: machines, and maintenance charged as a share of them."""
    by_name = {part.what: part for part in cost.parts}
    upkeep = by_name.get(UPKEEP, Part(UPKEEP, 0.0)).usd_per_hour or 0.0
    hours = by_name[HORIZON].quantity if HORIZON in by_name else math.inf
    lines = [part for part in cost.parts if part.what in MACHINE_LINES]
    bought = sum(part.quantity * part.unit_usd for part in lines if part.unit_usd is not None)
    rented = sum(part.quantity * part.usd_per_hour for part in lines if part.usd_per_hour is not None)
    return rented + bought * (1 / hours + upkeep)


RENT_OR_BUY = "rent or buy"
MAX_COST_RATIO = 4.0  # a way to pay that costs more than this many times the other is no choice
RENTED_OR_BOUGHT = {AcquisitionOption.ON_DEMAND: PricingModel.ON_DEMAND, AcquisitionOption.OWNED: PricingModel.OWNED}


@dataclass(frozen=True, slots=True)
class WayToPay:
    """Machines that are rented or bought, and their cost in the unit that ways are compared by."""

    hardware: str  # number and name of the accelerators
    usd: float  # USD per hour, per day or per million units
    purchase_usd: float | None  # None where the machines are rented
    simulated: bool = True  # whether the answer simulates this deployment


def compare_rent_and_buy(
    search: Search[InferenceWorkload], options: Options, estimates: Sequence[Estimate], scores: Column
) -> tuple[Effect, ...]:
    """The cheapest machines to buy compared with the cheapest machines to rent, among options of the best score.

    Both come from the ranked estimates and their alternatives, so the comparison agrees with the ranking. Where none
    of them is bought, or rented, the closed formulas provide that side. Empty where one way costs far more than the
    other, such as whole servers to buy for a small service.

    Parameters:
        options: all plans.
        estimates: ranked estimates, the best first.
        scores: value of the objective of each.
    """
    question, workload = search.question, search.workload
    by_cost, near = question.objective is Objective.COST, 1 + question.assumptions.near_tie_share
    close = [e for e, score in zip(estimates, scores.tolist(), strict=True) if by_cost or score <= scores[0] * near]
    ways = [way for estimate in close for way in ranked_ways(search, estimate)]
    least = ways[0].usd * (1 - ROUNDING) if by_cost and ways else 0.0
    cheapest: dict[bool, WayToPay] = {}
    for way in sorted(ways, key=lambda way: way.usd):
        if way.usd >= least:
            cheapest.setdefault(way.purchase_usd is not None, way)
    missing = [bought for bought in (True, False) if bought not in cheapest]
    for bought in missing[: len(cheapest)]:
        if (found := expected_way(search, options, float(scores[0]), least, bought=bought)) is not None:
            cheapest[bought] = found
    costs = [way.usd for way in cheapest.values()]
    if len(costs) < 2 or max(costs) > MAX_COST_RATIO * min(costs):
        return ()
    return (Effect(RENT_OR_BUY, describe_ways(workload, cheapest[True], cheapest[False])),)


def ranked_ways(search: Search[InferenceWorkload], estimate: Estimate) -> Iterator[WayToPay]:
    """How a ranked option is paid for, then the same machines bought or rented on demand at a firm price."""
    d, cost, allowed = estimate.deployment, estimate.cost, search.question.constraints.pricing_models
    if cost is None or not cost.usd_per_hour:
        return
    unit = 1.0
    if search.workload.load is Load.OFFLINE:
        unit = (cost.usd_per_million or 0.0) / cost.usd_per_hour
    elif search.workload.hourly_shares:
        unit = HOURS_PER_DAY
    name = search.catalog.accelerators[search.catalog.accelerator_index[d.accelerator]].name
    hardware = f"{d.total_accelerators or 0:,} × {name}"
    yield WayToPay(hardware, cost.usd_per_hour * unit, cost.purchase_usd)
    for other in estimate.alternatives:
        pricing = RENTED_OR_BOUGHT.get(other.way)
        if pricing is not None and other.kind in COUNTED and (not allowed or pricing in allowed):
            yield WayToPay(hardware, other.usd_per_hour * unit, other.purchase_usd)


def expected_way(
    search: Search[InferenceWorkload], options: Options, best_score: float, least_usd: float, *, bought: bool
) -> WayToPay | None:
    """The cheapest plan that is bought, or rented, by the closed formulas; None where there is none.

    It costs at least the first recommendation, and its accelerator type is not rejected.
    """
    question, workload = search.question, search.workload
    keep = ~np.isnan(options.cost.purchase_usd) == bought
    keep &= ~np.isin(options.accelerator, list(search.rejections.by_accelerator))
    if question.objective is not Objective.COST:
        score = objective_score(question.objective, measures(workload, options))
        keep &= score <= best_score * (1 + question.assumptions.near_tie_share)
    usd = options.daily_usd_per_hour * (HOURS_PER_DAY if workload.hourly_shares else 1.0)
    if workload.load is Load.OFFLINE:
        usd = usd_per_million(usd, served_per_s(workload, options) * units_per_request(workload))
    rows = np.flatnonzero(keep & (usd >= least_usd))
    if not len(rows):
        return None
    row = int(rows[np.argmin(usd[rows])])
    name = search.catalog.accelerators[int(options.accelerator[row])].name
    hardware = f"{at(options.fleet.accelerators, row):,.0f} × {name}"
    return WayToPay(hardware, at(usd, row), at(options.cost.purchase_usd, row) if bought else None, simulated=False)


def describe_ways(workload: InferenceWorkload, buy: WayToPay, rent: WayToPay) -> str:
    """Cost of buying compared with that of renting."""
    per = f" per million {priced_unit(workload)}" if workload.load is Load.OFFLINE else cost_period(workload)
    own, lease = (f"{'' if way.simulated else 'about '}{format_usd(way.usd)}{per}" for way in (buy, rent))
    upfront = format_usd(buy.purchase_usd or 0.0)
    return (
        f"buying {buy.hardware} costs {upfront} upfront ({own} over the horizon); renting {rent.hardware} costs {lease}"
    )
