"""POST, GET and DELETE of private records: owned hardware, and rents and machines quoted to a tenant."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import Response
from pydantic import BaseModel

from app.api.access import KnownCaller
from app.api.answering import json_bytes
from app.api.body import JSON, read_raw
from app.api.deps import PrivateRecords, Sessions, ShortSlot, Snapshots, Today
from app.api.openapi import CSV, problem_responses, table_or_body
from app.api.records import build_batch, planned_actions, read_lines, refuse_batch, report_json
from app.api.schemas import private as wire
from app.api.schemas.base import PrintableText
from app.api.writes import IdempotencyKey, IfMatch, Transaction, Write, check_if_match, perform_write
from app.catalog.holdings import RecordKind, delete_record, list_records, put_records, records_version
from app.catalog.keys import Caller
from app.catalog.snapshot import CatalogStore
from app.errors import UnknownRecord

router = APIRouter(prefix="/catalog", tags=["private"])
STORE_PROBLEMS = problem_responses(400, 412, 413, 415, 422, 428, 429, 503)
DELETE_PROBLEMS = problem_responses(404, 412, 422, 428, 503)
DryRun = Annotated[bool, Query(description="Report what would happen to each record, and store nothing.")]
RecordName = Annotated[PrintableText, Query(max_length=100, description="Your name of the record.")]


async def read_records(request: Request) -> tuple[bytes, bool]:
    """Returns a body with records, and whether it is a CSV table."""
    raw = await read_raw(request, (*JSON, CSV), request.app.state.settings.max_pasted_bytes)
    return raw, request.headers.get("content-type", "").partition(";")[0].strip().lower() == CSV


RawRecords = Annotated[tuple[bytes, bool], Depends(read_records)]


def version_tag(version: int) -> str:
    """Returns the ETag of a tenant's records."""
    return f'"records-{version}"'


def list_own(sessions: Sessions, caller: Caller, kind: RecordKind) -> Response:
    """Returns the records of a kind, with the ETag that a change must send as If-Match."""
    with sessions() as session:
        connection = session.connection()
        tag = version_tag(records_version(connection, caller.tenant))
        items = [{"name": name, **body} for name, body in list_records(connection, caller.tenant, kind).items()]
    body = json_bytes({"items": items, "next_cursor": None})
    return Response(body, media_type="application/json", headers={"ETag": tag, "Cache-Control": "private, no-cache"})


def store(
    sessions: Sessions,
    write: Write,
    kind: RecordKind,
    raw: tuple[bytes, bool],
    catalog_store: CatalogStore,
    today: date,
    if_match: str | None,
    *,
    dry_run: bool,
) -> Response:
    """Stores records, or reports what would happen to each. To replace records, If-Match must name their version."""
    catalog_index = catalog_store.directory()
    lines = read_lines(raw[0], is_csv=raw[1], kind=kind, catalog_index=catalog_index, today=today)

    def change(session: Transaction) -> Response:
        connection, tenant = session.connection(), write.caller.tenant
        stored = list_records(connection, tenant, kind)
        batch = build_batch(lines, kind, catalog_index, stored)
        done = planned_actions(batch, stored)
        if not dry_run:
            refuse_batch(batch)
            if if_match is not None or "changed" in done.values():
                check_tag(if_match, version_tag(records_version(connection, tenant)), kind)
            done = put_records(connection, write.caller, kind, batch.bodies, now=datetime.now(UTC))
        report: dict[str, Any] = report_json(batch, done, dry_run=dry_run)
        tag = version_tag(records_version(connection, tenant))
        return Response(json_bytes(report), media_type="application/json", headers={"ETag": tag})

    return perform_write(sessions, write, change)


def delete_own(sessions: Sessions, write: Write, kind: RecordKind, name: str, if_match: str | None) -> Response:
    """Deletes a record of the version that If-Match names. Raises UnknownRecord, MissingIfMatch or ChangedMeanwhile."""

    def change(session: Transaction) -> Response:
        connection, tenant = session.connection(), write.caller.tenant
        check_tag(if_match, version_tag(records_version(connection, tenant)), kind)
        if not delete_record(connection, write.caller, kind, name, now=datetime.now(UTC)):
            raise UnknownRecord(f"You have stored no {kind} record of this name.")
        return Response(status_code=204, headers={"ETag": version_tag(records_version(connection, tenant))})

    return perform_write(sessions, write, change)


# Descriptions of POST.
HARDWARE_TEXT = """\
Stores hardware that you own: one record, `items`, or a CSV table with the field names in its first line. All
records are stored, or none. A record of the same name is replaced, which needs If-Match. A request
without an inventory of its own then uses the free part; `constraints.inventory` says how."""
RENTS_TEXT = """\
Stores negotiated and quoted rents: one record, `items`, or a CSV table with the field names in its first line.
All records are stored, or none. A record of the same name is replaced, which needs If-Match. They count in
your answers from their first to their last day, next to the prices of the catalog."""
MACHINES_TEXT = """\
Stores machines that sellers have quoted to you: one record, `items`, or a CSV table with the field names in its
first line. All records are stored, or none. A record of the same name is replaced, which needs If-Match. They count
in your answers from their first to their last day, next to the prices of the catalog."""


@dataclass(frozen=True, slots=True)
class Collection:
    """One kind of private records: where it is, and what the OpenAPI document says of it."""

    kind: RecordKind
    name: str  # end of the operation ids
    subject: str  # in the summaries
    path: str  # lists and deletes
    store_path: str
    body: type[BaseModel]
    bodies: type[BaseModel]
    list_text: str
    store_text: str


COLLECTIONS = (
    Collection(
        RecordKind.INVENTORY,
        name="Inventory",
        subject="hardware that you own",
        path="/inventory",
        store_path="/inventory",
        body=wire.StoredHardware,
        bodies=wire.StoredHardwareList,
        list_text="Lists hardware that you own, and returns the ETag that changes send as If-Match.",
        store_text=HARDWARE_TEXT,
    ),
    Collection(
        RecordKind.OFFER,
        name="OwnOffers",
        subject="rents quoted to you",
        path="/offers/own",
        store_path="/offers",
        body=wire.QuotedOffer,
        bodies=wire.QuotedOfferList,
        list_text="Lists negotiated and quoted rents, and returns the ETag that changes send as If-Match.",
        store_text=RENTS_TEXT,
    ),
    Collection(
        RecordKind.SYSTEM,
        name="OwnSystems",
        subject="machines quoted to you",
        path="/systems/own",
        store_path="/systems",
        body=wire.QuotedSystem,
        bodies=wire.QuotedSystemList,
        list_text="Lists machines that sellers have quoted to you, and returns the ETag that changes send as If-Match.",
        store_text=MACHINES_TEXT,
    ),
)
PATHS = {each.kind: f"/catalog{each.path}" for each in COLLECTIONS}


def check_tag(if_match: str | None, tag: str, kind: RecordKind) -> None:
    """Checks the version that a change is for. Raises MissingIfMatch and ChangedMeanwhile."""
    check_if_match(if_match, tag, what="list of records", source=f"GET {PATHS[kind]}")


def add_list(of: Collection) -> None:
    """Adds the route that lists the records of a collection."""

    @router.get(
        of.path,
        operation_id=f"list{of.name}",
        response_model=wire.PrivateRecordList,
        responses=problem_responses(422, 503),
        summary=f"List {of.subject}",
        description=of.list_text,
    )
    def list_records_of(sessions: Sessions, caller: KnownCaller) -> Response:
        return list_own(sessions, caller, of.kind)


def add_store(of: Collection) -> None:
    """Adds the route that stores records of a collection."""

    @router.post(
        of.store_path,
        operation_id=f"store{of.name}",
        response_model=wire.RecordsReport,
        openapi_extra=table_or_body(of.body, of.bodies),
        responses=STORE_PROBLEMS,
        summary=f"Store {of.subject}",
        description=of.store_text,
    )
    async def store_records(
        request: Request,
        raw: RawRecords,
        sessions: Sessions,
        catalog_store: Snapshots,
        turn: ShortSlot,
        caller: KnownCaller,
        holdings: PrivateRecords,
        today: Today,
        dry_run: DryRun = False,
        if_match: IfMatch = None,
        idempotency_key: IdempotencyKey = None,
    ) -> Response:
        write = Write.of(request, caller, idempotency_key, raw[0])
        response = await turn.answer_exclusively(
            store, sessions, write, of.kind, raw, catalog_store, today, if_match, dry_run=dry_run
        )
        holdings.forget_check()
        return response


def add_delete(of: Collection) -> None:
    """Adds the route that deletes a record of a collection."""

    @router.delete(
        of.path,
        operation_id=f"delete{of.name}",
        status_code=204,
        response_class=Response,
        responses=DELETE_PROBLEMS,
        summary=f"Delete a record of {of.subject}",
    )
    def delete_record_of(
        request: Request,
        name: RecordName,
        sessions: Sessions,
        caller: KnownCaller,
        holdings: PrivateRecords,
        if_match: IfMatch = None,
        idempotency_key: IdempotencyKey = None,
    ) -> Response:
        """Deletes one record by its name. Later answers do not use it; stored answers keep their figures."""
        response = delete_own(sessions, Write.of(request, caller, idempotency_key), of.kind, name, if_match)
        holdings.forget_check()
        return response


for collection in COLLECTIONS:
    add_list(collection)
    add_store(collection)
    add_delete(collection)
