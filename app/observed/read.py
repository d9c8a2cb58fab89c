"""Reads pasted metrics: identifies engines and accelerators, and derives figures from the scrapes.

Source: NVIDIA/dcgm-exporter 4.5, etc/default-counters.csv and etc/dcp-metrics-included.csv, read 2026-11-23; field
names as in DCGM 3 and 4. ROCm/device-metrics-exporter, excerpts of pkg/amdgpu seen 2026-11-26; memory in MiB, and
with the prefix amd_ if the exporter is configured so. Triton: triton-inference-server, docs/user_guide/metrics.md, and
a scrape in issue 123 of gitlab.com/gitlab-org/modelops/applied-ml/code-suggestions/ai-assist, seen 2026-11-27.
utkuozdemir/nvidia_gpu_exporter and the Prometheus exporter of Gaudi (docs.habana.ai): names recalled.
Limits: the DCGM exporter shows the last Xid but does not count Xid errors. Errors are counted only between scrapes
that are an hour or more apart. Metrics of MIG slices are ignored: a slice is not an accelerator.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence

from app.observed.exposition import (
    MAX_MOMENTS,
    MAX_SAMPLES,
    START_TIME_METRIC,
    Metric,
    Sample,
    Scrape,
    Series,
    parse_scrapes,
)
from app.observed.figures import Figure, Reading, RunContext, UnreadableText, UnreadContent, printable_excerpt
from app.observed.service import DYNAMO, LLAMA_CPP, LMDEPLOY, SGLANG, TGI, TRITON, TRTLLM, VLLM, Engine, Service
from app.sizing.columns import MIB, SECONDS_PER_DAY, SECONDS_PER_HOUR

# (quantity, metrics that report it with their unit; the first metric found is used)
# Gauges in order of preference, with their units: means over accelerators, and the most memory.
GAUGES = (
    (
        "utilization",
        (
            ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 1.0),
            ("DCGM_FI_DEV_GPU_UTIL", 0.01),
            ("gpu_gfx_activity", 0.01),
            ("nvidia_smi_utilization_gpu_ratio", 1.0),
            ("nv_gpu_utilization", 1.0),
            ("habanalabs_utilization", 0.01),
        ),
    ),
    (
        "temperature_c",
        (
            ("DCGM_FI_DEV_GPU_TEMP", 1.0),
            ("gpu_junction_temperature", 1.0),
            ("gpu_edge_temperature", 1.0),
            ("nvidia_smi_temperature_gpu", 1.0),
            ("habanalabs_temperature_onchip", 1.0),
        ),
    ),
    (
        "power_w",
        (
            ("DCGM_FI_DEV_POWER_USAGE", 1.0),
            ("gpu_package_power", 1.0),
            ("gpu_average_package_power", 1.0),
            ("gpu_power_usage", 1.0),
            ("nvidia_smi_power_draw_watts", 1.0),
            ("nv_gpu_power_usage", 1.0),
            ("habanalabs_power_mW", 1e-3),
        ),
    ),
    (
        "power_limit_w",
        (
            ("DCGM_FI_DEV_ENFORCED_POWER_LIMIT", 1.0),
            ("DCGM_FI_DEV_POWER_MGMT_LIMIT", 1.0),
            ("nvidia_smi_enforced_power_limit_watts", 1.0),
            ("nv_gpu_power_limit", 1.0),
        ),
    ),
    (
        "memory_used_bytes",
        (
            ("DCGM_FI_DEV_FB_USED", MIB),
            ("gpu_used_vram", MIB),
            ("nvidia_smi_memory_used_bytes", 1.0),
            ("nv_gpu_memory_used_bytes", 1.0),
            ("habanalabs_memory_used_bytes", 1.0),
        ),
    ),
)
LANES, MAX_LANES = "DCGM_FI_DEV_PCIE_LINK_WIDTH", "DCGM_FI_DEV_PCIE_MAX_LINK_WIDTH"
CLOCK, MAX_CLOCK, XID = "DCGM_FI_DEV_SM_CLOCK", "DCGM_FI_DEV_MAX_SM_CLOCK", "DCGM_FI_DEV_XID_ERRORS"
ERRORS = (
    "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL",
    "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS",
    "DCGM_EXP_XID_ERRORS_COUNT",
    "gpu_ecc_uncorrect_total",
)
MODEL_LABELS = ("modelName", "card_model")
SLICE_LABEL = "GPU_I_ID"
UUID_LABELS = ("UUID", "gpu_uuid", "uuid")
CARD_LABELS = ("Hostname", "hostname", "gpu", "gpu_id", "device")
# Words of an accelerator's name with a digit that do not name the chip: memory sizes and form factors.
OTHER_WORDS = re.compile(r"^(?:\d+g[bi]?b?|hbm.*|sxm.*|pcie.*)$")
DEVICE_METRICS = {n for _, names in GAUGES for n, _ in names} | {
    LANES,
    MAX_LANES,
    CLOCK,
    MAX_CLOCK,
    XID,
    *ERRORS,
}


def read_devices(series: Series, runs: RunContext) -> Reading:
    """Accelerator figures for which the scrapes contain metrics."""
    types = {model for model in device_models(series) if names_accelerator(model, runs.accelerator)}
    own = series.only(lambda sample: is_accelerator(sample, types))
    figures = [*_gauge_figures(own), *_clock_figures(own), *_error_figures(own)]
    return Reading(tuple(figures), notes=(*_device_notes(own, runs), *_ignored_notes(series, own)))


def is_accelerator(sample: Sample, own: set[str]) -> bool:
    """False for a sample of a MIG slice, and for one of an accelerator type outside `own`, unless that is empty."""
    if sample.name not in DEVICE_METRICS:
        return True
    if dict(sample.labels).get(SLICE_LABEL):
        return False
    model = _device_model(sample)
    return not own or not model or model in own


def device_models(series: Series) -> set[str]:
    """Names of the accelerator types in the text."""
    return {model for sample in series.increases if sample.name in DEVICE_METRICS and (model := _device_model(sample))}


def names_accelerator(model: str, accelerator: str) -> bool:
    """True if a name that an exporter writes can mean an accelerator of the catalog.

    Check:
        >>> names_accelerator("NVIDIA A100 80GB PCIe", "nvidia-a100-pcie-80gb")
        True
        >>> names_accelerator("NVIDIA RTX 2000 Ada Generation", "nvidia-a100-pcie-80gb")
        False
    """
    chip, known = (
        {w for w in re.split(r"[^a-z0-9]+", name.lower()) if re.search(r"\d", w) and not OTHER_WORDS.match(w)}
        for name in (model, accelerator)
    )
    return bool(chip & known)


def _device_model(sample: Sample) -> str:
    labels = dict(sample.labels)
    return next((labels[label] for label in MODEL_LABELS if labels.get(label)), "")


def mean_per_accelerator(series: Series, name: str) -> dict[str, float]:
    """Mean of a gauge over the scrapes, per accelerator."""
    values: dict[str, list[float]] = {}
    for named in series.gauges:
        for sample, value in named.get(name, ()):
            values.setdefault(_accelerator_id(sample), []).append(value)
    return {which: math.fsum(seen) / len(seen) for which, seen in values.items()}


def _accelerator_id(sample: Sample) -> str:
    labels = dict(sample.labels)
    place = "/".join((*sample.source, *(labels.get(label, "") for label in CARD_LABELS)))
    return next((labels[label] for label in UUID_LABELS if labels.get(label)), place)


def _gauge_figures(series: Series) -> Iterator[Figure]:
    for quantity, names in GAUGES:
        found = next(((n, unit, seen) for n, unit in names if (seen := mean_per_accelerator(series, n))), None)
        if found is None:
            continue
        name, unit, seen = found
        most = quantity == "memory_used_bytes"
        value = (max(seen.values()) if most else math.fsum(seen.values()) / len(seen)) * unit
        if value > 0 if quantity != "utilization" else 0 <= value <= 1:
            yield Figure("devices", quantity, value, name)


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
    every = {_accelerator_id(sample) for sample in series.increases if sample.name in DEVICE_METRICS}
    if every and len(every) != runs.accelerators:
        yield f"The text covers metrics of {len(every)} accelerators; the deployment has {runs.accelerators:g}."


def _ignored_notes(series: Series, own: Series) -> Iterator[str]:
    ignored = [sample for sample in series.increases if sample not in own.increases]
    if any(dict(sample.labels).get(SLICE_LABEL) for sample in ignored):
        yield "Metrics of MIG slices are ignored: a slice is not an accelerator."
    others = sorted(device_models(series) - device_models(own))
    if others:
        yield f"Metrics of {printable_excerpt(', '.join(others))} are ignored: the deployment uses another accelerator."


CACHE_INFO = ("vllm_cache_config_info", "lmdeploy_cache_config_info")
CACHE_TOKENS = "sglang_max_total_num_tokens"
CACHE_BLOCKS, BLOCK_TOKENS = "dynamo_frontend_model_total_kv_blocks", "dynamo_frontend_model_kv_cache_block_size"


def cache_figures(series: Series, runs: RunContext) -> Iterator[Figure]:
    """Tokens that the KV cache of one replica holds. Ranks of one replica that hold different tokens are added."""
    blocks, block = (series.mean_gauge(Metric(name)) for name in (CACHE_BLOCKS, BLOCK_TOKENS))
    of_blocks = [blocks[source] * block[source] for source in blocks if source in block]
    configured = [tokens for name in CACHE_INFO for tokens in _configured_tokens(series, name)]
    counted = list(series.mean_gauge(Metric(CACHE_TOKENS)).values())
    for tokens, source in (
        (configured, "cache_config_info: num_gpu_blocks * block_size"),
        (counted, CACHE_TOKENS.replace("_", ":", 1)),
        (of_blocks, f"{CACHE_BLOCKS} * {BLOCK_TOKENS}"),
    ):
        if tokens and math.fsum(tokens) > 0:
            ranks = 1.0 if tokens is of_blocks else max(1.0, len(tokens) / (runs.of_replicas or runs.replicas))
            yield Figure("service", "cache_tokens", math.fsum(tokens) / len(tokens) * ranks, source)
            return


def _configured_tokens(series: Series, name: str) -> Iterator[float]:
    for sample in series.increases:
        if sample.name == name:
            labels = dict(sample.labels)
            count, size = (labels.get(label, "") for label in ("num_gpu_blocks", "block_size"))
            if count.isdecimal() and size.isdecimal():
                yield float(count) * float(size)


ENGINES: tuple[Engine, ...] = (VLLM, SGLANG, TGI, TRTLLM, TRITON, LMDEPLOY, LLAMA_CPP, DYNAMO)
SUPPORTED_SOURCES = ", ".join(e.name for e in ENGINES) + ", the exporters of DCGM, AMD, Gaudi and nvidia-smi"
SUFFIXES = ("", "_bucket", "_sum", "_count")
KNOWN_METRICS = (
    {m.name + suffix for e in ENGINES for m in e.all_metrics for suffix in SUFFIXES}
    | set(DEVICE_METRICS)
    | {*CACHE_INFO, CACHE_TOKENS, CACHE_BLOCKS, BLOCK_TOKENS}
    | {START_TIME_METRIC}
)


def read_metrics(texts: Sequence[tuple[str, float | None]], runs: RunContext) -> Reading:
    """Figures from scrapes, each with its time. Scrapes with the same time come from several engines."""
    ordinals: dict[float | None, int] = {}
    scrapes: list[Scrape] = []
    for text, at_s in texts:
        scrapes += parse_scrapes(text, at_s, KNOWN_METRICS.__contains__, ordinals.get(at_s, 0))
        ordinals[at_s] = ordinals.get(at_s, 0) + 1
        if sum(len(s.values) for s in scrapes) > MAX_SAMPLES or len({s.at_s for s in scrapes}) > MAX_MOMENTS + 1:
            raise UnreadableText(
                f"The metrics have more than {MAX_SAMPLES:,} samples or {MAX_MOMENTS:,} times. Send fewer scrapes: the "
                "first and the last are enough for rates."
            )
    unread = sum((s.unread for s in scrapes), UnreadContent())
    series = Series.from_scrapes(scrapes)
    engines = [e for e in ENGINES if any(series.has_metric(metric) for metric in e.all_metrics)]
    reading = Reading(unread=unread)
    for engine in engines:
        reading += Service(engine, series, runs).read_all()
    reading += Reading(tuple(cache_figures(series, runs)))
    reading += read_devices(series, runs)
    if not reading.figures and not reading.notes:
        raise UnreadableText(nothing_read_message(unread))
    return reading


def nothing_read_message(unread: UnreadContent) -> str:
    """Error message for a text in which no metric was found."""
    examples = (*unread.first[:1], *unread.metrics[:1])
    seen = f" The text contains {examples[0]!r}." if examples else " The known metrics have no values."
    return f"The text has no supported metric.{seen} Supported sources: Prometheus text of {SUPPORTED_SOURCES}."
