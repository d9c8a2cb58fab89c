"""Lists have one order whatever a database sorts by: pages give each row once, in the order of SQLite."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import Engine, select, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from app.catalog.lists import LISTS, bytewise, column_values, list_page, sort_key
from app.catalog.queries import list_support
from app.catalog.tables import ModelRow, OfferRow
from app.db import make_engine
from tests.conftest import ENGLISH, new_postgres_database, prepare


@pytest.fixture(scope="module")
def english(postgres_server: str) -> Iterator[Engine]:
    """A database that sorts as English does: small and capital letters together, without regard to punctuation."""
    how = f"TEMPLATE template0 LC_COLLATE '{ENGLISH}' LC_CTYPE '{ENGLISH}'"
    try:
        url = new_postgres_database(postgres_server, "headroom_english", how)
    except DBAPIError as error:
        pytest.skip(f"this server sorts by bytes alone: {str(error.orig).splitlines()[0]}")
    engine = make_engine(prepare(url))
    with engine.connect() as connection:
        mixed = connection.execute(text("SELECT x FROM (VALUES ('B'), ('a'), ('-c')) AS v(x) ORDER BY x"))
        assert mixed.scalars().all() == ["a", "B", "-c"]
    yield engine
    engine.dispose()


def walked(session: Session, what: str, limit: int) -> list[str]:
    """The keys of a list, page by page."""
    keys, after, of = list[str](), None, LISTS[what]
    while True:
        rows, cursor = list_page(session, what, allowed_values={}, name_query=None, after=after, limit=limit)
        keys += [str(getattr(row, of.key.key)) for row in rows]
        if cursor is None:
            return keys
        after = int(cursor) if of.has_integer_keys else cursor


def test_pages_give_each_row_once_in_the_order_of_sqlite(english: Engine, sqlite_url: str) -> None:
    here = make_engine(sqlite_url)
    with Session(english) as one, Session(here) as other:
        for what in ("models", "accelerators", "systems"):
            found = walked(one, what, 17)
            assert found == sorted(set(found))
            curated = {str(row.id) for row in other.scalars(select(ModelRow).where(ModelRow.origin == "curated"))}
            assert [key for key in walked(other, what, 50) if what != "models" or key in curated] == found
        assert column_values(one, "accelerators", "vendor") == sorted(column_values(other, "accelerators", "vendor"))
        assert [(s.engine, s.family, s.phase) for s in list_support(one)] == [
            (s.engine, s.family, s.phase) for s in list_support(other)
        ]
    here.dispose()


def test_texts_are_compared_by_bytes_and_numbers_as_they_are(english: Engine) -> None:
    assert str(bytewise(ModelRow.id).compile(english)) == '(models.id COLLATE "C")'
    assert str(bytewise(ModelRow.id)) == "models.id"
    assert str(sort_key(OfferRow.id).compile(english)) == "offers.id"
