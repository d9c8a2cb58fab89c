"""Where the migrations are, and who may change schema and catalogue: one process at a time."""

from __future__ import annotations

from pathlib import Path

from alembic.config import Config
from sqlalchemy import Connection

OF_OURS = 0x68656164726F6F6D  # the number of our advisory lock: "headroom"


def alembic_config() -> Config:
    """The migrations beside the package, wherever it is installed and started from."""
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).resolve().parent.parent / "migrations"))
    return config


def alone(connection: Connection) -> None:
    """Waits for whoever prepares this database now; until this transaction ends, others wait for it.

    Raises the database's own error where that takes longer than the connection waits for locks.
    """
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({OF_OURS})")
    else:
        connection.exec_driver_sql("BEGIN IMMEDIATE")
