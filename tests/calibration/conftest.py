"""Published rows, read once."""

from __future__ import annotations

import pytest

from app.calibration.serving.cases import ServingCase, ServingCases, read_cases
from app.calibration.serving.problem import possible
from app.catalog.files import rows_of
from app.catalog.snapshot import SnapshotStore
from app.sizing.snapshot import Snapshot

ROWS = {r["id"]: r for r in rows_of("measurements_inference.csv")}


@pytest.fixture(scope="module")
def builder(market: Snapshot, snapshots: SnapshotStore) -> ServingCases:
    return ServingCases(market, snapshots.model)


@pytest.fixture(scope="module")
def cases(market: Snapshot, snapshots: SnapshotStore) -> list[ServingCase]:
    """One row in forty of every source."""
    found, _ = read_cases(list(ROWS.values())[::40], market, snapshots.model)
    return possible(found)[0]
