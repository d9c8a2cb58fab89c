"""What routes need, as annotated dependencies."""

from __future__ import annotations

import threading
from typing import Annotated

from fastapi import Depends, Request
from sqlalchemy.orm import Session, sessionmaker

from app.api.body import read_body
from app.api.schemas.model import ConfigModel, SizedModel
from app.catalog.snapshot import SnapshotStore
from app.errors import Unanswerable
from app.sizing.model.architecture import ModelArchitecture, ModelKind
from app.sizing.model.counting.read import read_architecture
from app.sizing.model.counting.size import assumed_architecture
from app.sizing.model.sample import SampleWork
from app.sizing.model.tensors import ONCE, Part, Tensor
from app.sizing.units import GIGA, MIB


def _sessions(request: Request) -> sessionmaker[Session]:
    made: sessionmaker[Session] = request.app.state.sessions
    return made


def _store(request: Request) -> SnapshotStore:
    store: SnapshotStore = request.app.state.snapshots
    return store


def _slots(request: Request) -> threading.Semaphore:
    slots: threading.Semaphore = request.app.state.search_slots
    return slots


Sessions = Annotated[sessionmaker[Session], Depends(_sessions)]
Snapshots = Annotated[SnapshotStore, Depends(_store)]
SearchSlots = Annotated[threading.Semaphore, Depends(_slots)]
RawBody = Annotated[bytes, Depends(read_body)]


def resolve_model(reference: str | ConfigModel | SizedModel, snapshots: SnapshotStore) -> ModelArchitecture:
    """The counts of whatever way a model was named."""
    if isinstance(reference, str):
        return snapshots.model(reference)
    if isinstance(reference, ConfigModel):
        return read_architecture(reference.huggingface_config, name=reference.name)
    if reference.gflops_per_sample is None:
        if reference.activation_mib_per_sample is not None:
            raise Unanswerable(
                "activation_mib_per_sample goes with gflops_per_sample, for a model that works on samples."
            )
        return assumed_architecture(reference.parameters_billion * 1e9)
    flops = reference.gflops_per_sample * GIGA
    total = round(reference.parameters_billion * 1e9)
    given = reference.activation_mib_per_sample
    activations = given * MIB if given is not None else 2 * flops / 1000
    assumed = () if given is not None else ("activation memory of a sample was estimated from its FLOPs",)
    return ModelArchitecture(
        name=f"{reference.parameters_billion:g}B on samples",
        kind=ModelKind.SAMPLES,
        family="samples",
        num_layers=1,
        hidden_size=1,
        num_heads=1,
        head_dim=1,
        mlp_width=0.0,
        vocab_size=0,
        tensors=(Tensor("network", Part.OTHER, 1, total, ONCE, quantised=True),),
        sample=SampleWork(
            flops=flops, moved_bytes=2 * activations, live_bytes=activations, kept_bytes=2.5 * activations, layers=50
        ),
        assumed=assumed,
        shape_is_assumed=given is None,
        source="figures of the request",
    )
