"""Benchmark commands: omitted options, quoting, and that each is one line of shell."""

from __future__ import annotations

import shlex
from dataclasses import fields

import pytest

from app.sizing.hardware import benchmarks
from app.sizing.hardware.benchmarks import Benchmark, Server, openai_load, place_names, quote_value, url_of
from app.sizing.hardware.engines import ENGINES, engine_named

NAMES = ("model", "stem", "tokenizer")
ALL = {name: value for name, value in vars(benchmarks).items() if isinstance(value, Benchmark)}


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
    assert url_of(8080) == " --base-url http://localhost:8080"


def test_answers_ignore_end_tokens_if_the_server_has_a_flag() -> None:
    assert "--ignore-eos" in openai_load()
    assert "--ignore-eos" not in openai_load(stops=True)
    assert "--model measured " in openai_load(model="measured")


@pytest.mark.parametrize("name", ALL)
def test_every_command_is_one_line_that_a_shell_can_split(name: str) -> None:
    command = ALL[name].command
    values = {place: "it's $(x) {y} [z]" if place in NAMES else 7 for place in place_names(command)}
    whole = ALL[name].fill_places(values)
    needed = place_names(command.split("[")[0] + "".join(outside(command)))
    least = ALL[name].fill_places({place: value for place, value in values.items() if place in needed})
    for filled in (whole, least):
        assert "\n" not in filled
        assert shlex.split(filled)[0]
    assert len(least) <= len(whole)


def outside(command: str) -> list[str]:
    """The pieces that stand in no brackets."""
    return [piece.split("]", 1)[-1] for piece in command.split("[")[1:]]


def test_every_engine_and_framework_has_one() -> None:
    assert {field.name for field in fields(engine_named("vllm"))} >= {"benchmark", "one_pass", "trial"}
    own = {e.name for e in ENGINES.values() if e.benchmark is not benchmarks.RUNNING}
    assert own >= {"vllm", "sglang", "tensorrt-llm", "llama.cpp", "mlx", "lmdeploy", "tgi", "openvino", "neuronx"}
    assert engine_named("never heard of").benchmark is benchmarks.RUNNING
    assert engine_named("never heard of").trial is benchmarks.TRL
