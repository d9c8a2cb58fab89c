"""Each feed reads its own format: prices, units, terms, regions and capacity. Other rows are left out."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from app.feeds import aws, aws_spot, azure, gcp, gpuhunt, lambda_cloud, oci, runpod, shadeform, skypilot, vast
from app.feeds.aws_spot import sign_request
from app.feeds.client import FeedClient, FeedError
from app.feeds.prices import Feed, FetchedPart, Machine, Source, StatedPrice
from app.sizing.columns import GB, GIB
from tests.feeds import formats
from tests.feeds.formats import FeedServer, Reply, Route, as_json, serve

Summary = tuple[str, str, str, str, float, str, float]


@pytest.fixture
def client() -> Iterator[FeedClient]:
    made = formats.local_client()
    yield made
    made.close()


def read(client: FeedClient, server: FeedServer, feed: Feed, part: str | None = None, **how: Any) -> FetchedPart:
    fetched = feed.read(Source(client, server.url, part or feed.parts[0], **{"key": "secret", **how}))
    assert fetched is not None
    return fetched


def summary(price: StatedPrice) -> Summary:
    machine = price.instance_type, price.accelerator, price.count
    return price.provider, price.region, *machine, price.pricing_model, price.usd_per_hour


def summaries(part: FetchedPart) -> list[Summary]:
    return [summary(price) for price in part.prices]


def test_gpuhunt(client: FeedClient) -> None:
    with serve(formats.gpuhunt_routes()) as server:
        part = read(client, server, gpuhunt.FEED)
        assert summaries(part) == [
            ("aws", "us-east-1", "p5.48xlarge", "H100 80GB", 8.0, "on_demand", 56.0),
            ("aws", "us-east-1", "p5.48xlarge", "H100 80GB", 8.0, "spot", 21.5),
        ]
        assert part.version == "20261101-1"
        assert gpuhunt.FEED.read(Source(client, server.url, "aws", version="20261101-1")) is None
        with pytest.raises(FeedError, match="went back from 20261102-1 to 20261101-1"):
            gpuhunt.FEED.read(Source(client, server.url, "aws", version="20261102-1"))


def test_gpuhunt_invents_the_spot_prices_of_oci(client: FeedClient) -> None:
    row = {**formats.GPUHUNT_ROW, "instance_name": "BM.GPU.H100.8", "spot": "True"}
    with serve(formats.gpuhunt_routes("oci", [row])) as server:
        assert read(client, server, gpuhunt.FEED, "oci").prices == []


@pytest.mark.parametrize("damage", ["no archive", "other file", "column", "rows", "header"])
def test_a_changed_format_of_gpuhunt_is_refused(damage: str, client: FeedClient) -> None:
    routes, path = formats.gpuhunt_routes(), "/v3/aws/20261101-1/catalog.zip"
    text = formats.as_csv([formats.GPUHUNT_ROW])
    routes[path] = {
        "no archive": Reply(b"<html>"),
        "other file": Reply(formats.zipped("azure", text)),
        "column": Reply(formats.zipped("aws", text.replace("price", "cost"))),
        "rows": Reply(formats.zipped("aws", text.replace("56.0", "fifty"))),
        "header": Reply(formats.zipped("aws", "")),
    }[damage]
    with serve(routes) as server, pytest.raises(FeedError):
        read(client, server, gpuhunt.FEED)


def test_one_malformed_row_and_a_new_column_do_no_harm(client: FeedClient) -> None:
    rows = [{**formats.GPUHUNT_ROW, "location": f"us-{i}", "added": "1"} for i in range(40)]
    with serve(formats.gpuhunt_routes(rows=[{**rows[0], "price": "nan"}, *rows[1:]])) as server:
        assert len(read(client, server, gpuhunt.FEED).prices) == 39


def test_skypilot_states_the_prices_of_each_zone(client: FeedClient) -> None:
    with serve(formats.skypilot_routes()) as server:
        part = read(client, server, skypilot.FEED)
        assert summaries(part) == [
            ("aws", "us-east-1", "g6.xlarge", "L4", 1.0, model, usd)
            for model, usd in (("on_demand", 0.81), ("spot", 0.35), ("on_demand", 0.81), ("spot", 0.31))
        ]
        assert part.prices[0].ram_bytes == 16 * GIB
        assert skypilot.FEED.read(Source(client, server.url, "aws", etag=part.etag)) is None


def azure_server() -> dict[str, Route]:
    return formats.azure_routes(lambda: "")


def test_azure(client: FeedClient) -> None:
    with serve(azure_server()) as server:
        part = read(client, server, azure.FEED, "Consumption")
        name = "Standard_NC24ads_A100_v4"
        assert summaries(part) == [
            ("azure", "eastus", name, "", 0, "on_demand", 3.7),
            ("azure", "eastus", name, "", 0, "committed_1y", 2.7),
            ("azure", "eastus", name, "", 0, "committed_3y", 1.9),
            ("azure", "eastus", name, "", 0, "spot", 0.95),
        ]
        assert part.prices[0].effective_from == "2026-10-01"
        (year,) = read(client, server, azure.FEED, "Reservation").prices
        assert (year.pricing_model, year.native_amount) == ("reserved_1y", 2.4 * 8760)
        assert year.usd_per_hour == pytest.approx(2.4)


@pytest.mark.parametrize("link", ["/api/retail/prices?$skip=1", "http://other.example/api", 7])
def test_pages_that_repeat_leave_the_host_or_are_no_links_end_with_a_reason(link: Any, client: FeedClient) -> None:
    page = as_json({"Items": [formats.AZURE_ITEM], "NextPageLink": link})
    with (
        serve({"/api/retail/prices": page}) as server,
        pytest.raises(FeedError, match=r"do not end|another server|no text"),
    ):
        read(client, server, azure.FEED)


def test_pages_without_end_are_cut(client: FeedClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.feeds.client.MAX_PAGES", 20)

    def page(query: dict[str, list[str]]) -> Reply:
        following = int(query.get("$skip", ["0"])[0]) + 1
        link = f"/api/retail/prices?$skip={following}"
        return as_json({"Items": [formats.AZURE_ITEM], "NextPageLink": link})

    with serve({"/api/retail/prices": page}) as server, pytest.raises(FeedError, match="do not end"):
        read(client, server, azure.FEED)


L4_AT_AWS = Machine("g6.xlarge", "nvidia-l4", 1.0, 4, 16 * GIB)


def test_aws(client: FeedClient) -> None:
    with serve(formats.aws_routes()) as server:
        part = read(client, server, aws.FEED, machines=[L4_AT_AWS])
        assert summaries(part) == [
            ("aws", "us-east-1", "g6.xlarge", "", 0, "on_demand", 0.81),
            ("aws", "us-east-1", "g6.xlarge", "", 0, "reserved_1y", 0.52),
        ]
        assert (part.version, part.etag) == ("20261001000000", '"aws1"')


def test_aws_spot_prices_are_read_by_zone_with_signed_requests(client: FeedClient) -> None:
    with serve(formats.aws_spot_routes()) as server:
        part = read(client, server, aws_spot.FEED, machines=[L4_AT_AWS], key="AKID:secret:token")
        assert summaries(part) == [("aws", "us-east-1", "g6.xlarge", "", 0, "spot", usd) for usd in (0.31, 0.29)]
        assert part.prices[0].effective_from == "2026-11-09"
        assert [("NextToken=more%2Fpages%3D" in path) for path, _, _ in server.seen] == [False, True]
        for path, headers, _ in server.seen:
            moment = datetime.strptime(headers["x-amz-date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
            signed = sign_request(server.url + path, "AKID:secret:token", "us-east-1", "ec2", moment)
            assert {name: headers[name] for name in signed} == signed
            assert "secret" not in path + headers["authorization"]


@pytest.mark.parametrize(
    ("query", "signature"),
    [
        ("", "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
        ("?Param1=value1&Param2=value2", "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500"),
    ],
)
def test_requests_are_signed_as_in_the_test_suite_of_aws(query: str, signature: str) -> None:
    key, moment = "AKIDEXAMPLE:wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", datetime(2015, 8, 30, 12, 36, tzinfo=UTC)
    signed = sign_request(f"https://example.amazonaws.com/{query}", key, "us-east-1", "service", moment)
    assert signed["authorization"].endswith(
        f"/20150830/us-east-1/service/aws4_request, SignedHeaders=host;x-amz-date, Signature={signature}"
    )


@pytest.mark.parametrize(
    "reply",
    [
        Reply(b"<html/>"),
        Reply(b"no XML"),
        Reply(b'<!DOCTYPE x [<!ENTITY y "z">]><x>&y;</x>'),
        formats.aws_spot_page(),
        formats.aws_spot_page("<item/>"),
        formats.aws_spot_page(formats.aws_spot_item("g6.xlarge", "cheap")),
        formats.aws_spot_page(formats.aws_spot_item("g6.xlarge", "0.3"), token="same"),
        Reply(status=401),
    ],
    ids=["html", "text", "entities", "empty", "fields", "price", "endless", "refused"],
)
def test_another_spot_price_history_is_refused(reply: Reply, client: FeedClient) -> None:
    with serve({"/": reply}) as server, pytest.raises(FeedError):
        read(client, server, aws_spot.FEED, machines=[L4_AT_AWS], key="AKID:secret")


def test_a_key_without_a_secret_is_refused_before_a_request(client: FeedClient) -> None:
    with serve({}) as server, pytest.raises(FeedError, match="ACCESS_KEY_ID"):
        read(client, server, aws_spot.FEED, key="AKID")
    assert not server.requests


def test_gcp_adds_cores_memory_and_accelerators(client: FeedClient) -> None:
    machine = Machine("g2-standard-4", "nvidia-l4", 1.0, 4, 16 * GIB)
    with serve(formats.gcp_routes()) as server:
        part = read(client, server, gcp.FEED, machines=[machine])
        on_demand, spot = part.prices
        assert on_demand.usd_per_hour == pytest.approx(4 * 0.025 + 16 * 0.003 + 0.56)
        assert spot.usd_per_hour == pytest.approx(4 * 0.010 + 16 * 0.001 + 0.22)
        assert (on_demand.region, spot.pricing_model) == ("us-central1", "spot")
        assert all("secret" not in path for path, _, _ in server.seen)
        assert server.seen[0][1]["x-goog-api-key"] == "secret"


def test_gcp_adds_the_local_disks_of_a_machine_by_the_month(client: FeedClient) -> None:
    machine = Machine("a3-highgpu-8g", "nvidia-h100-sxm5-80gb", 8.0, 208, 1872 * GIB, 6000 * GB)
    skus = [
        formats.gcp_sku("A3 Instance Core running in Americas", "0", 30_000_000),
        formats.gcp_sku("A3 Instance Ram running in Americas", "0", 3_000_000),
        formats.gcp_sku("Nvidia H100 80GB GPU running in Americas", "9", 500_000_000),
        formats.gcp_sku("Nvidia H100 80GB GPU attached to DWS Defined Duration VMs running in Americas", "5", 0),
        formats.gcp_sku("Reserved Nvidia H100 80GB GPU in Calendar Mode running in Americas", "4", 0),
        formats.gcp_sku("Nvidia H100 80GB Mega GPU running in Americas", "8", 0),
        formats.gcp_sku("SSD backed Local Storage", "0", 80_000_000, per="GiBy.mo"),
    ]
    path = "/v1/services/6F81-5844-456A/skus"
    with serve({path: as_json({"skus": skus})}) as server:
        (price,) = read(client, server, gcp.FEED, machines=[machine]).prices
        assert price.usd_per_hour == pytest.approx(208 * 0.03 + 1872 * 0.003 + 8 * 9.5 + 6000 * 0.08 / 730)
        # A price by the second or by the byte is another unit: no machine has a price without it.
        server.routes[path] = as_json(
            {
                "skus": [
                    *skus[1:],
                    *[skus[3]] * 20,
                    formats.gcp_sku("A3 Instance Core running in Americas", "0", 30_000_000, per="s"),
                ]
            }
        )
        assert read(client, server, gcp.FEED, machines=[machine]).prices == []


def test_oci_takes_the_last_tier_that_is_not_free(client: FeedClient) -> None:
    with serve(formats.oci_routes()) as server:
        part = read(client, server, oci.FEED)
        assert summaries(part) == [("oci", "global", "B109479", "L40S", 1, "on_demand", 3.6)]


def test_lambda_is_sold_out_where_a_type_does_not_name_the_region(client: FeedClient) -> None:
    with serve(formats.lambda_routes()) as server:
        part = read(client, server, lambda_cloud.FEED)
        assert summaries(part) == [
            ("lambda", "us-south-1", "gpu_8x_h100_sxm5", "H100 (80 GB SXM5)", 8.0, "on_demand", 32.0),
            ("lambda", "us-south-1", "gpu_1x_gh200", "GH200 (96 GB)", 1.0, "on_demand", 2.29),
        ]
        assert [price.state for price in part.prices] == ["available", "none"]
        assert server.seen[0][1]["authorization"] == "Bearer secret"


def test_runpod_prices_are_per_accelerator_and_community_is_a_marketplace(client: FeedClient) -> None:
    with serve(formats.runpod_routes()) as server:
        part = read(client, server, runpod.FEED)
        assert [(p.pricing_model, p.tier, p.usd_per_hour, p.state) for p in part.prices] == [
            ("on_demand", "standard", 3.29, "low"),
            ("on_demand", "marketplace", 2.69, "low"),
            ("spot", "standard", 1.75, "low"),
            ("on_demand", "standard", 0.44, "none"),
        ]
    with (
        serve({"/graphql": as_json({"data": None, "errors": [{"message": "no"}]})}) as server,
        pytest.raises(FeedError, match="errors"),
    ):
        read(client, server, runpod.FEED)


def test_vast_listings_are_summed_up_by_machine_and_country(client: FeedClient) -> None:
    with serve(formats.vast_routes()) as server:
        part = read(client, server, vast.FEED)
        assert summaries(part) == [
            ("vast", "DE", "1x RTX 4090", "RTX 4090 24GB", 1.0, "on_demand", 0.33),
            ("vast", "DE", "1x RTX 4090", "RTX 4090 24GB", 1.0, "spot", 0.18),
        ]
        assert [price.quantity for price in part.prices] == [3, 2]


def test_shadeform_states_capacity_by_region(client: FeedClient) -> None:
    with serve(formats.shadeform_routes()) as server:
        part = read(client, server, shadeform.FEED)
        assert [(p.region, p.usd_per_hour, p.state) for p in part.prices] == [
            ("exampleville-ex-1", 23.99, "available"),
            ("othertown-ex-2", 23.99, "none"),
        ]
        assert part.prices[0].accelerator == "H100 80GB sxm5"


@pytest.mark.parametrize(
    ("feed", "path"),
    [
        (azure.FEED, "/api/retail/prices"),
        (oci.FEED, "/pls/apex/cetools/api/v1/products/"),
        (gcp.FEED, "/v1/services/6F81-5844-456A/skus"),
        (lambda_cloud.FEED, "/api/v1/instance-types"),
        (runpod.FEED, "/graphql"),
        (vast.FEED, "/api/v0/bundles/"),
        (shadeform.FEED, "/v1/instances/types"),
    ],
)
@pytest.mark.parametrize("document", [[], {}, {"error": "moved"}, 7, None, "text"])
def test_another_document_is_a_changed_format(feed: Feed, path: str, document: object, client: FeedClient) -> None:
    with serve({path: as_json(document)}) as server, pytest.raises(FeedError):
        read(client, server, feed)
