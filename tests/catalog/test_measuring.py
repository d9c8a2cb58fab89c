"""Stored measurements: concurrent uploads lose nothing, and a tenant sees and removes its own only."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy.orm import Session, sessionmaker

from app.catalog import measuring
from app.catalog.keys import Caller
from app.catalog.measuring import (
    OtherMeasurement,
    TooManyMeasurements,
    UnknownMeasurement,
    delete_measurement,
    get_measurement,
    list_measurements,
    list_outdated_tenants,
    list_revision,
    store_measurement,
    update_prediction,
)
from app.catalog.tenants import audit_heads, export_audit, find_break
from app.db import UNHURRIED, make_engine
from app.sizing.evidence import Setting
from app.sizing.measured import MeasuredFigure, OwnMeasurement

SETTING = Setting("vllm", "nvidia_hopper", "fp8", "nvidia-h100-sxm5-80gb", "closed", 8e9, 1.0, 24.0, 1024.0, 256.0)
RUN = {"format": "headroom", "concurrency": 24.0}
WRITERS = 32


def measured(name: str, figure: float = 1700.0) -> OwnMeasurement:
    figures = (MeasuredFigure("output_tokens_per_s", figure, 2000.0),)
    return OwnMeasurement(f"meas_{name}", "2026-11-20", "m", SETTING, "0.30", figures)


@pytest.fixture(params=["sqlite_url", "postgres_url"])
def sessions(request: pytest.FixtureRequest) -> Iterator[sessionmaker[Session]]:
    """Sessions of each database; it has no measurement at the end."""
    engine = make_engine(request.getfixturevalue(request.param), UNHURRIED)
    made = sessionmaker(engine, expire_on_commit=False)
    yield made
    with made() as session, session.begin():
        for tenant in ("a", "b"):
            for each in list_measurements(session, tenant):
                delete_measurement(session, Caller(tenant), each.measurement.identity)
    engine.dispose()


def store(sessions: sessionmaker[Session], tenant: str, measurement: OwnMeasurement) -> bool:
    """Store in a transaction of its own; whether it was new."""
    with sessions() as session, session.begin():
        return store_measurement(session, Caller(tenant), RUN, measurement, "1")[1]


def test_concurrent_uploads_store_each_measurement_once(sessions: sessionmaker[Session]) -> None:
    names = [f"{n % (WRITERS // 2):02}" for n in range(WRITERS)]  # every measurement twice
    with ThreadPoolExecutor(WRITERS) as pool:
        new = list(pool.map(lambda name: store(sessions, "a", measured(name)), names))
    assert sum(new) == WRITERS // 2
    with sessions() as session:
        assert [*list_revision(session, "a")] == [f"meas_{name}" for name in sorted(set(names))]
        log = [*export_audit(session.connection(), "a")]
        assert find_break(log, audit_heads(session.connection(), "a")) is None
        stored = {entry["facts"]["measurement"] for entry in log if entry["action"] == "measurement.stored"}
        assert {f"meas_{name}" for name in names} <= stored


def test_what_is_read_is_what_was_stored_and_tenants_are_apart(sessions: sessionmaker[Session]) -> None:
    assert store(sessions, "a", measured("1"))
    assert store(sessions, "b", measured("1", 900.0))
    with sessions() as session, session.begin():
        assert get_measurement(session, "a", "meas_1").measurement == measured("1")
        assert get_measurement(session, "b", "meas_1").measurement == measured("1", 900.0)
        update_prediction(session, "a", measured("1", 1701.0), "2")
        delete_measurement(session, Caller("b"), "meas_1")
    with sessions() as session:
        assert list_revision(session, "a") == ("meas_1",)
        assert list_outdated_tenants(session, "2") == []
        assert list_outdated_tenants(session, "1") == ["a"]
        assert list_revision(session, "b") == ()
        with pytest.raises(UnknownMeasurement):
            get_measurement(session, "b", "meas_1")
        with pytest.raises(UnknownMeasurement):
            delete_measurement(session, Caller("b"), "meas_1")


def test_the_same_content_with_other_parameters_and_too_many_are_refused(
    sessions: sessionmaker[Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    store(sessions, "a", measured("1"))
    with sessions() as session, pytest.raises(OtherMeasurement, match="concurrency"):
        store_measurement(session, Caller("a"), RUN | {"concurrency": 8.0}, measured("1"), "1")
    monkeypatch.setattr(measuring, "MAX_MEASUREMENTS", 1)
    assert not store(sessions, "a", measured("1"))
    with pytest.raises(TooManyMeasurements):
        store(sessions, "a", measured("2"))
