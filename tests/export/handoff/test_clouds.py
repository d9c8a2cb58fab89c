"""Services of SkyPilot, dstack and Docker Compose: keys of their schemas, and accelerators that come to the replica."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from app.errors import Unanswerable
from app.export.handoff.clouds import health_check
from app.export.handoff.option import Option
from app.export.handoff.serving import plan_launches
from app.export.handoff.targets import build_handoff
from tests.export.handoff.stored import pooled, served
from tests.export.handoff.test_cluster import SPANNING

AWS = {"provider": "aws", "region": "us-east-1", "pricing_model": "spot", "instance_type": "p5en.48xlarge"}
TEXT, COUNT = {"type": "string"}, {"type": "integer", "minimum": 1}


def closed(required: tuple[str, ...], **properties: Any) -> dict[str, Any]:
    """An object with these keys alone."""
    return {"type": "object", "additionalProperties": False, "required": [*required], "properties": properties}


# Written by hand after sky/utils/schemas.py of SkyPilot 0.14.1: the keys used here.
SKY = closed(
    ("name", "service", "resources", "run"),
    name=TEXT,
    num_nodes=COUNT,
    run=TEXT,
    file_mounts={"type": "object", "additionalProperties": TEXT},
    envs={"type": "object", "additionalProperties": TEXT},
    secrets={"type": "object", "additionalProperties": {"type": ["string", "null"]}},
    service=closed(
        ("readiness_probe", "replica_policy"),
        readiness_probe=closed(("path",), path=TEXT, initial_delay_seconds={"type": "number"}),
        replica_policy=closed(
            ("min_replicas",),
            min_replicas=COUNT,
            max_replicas=COUNT,
            target_qps_per_replica={"type": "number", "exclusiveMinimum": 0},
            downscale_delay_seconds={"type": "number"},
        ),
    ),
    resources=closed(
        ("accelerators", "image_id", "ports"),
        infra=TEXT,
        accelerators={"type": "object", "additionalProperties": COUNT, "maxProperties": 1},
        cpus={"type": "string", "pattern": r"^\d+\+$"},
        memory={"type": "string", "pattern": r"^\d+\+$"},
        disk_size=COUNT,
        image_id={"type": "string", "pattern": "^docker:"},
        ports=COUNT,
        use_spot={"type": "boolean"},
    ),
)
# After ServiceConfiguration of dstack 0.22.5.
DSTACK = closed(
    ("type", "name", "image", "commands", "port", "replicas", "resources"),
    type={"const": "service"},
    name={"type": "string", "pattern": "^[a-z][a-z0-9-]{1,40}$"},
    image=TEXT,
    env={"type": "array", "items": TEXT},
    commands={"type": "array", "items": TEXT, "minItems": 1},
    port=COUNT,
    model=TEXT,
    replicas={"type": ["integer", "string"], "pattern": r"^\d+\.\.\d+$"},
    scaling=closed(
        ("metric", "target"),
        metric={"const": "rps"},
        target={"type": "number", "exclusiveMinimum": 0},
        scale_down_delay=COUNT,
    ),
    volumes={"type": "array", "items": {"type": "object"}},
    probes={"type": "array", "items": {"type": "object"}},
    resources=closed(("gpu",), gpu=closed(("name", "count"), name=TEXT, count=COUNT), cpu=TEXT, memory=TEXT, disk=TEXT),
    spot_policy={"enum": ["spot", "on-demand", "auto"]},
    backends={"type": "array", "items": TEXT},
    regions={"type": "array", "items": TEXT},
)
# After the Compose specification.
COMPOSE = closed(
    ("name", "services", "volumes"),
    name={"type": "string", "pattern": "^[a-z0-9][a-z0-9_-]*$"},
    volumes={"type": "object"},
    services={
        "type": "object",
        "minProperties": 1,
        "additionalProperties": closed(
            ("image", "command", "deploy"),
            image=TEXT,
            entrypoint={"type": "array", "items": TEXT},
            command={"type": "array", "items": TEXT},
            environment={"type": "object", "additionalProperties": TEXT},
            ports={"type": "array", "items": {"type": "string", "pattern": r"^\d+:\d+$"}},
            ipc=TEXT,
            working_dir=TEXT,
            volumes={"type": "array", "items": TEXT},
            restart={"const": "unless-stopped"},
            stop_grace_period={"type": "string", "pattern": r"^\d+s$"},
            healthcheck=closed(
                ("test",),
                test={"type": "array", "items": TEXT},
                interval=TEXT,
                timeout=TEXT,
                retries=COUNT,
                start_period=TEXT,
            ),
            deploy={"type": "object"},
        ),
    },
)
SCHEMAS = {"skypilot": SKY, "dstack": DSTACK, "docker-compose": COMPOSE}


def documents(option: Option, target: str) -> list[dict[str, Any]]:
    made = build_handoff(option, target, None)
    found = [yaml.safe_load(file.text) for file in made.files if file.media_type == "application/yaml"]
    return [each for each in found if "context_servers" not in each]


@pytest.mark.parametrize("target", SCHEMAS)
@pytest.mark.parametrize(
    "option",
    [served(), served(offer=AWS), served(model="./1e3"), pooled(), served("tensorrt-llm", data=2, cache="fp8")],
)
def test_documents_have_the_keys_of_their_schema(target: str, option: Option) -> None:
    for document in documents(option, target):
        Draft202012Validator(SCHEMAS[target]).validate(document)


def test_several_machines_are_several_nodes() -> None:
    (task,) = documents(served(offer=AWS, **SPANNING), "skypilot")
    Draft202012Validator(SKY).validate(task)
    assert task["num_nodes"] * task["resources"]["accelerators"]["H200"] == 16
    assert task["resources"]["infra"] == "aws/us-east-1"
    assert task["resources"]["use_spot"] is True
    assert "SKYPILOT_NODE_RANK" in task["run"]
    for target in ("dstack", "docker-compose"):
        with pytest.raises(Unanswerable):
            build_handoff(served(**SPANNING), target, None)


def test_dstack_asks_for_what_a_replica_takes() -> None:
    (service,) = documents(served(offer=AWS), "dstack")
    assert service["resources"]["gpu"] == {"name": "H200", "count": 8}
    assert (service["backends"], service["regions"], service["spot_policy"]) == (["aws"], ["us-east-1"], "spot")
    assert service["replicas"] == 3


def test_compose_gives_every_replica_accelerators_of_its_own() -> None:
    (whole,) = documents(served(accelerators=4, tensor=4), "docker-compose")
    devices = [
        device
        for each in whole["services"].values()
        for device in each["deploy"]["resources"]["reservations"]["devices"][0]["device_ids"]
    ]
    assert len(whole["services"]) == 2  # of four on a machine of eight
    assert sorted(devices) == sorted({str(number) for number in range(8)})
    ports = [each["ports"][0].split(":")[0] for each in whole["services"].values()]
    assert len(set(ports)) == len(ports)


def test_a_variable_of_the_script_is_not_one_of_compose() -> None:
    (whole,) = documents(served(model="./a$b"), "docker-compose")
    command = whole["services"]["replica-0"]["command"][0]
    assert "$" not in command.replace("$$", "")


def test_hardware_without_a_name_is_refused() -> None:
    for target in ("skypilot", "dstack"):
        with pytest.raises(Unanswerable, match="name is known"):
            build_handoff(named("nvidia-p4"), target, None)


def named(sku: str) -> Option:
    """The option on other accelerators."""
    option = served()
    return replace(option, groups=tuple(replace(group, sku=sku) for group in option.groups))


def test_services_survive_a_restart_and_have_room_for_their_weights() -> None:
    (whole,) = documents(served(), "docker-compose")
    each = whole["services"]["replica-0"]
    assert each["restart"] == "unless-stopped"
    assert "cache:/cache" in each["volumes"] and whole["volumes"] == {"cache": {}}
    assert each["environment"]["HF_HOME"].startswith("/cache")
    assert each["healthcheck"]["start_period"] == "1487s"  # 141 GB at 1 Gbit/s, and three times 120 s
    assert each["stop_grace_period"] == "20s"
    (task,) = documents(served(), "skypilot")
    assert task["service"]["readiness_probe"]["initial_delay_seconds"] == 1487
    assert task["resources"]["disk_size"] == 241 and task["resources"]["cpus"] == "10+"
    (small,) = documents(served(offer=AWS, accelerators=1, tensor=1), "skypilot")
    assert small["service"]["readiness_probe"]["initial_delay_seconds"] == 1200  # SkyPilot's own
    (service,) = documents(served(), "dstack")
    assert service["resources"]["disk"] == "241GB.."
    assert service["volumes"][0]["path"] == "/cache"


def test_weights_of_the_users_own_are_there_before_the_server_starts() -> None:
    option = served(model="./Model-70B-int4-awq", format="int4-awq")
    (task,) = documents(option, "skypilot")
    assert task["file_mounts"] == {"/models": "./models"} and "cd /models" in task["run"]
    (service,) = documents(option, "dstack")
    assert {"name": "models", "path": "/models"} in service["volumes"] and service["commands"][0] == "cd /models"


def test_a_health_check_needs_only_bash() -> None:
    part = plan_launches(served(), None)[0]
    found = subprocess.run(["bash", "-c", health_check(part)], capture_output=True, check=False)
    assert found.returncode == 1  # nothing listens here
    assert b"syntax" not in found.stderr
