"""Reads private records from JSON or CSV: one record, a list, or a table; names are resolved by the catalog."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Any

import orjson
from pydantic import BaseModel, ValidationError

from app.api.body import check_strings, parse_document
from app.api.naming import NameResolver, resolve_inventory, resolve_owned
from app.api.problems import MAX_ERRORS, MalformedRequest, validation_errors
from app.api.schemas.inventory import InventorySpec
from app.api.schemas.private import QuotedOffer, QuotedSystem, QuoteSpec, StoredHardware
from app.catalog.holdings import MOST_RECORDS, RecordKind
from app.catalog.names import quote_name
from app.catalog.snapshot import CatalogIndex, compact_name
from app.errors import Unanswerable
from app.work import check_each

MODELS: Mapping[RecordKind, type[StoredHardware] | type[QuotedOffer] | type[QuotedSystem]] = {
    RecordKind.INVENTORY: StoredHardware,
    RecordKind.OFFER: QuotedOffer,
    RecordKind.SYSTEM: QuotedSystem,
}
LIST_SEPARATOR = "|"  # of values in one cell of a table


class InvalidRecords(Unanswerable):
    """Raised for a write with a record that is refused."""

    code = "invalid-request"


@dataclass(frozen=True, slots=True)
class Line:
    """One record of a write: its place, and its body or the errors that refuse it."""

    number: int  # of the record, from 1; in a table, of its line
    name: str | None
    body: Mapping[str, Any] | None = None
    errors: tuple[dict[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Batch:
    """All records of a write."""

    lines: tuple[Line, ...]
    bodies: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def refused(self) -> int:
        """Number of records with errors."""
        return sum(bool(line.errors) for line in self.lines)


def read_lines(
    raw: bytes, *, is_csv: bool, kind: RecordKind, catalog_index: CatalogIndex, today: date
) -> tuple[Line, ...]:
    """Returns the records of a body, each with its errors. Raises MalformedRequest for a body that cannot be read."""
    rows = _csv_rows(raw) if is_csv else _json_rows(raw)
    most = MOST_RECORDS[kind.value]
    if not 1 <= len(rows) <= most:
        raise MalformedRequest(400, "malformed-table", f"Send 1 to {most} records of this kind, not {len(rows):,}.")
    lines: list[Line] = []
    names: set[str] = set()
    naming = NameResolver(catalog_index)  # of all lines, so that it looks for similar names for the first errors only
    for number, pointer, row in rows:
        line = _read_line(number, pointer, row, kind, naming, today, strict=not is_csv)
        if line.name in names:
            where = {"pointer": f"{pointer}/name", "detail": f"The name {quote_name(line.name or '')} occurs twice."}
            line = replace(line, errors=(*line.errors, where))
        if line.name is not None:
            names.add(line.name)
        lines.append(line)
    return tuple(lines)


def build_batch(
    lines: Sequence[Line], kind: RecordKind, catalog_index: CatalogIndex, stored: Mapping[str, Any]
) -> Batch:
    """Returns the records as one write. `stored` are the records that exist, which must agree with the new ones.
    Raises Unanswerable if there are too many together.
    """
    bodies = {line.name: line.body for line in lines if line.name and line.body is not None and not line.errors}
    if kind is RecordKind.INVENTORY:
        lines = _check_together(lines, {**stored, **bodies}, catalog_index)
    if len({**stored, **bodies}) > MOST_RECORDS[kind.value]:
        raise Unanswerable(f"You can store at most {MOST_RECORDS[kind.value]} records of this kind. Delete some first.")
    return Batch(tuple(lines), bodies)


def _json_rows(raw: bytes) -> list[tuple[int, str, Any]]:
    document = parse_document(raw)
    if isinstance(document, dict) and set(document) == {"items"}:
        listed, above = document["items"], "#/items"
    else:
        listed, above = document, "#"
    if not isinstance(listed, list):
        return [(1, "#", listed)]
    return [(i + 1, f"{above}/{i}", row) for i, row in enumerate(listed)]


def _csv_rows(raw: bytes) -> list[tuple[int, str, Any]]:
    try:
        table = csv.DictReader(io.StringIO(raw.decode("utf-8-sig"), newline=""), strict=True)
        header = table.fieldnames or ()
        rows = [(table.line_num, row) for row in check_each(table)]
    except (UnicodeDecodeError, csv.Error) as error:
        raise MalformedRequest(400, "malformed-table", f"The body is not a CSV table in UTF-8: {error}.") from None
    if len({*header}) < len(header):
        raise MalformedRequest(400, "malformed-table", "The first line names a column twice. Name each column once.")
    cells = [(number, f"line {number}", _cells(row)) for number, row in rows]
    check_strings([row for *_, row in cells], code="malformed-table")
    return cells


def _cells(row: Mapping[str | None, Any]) -> dict[str, Any]:
    """Returns the filled cells of a row. Cells beyond the header stand under an empty name, which no record has."""
    filled = {name or "": cell for name, cell in row.items() if cell not in ("", None)}
    for name in ("engines", "licences"):
        if isinstance(filled.get(name), str):
            filled[name] = [each.strip() for each in filled[name].split(LIST_SEPARATOR)]
    return filled


def _read_line(
    number: int, pointer: str, row: Any, kind: RecordKind, naming: NameResolver, today: date, *, strict: bool
) -> Line:
    """Returns one record with names of the catalog, or its errors."""
    name = row.get("name") if isinstance(row, dict) and isinstance(row.get("name"), str) else None
    model = MODELS[kind]
    try:
        spec = model.model_validate_json(orjson.dumps(row), strict=strict)
    except ValidationError as error:
        return Line(number, name, errors=tuple(_errors_below(error, row, model, pointer)))
    known = len(naming.problems)
    if isinstance(spec, StoredHardware):
        body = _resolve_hardware(spec, naming, pointer)
    else:
        body = _resolve_quote(spec, naming, pointer, today)
    errors = tuple({"pointer": p.pointer, "detail": p.detail} for p in naming.problems[known:])
    return Line(number, spec.name, None if errors else body, errors)


def _errors_below(error: ValidationError, row: Any, model: type[BaseModel], pointer: str) -> list[dict[str, str]]:
    found = validation_errors(error.errors(include_url=False), row, model)
    return [{**each, "pointer": pointer + each["pointer"].removeprefix("#")} for each in found]


def _resolve_hardware(spec: StoredHardware, naming: NameResolver, pointer: str) -> dict[str, Any]:
    """Returns owned hardware under the slugs of the catalog, with the size of its machines."""
    body = spec.model_dump(mode="json", exclude_unset=True, exclude_none=True)
    owned = resolve_owned(spec, naming, pointer)
    body["engines"] = [naming.resolve_engine(name, f"{pointer}/engines/{i}") for i, name in enumerate(spec.engines)]
    if owned is None:
        return body
    named = {"system": owned.system} if owned.system else {"accelerator": owned.accelerator}
    sized = {} if owned.system else {"accelerators_per_machine": owned.per_machine}
    if spec.free and not owned.system and spec.free % owned.per_machine:
        detail = f"free counts whole machines of {owned.per_machine} accelerators."
        naming.add_problem(Unanswerable, f"{pointer}/free", detail)
    plain = {name: value for name, value in body.items() if name not in ("accelerator", "system") and value != []}
    return {**plain, **named, **sized}


def _resolve_quote(spec: QuoteSpec, naming: NameResolver, pointer: str, today: date) -> dict[str, Any]:
    """Returns a quote under the slugs of the catalog, with the size of the machine, the seller and the first day."""
    field_name, how_many = ("accelerator", "accelerators") if spec.system is None else ("system", "")
    body = spec.model_dump(mode="json", exclude_unset=True, exclude_none=True)
    match = naming.resolve_accelerator(
        spec.accelerator or spec.system or "", f"{pointer}/{field_name}", how_many=how_many
    )
    if match is None:
        return body
    slug, system = match.accelerators[0], match.system if spec.system is not None else None
    if spec.system is not None and system is None:
        naming.add_problem(Unanswerable, f"{pointer}/system", f"Unknown machine {quote_name(spec.system)}.")
        return body
    part = naming.catalog.accelerators[naming.catalog.accelerator_index[slug]]
    usual = part.typical_node_size if system is None else naming.catalog.systems[system].accelerator_count
    provider = naming.directory.providers.get(compact_name(spec.seller)) or compact_name(spec.seller)
    if not provider:
        naming.add_problem(Unanswerable, f"{pointer}/seller", "The seller needs a name with letters or digits.")
    resolved = {
        "accelerator": slug,
        "accelerators": spec.accelerators or max(1, int(usual)),
        "provider": provider,
        "min_quantity": spec.min_quantity,
        "valid_from": (spec.valid_from or today).isoformat(),
    }
    resolved |= {"pricing_model": spec.pricing_model} if isinstance(spec, QuotedOffer) else {}
    return {**body, **({} if system is None else {"system": system}), **resolved}


def _check_together(lines: Sequence[Line], every: Mapping[str, Any], catalog_index: CatalogIndex) -> list[Line]:
    """Returns the lines with an error for each whose machines differ from others of the same accelerator."""
    naming, names = NameResolver(catalog_index), sorted(every)
    resolve_inventory([stored_hardware(every[name]) for name in names], naming, "")
    wrong = {names[int(p.pointer.split("/")[1])]: p.detail for p in naming.problems}
    others = {line.name for line in lines}
    return [
        line
        if line.errors or not wrong or (line.name not in wrong and others & wrong.keys())
        else replace(line, errors=({"pointer": f"line {line.number}", "detail": next(iter(wrong.values()))},))
        for line in lines
    ]


def stored_hardware(body: Mapping[str, Any]) -> InventorySpec:
    """Returns a stored record of owned hardware as an entry of a request; whether free or in use."""
    return StoredHardware.model_validate_json(orjson.dumps(body), strict=True)


def report_json(batch: Batch, done: Mapping[str, str], *, dry_run: bool) -> dict[str, Any]:
    """Returns the report on a write; `done` says what happens to each record."""
    lines = [
        {
            "line": line.number,
            **({} if line.name is None else {"name": line.name}),
            "action": "refused" if line.errors else done[line.name or ""],
            **({"errors": [*line.errors]} if line.errors else {}),
        }
        for line in batch.lines
    ]
    stored = 0 if dry_run else sum(line["action"] in ("added", "changed") for line in lines)
    return {"dry_run": dry_run, "stored": stored, "refused": batch.refused, "lines": lines}


def planned_actions(batch: Batch, stored: Mapping[str, Any]) -> dict[str, str]:
    """Returns the action of a write on each record: added, changed or unchanged."""
    return {
        name: "unchanged" if stored.get(name) == body else "changed" if name in stored else "added"
        for name, body in batch.bodies.items()
    }


def refuse_batch(batch: Batch) -> None:
    """Raises InvalidRecords with the first errors, if any record is refused."""
    errors = [error for line in batch.lines for error in line.errors]
    if errors:
        first = errors[0]
        detail = f"{batch.refused} of {len(batch.lines)} records are refused, and none is stored. The first: "
        raise InvalidRecords(f"{detail}{first['pointer']}: {first['detail']}", errors=errors[:MAX_ERRORS])
