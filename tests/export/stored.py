"""Stored answers as exports read them: servers that are bought, machines that are rented, parts around cards."""

from __future__ import annotations

import copy
from typing import Any

ACCELERATOR = {
    "sku": "nvidia-h200-sxm-141gb",
    "name": "NVIDIA H200 SXM 141GB",
    "maker": "NVIDIA",
    "part_number": "900-21010",
    "price": {"kind": "list", "source": "a price sheet", "observed": "2026-08", "confidence": "medium"},
}
MACHINE = {
    "sku": "smci-821ge-h200",
    "name": "Supermicro SYS-821GE-TNHR 8x H200",
    "maker": "Supermicro",
    "part_number": "SYS-821GE-TNHR",
    "processors": "2x Xeon Platinum 8558",
    "memory_gib": 2048,
    "network_gbit_per_s": 3200,
    "rack_units": 8,
    "storage_gb": 30_720,
}
QUOTE = {"kind": "quote", "source": "a survey", "observed": "2026-08-02", "confidence": "medium", "commitment": "none"}
RUNNING = [
    {"what": "upkeep_usd", "quantity": 1_860_200.0, "usd_per_hour": 5.70776255708e-06},
    {"what": "floor_kw", "quantity": 38.25, "usd_per_hour": 0.252054794521},
    {"what": "power_kw", "quantity": 38.25, "usd_per_hour": 0.156},
    {"what": "machine_kw", "quantity": 7.65},
    {"what": "horizon_hours", "quantity": 26_280.0},
]
BOUGHT: dict[str, Any] = {
    "accelerator": ACCELERATOR,
    "accelerators": 40,
    "machines": 5,
    "machine": MACHINE,
    "seller": "Supermicro",
    "region": "on_prem",
    "pricing_model": "owned",
    "price": QUOTE,
    "parts": [
        {"what": "machine", "quantity": 5.0, "unit_usd": 370_000.0},
        {"what": "network_gbit_per_s", "quantity": 16_000.0, "unit_usd": 4.7},
        {"what": "rack_kw", "quantity": 51.0, "unit_usd": 200.0},
        *RUNNING,
    ],
}
IN_PARTS = {
    **BOUGHT,
    "parts": [
        {"what": "accelerator", "quantity": 40.0, "unit_usd": 31_000.0},
        {"what": "chassis", "quantity": 5.0, "unit_usd": 14_000.0},
        {"what": "processors", "quantity": 5.0, "unit_usd": 7_680.0},
        {"what": "memory", "quantity": 5.0, "unit_usd": 27_648.0},
        {"what": "more_memory_gib", "quantity": 0.5, "unit_usd": 27.0},
        *RUNNING,
    ],
}
RENTED = {
    "accelerator": ACCELERATOR,
    "accelerators": 8,
    "machines": 8,
    "seller": "A Cloud",
    "region": "eu-1",
    "pricing_model": "on_demand",
    "instance_type": "h200.1",
    "price": {**QUOTE, "kind": "provider"},
    "parts": [
        {"what": "machine", "quantity": 8.0, "usd_per_hour": 3.45678},
        {"what": "machine_kw", "quantity": 1.3},
        {"what": "horizon_hours", "quantity": 26_280.0},
    ],
}
RESERVED = {
    **RENTED,
    "pricing_model": "reserved_1y",
    "price": {**QUOTE, "kind": "provider", "commitment": "1y", "upfront_usd": 1000.0},
}
UNPRICED = {
    **BOUGHT,
    "parts": [{"what": "machine_kw", "quantity": 7.65}, {"what": "horizon_hours", "quantity": 26_280.0}],
}
RANKS = (BOUGHT, IN_PARTS, RENTED, RESERVED, UNPRICED)
CODES = {
    "machine": {"unspsc": "43211501", "unspsc_version": "UNv260801", "cpv": "48820000", "hs_code": "847150"},
    "accelerator": {"unspsc": "43201401", "unspsc_version": "UNv260801"},
    "cloud": {"unspsc": "81112000", "unspsc_version": "UNv260801"},
}


def supply(*lots: Any) -> dict[str, Any]:
    """The supply stored with an answer whose ranks are these lots, one each."""
    names = (
        "chassis",
        "processors",
        "memory",
        "more_memory_gib",
        "network_gbit_per_s",
        "rack_kw",
        "upkeep_usd",
        "floor_kw",
        "power_kw",
    )
    derived = {"kind": "estimate", "source": "assumed", "observed": "2026-11", "confidence": "low"}
    stored = {"ranks": [[lot] for lot in lots or RANKS], "derived": dict.fromkeys(names, derived), "codes": CODES}
    return copy.deepcopy(stored)


OPTION = {
    "deployment": {"accelerator": "nvidia-h200-sxm-141gb", "offer": {"provider": "dell", "pricing_model": "owned"}},
    "cost": {"usd_per_hour": 97.01, "usd_total": None, "power_kw": 38.25},
    "confidence": {
        "asked": 0.8,
        "meets_slo": 0.93,
        "by_level": [
            {"confidence": level, "total_accelerators": count, "usd_per_hour": usd}
            for level, count, usd in ((0.8, 40, 97.01), (0.9, 40, 97.01), (0.95, 56, 135.8))
        ],
    },
    "explanation": [
        {"code": "layout", "text": "One replica on each."},
        {"code": "memory", "text": "It fits."},
        {"code": "choice", "text": "It has the lowest cost."},
    ],
}


def answer(ranks: int = len(RANKS), **performance: Any) -> dict[str, Any]:
    """A stored answer with this number of ranks."""
    option = {**OPTION, "performance": {"output_tokens_per_s": 9071, **performance}}
    return {
        "id": "rec_0123456789abcdef0123456789ab",
        "created_at": "2026-11-20T00:00:00Z",
        "as_of": "2026-11-23",
        "request": {},
        "catalog": {"snapshot": "614f6a1a7f1b2af2", "prices_as_of": "2026-08-22"},
        "summary": "Serving <b>a model</b>. Objective: lowest cost. Recommended: 40 of them.",
        "warnings": [{"code": "accuracy_check_owed", "text": "Check accuracy."}],
        "recommendations": [{"rank": rank, **copy.deepcopy(option)} for rank in range(1, ranks + 1)],
        "sensitivity": [{"change": "twice the peak load", "effect": "175 instead of 97.01 USD per hour"}],
        "verification": {
            "command": "bench --rate 1 && kill $!",
            "accelerator": "nvidia-h200-sxm-141gb",
            "accelerators": 8,
            "minutes": 22,
            "usd": None,
            "decides": "At 1,814 tokens/s 24 accelerators are enough.",
        },
        "cheaper_if": [
            {"if": "spot capacity", "saves_share": 0.648, "risk": "the provider can interrupt it at any time"}
        ],
    }
