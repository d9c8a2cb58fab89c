"""Defines the MCP tools: the API call, arguments, result and texts of each.

A request has some two hundred fields, and an agent pays for each described field in every conversation. A tool
therefore describes the fields that most questions need, and only lists the names of the others. The service explains
those when it receives an invalid value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from app.export.tables import (
    OutputFormat,
    comparison_rows,
    count_rows,
    deployment_row,
    format_value,
    ranking_rows,
    reason_lines,
    rejection_lines,
    render_rows,
)

Schema = dict[str, Any]
REF = "#/components/schemas/"
NULL = {"type": "null"}
# Keywords that agents do not need: without effect for them, or explained by the service when it rejects a value.
DROPPED_KEYWORDS = frozenset(
    ("examples", "title", "discriminator", "maxLength", "minLength", "maxItems", "maxProperties", "propertyNames")
)


def referenced_schemas(node: Any) -> Iterator[str]:
    """Names of the schemas that a node references."""
    if isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"].removeprefix(REF)
        for value in node.values():
            yield from referenced_schemas(value)
    elif isinstance(node, list):
        for value in node:
            yield from referenced_schemas(value)


def simplify_schema(node: Any) -> Any:
    """A schema without keywords that do not help an agent: examples, titles, length limits, and null as an alternative
    type.
    """
    if isinstance(node, list):
        return [simplify_schema(each) for each in node]
    if not isinstance(node, dict):
        return node.replace(REF, "#/$defs/") if isinstance(node, str) and node.startswith(REF) else node
    if "properties" in node and isinstance(node["properties"], dict):
        fields = {name: simplify_schema(field) for name, field in node["properties"].items()}
        return {**simplify_schema({k: v for k, v in node.items() if k != "properties"}), "properties": fields}
    kept = {
        name: simplify_schema(value)
        for name, value in node.items()
        if name not in DROPPED_KEYWORDS and value is not False
    }
    choices = [each for each in kept.get("anyOf", ()) if each != NULL]
    if len(choices) == 1:
        del kept["anyOf"]
        return {**choices[0], **kept}
    return kept


def summarize_fields(schema: Schema) -> Schema:
    """An object schema reduced to the names of its fields.

    Check:
        >>> summarize_fields({"type": "object", "description": "Two.", "properties": {"a": {}, "b": {}}})
        {'type': 'object', 'description': 'Two. Fields: a, b.'}
    """
    text = f"{schema.get('description', '')} Fields: {', '.join(schema['properties'])}.".strip()
    return {"type": "object", "description": text}


def request_schema(
    name: str, schemas: Mapping[str, Schema], *, detailed: frozenset[str], elsewhere: Mapping[str, str]
) -> Schema:
    """Schema of a request with every schema that it references. Only the schemas in `detailed` keep their fields; the
    others refer to the tool that describes them, named in `elsewhere`, or list field names.
    """
    top, definitions, pending = simplify_schema(schemas[name]), {}, [*referenced_schemas(schemas[name])]
    while pending:
        each = pending.pop()
        if each in definitions:
            continue
        schema = schemas[each]
        if schema.get("properties") and each not in detailed:
            tool = elsewhere.get(each)
            text = f"Fields: as in the tool {tool}."
            definitions[each] = {"type": "object", "description": text} if tool else summarize_fields(schema)
            continue
        definitions[each] = simplify_schema(schema)
        pending += referenced_schemas(schema)
    return {**top, "$defs": dict(sorted(definitions.items()))} if definitions else dict(top)


def answer_members(name: str, schemas: Mapping[str, Schema]) -> list[str]:
    """Names of an answer's members."""
    return list(schemas[name]["properties"])


def answer_schema_name(operation: Mapping[str, Any]) -> str:
    """Name of the schema that an operation returns."""
    reference = operation["responses"]["200"]["content"]["application/json"]["schema"]["$ref"]
    return re.sub(r".*/", "", str(reference))


Json = Mapping[str, Any]
WHOLE = "all"
OPTION_MEMBERS = ("rank", "deployment", "fits", "support", "performance", "bottleneck", "cost", "confidence")
# Members of `performance` that are returned on request only: load curves and the details of a simulation.
DETAIL_MEMBERS = ("simulation", "load_curve", "interval")
COMPARED_MEMBERS = ("name", "does_it", "fits", "id", "accelerator", "bottleneck")
MAX_REJECTIONS = 5


def select_members(option: Json, requested: Collection[str], default: Collection[str]) -> dict[str, Any]:
    """Members of one option that are default or requested."""
    kept = {name: value for name, value in option.items() if name in default or name in requested}
    if "performance" in kept and "performance" not in requested:
        kept["performance"] = {name: value for name, value in kept["performance"].items() if name not in DETAIL_MEMBERS}
    return kept


def shorten_answer(answer: Json, default: Collection[str], requested: Collection[str]) -> dict[str, Any]:
    """An answer with its default and requested members; `left_out` lists the names of the others."""
    if WHOLE in requested:
        return dict(answer)
    kept = select_members(answer, requested, default)
    for name, members in (("recommendations", OPTION_MEMBERS), ("options", COMPARED_MEMBERS)):
        if name in kept and name not in requested:
            kept[name] = [select_members(each, requested, members) for each in kept[name]]
    if answer.get("recommendations") == [] and "rejected" not in kept:
        kept["rejected"] = answer["rejected"][:MAX_REJECTIONS]
    left = [name for name in answer if name not in kept]
    return {**kept, "left_out": left} if left else kept


def recommendation_text(answer: Json) -> str:
    """A recommendation as Markdown: summary, ranked options, warnings, rejections by reason, and the id for further
    questions.
    """
    lines = [answer["summary"]]
    if answer["recommendations"]:
        lines += ["", render_rows(ranking_rows(answer), OutputFormat.MARKDOWN)]
    else:
        lines += ["", "Closest options:", *rejection_lines(answer, MAX_REJECTIONS)]
        lines += change_lines(answer)
    lines += ["", *warning_lines(answer)]
    counts = ", ".join(f"{code} {count}" for code, count in answer["rejected_by_code"].items())
    lines += [f"Rejected, by reason: {counts or 'none'}."]
    lines += [f"Stored as {answer['id']}. Call `explain` with this id for the reasons and details of an option."]
    return "\n".join(lines)


def warning_lines(answer: Json) -> list[str]:
    """One line per warning."""
    return [f"Note: {each['text']}" for each in answer.get("warnings", ())]


def change_lines(answer: Json) -> list[str]:
    """Lines that list what would change the answer; empty if the answer has no sensitivity."""
    lines = [f"- {each['change']}: {each['effect']}" for each in answer.get("sensitivity", ())]
    return ["", "What would change the answer", *lines] if lines else []


def estimate_text(answer: Json) -> str:
    """An estimate as Markdown: summary, figures, explanations and warnings."""
    table = render_rows([deployment_row(answer)], OutputFormat.MARKDOWN)
    return "\n".join([answer["summary"], "", table, "", *reason_lines(answer), *warning_lines(answer)])


def comparison_text(answer: Json) -> str:
    """A comparison as Markdown: summary, all figures side by side, and the ids of the stored answers."""
    stored = [f"{each['name']} is stored as {each['id']}." for each in answer["options"] if each.get("id")]
    return "\n".join([answer["summary"], "", render_rows(comparison_rows(answer), OutputFormat.MARKDOWN), "", *stored])


def model_text(answer: Json) -> str:
    """A model's counts as Markdown, with the weight size per format."""
    weights = ", ".join(f"{name} {format_value(value)}" for name, value in answer["weights_gib"].items())
    return "\n".join([render_rows(count_rows(answer), OutputFormat.MARKDOWN), "", f"Weight size in GiB: {weights}."])


def explanation_text(answer: Json) -> str:
    """Explanation of a stored answer: reasons of each option, rejections, and what would change the answer."""
    lines = [answer["summary"]]
    for each in answer["recommendations"]:
        lines += ["", f"Rank {each['rank']}", *reason_lines(each)]
    lines += ["", "Rejected", *rejection_lines(answer, 20)]
    return "\n".join([*lines, *change_lines(answer)])


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
            request_schema(self.request, schemas, detailed=self.detailed_schemas, elsewhere=describing_tools(self.name))
            if self.request is not None
            else stored_answer_schema(operation)
        )
        names = answer_members(answer_schema_name(operation), schemas)
        if "recommendations" in names:
            names += [name for name in answer_members("RecommendationShown", schemas) if name not in names]
            if "limit" in shape["properties"]:
                shape["properties"]["limit"]["description"] = f"Number of ranked options. Default: {DEFAULT_LIMIT}."
        items = {"type": "string", "enum": [*names, WHOLE]}
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


def describing_tools(name: str) -> dict[str, str]:
    """The other tool that describes a schema field by field, by schema."""
    return {schema: tool.name for tool in TOOLS if tool.name != name for schema in tool.detailed_schemas}


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
        render_text=recommendation_text,
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
        render_text=estimate_text,
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
        render_text=comparison_text,
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
        render_text=model_text,
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
        render_text=explanation_text,
    ),
)
BY_NAME = {tool.name: tool for tool in TOOLS}
