"""What the DCGM exporter says."""

from __future__ import annotations

import pytest

from app.observed.figures import RunContext
from app.observed.read import read_metrics

LABELS = 'gpu="{gpu}",UUID="GPU-{gpu}",device="nvidia{gpu}",modelName="NVIDIA H100 80GB HBM3",Hostname="n1"'


def text(busy: tuple[float, ...], *, xid: int = 0, rows: int = 0, clock: int = 1485) -> str:
    """An exporter's text of some accelerators."""
    lines = ["# TYPE DCGM_FI_DEV_GPU_UTIL gauge"]
    for gpu, used in enumerate(busy):
        labels = "{" + LABELS.format(gpu=gpu) + "}"
        lines += [
            f"DCGM_FI_DEV_GPU_UTIL{labels} {used}",
            f"DCGM_FI_DEV_SM_CLOCK{labels} {clock if gpu else 1485}",
            f"DCGM_FI_DEV_PCIE_LINK_WIDTH{labels} {16 if gpu else 8}",
            f"DCGM_FI_DEV_PCIE_MAX_LINK_WIDTH{labels} 16",
            f"DCGM_FI_DEV_GPU_TEMP{labels} {60 + gpu}",
            f"DCGM_FI_DEV_POWER_USAGE{labels} 650.5",
            f"DCGM_FI_DEV_FB_USED{labels} {70000 - gpu}",
            f"DCGM_FI_DEV_XID_ERRORS{labels} {xid}",
            f"DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS{labels} {rows}",
        ]
    return "\n".join(lines)


def test_accelerators_are_reported_by_the_mean_and_the_least_busy_one() -> None:
    found = read_metrics([(text((90, 90, 30), clock=1980), None)], RunContext(accelerators=3))
    assert {f.quantity: f.value for f in found.figures} == pytest.approx(
        {
            "utilization": 0.7,
            "slowest_clock_share": 1485 * 3 / (1485 + 2 * 1980),
            "link_width_share": 0.5,
            "temperature_c": 61,
            "power_w": 650.5,
            "memory_used_bytes": 70000 * 2**20,
        }
    )
    assert any("1815 MHz" in note for note in found.notes) and found.to_observations().devices.utilization is not None


def test_a_clock_is_a_share_where_the_most_is_exported_too() -> None:
    most = text((90,)).replace("DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_MAX_SM_CLOCK").replace("650.5", "1980")
    found = read_metrics([(most, None)], RunContext())
    assert {f.quantity: f.value for f in found.figures}["clock_share"] == 0.75


def test_errors_are_counted_between_scrapes_an_hour_apart_and_an_xid_is_reported() -> None:
    day = 86400.0
    found = read_metrics([(text((90,)), 0.0), (text((90,), xid=79, rows=2), day)], RunContext())
    assert {f.quantity: f.value for f in found.figures}["errors_per_day"] == 2
    assert any("Xid" in note for note in found.notes)
    soon = read_metrics([(text((90,)), 0.0), (text((90,), rows=2), 60.0)], RunContext())
    assert "errors_per_day" not in {f.quantity for f in soon.figures}


def test_another_number_of_accelerators_is_reported() -> None:
    assert any(
        "of 2 accelerators; the deployment has 8" in n
        for n in read_metrics([(text((9, 9)), None)], RunContext(accelerators=8)).notes
    )
