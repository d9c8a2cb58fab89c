"""Observed prices and availability in one partition per month on PostgreSQL; SQLite keeps one table. An index of the
observations with capacity.

Revision ID: 0020
Revises: 0019

An earlier version may still write until the end of the next month, whose partitions exist from the start.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None

# Table, moment of its rows, and its check.
TABLES = (
    ("price_observations", "observed_at", "price_positive", "usd_per_hour > 0"),
    ("availability_observations", "seen_at", "state_known", "state IN ('available', 'low', 'none', 'unknown')"),
)


CAPACITY = "ix_availability_observations_capacity"
HAS_CAPACITY = sa.text("state <> 'none'")


def upgrade() -> None:
    for table, moment, check, condition in TABLES if op.get_context().dialect.name == "postgresql" else ():
        begin(table, f"PARTITION BY RANGE ({moment})")
        for month in months_of(table, moment):
            add_partition(table, month)
        finish(table, moment, f"id, {moment}", check, condition)
    where = {f"{dialect}_where": HAS_CAPACITY for dialect in ("postgresql", "sqlite")}
    op.create_index(CAPACITY, "availability_observations", ["key", "seen_at"], **where)


def downgrade() -> None:
    op.drop_index(CAPACITY, table_name="availability_observations")
    for table, moment, check, condition in TABLES if op.get_context().dialect.name == "postgresql" else ():
        begin(table, "")
        finish(table, moment, "id", check, condition)


def begin(table: str, how: str) -> None:
    """Creates an empty table with the columns and the sequence of another."""
    op.execute(f"CREATE TABLE {table}_new (LIKE {table} INCLUDING DEFAULTS) {how}")
    op.execute(f"ALTER SEQUENCE {table}_id_seq OWNED BY {table}_new.id")


def months_of(table: str, moment: str) -> list[str]:
    """First days of the months that have rows, of this month and of the next."""
    query = (
        f"SELECT DISTINCT date_trunc('month', {moment} AT TIME ZONE 'UTC') FROM {table} "
        "UNION SELECT date_trunc('month', now() AT TIME ZONE 'UTC') + n * interval '1 month' FROM generate_series(0, 1) n"
    )
    return [f"{month:%Y-%m}" for month in op.get_bind().execute(sa.text(query)).scalars()]


def add_partition(table: str, month: str) -> None:
    """Adds the partition of a month, YYYY-MM, in UTC, under the name that it keeps when the table is renamed."""
    year, number = map(int, month.split("-"))
    following = f"{year + number // 12}-{number % 12 + 1:02}"
    op.execute(
        f"CREATE TABLE {table}_y{year}m{number:02} PARTITION OF {table}_new "
        f"FOR VALUES FROM ('{month}-01 00:00+00') TO ('{following}-01 00:00+00')"
    )


def finish(table: str, moment: str, key: str, check: str, condition: str) -> None:
    """Moves the rows, and gives the new table the name and the constraints of the old one."""
    op.execute(f"INSERT INTO {table}_new SELECT * FROM {table}")
    op.execute(f"DROP TABLE {table}")
    op.execute(f"ALTER TABLE {table}_new RENAME TO {table}")
    op.execute(
        f"ALTER TABLE {table} ADD CONSTRAINT pk_{table} PRIMARY KEY ({key}), "
        f"ADD CONSTRAINT fk_{table}_key_offer_keys FOREIGN KEY (key) REFERENCES offer_keys (id), "
        f"ADD CONSTRAINT ck_{table}_{check} CHECK ({condition})"
    )
    op.create_index(f"ix_{table}_key", table, ["key", moment])
