"""Parser for Prometheus and OpenMetrics text. It parses line by line, reports broken lines and reads the rest.

Source: Prometheus text format 0.0.4 and OpenMetrics 1.0 (prometheus.io/docs/instrumenting/exposition_formats,
2026-11-23); prometheus_client parses the lines.
Limits: native histograms are not supported. Samples with the value NaN, which engines write, are ignored.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families

from app.observed.figures import MAX_UNREAD_SHOWN, UnreadContent, printable_excerpt

# Prefixes that routers and operators (KServe, Ray Serve) put before the metric names of an engine.
ROUTER_PREFIX = re.compile(r"^(?:kserve_|ray_)")
EXEMPLAR = re.compile(r" # \{.*$")
LINE = re.compile(r"^([A-Za-z_:][A-Za-z0-9_:]{0,199})(?:\{|\s+[-+]?[0-9.NI])")
SUFFIX = re.compile(r"_(?:bucket|sum|count)$")
# Labels that distinguish engines. All other labels split the samples of one engine.
SOURCE_LABELS = ("instance", "pod", "pod_name", "kubernetes_pod_name", "replica", "engine", "engine_idx", "dp_rank")
MAX_VALUE = 1e18  # largest plausible value of a sample
MILLISECONDS_FROM = 1e11  # a larger Unix timestamp is in milliseconds


@dataclass(frozen=True, slots=True)
class Sample:
    """Identity of a sample: metric name, labels and the engine that it comes from."""

    name: str
    labels: tuple[tuple[str, str], ...]
    source: tuple[str, ...]

    def has_label(self, label: str, value: str) -> bool:
        return (label, value) in self.labels


@dataclass(frozen=True, slots=True)
class Scrape:
    """One scrape of all metrics. `at_s` is its time; None if unknown."""

    values: Mapping[Sample, float]
    at_s: float | None
    unread: UnreadContent


def canonical_name(name: str) -> str:
    """Metric name without the prefix of a router, with underscores instead of colons."""
    return ROUTER_PREFIX.sub("", name.replace(":", "_"))


def parse_scrape(text: str, at_s: float | None, known: Callable[[str], bool], ordinal: int = 0) -> Scrape:
    """Samples of the known metrics in a text; all other metrics are listed as unread.

    `ordinal` distinguishes texts with the same time.
    """
    values: dict[Sample, float] = {}
    others: dict[str, None] = {}
    broken: list[str] = []
    count = 0
    for number, raw in enumerate(text.split("\n"), 1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        named = LINE.match(line)
        if named is not None and named[1].endswith("_created"):
            continue
        if named is not None and not known(canonical_name(named[1])):
            others[SUFFIX.sub("", named[1])] = None
            continue
        parsed = None if named is None else _parse_sample(line, ordinal)
        if parsed is None or not (math.isnan(parsed[1]) or 0 <= parsed[1] <= MAX_VALUE):
            count += 1
            if len(broken) < MAX_UNREAD_SHOWN:
                broken.append(f"line {number}: {printable_excerpt(line)}")
            continue
        sample, value, moment = parsed
        if not math.isnan(value):
            values[sample] = value
        at_s = moment if at_s is None else at_s
    return Scrape(values, at_s, UnreadContent(tuple(map(printable_excerpt, others)), count, tuple(broken)))


def _parse_sample(line: str, ordinal: int) -> tuple[Sample, float, float | None] | None:
    try:
        (family,) = text_string_to_metric_families(EXEMPLAR.sub("", line) + "\n")
        (sample,) = family.samples
    except (ValueError, IndexError, KeyError, TypeError):
        return None
    labels = tuple(sorted(sample.labels.items()))
    source = (str(ordinal), *(value for label, value in labels if label in SOURCE_LABELS))
    moment = _timestamp_seconds(sample.timestamp)
    return Sample(canonical_name(sample.name), labels, source), float(sample.value), moment


def _timestamp_seconds(stamp: object) -> float | None:
    """Unix time of a sample in seconds.

    The parser divides timestamps by 1,000, because Prometheus writes milliseconds. OpenMetrics writes seconds, so
    this reverses the division.
    """
    if not isinstance(stamp, int | float) or not math.isfinite(stamp):
        return None
    written = float(stamp) * 1e3
    return written if written < MILLISECONDS_FROM else written / 1e3
