"""Loads the curated data files into the catalog, idempotently, and converts data-sheet units to base units."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import cache, partial
from typing import Any

from sqlalchemy import delete, insert, or_, select, update
from sqlalchemy.orm import Session

from app.catalog.files import Row, parse_integer, parse_number, read_data_file, read_rows, text_or_none
from app.catalog.hosted import HostedPriceRow
from app.catalog.names import fold_name
from app.catalog.observations import observation_digest
from app.catalog.publishing import build_price_list
from app.catalog.purchasing import CommodityCodeRow, PartNumberRow, SliceRow
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


# Columns of the data files with other names or units than those of the tables, with the unit in base units.
FILE_COLUMNS: Mapping[type[Base], Mapping[str, tuple[str, float]]] = {
    AcceleratorRow: {
        "memory_bytes": ("memory_gb", GIB),
        "memory_bytes_per_s": ("memory_bandwidth_gb_s", GB),
        "memory_is_shared": ("memory_shared_with_system", 1.0),
        **{f"{r}_flops_per_s": (f"{r}_tflops", TERA) for r in ("fp32", "tf32", "fp16", "bf16", "fp8", "fp4")},
        "int8_flops_per_s": ("int8_tops", TERA),
        "power_w": ("tdp_w", 1.0),
        "scaleup_bytes_per_s": ("scaleup_bw_unidir_gb_s", GB),
        "slot_bytes_per_s": ("slot_gb_s_unidir", GB),
    },
    SliceRow: {"name": ("slice", 1.0)},
    SystemRow: {
        "accelerator": ("accelerator_slug", 1.0),
        "ram_bytes": ("ram_gib", GIB),
        "local_storage_bytes": ("local_storage_gb", GB),
        "topology": ("scaleup_topology", 1.0),
        "link": ("accelerator_link", 1.0),
        "network_bytes_per_s": ("network_gbit_s_total", 1e9 / 8),
        "power_w": ("power_w_max", 1.0),
    },
    ProviderRow: {"slug": ("provider", 1.0)},
    OfferRow: {
        "country": ("country_or_geo", 1.0),
        "ram_bytes": ("ram_gib", GIB),
        "usd_per_hour": ("price_usd_per_hour", 1.0),
        "as_of": ("observed_on", 1.0),
    },
    PriceRow: {"usd_per_hour": ("price_usd_per_hour", 1.0)},
    HostedPriceRow: {"observed": ("observed_on", 1.0)},
    FactorRow: {"source": ("source", 1.0)},
}
Converter = Callable[[str], Any]


@cache
def column_converters(table: type[Base]) -> tuple[tuple[str, str, Converter], ...]:
    """Returns, for each column of a table, its name, its column of the data file, and the conversion of a text."""
    renamed = {"source": ("source_ref", 1.0), **FILE_COLUMNS.get(table, {})}
    return tuple(
        (each.key, *_converter(each.columns[0], *renamed.get(each.key, (each.key, 1.0))))
        for each in table.__mapper__.column_attrs
        if each.columns[0].autoincrement is not True
    )


def _converter(column: Any, name: str, unit: float) -> tuple[str, Converter]:
    """Returns the column of the data file and the conversion of its text. Empty text means unknown: None, or the
    default of a column that is never null.
    """
    kind = column.type.python_type
    default = None if column.server_default is None or column.nullable else str(column.server_default.arg)
    if kind is bool:
        return name, lambda text: text.lower() == "true"
    if kind is float:
        return name, lambda text: parse_number(text or default or "", unit)
    if kind is int:
        return name, lambda text: parse_integer(text or default or "")
    return name, lambda text: text or default or (None if column.nullable else "")


def row_values(table: type[Base], row: Row) -> dict[str, Any]:
    """Returns a row of a data file as a row of its table."""
    return {key: convert(row[name]) for key, name, convert in column_converters(table)}


def accelerator_values(row: Row) -> dict[str, Any]:
    """Returns the row of an accelerator. Memory is the reported size if known, otherwise the label read as GiB."""
    reported = parse_number(row["reported_memory_mib"], MIB)
    values = row_values(AcceleratorRow, {**row, "memory_is_reported": str(reported is not None)})
    values["slot_bytes_per_s"] = values["slot_bytes_per_s"] or PCIE_BYTES_PER_S
    return values if reported is None else {**values, "memory_bytes": reported}


def system_values(row: Row) -> dict[str, Any]:
    """Returns the row of a machine; its accelerators are on PCIe where the data names no link."""
    assumed = Link.PCIE if float(row["accelerator_count"]) > 1 else Link.NONE
    return row_values(SystemRow, {**row, "accelerator_link": row["accelerator_link"] or assumed.value})


@cache
def provider_kinds() -> Mapping[str, str]:
    return {row["provider"]: row["kind"] for row in read_rows("providers.csv")}


def offer_values(row: Row) -> dict[str, Any]:
    """Returns the row of an offer. Prices of a marketplace tier are broker prices, whichever provider runs it."""
    kind = "broker" if row["tier"] == "marketplace" else provider_kinds()[row["provider"]]
    return row_values(OfferRow, {**row, "price_kind": kind})


def hosted_price_values(row: Row) -> dict[str, Any]:
    """Returns the row of a hosted model's price; models that generate no tokens have no price of output."""
    return row_values(HostedPriceRow, {**row, "usd_per_million_output": row["usd_per_million_output"] or "0"})


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
    """Returns every alias, the id and its last part, folded. A name that several models share stays ambiguous."""
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
    (SystemRow, "systems.csv", system_values),
    *(
        (table, name, partial(row_values, table))
        for table, name in (
            (SliceRow, "slices.csv"),
            (ProviderRow, "providers.csv"),
            (ProviderPlaceRow, "provider_places.csv"),
            (CommodityCodeRow, "commodity_codes.csv"),
            (PartNumberRow, "part_numbers.csv"),
            (EngineSupportRow, "engine_support.csv"),
            (CoefficientRow, "coefficients.csv"),
            (FactorRow, "factors.csv"),
            (SpreadRow, "spreads.csv"),
        )
    ),
    (HostedPriceRow, "hosted_prices.csv", hosted_price_values),
    (MeasurementRow, "measurements_inference.csv", measurement_values("inference")),
    (MeasurementRow, "measurements_training.csv", measurement_values("training")),
    (MeasurementRow, "measurements_kv_cache.csv", measurement_values("kv_cache")),
    (PredictionRow, "predictions.csv", partial(row_values, PredictionRow)),
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
    for table in dict.fromkeys((PriceRow, OfferRow, *(table for table, *_ in reversed(LOADERS)))):
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
    history = [*(row_values(PriceRow, row) for row in read_rows("price_history.csv")), *listed.replaced]
    session.execute(insert(OfferRow), listed.offers)
    session.execute(insert(PriceRow), history)
    accelerators = (row["as_of"] for row in read_rows("accelerators.csv"))
    newest_fact = max(*(row["as_of"] for row in listed.offers), *accelerators)
    session.add(CatalogVersionRow(digest=digest, published_at=f"{newest_fact}T00:00:00Z", loaded_at=datetime.now(UTC)))
