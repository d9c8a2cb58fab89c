"""What a hand-off may be made for, and which of these can start an option."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from app.errors import Unanswerable
from app.export.handoff import clouds, cluster, serving, training
from app.export.handoff.engines import BY_ENGINE, UnknownFlag
from app.export.handoff.files import Handoff
from app.export.handoff.option import Option
from app.sizing.hardware import benchmarks

Written = Callable[[Option, str | None, str], Handoff]


class CannotStart(Unanswerable):
    """A target that does not start what is recommended."""

    code = "target-cannot-start"


@dataclass(frozen=True, slots=True)
class Target:
    """What writes a hand-off, and of which options."""

    written: Written
    starts: Callable[[Option], bool]


def _engine(name: str) -> Target:
    return Target(serving.engine_files, lambda option: not option.trains and option.software == name)


def _served(written: Written) -> Target:
    return Target(written, lambda option: not option.trains and option.software in BY_ENGINE)


def _trained(written: Written, starts: Callable[[Option], bool]) -> Target:
    return Target(written, lambda option: option.trains and starts(option))


def _by_torchrun(option: Option) -> bool:
    """PyTorch's own sharding of a whole model of tokens, whatever is around it."""
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
    """The files of a target. Raises CannotStart, and UnknownFlag of a version."""
    try:
        return written(option, target, version)
    except UnknownFlag:
        raise
    except Unanswerable as refused:
        able = [name for name in TARGETS if name != target and can_start(option, name)]
        told = f"These start it: {', '.join(able)}." if able else "No target here starts it."
        raise CannotStart(f"{refused.detail} {told}") from refused


def written(option: Option, target: str, version: str | None) -> Handoff:
    """The files of a target that knows the software of an option. Raises Unanswerable where it does not."""
    chosen = TARGETS[target]
    if not chosen.starts(option):
        does = "trains" if option.trains else "is served"
        raise CannotStart(f"Rank {option.rank} {does} with {option.software}, which {target} does not start.")
    return chosen.written(option, version, target)


def can_start(option: Option, target: str) -> bool:
    """Whether a target starts an option, on the version whose flags are known."""
    try:
        return bool(written(option, target, None).files)
    except Unanswerable:
        return False
