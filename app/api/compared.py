"""Expands a compare request into options, each a complete question for the sizing core."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

import orjson
from pydantic import ValidationError

from app.api.fields import UNKNOWN_FIELD
from app.api.merging import apply_merge_patch
from app.api.problems import validation_errors
from app.api.questions import build_estimate_question, build_recommend_question
from app.api.schemas.compare import CompareRequest
from app.api.schemas.requests import EstimateRequest, RecommendRequest
from app.catalog.directory import CatalogIndex
from app.catalog.names import quote_name
from app.catalog.snapshot import CatalogStore
from app.errors import AppError, Unanswerable
from app.export.lines import FILING_FIELDS
from app.sizing.comparing.outcomes import Option

Part = dict[str, Any]
SHARED_FIELDS = ("economics", "assumptions", "as_of")
PHASES, WORKLOAD = "#/phases/", "/workload"


@dataclass(frozen=True, slots=True)
class RequestedOption:
    """One option of a comparison: its JSON pointer, the fields that it sets itself, the full request and the core's
    question.
    """

    pointer: str
    own: Mapping[str, Any]
    request: RecommendRequest | EstimateRequest
    option: Option


def build_options(
    document: Part, request: CompareRequest, catalog_index: CatalogIndex, catalog_store: CatalogStore, today: date
) -> list[RequestedOption]:
    """Returns every option as a complete question. Errors carry the pointer into the compare request."""
    options = []
    for pointer, name, own, body in _option_bodies(document, request):
        model = EstimateRequest if "deployment" in body else RecommendRequest
        try:
            whole = model.model_validate_json(orjson.dumps(body), strict=True)
            if isinstance(whole, EstimateRequest):
                option = Option(name, *build_estimate_question(whole, catalog_index, catalog_store, today))
            else:
                option = Option(name, build_recommend_question(whole, catalog_index, catalog_store, today))
        except ValidationError as error:
            errors = relocate_errors(validation_errors(error.errors(include_url=False), body, model), pointer, own)
            detail = f"{quote_name(name)}: {errors[0]['detail']}"
            raise Unanswerable(detail, errors=errors) from None
        except AppError as error:
            raise option_error(error, name, pointer, own) from None
        options.append(RequestedOption(pointer, own, whole, option))
    return options


def _option_bodies(document: Part, request: CompareRequest) -> Iterator[tuple[str, str, Part, Part]]:
    """Yields pointer, name, own fields and complete request body of each option."""
    shared = {name: document[name] for name in SHARED_FIELDS if name in document}
    limits = document.get("constraints", {})
    of_best = {"objective": document.get("objective", "cost")}
    of_best |= {name: document[name] for name in FILING_FIELDS if name in document}
    if request.phases is not None:
        for phase, part in document["phases"].items():
            if part is not None:
                body = {**shared, **of_best, "constraints": limits}
                yield (
                    f"#/phases/{phase}",
                    phase,
                    {"workload": part},
                    {
                        **body,
                        "workload": {**part, "phase": phase, "model": document["model"]},
                    },
                )
        return
    for i, own in enumerate(document["options"]):
        workload = apply_merge_patch(document["workload"], own.get("workload", {}))
        if own.get("deployment") is None:
            body = {**of_best, "constraints": apply_merge_patch(limits, own.get("constraints", {}))}
            body |= {"objective": own["objective"]} if own.get("objective") else {}
        else:
            sure = {name: limits[name] for name in ("confidence",) if name in limits}
            body = {"constraints": apply_merge_patch(sure, own.get("constraints", {})), "deployment": own["deployment"]}
        yield f"#/options/{i}", own["name"], own, {**shared, **body, "workload": workload}


def option_error(error: AppError, name: str, pointer: str, own: Mapping[str, Any]) -> AppError:
    """Returns an error of one option with its pointers rewritten to the compare request."""
    errors = relocate_errors(error.facts.get("errors", []), pointer, own) or [
        {"pointer": pointer, "detail": error.detail}
    ]
    return type(error)(f"{quote_name(name)}: {error.detail}", **{**error.facts, "errors": errors})


def relocate_errors(errors: list[dict[str, str]], pointer: str, own: Mapping[str, Any]) -> list[dict[str, str]]:
    """Rewrites error locations to where the caller wrote the value: in the option itself, or in the shared part."""
    moved = [(e, _relocate_pointer(e["pointer"], pointer, own)) for e in errors]
    return [
        {
            **e,
            "pointer": place,
            "detail": e["detail"].replace(f"{UNKNOWN_FIELD} {e['pointer']}", f"{UNKNOWN_FIELD} {place}"),
        }
        for e, place in moved
    ]


def _relocate_pointer(where: str, pointer: str, own: Mapping[str, Any]) -> str:
    """Returns the pointer in the compare request that corresponds to a pointer in one option's question."""
    path = where.removeprefix("#")
    if pointer.startswith(PHASES):
        return f"{pointer}{path.removeprefix(WORKLOAD)}" if path.startswith(WORKLOAD) else where
    return f"{pointer}{path}" if _has_path(own, path) else where


def _has_path(own: Mapping[str, Any], path: str) -> bool:
    """True if the option itself contains the value at `path`."""
    node: Any = own
    for step in path.split("/")[1:]:
        if isinstance(node, list) and step.isdigit() and int(step) < len(node):
            node = node[int(step)]
        elif isinstance(node, dict) and step in node:
            node = node[step]
        else:
            return False
    return True
