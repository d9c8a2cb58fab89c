"""What a feed may send to harm: huge, endless and slow answers, names for terminals, numbers for no column."""

from __future__ import annotations

import gzip
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import date
from typing import Any

import pytest

from app.catalog.observations import Observation, OfferKey
from app.catalog.snapshot import CatalogStore
from app.feeds import aws, client, gpuhunt, lambda_cloud, oci, prices, shadeform, skypilot, vast
from app.feeds.client import FeedError
from app.feeds.gate import KnownPrices, check_prices
from app.feeds.naming import FeedNames
from app.feeds.prices import FetchedPart, Source, StatedPrice, day_of, integer, ram_bytes_of, text
from app.sizing.columns import GIB
from tests.catalog.observed import observed
from tests.feeds import formats
from tests.feeds.formats import Reply, as_csv, as_json, local_client, serve

TODAY = date(2026, 11, 20)
L4 = OfferKey("aws", "us-east-1", "g6.xlarge", "nvidia-l4", 1.0, "on_demand")


@contextmanager
def drip(start: bytes, piece: bytes) -> Iterator[str]:
    """A server that sends a start, and then a piece every 50 ms without end."""
    listening, done = socket.create_server(("127.0.0.1", 0)), threading.Event()

    def send() -> None:
        connected, _ = listening.accept()
        with connected:
            connected.sendall(start)
            while not done.wait(0.05):
                try:
                    connected.sendall(piece)
                except OSError:
                    return

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/x"
    finally:
        done.set()
        thread.join()
        listening.close()


@pytest.mark.parametrize(
    "start", [b"", b"HTTP/1.1 200 OK\r\nx-long: ", b"HTTP/1.1 200 OK\r\n\r\n"], ids=["status", "headers", "body"]
)
def test_an_answer_that_drips_without_end_is_cut_off(start: bytes) -> None:
    with drip(start, b"H") as url, closing(local_client(deadline_s=0.3)) as fetching:
        began = time.monotonic()
        with pytest.raises(FeedError, match="took longer"):
            fetching.fetch(url)
        assert time.monotonic() - began < 5


def test_all_tries_of_an_answer_share_one_deadline() -> None:
    with (
        serve({"/busy": Reply(status=503)}) as server,
        closing(local_client(deadline_s=0.2, first_wait_s=0.3)) as fetching,
        pytest.raises(FeedError, match="took longer"),
    ):
        fetching.fetch(f"{server.url}/busy")


def test_a_small_answer_that_unpacks_to_a_large_one_is_cut_off() -> None:
    packed = gzip.compress(gzip.compress(b"0" * 3_000_000))
    reply = Reply(packed, headers={"content-encoding": "gzip, gzip"})
    with serve({"/bomb": reply}) as server, closing(local_client()) as fetching:
        assert len(packed) < 1000
        with pytest.raises(FeedError, match="larger than"):
            fetching.fetch(f"{server.url}/bomb", max_bytes=1_000_000)


def test_json_that_would_fill_the_memory_is_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "MAX_JSON_BYTES", 1000)
    with (
        serve({"/nested": Reply(b"[" * 900), "/wide": Reply(b"[" + b"[]," * 400 + b"0]")}) as server,
        closing(local_client()) as fetching,
    ):
        with pytest.raises(FeedError, match="no JSON"):
            fetching.fetch_whole(f"{server.url}/nested").json()
        with pytest.raises(FeedError, match="limit for JSON"):
            fetching.fetch_whole(f"{server.url}/wide").json()


def test_a_key_is_not_sent_to_another_server() -> None:
    with serve({"/key": Reply(b"gotten")}) as other, serve({}) as server, closing(local_client()) as fetching:
        server.routes["/moved"] = Reply(status=302, headers={"location": f"{other.url}/key"})
        server.routes["/here"] = Reply(status=302, headers={"location": "/key"})
        server.routes["/key"] = Reply(b"own")
        secret = {"authorization": "Bearer secret"}
        assert fetching.fetch_whole(f"{server.url}/moved", headers=secret).read() == b"gotten"
        assert fetching.fetch_whole(f"{server.url}/here", headers=secret).read() == b"own"
        assert "authorization" not in other.seen[0][1]
        assert server.seen[-1][1]["authorization"] == "Bearer secret"


def test_an_address_that_fills_the_memory_and_an_etag_that_fits_no_column_are_refused() -> None:
    with serve({"/etag": Reply(b"x", headers={"etag": "e" * 300})}) as server, closing(local_client()) as fetching:
        assert fetching.fetch_whole(f"{server.url}/etag").etag is None
        with pytest.raises(FeedError, match="longer than"):
            fetching.fetch(f"{server.url}/{'x' * 9000}")


@pytest.mark.parametrize("name", ["\x1b[2Jgone", "a\u202eb", "a\x00b", "\ud800", "x" * 121, "", " ", None, 7])
def test_names_that_no_column_or_terminal_takes_are_malformed(name: object) -> None:
    with pytest.raises(ValueError, match="no name"):
        text(name)


def test_spaces_of_names_are_single() -> None:
    assert text(" H100\u00a0 80GB\n") == "H100 80GB"


@pytest.mark.parametrize("number", ["1e300", -1, 10**7, "nan", float("inf"), True])
def test_numbers_that_no_machine_has_are_malformed(number: Any) -> None:
    for convert in (integer, lambda value: ram_bytes_of(value, GIB)):
        with pytest.raises(ValueError, match="no"):
            convert(number)
    assert (integer(""), integer(None), integer("8"), ram_bytes_of("", GIB)) == (None, None, 8, None)


def test_a_day_is_a_day_or_unknown() -> None:
    assert [day_of(v) for v in ("2026-10-01T00:00:00Z", "<script>al", "", None)] == ["2026-10-01", None, None, None]


def test_a_few_entries_cannot_state_millions_of_prices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prices, "MAX_PRICES", 100)
    types = {f"t{i}": formats.lambda_type(f"t{i}", 1, 300, "H100 (80 GB SXM5)", [f"r{i}"]) for i in range(20)}
    places = [{"region": f"r{i}", "available": True} for i in range(200)]
    for feed, path, document in (
        (lambda_cloud.FEED, "/api/v1/instance-types", {"data": types}),
        (
            shadeform.FEED,
            "/v1/instances/types",
            {"instance_types": [{**formats.SHADEFORM_TYPE, "availability": places}]},
        ),
    ):
        with (
            serve({path: as_json(document)}) as server,
            closing(local_client()) as fetching,
            pytest.raises(FeedError, match="more than"),
        ):
            feed.read(Source(fetching, server.url, feed.parts[0], key="secret"))


def test_a_file_of_one_line_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prices, "MAX_LINE_BYTES", 2000)
    line = formats.AWS_HEAD + "x" * 3000
    routes: dict[str, formats.Route] = {
        "/offers/v1.0/aws/AmazonEC2/current/us-east-1/index.csv": Reply(line.encode()),
        "/catalogs/v8/aws/vms.csv": Reply(b"x" * 3000),
        "/v3/aws/version": Reply(b"20261101-1"),
        "/v3/aws/20261101-1/catalog.zip": Reply(formats.zipped("aws", "x" * 3000)),
    }
    with serve(routes) as server, closing(local_client()) as fetching:
        for feed in (aws.FEED, skypilot.FEED, gpuhunt.FEED):
            with pytest.raises(FeedError, match="line is longer"):
                feed.read(Source(fetching, server.url, feed.parts[0]))


def test_local_zones_and_capacity_blocks_are_no_price_of_the_region() -> None:
    row = {**formats.AWS_ROW, "Location Type": "AWS Region", "MarketOption": "OnDemand"}
    zone = {**row, "Location Type": "AWS Local Zone", "PricePerUnit": "0.99"}
    block = {**row, "MarketOption": "CapacityBlock", "PricePerUnit": "0.01"}
    found = [price.usd_per_hour for each in (row, zone, block) for price in aws.convert(each, {"g6.xlarge"})]
    assert found == [0.81]


def test_a_free_zone_or_listing_hides_no_price() -> None:
    rows = [{**formats.SKYPILOT_ROW, "SpotPrice": price} for price in ("0", "0.35", "-1", "0.31")]
    routes: dict[str, formats.Route] = {
        "/catalogs/v8/aws/vms.csv": Reply(as_csv(rows).encode()),
        "/api/v0/bundles/": as_json({"offers": [{**formats.VAST_OFFER, "dph_base": p} for p in (0, -9.0, 0.31, 0.33)]}),
    }
    with serve(routes) as server, closing(local_client()) as fetching:
        part = skypilot.FEED.read(Source(fetching, server.url, "aws"))
        assert part is not None
        assert [p.usd_per_hour for p in part.prices if p.pricing_model == "spot"] == [0.31]
        part = vast.FEED.read(Source(fetching, server.url, "bundles"))
        assert part is not None
        (listed,) = (p for p in part.prices if p.pricing_model == "on_demand")
        assert listed.usd_per_hour == pytest.approx(0.32)
        assert listed.quantity == 2


def test_prices_in_another_currency_are_left_out() -> None:
    euros = formats.oci_item("B1", "Compute - GPU - L40S", "GPU Per Hour", [3.6])
    euros["currencyCodeLocalizations"][0]["currencyCode"] = "EUR"
    with (
        serve({"/pls/apex/cetools/api/v1/products/": as_json({"items": [euros]})}) as server,
        closing(local_client()) as fetching,
        pytest.raises(FeedError, match="malformed"),
    ):
        oci.FEED.read(Source(fetching, server.url, "products"))
    assert [*aws.convert({**formats.AWS_ROW, "Currency": "CNY"}, {"g6.xlarge"})] == []


def stated(usd: float, model: str = "on_demand", count: float = 1.0) -> StatedPrice:
    return StatedPrice("aws", "us-east-1", "g6.xlarge", "L4 24GB", count, model, usd, usd)


@pytest.mark.parametrize(
    ("model", "usd", "counts"), [("on_demand", (0.7, 0.9, 0.0), 0.9), ("spot", (0.3, 0.2, 0.0, -1.0, 0.4), 0.2)]
)
def test_of_several_prices_of_one_offer_the_order_does_not_matter(
    model: str, usd: tuple[float, ...], counts: float, catalog_store: CatalogStore
) -> None:
    names = FeedNames(catalog_store.directory())
    for order in (usd, usd[::-1]):
        part = FetchedPart([stated(each, model) for each in order], "1", "0")
        (found,) = names.to_observations(skypilot.FEED, part)[0]
        assert found.usd_per_hour == counts


def rules(known: KnownPrices, *observations: Observation) -> list[str]:
    return [each.rule for each in check_prices(observations, known, TODAY)[1]]


def test_many_small_changes_within_a_day_are_one_large_change() -> None:
    now, yesterday = {L4: (0.4, "2026-11-20")}, {L4: (0.8, "2026-11-19")}
    assert rules(KnownPrices(now, {}), observed(L4, 0.25)) == []
    assert rules(KnownPrices(now, {}, {}, yesterday), observed(L4, 0.25)) == ["day_change"]


def test_spot_is_not_compared_with_an_implausible_price() -> None:
    spot = L4._replace(pricing_model="spot")
    known = KnownPrices({L4: (0.8, "2026-11-19")}, {}, {"nvidia-l4": 0.8})
    assert rules(known, observed(spot, 0.9), observed(L4, 80.0)) == ["day_change", "above_on_demand"]


@pytest.mark.parametrize(("usd", "rule"), [(1e300, True), (501.0, True), (0.004, True), (499.0, False), (0.006, False)])
def test_a_type_without_any_price_has_bounds_too(usd: float, rule: bool) -> None:
    assert rules(KnownPrices({}, {}), observed(L4, usd)) == (["far_from_median"] if rule else [])


def test_a_type_with_few_prices_is_compared_with_its_other_pricing_models() -> None:
    known, spot = KnownPrices({}, {}, {"nvidia-l4": 0.8}), L4._replace(pricing_model="spot")
    assert rules(known, observed(spot, 0.09)) == []
    assert rules(known, observed(spot, 0.07)) == ["far_from_median"]
