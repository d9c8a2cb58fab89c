"""Runs: each trains on the data of the user, from a checkpoint, saves as sized and resumes, with no silent default."""

from __future__ import annotations

import ast
import json
import math
import os
import re
import shlex
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import yaml
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from app.export.handoff.option import File, Handoff, Option
from app.export.handoff.run import run_places, training_run
from app.export.handoff.targets import build_files, build_handoff
from app.export.handoff.trainers import TRAINERS, NoLauncher, find_trainer
from app.export.handoff.training import slot_lines, used_variables
from tests.export.handoff.emitted import check_scripts
from tests.export.handoff.runs import LARGE_MODEL, MODEL, PERFORMANCE, RUNS, run_option

SET = re.compile(r"^export ([A-Z_]+)=(.*)$", re.MULTILINE)
ALL = pytest.mark.parametrize("option", RUNS.values(), ids=RUNS)


def text_of(made: Handoff, name: str = "train.sh") -> str:
    return next(file.text for file in made.files if file.name == name)


def files_of(option: Option) -> Handoff:
    """Files of the run itself."""
    return build_files(option, "shell", None)


def script(option: Option) -> str:
    return text_of(files_of(option))


def command(option: Option) -> list[str]:
    """Words of the training command."""
    return shlex.split(script(option).split("train=(\n", 1)[1].split("\n)\n", 1)[0])


def value_after(words: list[str], flag: str) -> str:
    return words[words.index(flag) + 1]


def test_scripts_are_valid_bash_and_python(tmp_path: Path) -> None:
    files = [file for option in RUNS.values() for file in files_of(option).files]
    check_scripts(tmp_path, *{file.text for file in files if file.media_type == "application/x-sh"})
    for name, text in {(file.name, file.text) for file in files}:
        if name.endswith(".py"):
            compile(text, name, "exec")
        elif name.endswith((".yaml", ".json")):
            assert yaml.safe_load(text)


def test_the_benchmark_of_a_run_says_which_checkout_it_needs() -> None:
    text = text_of(files_of(RUNS["unsloth-unsloth-lora-1"]), "benchmark.sh")
    done = subprocess.run(["bash"], input=text, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (
        2,
        "Run this in a checkout that has unsloth-cli.py: unslothai/unsloth.\n",
    )
    # A command that begins with variables is none that exec could start.
    assert "exec" not in text_of(files_of(RUNS["optimum-habana-optimum-habana-lora-8"]), "benchmark.sh")


# What the command or the scripts of each trainer name.
TOOLS = {
    "trl": r"\btrl\b",
    "unsloth": r"\bunsloth\b",
    "lightning": r"\blightning\b",
    "axolotl": r"\baxolotl train\b",
    "llama-factory": r"\bllamafactory-cli train\b",
    "torchtune": r"\btune run\b",
    "torchtitan": r"\btorchtitan\b",
    "megatron": r"\bpretrain_gpt\.py\b",
    "megatron-bridge": r"\brun_recipe\.py --recipe \"?\$RECIPE\b",
    "megatron-bridge-sft": r"\brun_recipe\.py --recipe \"?\$RECIPE\b",
    "maxtext": r"\bmaxtext\.trainers\.pre_train\.train\b",
    "maxtext-sft": r"\bmaxtext\.trainers\.post_train\.sft\.train_sft\b",
    "mlx": r"\bmlx_lm\.lora\b",
    "optimum-habana": r"gaudi_spawn\.py",
}


@ALL
def test_the_benchmark_of_a_run_runs_its_tool(option: Option) -> None:
    made, trainer = files_of(option), training_run(option).trainer
    tool = re.compile(TOOLS[trainer.name].replace(" ", r"[\s\\]+"))
    texts = {file.name: re.sub(r"(?m)^#.*$", "", file.text) for file in made.files}
    measured = texts.pop("benchmark.sh")
    assert any(tool.search(text) for text in texts.values())
    assert bool(tool.search(measured)) is not trainer.measures_itself
    assert ('/train.sh" --benchmark' in measured) is trainer.measures_itself


def test_a_benchmark_by_the_run_itself_leaves_its_checkpoints_alone() -> None:
    text = script(RUNS["lightning-lightning-lora-8"])
    assert "--benchmark ]]; then\n  export STEPS=50 " in text
    assert 'RESUME_FROM=auto OUTPUT_DIR="$OUTPUT_DIR/benchmark"' in text


@ALL
def test_accelerators_of_a_run_are_those_that_were_sized(option: Option) -> None:
    words, group = command(option), option.groups[0]
    if "--nproc-per-node" in words:
        machines = int(value_after(words, "--nnodes")) if "--nnodes" in words else 1
        assert int(value_after(words, "--nproc-per-node")) * machines == group.accelerators
    if "--num_processes" in words:
        assert int(value_after(words, "--num_processes")) == group.accelerators
        assert yaml.safe_load(text_of(files_of(option), "accelerate.yaml"))["num_processes"] == (group.accelerators)


def test_checkpoints_come_at_the_sized_interval() -> None:
    run = training_run(run_option("megatron", "pretrain", machines=2, accelerators=16))
    assert run.save_steps == 70  # 39.2 minutes x 60 / 33.6 s
    assert run.kept_checkpoints == 3  # 0.3 TB of 100 GB
    short = training_run(run_option("trl", "lora", all_steps=20))
    assert short.save_steps == 20  # a run that ends before its first interval saves at its end
    untimed = training_run(run_option("trl", "lora", performance={}, all_steps=1000))
    assert (untimed.save_steps, untimed.kept_checkpoints) == (100, 3)
    assert PERFORMANCE["step_time_s"] == 33.6


def test_a_run_fills_its_machines_evenly() -> None:
    with pytest.raises(NoLauncher, match="10 accelerators do not fill 3 machines evenly"):
        training_run(run_option("maxtext", "pretrain", machines=3, accelerators=10, maker="Google"))


def test_the_first_machine_hosts_the_rendezvous_whatever_its_name_resolves_to() -> None:
    for option in (each for each in RUNS.values() if each.groups[0].machines > 1):
        text, launcher = text_of(files_of(option), "train.sh"), training_run(option).trainer.launcher
        lines = {"torchrun": 'export PET_RDZV_CONF="is_host=$((NODE_RANK == 0))"', "accelerate": "--rdzv_conf"}
        assert lines.get(launcher, "") in text


def test_the_batch_divides_over_the_ranks_and_the_run_trains_on_as_many_tokens() -> None:
    # 2,048 sequences do not divide over 30 ranks of 2: 34 x 2 x 30 are 2,040, and 119,210 steps become 119,678.
    option = run_option(
        "megatron",
        "pretrain",
        machines=15,
        accelerators=120,
        global_batch=2048,
        accumulated=34,
        all_steps=119_210,
        deployment={"data_parallel": 30},
    )
    assert value_after(command(option), "--global-batch-size") == "2040"
    assert training_run(option).steps == 119_678 == math.ceil(119_210 * 2048 / 2040)


def test_values_of_the_request_fill_the_slots() -> None:
    asked = {
        "dataset": "org/data",
        "base_checkpoint": "org/base",
        "output": "/mnt/out",
        "resume_from": "/mnt/out/checkpoint-10",
    }
    values = dict(SET.findall(script(run_option("axolotl", "lora", handoff=asked))))
    assert [values[n] for n in ("DATASET", "START_FROM", "OUTPUT_DIR", "RESUME_FROM")] == list(asked.values())
    plain = dict(SET.findall(script(run_option("axolotl", "lora"))))
    assert (plain["START_FROM"], plain["RESUME_FROM"]) == (MODEL, '"${RESUME_FROM:-auto}"')
    own = dict(SET.findall(script(run_option("axolotl", "lora", model="./my-model"))))
    assert own["START_FROM"].startswith('"${START_FROM:?set it to the base checkpoint')


@settings(max_examples=60, deadline=None)
@given(st.text(st.characters(codec="utf-8", exclude_categories=("C", "Zl", "Zp")), min_size=1, max_size=60))
def test_no_value_of_a_request_is_read_as_code(value: str) -> None:
    run = training_run(run_option("trl", "lora", handoff={"dataset": value, "output": value}))
    lines = [*slot_lines(run.slots())]
    environment = {"PATH": os.environ["PATH"], "LEARNING_RATE": "1", "LC_ALL": "C.UTF-8"}
    done = subprocess.run(
        ["bash", "-c", "\n".join(("set -euo pipefail", *lines, 'printf %s "$DATASET"'))],
        env=environment,
        capture_output=True,
        check=True,
    )
    assert done.stdout.decode() == value


def test_a_run_stops_at_data_in_object_storage(tmp_path: Path) -> None:
    text = script(run_option("trl", "lora", handoff={"dataset": "s3://bucket/data.jsonl", "output": "/tmp/none"}))
    done = subprocess.run(
        ["bash"],
        input=text,
        env={"LEARNING_RATE": "1e-5", "PATH": "/usr/bin:/bin"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("DATASET is the address s3://bucket/data.jsonl. Download or mount the data. It takes")


def test_a_missing_input_stops_the_run_with_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "train.sh").write_text(script(run_option("trl", "lora")))
    done = subprocess.run(
        ["bash", "train.sh"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": os.environ["PATH"]},
    )
    assert done.returncode != 0
    assert "DATASET: set it to the training data: a .jsonl" in done.stderr


def write_files(option: Option, folder: Path) -> None:
    for file in files_of(option).files:
        (folder / file.name).write_text(file.text)


def fake_tool(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.write_text("#!/usr/bin/env bash\n" + text)
    path.chmod(0o755)


def first_then(first: str, then: str) -> str:
    """A script that prints one text when it first runs, and another one from then on."""
    return f"if mkdir seen 2> /dev/null; then {first}; else {then}; fi"


def run_script(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    tools = folder / "bin"
    own = {"PATH": f"{tools}:{os.environ['PATH']}", "DATASET": "org/data", "OUTPUT_DIR": "out", "LEARNING_RATE": "1e-5"}
    return subprocess.run(
        ["bash", "train.sh", *arguments],
        cwd=folder,
        env={**own, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("used_mib", "stops"), [(40_960, ""), (60_000, "over 25 % above the prediction"), (20_000, "over 25 % below")]
)
def test_the_smoke_step_compares_its_memory_with_the_prediction(tmp_path: Path, used_mib: int, stops: str) -> None:
    write_files(run_option("unsloth", "lora"), tmp_path)
    (tmp_path / "bin").mkdir()
    fake_tool(tmp_path / "bin", "python", 'echo "steps $STEPS out $OUTPUT_DIR smoke ${SMOKE:-no}"; sleep 0.3')
    fake_tool(tmp_path / "bin", "nvidia-smi", first_then("echo 500", f"echo {used_mib + 500}; echo 7"))
    done = run_script(tmp_path, "--smoke")
    assert f"steps 2 out {tmp_path}/out/smoke smoke 1" in done.stdout
    assert f"Peak memory: {used_mib} MiB; predicted: 40960 MiB." in done.stdout  # 40 GiB
    assert stops in done.stderr
    assert bool(done.returncode) == bool(stops)
    whole = run_script(tmp_path)
    assert f"steps 100000 out {tmp_path}/out smoke no" in whole.stdout
    assert whole.returncode == 0


@pytest.mark.parametrize(
    ("sku", "tool", "prints"),
    [
        ("nvidia-gb10-dgx-spark", "awk", first_then("echo 9000", "echo 49960")),
        (
            "amd-ryzen-ai-max-395",
            "rocm-smi",
            f"printf 'd,VT,VU,GT,GU\\ncard0,1,1073741824,1,%d\\n' $({first_then('echo 0', 'echo 42949672960')})",
        ),
    ],
)
def test_the_smoke_step_reads_memory_that_is_shared_with_the_host(
    tmp_path: Path, sku: str, tool: str, prints: str
) -> None:
    made = run_option("unsloth", "lora")
    group = replace(made.groups[0], sku=sku, vendor="AMD" if tool == "rocm-smi" else "NVIDIA")
    write_files(replace(made, groups=(group,)), tmp_path)
    (tmp_path / "bin").mkdir()
    fake_tool(tmp_path / "bin", "python", "sleep 0.3")
    fake_tool(tmp_path / "bin", tool, prints)
    said = re.search(r"Peak memory: (\d+) MiB", run_script(tmp_path, "--smoke").stdout)
    assert said is not None and int(said[1]) == 40_960  # without what the host used before


def test_a_smoke_step_that_cannot_read_memory_is_not_said_to_compare_it() -> None:
    notes = " ".join(build_handoff(run_option("maxtext", "full", maker="Google"), "shell", None).notes)
    assert "no tool reads the memory" in notes and "off the prediction" not in notes


def test_a_smoke_step_that_fails_says_so(tmp_path: Path) -> None:
    write_files(run_option("unsloth", "lora"), tmp_path)
    (tmp_path / "bin").mkdir()
    fake_tool(tmp_path / "bin", "python", "echo out of memory >&2; exit 3")
    fake_tool(tmp_path / "bin", "nvidia-smi", "echo 1")
    done = run_script(tmp_path, "--smoke")
    assert done.returncode == 1
    assert "The smoke step failed." in done.stderr


def test_configurations_are_filled_with_the_inputs_when_the_run_starts(tmp_path: Path) -> None:
    write_files(run_option("axolotl", "qlora"), tmp_path)
    (tmp_path / "bin").mkdir()
    fake_tool(tmp_path / "bin", "axolotl", 'cat "$2"')
    hostile = 'a"b: [c]\n$(rm -rf x) #'
    done = run_script(tmp_path, DATASET=hostile)
    assert done.returncode == 0, done.stderr
    filled = yaml.safe_load(done.stdout)
    assert filled["datasets"][0]["path"] == hostile
    assert filled["learning_rate"] == 1e-5
    assert (filled["max_steps"], filled["save_steps"], filled["seed"]) == (100_000, 70, 42)
    assert filled["resume_from_checkpoint"] is None
    assert filled["auto_resume_from_checkpoints"] is True
    assert filled["base_model"] == MODEL
    assert filled["output_dir"] == f"{tmp_path}/out"
    assert filled["load_in_4bit"] is True


def test_a_number_that_is_none_stops_the_run(tmp_path: Path) -> None:
    write_files(run_option("axolotl", "lora"), tmp_path)
    (tmp_path / "bin").mkdir()
    fake_tool(tmp_path / "bin", "axolotl", "true")
    done = run_script(tmp_path, LEARNING_RATE="fast")
    assert done.returncode != 0
    assert "LEARNING_RATE is 'fast', which is not a number." in done.stderr


def test_deepspeed_checks_the_batch_and_has_optimizer_schedule_and_clipping() -> None:
    option = run_option("deepspeed", "full", machines=2, accelerators=16, deployment={"optimizer_offload": True})
    made = build_handoff(option, "deepspeed", None)
    config = json.loads(text_of(made, "ds_config.json"))
    assert config["train_batch_size"] == 2 * 8 * 16 == option.groups[0].int_place("global_batch")
    assert config["zero_optimization"]["stage"] == 3
    assert config["zero_optimization"]["offload_optimizer"]["device"] == "cpu"
    assert config["optimizer"]["type"] == "AdamW"
    assert config["scheduler"]["type"] == "WarmupCosineLR"
    assert config["gradient_clipping"] == 1.0
    assert config["bf16"]["enabled"] is True
    accelerate = yaml.safe_load(text_of(made, "accelerate.yaml"))
    assert accelerate["deepspeed_config"]["deepspeed_config_file"] == "ds_config.json"
    assert accelerate["deepspeed_config"]["deepspeed_multinode_launcher"] == "standard"
    other = run_option("deepspeed", "full", accelerators=8, optimizer_name="adafactor")
    assert "optimizer" not in json.loads(text_of(files_of(other), "ds_config.json"))


def test_fsdp_recomputes_and_offloads_as_sized() -> None:
    option = run_option("fsdp", "full", accelerators=8, deployment={"parameter_offload": True})
    made = build_handoff(option, "accelerate", None)
    fsdp = yaml.safe_load(text_of(made, "accelerate.yaml"))["fsdp_config"]
    assert fsdp["fsdp_activation_checkpointing"] is True
    assert fsdp["fsdp_offload_params"] is True
    # The trainer must not recompute a second time.
    assert yaml.safe_load(text_of(made, "train.yaml"))["arguments"]["gradient_checkpointing"] is False


def test_full_fine_tuning_starts_from_weights_and_pretraining_from_none() -> None:
    def random_weights(option: Option) -> Any:
        return yaml.safe_load(text_of(files_of(option), "train.yaml"))["model"]["random_weights"]

    assert random_weights(run_option("trl", "full")) is False
    assert "REVISION" in used_variables(training_run(run_option("trl", "full")))
    assert random_weights(run_option("trl", "pretrain")) is True
    assert random_weights(run_option("trl", "pretrain", handoff={"base_checkpoint": "org/base"})) is False
    assert "load_parameters_path" in script(run_option("maxtext", "full"))
    assert "checkpoint.pretrained_checkpoint" in script(run_option("megatron", "full"))


def test_megatron_saves_resumes_and_reads_the_tokenizer_of_the_model() -> None:
    words = command(
        run_option("megatron", "pretrain", machines=2, accelerators=16, model=LARGE_MODEL, tensor=2, with_tensor="")
    )
    for flag in ("--save", "--load", "--save-interval", "--data-path", "--tokenizer-model", "--rdzv-endpoint"):
        assert flag in words
    assert "--mock-data" not in words
    assert value_after(words, "--lr") == "$LEARNING_RATE"


def test_pipelines_have_the_sized_stages_where_layers_and_micro_batches_leave_a_rest() -> None:
    words = command(RUNS["pipeline-megatron"])
    assert value_after(words, "--pipeline-model-parallel-layout") == "Et|(t*2|)*14(t|)*96tL"
    assert value_after(words, "--microbatch-group-size-per-virtual-pipeline-stage") == "18"
    assert "--num-layers-per-virtual-pipeline-stage" not in words
    bridge = dict(word.split("=", 1) for word in command(RUNS["pipeline-nemo"]) if word.startswith("model."))
    assert bridge["model.virtual_pipeline_model_parallel_size"] == "null"
    outer = [int(bridge[f"model.num_layers_in_{end}_pipeline_stage"]) for end in ("first", "last")]
    assert outer == [7, 7]  # and 14 stages of 8
    titan = command(RUNS["pipeline-torchtitan"])
    ends = [value_after(titan, f"--parallelism.pipeline_parallel_{end}_stage_less_layers") for end in ("first", "last")]
    assert ends == ["1", "0"]  # its defaults, 1 and 1, give 4 stages 8, 9, 8 and 7 of 32 layers
    assert value_after(titan, "--parallelism.num_pp_microbatches") == "341"  # by default one passes at a time
    words = command(RUNS["pipeline-maxtext"])
    assert {"num_layers_per_pipeline_stage=1", "pipeline_parallel_layers=112"} <= set(words)


@given(st.integers(2, 130), st.sampled_from((2, 4, 8, 16, 32)))
def test_stages_of_megatron_bridge_have_all_layers(layers: int, stages: int) -> None:
    assume(layers % stages and layers > stages)
    places = run_places(training_run(run_option("nemo", "pretrain", layers=layers, pipeline=stages)))
    first, last = places["first_layers"], places["last_layers"]
    assert first > 0 and last > 0
    assert stages == 2 or (layers - first - last) % (stages - 2) == 0
    assert stages > 2 or first + last == layers


def test_a_run_without_a_launcher_names_the_frameworks_that_have_one() -> None:
    with pytest.raises(NoLauncher, match=r"with jax\. Name one of these in constraints\.engines: .*TRL"):
        find_trainer("jax", "full", "decoder")
    with pytest.raises(NoLauncher, match=r"no launcher for pre-training of vision models\.$"):
        find_trainer("fsdp", "pretrain", "vision")


def test_every_launcher_states_what_its_tool_does_by_default() -> None:
    for trainer in TRAINERS.values():
        assert len(trainer.defaults) >= 9, trainer.name
        assert "@" in trainer.source or re.search(r"\d+\.\d+", trainer.source), trainer.name


PINNED = re.compile(r"[\w.-]+(==\d[\d.]*|@https://\S+/archive/[0-9a-f]{40}\.zip)")


def test_what_a_run_installs_is_pinned_to_what_was_read() -> None:
    for trainer in TRAINERS.values():
        packages = re.sub(r"[\[\]]|\{\w+\}", " ", trainer.install).split()
        assert all(PINNED.fullmatch(package) for package in packages), trainer.install
        if packages and not trainer.container_setup:  # which checks out the commit that was read
            read = packages[0].split("==")[-1].split("/archive/")[-1][:8]
            assert read in trainer.source, trainer.source


def test_files_of_a_package_have_names_of_their_own() -> None:
    for option in RUNS.values():
        names = [file.name for file in files_of(option).files]
        assert len(names) == len(set(names))
        assert all(isinstance(file, File) for file in files_of(option).files)


def test_the_smoke_step_starts_by_a_variable_too(tmp_path: Path) -> None:
    write_files(run_option("unsloth", "lora"), tmp_path)
    (tmp_path / "bin").mkdir()
    fake_tool(tmp_path / "bin", "python", 'echo "steps $STEPS out $OUTPUT_DIR"; sleep 0.1')
    fake_tool(tmp_path / "bin", "nvidia-smi", first_then("echo 0", "echo 40960"))
    done = run_script(tmp_path, SMOKE="1")
    assert f"steps 2 out {tmp_path}/out/smoke" in done.stdout
    assert done.returncode == 0


def test_a_chat_template_is_found_from_the_folder_of_the_caller(tmp_path: Path) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    write_files(run_option("unsloth", "lora"), folder)
    (tmp_path / "template.jinja").write_text("x")
    (tmp_path / "bin").mkdir()
    fake_tool(tmp_path / "bin", "python", 'echo "template $CHAT_TEMPLATE"')
    done = subprocess.run(
        ["bash", "files/train.sh"],
        cwd=tmp_path,
        env={
            "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
            "DATASET": "org/data",
            "OUTPUT_DIR": "out",
            "LEARNING_RATE": "1e-5",
            "CHAT_TEMPLATE": "template.jinja",
        },
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"template {tmp_path}/template.jinja\n"


def test_a_base_model_trains_without_a_template(tmp_path: Path) -> None:
    write_files(run_option("llama-factory", "lora"), tmp_path)
    (tmp_path / "bin").mkdir()
    fake_tool(tmp_path / "bin", "llamafactory-cli", 'cat "$2"')
    assert "TEMPLATE: set it to the chat template" in run_script(tmp_path).stderr
    done = run_script(tmp_path, TEMPLATE="")
    assert done.returncode == 0, done.stderr
    assert yaml.safe_load(done.stdout)["template"] is None
    job = text_of(build_files(run_option("llama-factory", "lora"), "docker", None), "docker.sh")
    assert ': "${TEMPLATE?set it' in job


def test_the_schedule_of_mlx_counts_optimizer_steps(tmp_path: Path) -> None:
    write_files(run_option("mlx", "lora", maker="Apple"), tmp_path)
    (tmp_path / "bin").mkdir()
    fake_tool(tmp_path / "bin", "mlx_lm.lora", 'cat "$3"')
    filled = yaml.safe_load(run_script(tmp_path).stdout)
    assert filled["iters"] == 8 * 100_000  # micro-batches
    assert filled["lr_schedule"]["arguments"] == [1e-5, 100_000]


def function_of(option: Option, name: str, file: str = "train.py") -> Any:
    """A function of a script, without the libraries that the script imports."""
    tree = ast.parse(text_of(files_of(option), file))
    names = {"ROLES", name}
    kept = [
        node
        for node in tree.body
        if getattr(node, "name", None) == name
        or (isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") in names)
    ]
    found: dict[str, Any] = {}
    exec(compile(ast.Module(kept, []), file, "exec"), found)
    return found[name]


def test_prompts_with_completions_in_text_need_no_chat_template() -> None:
    is_conversational = function_of(run_option("trl", "lora"), "is_conversational", "load_inputs.py")
    turns = [{"role": "user", "content": "hi"}]
    assert not is_conversational({"prompt": "2 + 2 =", "completion": " 4"})
    assert not is_conversational({"text": "hi"})
    for record in ({"messages": turns}, {"conversations": turns}, {"prompt": turns, "completion": turns}):
        assert is_conversational(record)


def test_records_are_packed_into_sequences_of_one_length() -> None:
    def tokenize(text: str) -> dict[str, list[int]]:
        return {"input_ids": [len(word) for word in text.split()]}

    tokenize.eos_token_id = 0  # type: ignore[attr-defined]
    pack = function_of(run_option("lightning", "full"), "pack")
    pack.__globals__["tokens_of"] = function_of(run_option("lightning", "full"), "tokens_of")
    packed = pack({"text": ["a bb ccc", "dd", "e"]}, tokenize, length=3)
    assert packed == {"input_ids": [[1, 2, 3], [0, 2, 0]]}  # the last two tokens are dropped


def test_lightning_shards_as_sized_and_keeps_copies_otherwise() -> None:
    def trained(**shown: Any) -> dict[str, Any]:
        option = run_option("lightning", "full", accelerators=8, deployment=shown)
        found: dict[str, Any] = yaml.safe_load(text_of(files_of(option), "train.yaml"))
        return found

    assert trained(zero_stage=3)["sharding"] == {"sharding_strategy": "FULL_SHARD", "cpu_offload": False}
    assert trained(zero_stage=2)["sharding"]["sharding_strategy"] == "SHARD_GRAD_OP"
    assert "sharding" not in trained(zero_stage=0)


def test_conversations_of_either_form_become_messages() -> None:
    to_messages = function_of(run_option("lightning", "lora"), "to_messages", "load_inputs.py")
    messages = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]
    assert to_messages(messages) == messages
    turns = [{"from": "human", "value": "hi"}, {"from": "gpt", "value": "hello"}]
    assert to_messages(turns) == messages
    tokens_of = function_of(run_option("lightning", "lora"), "tokens_of")
    tokens_of.__globals__["to_messages"] = to_messages
    tokenizer = Mock()
    tokens_of({"conversations": turns}, tokenizer)
    tokenizer.apply_chat_template.assert_called_once_with(messages, return_dict=False)
