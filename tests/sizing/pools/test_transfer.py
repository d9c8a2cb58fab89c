"""The cache between two pools, by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.sizing.hardware.parts import SystemKind
from tests.sizing.pools.given import ONE, networked, parts, pools_of, split
from tests.sizing.serving.given import DENSE
from tests.sizing.small import BIG, offer, snapshot, system

# 4 layers of 4 heads of 128, keys and values in 2 bytes, of a prompt of 800 tokens: 6,553,600 bytes
PROMPT_BYTES = 2 * 4 * 4 * 128 * 2 * 800
ACHIEVED = 0.9  # of a network in the small catalogue


@pytest.mark.parametrize(
    ("gbit_per_s", "by_hand_ms"),
    [
        (100, 0.58254),  # 6.5536 MB / (100 / 8 GB/s * 0.9)
        (400, 0.14564),
        (3200, 0.018204),
    ],
)
def test_three_networks_take_what_bytes_over_rate_take(gbit_per_s: float, by_hand_ms: float) -> None:
    found = parts(split(pools_of(), networked(8 * gbit_per_s * 1e9 / 8))).transfer
    assert DENSE.num_layers == 4
    assert found.request_bytes == PROMPT_BYTES
    assert found.seconds * 1e3 == pytest.approx(by_hand_ms, rel=1e-4)
    assert found.link == "network"
    assert found.bytes_per_s == pytest.approx(gbit_per_s * 1e9 / 8 * ACHIEVED)


def test_accelerators_send_side_by_side_and_the_side_with_fewer_is_waited_for() -> None:
    four = {**ONE, "tensor_parallel": 4}
    alone, both, wide = (
        parts(split(pools_of(*sides), networked(400e9))).transfer.seconds
        for sides in ((ONE, ONE), (four, ONE), (four, four))
    )
    assert alone == both == pytest.approx(4 * wide)


def test_a_domain_across_machines_is_used_where_both_pools_lie_in_it() -> None:
    rack = replace(BIG, scaleup_domain_size=16, link_spans_machines=True)
    machine = replace(
        system("big-8", SystemKind.CLOUD_INSTANCE, BIG, 8, ram_bytes=2e12, network_bytes_per_s=400e9),
        scaleup_domain_size=16,
    )
    catalog = snapshot(accelerators=(rack,), systems=(machine,), offers=(offer("big-8", 40.0),))
    found = parts(split(pools_of(), catalog)).transfer
    assert found.link == "scale_up"
    assert found.seconds == pytest.approx(PROMPT_BYTES / (450e9 * 0.78))
    apart = parts(split(pools_of(decode={**ONE, "replicas": 9}), catalog)).transfer
    assert apart.link == "network"


def test_links_carry_as_many_caches_as_replicas_send() -> None:
    one, three = (
        parts(split(pools_of({**ONE, "replicas": n}, {**ONE, "replicas": n}), networked(400e9))).transfer
        for n in (1, 3)
    )
    assert one.requests_per_s_capacity == pytest.approx(50e9 * ACHIEVED / PROMPT_BYTES)
    assert three.requests_per_s_capacity == pytest.approx(3 * one.requests_per_s_capacity)
    assert one.utilization == pytest.approx(10 / one.requests_per_s_capacity)
