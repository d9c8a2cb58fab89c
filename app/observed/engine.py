"""Metric names of an engine: for each quantity all names that versions of the engine used, newest first."""

from __future__ import annotations

from dataclasses import dataclass, fields

from app.observed.series import Metric

Names = tuple[Metric, ...]


@dataclass(frozen=True, slots=True)
class Engine:
    """Metrics of an engine by their canonical names.

    `prefix`: metric prefix as the engine writes it. `token_times`: histograms per request or per token; their counts
    show which. `first_token_parts`: durations that add up to the TTFT, for engines without a TTFT metric.
    """

    name: str
    prefix: str
    requests: Names
    prompt_tokens: Names = ()
    answer_tokens: Names = ()
    prompt_lengths: Names = ()
    answer_lengths: Names = ()
    first_token: Names = ()
    first_token_parts: Names = ()
    token_times: Names = ()
    queue: Names = ()
    running: Names = ()
    waiting: Names = ()
    cache_usage: Names = ()
    preemptions: Names = ()
    cache_hits: Names = ()
    cache_queries: Names = ()
    hit_rate: Names = ()
    drafted: Names = ()
    accepted: Names = ()
    accepted_share: Names = ()
    errors: Names = ()
    start_s: Names = ()

    @property
    def all_metrics(self) -> tuple[Metric, ...]:
        """All metrics of the engine."""
        return tuple(m for f in fields(self) if f.name not in ("name", "prefix") for m in getattr(self, f.name))
