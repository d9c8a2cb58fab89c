"""Calls of the service, one method each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any, Self, cast

import httpx2

from headroom_client import answers
from headroom_client.transport import Transport

Json = Mapping[str, Any]


class Headroom:
    """A service at an address, or behind an `http` client that is given.

    A search takes tens of milliseconds, `sensitivity` up to 20 seconds: `timeout_s` is of one request.
    """

    def __init__(
        self,
        url: str = "http://localhost:8000",
        *,
        timeout_s: float = 120.0,
        retries: int = 4,
        http: httpx2.Client | None = None,
    ) -> None:
        self._own = http is None
        self._http = http or httpx2.Client(base_url=url, timeout=timeout_s)
        self._transport = Transport(self._http, retries=retries)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Give back the connections; those of a client that was given stay open."""
        if self._own:
            self._http.close()

    def recommend(self, request: Json) -> answers.RecommendResponse:
        """Ranked hardware for a workload."""
        return cast(answers.RecommendResponse, self._post("/recommend", request))

    def estimate(self, request: Json) -> answers.EstimateShown:
        """What a workload does on a deployment that is given."""
        return cast(answers.EstimateShown, self._post("/estimate", request))

    def compare(self, request: Json) -> answers.CompareResponse:
        """Options of one workload, or the phases of one model, side by side."""
        return cast(answers.CompareResponse, self._post("/compare", request))

    def diagnose(self, request: Json) -> answers.DiagnoseResponse:
        """What slows a deployment that runs, from what was observed there."""
        return cast(answers.DiagnoseResponse, self._post("/diagnose", request))

    def inspect(self, model: str | Json, **further: Any) -> answers.InspectResponse:
        """The counts of a model: a name, or {"huggingface_config": {...}}."""
        return cast(answers.InspectResponse, self._post("/catalog/models/inspect", {"model": model, **further}))

    def recommendation(self, identity: str) -> answers.RecommendResponse:
        """A stored answer."""
        return cast(answers.RecommendResponse, self._get(f"/recommendations/{identity}"))

    def recommendations(self, **filters: Any) -> Iterator[dict[str, Any]]:
        """Stored answers, the newest first: label, reference, cost_centre, status, model, accelerator, created_after,
        created_before.
        """
        return self._pages("/recommendations", filters)

    def sensitivity(self, identity: str) -> answers.SensitivityShown:
        """What would make another type first, and what would cost less."""
        return cast(answers.SensitivityShown, self._get(f"/recommendations/{identity}/sensitivity"))

    def reprice(self, identity: str, *, rank: int = 1) -> answers.RepriceResponse:
        """A stored answer against the prices of today."""
        path = f"/recommendations/{identity}/reprice"
        return cast(answers.RepriceResponse, self._transport.send("POST", path, query={"rank": rank}).json())

    def status(self, identity: str) -> answers.StatusShown:
        """Where a stored answer stands, with its history and the ETag that a change takes."""
        return cast(answers.StatusShown, self._get(f"/recommendations/{identity}/status"))

    def set_status(
        self,
        identity: str,
        status: str,
        *,
        by: str,
        note: str | None = None,
        superseded_by: str | None = None,
        etag: str | None = None,
    ) -> answers.StatusShown:
        """Move a stored answer on; without `etag` from wherever it stands now."""
        tag = etag or str(self.status(identity)["etag"])
        said = {"status": status, "by": by, "note": note, "superseded_by": superseded_by}
        body = {k: v for k, v in said.items() if v is not None}
        moved = self._transport.send("PATCH", f"/recommendations/{identity}", body=body, headers={"If-Match": tag})
        return cast(answers.StatusShown, moved.json())

    def bill_of_materials(self, identity: str, *, rank: int = 1, **further: Any) -> answers.MaterialsShown:
        """The lines of one ranked option."""
        path = f"/recommendations/{identity}/bill-of-materials"
        return cast(answers.MaterialsShown, self._get(path, rank=rank, **further))

    def export(self, identity: str, form: str, *, rank: int = 1, **further: Any) -> bytes:
        """The same as a file: csv, xlsx, cxml, oci, ubl, html or json."""
        path = f"/recommendations/{identity}/bill-of-materials"
        return self._transport.send("GET", path, query={"rank": rank, "format": form, **further}).content

    def deployment(self, identity: str, target: str, *, rank: int = 1, **further: Any) -> answers.HandoffShown:
        """Files that start one ranked option."""
        path = f"/recommendations/{identity}/deployment"
        return cast(answers.HandoffShown, self._get(path, target=target, rank=rank, **further))

    def catalog(self, what: str, **filters: Any) -> Iterator[dict[str, Any]]:
        """A list of the catalogue, page by page: accelerators, systems, offers, prices, models, engines, frameworks,
        schedulers, providers, regions or assumptions.
        """
        return self._pages(f"/catalog/{what}", filters)

    def support(self, **asked: Any) -> answers.SupportAnswer:
        """Whether an engine runs a model in a format on an accelerator, and who says so."""
        return cast(answers.SupportAnswer, self._get("/catalog/support", **asked))

    def ready(self) -> dict[str, Any]:
        """Whether the service answers, and what from."""
        return cast(dict[str, Any], self._get("/readyz"))

    def _get(self, path: str, **query: Any) -> Any:
        return self._transport.send("GET", path, query=query).json()

    def _post(self, path: str, body: Json) -> Any:
        return self._transport.send("POST", path, body=body).json()

    def _pages(self, path: str, filters: Json) -> Iterator[dict[str, Any]]:
        cursor: str | None = None
        while True:
            page = self._get(path, **filters, **({} if cursor is None else {"cursor": cursor}))
            yield from page["items"]
            cursor = page.get("next_cursor")
            if not cursor:
                return
