"""docs/held.md: load and fault-injection tests, as `python -m benchmarks.held` measured them.

This module only writes the page. artefacts/held.json has the figures, with the release and the day of each.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from textwrap import fill
from typing import Any

RESULTS = Path(__file__).with_suffix(".json")
PAGE = RESULTS.parents[1] / "docs" / "held.md"
HEAD = """# Load and fault-injection tests

`python -m benchmarks.held` runs these tests and writes this page; `python -m benchmarks.held sockets` repeats one
section. `artefacts/held.json` has all figures. Clients, service and database shared the processor cores of one machine,
so a machine of its own reaches at least these rates, and latencies at most as long; a load average above the number of
cores means that other programs used them too. The tests only use the loopback address."""
FURTHER = """## Further tests

These have no figures here: kills while a catalog is published (`python -m benchmarks.torn`), random sequences of
requests and publications (`benchmarks.steps`), a new catalog every few seconds (`benchmarks.publishing`), thousands of
requests of all kinds (`benchmarks.soak`), single fields at extreme values and absurd configurations
(`benchmarks.nonsense`), and coverage-guided fuzzing of every parser (`benchmarks.fuzz`). `benchmarks.sockets --proxy`
attacks through nginx."""

Figures = Mapping[str, Any]


def table(head: tuple[str, ...], rows: list[tuple[Any, ...]]) -> str:
    """A table; numbers get separators of thousands."""
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(f"| {' | '.join(f'{c:,}' if isinstance(c, int) else str(c) for c in line)} |" for line in lines)


def listed(counts: Mapping[str, int]) -> str:
    """Counts by name in one cell."""
    return ", ".join(f"{count:,} × {name}" for name, count in counts.items()) or "none"


def milliseconds(found: Mapping[str, int]) -> tuple[int, int, int]:
    return found["p50"], found["p99"], found["max"]


def wrapped(text: str) -> str:
    """A paragraph in lines of at most 118 characters."""
    return fill(" ".join(text.split()), 118, break_long_words=False, break_on_hyphens=False)


def dearest_text(found: Figures) -> str:
    rows = [(f"`{o}`", f["sent"], f["accepted"], f"{f['cpu_s']:.2f}", f["origin"]) for o, f in found["search"].items()]
    worked = sorted(found["worked"].items(), key=lambda each: -each[1])[:3]
    about = f"""The search starts from worked requests, from requests at the limits of the schema and from what the last
        search found, and mutates what costs most, for
        {found["minutes"]:g} minutes of CPU time. The simulation's caches are empty before each request.
        Of the requests in `tests/api/bodies`, the most expensive take {", ".join(f"{s:.2f} ({n})" for n, s in worked)}
        CPU seconds."""
    head = ("operation", "requests", "accepted", "CPU s of the most expensive", "a mutation of")
    return f"{wrapped(about)}\n\n{table(head, rows)}"


def overload_text(found: Figures) -> str:
    kinds = (("answered", "answered"), ("rejected", "rejected"), ("`/livez` meanwhile", "livez"))
    rows = [(shown, *milliseconds(found[f"{name}_ms"])) for shown, name in kinds]
    mib, after, others = found["mib"], found["answered_right_after"], found["other_statuses"]
    answered = found["sent"] - found["rejected"] - sum(others.values())
    about = f"""New questions arrive for {found["seconds"]:g} s at {found["times"]:g} times the {found["best_per_s"]:g}
        requests/s that one worker answered before: {found["sent"]:,} requests. It answered {answered:,} and rejected
        {found["rejected"]:,}, of which {found["rejected_with_retry_after"]:,} with `Retry-After`; other outcomes:
        {listed(others)}. Memory {mib[0]:,} MiB before and {mib[1]:,} MiB after. Right afterwards it answered {after[0]}
        of {after[1]} requests."""
    return f"{wrapped(about)}\n\n{table(('latency in ms', 'p50', 'p99', 'max'), rows)}"


def sockets_text(found: Figures) -> str:
    rows = [
        (
            name,
            *milliseconds(f["livez_ms"]),
            f["livez_cpu_ms"]["p99"],
            *milliseconds(f["known_ms"]),
            f["known_cpu_ms"]["p99"],
            f["mib"],
            listed(f["failed"]),
            listed(f["connections"]),
        )
        for name, f in found.items()
    ]
    times = ("p99", "max", "CPU p99")
    head = ("attack", "`/livez` p50", *times, "known p50", *times, "MiB", "failed", "attackers")
    about = """One worker. Latency in ms of normal clients during each attack: of health checks and of a question whose
        answer is stored, and the memory of the worker afterwards. CPU is what the worker computed while such a client
        waited: on a machine without other programs the latency is at most that, but for the disk. The attackers have
        another address and run at the lowest priority."""
    return f"{wrapped(about)}\n\n{table(head, rows)}"


def stopping_text(found: Figures) -> str:
    ended = found["ended_s"]
    return wrapped(f"""SIGTERM under load, {found["rounds"]} times, {found["workers"]} workers and {found["clients"]}
        clients on {found["database"]}: {found["lost"]} requests lost, exit status
        {", ".join(map(str, sorted(set(found["exit_statuses"]))))} after {ended[0]:g} to {ended[1]:g} s.""")


def kills_text(found: Figures) -> str:
    return wrapped(f"""{found["kills"]} kills (SIGKILL) of {found["workers"]} workers under load on {found["database"]},
        each {found["whole_every"]}th of the whole service. Clients had received {found["received"]:,} answers,
        {found["in_two_versions"]} of them in two versions. Afterwards, of these and of all {found["stored"]:,} in the
        database: {listed(found["again"])}.""")


def frozen_text(found: Figures) -> str:
    def row(name: str, f: Figures) -> tuple[Any, ...]:
        back = "never" if f["back_s"] is None else f"{f['back_s']:g}"
        return name, f["before_ms"], f["longest_ms"], back, listed(f["answers"])

    about = f"""Every process of PostgreSQL is stopped (SIGSTOP) for {found["seconds"]} s. Memory of the service
        {found["mib"][0]:,} MiB before and {found["mib"][1]:,} MiB after."""
    head = ("request", "longest before, ms", "longest meanwhile, ms", "back after, s", "answers meanwhile")
    return f"{wrapped(about)}\n\n{table(head, [row(*each) for each in found['kinds'].items()])}"


def mutated_text(found: Figures) -> str:
    about = """Valid bodies of every operation that takes one, with other values, with parts removed, added or
        exchanged, or corrupted as text. Rules: no server error but 503 with `Retry-After`, each rejection is a short
        problem document that does not repeat the request, no answer contains NaN or infinity."""
    rows = [
        (kind, f["operations"], f["requests"], listed(f["statuses"]), len(f["broken"])) for kind, f in found.items()
    ]
    return f"{wrapped(about)}\n\n{table(('database', 'operations', 'requests', 'statuses', 'broken rules'), rows)}"


SECTIONS: Mapping[str, tuple[str, Callable[[Figures], str]]] = {
    "dearest": ("The most expensive accepted requests", dearest_text),
    "sockets": ("Attacks while normal clients send requests", sockets_text),
    "overload": ("Overload", overload_text),
    "stopping": ("Stops", stopping_text),
    "kills": ("Kills", kills_text),
    "frozen": ("A database that does not answer", frozen_text),
    "mutated": ("Invalid input", mutated_text),
}


def read_results() -> dict[str, Any]:
    """The results of the last run of each section."""
    found: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    return found


def page(results: Mapping[str, Any]) -> str:
    parts = [HEAD]
    for name, (title, text_of) in SECTIONS.items():
        if name in results:
            ran = results[name]
            parts.append(
                f"## {title}\n\n{text_of(ran['figures'])}\n\nMeasured with release {ran['release']} on {ran['day']}, "
                f"{ran['cores']} cores, load average at the start {ran['load_average']:g}."
            )
    return "\n\n".join([*parts, FURTHER]) + "\n"


def write() -> None:
    """Writes the page from the results."""
    PAGE.write_text(page(read_results()))
