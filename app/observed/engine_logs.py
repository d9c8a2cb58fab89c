"""Service observations from the status lines that vLLM and SGLang log every few seconds.

Source: vllm-project/vllm, vllm/v1/metrics/loggers.py (0.8 on) and vllm/engine/metrics.py (before: pending is
waiting); sgl-project/sglang, its decode batches and docs on hyperparameter tuning (0.4 on); read 2026-11-23.
Limits: these logs contain no latencies. Lines of an idle engine are ignored.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from app.observed.figures import (
    MAX_UNREAD_SHOWN,
    Figure,
    Reading,
    RunContext,
    UnreadableText,
    UnreadContent,
    printable_excerpt,
)
from app.observed.lines import split_lines
from app.observed.trainer import Trainer, compile_patterns

VLLM_LOG = Trainer(
    "vllm",
    "vLLM",
    steps=compile_patterns(r"Running: <running> reqs"),
    fields=compile_patterns(
        r"Avg generation throughput: <written> tokens/s",
        r"(?:Waiting|Pending): <waiting> reqs",
        r"GPU KV cache usage: <cache_percent>%",
        r"Prefix cache hit rate: (?:GPU: )?<hit_percent>%",
        r"Engine <engine>:",
    ),
)
SGLANG_LOG = Trainer(
    "sglang",
    "SGLang",
    steps=compile_patterns(r"Decode batch[^#]*#running-req: <running>"),
    fields=compile_patterns(
        r"gen throughput \(token/s\): <written>",
        r"#queue-req: <waiting>",
        r"token usage: <cache_share>",
        r" DP<engine>[ \]]",
    ),
)
ENGINE_LOGS = (VLLM_LOG, SGLANG_LOG)
LOG_QUANTITIES = {
    "output_tokens_per_s": ("written", 1.0),
    "running": ("running", 1.0),
    "waiting": ("waiting", 1.0),
    "cache_usage": ("cache_percent", 0.01),
    "prefix_hit_share": ("hit_percent", 0.01),
}


def read_engine_log(text: str, runs: RunContext, name: str | None = None) -> Reading:
    """Figures from an engine log, each the mean of its lines.

    Raises UnreadableText if no line is a status line.
    """
    text_lines = split_lines(text)
    known = [e for e in ENGINE_LOGS if name in (None, e.name)]
    engine = max(known, key=lambda e: sum(bool(e.parse_line(line)) for line in text_lines))
    parsed_lines, unread = [], []
    for number, line in enumerate(text_lines, 1):
        parsed = engine.parse_line(line)
        if parsed:
            parsed_lines.append(parsed)
        else:
            unread.append(f"line {number}: {printable_excerpt(line)}")
    if not parsed_lines:
        first = f" The text begins with {printable_excerpt(text_lines[0])!r}." if text_lines else ""
        raise UnreadableText(f"The text has no status line of {engine.title}.{first}")
    engines = float(len({line.get("engine", 0.0) for line in parsed_lines}))
    seen = runs.of_replicas or engines
    covers_all_replicas = runs.of_replicas is not None or runs.replicas <= seen
    note = f"The log covers {seen:g} of {runs.replicas:g} replicas. Throughput is scaled to all replicas."
    figures = tuple(_log_figures(engine, parsed_lines, engines * max(1.0, runs.replicas / seen)))
    return Reading(
        figures,
        UnreadContent((), len(unread), tuple(unread[:MAX_UNREAD_SHOWN])),
        () if covers_all_replicas else (note,),
    )


def _log_figures(engine: Trainer, parsed_lines: Sequence[dict[str, float]], engines: float) -> Iterator[Figure]:
    """Means over the lines. `engines` is the number of engines in the deployment."""
    busy = [line for line in parsed_lines if line["running"] or line.get("waiting")] or parsed_lines
    for quantity, (name, unit) in LOG_QUANTITIES.items():
        values = [line[name] * unit for line in busy if name in line]
        if quantity == "cache_usage" and not values:
            values = [line["cache_share"] for line in busy if "cache_share" in line]
        if values:
            mean = math.fsum(values) / len(values)
            times = engines if quantity == "output_tokens_per_s" else 1.0
            yield Figure("service", quantity, mean * times, f"{engine.title} log, mean of {len(values)} lines")
