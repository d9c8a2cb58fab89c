"""Published rows, read once."""

from __future__ import annotations

import pytest

from app.catalog.files import read_rows
from app.catalog.snapshot import CatalogStore
from app.sizing.snapshot import Catalog
from calibration.serving.cases import ServingCase, ServingCases, read_cases
from calibration.serving.problem import drop_impossible_figures
from calibration.training.cases import TrainingCases

ROWS = {r["id"]: r for r in read_rows("measurements_inference.csv")}


@pytest.fixture(scope="session")
def builder(catalog: Catalog, catalog_store: CatalogStore) -> ServingCases:
    return ServingCases(catalog, catalog_store.find_model)


@pytest.fixture(scope="session")
def training_cases(catalog: Catalog, catalog_store: CatalogStore) -> TrainingCases:
    return TrainingCases(catalog, catalog_store.find_model)


@pytest.fixture(scope="session")
def cases(catalog: Catalog, catalog_store: CatalogStore) -> list[ServingCase]:
    """One row in forty of every source."""
    found, _ = read_cases(list(ROWS.values())[::40], catalog, catalog_store.find_model)
    return drop_impossible_figures(found)[0]
