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


def defer_import(module: str, extra: str, feature: str) -> Any:
    """Returns a stand-in that imports a module of an extra at its first use, which may raise MissingExtra."""
    return _Deferred(module, extra, feature)


class _Deferred:
    """Stands for a module until it is used, and for good if it is not installed."""

    def __init__(self, module: str, extra: str, feature: str) -> None:
        self._wanted = module, extra, feature

    def __getattr__(self, name: str) -> Any:
        return getattr(import_extra(*self._wanted), name)
