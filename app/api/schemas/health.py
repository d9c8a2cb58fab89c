"""What the calls for operations answer."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from app.api.schemas.base import Shown, shown_as


class AliveShown(Shown):
    """The process runs."""

    model_config = shown_as({"status": "ok"})

    status: Literal["ok"] = Field(description="Always ok: it answers.")


class ReadyShown(Shown):
    """The service takes traffic, on this version of the catalogue."""

    model_config = shown_as({"status": "ready", "snapshot": "a92c48cdaec828d7", "prices_as_of": "2026-08-22"})

    status: Literal["ready"] = Field(description="Always ready; otherwise the answer is a problem.")
    snapshot: str
    prices_as_of: str
