"""Builds scripts that start the replicas of a service, on machines and in containers."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import Any

from app.errors import Unanswerable
from app.export.handoff.engines import (
    ANY_VERSION,
    BY_ENGINE,
    CONFIG,
    REVISION,
    Launch,
    Version,
    check_flags,
    config_text,
    container_image,
    format_command,
    format_version,
    ollama_lines,
    parse_version,
    revision_tokens,
    start_command,
    with_port,
)
from app.export.handoff.lifecycle import cache_environment
from app.export.handoff.load import benchmark_file
from app.export.handoff.option import (
    PIP_INSTALL,
    SHELL,
    TEXT,
    YAML,
    File,
    Option,
    ReplicaGroup,
    add_header,
    build_script,
    dns_label,
    read_script,
    replica_range,
    yaml_text,
)
from app.export.handoff.weights import conversion_files, weights_notes
from app.sizing.hardware.benchmarks import BENCHMARKS, BRACKETS, place_names
from app.sizing.hardware.pool_servers import DECODE, POOL_SERVERS
from app.sizing.words import join_words, product_name

OWN_ROUTER = (
    "You need a router that sends each prompt to a prefill replica and then to a decode replica. Examples are "
    "vllm-router with --vllm-pd-disaggregation and the llm-d router."
)


class NotServable(Unanswerable):
    """Raised for a layout that no generated file can start."""

    code = "layout-not-startable"


@dataclass(frozen=True, slots=True)
class ReplicaLaunch:
    """A group of replicas with the engine and version that start it."""

    option: Option
    group: ReplicaGroup
    launch: Launch
    version: Version

    @property
    def name(self) -> str:
        """Name of the model as a DNS label, whatever repository its weights come from."""
        model = str(self.group.places.get("source_model") or self.group.model)
        pool = self.group.role if self.group.is_pool else ""
        return dns_label(model, *filter(None, (self.option.fleet_group, pool)))

    @property
    def served_name(self) -> str:
        return self.name if self.launch.creates_model else self.group.model

    @property
    def image(self) -> str:
        return container_image(self.group, self.launch, self.version)

    @property
    def port(self) -> int:
        return self.launch.server.port

    @property
    def spans_machines(self) -> bool:
        return self.group.machines > 1

    @property
    def replicas_per_machine(self) -> int:
        """Replicas that share a machine. The first has the usual port, the next ones those after it."""
        return max(1, min(self.group.replicas, self.group.machine_accelerators // self.group.per_machine))

    @property
    def cache_tokens(self) -> int:
        """Size of the KV cache in tokens: as predicted, but no more than all sequences fill at the model's window."""
        held, window = self.option.memory.get("kv_cache_tokens"), self.group.places.get("window")
        tokens = int(held or self.group.int_place("held", 0))
        return min(tokens, self.group.int_place("sequences") * int(str(window))) if window else tokens

    @property
    def command_tokens(self) -> list[str]:
        """Start command, split as a shell splits it."""
        name, stages = self.option.shared_name, self.option.prefill_has_stages
        command = start_command(
            self.group, self.launch, cache_tokens=self.cache_tokens, shared_name=name, has_stages=stages
        )
        command += revision_tokens(self.group, self.launch, self.version)
        if replica_range(self.option):
            command += self.launch.metrics_flags
        check_flags(command, self.launch, self.version, self.group.vendor)
        return command

    @property
    def environment(self) -> dict[str, str]:
        """Environment of a container: where it keeps downloads, and the revision of the weights."""
        pinned = {"REVISION": "main"} if REVISION in self.command_tokens else {}
        return {**cache_environment(self.launch.engine), **pinned}

    def container_lines(self, *before: str) -> tuple[str, ...]:
        setup = self.setup_line.replace("pip install", PIP_INSTALL)
        return (*((setup,) if setup else ()), *self.script_lines(*before))

    @property
    def setup_line(self) -> str:
        """Line before the start command in a container, with the version of the engine."""
        setup = f"pip install {shlex.join(self.plugins)}" if self.plugins else self.launch.container_setup
        return setup.replace("{version}", format_version(self.version))

    @property
    def plugins(self) -> list[str]:
        """Packages that the engine needs for weights of this format and for recordings."""
        needs = [str(self.group.places.get("format"))]
        needs += ["speech"] if self.group.load == BENCHMARKS["vllm-speech"].load else []
        found = (self.launch.plugins.get(need, (ANY_VERSION, "")) for need in needs)
        packages = (package for since, package in found if package and self.version >= since)
        return [package.replace("{version}", format_version(self.version)) for package in packages]

    def script_lines(self, *before: str, port: str | None = None) -> tuple[str, ...]:
        """Lines of the start script.

        Parameters:
            before: lines that set the rank of the machine within its replica; without them, the operator must set
                it.
            port: port of the server, if it is not the usual one.
        """
        if self.launch.creates_model:
            return ollama_lines(self.group, self.launch, self.name, port or str(self.port))
        command = self.command_tokens if port is None else with_port(self.command_tokens, self.launch, port)
        config = config_text(self.group, self.launch)
        setup_lines = (f"cat > {CONFIG} <<'EOF'\n{config}EOF",) if config else ()
        if self.launch.script:
            setup_lines = (f"cat > /tmp/{self.launch.script} <<'EOF'\n{read_script(self.launch.script)}EOF",)
        if self.group.is_pool and self.launch.pool_line:
            setup_lines = (*setup_lines, self.launch.pool_line)
        if not (self.spans_machines and self.launch.starts_per_machine):
            return (*setup_lines, f"exec {format_command(command)}")
        machines = self.group.machines
        rank = before or (
            f': "${{NODE_RANK:?set it to 0 on the first of the {machines} machines of a replica, then 1, 2, ...}}"',
            ': "${MASTER_ADDR:?set it to the address of the first machine}"',
        )
        if self.launch.engine != "vllm":
            return (*rank, *setup_lines, f"exec {format_command(command)}")
        follows = 'if [ "$NODE_RANK" -gt 0 ]; then set -- --headless; else set --; fi'
        return (*rank, *setup_lines, follows, f'exec {format_command(command)} "$@"')


def plan_launches(option: Option, version: str | None) -> tuple[ReplicaLaunch, ...]:
    """Groups of a service. Raises NotServable and UnknownFlag."""
    launch = BY_ENGINE[option.software]
    engine = product_name(launch.engine)
    for group in option.groups:
        server_places = place_names((group.server or launch.server).command)
        if group.places.get("adapters") and "adapters" not in server_places:
            raise NotServable(f"Headroom knows no start command of {engine} that serves LoRA adapters here.")
        if group.places.get("draft_method") and not group.places.get("drafting"):
            raise NotServable(f"{engine} has no known flags for this way to draft tokens.")
        if group.is_pool and launch.engine not in POOL_SERVERS:
            raise NotServable(f"{engine} does not support separate prefill and decode pools.")
        if group.role == DECODE and group.int_place("pipeline") > 1 and POOL_SERVERS[launch.engine].pipelined:
            raise NotServable(f"{engine} moves no KV cache into decode replicas with pipeline stages.")
        if launch.engine == "vllm" and group.int_place("data") > 1 and group.int_place("data") % group.machines:
            raise NotServable("vLLM splits ranks evenly: data_parallel must be divisible by the machines per replica.")
        filled = {name for name, value in group.places.items() if value is not None}
        lacks = place_names(re.sub(BRACKETS, "", launch.server.command)) - filled
        if launch.loads and (group.load not in launch.loads or lacks):
            raise NotServable(f"Headroom has no server for this model and format on {engine}, which is a library.")
        if group.machines > 1 and launch.single_machine:
            raise NotServable(f"{engine} runs a replica on one machine only. Choose a layout that fits on one machine.")
    return tuple(
        ReplicaLaunch(option, group, launch, parse_version(version or group.version, launch)) for group in option.groups
    )


def shared_files(groups: tuple[ReplicaLaunch, ...], weights_folder: str = ".") -> tuple[File, ...]:
    """Files of every target: the router between two pools, the conversion of weights, and the benchmark.

    Parameters:
        weights_folder: folder next to the files in which the servers look for converted weights.
    """
    option = groups[0].option
    return (*router_files(groups), *conversion_files(option, weights_folder), benchmark_file(option))


def script_comments(part: ReplicaLaunch) -> tuple[str, ...]:
    """Comment lines that say how many replicas to start and what each needs."""
    group = part.group
    each = (
        f"on {group.machines} machines ({group.per_machine} per machine)" if part.spans_machines else "on one machine"
    )
    return (f"# Replicas to start: {group.replicas}. Each takes {group.accelerators} x {group.accelerator} {each}.",)


def router_files(groups: tuple[ReplicaLaunch, ...]) -> tuple[File, ...]:
    """Router that sends requests through both pools, if the engine has one."""
    if len(groups) == 1:
        return ()
    launch, header = groups[0].launch, groups[0].option.header_lines
    counts = {part.group.role: part.group.replicas for part in groups}
    if launch.engine == "sglang":
        port, bootstrap_port = launch.server.port, POOL_SERVERS["sglang"].bootstrap_port
        lines = (
            f': "${{PREFILL_HOSTS:?set it to the addresses of the {counts["prefill"]} prefill replicas}}"',
            f': "${{DECODE_HOSTS:?set it to the addresses of the {counts["decode"]} decode replicas}}"',
            "set --",
            f'for host in $PREFILL_HOSTS; do set -- "$@" --prefill "http://$host:{port}" {bootstrap_port}; done',
            f'for host in $DECODE_HOSTS; do set -- "$@" --decode "http://$host:{port}"; done',
            'exec python -m sglang_router.launch_router --pd-disaggregation "$@" --host 0.0.0.0 --port ' + str(port),
        )
        return (File("router.sh", SHELL, build_script(header, *lines)),)
    if launch.engine == "tensorrt-llm":
        servers: dict[str, Any] = {
            f"{kind}_servers": {
                "num_instances": counts[role],
                "urls": [f"{role}-{place}:{launch.server.port}" for place in range(counts[role])],
            }
            for kind, role in (("context", "prefill"), ("generation", "decode"))
        }
        config = yaml_text({"hostname": "0.0.0.0", "port": launch.server.port, **servers})
        return (File("router.yaml", YAML, add_header(header, config)),)
    return ()


WEIGHT_SCALE = 10_000  # weights of servers in a router are whole numbers


def fleet_router(groups: tuple[ReplicaLaunch, ...], per_replica: bool) -> File:
    """Configuration of nginx that sends each group of a mixed fleet its share of the requests.

    Parameters:
        per_replica: whether each replica has an address of its own; else each group has one.
    """
    servers = []
    for part in groups:
        count = part.group.replicas if per_replica and not part.group.is_pool else 1
        weight = max(1, round(WEIGHT_SCALE * part.option.share / count))
        for machine, number in (divmod(place, part.replicas_per_machine) for place in range(count)):
            address = f"{part.option.fleet_group}-{machine}:{part.port + number}"
            servers.append(f"        server {address} weight={weight};\n")
    port = groups[0].port
    text = (
        "events {}\nhttp {\n    upstream fleet {\n" + "".join(servers) + "    }\n    server {\n"
        f"        listen {port};\n        client_max_body_size 64m;\n        location / {{\n"
        "            proxy_pass http://fleet;\n            proxy_http_version 1.1;\n"
        '            proxy_set_header Connection "";\n            proxy_buffering off;  # tokens are streamed\n'
        "            proxy_read_timeout 600s;\n        }\n    }\n}\n"
    )
    answer, *_ = groups[0].option.header_lines
    return File("router.conf", TEXT, add_header((answer.replace(f", group {groups[0].option.fleet_group}", ""),), text))


LIMITED = {"served", "cache_tokens"}  # places of a start command that limit the context
# What limits the context of a server, as notes say it.
CONTEXT_LIMITS = {
    "requested": "as requested",
    "window": "the context window of the model",
    "cache": "what the KV cache of this layout holds for one sequence, with a margin",
    "planned": "the planning length",
}


def context_notes(part: ReplicaLaunch) -> tuple[str, ...]:
    """Note about the context that the server accepts, and about the requests that it refuses."""
    group, server = part.group, part.group.server or part.launch.server
    limit, share = CONTEXT_LIMITS.get(str(group.places.get("served_limit"))), group.places.get("refused_share")
    if limit is None or share is None or not LIMITED & place_names(server.command):
        return ()
    text = f"The server accepts up to {group.int_place('served'):,} tokens of prompt and answer: {limit}."
    if not float(str(share)):
        return (f"{text} No request of this workload is longer.",)
    return (
        f"{text} {max(0.1, 100 * float(str(share))):.2g} % of this workload's requests are longer, and the server "
        "refuses them. To serve them, set max_context_tokens to the longest request and size again.",
    )


def serving_notes(groups: tuple[ReplicaLaunch, ...]) -> tuple[str, ...]:
    """Notes for the operator about the remaining manual steps."""
    launch = groups[0].launch
    kept = "; ".join(f"{name} ({does})" for name, does in launch.defaults.items())
    notes = [f"Source of the {product_name(launch.engine)} flags: {launch.source}."]
    if kept:
        notes.append(f"Left at the server's defaults: {kept}.")
    if launch.script:
        notes.append(
            f"{product_name(launch.engine)} is a library: {launch.script}, which the files contain, runs requests that "
            f"wait together as one batch. It needs: {groups[0].setup_line}."
        )
    notes += [
        f"{product_name(launch.engine)} needs a package for this model, which containers install: {each}."
        for each in dict.fromkeys(package for part in groups for package in part.plugins)
    ]
    notes += [
        f"--tensor-parallel-size counts NeuronCores: {part.group.places['tensor']} on "
        f"{part.group.per_machine * part.group.machines} accelerators."
        for part in groups
        if part.group.vendor == "AWS" and part.launch.engine == "vllm"
    ]
    notes += context_notes(groups[0])
    pinned = dict.fromkeys(part.group.model for part in groups if REVISION in part.command_tokens)
    if pinned:
        notes.append(
            f"Weights come from {join_words([*pinned])} at revision main. Set REVISION to pin a commit; where a file "
            "has no such variable, replace main in it."
        )
    if groups[0].launch.creates_model:
        notes.append(f"Requests name the model {groups[0].served_name}.")
    notes += weights_notes(groups[0].option)
    if groups[0].group.places.get("adapters"):
        named = "Requests name an adapter and its path in lora_request (lora_name, lora_int_id, lora_path)."
        given = "Pass your LoRA adapters to the server in addition to these flags, or load them at run time."
        notes.append(named if launch.engine == "tensorrt-llm" else given)
    draft = str(groups[0].group.places.get("draft_gguf" if groups[0].launch.single_machine else "draft") or "")
    if draft.startswith("./"):
        notes.append(f"Put the draft of your model at the path {draft}.")
    if groups[0].group.places.get("draft_method"):
        notes.append(
            "benchmark.sh reads prompts of your own traffic from PROMPTS_FILE: random ones show no acceptance."
        )
    if len(groups) > 1:
        router = {
            "sglang": "router.sh sends requests through both pools.",
            "tensorrt-llm": "trtllm-serve disaggregated -c router.yaml sends requests through both pools. Replace the "
            "addresses in router.yaml with yours.",
        }
        notes.append(router.get(groups[0].launch.engine, OWN_ROUTER))
    return tuple(notes)
