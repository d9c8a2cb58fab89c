"""GET /recommendations/{id}/bill-of-materials: one ranked option in a procurement format."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated

import orjson
from fastapi import APIRouter, Path, Query
from fastapi.responses import Response

from app.api.deps import Answers
from app.api.openapi import problem_responses
from app.api.schemas.materials import MaterialsQuery, MaterialsShown, materials_json
from app.api.sized import json_bytes
from app.export.cxml import cxml_bytes
from app.export.goods import build_bill
from app.export.lines import Bill
from app.export.memo import render_memo, select_ranks
from app.export.oci import oci_bytes
from app.export.sheet import xlsx_bytes
from app.export.table import csv_bytes
from app.export.ubl import ubl_bytes

router = APIRouter(tags=["exports"])

# Media type, file extension and writer of each format.
FORMATS: dict[str, tuple[str, str, Callable[[Bill], bytes]]] = {
    "json": ("application/json", "json", lambda bill: json_bytes(materials_json(bill))),
    "csv": ("text/csv; charset=utf-8; header=present", "csv", csv_bytes),
    "cxml": ("application/xml", "xml", cxml_bytes),
    "oci": ("application/x-www-form-urlencoded", "txt", oci_bytes),
    "ubl": ("application/xml", "xml", ubl_bytes),
    "xlsx": ("application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", "xlsx", xlsx_bytes),
}
DISPLAYED_FORMATS = ("json", "html")  # formats that a browser displays; others download as files
# A printable page needs only its inline styles.
PRINT_POLICY = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'"}
TEXT = {"schema": {"type": "string"}}
FILE_RESPONSE = {"content": {kind.partition(";")[0]: TEXT for kind, _, _ in FORMATS.values() if "json" not in kind}}
FILE_RESPONSE["content"]["text/html"] = TEXT


@router.get(
    "/recommendations/{id}/bill-of-materials",
    operation_id="getBillOfMaterials",
    response_model=MaterialsShown,
    responses={**problem_responses(404, 422, 503), 200: FILE_RESPONSE},
    summary="Get the bill of materials of one ranked option",
)
def get_bill_of_materials(
    id: Annotated[str, Path(pattern=r"^rec_[0-9a-f]{28}$", description="Id of the stored answer.")],
    asked: Annotated[MaterialsQuery, Query()],
    answers: Answers,
) -> Response:
    """Returns lines with quantity, unit, price, price source and age, part numbers and commodity codes. Formats: JSON,
    CSV, a workbook with formulas, cXML PunchOutOrderMessage, OCI form fields, UBL RequestForQuotation, or a printable
    decision memo with a quote request. The bill is generated from the stored answer, so later price changes do not
    affect it.
    """
    body, supply = (orjson.loads(kept) for kept in answers.get_answer_and_supply(id))
    settlement = asked.to_settlement()
    bill = build_bill(body, supply, asked.rank, settlement)
    if asked.format == "html":
        others = [build_bill(body, supply, rank, settlement) for rank in select_ranks(body, asked.rank)]
        return _file_response(render_memo(body, others, bill), bill, "html", "text/html", "html", PRINT_POLICY)
    media_type, ending, written = FORMATS[asked.format]
    return _file_response(written(bill), bill, asked.format, media_type, ending)


def _file_response(
    content: bytes, bill: Bill, kind: str, media_type: str, ending: str, headers: Mapping[str, str] | None = None
) -> Response:
    """Returns a document with its file name."""
    way = "inline" if kind in DISPLAYED_FORMATS else "attachment"
    name = f"bill-of-materials-{bill.answer}-{bill.rank}.{ending}"
    named = {"Content-Disposition": f'{way}; filename="{name}"', **(headers or {})}
    return Response(content, media_type=media_type, headers=named)
