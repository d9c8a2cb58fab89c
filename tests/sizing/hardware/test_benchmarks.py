"""Benchmark commands: omitted options, quoting, and that each is one line of shell."""

from __future__ import annotations

import shlex
from dataclasses import fields

import pytest

from app.sizing.facts import InvalidFact
from app.sizing.hardware.benchmarks import BENCHMARKS, Benchmark, Server, place_names, quote_value, read_benchmark
from app.sizing.hardware.engines import ENGINES, engine_named

NAMES = ("model", "stem", "tokenizer")


def test_what_has_no_value_is_left_out_with_its_flag() -> None:
    serve = Benchmark("serve {model}[ --tp {tensor}][ --nodes {nodes} --rank $RANK][ --quick{wanted}]")
    assert serve.fill_places({"model": "a/b", "tensor": 2, "nodes": None}) == "serve a/b --tp 2"
    assert serve.fill_places({"model": "a/b", "nodes": 3, "wanted": ""}) == "serve a/b --nodes 3 --rank $RANK --quick"


def test_a_place_that_must_be_filled_is_missed() -> None:
    with pytest.raises(KeyError):
        Benchmark("serve {model}").fill_places({})


@pytest.mark.parametrize(
    ("value", "text"),
    [(3, "3"), (0.9012, "0.901"), ("", ""), ("a b; rm -rf $HOME", "'a b; rm -rf $HOME'"), (True, "True")],
)
def test_values_are_typed_as_a_shell_reads_them_back(value: object, text: str) -> None:
    assert quote_value(value) == text


def test_places_are_found() -> None:
    assert place_names(" --a {one} {two:d}") == {"one", "two"}
    assert place_names(" --a") == set()


def test_a_server_is_waited_for_and_stopped() -> None:
    assert Benchmark("load", Server("serve", port=1, path="up")).command == (
        "serve & until curl -sfo /dev/null localhost:1/up; do sleep 5; done; load; kill $!"
    )


def test_answers_ignore_end_tokens_if_the_server_has_a_flag() -> None:
    assert "--ignore-eos" in BENCHMARKS["vllm"].load
    for name in ("tgi", "ollama", "mistral.rs"):
        assert "--ignore-eos" not in BENCHMARKS[name].load


def test_a_load_reaches_the_port_of_its_server() -> None:
    for benchmark in BENCHMARKS.values():
        if "http://localhost:" in benchmark.load:
            assert benchmark.server and f"http://localhost:{benchmark.server.port}" in benchmark.load


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"load": "serve <flags>"}, "benchmark new: no fragment 'flags'"),
        ({"load": "serve", "server": "none"}, "benchmark new: no server 'none'"),
        ({"load": "serve", "read": "soon"}, "benchmark new: 'read' must be a date"),
        ({"laod": "serve"}, "benchmark new: unknown key 'laod'"),
    ],
)
def test_a_command_that_names_nothing_known_is_refused(table: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidFact, match=said):
        read_benchmark("new", table)


@pytest.mark.parametrize("name", BENCHMARKS)
def test_every_command_is_one_line_that_a_shell_can_split(name: str) -> None:
    command = BENCHMARKS[name].command
    values = {place: "it's $(x) {y} [z]" if place in NAMES else 7 for place in place_names(command)}
    whole = BENCHMARKS[name].fill_places(values)
    needed = place_names(command.split("[")[0] + "".join(outside(command)))
    least = BENCHMARKS[name].fill_places({place: value for place, value in values.items() if place in needed})
    for filled in (whole, least):
        assert "\n" not in filled
        assert shlex.split(filled)[0]
    assert len(least) <= len(whole)


def outside(command: str) -> list[str]:
    """The pieces that stand in no brackets."""
    return [piece.split("]", 1)[-1] for piece in command.split("[")[1:]]


def test_every_engine_and_framework_has_one() -> None:
    assert {field.name for field in fields(engine_named("vllm"))} >= {"benchmark", "one_pass", "trial"}
    own = {e.name for e in ENGINES.values() if e.benchmark is not BENCHMARKS["running-server"]}
    assert own >= {"vllm", "sglang", "tensorrt-llm", "llama.cpp", "mlx", "lmdeploy", "tgi", "openvino", "neuronx"}
    assert engine_named("never heard of").benchmark is BENCHMARKS["running-server"]
    assert engine_named("never heard of").trial is BENCHMARKS["trl"]
