"""Converts data file rows of accelerators, machines, providers, offers and prices to table rows."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from app.catalog.files import Row, parse_integer, parse_number, read_rows, text_or_none
from app.sizing.hardware.links import PCIE_BYTES_PER_S
from app.sizing.hardware.parts import Link
from app.sizing.units import GB, GIB, MIB, TERA

PRICE_SOURCE_COLUMNS = ("price_source", "price_observed", "price_confidence")


def accelerator_values(row: Row) -> dict[str, Any]:
    """Returns the row of an accelerator. Memory is the reported size if known, otherwise the label read as GiB."""
    reported = parse_number(row["reported_memory_mib"], MIB)
    return {
        **{k: row[k] for k in ("slug", "name", "vendor", "kind", "family", "form_factor", "architecture", "segment")},
        "release_year": int(row["release_year"]),
        "memory_bytes": reported if reported is not None else parse_number(row["memory_gb"], GIB),
        "memory_is_reported": reported is not None,
        "memory_type": row["memory_type"],
        "memory_bytes_per_s": parse_number(row["memory_bandwidth_gb_s"], GB),
        "unified_memory": row["unified_memory"] == "true",
        "memory_is_shared": row["memory_shared_with_system"] == "true",
        **{
            f"{r}_flops_per_s": parse_number(row[f"{r}_tflops"], TERA)
            for r in ("fp32", "tf32", "fp16", "bf16", "fp8", "fp4")
        },
        "int8_flops_per_s": parse_number(row["int8_tops"], TERA),
        "power_w": parse_number(row["tdp_w"]),
        "scaleup_link": row["scaleup_link"],
        "scaleup_bytes_per_s": parse_number(row["scaleup_bw_unidir_gb_s"], GB),
        "scaleup_domain_size": parse_integer(row["scaleup_domain_size"]),
        "machine_link": row["machine_link"] or Link.PCIE.value,
        "link_spans_machines": row["link_spans_machines"] == "true",
        "slot_bytes_per_s": parse_number(row["slot_gb_s_unidir"], GB) or PCIE_BYTES_PER_S,
        "typical_node_size": int(row["typical_node_size"]),
        "list_price_usd_low": parse_number(row["list_price_usd_low"]),
        "list_price_usd_high": parse_number(row["list_price_usd_high"]),
        "price_note": text_or_none(row["price_note"]),
        **{k: text_or_none(row[k]) for k in PRICE_SOURCE_COLUMNS},
        "training_class": row["training_class"] == "true",
        "source": row["source_ref"],
        "as_of": row["as_of"],
        "confidence": row["confidence"],
        "notes": text_or_none(row["notes"]),
    }


def system_values(row: Row) -> dict[str, Any]:
    return {
        **{k: row[k] for k in ("slug", "name", "kind", "provider", "as_of", "confidence")},
        "accelerator": row["accelerator_slug"],
        "accelerator_count": float(row["accelerator_count"]),
        "cpu_model": text_or_none(row["cpu_model"]),
        "vcpus": parse_integer(row["vcpus"]),
        "ram_bytes": parse_number(row["ram_gib"], GIB),
        "local_storage_bytes": parse_number(row["local_storage_gb"], GB),
        "topology": row["scaleup_topology"],
        "link": row["accelerator_link"] or (Link.PCIE if float(row["accelerator_count"]) > 1 else Link.NONE).value,
        "scaleup_domain_size": parse_number(row["scaleup_domain_size"]),
        "network_bytes_per_s": parse_number(row["network_gbit_s_total"], 1e9 / 8),
        "network_type": text_or_none(row["network_type"]),
        "power_w": parse_number(row["power_w_max"]),
        "rack_units": parse_number(row["rack_units"]),
        "list_price_usd": parse_number(row["list_price_usd"]),
        "price_kind": text_or_none(row["price_kind"]),
        **{k: text_or_none(row[k]) for k in PRICE_SOURCE_COLUMNS},
        "min_quantity": parse_integer(row["min_quantity"]) or 1,
        "max_quantity": parse_integer(row["max_quantity"]),
        "source": row["source_ref"],
        "notes": text_or_none(row["notes"]),
    }


def provider_values(row: Row) -> dict[str, Any]:
    return {
        **{k: row[k] for k in ("name", "kind", "what", "as_of")},
        "slug": row["provider"],
        "source": row["source_ref"],
    }


@cache
def provider_kinds() -> Mapping[str, str]:
    """Returns the kind of every provider."""
    return {row["provider"]: row["kind"] for row in read_rows("providers.csv")}


def offer_values(row: Row) -> dict[str, Any]:
    """Returns the row of an offer. Prices of a marketplace tier are broker prices, whichever provider runs it."""
    return {
        **{k: row[k] for k in ("provider", "region", "instance_type", "accelerator", "pricing_model", "tier")},
        "country": text_or_none(row["country_or_geo"]),
        "system": text_or_none(row["system"]),
        "accelerator_count": float(row["accelerator_count"]),
        "vcpus": parse_integer(row["vcpus"]),
        "ram_bytes": parse_number(row["ram_gib"], GIB),
        "usd_per_hour": float(row["price_usd_per_hour"]),
        "price_kind": "broker" if row["tier"] == "marketplace" else provider_kinds()[row["provider"]],
        "confidence": row["confidence"],
        "min_quantity": parse_integer(row["min_quantity"]) or 1,
        "max_quantity": parse_integer(row["max_quantity"]),
        "upfront_usd": parse_number(row["upfront_usd"]),
        "source": row["source_ref"],
        "as_of": row["observed_on"],
        "date_estimated": row["date_estimated"] == "True",
        "notes": text_or_none(row["notes"]),
    }


def price_values(row: Row) -> dict[str, Any]:
    return {
        **{k: row[k] for k in ("provider", "region", "instance_type", "accelerator", "pricing_model", "observed_on")},
        "accelerator_count": float(row["accelerator_count"]),
        "usd_per_hour": float(row["price_usd_per_hour"]),
        "source": row["source_ref"],
    }
