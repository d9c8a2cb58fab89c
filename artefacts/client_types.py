"""headroom_client/answers.py: the answers of the service as Python types, from its OpenAPI document."""

from __future__ import annotations

import keyword
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from artefacts.service import service_client

FILE = Path(__file__).resolve().parents[1] / "headroom_client" / "answers.py"
REF = "#/components/schemas/"
PLAIN = {
    "string": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "null": "None",
    "object": "JsonObject",
}
HEAD = '''"""Types of the answers of the service, generated from its OpenAPI document by `make artefacts PART=client`.

Answers are open: a later version of the service may return additional fields.
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypeAlias, TypedDict

JsonObject: TypeAlias = dict[str, Any]
'''

Schema = dict[str, Any]


def type_of(schema: Schema) -> str:
    if "$ref" in schema:
        return str(schema["$ref"]).removeprefix(REF)
    if "enum" in schema or "const" in schema:
        return f"Literal[{', '.join(map(repr, schema.get('enum', [schema.get('const')])))}]"
    options = schema.get("anyOf") or schema.get("oneOf")
    if options:
        return " | ".join(dict.fromkeys(type_of(option) for option in options))
    kind = schema.get("type")
    if isinstance(kind, list):
        return " | ".join(PLAIN[each] for each in kind)
    if kind == "array":
        return f"list[{type_of(schema.get('items', {}))}]"
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"dict[str, {type_of(schema['additionalProperties'])}]"
    return PLAIN.get(str(kind), "Any")


def answer_components(document: Schema) -> list[str]:
    """Names of all schema components that occur in answers."""
    parts: Schema = document["components"]["schemas"]
    waiting = set(
        re.findall(
            rf"'{REF}([^']+)'",
            str([operation.get("responses") for path in document["paths"].values() for operation in path.values()]),
        )
    )
    found: set[str] = set()
    while waiting:
        name = waiting.pop()
        found.add(name)
        waiting |= set(re.findall(rf"'{REF}([^']+)'", str({**parts[name], "examples": None}))) - found
    return sorted(found)


def module_lines(document: Schema) -> Iterator[str]:
    """The source code of the module."""
    yield HEAD
    for name in answer_components(document):
        schema = document["components"]["schemas"][name]
        if "properties" not in schema:
            yield f"\n{name}: TypeAlias = {type_of(schema)!r}\n"
            continue
        needed, members = set(schema.get("required", ())), []
        for key, each in schema["properties"].items():
            kind = type_of(each)
            members.append((key, kind if key in needed else f"NotRequired[{kind}]"))
        if all(key.isidentifier() and not keyword.iskeyword(key) for key, _ in members):
            yield f"\n\nclass {name}(TypedDict):\n" + "".join(f"    {key}: {kind}\n" for key, kind in members)
        else:
            pairs = ", ".join(f"{key!r}: {kind!r}" for key, kind in members)
            yield f"\n\n{name} = TypedDict({name!r}, {{{pairs}}})\n"


def module_text() -> str:
    with service_client() as client:
        text = "".join(module_lines(client.get("/openapi.json").json()))
    ruff = [sys.executable, "-m", "ruff", "format", "--stdin-filename", FILE.name, "-"]
    return subprocess.run(ruff, input=text, text=True, capture_output=True, check=True, cwd=FILE.parents[1]).stdout


def write() -> None:
    FILE.write_text(module_text())
