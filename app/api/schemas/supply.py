"""What is kept beside a stored answer for its exports: the bill of every rank with who makes, sells and prices what,
and what its software is told when it is started.

An answer of 30 KB has no room for the bills of all its ranks, nor for the names of their goods.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from app.api.schemas.base import present
from app.catalog.purchasing import Purchasing
from app.sizing.answer.started import Start, starts_of
from app.sizing.assumptions import BY_NAME, Assumed
from app.sizing.hardware.engines import engine_named
from app.sizing.hardware.listings import PLAIN, bought_on
from app.sizing.hardware.parts import Accelerator, System
from app.sizing.hardware.prices import Terms
from app.sizing.question import Deployment, Question
from app.sizing.result import Answer, Estimate, Part
from app.sizing.snapshot import Snapshot
from app.sizing.units import GBIT, GIB

DIGITS = 12  # cents of the largest fleets
# The figures that a line of a bill is reckoned with where nobody quotes it.
RECKONED_WITH = {
    "chassis": ("desktop_chassis_usd", "tower_chassis_usd", "small_chassis_usd", "large_chassis_usd"),
    "processors": ("desktop_core_usd", "server_core_usd"),
    "memory": ("desktop_memory_usd_per_gib", "server_memory_usd_per_gib"),
    "more_memory_gib": ("server_memory_usd_per_gib",),
    "network_gbit_per_s": ("network_usd_per_gbit",),
    "rack_kw": ("rack_usd_per_kw",),
    "upkeep_usd": ("maintenance_fraction_per_year",),
    "floor_kw": ("facility_usd_per_kw_month",),
    "power_kw": ("electricity_usd_per_kwh",),
}
LAST_OF_A_BILL = "horizon_hours"

Document = dict[str, Any]


def supply_json(question: Question, answer: Answer, market: Snapshot, purchasing: Purchasing) -> Document:
    """The lots and the starts of every rank, in order; figures that prices were reckoned with; and the codes of kinds
    of goods.
    """
    return {
        "ranks": [lots(ranked.estimate, question, market, purchasing) for ranked in answer.recommendations],
        "starts": [[start_json(start) for start in starts_of(question, r.estimate)] for r in answer.recommendations],
        **_behind(answer.assumptions, purchasing),
    }


def estimate_supply(found: Estimate, question: Question, market: Snapshot, purchasing: Purchasing) -> Document:
    """The same of one deployment, as what is kept beside an answer of one rank, but for its starts."""
    return {"ranks": [lots(found, question, market, purchasing)], **_behind(found.assumptions, purchasing)}


def _behind(assumptions: Sequence[Assumed], purchasing: Purchasing) -> Document:
    """What stands behind lines of every rank."""
    asked = frozenset(a.name for a in assumptions if a.asked)
    return {
        "reckoned": {what: _reckoned(names, asked) for what, names in RECKONED_WITH.items()},
        "codes": dict(purchasing.codes),
    }


def start_json(start: Start) -> Document:
    """Replicas of one kind, with everything that their commands are told."""
    return {
        "role": start.role,
        "software": start.software,
        **present(version=start.version),
        "replicas": start.replicas,
        "machines": start.machines,
        **({} if start.used.server is None else {"server": asdict(start.used.server)}),
        "load": start.used.load,
        "places": {name: value for name, value in start.places.items() if value is not None},
    }


def lots(estimate: Estimate, question: Question, market: Snapshot, purchasing: Purchasing) -> list[Document]:
    """What is bought of one kind: the whole deployment, or each of its pools."""
    off = dict(question.economics.discounts)
    return [
        {**sold, **present(discount=off.get(d.accelerator), licence=engine_named(d.engine or "").licence or None)}
        for d, sold in _sold(estimate, market, purchasing)
    ]


def _sold(estimate: Estimate, market: Snapshot, purchasing: Purchasing) -> list[tuple[Deployment, Document]]:
    """Each lot beside what it is bought for."""
    whole, cost = estimate.deployment, estimate.cost
    parts = bills(() if cost is None else cost.parts)
    if whole.pools is None:
        own = None if cost is None or cost.price is None else cost.price.terms
        return [(whole, lot(whole, parts[0] if parts else (), market, purchasing, own))]
    pools = {"prefill": whole.pools.prefill, "decode": whole.pools.decode}
    return [
        (
            replace(pool, engine=whole.engine),
            {"pool": name, **lot(pool, bill, market, purchasing, _terms(pool, market))},
        )
        for (name, pool), bill in zip(pools.items(), parts or [(), ()], strict=False)
    ]


def bills(parts: tuple[Part, ...]) -> list[tuple[Part, ...]]:
    """The lines of each pool, where there are several: a bill ends with the hours it is paid over."""
    found: list[tuple[Part, ...]] = []
    first = 0
    for place, part in enumerate(parts):
        if part.what == LAST_OF_A_BILL:
            found.append(parts[first : place + 1])
            first = place + 1
    return found


def lot(
    d: Deployment, parts: tuple[Part, ...], market: Snapshot, purchasing: Purchasing, terms: Terms | None
) -> Document:
    """So many machines of one kind, what they are made of, and what each part of their bill comes to."""
    accelerator = market.accelerators[market.accelerator_index[d.accelerator]]
    system = market.systems.get(d.system or "")
    return {
        "accelerator": _accelerator(accelerator, purchasing),
        **present(accelerators=d.total_accelerators, machines=d.nodes),
        **({} if system is None else {"machine": _machine(system, purchasing)}),
        **present(
            seller=d.provider and purchasing.names.get(d.provider, d.provider),
            region=d.region,
            pricing_model=d.pricing_model and d.pricing_model.value,
            instance_type=d.instance_type,
        ),
        **({} if terms is None else {"price": _price(terms)}),
        "parts": [_part(part) for part in parts],
    }


def _part(part: Part) -> Document:
    figures = {"quantity": part.quantity, "unit_usd": part.unit_usd, "usd_per_hour": part.usd_per_hour}
    return {"what": part.what} | {k: float(f"{v:.{DIGITS}g}") for k, v in figures.items() if v is not None}


def _accelerator(a: Accelerator, purchasing: Purchasing) -> Document:
    listed = a.reckoned
    return {
        "sku": a.slug,
        "name": a.name,
        "maker": a.vendor,
        **present(part_number=purchasing.part_numbers.get(a.slug)),
        "price": {
            "kind": "list",
            "source": listed.source,
            "observed": listed.observed,
            "confidence": listed.confidence,
        },
    }


def _machine(s: System, purchasing: Purchasing) -> Document:
    network = s.network_bytes_per_s
    return {
        "sku": s.slug,
        "name": s.name,
        **present(maker=None if s.provider == PLAIN else purchasing.names.get(s.provider, s.provider)),
        **present(part_number=purchasing.part_numbers.get(s.slug), processors=s.cpu_model),
        **present(memory_gib=s.ram_bytes and s.ram_bytes / GIB, network_gbit_per_s=network and network / GBIT),
    }


def _price(t: Terms) -> Document:
    return {
        "kind": t.kind.value,
        "source": t.source,
        "observed": t.observed,
        "confidence": t.confidence,
        **present(min_quantity=t.min_quantity, commitment=t.commitment.value, upfront_usd=t.upfront_usd),
    }


def _terms(pool: Deployment, market: Snapshot) -> Terms | None:
    """Who stands behind the price of a pool's machines."""
    system = market.systems.get(pool.system or "")
    if pool.instance_type is None:
        part = market.accelerators[market.accelerator_index[pool.accelerator]]
        return None if system is None else bought_on(system, part)
    key = (pool.provider, pool.region, pool.pricing_model, pool.instance_type, pool.accelerator)
    found = (
        o.terms for o in market.offers if (o.provider, o.region, o.pricing_model, o.instance_type, o.accelerator) == key
    )
    return next(found, None)


def _reckoned(names: tuple[str, ...], asked: frozenset[str]) -> Document:
    """Where the figures are from that a line is reckoned with; the caller's own are of the day of the request."""
    if asked.intersection(names):
        return {"kind": "asked", "source": "request", "confidence": "high"}
    facts = [BY_NAME[name].metadata for name in names]
    return {
        "kind": "reckoned",
        "source": "; ".join(dict.fromkeys(fact["source"] for fact in facts)),
        "observed": max(fact["as_of"] for fact in facts),
        "confidence": "low",
    }
