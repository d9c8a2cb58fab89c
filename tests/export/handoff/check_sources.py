"""Compares hand-offs with sources of their tools: python -m tests.export.handoff.check_sources PART ...

names TABLE FOLDER...: names of a table of tool_names.toml that occur in no source file of the folders.
objects FILE...: emitted Kubernetes objects and Compose files against definitions of custom resources (CRDs) and the
schema of the Compose specification; unknown keys are refused.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from jsonschema import Draft202012Validator

from app.export.handoff.targets import RUN_TARGETS
from tests.export.handoff.emitted import LOADER
from tests.export.handoff.runs import RUNS
from tests.export.handoff.test_all_targets import NAMES, SERVICE_TARGETS, packages, services

SOURCES = {".py", ".rs", ".go", ".toml", ".yml", ".yaml", ".md", ".cpp", ".sh"}


def missing_names(table: str, folders: list[Path]) -> list[str]:
    """Names of a table that occur in no source file of the folders, as written or as identifiers."""
    tables = {**NAMES["tools"], **NAMES["programs"]}
    paths = (path for each in folders for path in each.rglob("*") if path.suffix in SOURCES and path.is_file())
    text = "\n".join(path.read_text(errors="ignore") for path in paths)
    names = [name for name in tables[table]["names"].split() if name not in text]
    return [name for name in names if name.lstrip("-").replace("-", "_").rsplit(".", 1)[-1] not in text]


def close_schema(schema: Any) -> Any:
    """Schema of a custom resource that refuses unknown keys, as Kubernetes does with strict field validation."""
    if not isinstance(schema, dict):
        return schema
    closed = {name: value for name, value in schema.items() if name != "description"}
    for name in ("items", "additionalProperties"):
        if name in closed:
            closed[name] = close_schema(closed[name])
    if schema.get("x-kubernetes-int-or-string"):
        closed |= {"anyOf": [{"type": "integer"}, {"type": "string"}]}
        closed.pop("type", None)
    if "properties" in schema:
        closed["properties"] = {name: close_schema(value) for name, value in schema["properties"].items()}
        if not schema.get("x-kubernetes-preserve-unknown-fields"):
            closed.setdefault("additionalProperties", False)
    return closed


def read_schemas(paths: list[Path]) -> dict[tuple[str, str], Draft202012Validator]:
    """Validators by API version and kind; that of Compose has no kind."""
    found = {}
    for path in paths:
        if path.suffix == ".json":
            found["compose", ""] = Draft202012Validator(json.loads(path.read_text()))
            continue
        spec = yaml.load(path.read_text(), LOADER)["spec"]
        for version in spec["versions"]:
            schema = close_schema(version["schema"]["openAPIV3Schema"])
            schema["properties"]["metadata"] = {"type": "object"}
            found[f"{spec['group']}/{version['name']}", spec["names"]["kind"]] = Draft202012Validator(schema)
    return found


def emitted_documents() -> Iterator[tuple[str, dict[str, Any]]]:
    """Name and YAML documents of every option and target."""
    for option in (*services(), *RUNS.values()):
        for made in packages(option, RUN_TARGETS if option.is_training else SERVICE_TARGETS):
            for file in (each for each in made.files if each.name.endswith((".yaml", ".yml"))):
                for document in yaml.load_all(file.text, LOADER):
                    yield f"{option.software}, {made.target}, {file.name}", document


def main() -> None:
    """Writes what the sources lack or refuse, and fails if there is any."""
    part, *rest = sys.argv[1:]
    if part == "names":
        faults, checked = missing_names(rest[0], [Path(each) for each in rest[1:]]), rest[0]
    else:
        schemas, faults, count = read_schemas([Path(each) for each in rest]), [], 0
        for name, document in emitted_documents():
            compose = ("compose", "") if "services" in document else ("", "")
            schema = schemas.get((document.get("apiVersion", ""), document.get("kind", ""))) or schemas.get(compose)
            count += schema is not None
            faults += [f"{name}: {each.message}" for each in schema.iter_errors(document)] if schema else []
        checked = f"{count} documents"
    if faults:
        sys.exit("\n".join(faults))
    sys.stdout.write(f"Checked: {checked}. Nothing is missing or refused.\n")


if __name__ == "__main__":
    main()
