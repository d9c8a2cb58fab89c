"""What an OpenAPI document needs so that people can read it and generators make good clients of it.

Names for unions and sets of words, a description with unit and default for every field, answers that may gain fields,
and defaults as words: generators take a field with a `default` for one that is always there.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import resources
from typing import Any

from app.api.schemas.base import NAMED

Schema = dict[str, Any]
REF = "#/components/schemas/"
BESIDE = ("description", "default", "title")  # what a field says of itself beside its type
# Of a name that ends so, or has these words, the unit.
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
def texts() -> dict[str, dict[str, str]]:
    """What fields mean: of every schema, and of one."""
    return tomllib.loads(resources.files("app.api.schemas").joinpath("fields.toml").read_text(encoding="utf-8"))


def unit_of(name: str) -> str | None:
    """The unit that a field's name says."""
    return next((unit for pattern, unit in UNITS if re.search(pattern, name)), None)


def _holds_numbers(schema: Schema) -> bool:
    """Whether a field is a number, or a list of them."""
    parts = [schema, schema.get("items", {}), *schema.get("anyOf", ()), *schema.get("oneOf", ())]
    return any(part.get("type") in ("number", "integer") for part in parts)


def described(name: str, field: Schema, text: str | None, *, default: Any = None, unit: str | None = None) -> str:
    """A field's description with its unit, and its default where that is a plain value."""
    said = (text or "").strip()
    unit = unit_of(name) or unit if _holds_numbers(field) else None
    if unit and unit != "1" and not re.search(rf"\b{re.escape(unit.split(' ')[0])}\b", said):
        said += f" Unit: {unit}."
    if default not in (None, "", [], {}) and not isinstance(default, dict | list) and "Default" not in said:
        said += f" Default: {json.dumps(default) if not isinstance(default, str) else default}."
    return said


def _below(schema: Schema) -> Iterator[tuple[Schema, Any]]:
    """Places that hold a schema: what holds it, and under which key."""
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield schema, key
    for key in ("properties", "patternProperties"):
        for name in schema.get(key, {}):
            yield schema[key], name
    for key in ("anyOf", "oneOf", "allOf", "prefixItems"):
        for i, _ in enumerate(schema.get(key, ())):
            yield schema[key], i


def name_parts(schema: Schema, found: dict[str, Schema]) -> Schema:
    """The schema with each named union and set of words as a reference; what they are is put into `found`."""
    for holder, key in _below(schema):
        holder[key] = name_parts(holder[key], found)
    name = schema.pop(NAMED, None)
    if name is None:
        return schema
    own = {key: schema.pop(key) for key in BESIDE if key in schema}
    found.setdefault(name, {"title": name, **schema})
    return {"$ref": REF + name, **{key: value for key, value in own.items() if key != "title"}}


def shown_example(schema: Schema, schemas: Mapping[str, Schema]) -> Any:
    """An example of a named union or set: its first word, or that of its last part."""
    if "enum" in schema:
        return schema["enum"][0]
    if "examples" in schema:
        return schema["examples"][0]
    parts = schema.get("oneOf") or schema.get("anyOf") or ()
    referred = [part["$ref"].removeprefix(REF) for part in parts if "$ref" in part]
    return next((schemas[name]["examples"][0] for name in referred if schemas[name].get("examples")), None)


def tidy(schema: Schema, *, open_: bool) -> None:
    """Without null for a default and made-up titles; in answers further fields are allowed."""
    for holder, key in _below(schema):
        holder[key].pop("title", None)
        tidy(holder[key], open_=open_)
    schema.pop("default", None)
    if open_ and schema.get("additionalProperties") is False:
        del schema["additionalProperties"]


def tell(name: str, schema: Schema) -> None:
    """Describe every field of a component."""
    own, common, unit = texts().get(name, {}), texts()["any"], texts()["units"].get(name)
    for field, shape in schema.get("properties", {}).items():
        text = shape.get("description") or own.get(field) or common.get(field)
        shape["description"] = described(field, shape, text, default=shape.get("default"), unit=unit)


def reachable(node: Any, schemas: Mapping[str, Schema]) -> set[str]:
    """Names of the components that something refers to, through others too."""
    waiting, found = set(re.findall(rf'"{REF}([^"]+)"', json.dumps(node))), set()
    while waiting:
        name = waiting.pop()
        found.add(name)
        waiting |= set(re.findall(rf'"{REF}([^"]+)"', json.dumps({**schemas[name], "examples": None}))) - found
    return found


def finished(document: Schema) -> Schema:
    """The document, ready for readers and generators."""
    schemas: dict[str, Schema] = document["components"]["schemas"]
    found: dict[str, Schema] = {}
    for name, schema in list(schemas.items()):
        schemas[name] = name_parts(schema, found)
    operations = [operation for path in document["paths"].values() for operation in path.values()]
    notices = [operation for path in document.get("webhooks", {}).values() for operation in path.values()]
    for operation in (*operations, *notices):
        _tell_parameters(operation, found)
    schemas |= found
    answers = reachable([*(operation["responses"] for operation in operations), *notices], schemas)
    asked = reachable([operation.get("requestBody", {}) for operation in operations], schemas)
    for name, schema in schemas.items():
        tell(name, schema)
        tidy(schema, open_=name in answers and name not in asked)
    for name in found:
        schemas[name].setdefault("description", texts()["named"].get(name, ""))
        schemas[name].setdefault("examples", [shown_example(schemas[name], schemas)])
    return document


def _tell_parameters(operation: Schema, found: dict[str, Schema]) -> None:
    """Describe parameters; their defaults stay, as generators leave parameters optional. Bodies lose their unnamed
    parts.
    """
    for media in operation.get("requestBody", {}).get("content", {}).values():
        media["schema"] = name_parts(media["schema"], found)
    for parameter in operation.get("parameters", ()):
        schema = parameter["schema"]
        if {"type": "null"} in schema.get("anyOf", ()):  # what is absent is left out, never null
            (only,) = [part for part in schema.pop("anyOf") if part != {"type": "null"}]
            schema |= only
            schema.pop("default", None)
        said = parameter.get("description") or schema.pop("description", None)
        said = said or texts()["parameters"].get(parameter["name"])
        parameter["description"] = described(parameter["name"], schema, said, default=schema.get("default"))
        for key in ("title", "description"):
            schema.pop(key, None)
        parameter["schema"] = name_parts(schema, found)
