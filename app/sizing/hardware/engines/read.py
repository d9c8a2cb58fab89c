"""Reads the records of engines, frameworks and schedulers from the data files of the core."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from app.sizing.facts import InvalidFact, build, read_toml, require_source
from app.sizing.hardware.benchmarks import BENCHMARKS
from app.sizing.hardware.engines.record import Engine, EngineMemory, Release, Scheduling, release_of

Table = Mapping[str, Any]
Named = TypeVar("Named")
Versions = tuple[tuple[Release, Named], ...]  # by first release, oldest first

SCHEDULERS, ENGINES, FRONTS = "schedulers.toml", "engines.toml", "fronts.toml"
REFERENCES = ("benchmark", "one_pass", "speech", "trial")
# Keys of an engine's table that are no fields of its record under the same name.
OWN_KEYS = frozenset(("on", "today", "memory", "scheduler", *REFERENCES))


def read_engines() -> tuple[Engine, ...]:
    """Every record: engines and frameworks in the order of their file, then those that run on top of another one."""
    schedulers = read_schedulers(read_toml(SCHEDULERS)["scheduler"])
    found: dict[str, Engine] = {}
    for file in (ENGINES, FRONTS):
        content = read_toml(file)
        for table in content["engine"]:
            engine = read_engine(table, found, schedulers, file=file)
            if engine.judged_as is not None:
                require_source(
                    {"source": content["source"], "read": content["read"], **table},
                    where=f"{file}, engine {engine.name}",
                )
            if engine.name in found:
                raise InvalidFact(f"{file}, engine {engine.name}: there are two records of this name.")
            found[engine.name] = engine
    return tuple(found.values())


def read_schedulers(tables: Iterable[Table]) -> dict[str, Versions[Scheduling]]:
    """Scheduling rules by name.

    A table with `like` starts from the last table above with that name, and replaces fields and sources of its own.
    Raises InvalidFact unless every field that a table states has a source, or the table says why it is unread.
    """
    latest: dict[str, Table] = {}
    rules: dict[str, Versions[Scheduling]] = {}
    for table in tables:
        name, since = str(table.get("name")), table.get("since")
        where = f"{SCHEDULERS}, scheduler {name} {since or ''}".rstrip()
        stated = {key: value for key, value in table.items() if key not in ("name", "since", "like", "unread")}
        below = find_named(latest, table["like"], where) if "like" in table else {}
        merged = {**below, **stated, "sources": {**below.get("sources", {}), **table.get("sources", {})}}
        if "unread" in table:
            merged = {key: value for key, value in merged.items() if key not in ("sources", "read")}
        else:
            require_source({**merged, "read": table.get("read")}, where=where)
        rule = build(Scheduling, merged, where=where)
        missing = stated.keys() - rule.sources.keys() - {"sources", "read"}
        if missing and "unread" not in table:
            raise InvalidFact(f"{where}: sources.{min(missing)} is missing.")
        latest[name] = merged
        rules[name] = _append_version(rules.get(name, ()), since, rule, where)
    return rules


def read_engine(
    table: Table, above: Mapping[str, Engine], schedulers: Mapping[str, Versions[Scheduling]], *, file: str = ENGINES
) -> Engine:
    """The record of an engine; `above` holds the engines on which it can run."""
    where = f"{file}, engine {table.get('name')}"
    plain = {key: value for key, value in table.items() if key not in OWN_KEYS}
    built: dict[str, Any] = {key: find_named(BENCHMARKS, table[key], where) for key in REFERENCES if key in table}
    if "today" in table:
        built["today"] = (_parse_release(table["today"].get("since"), where), table["today"].get("month"))
    if "scheduler" in table:
        built |= _current_and_since("scheduling", find_named(schedulers, table["scheduler"], where))
    if "memory" in table:
        built |= _current_and_since("memory", _read_memory(table["memory"], where))
    record = replace(build(Engine, plain, where=where), **built)
    if "on" not in table:
        return record
    stated = (plain.keys() | built.keys()) - {"name", "aliases", "adapts_as", "source", "read"}
    own = {key: getattr(record, key) for key in stated}
    below = find_named(above, table["on"], where)
    return below.derive_engine(record.name, *record.aliases, adapts_as=record.adapts_as, **own)


def find_named(records: Mapping[str, Named], name: str, where: str) -> Named:
    if name not in records:
        raise InvalidFact(f"{where}: there is no record {name!r}. Known records: {', '.join(records)}.")
    return records[name]


def _read_memory(tables: Iterable[Table], where: str) -> Versions[EngineMemory]:
    rules: Versions[EngineMemory] = ()
    for place, table in enumerate(tables):
        inside = f"{where}, memory[{place}]"
        plain = {key: value for key, value in table.items() if key != "since"}
        rules = _append_version(rules, table.get("since"), build(EngineMemory, plain, where=inside), inside)
    return rules


def _append_version(versions: Versions[Named], since: str | None, rule: Named, where: str) -> Versions[Named]:
    """Versions with one more; only the first one has no version to start from."""
    first = _parse_release(since, where) if since is not None or versions else (0, 0)
    if versions and first <= versions[-1][0]:
        raise InvalidFact(f"{where}: 'since' must be later than that of the record above, oldest first.")
    return (*versions, (first, rule))


def _parse_release(version: object, where: str) -> Release:
    released = release_of(str(version))
    if released is None:
        raise InvalidFact(f"{where}: 'since' must be a version such as \"0.8\", not {version!r}.")
    return released


def _current_and_since(field: str, versions: Versions[Named]) -> dict[str, Any]:
    """Fields of an engine for rules that change by version: the current rule, and all of them if there are several."""
    return {field: versions[-1][1], f"{field}_since": versions if len(versions) > 1 else ()}
