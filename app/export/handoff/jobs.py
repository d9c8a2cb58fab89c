"""Builds jobs around a training run: containers, Kubernetes, SkyPilot, dstack, Slurm and Ray.

Every job runs train.sh on each machine, keeps its output on a volume, and starts it again after a failure, so that it
resumes from the last checkpoint.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from app.errors import Unanswerable
from app.export.handoff.clouds import DSTACK_BACKENDS, SKY_CLOUDS, UNNAMED_REGIONS, accelerator_name
from app.export.handoff.cluster import LABEL_VALUE, RESOURCES
from app.export.handoff.option import (
    SHELL,
    YAML,
    File,
    Handoff,
    Option,
    add_header,
    build_script,
    dns_label,
    yaml_text,
)
from app.export.handoff.run import TrainingRun, training_run
from app.export.handoff.training import PYTHON, install_packages, read_script, run_files, training_notes
from app.sizing.words import product_name

Document = dict[str, Any]
VOLUME, FILES = "/training", "/run-files"  # where jobs mount the output volume and the files of the run
MAX_RESTARTS = 20
RAY_IMAGE = "rayproject/ray:latest-py312-gpu"


class NoJob(Unanswerable):
    """Raised for a run that a job target cannot start."""

    code = "target-cannot-start"


def job_handoff(run: TrainingRun, target: str, jobs: tuple[File, ...], *notes: str) -> Handoff:
    """Files of a job, then those of the run."""
    return Handoff(target, run.option.rank, (*jobs, *run_files(run)), (*notes, *training_notes(run)))


def job_name(run: TrainingRun) -> str:
    """Name of the job: the model, and that it trains."""
    return dns_label(run.group.model, "train")


def container_image(run: TrainingRun) -> str:
    """Container image of the trainer. Raises NoJob."""
    image = run.trainer.images.get(run.group.vendor)
    if image is None:
        software = product_name(run.option.software)
        raise NoJob(f"No container image of {software} for {run.group.vendor} accelerators is known.")
    return image


def container_lines(run: TrainingRun, *before: str) -> tuple[str, ...]:
    """Commands of a container: install what the image lacks, then train."""
    packages = install_packages(run)
    own = (f"pip install {packages}",) if packages else ()
    return ("set -euo pipefail", *before, *own)


def open_inputs(run: TrainingRun) -> tuple[str, ...]:
    """Variables that the user sets; the output folder is on the volume of the job."""
    return tuple(slot.name for slot in run.slots() if slot.value is None and slot.name != "OUTPUT_DIR")


def output_folder(run: TrainingRun) -> str:
    """Output folder: that of the request, or a folder on the volume of the job."""
    return str(run.option.handoff.get("output") or f"{VOLUME}/{job_name(run)}")


def docker_files(option: Option, _version: str | None, target: str) -> Handoff:
    """A script that runs the training in a container, on one machine or on each of several."""
    run = training_run(option)
    devices = {
        "NVIDIA": "--gpus all",
        "AMD": "--device /dev/kfd --device /dev/dri --group-add video --security-opt seccomp=unconfined",
    }.get(run.group.vendor)
    if devices is None:
        raise NoJob(f"Docker has no common option for {run.group.vendor} accelerators.")
    several = ("NODE_RANK", "MASTER_ADDR") if run.group.machines > 1 else ()
    passed = ("HF_TOKEN", "SMOKE", *open_inputs(run), *several)
    inside = "; ".join((*container_lines(run), f'exec bash {FILES}/train.sh "$@"'))
    text = build_script(
        option.header_lines,
        "# bash docker.sh --smoke, then bash docker.sh. Data on this machine: put them into the folder of this script",
        f"# and name them {FILES}/NAME.",
        'HERE="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"',
        'VOLUME="${VOLUME:?set it to a folder of this machine for checkpoints and the model}"',
        *(f': "${{{name}:?set it to what train.sh says of it}}"' for name in open_inputs(run)),
        "exec docker run --rm --ipc=host --network=host --ulimit memlock=-1 --ulimit stack=67108864 \\",
        f"  {devices} \\",
        *(f"  -e {name} \\" for name in passed),
        f"  -e OUTPUT_DIR={shlex.quote(output_folder(run))} \\",
        f'  -v "$HERE:{FILES}" -v "$VOLUME:{VOLUME}" -v "$HOME/.cache/huggingface:/root/.cache/huggingface" \\',
        f'  -w {FILES} --entrypoint bash {container_image(run)} -c {shlex.quote(inside)} train "$@"',
    )
    return job_handoff(run, target, (File("docker.sh", SHELL, text),), "Start docker.sh on every machine.")


def kubernetes_files(option: Option, _version: str | None, target: str) -> Handoff:
    """A Job for one machine, a JobSet for several, with the files of the run in a ConfigMap."""
    run = training_run(option)
    if run.group.vendor not in RESOURCES:
        raise NoJob(f"No Kubernetes device plugin is known for {run.group.vendor} accelerators.")
    name = job_name(run)
    files = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": f"{name}-files"},
        "data": {file.name: file.text for file in run_files(run)},
    }
    job = job_set(run) if run.group.machines > 1 else job_manifest(run)
    manifest = File(f"{name}.yaml", YAML, add_header(option.header_lines, yaml_text(files, job)))
    literals = " ".join(f"--from-literal={slot}=..." for slot in open_inputs(run))
    notes = (
        *((f"First: kubectl create configmap {name}-inputs {literals}",) if literals else ()),
        f"The persistent volume claim training is mounted at {VOLUME}; the output is in {output_folder(run)}. Several "
        "machines need a claim with ReadWriteMany.",
        "If the secret huggingface exists, the Hugging Face token is read from its key token.",
        *(("The JobSet controller must be installed.",) if run.group.machines > 1 else ()),
    )
    return job_handoff(run, target, (manifest,), *notes)


def job_manifest(run: TrainingRun) -> Document:
    """Job on one machine; a failed pod starts again and resumes."""
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": job_name(run), "annotations": {"headroom/recommendation": run.option.answer}},
        "spec": {"backoffLimit": MAX_RESTARTS, "template": {"spec": pod_spec(run, restart="OnFailure")}},
    }


def job_set(run: TrainingRun) -> Document:
    """JobSet with one pod per machine; if one fails, all start again together."""
    name, machines = job_name(run), run.group.machines
    first = f"{name}-machine-0-0.{name}"
    pod = pod_spec(run, f'export NODE_RANK="$JOB_COMPLETION_INDEX" MASTER_ADDR={first}', restart="Never")
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": name, "annotations": {"headroom/recommendation": run.option.answer}},
        "spec": {
            "failurePolicy": {"maxRestarts": MAX_RESTARTS},
            "network": {"enableDNSHostnames": True, "publishNotReadyAddresses": True},
            "replicatedJobs": [
                {
                    "name": "machine",
                    "replicas": 1,
                    "template": {
                        "spec": {
                            "parallelism": machines,
                            "completions": machines,
                            "completionMode": "Indexed",
                            "backoffLimit": 0,
                            "template": {"spec": pod},
                        }
                    },
                }
            ],
        },
    }


def pod_spec(run: TrainingRun, *before: str, restart: str) -> Document:
    """Pod of one machine, with the files, the output volume, shared memory and the token by name."""
    group, name = run.group, job_name(run)
    accelerators = {RESOURCES[group.vendor]: group.per_machine}
    lines = (*container_lines(run, *before), f"exec bash {FILES}/train.sh")
    mounts = {"files": FILES, "output": VOLUME, "shared-memory": "/dev/shm"}
    container: Document = {
        "name": "train",
        "image": container_image(run),
        "command": ["/bin/bash", "-c", "\n".join(lines) + "\n"],
        "env": [
            {"name": "OUTPUT_DIR", "value": output_folder(run)},
            {"name": "HF_HOME", "value": f"{VOLUME}/huggingface"},
            {
                "name": "HF_TOKEN",
                "valueFrom": {"secretKeyRef": {"name": "huggingface", "key": "token", "optional": True}},
            },
            *(
                {"name": slot, "valueFrom": {"configMapKeyRef": {"name": f"{name}-inputs", "key": slot}}}
                for slot in open_inputs(run)
            ),
        ],
        "resources": {"requests": accelerators, "limits": accelerators},
        "volumeMounts": [{"name": volume, "mountPath": path} for volume, path in mounts.items()],
    }
    return {
        "restartPolicy": restart,
        "containers": [container],
        **_node_selector(run),
        "volumes": [
            {"name": "files", "configMap": {"name": f"{name}-files"}},
            {"name": "output", "persistentVolumeClaim": {"claimName": "training"}},
            {"name": "shared-memory", "emptyDir": {"medium": "Memory"}},
        ],
    }


def _node_selector(run: TrainingRun) -> Document:
    """Node selector for the instance type, if the seller's own Kubernetes service labels nodes with it."""
    kind = run.group.instance_type
    if kind is None or not run.group.named_machine or not LABEL_VALUE.fullmatch(kind):
        return {}
    return {"nodeSelector": {"node.kubernetes.io/instance-type": kind}}


def skypilot_files(option: Option, _version: str | None, target: str) -> Handoff:
    """A managed job of SkyPilot, which finds machines and starts again after a preemption."""
    run = training_run(option)
    group, name = run.group, job_name(run)
    region = "" if group.region is None or group.region in UNNAMED_REGIONS else f"/{group.region}"
    ranks = 'export NODE_RANK="$SKYPILOT_NODE_RANK" MASTER_ADDR="$(echo "$SKYPILOT_NODE_IPS" | head -n1)"'
    task: Document = {
        "name": name,
        "resources": {
            **({"infra": f"{group.provider}{region}"} if group.provider in SKY_CLOUDS else {}),
            "accelerators": {accelerator_name(group, "SkyPilot"): group.per_machine},
            "image_id": f"docker:{container_image(run)}",
            **({"use_spot": True} if group.pricing_model == "spot" else {}),
            "job_recovery": {"max_restarts_on_errors": MAX_RESTARTS},
        },
        "num_nodes": group.machines,
        "workdir": ".",
        "envs": {**dict.fromkeys(open_inputs(run)), "OUTPUT_BUCKET": None, "OUTPUT_DIR": output_folder(run)},
        "secrets": {"HF_TOKEN": None},
        "file_mounts": {VOLUME: {"name": "${OUTPUT_BUCKET}", "mode": "MOUNT_CACHED"}},
        "run": "\n".join((*container_lines(run, ranks), "bash train.sh")) + "\n",
    }
    file = File("train.sky.yaml", YAML, add_header(option.header_lines, yaml_text(task)))
    values = " ".join(f"--env {slot}=..." for slot in (*open_inputs(run), "OUTPUT_BUCKET"))
    note = f"Start: sky jobs launch train.sky.yaml {values} --secret HF_TOKEN. OUTPUT_BUCKET is a bucket of your cloud."
    return job_handoff(run, target, (file,), note)


def dstack_files(option: Option, _version: str | None, target: str) -> Handoff:
    """A dstack task, which finds machines and retries after an interruption."""
    run = training_run(option)
    group = run.group
    where = [group.region] if group.region is not None and group.region not in UNNAMED_REGIONS else []
    ranks = 'export NODE_RANK="$DSTACK_NODE_RANK" MASTER_ADDR="$DSTACK_MASTER_NODE_IP"'
    named = group.provider in DSTACK_BACKENDS
    task: Document = {
        "type": "task",
        "name": job_name(run),
        "image": container_image(run),
        **({"nodes": group.machines} if group.machines > 1 else {}),
        "env": ["HF_TOKEN", *open_inputs(run), f"OUTPUT_DIR={output_folder(run)}"],
        "commands": [*container_lines(run, ranks), "bash train.sh"],
        "files": [file.name for file in run_files(run)],
        "volumes": [{"name": "training", "path": VOLUME}],
        "resources": {
            "gpu": {"name": accelerator_name(group, "dstack"), "count": group.per_machine},
            "shm_size": "64GB",
        },
        "spot_policy": "spot" if group.pricing_model == "spot" else "on-demand",
        "retry": {"on_events": ["no-capacity", "interruption", "error"], "duration": "7d"},
        **({"backends": [group.provider]} if named else {}),
        **({"regions": where} if where and named else {}),
    }
    file = File("train.dstack.yml", YAML, add_header(option.header_lines, yaml_text(task)))
    note = "Create the dstack volume training. Export the variables of env, then run: dstack apply -f train.dstack.yml."
    return job_handoff(run, target, (file,), note)


def slurm_files(option: Option, _version: str | None, target: str) -> Handoff:
    """Slurm job with one task per machine; a requeued job resumes from the last checkpoint."""
    run = training_run(option)
    group = run.group
    lines = (
        f"#SBATCH --job-name={job_name(run)}",
        f"#SBATCH --nodes={group.machines}",
        "#SBATCH --ntasks-per-node=1",
        f"#SBATCH --gpus-per-node={group.per_machine}",
        "#SBATCH --exclusive",
        "#SBATCH --requeue",
        "#SBATCH --open-mode=append",
    )
    body = (
        "set -euo pipefail",
        *(
            f': "${{{name}:?set it, as train.sh says, before sbatch}}"'
            for name in (*open_inputs(run), *_open_output(run))
        ),
        'MASTER_ADDR="$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n1)"',
        "export MASTER_ADDR",
        'cd "$SLURM_SUBMIT_DIR"',
        'srun --kill-on-bad-exit=1 bash -c \'NODE_RANK="$SLURM_NODEID" exec bash train.sh "$@"\' run "$@"',
    )
    text = "#!/usr/bin/env bash\n" + "\n".join((*lines, *(f"# {line}" for line in option.header_lines), *body)) + "\n"
    note = "Start: sbatch job.sbatch --smoke, then sbatch job.sbatch, from the folder of these files on shared storage."
    return job_handoff(run, target, (File("job.sbatch", SHELL, text),), note)


def _open_output(run: TrainingRun) -> tuple[str, ...]:
    return () if run.option.handoff.get("output") else ("OUTPUT_DIR",)


def ray_files(option: Option, _version: str | None, target: str) -> Handoff:
    """A RayJob for Kubernetes, and the script that starts train.sh on each machine of any Ray cluster."""
    run = training_run(option)
    if run.group.vendor != "NVIDIA" or not run.trainer.install:
        software = product_name(run.option.software)
        raise NoJob(
            f"Ray's image runs trainers from PyPI on NVIDIA accelerators, not {software} on {run.group.vendor}."
        )
    name = job_name(run)
    files = run_files(run)
    launcher = File("ray_train.py", PYTHON, read_script("ray_train.py"))
    config: Mapping[str, Any] = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": f"{name}-files"},
        "data": {file.name: file.text for file in (*files, launcher)},
    }
    manifest = File(f"{name}.rayjob.yaml", YAML, add_header(option.header_lines, yaml_text(config, ray_job(run))))
    variables = " ".join((*open_inputs(run), *_open_output(run)))
    notes = (
        "On a running Ray cluster: ray job submit --working-dir . -- python ray_train.py --machines "
        f"{run.group.machines} --accelerators {run.group.per_machine}, with {variables or 'no variable'} in "
        "--runtime-env-json.",
        f"The RayJob needs the KubeRay operator, the persistent volume claim training, and a ConfigMap {name}-inputs.",
    )
    return job_handoff(run, target, (manifest, launcher), *notes)


def ray_job(run: TrainingRun) -> Document:
    """RayJob with one worker per machine."""
    group = run.group
    worker = pod_spec(run, restart="Never")
    worker.pop("restartPolicy")
    (container,) = worker["containers"]
    container.pop("command")
    container["image"] = RAY_IMAGE
    entry = f"python {FILES}/ray_train.py --machines {group.machines} --accelerators {group.per_machine}"
    head = {**container, "name": "head", "resources": {"limits": {"cpu": 2, "memory": "8Gi"}}}
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": {"name": job_name(run)},
        "spec": {
            "entrypoint": entry,
            "backoffLimit": MAX_RESTARTS,
            "shutdownAfterJobFinishes": True,
            "runtimeEnvYAML": yaml_text({"pip": shlex.split(install_packages(run))}),
            "rayClusterSpec": {
                "headGroupSpec": {
                    "rayStartParams": {"num-gpus": "0"},
                    "template": {"spec": {**worker, "containers": [head]}},
                },
                "workerGroupSpecs": [
                    {
                        "groupName": "machine",
                        "replicas": group.machines,
                        "minReplicas": group.machines,
                        "maxReplicas": group.machines,
                        "rayStartParams": {},
                        "template": {"spec": worker},
                    }
                ],
            },
        },
    }
