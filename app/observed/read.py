"""Reads pasted metrics: identifies engines and accelerators, and derives figures from the scrapes.

Source: NVIDIA/dcgm-exporter 4.5, etc/default-counters.csv and etc/dcp-metrics-included.csv, read 2026-11-23; field
names as in DCGM 3 and 4.
Limits: the exporter shows the last Xid but does not count Xid errors. Errors are counted only between scrapes that
are an hour or more apart.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from app.observed.exposition import START_TIME_METRIC, Metric, Sample, Series, parse_scrape
from app.observed.figures import Figure, Reading, RunContext, UnreadableText, UnreadContent
from app.observed.service import SGLANG, TGI, TRITON, TRTLLM, VLLM, Engine, Service
from app.sizing.columns import MIB, SECONDS_PER_DAY, SECONDS_PER_HOUR

PREFIX = "DCGM_"
# (quantity, metrics that report it with their unit; the first metric found is used)
MEAN_GAUGES = (
    ("utilization", (("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 1.0), ("DCGM_FI_DEV_GPU_UTIL", 0.01))),
    ("temperature_c", (("DCGM_FI_DEV_GPU_TEMP", 1.0),)),
    ("power_w", (("DCGM_FI_DEV_POWER_USAGE", 1.0),)),
    ("power_limit_w", (("DCGM_FI_DEV_ENFORCED_POWER_LIMIT", 1.0), ("DCGM_FI_DEV_POWER_MGMT_LIMIT", 1.0))),
)
MEMORY = "DCGM_FI_DEV_FB_USED"
LANES, MAX_LANES = "DCGM_FI_DEV_PCIE_LINK_WIDTH", "DCGM_FI_DEV_PCIE_MAX_LINK_WIDTH"
CLOCK, MAX_CLOCK, XID = "DCGM_FI_DEV_SM_CLOCK", "DCGM_FI_DEV_MAX_SM_CLOCK", "DCGM_FI_DEV_XID_ERRORS"
ERRORS = (
    "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL",
    "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS",
    "DCGM_EXP_XID_ERRORS_COUNT",
)
DCGM_METRICS = {n for _, names in MEAN_GAUGES for n, _ in names} | {
    MEMORY,
    LANES,
    MAX_LANES,
    CLOCK,
    MAX_CLOCK,
    XID,
    *ERRORS,
}


def read_devices(series: Series, runs: RunContext) -> Reading:
    """Accelerator figures for which the scrapes contain metrics."""
    figures = [*_mean_figures(series), *_clock_figures(series), *_error_figures(series)]
    return Reading(tuple(figures), notes=tuple(_device_notes(series, runs)))


def mean_per_accelerator(series: Series, name: str) -> dict[str, float]:
    """Mean of a gauge over the scrapes, per accelerator."""
    values: dict[str, list[float]] = {}
    for named in series.gauges:
        for sample, value in named.get(name, ()):
            values.setdefault(_accelerator_id(sample), []).append(value)
    return {which: math.fsum(seen) / len(seen) for which, seen in values.items()}


def _accelerator_id(sample: Sample) -> str:
    labels = dict(sample.labels)
    card = labels.get("UUID") or "/".join((*sample.source, labels.get("Hostname", ""), labels.get("gpu", "")))
    return f"{card}/{labels.get('GPU_I_ID', '')}"


def _mean_figures(series: Series) -> Iterator[Figure]:
    for quantity, names in MEAN_GAUGES:
        found = next(((n, unit, seen) for n, unit in names if (seen := mean_per_accelerator(series, n))), None)
        if found is None:
            continue
        name, unit, seen = found
        mean = math.fsum(seen.values()) / len(seen) * unit
        if mean > 0 if quantity != "utilization" else 0 <= mean <= 1:
            yield Figure("devices", quantity, mean, name)
    memory = mean_per_accelerator(series, MEMORY)
    if memory:
        yield Figure("devices", "memory_used_bytes", max(memory.values()) * MIB, MEMORY)


def _clock_figures(series: Series) -> Iterator[Figure]:
    now, most = mean_per_accelerator(series, CLOCK), mean_per_accelerator(series, MAX_CLOCK)
    shares = [now[which] / most[which] for which in now if most.get(which)]
    if shares:
        yield Figure("devices", "clock_share", math.fsum(shares) / len(shares), f"{CLOCK} / {MAX_CLOCK}")
    if len(now) > 1 and min(now.values()) > 0:
        yield Figure("devices", "slowest_clock_share", min(now.values()) * len(now) / math.fsum(now.values()), CLOCK)
    lanes, most_lanes = mean_per_accelerator(series, LANES), mean_per_accelerator(series, MAX_LANES)
    widths = [lanes[which] / most_lanes[which] for which in lanes if most_lanes.get(which)]
    if widths:
        yield Figure("devices", "link_width_share", min(widths), f"{LANES} / {MAX_LANES}")


def _error_figures(series: Series) -> Iterator[Figure]:
    window = series.window_s
    if len(series.moments) < 2 or not window or window < SECONDS_PER_HOUR:
        return
    counted = {name: math.fsum(found.values()) for name in ERRORS if (found := series.counter_increase(Metric(name)))}
    if counted:
        often = math.fsum(counted.values()) * SECONDS_PER_DAY / window
        yield Figure("devices", "errors_per_day", often, " + ".join(counted))


def _device_notes(series: Series, runs: RunContext) -> Iterator[str]:
    now = mean_per_accelerator(series, CLOCK)
    if now and not mean_per_accelerator(series, MAX_CLOCK):
        mean = math.fsum(now.values()) / len(now)
        yield f"The mean clock is {mean:.0f} MHz. Set clock_share (clock over rated clock) to have it diagnosed."
    failing = sorted({f"{value:.0f}" for value in mean_per_accelerator(series, XID).values() if value})
    if failing:
        yield f"Accelerators report Xid {', '.join(failing)}. Set errors_per_day to include them in the diagnosis."
    every = {_accelerator_id(sample) for sample in series.increases if sample.name in DCGM_METRICS}
    if every and len(every) != runs.accelerators:
        yield f"The text covers metrics of {len(every)} accelerators; the deployment has {runs.accelerators:g}."


ENGINES: tuple[Engine, ...] = (VLLM, SGLANG, TGI, TRTLLM, TRITON)
SUPPORTED_SOURCES = ", ".join(e.name for e in ENGINES) + " and the DCGM exporter"
SUFFIXES = ("", "_bucket", "_sum", "_count")
KNOWN_METRICS = (
    {m.name + suffix for e in ENGINES for m in e.all_metrics for suffix in SUFFIXES}
    | set(DCGM_METRICS)
    | {START_TIME_METRIC}
)


def read_metrics(texts: Sequence[tuple[str, float | None]], runs: RunContext) -> Reading:
    """Figures from scrapes, each with its time. Scrapes with the same time come from several engines."""
    ordinals: dict[float | None, int] = {}
    scrapes = []
    for text, at_s in texts:
        scrapes.append(parse_scrape(text, at_s, KNOWN_METRICS.__contains__, ordinals.get(at_s, 0)))
        ordinals[at_s] = ordinals.get(at_s, 0) + 1
    unread = sum((s.unread for s in scrapes), UnreadContent())
    series = Series.from_scrapes(scrapes)
    engines = [e for e in ENGINES if any(series.has_metric(metric) for metric in e.all_metrics)]
    reading = Reading(unread=unread)
    for engine in engines:
        reading += Service(engine, series, runs).read_all()
    reading += read_devices(series, runs)
    if not reading.figures and not reading.notes:
        raise UnreadableText(nothing_read_message(unread))
    return reading


def nothing_read_message(unread: UnreadContent) -> str:
    """Error message for a text in which no metric was found."""
    examples = (*unread.first[:1], *unread.metrics[:1])
    seen = f" The text contains {examples[0]!r}." if examples else " The known metrics have no values."
    return f"The text has no supported metric.{seen} Supported sources: Prometheus text of {SUPPORTED_SOURCES}."
