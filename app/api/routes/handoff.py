"""GET /recommendations/{id}/deployment: files that deploy and benchmark one ranked option."""

from __future__ import annotations

from typing import Annotated

import orjson
from fastapi import APIRouter, Path, Query
from fastapi.responses import Response

from app.api.deps import Answers
from app.api.openapi import problem_responses
from app.api.schemas.handoff import HandoffQuery, HandoffShown, handoff_json
from app.api.sized import json_bytes
from app.errors import NotFound
from app.export.handoff.files import File, Handoff
from app.export.handoff.option import load_option
from app.export.handoff.targets import build_handoff

router = APIRouter(tags=["exports"])


class UnknownFile(NotFound):
    """Raised for a file that a deployment package does not contain."""

    code = "unknown-file"


@router.get(
    "/recommendations/{id}/deployment",
    operation_id="getDeployment",
    response_model=HandoffShown,
    responses=problem_responses(404, 422, 503),
    summary="Get deployment files for one ranked option",
)
def get_deployment(
    id: Annotated[str, Path(pattern=r"^rec_[0-9a-f]{28}$", description="Id of the stored answer.")],
    asked: Annotated[HandoffQuery, Query()],
    answers: Answers,
) -> Response:
    """Returns scripts and manifests for the option, a benchmark that verifies it, and the remaining manual steps. They
    are generated from the stored answer only and contain no secrets. Set `file` to download one file.
    """
    body, supply = answers.get_answer_and_supply(id)
    option = load_option(orjson.loads(body), orjson.loads(supply), asked.rank)
    made = build_handoff(option, asked.target, asked.engine_version)
    if asked.file is None:
        return Response(json_bytes(handoff_json(made)), media_type="application/json")
    file = find_file(made, asked.file)
    return Response(
        file.text,
        media_type=f"{file.media_type}; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="{file.name}"'},
    )


def find_file(made: Handoff, name: str) -> File:
    """Returns one file of a deployment package. Raises UnknownFile."""
    for file in made.files:
        if file.name == name:
            return file
    raise UnknownFile(f"Unknown file for target {made.target}. Available: {', '.join(f.name for f in made.files)}.")
