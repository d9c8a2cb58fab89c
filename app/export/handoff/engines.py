"""Start commands of the engines: flags with their first version, container images, and the sources of both."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from app.errors import Unanswerable
from app.export.handoff.option import ReplicaGroup, image_for, yaml_text
from app.sizing.facts import build, read_toml
from app.sizing.hardware.benchmarks import ADAPTED_MODULES, BENCHMARKS, SERVERS, Server, draft_limit, fill_template
from app.sizing.hardware.hosts import OTHER_HOSTS
from app.sizing.hardware.pool_servers import POOL_SERVERS
from app.sizing.words import product_name

Version = tuple[int, ...]
ANY_VERSION: Version = ()
CONFIG = "/tmp/server-config.yaml"  # the folder of the weights may be read-only
# Shell variables in a command, which must stay unquoted; everything else is quoted.
VARIABLE = re.compile(r"\$[A-Z_]+(:\d+)?|\$\{[A-Z_]+:-\w+\}|\$\(\(NODE_RANK\*\d+\)\)", re.ASCII)
REVISION_FLAG = "--revision"
REVISION = "${REVISION:-main}"  # slot for a branch, tag or commit of the repository of the weights


class UnknownFlag(Unanswerable):
    """Raised if an engine version lacks a flag that the layout needs."""

    code = "flag-not-in-version"


class FlagNotOnHardware(Unanswerable):
    """Raised if an engine lacks a flag that the layout needs on the hardware of one vendor."""

    code = "layout-not-startable"


class NoImage(Unanswerable):
    """Raised if no container image of the engine is known for the hardware."""

    code = "no-image"


@dataclass(frozen=True, slots=True)
class Launch:
    """How to start the server of an engine. `app/sizing/data/launches.toml` explains the fields."""

    engine: str
    source: str  # source files and the day they were read
    flags: Mapping[str, Version]  # first version of each flag
    source_version: Version = ANY_VERSION
    images: Mapping[str, str] = field(default_factory=dict)
    own_images: tuple[tuple[str, str], ...] = ()
    network_flags: tuple[str, ...] = ()
    pool_line: str = ""
    starts_per_machine: bool = True
    defaults: Mapping[str, str] = field(default_factory=dict)
    single_machine: bool = False
    container_setup: str = ""
    plugins: Mapping[str, tuple[Version, str]] = field(default_factory=dict)
    requests_counter: str = ""
    queue_gauge: str = ""
    port_flag: str = "--port"
    creates_model: bool = False
    metrics_flags: tuple[str, ...] = ()
    benchmarks: tuple[str, ...] = ()
    script: str = ""
    lacks: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def server(self) -> Server:
        """Its start command, port and path."""
        return SERVERS[self.engine]

    @property
    def loads(self) -> tuple[str, ...]:
        """Benchmarks of the only work that the server does; empty: any."""
        return tuple(BENCHMARKS[name].load for name in self.benchmarks)


# Accelerators on machines whose processors are not those of PyTorch's public images.
ARM_HOSTS = tuple(accelerator for host in OTHER_HOSTS for accelerator in host.accelerators)


def _parse_dotted(text: str) -> list[int]:
    return [] if text == "0" else [int(number) for number in text.split(".")]


def _read_launch(table: Mapping[str, Any]) -> Launch:
    """The record of a table of launches.toml."""
    record = {"source_version": "0", "plugins": {}, "container_setup": "", **table}
    record["source_version"] = _parse_dotted(record["source_version"])
    record["flags"] = {flag: _parse_dotted(since) for since, flags in record.pop("flags", {}).items() for flag in flags}
    record["plugins"] = {name: [_parse_dotted(since), package] for name, (since, package) in record["plugins"].items()}
    record["container_setup"] = record["container_setup"].replace("<http>", _FACTS["http"])
    if not record.pop("arm_images", True):
        record["own_images"] = [[accelerator, ""] for accelerator in ARM_HOSTS]
    return build(Launch, record, where=f"{FILE}, {table['engine']}")


FILE = "launches.toml"
_FACTS = read_toml(FILE)
LAUNCHES = tuple(_read_launch(table) for table in _FACTS["launches"])
BY_ENGINE = {launch.engine: launch for launch in LAUNCHES}


def parse_version(text: str | None, launch: Launch) -> Version:
    """Installed version; without one, the version whose sources were read.

    Check:
        >>> parse_version("0.11.2.dev3", LAUNCHES[0]), parse_version(None, LAUNCHES[0])
        ((0, 11, 2), (0, 33, 0))
    """
    numbers = tuple(int(number) for number in re.findall(r"\d+", (text or "").split("dev", maxsplit=1)[0])[:3])
    return numbers or launch.source_version


def start_command(
    group: ReplicaGroup, launch: Launch, *, cache_tokens: int, shared_name: str | None, has_stages: bool
) -> list[str]:
    """Command that starts one machine's part of a replica, split as a shell splits it.

    Parameters:
        cache_tokens: size of the KV cache in tokens.
        shared_name: name of the model in requests, if pools load different weights.
        has_stages: whether the prefill pool has pipeline stages.
    """
    places = dict(group.places)
    places["cache_tokens"] = cache_tokens
    # The script writes one file.
    places |= dict.fromkeys(("ranks_config", "draft_config", "written_config", "host_config", "adapter_config"))
    places["config"] = CONFIG if config_text(group, launch) else None
    tokens = shlex.split(fill_template((group.server or launch.server).command, places))
    servers = POOL_SERVERS[launch.engine] if group.is_pool else None
    pool = shlex.split(servers.flags_of(group.role, shared_name, has_stages=has_stages)) if servers else ()
    return [*tokens, *pool, *launch.network_flags]


def revision_tokens(group: ReplicaGroup, launch: Launch, version: Version) -> list[str]:
    """Flag with the slot of the revision; empty if the engine has no such flag, or loads weights from a path."""
    since = launch.flags.get(REVISION_FLAG)
    from_path = group.model.startswith((".", "/"))
    return [] if since is None or from_path or (version and version < since) else [REVISION_FLAG, REVISION]


def config_text(group: ReplicaGroup, launch: Launch) -> str:
    """Configuration file with the settings that have no flag; empty if there are none."""
    if launch.engine != "tensorrt-llm":
        return ""
    ranks = {"enable_attention_dp": True} if group.int_place("data") > 1 else {}
    cache: dict[str, object] = {"dtype": group.places["cache"]} if group.places.get("cache") else {}
    if group.places.get("host_cache_rank_bytes"):
        cache["host_cache_size"] = group.int_place("host_cache_rank_bytes")
    stored = {"kv_cache_config": cache} if cache else {}
    pool = POOL_SERVERS[launch.engine].config.get(group.role, {})
    settings = {**ranks, **stored, **draft_settings(group), **lora_settings(group), **pool}
    return yaml_text(settings) if settings else ""


def draft_settings(group: ReplicaGroup) -> dict[str, object]:
    """Settings of speculative decoding in TensorRT-LLM's configuration file; empty without it."""
    drafting, draft = group.places.get("drafting"), group.places.get("draft")
    if not drafting:
        return {}
    model = {"speculative_model_dir": draft} if draft else {}
    limit = draft_limit(str(group.places.get("draft_method")))
    return {"speculative_config": {"decoding_type": drafting, limit: group.int_place("draft_tokens"), **model}}


def lora_settings(group: ReplicaGroup) -> dict[str, object]:
    """Settings of LoRA adapters in TensorRT-LLM's configuration file; empty without adapters."""
    if not group.places.get("adapters"):
        return {}
    loaded, rank = group.int_place("adapters"), group.int_place("adapter_rank")
    limits = {"max_lora_rank": rank, "max_loras": loaded, "max_cpu_loras": loaded}
    return {"lora_config": {**limits, "lora_target_modules": list(ADAPTED_MODULES)}}


def with_port(tokens: list[str], launch: Launch, port: str) -> list[str]:
    """A start command that listens on another port.

    Check:
        >>> with_port(["serve", "--port", "80", "-x"], LAUNCHES[0], "$PORT"), with_port(["serve"], LAUNCHES[0], "81")
        (['serve', '--port', '$PORT', '-x'], ['serve', '--port', '81'])
    """
    if launch.port_flag not in tokens:
        return [*tokens, launch.port_flag, port]
    at = tokens.index(launch.port_flag)
    return [*tokens[: at + 1], port, *tokens[at + 2 :]]


def check_flags(tokens: Iterable[str], launch: Launch, version: Version, vendor: str) -> None:
    """Raises UnknownFlag if a version lacks a flag of the command, or if no source lists the flag, and
    FlagNotOnHardware if the engine lacks it on hardware of the vendor.
    """
    for flag in command_flags(tokens):
        reason = launch.lacks.get(vendor, {}).get(flag)
        if reason is not None:
            raise FlagNotOnHardware(
                f"{product_name(launch.engine)} has no {flag} on {vendor} accelerators, and this layout needs it: "
                f"{reason}."
            )
        since = launch.flags.get(flag)
        if since is None:
            raise UnknownFlag(f"This layout needs {flag}, which the documented sources do not list: {launch.source}.")
        if version and version < since:
            raise UnknownFlag(
                f"{product_name(launch.engine)} {format_version(version)} has no {flag}, which this layout needs. "
                "The flag "
                f"exists since version {format_version(since)}."
            )


def command_flags(tokens: Iterable[str]) -> list[str]:
    return [token.split("=", 1)[0] for token in tokens if re.match(r"--?[A-Za-z]", token)]


def ollama_lines(group: ReplicaGroup, launch: Launch, name: str, port: str) -> tuple[str, ...]:
    """Lines that start Ollama with the settings of its start command, create the model and load it.

    Parameters:
        name: name of the model in requests.
        port: port of the server, or a shell variable that holds it.
    """
    settings = shlex.split(fill_template((group.server or launch.server).command, group.places))[:-2]
    origin = str(group.places["gguf_origin"])
    # Ollama reads a relative path from the folder of the Modelfile: cmd/cmd.go of ollama/ollama, read 2026-11-27.
    folder = '"$PWD"/' if origin.startswith("./") else ""
    return (
        f"export {' '.join(settings)} OLLAMA_HOST=0.0.0.0:{port} OLLAMA_KEEP_ALIVE=-1",
        "ollama serve &",
        "SERVER=$!",
        "trap 'kill -TERM \"$SERVER\"' TERM INT",
        "until ollama list > /dev/null 2>&1; do sleep 1; done",
        f"echo FROM {folder}{shlex.quote(origin.removeprefix('./'))} > /tmp/Modelfile",
        f"ollama create {name} -f /tmp/Modelfile",
        f"ollama run {name} '' > /dev/null",
        'wait "$SERVER"',
    )


def format_version(version: Version) -> str:
    return ".".join(map(str, version))


def container_image(group: ReplicaGroup, launch: Launch, version: Version) -> str:
    """Container image of an engine for the hardware of a group. Raises NoImage."""
    own = (image for start, image in launch.own_images if group.sku.startswith(start))
    image = next(own, launch.images.get(group.vendor))
    if not image:
        vendors = ", ".join(launch.images)
        known = f"Images are available for {vendors}." if vendors else "The engine publishes no images."
        if image == "":
            known = "The published images do not support this accelerator."
        hardware = group.accelerator if image == "" else group.vendor
        raise NoImage(f"No container image of {product_name(launch.engine)} is known for {hardware}. {known}")
    return image_for(image.format(version=format_version(version), minor=format_version(version[:2])), group.sku)


def format_command(tokens: list[str]) -> str:
    """Command as a shell script writes it, one flag per line."""
    words = [token if VARIABLE.fullmatch(token) else shlex.quote(token) for token in tokens]
    text = words[0]
    for word in words[1:]:
        text += (" \\\n  " if re.match(r"--?[A-Za-z]", word) else " ") + word
    return text
