"""Translates filing searches to catalog names and checks the precondition of status changes."""

from __future__ import annotations

from app.api.schemas.filing import RecommendationFilter
from app.catalog.filing import FilingFilter
from app.catalog.snapshot import CatalogStore
from app.errors import ChangedMeanwhile, MissingIfMatch

LIST_PARAMETERS = ("limit", "cursor", "model", "accelerator")


def build_search(asked: RecommendationFilter, catalog_store: CatalogStore) -> FilingFilter:
    """Returns the search to run. Models and accelerators match under the name as typed and under their catalog name."""
    criteria = asked.model_dump(exclude=set(LIST_PARAMETERS))
    if asked.model is not None:
        criteria["models"] = {asked.model, catalog_store.model_identity(asked.model)}
    if asked.accelerator is not None:
        criteria["accelerators"] = {
            asked.accelerator,
            *catalog_store.directory().resolve_name(asked.accelerator).accelerators,
        }
    return FilingFilter(**criteria)


def check_if_match(if_match: str | None, tag: str) -> None:
    """Checks that a change applies to the version that the client read. Raises Unguarded and Stale."""
    if if_match is None:
        raise MissingIfMatch(
            "Send If-Match with the ETag of the status that you change. GET /recommendations/{id}/status returns it."
        )
    if tag not in (sent := [t.strip() for t in if_match.split(",")]) and "*" not in sent:
        raise ChangedMeanwhile(
            f"The status has changed since you read it. Its ETag is now {tag}. Read the status again.", etag=tag
        )
