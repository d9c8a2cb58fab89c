"""Benchmark commands for each engine and framework, with the flags of the software.

A command is a template with places. A part in brackets is left out if one of its places has no value. The commands
are rows of `app/sizing/data/benchmarks.toml`, which states their sources.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from string import Formatter
from typing import Any

from app.sizing.facts import InvalidFact, build, read_toml, require_source

FILE = "benchmarks.toml"
FRAGMENT = r"<(\w+)>"
Places = Mapping[str, object]
BRACKETS = r"\[([^\[\]]*)\]"
READY = " & until curl -sfo /dev/null localhost:{port}/{path}; do sleep 5; done; "
STOP = "; kill $!"


@dataclass(frozen=True, slots=True)
class Server:
    """How to start an engine: the command, its port, and the path that answers once the server is ready.

    `drafting` maps ways to draft tokens to the names that the engine gives them.
    """

    command: str
    port: int = 8000
    path: str = "health"
    drafting: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A benchmark: the load command and the server it needs, if any.

    `converts` and `caches` map the weight and cache formats that the engine creates itself from a published
    checkpoint to its own names. `hardware` and `fp8` map the maker of the accelerators to the name that the software
    gives its kind of hardware and its FP8 kernels. `tunes` is true if the command can fine-tune. `counts` says
    how to compute the predicted rate from the report, if the report does not print it. `own_prompts` is the load with
    prompts of the user, `images` the load with images in each prompt, and `reranks` the load with pairs of texts; empty
    if there is none.
    """

    load: str
    server: Server | None = None
    converts: Mapping[str, str] = field(default_factory=dict)
    caches: Mapping[str, str] = field(default_factory=dict)
    hardware: Mapping[str, str] = field(default_factory=dict)
    fp8: Mapping[str, str] = field(default_factory=dict)
    tunes: bool = True
    counts: str = ""
    own_prompts: str = ""
    images: str = ""
    reranks: str = ""

    @property
    def command(self) -> str:
        """The whole command in one line: start the server, wait until it is ready, apply the load, stop the server."""
        if self.server is None:
            return self.load
        started = self.server
        return started.command + READY.format(port=started.port, path=started.path) + self.load + STOP

    def fill_places(self, places: Places) -> str:
        return fill_template(self.command, places)


def draft_limit(method: str) -> str:
    """Setting of TensorRT-LLM for the number of draft tokens: MTP ignores max_draft_len.

    Source: tensorrt_llm/llmapi/llm_args.py, MTPDecodingConfig; read 2026-11-27.
    """
    return "num_nextn_predict_layers" if method == "mtp" else "max_draft_len"


# Matrices of a layer that adapters change, as TensorRT-LLM names them; it does not start without such a list.
# Source: TensorRT-LLM 1.2.1, tensorrt_llm/lora_helper.py and _torch/pyexecutor/_util.py; read 2026-11-28.
ADAPTED_MODULES = ("attn_q", "attn_k", "attn_v", "attn_dense", "mlp_h_to_4h", "mlp_4h_to_h", "mlp_gate")


def fill_template(command: str, places: Places) -> str:
    """A command template with its places filled; values are quoted for the shell.

    Check:
        >>> fill_template("serve {model}[ --tp {tensor}][ --kv {cache}]", {"model": "a b", "tensor": 2})
        "serve 'a b' --tp 2"
    """
    known = {name: quote_value(value) for name, value in places.items() if value is not None}
    pieces = re.sub(BRACKETS, lambda found: found[1] if place_names(found[1]) <= known.keys() else "", command)
    return pieces.format_map(known)


def place_names(text: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(text) if name is not None}


def quote_value(value: object) -> str:
    """A value quoted for the shell, fractions with three digits; an empty value keeps its part of the command.

    Check:
        >>> quote_value(1581.2), quote_value("a b")
        ('1580', "'a b'")
    """
    text = f"{float(f'{value:.3g}'):.15g}" if isinstance(value, float) else str(value)
    return shlex.quote(text) if text else ""


def _expand_fragments(command: str, where: str) -> str:
    """A command with each `<name>` replaced by the fragment of that name."""
    for name in re.findall(FRAGMENT, command):
        if name not in FRAGMENTS:
            raise InvalidFact(f"{where}: no fragment {name!r}. Fragments: {', '.join(FRAGMENTS)}.")
    return re.sub(FRAGMENT, lambda found: FRAGMENTS[found[1]], command)


def _read_server(name: str, table: Mapping[str, Any]) -> Server:
    server = build(Server, table, where=f"{FILE}, server {name}")
    return replace(server, command=_expand_fragments(server.command, f"{FILE}, server {name}"))


def read_benchmark(name: str, table: Mapping[str, Any]) -> Benchmark:
    where = f"{FILE}, benchmark {name}"
    require_source({"source": _TABLES["source"], "read": _TABLES["read"], **table}, where=where)
    server = table.get("server")
    if server is not None and server not in SERVERS:
        raise InvalidFact(f"{where}: no server {server!r}. Servers: {', '.join(SERVERS)}.")
    benchmark = build(Benchmark, {**table, "server": SERVERS.get(server or "")}, where=where)
    names = ("load", "own_prompts", "images", "reranks")
    loads: dict[str, Any] = {name: _expand_fragments(getattr(benchmark, name), where) for name in names}
    return replace(benchmark, **loads)


_TABLES = read_toml(FILE)
FRAGMENTS: Mapping[str, str] = _TABLES["fragments"]
CHECKED: Mapping[str, str] = _TABLES["checked"]  # release in which the flags of a load generator were checked
SERVERS: Mapping[str, Server] = {name: _read_server(name, table) for name, table in _TABLES["servers"].items()}
BENCHMARKS: Mapping[str, Benchmark] = {
    name: read_benchmark(name, table) for name, table in _TABLES["benchmarks"].items()
}
