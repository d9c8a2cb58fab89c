"""The files of deploy/ and compose agree with settings, routes and image, and have the shape of their schemas."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate
import orjson
import pytest
import yaml

from app.config import Settings
from app.main import create_app
from app.server.workers import EXIT_GRACE_S

ROOT = Path(__file__).parents[1]
KUBERNETES = ROOT / "deploy" / "kubernetes"
PROXY = (ROOT / "deploy" / "proxy" / "nginx.conf").read_text()
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
OVERLAY: dict[str, Any] = yaml.safe_load((KUBERNETES / "kustomization.yaml").read_text())
FILES = list(OVERLAY["resources"])
PARTS: dict[str, dict[str, Any]] = {
    part["kind"]: part for name in FILES for part in [yaml.safe_load((KUBERNETES / name).read_text())]
}
SERVED = PARTS["Deployment"]["spec"]["template"]["spec"]
PREPARED = PARTS["Job"]["spec"]["template"]["spec"]
POSTGRES_CONNECTIONS = 100  # of a server as it comes


def settings_of(environment: dict[str, str]) -> Settings:
    """Settings as the service reads them; a name that it does not know, or a value that it refuses, fails."""
    given = {name.removeprefix("HEADROOM_").lower(): value for name, value in environment.items()}
    assert given.keys() <= Settings.model_fields.keys()
    lists = {name: orjson.loads(value) for name, value in given.items() if value.startswith("[")}
    return Settings(**{**given, **lists})


CLUSTER = settings_of(dict(line.split("=", 1) for line in OVERLAY["configMapGenerator"][0]["literals"]))
COMPOSED = settings_of(COMPOSE["app"]["environment"])


@pytest.mark.parametrize("kind", PARTS)
@pytest.mark.parametrize("release", ["1.29", "1.37"])
def test_each_part_is_of_its_schema(kind: str, release: str) -> None:
    kubernetes_validate.validate(PARTS[kind], release, strict=True)


def test_every_file_is_part_of_the_whole() -> None:
    assert {path.name for path in KUBERNETES.iterdir()} == {"kustomization.yaml", *FILES}


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
def test_kustomize_makes_one_of_them() -> None:
    made = subprocess.run(["kubectl", "kustomize", KUBERNETES], capture_output=True, check=True, timeout=30)
    documents = list(yaml.safe_load_all(made.stdout))
    assert {d["kind"] for d in documents} == {*PARTS, "ConfigMap"}
    for document in documents:
        kubernetes_validate.validate(document, "1.37", strict=True)
    (deployment,) = (d for d in documents if d["kind"] == "Deployment")
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    assert container["image"].startswith("registry.example/")
    assert container["envFrom"][0]["configMapRef"]["name"] != "headroom"  # a change of settings rolls the pods


@pytest.mark.parametrize("pod", [SERVED, PREPARED], ids=["served", "prepared"])
def test_a_pod_has_no_rights_and_writes_only_where_it_must(pod: dict[str, Any]) -> None:
    (user,) = re.findall(r"^USER (\d+)$", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE)
    whole = pod["securityContext"]
    assert (whole["runAsNonRoot"], whole["runAsUser"]) == (True, int(user))
    assert whole["seccompProfile"]["type"] == "RuntimeDefault"
    assert pod["automountServiceAccountToken"] is False
    for container in (*pod.get("initContainers", ()), *pod["containers"]):
        own = container["securityContext"]
        assert (own["allowPrivilegeEscalation"], own["readOnlyRootFilesystem"]) == (False, True)
        assert own["capabilities"] == {"drop": ["ALL"]}
        assert {mount["mountPath"] for mount in container["volumeMounts"]} == {"/data", "/tmp"}
        assert container["resources"].keys() == {"requests", "limits"}
    assert CLUSTER.cache_dir is None  # the image's own, which holds the compiled simulation


def test_probes_ask_what_there_is() -> None:
    (container,) = SERVED["containers"]
    routes = create_app(Settings(database_url="sqlite://")).openapi()["paths"]
    probes = {name: container[name]["httpGet"] for name in ("startupProbe", "readinessProbe", "livenessProbe")}
    assert {probe["path"] for probe in probes.values()} <= set(routes)
    assert probes["livenessProbe"]["path"] == "/livez"  # an unreachable database restarts no pod
    (port,) = container["ports"]
    assert {probe["port"] for probe in probes.values()} == {port["name"]}
    assert container["command"][-1] == str(port["containerPort"])
    assert PARTS["Service"]["spec"]["ports"][0]["targetPort"] == port["name"]


def test_a_stopping_pod_gets_no_requests_and_is_not_killed_early() -> None:
    readiness = SERVED["containers"][0]["readinessProbe"]
    seen_s = readiness["periodSeconds"] * readiness["failureThreshold"] + readiness["timeoutSeconds"]
    assert seen_s < CLUSTER.drain_s
    assert SERVED["terminationGracePeriodSeconds"] >= CLUSTER.drain_s + CLUSTER.stop_s + EXIT_GRACE_S
    grace_s = int(COMPOSE["app"]["stop_grace_period"].removesuffix("s"))
    assert grace_s >= COMPOSED.drain_s + COMPOSED.stop_s + EXIT_GRACE_S


def test_all_pods_together_have_connections_enough() -> None:
    most = PARTS["HorizontalPodAutoscaler"]["spec"]["maxReplicas"] + 1  # one more while they are replaced
    assert most * CLUSTER.workers * CLUSTER.database_connections <= POSTGRES_CONNECTIONS - 10


def test_what_selects_pods_selects_these() -> None:
    name = PARTS["Deployment"]["spec"]["template"]["metadata"]["labels"]
    assert PARTS["Deployment"]["spec"]["selector"]["matchLabels"] == name
    assert PARTS["Service"]["spec"]["selector"] == name
    assert PARTS["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"] == name
    assert PARTS["HorizontalPodAutoscaler"]["spec"]["scaleTargetRef"]["name"] == "headroom"
    (chosen,) = PARTS["NetworkPolicy"]["spec"]["podSelector"]["matchExpressions"]
    job = PARTS["Job"]["spec"]["template"]["metadata"]["labels"]
    assert set(chosen["values"]) == {*name.values(), *job.values()}


def seconds(name: str) -> float:
    """Of the proxy's settings."""
    (found,) = re.findall(rf"^ +{name} (\d+)s;", PROXY, flags=re.MULTILINE)
    return float(found)


def test_the_proxy_is_no_more_patient_with_clients_and_no_less_with_the_service() -> None:
    usual = Settings()
    assert seconds("client_header_timeout") <= usual.headers_deadline_s
    assert seconds("client_body_timeout") <= usual.body_deadline_s
    assert seconds("send_timeout") <= usual.read_deadline_s
    assert seconds("proxy_read_timeout") > usual.request_deadline_s
    upstream = PROXY.split("upstream headroom")[1].split("}")[0]
    assert float(re.findall(r"keepalive_timeout (\d+)s", upstream)[0]) < min(
        CLUSTER.keep_alive_s, COMPOSED.keep_alive_s
    )
    assert int(re.findall(r"client_max_body_size (\d+)m", PROXY)[0]) * 2**20 > usual.max_pasted_bytes


def test_only_the_proxy_is_reached_and_it_says_who_asks() -> None:
    assert [name for name, service in COMPOSE.items() if "ports" in service] == ["proxy"]
    listens = re.findall(r"listen (\d+)", PROXY)
    assert COMPOSE["proxy"]["ports"][0].endswith(f":{listens[0]}")
    assert "proxy_set_header X-Forwarded-For $remote_addr;" in PROXY  # what a client says of itself is not believed
    assert len(COMPOSED.proxies) == 3
    assert re.search(r"location = /metrics \{\s+return 404;", PROXY)
    for name in ("app", "proxy"):
        assert COMPOSE[name]["read_only"] is True
        assert COMPOSE[name]["cap_drop"] == ["ALL"]
        assert COMPOSE[name]["mem_limit"]


@pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not installed")
def test_nginx_takes_its_file(tmp_path: Path) -> None:
    file = tmp_path / "nginx.conf"
    file.write_text(PROXY.replace("app:8000", "127.0.0.1:8000").replace("/tmp/", f"{tmp_path}/"))
    tried = subprocess.run(["nginx", "-t", "-c", file], capture_output=True, text=True, check=False, timeout=30)
    assert tried.returncode == 0, tried.stderr


def test_images_of_others_are_named_by_digest() -> None:
    """A tag can be moved to another image after a review."""
    built_from = re.findall(r"^ARG \w+_IMAGE=(\S+)$", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE)
    started = [service["image"] for service in COMPOSE.values() if "build" not in service]
    assert len(built_from) == 2 and len(started) == 2
    for image in (*built_from, *started):
        assert re.search(r":[\w.-]+@sha256:[0-9a-f]{64}\}?$", image), image
