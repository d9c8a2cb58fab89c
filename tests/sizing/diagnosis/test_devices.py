"""What accelerators say of themselves; what that costs is judged by the core on slower ones."""

from __future__ import annotations

import pytest

from app.sizing.diagnosis.case import DevicesObservation
from tests.sizing.diagnosis.given import SERVES, codes, expected, first, serving, training


@pytest.mark.parametrize(
    ("code", "devices"),
    [
        ("hot", DevicesObservation(clock_share=0.7, temperature_c=90.0)),
        ("power_capped", DevicesObservation(clock_share=0.7, power_w=300.0, power_limit_w=300.0)),
        ("low_clocks", DevicesObservation(clock_share=0.6)),
        ("uneven_clocks", DevicesObservation(slowest_clock_share=0.6)),
        ("starved", DevicesObservation(utilization=0.3)),
        ("device_errors", DevicesObservation(errors_per_day=3.0)),
    ],
)
def test_what_devices_say_is_found(code: str, devices: DevicesObservation) -> None:
    assert first(training(devices)).code == code


def test_a_clock_costs_what_is_computed_at_it_and_no_more() -> None:
    p = expected(False).performance
    assert p is not None and p.step_breakdown_s is not None and p.step_time_s
    share = first(training(DevicesObservation(clock_share=0.5))).known_cost_share
    assert 0.3 < share <= p.step_breakdown_s["compute"] / (p.step_time_s + p.step_breakdown_s["compute"]) + 0.02


def test_a_narrow_slot_costs_only_where_accelerators_speak_over_it() -> None:
    narrow = DevicesObservation(link_width_share=0.25)
    assert "narrow_link" not in codes(serving(devices=narrow))
    together = SERVES.__class__("acme-card", total_accelerators=4, tensor_parallel=4)
    assert "narrow_link" in codes(serving(together, devices=narrow, requests_per_s=5.0))


def test_device_errors_cost_the_restarts_or_an_unknown_share() -> None:
    assert first(training(DevicesObservation(errors_per_day=3.0))).share is None
    found = first(training(DevicesObservation(errors_per_day=3.0), restarts_per_day=6.0, checkpoint_interval_s=1200.0))
    assert found.code == "device_errors" and found.share == pytest.approx(6 * (600 + 600) / 86400)


def test_a_service_with_little_to_do_is_not_starved() -> None:
    idle = DevicesObservation(utilization=0.3)
    assert "starved" in codes(serving(devices=idle))
    assert "starved" not in codes(serving(devices=idle, running=0.3))
