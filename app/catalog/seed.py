"""Loads the curated data files into the catalog, idempotently, and converts data-sheet units to base units."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import delete, insert, or_, select, update
from sqlalchemy.orm import Session

from app.catalog.files import Row, parse_number, read_data_file, read_rows, text_or_none
from app.catalog.hosted_tables import HostedPriceRow
from app.catalog.names import fold_name
from app.catalog.priced import accelerator_values, offer_values, price_values, provider_values, system_values
from app.catalog.purchasing import CommodityCodeRow, PartNumberRow, code_values, part_number_values
from app.catalog.slices import SliceRow, slice_values
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
    ProviderRow,
    SpreadRow,
    SystemRow,
)
from app.db import Base
from app.migrating import lock_database

DATA_FILES = (
    "accelerators.csv",
    "slices.csv",
    "systems.csv",
    "providers.csv",
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
    (OfferRow, "offers.csv", offer_values),
    (PriceRow, "price_history.csv", price_values),
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
    digest = curated_digest()
    newest = session.scalars(select(CatalogVersionRow).order_by(CatalogVersionRow.id.desc()).limit(1)).first()
    if newest is not None and newest.digest == digest:
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
        ProviderRow,
        SystemRow,
        SliceRow,
    ):
        session.execute(delete(table))
    replace_accelerators(session)
    newest_price = ""
    for loaded, name, values in LOADERS:
        rows = [values(row) for row in read_rows(name)]
        if loaded is OfferRow:
            newest_price = max(r["as_of"] for r in rows)
        session.execute(insert(loaded), rows)
    session.execute(insert(ModelRow), [model_values(e) for e in entries])
    session.execute(insert(ModelAliasRow), alias_values(entries))
    newest_fact = max(newest_price, *(row["as_of"] for row in read_rows("accelerators.csv")))
    session.add(CatalogVersionRow(digest=digest, published_at=f"{newest_fact}T00:00:00Z", loaded_at=datetime.now(UTC)))
    session.commit()
    return True
