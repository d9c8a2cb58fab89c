"""Tells public internet addresses from special-purpose ones. The list is fixed here, because Python's differs between
versions.

Source: the IANA registries of special-purpose addresses, https://www.iana.org/assignments/iana-ipv4-special-registry
and https://www.iana.org/assignments/iana-ipv6-special-registry, as of 2024-10-22, plus the multicast blocks. Blocks
that are reachable but serve no pages (AS112, AMT) are excluded too. Of IPv6, only 2000::/3 is assigned to hosts.
"""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Network = IPv4Network | IPv6Network

GLOBAL_UNICAST_V6 = IPv6Network("2000::/3")
SPECIAL_PURPOSE_NETWORKS: tuple[Network, ...] = tuple(
    ip_network(block)
    for block in (
        "0.0.0.0/8",  # this network
        "10.0.0.0/8",  # private
        "100.64.0.0/10",  # shared address space of carriers
        "127.0.0.0/8",  # loopback
        "169.254.0.0/16",  # link-local, including cloud metadata services
        "172.16.0.0/12",  # private
        "192.0.0.0/24",  # protocol assignments
        "192.0.2.0/24",  # documentation
        "192.31.196.0/24",  # AS112
        "192.52.193.0/24",  # AMT
        "192.88.99.0/24",  # 6to4 relays, withdrawn
        "192.168.0.0/16",  # private
        "192.175.48.0/24",  # AS112
        "198.18.0.0/15",  # benchmarks
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, and broadcast
        "2001::/23",  # protocol assignments, including Teredo
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4: embeds an IPv4 address
        "2620:4f:8000::/48",  # AS112
        "3fff::/20",  # documentation
    )
)


def is_public(address: str) -> bool:
    """Whether an address belongs to the public internet. False for text that is no address and for addresses with an
    interface.

    Check:
        >>> [is_public(a) for a in ("8.8.8.8", "127.0.0.1", "::ffff:8.8.8.8", "64:ff9b::808:808", "2606:4700::1111")]
        [True, False, False, False, True]
    """
    parsed = _parse_address(address)
    if parsed is None or (isinstance(parsed, IPv6Address) and parsed not in GLOBAL_UNICAST_V6):
        return False
    return not is_within(address, SPECIAL_PURPOSE_NETWORKS)


def is_within(address: str, networks: Sequence[Network]) -> bool:
    """Whether one of the networks contains an address."""
    parsed = _parse_address(address)
    return parsed is not None and any(parsed in network for network in networks if network.version == parsed.version)


def _parse_address(address: str) -> IPv4Address | IPv6Address | None:
    try:
        return None if "%" in address else ip_address(address)
    except ValueError:
        return None
