"""Read pasted metrics: identify the engines, compute what changed between the scrapes, and derive figures."""

from __future__ import annotations

from collections.abc import Sequence

from app.observed import dcgm
from app.observed.engine import Engine
from app.observed.exposition import parse_scrape
from app.observed.figures import Reading, RunContext, UnreadableText, UnreadContent
from app.observed.series import START_TIME_METRIC, Series
from app.observed.service import Service
from app.observed.sglang import SGLANG
from app.observed.tensorrt_llm import TRITON, TRTLLM
from app.observed.tgi import TGI
from app.observed.vllm import VLLM

ENGINES: tuple[Engine, ...] = (VLLM, SGLANG, TGI, TRTLLM, TRITON)
SUPPORTED_SOURCES = ", ".join(e.name for e in ENGINES) + " and the DCGM exporter"
SUFFIXES = ("", "_bucket", "_sum", "_count")
KNOWN_METRICS = (
    {m.name + suffix for e in ENGINES for m in e.all_metrics for suffix in SUFFIXES}
    | set(dcgm.KNOWN_METRICS)
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
    reading += dcgm.read_devices(series, runs)
    if not reading.figures and not reading.notes:
        raise UnreadableText(nothing_read_message(unread))
    return reading


def nothing_read_message(unread: UnreadContent) -> str:
    """Error message for a text in which no metric was found."""
    examples = (*unread.first[:1], *unread.metrics[:1])
    seen = f" The text contains {examples[0]!r}." if examples else " The known metrics have no values."
    return f"The text has no supported metric.{seen} Supported sources: Prometheus text of {SUPPORTED_SOURCES}."
