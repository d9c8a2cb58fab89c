"""The command that traces: its output without PyTorch, for unsupported deployments and for a traced step."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from calibration.tracing import __main__ as command

BODY = {
    "workload": {
        "phase": "fine_tuning",
        "model": "meta-llama/Llama-3.2-1B",
        "method": "lora",
        "training_tokens": 5e7,
        "sequence_length": 1024,
        "global_batch_sequences": 8,
        "deadline_days": 30,
    },
    "deployment": {
        "accelerator": "nvidia-h100-sxm5-80gb",
        "framework": "fsdp",
        "total_accelerators": 1,
        "micro_batch_sequences": 1,
        "activation_checkpointing": "full",
    },
}


@pytest.fixture
def asked(tmp_path: Path, sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A request as a file, and a prepared database."""
    monkeypatch.setenv("HEADROOM_DATABASE_URL", sqlite_url)
    path = tmp_path / "request.json"
    path.write_text(json.dumps(BODY))
    return path


def test_without_pytorch_the_extra_is_named(asked: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "find_spec", lambda _: None)
    result = CliRunner().invoke(command.cli, ["compare", str(asked)])
    assert result.exit_code == 1
    assert "Install the extra `trace`" in result.output


@pytest.mark.torch
def test_a_deployment_that_cannot_be_traced_is_named(asked: Path) -> None:
    deployment = {**BODY["deployment"], "framework": "megatron", "total_accelerators": 8, "tensor_parallel": 8}
    workload = {**BODY["workload"], "method": "full"}
    asked.write_text(json.dumps({"workload": workload, "deployment": deployment}))
    result = CliRunner().invoke(command.cli, ["compare", str(asked)])
    assert result.exit_code == 1
    assert "tensor_parallel above 1 is not traced" in result.output


@pytest.mark.torch
def test_a_body_that_is_none_is_refused(asked: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "find_spec", lambda _: object())
    for body, message in (("{", "JSON"), (json.dumps({**BODY, "colour": 1}), "colour")):
        asked.write_text(body)
        result = CliRunner().invoke(command.cli, ["compare", str(asked)])
        assert result.exit_code == 1
        assert message in result.output


@pytest.mark.torch
def test_a_deployment_is_traced_with_its_estimate(asked: Path) -> None:
    result = CliRunner().invoke(command.cli, ["compare", str(asked)])
    assert result.exit_code == 0, result.output
    found = {line[:28].strip(): line[28:].split() for line in result.output.splitlines()}
    estimated, traced = map(float, found["allocated"])
    assert estimated == pytest.approx(traced, rel=0.1)
    assert set(found) >= {"weights", "gradients", "optimizer", "activations", "kept", "loss", "backward", "update"}
