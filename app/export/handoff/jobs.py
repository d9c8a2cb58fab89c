"""Builds jobs around a training run: containers, Kubernetes, SkyPilot, dstack, Slurm and Ray.

Every job runs train.sh on each machine, keeps its output on a volume, and starts it again after a failure, so that it
resumes from the last checkpoint.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from app.errors import Unanswerable
from app.export.handoff.clouds import (
    DSTACK_BACKENDS,
    SKY_CLOUDS,
    UNNAMED_REGIONS,
    accelerator_name,
    dstack_host,
    sky_host,
)
from app.export.handoff.cluster import RESOURCES, node_selector
from app.export.handoff.lifecycle import host_requests
from app.export.handoff.option import (
    INTERFACES,
    PIP_INSTALL,
    SHELL,
    YAML,
    File,
    Handoff,
    Option,
    add_header,
    build_script,
    dns_label,
    image_for,
    read_script,
    yaml_text,
)
from app.export.handoff.run import TrainingRun, training_run
from app.export.handoff.training import (
    PYTHON,
    install_packages,
    overridable_variables,
    run_files,
    training_notes,
)
from app.sizing.words import product_name

Document = dict[str, Any]
VOLUME, FILES = "/training", "/run-files"  # where jobs mount the output volume and the files of the run
MAX_RESTARTS = 20
RAY_IMAGE = "rayproject/ray:latest-py312-gpu"


class NoJob(Unanswerable):
    """Raised for a run that a job target cannot start."""

    code = "target-cannot-start"


def job_handoff(
    run: TrainingRun, target: str, job: File, smoke: str, *notes: str, more: tuple[File, ...] = ()
) -> Handoff:
    """Files of a job, then those of the run.

    Parameters:
        smoke: how the job runs the smoke step, as an imperative.
        more: further files of the job.
    """
    own = training_notes(run, smoke=smoke, again="The job starts train.sh", set_by_job=("OUTPUT_DIR",), installs=True)
    return Handoff(target, run.option.rank, (job, *more, *run_files(run)), (*notes, *own))


def job_name(run: TrainingRun) -> str:
    return dns_label(run.group.model, "train")


def container_image(run: TrainingRun) -> str:
    """Container image of the trainer. Raises NoJob."""
    image = run.trainer.images.get(run.group.vendor)
    if image is None:
        software = product_name(run.option.software)
        raise NoJob(f"No container image of {software} for {run.group.vendor} accelerators is known.")
    return image_for(image, run.group.sku)


def container_lines(run: TrainingRun, *before: str) -> tuple[str, ...]:
    """Commands of a container: install what the image lacks, then train."""
    packages = "" if run.group.vendor in run.trainer.complete_images else install_packages(run)
    own = (f"{PIP_INSTALL} {packages}",) if packages else ()
    return ("set -euo pipefail", *before, *own, *run.trainer.container_setup)


def open_inputs(run: TrainingRun) -> tuple[str, ...]:
    """Variables that the user sets; the output folder is on the volume of the job."""
    return tuple(slot.name for slot in run.slots() if slot.value is None and slot.name != "OUTPUT_DIR")


def output_folder(run: TrainingRun) -> str:
    """Output folder: that of the request, or a folder on the volume of the job. A relative one is on the volume."""
    return str(run.option.handoff.get("output") or f"{VOLUME}/{job_name(run)}")


def volume_folder(run: TrainingRun) -> str:
    """Where the job mounts its volume: at the output folder of the request, because all else is lost in the end."""
    asked = str(run.option.handoff.get("output") or "")
    return asked.rstrip("/") if asked.startswith("/") and asked.strip("/") else VOLUME


def _is_relative(run: TrainingRun) -> bool:
    """Whether the request names the output folder by a relative path."""
    asked = str(run.option.handoff.get("output") or "/")
    return not asked.startswith("/") and "://" not in asked


def run_line(run: TrainingRun) -> str:
    """Command that starts train.sh from the current folder; relative paths of its inputs are those of the volume."""
    return f'cd {VOLUME}; bash "$OLDPWD/train.sh"' if _is_relative(run) else "bash train.sh"


def docker_files(option: Option, _version: str | None, target: str) -> Handoff:
    """A script that runs the training in a container, on one machine or on each of several."""
    run = training_run(option)
    devices = {
        "NVIDIA": "--gpus all",
        "AMD": "--device /dev/kfd --device /dev/dri --group-add video --security-opt seccomp=unconfined",
    }.get(run.group.vendor)
    if devices is None:
        raise NoJob(f"Docker has no common option for {run.group.vendor} accelerators.")
    several = ("NODE_RANK", "MASTER_ADDR", *INTERFACES) if run.group.machines > 1 else ()
    passed = ("HF_TOKEN", "SMOKE", *open_inputs(run), *overridable_variables(run), *several)
    output = output_folder(run)
    mounted = f"{FILES}/{output}" if _is_relative(run) else volume_folder(run)
    inside = "; ".join((*container_lines(run), f'exec bash {FILES}/train.sh "$@"'))
    text = build_script(
        option.header_lines,
        "# bash docker.sh --smoke, then bash docker.sh. Data on this machine: put them into the folder of this script",
        f"# and name them {FILES}/NAME.",
        'HERE="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"',
        'VOLUME="${VOLUME:?set it to a folder of this machine for checkpoints and the model}"',
        *(required_input(run, name) for name in open_inputs(run)),
        "exec docker run --rm --ipc=host --network=host --ulimit memlock=-1 --ulimit stack=67108864 \\",
        f"  {devices} \\",
        *(f"  -e {name} \\" for name in passed),
        f"  -e OUTPUT_DIR={shlex.quote(output)} \\",
        f'  -v "$HERE:{FILES}" -v "$VOLUME:"{shlex.quote(mounted)} '
        '-v "$HOME/.cache/huggingface:/root/.cache/huggingface" \\',
        f'  -w {FILES} --entrypoint bash {container_image(run)} -c {shlex.quote(inside)} train "$@"',
    )
    note = "Start docker.sh on every machine."
    return job_handoff(run, target, File("docker.sh", SHELL, text), "Run bash docker.sh --smoke", note)


def required_input(run: TrainingRun, name: str) -> str:
    """Line that stops unless a variable is set; a variable that may be empty must be set too."""
    colon = "" if name in run.trainer.may_be_empty else ":"
    return f': "${{{name}{colon}?set it to what train.sh says of it}}"'


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
    notes = (
        *_input_notes(run),
        f"The persistent volume claim training is mounted at {volume_folder(run)}; the output is in "
        f"{_output_place(run)}. Several machines need a claim with ReadWriteMany.",
        "If the secret huggingface exists, the Hugging Face token is read from its key token.",
        *(("The JobSet controller must be installed.",) if run.group.machines > 1 else ()),
    )
    smoke = f"Add --from-literal=SMOKE=1 to the ConfigMap {name}-inputs"
    return job_handoff(run, target, manifest, smoke, *notes)


def _input_notes(run: TrainingRun) -> tuple[str, ...]:
    """Note about the ConfigMap of the inputs."""
    literals = " ".join(f"--from-literal={slot}=..." for slot in open_inputs(run))
    return (f"First: kubectl create configmap {job_name(run)}-inputs {literals}",) if literals else ()


def _output_place(run: TrainingRun) -> str:
    """Output folder as seen in the container."""
    return f"{VOLUME}/{output_folder(run)}" if _is_relative(run) else output_folder(run)


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
    volume = volume_folder(run)
    mounts = {"files": FILES, "output": volume, "shared-memory": "/dev/shm"}
    container: Document = {
        "name": "train",
        "image": container_image(run),
        "command": ["/bin/bash", "-c", "\n".join(lines) + "\n"],
        **({"workingDir": VOLUME} if _is_relative(run) else {}),
        "env": [
            {"name": "OUTPUT_DIR", "value": output_folder(run)},
            {"name": "HF_HOME", "value": f"{volume}/huggingface"},
            {
                "name": "HF_TOKEN",
                "valueFrom": {"secretKeyRef": {"name": "huggingface", "key": "token", "optional": True}},
            },
            *(
                {"name": slot, "valueFrom": {"configMapKeyRef": {"name": f"{name}-inputs", "key": slot}}}
                for slot in open_inputs(run)
            ),
            {
                "name": "SMOKE",
                "valueFrom": {"configMapKeyRef": {"name": f"{name}-inputs", "key": "SMOKE", "optional": True}},
            },
        ],
        "resources": {"requests": {**accelerators, **host_requests(run.option, group)}, "limits": accelerators},
        "volumeMounts": [{"name": each, "mountPath": path} for each, path in mounts.items()],
    }
    return {
        "restartPolicy": restart,
        "containers": [container],
        **node_selector(group),
        "volumes": [
            {"name": "files", "configMap": {"name": f"{name}-files"}},
            {"name": "output", "persistentVolumeClaim": {"claimName": "training"}},
            {"name": "shared-memory", "emptyDir": {"medium": "Memory"}},
        ],
    }


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
            **sky_host(run.option, group),
            "image_id": f"docker:{container_image(run)}",
            **({"use_spot": True} if group.pricing_model == "spot" else {}),
            "job_recovery": {"max_restarts_on_errors": MAX_RESTARTS},
        },
        "num_nodes": group.machines,
        "workdir": ".",
        "envs": {
            **dict.fromkeys(open_inputs(run)),
            "OUTPUT_BUCKET": None,
            "OUTPUT_DIR": output_folder(run),
            "SMOKE": "",
        },
        "secrets": {"HF_TOKEN": None},
        "file_mounts": {volume_folder(run): {"name": "${OUTPUT_BUCKET}", "mode": "MOUNT_CACHED"}},
        "run": "\n".join((*container_lines(run, ranks), run_line(run))) + "\n",
    }
    file = File("train.sky.yaml", YAML, add_header(option.header_lines, yaml_text(task)))
    values = " ".join(f"--env {slot}=..." for slot in (*open_inputs(run), "OUTPUT_BUCKET"))
    note = f"Start: sky jobs launch train.sky.yaml {values} --secret HF_TOKEN. OUTPUT_BUCKET is a bucket of your cloud."
    return job_handoff(run, target, file, "Add --env SMOKE=1 to the command", note)


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
        "env": ["HF_TOKEN", *open_inputs(run), f"OUTPUT_DIR={output_folder(run)}", "SMOKE="],
        "commands": [*container_lines(run, ranks), run_line(run)],
        "files": [file.name for file in run_files(run)],
        "volumes": [{"name": "training", "path": volume_folder(run)}],
        "resources": {
            "gpu": {"name": accelerator_name(group, "dstack"), "count": group.per_machine},
            **dstack_host(run.option, group),
            "shm_size": "64GB",
        },
        "spot_policy": "spot" if group.pricing_model == "spot" else "on-demand",
        "retry": {"on_events": ["no-capacity", "interruption", "error"], "duration": "7d"},
        **({"backends": [group.provider]} if named else {}),
        **({"regions": where} if where and named else {}),
    }
    file = File("train.dstack.yml", YAML, add_header(option.header_lines, yaml_text(task)))
    note = "Create the dstack volume training. Export the variables of env, then run: dstack apply -f train.dstack.yml."
    return job_handoff(run, target, file, "Add -e SMOKE=1 to the command", note)


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
        "#SBATCH --mem=0",  # all of a machine's; without it, a job gets the default of the cluster
        "#SBATCH --requeue",
        "#SBATCH --open-mode=append",
    )
    body = (
        "set -euo pipefail",
        *(required_input(run, name) for name in (*open_inputs(run), *_open_output(run))),
        'MASTER_ADDR="$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n1)"',
        "export MASTER_ADDR",
        'cd "$SLURM_SUBMIT_DIR"',
        'srun --kill-on-bad-exit=1 bash -c \'NODE_RANK="$SLURM_NODEID" exec bash train.sh "$@"\' run "$@"',
    )
    text = "#!/usr/bin/env bash\n" + "\n".join((*lines, *(f"# {line}" for line in option.header_lines), *body)) + "\n"
    note = "Submit job.sbatch from the folder of these files on shared storage. Requeued jobs resume."
    own = training_notes(run, smoke="Run sbatch job.sbatch --smoke", again="Submit job.sbatch")
    return Handoff(target, option.rank, (File("job.sbatch", SHELL, text), *run_files(run)), (note, *own))


def _open_output(run: TrainingRun) -> tuple[str, ...]:
    return () if run.option.handoff.get("output") else ("OUTPUT_DIR",)


def ray_files(option: Option, _version: str | None, target: str) -> Handoff:
    """A RayJob for Kubernetes, and the script that starts train.sh on each machine of any Ray cluster."""
    run = training_run(option)
    if run.group.vendor != "NVIDIA" or not run.trainer.install or run.trainer.container_setup:
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
        *_input_notes(run),
        "On a running Ray cluster: ray job submit --working-dir . -- python ray_train.py --machines "
        f"{run.group.machines} --accelerators {run.group.per_machine}, with {variables or 'no variable'} in "
        "--runtime-env-json.",
        "The RayJob needs the KubeRay operator, and the persistent volume claim training with ReadWriteMany, which it "
        f"mounts at {volume_folder(run)}.",
    )
    smoke = f"Add --smoke to the command, or --from-literal=SMOKE=1 to the ConfigMap {name}-inputs"
    return job_handoff(run, target, manifest, smoke, *notes, more=(launcher,))


def ray_job(run: TrainingRun) -> Document:
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
