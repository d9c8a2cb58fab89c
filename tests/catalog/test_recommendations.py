"""Storing an answer delays it by a moment at most, and answers reported as stored are stored."""

from __future__ import annotations

import time

import pytest
from sqlalchemy import Engine

from app.catalog import recommendations
from app.catalog.filing import Filing
from app.catalog.recommendations import MOMENT_S, THREADS, AnswerCache, AnswerStore, StoredAnswer
from app.errors import NotFound
from tests.outages import Outage

FILING = Filing(label=None, reference=None, cost_centre=None, model="m", accelerators="a", option="o")
LATE_S = MOMENT_S + 0.2


def keep(store: AnswerStore, number: int) -> tuple[StoredAnswer, float]:
    """What became of an answer, and seconds until that was known."""
    began = time.monotonic()
    kept = store.store_answer(
        f"rec_{number:028x}", snapshot="s", request=b"{}", body=b"[%d]" % number, supply=b"{}", filing=FILING
    )
    return kept, time.monotonic() - began


def stored(store: AnswerStore, number: int) -> bytes | None:
    try:
        return store.get_answer(f"rec_{number:028x}")[0]
    except NotFound:
        return None


def test_answers_reported_as_stored_are_stored(engine: Engine) -> None:
    store = AnswerStore(engine)
    assert keep(store, 1)[0] == StoredAnswer(b"[1]", stored=True)
    assert stored(AnswerStore(engine), 1) == b"[1]"
    assert store.find_answer(f"rec_{1:028x}") == b"[1]"
    assert store.find_answer(f"rec_{2:028x}") is None


def test_a_database_that_hangs_delays_an_answer_by_a_moment(engine: Engine) -> None:
    outage, store = Outage(engine), AnswerStore(engine)
    keep(store, 1)
    with outage.held():
        began = time.monotonic()
        assert store.find_answer(f"rec_{1:028x}") == b"[1]"  # remembered
        assert time.monotonic() - began < 0.1
        assert store.find_answer(f"rec_{2:028x}") is None
        assert time.monotonic() - began < LATE_S
        for number in (2, 3):  # somebody has waited in vain already
            kept, took = keep(store, number)
            assert kept == StoredAnswer(b"[%d]" % number, stored=False)
            assert took < 0.1
    until = time.monotonic() + 10
    while None in (stored(store, 2), stored(store, 3)) and time.monotonic() < until:
        time.sleep(0.02)
    assert (stored(store, 2), stored(store, 3)) == (b"[2]", b"[3]")  # kept as soon as that could be


def test_a_first_write_is_waited_for_no_longer_than_a_moment(engine: Engine) -> None:
    outage, store = Outage(engine), AnswerStore(engine)
    with outage.held():
        kept, took = keep(store, 1)
    assert not kept.stored
    assert took < LATE_S


def test_a_lookup_without_a_waiting_caller_is_skipped(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recommendations, "UNASKED_S", 0.0)
    monkeypatch.setattr(recommendations, "MOMENT_S", 0.02)
    outage, store = Outage(engine), AnswerStore(engine)
    with outage.held():
        for number in range(20):
            assert store.find_answer(f"rec_{number:028x}") is None
    monkeypatch.undo()
    assert keep(store, 99)[0].stored
    assert outage.met <= THREADS + 3  # those that were under way, and the writing


def test_more_writes_than_may_wait_are_dropped_and_reported(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recommendations, "MOST_WRITES", 2)
    outage, store = Outage(engine), AnswerStore(engine)
    with outage.held():
        assert not any(keep(store, number)[0].stored for number in range(4))
    until = time.monotonic() + 10
    while None in (stored(store, 0), stored(store, 1)) and time.monotonic() < until:
        time.sleep(0.02)  # the two writes end in any order
    assert [stored(store, number) is not None for number in range(4)] == [True, True, False, False]


def test_memory_of_answers_is_bounded() -> None:
    given = AnswerCache(100)
    for number in range(50):
        given.put(str(number), bytes(10))
    assert sum(given.get(str(number)) is not None for number in range(50)) == 10
    assert given.get("49") is not None
    given.put("whale", bytes(1000))
    assert given.get("whale") is not None
    assert given.get("49") is None


def test_a_refused_write_is_reported_at_once(engine: Engine) -> None:
    outage, store = Outage(engine), AnswerStore(engine)
    with outage.refused():
        kept, took = keep(store, 1)
    assert not kept.stored
    assert took < LATE_S
    assert stored(store, 1) is None
