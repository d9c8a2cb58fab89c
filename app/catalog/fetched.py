"""Stores models whose configuration was fetched on request, in addition to the curated ones."""

from __future__ import annotations

from datetime import UTC, datetime

from sqlalchemy import insert
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from app.catalog.hub import FetchedConfig
from app.catalog.names import fold_name
from app.catalog.seed import model_values
from app.catalog.tables import ModelAliasRow, ModelRow
from app.sizing.model.architecture import ModelKind
from app.sizing.model.counting.read import read_architecture

MODALITIES = {ModelKind.DECODER: "text", ModelKind.ENCODER: "embedding"}
SAMPLE_MODALITIES = {"image": "vision", "picture": "diffusion", "clip": "diffusion", "speech": "speech"}


def store_fetched_model(session: Session, model_id: str, fetched: FetchedConfig) -> None:
    """Stores a model with its fetched configuration and today's date. A model that another request stored meanwhile is
    kept.

    Raises UnreadableConfiguration if the architecture cannot be read; the model is then not stored.
    """
    model = read_architecture(fetched.config, name=model_id)
    modality = SAMPLE_MODALITIES.get(model.law.unit, "vision") if model.law is not None else MODALITIES[model.kind]
    entry = {
        "hf_id": model_id,
        "family": model.family,
        "developer": model_id.split("/", maxsplit=1)[0],
        "modality": "vision-language" if model.images is not None else modality,
        "config": dict(fetched.config),
        "total_params": model.total_params,
        "active_params": model.active_params,
        "aliases": [],
        "source_ref": [fetched.url],
        "counted_by": "closed form",
        "confidence": "medium",
        "as_of": datetime.now(UTC).date().isoformat(),
    }
    try:
        session.execute(insert(ModelRow), [{**model_values(entry), "origin": "hub"}])
        session.execute(insert(ModelAliasRow), [{"alias": fold_name(model_id), "model": model_id}])
        session.commit()
    except IntegrityError:
        session.rollback()
