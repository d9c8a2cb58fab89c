"""Owned hardware, quoted rents and quoted machines: stored once, used in a tenant's answers, hidden from others."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest
from sqlalchemy import Engine, text
from starlette.testclient import TestClient

from app.catalog.holdings import HoldingsStore, RecordKind, list_records, make_holdings, put_records
from app.catalog.keys import Caller, Scope, create_key
from app.catalog.snapshot import CatalogIndex, LoadedCatalog
from app.catalog.tenants import audit_heads, export_audit, find_break, lock_tenant
from app.db import EVERY_TENANT, UNHURRIED, acting_for, make_engine
from tests.conftest import copied, serving
from tests.examples import answer_of

NOW = datetime.now(UTC)
ASKED: dict[str, Any] = {
    "workload": {"phase": "inference", "model": "llama-3.1-8b", "traffic": {"peak_requests_per_s": 1}},
    "include": [],
    "limit": 3,
}
A6000S = {"name": "rack 4", "accelerator": "rtx a6000", "count": 8, "accelerators_per_machine": 4, "free": 4}


class Service:
    """A service with an empty database, and a key for each tenant."""

    def __init__(self, client: TestClient, engine: Engine) -> None:
        self.client, self.engine, self.keys = client, engine, dict[str, str]()

    def call(self, method: str, path: str, tenant: str | None = "acme", **sent: Any) -> Any:
        if tenant is not None and tenant not in self.keys:
            with self.engine.begin() as connection:
                made = create_key(connection, tenant=tenant, name=tenant, scopes={Scope.ADMIN}, now=NOW)
            self.keys[tenant] = made[0]
        headers = {} if tenant is None else {"Authorization": f"Bearer {self.keys[tenant]}"}
        return self.client.request(method, path, headers={**headers, **sent.pop("headers", {})}, **sent)

    def recommend(self, tenant: str | None, **more: Any) -> Any:
        return answer_of(self.call("POST", "/recommend", tenant, json={**ASKED, **more}))


@pytest.fixture(scope="module")
def service(loaded: LoadedCatalog, sqlite_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    url = copied(sqlite_url, tmp_path_factory.mktemp("private") / "p.sqlite3")
    engine = make_engine(url)
    with serving(url, loaded) as made:
        yield Service(made, engine)
    engine.dispose()


def test_a_stored_inventory_answers_the_questions_of_its_tenant(service: Service) -> None:
    before = service.recommend("owner")
    stored = service.call("POST", "/catalog/inventory", "owner", json=A6000S)
    assert stored.status_code == 200, stored.text
    assert stored.json()["lines"] == [{"line": 1, "name": "rack 4", "action": "added"}]

    own = service.recommend("owner")
    assert own["request"]["inventory"] == [
        {"accelerator": "nvidia-rtx-a6000", "count": 4, "accelerators_per_machine": 4}
    ]
    (option,) = own["recommendations"]
    assert option["deployment"]["accelerator"] == "nvidia-rtx-a6000"
    assert option["deployment"]["total_accelerators"] <= 4
    assert own["id"] != before["id"]
    # The same inventory within the request is the same question: the identity contains what was used.
    assert service.recommend("owner", inventory=own["request"]["inventory"])["id"] == own["id"]
    assert service.recommend("owner", constraints={"inventory": "ignore"})["request"].get("inventory") is None
    alone = service.recommend("owner", constraints={"inventory": "only"})
    assert alone["request"]["inventory"] == own["request"]["inventory"]
    for other in ("stranger", None):
        assert "inventory" not in service.recommend(other)["request"]
        assert service.call("GET", "/catalog/inventory", other).json()["items"] == []
    tag = service.call("GET", "/catalog/inventory", "owner").headers["etag"]
    gone = service.call("DELETE", "/catalog/inventory?name=rack 4", "owner", headers={"If-Match": tag})
    assert gone.status_code == 204
    assert service.recommend("owner")["id"] == before["id"]
    assert service.call("GET", f"/recommendations/{own['id']}", "owner").json() == own


def test_the_inventory_of_the_public_tenant_answers_callers_without_a_key(service: Service) -> None:
    service.call("GET", "/catalog/inventory", "public")
    assert service.call("POST", "/catalog/inventory", None, json=A6000S).status_code == 401
    assert service.call("POST", "/catalog/inventory", "public", json=A6000S).status_code == 200
    assert service.recommend(None)["request"]["inventory"][0]["count"] == 4
    service.call("DELETE", "/catalog/inventory?name=rack 4", "public", headers={"If-Match": "*"})
    assert "inventory" not in service.recommend(None)["request"]


def test_the_engines_that_machines_may_run_limit_the_answer(service: Service) -> None:
    record = {**A6000S, "engines": ["llama.cpp", "vLLM"]}
    assert service.call("POST", "/catalog/inventory", "engines", json=record).status_code == 200
    assert service.recommend("engines")["request"]["constraints"] == {"engines": ["llama.cpp", "vllm"]}
    other = service.recommend("engines", constraints={"engines": ["sglang"]})
    assert "inventory" not in other["request"]
    tuning = {"phase": "fine_tuning", "model": ASKED["workload"]["model"], "method": "lora", "examples": 1000}
    trained = service.recommend("engines", workload=tuning)  # servers say nothing about the training on other machines
    assert trained["recommendations"] and not {"inventory", "constraints"} & trained["request"].keys()
    l4 = {"name": "edge", "accelerator": "l4", "count": 1, "engines": ["sglang"]}
    assert service.call("POST", "/catalog/inventory", "engines", json=l4).status_code == 200
    refused = service.call("POST", "/recommend", "engines", json=ASKED)
    assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (422, "#/constraints/engines")
    one = service.recommend("engines", constraints={"engines": ["sglang"]})
    assert [each["accelerator"] for each in one["request"]["inventory"]] == ["nvidia-l4"]


def test_a_quoted_rent_counts_while_it_is_valid_and_for_its_tenant_alone(service: Service) -> None:
    quote = {
        "name": "l4-deal",
        "seller": "Acme Cloud",
        "accelerator": "nvidia l4",
        "accelerators": 1,
        "usd_per_hour": 0.0101,
        "valid_from": "2026-01-01",
        "valid_until": "2026-12-31",
    }
    before = service.recommend("renter", as_of="2026-11-01")
    assert service.call("POST", "/catalog/offers", "renter", json=quote).status_code == 200
    after = service.recommend("renter", as_of="2026-11-01")
    first = after["recommendations"][0]
    assert first["deployment"]["offer"]["provider"] == "acmecloud"
    assert first["cost"]["price"] | {"kind": "quote", "source": "your record l4-deal"} == first["cost"]["price"]
    assert first["cost"]["usd_per_hour"] == pytest.approx(0.0101 * first["deployment"]["nodes"])
    assert after["id"] != before["id"]
    estimate = {"workload": ASKED["workload"], "deployment": first["deployment"], "as_of": "2026-11-01"}
    assert service.call("POST", "/estimate", "renter", json=estimate).json()["cost"] == first["cost"]
    assert service.call("POST", "/estimate", "stranger", json=estimate).status_code == 422
    for tenant, day in (("stranger", "2026-11-01"), (None, "2026-11-01"), ("renter", "2027-01-02")):
        options = service.recommend(tenant, as_of=day)["recommendations"]
        assert "acmecloud" not in {each["deployment"].get("offer", {}).get("provider") for each in options}, tenant
    assert service.call("GET", "/catalog/offers/own", "renter").json()["items"][0]["accelerator"] == "nvidia-l4"
    assert service.call("GET", "/catalog/offers/own", "stranger").json()["items"] == []


@pytest.mark.parametrize("included", [False, True])
def test_a_quoted_machine_is_bought_at_its_price_with_its_licenses(service: Service, included: bool) -> None:
    who = "licensed" if included else "buyer"
    quote = {"name": "box", "seller": "Acme Servers", "accelerator": "nvidia l4", "accelerators": 1, "usd": 400.0}
    left_out = ("system", "max_quantity", "valid_from", "valid_until", "note", "host_memory_gib", "power_kw")
    quote |= dict.fromkeys(left_out)  # null means left out
    quote |= {"usd": 300.0, "licence_usd": 100.0, "licences": ["nvidia ai enterprise"]} if included else {}
    assert service.call("POST", "/catalog/systems", who, json=quote).status_code == 200
    first = service.recommend(who)["recommendations"][0]
    assert (first["deployment"]["system"], first["deployment"]["accelerator"]) == ("quoted-box", "nvidia-l4")
    machine = first["cost"]["parts"][0]
    assert machine == {"what": "machine", "quantity": first["deployment"]["nodes"], "unit_usd": 400}
    answer = service.recommend(who, constraints={"engines": ["nim"]})
    assert any(w["code"] == "license_not_included" for w in answer["warnings"]) != included
    bill = service.call("GET", f"/recommendations/{answer['id']}/bill-of-materials", who).json()
    assert any(line["kind"] == "licence" for line in bill["lines"]) != included
    noted = [line["goods"] for line in bill["lines"] if "includes NVIDIA AI Enterprise" in line.get("notes", "")]
    assert noted == (["machine"] if included else [])


def test_the_price_is_that_of_the_quantity_bought(service: Service) -> None:
    """Three price breaks: each number of machines has its own price, and a number below the first break has none."""

    def quoted(name: str, usd: float, least: int, most: int | None) -> dict[str, Any]:
        machine = {"seller": "Acme", "accelerator": "nvidia l4", "accelerators": 1}
        return {**machine, "name": name, "usd": usd, "min_quantity": least, **({"max_quantity": most} if most else {})}

    breaks = [quoted("few", 900.0, 2, 3), quoted("some", 600.0, 4, 9), quoted("many", 400.0, 10, None)]
    assert service.call("POST", "/catalog/systems", "breaks", json={"items": breaks}).status_code == 200
    only = {"accelerators": ["nvidia-l4"], "environments": ["on_prem"]}

    def source_for(machines: int) -> str | None:
        fitting = [b["name"] for b in breaks if b["min_quantity"] <= machines <= b.get("max_quantity", machines)]
        return f"your record {fitting[0]}" if fitting else None

    for machines in (1, 2, 3, 4, 9, 10, 14):
        deployment = {"accelerator": "nvidia-l4", "accelerators_per_replica": 1, "replicas": machines}
        body = {"workload": ASKED["workload"], "deployment": deployment}
        found = service.call("POST", "/estimate", "breaks", json=body).json()
        assert found["deployment"]["nodes"] == machines
        price = found["cost"]["price"]
        assert price["source"] == source_for(machines) or (machines == 1 and price["kind"] != "quote"), machines
    seen = set[str]()
    for rate in (0.5, 4, 12, 40):
        workload = {**ASKED["workload"], "traffic": {"peak_requests_per_s": rate}}
        for option in service.recommend("breaks", workload=workload, constraints=only)["recommendations"]:
            nodes, price = option["deployment"]["nodes"], option["cost"]["price"]
            assert price["kind"] != "quote" or price["source"] == source_for(nodes), nodes
            seen.add(price["source"])
    assert len(seen) > 1


def test_a_table_is_reported_line_by_line_and_stored_as_a_whole(service: Service) -> None:
    table = (
        "name,accelerator,count,accelerators_per_machine,engines\r\n"
        "a,h100 sxm,16,8,vllm|sglang\r\n"
        "b,h900,4,4,\r\n"
        "c,l4,many,,\r\n"
        "a,l40s,4,4,\r\n"
        "d,h100 sxm,4,4,\r\n"
    )
    sent = {"content": table, "headers": {"Content-Type": "text/csv"}}
    report = service.call("POST", "/catalog/inventory?dry_run=true", "bulk", **dict(sent)).json()
    assert (report["dry_run"], report["stored"], report["refused"]) == (True, 0, 4)
    assert [(line["line"], line["action"]) for line in report["lines"]] == [
        (2, "added"),
        (3, "refused"),
        (4, "refused"),
        (5, "refused"),
        (6, "refused"),
    ]
    details = [line["errors"][0]["detail"] for line in report["lines"][1:]]
    for detail, word in zip(details, ("h900", "integer", "twice", "different machines"), strict=True):
        assert word in detail
    refused = service.call("POST", "/catalog/inventory", "bulk", **dict(sent))
    assert (refused.status_code, len(refused.json()["errors"])) == (422, 4)
    assert service.call("GET", "/catalog/inventory", "bulk").json()["items"] == []
    whole = {"content": "".join(table.splitlines(keepends=True)[:2]), "headers": {"Content-Type": "text/csv"}}
    assert service.call("POST", "/catalog/inventory", "bulk", **whole).json()["stored"] == 1
    (item,) = service.call("GET", "/catalog/inventory", "bulk").json()["items"]
    assert item == {
        "name": "a",
        "accelerator": "nvidia-h100-sxm5-80gb",
        "count": 16,
        "accelerators_per_machine": 8,
        "engines": ["vllm", "sglang"],
    }


@pytest.mark.parametrize(
    ("path", "body", "pointer"),
    [
        ("inventory", {"name": "x", "accelerator": "l4", "count": 4, "free": 5}, "#"),
        ("inventory", {"name": "x", "accelerator": "h100 sxm", "count": 16, "free": 4}, "#/free"),
        ("inventory", [{"name": "x", "accelerator": "l4"}], "#/0/count"),
        ("offers", {"items": [{"name": "x", "seller": "s", "accelerator": "l4"}]}, "#/items/0/usd_per_hour"),
        ("systems", {"name": "x", "seller": "s", "system": "none-such", "usd": 1}, "#/system"),
        ("systems", {"name": "x", "seller": "s", "accelerator": "l4", "usd": 1, "colour": "red"}, "#/colour"),
    ],
)
def test_a_refused_record_says_where(service: Service, path: str, body: Any, pointer: str) -> None:
    answer = service.call("POST", f"/catalog/{path}", "wrong", json=body)
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == pointer


def test_a_change_names_the_version_that_it_replaces(service: Service) -> None:
    record = {"name": "v", "accelerator": "l4", "count": 1}
    first = service.call("POST", "/catalog/inventory", "versions", json=record)
    tag = first.headers["etag"]
    assert (
        service.call("POST", "/catalog/inventory", "versions", json=record).json()["lines"][0]["action"] == "unchanged"
    )
    changed = {**record, "count": 2}
    assert service.call("POST", "/catalog/inventory", "versions", json=changed).status_code == 428
    stale = service.call("POST", "/catalog/inventory", "versions", json=changed, headers={"If-Match": '"records-0"'})
    assert (stale.status_code, stale.json()["etag"]) == (412, tag)
    done = service.call("POST", "/catalog/inventory", "versions", json=changed, headers={"If-Match": tag})
    assert done.json()["lines"][0]["action"] == "changed"
    assert done.headers["etag"] != tag
    path = "/catalog/inventory?name=v"
    assert service.call("DELETE", path, "versions", headers={"If-Match": tag}).status_code == 412
    assert service.call("DELETE", path, "versions").status_code == 428
    assert service.call("DELETE", path.replace("=v", "=w"), "versions", headers={"If-Match": "*"}).status_code == 404


def test_a_repeated_write_has_one_effect(service: Service) -> None:
    record = {"name": "once", "accelerator": "l4", "count": 1}
    key = {"Idempotency-Key": "k-1"}
    first = service.call("POST", "/catalog/inventory", "again", json=record, headers=key)
    path = "/catalog/inventory?name=once"
    gone = {"If-Match": "*", "Idempotency-Key": "k-2"}
    assert service.call("DELETE", path, "again", headers=gone).status_code == 204
    again = service.call("POST", "/catalog/inventory", "again", json=record, headers=key)
    assert (again.content, again.headers["etag"]) == (first.content, first.headers["etag"])
    assert again.headers["idempotency-replayed"] == "true"
    assert service.call("GET", "/catalog/inventory", "again").json()["items"] == []
    assert service.call("DELETE", path, "again", headers=gone).status_code == 204  # not 404: the first response
    other = service.call("POST", "/catalog/inventory", "again", json={**record, "count": 2}, headers=key)
    assert (other.status_code, other.json()["type"]) == (422, "/problems/idempotency-key-reused")
    assert service.call("POST", "/catalog/inventory", "else", json=record, headers=key).json()["stored"] == 1


def test_a_repeated_approval_returns_the_first_response(service: Service) -> None:
    identity = service.recommend("approver")["id"]
    sent = {"json": {"status": "approved", "by": "me"}, "headers": {"If-Match": "*", "Idempotency-Key": "a"}}
    path = f"/recommendations/{identity}"
    first, second = (service.call("PATCH", path, "approver", **{**sent, "headers": {**sent["headers"]}}) for _ in "12")
    assert (first.status_code, second.status_code) == (200, 200)
    assert first.json() == second.json()
    assert len(service.call("GET", f"{path}/status", "approver").json()["history"]) == 1


def test_every_change_is_in_the_audit_log_and_a_forged_one_is_found(service: Service) -> None:
    service.call("POST", "/catalog/inventory", "audited", json={"name": "n", "accelerator": "l4", "count": 1})
    service.call("DELETE", "/catalog/inventory?name=n", "audited", headers={"If-Match": "*"})
    with acting_for(EVERY_TENANT), service.engine.begin() as connection:
        entries = list(export_audit(connection, "audited"))
        heads = audit_heads(connection, "audited")
        everything, every_head = list(export_audit(connection)), audit_heads(connection)
    key = service.keys["audited"][3:11]
    assert [(e["action"], e["actor"]) for e in entries] == [("inventory.stored", key), ("inventory.deleted", key)]
    assert entries[0]["facts"] == {"records": {"n": "added"}}
    assert find_break(entries, heads) is None and find_break(everything, every_head) is None
    exported = [orjson.loads(orjson.dumps(entry)) for entry in entries]
    assert find_break(exported, heads) is None
    forged = [{**exported[0], "actor": "somebody"}, exported[1]]
    assert find_break(forged, heads) == "tenant audited, entry 1"
    assert find_break(exported[1:], heads) == "tenant audited, entry 1"
    assert find_break(exported[:1], heads) == "tenant audited, after entry 1"


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_concurrent_writers_lose_nothing(kind: str, service: Service, request: pytest.FixtureRequest) -> None:
    """32 writers of one tenant each store and replace records; all are there, and the chain of the log has no fork."""
    url = request.getfixturevalue("postgres_url") if kind == "postgres" else str(service.engine.url)
    own = make_engine(url, replace(UNHURRIED, pool_s=60.0))
    caller, failed = Caller(f"crowd-{kind}", frozenset(Scope), "key00000"), list[BaseException]()

    def write(n: int) -> None:
        try:
            for step in range(2):
                with acting_for(caller.tenant), own.begin() as connection:
                    lock_tenant(connection, caller.tenant)
                    body = {"accelerator": "nvidia-l4", "count": step + 1}
                    put_records(connection, caller, RecordKind.OFFER, {f"r{n}": body}, now=NOW)
        except BaseException as error:
            failed.append(error)

    writers = [threading.Thread(target=write, args=(n,)) for n in range(32)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert failed == []
    with acting_for(caller.tenant), own.begin() as connection:
        assert len(list_records(connection, caller.tenant, RecordKind.OFFER)) == 32
        assert {b["count"] for b in list_records(connection, caller.tenant, RecordKind.OFFER).values()} == {2}
        entries, heads = list(export_audit(connection, caller.tenant)), audit_heads(connection, caller.tenant)
        assert find_break(entries, heads) is None
        assert len(entries) == heads[caller.tenant][0] == 64
    if kind == "postgres":
        with acting_for(EVERY_TENANT), own.begin() as connection:
            for table, column in (("private_records", "tenant"), ("audit_log", "tenant"), ("tenants", "name")):
                connection.execute(text(f"DELETE FROM {table} WHERE {column} = :tenant"), {"tenant": caller.tenant})
    own.dispose()


def test_records_are_read_again_only_if_they_changed(service: Service) -> None:
    store, caller = HoldingsStore(service.engine), Caller("reader", frozenset(Scope), "key00000")
    empty = store.read("reader")
    assert (empty.digest, dict(empty.inventory)) == ("", {})
    assert store.read("reader") is empty
    with service.engine.begin() as connection:
        lock_tenant(connection, "reader")
        put_records(connection, caller, RecordKind.INVENTORY, {"a": {"accelerator": "nvidia-l4", "count": 1}}, now=NOW)
    changed = store.read("reader")
    assert list(changed.inventory) == ["a"] and store.read("reader") is changed


ROW = "r,a6000,4"


@pytest.mark.parametrize(
    ("table", "detail"),
    [
        (f"name,name,accelerator,count\nr,{ROW}", "names a column twice"),
        (f"name,accelerator,count,no\x01te\n{ROW},a", "control character"),
        (f"name,accelerator,count\n{ROW}\u202e", "control character"),
        ("name,accelerator,count\n" + f"{ROW}\n" * 51, "Send 1 to 50 records"),
        ("name,accelerator,count", "Send 1 to 50 records"),
    ],
)
def test_a_table_that_cannot_be_read_is_refused(service: Service, table: str, detail: str) -> None:
    refused = service.call("POST", "/catalog/inventory", content=table.encode(), headers={"content-type": "text/csv"})
    assert refused.status_code == 400 and refused.json()["type"] == "/problems/malformed-table"
    assert detail in refused.json()["detail"]


def test_similar_names_are_sought_for_the_first_errors_only(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each search takes milliseconds, and a table has 500 lines."""
    searches: list[str] = []
    nearest = CatalogIndex.nearest_accelerators

    def counted(index: CatalogIndex, name: str, **how: Any) -> Any:
        searches.append(name)
        return nearest(index, name, **how)

    monkeypatch.setattr(CatalogIndex, "nearest_accelerators", counted)
    offers = [{"name": f"r{i}", "seller": "a", "accelerator": f"h{i}00q", "usd_per_hour": 1} for i in range(500)]
    refused = service.call("POST", "/catalog/offers", json=offers).json()
    assert "500 of 500 records are refused" in refused["detail"]
    assert len(refused["errors"]) == len(searches) == 20
    report = service.call("POST", "/catalog/offers?dry_run=true", json=offers).json()
    assert report["refused"] == 500 and len(searches) == 40


def test_no_text_parameter_accepts_nul(service: Service) -> None:
    """PostgreSQL cannot store it, so it must not reach a query."""
    document = service.call("GET", "/openapi.json").json()
    known = {"/recommendations/{id}": f"rec_{0:028}", "/measurements/{id}": f"meas_{0:028}"}
    checked = 0
    for path, item in document["paths"].items():
        where = next((path.replace("{id}", value) for start, value in known.items() if path.startswith(start)), path)
        for method, operation in item.items():
            for parameter in operation.get("parameters", ()):
                text_query = parameter["in"] == "query" and "string" in str(parameter["schema"])
                if path == "/procurement/oci" or not (text_query or parameter["name"] == "Idempotency-Key"):
                    continue
                headers = {"If-Match": "*"} | ({} if text_query else {parameter["name"]: "a\0b"})
                sent = f"{where}?{parameter['name']}=a%00b" if text_query else where
                body = None if method in ("get", "delete") else A6000S if "private" in operation["tags"] else {}
                answer = service.call(method.upper(), sent, json=body, headers=headers)
                named = parameter["name"] in ("cursor", "file")  # are looked up in memory, or decoded
                assert answer.status_code in ((200, 400, 404) if named else (400, 422)), (method, sent, answer.text)
                checked += 1
    assert checked > 40


def test_quotes_are_added_once(loaded: LoadedCatalog) -> None:
    quote = {"accelerator": "nvidia-l4", "accelerators": 1, "provider": "acme", "seller": "Acme", "min_quantity": 1}
    quote |= {"valid_from": "2026-01-01", "usd": 400.0, "pricing_model": "on_demand", "usd_per_hour": 0.1}
    held = make_holdings("acme", {RecordKind.OFFER: {"o": quote}, RecordKind.SYSTEM: {"s": quote}})
    index = loaded.catalog_index
    once = index.with_holdings(held, "2026-11-01")
    assert len(once.catalog.offers) == len(index.catalog.offers) + 1
    assert len(once.catalog.owned_systems) == len(index.catalog.owned_systems) + 1
    assert once.with_holdings(held, "2026-11-01") is once
