"""Records of engines and schedulers, as a person adds them to the data files."""

from __future__ import annotations

from typing import Any

import pytest

from app.sizing.facts import InvalidFact
from app.sizing.hardware.benchmarks import BENCHMARKS
from app.sizing.hardware.engines.read import read_engine, read_schedulers
from app.sizing.hardware.engines.record import Engine, Policy, Scheduling

STEPS = [{"from_gib": 0, "max_batched_tokens": 2048, "max_sequences": 64}]
FIRST: dict[str, Any] = {
    "name": "acme",
    "steps": STEPS,
    "policy": "prefill_first",
    "read": "2026-11",
    "sources": {"steps": "acme/args.py", "policy": "acme/loop.py"},
}


def test_a_new_version_changes_what_it_states() -> None:
    later = {"name": "acme", "since": "2.1", "like": "acme", "policy": "mixed", "read": "2026-12"}
    sources = {"policy": "acme/loop.py of 2.1"}
    (old, first), (new, second) = read_schedulers([FIRST, {**later, "sources": sources}])["acme"]
    assert (old, new) == ((0, 0), (2, 1))
    assert (first.policy, second.policy) == (Policy.PREFILL_FIRST, Policy.MIXED)
    assert first.steps == second.steps and second.read == "2026-12"
    assert second.sources == {"steps": "acme/args.py", "policy": "acme/loop.py of 2.1"}


def test_a_scheduler_that_was_not_read_has_no_source() -> None:
    similar = {"name": "other", "like": "acme", "unread": "a fork"}
    rule = read_schedulers([FIRST, similar])["other"][0][1]
    assert (rule.policy, rule.sources, rule.read) == (Policy.PREFILL_FIRST, {}, "")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"polcy": "mixed"}, "schedulers.toml, scheduler acme: unknown key 'polcy'"),
        ({"policy": "fast"}, "scheduler acme, policy: 'fast' is not one of mixed, prefill_first, static"),
        ({"slots": True}, "scheduler acme: sources.slots is missing"),
        ({"read": ""}, "scheduler acme: 'read' or 'as_of' is missing"),
        ({"read": "yesterday"}, "scheduler acme: 'read' must be a date"),
        ({"like": "none"}, "scheduler acme: there is no record 'none'"),
        ({"steps": [{"from_gib": 0}]}, r"scheduler acme, steps\[0\]: 'max_batched_tokens' is missing"),
    ],
)
def test_a_scheduler_that_does_not_fit_says_why(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidFact, match=said):
        read_schedulers([{**FIRST, **changed}])


@pytest.mark.parametrize(("since", "said"), [("new", "must be a version"), ("0.0", "must be later"), (None, "must be")])
def test_versions_come_oldest_first(since: str | None, said: str) -> None:
    second = {**FIRST, "like": "acme"} | ({"since": since} if since else {})
    with pytest.raises(InvalidFact, match=f"scheduler acme.*: 'since' {said}"):
        read_schedulers([FIRST, second])


MEMORY = {"fraction": 0.9, "fraction_of": "device", "logits_copies": 1.0, "graphs_inside": True}
RULES = {"acme": (((0, 0), Scheduling(slots=True)), ((2, 1), Scheduling()))}
ACME: dict[str, Any] = {
    "name": "acme",
    "aliases": ["acme-serve"],
    "runtime": "eager",
    "today": {"since": "2.1", "month": "2026-10"},
    "scheduler": "acme",
    "benchmark": "vllm",
    "memory": [MEMORY, {**MEMORY, "since": "2.0", "fraction": 0.8, "source": "its start-up log"}],
    "competes": ["vision"],
}


def test_an_engine_names_its_scheduler_and_benchmark() -> None:
    engine = read_engine(ACME, {}, RULES)
    assert (engine.aliases, engine.runtime, engine.competes) == (("acme-serve",), "eager", ("vision",))
    assert engine.today == ((2, 1), "2026-10")
    assert engine.benchmark is BENCHMARKS["vllm"]
    assert [engine.scheduling_at(v).slots for v in ("1.9", "2.1", None)] == [True, False, False]
    assert [engine.memory_at(v).fraction for v in ("1.9", "2.0", None)] == [0.9, 0.8, 0.8]


def test_an_engine_without_versions_has_one_rule() -> None:
    engine = read_engine({**ACME, "memory": [MEMORY], "scheduler": "one"}, {}, {"one": RULES["acme"][1:]})
    assert (engine.memory.fraction, engine.memory_since, engine.scheduling_since) == (0.9, (), ())
    assert read_engine({"name": "plain"}, {}, {}) == Engine("plain")


def test_a_front_replaces_what_its_table_states() -> None:
    below = read_engine(ACME, {}, RULES)
    front = read_engine({"name": "top", "on": "acme", "benchmark": "running-server"}, {"acme": below}, RULES)
    assert front == below.derive_engine("top", benchmark=BENCHMARKS["running-server"])
    assert front.judged_as == "acme" and front.runtime == "eager" and front.competes == ()


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"runtim": "eager"}, "engines.toml, engine acme: unknown key 'runtim'"),
        ({"runtime": "lazy"}, "engine acme, runtime: 'lazy' is not of type"),
        ({"packs": "yes"}, "engine acme, packs: 'yes' is not of type"),
        ({"benchmark": "none"}, "engine acme: there is no record 'none'. Known records: running-server"),
        ({"scheduler": "none"}, "engine acme: there is no record 'none'. Known records: acme"),
        ({"on": "none"}, "engine acme: there is no record 'none'"),
        ({"today": {"month": "2026-10"}}, "engine acme: 'since' must be a version"),
        ({"memory": [MEMORY, MEMORY]}, r"engine acme, memory\[1\]: 'since' must be a version"),
        ({"memory": [{**MEMORY, "fraction_of": "disk"}]}, r"engine acme, memory\[0\], fraction_of: 'disk' is not"),
        ({"wide_experts": {"dispatch_bytes": 1, "combine_bytes": 2}}, "engine acme, wide_experts: 'source' is missing"),
    ],
)
def test_an_engine_that_does_not_fit_says_why(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidFact, match=said):
        read_engine({**ACME, **changed}, {}, RULES)
