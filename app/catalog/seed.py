"""Loads the curated data files into the catalogue, idempotently: data-sheet units become base units here."""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from importlib import resources
from typing import Any

from sqlalchemy import delete, insert, or_, select, update
from sqlalchemy.orm import Session

from app.catalog.names import folded
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
    SpreadRow,
    SystemRow,
)
from app.db import Base
from app.sizing.hardware.links import PCIE_BYTES_PER_S
from app.sizing.hardware.parts import Link
from app.sizing.units import GB, GIB, MIB, TERA

DATA_FILES = (
    "accelerators.csv",
    "systems.csv",
    "offers.csv",
    "price_history.csv",
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

Row = Mapping[str, str]


def data_text(name: str) -> str:
    """One of the package's data files."""
    return resources.files("app.catalog").joinpath("data", name).read_text(encoding="utf-8")


def rows_of(name: str) -> Iterator[Row]:
    return csv.DictReader(io.StringIO(data_text(name)))


def number(text: str, factor: float = 1.0) -> float | None:
    """A figure in base units; empty means unknown, never zero."""
    return None if text == "" else float(text) * factor


def integer(text: str) -> int | None:
    return None if text == "" else int(float(text))


def words(text: str) -> str | None:
    return text or None


def accelerator_values(row: Row) -> dict[str, Any]:
    """Memory is what the device reports where that is known, else the label read as GiB."""
    reported = number(row["reported_memory_mib"], MIB)
    return {
        **{k: row[k] for k in ("slug", "name", "vendor", "kind", "family", "form_factor", "architecture", "segment")},
        "release_year": int(row["release_year"]),
        "memory_bytes": reported if reported is not None else number(row["memory_gb"], GIB),
        "memory_is_reported": reported is not None,
        "memory_type": row["memory_type"],
        "memory_bytes_per_s": number(row["memory_bandwidth_gb_s"], GB),
        "unified_memory": row["unified_memory"] == "true",
        "memory_is_shared": row["memory_shared_with_system"] == "true",
        **{
            f"{r}_flops_per_s": number(row[f"{r}_tflops"], TERA) for r in ("fp32", "tf32", "fp16", "bf16", "fp8", "fp4")
        },
        "int8_flops_per_s": number(row["int8_tops"], TERA),
        "power_w": number(row["tdp_w"]),
        "scaleup_link": row["scaleup_link"],
        "scaleup_bytes_per_s": number(row["scaleup_bw_unidir_gb_s"], GB),
        "scaleup_domain_size": integer(row["scaleup_domain_size"]),
        "machine_link": row["machine_link"] or Link.PCIE.value,
        "link_spans_machines": row["link_spans_machines"] == "true",
        "slot_bytes_per_s": number(row["slot_gb_s_unidir"], GB) or PCIE_BYTES_PER_S,
        "typical_node_size": int(row["typical_node_size"]),
        "list_price_usd_low": number(row["list_price_usd_low"]),
        "list_price_usd_high": number(row["list_price_usd_high"]),
        "price_note": words(row["price_note"]),
        "training_class": row["training_class"] == "true",
        "source": row["source_ref"],
        "as_of": row["as_of"],
        "confidence": row["confidence"],
        "notes": words(row["notes"]),
    }


def system_values(row: Row) -> dict[str, Any]:
    return {
        **{k: row[k] for k in ("slug", "name", "kind", "provider", "as_of", "confidence")},
        "accelerator": row["accelerator_slug"],
        "accelerator_count": float(row["accelerator_count"]),
        "cpu_model": words(row["cpu_model"]),
        "vcpus": integer(row["vcpus"]),
        "ram_bytes": number(row["ram_gib"], GIB),
        "local_storage_bytes": number(row["local_storage_gb"], GB),
        "topology": row["scaleup_topology"],
        "link": row["accelerator_link"] or (Link.PCIE if float(row["accelerator_count"]) > 1 else Link.NONE).value,
        "scaleup_domain_size": number(row["scaleup_domain_size"]),
        "network_bytes_per_s": number(row["network_gbit_s_total"], 1e9 / 8),
        "network_type": words(row["network_type"]),
        "power_w": number(row["power_w_max"]),
        "rack_units": number(row["rack_units"]),
        "list_price_usd": number(row["list_price_usd"]),
        "source": row["source_ref"],
        "notes": words(row["notes"]),
    }


def offer_values(row: Row) -> dict[str, Any]:
    return {
        **{k: row[k] for k in ("provider", "region", "instance_type", "accelerator", "pricing_model", "tier")},
        "country": words(row["country_or_geo"]),
        "system": words(row["system"]),
        "accelerator_count": float(row["accelerator_count"]),
        "vcpus": integer(row["vcpus"]),
        "ram_bytes": number(row["ram_gib"], GIB),
        "usd_per_hour": float(row["price_usd_per_hour"]),
        "source": row["source_ref"],
        "as_of": row["observed_on"],
        "date_estimated": row["date_estimated"] == "True",
        "notes": words(row["notes"]),
    }


def price_values(row: Row) -> dict[str, Any]:
    return {
        **{k: row[k] for k in ("provider", "region", "instance_type", "accelerator", "pricing_model", "observed_on")},
        "accelerator_count": float(row["accelerator_count"]),
        "usd_per_hour": float(row["price_usd_per_hour"]),
        "source": row["source_ref"],
    }


def support_values(row: Row) -> dict[str, Any]:
    keys = ("engine", "accelerator_family", "phase", "weight_formats", "kv_formats", "as_of", "confidence")
    return {
        **{k: row[k] for k in keys},
        "as_published": words(row["as_published"]),
        "notes": words(row["notes"]),
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
    kept = ("quantity", "as_of")
    numbers = {k: float(v) for k, v in row.items() if k not in (*kept, "rows", "sources")}
    return {**{k: row[k] for k in kept}, **numbers, "rows": int(row["rows"]), "sources": int(row["sources"])}


PREDICTED_NUMBERS = (
    "measured",
    "predicted",
    "held_out",
    "params",
    "devices",
    "in_flight",
    "input_tokens",
    "output_tokens",
    "sources_beside",
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
        "set_aside": row["set_aside"] == "true",
    }


def model_entries() -> list[dict[str, Any]]:
    return [json.loads(line) for line in data_text("models.jsonl").splitlines() if line]


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
    """Every alias, the id and the id's last part, folded; a name shared by several models stays ambiguous."""
    pairs = {
        (folded(name), entry["hf_id"])
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
    """A published result of one kind; the payload keeps the columns of that kind that are not empty."""

    def values(row: Row) -> dict[str, Any]:
        return {
            "id": row["id"],
            "kind": kind,
            "accelerator": words(row["accelerator"]),
            "num_accelerators": number(row["num_accelerators"]),
            "model": words(row["model"]),
            "engine": words(row.get("engine") or row.get("framework") or ""),
            "payload": {k: v for k, v in row.items() if v and k not in MEASUREMENT_KEYS},
            "source": row["source_ref"],
            "as_of": words(row["source_date"]),
        }

    return values


LOADERS: tuple[tuple[type[Base], str, Callable[[Row], dict[str, Any]]], ...] = (
    (SystemRow, "systems.csv", system_values),
    (OfferRow, "offers.csv", offer_values),
    (PriceRow, "price_history.csv", price_values),
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
    """SHA-256 over the data files: the version of the curated catalogue."""
    digest = hashlib.sha256()
    for name in DATA_FILES:
        digest.update(name.encode())
        digest.update(data_text(name).encode())
    return digest.hexdigest()


def replace_accelerators(session: Session) -> None:
    """Insert, update and delete types row by row: machines, offers and measurements refer to them."""
    curated = {row["slug"]: accelerator_values(row) for row in rows_of("accelerators.csv")}
    present = set(session.scalars(select(AcceleratorRow.slug)))
    if gone := present - curated.keys():
        session.execute(delete(AcceleratorRow).where(AcceleratorRow.slug.in_(gone)))
    if added := [v for slug, v in curated.items() if slug not in present]:
        session.execute(insert(AcceleratorRow), added)
    if kept := [v for slug, v in curated.items() if slug in present]:
        session.execute(update(AcceleratorRow), kept)


def seed(session: Session) -> bool:
    """Make the catalogue equal to the curated files, in one transaction; False where it already is.

    Readers see the old catalogue until the new version is committed, then the new one.
    """
    digest = curated_digest()
    newest = session.scalars(select(CatalogVersionRow).order_by(CatalogVersionRow.id.desc()).limit(1)).first()
    if newest is not None and newest.digest == digest:
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
        PriceRow,
        OfferRow,
        SystemRow,
    ):
        session.execute(delete(table))
    replace_accelerators(session)
    newest_price = ""
    for loaded, name, values in LOADERS:
        rows = [values(row) for row in rows_of(name)]
        if loaded is OfferRow:
            newest_price = max(r["as_of"] for r in rows)
        session.execute(insert(loaded), rows)
    session.execute(insert(ModelRow), [model_values(e) for e in entries])
    session.execute(insert(ModelAliasRow), alias_values(entries))
    newest_fact = max(newest_price, *(row["as_of"] for row in rows_of("accelerators.csv")))
    session.add(CatalogVersionRow(digest=digest, published_at=f"{newest_fact}T00:00:00Z", loaded_at=datetime.now(UTC)))
    session.commit()
    return True
