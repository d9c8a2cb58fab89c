"""The benchmark that verifies an option: the load it is predicted to carry, by generators that speak to its server."""

from __future__ import annotations

import math
import re

from app.export.handoff.files import SHELL, File, script
from app.export.handoff.option import Option
from app.sizing.hardware import benchmarks
from app.sizing.hardware.benchmarks import LLAMA_SERVER, Places, filled, openai_load

EMBEDS = "openai-embeddings"  # which the others measure by commands of their own


def benchmark_file(option: Option) -> File:
    """One script, one generator by its argument: what it prints is read against the answer's performance."""
    group = option.groups[0]
    server = group.server or LLAMA_SERVER
    url = f"http://localhost:{server.port}"
    places = {**_with_deviations(group.places), "url": url}
    commands = {
        "own": group.load if group.server else openai_load(url=f" --base-url {url}"),
        **({} if EMBEDS in group.load else {"aiperf": benchmarks.AIPERF.load, "guidellm": benchmarks.GUIDELLM.load}),
    }
    cases = (f"  {name})\n    {_broken(filled(command, places))}\n    ;;" for name, command in commands.items())
    return File(
        "benchmark.sh",
        SHELL,
        script(
            option.header,
            "# Beside one replica, or beside the router of two pools. The generator is the engine's own,",
            f"# or another, as the first argument says: {', '.join(commands)}.",
            'case "${1:-own}" in',
            *cases,
            f'  *) echo "One of {", ".join(commands)}?" >&2; exit 2 ;;',
            "esac",
        ),
    )


def _with_deviations(places: Places) -> Places:
    """Generators that draw from a bell are told the deviation of the even distribution, which is its half width over
    the root of three.
    """
    spread = places.get("spread")
    if spread is None:
        return places
    share = float(str(spread)) / math.sqrt(3)
    means = {"input": places["input"], "output": places["output"]}
    return {**places, **{f"{name}_deviation": round(float(str(mean)) * share) for name, mean in means.items()}}


def _broken(command: str) -> str:
    """A line for every flag."""
    return re.sub(r" (--[a-z])", r" \\\n      \1", command)
