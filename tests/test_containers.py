"""The container files agree with the Makefile, the command line and one another."""

from __future__ import annotations

import re
import tomllib
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import yaml
from typer.testing import CliRunner

from app.cli import cli

ROOT = Path(__file__).parents[1]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
MAKEFILE = (ROOT / "Makefile").read_text()
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())


def commands(text: str) -> set[str]:
    return set(re.findall(r"headroom (prepare|serve)\b", text))


def test_every_command_that_is_run_exists() -> None:
    for name in (
        commands(DOCKERFILE)
        | commands(MAKEFILE)
        | {c["command"][1] for c in COMPOSE["services"].values() if c.get("command", [""])[0] == "headroom"}
    ):
        assert CliRunner().invoke(cli, [name, "--help"]).exit_code == 0


def pins(name: str) -> set[str]:
    """Packages of a lock file with their versions."""
    lines = (ROOT / "requirements" / f"{name}.lock").read_text().splitlines()
    return {line.partition(" ")[0] for line in lines if "==" in line}


def test_the_image_installs_the_extras_in_the_versions_of_make_run_and_of_the_tests() -> None:
    assert "COPY requirements/service.lock ./requirements.lock" in DOCKERFILE
    assert "--require-hashes -r requirements.lock" in DOCKERFILE
    assert "--require-hashes -r requirements/build.lock -r requirements/runtime.lock" in MAKEFILE
    for copied in re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE, flags=re.MULTILINE):
        for name in copied.split():
            assert (ROOT / name).exists(), name


def test_the_image_contains_the_compiled_simulation_and_make_run_finds_a_compiler() -> None:
    (folder,) = re.findall(r"-m app\.compiled (\S+)", DOCKERFILE)
    assert f"HEADROOM_CACHE_DIR={folder} " in DOCKERFILE
    assert folder.startswith("/opt/headroom/")  # copied from the stage that has a compiler
    assert "--require-hashes -r requirements/compiler.lock" in MAKEFILE
    assert {pin.partition("==")[0] for pin in pins("compiler")} == {"ziglang"}
    assert not {"numba", "llvmlite"} & {pin.partition("==")[0] for pin in pins("dev")}


def test_make_run_installs_what_the_page_the_documents_and_agents_need() -> None:
    runtime, service = pins("runtime"), pins("service")
    assert runtime < service < pins("dev")
    names = [{pin.partition("==")[0] for pin in some} for some in (runtime, service - runtime)]
    assert {"lxml", "xlsxwriter", "mcp"} <= names[0]
    assert {"psycopg", "psycopg-binary", "opentelemetry-sdk"} <= names[1]


def test_the_installed_service_leaves_calibration_out() -> None:
    included = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]["find"]["include"]
    assert [any(fnmatch(name, pattern) for pattern in included) for name in ("app.sizing", "calibration.fit")] == [
        True,
        False,
    ]
    assert "calibration" in (ROOT / ".dockerignore").read_text().splitlines()


def test_locks_have_hashes_and_no_index_host() -> None:
    for name in ("build", "compiler", "runtime", "service", "dev"):
        text = (ROOT / "requirements" / f"{name}.lock").read_text()
        assert "://" not in text
        assert "index" not in re.sub(r"^\S+==", "", text, flags=re.MULTILINE)
        pins = re.findall(r"^([a-z0-9-]+(?:\[[a-z]+\])?)==", text, flags=re.MULTILINE)
        assert len(pins) >= (1 if name in ("build", "compiler") else 25)
        assert text.count("--hash=sha256:") >= len(pins)


def test_the_build_requirement_is_locked_and_no_dependency_of_the_service() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    built_with = set((ROOT / "requirements" / "build.in").read_text().splitlines()[1:])
    assert built_with == set(project["build-system"]["requires"])
    assert not any(pin.startswith("setuptools==") for pin in pins("service"))


def test_the_image_is_unprivileged_and_checked() -> None:
    assert re.search(r"^USER 10001$", DOCKERFILE, flags=re.MULTILINE)
    assert "HEALTHCHECK" in DOCKERFILE
    assert DOCKERFILE.count("\nFROM ") + DOCKERFILE.startswith("FROM ") == 2


def test_compose_prepares_before_it_serves_on_a_read_only_root() -> None:
    services = COMPOSE["services"]
    database = re.search(r"postgres:(\d+)", services["db"]["image"])
    assert database is not None and int(database[1]) >= 17
    assert services["prepare"]["depends_on"]["db"]["condition"] == "service_healthy"
    assert services["app"]["depends_on"]["prepare"]["condition"] == "service_completed_successfully"
    for name in ("prepare", "app"):
        assert services[name]["read_only"] is True
        assert services[name]["cap_drop"] == ["ALL"]
        url = services[name]["environment"]["HEADROOM_DATABASE_URL"]
        assert url.startswith("postgresql+psycopg://")
