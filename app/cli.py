"""Command line: registers the commands of app.command, which import what they need when they run."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version
from typing import Annotated

import typer

from app.command import keys, lists, maintenance, measuring, prepare, prices, profiles, service, sizing, stored

STATUSES = (
    "Exit status: 0 success; 1 no answer (no service, no database, or an invalid setting); 2 the request was rejected; "
    "3 nothing is feasible."
)
cli = typer.Typer(
    no_args_is_help=True, help="Headroom sizes hardware for AI work.", epilog=STATUSES, pretty_exceptions_enable=False
)
ID = "rec_0123456789abcdef0123456789ab"
# One example of each command, shown by its --help.
EXAMPLES = {
    "recommend": "recommend --model llama-3.1-8b-instruct --users 500 --requests-per-hour-each 12 --in 800 --out 300",
    "estimate": "estimate --model llama-3.1-8b-instruct --accelerator l4 --count 2 --rps 3 --format fp8",
    "compare": "compare options.json",
    "inspect": "inspect llama-3.1-70b",
    "runnable": "runnable qwen3 --own '4 x rtx a6000'",
    "explain": f"explain {ID} --rank 2",
    "export": f"export {ID} --format xlsx -o bill.xlsx",
    "diagnose": "diagnose observed.json",
    "list": "list --status approved --sort stored_at",
    "status": f"status {ID}",
    "approve": f"approve {ID} --by ana@example.com --note 'within budget'",
    "reprice": f"reprice {ID}",
    "sensitivity": f"sensitivity {ID}",
    "models": "models llama --limit 10",
    "accelerators": "accelerators --where vendor=amd --sort -memory_gib",
    "offers": "offers h100 --sort usd_per_hour --limit 10",
    "market": "market --by provider --where accelerator=h100",
    "prices": "prices h100 --sort -observed_on",
    "keys": "keys list",
    "support": "support vllm mi300x",
    "doctor": "doctor --url http://localhost:8000",
    "mcp": "mcp --url http://localhost:8000",
    "prepare": "prepare",
    "prune": "prune --dry-run",
    "standing": "standing --label 'chat 2027'",
    "audit": "audit --check",
    "measure": f"measure {ID} --url http://localhost:8000",
    "measurements": "measurements --upload result.json --param accelerator=h100",
    "accuracy": "accuracy --by engine",
    "deliver": "deliver --dead",
    "serve": "serve --port 8000 --workers 2",
}
PANELS: dict[str, dict[str, Callable[..., None]]] = {
    "Size": {
        "recommend": sizing.recommend,
        "estimate": sizing.estimate,
        "compare": sizing.compare,
        "inspect": sizing.inspect,
        "runnable": sizing.runnable,
        "diagnose": stored.diagnose,
    },
    "Stored answers": {
        "list": stored.list_answers,
        "explain": sizing.explain,
        "export": sizing.export,
        "sensitivity": stored.sensitivity,
        "status": stored.status,
        "approve": stored.approve,
        "reprice": stored.reprice,
        "standing": maintenance.standing,
    },
    "Measure": {
        "measure": measuring.measure,
        "measurements": measuring.measurements,
    },
    "Look up": {
        "models": lists.models,
        "accelerators": lists.accelerators,
        "offers": lists.offers,
        "market": prices.market,
        "support": lists.support,
        "accuracy": lists.accuracy,
    },
    "Run": {
        "serve": service.serve,
        "mcp": lists.mcp,
        "prepare": prepare.prepare,
        "doctor": maintenance.doctor,
        "deliver": service.deliver,
        "prune": maintenance.prune,
        "audit": keys.audit,
    },
}
for panel, commands in PANELS.items():
    for name, command in commands.items():
        cli.command(name, rich_help_panel=panel, epilog=f"Example: headroom {EXAMPLES[name]}")(command)
cli.add_typer(prices.prices, name="prices", rich_help_panel="Look up", epilog=f"Example: headroom {EXAMPLES['prices']}")
cli.add_typer(keys.keys, name="keys", rich_help_panel="Run", epilog=f"Example: headroom {EXAMPLES['keys']}")


def print_version(requested: bool) -> None:
    if requested:
        typer.echo(version("headroom"))
        raise typer.Exit


@cli.callback()
def root_options(
    context: typer.Context,
    version: Annotated[  # noqa: ARG001  its callback prints it
        bool, typer.Option("--version", callback=print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    profile: Annotated[
        str | None,
        typer.Option(
            envvar="HEADROOM_PROFILE",
            help="Profile of ~/.config/headroom/config.toml with defaults for options. Default: default.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Headroom sizes hardware for AI work."""
    commands = getattr(context.command, "commands", {})
    context.default_map = profiles.command_defaults(profiles.read_profile(profile), commands)
