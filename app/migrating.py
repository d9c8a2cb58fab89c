"""Where the migrations are."""

from __future__ import annotations

from pathlib import Path

from alembic.config import Config


def alembic_config() -> Config:
    """The migrations beside the package, wherever it is installed and started from."""
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).resolve().parent.parent / "migrations"))
    return config
