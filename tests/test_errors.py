"""One line says why something failed, and nothing that is secret."""

from __future__ import annotations

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.exc import OperationalError

from app.catalog.queries import count_rows
from app.errors import describe_error, redact_secrets


def after(error: Exception, because: Exception) -> Exception:
    error.__cause__ = because
    return error


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("postgresql+psycopg://headroom:s3c:r@t@db:5432/x", "postgresql+psycopg://***@db:5432/x"),
        ('host=db password="s3c r" user=u', "host=db password=*** user=u"),
        ("{'PASSWORD': 's3c', 'a': 1}", "{'PASSWORD': ***, 'a': 1}"),
        ("Authorization: Bearer s3cs3cs3c.s3c", "Authorization: ***"),
        ("client_secret=s3c&x=1", "client_secret=***&x=1"),
        ("signed by whsec_s3cs3c=", "signed by ***"),
        ("two models of 8 tokens: a, b", "two models of 8 tokens: a, b"),
    ],
)
def test_secrets_are_left_out(said: str, shown: str) -> None:
    assert redact_secrets(said) == shown


def test_a_database_tells_its_own_words_and_no_parameters() -> None:
    with create_engine("sqlite://").connect() as connection, pytest.raises(OperationalError) as failed:
        connection.execute(text("SELECT :said FROM nowhere"), {"said": "what was asked"})
    logged = describe_error(failed.value)
    assert (logged["error"], logged["message"]) == ("OperationalError", "no such table: nowhere")
    assert "asked" not in str(logged) and "because" not in logged


def test_a_line_cannot_be_broken_or_filled() -> None:
    assert describe_error(ValueError('\r\n{"level":\x1b[31m 1}\u2028second'))["message"] == '{"level": [31m 1}'
    assert len(describe_error(ValueError("x" * 5000))["message"]) == 300


def test_underlying_causes_and_single_errors_of_a_group_are_reported() -> None:
    error = after(RuntimeError("started already"), KeyError("layers"))
    assert describe_error(error)["because"] == "KeyError: 'layers'"
    assert describe_error(ExceptionGroup("tasks", [error]))["error"] == "RuntimeError"


def test_places_are_those_of_our_own_innermost_first() -> None:
    try:
        count_rows(None, None)  # type: ignore[arg-type]
    except AttributeError as error:
        assert describe_error(error)["at"].split(":")[0] == "app/catalog/queries.py"
