"""What an engine calls its metrics: of each quantity the names it had, the newest first."""

from __future__ import annotations

from dataclasses import dataclass, fields

from app.observed.series import Metric

Names = tuple[Metric, ...]


@dataclass(frozen=True, slots=True)
class Engine:
    """Metrics of an engine by their canonical names; `prefix` as it is written. `token_times`: of requests or between
    tokens, as their counts tell. `first_token_parts`: what comes before the first token, where that is not counted.
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
    def metrics(self) -> tuple[Metric, ...]:
        """All that are read."""
        return tuple(m for f in fields(self) if f.name not in ("name", "prefix") for m in getattr(self, f.name))
