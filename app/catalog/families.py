"""Models that differ in size alone: one family, one name but for the parameters in it."""

from __future__ import annotations

import re

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.catalog.tables import ModelRow

SIZE = re.compile(r"(?<![a-z0-9.])(?:\d+x)?\d+(?:\.\d+)?[bm](?:-a\d+(?:\.\d+)?b)?(?![a-z0-9])")
AT_MOST = 0.7  # of the parameters, from which a model is another size rather than another count of the same


def sizeless(identity: str) -> str:
    """A model's name without the size that stands in it.

    Check:
        >>> sizeless("meta-llama/Llama-3.1-70B-Instruct")
        'meta-llama/llama-3.1-*-instruct'
        >>> sizeless("Qwen/Qwen3-30B-A3B")
        'qwen/qwen3-*'
    """
    return SIZE.sub("*", identity.lower())


def next_smaller(session: Session, identity: str) -> str | None:
    """The largest model of a family that is smaller than this one and named alike; None where there is none."""
    own = session.get(ModelRow, identity)
    if own is None or sizeless(identity) == identity.lower():
        return None
    alike = session.scalars(
        select(ModelRow)
        .where(ModelRow.family == own.family, ModelRow.modality == own.modality)
        .where(ModelRow.total_params <= AT_MOST * own.total_params, ModelRow.active_params <= own.active_params)
        .order_by(ModelRow.total_params.desc(), ModelRow.id)
    )
    return next((row.id for row in alike if sizeless(row.id) == sizeless(identity)), None)
