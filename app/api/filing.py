"""Between the wire and the filing of answers: what a search means in names of the catalogue, what guards a change."""

from __future__ import annotations

from app.api.schemas.filing import RecommendationFilter
from app.catalog.filing import Sought
from app.catalog.snapshot import SnapshotStore
from app.errors import Stale, Unguarded

OF_LISTS = ("limit", "cursor", "model", "accelerator")


def sought(asked: RecommendationFilter, snapshots: SnapshotStore) -> Sought:
    """What is looked for. Models and accelerators are found under the name typed and under the catalogue's own."""
    said = asked.model_dump(exclude=set(OF_LISTS))
    if asked.model is not None:
        said["models"] = {asked.model, snapshots.identity(asked.model)}
    if asked.accelerator is not None:
        said["accelerators"] = {asked.accelerator, *snapshots.directory().named(asked.accelerator).accelerators}
    return Sought(**said)


def check_guarded(if_match: str | None, tag: str) -> None:
    """A change is made to the state that was read. Raises Unguarded and Stale."""
    if if_match is None:
        raise Unguarded(
            "Send If-Match with the ETag of the status that you change: GET /recommendations/{id}/status has it."
        )
    if tag not in (sent := [t.strip() for t in if_match.split(",")]) and "*" not in sent:
        raise Stale(f"The status has changed since it was read: its ETag is {tag} now. Read it again.", etag=tag)
