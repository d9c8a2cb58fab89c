"""Runs migrations against the database of the settings."""

from __future__ import annotations

from collections.abc import Collection

from alembic import context
from alembic.runtime.migration import MigrationContext
from alembic.util import CommandError
from sqlalchemy import Connection, text

from app.catalog import filing, holdings, hosted, keys, observations, outbox, purchasing, tables, tenants
from app.catalog.partitions import is_partition
from app.config import Settings
from app.db import EVERY_TENANT, UNHURRIED, Base, acting_for, make_engine
from app.migrating import lock_database

for row in (
    filing.FilingRow,
    holdings.PrivateRecordRow,
    hosted.HostedPriceRow,
    keys.KeyRow,
    observations.SyncRow,
    outbox.DeliveryRow,
    purchasing.PunchoutSessionRow,
    purchasing.PartNumberRow,
    purchasing.SliceRow,
    tables.AcceleratorRow,
    tenants.TenantRow,
):
    assert row.metadata is Base.metadata

url = context.config.attributes.get("database_url") or Settings().database_url


def mark_catalog_stale(
    ctx: MigrationContext,
    step: object,  # noqa: ARG001
    heads: Collection[str],
    run_args: object,  # noqa: ARG001
) -> None:
    """Marks the catalog as not loaded after any step, because a step may have emptied tables."""
    if heads:  # before the first step the table does not exist
        ctx.impl.execute(text("UPDATE catalog_versions SET digest = ''"))


def run_online() -> None:
    """Runs all steps in one transaction, for which other processes wait.

    SQLite changes a table by replacing it, so foreign keys are checked at the end and not between steps.
    """
    engine = make_engine(url, UNHURRIED)
    try:
        with acting_for(EVERY_TENANT), engine.connect() as connection:
            run_alone(connection, sqlite=connection.dialect.name == "sqlite")
    finally:
        engine.dispose()


def run_alone(connection: Connection, *, sqlite: bool) -> None:
    if sqlite:
        connection.exec_driver_sql("PRAGMA foreign_keys=OFF")
    lock_database(connection)
    context.configure(
        connection=connection,
        target_metadata=Base.metadata,
        render_as_batch=sqlite,
        compare_type=True,
        compare_server_default=True,
        on_version_apply=mark_catalog_stale,
        include_name=lambda name, kind, _: kind != "table" or not is_partition(name or ""),
    )
    with context.begin_transaction():
        context.run_migrations()
    if sqlite and (broken := connection.exec_driver_sql("PRAGMA foreign_key_check").all()):
        raise CommandError(f"{len(broken)} rows would reference missing rows, the first in table {broken[0][0]}")
    connection.commit()


def run_offline() -> None:
    context.configure(url=url, target_metadata=Base.metadata, literal_binds=True, on_version_apply=mark_catalog_stale)
    with context.begin_transaction():
        context.run_migrations()


if context.is_offline_mode():
    run_offline()
else:
    run_online()
