"""Ray Serve and llm-d: keys of their schemas, degrees that come to the accelerators, and options of vLLM."""

from __future__ import annotations

import re
from typing import Any

import kubernetes_validate
import pytest
import yaml
from jsonschema import Draft202012Validator

from app.errors import Unanswerable
from app.export.handoff.engines import BY_ENGINE, command_flags
from app.export.handoff.option import Option
from app.export.handoff.targets import build_handoff
from tests.export.handoff.stored import DAY, pooled, served
from tests.export.handoff.test_clouds import COUNT, TEXT, closed
from tests.export.handoff.test_cluster import SPANNING
from tests.export.handoff.test_serving import RANKS

LIST, TABLE = {"type": "array"}, {"type": "object"}
# Written by hand after values.schema.json of llm-d-modelservice 0.4.12: the keys used here.
POOL = closed(
    ("create",),
    create={"type": "boolean"},
    replicas=COUNT,
    parallelism=closed(("tensor",), tensor=COUNT, data=COUNT, dataLocal=COUNT, workers=COUNT),
    nodeSelector=TABLE,
    terminationGracePeriodSeconds=COUNT,
    containers={
        "type": "array",
        "items": closed(
            ("name", "image", "modelCommand"),
            name=TEXT,
            image=TEXT,
            modelCommand={"enum": ["vllmServe", "imageDefault", "custom"]},
            args={"type": "array", "items": TEXT},
            env=LIST,
            ports=LIST,
            resources=TABLE,
            mountModelVolume={"type": "boolean"},
            startupProbe=TABLE,
            readinessProbe=TABLE,
            livenessProbe=TABLE,
            lifecycle=TABLE,
        ),
    },
)
LLM_D = closed(
    ("modelArtifacts", "decode"),
    multinode={"type": "boolean"},
    modelArtifacts=closed(("uri", "name"), uri=TEXT, name=TEXT, size=TEXT, authSecretName=TEXT, mountPath=TEXT),
    accelerator=closed(("type",), type={"enum": ["nvidia", "amd"]}),
    routing=closed(("servicePort",), servicePort=COUNT, proxy=closed(("enabled",), enabled={"type": "boolean"})),
    decode=POOL,
    prefill=POOL,
)


def document(option: Option, target: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(build_handoff(option, target, None).files[0].text)
    return found


@pytest.mark.parametrize("option", [served(), pooled(), served(**RANKS), served(maker="AMD"), served(day=DAY)])
def test_values_have_the_keys_of_the_chart(option: Option) -> None:
    Draft202012Validator(LLM_D).validate(document(option, "llm-d"))


def test_the_chart_sets_the_degrees_and_the_container_everything_else() -> None:
    values = document(served(**RANKS), "llm-d")
    decode = values["decode"]
    assert values["multinode"] is True and values["prefill"] == {"create": False}
    assert decode["parallelism"] == {"tensor": 2, "data": 8, "dataLocal": 4, "workers": 2}
    args = decode["containers"][0]["args"]
    assert not {"--tensor-parallel-size", "--data-parallel-size", "--port"} & {*args}
    assert args[args.index("--max-model-len") + 1] == "8192"
    assert decode["containers"][0]["startupProbe"]["failureThreshold"] > 100


def test_two_pools_transfer_their_cache_behind_the_side_car() -> None:
    values = document(pooled(), "llm-d")
    assert values["routing"]["proxy"] == {"enabled": True}
    ports = {role: values[role]["containers"][0]["ports"][0]["containerPort"] for role in ("prefill", "decode")}
    assert ports == {"prefill": 8000, "decode": 8200}
    for role in ports:
        assert "--kv-transfer-config" in values[role]["containers"][0]["args"]
        env = {each["name"] for each in values[role]["containers"][0]["env"]}
        assert "VLLM_NIXL_SIDE_CHANNEL_HOST" in env


def test_ray_gets_the_options_of_vllm_as_arguments() -> None:
    places: dict[str, Any] = {"draft_method": "mtp", "drafting": "mtp", "draft_tokens": 1}
    (app,) = document(served(**SPANNING, **places), "ray")["applications"]
    (llm,) = app["args"]["llm_configs"]
    assert app["import_path"] == "ray.serve.llm:build_openai_app"
    assert llm["engine_kwargs"]["max_model_len"] == 8192
    assert llm["engine_kwargs"]["revision"] == "main"  # Ray expands no variable
    assert llm["engine_kwargs"]["tensor_parallel_size"] * llm["engine_kwargs"]["pipeline_parallel_size"] == 16
    assert llm["engine_kwargs"]["speculative_config"] == {"method": "mtp", "num_speculative_tokens": 1}
    assert not {"nnodes", "node_rank", "distributed_executor_backend"} & {*llm["engine_kwargs"]}  # Ray's own
    assert llm["deployment_config"]["num_replicas"] == 3
    assert llm["accelerator_type"] == "H200"
    scaled = document(served(day=DAY), "ray")["applications"][0]["args"]["llm_configs"][0]["deployment_config"]
    assert (scaled["autoscaling_config"]["min_replicas"], scaled["autoscaling_config"]["max_replicas"]) == (2, 3)


@pytest.mark.parametrize("target", ["ray", "llm-d", "dynamo"])
def test_other_engines_and_own_weights_are_refused_in_words(target: str) -> None:
    for option, why in ((served("sglang"), "served with SGLang"), (served(model="./x"), "a path of yours")):
        with pytest.raises(Unanswerable, match=why):
            build_handoff(option, target, None)


# Written by hand after deploy/operator/api/v1beta1 of ai-dynamo/dynamo, from which its CRD is generated: all keys,
# patterns and ranges of DynamoGraphDeploymentSpec (0fddc01b), DynamoComponentDeploymentSharedSpec (006b6e10),
# ComponentType and MultinodeSpec (61e5243c). kubernetes-validate checks podTemplate.
COMPONENT = closed(
    ("name",),
    name={"type": "string", "maxLength": 63, "pattern": "^[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?$"},
    type={"enum": ["frontend", "worker", "prefill", "decode", "planner", "epp"]},
    runtimeVersionOverride={"type": "string", "pattern": r"^\d{1,4}\.\d{1,4}\.\d{1,4}$"},
    globalDynamoNamespace={"type": "boolean"},
    podTemplate=TABLE,
    replicas={"type": "integer", "minimum": 0},
    minAvailable=COUNT,
    multinode=closed(("nodeCount",), nodeCount={"type": "integer", "minimum": 2}),
    roles=LIST,
    sharedMemorySize=TEXT,
    modelRef=TABLE,
    scalingAdapter=TABLE,
    eppConfig=TABLE,
    frontendSidecar=TEXT,
    dynamoSidecar=TEXT,
    compilationCache=TABLE,
    topologyConstraint=TABLE,
    providerOverride=TABLE,
    experimental=TABLE,
)
GRAPH = closed(
    ("apiVersion", "kind", "metadata", "spec"),
    apiVersion={"const": "nvidia.com/v1beta1"},
    kind={"const": "DynamoGraphDeployment"},
    metadata=TABLE,
    spec=closed(
        ("components",),
        components={"type": "array", "maxItems": 25, "items": COMPONENT},
        annotations=TABLE,
        labels=TABLE,
        priorityClassName=TEXT,
        env=LIST,
        backendFramework={"enum": ["sglang", "vllm", "trtllm"]},
        restart=TABLE,
        topologyConstraint=TABLE,
        providerOverride=TABLE,
        experimental=TABLE,
    ),
)
# Of dynamo.vllm, besides those of vLLM: dynamo/vllm/backend_args.py of ai-dynamo 1.6.1.
DYNAMO_FLAGS = {"--model", "--disaggregation-mode"}


@pytest.mark.parametrize("option", [served(), served(spare=True), pooled(), served(**SPANNING), served(day=DAY)])
def test_a_graph_of_dynamo_runs_the_sized_workers(option: Option) -> None:
    graph = document(option, "dynamo")
    Draft202012Validator(GRAPH).validate(graph)
    frontend, *workers = graph["spec"]["components"]
    names = [each["name"].lower() for each in graph["spec"]["components"]]
    assert len({*names}) == len(names)
    assert frontend["replicas"] == (2 if option.spares else 1)
    assert [worker["replicas"] for worker in workers] == [group.replicas for group in option.groups]
    for worker, group in zip(workers, option.groups, strict=True):
        pod = worker["podTemplate"]
        whole = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": pod["spec"]}
        kubernetes_validate.validate(whole, "1.33", strict=True)
        (container,) = pod["spec"]["containers"]
        assert container["resources"]["limits"] == {"nvidia.com/gpu": group.per_machine}
        args = container["args"]
        assert args[:2] == ["--model", "org/Model-70B"]
        assert args[args.index("--max-model-len") + 1] == "8192"
        assert not {"--port", "--nnodes", "--node-rank"} & {*args}
        assert set(command_flags(args)) <= {*BY_ENGINE["vllm"].flags} | DYNAMO_FLAGS
        assert re.search(r":\d+\.\d+\.\d+$", container["image"])  # the operator reads its version from the tag
        assert worker.get("multinode") == ({"nodeCount": 2} if group.machines > 1 else None)
        assert worker["type"] == (group.role if group.is_pool else "worker")
        assert ("--disaggregation-mode" in args) == group.is_pool == ("--kv-transfer-config" in args)
        labels = pod["metadata"]["labels"]
        for constraint in pod["spec"].get("topologySpreadConstraints", ()):
            assert constraint["labelSelector"]["matchLabels"].items() <= labels.items()
