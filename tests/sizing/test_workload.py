"""What somebody wants to run, in numbers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from app.errors import Unanswerable
from app.sizing.workload import REDUNDANCIES, FailureDomain, Lengths, Redundancy


def test_a_length_distribution_passes_through_its_mean_and_p95() -> None:
    lengths = Lengths(1024, 3000)
    assert lengths.quantile(95) == pytest.approx(3000)
    mean = np.exp(np.log(1024) - lengths.sigma**2 / 2 + lengths.sigma**2 / 2)
    assert mean == pytest.approx(1024)
    assert Lengths(500).quantile(99) == 500


@pytest.mark.parametrize(
    ("label", "zones", "domain", "lost"),
    [
        # (domains, machines, zones) that may be lost at once
        ("none", 1, None, (0, 0, 0)),
        ("none", 3, None, (0, 0, 0)),
        ("n+1", 1, None, (1, 1, 0)),
        ("n+2", 1, "accelerator", (2, 0, 0)),
        ("n+2", 2, None, (2, 2, 1)),  # any one zone, whatever the domain
        ("n+2", 2, "accelerator", (2, 0, 1)),
        ("n+2", 3, "zone", (2, 2, 2)),
        ("2n", 1, None, (1, 1, 0)),
        ("2n", 2, "zone", (1, 1, 1)),
        ("none", 1, "zone", (0, 0, 0)),
    ],
)
def test_what_may_be_lost(label: str, zones: int, domain: str | None, lost: tuple[int, int, int]) -> None:
    found = Redundancy.named(label, zones=zones, domain=domain)
    assert (found.lost, found.machines_lost, found.zones_lost) == lost
    assert found.label == label
    assert found.domain == (domain or "machine")


@pytest.mark.parametrize(("label", "zones"), [("n+1", 1), ("2n", 1), ("n+2", 2)])
def test_a_zone_must_be_left(label: str, zones: int) -> None:
    with pytest.raises(Unanswerable, match=f"zones {zones + 1} or more, or for failure_domain machine"):
        Redundancy.named(label, zones=zones, domain="zone")
    assert all(Redundancy.named(each, zones=3, domain="zone").zones_lost < 3 for each in REDUNDANCIES)


def test_another_number_of_spares_stays_in_the_same_zones() -> None:
    three = Redundancy(double=True, zones=3, domain=FailureDomain.ZONE)
    assert three.with_spare(1) == Redundancy(spare=1, zones=3, domain=FailureDomain.ZONE)
    assert Redundancy(domain=FailureDomain.ZONE).with_spare(1) == Redundancy(spare=1)
    alone = Redundancy(domain=FailureDomain.ACCELERATOR)
    assert alone.with_spare(1) == replace(alone, spare=1)
