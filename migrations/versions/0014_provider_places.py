"""Countries of each provider's data centers and of its seat.

Revision ID: 0014
Revises: 0013
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "provider_places",
        sa.Column("provider", sa.String(120), nullable=False),
        sa.Column("fact", sa.String(12), nullable=False),
        sa.Column("countries", sa.String(4000), nullable=False),
        sa.Column("source", sa.String(4000), nullable=False),
        sa.Column("as_of", sa.String(10), nullable=False),
        sa.CheckConstraint("fact IN ('data_centers', 'seat')", name=op.f("ck_provider_places_fact_known")),
        sa.ForeignKeyConstraint(
            ["provider"], ["providers.slug"], name=op.f("fk_provider_places_provider_providers")
        ),
        sa.PrimaryKeyConstraint("provider", "fact", name=op.f("pk_provider_places")),
    )


def downgrade() -> None:
    op.drop_table("provider_places")
