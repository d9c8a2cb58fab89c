"""A local server that speaks the format of each price feed with values of our own, and its faults."""

from __future__ import annotations

import csv
import io
import json
import threading
import time
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_network
from typing import Any
from urllib.parse import parse_qs, urlsplit

from app.feeds.client import FeedClient

LOOPBACK = (ip_network("127.0.0.0/8"),)


@dataclass
class Reply:
    """One answer. `cut` bytes of the body are not sent; each piece of `drip_s` takes that long."""

    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    cut: int = 0
    drip_s: float = 0.0


Route = Reply | list[Reply] | Callable[[dict[str, list[str]]], Reply]


class FeedServer:
    """Answers by path; of a list of replies, each is sent once and the last one from then on."""

    def __init__(self, routes: dict[str, Route]) -> None:
        self.routes, self.requests = routes, Counter[str]()
        self.seen: list[tuple[str, dict[str, str], bytes]] = []
        self.url = ""

    def reply_to(self, path: str, headers: dict[str, str], body: bytes) -> Reply:
        parts = urlsplit(path)
        self.seen.append((path, headers, body))
        self.requests[parts.path] += 1
        route = self.routes.get(parts.path, Reply(status=404))
        if isinstance(route, list):
            route = route[min(self.requests[parts.path], len(route)) - 1]
        reply = route if isinstance(route, Reply) else route(parse_qs(parts.query))
        if "etag" in reply.headers and headers.get("if-none-match") == reply.headers["etag"]:
            return Reply(status=304)
        return reply


@contextmanager
def serve(routes: dict[str, Route]) -> Iterator[FeedServer]:
    """Serves routes on a free port of the loopback address."""
    state = FeedServer(routes)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            reply = state.reply_to(self.path, {k.lower(): v for k, v in self.headers.items()}, body)
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            if reply.status != 304:
                self.send_header("content-length", str(len(reply.body)))
            self.end_headers()
            sent = reply.body[: len(reply.body) - reply.cut]
            try:
                piece = 64 if reply.drip_s else max(1, len(sent))
                for start in range(0, len(sent), piece):
                    self.wfile.write(sent[start : start + piece])
                    time.sleep(reply.drip_s)
            except OSError:  # the client has given up
                self.close_connection = True
            if reply.cut:
                self.close_connection = True

        do_GET = do_POST = answer  # noqa: N815 - names of the standard library

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        state.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield state
        finally:
            server.shutdown()
            thread.join()


def local_client(**how: Any) -> FeedClient:
    """A client that may reach the loopback address and hardly waits between tries."""
    return FeedClient(**{"networks": LOOPBACK, "first_wait_s": 0.001, "read_s": 2.0, **how})


def as_json(document: object, **headers: str) -> Reply:
    return Reply(json.dumps(document).encode(), headers={"content-type": "application/json", **headers})


def as_csv(rows: list[dict[str, Any]], before: str = "", **how: Any) -> str:
    """A CSV file of rows with equal columns."""
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]), **how)
    writer.writeheader()
    writer.writerows(rows)
    return before + out.getvalue()


GPUHUNT_ROW = {
    "instance_name": "p5.48xlarge",
    "location": "us-east-1",
    "price": "56.0",
    "cpu": "192",
    "memory": "2048.0",
    "gpu_count": "8",
    "gpu_name": "H100",
    "gpu_memory": "80.0",
    "spot": "False",
    "disk_size": "",
    "gpu_vendor": "nvidia",
    "flags": "",
    "cpu_arch": "x86",
    "provider_data": "{}",
}


def zipped(provider: str, text: str) -> bytes:
    """A ZIP archive of one CSV."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(f"{provider}.csv", text)
    return out.getvalue()


def gpuhunt_routes(
    provider: str = "aws", rows: list[dict[str, Any]] | None = None, version: str = "20261101-1"
) -> dict[str, Route]:
    rows = rows or [
        GPUHUNT_ROW,
        {**GPUHUNT_ROW, "price": "21.5", "spot": "True"},
        {**GPUHUNT_ROW, "instance_name": "m9.large", "gpu_count": "0", "gpu_name": "", "gpu_memory": ""},
    ]
    return {
        f"/v3/{provider}/version": Reply(f"{version}\n".encode()),
        f"/v3/{provider}/{version}/catalog.zip": Reply(zipped(provider, as_csv(rows))),
    }


SKYPILOT_ROW = {
    "InstanceType": "g6.xlarge",
    "AcceleratorName": "L4",
    "AcceleratorCount": "1.0",
    "vCPUs": "4.0",
    "MemoryGiB": "16.0",
    "GpuInfo": "{'Gpus': [{'Name': 'L4'}]}",
    "Price": "0.81",
    "SpotPrice": "0.35",
    "Region": "us-east-1",
    "AvailabilityZone": "use1-az1",
}


def skypilot_routes(cloud: str = "aws", rows: list[dict[str, Any]] | None = None) -> dict[str, Route]:
    rows = rows or [
        SKYPILOT_ROW,
        {**SKYPILOT_ROW, "SpotPrice": "0.31", "AvailabilityZone": "use1-az2"},
        {**SKYPILOT_ROW, "InstanceType": "m9.xlarge", "AcceleratorName": "", "AcceleratorCount": ""},
        {**SKYPILOT_ROW, "InstanceType": "p5e.48xlarge", "AcceleratorName": "H200", "AcceleratorCount": "8.0"}
        | {"Price": "", "SpotPrice": ""},
    ]
    return {f"/catalogs/v8/{cloud}/vms.csv": Reply(as_csv(rows).encode(), headers={"etag": '"sky1"'})}


AZURE_ITEM: dict[str, Any] = {
    "currencyCode": "USD",
    "tierMinimumUnits": 0.0,
    "retailPrice": 3.7,
    "unitPrice": 3.7,
    "armRegionName": "eastus",
    "effectiveStartDate": "2026-10-01T00:00:00Z",
    "meterId": "11111111-2222-3333-4444-555555555501",
    "meterName": "NC24adsA100v4",
    "productName": "NCads A100 v4 Series Linux",
    "skuId": "DZH318Z0EXA1/0001",
    "skuName": "Standard_NC24ads_A100_v4",
    "serviceName": "Virtual Machines",
    "unitOfMeasure": "1 Hour",
    "type": "Consumption",
    "isPrimaryMeterRegion": True,
    "armSkuName": "Standard_NC24ads_A100_v4",
    "savingsPlan": [
        {"unitPrice": 2.7, "retailPrice": 2.7, "term": "1 Year"},
        {"unitPrice": 1.9, "retailPrice": 1.9, "term": "3 Years"},
    ],
}
AZURE_SPOT = {key: value for key, value in AZURE_ITEM.items() if key != "savingsPlan"} | {
    "skuName": "Standard_NC24ads_A100_v4 Spot",
    "retailPrice": 0.95,
}
AZURE_YEAR = {**AZURE_SPOT, "skuName": "NC24adsA100v4", "type": "Reservation", "reservationTerm": "1 Year"} | {
    "retailPrice": 2.4 * 8760
}
AZURE_OTHERS = (
    {**AZURE_ITEM, "productName": "NCads A100 v4 Series Windows", "retailPrice": 4.9},
    {**AZURE_ITEM, "productName": "NCads A100 v4 Series Win", "retailPrice": 4.9},
    {**AZURE_ITEM, "skuName": "Standard_NC24ads_A100_v4 Low Priority", "retailPrice": 0.8},
    {**AZURE_ITEM, "productName": "NCads A100 v4 Dedicated Host", "retailPrice": 9.9},
    {**AZURE_ITEM, "isPrimaryMeterRegion": False, "retailPrice": 3.9},
)


def azure_routes(url: Callable[[], str]) -> dict[str, Route]:
    def page(query: dict[str, list[str]]) -> Reply:
        if "'Reservation'" in query["$filter"][0]:
            return as_json({"Items": [AZURE_YEAR], "NextPageLink": None, "Count": 1})
        if "$skip" not in query:
            link = f"{url()}/api/retail/prices?$filter=x&$skip=2"
            return as_json({"Items": [AZURE_ITEM, AZURE_OTHERS[0]], "NextPageLink": link, "Count": 2})
        return as_json({"Items": [AZURE_SPOT, *AZURE_OTHERS], "NextPageLink": None, "Count": 6})

    return {"/api/retail/prices": page}


AWS_ROW = {
    "SKU": "EXAMPLESKU000001",
    "TermType": "OnDemand",
    "EffectiveDate": "2026-10-01",
    "Unit": "Hrs",
    "PricePerUnit": "0.8100000000",
    "Currency": "USD",
    "LeaseContractLength": "",
    "PurchaseOption": "",
    "OfferingClass": "",
    "Region Code": "us-east-1",
    "Instance Type": "g6.xlarge",
    "Tenancy": "Shared",
    "Operating System": "Linux",
    "CapacityStatus": "Used",
    "Pre Installed S/W": "NA",
}
AWS_YEAR = {**AWS_ROW, "TermType": "Reserved", "LeaseContractLength": "1yr", "OfferingClass": "standard"}
AWS_ROWS = (
    AWS_ROW,
    {**AWS_YEAR, "PurchaseOption": "No Upfront", "PricePerUnit": "0.52"},
    {**AWS_YEAR, "PurchaseOption": "All Upfront", "PricePerUnit": "0"},
    {**AWS_YEAR, "PurchaseOption": "All Upfront", "PricePerUnit": "4000", "Unit": "Quantity"},
    {**AWS_ROW, "Operating System": "Windows", "PricePerUnit": "0.99"},
    {**AWS_ROW, "Tenancy": "Dedicated", "PricePerUnit": "0.89"},
    {**AWS_ROW, "CapacityStatus": "UnusedCapacityReservation"},
    {**AWS_ROW, "Pre Installed S/W": "SQL Std", "PricePerUnit": "1.5"},
    {**AWS_ROW, "Instance Type": "m9.large", "PricePerUnit": "0.1"},
    {**AWS_ROW, "Instance Type": "p5e.48xlarge", "PricePerUnit": ""},
)
AWS_HEAD = (
    '"FormatVersion","v1.0"\r\n"Disclaimer","sample"\r\n"Publication Date","2026-10-01T00:00:00Z"\r\n'
    '"Version","20261001000000"\r\n"OfferCode","AmazonEC2"\r\n'
)


def aws_routes(region: str = "us-east-1", rows: tuple[dict[str, str], ...] = AWS_ROWS) -> dict[str, Route]:
    body = as_csv(list(rows), AWS_HEAD, quoting=csv.QUOTE_ALL).encode()
    return {f"/offers/v1.0/aws/AmazonEC2/current/{region}/index.csv": Reply(body, headers={"etag": '"aws1"'})}


def aws_spot_item(machine: str, price: str, zone: str = "a", product: str = "Linux/UNIX") -> str:
    return (
        f"<item><instanceType>{machine}</instanceType><productDescription>{product}</productDescription>"
        f"<spotPrice>{price}</spotPrice><timestamp>2026-11-09T23:10:00.000Z</timestamp>"
        f"<availabilityZone>us-east-1{zone}</availabilityZone></item>"
    )


def aws_spot_page(*items: str, token: str = "") -> Reply:
    body = (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        '<DescribeSpotPriceHistoryResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">'
        f"<requestId>1</requestId><spotPriceHistorySet>{''.join(items)}</spotPriceHistorySet>"
        f"<nextToken>{token}</nextToken></DescribeSpotPriceHistoryResponse>"
    )
    return Reply(body.encode(), headers={"content-type": "text/xml;charset=UTF-8"})


def aws_spot_routes() -> dict[str, Route]:
    def page(query: dict[str, list[str]]) -> Reply:
        if "NextToken" not in query:
            others = aws_spot_item("m9.large", "0.02"), aws_spot_item("g6.xlarge", "0.5", product="Windows")
            return aws_spot_page(aws_spot_item("g6.xlarge", "0.3100"), *others, token="more/pages=")
        return aws_spot_page(aws_spot_item("g6.xlarge", "0.2900", "b"))

    return {"/": page}


def gcp_sku(description: str, units: str, nanos: int, usage: str = "OnDemand", per: str = "") -> dict[str, Any]:
    per = per or ("GiBy.h" if " Ram " in description else "h")
    tier = {"startUsageAmount": 0, "unitPrice": {"currencyCode": "USD", "units": units, "nanos": nanos}}
    return {
        "description": description,
        "category": {"resourceFamily": "Compute", "usageType": usage},
        "serviceRegions": ["us-central1"],
        "pricingInfo": [
            {"pricingExpression": {"usageUnit": per, "tieredRates": [tier]}, "effectiveTime": "2026-10-01T00:00:00Z"}
        ],
    }


GCP_SKUS = (
    gcp_sku("G2 Instance Core running in Iowa", "0", 25_000_000),
    gcp_sku("G2 Instance Ram running in Iowa", "0", 3_000_000),
    gcp_sku("Nvidia L4 GPU running in Iowa", "0", 560_000_000),
    gcp_sku("Spot Preemptible G2 Instance Core running in Iowa", "0", 10_000_000, "Preemptible"),
    gcp_sku("Spot Preemptible G2 Instance Ram running in Iowa", "0", 1_000_000, "Preemptible"),
    gcp_sku("Nvidia L4 GPU attached to DWS Defined Duration VMs running in Iowa", "0", 300_000_000),
    gcp_sku("Commitment v1: Nvidia L4 GPU running in Iowa for 1 Year", "0", 350_000_000, "Commit1Yr"),
)


def gcp_routes() -> dict[str, Route]:
    def page(query: dict[str, list[str]]) -> Reply:
        if "pageToken" not in query:
            return as_json({"skus": list(GCP_SKUS[:2]), "nextPageToken": "more"})
        spot = gcp_sku("Nvidia L4 GPU attached to Spot Preemptible VMs running in Iowa", "0", 220_000_000)
        return as_json({"skus": [*GCP_SKUS[2:], spot], "nextPageToken": ""})

    return {"/v1/services/6F81-5844-456A/skus": page}


def oci_item(part: str, name: str, metric: str, values: list[float]) -> dict[str, Any]:
    prices = [{"model": "PAY_AS_YOU_GO", "value": value} for value in values]
    localized = [{"currencyCode": "USD", "prices": prices}]
    return {"partNumber": part, "displayName": name, "metricName": metric, "currencyCodeLocalizations": localized}


def oci_routes() -> dict[str, Route]:
    def page(query: dict[str, list[str]]) -> Reply:
        if "offset" not in query:
            link = {"rel": "next", "href": "/pls/apex/cetools/api/v1/products/?currencyCode=USD&offset=1"}
            first = oci_item("B109479", "Compute - GPU - L40S", "GPU Per Hour", [0, 3.6])
            return as_json({"items": [first], "links": [link], "hasMore": True})
        other = oci_item("B900002", "Compute - Standard - OCPU", "OCPU Per Hour", [0.03])
        return as_json({"items": [other], "links": [], "hasMore": False})

    return {"/pls/apex/cetools/api/v1/products/": page}


def lambda_type(name: str, gpus: int, cents: int, description: str, regions: list[str]) -> dict[str, Any]:
    specs = {"vcpus": 26 * gpus, "memory_gib": 225 * gpus, "storage_gib": 2816 * gpus, "gpus": gpus}
    about = {"name": name, "gpu_description": description, "price_cents_per_hour": cents, "specs": specs}
    places = [{"name": region, "description": region} for region in regions]
    return {"instance_type": about, "regions_with_capacity_available": places}


LAMBDA_TYPES = {
    "gpu_8x_h100_sxm5": lambda_type("gpu_8x_h100_sxm5", 8, 3200, "H100 (80 GB SXM5)", ["us-south-1"]),
    "gpu_1x_gh200": lambda_type("gpu_1x_gh200", 1, 229, "GH200 (96 GB)", []),
}


def lambda_routes() -> dict[str, Route]:
    return {"/api/v1/instance-types": as_json({"data": LAMBDA_TYPES})}


RUNPOD_TYPE: dict[str, Any] = {
    "id": "NVIDIA H100 80GB HBM3",
    "displayName": "H100 SXM",
    "memoryInGb": 80,
    "securePrice": 3.29,
    "communityPrice": 2.69,
    "secureSpotPrice": 1.75,
    "communitySpotPrice": 0,
    "lowestPrice": {"stockStatus": "Low"},
}


def runpod_routes() -> dict[str, Route]:
    other = {**RUNPOD_TYPE, "id": "NVIDIA L4", "displayName": "L4", "securePrice": 0.44, "communityPrice": None}
    other |= {"secureSpotPrice": None, "communitySpotPrice": None, "lowestPrice": {"stockStatus": None}}
    return {"/graphql": as_json({"data": {"gpuTypes": [RUNPOD_TYPE, other]}})}


VAST_OFFER: dict[str, Any] = {
    "id": 9000001,
    "gpu_name": "RTX 4090",
    "num_gpus": 1,
    "gpu_ram": 24564,
    "cpu_cores": None,
    "dph_base": 0.31,
    "min_bid": 0.18,
    "geolocation": "Exampletown, DE",
}


def vast_routes() -> dict[str, Route]:
    others = ({**VAST_OFFER, "id": 2, "dph_base": 0.41}, {**VAST_OFFER, "id": 3, "dph_base": 0.33, "min_bid": None})
    return {"/api/v0/bundles/": as_json({"offers": [VAST_OFFER, *others]})}


SHADEFORM_TYPE: dict[str, Any] = {
    "cloud": "examplecloud",
    "shade_instance_type": "H100_sxm5x8",
    "cloud_instance_type": "gpu-h100-8",
    "hourly_price": 2399,
    "configuration": {"gpu_type": "H100", "num_gpus": 8, "vram_per_gpu_in_gb": 80, "vcpus": 128, "memory_in_gb": 1600}
    | {"interconnect": "sxm5"},
    "availability": [
        {"region": "exampleville-ex-1", "available": True, "display_name": "EX"},
        {"region": "othertown-ex-2", "available": False, "display_name": "EX"},
    ],
}


def shadeform_routes() -> dict[str, Route]:
    return {"/v1/instances/types": as_json({"instance_types": [SHADEFORM_TYPE]})}
