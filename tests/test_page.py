"""What the page asks is what the API takes: its presets are answered, its fields exist."""

from __future__ import annotations

import json
import re
from importlib import resources
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.examples import answer_of

STATIC = resources.files("app.api").joinpath("static")


def listed(name: str) -> list[dict[str, Any]]:
    """The list that a script of data holds."""
    text = STATIC.joinpath("page", name).read_text()
    value: list[dict[str, Any]] = json.loads(text[text.index("[") : text.rindex("]") + 1])
    return value


PRESETS = {preset["name"]: preset["request"] for preset in listed("presets.js")}
FIELDS = [field for heading in listed("fields.js") for field in heading["fields"]]
OF_THE_PAGE = {"load", "more"}


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_is_answered(client: TestClient, name: str) -> None:
    assert answer_of(client.post("/recommend", json=PRESETS[name]))["recommendations"]


def members(document: dict[str, Any], schema: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """Schemas of a member in whatever a schema may be."""
    if "$ref" in schema:
        return members(document, document["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]], name)
    found = [schema["properties"][name]] if name in schema.get("properties", {}) else []
    for kind in ("anyOf", "oneOf", "allOf"):
        found += [one for part in schema.get(kind, []) for one in members(document, part, name)]
    return found


def choices(document: dict[str, Any], schema: dict[str, Any]) -> set[str]:
    """Every value that a schema lists."""
    text = json.dumps(schema)
    for name in re.findall(r'"#/components/schemas/([^"]+)"', text):
        text += json.dumps(document["components"]["schemas"][name])
    return {v for values in re.findall(r'"enum": (\[[^\]]*\])', text) for v in json.loads(values)} | set(
        re.findall(r'"const": "([^"]+)"', text)
    )


def test_every_field_stands_in_a_request(client: TestClient) -> None:
    document = client.get("/openapi.json").json()
    root = {"$ref": "#/components/schemas/RecommendRequest"}
    for field in FIELDS:
        if field["path"] in OF_THE_PAGE:
            continue
        schemas = [root]
        for name in field["path"].split("."):
            schemas = [one for schema in schemas for one in members(document, schema, name)]
        assert schemas, field["path"]
        names = {o if isinstance(o, str) else o[0] for o in field.get("options", [])} - {""}
        if names and field["path"] != "workload.phase":
            assert names <= {c for schema in schemas for c in choices(document, schema)}, field["path"]


def test_fields_are_distinguished() -> None:
    paths = [field["path"] for field in FIELDS]
    assert len(paths) == len(set(paths))
    assert all(field["label"] for field in FIELDS)


def test_scripts_name_no_host_and_write_no_markup() -> None:
    folders = (STATIC.joinpath("page"), STATIC.joinpath("page", "pages"))
    scripts = [path for folder in folders for path in folder.iterdir() if path.name.endswith(".js")]
    assert len(scripts) > 5
    for path in scripts:
        text = path.read_text().replace("http://www.w3.org/2000/svg", "")
        assert "http" + "://" not in text and "https" + "://" not in text, path.name
        assert "innerHTML" not in text and "eval(" not in text, path.name
        assert len(text.splitlines()) <= 400, path.name
