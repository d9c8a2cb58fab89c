"""What a tool takes, out of the OpenAPI document: the schema of a request, the parts that few ask for by name alone.

A request has some two hundred fields. Whoever sizes through an agent pays for each of them in every conversation, so
a tool tells the fields that most questions need; the others it names, and the service says what each takes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

Schema = dict[str, Any]
REF = "#/components/schemas/"
NULL = {"type": "null"}
# What tells an agent nothing, or only what the service says of a value it does not take.
BESIDE = frozenset(
    ("examples", "title", "discriminator", "maxLength", "minLength", "maxItems", "maxProperties", "propertyNames")
)


def referred(node: Any) -> Iterator[str]:
    """Names of the schemas that a node refers to."""
    if isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"].removeprefix(REF)
        for value in node.values():
            yield from referred(value)
    elif isinstance(node, list):
        for value in node:
            yield from referred(value)


def plain(node: Any) -> Any:
    """A schema without what tells an agent nothing: examples, bounds of lengths, and null beside what a field takes."""
    if isinstance(node, list):
        return [plain(each) for each in node]
    if not isinstance(node, dict):
        return node.replace(REF, "#/$defs/") if isinstance(node, str) and node.startswith(REF) else node
    if "properties" in node and isinstance(node["properties"], dict):
        fields = {name: plain(field) for name, field in node["properties"].items()}
        return {**plain({k: v for k, v in node.items() if k != "properties"}), "properties": fields}
    kept = {name: plain(value) for name, value in node.items() if name not in BESIDE and value is not False}
    choices = [each for each in kept.get("anyOf", ()) if each != NULL]
    if len(choices) == 1:
        del kept["anyOf"]
        return {**choices[0], **kept}
    return kept


def named_alone(schema: Schema) -> Schema:
    """An object by the names of its fields.

    Check:
        >>> named_alone({"type": "object", "description": "Two.", "properties": {"a": {"type": "number"}, "b": {}}})
        {'type': 'object', 'description': 'Two. Fields: a, b.'}
    """
    said = f"{schema.get('description', '')} Fields: {', '.join(schema['properties'])}.".strip()
    return {"type": "object", "description": said}


def shape_of(name: str, schemas: Mapping[str, Schema], *, told: frozenset[str]) -> Schema:
    """The schema of a request with everything it refers to; objects that are not `told` by their fields' names."""
    top, found, waiting = plain(schemas[name]), {}, [*referred(schemas[name])]
    while waiting:
        each = waiting.pop()
        if each in found:
            continue
        schema = schemas[each]
        if schema.get("properties") and each not in told:
            found[each] = named_alone(schema)
            continue
        found[each] = plain(schema)
        waiting += referred(schema)
    return {**top, "$defs": dict(sorted(found.items()))} if found else dict(top)


def members_of(name: str, schemas: Mapping[str, Schema]) -> list[str]:
    """Names of the members of an answer."""
    return list(schemas[name]["properties"])


def answered(operation: Mapping[str, Any]) -> str:
    """The name of the schema that an operation answers with."""
    shown = operation["responses"]["200"]["content"]["application/json"]["schema"]["$ref"]
    return re.sub(r".*/", "", str(shown))
