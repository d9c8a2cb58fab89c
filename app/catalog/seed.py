"""Loads the curated data files into the catalog, idempotently, and converts data-sheet units to base units."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any

from sqlalchemy import delete, insert, or_, select, update
from sqlalchemy.orm import Session

from app.catalog.files import Row, parse_integer, parse_number, read_data_file, read_rows, text_or_none
from app.catalog.hosted import HostedPriceRow
from app.catalog.names import fold_name
from app.catalog.observations import observation_digest
from app.catalog.publishing import build_price_list
from app.catalog.purchasing import (
    CommodityCodeRow,
    PartNumberRow,
    SliceRow,
    code_values,
    part_number_values,
    slice_values,
)
from app.catalog.tables import (
    AcceleratorRow,
    CatalogVersionRow,
    CoefficientRow,
    EngineSupportRow,
    FactorRow,
    MeasurementRow,
    ModelAliasRow,
    ModelRow,
    OfferRow,
    PredictionRow,
    PriceRow,
    ProviderPlaceRow,
    ProviderRow,
    SpreadRow,
    SystemRow,
)
from app.db import Base
from app.migrating import lock_database
from app.sizing.columns import GB, GIB, MIB, TERA
from app.sizing.hardware.parts import PCIE_BYTES_PER_S, Link


class StaleCatalog(RuntimeError):
    """The catalog in the database was loaded from other data files than those of this version."""


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
        "hosts": parse_integer(row["hosts"]) or 1,
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


def provider_place_values(row: Row) -> dict[str, Any]:
    return {**{k: row[k] for k in ("provider", "fact", "countries", "as_of")}, "source": row["source_ref"]}


@cache
def provider_kinds() -> Mapping[str, str]:
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


DATA_FILES = (
    "accelerators.csv",
    "slices.csv",
    "systems.csv",
    "providers.csv",
    "provider_places.csv",
    "offers.csv",
    "price_history.csv",
    "hosted_prices.csv",
    "hosted_models.csv",
    "commodity_codes.csv",
    "part_numbers.csv",
    "engine_support.csv",
    "models.jsonl",
    "coefficients.csv",
    "measurements_inference.csv",
    "measurements_training.csv",
    "measurements_kv_cache.csv",
    "factors.csv",
    "spreads.csv",
    "predictions.csv",
    "accuracy.json",
)


def hosted_price_values(row: Row) -> dict[str, Any]:
    return {
        **{k: row[k] for k in ("model", "provider", "listed_as")},
        "usd_per_million_input": float(row["usd_per_million_input"]),
        "usd_per_million_output": parse_number(row["usd_per_million_output"]) or 0.0,
        "usd_per_million_cached_input": parse_number(row["usd_per_million_cached_input"]),
        "page": text_or_none(row["page"]),
        "source": row["source_ref"],
        "observed": row["observed_on"],
    }


def support_values(row: Row) -> dict[str, Any]:
    keys = ("engine", "accelerator_family", "phase", "weight_formats", "kv_formats", "as_of", "confidence")
    return {
        **{k: row[k] for k in keys},
        "as_published": text_or_none(row["as_published"]),
        "notes": text_or_none(row["notes"]),
        "source": row["source_ref"],
    }


def coefficient_values(row: Row) -> dict[str, Any]:
    return {
        **{k: row[k] for k in ("name", "accelerator_family", "format_class", "engine", "unit", "as_of")},
        **{k: float(row[k]) for k in ("value", "low", "high")},
        "source": row["source_ref"],
    }


def factor_values(row: Row) -> dict[str, Any]:
    keys = (
        "name",
        "runtime",
        "engine",
        "generation",
        "kernels",
        "vendor",
        "accelerator_family",
        "format_class",
        "source",
        "as_of",
    )
    return {**{k: row[k] for k in keys}, "value": float(row["value"]), "rows": int(row["rows"])}


def spread_values(row: Row) -> dict[str, Any]:
    texts = ("quantity", "as_of")
    numbers = {k: float(v) for k, v in row.items() if k not in (*texts, "rows", "sources")}
    return {**{k: row[k] for k in texts}, **numbers, "rows": int(row["rows"]), "sources": int(row["sources"])}


PREDICTED_NUMBERS = (
    "measured",
    "predicted",
    "held_out",
    "params",
    "devices",
    "in_flight",
    "input_tokens",
    "output_tokens",
    "neighbor_sources",
    "distance",
    "low",
    "high",
    "promised",
)


def prediction_values(row: Row) -> dict[str, Any]:
    keys = (
        "measurement",
        "metric",
        "source_key",
        "model",
        "engine",
        "accelerator_family",
        "format_class",
        "accelerator",
        "load",
    )
    return {
        **{k: row[k] for k in keys},
        **{k: float(row[k]) for k in PREDICTED_NUMBERS},
        "near": int(row["near"]),
        "excluded": row["excluded"] == "true",
    }


def model_entries() -> list[dict[str, Any]]:
    return [json.loads(line) for line in read_data_file("models.jsonl").splitlines() if line]


def model_values(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "id": entry["hf_id"],
        **{k: entry[k] for k in ("family", "developer", "modality", "as_of", "confidence")},
        "licence": entry.get("licence"),
        "release_date": entry.get("release_date"),
        "total_params": float(entry["total_params"]),
        "active_params": float(entry["active_params"]),
        "facts": dict(entry),
        "source": "; ".join(entry["source_ref"])[:4000],
    }


def alias_values(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns every alias, the id and the last part of the id, folded. A name that several models share stays
    ambiguous.
    """
    pairs = {
        (fold_name(name), entry["hf_id"])
        for entry in entries
        for name in (*entry["aliases"], entry["hf_id"], entry["hf_id"].rsplit("/", 1)[-1])
    }
    return [{"alias": a, "model": m} for a, m in sorted(pairs)]


MEASUREMENT_KEYS = (
    "id",
    "accelerator",
    "num_accelerators",
    "model",
    "engine",
    "framework",
    "source_ref",
    "source_date",
)


def measurement_values(kind: str) -> Callable[[Row], dict[str, Any]]:
    """Returns a converter for published results of one kind. The payload keeps that kind's non-empty columns."""

    def row_values(row: Row) -> dict[str, Any]:
        return {
            "id": row["id"],
            "kind": kind,
            "accelerator": text_or_none(row["accelerator"]),
            "num_accelerators": parse_number(row["num_accelerators"]),
            "model": text_or_none(row["model"]),
            "engine": text_or_none(row.get("engine") or row.get("framework") or ""),
            "payload": {k: v for k, v in row.items() if v and k not in MEASUREMENT_KEYS},
            "source": row["source_ref"],
            "as_of": text_or_none(row["source_date"]),
        }

    return row_values


LOADERS: tuple[tuple[type[Base], str, Callable[[Row], dict[str, Any]]], ...] = (
    (SliceRow, "slices.csv", slice_values),
    (SystemRow, "systems.csv", system_values),
    (ProviderRow, "providers.csv", provider_values),
    (ProviderPlaceRow, "provider_places.csv", provider_place_values),
    (HostedPriceRow, "hosted_prices.csv", hosted_price_values),
    (CommodityCodeRow, "commodity_codes.csv", code_values),
    (PartNumberRow, "part_numbers.csv", part_number_values),
    (EngineSupportRow, "engine_support.csv", support_values),
    (CoefficientRow, "coefficients.csv", coefficient_values),
    (MeasurementRow, "measurements_inference.csv", measurement_values("inference")),
    (MeasurementRow, "measurements_training.csv", measurement_values("training")),
    (MeasurementRow, "measurements_kv_cache.csv", measurement_values("kv_cache")),
    (FactorRow, "factors.csv", factor_values),
    (SpreadRow, "spreads.csv", spread_values),
    (PredictionRow, "predictions.csv", prediction_values),
)


def curated_digest() -> str:
    """Returns the SHA-256 of the data files: the version of the curated catalog."""
    digest = hashlib.sha256()
    for name in DATA_FILES:
        digest.update(name.encode())
        digest.update(read_data_file(name).encode())
    return digest.hexdigest()


def replace_accelerators(session: Session) -> None:
    """Inserts, updates and deletes accelerators row by row, because machines, offers and measurements refer to them."""
    curated = {row["slug"]: accelerator_values(row) for row in read_rows("accelerators.csv")}
    present = set(session.scalars(select(AcceleratorRow.slug)))
    if removed := present - curated.keys():
        session.execute(delete(AcceleratorRow).where(AcceleratorRow.slug.in_(removed)))
    if added := [v for slug, v in curated.items() if slug not in present]:
        session.execute(insert(AcceleratorRow), added)
    if changed := [v for slug, v in curated.items() if slug in present]:
        session.execute(update(AcceleratorRow), changed)


def seed_catalog(session: Session) -> bool:
    """Makes the catalog equal to the curated files in one transaction. Returns False if it already is.

    Readers see the old catalog until the new version is committed. Other processes that load the catalog wait.
    """
    lock_database(session.connection())
    digest = observation_digest(session, curated_digest())
    if newest_digest(session) == digest:
        session.rollback()
        return False
    entries = model_entries()
    replaced = select(ModelRow.id).where(
        or_(ModelRow.origin == "curated", ModelRow.id.in_([e["hf_id"] for e in entries]))
    )
    session.execute(delete(ModelAliasRow).where(ModelAliasRow.model.in_(replaced)))
    session.execute(delete(ModelRow).where(ModelRow.id.in_(replaced)))
    for table in (
        PredictionRow,
        SpreadRow,
        MeasurementRow,
        FactorRow,
        CoefficientRow,
        EngineSupportRow,
        HostedPriceRow,
        CommodityCodeRow,
        PartNumberRow,
        PriceRow,
        OfferRow,
        ProviderPlaceRow,
        ProviderRow,
        SystemRow,
        SliceRow,
    ):
        session.execute(delete(table))
    replace_accelerators(session)
    for loaded, name, values in LOADERS:
        session.execute(insert(loaded), [values(row) for row in read_rows(name)])
    session.execute(insert(ModelRow), [model_values(e) for e in entries])
    session.execute(insert(ModelAliasRow), alias_values(entries))
    _publish_prices(session, digest)
    session.commit()
    return True


def newest_digest(session: Session) -> str:
    """Returns the digest of the newest catalog version; empty if the catalog must be loaded first."""
    return (
        session.scalars(select(CatalogVersionRow.digest).order_by(CatalogVersionRow.id.desc()).limit(1)).first() or ""
    )


def check_loaded(session: Session) -> None:
    """Raises StaleCatalog unless the catalog in the database was loaded from these data files and is up to date."""
    if newest_digest(session) != observation_digest(session, curated_digest()):
        raise StaleCatalog(
            "The catalog in the database is not the one of this version of Headroom. Run `headroom prepare`."
        )


def publish_observations(session: Session) -> bool:
    """Makes the price list of the next catalog version from the observations, in the caller's transaction. Returns
    False if none was added.

    Readers see the old version until the caller commits.
    """
    digest = observation_digest(session, curated_digest())
    if newest_digest(session) == digest:
        return False
    session.execute(delete(PriceRow))
    session.execute(delete(OfferRow))
    _publish_prices(session, digest)
    return True


def _publish_prices(session: Session, digest: str) -> None:
    """Inserts offers and price history into their empty tables, and the row of the catalog version."""
    listed = build_price_list(session, [offer_values(row) for row in read_rows("offers.csv")])
    history = [*(price_values(row) for row in read_rows("price_history.csv")), *listed.replaced]
    session.execute(insert(OfferRow), listed.offers)
    session.execute(insert(PriceRow), history)
    accelerators = (row["as_of"] for row in read_rows("accelerators.csv"))
    newest_fact = max(*(row["as_of"] for row in listed.offers), *accelerators)
    session.add(CatalogVersionRow(digest=digest, published_at=f"{newest_fact}T00:00:00Z", loaded_at=datetime.now(UTC)))
