"""Prices, and the machines they buy: what differs in nothing is one machine."""

from __future__ import annotations

from dataclasses import replace

from app.sizing.hardware.listings import PRICING, generic_hosts, node_of, whole_host_offers
from app.sizing.hardware.parts import Link, PricingModel, SystemKind
from app.sizing.snapshot import Catalog
from tests.sizing.small import ACCELERATORS, BIG, CARD, DESK, OFFERS, SMALL, SYSTEMS, offer, snapshot


def test_offers_of_like_machines_share_one() -> None:
    listings = SMALL.listings
    rented = [i for i, o in enumerate(listings.offer.tolist()) if o >= 0 and SMALL.offers[o].instance_type == "big-8"]
    assert len(rented) == 4
    assert len({int(listings.machine[i]) for i in rented}) == 1


def test_every_price_is_listed_under_what_it_is_paid_for() -> None:
    listings = SMALL.listings
    for i, o in enumerate(listings.offer.tolist()):
        if o < 0:
            continue
        sold = SMALL.offers[o]
        assert SMALL.providers[listings.provider[i]] == sold.provider
        assert SMALL.regions[listings.region[i]] == sold.region
        assert SMALL.instance_types[listings.instance_type[i]] == sold.instance_type
        assert PRICING[listings.pricing[i]] is sold.pricing_model
        assert SMALL.accelerators[listings.accelerator[i]].slug == sold.accelerator
        assert listings.usd_per_hour[i] == sold.usd_per_hour


def test_owned_machines_are_priced_whole_or_by_their_parts() -> None:
    owned = SMALL.listings.take(SMALL.listings.is_owned)
    prices = dict(zip([SMALL.system_slugs[s] for s in owned.system], owned.list_price_usd.tolist(), strict=True))
    assert prices["big-server"] == 300_000
    assert prices["host-4x-acme-card"] != prices["host-4x-acme-card"]  # not a number: the sum of its parts


def test_a_plain_host_is_built_around_what_is_sold_without_one() -> None:
    hosts = {h.slug: h for h in generic_hosts(ACCELERATORS, SYSTEMS)}
    assert "host-8x-acme-big" not in hosts  # its maker sells a server
    assert {"host-1x-acme-card", "host-4x-acme-card"} <= hosts.keys()
    assert hosts["host-1x-acme-card"].link is Link.NONE
    assert hosts["host-4x-acme-card"].link is Link.PCIE
    assert hosts["host-1x-bolt-desk"].kind is SystemKind.WORKSTATION


def test_a_board_without_a_chassis_is_not_bought() -> None:
    assert not [h for h in generic_hosts((BIG,), ()) if h.accelerator == BIG.slug]


def test_a_processor_is_sold_as_a_whole_machine_only() -> None:
    chip = replace(DESK, kind="soc")
    assert not list(generic_hosts((chip,), ()))


def test_memory_is_the_systems_where_it_is_shared() -> None:
    host = replace(SYSTEMS[2], ram_bytes=256e9)
    assert node_of(0, CARD, 2.0, host).memory_bytes == CARD.memory_bytes
    assert node_of(0, replace(CARD, memory_is_shared=True), 2.0, host).memory_bytes == 128e9
    assert node_of(0, replace(CARD, memory_bytes=None), 2.0, host).memory_bytes == 128e9


def test_a_share_of_an_accelerator_is_not_offered() -> None:
    third = replace(offer("card-1", 0.2), accelerator_count=0.33)
    assert len(snapshot(offers=(*OFFERS, third)).listings) == len(SMALL.listings)


def test_a_network_is_shared_by_a_machines_accelerators() -> None:
    node = node_of(0, BIG, 8.0, SYSTEMS[0])
    assert node.network_bytes_per_s == 50e9
    assert node.on_prem is False
    assert node_of(0, BIG, 8.0, SYSTEMS[1]).on_prem is True
    assert PricingModel.OWNED in PRICING


SOCKET = replace(CARD, slug="acme-cpu", kind="cpu", memory_bytes=None, memory_is_reported=False)
PART = replace(SYSTEMS[2], slug="cpu-small", accelerator=SOCKET.slug, accelerator_count=0.25, ram_bytes=32e9)


def test_a_part_of_a_socket_is_a_machine_that_does_less_and_a_part_of_a_card_is_none() -> None:
    node = node_of(0, SOCKET, 0.25, PART)
    assert (node.accelerators_per_node, node.share, node.memory_bytes) == (1.0, 0.25, 32e9)
    assert node_of(0, SOCKET, 2.0, replace(PART, accelerator_count=2.0)).share == 1.0
    sliced = replace(SYSTEMS[2], slug="card-slice", accelerator_count=0.25)
    sizes = [
        replace(
            offer("card-1", 0.1), system=s.slug, accelerator=s.accelerator, accelerator_count=0, instance_type=s.slug
        )
        for s in (PART, sliced)
    ]
    both = snapshot(accelerators=(*ACCELERATORS, SOCKET), systems=(*SYSTEMS, PART, sliced), offers=sizes)
    rented = both.listings.take(~both.listings.is_owned)
    assert [both.system_slugs[s] for s in rented.system] == ["cpu-small"]


def test_chips_are_rented_in_whole_hosts(catalog: Catalog) -> None:
    chips = next(o for o in catalog.offers if o.accelerator == "google-tpu-v6e")
    chip = replace(chips, system=None, accelerator_count=1.0, usd_per_hour=2.7)
    hosts = [*whole_host_offers([chip, *OFFERS], catalog.systems.values())]
    rented = [(o.system, o.instance_type, o.accelerator_count, o.usd_per_hour) for o in hosts[: -len(OFFERS)]]
    assert rented == [(f"gcp-tpu-v6e-{n}", f"ct6e-standard-{n}t", float(n), 2.7 * n) for n in (1, 4, 8)]
    assert hosts[-len(OFFERS) :] == [*OFFERS]
