"""What would cost less than the first recommendation, if prices or terms were accepted that are not by default.

Plans that were judged are priced anew; only machines that none of them stands on are searched. Nothing is named
that the question has settled itself.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from app.sizing.columns import Codes, Column, Columns, Mask, at, names_of, stacked
from app.sizing.decisions.acquisition import FIRM_CODES, OWNED, WAY_CODES, WAYS, as_good
from app.sizing.decisions.cost import deployment_cost, usd_total
from app.sizing.decisions.listed import listing_prices
from app.sizing.decisions.machines import (
    Candidates,
    candidates_at,
    cheapest_each,
    in_named_regions,
    listings_allowed,
    machine_kinds,
    outdone,
    oversubscribed,
    types_allowed,
    types_left,
    types_named,
)
from app.sizing.decisions.placement import fleet
from app.sizing.decisions.prices import no_older, overdue, run_pricing
from app.sizing.decisions.ranking import best_per_accelerator
from app.sizing.decisions.rejections import Unread
from app.sizing.decisions.sold import sold
from app.sizing.formula import unrecorded
from app.sizing.hardware.parts import PricingModel
from app.sizing.question import Objective, Question
from app.sizing.serving.finalists import tried
from app.sizing.serving.kinds import kind_of
from app.sizing.serving.options import Options, measures, stable_key
from app.sizing.serving.search import plans_of, search
from app.sizing.serving.simulated import is_simulated
from app.sizing.snapshot import Snapshot
from app.sizing.training.counts import Counts
from app.sizing.training.margins import surely_in_time
from app.sizing.training.plans import TrainingMachines
from app.sizing.training.run import deployed, run_at, run_cost, surely_fits
from app.sizing.training.search import Judged, run_measures
from app.sizing.values.ways import Cheaper, Way, risk_of
from app.sizing.workload import InferenceWorkload, Load

# What may be accepted beside what is, in the words of an answer.
ACCEPTING = (
    "unquoted hardware",
    "brokers, serverless platforms and small hosts",
    "a commitment",
    "spot capacity",
    "consumer and edge hardware",
    "prices that nobody has seen for a year",
)
UNQUOTED, BROKERS, COMMITMENT, SPOT, CONSUMER, OLD = range(len(ACCEPTING))
TRIED_REQUESTS = 2000  # that are simulated of what is only named
CONSUMER_RISK = "no data-centre support, mostly no ECC memory"
NOTHING = -1
MOST = 1 << 20  # accelerators or processors of a machine
COMMITTED = (WAYS.index(Way.ONE_YEAR), WAYS.index(Way.THREE_YEARS))
UNBOUND = (WAYS.index(Way.ON_DEMAND), OWNED)


@dataclass(frozen=True, slots=True)
class Priced(Columns):
    """Deployments at prices that are not accepted by default. `usd` is what they are compared by."""

    offered: Candidates
    accepting: Codes
    accelerators: Column
    usd_per_hour: Column
    usd_total: Column  # of work that ends; NaN of a service
    usd: Column


def accepting_for(question: Question, market: Snapshot) -> Codes:
    """What has to be accepted for each listing, where that is one thing only."""
    way, firm = WAY_CODES[market.listings.pricing], FIRM_CODES[market.listings.kind]
    found = np.full(len(way), NOTHING)
    found[~firm & (way == OWNED)] = UNQUOTED
    found[~firm & (way == WAYS.index(Way.ON_DEMAND))] = BROKERS
    found[firm & np.isin(way, COMMITTED)] = COMMITMENT
    found[firm & (way == WAYS.index(Way.SPOT))] = SPOT
    old = overdue(market, question.assumptions)
    found[old] = np.where((firm & np.isin(way, UNBOUND))[old], OLD, NOTHING)
    aside = _not_for_servers(question, market)[market.listings.accelerator]
    found[aside] = np.where((firm & np.isin(way, UNBOUND) & ~old)[aside], CONSUMER, NOTHING)
    return found


def _not_for_servers(question: Question, market: Snapshot) -> Mask:
    """Types that the work is not put on unasked."""
    limits, workload, unread = question.constraints, question.workload, Unread(market.accelerators)
    many = isinstance(workload, InferenceWorkload) and workload.serves_many
    named = types_named(market, limits.outright)
    left = types_left(market, limits, named, question.assumptions, unread, serves_many=many)
    return types_allowed(market, limits) & ~left


def may_be_named(question: Question) -> tuple[int, ...]:
    """What may be accepted that the question has not settled; of work that ends nothing that outlasts it."""
    limits, workload = question.constraints, question.workload
    prices: tuple[int, ...] = () if limits.price_kinds else (UNQUOTED, BROKERS)
    if not limits.price_kinds and limits.max_price_age_days is None:
        prices = (*prices, OLD)
    terms = () if limits.pricing_models else (COMMITMENT, SPOT)
    parts = () if limits.segments else (CONSUMER,)
    outlasting: tuple[int, ...] = ()
    if not isinstance(workload, InferenceWorkload) or workload.ends:
        own = PricingModel.OWNED in run_pricing(limits)
        outlasting = (COMMITMENT,) if own else (UNQUOTED, COMMITMENT)
    return tuple(code for code in (*prices, *terms, *parts) if code not in outlasting)


def left_out(
    question: Question, market: Snapshot, accepting: Codes, zones: int, most_usd_per_hour: float
) -> Candidates:
    """Machines at the cheapest price for each thing that may be accepted; none alone costs more than this."""
    limits, workload, listings = question.constraints, question.workload, market.listings
    had = types_allowed(market, limits)[listings.accelerator] & listings_allowed(market, limits, None)
    keep = had & np.isin(accepting, may_be_named(question))
    keep &= no_older(listings, limits.max_price_age_days, question.today) & ~outdone(market, had)
    if zones > 1:
        keep &= in_named_regions(market)
    prices = listing_prices(market, keep, question.assumptions, question.economics)
    keep &= prices.usd_per_hour < most_usd_per_hour
    reads_host = isinstance(workload, InferenceWorkload) and workload.single_pass
    vcpus, rows = np.where(reads_host, listings.vcpus, np.nan), np.flatnonzero(keep)
    gives_back = isinstance(workload, InferenceWorkload) and bool(workload.hourly_shares)
    kinds = machine_kinds(listings.machine[rows], listings.pricing[rows], vcpus[rows], gives_back=gives_back)
    each = kinds * len(ACCEPTING) + accepting[rows]
    first = rows[cheapest_each(each, prices.usd_per_hour[rows], np.arange(len(rows)))]
    return candidates_at(market, prices, first, vcpus, question.assumptions)


def cheaper_services(
    question: Question, workload: InferenceWorkload, options: Options, best: int, market: Snapshot
) -> tuple[Cheaper, ...]:
    """For each thing that may be accepted the cheapest that would do, where it costs less than the best of these."""
    with unrecorded():
        usd_per_hour, usd = at(options.cost.usd_per_hour, best), at(measures(workload, options).usd, best)
        steady = not workload.ends and workload.load is not Load.OFFLINE
        worth_telling = usd_per_hour * (1 - question.assumptions.near_tie_share)
        most = worth_telling / _least_machines(workload) if steady else np.inf
        accepting = accepting_for(question, market)
        machines = left_out(question, market, accepting, workload.redundancy.zones, most)
        kinds, judged = _kinds(market, machines), _kinds(market, options.plans.machines.table)
        known = np.isin(kinds, judged)
        alone = options.take(~options.plans.away)  # weights in a host's memory are bound to that host
        found = [_repriced(question, workload, alone, market, machines.take(known), accepting)] if len(alone) else []
        proven = _proven(workload, options)
        others = machines.take(~known)
        if len(others):
            limit = worth_telling if steady else None
            found.append(_searched(question, workload, market, others, accepting, proven, limit))
        return _told(question, market, stacked(found), usd) if found else ()


def _least_machines(workload: InferenceWorkload) -> float:
    """Machines of the smallest service: one replica in large machines, with what its redundancy asks for."""
    return at(fleet(workload.redundancy, np.ones(1), np.full(1, float(MOST)), np.ones(1)).nodes, 0)


def cheaper_runs(
    question: Question, counts: Counts, deadline_s: float, chosen: Judged, market: Snapshot
) -> tuple[Cheaper, ...]:
    """The same of runs, best first: each as it is laid out, on machines that are no worse at other prices."""
    with unrecorded():
        accepting = accepting_for(question, market)
        machines = left_out(question, market, accepting, 1, np.inf)
        if not len(machines):
            return ()
        machines = machines.take(np.argsort(machines.usd_per_hour, kind="stable"))
        good = as_good(market, deployed(chosen.plans, chosen.run, chosen.cost), machines.listing)
        accepted = accepting[machines.listing] == np.arange(len(ACCEPTING))[:, None]
        each = good[:, None, :] & accepted  # run x what is accepted x machine
        of, code = np.nonzero(each.any(axis=2))
        runs = _on(machines.take(each[of, code].argmax(axis=1)), chosen.take(of), counts, question)
        holds = surely_fits(runs.plans, runs.run, question.assumptions)
        holds &= surely_in_time(runs.plans.stack.margins, runs.run.wall_s, deadline_s)
        runs, code = runs.take(holds), code[holds]
        paid = runs.run.nodes * runs.plans.accelerators_per_node
        usd = run_measures(counts, runs).usd
        total = usd_total(runs.cost.usd_per_hour, runs.run.wall_s)
        found = Priced(runs.plans.offered, code, paid, runs.cost.usd_per_hour, total, usd)
        return _told(question, market, found, at(run_measures(counts, chosen).usd, 0))


def _on(machines: Candidates, runs: Judged, counts: Counts, question: Question) -> Judged:
    """Runs on other machines, row by row, that may be taken back where they are spot capacity."""
    kept = {name: getattr(runs.plans.machine, name) for name in names_of(TrainingMachines)}
    taken = {"offered": oversubscribed(machines, question.assumptions), "spot": machines.spot}
    plans = replace(runs.plans, machine=TrainingMachines(**{**kept, **taken}))
    run = run_at(counts, plans, runs.run.data_parallel, question.assumptions)
    return Judged(runs.row, plans, run, run_cost(plans, run, question.assumptions, question.economics))


def _kinds(market: Snapshot, machines: Candidates) -> Codes:
    """A number that machines share on which replicas and how many of them stand on one are the same."""
    count, vcpus = machines.node.accelerators_per_node, np.nan_to_num(machines.vcpus)
    kind: Codes = (market.alike[1][machines.machine] * MOST + count.astype(np.int64)) * MOST + vcpus.astype(np.int64)
    return kind


def _repriced(
    question: Question,
    workload: InferenceWorkload,
    options: Options,
    market: Snapshot,
    machines: Candidates,
    accepting: Codes,
) -> Priced:
    """For each thing that may be accepted the cheapest of plans that were judged, on the same machines."""
    kinds, accepting = _kinds(market, machines), accepting[machines.listing]
    known, kind = np.unique(kinds, return_inverse=True)
    price, which = np.full((2, len(ACCEPTING), len(known) + 1), np.inf)
    order = np.argsort(machines.usd_per_hour, kind="stable")[::-1]
    price[accepting[order], kind[order]], which[accepting[order], kind[order]] = machines.usd_per_hour[order], order
    own = _kinds(market, options.plans.offered)
    place = np.searchsorted(known, own)
    place[~np.isin(own, known)] = len(known)
    each = measures(workload, options).usd / options.cost.usd_per_hour
    stays = np.zeros(price.shape, bool)  # what a day does not need is paid for all the same
    stays[accepting[order], kind[order]] = ~machines.by_the_hour[order] & bool(workload.hourly_shares)
    each = np.where(stays[:, place], 1.0, each)
    usd = price[:, place] * options.fleet.nodes * each
    code = np.flatnonzero(np.isfinite(usd.min(axis=1, initial=np.inf)))
    row = usd[code].argmin(axis=1)
    offered = machines.take(which[code, place[row]].astype(np.int64))
    nodes, linked = options.fleet.nodes[row], options.plans.linked_nodes[row]
    cost = deployment_cost(offered, nodes, linked, question.assumptions, question.economics)
    usd = cost.usd_per_hour * each[code, row]
    total = usd if workload.ends else np.full(len(row), np.nan)
    return Priced(offered, code, options.fleet.accelerators[row], cost.usd_per_hour, total, usd)


def _proven(workload: InferenceWorkload, options: Options) -> Codes:
    """The software stacks that are best on some accelerator type."""
    best = best_per_accelerator(options.accelerator, Objective.COST, measures(workload, options), stable_key(options))
    return np.unique(options.plans.stacks.rows[best])


def _searched(
    question: Question,
    workload: InferenceWorkload,
    market: Snapshot,
    machines: Candidates,
    accepting: Codes,
    proven: Codes,
    most_usd: float | None,
) -> Priced:
    """Plans on machines that were not judged; of families of which some were, with the stacks that did best there."""
    limits = question.constraints
    if most_usd is not None:
        limits = replace(limits, max_usd_per_hour=most_usd)
    question = replace(question, constraints=limits, objective=Objective.COST, limit=1, trace=False)
    unread, assumed, kind = Unread(market.accelerators), question.assumptions, kind_of(workload)
    personal = workload.personal
    plans = plans_of(workload.model, market, machines, limits, unread, assumed, phase=kind.phase, personal=personal)
    families = plans.stacks.table.family
    worth = np.isin(plans.stacks.rows, proven) | ~np.isin(families, families[proven])[plans.stacks.rows]
    options = search(question, workload, plans.take(worth), market, unread)
    options = _as_simulated(question, workload, options, market, accepting[options.plans.offered.listing], unread)
    offered = options.plans.offered
    accelerators, usd = options.fleet.accelerators, measures(workload, options).usd
    total = usd if workload.ends else np.full(len(usd), np.nan)
    return Priced(offered, accepting[offered.listing], accelerators, options.cost.usd_per_hour, total, usd)


def _as_simulated(
    question: Question, workload: InferenceWorkload, options: Options, market: Snapshot, accepted: Codes, unread: Unread
) -> Options:
    """The cheapest for each thing that is accepted, as it is simulated; without what does not do then."""
    if not len(options) or not is_simulated(workload):
        return options
    first = cheapest_each(accepted, measures(workload, options).usd, np.arange(len(options)))
    _, _, found = tried(question, workload, options.take(first), market, unread, most_requests=TRIED_REQUESTS)
    return found


def _told(question: Question, market: Snapshot, found: Priced, usd: float) -> tuple[Cheaper, ...]:
    """For each thing the cheapest, where that is no near tie."""
    found = found.take(found.usd < usd * (1 - question.assumptions.near_tie_share))
    order = np.lexsort((found.accelerators, found.usd, found.accepting))
    found = found.take(order[np.unique(found.accepting[order], return_index=True)[1]])
    told = []
    for row, at_sale in enumerate(sold(market, found.offered, question.today, question.economics.discounts)):
        assert at_sale.price is not None and at_sale.pricing_model is not None and at_sale.provider is not None
        total, accepted = at(found.usd_total, row), int(found.accepting[row])
        way, terms = WAYS[WAY_CODES[market.listings.pricing[found.offered.listing[row]]]], at_sale.price.terms
        told.append(
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
                risk=CONSUMER_RISK if accepted == CONSUMER else risk_of(way, terms.kind),
            )
        )
    return tuple(told)
