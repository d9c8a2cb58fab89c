"""Parses Prometheus and OpenMetrics text, and combines several scrapes into changes and histograms.

Source: Prometheus text format 0.0.4 and OpenMetrics 1.0 (prometheus.io/docs/instrumenting/exposition_formats,
2026-11-23); prometheus_client parses the lines.
Limits: native histograms are not supported. Samples with the value NaN, which engines write, are ignored.

Source: rate() and histogram_quantile() of Prometheus (prometheus.io/docs/prometheus/latest/querying/functions,
2026-11-23): a counter that falls was reset. Within a bucket Prometheus assumes a uniform distribution. This module
uses the maximum-entropy distribution that matches the sum of the histogram instead. Buckets are wide, and a latency
at the lower end of a bucket must not be reported as one at the upper end.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

from prometheus_client.parser import text_string_to_metric_families

from app.observed.figures import MAX_UNREAD_SHOWN, UnreadContent, printable_excerpt
from app.work import check_each

# Prefixes that routers, operators (KServe, Ray Serve) and exporters put before the usual names of metrics.
ROUTER_PREFIX = re.compile(r"^(?:kserve_|ray_|amd_(?=gpu_))")
# NVIDIA NIM writes vLLM's metrics without their prefix.
# Source: docs.nvidia.com/nim/large-language-models/latest/observability.html, 2026-11-27.
UNPREFIXED = re.compile(
    r"^(?=(?:gpu_cache_usage_perc|num_requests_(?:running|waiting)|(?:prompt|generation)_tokens_total|"
    r"request_(?:prompt|generation)_tokens(?:_bucket|_sum|_count)?|"
    r"time_(?:to_first|per_output)_token_seconds(?:_bucket|_sum|_count)?)$)"
)
EXEMPLAR = re.compile(r" # \{.*$")
LINE = re.compile(r"^([A-Za-z_:][A-Za-z0-9_:]{0,199})(?:\{|\s+[-+]?[0-9.NI])")
SUFFIX = re.compile(r"_(?:bucket|sum|count)$")
# Labels that distinguish engines. All other labels split the samples of one engine.
SOURCE_LABELS = frozenset(
    ("instance", "pod", "pod_name", "kubernetes_pod_name", "replica", "engine", "engine_idx", "dp_rank")
)
# Longest line that is parsed, in characters; a longer one counts as unread. The parser takes quadratic time within a
# line.
MAX_LINE_CHARACTERS = 8192
# Most times that one text may contain: the points per series that Prometheus returns, both ends included.
# Source: prometheus/prometheus, web/api/v1/api.go, "exceeded maximum resolution of 11,000 points per timeseries", seen
# 2026-11-26.
MAX_MOMENTS = 11_001
MAX_SAMPLES = 40_000  # of known metrics in all texts of a request
MAX_VALUE = 1e18  # largest plausible value of a sample
MILLISECONDS_FROM = 1e11  # a larger Unix timestamp is in milliseconds


class Sample(NamedTuple):
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


@lru_cache(maxsize=4096)
def canonical_name(name: str) -> str:
    """Metric name without the prefix of a router, with NIM's omitted prefix of vLLM, with underscores for colons."""
    return UNPREFIXED.sub("vllm_", ROUTER_PREFIX.sub("", name.replace(":", "_")))


def parse_scrape(text: str, at_s: float | None, known: Callable[[str], bool], ordinal: int = 0) -> Scrape:
    """Samples of the known metrics in a text; all other metrics are listed as unread.

    `ordinal` distinguishes texts with the same time.
    """
    values: dict[Sample, float] = {}
    others: dict[str, None] = {}
    broken: list[str] = []
    count = 0
    for number, raw in enumerate(check_each(text.split("\n")), 1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        named = LINE.match(line)
        if named is not None and named[1].endswith("_created"):
            continue
        if named is not None and not known(canonical_name(named[1])):
            others[SUFFIX.sub("", named[1])] = None
            continue
        parsed = None if named is None or len(line) > MAX_LINE_CHARACTERS else _parse_sample(line, ordinal)
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


def parse_scrapes(text: str, at_s: float | None, known: Callable[[str], bool], ordinal: int = 0) -> list[Scrape]:
    """Scrapes in a text: one in Prometheus or OpenMetrics text, one per time in an answer of Prometheus' HTTP API."""
    if text.lstrip()[:1] not in ("{", "["):
        return [parse_scrape(text, at_s, known, ordinal)]
    try:
        answer = json.loads(text)
    except (ValueError, RecursionError):
        return [parse_scrape(text, at_s, known, ordinal)]
    return parse_query_answer(answer, known, ordinal)


def parse_query_answer(answer: object, known: Callable[[str], bool], ordinal: int = 0) -> list[Scrape]:
    """Scrapes in answers of /api/v1/query and /api/v1/query_range, one per time.

    Source: prometheus.io/docs/prometheus/latest/querying/api, recalled: `value` is one pair of a Unix time in
    seconds and a number as a string, `values` a list of such pairs.
    Limits: the result of a function has no metric name and is not read.
    """
    moments: dict[float, dict[Sample, float]] = {}
    others: dict[str, None] = {}
    count = 0
    for series in check_each(_query_series(answer)):
        labels = {str(k): str(v) for k, v in series["metric"].items()}
        name = labels.pop("__name__", "")
        pairs = [series["value"]] if "value" in series else series.get("values")
        if not known(canonical_name(name)):
            others[printable_excerpt(name) or "a result without a metric name"] = None
            continue
        source = (str(ordinal), *(labels[label] for label in sorted(labels) if label in SOURCE_LABELS))
        sample = Sample(canonical_name(name), tuple(sorted(labels.items())), source)
        for pair in check_each(pairs if isinstance(pairs, list) else [None]):
            moment, value = _query_pair(pair)
            if moment is None or value is None or not 0 <= value <= MAX_VALUE:
                count += 1
            elif moment in moments or len(moments) < MAX_MOMENTS:
                moments.setdefault(moment, {})[sample] = value
            else:
                count += 1
    unread = UnreadContent(tuple(others), count)
    return [Scrape(values, at, UnreadContent()) for at, values in moments.items()] + [Scrape({}, None, unread)]


def _query_series(answer: object) -> Iterator[Mapping[str, Any]]:
    stack = [answer]
    while stack:
        part = stack.pop()
        if isinstance(part, list):
            stack.extend(inner for inner in reversed(part) if isinstance(inner, dict))
        elif isinstance(part, dict):
            if isinstance(part.get("metric"), dict):
                yield part
            stack.extend(part[inner] for inner in ("result", "data") if isinstance(part.get(inner), dict | list))


def _query_pair(pair: object) -> tuple[float | None, float | None]:
    if not isinstance(pair, list) or len(pair) != 2:
        return None, None
    at, value = (_parse_number(str(part)) for part in pair)
    return (at if at is not None and math.isfinite(at) and at >= 0 else None), value


# Most lines: no escapes, exemplars or reserved names, and plain decimal numbers.
LABEL = r'([a-zA-Z][a-zA-Z0-9_]*)="([^"\\\\#]*)"'
NUMBERS = r"([0-9.]{1,20})(?: ([0-9]{1,20}))?"
PLAIN = re.compile(rf"([a-zA-Z_:][\w:]*)(?:\{{({LABEL}(?:,{LABEL})*)\}})? {NUMBERS}", re.ASCII)
PLAIN_LABEL = re.compile(LABEL, re.ASCII)


def _parse_sample(line: str, ordinal: int) -> tuple[Sample, float, float | None] | None:
    plain = PLAIN.fullmatch(line)
    try:
        if plain is not None:
            pairs = PLAIN_LABEL.findall(plain[2] or "")
            name, found, value, stamp = plain[1], dict(pairs), float(plain[7]), plain[8] and int(plain[8]) / 1e3
        if plain is None or len(found) < len(pairs):
            (family,) = text_string_to_metric_families(EXEMPLAR.sub("", line) + "\n")
            (sample,) = family.samples
            name, found, value, stamp = sample.name, sample.labels, float(sample.value), sample.timestamp
    except (ArithmeticError, ValueError, IndexError, KeyError, TypeError):
        return None
    labels = tuple(sorted(found.items()))
    source = (str(ordinal), *[value for label, value in labels if label in SOURCE_LABELS])
    return Sample(canonical_name(name), labels, source), value, _timestamp_seconds(stamp)


def _timestamp_seconds(stamp: object) -> float | None:
    """Unix time of a sample in seconds.

    The parser divides timestamps by 1,000, because Prometheus writes milliseconds. OpenMetrics writes seconds, so
    this reverses the division.
    """
    if not isinstance(stamp, int | float) or not math.isfinite(stamp):
        return None
    written = float(stamp) * 1e3
    return written if written < MILLISECONDS_FROM else written / 1e3


Source = tuple[str, ...]
Moment = tuple[float | None, Mapping[Sample, float]]
START_TIME_METRIC = "process_start_time_seconds"
MAX_BUCKET_POSITION = 0.98  # highest mean position of values within a bucket, as a share of its width
MAX_STEEPNESS = 60.0


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric by its canonical name, restricted to one value of a label if `label` is set.

    `unit` converts values to base units.
    """

    name: str
    label: str | None = None
    value: str = ""
    unit: float = 1.0

    def matches_label(self, sample: Sample) -> bool:
        """True if a sample of this metric has the required label value."""
        return self.label is None or sample.has_label(self.label, self.value)


@dataclass(frozen=True, slots=True)
class Histogram:
    """Cumulative histogram: the number of values at or below each bound."""

    metric: Metric
    bounds: tuple[float, ...]
    counts: tuple[float, ...]
    total: float

    @property
    def count(self) -> float:
        return self.counts[-1]

    @property
    def mean(self) -> float:
        return self.total / self.count

    def bucket_bounds(self, share: float) -> tuple[float, float]:
        """Bounds of the bucket that contains a quantile. The last bucket is open-ended."""
        place = next(i for i, count in enumerate(self.counts) if count >= share * self.count)
        return (0.0 if place == 0 else self.bounds[place - 1]), self.bounds[place]

    @property
    def mean_bucket_position(self) -> float:
        """Mean position of values in their buckets, as a share of the bucket width.

        It follows from the sum of the values minus the lower bounds. Values above the last finite bound are assumed
        to equal it.

        Check: a hundred tokens take 12 ms on average in a bucket from 10 to 25 ms.
            >>> round(Histogram(Metric("a"), (0.01, 0.025, math.inf), (0.0, 100.0, 100.0), 1.2).mean_bucket_position, 3)
            0.133
        """
        lower = (0.0, *self.bounds[:-1])
        inside = [count - below for count, below in zip(self.counts, (0.0, *self.counts[:-1]), strict=True)]
        beyond = self.total - math.fsum(n * low for n, low in zip(inside, lower, strict=True))
        room = math.fsum(n * (b - a) for n, a, b in zip(inside, lower, self.bounds, strict=True) if n and b < math.inf)
        most = 0.5 if inside[-1] else MAX_BUCKET_POSITION
        return min(max(beyond / room, 1 - MAX_BUCKET_POSITION), most) if room else 0.5

    def quantile(self, share: float) -> float:
        """A quantile, at the position within its bucket that the sum implies. Beyond the last finite bound it is that
        bound.

        Check: ten values with a mean of 0.075, eight of at most 0.1 and two of at most 0.25. The result equals that
        of Prometheus.
            >>> round(Histogram(Metric("a"), (0.1, 0.25, math.inf), (8.0, 10.0, 10.0), 0.75).quantile(0.9), 3)
            0.175
        """
        low, high = self.bucket_bounds(share)
        if math.isinf(high):
            return low
        place = self.bounds.index(high)
        below = self.counts[place - 1] if place else 0.0
        rank = (share * self.count - below) / (self.counts[place] - below)
        return low + (high - low) * max_entropy_position(rank, self.mean_bucket_position)


def max_entropy_position(rank: float, mean: float) -> float:
    """Position between 0 and 1 of a rank, if values have the given mean and maximum entropy (a truncated exponential).

    Source: Jaynes 1957, maximum entropy; solved by bisection.
    Check: a mean of one half gives a uniform distribution.
        >>> round(max_entropy_position(0.9, 0.5), 6), round(max_entropy_position(0.5, 0.1), 3)
        (0.9, 0.069)
    """
    low, high = -MAX_STEEPNESS, MAX_STEEPNESS
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if truncated_exponential_mean(middle) > mean else (low, middle)
    steep = (low + high) / 2
    if rank >= 1 or abs(steep) < 1e-6:
        return rank
    return -math.log1p(rank * math.expm1(-steep)) / steep


def truncated_exponential_mean(steep: float) -> float:
    """Mean of an exponential distribution truncated at 1, by integration of its density.

    Check: a steep distribution has the mean of one that is not truncated.
        >>> round(truncated_exponential_mean(20.0), 3)
        0.05
    """
    return 0.5 if abs(steep) < 1e-6 else 1 / steep - 1 / math.expm1(steep)


class Series:
    """Scrapes in the order of their times."""

    def __init__(self, moments: Sequence[Moment]) -> None:
        self.moments = sorted(moments, key=lambda moment: moment[0] or 0.0)
        self.sources = {s.source for _, values in self.moments for s in values if s.name != START_TIME_METRIC}
        self.increases = _counter_increases([values for _, values in self.moments])
        self.named = _group_by_name(self.increases)
        self.gauges = [_group_by_name(values) for _, values in self.moments]

    @classmethod
    def from_scrapes(cls, scrapes: Sequence[Scrape]) -> Series:
        """Build a series; scrapes with the same time are merged."""
        moments: dict[float | None, dict[Sample, float]] = {}
        for scrape in [scrape for scrape in scrapes if scrape.values] or scrapes:
            moments.setdefault(scrape.at_s, {}).update(scrape.values)
        return cls(tuple(moments.items()))

    def only(self, keep: Callable[[Sample], bool]) -> Series:
        """The samples that a condition holds for, as a series."""
        kept = {sample for sample in check_each(self.increases) if keep(sample)}
        if len(kept) == len(self.increases):
            return self
        return Series([(at, {s: v for s, v in values.items() if s in kept}) for at, values in self.moments])

    @property
    def consecutive_pairs(self) -> list[Series]:
        return [Series(pair) for pair in check_each(pairwise(self.moments))]

    @cached_property
    def model_names(self) -> set[str]:
        return {value for sample in self.increases for label, value in sample.labels if label == "model_name"}

    def has_metric(self, metric: Metric) -> bool:
        every = (*self.named.get(metric.name, ()), *self.named.get(metric.name + "_bucket", ()))
        return any(metric.matches_label(sample) for sample, _ in every)

    def mean_gauge(self, metric: Metric) -> dict[Source, float]:
        """Mean of a gauge over the scrapes, per engine. Values with different labels are added."""
        values: dict[Source, list[float]] = {}
        for named in check_each(self.gauges):
            now: dict[Source, float] = {}
            for sample, value in named.get(metric.name, ()):
                if metric.matches_label(sample):
                    now[sample.source] = now.get(sample.source, 0.0) + value * metric.unit
            for source, value in now.items():
                values.setdefault(source, []).append(value)
        return {source: math.fsum(seen) / len(seen) for source, seen in values.items()}

    def counter_increase(self, metric: Metric) -> dict[Source, float]:
        """Increase of a counter between the scrapes, per engine; with one scrape, since the engine started."""
        increases: dict[Source, float] = {}
        for sample, value in self.named.get(metric.name, ()):
            if metric.matches_label(sample):
                increases[sample.source] = increases.get(sample.source, 0.0) + value * metric.unit
        return increases

    def merged_histogram(self, metric: Metric) -> Histogram | None:
        """Histogram over all engines; None if it is empty or incomplete."""
        by_bound: dict[float, float] = {}
        for sample, value in self.named.get(metric.name + "_bucket", ()):
            bound = _parse_number(dict(sample.labels).get("le", "")) if metric.matches_label(sample) else None
            if bound is not None:
                by_bound[bound * metric.unit] = by_bound.get(bound * metric.unit, 0.0) + value
        sums = self.named.get(metric.name + "_sum", ())
        total = math.fsum(value * metric.unit for sample, value in sums if metric.matches_label(sample))
        bounds = tuple(sorted(by_bound))
        counts = tuple(by_bound[bound] for bound in bounds)
        rises = all(a <= b for a, b in pairwise(counts))
        whole = len(bounds) > 1 and math.isinf(bounds[-1]) and rises and counts[-1] > 0 and total > 0
        return Histogram(metric, bounds, counts, total) if whole else None

    @property
    def window_s(self) -> float | None:
        """Seconds from the first to the last scrape, or since the engines started with one scrape; None if unknown."""
        first, last = self.moments[0][0], self.moments[-1][0]
        if first is None or last is None:
            return None
        if len(self.moments) > 1:
            return last - first
        starts = [value for _, value in self.gauges[0].get(START_TIME_METRIC, ())]
        return last - math.fsum(starts) / len(starts) if starts and last > max(starts) else None

    @cached_property
    def restart_count(self) -> int:
        """Number of engine restarts between the scrapes."""
        seen: dict[Sample, set[float]] = {}
        for named in self.gauges:
            for sample, value in named.get(START_TIME_METRIC, ()):
                seen.setdefault(sample, set()).add(value)
        return sum(len(starts) - 1 for starts in seen.values())


def _group_by_name(values: Mapping[Sample, float]) -> dict[str, list[tuple[Sample, float]]]:
    named: dict[str, list[tuple[Sample, float]]] = {}
    for sample, value in values.items():
        named.setdefault(sample.name, []).append((sample, value))
    return named


def _counter_increases(scrapes: Sequence[Mapping[Sample, float]]) -> dict[Sample, float]:
    if len(scrapes) == 1:
        return dict(scrapes[0])
    increases: dict[Sample, float] = {}
    for before, after in pairwise(scrapes):
        for sample, value in check_each(after.items()):
            began = before.get(sample, 0.0)
            increases[sample] = increases.get(sample, 0.0) + (value - began if value >= began else value)
    return increases


def _parse_number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return None if math.isnan(value) else value
