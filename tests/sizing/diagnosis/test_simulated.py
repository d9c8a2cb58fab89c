"""Causes planted in simulated systems are found first, and nothing is found in healthy ones."""

from __future__ import annotations

import pytest

from app.sizing.diagnosis.diagnose import Diagnosis
from app.sizing.snapshot import Catalog
from tests.sizing.diagnosis.planted import HEALTHY, PLANTED, RUNS, Planted, of_run, of_service

ENOUGH = 0.9  # of the causes, that are found first


def diagnosed(case: Planted, catalog: Catalog, seed: int) -> Diagnosis:
    return (of_run if case.where in RUNS else of_service)(case, catalog, seed)


@pytest.mark.slow
def test_a_cause_planted_in_a_system_is_found_first_in_nine_of_ten(catalog: Catalog) -> None:
    first = []
    for seed, case in enumerate(PLANTED):
        found = diagnosed(case, catalog, seed).findings
        first.append((case.name, [f.code for f in found], bool(found) and found[0].code in case.codes))
    missed = [(name, codes) for name, codes, right in first if not right]
    assert len(PLANTED) >= 40 and len(missed) <= (1 - ENOUGH) * len(PLANTED), missed


@pytest.mark.slow
@pytest.mark.parametrize("seed", [100])
def test_nothing_is_found_in_healthy_systems(catalog: Catalog, seed: int) -> None:
    found = [
        (case.name, [f.text for f in diagnosed(case, catalog, seed + i).findings]) for i, case in enumerate(HEALTHY)
    ]
    assert len(HEALTHY) >= 20 and not [case for case in found if case[1]]
