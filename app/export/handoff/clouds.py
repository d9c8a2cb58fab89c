"""Builds SkyPilot and dstack services, which find their machines, and Docker Compose files for one machine."""

from __future__ import annotations

from typing import Any

from app.errors import Unanswerable
from app.export.handoff.cluster import PROBE_PERIOD_S, PROBE_TIMEOUT_S, UNHEALTHY_PROBES, WEIGHTS
from app.export.handoff.lifecycle import (
    CACHE,
    NODE_CACHE,
    cache_environment,
    disk_gb,
    drain_s,
    host_requests,
    start_budget_s,
    start_note,
)
from app.export.handoff.option import (
    YAML,
    File,
    Handoff,
    Option,
    ReplicaGroup,
    add_header,
    replica_range,
    scaling_notes,
    yaml_text,
)
from app.export.handoff.serving import NotServable, ReplicaLaunch, plan_launches, serving_notes, shared_files
from app.export.handoff.weights import needs_conversion
from app.sizing.words import format_count, product_name

Document = dict[str, Any]
LOCAL_WEIGHTS = "models"  # folder next to the files, with weights that the user makes
SKY_START_S = 1200  # default of SkyPilot 0.14.1; a replica that it starts may need a machine first
RANK_OF_SKY = ('export NODE_RANK="$SKYPILOT_NODE_RANK" MASTER_ADDR="$(echo "$SKYPILOT_NODE_IPS" | head -n1)"',)
# Accelerator names of SkyPilot (sky/catalog of 0.14.1) and dstack (gpuhunt), by prefix of the catalog slug; the first
# match counts.
NAMES = (
    ("nvidia-h100-sxm5", "H100", "H100"),
    ("nvidia-h200-sxm", "H200", "H200"),
    ("nvidia-b200-sxm", "B200", "B200"),
    ("nvidia-b300-sxm", "B300", "B300"),
    ("nvidia-gb200", "GB200", "GB200"),
    ("nvidia-gh200", "GH200", "GH200"),
    ("nvidia-a100-sxm4-80gb", "A100-80GB", "A100"),
    ("nvidia-a100-pcie-80gb", "A100-80GB", "A100"),
    ("nvidia-a100-sxm4-40gb", "A100", "A100"),
    ("nvidia-a100-pcie-40gb", "A100", "A100"),
    ("nvidia-l40s", "L40S", "L40S"),
    ("nvidia-l40", "L40", "L40"),
    ("nvidia-l4", "L4", "L4"),
    ("nvidia-a10g", "A10G", "A10G"),
    ("nvidia-a10", "A10", "A10"),
    ("nvidia-t4", "T4", "T4"),
    ("nvidia-v100-sxm2-16gb", "V100", "V100"),
    ("nvidia-v100-sxm2-32gb", "V100-32GB", "V100"),
    ("nvidia-a40", "A40", "A40"),
    ("nvidia-rtx-a6000", "RTXA6000", "A6000"),
    ("nvidia-rtx-a5000", "RTXA5000", "A5000"),
    ("nvidia-rtx-a4000", "RTXA4000", "A4000"),
    ("nvidia-rtx-6000-ada", "RTX6000-Ada", "RTX6000Ada"),
    ("nvidia-rtx-pro-6000-blackwell", "RTXPRO6000", "RTXPRO6000"),
    ("nvidia-rtx-3090", "RTX3090", "RTX3090"),
    ("nvidia-rtx-4090", "RTX4090", "RTX4090"),
    ("nvidia-rtx-5090", "RTX5090", "RTX5090"),
    ("amd-mi300x", "MI300X", "MI300X"),
)
CLOUDS = frozenset(("aws", "gcp", "azure", "lambda", "runpod", "nebius", "oci", "vast", "verda", "hyperstack"))
SKY_CLOUDS = CLOUDS - {"hyperstack"}
DSTACK_BACKENDS = CLOUDS - {"hyperstack"}
UNNAMED_REGIONS = ("unspecified", "global", "on_prem")


class UnnamedAccelerator(Unanswerable):
    """Raised for an accelerator whose name in a tool is not known."""

    code = "accelerator-not-named"


def accelerator_name(group: ReplicaGroup, tool: str) -> str:
    """Name of an accelerator in SkyPilot or dstack. Raises UnnamedAccelerator."""
    for start, sky, dstack in NAMES:
        if group.sku.startswith(start):
            return sky if tool == "SkyPilot" else dstack
    raise UnnamedAccelerator(f"No {tool} name is known for {group.accelerator}.")


def skypilot_files(option: Option, version: str | None, target: str) -> Handoff:
    """One SkyPilot service per group of replicas."""
    groups = plan_launches(option, version)
    files = [
        File(f"{part.name}.sky.yaml", YAML, add_header(option.header_lines, yaml_text(sky_service(part))))
        for part in groups
    ]
    own = [start_note(option, groups[0].group)]
    if needs_conversion(groups[0].group):
        own.append(f"Weights are read from the folder {LOCAL_WEIGHTS} next to this file, which SkyPilot uploads.")
    notes = (*serving_notes(groups), *own, *scaling_notes(option))
    return Handoff(target, option.rank, (*files, *shared_files(groups, LOCAL_WEIGHTS)), notes)


def sky_service(part: ReplicaLaunch) -> Document:
    """SkyPilot task with its service section."""
    group = part.group
    if part.spans_machines and not part.launch.starts_per_machine:
        engine = product_name(part.launch.engine)
        raise NotServable(f"{engine} can start a replica on several machines only with Slurm.")
    resources: Document = {
        **({"infra": _infra_path(group)} if group.provider in SKY_CLOUDS else {}),
        "accelerators": {accelerator_name(group, "SkyPilot"): group.per_machine},
        **sky_host(part.option, group),
        "image_id": f"docker:{part.image}",
        "ports": part.port,
        **({"use_spot": True} if group.pricing_model == "spot" else {}),
    }
    return {
        "name": part.name,
        "service": {
            "readiness_probe": {
                "path": f"/{part.launch.server.path}",
                "initial_delay_seconds": max(SKY_START_S, start_budget_s(part.option, group)),
            },
            "replica_policy": _sky_replicas(part),
        },
        "resources": resources,
        **({"num_nodes": group.machines} if part.spans_machines else {}),
        **({"envs": {"REVISION": "main"}} if "REVISION" in part.environment else {}),
        "secrets": {"HF_TOKEN": ""},
        **({"file_mounts": {WEIGHTS: f"./{LOCAL_WEIGHTS}"}} if needs_conversion(group) else {}),
        "run": "\n".join((*enter_weights(group), *part.container_lines(*RANK_OF_SKY))) + "\n",
    }


def sky_host(option: Option, group: ReplicaGroup) -> Document:
    """Processors, memory and disk that SkyPilot asks for: at least what a replica or a run needs."""
    requested = host_requests(option, group)
    memory = requested["memory"].removesuffix("Gi")
    return {"cpus": f"{requested['cpu']}+", "memory": f"{memory}+", "disk_size": disk_gb(option, group)}


def enter_weights(group: ReplicaGroup) -> tuple[str, ...]:
    """Line that changes to the folder of the weights, if the server reads them from a path."""
    return (f"cd {WEIGHTS}",) if needs_conversion(group) else ()


def _sky_replicas(part: ReplicaLaunch) -> Document:
    """Replica policy of SkyPilot: all replicas that the peak needs, or a range that follows the load."""
    scaling = replica_range(part.option)
    if scaling is None:
        return {"min_replicas": part.group.replicas, "max_replicas": part.group.replicas}
    return {
        "min_replicas": scaling.min_replicas,
        "max_replicas": scaling.max_replicas,
        "target_qps_per_replica": scaling.rate_with_spares,
        "downscale_delay_seconds": scaling.scale_down_delay_s,
    }


def _dstack_replicas(part: ReplicaLaunch) -> Document:
    """Replica settings of dstack: all replicas that the peak needs, or a range that follows the load."""
    scaling = replica_range(part.option)
    if scaling is None:
        return {"replicas": part.group.replicas}
    return {
        "replicas": f"{scaling.min_replicas}..{scaling.max_replicas}",
        "scaling": {
            "metric": "rps",
            "target": scaling.rate_with_spares,
            "scale_down_delay": scaling.scale_down_delay_s,
        },
    }


def _infra_path(group: ReplicaGroup) -> str:
    unnamed = group.region is None or group.region in UNNAMED_REGIONS
    return str(group.provider) if unnamed else f"{group.provider}/{group.region}"


def dstack_files(option: Option, version: str | None, target: str) -> Handoff:
    """One dstack service per group of replicas."""
    groups = plan_launches(option, version)
    files = [
        File(f"{part.name}.dstack.yml", YAML, add_header(option.header_lines, yaml_text(dstack_service(part))))
        for part in groups
    ]
    own = [start_note(option, groups[0].group)]
    if needs_conversion(groups[0].group):
        own.append(f"Weights are read from a dstack volume named models, mounted at {WEIGHTS}.")
    notes = (*serving_notes(groups), *own, *scaling_notes(option))
    return Handoff(target, option.rank, (*files, *shared_files(groups)), notes)


def dstack_service(part: ReplicaLaunch) -> Document:
    """dstack service whose replicas run on one machine each."""
    group = part.group
    if part.spans_machines:
        raise NotServable("A dstack service cannot start replicas that span several machines.")
    where = [group.region] if group.region is not None and group.region not in UNNAMED_REGIONS else []
    return {
        "type": "service",
        "name": part.name,
        "image": part.image,
        "env": ["HF_TOKEN", *(f"{name}={value}" for name, value in part.environment.items())],
        "commands": [*enter_weights(group), *part.container_lines()],
        "port": part.port,
        # dstack gives this model an address for chats, which encoders and samplers do not answer.
        **({"model": group.model} if group.places.get("served") else {}),
        **_dstack_replicas(part),
        # The cache of the machine outlives the container; where a backend has none, weights are downloaded again.
        "volumes": [
            {"instance_path": NODE_CACHE, "path": CACHE, "optional": True},
            *([{"name": "models", "path": WEIGHTS}] if needs_conversion(group) else ()),
        ],
        "probes": [
            {
                "type": "http",
                "url": f"/{part.launch.server.path}",
                "timeout": PROBE_TIMEOUT_S,
                "interval": PROBE_PERIOD_S,
            }
        ],
        "resources": {
            "gpu": {"name": accelerator_name(group, "dstack"), "count": group.per_machine},
            **dstack_host(part.option, group),
        },
        "spot_policy": "spot" if group.pricing_model == "spot" else "on-demand",
        **({"backends": [group.provider]} if group.provider in DSTACK_BACKENDS else {}),
        **({"regions": where} if where and group.provider in DSTACK_BACKENDS else {}),
    }


def dstack_host(option: Option, group: ReplicaGroup) -> Document:
    """Processors, memory and disk that dstack asks for: at least what a replica or a run needs."""
    requested = host_requests(option, group)
    memory = requested["memory"].removesuffix("Gi")
    return {"cpu": f"{requested['cpu']}..", "memory": f"{memory}GB..", "disk": f"{disk_gb(option, group)}GB.."}


def compose_files(option: Option, version: str | None, target: str) -> Handoff:
    """Compose files with the replicas of one machine; the same file runs on every machine of the option."""
    groups = plan_launches(option, version)
    if any(part.spans_machines for part in groups):
        raise NotServable("Docker Compose runs on one machine, but a replica of this layout spans several machines.")
    files = [
        File(f"{part.name}.compose.yaml", YAML, add_header(option.header_lines, yaml_text(compose_project(part))))
        for part in groups
    ]
    made = needs_conversion(groups[0].group)
    notes = (
        *serving_notes(groups),
        start_note(option, groups[0].group),
        *((f"Weights are read from the folder {LOCAL_WEIGHTS} next to the file.",) if made else ()),
        *(
            f"Run {format_count(part.group.replicas, 'replica')} on machines with "
            f"{format_count(part.group.machine_accelerators, 'accelerator')} each."
            for part in groups
        ),
    )
    return Handoff(target, option.rank, (*files, *shared_files(groups, LOCAL_WEIGHTS)), notes)


def compose_project(part: ReplicaLaunch) -> Document:
    """Compose project with one service per replica on the machine, each with its own accelerators and port."""
    group = part.group
    if group.vendor != "NVIDIA":
        raise NotServable("Docker Compose can assign individual accelerators only for NVIDIA.")
    here = max(1, min(group.replicas, group.machine_accelerators // group.per_machine))
    return {
        "name": part.name,
        "services": {f"replica-{place}": _compose_service(part, place) for place in range(here)},
        "volumes": {"cache": {}},
    }


def _compose_service(part: ReplicaLaunch, place: int) -> Document:
    each = part.group.per_machine
    devices = [str(device) for device in range(place * each, (place + 1) * each)]
    local = needs_conversion(part.group)
    folders = [f"cache:{CACHE}", *([f"./{LOCAL_WEIGHTS}:{WEIGHTS}:ro"] if local else ())]
    return {
        "image": part.image,
        "entrypoint": ["/bin/bash", "-c"],
        # Compose substitutes variables after a single $.
        "command": ["\n".join(("set -euo pipefail", *part.container_lines())).replace("$", "$$") + "\n"],
        "environment": {
            "HF_TOKEN": "${HF_TOKEN:-}",
            "REVISION": "${REVISION:-main}",
            **cache_environment(part.launch.engine),
        },
        "ports": [f"{part.port + place}:{part.port}"],
        "ipc": "host",
        "restart": "unless-stopped",
        "stop_grace_period": f"{drain_s(part.option)}s",
        "healthcheck": {
            "test": ["CMD", "/bin/bash", "-c", health_check(part).replace("$", "$$")],
            "interval": f"{PROBE_PERIOD_S}s",
            "timeout": f"{PROBE_TIMEOUT_S}s",
            "retries": UNHEALTHY_PROBES,
            "start_period": f"{start_budget_s(part.option, part.group)}s",
        },
        "volumes": folders,
        **({"working_dir": WEIGHTS} if local else {}),
        "deploy": {
            "resources": {
                "reservations": {
                    "devices": [{"driver": "nvidia", "device_ids": devices, "capabilities": ["gpu"]}],
                }
            }
        },
    }


def health_check(part: ReplicaLaunch) -> str:
    """Bash command that succeeds if the server answers; it needs no other program in the image."""
    return (
        f"exec 3<>/dev/tcp/127.0.0.1/{part.port}; printf 'GET /{part.launch.server.path} HTTP/1.0\\r\\n\\r\\n' >&3; "
        'read -r -u 3 _ status _; [ "$status" = 200 ]'
    )
