"""What accelerators say of themselves; what that costs is judged by the core on slower ones."""

from __future__ import annotations

import pytest

from app.sizing.diagnosis.case import DevicesObservation
from app.sizing.diagnosis.devices import (
    find_device_errors,
    find_low_clocks,
    find_narrow_link,
    find_starved_accelerators,
    find_uneven_clocks,
)
from tests.sizing.diagnosis.given import SERVES, codes, expected, first, of_run, of_service, serving, shows, training


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


def test_clocks_are_low_from_three_twentieths_below_the_rated_one_on() -> None:
    for share, low in ((0.84, True), (0.86, False)):
        clocks = DevicesObservation(clock_share=share, slowest_clock_share=share)
        for check, code in ((find_low_clocks, "low_clocks"), (find_uneven_clocks, "uneven_clocks")):
            assert ([f.code for f in training(clocks).findings if f.code == code] == [code]) == low
            idle = of_service(check, devices=clocks, running=0.1)
            assert idle is None
    found = first(training(DevicesObservation(clock_share=0.6)))
    assert shows(found, 60.0) and (found.evidence[0].observed, found.evidence[0].expected) == (0.6, 1.0)
    uneven = first(training(DevicesObservation(slowest_clock_share=0.6)))
    assert shows(uneven, 60.0) and (uneven.evidence[0].observed, uneven.evidence[0].expected) == (0.6, 1.0)
    # Both slow everything by as much.
    assert uneven.share == found.share == found.gain


def test_low_clocks_are_hot_else_capped_else_set() -> None:
    slow: dict[str, float] = {"clock_share": 0.6}
    for seen, code in (
        ({"temperature_c": 83.0}, "hot"),
        ({"temperature_c": 82.9}, "low_clocks"),
        ({"temperature_c": 90.0, "power_w": 300.0, "power_limit_w": 300.0}, "hot"),
        ({"power_w": 286.0, "power_limit_w": 300.0}, "power_capped"),
        ({"power_w": 284.0, "power_limit_w": 300.0}, "low_clocks"),
        ({"power_w": 300.0}, "low_clocks"),
        ({"power_limit_w": 300.0}, "low_clocks"),
    ):
        found = first(training(DevicesObservation(**slow, **seen)))
        assert found.code == code
        limits = {"hot": 83.0, "power_capped": 300.0}
        assert [e.expected for e in found.evidence[1:]] == ([limits[code]] if code in limits else [])
        assert [e.observed for e in found.evidence[1:]] == [seen[e.quantity] for e in found.evidence[1:]]


def test_accelerators_starve_where_three_tenths_of_their_work_time_is_lost() -> None:
    for used, starved in ((0.69, True), (0.71, False)):
        found = of_run(find_starved_accelerators, devices=DevicesObservation(utilization=used))
        assert (found is not None) == starved
        if starved:
            assert found.share == pytest.approx(0.31) == found.gain and shows(found, 69.0, 100.0)
    # Half a request at random: there is work 39 % of the time.
    half = of_service(find_starved_accelerators, devices=DevicesObservation(utilization=0.1), running=0.5)
    assert half.share == pytest.approx(1 - 0.1 / 0.3935, rel=1e-3)
    assert of_service(find_starved_accelerators, devices=DevicesObservation(utilization=0.0), running=0.0) is None
    assert of_run(find_starved_accelerators) is None


def test_errors_cost_restarts_where_these_are_known_else_failed_requests() -> None:
    errors = DevicesObservation(errors_per_day=2.5)
    run = of_run(find_device_errors, devices=errors, restarts_per_day=7.2, checkpoint_interval_s=1200.0)
    assert run.share == pytest.approx(7.2 * (600 + 600) / 86_400) == run.gain and shows(run, 2.5)
    assert of_run(find_device_errors, devices=errors, restarts_per_day=1e4).share == 1.0
    service = of_service(find_device_errors, devices=errors, restarts_per_day=7.2, error_share=0.5)
    assert service.share == pytest.approx(7.2 * 600 / 86_400)
    assert of_service(find_device_errors, devices=errors, error_share=0.25).share == 0.25
    assert of_service(find_device_errors, devices=errors).share is None
    assert of_service(find_device_errors, devices=DevicesObservation(errors_per_day=0.0), error_share=0.5) is None
    assert of_service(find_narrow_link, devices=DevicesObservation(link_width_share=1.0)) is None
    assert of_service(find_narrow_link) is None
