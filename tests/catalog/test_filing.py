"""Filing of stored answers on both databases: lists page through everything once, and status keeps its rules."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Engine, delete, update
from sqlalchemy.orm import Session

from app.catalog.filing import (
    Filing,
    FilingFilter,
    FilingRow,
    Status,
    StatusChangeRow,
    StatusUpdate,
    change_status,
    get_filing,
    list_changes,
    list_filings,
)
from app.catalog.recommendations import AnswerStore
from app.catalog.tables import RecommendationRow
from app.db import make_engine
from app.errors import ChangedMeanwhile, NotAllowed, UnknownRecommendation

IDS = [f"rec_{n:028x}" for n in range(7)]
BEGIN = datetime(2026, 11, 20, 8, tzinfo=UTC)
FILINGS = [
    Filing("Chat, Berlin", "PR-1", "4711", "m/a", "nvidia-h200", "8 x H200"),
    Filing("chat 100% Paris", "PR-2", "4711", "m/b", "nvidia-h200 nvidia-l4", "8 x H200 and 4 x L4"),
    Filing(None, None, None, "m/a", "nvidia-l40", "1 x L40"),
    *(Filing(f"batch_{n}", None, "12", "m/c", None, None) for n in range(4)),
]


WAYS = {
    Status.DRAFT: {Status.APPROVED, Status.SUPERSEDED},
    Status.APPROVED: {Status.DRAFT, Status.ORDERED, Status.SUPERSEDED},
    Status.ORDERED: {Status.SUPERSEDED},
    Status.SUPERSEDED: set[Status](),
}


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    """A database with seven answers, two of them stored in the same moment."""
    made = make_engine(request.getfixturevalue(f"{request.param}_url"))
    store = AnswerStore(made)
    of: dict[str, Any] = {"snapshot": "s", "request": b"{}", "body": b"{}", "supply": b"{}"}
    for identity, filing in zip(IDS, FILINGS, strict=True):
        assert store.store_answer(identity, **of, filing=filing).stored
        assert store.store_answer(identity, **of, filing=replace(filing, label="again")).stored  # the first stands
    with Session(made) as session, session.begin():
        for n, identity in enumerate(IDS):
            moment = BEGIN + timedelta(hours=n // 2)
            session.execute(update(FilingRow).where(FilingRow.recommendation == identity).values(stored_at=moment))
    yield made
    with Session(made) as session, session.begin():
        for row, key in (
            (StatusChangeRow, StatusChangeRow.recommendation),
            (FilingRow, FilingRow.recommendation),
            (RecommendationRow, RecommendationRow.id),
        ):
            session.execute(delete(row).where(key.in_(IDS)))
    made.dispose()


def listed(session: Session, limit: int = 100, **sought: Any) -> list[int]:
    """Which of the answers a list has, page by page."""
    found: list[int] = []
    after = None
    while True:
        rows, more = list_filings(session, FilingFilter(**sought), after=after, limit=limit)
        found += [IDS.index(row.recommendation) for row in rows if row.recommendation in IDS]
        if not more:
            return found
        assert len(rows) == limit
        after = rows[-1].stored_at.replace(tzinfo=rows[-1].stored_at.tzinfo or UTC), rows[-1].recommendation


@pytest.mark.parametrize("limit", [1, 2, 3, 100])
def test_pages_cover_all_once_the_newest_first(engine: Engine, limit: int) -> None:
    with Session(engine) as session:
        assert listed(session, limit) == [6, 5, 4, 3, 2, 1, 0]


@pytest.mark.parametrize(
    ("sought", "found"),
    [
        ({"label": "CHAT"}, [1, 0]),
        ({"label": "berlin chat"}, [0]),
        ({"label": "100%"}, [1]),
        ({"label": "batch_1"}, [4]),
        ({"label": "batch%"}, []),
        ({"reference": "PR-1"}, [0]),
        ({"reference": "pr-1"}, []),
        ({"cost_centre": "4711"}, [1, 0]),
        ({"models": {"m/a"}}, [2, 0]),
        ({"models": {"m/a"}, "cost_centre": "4711"}, [0]),
        ({"accelerators": {"nvidia-l4"}}, [1]),
        ({"accelerators": {"nvidia-h200"}}, [1, 0]),
        ({"accelerators": {"nvidia_h200"}}, []),
        ({"accelerators": {"nvidia-l4", "nvidia-l40"}}, [2, 1]),
        ({"created_after": BEGIN + timedelta(hours=2)}, [6, 5, 4]),
        ({"created_before": BEGIN + timedelta(hours=1)}, [1, 0]),
        ({"status": "approved"}, []),
    ],
)
def test_a_search_finds_what_it_says(engine: Engine, sought: dict[str, Any], found: list[int]) -> None:
    with Session(engine) as session:
        assert listed(session, **sought) == found


REACHED = {
    Status.DRAFT: [],
    Status.APPROVED: [Status.APPROVED],
    Status.ORDERED: [Status.APPROVED, Status.ORDERED],
    Status.SUPERSEDED: [Status.SUPERSEDED],
}


@pytest.mark.parametrize(("now", "to"), list(product(Status, Status)))
def test_every_step_is_allowed_or_refused(engine: Engine, now: Status, to: Status) -> None:
    with Session(engine) as session:
        row = get_filing(session, IDS[0])
        for status in REACHED[now]:
            change_status(session, row, StatusUpdate(status, "J. Doe"))
            session.refresh(row)
        if to in WAYS[now]:
            change_status(session, row, StatusUpdate(to, "J. Doe"))
        else:
            with pytest.raises(NotAllowed) as refused:
                change_status(session, row, StatusUpdate(to, "J. Doe"))
            assert set(refused.value.facts["allowed"]) == WAYS[now]
        session.rollback()


@pytest.mark.slow
@given(steps=st.lists(st.tuples(st.integers(0, 2), st.sampled_from(Status), st.none() | st.integers(0, 3)), max_size=8))
def test_status_goes_its_ways_alone_and_every_step_is_kept(
    engine: Engine, steps: list[tuple[int, Status, int | None]]
) -> None:
    """Against a plain model of it: an allowed change is stored, a refused one changes nothing."""
    state: dict[int, list[Status]] = {n: [Status.DRAFT] for n in range(3)}
    with Session(engine) as session:
        for n, status, by in steps:
            successor = by if status is Status.SUPERSEDED else None
            stands = successor is None or (successor != n and state.get(successor, [None])[-1] != Status.SUPERSEDED)
            change = StatusUpdate(status, "J. Doe", None, None if successor is None else IDS[successor])
            if status in WAYS[state[n][-1]] and stands:
                change_status(session, get_filing(session, IDS[n]), change)
                state[n].append(status)
            else:
                with pytest.raises(NotAllowed):
                    change_status(session, get_filing(session, IDS[n]), change)
            session.expire_all()
        for n, passed in state.items():
            row = get_filing(session, IDS[n])
            assert (row.status, row.version) == (passed[-1], len(passed) - 1)
            assert [c.status for c in list_changes(session, IDS[n])] == passed[1:]
            assert listed(session, status=passed[-1].value).count(n) == 1
        session.rollback()


def test_who_read_an_older_state_changes_nothing(engine: Engine) -> None:
    with Session(engine) as one, Session(engine) as other:
        read = get_filing(other, IDS[6])
        other.expunge(read)
        other.rollback()
        change_status(one, get_filing(one, IDS[6]), StatusUpdate(Status.SUPERSEDED, "first"))
        one.commit()
        with pytest.raises(ChangedMeanwhile):
            change_status(other, read, StatusUpdate(Status.APPROVED, "second"))
        other.rollback()
        assert [c.changed_by for c in list_changes(other, IDS[6])] == ["first"]
        assert get_filing(other, IDS[6]).status == Status.SUPERSEDED


def test_answers_that_are_not_stored_take_no_place(engine: Engine) -> None:
    with Session(engine) as session:
        with pytest.raises(UnknownRecommendation):
            get_filing(session, f"rec_{28 * 'f'}")
        with pytest.raises(UnknownRecommendation):
            gone = StatusUpdate(Status.SUPERSEDED, "J. Doe", None, f"rec_{28 * 'f'}")
            change_status(session, get_filing(session, IDS[0]), gone)
