"""Builds the files of a training run: the script with its inputs, the trainer's configuration, and a smoke step."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from app.export.handoff.load import RANKS, checkout_lines, input_lines
from app.export.handoff.option import (
    JSON,
    NETWORKS,
    SHELL,
    YAML,
    File,
    Handoff,
    Option,
    add_header,
    build_script,
    read_script,
    yaml_text,
)
from app.export.handoff.run import LOG_STEPS, Slot, TrainingRun, run_places, training_run
from app.export.handoff.sharding import ACCELERATE, DEEPSPEED, accelerate_config, deepspeed_config
from app.export.handoff.trainers import Trainer
from app.sizing.hardware.benchmarks import fill_template, place_names
from app.sizing.words import format_count, product_name

PYTHON = "text/x-python"
VARIABLE = re.compile(r"\$\{?([A-Z][A-Z_]*)")
ENVIRONMENT = re.compile(r'environ(?:\.get\(|\[)"([A-Z_]+)"')
SEED = 42
NO_SAVE = 1_000_000_000  # steps between checkpoints of the smoke step: none
MEMORY_TOLERANCE = 0.25  # share by which the smoke step may differ from the predicted memory
MIB_PER_GIB = 1024
READS_ADDRESSES = ("axolotl", "maxtext")  # trainers that read data from object storage
# Prints the memory in use on the fullest accelerator in MiB, by vendor.
MEMORY_READERS = {
    "NVIDIA": "nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits | sort -n | tail -n 1",
    "AMD": "rocm-smi --showmeminfo vram --csv | awk -F, 'NR > 1 && $3 + 0 > m { m = $3 } END { print int(m / 2^20) }'",
    "Intel": "hl-smi -Q memory.used -f csv,noheader,nounits | sort -n | tail -n 1",
}
HOST_READER = """\
awk '/^Mem(Total|Available):/ { kib[$1] = $2 } END { print int((kib["MemTotal:"] - kib["MemAvailable:"]) / 1024) }' \
/proc/meminfo"""
# By prefix of the slug, for accelerators that share the memory of their host. nvidia-smi prints [N/A] there
# (leptonai/gpud#1170); on APUs of AMD, what exceeds their own share counts as GTT.
SHARED_MEMORY_READERS = {
    "nvidia-gb10": HOST_READER,
    "nvidia-jetson": HOST_READER,
    "amd-ryzen": "rocm-smi --showmeminfo vram gtt --csv | awk -F, 'NR > 1 && $3 + $5 > m { m = $3 + $5 } END "
    "{ print int(m / 2^20) }'",
}
REQUIRE_RANK = (
    ': "${NODE_RANK:?set it to 0 on the first machine, then 1, 2, ...}" '
    '"${MASTER_ADDR:?set it to the address of the first machine}"'
)
RENDEZVOUS = (
    "# Without this, torchrun finds no first machine if the machines resolve their own names to 127.0.0.1.",
    'export PET_RDZV_CONF="is_host=$((NODE_RANK == 0))"',
)
ABSOLUTE = (
    "# Relative paths are those of the folder in which you start the script.",
    'absolute() { if [[ $1 != /* && ($1 == ./* || $1 == ../* || -e $1) ]]; then echo "$PWD/$1"; else echo "$1"; fi; }',
)
# Variables from which others follow.
SOURCES = {"LOAD_FROM": ("OUTPUT_DIR", "RESUME_FROM"), "CHECKPOINT": ("RESUME_FROM",)}
MEANINGS = {
    "CHAT_TEMPLATE": "a file with a Jinja template; empty: that of the tokenizer",
    "REVISION": "a branch, tag or commit of the repository START_FROM; set a commit to pin it",
}
PATHS = ("DATASET", "START_FROM", "RESUME_FROM", "CHAT_TEMPLATE")


def training_files(option: Option, _version: str | None, target: str) -> Handoff:
    """Files that run a training on one machine, or on each of several."""
    run = training_run(option)
    return Handoff(target, option.rank, run_files(run), training_notes(run))


def run_files(run: TrainingRun) -> tuple[File, ...]:
    """The script, the files that it reads, and the benchmark of the answer."""
    header = run.option.header_lines
    files = [File("train.sh", SHELL, train_script(run))]
    if run.trainer.config:
        text = add_header(header, yaml_text(fill_settings(run.trainer.settings, run_places(run))))
        files.append(File(run.trainer.config, YAML, text))
    if "accelerate.yaml" in run.trainer.command:
        files.append(File(ACCELERATE, YAML, add_header(header, yaml_text(accelerate_config(run)))))
    if run.uses_deepspeed:
        files.append(File(DEEPSPEED, JSON, json.dumps(deepspeed_config(run), indent=2) + "\n"))
    files.extend(File(name, PYTHON, read_script(source)) for name, source in run.trainer.scripts.items())
    if _reads_variables(run.trainer):
        files.append(File("fill_config.py", PYTHON, read_script("fill_config.py")))
    return (*files, benchmark_script(run))


def fill_settings(settings: Mapping[str, Any], places: Mapping[str, Any]) -> dict[str, Any]:
    """Configuration with its places filled. A key whose place has no value is left out, as is an empty group.

    Check:
        >>> fill_settings({"a": "{x}", "b": "{y}", "c": {"d": "{y}"}, "e": 1}, {"x": 2})
        {'a': 2, 'e': 1}
    """
    filled: dict[str, Any] = {}
    for key, template in settings.items():
        if isinstance(template, Mapping):
            value: Any = fill_settings(template, places) or None
        elif isinstance(template, str) and (names := place_names(template)):
            value = places.get(names.pop())
        else:
            value = template
        if value is not None:
            filled[key] = value
    return filled


def train_script(run: TrainingRun) -> str:
    """Script of the run. With --smoke it runs two steps and compares their memory with the prediction."""
    group = run.group
    many = (REQUIRE_RANK, *(RENDEZVOUS if run.trainer.launcher == "torchrun" else ())) if group.machines > 1 else ()
    about = (
        f"# {group.accelerators} x {group.accelerator} on {format_count(group.machines, 'machine')}, "
        f"{product_name(run.option.software)}. Run it on every machine: first with --smoke, then without.",
    )
    used = used_variables(run)
    converted = ('export CONVERTED_DIR="$OUTPUT_DIR/converted"',) if "CONVERTED_DIR" in used else ()
    prepared = ('export PREPARED_DIR="$OUTPUT_DIR/prepared"',) if "PREPARED_DIR" in used else ()
    return build_script(
        run.option.header_lines,
        *about,
        "",
        "# Inputs and outputs. A line with :? stops with a sentence until you set the variable.",
        *slot_lines(run.slots(), run.trainer.may_be_empty),
        "",
        "# Sized by Headroom.",
        *_sized_lines(run, used),
        "",
        *many,
        *_local_data_line(run),
        *ABSOLUTE,
        *(f'{name}="$(absolute "${name}")"' for name in PATHS if name != "CHAT_TEMPLATE" or name in used),
        '[[ $OUTPUT_DIR == /* || $OUTPUT_DIR == *://* ]] || OUTPUT_DIR="$PWD/$OUTPUT_DIR"',
        'cd "$(dirname "${BASH_SOURCE[0]}")"',
        *converted,
        *prepared,
        *smoke_setup(run),
        '[[ $OUTPUT_DIR == *://* ]] || mkdir -p "$OUTPUT_DIR"',
        *_derived_lines(used),
        *run.trainer.prepare,
        *(
            (f'python3 fill_config.py {run.trainer.config} > "$RUN_DIR/{run.trainer.config}"',)
            if _reads_variables(run.trainer)
            else ()
        ),
        "train=(",
        *wrap_words(fill_template(run.trainer.command, run_places(run))),
        ")",
        *smoke_check(run),
        'exec "${train[@]}"',
    )


def _local_data_line(run: TrainingRun) -> tuple[str, ...]:
    """Line that stops at an address of object storage, which most trainers do not read."""
    if run.trainer.name.startswith(READS_ADDRESSES):
        return ()
    return (
        f'[[ $DATASET != *://* ]] || {{ echo "DATASET is the address $DATASET. Download or mount the data. It takes '
        f'{run.trainer.data}." >&2; exit 2; }}',
    )


def slot_lines(slots: Sequence[Slot], may_be_empty: Sequence[str] = ()) -> Iterator[str]:
    """Lines that set the inputs and outputs, quoted, or stop with what they are."""
    for slot in slots:
        if slot.value is None:
            colon = "" if slot.name in may_be_empty else ":"
            yield f'export {slot.name}="${{{slot.name}{colon}?set it to {slot.meaning}}}"'
        else:
            yield f"export {slot.name}={shlex.quote(slot.value)}"


def used_variables(run: TrainingRun) -> frozenset[str]:
    """Variables that the command, its preparation, its configuration and its scripts read."""
    trainer, places = run.trainer, run_places(run)
    settings = json.dumps(fill_settings(trainer.settings, places))
    texts = (fill_template(trainer.command, places), *trainer.prepare, settings)
    scripts = (read_script(name) for name in trainer.scripts.values())
    found = {name for text in texts for name in VARIABLE.findall(text)}
    found |= {name for text in scripts for name in ENVIRONMENT.findall(text)}
    return frozenset(found.union(*(SOURCES.get(name, ()) for name in found)))


def overridable_variables(run: TrainingRun) -> tuple[str, ...]:
    """Variables with a value of the answer that a run may override."""
    used = used_variables(run)
    return tuple(name for name in _sized_values(run) if name in used)


def _sized_values(run: TrainingRun) -> dict[str, str | int]:
    """Values of the answer by variable."""
    group = run.group
    return {
        **({} if run.option.handoff.get("resume_from") else {"RESUME_FROM": "auto"}),
        "STEPS": run.steps,
        "SAVE_STEPS": run.save_steps,
        "WARMUP_STEPS": run.warmup_steps,
        "LOG_STEPS": LOG_STEPS,
        "SEED": SEED,
        "ACCUMULATED": group.int_place("accumulated"),
        "MACHINES": group.machines,
        "PER_MACHINE": group.per_machine,
        "RECOMPUTATION": run.recomputes,
        "DATA_KIND": "text" if run.pretrains else "conversations",
        "DATASET_SPLIT": "train",
        "REVISION": "main",
        "CHAT_TEMPLATE": "",
    }


def _sized_lines(run: TrainingRun, used: frozenset[str]) -> Iterator[str]:
    """Values of the answer, as variables that a run may override, if the trainer reads them."""
    for name, value in _sized_values(run).items():
        if name in used:
            about = f"  # {MEANINGS[name]}" if name in MEANINGS else ""
            yield f'export {name}="${{{name}:-{value}}}"{about}'


def _derived_lines(used: frozenset[str]) -> Iterator[str]:
    """Variables that follow from the inputs, if the trainer reads them."""
    if "RUN_DIR" in used:
        yield 'RUN_DIR="$(mktemp -d)"'
        yield "export RUN_DIR"
    if "LOAD_FROM" in used:
        yield 'LOAD_FROM="$OUTPUT_DIR"'
        yield '[[ $RESUME_FROM == auto ]] || LOAD_FROM="$RESUME_FROM"'
    if "CHECKPOINT" in used:
        yield 'export CHECKPOINT="" AUTO_RESUME=true'
        yield '[[ $RESUME_FROM == auto ]] || export CHECKPOINT="$RESUME_FROM" AUTO_RESUME=false'


def _reads_variables(trainer: Trainer) -> bool:
    """Whether the configuration file has variables that the script fills."""
    return "$" in json.dumps(trainer.settings)


def smoke_setup(run: TrainingRun) -> tuple[str, ...]:
    """Lines that turn the run into its smoke step: two steps into a folder of their own, from the base checkpoint. A
    benchmark takes more steps.
    """
    measured = (
        "elif [[ ${1:-} == --benchmark ]]; then",
        f"  export STEPS={run.group.int_place('steps')} SAVE_STEPS={NO_SAVE} WARMUP_STEPS=1 RESUME_FROM=auto "
        'OUTPUT_DIR="$OUTPUT_DIR/benchmark"',
        '  [[ ${NODE_RANK:-0} != 0 ]] || rm -rf "$OUTPUT_DIR"',
    )
    return (
        "if [[ ${1:-} == --smoke || -n ${SMOKE:-} ]]; then",
        f'  export SMOKE=1 STEPS=2 SAVE_STEPS={NO_SAVE} WARMUP_STEPS=1 RESUME_FROM=auto OUTPUT_DIR="$OUTPUT_DIR/smoke"',
        '  [[ ${NODE_RANK:-0} != 0 ]] || rm -rf "$OUTPUT_DIR"',
        *(measured if run.trainer.measures_itself else ()),
        "fi",
    )


def memory_reader(run: TrainingRun) -> str | None:
    """Command that prints the used memory of the fullest accelerator in MiB; None if there is none."""
    shared = (reader for start, reader in SHARED_MEMORY_READERS.items() if run.group.sku.startswith(start))
    return next(shared, MEMORY_READERS.get(run.group.vendor))


def smoke_check(run: TrainingRun) -> tuple[str, ...]:
    """Lines that run the smoke step and compare its peak memory with the prediction."""
    reader, predicted = memory_reader(run), run.predicted_gib
    if reader is None or predicted is None:
        why = "The answer predicts no memory" if reader else "No tool reads the memory of this accelerator"
        after = (
            '  "${train[@]}"',
            f'  echo "Two steps ran. {why}: compare the log with the answer."',
            "  exit",
        )
        return ("if [[ -n ${SMOKE:-} ]]; then", *after, "fi")
    low, high = (round(predicted * MIB_PER_GIB * (1 + sign * MEMORY_TOLERANCE)) for sign in (-1, 1))
    percent = f"{MEMORY_TOLERANCE:.0%}".replace("%", " %")
    return (
        "if [[ -n ${SMOKE:-} ]]; then",
        f"  used_mib() {{ {reader}; }}",
        '  before="$(used_mib || echo 0)" peak=0',
        '  "${train[@]}" & run=$!',
        '  while kill -0 "$run" 2> /dev/null; do',
        '    now="$(used_mib || echo 0)"',
        "    (( now - before > peak )) && peak=$(( now - before ))",
        "    sleep 1",
        "  done",
        '  wait "$run" || { echo "The smoke step failed. The messages above say why." >&2; exit 1; }',
        f'  echo "Two steps ran. Peak memory: $peak MiB; predicted: {round(predicted * MIB_PER_GIB)} MiB."',
        f'  (( peak <= {high} )) || {{ echo "This is over {percent} above the prediction: the run may fail later. '
        'Reduce the micro-batch or recompute activations." >&2; exit 1; }',
        f'  (( peak >= {low} )) || {{ echo "This is over {percent} below the prediction: check model, precision and '
        'sequence length, or use a larger micro-batch." >&2; exit 1; }',
        "  exit",
        "fi",
    )


def wrap_words(command: str) -> list[str]:
    """Words of a command for an array, one option with its value per line.

    Check:
        >>> wrap_words('run x.py --a 1 --b="$C D" e.f=2')
        ['  run x.py', '  --a 1', '  --b="$C D"', '  e.f=2']
    """
    return [f"  {part}" for part in re.split(r" (?=--[A-Za-z]|[a-z_][\w.]*=)", command)]


def benchmark_script(run: TrainingRun) -> File:
    """Script of the answer's benchmark: the first steps on synthetic or public data. Where that runs another tool than
    the run, these are steps of the run.
    """
    group, header = run.group, run.option.header_lines
    if run.trainer.measures_itself:
        about = "# The first steps of train.sh, on its inputs. Compare their time with that of the answer."
        return File(
            "benchmark.sh",
            SHELL,
            build_script(header, about, 'exec bash "$(dirname "${BASH_SOURCE[0]}")/train.sh" --benchmark'),
        )
    many = (REQUIRE_RANK,) if group.machines > 1 else ()
    filled = fill_template(group.load, {**run_places(run), **group.places})
    command = re.sub(r" (--[a-z])", r" \\\n  \1", filled)
    known = [slot for slot in run.slots() if slot.value and f"${slot.name}" in group.load]
    inputs = input_lines(filled, (*RANKS, *(slot.name for slot in known)))
    lines = (*many, *slot_lines(known), *inputs, *checkout_lines(filled))
    about = "# The benchmark of the answer, on synthetic or public data. It saves nothing that you need."
    return File("benchmark.sh", SHELL, build_script(header, about, *lines, command))


def training_notes(
    run: TrainingRun,
    *,
    smoke: str = "Run bash train.sh --smoke",
    again: str = "Start train.sh",
    set_by_job: Sequence[str] = (),
    installs: bool = False,
) -> tuple[str, ...]:
    """Notes: what to set, how many tokens the steps take, where the run resumes, and what to install.

    Parameters:
        smoke: how the smoke step runs, as an imperative.
        again: what starts the run again after a failure, as a clause.
        set_by_job: variables that the job sets.
        installs: whether the job installs the packages.
    """
    open_slots = [slot.name for slot in run.slots() if slot.value is None and slot.name not in set_by_job]
    group = run.group
    accumulated = group.int_place("accumulated")
    is_read = memory_reader(run) is not None and run.predicted_gib is not None
    off = f" and fails if their memory is more than {round(100 * MEMORY_TOLERANCE)} % off the prediction"
    compared = off if is_read else "; no tool reads the memory of this accelerator"
    notes = [
        f"train.sh asks for {', '.join(open_slots)}." if open_slots else "train.sh has every input and output.",
        f"The run takes {run.steps:,} steps of {run.batch:,} sequences: micro-batches of "
        f"{group.int_place('micro_batch')}, {accumulated} accumulated, on "
        f"{format_count(run.data_ranks, 'data-parallel rank')}. It reads the data again if they are shorter.",
        f"It saves a checkpoint every {run.save_steps:,} steps. {again} again to resume from the last one.",
        f"{smoke} first. The smoke step runs two steps{compared}.",
    ]
    if group.machines > 1:
        notes.append(NETWORKS)
    if run.pretrains and run.option.handoff.get("base_checkpoint") and not run.trainer.starts_from_weights:
        notes.append(
            f"{product_name(run.option.software)} starts this run from random weights; START_FROM names configuration "
            "and tokenizer only."
        )
    if run.trainer.install and not installs:
        notes.append(f"Install: pip install {install_packages(run)}.")
    return tuple(notes)


def install_packages(run: TrainingRun) -> str:
    """Packages to install besides PyTorch."""
    return fill_template(run.trainer.install, {k: v for k, v in run_places(run).items() if v == "" or k == "mlx_extra"})
