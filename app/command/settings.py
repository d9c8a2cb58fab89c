"""Reads the settings for a command; an invalid one ends it with a sentence."""

from __future__ import annotations

import re
from typing import Any

import typer
from pydantic import ValidationError
from pydantic_settings import SettingsError

from app.command.ending import Exit
from app.config import Settings

# What a setting must be, by the type of its error and, for a pattern, by the name of the setting or field.
REASONS = {
    "bool_parsing": "must be true or false",
    "dict_type": "must be a JSON object",
    "extra_forbidden": "is unknown",
    "finite_number": "must be a finite number",
    "float_parsing": "must be a number",
    "greater_than": "must be greater than {gt:,.12g}",
    "greater_than_equal": "must be at least {ge:,.12g}",
    "int_parsing": "must be a whole number",
    "int_parsing_size": "must be a smaller whole number",
    "less_than_equal": "must be at most {le:,.12g}",
    "missing": "is required",
    "model_type": "must be a JSON object",
    "string_type": "must be a text",
    "tuple_type": "must be a JSON list",
}
URL_RULE = "must be an http or https URL without a user, such as https://headroom.example.com"
PATTERN_REASONS = {
    "access_log": "must be off, on or all",
    "identity_header": "must be the name of a header, such as X-Forwarded-User",
    "cors_origins": "must be * or an origin, such as https://portal.example.com",
    "log_level": "must be debug, info, warning or error",
    "model_hub_url": URL_RULE,
    "name": "must begin with a lower-case letter or digit and have only these, dots, _ and -, 60 characters at most",
    "price_feed_urls": URL_RULE,
    "public_url": URL_RULE,
}


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
    if not error["loc"]:  # from a validator of several settings, whose message begins with the name of one
        name, _, reason = error["msg"].removeprefix("Value error, ").partition(" ")
        return name, reason
    name, *inner = error["loc"]
    if error["type"] in ("ip_v4_network", "ip_v6_network"):  # reported once per version
        return f"{name} {inner[0]}", "must be a network, such as 10.0.0.0/8 or fd00::/8"
    place = f"{name}{''.join(f' {step}' for step in inner)}"
    if error["type"] == "string_pattern_mismatch":
        return place, PATTERN_REASONS[next(str(step) for step in (*reversed(inner), name) if step in PATTERN_REASONS)]
    if error["type"].startswith("date"):
        return place, "must be a date, such as 2026-11-20"
    reason = REASONS.get(error["type"])
    if reason is None:
        return place, error["msg"].removeprefix("Value error, ")
    return place, reason.format(**error.get("ctx", {}))


def report_setting(place: str, reason: str) -> None:
    """Print why a setting is invalid."""
    name, _, inner = place.partition(" ")
    typer.echo(f"HEADROOM_{name.upper()}{' ' + inner if inner else ''}: {reason}.", err=True)
