"""Resolves list filters: any spelling of a name becomes the values that rows contain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlalchemy.orm import Session

from app.api.naming import did_you_mean, list_names
from app.catalog.directory import WILDCARD, CatalogIndex, closest_names, compact_name, machine_key
from app.catalog.lists import column_values
from app.catalog.names import engine_slug, quote_name
from app.errors import UnknownName

Values = tuple[str, ...]


def resolve_filters(
    session: Session, what: str, filters: Mapping[str, str | None], catalog_index: CatalogIndex
) -> dict[str, Values]:
    """Returns the matching row values for each filter that is set. Raises UnknownName if no row can match."""
    return {
        name: _resolve_filter(session, what, name, typed, catalog_index)
        for name, typed in filters.items()
        if typed is not None
    }


def _resolve_filter(session: Session, what: str, name: str, typed: str, catalog_index: CatalogIndex) -> Values:
    if name == "accelerator":
        values = (
            catalog_index.match_pattern(typed)
            if WILDCARD.search(typed)
            else catalog_index.resolve_name(typed).accelerators
        )
        close = () if values else catalog_index.nearest_accelerators(typed)
        known: Sequence[str] = ()
    else:
        known = column_values(session, what, name)
        values = matching_values(name, typed, known, catalog_index)
        close = () if values else closest_names(typed, known)
    if not values:
        hint = did_you_mean(close) if close else f" Accepted: {list_names(known)}." if known else ""
        detail = f"Unknown {name.replace('_', ' ')} {quote_name(typed)}.{hint}"
        raise UnknownName(detail, errors=[{"pointer": f"query/{name}", "detail": detail}], nearest=list(close))
    return values


def matching_values(name: str, typed: str, known: Sequence[str], catalog_index: CatalogIndex) -> Values:
    """Returns the values of a column that a name matches: exactly, in another spelling, or by an alias.

    Check: "Reserved 1Y" matches reserved_1y, the provider "Amazon" matches aws, the engine "trt-llm" matches
    tensorrt-llm.
    """
    if typed in known:
        return (typed,)
    if name == "region" and (regions := catalog_index.find_regions(typed)):
        return regions
    also = {"provider": catalog_index.providers, "vendor": catalog_index.vendors}.get(name, {})
    aliased = engine_slug(typed) if name == "engine" else also.get(compact_name(typed), typed)
    key = machine_key if name == "instance_type" else compact_name
    return tuple(value for value in known if key(value) == key(aliased)) if key(aliased) else ()
