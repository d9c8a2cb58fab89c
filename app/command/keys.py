"""The commands of `headroom keys`: create, list, rotate and revoke keys of the service."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from app.command.ending import Exit, describe_cause

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from app.catalog.keys import KeyRecord

keys = typer.Typer(no_args_is_help=True, help="Create, list, rotate and revoke keys of the service.")
KEY_ID = typer.Argument(help="Id of the key: the eight characters after hr_.")


@contextmanager
def open_keys() -> Iterator[Connection]:
    """Opens a transaction on the database of the settings."""
    from app.command.settings import load_settings
    from app.db import EVERY_TENANT, DatabaseError, acting_for, make_engine

    engine = make_engine(load_settings().database_url)
    try:
        with acting_for(EVERY_TENANT), engine.begin() as connection:
            yield connection
    except DatabaseError as error:
        typer.echo(f"Keys cannot be read: {describe_cause(error)}. Run `headroom doctor` to find the cause.", err=True)
        raise typer.Exit(Exit.FAILED) from error
    finally:
        engine.dispose()


@keys.command()
def create(
    name: Annotated[str, typer.Argument(help="Who or what uses the key, for the list and the audit log.")],
    scopes: Annotated[
        list[str],
        typer.Option("--scope", help="size, read, catalog:write, measure, procure or admin (all). Repeat for several."),
    ],
    tenant: Annotated[
        str, typer.Option("--tenant", help="Tenant whose data the key uses; public is that of callers without a key.")
    ] = "public",
    days: Annotated[int | None, typer.Option("--days", min=1, max=3650, help="Days until the key expires.")] = None,
    units_per_minute: Annotated[
        int | None,
        typer.Option("--units-per-minute", min=0, help="Own rate limit; 0 is no limit. Default: that of the settings."),
    ] = None,
) -> None:
    """Create a key and print it. It is not stored and cannot be shown again."""
    from app.catalog.keys import TENANT, Scope, create_key
    from app.catalog.tenants import record_audit

    known = [scope.value for scope in Scope]
    if unknown := [scope for scope in scopes if scope not in known]:
        raise typer.BadParameter(f"{unknown[0]!r} is not a scope. Use: {', '.join(known)}.", param_hint="--scope")
    if not TENANT.fullmatch(tenant):
        raise typer.BadParameter("a tenant is lower-case letters, digits and ._- (60 at most).", param_hint="--tenant")
    now = datetime.now(UTC)
    with open_keys() as connection:
        key, identity = create_key(
            connection,
            tenant=tenant,
            name=name,
            scopes=frozenset(map(Scope, scopes)),
            now=now,
            expires_at=None if days is None else now + timedelta(days=days),
            units_per_minute=units_per_minute,
        )
        facts = {"key": identity, "name": name, "scopes": sorted(scopes)}
        record_audit(connection, tenant, "command", "key.created", facts, now=now)
    typer.echo(key)
    typer.echo(f"Key {identity} of tenant {tenant}. It is shown only once: store it in your secret manager.", err=True)


@keys.command("list")
def list_all(
    tenant: Annotated[str | None, typer.Option("--tenant", help="Only the keys of this tenant.")] = None,
) -> None:
    """List keys with tenant, scopes, state and dates; never the keys themselves."""
    from app.catalog.keys import list_keys

    now = datetime.now(UTC)
    with open_keys() as connection:
        records = list_keys(connection, tenant)
    for record in records:
        typer.echo(describe_key(record, now))
    if not records:
        typer.echo("No keys.")


def describe_key(record: KeyRecord, now: datetime) -> str:
    ends = "never expires" if record.expires_at is None else f"expires {record.expires_at:%Y-%m-%d %H:%M} UTC"
    limit = "" if record.units_per_minute is None else f", {record.units_per_minute} units/min"
    return (
        f"{record.id}  {record.tenant}  {record.state(now)}  {' '.join(sorted(record.scopes))}  "
        f"created {record.created_at:%Y-%m-%d}, {ends}{limit}  {record.name}"
    )


@keys.command()
def rotate(
    identity: Annotated[str, KEY_ID],
    overlap_hours: Annotated[
        float, typer.Option("--overlap-hours", min=0, max=720, help="Hours for which the old key still works.")
    ] = 24.0,
) -> None:
    """Create a key like another one and let the old one expire after an overlap."""
    from app.catalog.keys import find_key, rotate_key
    from app.catalog.tenants import record_audit

    now = datetime.now(UTC)
    with open_keys() as connection:
        old = find_key(connection, identity)
        if old is None or old.state(now) != "valid":
            typer.echo(f"There is no valid key {identity}. `headroom keys list` shows all.", err=True)
            raise typer.Exit(Exit.REFUSED)
        key, made = rotate_key(connection, old, now=now, overlap=timedelta(hours=overlap_hours))
        record_audit(connection, old.tenant, "command", "key.rotated", {"key": identity, "by": made}, now=now)
    typer.echo(key)
    typer.echo(f"Key {made} replaces {identity}, which works for {overlap_hours:g} more hours.", err=True)


@keys.command()
def revoke(identity: Annotated[str, KEY_ID]) -> None:
    """Revoke a key for good. Every process refuses it within two seconds."""
    from app.catalog.keys import find_key, revoke_key
    from app.catalog.tenants import record_audit

    now = datetime.now(UTC)
    with open_keys() as connection:
        record = find_key(connection, identity)
        if record is None or not revoke_key(connection, identity, now=now):
            typer.echo(f"There is no key {identity} that could be revoked. `headroom keys list` shows all.", err=True)
            raise typer.Exit(Exit.REFUSED)
        record_audit(connection, record.tenant, "command", "key.revoked", {"key": identity}, now=now)
    typer.echo(f"Key {identity} is revoked.")


def audit(
    tenant: Annotated[str | None, typer.Option("--tenant", help="Only the log of this tenant.")] = None,
    check: Annotated[bool, typer.Option("--check", help="Only check the hash chain, and print nothing else.")] = False,
) -> None:
    """Export the audit log as JSON lines, oldest first, and check its hash chain. Exits with 1 if it was changed."""
    import orjson

    from app.catalog.tenants import audit_heads, export_audit, find_break

    with open_keys() as connection:
        heads = audit_heads(connection, tenant)
        entries = list(export_audit(connection, tenant))
    if not check:
        for entry in entries:
            typer.echo(orjson.dumps(entry, option=orjson.OPT_SORT_KEYS).decode())
    place = find_break(entries, heads)
    if place is not None:
        typer.echo(f"The audit log was changed: {place} does not follow from the entry before it.", err=True)
        raise typer.Exit(Exit.FAILED)
    if check:
        typer.echo(f"{len(entries)} entries, unchanged.")
