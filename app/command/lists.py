"""The commands that list the catalog, with filters; `accuracy`, the errors of predictions; and `mcp`, which serves MCP
tools on standard input and output.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.command.asking import UNPREPARED, open_client, terminal_width
from app.command.ending import Exit
from app.command.sizing import AsCsv, AsJson, AsMarkdown, Sort, Url, sort_or_refuse
from app.export.tables import OutputFormat, fit_columns, json_text, render_rows, select_columns, select_format

if TYPE_CHECKING:
    from app.agents.mount import Service

COLUMNS = {
    "models": ("id", "family", "modality", "parameters", "active_parameters", "licence", "release_date"),
    "accelerators": ("slug", "name", "memory_gib", "memory_gb_per_s", "power_w", "segment", "release_year"),
    "offers": (
        "accelerator",
        "provider",
        "region",
        "pricing_model",
        "instance_type",
        "accelerator_count",
        "usd_per_hour",
        "usd_per_accelerator_hour",
        "as_of",
    ),
    "prices": ("accelerator", "provider", "region", "pricing_model", "instance_type", "usd_per_hour", "observed_on"),
}
Limit = Annotated[int, typer.Option(min=1, max=100_000, metavar="N", help="Maximum number of rows.")]
Filters = Annotated[
    list[str] | None,
    typer.Option("--where", help="Filter of the API, repeatable: --where vendor=nvidia.", show_default=False),
]


def print_list(
    what: str,
    filters: dict[str, Any],
    form: OutputFormat,
    limit: int,
    url: str | None,
    *,
    accelerator: str | None = None,
    sort: str | None = None,
) -> None:
    """Print one list, page by page up to a limit. `accelerator` keeps rows whose accelerator contains all its words."""
    words = (accelerator or "").lower().split()
    with open_client(url) as client:
        found = client.catalog(what, **filters)
        items = list(
            islice(
                (item for item in found if all(w in str(item.get("accelerator", item.get("slug"))) for w in words)),
                None if sort else limit + 1,  # sorting needs all rows
            )
        )
    known = COLUMNS.get(what, ())
    columns = tuple(name for name in known if any(name in item for item in items))
    whole = form is OutputFormat.JSON or not items
    rows = items if whole else select_columns(items, columns or tuple(items[0]))
    print_rows(rows, form, limit=limit, sort=sort)


def print_rows(rows: list[dict[str, Any]], form: OutputFormat, *, limit: int, sort: str | None) -> None:
    """Print the first rows, sorted. A table that goes to a terminal shows the columns that fit; a line on standard
    error says that there are more rows.
    """
    ordered = sort_or_refuse(rows, sort)
    shown, width = ordered[:limit], terminal_width()
    if form is OutputFormat.JSON:
        typer.echo(json_text(shown))
    elif not shown:
        typer.echo("Nothing matches.")
    else:
        fitted = fit_columns(shown, width) if form is OutputFormat.TABLE and width is not None else shown
        typer.echo(render_rows(fitted, form))
    if len(ordered) > limit:
        typer.echo(f"There are more than {limit} rows; set --limit to see them.", err=True)


def parse_filters(where: list[str] | None, **named: Any) -> dict[str, Any]:
    """Query parameters of the API from options and `--where` texts."""
    filters = {name: value for name, value in named.items() if value is not None}
    for text in where or ():
        name, equals, value = text.partition("=")
        if not equals:
            raise typer.BadParameter(f"{text!r} must have the form filter=value: vendor=nvidia.")
        filters[name] = value
    return filters


def models(
    search: Annotated[str | None, typer.Argument(help="Part of a name.", show_default=False)] = None,
    where: Filters = None,
    limit: Limit = 50,
    sort: Sort = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    as_markdown: AsMarkdown = False,
    url: Url = None,
) -> None:
    """List models of the catalog."""
    form = select_format(as_json=as_json, as_csv=as_csv, as_markdown=as_markdown)
    print_list("models", parse_filters(where, q=search), form, limit, url, sort=sort)


def accelerators(
    name: Annotated[
        str | None, typer.Argument(help="Words of the accelerator's name: mi300.", show_default=False)
    ] = None,
    where: Filters = None,
    limit: Limit = 200,
    sort: Sort = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    as_markdown: AsMarkdown = False,
    url: Url = None,
) -> None:
    """List accelerators and CPUs."""
    form = select_format(as_json=as_json, as_csv=as_csv, as_markdown=as_markdown)
    print_list("accelerators", parse_filters(where), form, limit, url, accelerator=name, sort=sort)


def offers(
    accelerator: Annotated[
        str | None, typer.Argument(help="Words of the accelerator's name: h100.", show_default=False)
    ] = None,
    words: Annotated[
        str | None, typer.Option("--accelerator", help="The same as the argument.", show_default=False)
    ] = None,
    provider: Annotated[str | None, typer.Option(help="Only this provider.", show_default=False)] = None,
    region: Annotated[str | None, typer.Option(help="Only this region.", show_default=False)] = None,
    where: Filters = None,
    limit: Limit = 50,
    sort: Sort = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    as_markdown: AsMarkdown = False,
    url: Url = None,
) -> None:
    """List offers: seller, region, pricing model and price."""
    form = select_format(as_json=as_json, as_csv=as_csv, as_markdown=as_markdown)
    print_list(
        "offers",
        parse_filters(where, provider=provider, region=region),
        form,
        limit,
        url,
        accelerator=accelerator or words,
        sort=sort,
    )


def prices(
    accelerator: Annotated[
        str | None, typer.Argument(help="Words of the accelerator's name: h100.", show_default=False)
    ] = None,
    where: Filters = None,
    limit: Limit = 50,
    sort: Sort = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    as_markdown: AsMarkdown = False,
    url: Url = None,
) -> None:
    """List prices as observed over time."""
    form = select_format(as_json=as_json, as_csv=as_csv, as_markdown=as_markdown)
    print_list("prices", parse_filters(where), form, limit, url, accelerator=accelerator, sort=sort)


def support(
    names: Annotated[
        tuple[str, str] | None,
        typer.Argument(metavar="ENGINE ACCELERATOR", help="For example: vllm mi300x.", show_default=False),
    ] = None,
    engine: Annotated[
        str | None, typer.Option(help="Engine or framework: vllm, sglang, fsdp ...", show_default=False)
    ] = None,
    accelerator: Annotated[str | None, typer.Option(help="Accelerator name: mi300x.", show_default=False)] = None,
    where: Filters = None,
    url: Url = None,
) -> None:
    """Show whether an engine runs on an accelerator, with the source."""
    engine, accelerator = names or (engine, accelerator)
    if not (engine and accelerator):
        raise typer.BadParameter("Name an engine and an accelerator, for example: headroom support vllm mi300x.")
    with open_client(url) as client:
        typer.echo(json_text(client.support(**parse_filters(where, engine=engine, accelerator=accelerator))))


def accuracy(
    by: Annotated[
        str, typer.Option(help="Dimension: engine, accelerator_family, format, model_size, load, source or nearness.")
    ] = "engine",
) -> None:
    """Show the errors of predictions against published results, overall and by one dimension, and how often the faster
    of two results is predicted to be the faster one.
    """
    from sqlalchemy.orm import Session

    from app.catalog.queries import calibration_notes, list_compared
    from app.command.settings import load_settings
    from app.db import DatabaseError, make_engine
    from app.sizing.accuracy import DIMENSIONS, report_on
    from app.sizing.words import percent

    if by not in DIMENSIONS:
        raise typer.BadParameter(f"unknown dimension {by!r}. Use one of: {', '.join(DIMENSIONS)}.")
    engine = make_engine(load_settings().database_url)
    try:
        with Session(engine) as session:
            report = report_on(list_compared(session))
    except DatabaseError as error:
        typer.echo(UNPREPARED, err=True)
        raise typer.Exit(1) from error
    finally:
        engine.dispose()
    typer.echo(
        f"{'':40} {'rows':>6} {'sources':>8}   {'unseen source: median':>22} {'p90':>6} {'bias':>6} "
        f"{'covered':>8} {'width':>6} {'kept':>6}   {'in sample':>10}"
    )
    for s in (*report.overall, *report.by[by]):
        h = s.held_out
        typer.echo(
            f"{s.metric + ', ' + s.value:40} {s.rows:6} {s.sources:8}   "
            f"{percent(h.median):>22} {percent(h.p90):>6} {h.bias:6.2f} {percent(s.intervals.coverage):>8} "
            f"{s.intervals.width:6.2f} {percent(s.intervals.kept):>6}   {percent(s.in_sample.median):>10}"
        )
    typer.echo(
        f"\n{'pairs in the right order':40} {'pairs':>6} {'sources':>8}   {'unseen source':>22} {'in sample':>10}"
    )
    for pair in calibration_notes()["order"]:
        typer.echo(
            f"{pair['compared'] + ', ' + pair['metric']:40} {pair['pairs']:6} {pair['sources']:8}   "
            f"{percent(pair['unseen_source']):>22} {percent(pair['in_sample']):>10}"
        )


TIMEOUT_S = 120.0


def mcp(
    url: Annotated[
        str | None,
        typer.Option(
            "--url", envvar="HEADROOM_URL", help="URL of a Headroom service. Default: answer in this process."
        ),
    ] = None,
) -> None:
    """Serve the tools for agents (Model Context Protocol) on standard input and output."""
    import asyncio

    from app.command.local import logs_to_stderr

    with logs_to_stderr():  # standard output carries protocol messages only
        asyncio.run(serve_client(url))


async def serve_client(url: str | None) -> None:
    """Serve one client after checking that the service is ready."""
    from app.agents.mount import load_server

    server = load_server()
    async with open_service(url) as service:
        problem = await service.readiness_problem()
        if problem is not None:
            typer.echo(UNPREPARED if url is None else problem, err=True)
            raise typer.Exit(Exit.FAILED)
        await server.on_standard_input(service)


@asynccontextmanager
async def open_service(url: str | None) -> AsyncIterator[Service]:
    """The service at a URL, or one in this process if there is no URL."""
    from app.agents.mount import Service, in_process_service

    if url is not None:
        import httpx2

        async with httpx2.AsyncClient(base_url=url, timeout=TIMEOUT_S) as http:
            yield Service(http)
        return
    from app.command.settings import load_settings
    from app.main import create_app

    app = create_app(load_settings())
    async with app.router.lifespan_context(app):
        yield in_process_service(app)
