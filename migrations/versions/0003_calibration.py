"""Fitted factors of the coefficients, and the engine's predictions of published results.

Revision ID: 0003
Revises: 0002
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = '0003'
down_revision = '0002'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table('factors',
    sa.Column('id', sa.Integer(), autoincrement=True, nullable=False),
    sa.Column('name', sa.String(length=120), nullable=False),
    sa.Column('runtime', sa.String(length=120), nullable=False),
    sa.Column('engine', sa.String(length=120), nullable=False),
    sa.Column('generation', sa.String(length=120), nullable=False),
    sa.Column('kernels', sa.String(length=120), nullable=False),
    sa.Column('vendor', sa.String(length=120), nullable=False),
    sa.Column('accelerator_family', sa.String(length=120), nullable=False),
    sa.Column('format_class', sa.String(length=120), nullable=False),
    sa.Column('value', sa.Double(), nullable=False),
    sa.Column('rows', sa.Integer(), nullable=False),
    sa.Column('source', sa.String(length=4000), nullable=False),
    sa.Column('as_of', sa.String(length=10), nullable=False),
    sa.CheckConstraint('value > 0', name=op.f('ck_factors_positive')),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_factors')),
    sa.UniqueConstraint('name', 'runtime', 'engine', 'generation', 'kernels', 'vendor', 'accelerator_family', 'format_class', name='uq_factors_keys')
    )
    op.create_table('predictions',
    sa.Column('measurement', sa.String(length=120), nullable=False),
    sa.Column('metric', sa.String(length=120), nullable=False),
    sa.Column('source_key', sa.String(length=120), nullable=False),
    sa.Column('measured', sa.Double(), nullable=False),
    sa.Column('predicted', sa.Double(), nullable=False),
    sa.Column('held_out', sa.Double(), nullable=False),
    sa.Column('near', sa.Integer(), nullable=False),
    sa.Column('set_aside', sa.Boolean(), nullable=False),
    sa.Column('model', sa.String(length=120), nullable=False),
    sa.Column('engine', sa.String(length=120), nullable=False),
    sa.Column('accelerator_family', sa.String(length=120), nullable=False),
    sa.Column('format_class', sa.String(length=120), nullable=False),
    sa.Column('accelerator', sa.String(length=120), nullable=False),
    sa.Column('load', sa.String(length=10), nullable=False),
    sa.Column('params', sa.Double(), nullable=False),
    sa.Column('devices', sa.Double(), nullable=False),
    sa.Column('in_flight', sa.Double(), nullable=False),
    sa.Column('input_tokens', sa.Double(), nullable=False),
    sa.Column('output_tokens', sa.Double(), nullable=False),
    sa.ForeignKeyConstraint(['accelerator'], ['accelerators.slug'], name=op.f('fk_predictions_accelerator_accelerators')),
    sa.ForeignKeyConstraint(['measurement'], ['measurements.id'], name=op.f('fk_predictions_measurement_measurements')),
    sa.PrimaryKeyConstraint('measurement', 'metric', name=op.f('pk_predictions'))
    )


def downgrade() -> None:
    op.drop_table('predictions')
    op.drop_table('factors')
