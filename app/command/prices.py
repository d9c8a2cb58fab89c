"""The command prices: lists observed prices; sync reads price feeds, quarantine decides on implausible prices, export
writes the observations to a file.
"""

from __future__ import annotations

import getpass
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from app.command import lists
from app.command.asking import open_client
from app.command.ending import Exit, describe_cause
from app.command.sizing import AsCsv, AsJson, AsMarkdown, Url
from app.export.tables import OutputFormat, json_text, render_rows, select_columns, select_format

if TYPE_CHECKING:
    from sqlalchemy import Engine


class PricesGroup(TyperGroup):
    """Commands about prices. Anything else that follows `prices` is for the list."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Inserts the name of the list unless a command is named."""
        if not args or (args[0] not in self.commands and args[0] != "--help"):
            args = ["list", *args]
        return super().parse_args(ctx, args)


prices = typer.Typer(
    cls=PricesGroup,
    no_args_is_help=False,
    help="List prices as observed over time, and keep them current.",
)
prices.command("list")(lists.prices)
quarantine = typer.Typer(invoke_without_command=True, help="List implausible prices and decide on them.")
prices.add_typer(quarantine, name="quarantine")

Ids = Annotated[list[int] | None, typer.Argument(help="Numbers of prices in quarantine.", show_default=False)]
Rule = Annotated[str | None, typer.Option("--rule", help="All that broke this rule.", show_default=False)]


@contextmanager
def open_database() -> Iterator[Engine]:
    """The database of the settings; errors of it and of an unprepared catalog end the command with a sentence."""
    from app.catalog.seed import StaleCatalog
    from app.catalog.snapshot import EmptyCatalog
    from app.command.settings import load_settings
    from app.db import UNHURRIED, DatabaseError, make_engine

    engine = make_engine(load_settings().database_url, UNHURRIED)
    try:
        yield engine
    except (DatabaseError, StaleCatalog, EmptyCatalog) as error:
        typer.echo(f"Nothing was changed: {describe_cause(error)}.", err=True)
        raise typer.Exit(Exit.FAILED) from error
    finally:
        engine.dispose()


@prices.command()
def sync(
    feed: Annotated[str | None, typer.Argument(help="One feed. Default: all that need no key or have one.")] = None,
    allow_fewer: Annotated[
        bool, typer.Option("--allow-fewer", help="Accept that a feed has lost more than 30 % of its prices.")
    ] = False,
) -> None:
    """Read price feeds and publish the next catalog version. Exits with 1 if a part could not be read or was held."""
    from app.command.local import logs_to_stderr
    from app.command.settings import load_settings
    from app.feeds.client import FeedClient
    from app.feeds.sync import FEEDS, PriceSync

    access = load_settings().price_feed_access
    if feed is not None and feed not in FEEDS:
        raise typer.BadParameter(f"unknown feed {feed!r}. Use one of: {', '.join(FEEDS)}.")
    if feed is not None and feed not in access.usable_feeds():
        raise typer.BadParameter(f"feed {feed!r} needs a key. Set it in HEADROOM_PRICE_FEED_KEYS.")
    records = []
    with logs_to_stderr(), open_database() as engine, closing(FeedClient(networks=access.networks)) as client:
        for name in [feed] if feed is not None else access.usable_feeds():
            records += PriceSync(engine, access, client).sync_feed(name, typer.echo, allow_fewer=allow_fewer)
    if any(record.state in ("failed", "held") for record in records):
        raise typer.Exit(Exit.FAILED)


@quarantine.callback()
def list_quarantined(ctx: typer.Context) -> None:
    """List the prices that wait for a decision, and the names that no alias maps."""
    if ctx.invoked_subcommand is None:
        show_quarantine()


@quarantine.command("list")
def show_quarantine() -> None:
    """List the prices that wait for a decision, and the names that no alias maps."""
    from sqlalchemy.orm import Session

    from app.catalog.filing import to_utc
    from app.catalog.observations import list_quarantine, list_unmapped

    with open_database() as engine, Session(engine) as session:
        waiting, unmapped = list_quarantine(session), list_unmapped(session)
        for row, key in waiting:
            offer = f"{key.provider} {key.region} {key.instance_type} ({key.pricing_model})"
            since = to_utc(row.since).date()
            typer.echo(f"{row.id:6} {since} {row.feed:10} {row.rule:16} {offer}: {row.detail}")
    if not waiting:
        typer.echo("No price waits for a decision.")
    for feed, names in unmapped.items():
        typer.echo(f"{feed}: {len(names):,} unknown names: {', '.join(names)}")


def decide_on(ids: list[int] | None, rule: str | None, decision: str) -> None:
    """Record a decision on the named prices and publish the next catalog version."""
    from sqlalchemy.orm import Session

    from app.catalog.observations import decide, list_quarantine
    from app.catalog.seed import check_loaded, publish_observations
    from app.migrating import lock_database

    if not ids and rule is None:
        raise typer.BadParameter("name prices by number, or a rule with --rule.")
    with open_database() as engine, Session(engine) as session:
        lock_database(session.connection())
        check_loaded(session)
        waiting = {row.id for row, _ in list_quarantine(session) if rule in (None, row.rule)}
        chosen = waiting if not ids else waiting & {*ids}
        done = decide(session, sorted(chosen), decision, by=getpass.getuser(), at=datetime.now(UTC))
        publish_observations(session)
        session.commit()
    typer.echo(f"{decision.capitalize()}: {done:,} {'price' if done == 1 else 'prices'}.")
    if ids and done < len({*ids}):
        typer.echo("The other numbers do not wait for a decision.", err=True)
        raise typer.Exit(Exit.FAILED)


@quarantine.command()
def accept(ids: Ids = None, rule: Rule = None) -> None:
    """Accept prices: they count from now on."""
    decide_on(ids, rule, "accepted")


@quarantine.command()
def reject(ids: Ids = None, rule: Rule = None) -> None:
    """Reject prices: the old prices stay."""
    decide_on(ids, rule, "rejected")


MARKET_COLUMNS = ("name", "offers", "min_usd_per_hour", "median_usd_per_hour", "max_usd_per_hour", "usd_per_gb_hour")


def market(
    by: Annotated[
        str, typer.Option(help="Grouping: accelerator, class, provider, region or pricing_model.")
    ] = "accelerator",
    where: lists.Filters = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    as_markdown: AsMarkdown = False,
    url: Url = None,
) -> None:
    """Show hourly prices per accelerator by group, on demand unless filtered otherwise, with their trend."""
    form = select_format(as_json=as_json, as_csv=as_csv, as_markdown=as_markdown)
    with open_client(url) as client:
        found = client.market(**lists.parse_filters(where, by=by))
    if form is OutputFormat.JSON:
        typer.echo(json_text(found))
        return
    trends = [name for name in ("trend_30d", "trend_90d") if any(name in item for item in found["items"])]
    for item in found["items"] if form is not OutputFormat.CSV else ():
        item |= {name: f"{100 * item[name]:+.1f} %" for name in trends if name in item}
    rows = select_columns(found["items"], (*MARKET_COLUMNS, *trends)) if found["items"] else []
    typer.echo(render_rows(rows, form) if rows else "Nothing matches.")
    if form is not OutputFormat.TABLE:
        return
    typer.echo(f"Prices of an accelerator hour; the newest was observed on {found['prices_as_of']}.")
    ratio = found.get("training_to_inference")
    if ratio is not None:
        typer.echo(
            f"An hour of a training-class accelerator costs {ratio['of_means']:.2g} times an inference-class hour "
            f"(means; medians: {ratio['of_medians']:.2g})."
        )


@prices.command()
def export(
    path: Annotated[
        Path, typer.Argument(help="File to write: Parquet if its name ends in .parquet, else gzip-compressed CSV.")
    ],
    since: Annotated[
        datetime | None, typer.Option(formats=["%Y-%m-%d"], help="Only observations from this day on.")
    ] = None,
    before: Annotated[
        datetime | None, typer.Option(formats=["%Y-%m-%d"], help="Only observations before this day.")
    ] = None,
) -> None:
    """Write the price observations to a file, oldest first. Nothing is deleted."""
    from sqlalchemy.orm import Session

    from app.catalog.observations import export_observations
    from app.export.observations import write_csv, write_parquet

    start, until = (None if day is None else day.replace(tzinfo=UTC) for day in (since, before))
    write = write_parquet if path.suffix == ".parquet" else write_csv
    with open_database() as engine, Session(engine) as session:
        try:
            count = write(path, export_observations(session, start, until))
        except OSError as error:
            typer.echo(f"{path} was not written: {error.strerror or error}.", err=True)
            raise typer.Exit(Exit.FAILED) from error
    typer.echo(f"Wrote {count:,} observations to {path}.")
