"""Builds requests from flags, files or standard input, and sends them to a service at a URL or in this process."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from enum import IntEnum
from pathlib import Path
from typing import Any

import orjson
import structlog
import typer
from pydantic import ValidationError
from pydantic_settings import SettingsError
from rich.console import Console
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError
from starlette.testclient import TestClient

from app.api.problems import models_in
from app.api.questions import apply_merge_patch
from app.api.schemas.requests import EstimateRequest
from app.config import Settings
from app.main import create_app
from headroom_client import Headroom, HeadroomError, NotReached

STDERR = Console(stderr=True, highlight=False)
UNPREPARED = "The local database is not prepared. Run `headroom prepare`, or set --url to the URL of a service."


class Exit(IntEnum):
    """Exit status of a command other than 0."""

    FAILED = 1  # no answer: the service or database failed, or a setting is invalid
    REFUSED = 2  # the request is invalid; the message names the accepted values
    INFEASIBLE = 3  # answered, but nothing meets the requirements


@contextmanager
def open_client(url: str | None) -> Iterator[Headroom]:
    """Open a client of the service at `url`, or of one in this process. Errors are printed as a sentence and exit the
    command.
    """
    try:
        if url is not None:
            with Headroom(url, retries=2) as client:
                yield client
            return
        app = create_app(quiet_settings())
        with logs_to_stderr(), TestClient(app, raise_server_exceptions=False) as http:
            yield Headroom(http=http, retries=0)
    except HeadroomError as error:
        report_problem(error, local=url is None)
        raise typer.Exit(Exit.REFUSED if 400 <= error.status < 500 else Exit.FAILED) from error
    except NotReached as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(Exit.FAILED) from error


@contextmanager
def logs_to_stderr() -> Iterator[None]:
    """Send the logs of a service in this process to standard error, so that standard output holds only the answer."""
    previous = structlog.get_config()["logger_factory"]
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    try:
        yield
    finally:
        structlog.configure(logger_factory=previous)


def quiet_settings() -> Settings:
    """Settings of the service for one command, without the access log."""
    return load_settings().model_copy(update={"access_log": "off"})


def load_settings() -> Settings:
    """Read the settings from the environment. An invalid one is reported by its variable's name, without its value."""
    try:
        configured = Settings()
        make_url(configured.database_url).get_dialect()
    except ValidationError as error:
        for each in error.errors():
            # The validator of all settings reports no location; it checks webhooks only.
            name, *inner = each["loc"] or ("webhooks",)
            place = "".join(f" {step}" for step in inner)
            report_setting(f"{name}{place}", each["msg"].removeprefix("Value error, "))
        raise typer.Exit(Exit.FAILED) from error
    except SettingsError as error:
        field = next(iter(re.findall(r'field "(\w+)"', str(error))), "setting")
        report_setting(field, "must be valid JSON")
        raise typer.Exit(Exit.FAILED) from error
    except ArgumentError as error:
        report_setting("database_url", "must be the URL of an SQLite or PostgreSQL database")
        raise typer.Exit(Exit.FAILED) from error
    return configured


def report_setting(place: str, reason: str) -> None:
    """Print why a setting is invalid."""
    name, _, inner = place.partition(" ")
    typer.echo(f"HEADROOM_{name.upper()}{' ' + inner if inner else ''}: {reason}.", err=True)


def report_problem(error: HeadroomError, *, local: bool) -> None:
    """Print a problem: its detail, then each further error with its JSON pointer."""
    if local and error.status == 503:
        typer.echo(UNPREPARED, err=True)
        return
    typer.echo(error.detail, err=True)
    for each in error.others:
        typer.echo(f"  {each.get('pointer', '')}: {each.get('detail', '')}", err=True)


@contextmanager
def show_progress(message: str) -> Iterator[None]:
    """Show a progress message while the block runs, if standard error is a terminal."""
    if not sys.stderr.isatty():
        yield
        return
    with STDERR.status(message):
        yield


Part = dict[str, Any]
POWERS = {"k": 1e3, "m": 1e6, "b": 1e9, "t": 1e12, "thousand": 1e3, "million": 1e6, "billion": 1e9, "trillion": 1e12}
MISSING_LOAD = (
    "The load is missing. For serving, set --rps or --concurrent. For training, set --tokens; for fine-tuning, also "
    "set --method."
)
SHARED_MEMBERS = ("workload", "economics", "assumptions")  # members that recommend and estimate requests share
NUMBER = re.compile(r"^\s*([+-]?\d[\d,_ ]*(?:\.\d+)?(?:e[+-]?\d+)?)\s*([a-z]*)\s*$", re.IGNORECASE)


def parse_number(text: str) -> float | int:
    """Parse a number as people type it.

    Check:
        >>> parse_number("1,000,000"), parse_number("1.5b"), parse_number("1 trillion"), parse_number("2e9")
        (1000000, 1500000000, 1000000000000, 2000000000)
    """
    match = NUMBER.match(text)
    if match is None or match[2].lower() not in {"", *POWERS}:
        raise typer.BadParameter(f"{text!r} is not a number. Accepted forms: 1000, 1,000, 1e9, 70b, 1 trillion.")
    value = float(re.sub(r"[,_ ]", "", match[1])) * POWERS.get(match[2].lower(), 1.0)
    return int(value) if value.is_integer() else value


def read_request(source: Path | None) -> Part:
    """Read a request from a file, or from standard input if `source` is `-`. Without a source the request is empty."""
    if source is None:
        return {}
    try:
        raw = sys.stdin.buffer.read() if str(source) == "-" else source.read_bytes()
        request = orjson.loads(raw)
    except OSError as error:
        raise typer.BadParameter(f"{source} cannot be read: {error.strerror}.") from error
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


def first_option(content: Part) -> Part:
    """Estimate request of the first option in a `recommend --json` file. Any other content is the request itself.

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
    annotation: Any = EstimateRequest.model_fields["constraints"].annotation
    (limits,) = models_in(annotation)
    constraints = content["request"].get("constraints", {})
    request["constraints"] = {k: v for k, v in constraints.items() if k in limits.model_fields}
    return {**request, "deployment": content["recommendations"][0]["deployment"]}


def build_request(
    source: Path | None, flags: Mapping[str, Any], settings: Iterable[str], transform: Callable[[Part], Part] = dict
) -> Part:
    """Merge a request: the file after `transform`, then flags by path, then --set. Fills in the phase if it is
    missing.
    """
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


def infer_phase(workload: Mapping[str, Any]) -> str:
    """Phase that a workload implies: a method or examples mean fine-tuning, training tokens or samples mean training,
    anything else is inference.
    """
    if "method" in workload or "examples" in workload:
        return "fine_tuning"
    return "training" if {"training_tokens", "training_samples"} & set(workload) else "inference"
