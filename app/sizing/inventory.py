"""Hardware that the caller owns: a catalog of these machines alone, and questions restricted to them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace

import numpy as np

from app.errors import Unanswerable
from app.sizing.assumptions import Assumptions
from app.sizing.columns import GBIT, GIB, column
from app.sizing.decisions.cost import INVENTORY_TOO_SMALL
from app.sizing.decisions.machines import types_allowed
from app.sizing.decisions.ownership import priced_memory_bytes
from app.sizing.hardware.hosts import hosts_of_machines
from app.sizing.hardware.listings import INVENTORY, generic_host
from app.sizing.hardware.parts import (
    BOARDS,
    Environment,
    Offer,
    OwnedHardware,
    PriceKind,
    PricingModel,
    System,
    SystemKind,
    Terms,
)
from app.sizing.hardware.tables import equivalence_keys
from app.sizing.question import Constraints, Deployment, Question
from app.sizing.result import Answer, Estimate, Notice
from app.sizing.snapshot import Catalog, sort_offers
from app.sizing.words import format_count, join_words
from app.sizing.workload import TrainingWorkload

TYPE_FILTERS = ("accelerators", "exclude_accelerators", "vendors", "segments")  # constraints that exclude types


def machine_record(owned: OwnedHardware, catalog: Catalog, today: str) -> System:
    """The system record of one of the machines, with its price and quantity."""
    part = catalog.accelerators[catalog.accelerator_index[owned.accelerator]]
    if owned.system is None:
        record = generic_host(part, owned.per_machine, board=part.form_factor in BOARDS)
        name = f"{owned.per_machine} x {part.name} in a machine of yours"
    else:
        record = catalog.systems[owned.system]
        name = record.name
    return replace(
        record,
        slug=f"{INVENTORY}-{record.slug}",
        name=name,
        kind=record.kind if record.environment is Environment.ON_PREM else SystemKind.SERVER,
        provider=INVENTORY,
        list_price_usd=owned.usd_per_machine,
        price_kind=PriceKind.LIST,
        price_source="your inventory",
        price_observed=today,
        price_confidence="high",
        min_quantity=1,
        max_quantity=owned.machines,
        ram_bytes=record.ram_bytes if owned.ram_gib is None else owned.ram_gib * GIB * record.hosts,
        network_bytes_per_s=(
            record.network_bytes_per_s if owned.network_gbit_s is None else owned.network_gbit_s * GBIT
        ),
        power_w=record.power_w if owned.power_kw is None else owned.power_kw * 1e3,
        licences=owned.licences,
    )


def stocked_catalog(catalog: Catalog, inventory: Sequence[OwnedHardware], today: str) -> Catalog:
    """The catalog with the machines of an inventory and no others."""
    stocked = copy(catalog)
    stocked.__dict__.pop("socket_bytes_per_s", None)
    own = {record.slug: record for record in (machine_record(one, catalog, today) for one in inventory)}
    stocked.systems = {**catalog.systems, **own}
    stocked.system_slugs = tuple(stocked.systems)
    stocked.owned_systems = list(own.values())
    stocked.host_counts = hosts_of_machines(stocked.systems.values())
    stocked.offers = stocked.past_offers = ()
    stocked.providers = tuple(sorted({*catalog.providers, INVENTORY}))
    stocked.machines, stocked.listings = stocked.list_machines()
    stocked.alike = equivalence_keys(stocked.machines)
    return stocked


def owned_memory_bytes(stocked: Catalog, assumed: Assumptions) -> float:
    """Upper bound of what all machines of an inventory hold, in accelerators and hosts, B."""
    owned = stocked.owned_systems
    parts = [stocked.accelerators[stocked.accelerator_index[each.accelerator]] for each in owned]
    count, memory = column([each.accelerator_count for each in owned]), column([part.memory_bytes for part in parts])
    host = priced_memory_bytes(column([each.ram_bytes for each in owned]), count, memory, assumed)
    each_bytes = column([each.max_quantity for each in owned]) * (count * memory + host)
    return float(np.nan_to_num(each_bytes, nan=np.inf).sum())


def quoted_machine(quote: OwnedHardware, catalog: Catalog, slug: str, name: str, terms: Terms, seller: str) -> System:
    """The system record of a machine that a seller has quoted."""
    record = machine_record(quote, catalog, terms.observed)
    return replace(
        record,
        slug=slug,
        name=name if quote.system is None else record.name,
        provider=seller,
        price_kind=terms.kind,
        price_source=terms.source,
        min_quantity=terms.min_quantity,
        max_quantity=terms.max_quantity,
        licences=terms.licences,
    )


def with_private_prices(catalog: Catalog, offers: Sequence[Offer], systems: Sequence[System]) -> Catalog:
    """The catalog with further rents and machines, which only one tenant is offered."""
    priced = copy(catalog)
    priced.__dict__.pop("socket_bytes_per_s", None)
    priced.systems = {**catalog.systems, **{record.slug: record for record in systems}}
    priced.system_slugs = tuple(priced.systems)
    priced.owned_systems = [*catalog.owned_systems, *systems]
    priced.offers = sort_offers([*catalog.offers, *offers])
    priced.providers = tuple(
        sorted({*catalog.providers, *(o.provider for o in offers), *(s.provider for s in systems)})
    )
    priced.regions = tuple(sorted({*catalog.regions, *(o.region for o in offers)}))
    priced.instance_types = tuple(sorted({*catalog.instance_types, *(o.instance_type for o in offers)}))
    priced.machines, priced.listings = priced.list_machines()
    priced.alike = equivalence_keys(priced.machines)
    return priced


def restrict_to_inventory(question: Question, catalog: Catalog) -> Question | None:
    """The question about the machines of its inventory; None if its constraints exclude all of them.

    Their prices are what the caller states, so discounts on the prices of sellers do not apply.
    """
    limits, index = question.constraints, catalog.accelerator_index
    allowed = types_allowed(catalog, limits)
    named = tuple(one.accelerator for one in question.inventory if allowed[index[one.accelerator]])
    if not named or (limits.environments and Environment.ON_PREM not in limits.environments):
        return None
    limits = replace(
        limits,
        accelerators=named,
        by_pattern=(),
        pricing_models=(PricingModel.OWNED,),
        price_kinds=(PriceKind.LIST,),
        providers=(),
        stock=tuple((index[one.accelerator], one.count) for one in question.inventory),
    )
    economics, rejected = replace(question.economics, discounts=()), len(question.inventory)
    return replace(question, constraints=limits, economics=economics, inventory=(), rejected_limit=rejected)


def explain_exclusion(question: Question, catalog: Catalog) -> str:
    """Which constraints exclude the inventory, as a sentence."""
    limits, rows = question.constraints, [catalog.accelerator_index[one.accelerator] for one in question.inventory]
    by_filter = {name: Constraints(**{name: value}) for name in TYPE_FILTERS if (value := getattr(limits, name))}
    found = [f"`{name}`" for name, alone in by_filter.items() if not types_allowed(catalog, alone)[rows].any()]
    if limits.environments and Environment.ON_PREM not in limits.environments:
        found.append("`environments`")
    named = join_words(found or [f"`{name}`" for name in by_filter])
    verb = "exclude" if " and " in named else "excludes"
    owned = join_words([catalog.accelerators[row].name for row in rows])
    return f"{named} in the constraints {verb} all hardware of the inventory ({owned})."


def refuse_exclusion(question: Question, catalog: Catalog) -> None:
    """Raise Unanswerable if only the inventory counts and the constraints exclude it."""
    if question.constraints.inventory_only:
        detail = (
            f"{explain_exclusion(question, catalog)} Change them, or set `inventory` in the constraints to `first`."
        )
        raise Unanswerable.at("#/constraints", detail)


def describe_use(question: Question, deployment: Deployment, catalog: Catalog) -> Notice:
    """Which machines of the inventory the first recommendation uses, and which it leaves free."""
    pools = (deployment,) if deployment.pools is None else (deployment.pools.prefill, deployment.pools.decode)
    used, free = list[str](), list[str]()
    for one in question.inventory:
        name = catalog.accelerators[catalog.accelerator_index[one.accelerator]].name
        taken = sum(pool.nodes or 0 for pool in pools if pool.accelerator == one.accelerator)
        each = name if one.per_machine == 1 else f"{one.per_machine} × {name}"
        for machines, listed in ((taken, used), (one.machines - taken, free)):
            if machines > 0:
                listed.append(f"{format_count(machines, 'machine')} with {each}")
    if not free:
        return Notice("inventory", f"The first option uses your whole inventory: {join_words(used)}.")
    text = f"Of your inventory, the first option uses {join_words(used)}. Not used: {join_words(free)}."
    machine = catalog.systems.get(deployment.system or "")
    has_more = sum(one.machines for one in question.inventory if one.accelerator == deployment.accelerator) > 1
    if isinstance(question.workload, TrainingWorkload) and has_more and machine and not machine.network_bytes_per_s:
        text += " The run stays on one machine: state `network_gbit_s` in the inventory to consider several."
    return Notice("inventory", text)


def catalog_of_answer(question: Question, answer: Answer, catalog: Catalog) -> Catalog:
    """The catalog that an answer recommends from: the inventory of its question, or the hardware for sale."""
    if not any(ranked.estimate.deployment.uses_inventory for ranked in answer.recommendations):
        return catalog
    return stocked_catalog(catalog, question.inventory, question.today)


def with_simulated_needs(found: Answer, needed: Mapping[str, int]) -> Answer:
    """An answer whose types that are too few need what their simulation finds, where it is known and still too many."""
    rejected, summary = list(found.rejected), found.summary
    for i, r in enumerate(rejected):
        need = needed.get(r.accelerator, 0)
        if r.code == INVENTORY_TOO_SMALL and need > (r.available or 0.0):
            rejected[i] = replace(r, needed=float(need), count=float(need))
            summary = summary.replace(r.text, rejected[i].text)
    return replace(found, rejected=tuple(rejected), summary=summary)


def list_additions(
    estimates: Sequence[Estimate], owned: Mapping[str, int], usd_each: Mapping[str, float]
) -> Iterator[tuple[float, int, Deployment]]:
    """Purchase price of the accelerators of each fleet beyond those owned, USD, with their number and the fleet.

    Parameters:
        usd_each: purchase price of an accelerator with its share of a machine for sale, USD, by type.
    """
    for fleet in (each.deployment for each in estimates):
        more = (fleet.total_accelerators or 0) - owned[fleet.accelerator]
        if more > 0 and fleet.pools is None and fleet.accelerator in usd_each:
            yield usd_each[fleet.accelerator] * more, more, fleet
