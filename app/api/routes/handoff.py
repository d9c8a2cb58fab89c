"""GET /recommendations/{id}/deployment: the files that start one ranked option and measure it."""

from __future__ import annotations

from typing import Annotated

import orjson
from fastapi import APIRouter, Path, Query
from fastapi.responses import Response

from app.api.deps import Answers
from app.api.openapi import problems
from app.api.schemas.handoff import HandoffQuery, HandoffShown, handoff_json
from app.api.sized import json_bytes
from app.errors import NotFound
from app.export.handoff.files import File, Handoff
from app.export.handoff.option import option_of
from app.export.handoff.targets import handoff

router = APIRouter(tags=["exports"])


class UnknownFile(NotFound):
    """A file that a hand-off does not have."""

    code = "unknown-file"


@router.get(
    "/recommendations/{id}/deployment",
    operation_id="getDeployment",
    response_model=HandoffShown,
    responses=problems(404, 422, 503),
    summary="The files that start one ranked option",
)
def get_deployment(
    id: Annotated[str, Path(pattern=r"^rec_[0-9a-f]{28}$", description="As the answer gave it.")],
    asked: Annotated[HandoffQuery, Query()],
    answers: Answers,
) -> Response:
    """Scripts and manifests with the values of the option, the benchmark that verifies it, and what is left to do.
    They are made of the stored answer alone and hold no secrets. With `file` that file is sent as it is.
    """
    body, supply = answers.whole(id)
    option = option_of(orjson.loads(body), orjson.loads(supply), asked.rank)
    made = handoff(option, asked.target, asked.engine_version)
    if asked.file is None:
        return Response(json_bytes(handoff_json(made)), media_type="application/json")
    file = file_of(made, asked.file)
    return Response(
        file.text,
        media_type=f"{file.media_type}; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="{file.name}"'},
    )


def file_of(made: Handoff, name: str) -> File:
    """One file of a hand-off. Raises UnknownFile."""
    for file in made.files:
        if file.name == name:
            return file
    raise UnknownFile(f"There is no such file for {made.target}. There are {', '.join(f.name for f in made.files)}.")
