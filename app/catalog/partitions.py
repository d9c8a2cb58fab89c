"""Monthly partitions of the observations on PostgreSQL. SQLite has one table each."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, date, datetime

from sqlalchemy import func, select
from sqlalchemy.orm import Session

PARTITIONED = ("price_observations", "availability_observations")
_NAME = re.compile(rf"^({'|'.join(PARTITIONED)})_y\d{{4}}m\d{{2}}$")


def is_partition(table: str) -> bool:
    return _NAME.match(table) is not None


def following_month(day: date) -> date:
    """Returns the first day of the month after that of a day.

    Check:
        >>> following_month(date(2026, 12, 31)).isoformat()
        '2027-01-01'
    """
    return date(day.year + day.month // 12, day.month % 12 + 1, 1)


def add_partitions(session: Session, moments: Iterable[datetime]) -> None:
    """Adds missing partitions for the months of moments and the months after them, in the caller's transaction.

    The next month exists early so that an earlier version of Headroom, which adds none, may write into it. A new
    partition is attached, because readers wait for a transaction that creates one in place.
    """
    if session.get_bind().dialect.name != "postgresql":
        return
    months = {moment.astimezone(UTC).date().replace(day=1) for moment in moments}
    for first in sorted(months | {following_month(month) for month in months}):
        for table in PARTITIONED:
            name = f"{table}_y{first.year}m{first.month:02}"
            if session.scalar(select(func.to_regclass(name))) is None:
                run = session.connection().exec_driver_sql
                run(f"CREATE TABLE {name} (LIKE {table} INCLUDING ALL)")
                run(
                    f"ALTER TABLE {table} ATTACH PARTITION {name} "
                    f"FOR VALUES FROM ('{first} 00:00+00') TO ('{following_month(first)} 00:00+00')"
                )
