"""Addresses of the open internet, by a list that no version of Python changes."""

from __future__ import annotations

from ipaddress import ip_network

import pytest

from app.catalog.addresses import SPECIAL_PURPOSE_NETWORKS, is_public, is_within


@pytest.mark.parametrize(
    "address",
    [
        *(str(network[0]) for network in SPECIAL_PURPOSE_NETWORKS),
        *(str(network[-1]) for network in SPECIAL_PURPOSE_NETWORKS),
        "169.254.169.254",
        "0.0.0.0",
        "255.255.255.255",
        "::",
        "::1",
        "::ffff:127.0.0.1",
        "::ffff:8.8.8.8",
        "64:ff9b::7f00:1",
        "64:ff9b:1::1",
        "100::1",
        "5f00::1",
        "fc00::1",
        "fd00::1",
        "fe80::1",
        "fe80::1%lo",
        "2606:4700::1111%lo",
        "fec0::1",
        "ff02::1",
        "4000::1",
        "2130706433",
        "0x7f.1",
        "not-an-address",
        "",
    ],
)
def test_special_addresses_are_not_public(address: str) -> None:
    assert not is_public(address)


def test_neighbors_of_special_addresses_are_public() -> None:
    for address in ("1.0.0.0", "9.255.255.255", "11.0.0.0", "172.15.255.255", "172.32.0.0", "192.169.0.0", "223.0.0.1"):
        assert is_public(address)
    assert is_public("2001:200::1")
    assert is_public("2606:4700::1111")


def test_networks_of_both_kinds_are_distinguished() -> None:
    networks = [ip_network("10.0.0.0/8"), ip_network("fd00::/8")]
    assert is_within("10.1.2.3", networks)
    assert is_within("fd12::1", networks)
    assert not is_within("11.1.2.3", networks)
    assert not is_within("::a00:1", networks)
    assert not is_within("name", networks)
