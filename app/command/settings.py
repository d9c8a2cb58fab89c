"""Reads the settings for a command; an invalid one ends it with a sentence."""

from __future__ import annotations

import re
from typing import Any

import typer
from pydantic import ValidationError
from pydantic_settings import SettingsError

from app.command.ending import Exit
from app.config import Settings


def load_settings() -> Settings:
    """Read the settings from the environment. An invalid one is reported by its variable's name, without its value."""
    try:
        configured = Settings()
    except ValidationError as error:
        for place, reason in dict(map(setting_error, error.errors())).items():
            report_setting(place, reason)
        raise typer.Exit(Exit.FAILED) from error
    except SettingsError as error:
        field = next(iter(re.findall(r'field "(\w+)"', str(error))), "setting")
        report_setting(field, "must be valid JSON")
        raise typer.Exit(Exit.FAILED) from error
    return configured


def setting_error(error: Any) -> tuple[str, str]:
    """Name of an invalid setting with the place in it, and the reason."""
    # The validator of all settings reports no location; it checks webhooks only.
    name, *inner = error["loc"] or ("webhooks",)
    if error["type"] in ("ip_v4_network", "ip_v6_network"):  # reported once per version
        return f"{name} {inner[0]}", "must be a network, such as 10.0.0.0/8 or fd00::/8"
    return f"{name}{''.join(f' {step}' for step in inner)}", error["msg"].removeprefix("Value error, ")


def report_setting(place: str, reason: str) -> None:
    """Print why a setting is invalid."""
    name, _, inner = place.partition(" ")
    typer.echo(f"HEADROOM_{name.upper()}{' ' + inner if inner else ''}: {reason}.", err=True)
