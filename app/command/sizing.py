"""The commands recommend, estimate, compare, inspect, explain and export."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from app.command.asking import (
    build_request,
    first_option,
    open_client,
    parse_budget,
    parse_number,
    parse_owned,
    read_request,
    show_progress,
    terminal_width,
)
from app.command.ending import Exit
from app.export.tables import (
    CHANGES,
    OutputFormat,
    benchmark_lines,
    change_lines,
    comparison_rows,
    confidence_lines,
    count_rows,
    deployment_row,
    fit_columns,
    json_text,
    ranking_rows,
    reason_lines,
    rejection_lines,
    render_rows,
    runnable_rows,
    select_format,
    sort_rows,
    titled,
)

Url = Annotated[
    str | None,
    typer.Option("--url", envvar="HEADROOM_URL", help="URL of a Headroom service. Default: answer in this process."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the whole answer as JSON.")]
AsCsv = Annotated[bool, typer.Option("--csv", help="Print the table as CSV.")]
AsMarkdown = Annotated[bool, typer.Option("--markdown", help="Print the table as Markdown.")]
Source = Annotated[
    Path | None, typer.Argument(help="File with a request as JSON; - reads standard input.", show_default=False)
]
Number = Annotated[
    float | None, typer.Option(parser=parse_number, metavar="NUMBER", help="Upper limit.", show_default=False)
]
Words = Annotated[
    list[str] | None, typer.Option(metavar="NAME", help="Accept only this; repeatable.", show_default=False)
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="FIELD",
        help="Set any field of the request, repeatable: --set economics.pue=1.2.",
        show_default=False,
    ),
]
Model = Annotated[
    str | None, typer.Option("--model", metavar="NAME", help="Model name: llama-3.1-70b.", show_default=False)
]
Own = Annotated[
    list[str] | None,
    typer.Option("--own", metavar="NxTYPE", help="Accelerators that you own, repeatable: 8xh100.", show_default=False),
]
Maximize = Annotated[
    str | None,
    typer.Option(help="Find the most within the limits: requests_per_s, users, tokens or model.", show_default=False),
]
Sort = Annotated[
    str | None,
    typer.Option("--sort", help="Column to sort by; -COLUMN sorts from high to low.", show_default=False),
]
MAX_REJECTIONS = 5
WIDTH = 100  # of a table that does not go to a terminal
# Path in the request that each flag sets; for estimate, DEPLOYMENT_PATHS takes precedence.
REQUEST_PATHS = {
    "model": "workload.model",
    "rps": "workload.traffic.peak_requests_per_s",
    "users": "workload.traffic.users.count",
    "each": "workload.traffic.users.requests_per_hour_each",
    "concurrent": "workload.traffic.concurrent_requests",
    "prompt": "workload.traffic.input_tokens",
    "answer": "workload.traffic.output_tokens",
    "ttft": "workload.slo.ttft_ms",
    "tpot": "workload.slo.tpot_ms",
    "tokens": "workload.training_tokens",
    "days": "workload.deadline_days",
    "method": "workload.method",
    "redundancy": "workload.availability.redundancy",
    "engines": "constraints.engines",
    "formats": "constraints.weight_formats",
    "budget": "constraints.max_usd_per_hour",
    "accelerator": "constraints.accelerators",
    "provider": "constraints.providers",
    "region": "constraints.regions",
    "environment": "constraints.environments",
    "max_usd_per_hour": "constraints.max_usd_per_hour",
    "max_accelerators": "constraints.max_accelerators",
    "own": "inventory",
    "maximize": "maximize",
    "objective": "objective",
    "limit": "limit",
    "label": "label",
}
DEPLOYMENT_PATHS = {
    "accelerator": "deployment.accelerator",
    "count": "deployment.total_accelerators",
    "engine": "deployment.engine",
    "weights": "deployment.weight_format",
}


def number_option(help_text: str, *names: str) -> Any:
    """A command-line option that takes a number as people type it."""
    return typer.Option(*names, parser=parse_number, metavar="NUMBER", help=help_text, show_default=False)


Rate = Annotated[float | None, number_option("Requests per second at peak.", "--rps", "--requests-per-s")]
Users = Annotated[float | None, number_option("Users, instead of a rate; see --requests-per-hour-each.", "--users")]
Each = Annotated[float | None, number_option("Requests per hour of each user.", "--requests-per-hour-each")]
Redundancy = Annotated[
    str | None, typer.Option(help="Machines whose loss the service survives: n+1, n+2 or 2n.", show_default=False)
]


Formats = Annotated[
    list[str] | None,
    typer.Option("--format", metavar="NAME", help="Weight format: fp8; repeatable.", show_default=False),
]
Engines = Annotated[
    list[str] | None,
    typer.Option("--engine", metavar="NAME", help="Engine or framework; repeatable.", show_default=False),
]
Budget = Annotated[
    float | None,
    typer.Option(parser=parse_budget, metavar="USD", help="5/h or 2,000/month.", show_default=False),
]
Method = Annotated[str | None, typer.Option(help="Training method: full, lora or qlora.", show_default=False)]
Objective = Annotated[str | None, typer.Option(help="Objective: cost, latency, throughput, energy or carbon.")]
LimitOption = Annotated[
    int | None, typer.Option(min=1, max=50, metavar="1-50", help="Number of options.", show_default=False)
]
Label = Annotated[str | None, typer.Option(help="Label to store with the answer.", show_default=False)]
Concurrent = Annotated[float | None, number_option("Requests in flight, instead of a rate.", "--concurrent")]
Prompt = Annotated[float | None, number_option("Mean input tokens per request.", "--in", "--input-tokens")]
Answer = Annotated[float | None, number_option("Mean output tokens per request.", "--out", "--output-tokens")]
Tokens = Annotated[float | None, number_option("Training tokens: 1t, 15 trillion.", "--tokens", "--training-tokens")]


def flag_values(context: typer.Context, paths: Mapping[str, str] = REQUEST_PATHS) -> dict[str, Any]:
    values = {paths[name]: value for name, value in context.params.items() if name in paths and value is not None}
    return values | {"inventory": [*map(parse_owned, values.get("inventory") or ())]}


def flag_names(context: typer.Context, paths: Mapping[str, str] = REQUEST_PATHS) -> dict[str, str]:
    """A command's options by the path in the request that they set."""
    return {paths[each.name]: each.opts[0] for each in context.command.params if each.name in paths}


def recommend(
    context: typer.Context,
    source: Source = None,
    model: Model = None,
    rps: Rate = None,
    users: Users = None,
    each: Each = None,
    concurrent: Concurrent = None,
    prompt: Prompt = None,
    answer: Answer = None,
    ttft: Annotated[float | None, number_option("Limit of time to first token (TTFT), ms.", "--ttft")] = None,
    tpot: Annotated[float | None, number_option("Limit of time per output token (TPOT), ms.", "--tpot")] = None,
    tokens: Tokens = None,
    days: Annotated[float | None, number_option("Deadline of the training run, days.", "--days")] = None,
    method: Method = None,
    redundancy: Redundancy = None,
    formats: Formats = None,
    engines: Engines = None,
    accelerator: Words = None,
    provider: Words = None,
    region: Words = None,
    environment: Words = None,
    max_usd_per_hour: Number = None,
    budget: Budget = None,
    max_accelerators: Number = None,
    own: Own = None,
    maximize: Maximize = None,
    objective: Objective = None,
    limit: LimitOption = None,
    label: Label = None,
    also: Settings = None,
    wide: Annotated[bool, typer.Option("--wide", help="Show all columns, even if the table is wide.")] = False,
    sort: Sort = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    as_markdown: AsMarkdown = False,
    url: Url = None,
) -> None:
    """Recommend hardware for a workload, best option first. Exits with 3 if nothing meets the requirements."""
    request = build_request(source, flag_values(context), also or [])
    with open_client(url, flag_names(context)) as client, show_progress("Sizing..."):
        found = client.recommend(request)
    form = select_format(as_json=as_json, as_csv=as_csv, as_markdown=as_markdown)
    if form is OutputFormat.JSON:
        typer.echo(json_text(found))
    elif form is not OutputFormat.TABLE:
        typer.echo(render_rows(sort_or_refuse(ranking_rows(found), sort), form))
    else:
        print_answer(found, wide=wide, sort=sort)
    if not found["recommendations"]:
        raise typer.Exit(Exit.INFEASIBLE)


def sort_or_refuse(rows: Sequence[Mapping[str, Any]], sort: str | None) -> list[Mapping[str, Any]]:
    try:
        return sort_rows(rows, sort)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--sort") from error


def wrap(text: str) -> str:
    """Text in lines as wide as the terminal; unchanged if there is none."""
    width = terminal_width()
    return text if width is None else textwrap.fill(text, width, break_on_hyphens=False)


def print_answer(found: Any, *, wide: bool, sort: str | None) -> None:
    """Print an answer for people: summary, table or rejections, warnings, and the next commands."""
    typer.echo(wrap(found["summary"]))
    if found["recommendations"]:
        rows = sort_or_refuse(ranking_rows(found), sort)
        shown = rows if wide else fit_columns(rows, terminal_width() or WIDTH)
        typer.echo(f"\n{render_rows(shown, OutputFormat.TABLE)}")
        if len(shown[0]) < len(rows[0]):
            typer.echo(f"--wide also shows {', '.join(name for name in rows[0] if name not in shown[0])}.")
    else:
        for line in rejection_lines(found, MAX_REJECTIONS):
            typer.echo(line)
    for warning in found["warnings"]:
        typer.echo(f"\n{wrap(warning['text'] if isinstance(warning, dict) else warning)}")
    typer.echo(f"\nNext: headroom explain {found['id']}, or export, sensitivity, approve or reprice with the same id.")


def estimate(
    context: typer.Context,
    source: Source = None,
    model: Model = None,
    accelerator: Annotated[
        str | None, typer.Option(help="Accelerator name: h100, rtx 4090.", show_default=False)
    ] = None,
    count: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Total number of accelerators.", show_default=False)
    ] = None,
    engine: Annotated[
        str | None, typer.Option(help="Engine or framework: vllm, sglang ...", show_default=False)
    ] = None,
    weights: Annotated[
        str | None, typer.Option("--weights", "--format", help="Weight format: fp8.", show_default=False)
    ] = None,
    rps: Rate = None,
    users: Users = None,
    each: Each = None,
    concurrent: Concurrent = None,
    prompt: Prompt = None,
    answer: Answer = None,
    tokens: Tokens = None,
    method: Method = None,
    redundancy: Redundancy = None,
    also: Settings = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    as_markdown: AsMarkdown = False,
    url: Url = None,
) -> None:
    """Estimate a workload on given hardware, or on the first option of a `recommend --json` file. Exits with 3 if the
    workload does not fit.
    """
    paths = {**REQUEST_PATHS, **DEPLOYMENT_PATHS}
    request = build_request(
        source, flag_values(context, paths), also or [], partial(first_option, accelerator=accelerator)
    )
    if source is None and "deployment" not in request:
        raise typer.BadParameter("The hardware is missing. Set --accelerator, for example --accelerator h100.")
    with open_client(url, flag_names(context, paths)) as client, show_progress("Sizing..."):
        found = client.estimate(request)
    form = select_format(as_json=as_json, as_csv=as_csv, as_markdown=as_markdown)
    if form is OutputFormat.JSON:
        typer.echo(json_text(found))
    elif form is not OutputFormat.TABLE:
        typer.echo(render_rows([deployment_row(found)], form))
    else:
        typer.echo(found.get("summary") or "")
        for line in reason_lines(found):
            typer.echo(line)
    if not found["fits"]:
        raise typer.Exit(Exit.INFEASIBLE)


def compare(
    source: Annotated[Path, typer.Argument(help="File with a body of POST /compare; - reads standard input.")],
    also: Settings = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    as_markdown: AsMarkdown = False,
    url: Url = None,
) -> None:
    """Compare options of one workload, or the phases of one model, side by side."""
    request = build_request(source, {}, also or []) if also else read_request(source)
    with open_client(url) as client, show_progress("Comparing..."):
        found: Any = client.compare(request)
    form = select_format(as_json=as_json, as_csv=as_csv, as_markdown=as_markdown)
    if form is OutputFormat.JSON:
        typer.echo(json_text(found))
        return
    if form is OutputFormat.TABLE:
        typer.echo(found.get("summary") or "")
    typer.echo(render_rows(comparison_rows(found), form))


def inspect(
    model: Annotated[str, typer.Argument(help="Model name, or a file with its config.json.")],
    as_json: AsJson = False,
    url: Url = None,
) -> None:
    """Show a model's counts: parameters, weight size and KV cache size."""
    file = Path(model)
    named: Any = {"huggingface_config": read_request(file)} if model.endswith(".json") and file.exists() else model
    with open_client(url) as client:
        found: Any = client.inspect(named)
    if as_json:
        typer.echo(json_text(found))
        return
    typer.echo(render_rows(count_rows(found), OutputFormat.TABLE))


def runnable(
    search: Annotated[str | None, typer.Argument(help="Part of a model's id.", show_default=False)] = None,
    own: Own = None,
    max_usd_per_hour: Number = None,
    limit: Annotated[int, typer.Option(min=1, max=50, help="Number of models.")] = 10,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    as_markdown: AsMarkdown = False,
    url: Url = None,
) -> None:
    """List the models that your machines can serve and fine-tune, the largest first, with their speed in tokens/s.
    Without --own, the machines are those of the stored inventory; without one, hardware for sale within
    --max-usd-per-hour.
    """
    searched: dict[str, Any] = {} if search is None else {"q": search}
    if max_usd_per_hour is not None:
        searched["constraints"] = {"max_usd_per_hour": max_usd_per_hour}
    with open_client(url) as client, show_progress("Sizing..."):
        owned: list[Any] = [parse_owned(text) for text in own or ()]
        found: Any = client.runnable(owned, limit=limit, **searched)
        while found["next_cursor"] and len(found["items"]) < limit:  # a page may end early
            cursor, left = found["next_cursor"], limit - len(found["items"])
            page = client.runnable(owned, limit=left, cursor=cursor, **searched)
            found = {"items": [*found["items"], *page["items"]], "next_cursor": page["next_cursor"]}
    form = select_format(as_json=as_json, as_csv=as_csv, as_markdown=as_markdown)
    if form is OutputFormat.JSON:
        typer.echo(json_text(found))
    else:
        typer.echo(render_rows(runnable_rows(found["items"]), form) if found["items"] else "No model runs on this.")
    if not found["items"]:
        raise typer.Exit(Exit.INFEASIBLE)


def explain(
    identity: Annotated[str, typer.Argument(help="Id of a stored answer: rec_...")],
    rank: Annotated[int, typer.Option(min=1, help="Rank of the option.")] = 1,
    url: Url = None,
) -> None:
    """Explain a stored answer: why it recommends an option, what would change it, and why it rejects others."""
    with open_client(url) as client:
        found = client.recommendation(identity)
    lines = [found["summary"]]
    options = [each for each in found["recommendations"] if each["rank"] == rank]
    if found["recommendations"] and not options:
        raise typer.BadParameter(f"The answer has ranks 1 to {len(found['recommendations'])}.")
    for each in options:
        lines += titled(f"Rank {rank}", reason_lines(each)) + titled("Size by confidence", confidence_lines(each))
    lines += titled(CHANGES, change_lines(found)) + titled("Benchmark to run first", benchmark_lines(found))
    typer.echo("\n".join([*lines, *titled("Rejected", rejection_lines(found, 20))]))


def export(
    identity: Annotated[str, typer.Argument(help="Id of a stored answer: rec_...")],
    form: Annotated[
        str | None, typer.Option("--format", help="File format: csv, xlsx, cxml, oci, ubl, html or json.")
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(help="Platform to start the option on: vllm, kubernetes, slurm ...", show_default=False),
    ] = None,
    rank: Annotated[int | None, typer.Option(min=0, help="Rank of the option; 0 is the mixed fleet.")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Output file, or the folder for the files of --target.")
    ] = None,
    url: Url = None,
) -> None:
    """Export a bill of materials, or the files that start an option."""
    if (form is None) == (target is None):
        raise typer.BadParameter("Set either --format (bill of materials) or --target (files that start the option).")
    with open_client(url) as client:
        if target is not None:
            files = client.deployment(identity, target, rank=rank)["files"]
            folder = out or Path()
            folder.mkdir(parents=True, exist_ok=True)
            for file in files:
                (folder / file["name"]).write_text(file["text"])
                typer.echo(folder / file["name"])
            return
        content = client.export(identity, str(form), rank=rank)
    if out is None:
        typer.get_binary_stream("stdout").write(content)
        return
    out.write_bytes(content)
    typer.echo(out)
