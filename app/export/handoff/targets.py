"""Targets of deployment packages, and which of them can start an option."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from app.errors import Unanswerable
from app.export.handoff import clouds, cluster, serving, training
from app.export.handoff.engines import BY_ENGINE, UnknownFlag
from app.export.handoff.files import Handoff
from app.export.handoff.option import Option
from app.sizing.hardware import benchmarks
from app.sizing.product_names import product_name

Written = Callable[[Option, str | None, str], Handoff]


class CannotStart(Unanswerable):
    """Raised for a target that cannot start the recommended option."""

    code = "target-cannot-start"


@dataclass(frozen=True, slots=True)
class Target:
    """How to build a deployment package, and which options it supports."""

    builder: Written  # builds the files
    starts: Callable[[Option], bool]  # whether the target supports an option


def _engine(name: str) -> Target:
    return Target(serving.engine_files, lambda option: not option.is_training and option.software == name)


def _served(builder: Written) -> Target:
    return Target(builder, lambda option: not option.is_training and option.software in BY_ENGINE)


def _trained(builder: Written, starts: Callable[[Option], bool]) -> Target:
    return Target(builder, lambda option: option.is_training and starts(option))


def _by_torchrun(option: Option) -> bool:
    """Whether PyTorch FSDP trains the whole model on tokens, in any framework based on it; adapters are excluded."""
    whole = option.groups[0].places.get("adapter") is None
    return training.measured_by(option, benchmarks.TORCHTITAN) or (whole and training.based_on(option, "fsdp"))


TARGETS: Mapping[str, Target] = {
    **{name: _engine(name) for name in BY_ENGINE},
    "kubernetes": _served(cluster.kubernetes),
    "kserve": _served(cluster.kserve),
    "skypilot": _served(clouds.skypilot),
    "dstack": _served(clouds.dstack),
    "docker-compose": _served(clouds.compose),
    "torchrun": _trained(training.torchrun, _by_torchrun),
    "deepspeed": _trained(training.deepspeed, lambda option: training.based_on(option, "deepspeed")),
    "megatron": _trained(training.megatron, lambda option: training.measured_by(option, benchmarks.MEGATRON)),
    "accelerate": _trained(training.accelerate, lambda option: training.measured_by(option, benchmarks.TRL)),
    "slurm": _trained(training.slurm, lambda _: True),
}


def handoff(option: Option, target: str, version: str | None) -> Handoff:
    """Deployment package of a target. Raises CannotStart, and UnknownFlag if the version lacks a flag."""
    try:
        return build_files(option, target, version)
    except UnknownFlag:
        raise
    except Unanswerable as refused:
        able = [name for name in TARGETS if name != target and can_start(option, name)]
        others = f"Targets that can start it: {', '.join(able)}." if able else "No target can start it."
        raise CannotStart(f"{refused.detail} {others}") from refused


def build_files(option: Option, target: str, version: str | None) -> Handoff:
    """Deployment package of a target that supports the software of the option. Raises Unanswerable otherwise."""
    chosen = TARGETS[target]
    if not chosen.starts(option):
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
