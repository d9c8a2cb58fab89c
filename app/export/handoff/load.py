"""Builds the benchmark that verifies an option: it applies the predicted load with a load generator."""

from __future__ import annotations

import math
import re
from collections.abc import Collection

from app.export.handoff.engines import BY_ENGINE
from app.export.handoff.option import SHELL, File, Option, ReplicaGroup, build_script
from app.sizing.hardware.benchmarks import BENCHMARKS, CHECKED, Places, fill_template
from app.sizing.words import join_words

# What a benchmark reads from the environment, as its script asks for it. Scripts of several machines set the ranks.
VARIABLE = re.compile(r"\$([A-Z][A-Z_]+)")
INPUTS = {
    "BASE_URL": "the address of the API",
    "CONFIG": "the configuration of the trainer for your model",
    "CONFIG_FILE": "a configuration file of the trainer for your model",
    "CONVERTED_DIR": "the folder of the converted weights, which train.sh writes to OUTPUT_DIR/converted",
    "CONF_FILE": "a configuration file of the trainer for your model",
    "DEVICE": "the name of the device in OpenVINO, such as GPU",
    "IMAGES_DIR": "a folder of images",
    "MODEL_NAME": "the name of the model in the trainer",
    "MODULE": "the module of your model in torchtitan, such as llama3",
    "PROMPTS_FILE": "a file of your own traffic, with one JSON object with prompt per line",
    "RECIPE": "the recipe of the trainer for your model",
    "SAMPLE_FILE": "a sample like those of your service: an image, or a recording, of at most 30 s for Transformers",
}
# Scripts of a repository that a benchmark runs, and the folder that has them.
CHECKOUTS = {
    "benchmark.py": "tools/llm_bench of openvinotoolkit/openvino.genai",
    "pretrain_gpt.py": "NVIDIA/Megatron-LM",
    "run_clm.py": "examples/language-modeling of huggingface/optimum-habana",
    "run_generation.py": "examples/text-generation of huggingface/optimum-habana",
    "run_image_classification.py": "examples/pytorch/image-classification of huggingface/transformers",
    "scripts/training/run_recipe.py": "NVIDIA-NeMo/Megatron-Bridge, in NVIDIA's image of NeMo /opt/Megatron-Bridge",
    "run_lora_clm.py": "examples/language-modeling of huggingface/optimum-habana",
    "train_text_to_image.py": "examples/text_to_image of huggingface/diffusers",
    "unsloth-cli.py": "unslothai/unsloth",
}
# Loads that are measured in a library: no generator is known for their servers.
LIBRARY_LOADS = tuple(BENCHMARKS[name].load for name in ("pictures", "passes", "faster-whisper"))
EMBEDDINGS, AT_URL = BENCHMARKS["embeddings"], BENCHMARKS["embeddings-at-url"]
SERVER_LOADS = {EMBEDDINGS.load: AT_URL.load, EMBEDDINGS.reranks: AT_URL.reranks}  # those of a library by the server's
RANKS = ("NODE_RANK", "MASTER_ADDR")
REPORT_NOTE = (
    "# The report stays in benchmark.log. POST /measurements reads it, or the JSON file of a generator that writes one."
)


def input_lines(command: str, known: Collection[str] = RANKS) -> tuple[str, ...]:
    """Lines that stop with a sentence where an input of a benchmark is not set, except those that are known.

    Check:
        >>> input_lines("measure --data $IMAGES_DIR --node-rank $NODE_RANK")
        (': "${IMAGES_DIR:?set it to a folder of images}"',)
    """
    names = dict.fromkeys(name for name in VARIABLE.findall(command) if name not in known)
    return tuple(f': "${{{name}:?set it to {INPUTS[name]}}}"' for name in names)


def checkout_lines(command: str) -> tuple[str, ...]:
    """Lines that stop with a sentence where a benchmark does not run in the repository that has its script.

    Check:
        >>> checkout_lines("python unsloth-cli.py --r 16")[0].split(" ||")[0]
        'test -e unsloth-cli.py'
    """
    return tuple(
        f'test -e {name} || {{ echo "Run this in a checkout that has {name}: {folder}." >&2; exit 2; }}'
        for name, folder in CHECKOUTS.items()
        if f" {name} " in f" {command} "
    )


def benchmark_file(option: Option) -> File:
    """Script that runs one load generator, selected by its argument.

    Compare its report with the performance in the answer.
    """
    group = option.groups[0]
    server = group.server or BY_ENGINE[group.software].server
    places = {**_with_deviations(group.places), "url": f"http://localhost:{server.port}"}
    if option.shared_name is not None:
        places |= {"model": option.shared_name}
    own = _own_load(group)
    generates = "{output}" in own
    commands = {
        "own": own,
        **(
            {"aiperf": BENCHMARKS["aiperf"].load, "guidellm": BENCHMARKS["guidellm"].load}
            if generates
            and not group.places.get("draft_method")  # they send random text
            and not group.places.get("images")
            and group.software != "ollama"  # whose own command first creates the model that it measures
            else {}
        ),
    }
    filled = {name: fill_template(command, places) for name, command in commands.items()}
    checks = {name: (*input_lines(command), *checkout_lines(filled[name])) for name, command in commands.items()}
    cases = (
        f"  {name})\n    {'; '.join((*checks[name], _wrap_flags(command)))}\n    ;;" for name, command in filled.items()
    )
    checked = [release for program, release in CHECKED.items() if any(program in each for each in filled.values())]
    return File(
        "benchmark.sh",
        SHELL,
        build_script(
            option.header_lines,
            "# Run this next to one replica, or next to the router of two pools. The first argument selects the load",
            f"# generator (default: own, the generator of the engine): {', '.join(commands)}.",
            *([f"# Flags of the generators checked in {join_words(checked)}."] if checked else []),
            *([REPORT_NOTE] if generates else []),
            'case "${1:-own}" in',
            *cases,
            f'  *) echo "Unknown generator. Use one of: {", ".join(commands)}." >&2; exit 2 ;;',
            "esac | tee benchmark.log",
        ),
    )


def _own_load(group: ReplicaGroup) -> str:
    """Command of the default generator. Some answers measure the model in a library; embeddings are measured at the
    server instead, and so are streams of tokens.
    """
    if group.server or group.load in LIBRARY_LOADS:
        return group.load
    return SERVER_LOADS.get(group.load, BENCHMARKS["server-at-url"].load)


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
    return re.sub(r" (--[a-z])", r" \\\n      \1", command)
