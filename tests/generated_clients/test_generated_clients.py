"""Clients that generators make of the document compile and bring what the service says, as docs/client.md shows it."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from artefacts.blocks import GENERATED_CLIENT, PYTHON, SHELL, TYPESCRIPT, fenced_blocks
from artefacts.running import SHOWN
from artefacts.service import ROOT

pytestmark = pytest.mark.clients
BUILD = ROOT / "build" / "clients"
BLOCKS = fenced_blocks((ROOT / "docs" / "client.md").read_text())
LONGEST_S = 60
READ_AND_WRITTEN = """
import json
from pathlib import Path
from headroom_api.models import RecommendResponse
answer = RecommendResponse.from_dict(json.loads(Path("answer.json").read_text()))
Path("written.json").write_text(json.dumps(answer.to_dict()))
"""
CHAT: dict[str, Any] = {
    "workload": {
        "phase": "inference",
        "model": "llama-3.1-8b-instruct",
        "traffic": {"peak_requests_per_s": 5, "input_tokens": 1000, "output_tokens": 200},
    }
}


def shown(language: str, said: str = GENERATED_CLIENT) -> str:
    """The one block of the page that is in the language and says so."""
    (text,) = [block.text for block in BLOCKS if (block.language, block.info) == (language, said)]
    return text


def ran(folder: Path, commands: str, programs: Path, url: str) -> list[str]:
    """What the commands of the page say in a folder, against the service."""
    ended = subprocess.run(
        ["bash", "-euc", commands.replace(SHOWN, url.removeprefix("http://"))],
        cwd=folder,
        env={**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "PYTHONPATH": str(folder)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LONGEST_S,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout.splitlines()


@dataclass(frozen=True, slots=True)
class Expected:
    """The answers of the service to a client that is not generated."""

    accelerator: str
    usd_per_hour: float
    id: str
    bottleneck: str
    ttft_p95_ms: float
    offers: int
    refusal: str

    def is_said_by(self, lines: list[str], last_of_first: str) -> None:
        """Whether a program's lines are these."""
        first, stored, offers, refused = lines
        accelerator, usd, last = first.split()
        assert (accelerator, float(usd), last) == (self.accelerator, self.usd_per_hour, last_of_first)
        name, usd = stored.split()
        assert (name, float(usd)) == (self.id, self.usd_per_hour)
        assert int(offers) == self.offers
        assert refused == f"404 {self.refusal}"


@pytest.fixture(scope="module")
def expected(client: TestClient) -> Expected:
    answer = client.post("/recommend", json=CHAT).json()
    first = answer["recommendations"][0]
    offers = client.get("/catalog/offers", params={"accelerator": "nvidia-b200-sxm-180gb", "limit": 200}).json()
    assert offers["next_cursor"] is None and len(offers["items"]) > 20  # more than a page of the programs
    return Expected(
        accelerator=first["deployment"]["accelerator"],
        usd_per_hour=first["cost"]["usd_per_hour"],
        id=answer["id"],
        bottleneck=first["bottleneck"],
        ttft_p95_ms=first["performance"]["ttft_ms"]["p95"],
        offers=len(offers["items"]),
        refusal=client.post("/catalog/models/inspect", json={"model": "nonsuch"}).json()["detail"],
    )


def test_a_generated_typescript_client_compiles_and_answers(live: str, expected: Expected) -> None:
    folder = BUILD / "typescript"
    (folder / "chat.mts").write_text(shown(TYPESCRIPT).replace(SHOWN, live.removeprefix("http://")))
    lines = ran(folder, shown(SHELL, f"{GENERATED_CLIENT}: ts"), folder / "node_modules" / ".bin", live)
    expected.is_said_by(lines[-4:], str(expected.ttft_p95_ms))


def test_a_generated_python_client_is_typed_and_answers(
    live: str, client: TestClient, expected: Expected, tmp_path: Path
) -> None:
    programs = BUILD / "python" / "bin"
    (tmp_path / "chat.py").write_text(shown(PYTHON).replace(SHOWN, live.removeprefix("http://")))
    lines = ran(tmp_path, shown(SHELL, f"{GENERATED_CLIENT}: python"), programs, live)
    expected.is_said_by(lines[-4:], expected.bottleneck)
    assert "Success" in ran(tmp_path, "mypy headroom_api", programs, live)[-1]
    answer = client.post("/recommend", json={**CHAT, "trace": True}).json()
    answer |= {"of_a_later_service": 1}
    answer["recommendations"][0] |= {"of_a_later_service": {"a": [1]}}
    (tmp_path / "answer.json").write_text(json.dumps(answer))
    ran(tmp_path, f"python3 -c '{READ_AND_WRITTEN}'", programs, live)
    assert json.loads((tmp_path / "written.json").read_text()) == answer


def test_errors_in_a_request_are_found_before_it_is_sent(live: str, expected: Expected) -> None:
    assert expected.offers
    folder = BUILD / "typescript"
    wrong = shown(TYPESCRIPT).replace("peak_requests_per_s: 5", "peak_request_per_s: 5")
    (folder / "wrong.mts").write_text(wrong)
    commands = "npx tsc --noEmit --strict --target es2022 --module nodenext wrong.mts || true"
    lines = ran(folder, commands, folder / "node_modules" / ".bin", live)
    assert any("peak_request_per_s" in line for line in lines), lines
