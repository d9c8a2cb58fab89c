"""What a feed states: prices with the feed's own names, in parts that are fetched on their own."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import IO, Any, Generic, TypeVar

from app.feeds.client import LONG_LINE, MAX_LINE_BYTES, FeedClient, FeedError

MAX_MALFORMED_SHARE = 0.05  # of the rows of a part; more mean that the format has changed
MAX_PRICES = 250_000  # of a part; the largest feeds state about a fifth of that
MAX_NAME_CHARACTERS = 120
MAX_INTEGER = 10**6
MAX_RAM_BYTES = 1e15
INSTANCE_HOUR, ACCELERATOR_HOUR = "instance_hour", "accelerator_hour"


@dataclass(frozen=True, slots=True)
class StatedPrice:
    """One price of a feed, for the whole machine and hour, with the names of the feed."""

    provider: str
    region: str
    instance_type: str
    pricing_model: str
    usd_per_hour: float
    accelerator: str = ""  # name in the feed; empty if only the instance type tells
    count: float = 0
    native_amount: float | None = None  # what the feed states; None: the price per hour
    basis: str = INSTANCE_HOUR
    effective_from: str | None = None
    vcpus: int | None = None
    ram_bytes: float | None = None
    tier: str = "standard"
    state: str | None = None
    quantity: int | None = None


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine of a provider as the catalog describes it."""

    instance_type: str
    accelerator: str
    count: float
    vcpus: int | None
    ram_bytes: float | None
    storage_bytes: float | None = None  # of local disks


@dataclass(frozen=True, slots=True)
class Source:
    """Where one part of a feed is read, and version and ETag of the last read."""

    client: FeedClient
    url: str
    part: str
    key: str = ""
    etag: str | None = None
    version: str = ""  # of the last read
    machines: Sequence[Machine] = ()  # of the provider whose own feed this is


@dataclass(frozen=True, slots=True)
class FetchedPart:
    """The prices of one part, with the version and digest of what was read."""

    prices: list[StatedPrice]
    version: str
    sha256: str
    etag: str | None = None


@dataclass(frozen=True, slots=True)
class Feed:
    """A source of prices. `read` returns None if a part has not changed."""

    name: str
    url: str
    parts: tuple[str, ...]
    read: Callable[[Source], FetchedPart | None]
    needs_key: bool = False
    aggregate: bool = False
    provider: str = ""  # whose machines `read` needs to know


T = TypeVar("T")


class RowReader(Generic[T]):
    """Converts rows to prices, skips malformed ones, and raises FeedError if too many are."""

    def __init__(self, convert: Callable[[Any], Iterable[T]]) -> None:
        self._convert, self._rows, self._malformed, self._prices = convert, 0, 0, 0

    def read(self, rows: Iterable[Any]) -> Iterator[T]:
        """Yields the prices of rows. Raises FeedError above MAX_PRICES."""
        for row in rows:
            self._rows += 1
            try:
                made = list(limit_prices(self._convert(row), MAX_PRICES - self._prices))
                self._prices += len(made)
                yield from made
            except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError):
                self._malformed += 1

    def finish(self) -> None:
        """Raises FeedError if too many rows were malformed or there was none."""
        if self._malformed > MAX_MALFORMED_SHARE * self._rows:
            raise FeedError(f"{self._malformed:,} of {self._rows:,} rows are malformed: the format has changed.")
        if not self._rows:
            raise FeedError("The answer has no rows.")


def limit_prices(prices: Iterable[T], most: int = MAX_PRICES) -> Iterator[T]:
    """Yields prices. Raises FeedError above a number of them."""
    for number, price in enumerate(prices):
        if number >= most:
            raise FeedError(f"The part has more than {MAX_PRICES:,} prices, the limit.")
        yield price


def read_all(rows: Iterable[Any], convert: Callable[[Any], Iterable[StatedPrice]]) -> list[StatedPrice]:
    """Returns the prices of rows. Raises FeedError if too many are malformed, or if there are none."""
    reader = RowReader(convert)
    prices = list(reader.read(rows))
    reader.finish()
    return prices


def csv_rows(lines: Iterable[str], needed: Iterable[str]) -> Iterator[Mapping[str, str]]:
    """Yields the rows of a CSV file by column name. Raises FeedError if a needed column is missing."""
    try:
        reader = csv.DictReader(lines)
        missing = {*needed} - {*(reader.fieldnames or ())}
        if missing:
            raise FeedError(f"The format has changed: column {sorted(missing)[0]} is missing.")
        yield from reader
    except (csv.Error, UnicodeDecodeError) as error:
        raise FeedError("The answer is no CSV file.") from error


def text_lines(file: IO[bytes]) -> Iterator[str]:
    """Yields the lines of a UTF-8 file. Raises FeedError for a line that is too long for a table."""
    while line := file.readline(MAX_LINE_BYTES + 1):
        if len(line) > MAX_LINE_BYTES:
            raise FeedError(LONG_LINE)
        yield line.decode("utf-8")


def amount(value: object) -> float:
    """Returns a finite number. Raises ValueError for anything else, also for texts such as NaN."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError("no number")  # noqa: TRY004 - counted as a malformed row
    number = float(value)
    if not math.isfinite(number):
        raise ValueError("not finite")
    return number


def text(value: object) -> str:
    """Returns a non-empty printable text with single spaces that fits a column. Raises ValueError for all else."""
    plain = " ".join(value.split()) if isinstance(value, str) and len(value) <= 2 * MAX_NAME_CHARACTERS else ""
    if not 0 < len(plain) <= MAX_NAME_CHARACTERS or not plain.isprintable():
        raise ValueError("no name")
    return plain


def day_of(value: object) -> str | None:
    """Returns the day, YYYY-MM-DD, with which a text begins; None if it begins with none."""
    try:
        return date.fromisoformat(str(value)[:10]).isoformat()
    except ValueError:
        return None


def count_of(value: object) -> float:
    """Returns a number of accelerators above 0. Raises ValueError."""
    number = amount(value)
    if not 0 < number <= 1024:
        raise ValueError("no number of accelerators")
    return number


def integer(value: object) -> int | None:
    """Returns a whole number of vCPUs or similar; None if unknown. Raises ValueError for one that no machine has."""
    if value is None or value == "":
        return None
    number = amount(value)
    if not 0 <= number <= MAX_INTEGER:
        raise ValueError("no number of a machine")
    return int(number)


def ram_bytes_of(value: object, unit: float) -> float | None:
    """Returns the memory of a machine; None if unknown. Raises ValueError for one that no machine has."""
    if value is None or value == "":
        return None
    size = amount(value) * unit
    if not 0 <= size <= MAX_RAM_BYTES:
        raise ValueError("no memory of a machine")
    return size


def entries(document: object, *path: str) -> list[Any]:
    """Returns the list under a path of a JSON document. Raises FeedError if there is none."""
    at = document
    for name in path:
        at = at.get(name) if isinstance(at, dict) else None
    if not isinstance(at, list):
        raise FeedError(f"The format has changed: {'.'.join(path) or 'the answer'} is no list.")
    return at
