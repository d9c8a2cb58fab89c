"""Commands on stored answers, and what all commands share: profiles, examples, sorting, the width of the terminal."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
import typer
from starlette.testclient import TestClient
from typer.testing import CliRunner, Result

from app.cli import EXAMPLES, cli
from app.command import lists, local
from app.command.asking import terminal_width
from app.export.tables import sort_rows
from headroom_client import Headroom

if TYPE_CHECKING:
    import httpx2

COMMANDS: dict[str, Any] = typer.main.get_command(cli).commands  # type: ignore[attr-defined]
CHAT = ("--model", "llama-3.1-8b-instruct", "--in", "800", "--out", "200", "--accelerator", "l4")


@pytest.fixture(autouse=True)
def here(client: TestClient, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Commands ask the service of the tests instead of starting one each."""

    @contextmanager
    def shared_client() -> Iterator[Headroom]:
        with local.logs_to_stderr():
            yield Headroom(http=cast("httpx2.Client", client), retries=0)

    monkeypatch.setattr(local, "open_local_client", shared_client)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))


def run(*words: str, given: str | None = None) -> Result:
    return CliRunner().invoke(cli, list(words), input=given)


def answered(*words: str) -> dict[str, Any]:
    ended = run("recommend", *CHAT, *words, "--json")
    assert ended.exit_code == 0, ended.output
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


def test_flags_name_users_budget_software_and_redundancy() -> None:
    words = ("--users", "300", "--requests-per-hour-each", "12", "--budget", "7,300/month", "--redundancy", "n+1")
    request = answered(*words, "--engine", "vllm", "--format", "fp8")["request"]
    assert request["workload"]["traffic"]["users"] == {"count": 300, "requests_per_hour_each": 12}
    assert request["workload"]["availability"] == {"redundancy": "n+1"}
    expected = {"accelerators": ["l4"], "engines": ["vllm"], "weight_formats": ["fp8"], "max_usd_per_hour": 10}
    assert request["constraints"] == expected
    refused = run("recommend", *CHAT, "--rps", "1", "--budget", "500")
    assert refused.exit_code == 2 and "no period" in refused.output and "2,000/month" in refused.output


def test_a_stored_answer_is_listed_approved_repriced_and_varied() -> None:
    identity = answered("--requests-per-s", "2", "--label", "stored-commands")["id"]
    assert identity in run("list", "--label", "stored-commands").stdout
    assert run("list", "--label", "stored-commands", "--status", "approved").stdout == "Nothing matches.\n"
    assert f"{identity}: draft." in run("status", identity).stdout
    approved = run("approve", identity, "--by", "ana@example.com", "--note", "within budget").stdout
    assert f"{identity}: approved." in approved and "approved by ana@example.com: within budget" in approved
    assert identity in run("list", "--label", "stored-commands", "--status", "approved").stdout
    repriced = run("reprice", identity)
    assert repriced.exit_code == 0 and "then and today" in repriced.stdout
    assert "\n- " in repriced.stdout and "['" not in repriced.stdout
    found = json.loads(run("sensitivity", identity, "--json").stdout)
    text = run("sensitivity", identity).stdout
    assert all(f"- {each['text']}" in text for name in ("flips", "holds", "savings") for each in found[name])
    assert found["holds"] or found["flips"]
    missing = run("status", "rec_" + "0" * 28)
    assert missing.exit_code == 2 and missing.stderr


def test_a_deployment_is_diagnosed(tmp_path: Path) -> None:
    traffic = {"peak_requests_per_s": 20}
    body = {
        "workload": {"phase": "inference", "model": "llama-3.1-8b-instruct", "traffic": traffic},
        "deployment": {"accelerator": "h100 sxm", "total_accelerators": 1, "engine": "vllm"},
        "observed": {"service": {"requests_per_s": 20, "preemptions_per_request": 0.4}},
    }
    source = tmp_path / "observed.json"
    source.write_text(json.dumps(body))
    found = json.loads(run("diagnose", str(source), "--json").stdout)
    text = run("diagnose", "-", given=json.dumps(body)).stdout
    assert found["findings"] and found["summary"] in text
    assert all(each["change"]["text"] in text for each in found["findings"])


def test_a_profile_sets_defaults_that_flags_override(tmp_path: Path) -> None:
    config = tmp_path / "headroom" / "config.toml"
    config.parent.mkdir()
    config.write_text('[default]\nlabel = "from-profile"\n[eu]\nregion = ["eu-*"]\nmax-usd-per-hour = 9\n')
    assert answered("--rps", "2")["request"]["label"] == "from-profile"
    assert answered("--rps", "2", "--label", "mine")["request"]["label"] == "mine"
    found = json.loads(run("--profile", "eu", "recommend", *CHAT, "--rps", "2", "--json").stdout)["request"]
    assert found["constraints"]["regions"] == ["eu-*"] and found["constraints"]["max_usd_per_hour"] == 9
    unknown = run("--profile", "us", "list")
    assert unknown.exit_code == 2 and "Profiles: default, eu" in " ".join(unknown.output.replace("│", " ").split())
    config.write_text('[default]\nregions = "eu-*"\n')
    assert run("list").exit_code == 2 and "--regions" in run("list").output


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_an_example_that_it_accepts(name: str) -> None:
    words = shlex.split(EXAMPLES[name])
    assert words[0] == name
    assert COMMANDS[name].make_context(name, words[1:]).info_name == name  # raises for an option it has not
    shown = " ".join(run(name, "--help").stdout.split())
    assert f"Example: headroom {name}" in shown and "\x1b" not in shown
    assert "…" not in shown  # no name or example is cut in a terminal of 80 columns


def test_the_help_states_the_exit_statuses() -> None:
    assert "3 nothing is feasible" in " ".join(run("--help").stdout.split())


def test_lists_are_sorted_and_state_that_they_are_cut() -> None:
    rows = json.loads(run("offers", "l4", "--sort", "usd_per_hour", "--limit", "5", "--json").stdout)
    prices = [row["usd_per_hour"] for row in rows]
    every = json.loads(run("offers", "l4", "--limit", "100000", "--json").stdout)
    assert prices == sorted(prices) and prices[0] == min(row["usd_per_hour"] for row in every)
    cut = run("accelerators", "--limit", "3")
    assert "more than 3 rows" in cut.stderr and len(cut.stdout.splitlines()) == 4
    assert "Columns: slug, name" in " ".join(run("accelerators", "--sort", "price").output.replace("│", " ").split())
    with pytest.raises(ValueError, match="Columns: a"):
        sort_rows([{"a": 1}], "b")


def test_a_table_fits_the_terminal_and_a_pipe_gets_all_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = run("accelerators", "h100", "--limit", "2").stdout
    assert max(map(len, whole.splitlines())) > 60 and "\x1b" not in whole
    monkeypatch.setattr(lists, "terminal_width", lambda: 60)
    shown = run("accelerators", "h100", "--limit", "2").stdout
    assert "nvidia-h100" in shown and max(map(len, shown.splitlines())) <= 60


def test_the_width_is_that_of_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    assert terminal_width() is None  # the output of a test is no terminal
    monkeypatch.setenv("COLUMNS", "72")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    assert terminal_width() == 72
