"""Post-processes the OpenAPI document for readers and client generators.

Unions and enumerations get names, and every field gets a description with unit and default. Response schemas may gain
fields. Defaults are stated in descriptions because generators treat a field with a `default` as always present.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import resources
from typing import Any

from app.api.schemas.base import COMPONENT_KEY

Schema = dict[str, Any]
REF = "#/components/schemas/"
ANNOTATION_KEYS = ("description", "default", "title")  # annotations of a field, next to its type
# Pattern of a field's name, and the unit that it implies.
UNITS: tuple[tuple[str, str], ...] = (
    (r"_gbit_per_s(_per_node)?$", "Gbit/s"),
    (r"_gb_per_s$", "GB/s (10^9 bytes)"),
    (r"_mb_per_s$", "MB/s (10^6 bytes)"),
    (r"^usd_per_hour$|_usd_per_hour$", "USD per hour"),
    (r"^usd_per_day$", "USD per day"),
    (r"^usd_per_month$", "USD per month"),
    (r"usd_per_million_tokens$", "USD per million tokens"),
    (r"usd_per_million_samples$", "USD per million samples"),
    (r"usd_per_million_", "USD per million tokens"),
    (r"usd_per_kwh$", "USD per kWh"),
    (r"usd_rate$", "1"),
    (r"(^|_)usd(_|$)", "USD"),
    (r"kwh_per_million_", "kWh"),
    (r"_gib(_per_node)?$", "GiB (2^30 bytes)"),
    (r"_mib(_per_|$)|^mib_per_", "MiB (2^20 bytes)"),
    (r"_gb$", "GB (10^9 bytes)"),
    (r"_tb$", "TB (10^12 bytes)"),
    (r"_bytes$|bytes_per_", "bytes"),
    (r"_kw$", "kW"),
    (r"(^|_)power(_limit)?_w$", "W"),
    (r"_ms$|^ms$", "ms"),
    (r"_per_s(_|$)", "per second"),
    (r"_s$|seconds$", "seconds"),
    (r"(^|_)minutes?$", "minutes"),
    (r"(^|_)hours(_|$)", "hours"),
    (r"(^|_)days$", "days"),
    (r"(^|_)months?$", "months"),
    (r"flops", "FLOPs"),
    (r"_(share|fraction)$", "0 to 1"),
)


@cache
def field_texts() -> dict[str, dict[str, str]]:
    """Returns the field descriptions by schema name; `any` holds those shared by all schemas."""
    return tomllib.loads(resources.files("app.api.schemas").joinpath("fields.toml").read_text(encoding="utf-8"))


def unit_of(name: str) -> str | None:
    """Returns the unit implied by a field's name, or None."""
    return next((unit for pattern, unit in UNITS if re.search(pattern, name)), None)


def _holds_numbers(schema: Schema) -> bool:
    """True if a field is a number or a list of numbers."""
    parts = [schema, schema.get("items", {}), *schema.get("anyOf", ()), *schema.get("oneOf", ())]
    return any(part.get("type") in ("number", "integer") for part in parts)


def describe_field(name: str, field: Schema, text: str | None, *, default: Any = None, unit: str | None = None) -> str:
    """Returns a field's description with its unit, and its default if that is a plain value."""
    description = (text or "").strip()
    unit = unit_of(name) or unit if _holds_numbers(field) else None
    if unit and unit != "1" and not re.search(rf"\b{re.escape(unit.split(' ')[0])}\b", description):
        description += f" Unit: {unit}."
    if default not in (None, "", [], {}) and not isinstance(default, dict | list) and "Default" not in description:
        description += f" Default: {json.dumps(default) if not isinstance(default, str) else default}."
    return description


def _child_schemas(schema: Schema) -> Iterator[tuple[Schema, Any]]:
    """Yields each nested schema as (container, key)."""
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield schema, key
    for key in ("properties", "patternProperties"):
        for name in schema.get(key, {}):
            yield schema[key], name
    for key in ("anyOf", "oneOf", "allOf", "prefixItems"):
        for i, _ in enumerate(schema.get(key, ())):
            yield schema[key], i


def extract_named_schemas(schema: Schema, definitions: dict[str, Schema]) -> Schema:
    """Replaces named unions and enumerations in a schema by references and collects them in `definitions`."""
    for holder, key in _child_schemas(schema):
        holder[key] = extract_named_schemas(holder[key], definitions)
    name = schema.pop(COMPONENT_KEY, None)
    if name is None:
        return schema
    own = {key: schema.pop(key) for key in ANNOTATION_KEYS if key in schema}
    definitions.setdefault(name, {"title": name, **schema})
    return {"$ref": REF + name, **{key: value for key, value in own.items() if key != "title"}}


def pick_example(schema: Schema, schemas: Mapping[str, Schema]) -> Any:
    """Returns an example of a named union or enumeration: its first value, or that of a part that has one."""
    if "enum" in schema:
        return schema["enum"][0]
    if "examples" in schema:
        return schema["examples"][0]
    parts = schema.get("oneOf") or schema.get("anyOf") or ()
    referred = [part["$ref"].removeprefix(REF) for part in parts if "$ref" in part]
    return next((schemas[name]["examples"][0] for name in referred if schemas[name].get("examples")), None)


def clean_schema(schema: Schema, *, open_: bool) -> None:
    """Removes generated titles and null defaults. With `open_`, allows additional properties."""
    for holder, key in _child_schemas(schema):
        holder[key].pop("title", None)
        clean_schema(holder[key], open_=open_)
    schema.pop("default", None)
    if open_ and schema.get("additionalProperties") is False:
        del schema["additionalProperties"]


def describe_component(name: str, schema: Schema) -> None:
    """Adds a description to every field of a component."""
    own, common, unit = field_texts().get(name, {}), field_texts()["any"], field_texts()["units"].get(name)
    for field, shape in schema.get("properties", {}).items():
        text = shape.get("description") or own.get(field) or common.get(field)
        shape["description"] = describe_field(field, shape, text, default=shape.get("default"), unit=unit)


def reachable_schemas(node: Any, schemas: Mapping[str, Schema]) -> set[str]:
    """Returns the names of all components that `node` refers to, directly or indirectly."""
    waiting, names = set(re.findall(rf'"{REF}([^"]+)"', json.dumps(node))), set()
    while waiting:
        name = waiting.pop()
        names.add(name)
        waiting |= set(re.findall(rf'"{REF}([^"]+)"', json.dumps({**schemas[name], "examples": None}))) - names
    return names


def finish_document(document: Schema) -> Schema:
    """Returns the finished OpenAPI document for readers and client generators."""
    schemas: dict[str, Schema] = document["components"]["schemas"]
    definitions: dict[str, Schema] = {}
    for name, schema in list(schemas.items()):
        schemas[name] = extract_named_schemas(schema, definitions)
    operations = [operation for path in document["paths"].values() for operation in path.values()]
    notices = [operation for path in document.get("webhooks", {}).values() for operation in path.values()]
    for operation in (*operations, *notices):
        _describe_parameters(operation, definitions)
    schemas |= definitions
    answers = reachable_schemas([*(operation["responses"] for operation in operations), *notices], schemas)
    request_schemas = reachable_schemas([operation.get("requestBody", {}) for operation in operations], schemas)
    for name, schema in schemas.items():
        describe_component(name, schema)
        clean_schema(schema, open_=name in answers and name not in request_schemas)
    for name in definitions:
        schemas[name].setdefault("description", field_texts()["named"].get(name, ""))
        schemas[name].setdefault("examples", [pick_example(schemas[name], schemas)])
    return document


def _describe_parameters(operation: Schema, definitions: dict[str, Schema]) -> None:
    """Describes the parameters of an operation and replaces named parts of its body by references.

    Parameters keep their defaults, because generators treat them as optional.
    """
    for media in operation.get("requestBody", {}).get("content", {}).values():
        media["schema"] = extract_named_schemas(media["schema"], definitions)
    for parameter in operation.get("parameters", ()):
        schema = parameter["schema"]
        if {"type": "null"} in schema.get("anyOf", ()):  # an absent parameter is omitted, never null
            (only,) = [part for part in schema.pop("anyOf") if part != {"type": "null"}]
            schema |= only
            schema.pop("default", None)
        description = parameter.get("description") or schema.pop("description", None)
        description = description or field_texts()["parameters"].get(parameter["name"])
        parameter["description"] = describe_field(parameter["name"], schema, description, default=schema.get("default"))
        for key in ("title", "description"):
            schema.pop(key, None)
        parameter["schema"] = extract_named_schemas(schema, definitions)
