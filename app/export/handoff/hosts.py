"""Builds files for machines that you have: scripts of the bare engine, docker run, and Slurm jobs."""

from __future__ import annotations

import shlex

from app.export.handoff.clouds import LOCAL_WEIGHTS
from app.export.handoff.cluster import WEIGHTS
from app.export.handoff.engines import format_version
from app.export.handoff.lifecycle import CACHE, cache_environment, drain_s, host_requests, start_note
from app.export.handoff.option import INTERFACES, NETWORKS, SHELL, File, Handoff, Option, build_script
from app.export.handoff.serving import (
    NotServable,
    ReplicaLaunch,
    plan_launches,
    script_comments,
    serving_notes,
    shared_files,
)
from app.export.handoff.weights import needs_conversion
from app.sizing.words import product_name

# What gives a container accelerators, by vendor, with the variable that selects some of them.
VISIBLE_DEVICES = {"NVIDIA": "CUDA_VISIBLE_DEVICES", "AMD": "HIP_VISIBLE_DEVICES"}
DEVICE_FLAGS = {
    "NVIDIA": "--gpus all",
    "AMD": "--device /dev/kfd --device /dev/dri --group-add video --security-opt seccomp=unconfined",
    "Intel": "--device /dev/dri",
}
REQUIRE_PEERS = (
    ': "${NODE_RANK:?set it to 0 on the first machine of a replica, then 1, 2, ...}"',
    ': "${MASTER_ADDR:?set it to the address of the first machine}"',
)


def host_lines(part: ReplicaLaunch) -> tuple[str, ...]:
    """Lines that start one of the replicas of a machine: its accelerators and its port follow from its number."""
    here, each = part.replicas_per_machine, part.group.per_machine
    devices = VISIBLE_DEVICES.get(part.group.vendor)
    if here == 1 or devices is None or part.spans_machines:
        return part.script_lines()
    numbers = f'"$(seq -s, $((REPLICA * {each})) $((REPLICA * {each} + {each - 1})))"'
    return (
        f': "${{REPLICA:?set it to the number of the replica on this machine, 0 to {here - 1}}}"',
        f"{devices}={numbers}",
        f"export {devices}",
        f'PORT="${{PORT:-$(({part.port} + REPLICA))}}"',
        *part.script_lines(port="$PORT"),
    )


def shell_files(option: Option, version: str | None, target: str) -> Handoff:
    """One script per group of replicas, the router between two pools, and the benchmark."""
    groups = plan_launches(option, version)
    files = [
        File(
            f"{part.group.role}.sh", SHELL, build_script(option.header_lines, *script_comments(part), *host_lines(part))
        )
        for part in groups
    ]
    return Handoff(
        target,
        option.rank,
        (*files, *shared_files(groups)),
        (*serving_notes(groups), *software_note(groups), *machine_notes(groups)),
    )


def software_note(groups: tuple[ReplicaLaunch, ...]) -> tuple[str, ...]:
    """Note about the release that machines without containers need; none for libraries, whose note names packages."""
    launch, version = groups[0].launch, groups[0].version
    named = f"{product_name(launch.engine)} {format_version(version)}" if version else product_name(launch.engine)
    return () if launch.script else (f"The machines need {named} on the PATH: the files install nothing.",)


def machine_notes(groups: tuple[ReplicaLaunch, ...]) -> tuple[str, ...]:
    """Note about what each machine of a replica needs, if the user starts each of them."""
    if not any(part.spans_machines for part in groups):
        return ()
    if not groups[0].launch.starts_per_machine:
        return ("A replica spans several machines: start its script in an allocation of Slurm with all of them.",)
    return (
        "A replica spans several machines. Each needs its rank in NODE_RANK and the address of the first one in "
        f"MASTER_ADDR. {NETWORKS}",
    )


def docker_files(option: Option, version: str | None, target: str) -> Handoff:
    """One script per group that starts the containers of one machine."""
    groups = plan_launches(option, version)
    files = [
        File(
            f"{part.name}.docker.sh",
            SHELL,
            build_script(option.header_lines, *script_comments(part), *docker_lines(part)),
        )
        for part in groups
    ]
    own = [start_note(option, groups[0].group)]
    if needs_conversion(groups[0].group):
        own.append(
            f"Weights are read from the folder {LOCAL_WEIGHTS} next to the script, into which convert.sh writes."
        )
    shared = shared_files(groups, LOCAL_WEIGHTS)
    return Handoff(target, option.rank, (*files, *shared), (*serving_notes(groups), *machine_notes(groups), *own))


def docker_lines(part: ReplicaLaunch) -> tuple[str, ...]:
    """Lines that start the containers of one machine, which restart with it."""
    if part.group.vendor not in DEVICE_FLAGS:
        raise NotServable(f"No way is known to give a container {part.group.vendor} accelerators.")
    if part.spans_machines and not part.launch.starts_per_machine:
        raise NotServable(
            f"{product_name(part.launch.engine)} can start a replica on several machines only with Slurm."
        )
    start = ("START=$(cat <<'SCRIPT'", "set -euo pipefail", *part.container_lines(), "SCRIPT", ")")
    peers = REQUIRE_PEERS if part.spans_machines else ()
    runs = (line for place in range(part.replicas_per_machine) for line in docker_run(part, place))
    here = ('HERE="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"',) if needs_conversion(part.group) else ()
    return (*peers, *here, *start, *runs)


def docker_run(part: ReplicaLaunch, place: int) -> tuple[str, ...]:
    """The command that starts one container of a machine, one group of flags per line."""
    each, devices = part.group.per_machine, VISIBLE_DEVICES.get(part.group.vendor)
    first = place * each
    some = ",".join(str(number) for number in range(first, first + each))
    share = each < part.group.machine_accelerators
    gpus = DEVICE_FLAGS[part.group.vendor]
    if share and part.group.vendor == "NVIDIA":
        gpus = f"--gpus '\"device={some}\"'"
    elif share and devices is not None:
        gpus += f" --env {devices}={some}"
    peers = " ".join(f"--env {name}" for name in ("NODE_RANK", "MASTER_ADDR", *INTERFACES))
    network = f"--network host {peers}" if part.spans_machines else ""
    folders = (
        f'--volume "$HERE/{LOCAL_WEIGHTS}:{WEIGHTS}:ro" --workdir {WEIGHTS}' if needs_conversion(part.group) else ""
    )
    cached = " ".join(f"--env {name}={value}" for name, value in cache_environment(part.launch.engine).items())
    flags = (
        f"docker run --detach --name {part.name}-{place}",
        f"--restart unless-stopped --stop-timeout {drain_s(part.option)}",
        gpus,
        "--ipc host",
        network or f"--publish {part.port + place}:{part.port}",
        f"--volume model-cache:{CACHE} {cached}",
        folders,
        "--env HF_TOKEN --env REVISION",
        f'--entrypoint /bin/bash {shlex.quote(part.image)} -c "$START"',
    )
    return (" \\\n  ".join(flag for flag in flags if flag),)


def slurm_files(option: Option, version: str | None, target: str) -> Handoff:
    """A batch job per group of replicas, whose array has one task per replica, and the script of one machine."""
    groups = plan_launches(option, version)
    files: list[File] = []
    for part in groups:
        if part.group.vendor not in DEVICE_FLAGS:
            raise NotServable(f"Slurm is not used with {part.group.vendor} accelerators.")
        script = f"{part.group.role}.sh"
        port = "$PORT" if part.replicas_per_machine > 1 else None
        files += [
            File(f"{part.name}.sbatch", SHELL, slurm_job(part, script)),
            File(
                script,
                SHELL,
                build_script(option.header_lines, *script_comments(part), *part.script_lines(port=port)),
            ),
        ]
    note = (
        "Submit the .sbatch files with sbatch. Add the partition, the account and the longest time of your cluster. "
        "ADDRESS files in the job's folder name the machine and the port of each replica."
    )
    notes = (*serving_notes(groups), *software_note(groups), note)
    return Handoff(target, option.rank, (*files, *shared_files(groups)), notes)


def slurm_job(part: ReplicaLaunch, script: str) -> str:
    """Batch job of a group of replicas. A task whose machine fails is queued again."""
    group, launches = part.group, part.spans_machines and not part.launch.starts_per_machine
    tasks = group.per_machine if launches else 1
    port = f"$(({part.port} + SLURM_ARRAY_TASK_ID))" if part.replicas_per_machine > 1 else part.port
    needs = host_requests(part.option, group)
    cpus, memory = f"--cpus-per-task={needs['cpu']}", needs["memory"].removesuffix("i")
    whole = group.per_machine == group.machine_accelerators
    host = ("--exclusive", "--mem=0") if whole else (cpus, f"--mem={memory}")
    step = "srun --kill-on-bad-exit=1" + ("" if whole else f" {cpus}")  # a step does not take them from the job
    run = f"{step} bash -c 'NODE_RANK=\"$SLURM_NODEID\" exec bash ./{script}'"
    lines = (
        f"#SBATCH --job-name={part.name}",
        f"#SBATCH --array=0-{group.replicas - 1}",
        f"#SBATCH --nodes={group.machines}",
        f"#SBATCH --ntasks-per-node={tasks}",
        f"#SBATCH --gpus-per-node={group.per_machine}",
        *(f"#SBATCH {flag}" for flag in host),
        "#SBATCH --requeue",
        "set -euo pipefail",
        f"export PORT={port}",
        'MASTER_ADDR="$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n1)"',
        "export MASTER_ADDR",
        'echo "$MASTER_ADDR:$PORT" > "ADDRESS.$SLURM_ARRAY_TASK_ID"',
        f"exec bash ./{script}" if launches else run,
    )
    header = "".join(f"# {line}\n" for line in part.option.header_lines)
    return "#!/usr/bin/env bash\n" + header + "\n".join(lines) + "\n"
