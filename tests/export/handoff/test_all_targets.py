"""Options of every engine and trainer through every target: no open slot, no silent default, no unknown flag."""

from __future__ import annotations

import contextlib
import re
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from app.errors import Unanswerable
from app.export.handoff.engines import BY_ENGINE
from app.export.handoff.option import Handoff, Option
from app.export.handoff.run import training_run
from app.export.handoff.serving import plan_launches
from app.export.handoff.targets import RUN_TARGETS, TARGETS, build_files
from app.export.handoff.trainers import TRAINERS
from app.export.handoff.training import used_variables
from app.sizing.hardware.benchmarks import BENCHMARKS, CHECKED, place_names
from app.sizing.hardware.pool_servers import POOL_SERVERS
from tests.export.handoff.emitted import emitted, handed_values, unknown_flags, unknown_in_shell
from tests.export.handoff.runs import RUNS
from tests.export.handoff.stored import pooled, served
from tests.export.handoff.test_serving import HOST_CACHE, LAYOUTS, drafting

NAMES = tomllib.loads((Path(__file__).parent / "tool_names.toml").read_text())
SERVERS = {
    "vllm": "vllm serve",
    "sglang": "python -m sglang.launch_server",
    "tensorrt-llm": "trtllm-serve",
    "llama.cpp": "llama-server",
    "lmdeploy": "lmdeploy serve api_server",
    "tgi": "text-generation-launcher",
    "text-embeddings-inference": "text-embeddings-router",
    "mlx": "mlx_lm.server",
    "ctranslate2": "serve_samples.py speech",
    "diffusers": "serve_samples.py pictures",
    "pytorch": "serve_samples.py passes",
}
TOOLS = {tuple(start.split()): frozenset(BY_ENGINE[engine].flags) for engine, start in SERVERS.items()}
TOOLS |= {tuple(start.split()): frozenset(each["names"].split()) for start, each in NAMES["programs"].items()}
TOOLS["python3", "-m", "dynamo.vllm"] |= TOOLS["vllm", "serve"]
SERVICE_TARGETS = [name for name in TARGETS if name not in BY_ENGINE]
# Slots of a run that its script must fill, or stop at with a sentence.
SLOTS = ("DATASET", "START_FROM", "OUTPUT_DIR", "LEARNING_RATE", "STEPS", "SAVE_STEPS")
RESUMES = {"RESUME_FROM", "LOAD_FROM", "CHECKPOINT"}
SET = re.compile(r"^export ([A-Z_]+)=(.*)$", re.MULTILINE)
STOPS = re.compile(r'"\$\{[A-Z_]+:\?set it to [^"\x27`$}]+\}"')
SET_OUTSIDE = {"SMOKE", "WORLD_SIZE", "PWD", "PYTHONPATH", "NODE_RANK", "MASTER_ADDR"}


def services() -> Iterator[Option]:
    """Every engine in every layout that it serves."""
    for engine, launch in BY_ENGINE.items():
        yield served(engine, maker="Apple" if engine == "mlx" else "NVIDIA", batch_tokens=23_100)
        if not launch.single_machine:
            yield from (served(engine, **places) for places in LAYOUTS[1:])
            yield served(engine, conversion="fp8", cache="fp8", **HOST_CACHE)
            yield served(engine, **drafting(engine, "mtp"))
            yield pooled(engine)


def open_slots(option: Option, made: Handoff) -> Iterator[str]:
    """Slots of a run that are empty without a sentence, and variables that are read and never set."""
    text, used = text_of(made, "train.sh"), used_variables(training_run(option))
    values = dict(SET.findall(text))
    yield from (f"{name} is never read" for name in SLOTS if name not in used)
    for name in SLOTS:
        if not values.get(name) or (":?" in values[name] and not STOPS.fullmatch(values[name])):
            yield name
    if not used & RESUMES:
        yield "resume from"
    unset = (name for name in used - SET_OUTSIDE if not re.search(rf"\b{name}=|\$\{{{name}:[?-]", text))
    yield from (f"{name} is never set" for name in unset)


def silent_defaults(option: Option, made: Handoff, keys: set[str]) -> Iterator[str]:
    """Defaults of a trainer that neither its command nor its configuration sets; those of a server without a note.

    Parameters:
        keys: flags and keys that the command of the run sets.
    """
    if not option.is_training:
        part = plan_launches(option, None)[0]
        stated = " ".join(made.notes)
        yield from (name for name in part.launch.defaults if name not in (*part.command_tokens, *stated.split()))
        return
    run = training_run(option)
    # benchmark.sh is no run: it may train on public data.
    handed = " ".join(file.text for file in made.files if file.name != "benchmark.sh")
    keys = keys | set(re.findall(r"(?m)^ *(?:- )?([a-z_]\w*):", handed))
    keys |= {f"titan_run.py: {name}" for name in re.findall(r"config\.(\w+)(?:\.\w+)? =", handed)}
    passed = r"\b(max_steps|save_steps|every_n_train_steps|learning_rate|warmup_steps|seed|random_state)="
    keys |= set(re.findall(passed, handed))
    adapters_only = {"lora_rank", "lora_r", "target_modules"} if run.trains in ("full", "pretrain") else set()
    script_only = {"--dataset_name": "DATA_FLAG", "--dataset_concatenation": "--block_size"}
    for key in run.trainer.defaults:
        if key not in keys | adapters_only and script_only.get(key, "-") not in handed:
            yield key


def text_of(made: Handoff, name: str) -> str:
    return next(file.text for file in made.files if file.name == name)


def packages(option: Option, targets: Iterable[str]) -> Iterator[Handoff]:
    """Packages of the targets that can start an option."""
    for target in targets:
        with contextlib.suppress(Unanswerable):
            yield build_files(option, target, None)


def test_no_target_leaves_a_slot_a_silent_default_or_an_unknown_flag() -> None:
    every = {name.rsplit("-", 1)[0]: name for name in RUNS}  # the largest run of each trainer, engine and method
    options = [*services(), *(RUNS[name] for name in every.values())]
    rest = [option for name, option in RUNS.items() if name not in every.values()]
    made = [(o, p) for o in options for p in packages(o, RUN_TARGETS if o.is_training else SERVICE_TARGETS)]
    made += [(option, package) for option in rest for package in packages(option, ("shell",))]
    faults = set()
    for option, package in made:
        found = [fault for file in package.files for fault in unknown_flags(file, TOOLS)]
        if package.target == "shell":
            handed = emitted(package) if option.is_training else set()
            found += silent_defaults(option, package, handed)
            if option.is_training:
                known = NAMES["tools"][training_run(option).trainer.name]["names"].split()
                found += [*open_slots(option, package), *(handed - {*known})]
        faults |= {f"{option.software}, {package.target}: {fault}" for fault in found}
    assert not faults, sorted(faults)
    assert len(options) >= 60
    assert len(made) >= 600


@pytest.mark.parametrize("name", NAMES["choices"])
def test_no_launcher_hands_over_a_value_that_its_tool_refuses(name: str) -> None:
    chosen = {each: set(names.split()) for each, names in NAMES["choices"][name].items() if each != "source"}
    if name in TRAINERS:
        trainer = TRAINERS[name]
        optimizer = next(each for each in chosen if each.strip("-") in ("optimizer", "opt_type"))
        handed = {(optimizer, each) for each in (*trainer.optimizers.values(), *trainer.fused.values())}
        runs = [option for option in RUNS.values() if training_run(option).trainer.name == name]
        handed |= {pair for run in runs for pair in handed_values(build_files(run, "shell", None)) if pair[0] in chosen}
    else:
        used, server = BENCHMARKS[name], BY_ENGINE[name].server
        tables = {"conversion": used.converts, "cache": used.caches, "drafting": server.drafting}
        placed = place_names(server.command) & {*tables}
        handed = {(each, str(value)) for each in placed for value in tables[each].values()}
        assert placed == {*chosen}
    assert handed
    assert not {f"{each} {value}" for each, value in handed if value not in chosen[each] and value[0] != "$"}


@pytest.mark.parametrize("place", ["load", "own_prompts", "reranks"])
def test_no_benchmark_of_an_answer_has_an_unknown_flag(place: str) -> None:
    for name, benchmark in BENCHMARKS.items():
        template = re.sub(r"[\[\]]|(?<=\w)\{\w+\}", " ", getattr(benchmark, place))
        assert not [*unknown_in_shell(re.sub(r"\{\w+\}", "fp16", template), TOOLS)], name
    for name, pools in POOL_SERVERS.items():
        assert not [*unknown_in_shell(pools.router, TOOLS)], name


def test_files_name_the_release_in_which_the_flags_of_a_generator_were_checked() -> None:
    for program, release in CHECKED.items():
        (start,) = (each for each in NAMES["programs"] if program in each)
        assert NAMES["programs"][start]["source"].startswith(release)
    made = build_files(served(), "kubernetes", None)
    assert "# Flags and settings checked in vLLM 0.33.0: " in made.files[0].text
    assert "# Flags of the generators checked in vLLM 0.33.0, AIPerf 0.13.0 and GuideLLM 0.8.1." in text_of(
        made, "benchmark.sh"
    )
    run: Any = build_files(RUNS["trl-trl-lora-1"], "shell", None)
    assert "# Flags and settings checked in trl 1.16.0: " in text_of(run, "train.sh")
