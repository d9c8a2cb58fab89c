"""The benchmark of an answer is run, uploaded and sized again from the command line."""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from app.catalog.snapshot import LoadedCatalog
from app.cli import cli
from app.command import measuring
from artefacts.running import serve_app
from tests.conftest import copied, serving
from tests.observed.result_files import PLAIN, SCREEN

REQUEST: dict[str, Any] = {
    "workload": {
        "phase": "inference",
        "model": "llama-3.1-8b-instruct",
        "traffic": {"peak_requests_per_s": 60, "input_tokens": 1024, "output_tokens": 256},
    },
    "constraints": {"accelerators": ["h100-sxm"], "engines": ["vllm"]},
    "limit": 1,
}


@pytest.fixture(scope="module")
def service(sqlite_url: str, loaded: LoadedCatalog, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of an application with a database of its own."""
    url = copied(sqlite_url, tmp_path_factory.mktemp("measuring") / "own.sqlite3")
    with serving(url, loaded) as made, serve_app(made.app) as address:
        yield address


def run(address: str, *words: str, given: str | None = None) -> Result:
    """A command against the service."""
    return CliRunner().invoke(cli, [*words, "--url", address], input=given)


def test_measurements_are_uploaded_listed_and_deleted(service: str, tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_text(json.dumps(PLAIN))
    dry = run(service, "measurements", "--upload", str(path), "--dry-run", "--json")
    assert json.loads(dry.stdout)["stored"] is False
    assert "No measurement is stored" in run(service, "measurements").stdout
    stored = json.loads(run(service, "measurements", "--upload", str(path), "--json").stdout)
    identity = stored["measurements"][0]["id"]
    table = run(service, "measurements").stdout
    assert identity in table and "output_tokens_per_s" in table
    assert run(service, "measurements", "--delete", identity).stdout == f"Deleted {identity}.\n"
    lacking = run(service, "measurements", "--upload", "-", given=SCREEN)
    assert lacking.exit_code != 0
    assert "engine_version" in lacking.output


def test_measure_runs_the_benchmark_of_an_answer_against_a_server_and_uploads_it(
    service: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command as it is, but for the port and the seconds between health checks; `vllm` is openai_stub.py."""
    request = tmp_path / "request.json"
    traffic = {"concurrent_requests": 4, "requests": 60, "input_tokens": 64, "output_tokens": 16}
    asked = {**REQUEST, "workload": {**REQUEST["workload"], "traffic": traffic}}
    request.write_text(json.dumps(asked | {"constraints": {**REQUEST["constraints"], "weight_formats": ["bf16"]}}))
    answer = json.loads(run(service, "recommend", str(request), "--json").stdout)
    vllm, port = tmp_path / "vllm", free_port()
    vllm.write_text(f'#!/bin/sh\nexec {sys.executable} {Path(__file__).with_name("openai_stub.py")} "$@"\n')
    vllm.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("PORT", str(port))
    runner = measuring.run_benchmark

    def run_here(command: str, *, confirmed: bool) -> bytes:
        assert command.count("localhost:8000") == 1 and "vllm bench serve" in command
        return runner(command.replace(":8000", f":{port}").replace("sleep 5", "sleep 0.1"), confirmed=confirmed)

    monkeypatch.setattr(measuring, "run_benchmark", run_here)
    assert run(service, "measure", answer["id"], given="n\n").exit_code == 1
    found = run(service, "measure", answer["id"], "--yes", "--param", "engine_version=0.30")
    assert found.exit_code == 0, found.output
    assert f"Before: {answer['recommendations'][0]['deployment']['total_accelerators']} x nvidia-h100" in found.stdout
    assert "this is enough: " in found.stdout
    (measured,) = json.loads(run(service, "measurements", "--json").stdout)
    figures = {f["quantity"]: f["measured"] for f in measured["figures"]}
    # one loop of four requests at a time, 10 ms for a prompt and 1 ms for a token, and what the machine adds
    assert 50 < figures["output_tokens_per_s"] < 4 * 16 / 0.026
    assert figures["ttft_ms"] > 10 and figures["tpot_ms"] > 1
    again = json.loads(run(service, "recommend", str(request), "--json").stdout)
    assert again["recommendations"][0]["performance"]["basis"] == "measured"
    assert run(service, "measurements", "--delete", measured["id"]).exit_code == 0


def free_port() -> int:
    """A port on which nothing listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def test_a_failing_benchmark_ends_the_command() -> None:
    with pytest.raises(Exception, match="1"):
        measuring.run_benchmark("exit 3", confirmed=True)


def test_an_answer_gives_the_parameters_of_its_benchmark() -> None:
    deployment = {"accelerator": "h100", "engine": "vllm", "tensor_parallel": 2, "data_parallel": None}
    answer = {
        "recommendations": [{"deployment": {"accelerator": "a100"}}, {"deployment": deployment}],
        "request": {"workload": {"model": "m", "method": "lora", "traffic": {"input_tokens": 9}}},
    }
    check = {"accelerator": "h100", "accelerators": 2}
    assert measuring.answered_parameters(answer, check) == {
        "accelerator": "h100",
        "engine": "vllm",
        "tensor_parallel": 2,
        "model": "m",
        "method": "lora",
        "input_tokens": 9,
        "accelerators": 2,
    }
    assert measuring.answered_parameters(answer, check | {"accelerator": "b200"}) == {}


@pytest.mark.parametrize(
    ("before", "after", "text"),
    [
        (2.0, 1.0, "saves 730 USD per month"),
        (1.0, 2.0, "additional 730 USD per month"),
        (1.0, 1.0, "confirms the recommendation"),
        (None, 1.0, "cannot be compared"),
    ],
)
def test_the_saving_is_a_sentence(before: float | None, after: float, text: str) -> None:
    deployment = {"total_accelerators": 1, "accelerator": "a"}
    answers = [{"recommendations": [{"cost": {"usd_per_hour": u}, "deployment": deployment}]} for u in (before, after)]
    assert text in measuring.saving_text(*answers)
    if before is not None:  # a mixed fleet is the plan, whatever single options cost
        groups = [{"deployment": deployment}]
        fleets = [{**answers[1], "mixed_fleet": {"groups": groups, "usd_per_hour": u}} for u in (before, after)]
        assert text in measuring.saving_text(*fleets)
