"""Keys, tenants, private records and the audit log; who owns stored answers, and row-level security on PostgreSQL.

Revision ID: 0017
Revises: 0016

The default tenant is that of callers without a key, so an earlier version may still write. A transaction on PostgreSQL
sees the rows of the tenant in `headroom.tenant`: without that setting, those of the public tenant; with '*', all.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None

OWNED = ("recommendations", "filings", "deliveries")  # tables that get a tenant
NEW = ("private_records", "idempotency_keys", "audit_log")  # new tables with one
MOMENT = sa.DateTime(timezone=True)
ACTING = "coalesce(nullif(current_setting('headroom.tenant', true), ''), 'public')"
MINE = f"{ACTING} IN (tenant, '*')"
MINE_BY_ANSWER = "EXISTS (SELECT 1 FROM recommendations AS r WHERE r.id = recommendation)"


def tenant(**kwargs: object) -> sa.Column:
    return sa.Column("tenant", sa.String(120), nullable=False, **kwargs)


def upgrade() -> None:
    op.create_table(
        "tenants",
        sa.Column("name", sa.String(120), nullable=False),
        sa.Column("entries", sa.Integer(), server_default="0", nullable=False),
        sa.Column("head", sa.String(64), server_default="0" * 64, nullable=False),
        sa.Column("version", sa.Integer(), server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_tenants"),
    )
    op.create_table(
        "api_keys",
        sa.Column("id", sa.String(8), nullable=False),
        tenant(),
        sa.Column("name", sa.String(4000), nullable=False),
        sa.Column("scopes", sa.String(4000), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("units_per_minute", sa.Integer(), nullable=True),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.Column("expires_at", MOMENT, nullable=True),
        sa.Column("revoked_at", MOMENT, nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_api_keys"),
    )
    op.create_index("ix_api_keys_tenant", "api_keys", ["tenant"])
    op.create_table(
        "audit_log",
        tenant(),
        sa.Column("entry", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("at", MOMENT, nullable=False),
        sa.Column("actor", sa.String(120), nullable=False),
        sa.Column("action", sa.String(120), nullable=False),
        sa.Column("facts", sa.JSON(), nullable=False),
        sa.Column("hash", sa.String(64), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "entry", name="pk_audit_log"),
    )
    op.create_table(
        "private_records",
        tenant(),
        sa.Column("kind", sa.String(10), nullable=False),
        sa.Column("name", sa.String(120), nullable=False),
        sa.Column("body", sa.JSON(), nullable=False),
        sa.Column("changed_at", MOMENT, nullable=False),
        sa.Column("changed_by", sa.String(120), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "kind", "name", name="pk_private_records"),
    )
    op.create_table(
        "idempotency_keys",
        tenant(),
        sa.Column("key", sa.String(200), nullable=False),
        sa.Column("request", sa.String(64), nullable=False),
        sa.Column("status", sa.Integer(), nullable=False),
        sa.Column("headers", sa.JSON(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("stored_at", MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("tenant", "key", name="pk_idempotency_keys"),
    )
    op.create_index("ix_idempotency_keys_stored_at", "idempotency_keys", ["stored_at"])
    for table in OWNED:
        op.add_column(table, tenant(server_default="public"))
    op.create_index("ix_filings_tenant", "filings", ["tenant", "stored_at", "recommendation"])
    if op.get_context().dialect.name == "postgresql":
        for table in (*OWNED, *NEW, "status_changes"):
            condition = MINE_BY_ANSWER if table == "status_changes" else MINE
            op.execute(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY")
            op.execute(f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY")  # for the owner of the table as well
            op.execute(f"CREATE POLICY own_rows ON {table} USING ({condition})")


def downgrade() -> None:
    if op.get_context().dialect.name == "postgresql":
        for table in (*OWNED, "status_changes"):
            op.execute(f"DROP POLICY own_rows ON {table}")
            op.execute(f"ALTER TABLE {table} NO FORCE ROW LEVEL SECURITY")
            op.execute(f"ALTER TABLE {table} DISABLE ROW LEVEL SECURITY")
    op.drop_index("ix_filings_tenant", table_name="filings")
    for table in OWNED:
        with op.batch_alter_table(table) as batch:
            batch.drop_column("tenant")
    for table in ("idempotency_keys", "private_records", "audit_log", "api_keys", "tenants"):
        op.drop_table(table)
