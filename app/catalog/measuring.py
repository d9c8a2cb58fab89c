"""Measurements of the user's own stacks: stored runs, by tenant, with the predictions that they are compared with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import JSON, DateTime, String, delete, func, select, update
from sqlalchemy.orm import Mapped, Session, mapped_column

from app.catalog.filing import to_utc
from app.catalog.keys import Caller
from app.catalog.tenants import lock_tenant, record_audit
from app.db import Base
from app.errors import NotAllowed, NotFound, Unanswerable
from app.sizing.evidence import Setting
from app.sizing.measured import MeasuredFigure, OwnMeasurement

IDENTITY_DIGITS = 28
MAX_MEASUREMENTS = 500  # of one tenant: the posterior of more would delay the first answer after a change


class UnknownMeasurement(NotFound):
    code = "unknown-measurement"


class OtherMeasurement(NotAllowed):
    """The same content was uploaded before with other parameters."""

    code = "other-measurement"


class TooManyMeasurements(Unanswerable):
    code = "too-many-measurements"


class OwnMeasurementRow(Base):
    """A run that a tenant uploaded. It never changes; its prediction follows the catalog and the engine."""

    __tablename__ = "own_measurements"

    tenant: Mapped[str] = mapped_column(String(64), primary_key=True)
    id: Mapped[str] = mapped_column(String(40), primary_key=True)
    stored_at: Mapped[datetime] = mapped_column(DateTime(timezone=True))
    day: Mapped[str] = mapped_column(String(10))
    run: Mapped[dict[str, Any]] = mapped_column(JSON, doc="the run with its parameters")
    prediction: Mapped[dict[str, Any]] = mapped_column(JSON, doc="setting and figures of the comparison")
    predicted_by: Mapped[str] = mapped_column(String(200), doc="catalog and engine of the prediction")


@dataclass(frozen=True, slots=True)
class StoredMeasurement:
    """A stored run, and its comparison with a prediction."""

    stored_at: datetime
    run: Mapping[str, Any]
    measurement: OwnMeasurement
    predicted_by: str


def measurement_id(digest: str) -> str:
    return f"meas_{digest[:IDENTITY_DIGITS]}"


def prediction_document(measurement: OwnMeasurement) -> dict[str, Any]:
    """The stored form of a comparison."""
    return {
        "model": measurement.model,
        "engine_version": measurement.engine_version,
        "setting": asdict(measurement.setting),
        "figures": [asdict(figure) for figure in measurement.figures],
    }


def _to_stored(row: OwnMeasurementRow) -> StoredMeasurement:
    found = row.prediction
    measurement = OwnMeasurement(
        identity=row.id,
        day=row.day,
        model=found["model"],
        setting=Setting(**found["setting"]),
        engine_version=found["engine_version"],
        figures=tuple(MeasuredFigure(**figure) for figure in found["figures"]),
    )
    return StoredMeasurement(to_utc(row.stored_at), row.run, measurement, row.predicted_by)


def store_measurement(
    session: Session, caller: Caller, run: Mapping[str, Any], measurement: OwnMeasurement, predicted_by: str
) -> tuple[StoredMeasurement, bool]:
    """Stores a measurement unless the tenant has it; returns it, and whether it is new. The caller commits; until then,
    other writers of the tenant wait.

    Raises OtherMeasurement if the tenant has the same content with other parameters, and TooManyMeasurements.
    """
    tenant = caller.tenant
    lock_tenant(session.connection(), tenant)
    known = session.get(OwnMeasurementRow, (tenant, measurement.identity))
    if known is None:
        held = session.scalar(select(func.count()).where(OwnMeasurementRow.tenant == tenant)) or 0
        if held >= MAX_MEASUREMENTS:
            raise TooManyMeasurements(
                f"At most {MAX_MEASUREMENTS:,} measurements can be stored. DELETE /measurements/{{id}} removes one."
            )
        row = OwnMeasurementRow(
            tenant=tenant,
            id=measurement.identity,
            stored_at=datetime.now(UTC),
            day=measurement.day,
            run=dict(run),
            prediction=prediction_document(measurement),
            predicted_by=predicted_by,
        )
        session.add(row)
        session.flush()
        _record_change(session, caller, "measurement.stored", measurement.identity)
        return _to_stored(row), True
    if known.run != dict(run):
        changed = sorted(k for k in {*known.run, *run} if known.run.get(k) != run.get(k))
        raise OtherMeasurement(
            f"This content is stored as {known.id} with other values of {', '.join(changed)}. Delete it first, or "
            "send the same parameters.",
            id=known.id,
        )
    return _to_stored(known), False


def list_measurements(
    session: Session, tenant: str, *, after: str = "", limit: int | None = None
) -> Sequence[StoredMeasurement]:
    own = OwnMeasurementRow.tenant == tenant
    query = select(OwnMeasurementRow).where(own, OwnMeasurementRow.id > after).order_by(OwnMeasurementRow.id)
    return [_to_stored(row) for row in session.scalars(query.limit(limit))]


def list_revision(session: Session, tenant: str) -> tuple[str, ...]:
    """Id of every measurement of a tenant. A stored run never changes, so equal ids mean equal measurements."""
    query = select(OwnMeasurementRow.id).where(OwnMeasurementRow.tenant == tenant)
    return tuple(session.scalars(query.order_by(OwnMeasurementRow.id)))


def list_outdated_tenants(session: Session, predicted_by: str) -> Sequence[str]:
    """Tenants with a measurement whose prediction is of another catalog or engine. Call it for every tenant."""
    other = OwnMeasurementRow.predicted_by != predicted_by
    return session.scalars(select(OwnMeasurementRow.tenant).where(other).distinct()).all()


def get_measurement(session: Session, tenant: str, identity: str) -> StoredMeasurement:
    """One measurement of a tenant. Raises UnknownMeasurement."""
    row = session.get(OwnMeasurementRow, (tenant, identity))
    if row is None:
        raise unknown_measurement(identity)
    return _to_stored(row)


def unknown_measurement(identity: str) -> UnknownMeasurement:
    """The error for an id without a measurement."""
    return UnknownMeasurement(f"There is no measurement {identity}. GET /measurements lists the stored ones.")


def _record_change(session: Session, caller: Caller, action: str, identity: str) -> None:
    record_audit(
        session.connection(), caller.tenant, caller.key_id, action, {"measurement": identity}, now=datetime.now(UTC)
    )


def delete_measurement(session: Session, caller: Caller, identity: str) -> None:
    """Deletes a measurement of a tenant. The caller commits. Raises UnknownMeasurement."""
    own = (OwnMeasurementRow.tenant == caller.tenant) & (OwnMeasurementRow.id == identity)
    lock_tenant(session.connection(), caller.tenant)
    deleted = session.execute(delete(OwnMeasurementRow).where(own).returning(OwnMeasurementRow.id)).all()
    if not deleted:
        raise unknown_measurement(identity)
    _record_change(session, caller, "measurement.deleted", identity)


def update_prediction(session: Session, tenant: str, measurement: OwnMeasurement, predicted_by: str) -> None:
    """Replaces the comparison of a stored measurement. The caller commits."""
    own = (OwnMeasurementRow.tenant == tenant) & (OwnMeasurementRow.id == measurement.identity)
    values = {"prediction": prediction_document(measurement), "predicted_by": predicted_by}
    session.execute(update(OwnMeasurementRow).where(own).values(**values))
