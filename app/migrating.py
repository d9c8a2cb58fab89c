"""Location of the database migrations, and the lock that lets one process at a time change schema and catalog."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection

if TYPE_CHECKING:
    from alembic.config import Config

ADVISORY_LOCK_ID = 0x68656164726F6F6D  # the bytes of "headroom"


def alembic_config() -> Config:
    """Returns the Alembic configuration for the migrations next to the package, whatever the working directory."""
    from alembic.config import Config  # noqa: PLC0415, only migrations need it

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).resolve().parent.parent / "migrations"))
    return config


def lock_database(connection: Connection) -> None:
    """Locks the database for this transaction: waits for a process that prepares it now, and makes later ones wait.

    Raises the database's own error if the wait exceeds the lock timeout of the connection.
    """
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({ADVISORY_LOCK_ID})")
    else:
        connection.exec_driver_sql("BEGIN IMMEDIATE")
