"""Scripts of bare machines, docker run and Slurm: replicas of a machine have accelerators and ports of their own."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.errors import Unanswerable
from app.export.handoff.engines import BY_ENGINE
from app.export.handoff.option import Handoff, Option
from app.export.handoff.targets import build_fleet_handoff, build_handoff
from tests.export.handoff.emitted import check_scripts
from tests.export.handoff.stored import pooled, served
from tests.export.handoff.test_cluster import SPANNING

HALF: dict[str, Any] = {"accelerators": 4, "tensor": 4, "stage": 4}
OPTIONS = [
    served(),
    served(**HALF),
    served(**SPANNING),
    pooled("sglang"),
    served("llama.cpp"),
    served(maker="AMD", **HALF),
]


def text_of(made: Handoff, name: str) -> str:
    return next(file.text for file in made.files if file.name == name)


@pytest.mark.parametrize("target", ["shell", "docker", "slurm"])
@pytest.mark.parametrize("option", OPTIONS, ids=range(len(OPTIONS)))
def test_every_script_is_one_that_a_shell_reads(target: str, option: Option, tmp_path: Path) -> None:
    made = build_handoff(option, target, None).files
    check_scripts(tmp_path, *(file.text for file in made if file.media_type == "application/x-sh"))


def run_with_stub(text: str, tmp_path: Path, program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs a script with a program that prints its arguments and the accelerators that it may use."""
    stub = tmp_path / program
    stub.write_text('#!/bin/bash\necho "$CUDA_VISIBLE_DEVICES $*"\n')
    stub.chmod(0o755)
    around = {"PATH": f"{tmp_path}:/usr/bin:/bin", **environment}
    return subprocess.run(["bash", "-c", text], env=around, capture_output=True, text=True, check=False)


def test_replicas_that_share_a_machine_have_accelerators_and_a_port_of_their_own(tmp_path: Path) -> None:
    text = text_of(build_handoff(served(**HALF), "shell", None), "serve.sh")
    found = [run_with_stub(text, tmp_path, "vllm", REPLICA=number).stdout.strip() for number in "01"]
    assert [line.split()[0] for line in found] == ["0,1,2,3", "4,5,6,7"]
    assert [re.findall(r"--port (\d+)", line) for line in found] == [["8000"], ["8001"]]
    refused = run_with_stub(text, tmp_path, "vllm")
    assert refused.returncode == 1 and "number of the replica on this machine, 0 to 1" in refused.stderr
    assert "REPLICA" not in text_of(build_handoff(served(), "shell", None), "serve.sh")  # alone on its machine


@pytest.mark.parametrize(
    "engine", [name for name, launch in BY_ENGINE.items() if launch.images and not launch.creates_model]
)
def test_the_port_is_said_once(engine: str) -> None:
    text = text_of(build_handoff(served(engine, accelerators=2, tensor=2), "shell", None), "serve.sh")
    assert text.count("port $PORT") == 1
    assert not re.search(r"port \d", text)


def test_the_router_of_a_mixed_fleet_knows_the_port_of_each_replica() -> None:
    fleet = (
        replace(served(**HALF), fleet_group="owned-1", share=0.25),
        replace(pooled("sglang"), fleet_group="added", share=0.75),
    )
    router = build_fleet_handoff(fleet, "shell", None).files[0].text
    assert re.findall(r"server (\S+) weight=(\d+);", router) == [
        ("owned-1-0:8000", "833"),
        ("owned-1-0:8001", "833"),
        ("owned-1-1:8000", "833"),
        ("added-0:30000", "7500"),  # the router of its pools
    ]


def test_ollama_creates_and_loads_the_model_that_requests_name(tmp_path: Path) -> None:
    made = build_handoff(served("ollama", gguf_origin="hf.co/b/M-GGUF:Q4_K_M"), "shell", None)
    (tmp_path / "ollama").write_text('#!/bin/bash\necho "$*" >> calls\n[ "$1" != create ] || cat "$4" >> calls\n')
    (tmp_path / "ollama").chmod(0o755)
    around = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    subprocess.run(["bash", "-c", text_of(made, "serve.sh")], env=around, cwd=tmp_path, check=True)
    calls = (tmp_path / "calls").read_text().splitlines()
    assert {"serve", "create model-70b -f /tmp/Modelfile", "FROM hf.co/b/M-GGUF:Q4_K_M"} <= {*calls}
    assert "OLLAMA_CONTEXT_LENGTH=8192" in text_of(made, "serve.sh")
    assert "Requests name the model model-70b." in made.notes
    half = text_of(build_handoff(served("ollama", **HALF), "shell", None), "serve.sh")
    # Ollama looks for a relative path in the folder of the Modelfile.
    assert 'echo FROM "$PWD"/Model-70B-q4_k_m.gguf > /tmp/Modelfile' in half
    assert "OLLAMA_HOST=0.0.0.0:$PORT" in half and "${REPLICA:?" in half
    assert "aiperf" not in text_of(made, "benchmark.sh")


def test_the_images_of_llama_cpp_keep_the_server_outside_the_path() -> None:
    text = text_of(build_handoff(served("llama.cpp"), "docker", None), "model-70b.docker.sh")
    assert text.index('export PATH="/app:$PATH"') < text.index("exec llama-server")
    assert "/app" not in text_of(build_handoff(served("llama.cpp"), "shell", None), "serve.sh")


def test_images_for_machines_with_arm_processors_are_to_be_checked() -> None:
    arm = served()
    arm = replace(arm, groups=(replace(arm.groups[0], sku="nvidia-gh200-96gb"),))
    for target, words in {"docker": True, "kubernetes": True, "shell": False}.items():
        assert ("linux/arm64" in " ".join(build_handoff(arm, target, None).notes)) is words


def test_docker_restarts_each_replica_on_accelerators_of_its_own() -> None:
    text = text_of(build_handoff(served(**HALF), "docker", None), "model-70b.docker.sh")
    assert re.findall(r"--gpus '\"device=([\d,]+)\"'", text) == ["0,1,2,3", "4,5,6,7"]
    assert re.findall(r"--publish (\d+):8000", text) == ["8000", "8001"]
    assert text.count("--restart unless-stopped") == 2
    assert text.count("--volume model-cache:/cache") == 2
    assert "HF_TOKEN=" not in text
    whole = text_of(build_handoff(served(maker="AMD"), "docker", None), "model-70b.docker.sh")
    assert "--device /dev/kfd" in whole and "--gpus" not in whole


def test_a_replica_on_several_machines_uses_the_network_of_each() -> None:
    text = text_of(build_handoff(served(**SPANNING), "docker", None), "model-70b.docker.sh")
    assert "--network host --env NODE_RANK --env MASTER_ADDR" in text
    assert text.index("${NODE_RANK:?") < text.index("docker run")


def test_a_slurm_array_has_a_task_per_replica_and_a_rank_per_machine() -> None:
    made = build_handoff(served(**SPANNING), "slurm", None)
    job = text_of(made, "model-70b.sbatch")
    for line in ("--array=0-2", "--nodes=2", "--ntasks-per-node=1", "--gpus-per-node=8", "--requeue"):
        assert f"#SBATCH {line}\n" in job
    assert 'NODE_RANK="$SLURM_NODEID" exec bash ./serve.sh' in job
    assert "${NODE_RANK:?" in text_of(made, "serve.sh")
    assert "The machines need vLLM 0.33.0 on the PATH: the files install nothing." in made.notes
    shared = build_handoff(served(**HALF), "slurm", None)
    assert "--port $PORT" in text_of(shared, "serve.sh")
    part = text_of(shared, "model-70b.sbatch")
    assert "export PORT=$((8000 + SLURM_ARRAY_TASK_ID))" in part
    # Without these, a job gets one processor and the default memory of the cluster.
    assert "#SBATCH --exclusive\n#SBATCH --mem=0\n" in job
    assert "#SBATCH --cpus-per-task=6\n#SBATCH --mem=819G\n" in part and "--exclusive" not in part
    assert "srun --kill-on-bad-exit=1 --cpus-per-task=6 bash" in part


def test_tensorrt_llm_starts_its_ranks_itself_in_a_job() -> None:
    made = build_handoff(served("tensorrt-llm", **SPANNING, ranks=16), "slurm", None)
    assert "#SBATCH --ntasks-per-node=8" in text_of(made, "model-70b.sbatch")
    assert text_of(made, "model-70b.sbatch").rstrip().endswith("exec bash ./serve.sh")
    assert "trtllm-llmapi-launch" in text_of(made, "serve.sh")
    spans = build_handoff(served("tensorrt-llm", **SPANNING, ranks=16), "shell", None)
    assert "allocation of Slurm" in spans.notes[-1]
    one = text_of(build_handoff(served("tensorrt-llm"), "slurm", None), "model-70b.sbatch")
    assert "#SBATCH --ntasks-per-node=1" in one


def test_a_mac_has_neither_containers_nor_slurm() -> None:
    for target in ("docker", "slurm"):
        with pytest.raises(Unanswerable, match="Targets that can start it: shell"):
            build_handoff(served("mlx", maker="Apple"), target, None)
