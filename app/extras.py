"""Modules of the optional extras, and the error that names the extra that a feature needs."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from app.errors import AppError


class MissingExtra(AppError):
    """A feature needs packages of an extra that is not installed. `feature` is the subject of the sentence."""

    code = "missing-extra"

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(
            f"{feature} needs the extra `{extra}`, which is not installed. Install it: pip install -e '.[{extra}]'",
            extra=extra,
        )


def import_extra(module: str, extra: str, feature: str) -> Any:
    """Returns a module that needs the packages of an extra. Raises MissingExtra without them."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "app":
            raise
        raise MissingExtra(feature, extra) from error


def import_or_defer(module: str, extra: str, feature: str) -> Any:
    """Returns a module of an extra. Without the extra, returns a stand-in whose first use raises MissingExtra."""
    try:
        return import_extra(module, extra, feature)
    except MissingExtra:
        return _StandIn(feature, extra)


class _StandIn:
    """Stands for a module that is not installed."""

    def __init__(self, feature: str, extra: str) -> None:
        self._missing = feature, extra

    def __getattr__(self, _: str) -> Any:
        raise MissingExtra(*self._missing)
