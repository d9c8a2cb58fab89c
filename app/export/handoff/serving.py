"""Scripts that start the replicas of a service, on machines and in containers alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from app.errors import Unanswerable
from app.export.handoff.engines import (
    BY_ENGINE,
    CONFIG,
    Launch,
    Version,
    checked,
    config_of,
    image_of,
    tokens_of,
    typed,
    version_of,
)
from app.export.handoff.files import SHELL, YAML, File, Handoff, commented, label, script, yaml_text
from app.export.handoff.follow import following_of
from app.export.handoff.load import benchmark_file
from app.export.handoff.option import Group, Option
from app.sizing.hardware.pool_servers import BOOTSTRAP_PORT

OWN_ROUTER = (
    "A router has to send each prompt to a prefill replica and then to a decode replica, such as vllm-router with "
    "--vllm-pd-disaggregation, or that of llm-d."
)


class NotServable(Unanswerable):
    """A layout that no file of ours starts."""

    code = "layout-not-startable"


@dataclass(frozen=True, slots=True)
class Started:
    """One group of replicas with all that is needed to start it."""

    option: Option
    group: Group
    launch: Launch
    version: Version

    @property
    def name(self) -> str:
        """A DNS label."""
        return label(self.group.model, *((self.group.role,) if self.group.pooled else ()))

    @property
    def image(self) -> str:
        """Its container."""
        return image_of(self.group, self.launch, self.version)

    @property
    def port(self) -> int:
        """At which a replica answers."""
        return self.launch.server.port

    @property
    def spans(self) -> bool:
        """Whether a replica takes several machines."""
        return self.group.machines > 1

    @property
    def tokens(self) -> list[str]:
        """The command, as a shell splits it."""
        held = int(self.option.memory.get("kv_cache_tokens") or self.group.whole("held", 0))
        found = tokens_of(self.group, self.launch, cache_tokens=held)
        if following_of(self.option):
            found += self.launch.scraped
        checked(found, self.launch, self.version)
        return found

    def inside(self, *before: str) -> tuple[str, ...]:
        """The same in its container."""
        return (*((self.launch.contained,) if self.launch.contained else ()), *self.lines(*before))

    def lines(self, *before: str) -> tuple[str, ...]:
        """The lines of its script; `before` says which machine of a replica this is, where it is not told."""
        config = config_of(self.group, self.launch)
        written = (f"cat > {CONFIG} <<'EOF'\n{config}EOF",) if config else ()
        if self.group.pooled and self.launch.pool_line:
            written = (*written, self.launch.pool_line)
        if not (self.spans and self.launch.spans):
            return (*written, f"exec {typed(self.tokens)}")
        told = before or (
            f': "${{NODE_RANK:?0 on the first of the {self.group.machines} machines of a replica, then 1, 2, ...}}"',
            ': "${MASTER_ADDR:?address of the first machine}"',
        )
        if self.launch.engine != "vllm":
            return (*told, *written, f"exec {typed(self.tokens)}")
        follows = 'if [ "$NODE_RANK" -gt 0 ]; then set -- --headless; else set --; fi'
        return (*told, *written, follows, f'exec {typed(self.tokens)} "$@"')


def started(option: Option, version: str | None) -> tuple[Started, ...]:
    """The groups of a service. Raises NotServable and UnknownFlag."""
    launch = BY_ENGINE[option.software]
    for group in option.groups:
        if group.places.get("adapters") and "--enable-lora" not in launch.flags:
            raise NotServable(f"How {launch.engine} is told of adapters is not known here.")
        if group.pooled and group.role not in launch.pools:
            raise NotServable(f"{launch.engine} keeps no pools of prefill and decode apart.")
        if launch.engine == "vllm" and group.whole("data") > 1 and group.whole("data") % group.machines:
            raise NotServable("vLLM starts as many ranks of attention on each machine: these do not divide.")
        if group.machines > 1 and launch.alone:
            raise NotServable(f"{launch.engine} is started on one machine: ask for a layout within one.")
    return tuple(
        Started(option, group, launch, version_of(version or group.version, launch)) for group in option.groups
    )


def engine_files(option: Option, version: str | None, target: str) -> Handoff:
    """A script for each kind of replica, the router between two pools, and the benchmark."""
    groups = started(option, version)
    files = [
        File(f"{part.group.role}.sh", SHELL, script(option.header, *about(part), *part.lines())) for part in groups
    ]
    return Handoff(target, option.rank, (*files, *router_files(groups), benchmark_file(option)), notes_of(groups))


def about(part: Started) -> tuple[str, ...]:
    """What a script is for, as its first comments."""
    group = part.group
    each = f"on {group.machines} machines, {group.per_machine} accelerators of each" if part.spans else "on one machine"
    return (f"# {group.replicas} x this: {group.accelerators} x {group.accelerator} {each}.",)


def router_files(groups: tuple[Started, ...]) -> tuple[File, ...]:
    """What sends a request through both pools, where the engine has it."""
    if len(groups) == 1:
        return ()
    launch, header = groups[0].launch, groups[0].option.header
    counts = {part.group.role: part.group.replicas for part in groups}
    if launch.engine == "sglang":
        port = launch.server.port
        lines = (
            f': "${{PREFILL_HOSTS:?addresses of the {counts["prefill"]} prefill replicas}}"',
            f': "${{DECODE_HOSTS:?addresses of the {counts["decode"]} decode replicas}}"',
            "set --",
            f'for host in $PREFILL_HOSTS; do set -- "$@" --prefill "http://$host:{port}" {BOOTSTRAP_PORT}; done',
            f'for host in $DECODE_HOSTS; do set -- "$@" --decode "http://$host:{port}"; done',
            'exec python -m sglang_router.launch_router --pd-disaggregation "$@" --host 0.0.0.0 --port ' + str(port),
        )
        return (File("router.sh", SHELL, script(header, *lines)),)
    if launch.engine == "tensorrt-llm":
        servers: dict[str, Any] = {
            f"{kind}_servers": {
                "num_instances": counts[role],
                "urls": [f"{role}-{place}:{launch.server.port}" for place in range(counts[role])],
            }
            for kind, role in (("context", "prefill"), ("generation", "decode"))
        }
        told = yaml_text({"hostname": "0.0.0.0", "port": launch.server.port, **servers})
        return (File("router.yaml", YAML, commented(header, told)),)
    return ()


def notes_of(groups: tuple[Started, ...]) -> tuple[str, ...]:
    """What whoever starts it has to know or to do."""
    notes = [f"Flags of {groups[0].launch.engine}: {groups[0].launch.read}."]
    if groups[0].launch.note:
        notes.append(groups[0].launch.note)
    if groups[0].group.model.startswith("./"):
        notes.append(f"{groups[0].group.model} is a path: put weights in the recommended format there.")
    if groups[0].group.places.get("adapters"):
        notes.append("Adapters are named to the server beside these flags, or loaded while it runs.")
    if any(part.spans for part in groups):
        notes.append("A replica takes several machines: every one is told its number and the first one's address.")
    if len(groups) > 1:
        router = {
            "sglang": "router.sh sends requests through both pools.",
            "tensorrt-llm": "trtllm-serve disaggregated -c router.yaml sends requests through both pools; its "
            "addresses are to be replaced by yours.",
        }
        notes.append(router.get(groups[0].launch.engine, OWN_ROUTER))
    return tuple(notes)
