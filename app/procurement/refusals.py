"""Reasons to refuse a buyer's document, with cXML status codes (SAP Ariba's note 188136, read 2026-11-23)."""

from __future__ import annotations

from app.errors import AppError

BAD_REQUEST, UNAUTHORIZED, FORBIDDEN, NOT_ACCEPTABLE, CONFLICT, NOT_IMPLEMENTED = 400, 401, 403, 406, 409, 450
INTERNAL_ERROR, TEMPORARY_ERROR = 500, 560
STATUS_TEXTS = {
    200: "OK",
    204: "No Content",
    BAD_REQUEST: "Bad Request",
    UNAUTHORIZED: "Unauthorized",
    FORBIDDEN: "Forbidden",
    NOT_ACCEPTABLE: "Not Acceptable",
    CONFLICT: "Conflict",
    NOT_IMPLEMENTED: "Not Implemented",
    INTERNAL_ERROR: "Internal Server Error",
    TEMPORARY_ERROR: "Temporary Server Error",
}


class PunchoutRefused(AppError):
    """Raised for a document or call that opens no session."""

    code = "punch-out-refused"

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status
