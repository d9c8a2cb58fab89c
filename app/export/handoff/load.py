"""Builds the benchmark that verifies an option: it applies the predicted load with a load generator."""

from __future__ import annotations

import math
import re

from app.export.handoff.option import SHELL, File, Option, build_script
from app.sizing.hardware.benchmarks import BENCHMARKS, SERVERS, Places, fill_template

EMBEDDINGS_BACKEND = (
    "openai-embeddings"  # backend of embedding loads, which aiperf and guidellm measure with other commands
)

REPORT_NOTE = (
    "# The report stays in benchmark.log. POST /measurements reads it, or the JSON file of a generator that writes one."
)


def benchmark_file(option: Option) -> File:
    """Script that runs one load generator, selected by its argument.

    Compare its report with the performance in the answer.
    """
    group = option.groups[0]
    server = group.server or SERVERS["llama.cpp"]
    url = f"http://localhost:{server.port}"
    embeds = EMBEDDINGS_BACKEND in group.load
    places = {**_with_deviations(group.places), "url": url}
    commands = {
        "own": group.load if group.server else BENCHMARKS["server-at-url"].load,
        **(
            {}
            if embeds
            or group.places.get("draft_method")  # they send random text
            or group.software == "ollama"  # whose own command first creates the model that it measures
            else {"aiperf": BENCHMARKS["aiperf"].load, "guidellm": BENCHMARKS["guidellm"].load}
        ),
    }
    cases = (
        f"  {name})\n    {_wrap_flags(fill_template(command, places))}\n    ;;" for name, command in commands.items()
    )
    return File(
        "benchmark.sh",
        SHELL,
        build_script(
            option.header_lines,
            "# Run this next to one replica, or next to the router of two pools. The first argument selects the load",
            f"# generator (default: own, the generator of the engine): {', '.join(commands)}.",
            *([] if embeds else [REPORT_NOTE]),
            'case "${1:-own}" in',
            *cases,
            f'  *) echo "Unknown generator. Use one of: {", ".join(commands)}." >&2; exit 2 ;;',
            "esac | tee benchmark.log",
        ),
    )


def _with_deviations(places: Places) -> Places:
    """Places with standard deviations, for generators that draw normally distributed lengths.

    The deviation is that of the uniform distribution: half its width divided by the square root of 3.
    """
    spread = places.get("spread")
    if spread is None:
        return places
    share = float(str(spread)) / math.sqrt(3)
    means = {"input": places["input"], "output": places["output"]}
    return {**places, **{f"{name}_deviation": round(float(str(mean)) * share) for name, mean in means.items()}}


def _wrap_flags(command: str) -> str:
    """Command with one flag per line."""
    return re.sub(r" (--[a-z])", r" \\\n      \1", command)
