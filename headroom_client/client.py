"""Methods for the calls of the service, one per call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, cast

import httpx2

from headroom_client.transport import Transport

if TYPE_CHECKING:
    from headroom_client import answers

Json = Mapping[str, Any]


class Headroom:
    """Client of the service at a URL, or behind an `http` client that the caller passes.

    Parameters:
        timeout_s: timeout of one request, s. A search takes tens of milliseconds, `sensitivity` up to 20 s.
        retries: retries of a request when the service is busy or unreachable.
        key: key of the service, sent with every request.
    """

    def __init__(
        self,
        url: str = "http://localhost:8000",
        *,
        timeout_s: float = 120.0,
        retries: int = 4,
        key: str | None = None,
        http: httpx2.Client | None = None,
    ) -> None:
        self._own = http is None
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        self._http = http or httpx2.Client(base_url=url, timeout=timeout_s, headers=headers)
        self._transport = Transport(self._http, retries=retries)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections. An `http` client that the caller passed stays open."""
        if self._own:
            self._http.close()

    def recommend(self, request: Json, *, store: bool = True) -> answers.RecommendResponse:
        """Recommend hardware for a workload. Without `store`, the answer is a preview: its id cannot be fetched."""
        path = "/recommend" if store else "/recommend?store=false"
        return cast("answers.RecommendResponse", self._post_json(path, request))

    def estimate(self, request: Json) -> answers.EstimateShown:
        """Estimate a workload on a given deployment."""
        return cast("answers.EstimateShown", self._post_json("/estimate", request))

    def compare(self, request: Json) -> answers.CompareResponse:
        """Compare options of one workload, or the phases of one model, side by side."""
        return cast("answers.CompareResponse", self._post_json("/compare", request))

    def diagnose(self, request: Json) -> answers.DiagnoseResponse:
        """Diagnose why a running deployment is slow, from its metrics or logs."""
        return cast("answers.DiagnoseResponse", self._post_json("/diagnose", request))

    def inspect(self, model: str | Json, **further: Any) -> answers.InspectResponse:
        """Count a model's parameters and sizes. `model` is a name or {"huggingface_config": {...}}."""
        return cast("answers.InspectResponse", self._post_json("/catalog/models/inspect", {"model": model, **further}))

    def runnable(self, inventory: list[Json], **further: Any) -> answers.RunnableResponse:
        """List the models that machines can serve and fine-tune, the largest first."""
        body = {"inventory": inventory, **further}
        return cast("answers.RunnableResponse", self._post_json("/catalog/models/runnable", body))

    def recommendation(self, identity: str) -> answers.RecommendResponse:
        """Fetch a stored answer."""
        return cast("answers.RecommendResponse", self._get_json(f"/recommendations/{identity}"))

    def recommendations(self, **filters: Any) -> Iterator[dict[str, Any]]:
        """Iterate over stored answers, newest first.

        Filters: label, reference, cost_centre, status, model, accelerator, created_after, created_before.
        """
        return self._iterate_pages("/recommendations", filters)

    def sensitivity(self, identity: str) -> answers.SensitivityShown:
        """Changes that would make another accelerator rank first, and changes that would lower the cost."""
        path = f"/recommendations/{identity}/sensitivity"
        found = self._get_json(path)
        while (start := found.pop("next", None)) is not None:
            more = self._transport.send_request("GET", path, query={"start": start}).json()
            parts = {name: found[name] + more[name] for name in ("flips", "holds", "savings")}
            found = {**more, **parts, "asked": found["asked"] + more["asked"]}
        return cast("answers.SensitivityShown", found)

    def reprice(self, identity: str, *, rank: int | None = None) -> answers.RepriceResponse:
        """Compare a stored answer with current prices."""
        path = f"/recommendations/{identity}/reprice"
        return cast("answers.RepriceResponse", self._transport.send_request("POST", path, query={"rank": rank}).json())

    def standing(self, identity: str, *, rank: int | None = None) -> answers.StandingResponse:
        """Check whether a stored plan still holds at today's catalog."""
        path = f"/recommendations/{identity}/standing"
        return cast("answers.StandingResponse", self._transport.send_request("GET", path, query={"rank": rank}).json())

    def status(self, identity: str) -> answers.StatusShown:
        """Approval status of a stored answer, with its history and the ETag that a change must send."""
        return cast("answers.StatusShown", self._get_json(f"/recommendations/{identity}/status"))

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
        """Change the approval status. Without `etag` the change applies to the current status, whichever it is."""
        tag = etag or str(self.status(identity)["etag"])
        fields = {"status": status, "by": by, "note": note, "superseded_by": superseded_by}
        body = {k: v for k, v in fields.items() if v is not None}
        changed = self._transport.send_request(
            "PATCH", f"/recommendations/{identity}", body=body, headers={"If-Match": tag}
        )
        return cast("answers.StatusShown", changed.json())

    def bill_of_materials(self, identity: str, *, rank: int | None = None, **further: Any) -> answers.MaterialsShown:
        """Bill of materials of one ranked option."""
        path = f"/recommendations/{identity}/bill-of-materials"
        return cast("answers.MaterialsShown", self._get_json(path, rank=rank, **further))

    def export(self, identity: str, form: str, *, rank: int | None = None, **further: Any) -> bytes:
        """Bill of materials as a file: csv, xlsx, cxml, oci, ubl, html or json."""
        path = f"/recommendations/{identity}/bill-of-materials"
        return self._transport.send_request("GET", path, query={"rank": rank, "format": form, **further}).content

    def deployment(
        self, identity: str, target: str = "shell", *, rank: int | None = None, **further: Any
    ) -> answers.HandoffShown:
        """Files that start one ranked option."""
        path = f"/recommendations/{identity}/deployment"
        return cast("answers.HandoffShown", self._get_json(path, target=target, rank=rank, **further))

    def catalog(self, what: str, **filters: Any) -> Iterator[dict[str, Any]]:
        """Iterate over a list of the catalog, page by page.

        `what` is accelerators, systems, offers, prices, models, engines, frameworks, schedulers, providers, regions
        or assumptions.
        """
        return self._iterate_pages(f"/catalog/{what}", filters)

    def support(self, **query: Any) -> answers.SupportAnswer:
        """Whether an engine supports a model and format on an accelerator, with the source."""
        return cast("answers.SupportAnswer", self._get_json("/catalog/support", **query))

    def upload_measurement(self, content: bytes, **parameters: Any) -> dict[str, Any]:
        """Upload the result file of a benchmark or a training log. `parameters` state what the file lacks; `dry_run`
        stores nothing.
        """
        kind = "application/json" if content.lstrip()[:1] in (b"{", b"[") else "text/plain"
        response = self._transport.send_request(
            "POST", "/measurements", query=parameters, headers={"Content-Type": kind}, content=content
        )
        return cast(dict[str, Any], response.json())

    def measurements(self) -> Iterator[dict[str, Any]]:
        """Iterate over the stored measurements."""
        return self._iterate_pages("/measurements", {})

    def delete_measurement(self, identity: str) -> None:
        """Delete a measurement, which ends its effect."""
        self._transport.send_request("DELETE", f"/measurements/{identity}")

    def market(self, **query: Any) -> dict[str, Any]:
        """Hourly prices by accelerator, class, provider, region or pricing model, with their trend."""
        return cast(dict[str, Any], self._get_json("/catalog/market", **query))

    def ready(self) -> dict[str, Any]:
        """Readiness of the service, with its catalog version."""
        return cast(dict[str, Any], self._get_json("/readyz"))

    def _get_json(self, path: str, **query: Any) -> Any:
        return self._transport.send_request("GET", path, query=query).json()

    def _post_json(self, path: str, body: Json) -> Any:
        return self._transport.send_request("POST", path, body=body).json()

    def _iterate_pages(self, path: str, filters: Json) -> Iterator[dict[str, Any]]:
        cursor: str | None = None
        while True:
            page = self._get_json(path, **filters, **({} if cursor is None else {"cursor": cursor}))
            yield from page["items"]
            cursor = page.get("next_cursor")
            if not cursor:
                return
