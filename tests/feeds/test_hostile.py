"""What a feed may send to harm: huge and slow answers, names for terminals, numbers for no column."""

from __future__ import annotations

import gzip
from contextlib import closing
from typing import Any

import pytest

from app.feeds import aws, client, gpuhunt, lambda_cloud, oci, prices, shadeform, skypilot, vast
from app.feeds.client import FeedError
from app.feeds.prices import Source, day_of, integer, ram_bytes_of, text
from app.sizing.columns import GIB
from tests.feeds import formats
from tests.feeds.formats import Reply, as_json, local_client, serve


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


def test_no_part_of_a_name_has_control_characters() -> None:
    about = {**formats.SHADEFORM_TYPE["configuration"], "interconnect": "\x1b[2Jsxm5"}
    with pytest.raises(ValueError, match="no name"):
        [*shadeform.convert({**formats.SHADEFORM_TYPE, "configuration": about})]


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
    for module in (client, prices):
        monkeypatch.setattr(module, "MAX_LINE_BYTES", 2000)
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


def test_a_free_listing_hides_no_price() -> None:
    listings = [{**formats.VAST_OFFER, "dph_base": price} for price in (0, -9.0, 0.31, 0.33)]
    with serve({"/api/v0/bundles/": as_json({"offers": listings})}) as server, closing(local_client()) as fetching:
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
