"""Filing of stored answers: search keys, approval status, and who changed the status.

Revision ID: 0010
Revises: 0009
"""

from __future__ import annotations

from typing import Any

import orjson
import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

AT_ONCE = 200

STORED = sa.table(
    "recommendations",
    sa.column("id", sa.String),
    sa.column("body", sa.LargeBinary),
    sa.column("supply", sa.LargeBinary),
    sa.column("stored_at", sa.DateTime(timezone=True)),
)
FILINGS = sa.table(
    "filings",
    sa.column("recommendation", sa.String),
    sa.column("stored_at", sa.DateTime(timezone=True)),
    sa.column("model", sa.String),
    sa.column("accelerators", sa.String),
    sa.column("option", sa.String),
    sa.column("status", sa.String),
    sa.column("version", sa.Integer),
)


def upgrade() -> None:
    op.create_table(
        "filings",
        sa.Column("recommendation", sa.String(40), nullable=False),
        sa.Column("stored_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("label", sa.String(4000), nullable=True),
        sa.Column("reference", sa.String(4000), nullable=True),
        sa.Column("cost_centre", sa.String(4000), nullable=True),
        sa.Column("model", sa.String(4000), nullable=True),
        sa.Column("accelerators", sa.String(4000), nullable=True),
        sa.Column("option", sa.String(4000), nullable=True),
        sa.Column("status", sa.String(20), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("superseded_by", sa.String(40), nullable=True),
        sa.ForeignKeyConstraint(
            ["recommendation"], ["recommendations.id"], name=op.f("fk_filings_recommendation_recommendations")
        ),
        sa.ForeignKeyConstraint(
            ["superseded_by"], ["recommendations.id"], name=op.f("fk_filings_superseded_by_recommendations")
        ),
        sa.PrimaryKeyConstraint("recommendation", name=op.f("pk_filings")),
    )
    op.create_index("ix_filings_stored_at", "filings", ["stored_at", "recommendation"])
    op.create_table(
        "status_changes",
        sa.Column("recommendation", sa.String(40), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("status", sa.String(20), nullable=False),
        sa.Column("changed_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("changed_by", sa.String(4000), nullable=False),
        sa.Column("note", sa.String(4000), nullable=True),
        sa.Column("superseded_by", sa.String(40), nullable=True),
        sa.ForeignKeyConstraint(
            ["recommendation"], ["recommendations.id"], name=op.f("fk_status_changes_recommendation_recommendations")
        ),
        sa.PrimaryKeyConstraint("recommendation", "version", name=op.f("pk_status_changes")),
    )
    _file_what_is_stored()


def _file_what_is_stored() -> None:
    """Files the answers that are already stored, in small batches because they are large."""
    connection, stored = op.get_bind(), STORED.c
    page = sa.select(STORED).order_by(stored.id).limit(AT_ONCE)
    rows = connection.execute(page).all()
    while rows:
        filings = [
            {
                "recommendation": row.id,
                "stored_at": row.stored_at,
                "status": "draft",
                "version": 0,
                **_summarize_answer(orjson.loads(row.body), None if row.supply is None else orjson.loads(row.supply)),
            }
            for row in rows
        ]
        connection.execute(sa.insert(FILINGS), filings)
        rows = connection.execute(page.where(stored.id > rows[-1].id)).all()


def _summarize_answer(answer: dict[str, Any], supply: dict[str, Any] | None) -> dict[str, str | None]:
    """The requested model, the accelerators of the first recommendation, and the number of each if it was stored."""
    named = answer["request"]["workload"]["model"]
    model = named if isinstance(named, str) else named.get("name")
    ranked = answer["recommendations"]
    if not ranked:
        return {"model": model, "accelerators": None, "option": None}
    deployment = ranked[0]["deployment"]
    pools = (deployment.get("pools") or {}).values()
    types = dict.fromkeys(part["accelerator"] for part in pools or [deployment])
    lots = supply["ranks"][0] if supply is not None else []
    option = " and ".join(f"{lot.get('accelerators', 0)} x {lot['accelerator']['name']}" for lot in lots)
    return {"model": model, "accelerators": " ".join(types), "option": option or None}


def downgrade() -> None:
    op.drop_table("status_changes")
    op.drop_index("ix_filings_stored_at", "filings")
    op.drop_table("filings")
