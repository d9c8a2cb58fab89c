"""Targets of deployment packages, and which of them can start an option."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from app.errors import Unanswerable
from app.export.handoff import clouds, cluster, hosts, jobs, stacks, training
from app.export.handoff.engines import ARM_HOSTS, BY_ENGINE, UnknownFlag
from app.export.handoff.option import Handoff, Option
from app.export.handoff.run import TrainingRun, training_run
from app.export.handoff.serving import fleet_router, plan_launches
from app.sizing.words import join_words, percent, product_name

FileBuilder = Callable[[Option, str | None, str], Handoff]


class CannotStart(Unanswerable):
    """Raised for a target that cannot start the recommended option."""

    code = "target-cannot-start"


@dataclass(frozen=True, slots=True)
class Target:
    """How to build a deployment package, and which options it supports."""

    builder: FileBuilder  # builds the files
    supports: Callable[[Option], bool]  # whether the target supports an option


def _engine_target(name: str) -> Target:
    return Target(hosts.shell_files, lambda option: not option.is_training and option.software == name)


def _serving_target(builder: FileBuilder) -> Target:
    return Target(builder, lambda option: not option.is_training and option.software in BY_ENGINE)


def _run_target(builder: FileBuilder, starts: Callable[[TrainingRun], bool] = lambda _: True) -> Target:
    """Target of runs. Raises NoLauncher in `supports` for a framework without a launcher."""
    return Target(builder, lambda option: starts(training_run(option)))


# In the order in which an answer lists them. The first one that can start an option is the default.
TARGETS: Mapping[str, Target] = {
    "shell": _serving_target(hosts.shell_files),
    "docker": _serving_target(hosts.docker_files),
    "docker-compose": _serving_target(clouds.compose_files),
    "kubernetes": _serving_target(cluster.kubernetes_files),
    "kserve": _serving_target(cluster.kserve_files),
    "llm-d": _serving_target(stacks.llm_d_files),
    "dynamo": _serving_target(stacks.dynamo_files),
    "ray": _serving_target(stacks.ray_files),
    "skypilot": _serving_target(clouds.skypilot_files),
    "dstack": _serving_target(clouds.dstack_files),
    "slurm": _serving_target(hosts.slurm_files),
    **{name: _engine_target(name) for name in BY_ENGINE},
}


# Targets of training runs. A launcher is a target only for runs that were sized with it.
RUN_TARGETS: Mapping[str, Target] = {
    "shell": _run_target(training.training_files),
    "docker": _run_target(jobs.docker_files),
    "kubernetes": _run_target(jobs.kubernetes_files),
    "skypilot": _run_target(jobs.skypilot_files),
    "dstack": _run_target(jobs.dstack_files),
    "slurm": _run_target(jobs.slurm_files),
    "ray": _run_target(jobs.ray_files),
    "torchrun": _run_target(training.training_files, lambda run: run.trainer.launcher == "torchrun"),
    "accelerate": _run_target(training.training_files, lambda run: run.trainer.launcher == "accelerate"),
    "deepspeed": _run_target(training.training_files, lambda run: run.uses_deepspeed),
    "megatron": _run_target(training.training_files, lambda run: run.trainer.name.startswith("megatron")),
}


ARM_IMAGE = "The machines have Arm processors: before you start, check that the image is published for linux/arm64."
# What replicas and runs on several machines lack, by target: their containers have no device of the fast network.
_NO_RDMA = "The containers have no RDMA device: NCCL uses TCP, which is slower than the network that was sized. "
_PODS = f"{_NO_RDMA}Add the resource of your RDMA device plugin, such as rdma/ib, to the limits, and IPC_LOCK."
NO_RDMA: Mapping[str, tuple[str, ...]] = {
    "docker": (f"{_NO_RDMA}Where the machines have one, add --device /dev/infiniband --ulimit memlock=-1.",),
    **dict.fromkeys(("kubernetes", "llm-d", "dynamo", "ray"), (_PODS,)),
}


# Targets that give a service one address for all replicas.
ONE_ADDRESS = ("kubernetes", "kserve", "llm-d", "dynamo", "ray", "skypilot", "dstack")


def targets_of(option: Option) -> Mapping[str, Target]:
    """Targets for services, or those for runs."""
    return RUN_TARGETS if option.is_training else TARGETS


def build_handoff(option: Option, target: str | None, version: str | None) -> Handoff:
    """Deployment package of a target, or of the first one that can start the option.

    Raises CannotStart, and UnknownFlag if the version lacks a flag.
    """
    able = startable_targets(option)
    if target is None and not able:
        if option.is_training:
            training_run(option)
        if option.is_training or option.software not in BY_ENGINE:
            software = product_name(option.software)
            raise CannotStart(f"No target can start {option.name}: {software} is a library without a start command.")
    try:
        made = build_files(option, target or (able[0] if able else "shell"), version)
    except UnknownFlag:
        raise
    except Unanswerable as refused:
        others = f"Targets that can start it: {', '.join(able)}." if able else "No target can start it."
        raise CannotStart(f"{refused.detail} {others}") from refused
    return replace(made, targets=able)


def build_fleet_handoff(options: Sequence[Option], target: str | None, version: str | None) -> Handoff:
    """Deployment package of a ranked option, or of the groups of a mixed fleet: one folder for each group, and a router
    that sends each group its share of the requests. Raises CannotStart and UnknownFlag as `build_handoff` does.
    """
    first = options[0]
    if not first.fleet_group:
        return build_handoff(first, target, version)
    able = tuple(name for name in startable_targets(first) if all(can_start(each, name) for each in options[1:]))
    made = [build_handoff(each, target or (able[0] if able else None), version) for each in options]
    parts = tuple(plan_launches(each, version)[0] for each in options)
    router = fleet_router(parts, per_replica=made[0].target not in ONE_ADDRESS)
    files = [
        replace(file, name=f"{o.fleet_group}/{file.name}")
        for o, m in zip(options, made, strict=True)
        for file in m.files
    ]
    notes = [f"{o.fleet_group}: {note}" for o, m in zip(options, made, strict=True) for note in m.notes]
    names = dict.fromkeys(part.served_name for part in parts)
    shares = join_words([f"{percent(each.share)} to {each.fleet_group}" for each in options])
    notes.insert(0, f"router.conf, for nginx, sends {shares}. Replace the addresses in it with yours.")
    if len(names) > 1:
        notes.insert(1, f"The groups name their models {join_words(list(names))}. Start them with one common name.")
    return Handoff(made[0].target, first.rank, (router, *files), tuple(notes), able)


def startable_targets(option: Option) -> tuple[str, ...]:
    """Targets that can start an option. The names of engines, which do what `shell` does, are left out."""
    return tuple(name for name in targets_of(option) if name not in BY_ENGINE and can_start(option, name))


def build_files(option: Option, target: str, version: str | None) -> Handoff:
    """Deployment package of a target that supports the software of the option. Raises Unanswerable otherwise."""
    chosen = targets_of(option).get(target)
    if chosen is None or not chosen.supports(option):
        verb = "trains" if option.is_training else "is served"
        software = product_name(option.software)
        raise CannotStart(f"{option.name.capitalize()} {verb} with {software}, which the target {target} cannot start.")
    checked = training_run(option).trainer.source if option.is_training else BY_ENGINE[option.software].source
    made = chosen.builder(replace(option, checked=checked), version, target)
    contained = any(word in file.text for file in made.files for word in ("image:", "image_id:", "docker run"))
    lacks = NO_RDMA.get(target, ()) if any(group.machines > 1 for group in option.groups) else ()
    arm = (ARM_IMAGE,) if contained and option.groups[0].sku in ARM_HOSTS else ()
    return replace(made, notes=(*made.notes, *arm, *lacks))


def can_start(option: Option, target: str) -> bool:
    """Whether a target can start an option with the engine version whose flags are known."""
    try:
        return bool(build_files(option, target, None).files)
    except Unanswerable:
        return False
