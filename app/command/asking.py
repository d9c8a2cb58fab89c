"""Builds requests from flags, files or standard input, and sends them to a service at a URL or in this process."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson
import typer

from app.api.merge_patch import Part, apply_merge_patch
from app.api.typed_numbers import read_number
from app.command.ending import Exit
from headroom_client import Headroom, HeadroomError, NotReached

LISTING_COMMANDS = {
    "/catalog/models?q=": "headroom models WORDS",
    "/catalog/accelerators": "headroom accelerators",
    "/catalog/offers": "headroom offers",
    "/catalog/providers": "headroom market --by provider",
    "/catalog/regions": "headroom market --by region",
    "/recommendations": "headroom list",
    "/measurements": "headroom measurements",
}
ROUTE = re.compile(r"\b(?:GET|POST|PUT|PATCH|DELETE) (/[\w/{}?=-]+)")
UNPREPARED = "The local database is not prepared. Run `headroom prepare`, or set --url to the URL of a service."


@contextmanager
def open_client(url: str | None, options: Mapping[str, str] | None = None) -> Iterator[Headroom]:
    """Open a client of the service at `url`, or of one in this process. Errors are printed as a sentence and exit the
    command. `options` are the command's options by the field of the request that they set.
    """
    try:
        if url is not None:
            with Headroom(url, retries=2, key=os.environ.get("HEADROOM_KEY")) as client:
                yield client
            return
        from app.command.local import open_local_client

        with open_local_client() as client:
            yield client
    except HeadroomError as error:
        report_problem(error, options or {}, local=url is None)
        raise typer.Exit(Exit.REFUSED if 400 <= error.status < 500 else Exit.FAILED) from error
    except NotReached as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(Exit.FAILED) from error


def report_problem(error: HeadroomError, options: Mapping[str, str], *, local: bool) -> None:
    """Print a problem: its detail, each further error with its JSON pointer, and the options that set these fields."""
    if local and error.status == 503:
        typer.echo(UNPREPARED, err=True)
        return
    typer.echo(describe_for_terminal(error.detail), err=True)
    for each in error.others:
        typer.echo(f"  {each.get('pointer', '')}: {describe_for_terminal(each.get('detail', ''))}", err=True)
    fields = [each.get("pointer", "").removeprefix("#/").replace("/", ".") for each in error.errors]
    stated = [re.sub(r"\.\d+$", "", field) for field in fields]  # an entry of a list belongs to the list's option
    if named := ", ".join(dict.fromkeys(options[field] for field in stated if field in options)):
        typer.echo(f"Set it with {named}.", err=True)


def describe_for_terminal(detail: str) -> str:
    """The detail of a problem with commands instead of routes of the API; sentences with other routes are left out.

    Check:
        >>> describe_for_terminal("'x' is not an id. GET /recommendations lists them.")
        "'x' is not an id. `headroom list` lists them."
        >>> describe_for_terminal("Unknown engine 'vlm'. GET /catalog/engines and /catalog/frameworks list all.")
        "Unknown engine 'vlm'."
    """

    def name_command(found: re.Match[str]) -> str:
        command = LISTING_COMMANDS.get(found[1])
        return found[0] if command is None else f"`{command}`"

    sentences = [ROUTE.sub(name_command, each) for each in re.split(r"(?<=[.?!]) (?=[A-Z`'])", detail)]
    kept = [each for each in sentences if not ROUTE.search(each)]
    return re.sub(r"^At query/\w+: ", "", " ".join(kept or sentences))


@contextmanager
def show_progress(message: str) -> Iterator[None]:
    """Show a progress message while the block runs, if standard error is a terminal."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True, highlight=False).status(message):
        yield


MISSING_LOAD = (
    "The load is missing. For serving, set --rps, --users or --concurrent. For training, set --tokens; for "
    "fine-tuning, also set --method."
)
# Constraints of an estimate request; a recommend request has more.
ESTIMATE_CONSTRAINTS = ("confidence", "prefix_cache_tiers")
SHARED_MEMBERS = ("workload", "economics", "assumptions")  # members that recommend and estimate requests share


def parse_number(text: str) -> float | int:
    value = read_number(text)
    if value is None:
        raise typer.BadParameter(f"{text!r} is not a number. Accepted forms: 1000, 1,000, 1e9, 70b, 1 trillion, 80%.")
    return value


def read_request(source: Path | None) -> Part:
    """Read a request from a file, or from standard input if `source` is `-`. Without a source the request is empty."""
    if source is None:
        return {}
    try:
        raw = sys.stdin.buffer.read() if str(source) == "-" else source.read_bytes()
        request = orjson.loads(raw)
    except OSError as error:
        raise typer.BadParameter(
            f"{source} cannot be read: {error.strerror}. The argument is a file with a request, not a model's name."
        ) from error
    except orjson.JSONDecodeError as error:
        raise typer.BadParameter(
            f"{'Standard input' if str(source) == '-' else source} is not valid JSON: {error}."
        ) from error
    if not isinstance(request, dict):
        raise typer.BadParameter(f"{source} does not contain a JSON object.")
    return request


def nest_value(path: str, value: Any) -> Part:
    """Nest a value under a dotted path.

    Check:
        >>> nest_value("workload.slo.ttft_ms", 500)
        {'workload': {'slo': {'ttft_ms': 500}}}
    """
    nested: Any = value
    for name in reversed(path.split(".")):
        nested = {name: nested}
    return dict(nested)


def parse_setting(text: str) -> Part:
    """Parse `a.b=value` of --set. The value is JSON if it parses as JSON, else text.

    Check:
        >>> parse_setting("deployment.tensor_parallel=8"), parse_setting("objective=energy")
        ({'deployment': {'tensor_parallel': 8}}, {'objective': 'energy'})
    """
    path, equals, value = text.partition("=")
    if not equals or not path.strip():
        raise typer.BadParameter(f"{text!r} must have the form field=value: workload.traffic.peak_to_average=3.")
    try:
        return nest_value(path.strip(), orjson.loads(value))
    except orjson.JSONDecodeError:
        return nest_value(path.strip(), value)


def first_option(content: Part, accelerator: str | None = None) -> Part:
    """Estimate request of the first option in a `recommend --json` file. Any other content is the request itself.

    Parameters:
        accelerator: accelerator to size the workload of the file on instead; the option's layout is then left out.

    Check:
        >>> answer = {"request": {"workload": {}, "limit": 3}, "recommendations": [{"deployment": {"nodes": 1}}]}
        >>> first_option(answer), first_option({"workload": {}})
        ({'workload': {}, 'constraints': {}, 'deployment': {'nodes': 1}}, {'workload': {}})
    """
    if "recommendations" not in content or not isinstance(content.get("request"), dict):
        return content
    if not content["recommendations"]:
        raise typer.BadParameter("The answer in this file recommends nothing, so there is no deployment to estimate.")
    request = {name: part for name, part in content["request"].items() if name in SHARED_MEMBERS}
    constraints = content["request"].get("constraints", {})
    request["constraints"] = {k: v for k, v in constraints.items() if k in ESTIMATE_CONSTRAINTS}
    return request if accelerator else {**request, "deployment": content["recommendations"][0]["deployment"]}


def build_request(
    source: Path | None, flags: Mapping[str, Any], settings: Iterable[str], transform: Callable[[Part], Part] = dict
) -> Part:
    """Merge a request: the file after `transform`, then flags by path, then --set. Adds the phase if it is missing."""
    request = transform(read_request(source))
    for path, value in flags.items():
        if value not in (None, [], ()):
            request = apply_merge_patch(request, nest_value(path, list(value) if isinstance(value, tuple) else value))
    for text in settings:
        request = apply_merge_patch(request, parse_setting(text))
    if not request:
        raise typer.BadParameter("No request. Use flags (--model, --rps ...), a JSON file, or - for standard input.")
    if "workload" in request and "phase" not in request["workload"]:
        request = apply_merge_patch(request, nest_value("workload.phase", infer_phase(request["workload"])))
    workload = request.get("workload", {})
    if source is None and workload.get("phase") == "inference" and "traffic" not in workload:
        raise typer.BadParameter(MISSING_LOAD)
    return request


def parse_owned(text: str) -> dict[str, Any]:
    """An entry of an inventory, from a number and a name: 8xh100, "4 x rtx a6000".

    Check:
        >>> parse_owned("8xh100")
        {'accelerator': 'h100', 'count': 8}
    """
    found = re.fullmatch(r"\s*(\d+)\s*[x×*]\s*(\S.*?)\s*", text, re.IGNORECASE)
    if found is None:
        raise typer.BadParameter(f"{text!r} is not a number and a name, such as 8xh100.", param_hint="--own")
    return {"accelerator": found[2], "count": int(found[1])}


HOURS_PER_MONTH = 730  # as in the answer's monthly cost


def parse_budget(text: str) -> float:
    """Budget in USD per hour, from an amount and a period: 5/h, "2,000/month".

    Check:
        >>> parse_budget("5/h"), parse_budget("1,460/month")
        (5.0, 2.0)
    """
    amount, _, period = text.lower().replace("$", "").replace("usd", "").partition("/")
    if period.strip() not in ("h", "hour", "month"):
        raise typer.BadParameter(f"{text!r} has no period. Accepted forms: 5/h, 2,000/month.")
    return parse_number(amount) / (HOURS_PER_MONTH if period.strip() == "month" else 1.0)


def terminal_width() -> int | None:
    """Columns of the terminal; None if standard output is not a terminal."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def infer_phase(workload: Mapping[str, Any]) -> str:
    """Phase of a workload: fine-tuning with a method or examples, training with tokens or samples, else inference."""
    if "method" in workload or "examples" in workload:
        return "fine_tuning"
    return "training" if {"training_tokens", "training_samples"} & set(workload) else "inference"
