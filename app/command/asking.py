"""A question from flags, a file or standard input; flags go before what the file says."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import orjson
import typer

from app.api.fields import models_in
from app.api.merging import merged
from app.api.schemas.requests import EstimateRequest

Part = dict[str, Any]
POWERS = {"k": 1e3, "m": 1e6, "b": 1e9, "t": 1e12, "thousand": 1e3, "million": 1e6, "billion": 1e9, "trillion": 1e12}
HOW_MUCH = "Say how much: --rps or --concurrent of a service; --tokens, and --method where it is fine-tuning, of a run."
ESTIMATED = ("workload", "economics", "assumptions")  # what both requests say alike
NUMBER = re.compile(r"^\s*([+-]?\d[\d,_ ]*(?:\.\d+)?(?:e[+-]?\d+)?)\s*([a-z]*)\s*$", re.IGNORECASE)


def number(text: str) -> float | int:
    """A number as people type it.

    Check:
        >>> number("1,000,000"), number("1.5b"), number("1 trillion"), number("2e9")
        (1000000, 1500000000, 1000000000000, 2000000000)
    """
    found = NUMBER.match(text)
    if found is None or found[2].lower() not in {"", *POWERS}:
        raise typer.BadParameter(f"{text!r} is no number such as 1000, 1,000, 1e9, 70b or 1 trillion.")
    value = float(re.sub(r"[,_ ]", "", found[1])) * POWERS.get(found[2].lower(), 1.0)
    return int(value) if value.is_integer() else value


def read(source: Path | None) -> Part:
    """A request from a file, or from standard input where it is `-`; an empty one of neither."""
    if source is None:
        return {}
    try:
        raw = sys.stdin.buffer.read() if str(source) == "-" else source.read_bytes()
        found = orjson.loads(raw)
    except OSError as error:
        raise typer.BadParameter(f"{source} cannot be read: {error.strerror}.") from error
    except orjson.JSONDecodeError as error:
        raise typer.BadParameter(
            f"{'Standard input' if str(source) == '-' else source} is no JSON: {error}."
        ) from error
    if not isinstance(found, dict):
        raise typer.BadParameter(f"{source} holds no JSON object.")
    return found


def placed(path: str, value: Any) -> Part:
    """A value at a dotted path.

    Check:
        >>> placed("workload.slo.ttft_ms", 500)
        {'workload': {'slo': {'ttft_ms': 500}}}
    """
    said: Any = value
    for name in reversed(path.split(".")):
        said = {name: said}
    return dict(said)


def setting(text: str) -> Part:
    """`a.b=value` of --set: JSON where it is that, else a word.

    Check:
        >>> setting("deployment.tensor_parallel=8"), setting("objective=energy")
        ({'deployment': {'tensor_parallel': 8}}, {'objective': 'energy'})
    """
    path, equals, value = text.partition("=")
    if not equals or not path.strip():
        raise typer.BadParameter(f"{text!r} is not field=value, such as workload.traffic.peak_to_average=3.")
    try:
        return placed(path.strip(), orjson.loads(value))
    except orjson.JSONDecodeError:
        return placed(path.strip(), value)


def first_option(said: Part) -> Part:
    """Of a file that `recommend --json` wrote the estimate of its first option; any other file is the request itself.

    Check:
        >>> answer = {"request": {"workload": {}, "limit": 3}, "recommendations": [{"deployment": {"nodes": 1}}]}
        >>> first_option(answer), first_option({"workload": {}})
        ({'workload': {}, 'constraints': {}, 'deployment': {'nodes': 1}}, {'workload': {}})
    """
    if "recommendations" not in said or not isinstance(said.get("request"), dict):
        return said
    if not said["recommendations"]:
        raise typer.BadParameter("The answer in this file recommends nothing, so there is no deployment to estimate.")
    asked = {name: part for name, part in said["request"].items() if name in ESTIMATED}
    held: Any = EstimateRequest.model_fields["constraints"].annotation
    (limits,) = models_in(held)
    asked["constraints"] = {k: v for k, v in said["request"].get("constraints", {}).items() if k in limits.model_fields}
    return {**asked, "deployment": said["recommendations"][0]["deployment"]}


def request_of(
    source: Path | None, flags: Mapping[str, Any], settings: Iterable[str], of: Callable[[Part], Part] = dict
) -> Part:
    """The request: the file, or what `of` takes from it, over it what flags say by path, over that --set."""
    said = of(read(source))
    for path, value in flags.items():
        if value not in (None, [], ()):
            said = merged(said, placed(path, list(value) if isinstance(value, tuple) else value))
    for text in settings:
        said = merged(said, setting(text))
    if not said:
        raise typer.BadParameter("Say a question: by flags (--model, --rps ...), as a file, or - for standard input.")
    if "workload" in said and "phase" not in said["workload"]:
        said = merged(said, placed("workload.phase", phase_of(said["workload"])))
    if source is None and said.get("workload", {}).get("phase") == "inference" and "traffic" not in said["workload"]:
        raise typer.BadParameter(HOW_MUCH)
    return said


def phase_of(workload: Mapping[str, Any]) -> str:
    """What is meant where nobody says: a method is one of fine-tuning, tokens to train on are training."""
    if "method" in workload or "examples" in workload:
        return "fine_tuning"
    return "training" if {"training_tokens", "training_samples"} & set(workload) else "inference"
