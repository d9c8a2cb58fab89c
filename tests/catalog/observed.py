"""A catalog of a test's own to which observations are added, on either database."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from sqlalchemy.orm import Session

from app.catalog.observations import Observation, OfferKey, Suspicion, SyncRecord, record_sync, store_observations
from app.catalog.seed import publish_observations

L4 = OfferKey("gcp", "us-central1", "g2-standard-4", "nvidia-l4", 1.0, "on_demand")
NEW = OfferKey("gcp", "us-nowhere1", "g2-standard-4", "nvidia-l4", 1.0, "on_demand")


def moment(day: str, hour: int = 12) -> datetime:
    return datetime.fromisoformat(day).replace(hour=hour, tzinfo=UTC)


def observed(key: OfferKey, usd: float, state: str | None = None, feed: str = "gcp") -> Observation:
    """A price in USD for the whole machine, with its capacity if a state is given."""
    return Observation(key, usd, usd, "USD", "instance_hour", feed, "v1", "0" * 64, state=state)


def publish(
    session: Session, day: str, accepted: Sequence[Observation], held: Sequence[Suspicion] = (), hour: int = 12
) -> bool:
    """Adds observations and publishes the next version in one transaction."""
    at = moment(day, hour)
    stored, held_now = store_observations(session, accepted, held, at=at, aggregate=False)
    record_sync(session, replace(SyncRecord("gcp", "all", "stored"), accepted=stored, quarantined=held_now), at=at)
    done = publish_observations(session)
    session.commit()
    return done
