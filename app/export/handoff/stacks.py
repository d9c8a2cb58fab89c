"""Builds files for serving stacks that start vLLM themselves: Ray Serve LLM, the llm-d modelservice chart, Dynamo."""

from __future__ import annotations

import json
from typing import Any

from app.export.handoff.cluster import RESOURCES, build_metadata, node_selector, pod_labels, pod_spec, port_and_probes
from app.export.handoff.engines import REVISION
from app.export.handoff.lifecycle import GIB, drain_s, host_requests, start_note, weights_bytes
from app.export.handoff.option import (
    YAML,
    File,
    Handoff,
    Option,
    add_header,
    replica_range,
    scaling_notes,
    yaml_text,
)
from app.export.handoff.serving import NotServable, ReplicaLaunch, plan_launches, serving_notes, shared_files
from app.export.handoff.weights import needs_conversion
from app.sizing.words import join_words, product_name

Document = dict[str, Any]
RAY = "ray.serve.llm:build_openai_app of Ray 2.52, read 2026-11-26"
CHART = "llm-d-modelservice 0.4.12 (3051935e): values.yaml, values.schema.json and templates, read 2026-11-26"
DYNAMO = "deploy/operator/api/v1beta1 of ai-dynamo/dynamo (006b6e10), dynamo/vllm of ai-dynamo 1.6.1, read 2026-11-27"
DYNAMO_IMAGE = "nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.5.1"  # that of the README of ai-dynamo 1.6.1
# Accelerator types of Ray (ray.util.accelerators), by prefix of the catalog slug; the first match counts.
RAY_TYPES = (
    ("nvidia-h100", "H100"),
    ("nvidia-h200", "H200"),
    ("nvidia-b200", "B200"),
    ("nvidia-a100", "A100"),
    ("nvidia-l40s", "L40S"),
    ("nvidia-l4", "L4"),
    ("nvidia-a10g", "A10G"),
    ("nvidia-t4", "T4"),
)
# Flags that the stack sets itself, with the number of values that follow each.
SET_BY_RAY = {"--distributed-executor-backend": 1, "--nnodes": 1, "--node-rank": 1, "--master-addr": 1}
SET_BY_CHART = {
    "--tensor-parallel-size": 1,
    "--data-parallel-size": 1,
    "--data-parallel-size-local": 1,
    "--data-parallel-start-rank": 1,
    "--data-parallel-address": 1,
}
NIXL_PORT = 5600  # side channel of the KV cache transfer
CHART_MOUNT = "/model-cache"  # where the chart mounts the weights
TOKEN_SECRET = "huggingface"
CHART_SPARE = 1.3  # room of the chart's volume relative to the weights


def without_flags(tokens: list[str], flags: dict[str, int]) -> list[str]:
    """A command without some flags and their values.

    Check:
        >>> without_flags(["--a", "1", "--b", "--c", "2"], {"--a": 1})
        ['--b', '--c', '2']
    """
    kept, skip = [], 0
    for token in tokens:
        if skip:
            skip -= 1
        elif token in flags:
            skip = flags[token]
        else:
            kept.append(token)
    return kept


def vllm_options(part: ReplicaLaunch, set_elsewhere: dict[str, int], revision: str = "main") -> list[str]:
    """Options of vLLM without the model and without what the stack sets. `vllm serve MODEL` comes before them.

    The stacks start no shell, so `revision` replaces the slot of the revision.
    """
    options = without_flags(part.command_tokens[3:], set_elsewhere)
    return [revision if option == REVISION else option for option in options]


def engine_arguments(options: list[str]) -> Document:
    """Options of vLLM as arguments of its engine.

    Check:
        >>> engine_arguments(["--max-num-seqs", "8", "--enable-lora", "--speculative-config.method", "mtp"])
        {'max_num_seqs': 8, 'enable_lora': True, 'speculative_config': {'method': 'mtp'}}
    """
    found: Document = {}
    for place, token in enumerate(options):
        if not token.startswith("--"):
            continue
        following = options[place + 1] if place + 1 < len(options) else "--"
        value = True if following.startswith("--") else _value_of(following)
        name, _, field = token.removeprefix("--").replace("-", "_").partition(".")
        if field:
            found.setdefault(name, {})[field] = value
        else:
            found[name] = value
    return found


def _value_of(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


def _require_vllm(part: ReplicaLaunch, stack: str) -> None:
    if part.launch.engine != "vllm":
        raise NotServable(f"{stack} starts vLLM; this option is served with {product_name(part.launch.engine)}.")
    if part.plugins:
        raise NotServable(f"{stack} starts vLLM without {join_words(part.plugins)}, which this option needs.")
    if needs_conversion(part.group):
        raise NotServable(f"{stack} loads weights from a repository; those of this option are at a path of yours.")


def ray_files(option: Option, version: str | None, target: str) -> Handoff:
    """A configuration of Ray Serve that serves the model with vLLM."""
    groups = plan_launches(option, version)
    part = groups[0]
    _require_vllm(part, "Ray Serve")
    if len(groups) > 1 or part.group.int_place("data") > 1:
        raise NotServable("This file of Ray Serve has no prefill and decode pools and no data-parallel ranks.")
    config = yaml_text(ray_config(part))
    notes = (
        *serving_notes(groups),
        f"Source of the Ray Serve keys: {RAY}.",
        f"Run serve deploy {part.name}.serve.yaml on a Ray cluster with vLLM {'.'.join(map(str, part.version))} and "
        f"HF_TOKEN on each node. Ray listens on port {part.port}.",
        start_note(option, part.group),
        *scaling_notes(option),
    )
    file = File(f"{part.name}.serve.yaml", YAML, add_header(option.header_lines, config))
    return Handoff(target, option.rank, (file, *shared_files(groups)), notes)


def ray_config(part: ReplicaLaunch) -> Document:
    """Serve configuration with one application. Ray places the stages of a replica on its machines itself."""
    scaling, group = replica_range(part.option), part.group
    kind = next((name for start, name in RAY_TYPES if group.sku.startswith(start)), None)
    batch = group.int_place("sequences", group.int_place("batch"))
    replicas: Document = (
        {"num_replicas": group.replicas}
        if scaling is None
        else {
            "autoscaling_config": {
                "min_replicas": scaling.min_replicas,
                "max_replicas": scaling.max_replicas,
                "target_ongoing_requests": group.int_place("batch"),
                "downscale_delay_s": scaling.scale_down_delay_s,
            }
        }
    )
    arguments = engine_arguments(vllm_options(part, SET_BY_RAY))
    llm: Document = {
        "model_loading_config": {"model_id": group.model, "model_source": group.model},
        **({"accelerator_type": kind} if kind else {}),
        "deployment_config": {
            **replicas,
            "max_ongoing_requests": 2 * batch,
            "graceful_shutdown_timeout_s": drain_s(part.option),
        },
        "engine_kwargs": arguments,
    }
    application = {
        "name": part.name,
        "route_prefix": "/",
        "import_path": "ray.serve.llm:build_openai_app",
        "args": {"llm_configs": [llm]},
    }
    return {"http_options": {"host": "0.0.0.0", "port": part.port}, "applications": [application]}


def llm_d_files(option: Option, version: str | None, target: str) -> Handoff:
    """Values of the llm-d modelservice chart, for one kind of replica or for two pools."""
    groups = plan_launches(option, version)
    for part in groups:
        _require_vllm(part, "The llm-d chart")
        if part.group.vendor not in ("NVIDIA", "AMD"):
            raise NotServable(f"The llm-d chart knows no {part.group.vendor} accelerators that vLLM runs on.")
        if part.spans_machines and part.group.int_place("data") == 1:
            raise NotServable("The llm-d chart spans machines only by data-parallel ranks.")
    if option.shared_name is not None:
        raise NotServable("The llm-d chart gives both pools the same weights; these pools load different ones.")
    values = yaml_text(llm_d_values(groups))
    name = f"{groups[0].name.removesuffix('-prefill')}.values.yaml"
    notes = (
        *(note for note in serving_notes(groups) if "You need a router" not in note),
        f"Source of the chart's keys: {CHART}.",
        f"Install the llm-d infrastructure and an inference pool first, as the guides of llm-d describe. Then run helm "
        f"install RELEASE llm-d-modelservice/llm-d-modelservice --values {name}.",
        f"The secret {TOKEN_SECRET} has the Hugging Face token under the key HF_TOKEN.",
        start_note(option, groups[0].group),
        *scaling_notes(option),
    )
    return Handoff(
        target,
        option.rank,
        (File(name, YAML, add_header(option.header_lines, values)), *shared_files(groups)),
        notes,
    )


def llm_d_values(groups: tuple[ReplicaLaunch, ...]) -> Document:
    """Values of the chart. Without pools, decode replicas do both, and no side car stands in front of them."""
    first, pools = groups[0], len(groups) > 1
    size = max(weights_bytes(first.option, part.group) for part in groups) * CHART_SPARE / GIB
    roles = {part.group.role if pools else "decode": part for part in groups}
    return {
        "multinode": any(part.spans_machines for part in groups),
        "modelArtifacts": {
            "uri": f"hf://{first.group.model}",
            "name": first.group.model,
            "size": f"{max(1, round(size))}Gi",
            "authSecretName": TOKEN_SECRET,
            "mountPath": CHART_MOUNT,
        },
        "accelerator": {"type": first.group.vendor.lower()},
        "routing": {"servicePort": first.port, "proxy": {"enabled": pools}},
        **{role: llm_d_pool(part) for role, part in roles.items()},
        **({} if pools else {"prefill": {"create": False}}),
    }


def llm_d_pool(part: ReplicaLaunch) -> Document:
    """One pool of the chart: replicas, degrees and the container of vLLM."""
    group, pools = part.group, part.group.is_pool
    probes = port_and_probes(part)
    drain = drain_s(part.option)
    transfer = [{"name": "VLLM_NIXL_SIDE_CHANNEL_HOST", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]
    requests = {RESOURCES[group.vendor]: str(group.per_machine), **host_requests(part.option, group)}
    data = group.int_place("data")
    container: Document = {
        "name": "vllm",
        "image": part.image,
        "modelCommand": "vllmServe",
        "args": vllm_options(part, SET_BY_CHART),
        "env": [
            *({"name": key, "value": value} for key, value in _chart_cache().items()),
            *(transfer if pools else ()),
        ],
        "ports": [
            {"name": "http", "containerPort": _chart_port(part)},
            *([{"name": "nixl", "containerPort": NIXL_PORT}] if pools else ()),
        ],
        "resources": {"requests": requests, "limits": {RESOURCES[group.vendor]: str(group.per_machine)}},
        "mountModelVolume": True,
        **{name: probes[name] for name in ("startupProbe", "readinessProbe", "livenessProbe")},
        "lifecycle": {"preStop": {"exec": {"command": ["/bin/sh", "-c", f"sleep {drain}"]}}},
    }
    return {
        "create": True,
        "replicas": group.replicas,
        "parallelism": {
            "tensor": group.int_place("tensor"),
            "data": data,
            "dataLocal": group.int_place("ranks_here", data),
            "workers": group.machines,
        },
        **node_selector(group),
        "terminationGracePeriodSeconds": drain + 30,
        "containers": [container],
    }


def _chart_cache() -> dict[str, str]:
    """Environment that keeps compiled kernels in the volume of the weights; the chart sets HF_HOME itself."""
    return {"VLLM_CACHE_ROOT": f"{CHART_MOUNT}/vllm"}


def _chart_port(part: ReplicaLaunch) -> int:
    """Port of vLLM: behind the side car of a decode pool it is the chart's own."""
    return 8200 if part.group.role == "decode" and part.group.is_pool else part.port


def dynamo_files(option: Option, version: str | None, target: str) -> Handoff:
    """A graph of NVIDIA Dynamo: a frontend that routes, and workers of one kind or of two pools."""
    groups = plan_launches(option, version)
    for part in groups:
        _require_vllm(part, "Dynamo's graph")
        if part.group.vendor != "NVIDIA":
            raise NotServable(f"Dynamo publishes no image for {part.group.vendor} accelerators.")
        if part.spans_machines and part.group.int_place("data") > 1:
            raise NotServable("This graph of Dynamo has no data-parallel ranks on several machines.")
    graph = dynamo_graph(groups)
    name = str(graph["metadata"]["name"])
    notes = (
        *(note for note in serving_notes(groups) if "You need a router" not in note),
        f"Source of the graph's keys: {DYNAMO}. The image has a version of vLLM of its own.",
        f"Install the Dynamo platform, then run kubectl apply -f {name}.dynamo.yaml. Its frontend listens on port 8000 "
        f"of the service {name}-frontend.",
        "If the secret huggingface exists, the Hugging Face token is read from its key token.",
        start_note(option, groups[0].group),
    )
    file = File(f"{name}.dynamo.yaml", YAML, add_header(option.header_lines, yaml_text(graph)))
    return Handoff(target, option.rank, (file, *shared_files(groups)), notes)


def dynamo_graph(groups: tuple[ReplicaLaunch, ...]) -> Document:
    """DynamoGraphDeployment; with spares its frontend runs twice. All replicas that the peak needs run all the time."""
    first = groups[0]
    metadata = build_metadata(first)
    metadata["name"] = first.name.removesuffix("-prefill")
    frontend = {
        "name": "Frontend",
        "type": "frontend",
        "replicas": 2 if first.option.spares else 1,
        "podTemplate": {"spec": {"containers": [{"name": "main", "image": DYNAMO_IMAGE}]}},
    }
    return {
        "apiVersion": "nvidia.com/v1beta1",
        "kind": "DynamoGraphDeployment",
        "metadata": metadata,
        "spec": {"components": [frontend, *(dynamo_worker(part) for part in groups)]},
    }


def dynamo_worker(part: ReplicaLaunch) -> Document:
    """Workers of one kind. The operator adds the ranks of several machines and the probes."""
    group = part.group
    pod = pod_spec(part, "main", answers=False)
    (container,) = pod["containers"]
    container.pop("lifecycle")  # a worker leaves the router before it finishes its requests
    mode = ["--disaggregation-mode", group.role] if group.is_pool else []
    container |= {
        "image": DYNAMO_IMAGE,
        "command": ["python3", "-m", "dynamo.vllm"],
        # Kubernetes replaces $(NAME) by a variable of the container.
        "args": ["--model", group.model, *vllm_options(part, SET_BY_RAY, "$(REVISION)"), *mode],
    }
    return {
        "name": {"prefill": "PrefillWorker", "decode": "DecodeWorker"}.get(group.role, "Worker"),
        "type": group.role if group.is_pool else "worker",
        "replicas": group.replicas,
        **({"multinode": {"nodeCount": group.machines}} if part.spans_machines else {}),
        "podTemplate": {"metadata": {"labels": pod_labels(part)}, "spec": pod},
    }
