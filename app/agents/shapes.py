"""Derives a tool's argument schema from the OpenAPI document.

A request has some two hundred fields, and an agent pays for each described field in every conversation. A tool
therefore describes the fields that most questions need, and only lists the names of the others. The service explains
those when it receives an invalid value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

Schema = dict[str, Any]
REF = "#/components/schemas/"
NULL = {"type": "null"}
# Keywords that agents do not need: without effect for them, or explained by the service when it rejects a value.
DROPPED_KEYWORDS = frozenset(
    ("examples", "title", "discriminator", "maxLength", "minLength", "maxItems", "maxProperties", "propertyNames")
)


def referenced_schemas(node: Any) -> Iterator[str]:
    """Names of the schemas that a node references."""
    if isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"].removeprefix(REF)
        for value in node.values():
            yield from referenced_schemas(value)
    elif isinstance(node, list):
        for value in node:
            yield from referenced_schemas(value)


def simplify_schema(node: Any) -> Any:
    """A schema without keywords that do not help an agent: examples, titles, length limits, and null as an alternative
    type.
    """
    if isinstance(node, list):
        return [simplify_schema(each) for each in node]
    if not isinstance(node, dict):
        return node.replace(REF, "#/$defs/") if isinstance(node, str) and node.startswith(REF) else node
    if "properties" in node and isinstance(node["properties"], dict):
        fields = {name: simplify_schema(field) for name, field in node["properties"].items()}
        return {**simplify_schema({k: v for k, v in node.items() if k != "properties"}), "properties": fields}
    kept = {
        name: simplify_schema(value)
        for name, value in node.items()
        if name not in DROPPED_KEYWORDS and value is not False
    }
    choices = [each for each in kept.get("anyOf", ()) if each != NULL]
    if len(choices) == 1:
        del kept["anyOf"]
        return {**choices[0], **kept}
    return kept


def summarize_fields(schema: Schema) -> Schema:
    """An object schema reduced to the names of its fields.

    Check:
        >>> summarize_fields({"type": "object", "description": "Two.", "properties": {"a": {}, "b": {}}})
        {'type': 'object', 'description': 'Two. Fields: a, b.'}
    """
    text = f"{schema.get('description', '')} Fields: {', '.join(schema['properties'])}.".strip()
    return {"type": "object", "description": text}


def request_schema(name: str, schemas: Mapping[str, Schema], *, detailed: frozenset[str]) -> Schema:
    """Schema of a request with every schema that it references. Only the schemas in `detailed` keep their fields; the
    others list field names.
    """
    top, definitions, pending = simplify_schema(schemas[name]), {}, [*referenced_schemas(schemas[name])]
    while pending:
        each = pending.pop()
        if each in definitions:
            continue
        schema = schemas[each]
        if schema.get("properties") and each not in detailed:
            definitions[each] = summarize_fields(schema)
            continue
        definitions[each] = simplify_schema(schema)
        pending += referenced_schemas(schema)
    return {**top, "$defs": dict(sorted(definitions.items()))} if definitions else dict(top)


def answer_members(name: str, schemas: Mapping[str, Schema]) -> list[str]:
    """Names of an answer's members."""
    return list(schemas[name]["properties"])


def answer_schema_name(operation: Mapping[str, Any]) -> str:
    """Name of the schema that an operation returns."""
    reference = operation["responses"]["200"]["content"]["application/json"]["schema"]["$ref"]
    return re.sub(r".*/", "", str(reference))
