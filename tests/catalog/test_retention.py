"""Pruning deletes the oldest unfiled answers, by age and by size; never one with a label, a status or a reference."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterator
from contextvars import copy_context
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest
from alembic import command
from sqlalchemy import Engine, delete, func, select, text, update
from sqlalchemy.orm import Session

from app import telemetry
from app.catalog import recommendations
from app.catalog.filing import (
    UNFILED,
    Filing,
    FilingRow,
    Status,
    StatusChangeRow,
    StatusUpdate,
    change_status,
    get_filing,
)
from app.catalog.observations import LeaseRow
from app.catalog.purchasing import PunchoutStore
from app.catalog.recommendations import AnswerStore, AnswerTotals, FiledQuota, Pruner, RetentionPolicy
from app.catalog.tables import RecommendationRow
from app.db import make_engine
from app.errors import FilingLimited, NotAllowed, UnknownRecommendation
from app.work import work_for
from tests.conftest import migrations_for, new_postgres_database
from tests.test_telemetry import value as counted

NOW = datetime(2025, 11, 20, 8, tzinfo=UTC)
NOBODYS = Filing(None, None, None, "m/a", "nvidia-l4", "1 x L4")
IDS = [f"rec_{n:028x}" for n in range(12)]
SIZE = 1000
FOR_EVER = {2: {"label": "Chat"}, 3: {"reference": "PR-1"}, 4: {"cost_centre": "4711"}}
MOVED, SUCCESSOR, BACK_TO_DRAFT, ORDERED = IDS[5], IDS[6], IDS[7], IDS[8]
GOES = [IDS[n] for n in (0, 1, 9, 10, 11)]


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def empty(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    url = f"sqlite:///{tmp_path_factory.mktemp('retention')}/headroom.sqlite3"
    if request.param == "postgres":
        url = new_postgres_database(request.getfixturevalue("postgres_server"), "headroom_retention")
    command.upgrade(migrations_for(url), "head")
    made = make_engine(url)
    yield made
    made.dispose()


@pytest.fixture
def engine(empty: Engine) -> Iterator[Engine]:
    """A database with twelve answers, one a day, of which five are unfiled."""
    made = empty
    store = AnswerStore(made)
    for n, identity in enumerate(IDS):
        filing = replace(NOBODYS, **FOR_EVER.get(n, {}))
        of: dict[str, Any] = {"snapshot": "s", "request": b"{}", "body": b"x" * (SIZE - 4), "supply": b"{}"}
        assert store.store_answer(identity, **of, filing=filing).stored
    with Session(made) as session:
        for n, identity in enumerate(IDS):
            stored = {"stored_at": NOW - timedelta(days=len(IDS) - n)}
            session.execute(update(FilingRow).where(FilingRow.recommendation == identity).values(**stored))
        change_status(
            session, get_filing(session, MOVED), StatusUpdate(Status.SUPERSEDED, "me", superseded_by=SUCCESSOR)
        )
        session.commit()
        for status in (Status.APPROVED, Status.DRAFT):
            change_status(session, get_filing(session, BACK_TO_DRAFT), StatusUpdate(status, "me"))
            session.commit()
    visits = PunchoutStore(made)
    token = visits.open("b", "p", {}, now=NOW, lifetime=timedelta(hours=1))
    assert token is not None
    visits.record_choice(token, f"{ORDERED}-1", now=NOW)
    yield made
    with Session(made) as session:
        for table in (StatusChangeRow, FilingRow):
            session.execute(delete(table))
        session.execute(delete(RecommendationRow))
        session.execute(text("DELETE FROM punchout_sessions"))
        session.commit()


def left(engine: Engine) -> list[str]:
    with engine.connect() as connection:
        kept = connection.execute(select(RecommendationRow.id).order_by(RecommendationRow.id)).scalars().all()
        filed = connection.execute(select(FilingRow.recommendation)).scalars().all()
    assert sorted(kept) == sorted(filed)
    return sorted(kept)


def test_old_answers_are_deleted_unless_somebody_filed_them(engine: Engine) -> None:
    pruner = Pruner(engine, RetentionPolicy(days=5, bytes=0))
    assert pruner.count_surplus(now=NOW) == AnswerTotals(2, 2 * SIZE)
    assert left(engine) == IDS
    assert pruner.prune_all(now=NOW, pause_s=0) == AnswerTotals(2, 2 * SIZE)
    assert left(engine) == IDS[2:]
    assert (
        Pruner(engine, RetentionPolicy(days=1, bytes=0)).prune_all(now=NOW + timedelta(days=99), pause_s=0).answers == 3
    )
    assert left(engine) == sorted(set(IDS) - set(GOES))


def test_above_the_size_limit_the_oldest_answers_are_deleted(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recommendations, "AT_ONCE", 1)
    pruner = Pruner(engine, RetentionPolicy(days=0, bytes=5 * SIZE))
    assert pruner.count_unfiled() == AnswerTotals(7, 7 * SIZE)  # two of them are pointed to
    assert pruner.count_surplus(now=NOW) == AnswerTotals(2, 2 * SIZE)
    assert pruner.prune_all(now=NOW, pause_s=0) == AnswerTotals(2, 2 * SIZE)
    assert left(engine) == IDS[2:]
    assert pruner.prune_all(now=NOW, pause_s=0) == AnswerTotals()


def test_without_limits_nothing_is_deleted_and_new_answers_never(engine: Engine) -> None:
    assert Pruner(engine, RetentionPolicy(days=0, bytes=0)).prune_all(now=NOW, pause_s=0) == AnswerTotals()
    early = NOW - timedelta(days=len(IDS)) + recommendations.MIN_AGE / 2
    assert Pruner(engine, RetentionPolicy(days=0, bytes=1)).prune_all(now=early, pause_s=0) == AnswerTotals()


def test_answers_with_a_label_are_deleted_on_request_unless_they_are_in_use(engine: Engine) -> None:
    labels = {2: "Chat", 5: "Chat", 6: "Chat", 8: "Chat", 7: "Chat 2"}
    with Session(engine) as session:
        for n, label in labels.items():
            session.execute(update(FilingRow).where(FilingRow.recommendation == IDS[n]).values(label=label))
        session.commit()
    pruner = Pruner(engine, RetentionPolicy(days=0, bytes=0))
    # 6 replaced 5, and 8 was ordered; once 5 is gone with its history, nothing refers to 6
    for gone, dry_run in ((2, True), (3, False), (0, False)):
        assert pruner.delete_labelled("Chat", dry_run=dry_run) == AnswerTotals(gone, gone * SIZE)
    assert left(engine) == [IDS[n] for n in range(12) if n not in (2, 5, 6)]


def test_above_its_limit_no_further_answer_is_filed(engine: Engine) -> None:
    filed = AnswerTotals(5, 5 * SIZE)  # three with a field, two with a history
    store = AnswerStore(engine, quota=FiledQuota(engine, filed.bytes + SIZE))
    parts: dict[str, Any] = {"snapshot": "s", "request": b"{}", "body": b"x" * (SIZE - 4), "supply": b"{}"}
    more = [f"rec_{n:028x}" for n in range(20, 24)]
    labelled = replace(NOBODYS, label="Chat")
    assert store.store_answer(more[0], **parts, filing=labelled).stored
    refused = store.store_answer(more[1], **parts, filing=labelled)
    assert (refused.stored, refused.body) == (False, parts["body"])
    assert store.store_answer(more[2], **parts, filing=NOBODYS).stored
    with Session(engine) as session:
        with pytest.raises(NotAllowed, match=r"DELETE /recommendations"):
            store.keep_for_good(session, get_filing(session, more[2]))
        store.keep_for_good(session, get_filing(session, IDS[2]))
        store.delete_answer(session, get_filing(session, IDS[2]))
        session.commit()
    assert left(engine) == sorted([*IDS[:2], *IDS[3:], more[0], more[2]])
    fresh = AnswerStore(engine, quota=FiledQuota(engine, filed.bytes + SIZE))
    assert fresh.store_answer(more[1], **parts, filing=labelled).stored


def test_an_hour_of_filling_keeps_the_storage_within_its_limits(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two processes store filed and unfiled answers for an hour of a simulated clock, and a pruner waits as long as it
    may between two runs. Limits and rate are about a thousandth of those of a service that one client fills.
    """
    filed_limit, unfiled_limit, filed_each, unfiled_each = 20, 30, 2, 3  # answers of SIZE; per process between two runs
    clock, pause_s, names = [0.0], 1.5 * recommendations.EVERY_S, count(1000)
    monkeypatch.setattr(recommendations, "time", SimpleNamespace(monotonic=lambda: clock[0], time=lambda: clock[0]))
    monkeypatch.setattr(recommendations, "MOMENT_S", 60.0)  # a slow database stores, too
    stores = [AnswerStore(engine, quota=FiledQuota(engine, limit=filed_limit * SIZE)) for _ in range(2)]
    pruner = Pruner(engine, RetentionPolicy(days=0, bytes=unfiled_limit * SIZE))
    parts: dict[str, Any] = {"snapshot": "s", "request": b"{}", "body": b"x" * (SIZE - 4), "supply": b"{}"}
    filings = [replace(NOBODYS, label="Filler")] * filed_each + [NOBODYS] * unfiled_each
    young = math.ceil(recommendations.MIN_AGE.total_seconds() / pause_s + 1) * len(stores) * unfiled_each
    unfiled, deleted = AnswerTotals(), AnswerTotals()
    while clock[0] < 3600:
        ids = [f"rec_{next(names):028x}" for _ in range(len(stores) * len(filings))]
        for number, identity in enumerate(ids):
            stores[number % 2].store_answer(identity, **parts, filing=filings[number // 2])
        now = NOW + timedelta(seconds=clock[0])
        with engine.begin() as connection:
            connection.execute(update(FilingRow).where(FilingRow.recommendation.in_(ids)).values(stored_at=now))
        unfiled = pruner.count_unfiled()
        assert unfiled.answers <= unfiled_limit + young
        assert len(left(engine)) - unfiled.answers <= filed_limit + len(stores) * filed_each
        clock[0] += pause_s
        deleted += pruner.prune_all(now=NOW + timedelta(seconds=clock[0]), pause_s=0)
    assert deleted.answers > unfiled_limit + young  # the bound was reached long before the end


def test_what_callers_file_is_bounded_for_each_and_in_total(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    before, share, callers = len(IDS), 10, 4
    # 5 of the answers are filed. Two processes share the work.
    quotas = [FiledQuota(engine, limit=(5 + 25) * SIZE, daily=share * SIZE - 1) for _ in range(2)]
    stores, labelled = [AnswerStore(engine, quota=quota) for quota in quotas], replace(NOBODYS, label="Filler")
    parts: dict[str, Any] = {"snapshot": "s", "request": b"{}", "body": b"x" * (SIZE - 4), "supply": b"{}"}
    stored, refused, waits = Counter[str](), Counter[str](), []
    clock = [time.time()]
    monkeypatch.setattr(time, "time", lambda: clock[0])
    monkeypatch.setattr(recommendations, "QUOTA_READ_S", 0.0)
    monkeypatch.setattr(recommendations, "MOMENT_S", 60.0)  # a slow database stores, too

    def fill(caller: str) -> None:
        work_for(caller)
        for n in range(3 * share):
            try:
                quotas[n % 2].check_caller()
            except FilingLimited as limited:
                refused[caller] += 1
                waits.append(limited.retry_after_s)
                continue
            identity = f"rec_{1000 + sum(stored.values()):028x}"
            stored[caller] += stores[n % 2].store_answer(identity, **parts, filing=labelled).stored

    for n in range(callers):
        copy_context().run(fill, f"192.0.2.{n}")
    most = share + 1  # the second process learns with its last answer what the first has filed
    assert stored == {"192.0.2.0": most, "192.0.2.1": most, "192.0.2.2": 3, "192.0.2.3": 0}  # 25 fit in total
    assert refused == {"192.0.2.0": 3 * share - most, "192.0.2.1": 3 * share - most}
    assert len(left(engine)) == before + 25
    assert all(86_400 < wait < 200_000 for wait in waits)  # a day for a tenth of it more than TYPICAL_BYTES
    clock[0] += 86_400
    work_for("192.0.2.0")
    quotas[0].check_caller()  # a day later, it may file again
    leases = select(func.count()).select_from(LeaseRow)
    for later, kept in ((timedelta(), 3), (timedelta(days=3), 0)):
        with Session(engine) as session:
            Pruner(engine, RetentionPolicy(days=0, bytes=0)).prune_all(now=datetime.now(UTC) + later)
            assert session.scalar(leases) == kept
    work_for("")


def test_a_long_answer_is_stored_compressed_and_read_back_byte_for_byte(engine: Engine) -> None:
    body = b'{"trace": [' + b", ".join(b'{"step": %d, "value": 0.125}' % n for n in range(20_000)) + b"]}"
    store, identity = AnswerStore(engine), f"rec_{50:028x}"
    assert store.store_answer(
        identity, snapshot="s", request=b"{}", body=body, supply=b"{}" * 4000, filing=replace(NOBODYS, label="Chat")
    ).stored
    with engine.connect() as connection:
        kept = connection.execute(select(FilingRow.size_bytes).where(FilingRow.recommendation == identity)).scalar_one()
    assert kept < len(body) / 5
    fresh = AnswerStore(engine)  # without what the first one remembers
    assert fresh.find_answer(identity) == fresh.get_answer(identity)[0] == body
    assert fresh.get_answer_and_supply(identity) == (body, b"{}" * 4000)


def test_the_size_of_answers_and_its_limits_are_metrics(engine: Engine) -> None:
    Pruner(engine, RetentionPolicy(days=0, bytes=77, filed_bytes=99)).report_sizes()
    shown = telemetry.prometheus_text().decode()
    for line in (
        f'headroom_stored_bytes{{kind="unfiled"}} {7 * SIZE}.0',
        f'headroom_stored_bytes{{kind="filed"}} {5 * SIZE}.0',
        'headroom_stored_bytes_limit{kind="unfiled"} 77.0',
        'headroom_stored_bytes_limit{kind="filed"} 99.0',
    ):
        assert line in shown


def test_two_prune_commands_delete_each_answer_once(engine: Engine) -> None:
    one, other = (Pruner(engine, RetentionPolicy(days=1, bytes=0)) for _ in range(2))
    rows = one.prune_batch(now=NOW + timedelta(days=9))
    assert (rows.answers, other.prune_all(now=NOW + timedelta(days=9), pause_s=0).answers) == (5, 0)


def test_a_pruned_answer_is_not_found_which_says_what_to_do(engine: Engine) -> None:
    Pruner(engine, RetentionPolicy(days=1, bytes=0)).prune_all(now=NOW, pause_s=0)
    with pytest.raises(UnknownRecommendation, match=r"may have been deleted: send its request again"):
        AnswerStore(engine).get_answer(IDS[0])


def test_a_service_prunes_while_it_serves_requests_first_after_a_while(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recommendations, "EVERY_S", 0.2)
    pruner = Pruner(engine, RetentionPolicy(days=5, bytes=0))
    before = counted("headroom_pruned_answers_total")
    pruner.start()
    assert left(engine) == IDS
    until = time.monotonic() + 5
    while counted("headroom_pruned_answers_total") == before and time.monotonic() < until:
        time.sleep(0.02)
    pruner.stop()
    assert set(left(engine)) & set(GOES) == set()
    assert counted("headroom_pruned_answers_total") == before + len(set(IDS) - set(left(engine)))


@pytest.mark.parametrize("empty", ["sqlite"], indirect=True)
def test_unfiled_answers_are_found_by_an_index(engine: Engine) -> None:
    with engine.connect() as connection:
        plan = connection.execute(
            text(f"EXPLAIN QUERY PLAN SELECT sum(size_bytes) FROM filings WHERE {UNFILED.text}")
        ).all()
    assert "USING INDEX ix_filings_unfiled" in str(plan)
