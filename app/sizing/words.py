"""Formats numbers and counts for sentences: three significant digits, no exponents, singular for one."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from app.sizing.columns import HOURS_PER_DAY, TINY
from app.sizing.facts import read_rows

# Names by slug, as makers write them; API hosts rent out no machines.
PRODUCTS = {row["engine"]: row["name"] for row in read_rows("products.csv")}
PROVIDERS = {row["provider"]: row["name"] for row in read_rows("providers.csv")}
API_HOSTS = {row["provider"]: row["name"] for row in read_rows("api_hosts.csv")}


def product_name(slug: str) -> str:
    """An engine's or framework's name as its maker writes it; a slug that is not listed stays as it is."""
    return PRODUCTS.get(slug, slug)


def provider_name(slug: str) -> str:
    """A provider's, maker's or API host's name; a slug that is not listed stays as it is."""
    return PROVIDERS.get(slug) or API_HOSTS.get(slug, slug)


def format_name(slug: str) -> str:
    """A number format in upper case: "FP8", "BF16", "INT4-AWQ", "GGUF-Q4_K_M"."""
    return slug.upper()


def describe_pricing(pricing_model: str) -> str:
    """How machines are paid, in words.

    Check:
        >>> describe_pricing("reserved_1y"), describe_pricing("on_demand")
        ('reserved for 1 year', 'on demand')
    """
    words = pricing_model.replace("_1y", " for 1 year").replace("_3y", " for 3 years")
    return words.replace("_", " ")


# Names of published price collections by their repository, as references begin.
PRICE_SOURCES = {row["source_ref"]: row["name"] for row in read_rows("price_sources.csv")}
REPOSITORY = re.compile(r"[\s,;(]*(?:in )?\bgithub \S.*")  # of a reference, up to its end
RECALLED = "recall: "


def source_name(reference: str) -> str:
    """Name of a price source for a person: without repositories, files and versions, which only the catalog keeps.

    Check:
        >>> source_name("Azure/karpenter-provider-azure@2b431da1:pkg/providers/pricing/zz_generated.pricing.go")
        'Azure Retail Prices API'
        >>> source_name("github huggingface.js; recall: NVIDIA store price")
        'NVIDIA store price, from memory'
    """
    repository = reference.partition("@")[0]
    if repository in PRICE_SOURCES:
        return PRICE_SOURCES[repository]
    parts = (REPOSITORY.sub("", part.strip()) for part in reference.split(";"))
    named = [f"{p.removeprefix(RECALLED)}, from memory" if p.startswith(RECALLED) else p for p in parts if p]
    return "; ".join(named) or "a public hardware list"


LARGE_UNITS = ((1e12, "trillion"), (1e9, "billion"), (1e6, "million"))
MINUTES_PER_HOUR = 60
DIGITS, MAX_DIGITS = 3, 9


def format_number(value: float, digits: int = DIGITS) -> str:
    """A number as text: whole with thousands separators from 100 up, else three significant digits."""
    if abs(value) >= 10 ** (digits - 1) or value == 0:
        return f"{value:,.0f}"
    places = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    return f"{value:,.{places}f}".rstrip("0").rstrip(".") if places else f"{value:,.0f}"


def format_storage_rate(gb_per_s: float) -> str:
    """A rate of storage in GB/s, or in MB/s below 0.1 GB/s.

    Check:
        >>> format_storage_rate(39.9), format_storage_rate(0.00322)
        ('39.9 GB/s', '3.22 MB/s')
    """
    return f"{format_number(gb_per_s)} GB/s" if gb_per_s >= 0.1 else f"{format_number(gb_per_s * 1e3)} MB/s"


def percent(share: float, digits: int = 0) -> str:
    """A share from 0 to 1 as a percentage with a space before the sign: "80 %"."""
    return f"{share * 100:,.{digits}f} %"


def format_distinct_numbers(first: float, second: float) -> tuple[str, str]:
    """Two numbers as text, with as many digits as it takes to distinguish them."""
    for digits in range(DIGITS, MAX_DIGITS):
        if format_number(first, digits) != format_number(second, digits):
            return format_number(first, digits), format_number(second, digits)
    return format_number(first, MAX_DIGITS), format_number(second, MAX_DIGITS)


def format_money(value: float) -> str:
    """An amount of at least 100 as text: whole, with four significant digits, because predictions know no more.

    Check:
        >>> format_money(1234.6), format_money(1_234_567.89)
        ('1,235', '1,235,000')
    """
    return f"{float(f'{value:.4g}'):,.0f}"


def format_distinct_amounts(first: float, second: float) -> tuple[str, str]:
    """Two amounts of money as text: whole from 100 up, else with cents; with more digits if they would look alike."""
    shown, other = (f"{value:,.0f}" if value >= 100 else f"{value:,.2f}" for value in (first, second))
    return (shown, other) if shown != other else format_distinct_numbers(first, second)


def format_large_number(value: float) -> str:
    """A large number in millions, billions or trillions."""
    for size, name in LARGE_UNITS:
        if value >= size:
            return f"{format_number(value / size)} {name}"
    return format_number(value)


def join_words(words: Sequence[str], last: str = "and") -> str:
    """A list as text: "a", "a and b", "a, b and c"."""
    return f" {last} ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def format_count(count: float, thing: str) -> str:
    """A count with its noun: "1 machine", "1,024 machines"."""
    return f"{count:,.0f} {thing if count == 1 else f'{thing}s'}"


def format_quantity(value: float, unit: str) -> str:
    """A quantity with its unit: "1 hour", "36 hours", "0.25 hours"."""
    shown = format_number(value)
    return f"{shown} {unit}" if shown == "1" else f"{shown} {unit}s"


def format_duration(days: float) -> str:
    """A duration in days, hours or minutes."""
    hours = days * HOURS_PER_DAY
    value, unit = (
        (days, "day") if days >= 2 else (hours, "hour") if hours >= 1 else (hours * MINUTES_PER_HOUR, "minute")
    )
    return format_quantity(value, unit)


def round_down_to_digits(value: float) -> float:
    """The largest number with three significant digits that is at most a positive value."""
    if value <= 0:
        return 0.0
    step = 10.0 ** (math.floor(math.log10(value)) - DIGITS + 1)
    return float(f"{math.floor(value / step * (1 + TINY)) * step:.12g}")


def round_up_to_digits(value: float) -> float:
    """The smallest number with three significant digits that is at least a positive value."""
    if value <= 0:
        return 0.0
    step = 10.0 ** (math.floor(math.log10(value)) - DIGITS + 1)
    return float(f"{math.ceil(value / step * (1 - TINY)) * step:.12g}")
