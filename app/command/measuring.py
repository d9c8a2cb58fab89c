"""The commands measure, which runs the benchmark of an answer and sizes again, and measurements."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from app.command.asking import open_client, show_progress
from app.command.ending import Exit
from app.command.sizing import AsJson, Url
from app.export.tables import OutputFormat, json_text, render_rows, size_text
from headroom_client import Headroom

Parameters = Annotated[
    list[str] | None,
    typer.Option(
        "--param", help="What the result does not state, repeatable: --param engine_version=0.22.", show_default=False
    ),
]
HOURS_PER_MONTH = 8760 / 12
# Fields of a deployment, and the parameters of a measurement that they give.
DEPLOYED = {
    "accelerator": "accelerator",
    "engine": "engine",
    "framework": "engine",
    "weight_format": "weight_format",
    "tensor_parallel": "tensor_parallel",
    "pipeline_parallel": "pipeline_parallel",
    "data_parallel": "data_parallel",
}
ASKED = ("method", "sequence_length", "global_batch_sequences")  # fields of a workload that are parameters


def measure(
    identity: Annotated[str, typer.Argument(help="Id of a stored answer: rec_...")],
    file: Annotated[
        Path | None, typer.Option("--file", help="Upload this result instead of running the benchmark.")
    ] = None,
    param: Parameters = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Run the benchmark without asking.")] = False,
    url: Url = None,
) -> None:
    """Run the benchmark of an answer on this machine, upload its result, size again and print what that changes."""
    with open_client(url) as client:
        answer: Any = client.recommendation(identity)
        check = answer.get("verification")
        if check is None:
            raise typer.BadParameter(f"{identity} prescribes no benchmark: no result would change it.")
        for line in map(outcome_text, check.get("after", ())):
            typer.echo(line)
        content = run_benchmark(check["command"], confirmed=yes) if file is None else file.read_bytes()
        parameters = {**answered_parameters(answer, check), **parse_parameters(param or ())}
        uploaded = client.upload_measurement(content, **parameters)
        print_measurements(uploaded["measurements"])
        for note in uploaded["notes"]:
            typer.echo(note)
        with show_progress("Sizing..."):
            again: Any = client.recommend(answer["request"])
    typer.echo(f"\nBefore: {first_plan(answer)[0]}\nNow:    {first_plan(again)[0]}")
    typer.echo(saving_text(answer, again))
    typer.echo(f"\n{again['id']}: headroom explain {again['id']}")


def run_benchmark(command: str, *, confirmed: bool) -> bytes:
    """Output of a benchmark command, with the command above it. The output is also printed while the command runs."""
    typer.echo(command)
    if not confirmed:
        typer.confirm("Run this command on this machine?", abort=True)
    lines = [f"$ {command}\n"]
    shell = ["/bin/bash", "-c", command]  # the user has seen and confirmed the command
    with subprocess.Popen(  # noqa: S603
        shell, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            sys.stdout.write(line)
            lines.append(line)
    if process.returncode:
        typer.echo(f"The benchmark ended with exit status {process.returncode}.", err=True)
        raise typer.Exit(Exit.FAILED)
    return "".join(lines).encode()


def outcome_text(outcome: Mapping[str, Any]) -> str:
    """What an outcome of the benchmark would change, as a sentence.

    Check:
        >>> outcome_text({"rate": 1197.7, "unit": "output tokens/s", "total_accelerators": 4, "usd_per_hour": 2.673})
        'At 1,198 output tokens/s, this is enough: 4 accelerators, 2.673 USD/h.'
    """
    rate = f"{outcome['rate']:,.{0 if outcome['rate'] >= 100 else 1}f} {outcome['unit']}"
    if outcome["total_accelerators"] is None:
        return f"At {rate}, no number of these accelerators is enough."
    return f"At {rate}, this is enough: {size_text(outcome)}."


def answered_parameters(answer: Mapping[str, Any], check: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters of the measurement that an answer gives: those of the option that its benchmark measures, which is a
    group of the mixed fleet if there is one.
    """
    options = answer["mixed_fleet"]["groups"] if answer.get("mixed_fleet") else answer["recommendations"]
    measured = [d for each in options if (d := each["deployment"])["accelerator"] == check["accelerator"]]
    if not measured:
        return {}
    found = {name: measured[0][field] for field, name in DEPLOYED.items() if measured[0].get(field) is not None}
    workload = answer["request"]["workload"]
    if isinstance(workload.get("model"), str):
        found["model"] = workload["model"]
    found |= {name: workload[name] for name in ASKED if name in workload}
    traffic = workload.get("traffic", {})
    for name in ("input_tokens", "output_tokens"):
        if isinstance(traffic.get(name), int | float):
            found[name] = traffic[name]
    return {**found, "accelerators": check["accelerators"]}


def parse_parameters(texts: Iterable[str]) -> dict[str, str]:
    """Parameters of `--param name=value`.

    Check:
        >>> parse_parameters(["engine_version=0.22", "day=2026-11-20"])
        {'engine_version': '0.22', 'day': '2026-11-20'}
    """
    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise typer.BadParameter(f"{text!r} must have the form name=value: engine_version=0.22.")
        found[name.strip()] = value.strip()
    return found


def first_plan(answer: Mapping[str, Any]) -> tuple[str, float | None]:
    """The mixed fleet of an answer, else its first option, in a few words, and its cost in USD/h.

    Check:
        >>> group = {"deployment": {"total_accelerators": 4, "accelerator": "nvidia-l40s"}}
        >>> first_plan({"recommendations": [], "mixed_fleet": {"groups": [group, group], "usd_per_hour": 1.5}})
        ('4 x nvidia-l40s and 4 x nvidia-l40s, 1.50 USD/h', 1.5)
    """
    fleet, options = answer.get("mixed_fleet"), answer["recommendations"][:1]
    usd = fleet["usd_per_hour"] if fleet else options[0]["cost"].get("usd_per_hour") if options else None
    plan = [each["deployment"] for each in (fleet["groups"] if fleet else options)]
    if not plan:
        return "no option meets the requirements", None
    text = " and ".join(f"{d['total_accelerators']} x {d['accelerator']}" for d in plan)
    return text + ("" if usd is None else f", {usd:,.2f} USD/h"), usd


def saving_text(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """What the measurement saves, as a sentence."""
    former, now = first_plan(before)[1], first_plan(after)[1]
    if former is None or now is None:
        return "The costs cannot be compared."
    saved = (former - now) * HOURS_PER_MONTH
    if abs(saved) < 1:
        return "The measurement confirms the recommendation: its cost stays the same."
    verb = "saves" if saved > 0 else "shows that you need more: plan for an additional"
    return f"The measurement {verb} {abs(saved):,.0f} USD per month."


def measurements(
    upload: Annotated[
        Path | None, typer.Option("--upload", help="Upload a result file; - reads standard input.", show_default=False)
    ] = None,
    delete: Annotated[str | None, typer.Option("--delete", help="Delete a measurement: meas_...")] = None,
    param: Parameters = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="With --upload: store nothing.")] = False,
    as_json: AsJson = False,
    url: Url = None,
) -> None:
    """List your measurements, upload a result file, or delete a measurement."""
    if upload is not None and delete is not None:
        raise typer.BadParameter("Use --upload or --delete, not both.")
    with open_client(url) as client:
        if delete is not None:
            client.delete_measurement(delete)
            typer.echo(f"Deleted {delete}.")
            return
        found: Any = list(client.measurements()) if upload is None else {}
        if upload is not None:
            found = upload_file(client, upload, param or (), dry_run=dry_run)
    if as_json:
        typer.echo(json_text(found))
        return
    print_measurements(found if upload is None else found["measurements"])
    for note in [] if upload is None else found["notes"]:
        typer.echo(note)


def upload_file(client: Headroom, path: Path, texts: Iterable[str], *, dry_run: bool) -> dict[str, Any]:
    try:
        content = sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
    except OSError as error:
        raise typer.BadParameter(f"{path} cannot be read: {error.strerror}.") from error
    return client.upload_measurement(content, **parse_parameters(texts), **({"dry_run": True} if dry_run else {}))


def print_measurements(items: Iterable[Mapping[str, Any]]) -> None:
    """Print measurements as a table, a row for each figure."""
    rows = [
        {
            "id": item["id"],
            "day": item["day"],
            "model": item["run"].get("model"),
            "accelerator": item["run"].get("accelerator"),
            "engine": item["run"].get("engine"),
            "quantity": figure["quantity"],
            "measured": figure["measured"],
            "predicted": figure["predicted"],
        }
        for item in items
        for figure in item["figures"]
    ]
    typer.echo(render_rows(rows, OutputFormat.TABLE) if rows else "No measurement is stored.")
