"""Targets of deployment packages, and which of them can start an option."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from app.errors import Unanswerable
from app.export.handoff import clouds, cluster, hosts, stacks, training
from app.export.handoff.engines import BY_ENGINE, UnknownFlag
from app.export.handoff.option import Handoff, Option
from app.sizing.hardware.benchmarks import BENCHMARKS
from app.sizing.words import product_name

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


def _training_target(builder: FileBuilder, starts: Callable[[Option], bool]) -> Target:
    return Target(builder, lambda option: option.is_training and starts(option))


def _supports_torchrun(option: Option) -> bool:
    """Whether PyTorch FSDP trains the whole model on tokens, in any framework based on it; adapters are excluded."""
    whole = option.groups[0].places.get("adapter") is None
    return training.is_measured_by(option, BENCHMARKS["torchtitan"]) or (whole and training.is_based_on(option, "fsdp"))


def _slurm_files(option: Option, version: str | None, target: str) -> Handoff:
    """Slurm job of a run, or of the replicas of a service."""
    return (training.slurm_files if option.is_training else hosts.slurm_files)(option, version, target)


# In the order in which an answer lists them. The first one that can start an option is the default.
TARGETS: Mapping[str, Target] = {
    "shell": _serving_target(hosts.shell_files),
    "docker": _serving_target(hosts.docker_files),
    "docker-compose": _serving_target(clouds.compose_files),
    "kubernetes": _serving_target(cluster.kubernetes_files),
    "kserve": _serving_target(cluster.kserve_files),
    "llm-d": _serving_target(stacks.llm_d_files),
    "ray": _serving_target(stacks.ray_files),
    "skypilot": _serving_target(clouds.skypilot_files),
    "dstack": _serving_target(clouds.dstack_files),
    "torchrun": _training_target(training.torchrun_files, _supports_torchrun),
    "deepspeed": _training_target(training.deepspeed_files, lambda option: training.is_based_on(option, "deepspeed")),
    "megatron": _training_target(
        training.megatron_files, lambda option: training.is_measured_by(option, BENCHMARKS["megatron"])
    ),
    "accelerate": _training_target(
        training.accelerate_files, lambda option: training.is_measured_by(option, BENCHMARKS["trl"])
    ),
    "slurm": Target(_slurm_files, lambda option: option.is_training or option.software in BY_ENGINE),
    **{name: _engine_target(name) for name in BY_ENGINE},
}


def build_handoff(option: Option, target: str | None, version: str | None) -> Handoff:
    """Deployment package of a target, or of the first one that can start the option.

    Raises CannotStart, and UnknownFlag if the version lacks a flag.
    """
    able = startable_targets(option)
    if target is None and not able:
        software = product_name(option.software)
        raise CannotStart(f"No target can start rank {option.rank}: {software} is a library without a start command.")
    try:
        made = build_files(option, target or able[0], version)
    except UnknownFlag:
        raise
    except Unanswerable as refused:
        others = f"Targets that can start it: {', '.join(able)}." if able else "No target can start it."
        raise CannotStart(f"{refused.detail} {others}") from refused
    return replace(made, targets=able)


def startable_targets(option: Option) -> tuple[str, ...]:
    """Targets that can start an option. The names of engines, which do what `shell` does, are left out."""
    return tuple(name for name in TARGETS if name not in BY_ENGINE and can_start(option, name))


def build_files(option: Option, target: str, version: str | None) -> Handoff:
    """Deployment package of a target that supports the software of the option. Raises Unanswerable otherwise."""
    chosen = TARGETS[target]
    if not chosen.supports(option):
        verb = "trains" if option.is_training else "is served"
        software = product_name(option.software)
        raise CannotStart(f"Rank {option.rank} {verb} with {software}, which the target {target} cannot start.")
    return chosen.builder(option, version, target)


def can_start(option: Option, target: str) -> bool:
    """Whether a target can start an option with the engine version whose flags are known."""
    try:
        return bool(build_files(option, target, None).files)
    except Unanswerable:
        return False
