"""What a command and a worker import, which decides how soon they start: counted, so it holds on every machine."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from app.api.problems import models_in
from app.api.schemas.requests import EstimateRequest
from app.command.asking import ESTIMATE_CONSTRAINTS

RUN = """
import sys
from app.__main__ import main
sys.argv[1:] = {words!r}
try:
    main()
except SystemExit:
    pass
sys.stderr.write("\\n".join(["", *sys.modules]))
"""
SERVICE = {"alembic", "app.config", "app.main", "app.sizing", "fastapi", "numpy", "sqlalchemy", "starlette"}
NOWHERE = "http://127.0.0.1:9"  # no service listens there


def modules_after(script: str) -> set[str]:
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(ended.stderr.split("\n"))


def test_the_version_needs_no_command_line() -> None:
    modules = modules_after(RUN.format(words=["--version"]))
    assert "app.__main__" in modules
    assert not modules & {*SERVICE, "app.cli", "headroom_client", "httpx2", "typer"}


@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        ["recommend", "--help"],
        ["recommend", "--url", NOWHERE, "--model", "x", "--rps", "1"],
        ["offers", "h100", "--url", NOWHERE],
        ["explain", "rec_0", "--url", NOWHERE],
        ["doctor", "--url", NOWHERE],
    ],
    ids=" ".join,
)
def test_a_command_against_a_service_does_not_load_the_service(words: list[str]) -> None:
    modules = modules_after(RUN.format(words=words))
    assert {"app.cli", "typer"} <= modules
    assert not modules & SERVICE


def test_a_worker_loads_no_compiler_migrations_or_tools_of_calibration() -> None:
    script = "import sys, app.server; sys.stderr.write(chr(10).join(sys.modules))"
    modules = modules_after(script)
    assert {"app.main", "numpy"} <= modules
    assert not modules & {"alembic", "llvmlite", "lxml", "mcp", "numba", "scipy", "typer", "xlsxwriter"}


def test_an_estimate_takes_the_constraints_that_it_has() -> None:
    annotation: Any = EstimateRequest.model_fields["constraints"].annotation
    (limits,) = models_in(annotation)
    assert set(limits.model_fields) == set(ESTIMATE_CONSTRAINTS)
