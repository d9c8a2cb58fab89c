"""The command line as people use it, in this process over a prepared catalogue."""

from __future__ import annotations

import csv
import io
import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from app.catalog.snapshot import LoadedCatalog
from app.cli import cli
from app.main import create_app

CHAT = ("--model", "llama-3.1-8b-instruct", "--rps", "5", "--in", "1,000", "--out", "200", "--accelerator", "l4")
QUICK = ("--set", "assumptions.simulated_requests=1000")


@pytest.fixture
def here(sqlite_url: str, loaded: LoadedCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each command starts a service of its own with the catalog of the tests."""
    monkeypatch.setattr("app.command.local.create_app", partial(create_app, loaded=loaded))
    monkeypatch.setenv("HEADROOM_DATABASE_URL", sqlite_url)
    monkeypatch.setenv("HEADROOM_TODAY", "2026-11-20")


def run(*words: str, given: str | None = None) -> Result:
    return CliRunner().invoke(cli, list(words), input=given)


@pytest.mark.slow
@pytest.mark.usefixtures("here")
def test_flags_give_what_the_same_request_gives() -> None:
    found = json.loads(run("recommend", *CHAT, *QUICK, "--json").stdout)
    body = {
        "workload": {
            "phase": "inference",
            "model": "llama-3.1-8b-instruct",
            "traffic": {"peak_requests_per_s": 5, "input_tokens": 1000, "output_tokens": 200},
        },
        "constraints": {"accelerators": ["l4"]},
        "assumptions": {"simulated_requests": 1000},
    }
    assert found["request"] == json.loads(run("recommend", "-", "--json", given=json.dumps(body)).stdout)["request"]
    table = run("recommend", *CHAT, *QUICK).stdout
    first = found["recommendations"][0]["deployment"]
    assert f"{first['total_accelerators']} x nvidia-l4" in table and found["summary"] in table
    assert f"headroom explain {found['id']}" in table
    explained = run("explain", found["id"]).stdout
    assert found["recommendations"][0]["explanation"][0]["text"] in explained
    asked = next(each for each in found["recommendations"][0]["confidence"]["by_level"] if each["confidence"] == 0.8)
    assert f"- 80 %: {asked['total_accelerators']} accelerators" in explained
    assert found["verification"]["decides"] in explained and found["sensitivity"][0]["effect"] in explained
    rows = list(csv.DictReader(io.StringIO(run("recommend", *CHAT, *QUICK, "--csv").stdout)))
    assert float(rows[0]["usd_per_hour"]) == found["recommendations"][0]["cost"]["usd_per_hour"]
    assert run("recommend", *CHAT, *QUICK, "--markdown").stdout.startswith("| rank |")


@pytest.mark.slow
@pytest.mark.usefixtures("here")
def test_an_answer_fits_a_terminal_and_is_taken_by_estimate(tmp_path: Path) -> None:
    table = run("recommend", *CHAT, *QUICK).stdout
    head = next(line for line in table.splitlines() if line.startswith("rank"))
    rows = table[table.index(head) :].split("\n\n")[0].splitlines()[:-1]
    assert max(map(len, rows)) <= 100 and {"hardware", "usd_per_hour", "ttft_p95_ms"} <= set(head.split())
    assert "--wide also shows" in table and "--wide also shows" not in run("recommend", *CHAT, *QUICK, "--wide").stdout
    path = tmp_path / "answer.json"
    path.write_text(run("recommend", *CHAT, *QUICK, "--json").stdout)
    first = json.loads(path.read_text())["recommendations"][0]
    judged = json.loads(run("estimate", str(path), "--json").stdout)
    assert judged["deployment"]["accelerator"] == first["deployment"]["accelerator"]
    assert judged["cost"]["usd_per_hour"] == first["cost"]["usd_per_hour"]
    other = json.loads(run("estimate", str(path), "--accelerator", "h100 sxm", "--count", "8", "--json").stdout)
    assert other["deployment"]["accelerator"] == "nvidia-h100-sxm5-80gb"
    assert other["deployment"]["total_accelerators"] == 8
    path.write_text(json.dumps({"request": {}, "recommendations": []}))
    refused = run("estimate", str(path))
    assert refused.exit_code == 2 and "recommends nothing" in " ".join(refused.output.split())


@pytest.mark.slow
@pytest.mark.usefixtures("here")
def test_files_of_an_answer_are_written(tmp_path: Path) -> None:
    identity = json.loads(run("recommend", *CHAT, *QUICK, "--json").stdout)["id"]
    sheet = tmp_path / "bill.xlsx"
    assert run("export", identity, "--format", "xlsx", "-o", str(sheet)).exit_code == 0
    assert sheet.read_bytes().startswith(b"PK")
    written = run("export", identity, "--target", "kubernetes", "-o", str(tmp_path / "files")).stdout.split()
    assert written and all(Path(path).read_text() for path in written)
    assert run("export", identity).exit_code == 2


@pytest.mark.slow
@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (
            ("recommend", "--model", "llama-3.1-405b", "--rps", "9", "--accelerator", "l4", "--max-accelerators", "2"),
            3,
            "",
        ),
        (("recommend", "--model", "nonsuch-9b", "--rps", "1"), 2, "Unknown model 'nonsuch-9b'"),
        (("recommend",), 2, "No request. Use flags"),
        (("recommend", "--model", "llama-3.1-8b"), 2, "The load is missing"),
        (("recommend", "--model", "x", "--rps", "many"), 2, "'many' is not a number"),
        (("recommend", "llama-3.1-8b"), 2, "a file with a request, not a model's name"),
        (("recommend", *CHAT[:2], "--users", "5"), 2, "Set it with --requests-per-hour-each"),
        (("recommend", "--model", "x", "--set", "nothing"), 2, "must have the form field=value"),
        (("recommend", "--url", "http://127.0.0.1:9", "--model", "x", "--rps", "1"), 1, "does not answer"),
        (("recommend", *CHAT[:2], "--rps", "1", "--accelerator", "h1000"), 2, "`headroom accelerators` lists all."),
        (("estimate", *CHAT[:2], "--rps", "1"), 2, "The hardware is missing. Set --accelerator"),
        (("support", "vllm"), 2, "takes 2 values"),
        (
            ("explain", "rec_123"),
            2,
            "'rec_123' is not an id: rec_ and 28 hexadecimal digits. `headroom list` lists them.",
        ),
        (("explain", f"rec_{'0' * 28}"), 2, "No answer is stored"),
    ],
)
def test_what_goes_wrong_is_a_sentence_and_a_code(words: tuple[str, ...], code: int, says: str) -> None:
    result = run(*words)
    assert result.exit_code == code
    assert says in " ".join(result.output.split()) and "Traceback" not in result.output
    assert "GET /" not in result.output and '"event"' not in result.output


def test_an_unprepared_database_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADROOM_DATABASE_URL", f"sqlite:///{tmp_path}/empty.sqlite3")
    result = run("recommend", "--model", "llama-3.1-8b-instruct", "--rps", "1")
    assert (result.exit_code, "headroom prepare" in result.output) == (1, True)
    looked = run("doctor", "--port", "1")
    assert looked.exit_code == 1 and "FIX database: sqlite, revision none" in looked.output


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("WORKERS", "many"),
        ("LOG_LEVEL", "loud"),
        ("WEBHOOKS", "[{"),
        ("WEBHOOKS", '[{"name": "erp", "url": "https://erp.example/hook", "secret": "whsec_hush"}]'),
        ("DATABASE_URL", "nonsense"),
        ("DATABASE_URL", "mysql://user:hush@host/name"),
        ("DATABASE_URL", "postgresql+psycopg://user:hush@host:port/name"),
        ("DATABASE_URL", "postgresql+psycopg://user:hush@host:99999/name"),
        ("PROXIES", '["hush"]'),
        ("DATABASE_URL", "postgres://user:hush@host/name"),
    ],
)
@pytest.mark.parametrize("command", ["doctor", "serve"])
def test_a_wrong_setting_is_reported_by_its_name_without_its_value(
    name: str, value: str, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"HEADROOM_{name}", value)
    result = run(command)
    assert (result.exit_code, len(result.output.splitlines())) == (1, 1)
    assert f"HEADROOM_{name}" in result.output and "hush" not in result.output


@pytest.mark.slow
@pytest.mark.usefixtures("here")
def test_lists_estimates_and_the_rest_answer() -> None:
    assert "nvidia-l4 " in run("accelerators", "l4").stdout
    assert "Qwen/Qwen3-30B-A3B" in run("models", "qwen3-30b").stdout
    assert run("offers", "h100", "--limit", "2").stdout.count("h100") == 2
    assert run("models", "no such model at all").stdout.strip() == "Nothing matches."
    assert (
        json.loads(run("support", "--engine", "vllm", "--accelerator", "mi300x").stdout)["accelerator"] == "amd-mi300x"
    )
    assert "37,552,282,624" in run("inspect", "deepseek-v3").stdout
    assert "Qwen/Qwen3-32B" in run("runnable", "qwen3-32b", "--own", "4xrtx a6000").stdout
    fits = run(
        "estimate", "--model", "llama-3.1-8b-instruct", "--accelerator", "rtx 4090", "--count", "1", "--concurrent", "2"
    )
    assert (fits.exit_code, "It fits" in fits.stdout) == (0, True)
    whole = ("--count", "1", "--concurrent", "2", "--engine", "vllm", "--weights", "bf16")
    assert run("estimate", "--model", "llama-3.1-405b", "--accelerator", "l4", *whole).exit_code == 3
    looked = run("doctor", "--port", "1")
    assert looked.exit_code == 0 and "FIX" not in looked.stdout
    assert run("--version").stdout.strip()


@pytest.mark.slow
@pytest.mark.usefixtures("here")
def test_options_are_compared(tmp_path: Path) -> None:
    options: list[dict[str, Any]] = [
        {"name": "cards", "constraints": {"accelerators": ["l4"]}},
        {"name": "large", "constraints": {"accelerators": ["l40s"]}},
    ]
    workload = {
        "phase": "inference",
        "model": "llama-3.1-8b-instruct",
        "traffic": {"concurrent_requests": 4, "input_tokens": 500, "output_tokens": 100},
    }
    path = tmp_path / "compare.json"
    path.write_text(json.dumps({"workload": workload, "options": options}))
    table = run("compare", str(path)).stdout
    assert "cards" in table and "large" in table and "usd_per_hour" in table
    assert {o["name"] for o in json.loads(run("compare", str(path), "--json").stdout)["options"]} == {"cards", "large"}


def test_problems_are_reported_once_and_apart_from_the_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADROOM_DATABASE_URL", f"sqlite:///{tmp_path}/empty.sqlite3")
    for words in (("accuracy",), ("recommend", *CHAT, "--json")):
        result = run(*words)
        assert (result.exit_code, result.stdout) == (1, "")
        assert "headroom prepare" in result.stderr and "Traceback" not in result.stderr


@pytest.mark.slow
@pytest.mark.usefixtures("here")
def test_a_place_is_reported_once() -> None:
    result = run("recommend", *CHAT, "--set", "workload.slo.ttft_ms=-1", "--set", "limit=0")
    assert result.exit_code == 2
    assert result.stderr.count("#/workload/slo/ttft_ms") == 1 and result.stderr.count("#/limit") == 1
