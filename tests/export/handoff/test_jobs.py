"""Jobs around runs: valid manifests, a rank and a first machine for each machine, output that stays, inputs by name."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.export.handoff.jobs import MAX_RESTARTS, NoJob
from app.export.handoff.option import Option
from app.export.handoff.targets import build_files, can_start
from tests.export.handoff.emitted import check_scripts
from tests.export.handoff.runs import RUNS, run_option

ONE = run_option("trl", "lora")
MANY = run_option("trl", "full", machines=2, accelerators=16)
LAMBDA = {"provider": "lambda", "region": "us-east-1", "pricing_model": "on_demand", "instance_type": "gpu_8x_h100"}
RENTED = run_option("trl", "full", machines=2, accelerators=16, offer=LAMBDA)
TARGETS = ("docker", "kubernetes", "skypilot", "dstack", "slurm", "ray")
INPUTS = {"DATASET", "LEARNING_RATE"}
# Fields of the first release of each schema that has them; sources read on 2026-11-26.
SKY_KEYS = {"name", "resources", "num_nodes", "workdir", "envs", "secrets", "file_mounts", "run"}
DSTACK_KEYS = {
    "type",
    "name",
    "image",
    "nodes",
    "env",
    "commands",
    "files",
    "volumes",
    "resources",
    "spot_policy",
    "retry",
    "backends",
    "regions",
}


def documents(option: Option, target: str, ending: str) -> list[dict[str, Any]]:
    text = next(f.text for f in build_files(option, target, None).files if f.name.endswith(ending))
    return [*yaml.safe_load_all(text)]


@pytest.mark.parametrize("option", [ONE, MANY, RENTED], ids=["one", "many", "rented"])
@pytest.mark.parametrize("target", TARGETS)
def test_every_job_brings_the_files_of_the_run_and_keeps_secrets_out(
    option: Option, target: str, tmp_path: Path
) -> None:
    made = build_files(option, target, None)
    own = {file.name: file.text for file in build_files(option, "shell", None).files}
    assert {file.name: file.text for file in made.files if file.name in own} == own
    text = made.files[0].text
    assert "HF_TOKEN" in text or target == "slurm"
    assert text.count("pip install") == text.count("PIP_BREAK_SYSTEM_PACKAGES=1 pip install")  # Debian's Python refuses
    for name in INPUTS:
        assert name in text
    if made.files[0].name.endswith((".sh", ".sbatch")):
        check_scripts(tmp_path, text)


@pytest.mark.parametrize("option", [ONE, MANY], ids=["one", "many"])
def test_manifests_of_kubernetes_are_valid(option: Option) -> None:
    config, job = documents(option, "kubernetes", "-train.yaml")
    assert "train.sh" in config["data"]
    if job["kind"] == "Job":
        spec = job["spec"]["template"]["spec"]
    else:
        (machines,) = job["spec"]["replicatedJobs"]
        inner = machines["template"]
        assert inner["spec"]["parallelism"] == option.groups[0].machines
        assert job["spec"]["failurePolicy"]["maxRestarts"] == MAX_RESTARTS
        spec = inner["spec"]["template"]["spec"]
        first = f"{job['metadata']['name']}-machine-0-0.{job['metadata']['name']}"
        assert f"MASTER_ADDR={first}" in spec["containers"][0]["command"][-1]
    (container,) = spec["containers"]
    assert container["resources"]["limits"] == {"nvidia.com/gpu": option.groups[0].per_machine}
    environment = {entry["name"]: entry for entry in container["env"]}
    assert environment["OUTPUT_DIR"]["value"].startswith("/training/")
    assert not environment["DATASET"]["valueFrom"]["configMapKeyRef"].get("optional")
    assert {"files", "output", "shared-memory"} == {volume["name"] for volume in spec["volumes"]}


def test_an_image_that_has_the_trainer_installs_nothing() -> None:
    text = build_files(RUNS["axolotl-axolotl-lora-1"], "docker", None).files[0].text
    assert "axolotlai/axolotl:0.21.0" in text
    assert "pip install" not in text  # this image has no pip


def test_sky_jobs_name_their_machines_and_stop_without_inputs() -> None:
    (task,) = documents(RENTED, "skypilot", ".sky.yaml")
    assert {*task} == SKY_KEYS
    assert task["resources"]["infra"] == "lambda/us-east-1"
    assert task["resources"]["accelerators"] == {"H200": 8}
    assert task["num_nodes"] == 2
    assert {name for name, value in task["envs"].items() if value is None} == {*INPUTS, "OUTPUT_BUCKET"}
    assert 'NODE_RANK="$SKYPILOT_NODE_RANK"' in task["run"]


def test_dstack_tasks_retry_and_require_their_inputs() -> None:
    (task,) = documents(RENTED, "dstack", ".dstack.yml")
    assert {*task} == DSTACK_KEYS
    assert {*INPUTS} <= {*task["env"]}
    assert task["nodes"] == 2
    assert "interruption" in task["retry"]["on_events"]
    assert 'NODE_RANK="$DSTACK_NODE_RANK"' in task["commands"][1]


def test_ray_starts_one_worker_on_each_machine() -> None:
    _, job = documents(MANY, "ray", ".rayjob.yaml")
    (workers,) = job["spec"]["rayClusterSpec"]["workerGroupSpecs"]
    assert (workers["replicas"], workers["minReplicas"], workers["maxReplicas"]) == (2, 2, 2)
    assert job["spec"]["entrypoint"].endswith("--machines 2 --accelerators 8")


@pytest.mark.parametrize("option", [ONE, MANY], ids=["one", "many"])
def test_slurm_asks_for_the_machines_and_accelerators_of_the_run(option: Option) -> None:
    job = build_files(option, "slurm", None).files[0].text
    lines = dict(
        line.removeprefix("#SBATCH --").split("=") for line in job.splitlines() if "#SBATCH" in line and "=" in line
    )
    assert int(lines["nodes"]) * int(lines["gpus-per-node"]) == option.groups[0].accelerators
    assert job.index("#SBATCH") < job.index("set -euo")
    assert "--requeue" in job


def test_every_run_has_a_job_for_its_machines() -> None:
    for name, option in RUNS.items():
        assert can_start(option, "shell"), name
        assert can_start(option, "slurm"), name
        if option.groups[0].software not in ("mlx", "optimum-habana"):
            assert can_start(option, "docker"), name
            assert can_start(option, "kubernetes"), name


def test_a_launcher_is_a_target_only_for_runs_that_were_sized_with_it() -> None:
    able = {
        "torchrun": {"axolotl", "lightning", "llama-factory", "torchtune", "torchtitan", "megatron", "nemo"},
        "accelerate": {"trl", "deepspeed", "peft+bitsandbytes"},
        "deepspeed": {"deepspeed"},
        "megatron": {"megatron", "nemo"},
    }
    for target, software in able.items():
        found = {o.software for n, o in RUNS.items() if not n.endswith("-1") and can_start(o, target)}
        assert found == software, target


@pytest.mark.parametrize(
    ("option", "target", "words"),
    [
        (run_option("mlx", "lora", maker="Apple"), "docker", "Docker has no common option for Apple"),
        (run_option("mlx", "lora", maker="Apple"), "kubernetes", "No Kubernetes device plugin is known for Apple"),
        (run_option("nemo", "lora"), "ray", "image runs trainers from PyPI on NVIDIA accelerators, not NeMo"),
        (run_option("nemo", "lora", maker="AMD"), "kubernetes", "No container image of NeMo for AMD"),
    ],
)
def test_a_job_that_cannot_be_started_is_refused_in_words(option: Option, target: str, words: str) -> None:
    with pytest.raises(NoJob, match=words):
        build_files(option, target, None)


def container_of(option: Option, target: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Pod and container of a run in Kubernetes or Ray."""
    job = documents(option, target, "train.yaml" if target == "kubernetes" else ".rayjob.yaml")[1]
    if target == "ray":
        pod = job["spec"]["rayClusterSpec"]["workerGroupSpecs"][0]["template"]["spec"]
    else:
        pod = job["spec"]["template"]["spec"]
    return pod, pod["containers"][0]


@pytest.mark.parametrize("asked", ["/mnt/out", "/mnt/out/", "out", "s3://bucket/out", None])
def test_output_is_on_the_volume_of_the_job(asked: str | None) -> None:
    option = run_option("trl", "lora", handoff={"output": asked} if asked else None, offer=LAMBDA)
    mounted = "/mnt/out" if asked and asked.startswith("/") else "/training"
    for target in ("kubernetes", "ray"):
        _, container = container_of(option, target)
        assert {"name": "output", "mountPath": mounted} in container["volumeMounts"]
        assert container.get("workingDir") == ("/training" if asked == "out" else None)
    (sky,) = documents(option, "skypilot", ".sky.yaml")
    (dstack,) = documents(option, "dstack", ".dstack.yml")
    assert [*sky["file_mounts"]] == [mounted]
    assert dstack["volumes"] == [{"name": "training", "path": mounted}]
    start = 'cd /training; bash "$OLDPWD/train.sh"' if asked == "out" else "bash train.sh"
    assert sky["run"].splitlines()[-1] == dstack["commands"][-1] == start
    docker = build_files(option, "docker", None).files[0].text
    assert f'-v "$VOLUME:"{"/run-files/out" if asked == "out" else mounted} ' in docker


def test_the_smoke_step_runs_in_every_job() -> None:
    _, container = container_of(ONE, "kubernetes")
    (smoke,) = [entry for entry in container["env"] if entry["name"] == "SMOKE"]
    assert smoke["valueFrom"]["configMapKeyRef"]["optional"] is True
    assert documents(ONE, "skypilot", ".sky.yaml")[0]["envs"]["SMOKE"] == ""
    assert "SMOKE=" in documents(ONE, "dstack", ".dstack.yml")[0]["env"]
    assert "-e SMOKE " in build_files(ONE, "docker", None).files[0].text
    for target in TARGETS:
        notes = " ".join(build_files(ONE, target, None).notes)
        assert "bash train.sh --smoke" not in notes, target
        assert "The smoke step runs two steps" in notes
        assert "train.sh asks for DATASET, LEARNING_RATE." in notes or target == "slurm"
        assert ("Install: pip" in notes) == (target == "slurm")


def test_jobs_ask_for_the_host_and_the_accelerator_that_were_sized() -> None:
    for target in ("kubernetes", "ray"):
        pod, container = container_of(ONE, target)
        assert pod["nodeSelector"] == {"nvidia.com/gpu.product": "NVIDIA-H200"}
        assert container["resources"]["requests"] == {"nvidia.com/gpu": 1, "cpu": "3", "memory": "204Gi"}
    assert documents(ONE, "skypilot", ".sky.yaml")[0]["resources"]["memory"] == "204+"
    assert documents(ONE, "dstack", ".dstack.yml")[0]["resources"]["memory"] == "204GB.."


def test_containers_bring_the_checkout_that_a_trainer_runs_from() -> None:
    option = run_option("megatron", "pretrain")
    _, container = container_of(option, "kubernetes")
    setup = container["command"][-1]
    assert setup.index("export MEGATRON_DIR=") < setup.index("git clone") < setup.index("train.sh")
    assert not can_start(option, "ray")


def test_what_a_run_may_override_reaches_the_container() -> None:
    text = build_files(ONE, "docker", None).files[0].text
    for name in ("STEPS", "SAVE_STEPS", "SEED", "CHAT_TEMPLATE"):
        assert f"-e {name} " in text


def test_ray_fails_if_a_signal_ends_one_machine(tmp_path: Path) -> None:
    """A machine that runs out of memory ends with a negative status; the others then wait for it."""
    script = next(f.text for f in build_files(MANY, "ray", None).files if f.name == "ray_train.py")
    (tmp_path / "ray_train.py").write_text(script)
    (tmp_path / "ray" / "util").mkdir(parents=True)
    (tmp_path / "ray" / "__init__.py").write_text(FAKE_RAY)
    (tmp_path / "ray" / "util" / "__init__.py").write_text("get_node_ip_address = lambda: 'host'")
    (tmp_path / "ray" / "util" / "placement_group.py").write_text(
        "import types\nplacement_group = lambda *a, **k: types.SimpleNamespace(ready=lambda: 0)"
    )
    (tmp_path / "ray" / "util" / "scheduling_strategies.py").write_text(
        "PlacementGroupSchedulingStrategy = lambda group, rank: rank"
    )
    words = [sys.executable, "ray_train.py", "--machines", "2", "--accelerators", "8"]
    for body, status in (("exit 0", 0), ("[[ $NODE_RANK = 1 ]] || kill -9 $$\nexit 0", 137)):
        (tmp_path / "train.sh").write_text(body)
        assert subprocess.run(words, cwd=tmp_path, check=False).returncode == status


FAKE_RAY = """
from ray import util
class Task:
    def __init__(self, run): self.run = run
    def options(self, **_): return self
    def remote(self, *arguments): return self.run(*arguments)
def remote(**_): return Task
init = lambda: None
def get(value): return value
def wait(values): return values[:1], values[1:]
"""
