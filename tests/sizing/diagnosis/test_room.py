"""Room in the batch and in the cache, prefixes and drafts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from app.sizing.hardware.engines.scheduling import SchedulerSettings
from app.sizing.question import DraftMethod, Speculative
from tests.sizing.comparing.given import HEAVY
from tests.sizing.diagnosis.given import SERVES, codes, first, serving

HITS = replace(HEAVY, cached_prefix_fraction=0.5)
DRAFTS = replace(SERVES, speculative=Speculative(DraftMethod.NGRAM, 3, 0.8))


@pytest.mark.parametrize(
    ("code", "seen"),
    [
        ("cache_full", {"cache_usage": 0.99, "waiting": 20.0}),
        ("preemptions", {"preemptions_per_request": 0.5}),
    ],
)
def test_a_cause_planted_comes_first(code: str, seen: dict[str, Any]) -> None:
    assert first(serving(**seen)).code == code


def test_a_batch_that_was_set_too_small_is_found_and_judged_without_its_limit() -> None:
    found = first(serving(replace(SERVES, max_batch=4), running=4.0, waiting=30.0))
    assert found.code == "batch_limit" and found.settings == {"max_batch": None}
    assert found.gain is not None and 0 < found.gain < 1


def test_memory_that_the_engine_was_not_given_is_given_back() -> None:
    found = first(serving(replace(SERVES, memory_fraction=0.8), cache_usage=0.99, waiting=20.0))
    assert found.code == "cache_full" and found.gain is not None


def test_prefixes_that_are_not_found_cost_what_they_save() -> None:
    assert "prefix_misses" in codes(serving(workload=HITS, prefix_hit_share=0.02))
    assert "prefix_misses" not in codes(serving(workload=HITS, prefix_hit_share=0.45))


def test_a_prefix_cache_that_is_off_is_turned_on() -> None:
    off = replace(SERVES, scheduler=SchedulerSettings(prefix_cache=False))
    found = next(f for f in serving(off, HITS, prefix_hit_share=0.0).findings if f.code == "prefix_misses")
    assert found.settings == {"scheduler.prefix_cache": True} and found.cause == "The prefix cache is off."


def test_drafts_that_are_not_accepted_are_found() -> None:
    assert "poor_drafts" in codes(serving(DRAFTS, acceptance_rate=0.2))
    assert "poor_drafts" not in codes(serving(DRAFTS, acceptance_rate=0.75))
