"""The tools as agents use them: through the client of the protocol's own SDK, over HTTP and standard input."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp.shared.exceptions import MCPError
from starlette.testclient import TestClient
from typer.testing import CliRunner

from app.agents.server import transport_security
from app.agents.tools import TOOLS
from app.catalog.snapshot import LoadedCatalog
from app.cli import cli
from app.command.lists import open_service
from app.config import Settings
from app.main import create_app
from artefacts.service import DAY

WORK = {
    "phase": "inference",
    "model": "llama-3.1-8b-instruct",
    "traffic": {"peak_requests_per_s": 5, "input_tokens": 1024, "output_tokens": 256},
}
ON_H100 = {"workload": WORK, "deployment": {"accelerator": "h100 sxm", "total_accelerators": 1}}
BOTH = {"workload": WORK, "options": [{"name": "best"}, {"name": "on L4", "constraints": {"accelerators": ["l4"]}}]}
MOST_LISTED, MOST_FLAT, MOST_GIVEN = 12_000, 4_000, 20_000  # characters of a context: all tools, the first, an answer

Asking = Callable[[Client], Awaitable[Any]]


def through(server: Any, ask: Asking, mode: str = "auto") -> Any:
    """What comes of a conversation with a server."""

    async def conversation() -> Any:
        async with Client(server, mode=mode) as client:
            return await ask(client)

    return asyncio.run(conversation())


def called(live: str, name: str, **arguments: Any) -> Any:
    """What a tool gives over HTTP."""
    return through(f"{live}/mcp", lambda client: client.call_tool(name, arguments))


def same(short: dict[str, Any], whole: dict[str, Any], *names: str) -> None:
    """Members of a tool's answer are those of the API's."""
    assert names
    assert {name: short[name] for name in names} == {name: whole[name] for name in names}


def test_every_tool_is_listed_with_what_it_takes_in_few_words(live: str) -> None:
    tools = {tool.name: tool for tool in through(f"{live}/mcp", lambda client: client.list_tools()).tools}
    assert list(tools) == [tool.name for tool in TOOLS]
    for tool in tools.values():
        assert tool.annotations.read_only_hint or tool.annotations.idempotent_hint
        assert all(
            "items" in field for field in tool.input_schema["properties"].values() if field.get("type") == "array"
        )
        assert tool.output_schema["required"]
        assert "Example: " in tool.description
    stores = [name for name, tool in tools.items() if not tool.annotations.read_only_hint]
    assert stores == ["size_hardware", "recommend", "compare"]
    assert len(tools["size_hardware"].input_schema["properties"]) == 12
    assert "max_usd_per_hour" in tools["recommend"].input_schema["properties"]["constraints"]["description"]
    assert tools["recommend"].input_schema["required"] == ["workload"]
    listed = {
        name: len(json.dumps(tool.model_dump(by_alias=True, exclude_none=True, mode="json"))) + 2
        for name, tool in tools.items()
    }
    assert sum(listed.values()) < MOST_LISTED
    assert listed["size_hardware"] < MOST_FLAT


@pytest.mark.parametrize("tool", [tool for tool in TOOLS if tool.request], ids=lambda tool: tool.name)
def test_the_example_of_a_tool_is_answered(live: str, tool: Any) -> None:
    example = json.loads(tool.description.split("Example: ")[1])
    answer = called(live, tool.name, **example)
    assert not answer.is_error, answer.content[0].text
    assert len(json.dumps(answer.structured_content)) < MOST_GIVEN


@pytest.mark.parametrize(
    ("arguments", "body"),
    [
        (
            {"model": WORK["model"], "peak_requests_per_s": 5, "input_tokens": 1024, "output_tokens": 256},
            {"workload": WORK},
        ),
        (
            {"model": "llama-3.1-8b", "training_tokens": 1e8, "method": "lora", "max_usd_per_hour": 20},
            {
                "workload": {
                    "phase": "fine_tuning",
                    "model": "llama-3.1-8b",
                    "method": "lora",
                    "training_tokens": 1e8,
                },
                "constraints": {"max_usd_per_hour": 20},
            },
        ),
        (
            {"model": "llama-3.1-8b", "users": 500, "tpot_ms": 60},
            {
                "workload": {
                    "phase": "inference",
                    "model": "llama-3.1-8b",
                    "traffic": {"users": {"count": 500, "requests_per_hour_each": 12}},
                    "slo": {"tpot_ms": 60},
                }
            },
        ),
    ],
)
def test_flat_arguments_give_the_answer_of_the_request_that_they_stand_for(
    live: str, client: TestClient, arguments: dict[str, Any], body: dict[str, Any]
) -> None:
    answer = called(live, "size_hardware", **arguments)
    assert not answer.is_error, answer.content[0].text
    whole = client.post("/recommend", json={**body, "limit": 3}).json()
    assert answer.structured_content["id"] == whole["id"]


@pytest.mark.parametrize(
    ("arguments", "pointer"),
    [
        ({"method": "lora"}, "training_tokens"),
        ({"deadline_days": 2}, "training_tokens"),
        ({"training_tokens": 1e8, "peak_requests_per_s": 5}, "peak_requests_per_s"),
    ],
)
def test_flat_arguments_of_a_service_and_of_a_run_are_not_mixed(live: str, arguments: Any, pointer: str) -> None:
    answer = called(live, "size_hardware", model="llama-3.1-8b", **arguments)
    assert answer.is_error
    assert pointer in answer.content[0].text


def test_a_stored_answer_gives_its_bill_and_files_and_is_found_by_its_label(live: str) -> None:
    kept = called(live, "recommend", workload=WORK, label="agents").structured_content["id"]
    bill = called(live, "bill_of_materials", id=kept)
    assert bill.structured_content["lines"]
    assert f"Total: {bill.structured_content['totals']['total']} USD" in bill.content[0].text
    in_euro = called(live, "bill_of_materials", id=kept, currency="EUR", usd_rate=0.92, rate_date="2026-11-01")
    assert in_euro.structured_content["currency"] == "EUR", in_euro.content[0].text
    files = called(live, "files", id=kept, target="kubernetes")
    assert "apiVersion" in files.content[0].text
    found = called(live, "answers", label="agents")
    assert kept in [each["id"] for each in found.structured_content["items"]]
    assert called(live, "files", id=kept, target="nowhere").is_error


def test_fields_are_described_at_a_path(live: str) -> None:
    found = called(live, "describe", tool="recommend", path="workload.inference.traffic").structured_content["fields"]
    assert found["peak_requests_per_s"]["text"].startswith("Requests per second in the busiest hour")
    assert called(live, "describe", tool="estimate", path="deployment").structured_content["fields"]["tensor_parallel"]
    for wrong in ({"tool": "recommend", "path": "nowhere"}, {"tool": "explain"}, {"path": "workload"}):
        assert called(live, "describe", **wrong).is_error


def test_a_recommendation_is_that_of_the_api_and_is_explained_by_its_id(live: str, client: TestClient) -> None:
    answer = called(live, "recommend", workload=WORK)
    short, whole = answer.structured_content, client.post("/recommend", json={"workload": WORK, "limit": 3}).json()
    same(short, whole, "id", "summary", "warnings", "rejected_by_code", "cheaper_if")
    assert len(short["recommendations"]) == 3
    for mine, theirs in zip(short["recommendations"], whole["recommendations"], strict=True):
        same(mine, theirs, "rank", "deployment", "cost", "confidence")
        same(mine["performance"], theirs["performance"], "ttft_ms", "tpot_ms", "output_tokens_per_s", "intervals")
    assert set(short["left_out"]) == whole.keys() - short.keys()
    assert whole["summary"] in answer.content[0].text
    assert whole["id"] in answer.content[0].text

    why = called(live, "explain", id=whole["id"], rank=2, parts=["assumptions"])
    explained = why.structured_content
    same(explained, whole, "assumptions", "rejected", "sensitivity")
    assert [each["rank"] for each in explained["recommendations"]] == [2]
    same(explained["recommendations"][0], whole["recommendations"][1], "explanation")
    assert whole["recommendations"][1]["explanation"][0]["text"] in why.content[0].text


def test_all_of_an_answer_is_given_to_who_asks_for_it(live: str, client: TestClient) -> None:
    asked_for = {"workload": WORK, "limit": 1}
    answer = called(live, "recommend", **asked_for, parts=["all"])
    assert answer.structured_content == client.post("/recommend", json=asked_for).json()


def test_estimate_compare_and_inspect_give_the_figures_of_the_api(live: str, client: TestClient) -> None:
    whole = client.post("/estimate", json=ON_H100).json()
    same(called(live, "estimate", **ON_H100).structured_content, whole, "fits", "cost", "memory", "explanation")

    whole = client.post("/compare", json=BOTH).json()
    answer = called(live, "compare", **BOTH)
    same(answer.structured_content, whole, "summary", "table", "differences")
    assert re.search(r"\| +best \| +on L4 \| unit", answer.content[0].text)

    whole = client.post("/catalog/models/inspect", json={"model": WORK["model"]}).json()
    answer = called(live, "inspect", model=WORK["model"])
    same(answer.structured_content, whole, "parameters", "weights_gib", "by_context")
    assert f"{whole['parameters']:,}" in answer.content[0].text


def test_a_request_that_is_none_is_a_tool_error_that_says_where_and_what(live: str, client: TestClient) -> None:
    misspelt = {"workload": {**WORK, "traffic": {"peak_request_per_s": 5}}}
    answer = called(live, "recommend", **misspelt)
    assert answer.is_error
    assert answer.structured_content == client.post("/recommend", json=misspelt).json()
    assert "Unknown field #/workload/traffic/peak_request_per_s. Did you mean" in answer.content[0].text
    assert answer.content[0].text.count("Unknown field") == 1

    unknown = called(live, "inspect", model="gpt-9-ultra")
    assert unknown.is_error
    assert unknown.structured_content["type"].startswith("/problems/")
    assert unknown.structured_content["errors"][0]["pointer"] == "#/model"


@pytest.mark.parametrize(
    ("arguments", "pointer"),
    [
        ({"id": "rec_" + "0" * 28, "parts": [1]}, "#/parts"),
        ({"id": "rec_" + "0" * 28, "ranks": 2}, "#/ranks"),
        ({}, "#/id"),
    ],
)
def test_arguments_of_the_tools_own_are_refused_by_name(live: str, arguments: dict[str, Any], pointer: str) -> None:
    answer = called(live, "explain", **arguments)
    assert answer.is_error
    assert [each["pointer"] for each in answer.structured_content["errors"]] == [pointer]


def test_a_rank_that_an_answer_lacks_is_refused_and_an_unknown_id_is_not_found(live: str) -> None:
    kept = called(live, "recommend", workload=WORK).structured_content["id"]
    answer = called(live, "explain", id=kept, rank=9)
    assert answer.structured_content["errors"] == [{"pointer": "#/rank", "detail": "The answer has ranks 1 to 3."}]
    for identity in ("rec_" + "0" * 28, "../readyz"):
        assert called(live, "explain", id=identity).is_error


def test_nothing_within_the_limits_is_an_answer_with_the_nearest_misses(live: str) -> None:
    answer = called(live, "recommend", workload=WORK, constraints={"max_usd_per_hour": 0.01})
    assert not answer.is_error
    assert answer.structured_content["recommendations"] == []
    nearest = answer.structured_content["rejected"][0]
    assert nearest["text"] in answer.content[0].text
    assert "No hardware in the catalog meets" in answer.content[0].text


def test_a_client_of_an_earlier_revision_is_served_without_a_session(live: str) -> None:
    answer = through(f"{live}/mcp", lambda client: client.call_tool("inspect", {"model": WORK["model"]}), "legacy")
    assert answer.structured_content["name"]


def test_a_tool_that_is_none_is_an_error_of_the_protocol(live: str) -> None:
    with pytest.RaisesGroup(
        pytest.RaisesExc(MCPError, match="Available tools: size_hardware, recommend"), flatten_subgroups=True
    ):
        called(live, "buy")


def test_a_page_of_another_name_is_refused_and_other_methods_are_not_taken(client: TestClient) -> None:
    said = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    takes = {"Accept": "application/json, text/event-stream"}
    assert client.post("/mcp", json=said, headers={**takes, "Host": "evil.example"}).status_code == 421
    stranger = {**takes, "Host": "localhost:8000", "Origin": "http://evil.example"}
    assert client.post("/mcp", json=said, headers=stranger).status_code == 403
    assert client.post("/mcp", json=said, headers={**takes, "Host": "localhost:8000"}).status_code == 200
    assert client.get("/mcp").status_code == 405
    batch = client.post("/mcp", json=[said], headers={**takes, "Host": "localhost:8000"})
    assert batch.status_code == 400
    assert "one message per request" in batch.json()["detail"]


def test_numbers_that_json_does_not_have_are_refused_by_the_api(client: TestClient) -> None:
    """Python's encoder refused them with a traceback, also in configurations, where the API accepts them."""
    headers = {
        "Accept": "application/json, text/event-stream",
        "Content-Type": "application/json",
        "Host": "localhost:8000",
    }
    for arguments, text in (
        ('{"workload": NaN}', "NaN and Infinity are not valid JSON numbers"),
        ('{"workload": {"peak": 1e999}}', "NaN and Infinity are not valid JSON numbers"),
        ('{"workload": {"model": {"huggingface_config": {"rope_theta": Infinity}}}}', "Field required"),
    ):
        call = (
            f'{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"estimate","arguments":{arguments}}}}}'
        )
        answer = client.post("/mcp", content=call, headers=headers).json()
        assert text in answer["result"]["content"][0]["text"], answer
    assert client.post("/mcp", content=b"x" * 100_000, headers={"Content-Type": "application/json"}).status_code == 413


def test_any_host_is_taken_where_settings_say_so() -> None:
    assert not transport_security(("localhost", "*")).enable_dns_rebinding_protection
    assert "headroom.example:*" in transport_security(("headroom.example",)).allowed_hosts


@pytest.mark.slow
def test_standard_input_answers_as_http_does(sqlite_url: str, live: str) -> None:
    environment = {**os.environ, "HEADROOM_DATABASE_URL": sqlite_url, "HEADROOM_TODAY": DAY.isoformat()}
    server = StdioServerParameters(command=sys.executable, args=["-m", "app", "mcp"], env=environment)

    async def ask(client: Client) -> Any:
        tools = await client.list_tools()
        good = await client.call_tool("recommend", {"workload": WORK})
        return tools.tools, good, await client.call_tool("estimate", {"workload": WORK})

    tools, good, bad = through(server, ask)
    assert tools == through(f"{live}/mcp", lambda client: client.list_tools()).tools
    assert good.structured_content == called(live, "recommend", workload=WORK).structured_content
    assert bad.is_error
    assert "#/deployment" in bad.content[0].text


def test_standard_input_may_ask_a_service_at_an_address(live: str) -> None:
    async def ask() -> Any:
        async with open_service(live) as service:
            return await service.readiness_problem(), await service.call_tool("inspect", {"model": WORK["model"]})

    problem, result = asyncio.run(ask())
    assert problem is None
    assert result.content == called(live, "inspect", model=WORK["model"]).structured_content


def test_an_unprepared_database_is_reported_before_anything_is_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADROOM_DATABASE_URL", f"sqlite:///{tmp_path}/empty.sqlite3")
    result = CliRunner().invoke(cli, ["mcp"])
    assert result.exit_code == 1
    assert "Run `headroom prepare`" in result.output


def test_the_command_reports_that_no_service_answers_and_ends() -> None:
    result = CliRunner().invoke(cli, ["mcp", "--url", "http://127.0.0.1:9"])
    assert result.exit_code == 1
    assert "http://127.0.0.1:9 does not answer" in result.output


def test_what_a_tool_asks_of_the_service_goes_by_the_id_of_the_request_that_called_it(
    sqlite_url: str, loaded: LoadedCatalog, capsys: pytest.CaptureFixture[str]
) -> None:
    app = create_app(Settings(database_url=sqlite_url, today=DAY, access_log="on"), loaded)
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "estimate", "arguments": ON_H100}}
    sent = {"accept": "application/json, text/event-stream", "host": "localhost", "x-request-id": "of-this-call"}
    with TestClient(app) as client:
        assert client.post("/mcp", json=call, headers=sent).status_code == 200
    app.state.sessions.kw["bind"].dispose()
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    ids = {line["route"]: (line["request_id"], line["trace_id"]) for line in lines if line["event"] == "request"}
    assert ids["/estimate"] == ids["/mcp"] and ids["/mcp"][0] == "of-this-call"
