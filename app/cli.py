"""Command line: registers the commands of app.command, which import what they need when they run."""

from __future__ import annotations

from importlib.metadata import version
from typing import Annotated

import typer

from app.command import keys, lists, maintenance, measuring, prepare, prices, service, sizing

cli = typer.Typer(no_args_is_help=True, help="Headroom sizes hardware for AI work.", pretty_exceptions_enable=False)
for sizing_command in (
    sizing.recommend,
    sizing.estimate,
    sizing.compare,
    sizing.inspect,
    sizing.explain,
    sizing.export,
):
    cli.command(rich_help_panel="Size")(sizing_command)
for measuring_command in (measuring.measure, measuring.measurements):
    cli.command(rich_help_panel="Measure")(measuring_command)
for list_command in (lists.models, lists.accelerators, lists.offers, prices.market, lists.support):
    cli.command(rich_help_panel="Look up")(list_command)
cli.add_typer(prices.prices, name="prices", rich_help_panel="Look up")
for other_command in (
    maintenance.doctor,
    lists.mcp,
    prepare.prepare,
    maintenance.prune,
    keys.audit,
    maintenance.standing,
    lists.accuracy,
    service.deliver,
    service.serve,
):
    cli.command()(other_command)
cli.add_typer(keys.keys, name="keys")


def print_version(requested: bool) -> None:
    """Prints the version and exits."""
    if requested:
        typer.echo(version("headroom"))
        raise typer.Exit


@cli.callback()
def root_options(
    version: Annotated[
        bool, typer.Option("--version", callback=print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Headroom sizes hardware for AI work."""
