"""Reads the settings for a command; an invalid one ends it with a sentence."""

from __future__ import annotations

import re

import typer
from pydantic import ValidationError
from pydantic_settings import SettingsError
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from app.command.ending import Exit
from app.config import Settings


def load_settings() -> Settings:
    """Read the settings from the environment. An invalid one is reported by its variable's name, without its value."""
    try:
        configured = Settings()
        make_url(configured.database_url).get_dialect()
    except ValidationError as error:
        for each in error.errors():
            # The validator of all settings reports no location; it checks webhooks only.
            name, *inner = each["loc"] or ("webhooks",)
            place = "".join(f" {step}" for step in inner)
            report_setting(f"{name}{place}", each["msg"].removeprefix("Value error, "))
        raise typer.Exit(Exit.FAILED) from error
    except SettingsError as error:
        field = next(iter(re.findall(r'field "(\w+)"', str(error))), "setting")
        report_setting(field, "must be valid JSON")
        raise typer.Exit(Exit.FAILED) from error
    except ArgumentError as error:
        report_setting("database_url", "must be the URL of an SQLite or PostgreSQL database")
        raise typer.Exit(Exit.FAILED) from error
    return configured


def report_setting(place: str, reason: str) -> None:
    """Print why a setting is invalid."""
    name, _, inner = place.partition(" ")
    typer.echo(f"HEADROOM_{name.upper()}{' ' + inner if inner else ''}: {reason}.", err=True)
