"""Schemas of the health endpoints."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from app.api.schemas.base import ResponseModel, with_examples


class AliveShown(ResponseModel):
    """The process is running."""

    model_config = with_examples({"status": "ok"})

    status: Literal["ok"] = Field(description="Always ok if the service responds.")


class ReadyShown(ResponseModel):
    """The service accepts requests, with this version of the catalog."""

    model_config = with_examples({"status": "ready", "snapshot": "a92c48cdaec828d7", "prices_as_of": "2026-08-22"})

    status: Literal["ready"] = Field(description="Always ready; otherwise the response is a problem.")
    snapshot: str
    prices_as_of: str
