"""Seeding is idempotent and atomic, and both databases yield the same catalog."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import delete, select, update
from sqlalchemy.orm import Session, sessionmaker

from app.catalog import seed as seeding
from app.catalog.files import read_rows
from app.catalog.models import load_models
from app.catalog.queries import count_rows, list_compared, list_spreads, load_snapshot, newest_version
from app.catalog.snapshot import CatalogStore, EmptyCatalog
from app.catalog.tables import AcceleratorRow, CatalogVersionRow, ModelRow, OfferRow, SystemRow
from app.db import Base, make_engine
from app.errors import AmbiguousModel, UnknownModel
from app.sizing.question import Question
from app.sizing.recommend import recommend_hardware
from tests.conftest import copied
from tests.examples import CHAT, PRETRAIN, rows_in


def test_a_second_seed_changes_nothing(sqlite_url: str) -> None:
    engine = make_engine(sqlite_url)
    with Session(engine) as session:
        before = newest_version(session)
        assert seeding.seed_catalog(session) is False
        assert newest_version(session) == before
        assert count_rows(session, AcceleratorRow) == rows_in("accelerators.csv")
        assert count_rows(session, SystemRow) == rows_in("systems.csv")
        assert count_rows(session, ModelRow) == rows_in("models.jsonl")
    engine.dispose()


@pytest.mark.slow
def test_a_changed_catalogue_is_replaced_whole(sqlite_url: str, tmp_path: Path) -> None:
    engine = make_engine(copied(sqlite_url, tmp_path / "s.sqlite3"))
    with Session(engine) as session:
        session.execute(update(AcceleratorRow).where(AcceleratorRow.slug == "nvidia-l4").values(power_w=1.0))
        session.execute(delete(OfferRow).where(OfferRow.provider == "aws"))
        session.execute(update(CatalogVersionRow).values(digest="older"))
        session.commit()
        assert seeding.seed_catalog(session) is True
        assert session.scalars(select(AcceleratorRow.power_w).where(AcceleratorRow.slug == "nvidia-l4")).one() == 72
        assert count_rows(session, OfferRow) == rows_in("offers.csv")
    engine.dispose()


def test_spreads_and_what_predictions_were_said_to_hold_come_out_as_the_files_have_them(sqlite_url: str) -> None:
    engine = make_engine(sqlite_url)
    with Session(engine) as session:
        spreads = {s.quantity: s for s in list_spreads(session)}
        compared = {(c.measurement, c.metric): c for c in list_compared(session)}
    engine.dispose()
    for row in read_rows("spreads.csv"):
        found = spreads[row["quantity"]]
        worse = [float(row[f"worse_p{percent}"]) for percent in (5, 10, 20, 50, 80, 90, 95)]
        assert (list(found.worse), found.rows) == (worse, int(row["rows"]))
        assert (found.alone, found.remote) == (float(row["alone"]), float(row["remote"]))
    for row in list(read_rows("predictions.csv"))[::500]:
        known = compared[row["measurement"], row["metric"]]
        for name in ("neighbor_sources", "distance", "low", "high", "promised"):
            assert getattr(known, name) == float(row[name])


@pytest.mark.slow
def test_a_failing_seed_leaves_the_old_catalogue(
    sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = make_engine(copied(sqlite_url, tmp_path / "s.sqlite3"))
    with Session(engine) as session:
        session.execute(update(CatalogVersionRow).values(digest="older"))
        session.commit()

    def broken() -> list[dict[str, object]]:
        raise RuntimeError("disk")

    monkeypatch.setattr(seeding, "model_entries", broken)
    with Session(engine) as session, pytest.raises(RuntimeError):
        seeding.seed_catalog(session)
    with Session(engine) as session:
        assert count_rows(session, AcceleratorRow) == rows_in("accelerators.csv")
        assert count_rows(session, OfferRow) == rows_in("offers.csv")
        version = newest_version(session)
        assert version is not None
        assert version[1] == "older"
    engine.dispose()


@pytest.mark.slow
def test_sqlite_and_postgres_give_equal_answers(sqlite_url: str, postgres_url: str) -> None:
    answers = []
    for url in (sqlite_url, postgres_url):
        engine = make_engine(url)
        with Session(engine) as session:
            version = newest_version(session)
            assert version is not None
            catalog = load_snapshot(session, version[1], version[2])
        engine.dispose()
        answers.append(
            (catalog.version, [recommend_hardware(Question(w, trace=True), catalog) for w in (CHAT, PRETRAIN)])
        )
    assert answers[0] == answers[1]


def test_an_empty_database_says_so(tmp_path: Path) -> None:
    engine = make_engine(f"sqlite:///{tmp_path}/e.sqlite3")
    Base.metadata.create_all(engine)
    with pytest.raises(EmptyCatalog):
        CatalogStore(sessionmaker(engine), check_s=0).catalog()
    engine.dispose()


@pytest.mark.slow
def test_a_lost_database_keeps_the_market_at_hand(sqlite_url: str, tmp_path: Path) -> None:
    engine = make_engine(copied(sqlite_url, tmp_path / "l.sqlite3"))
    store = CatalogStore(sessionmaker(engine), check_s=0)
    before = store.catalog()
    Base.metadata.drop_all(engine)
    assert store.catalog() is before
    engine.dispose()


@pytest.mark.slow
def test_a_newer_version_replaces_the_market(sqlite_url: str, tmp_path: Path) -> None:
    engine = make_engine(copied(sqlite_url, tmp_path / "n.sqlite3"))
    store = CatalogStore(sessionmaker(engine), check_s=0)
    before = store.catalog()
    with Session(engine) as session:
        session.execute(update(CatalogVersionRow).values(digest="older"))
        session.commit()
        seeding.seed_catalog(session)
    assert store.catalog() is not before
    assert store.catalog().version == before.version
    engine.dispose()


@pytest.mark.parametrize(
    ("typed", "model"),
    [
        ("meta-llama/Llama-3.1-70B-Instruct", "meta-llama/Llama-3.1-70B-Instruct"),
        ("LLAMA-3.1-70B-INSTRUCT", "meta-llama/Llama-3.1-70B-Instruct"),
        ("llama 3.1 8b instruct", "meta-llama/Llama-3.1-8B-Instruct"),
        ("llama-3.1-8b-instruct", "meta-llama/Llama-3.1-8B-Instruct"),
        ("Mistral_7B-v0.1", "mistralai/Mistral-7B-v0.1"),
        ("resnet50", "microsoft/resnet-50"),
        ("deepseek-v3:671b", "deepseek-ai/DeepSeek-V3"),
    ],
)
def test_models_are_found_as_people_type_them(sqlite_url: str, typed: str, model: str) -> None:
    engine = make_engine(sqlite_url)
    with Session(engine) as session:
        assert load_models(session).find_architecture(typed).name == model
    engine.dispose()


def test_an_unknown_model_names_the_nearest(sqlite_url: str) -> None:
    engine = make_engine(sqlite_url)
    with Session(engine) as session, pytest.raises(UnknownModel) as caught:
        load_models(session).find_architecture("llama-3.1-80b-instruct")
    assert any("llama-3.1" in name for name in caught.value.facts["nearest"])
    engine.dispose()


def test_an_ambiguous_alias_is_refused_with_the_choices(sqlite_url: str, tmp_path: Path) -> None:
    engine = make_engine(copied(sqlite_url, tmp_path / "a.sqlite3"))
    with Session(engine) as session:
        from app.catalog.tables import ModelAliasRow  # noqa: PLC0415

        session.add_all(
            [
                ModelAliasRow(alias="the-model", model="openai-community/gpt2"),
                ModelAliasRow(alias="the-model", model="tiiuae/falcon-7b"),
            ]
        )
        session.commit()
        with pytest.raises(AmbiguousModel) as caught:
            load_models(session).find_architecture("The Model")
    assert caught.value.facts["choices"] == ["openai-community/gpt2", "tiiuae/falcon-7b"]
    engine.dispose()


@pytest.mark.slow
def test_a_market_is_the_same_value_twice(sqlite_url: str) -> None:
    engine = make_engine(sqlite_url)
    with Session(engine) as session:
        version = newest_version(session)
        assert version is not None
        first, second = (load_snapshot(session, version[1], version[2]) for _ in range(2))
    engine.dispose()
    assert first.accelerators == second.accelerators
    assert recommend_hardware(Question(replace(CHAT, peak_per_s=1.0)), first) == recommend_hardware(
        Question(replace(CHAT, peak_per_s=1.0)), second
    )
