"""Defines the tools: the API call that each makes, its arguments, its result, and the texts that agents read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from app.agents import parts
from app.agents.shapes import Schema, answer_members, answer_schema_name, request_schema

DEFAULT_LIMIT = 3
INSTRUCTIONS = """\
Headroom sizes hardware for AI workloads from a catalog of accelerators, prices and published measurements. It \
answers which accelerators to use, how many, in which layout, with what latency and cost, how confident the result is, \
and why other options were rejected. Start with `recommend`. Field names carry their unit: _ms, _gib (2^30 bytes), \
_gb (10^9 bytes), usd_per_hour; fractions run from 0 to 1. An error names the field by JSON pointer and the accepted \
values: correct the field and call again. Figures are predictions: quote their probability (`confidence`) too."""
PARTS_HELP = (
    "Additional members of the answer, by name. `left_out` lists the available names; `all` returns every member."
)


@dataclass(frozen=True, slots=True)
class Tool:
    """One API call offered to agents. The schemas named in `detailed_schemas` are described field by field, the others
    by field names only.
    """

    name: str
    title: str
    description: str
    method: str
    path: str
    request: str | None
    detailed_schemas: frozenset[str]
    default_members: tuple[str, ...]
    render_text: Callable[[Mapping[str, Any]], str]
    stores_answer: bool = False  # whether the service stores the answer under an id

    def input_schema(self, document: Mapping[str, Any]) -> Schema:
        """JSON schema of the tool's arguments, derived from the OpenAPI document."""
        schemas = document["components"]["schemas"]
        operation = document["paths"][self.path][self.method.lower()]
        shape = (
            request_schema(self.request, schemas, detailed=self.detailed_schemas)
            if self.request is not None
            else stored_answer_schema(operation)
        )
        names = answer_members(answer_schema_name(operation), schemas)
        if "recommendations" in names:
            names += [name for name in answer_members("RecommendationShown", schemas) if name not in names]
            if "limit" in shape["properties"]:
                shape["properties"]["limit"]["description"] = f"Number of ranked options. Default: {DEFAULT_LIMIT}."
        items = {"type": "string", "enum": [*names, parts.WHOLE]}
        shape["properties"] = {
            **shape["properties"],
            "parts": {"type": "array", "items": items, "description": PARTS_HELP},
        }
        return shape


def stored_answer_schema(operation: Mapping[str, Any]) -> Schema:
    """Argument schema of a tool on a stored answer: its id and the rank of an option."""
    (identity,) = (each for each in operation["parameters"] if each["name"] == "id")
    text = {"type": "string", "description": "Id of a stored answer (rec_...), as recommend and compare return it."}
    rank = {"type": "integer", "minimum": 1, "description": "Rank of the option to explain. Default: 1."}
    return {
        "type": "object",
        "properties": {"id": {**text, "pattern": identity["schema"]["pattern"]}, "rank": rank},
        "required": ["id"],
    }


WORKLOAD_SCHEMAS = frozenset({"InferenceSpec", "Traffic", "SloSpec", "TrainingSpec", "FineTuningSpec"})
TOOLS = (
    Tool(
        name="recommend",
        title="Recommend hardware",
        description=(
            "Rank the hardware that can run a workload: accelerators, their number, the seller and the layout, with "
            "latency (ms), cost (USD per hour), power (kW) and the probability that the limits hold. `workload.phase` "
            "is inference, training or fine_tuning; a model is a name, a pasted config.json or a size. Returns the "
            f"first {DEFAULT_LIMIT} options (set `limit` for more), warnings, cheaper alternatives, and the number "
            "of rejected "
            "accelerators by reason. The service stores the answer under its id; call `explain` for the reasons. If "
            "nothing meets the limits, the answer lists the closest options. Example: "
            '{"workload": {"phase": "inference", "model": "llama-3.1-70b-instruct", "traffic": {"peak_requests_per_s": '
            '10, "input_tokens": 1024, "output_tokens": 256}, "slo": {"ttft_ms": 1000}}}'
        ),
        method="POST",
        path="/recommend",
        request="RecommendRequest",
        detailed_schemas=WORKLOAD_SCHEMAS | {"ConstraintsSpec"},
        default_members=(
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
        render_text=parts.recommendation_text,
        stores_answer=True,
    ),
    Tool(
        name="estimate",
        title="Estimate a deployment",
        description=(
            "Estimate a workload on given hardware: whether it fits (GiB per accelerator), latency (ms), tokens per "
            "second, cost (USD per hour), power (kW) and the bottleneck. `workload` is as in recommend. Headroom "
            "chooses and echoes the fields that `deployment` omits. Example: "
            '{"workload": {"phase": "fine_tuning", "model": "llama-3.1-70b", "method": "qlora", "training_tokens": '
            '50000000, "sequence_length": 2048}, "deployment": {"accelerator": "rtx a6000", "total_accelerators": 4}}'
        ),
        method="POST",
        path="/estimate",
        request="EstimateRequest",
        detailed_schemas=frozenset({"DeploymentSpec"}),
        default_members=(
            *("fits", "support", "summary", "deployment", "memory", "performance", "bottleneck", "cost"),
            *("confidence", "explanation", "warnings"),
        ),
        render_text=parts.estimate_text,
    ),
    Tool(
        name="compare",
        title="Compare options",
        description=(
            "Compare options of one workload side by side: each is a fixed `deployment`, or the best within its "
            "`constraints`. Or compare one model in several `phases`. Returns every figure with its unit, the causes "
            "of cost differences, and the ids of stored answers. `workload` is as in recommend, `deployment` as in "
            'estimate. Example: {"workload": {"phase": "inference", "model": "llama-3.1-8b-instruct", "traffic": '
            '{"peak_requests_per_s": 5}}, "options": [{"name": "best"}, {"name": "on H100", "constraints": '
            '{"accelerators": ["nvidia-h100-*"]}}]}'
        ),
        method="POST",
        path="/compare",
        request="CompareRequest",
        detailed_schemas=frozenset({"OptionSpec"}),
        default_members=("catalog", "as_of", "summary", "options", "table", "differences"),
        render_text=parts.comparison_text,
        stores_answer=True,
    ),
    Tool(
        name="inspect",
        title="Inspect a model",
        description=(
            "Count a model: parameters, weight size in GiB per format, KV cache bytes per token, FLOPs per token. A "
            "model is a name, a pasted config.json under `huggingface_config`, or a size. Example: "
            '{"model": "llama-3.1-70b-instruct"}'
        ),
        method="POST",
        path="/catalog/models/inspect",
        request="InspectRequest",
        detailed_schemas=frozenset({"ConfigModel", "SizedModel"}),
        default_members=(
            *("name", "source", "kind", "family", "parameters", "active_parameters", "kv_cache_bytes_per_token"),
            *("weights_gib", "native", "shape", "flops_per_token", "by_context", "assumed"),
        ),
        render_text=parts.model_text,
    ),
    Tool(
        name="explain",
        title="Explain a stored answer",
        description=(
            "Explain a stored answer: the reasons for one option, why other accelerators were rejected (needed and "
            "available value, with the unit), and what would change the answer. `parts` adds more: assumptions, "
            "hosted_api, verification, memory ... Example: "
            '{"id": "rec_0123456789abcdef0123456789ab", "rank": 1, "parts": ["assumptions"]}'
        ),
        method="GET",
        path="/recommendations/{id}",
        request=None,
        detailed_schemas=frozenset(),
        default_members=("id", "as_of", "summary", "recommendations", "rejected", "sensitivity", "explanation"),
        render_text=parts.explanation_text,
    ),
)
BY_NAME = {tool.name: tool for tool in TOOLS}
