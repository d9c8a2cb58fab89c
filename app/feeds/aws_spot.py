"""Spot prices of AWS: the current price of each machine in each zone, from the spot price history of EC2.

Source: docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeSpotPriceHistory.html and
docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html, read 2026-11-27. Requests are
signed. The key is ACCESS_KEY_ID:SECRET_ACCESS_KEY of a user who may call ec2:DescribeSpotPriceHistory, with
:SESSION_TOKEN if the credentials are temporary.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from urllib.parse import quote, urlencode, urlsplit
from xml.etree import ElementTree as ET

from app.feeds import aws
from app.feeds.client import FeedError, read_pages
from app.feeds.prices import Feed, FetchedPart, RowReader, Source, StatedPrice, amount, day_of, text

MAX_PAGE_BYTES = 4 * 2**20  # of a page of 1,000 prices, which takes about 0.3 MB
SYSTEM = "Linux/UNIX"
NAMESPACE = "{http://ec2.amazonaws.com/doc/2016-11-15/}"
FIELDS = ("instanceType", "productDescription", "spotPrice", "timestamp")


def read_part(source: Source) -> FetchedPart | None:
    """Returns the current spot price of each machine of the catalog in each zone of a region."""
    known = {machine.instance_type for machine in source.machines}
    digest, prices = hashlib.sha256(), list[StatedPrice]()
    reader = RowReader(lambda row: convert(row, source.part, known))
    base, now = source.url.replace("{region}", source.part), datetime.now(UTC)

    def read_page(url: str) -> str | None:
        headers = sign_request(url, source.key, source.part, "ec2", datetime.now(UTC))
        fetched = source.client.fetch_whole(url, headers=headers, max_bytes=MAX_PAGE_BYTES)
        digest.update(fetched.sha256.encode())
        rows, token = parse_page(fetched.text())
        prices.extend(reader.read(rows))
        return page_url(base, now, token) if token else None

    read_pages(page_url(base, now), read_page)
    reader.finish()
    return FetchedPart(prices, "", digest.hexdigest())


def page_url(base: str, now: datetime, token: str = "") -> str:
    """Returns the address of the first page of the prices in force at a moment, or of the page of a token."""
    query = {
        "Action": "DescribeSpotPriceHistory",
        "MaxResults": "1000",
        "ProductDescription.1": SYSTEM,
        "StartTime": now.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "Version": "2016-11-15",
    } | ({"NextToken": token} if token else {})
    return f"{base}/?{urlencode(sorted(query.items()), quote_via=quote, safe='')}"


def sign_request(url: str, key: str, region: str, service: str, now: datetime) -> dict[str, str]:
    """Returns the headers that sign a GET by Signature Version 4. The parameters of the URL are sorted and encoded.

    Raises FeedError if the key has another form.
    """
    access_key, _, rest = key.partition(":")
    secret, _, token = rest.partition(":")
    if not access_key or not secret:
        raise FeedError("The key is not of the form ACCESS_KEY_ID:SECRET_ACCESS_KEY.")
    parts, moment = urlsplit(url), now.strftime("%Y%m%dT%H%M%SZ")
    scope = f"{moment[:8]}/{region}/{service}/aws4_request"
    signed = {"host": parts.netloc, "x-amz-date": moment} | ({"x-amz-security-token": token} if token else {})
    names = ";".join(sorted(signed))
    lines = "".join(f"{name}:{value}\n" for name, value in sorted(signed.items()))
    request = f"GET\n{parts.path or '/'}\n{parts.query}\n{lines}\n{names}\n{hashlib.sha256(b'').hexdigest()}"
    to_sign = f"AWS4-HMAC-SHA256\n{moment}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
    signing_key = f"AWS4{secret}".encode()
    for step in scope.split("/"):
        signing_key = hmac.digest(signing_key, step.encode(), "sha256")
    signature = hmac.digest(signing_key, to_sign.encode(), "sha256").hex()
    authorization = f"AWS4-HMAC-SHA256 Credential={access_key}/{scope}, SignedHeaders={names}, Signature={signature}"
    return {name: value for name, value in signed.items() if name != "host"} | {"authorization": authorization}


def parse_page(document: str) -> tuple[list[Mapping[str, str | None]], str]:
    """Returns the rows of a page and the token of the next one, which is empty on the last. Raises FeedError."""
    if "<!" in document:  # no declarations, so no entities
        raise FeedError("The answer is XML with declarations.")
    try:
        root = ET.fromstring(document)  # noqa: S314 - without declarations it holds no entities
    except ET.ParseError as error:
        raise FeedError("The answer is no XML.") from error
    found = root.find(f"{NAMESPACE}spotPriceHistorySet")
    if found is None:
        raise FeedError("The format has changed: spotPriceHistorySet is missing.")
    rows: list[Mapping[str, str | None]] = [
        {name: item.findtext(f"{NAMESPACE}{name}") for name in FIELDS} for item in found
    ]
    return rows, root.findtext(f"{NAMESPACE}nextToken") or ""


def convert(row: Mapping[str, str | None], region: str, known: set[str]) -> Iterator[StatedPrice]:
    """Yields the price of a row if it is a machine of the catalog with Linux."""
    machine, price = text(row["instanceType"]), amount(row["spotPrice"])
    if machine not in known or row["productDescription"] != SYSTEM:
        return
    yield StatedPrice(
        provider="aws",
        region=region,
        instance_type=machine,
        pricing_model="spot",
        usd_per_hour=price,
        effective_from=day_of(row["timestamp"]),
    )


FEED = Feed(
    name="aws-spot",
    url="https://ec2.{region}.amazonaws.com",
    parts=aws.REGIONS,
    read=read_part,
    needs_key=True,
    provider="aws",
)
