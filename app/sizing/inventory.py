"""Hardware that the caller owns: a catalog of these machines alone, and questions restricted to them."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import replace

from app.sizing.columns import GBIT, GIB
from app.sizing.hardware.listings import INVENTORY, generic_host
from app.sizing.hardware.parts import BOARDS, Environment, OwnedHardware, PriceKind, PricingModel, System
from app.sizing.hardware.tables import equivalence_keys
from app.sizing.question import Question
from app.sizing.result import Answer
from app.sizing.snapshot import Catalog


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
        provider=INVENTORY,
        list_price_usd=owned.usd_per_machine,
        price_kind=PriceKind.LIST,
        price_source="your inventory",
        price_observed=today,
        price_confidence="high",
        min_quantity=1,
        max_quantity=owned.machines,
        ram_bytes=record.ram_bytes if owned.ram_gib is None else owned.ram_gib * GIB,
        network_bytes_per_s=(
            record.network_bytes_per_s if owned.network_gbit_s is None else owned.network_gbit_s * GBIT
        ),
    )


def stocked_catalog(catalog: Catalog, inventory: Sequence[OwnedHardware], today: str) -> Catalog:
    """The catalog with the machines of an inventory and no others."""
    stocked = copy(catalog)
    stocked.__dict__.pop("socket_bytes_per_s", None)
    own = {record.slug: record for record in (machine_record(one, catalog, today) for one in inventory)}
    stocked.systems = {**catalog.systems, **own}
    stocked.system_slugs = tuple(stocked.systems)
    stocked.owned_systems = list(own.values())
    stocked.offers = stocked.past_offers = ()
    stocked.providers = tuple(sorted({*catalog.providers, INVENTORY}))
    stocked.machines, stocked.listings = stocked.list_machines()
    stocked.alike = equivalence_keys(stocked.machines)
    return stocked


def restrict_to_inventory(question: Question, catalog: Catalog) -> Question | None:
    """The question about the machines of its inventory; None if its constraints leave none of their accelerators."""
    limits, counts = question.constraints, dict[str, int]()
    for one in question.inventory:
        if limits.accelerators and one.accelerator not in limits.accelerators:
            continue
        if one.accelerator not in limits.exclude_accelerators:
            counts[one.accelerator] = counts.get(one.accelerator, 0) + one.count
    if not counts or (limits.environments and Environment.ON_PREM not in limits.environments):
        return None
    limits = replace(
        limits,
        accelerators=tuple(counts),
        by_pattern=(),
        pricing_models=(PricingModel.OWNED,),
        price_kinds=(PriceKind.LIST,),
        providers=(),
        stock=tuple((catalog.accelerator_index[slug], count) for slug, count in counts.items()),
    )
    return replace(question, constraints=limits, inventory=())


def catalog_of_answer(question: Question, answer: Answer, catalog: Catalog) -> Catalog:
    """The catalog that an answer recommends from: the inventory of its question, or the hardware for sale."""
    if not any(ranked.estimate.deployment.provider == INVENTORY for ranked in answer.recommendations):
        return catalog
    return stocked_catalog(catalog, question.inventory, question.today)
