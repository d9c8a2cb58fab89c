"""JSON of what accompanies a deployment: a hosted API, companion models on its cards, and a service per traffic
class.
"""

from __future__ import annotations

from typing import Any

from app.api.schemas.classes import shared_json
from app.api.schemas.packing import packing_json
from app.api.schemas.ways import hosted_json
from app.sizing.result import Estimate


def ancillary_json(e: Estimate) -> dict[str, Any]:
    """The accompanying parts of an estimate that it has, as JSON."""
    hosted, packing, shared = e.hosted_api, e.packing, e.shared
    return {
        **({} if hosted is None else {"hosted_api": hosted_json(hosted)}),
        **({} if packing is None else {"packing": packing_json(packing)}),
        **({} if shared is None else {"classes": shared_json(shared)}),
    }
