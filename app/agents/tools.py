"""The tools: which call of the API each makes, what it takes, what it gives, and how that is told to an agent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from app.agents import parts
from app.agents.shapes import Schema, answered, members_of, shape_of

FIRST = 3
INSTRUCTIONS = """\
Headroom sizes hardware for AI work from a catalogue of accelerators, prices and published measurements: which \
accelerators, how many, laid out how, with what latency, at what cost, how sure that is, and why others were turned \
down. Begin with `recommend`. Units are in the names of fields: _ms, _gib (2^30 bytes), _gb (10^9), usd_per_hour; \
fractions run from 0 to 1. An error names the field by a JSON pointer and says what would be accepted: mend it and ask \
again. Figures of an answer are predictions: say with what probability they hold (`confidence`)."""
PARTS = "Further members of the answer, by name: `left_out` tells which it has, `all` gives every one."


@dataclass(frozen=True, slots=True)
class Tool:
    """One call of the API for agents. What `told` names is described field by field, the rest by the fields' names."""

    name: str
    title: str
    description: str
    method: str
    path: str
    request: str | None
    told: frozenset[str]
    usual: tuple[str, ...]
    text: Callable[[Mapping[str, Any]], str]
    keeps: bool = False  # the answer, under an id

    def takes(self, document: Mapping[str, Any]) -> Schema:
        """The schema of its arguments, from the OpenAPI document."""
        schemas = document["components"]["schemas"]
        operation = document["paths"][self.path][self.method.lower()]
        shape = shape_of(self.request, schemas, told=self.told) if self.request is not None else by_identity(operation)
        names = members_of(answered(operation), schemas)
        if "recommendations" in names:
            names += [name for name in members_of("RecommendationShown", schemas) if name not in names]
            if "limit" in shape["properties"]:
                shape["properties"]["limit"]["description"] = f"Options to rank. Default: {FIRST}."
        items = {"type": "string", "enum": [*names, parts.WHOLE]}
        shape["properties"] = {**shape["properties"], "parts": {"type": "array", "items": items, "description": PARTS}}
        return shape


def by_identity(operation: Mapping[str, Any]) -> Schema:
    """What a call about a stored answer takes: its id, and which of its options is meant."""
    (identity,) = (each for each in operation["parameters"] if each["name"] == "id")
    said = {"type": "string", "description": "Id of a stored answer, as recommend and compare give it: rec_..."}
    rank = {"type": "integer", "minimum": 1, "description": "Rank of the option that is meant. Default: 1."}
    return {
        "type": "object",
        "properties": {"id": {**said, "pattern": identity["schema"]["pattern"]}, "rank": rank},
        "required": ["id"],
    }


WORK = frozenset({"InferenceSpec", "Traffic", "SloSpec", "TrainingSpec", "FineTuningSpec"})
TOOLS = (
    Tool(
        name="recommend",
        title="Recommend hardware",
        description=(
            "Rank the hardware that can run a workload: accelerators, how many, from whom, laid out how, with "
            "latency (ms), cost (USD per hour), power (kW) and the probability that it holds. `workload.phase` is "
            "inference, training or fine_tuning; a model is a name, a pasted config.json or a size. Gives the first "
            f"{FIRST} options (`limit` asks for more), warnings, cheaper ways, and how many accelerators were turned "
            "down for which reason. The answer is stored under its id: `explain` tells why. Nothing within the limits "
            "is an answer, with the nearest misses. Example: "
            '{"workload": {"phase": "inference", "model": "llama-3.1-70b-instruct", "traffic": {"peak_requests_per_s": '
            '10, "input_tokens": 1024, "output_tokens": 256}, "slo": {"ttft_ms": 1000}}}'
        ),
        method="POST",
        path="/recommend",
        request="RecommendRequest",
        told=WORK | {"ConstraintsSpec"},
        usual=(
            "id",
            "catalog",
            "as_of",
            "summary",
            "warnings",
            "recommendations",
            "considered",
            "rejected_by_code",
            "cheaper_if",
        ),
        text=parts.ranked_text,
        keeps=True,
    ),
    Tool(
        name="estimate",
        title="Estimate a deployment",
        description=(
            "What a workload does on hardware that is there: whether it fits (GiB per accelerator), latency (ms), "
            "tokens per second, cost (USD per hour), power (kW), what limits it. `workload` is as in recommend; what "
            "`deployment` leaves out is chosen well and echoed. Example: "
            '{"workload": {"phase": "fine_tuning", "model": "llama-3.1-70b", "method": "qlora", "training_tokens": '
            '50000000, "sequence_length": 2048}, "deployment": {"accelerator": "rtx a6000", "total_accelerators": 4}}'
        ),
        method="POST",
        path="/estimate",
        request="EstimateRequest",
        told=frozenset({"DeploymentSpec"}),
        usual=(
            *("fits", "support", "summary", "deployment", "memory", "performance", "bottleneck", "cost"),
            *("confidence", "explanation", "warnings"),
        ),
        text=parts.judged_text,
    ),
    Tool(
        name="compare",
        title="Compare options",
        description=(
            "Options of one workload side by side: a `deployment` that is given, or the best within other "
            "`constraints`; or one model in several `phases`. Gives every figure with its unit, what sets the costs "
            "apart, and ids of the answers that were searched for. `workload` is as in recommend, `deployment` as in "
            'estimate. Example: {"workload": {"phase": "inference", "model": "llama-3.1-8b-instruct", "traffic": '
            '{"peak_requests_per_s": 5}}, "options": [{"name": "best"}, {"name": "on H100", "constraints": '
            '{"accelerators": ["nvidia-h100-*"]}}]}'
        ),
        method="POST",
        path="/compare",
        request="CompareRequest",
        told=frozenset({"OptionSpec"}),
        usual=("catalog", "as_of", "summary", "options", "table", "differences"),
        text=parts.compared_text,
        keeps=True,
    ),
    Tool(
        name="inspect",
        title="Inspect a model",
        description=(
            "The counts of a model: parameters, GiB of its weights in each format, bytes of KV cache per token, FLOPs "
            "per token. A model is a name, a pasted config.json under `huggingface_config`, or a size. Example: "
            '{"model": "llama-3.1-70b-instruct"}'
        ),
        method="POST",
        path="/catalog/models/inspect",
        request="InspectRequest",
        told=frozenset({"ConfigModel", "SizedModel"}),
        usual=(
            *("name", "source", "kind", "family", "parameters", "active_parameters", "kv_cache_bytes_per_token"),
            *("weights_gib", "native", "shape", "flops_per_token", "by_context", "assumed"),
        ),
        text=parts.counted_text,
    ),
    Tool(
        name="explain",
        title="Explain a stored answer",
        description=(
            "Why a stored answer says what it says: the sentences behind one option, why other accelerators were "
            "turned down (what was needed, what there was, in which unit), what would change the answer. More of it "
            "by `parts`: assumptions, hosted_api, verification, memory ... Example: "
            '{"id": "rec_0123456789abcdef0123456789ab", "rank": 1, "parts": ["assumptions"]}'
        ),
        method="GET",
        path="/recommendations/{id}",
        request=None,
        told=frozenset(),
        usual=("id", "as_of", "summary", "recommendations", "rejected", "sensitivity", "explanation"),
        text=parts.explained_text,
    ),
)
BY_NAME = {tool.name: tool for tool in TOOLS}
