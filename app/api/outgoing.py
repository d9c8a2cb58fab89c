"""What every answer passes on its way out: compression, and leave for pages of other origins to read it."""

from __future__ import annotations

from collections.abc import Sequence

from fastapi import FastAPI
from fastapi.middleware.cors import CORSMiddleware
from fastapi.middleware.gzip import GZipMiddleware

COMPRESSION = 4  # of gzip
EXPOSED = ("ETag", "Location", "Retry-After", "X-Request-ID")  # what a page of another origin may read beside the body


def install(app: FastAPI, origins: Sequence[str], compress_from_bytes: int) -> None:
    """Compress answers of at least so many bytes for clients that take gzip; let pages of these origins call."""
    app.add_middleware(GZipMiddleware, minimum_size=compress_from_bytes, compresslevel=COMPRESSION)
    if origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=origins,
            allow_methods=["GET", "POST", "PATCH"],
            allow_headers=["*"],
            expose_headers=EXPOSED,
        )
