"""Runs migrations against the database that settings name."""

from __future__ import annotations

from alembic import context

from app.catalog import filing, hosted_tables, outbox, punchouts, purchasing, slices, tables
from app.config import Settings
from app.db import UNHURRIED, Base, make_engine

for row in (
    filing.FilingRow,
    hosted_tables.HostedPriceRow,
    outbox.DeliveryRow,
    punchouts.PunchoutSessionRow,
    purchasing.PartNumberRow,
    slices.SliceRow,
    tables.AcceleratorRow,
):
    assert row.metadata is Base.metadata

url = context.config.attributes.get("database_url") or Settings().database_url


def run_online() -> None:
    engine = make_engine(url, UNHURRIED)
    with engine.connect() as connection:
        context.configure(
            connection=connection,
            target_metadata=Base.metadata,
            render_as_batch=connection.dialect.name == "sqlite",
            compare_type=True,
            compare_server_default=True,
        )
        with context.begin_transaction():
            context.run_migrations()
    engine.dispose()


def run_offline() -> None:
    context.configure(url=url, target_metadata=Base.metadata, literal_binds=True)
    with context.begin_transaction():
        context.run_migrations()


if context.is_offline_mode():
    run_offline()
else:
    run_online()
