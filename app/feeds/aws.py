"""AWS's bulk price list: one large CSV of EC2 per region.

Source: docs.aws.amazon.com/awsaccountbilling/latest/aboutv2/using-the-aws-price-list-bulk-api.html, read 2026-11-25.
On demand, and standard reservations without an upfront payment, of shared Linux machines. The list has no capacity
blocks; spot prices are a feed of their own, because only signed requests get them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain, islice

from app.feeds.client import FeedError
from app.feeds.prices import (
    Feed,
    FetchedPart,
    Source,
    StatedPrice,
    amount,
    csv_rows,
    day_of,
    read_all,
    text,
    text_lines,
)

METADATA_LINES = 5
HEAD = (b'"FormatVersion"', b'"Disclaimer"', b'"Publication Date"', b'"Version"', b'"OfferCode"', b'"SKU"')
MAX_FILE_BYTES = 2 * 2**30
COLUMNS = (
    "TermType",
    "PricePerUnit",
    "Unit",
    "Currency",
    "EffectiveDate",
    "LeaseContractLength",
    "PurchaseOption",
    "OfferingClass",
    "Region Code",
    "Instance Type",
    "Tenancy",
    "Operating System",
    "CapacityStatus",
    "Pre Installed S/W",
)
REGION = "AWS Region"
LENGTHS = {"1yr": "reserved_1y", "3yr": "reserved_3y"}


def read_part(source: Source) -> FetchedPart | None:
    """Returns the prices of one region; None if its file has not changed."""
    url = f"{source.url}/offers/v1.0/aws/AmazonEC2/current/{source.part}/index.csv"
    fetched = source.client.fetch(url, etag=source.etag, max_bytes=MAX_FILE_BYTES, keep_line=is_wanted)
    if fetched is None:
        return None
    lines = text_lines(fetched.file)
    try:
        head = list(islice(lines, METADATA_LINES))
        version = next(
            (text(line.split(",", 1)[1].strip('"\r\n')) for line in head if line.startswith('"Version"')), ""
        )
        header = next(lines, "")
    except (ValueError, IndexError) as error:
        raise FeedError("The answer is no AWS price list.") from error
    known = {machine.instance_type for machine in source.machines}
    prices = read_all(csv_rows(chain([header], lines), COLUMNS), lambda row: convert(row, known))
    return FetchedPart(prices, version, fetched.sha256, fetched.etag)


def is_wanted(line: bytes) -> bool:
    """Returns whether a line of the file is of a shared Linux machine, or before the rows. The others are most of the
    hundreds of MB of a region, which would fill a temporary directory in memory.
    """
    return (b'"Linux"' in line and b'"Shared"' in line) or line.startswith(HEAD)


def convert(row: Mapping[str, str], known: set[str]) -> Iterator[StatedPrice]:
    """Yields the price of a row if it is a shared Linux machine of the catalog without other software, in a region and
    not in a local zone, which has prices of its own, and not of a capacity block.
    """
    plain = row["Pre Installed S/W"] in ("", "NA") and row["CapacityStatus"] == "Used"
    if row.get("Location Type", REGION) != REGION or row.get("MarketOption") not in (None, "", "OnDemand"):
        return
    if row["Instance Type"] not in known or not plain or row["Tenancy"] != "Shared" or row["Unit"] != "Hrs":
        return
    if row["Operating System"] != "Linux" or row["Currency"] != "USD" or not row["PricePerUnit"]:
        return
    if row["TermType"] == "Reserved":
        if (row["PurchaseOption"], row["OfferingClass"]) != ("No Upfront", "standard"):
            return
        model = LENGTHS[row["LeaseContractLength"]]
    else:
        model = {"OnDemand": "on_demand"}[row["TermType"]]
    price = amount(row["PricePerUnit"])
    yield StatedPrice(
        provider="aws",
        region=text(row["Region Code"]),
        instance_type=text(row["Instance Type"]),
        pricing_model=model,
        usd_per_hour=price,
        effective_from=day_of(row["EffectiveDate"]),
    )


REGIONS = ("us-east-1", "us-east-2", "us-west-2", "eu-central-1", "eu-west-1", "eu-west-2", "ap-northeast-1")
FEED = Feed(name="aws", url="https://pricing.us-east-1.amazonaws.com", parts=REGIONS, read=read_part, provider="aws")
