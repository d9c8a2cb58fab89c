"""Answers are stored compressed: text that an older release would read is written back when going down.

Revision ID: 0019
Revises: 0018
"""

from __future__ import annotations

import zlib

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None

PARTS = ("request", "body", "supply")


def upgrade() -> None:
    """Changes nothing: text stays readable, and new answers are compressed."""


def downgrade() -> None:
    connection = op.get_bind()
    read = sa.text("SELECT request, body, supply FROM recommendations WHERE id = :id")
    write = sa.text("UPDATE recommendations SET request = :request, body = :body, supply = :supply WHERE id = :id")
    resize = sa.text("UPDATE filings SET size_bytes = :size WHERE recommendation = :id")
    for identity in connection.execute(sa.text("SELECT id FROM recommendations")).scalars().all():
        row = connection.execute(read, {"id": identity}).mappings().one()
        text = {part: unpacked(row[part]) for part in PARTS}
        if text != dict(row):
            connection.execute(write, {**text, "id": identity})
            connection.execute(resize, {"id": identity, "size": sum(len(part or b"") for part in text.values())})


def unpacked(part: bytes | None) -> bytes | None:
    """The text of a stored part; JSON begins with a bracket, compressed text with x and 1."""
    return zlib.decompress(part) if part is not None and part[:2] == b"x\x01" else part
