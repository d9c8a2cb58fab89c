"""Observed prices and availability, the quarantine of implausible prices, the log of syncs, and leases.

Revision ID: 0016
Revises: 0015
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

MOMENT, TEXT, SLUG = sa.DateTime(timezone=True), sa.String(4000), sa.String(120)
BIG_KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def price_columns() -> list[sa.Column]:
    return [
        sa.Column("effective_from", sa.String(10), nullable=True),
        sa.Column("native_amount", sa.Double(), nullable=False),
        sa.Column("native_currency", sa.String(3), nullable=False),
        sa.Column("usd_per_hour", sa.Double(), nullable=False),
        sa.Column("fx_day", sa.String(10), nullable=True),
        sa.Column("basis", sa.String(20), nullable=False),
        sa.Column("feed", SLUG, nullable=False),
        sa.Column("feed_version", TEXT, nullable=False),
        sa.Column("payload_sha256", sa.String(64), nullable=False),
    ]


def key_column(table: str) -> list[sa.Column | sa.Constraint]:
    return [
        sa.Column("key", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["key"], ["offer_keys.id"], name=op.f(f"fk_{table}_key_offer_keys")),
    ]


def upgrade() -> None:
    op.create_table(
        "offer_keys",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("provider", SLUG, nullable=False),
        sa.Column("region", SLUG, nullable=False),
        sa.Column("instance_type", SLUG, nullable=False),
        sa.Column("accelerator", SLUG, nullable=False),
        sa.Column("accelerator_count", sa.Double(), nullable=False),
        sa.Column("pricing_model", sa.String(20), nullable=False),
        sa.Column("vcpus", sa.Integer(), nullable=True),
        sa.Column("ram_bytes", sa.Double(), nullable=True),
        sa.Column("tier", sa.String(12), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_offer_keys")),
        sa.UniqueConstraint(
            "provider",
            "region",
            "instance_type",
            "accelerator",
            "accelerator_count",
            "pricing_model",
            name="uq_offer_keys_key",
        ),
    )
    op.create_table(
        "price_observations",
        sa.Column("id", BIG_KEY, autoincrement=True, nullable=False),
        sa.Column("observed_at", MOMENT, nullable=False),
        *key_column("price_observations"),
        *price_columns(),
        sa.CheckConstraint("usd_per_hour > 0", name=op.f("ck_price_observations_price_positive")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_price_observations")),
    )
    op.create_index("ix_price_observations_key", "price_observations", ["key", "observed_at"])
    op.create_table(
        "availability_observations",
        sa.Column("id", BIG_KEY, autoincrement=True, nullable=False),
        *key_column("availability_observations"),
        sa.Column("seen_at", MOMENT, nullable=False),
        sa.Column("state", sa.String(10), nullable=False),
        sa.Column("quantity", sa.Integer(), nullable=True),
        sa.Column("source", SLUG, nullable=False),
        sa.CheckConstraint(
            "state IN ('available', 'low', 'none', 'unknown')",
            name=op.f("ck_availability_observations_state_known"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_availability_observations")),
    )
    op.create_index("ix_availability_observations_key", "availability_observations", ["key", "seen_at"])
    op.create_table(
        "price_quarantine",
        sa.Column("id", BIG_KEY, autoincrement=True, nullable=False),
        *key_column("price_quarantine"),
        sa.Column("since", MOMENT, nullable=False),
        *price_columns(),
        sa.Column("rule", sa.String(20), nullable=False),
        sa.Column("detail", TEXT, nullable=False),
        sa.Column("decision", sa.String(10), nullable=True),
        sa.Column("decided_by", SLUG, nullable=True),
        sa.Column("decided_at", MOMENT, nullable=True),
        sa.CheckConstraint("decision IN ('accepted', 'rejected')", name=op.f("ck_price_quarantine_decision_known")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_price_quarantine")),
    )
    op.create_index(op.f("ix_price_quarantine_key"), "price_quarantine", ["key"])
    op.create_table(
        "price_syncs",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("feed", SLUG, nullable=False),
        sa.Column("part", SLUG, nullable=False),
        sa.Column("synced_at", MOMENT, nullable=False),
        sa.Column("day", sa.String(10), nullable=False),
        sa.Column("state", sa.String(10), nullable=False),
        sa.Column("feed_version", TEXT, nullable=False),
        sa.Column("validator", TEXT, nullable=True),
        sa.Column("rows", sa.Integer(), nullable=False),
        sa.Column("accepted", sa.Integer(), nullable=False),
        sa.Column("quarantined", sa.Integer(), nullable=False),
        sa.Column("unmapped", sa.JSON(), nullable=False),
        sa.Column("problem", TEXT, nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_price_syncs")),
    )
    op.create_index("ix_price_syncs_day", "price_syncs", ["state", "day"])
    op.create_index("ix_price_syncs_part", "price_syncs", ["feed", "part", "id"])
    op.create_table(
        "leases",
        sa.Column("name", SLUG, nullable=False),
        sa.Column("holder", SLUG, nullable=False),
        sa.Column("expires_at", MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_leases")),
    )


def downgrade() -> None:
    for table in (
        "leases",
        "price_syncs",
        "price_quarantine",
        "availability_observations",
        "price_observations",
        "offer_keys",
    ):
        op.drop_table(table)
