"""Dependencies of the routes. They are asynchronous because FastAPI runs each synchronous dependency in a thread."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Annotated

from fastapi import Depends, Request
from fastapi.concurrency import run_in_threadpool
from sqlalchemy.orm import Session, sessionmaker

from app.api.access import KnownCaller
from app.api.admission import RequestSlot
from app.api.body import read_body, read_pasted_body, read_result_file
from app.api.schemas.model import ConfigModel, SizedModel
from app.catalog.holdings import Holdings, HoldingsStore
from app.catalog.models import read_pasted_model
from app.catalog.outbox import Outbox
from app.catalog.recommendations import AnswerStore, TenantAnswers
from app.catalog.snapshot import CatalogStore
from app.errors import Conflict, NotFound, moved_pointers
from app.procurement.desk import PunchoutService
from app.sizing.assumptions import Assumptions
from app.sizing.model.architecture import ModelArchitecture


async def _get_sessions(request: Request) -> sessionmaker[Session]:
    made: sessionmaker[Session] = request.app.state.sessions
    return made


async def _get_catalog_store(request: Request) -> CatalogStore:
    store: CatalogStore = request.app.state.catalog_store
    return store


async def _get_slot(request: Request) -> RequestSlot:
    return RequestSlot(request.app.state.admission, request)


async def _get_long_slot(request: Request) -> RequestSlot:
    return RequestSlot(request.app.state.long_admission, request)


async def _get_answers(request: Request, caller: KnownCaller) -> TenantAnswers:
    answers: AnswerStore = request.app.state.answers
    return answers.for_tenant(caller.tenant)


async def _get_private_records(request: Request) -> HoldingsStore:
    records: HoldingsStore = request.app.state.private_records
    return records


PrivateRecords = Annotated[HoldingsStore, Depends(_get_private_records)]


async def _get_holdings(records: PrivateRecords, caller: KnownCaller) -> Holdings:
    if not caller.key_id:
        return await records.read_public()
    return await run_in_threadpool(records.read, caller.tenant)


async def _get_desk(request: Request) -> PunchoutService | None:
    desk: PunchoutService | None = request.app.state.desk
    return desk


async def _get_outbox(request: Request) -> Outbox:
    outbox: Outbox = request.app.state.outbox
    return outbox


async def _get_tenant(caller: KnownCaller) -> str:
    return caller.tenant


async def _get_today(request: Request) -> date:
    settled: date | None = request.app.state.today
    return settled or datetime.now(UTC).date()


Sessions = Annotated[sessionmaker[Session], Depends(_get_sessions)]
Snapshots = Annotated[CatalogStore, Depends(_get_catalog_store)]
ShortSlot = Annotated[RequestSlot, Depends(_get_slot)]
LongSlot = Annotated[
    RequestSlot, Depends(_get_long_slot)
]  # for answers that evaluate many questions or read long texts
Answers = Annotated[TenantAnswers, Depends(_get_answers)]
EventOutbox = Annotated[Outbox, Depends(_get_outbox)]
Held = Annotated[Holdings, Depends(_get_holdings)]
OptionalDesk = Annotated[PunchoutService | None, Depends(_get_desk)]
Today = Annotated[date, Depends(_get_today)]
Tenant = Annotated[str, Depends(_get_tenant)]
RawResultFile = Annotated[bytes, Depends(read_result_file)]
RawBody = Annotated[bytes, Depends(read_body)]
RawPastedBody = Annotated[bytes, Depends(read_pasted_body)]


def resolve_model(
    reference: str | ConfigModel | SizedModel,
    catalog_store: CatalogStore,
    assumed: Assumptions,
    *,
    pointer: str = "#/workload/model",
) -> ModelArchitecture:
    """Returns the architecture of a model given by name, configuration or size. Errors of a name or a size carry
    `pointer`.
    """
    if isinstance(reference, str):
        try:
            return catalog_store.find_model(reference)
        except (NotFound, Conflict) as error:
            error.facts.setdefault("errors", [{"pointer": pointer, "detail": error.detail}])
            raise
    if isinstance(reference, ConfigModel):
        return read_pasted_model(reference.huggingface_config, reference.name)
    with moved_pointers("#/workload/model", pointer):
        return reference.to_architecture(assumed)
