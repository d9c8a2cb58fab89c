"""Defines the MCP tools: the API call, arguments, result and texts of each.

A request has some two hundred fields, and an agent pays for each described field in every conversation. `size_hardware`
takes the dozen values that most questions need. The other tools take the requests of the API and list only the names of
their fields; `describe` describes those at a path, and the service explains an invalid value.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from app.export.tables import (
    CHANGES,
    OutputFormat,
    change_lines,
    comparison_rows,
    count_rows,
    deployment_row,
    format_value,
    ranking_rows,
    reason_lines,
    rejection_lines,
    render_rows,
    select_columns,
    titled,
)

Schema = dict[str, Any]
REF = "#/components/schemas/"
NULL = {"type": "null"}
LIMIT_KEYWORDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minItems", "maxItems")


def resolve_schema(node: Schema, schemas: Mapping[str, Schema]) -> Schema:
    """A schema without references and without null as an alternative."""
    choices = [each for each in node.get("anyOf", ()) if each != NULL]
    node = choices[0] if len(choices) == 1 else node
    name = node.get("$ref", "").removeprefix(REF)
    return resolve_schema(schemas[name], schemas) if name else node


def union_members(node: Schema, schemas: Mapping[str, Schema]) -> list[Schema]:
    """The schemas of a union; the schema itself if it is none."""
    choices: list[Schema] = node.get("oneOf") or node.get("anyOf") or [node]
    return [resolve_schema(each, schemas) for each in choices]


def phase_of(schema: Schema) -> str:
    """The phase that a workload schema is for; empty for other schemas."""
    return str(schema.get("properties", {}).get("phase", {}).get("const", ""))


def field_names(node: Schema, schemas: Mapping[str, Schema]) -> str:
    """The names of an object's fields, those of a workload by phase; empty for other schemas.

    Check:
        >>> field_names({"$ref": REF + "A"}, {"A": {"properties": {"a": {}, "b": {}}}})
        'a, b'
    """
    node = resolve_schema(node, schemas)
    if "items" in node:
        return field_names(node["items"], schemas)
    if "properties" in node:
        return ", ".join(name for name in node["properties"] if name != "phase")
    choices = union_members(node, schemas)
    named: list[str] = []
    listed: set[str] = set()
    for each in choices:
        if phase_of(each):
            names = [name for name in each["properties"] if name not in listed and name != "phase"]
            named.append(f"{phase_of(each)}: {'also ' if listed else ''}{', '.join(names)}")
            listed |= {*names}
    return "; ".join(named)


def brief_field(node: Schema, schemas: Mapping[str, Schema]) -> Schema:
    """A field reduced to its type, its choices and the names of the fields in it."""
    found, names = resolve_schema(node, schemas), field_names(node, schemas)
    kind = found.get("type") or ("object" if names else None)
    brief: Schema = {"type": kind} if kind else {}
    if kind == "array":  # some clients refuse an array without a schema of its items
        brief["items"] = {key: value for key, value in brief_field(found["items"], schemas).items() if key == "type"}
    if "enum" in found:
        brief["enum"] = found["enum"]
    return {**brief, "description": f"Fields: {names}."} if names else brief


def request_schema(
    name: str, schemas: Mapping[str, Schema], *, omitted: Collection[str] = (), elsewhere: Collection[str] = ()
) -> Schema:
    """A request reduced to its fields: the type of each and the names of the fields in it.

    Parameters:
        omitted: fields that are accepted but not listed.
        elsewhere: fields that the tool recommend lists.
    """
    whole = schemas[name]
    fields = {
        field: {"type": "object"} if field in elsewhere else brief_field(node, schemas)
        for field, node in whole["properties"].items()
        if field not in omitted
    }
    return {"type": "object", "properties": fields, "required": whole.get("required", [])}


def describe_fields(document: Mapping[str, Any], request: str, path: str) -> dict[str, Any] | None:
    """The fields at a dotted path of a request, each with its type, limits and description; None if nothing is there.

    A path that names a phase selects that workload: "workload.training".
    """
    schemas = document["components"]["schemas"]
    nodes = [resolve_schema(schemas[request], schemas)]
    for step in filter(None, path.split(".")):
        choices = [c for n in nodes for c in union_members(n, schemas)]
        phase = [c for c in choices if phase_of(c) == step]
        below = [resolve_schema(c["properties"][step], schemas) for c in choices if step in c.get("properties", {})]
        nodes = phase or [n.get("items", n) for n in below]
        nodes = [resolve_schema(n, schemas) for n in nodes]
    choices = [c for n in nodes for c in union_members(n, schemas)]
    found = {name: field for c in choices for name, field in c.get("properties", {}).items()}
    if not found:
        return None
    return {
        name: {
            **brief_field(field, schemas),
            **{k: v for k, v in resolve_schema(field, schemas).items() if k in LIMIT_KEYWORDS},
        }
        | (
            {"text": text}
            if (text := field.get("description") or resolve_schema(field, schemas).get("description"))
            else {}
        )
        for name, field in found.items()
    }


def required_members(operation: Mapping[str, Any], schemas: Mapping[str, Schema]) -> list[str]:
    """Members that the answer of an operation always has."""
    answer = resolve_schema(operation["responses"]["200"]["content"]["application/json"]["schema"], schemas)
    return list(answer["required"])


Json = Mapping[str, Any]
WHOLE = "all"
OPTION_MEMBERS = ("rank", "deployment", "fits", "support", "performance", "bottleneck", "cost", "confidence")
# Members of `performance` that are returned on request only: load curves and the details of a simulation.
DETAIL_MEMBERS = ("simulation", "load_curve", "interval")
COMPARED_MEMBERS = ("name", "does_it", "fits", "id", "accelerator", "bottleneck")
MAX_REJECTIONS = 5


def select_members(option: Json, requested: Collection[str], default: Collection[str]) -> dict[str, Any]:
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
    """A recommendation as Markdown: summary, options, warnings, rejections by reason, and the id to ask further."""
    lines = [answer["summary"]]
    if answer["recommendations"]:
        lines += ["", render_rows(ranking_rows(answer), OutputFormat.MARKDOWN)]
    else:
        lines += ["", "Closest options:", *rejection_lines(answer, MAX_REJECTIONS)]
        lines += titled(CHANGES, change_lines(answer))
    lines += ["", *warning_lines(answer)]
    counts = ", ".join(f"{code} {count}" for code, count in answer["rejected_by_code"].items())
    lines += [f"Rejected, by reason: {counts or 'none'}."]
    lines += [f"Stored as {answer['id']}. Call `explain` with this id for the reasons and details of an option."]
    return "\n".join(lines)


def warning_lines(answer: Json) -> list[str]:
    return [f"Note: {each['text']}" for each in answer.get("warnings", ())]


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


def diagnosis_text(answer: Json) -> str:
    """A diagnosis as Markdown: its summary and one line per finding."""
    lines = [f"- {each.get('text') or each.get('cause') or each.get('code')}" for each in answer.get("findings", ())]
    return "\n".join([str(answer.get("summary", "")), *(lines or ["No finding."]), *warning_lines(answer)])


def bill_text(answer: Json) -> str:
    """A bill of materials: its lines and total."""
    lines = [
        f"{each['line_no']}. {each['quantity']:g} {each['unit']} {each['description']}: "
        f"{each.get('line_total', 'to be quoted')}"
        for each in answer["lines"]
    ]
    return "\n".join([answer["option"], *lines, f"Total: {answer['totals']['total']} {answer['currency']}"])


def files_text(answer: Json) -> str:
    """Deployment files: notes, then each file with its name."""
    files = [f"\n{each['name']}:\n{each['text']}" for each in answer["files"]]
    return "\n".join([f"Target {answer['target']}, rank {answer['rank']}.", *answer["notes"], *files])


def stored_text(answer: Json) -> str:
    lines = [f"{each['id']} {each.get('label') or ''} {each.get('option') or ''}" for each in answer["items"]]
    return "\n".join(lines or ["No stored answer matches."])


def market_text(answer: Json) -> str:
    """Hourly prices per accelerator by group, as Markdown."""
    columns = ("name", "offers", "min_usd_per_hour", "median_usd_per_hour", "max_usd_per_hour", "trend_90d")
    rows = select_columns(answer["items"], columns)
    return render_rows(rows, OutputFormat.MARKDOWN) if rows else "No current offer matches."


def fields_text(answer: Json) -> str:
    return "\n".join(
        f"{name}: {field.get('type', 'value')}. {field.get('text') or field.get('description') or ''}".strip()
        for name, field in answer["fields"].items()
    )


def explanation_text(answer: Json) -> str:
    """Explanation of a stored answer: reasons of each option, rejections, and what would change the answer."""
    lines = [answer["summary"]]
    for each in answer["recommendations"]:
        lines += titled(f"Rank {each['rank']}", reason_lines(each))
    lines += titled("Rejected", rejection_lines(answer, 20))
    return "\n".join([*lines, *titled(CHANGES, change_lines(answer))])


DEFAULT_LIMIT = 3
INSTRUCTIONS = """\
Headroom sizes hardware for AI workloads from a catalog of accelerators, prices and published measurements. It \
answers which accelerators to use, how many, in which layout, with what latency and cost, how confident the result is, \
and why other options were rejected. Start with `size_hardware`; `recommend` takes everything else, and `describe` \
describes its fields. Field names carry their unit: _ms, _gib (2^30 bytes), _gb (10^9 bytes), usd_per_hour; fractions \
run from 0 to 1. Objects without listed fields are as in `recommend` or `estimate`. An answer has its most important \
members: `left_out` names the others, and `parts` requests them ("all": every one). An error names the field by JSON \
pointer and the accepted values: correct it and call again. Figures are predictions: quote their probability \
(`confidence`) too."""
PARTS = {"type": "array", "items": {"type": "string"}}
RANK = {"type": "integer", "minimum": 1, "description": "Default: 1."}
EXPORTED_RANK = {**RANK, "minimum": 0, "description": "0 is the mixed fleet. Default: 1, else 0."}
LOADS, LENGTHS = ("peak_requests_per_s", "users", "concurrent_requests"), ("input_tokens", "output_tokens")
USER_REQUESTS_PER_HOUR = 12  # of a person who chats, as in the page's example
LIMITS, RUN = ("ttft_ms", "tpot_ms"), ("training_tokens", "method", "deadline_days")  # of a service; of a run
NUMBER, COUNT, TEXT = {"type": "number"}, {"type": "integer"}, {"type": "string"}


def flat_request(arguments: Json) -> dict[str, Any]:
    """The body of POST /recommend for the arguments of size_hardware.

    Arguments of a service stay in the workload of a run, and the API refuses them there.
    """
    given: dict[str, Any] = {name: value for name, value in arguments.items() if value is not None}
    if "users" in given:
        given["users"] = {"count": given["users"], "requests_per_hour_each": USER_REQUESTS_PER_HOUR}

    def select(*names: str) -> dict[str, Any]:
        return {name: given[name] for name in names if name in given}

    workload: dict[str, Any] = {"model": given["model"]}
    if select(*RUN):
        workload |= {"phase": "fine_tuning" if "method" in given else "training"}
        workload |= select(*RUN, *LOADS, *LENGTHS, *LIMITS)
    else:
        load = select(*LOADS) or {"concurrent_requests": 1}
        workload |= {"phase": "inference", "traffic": load | select(*LENGTHS)}
        workload |= {"slo": limits} if (limits := select(*LIMITS)) else {}
    constraints = select("accelerators", "max_usd_per_hour")
    return {"workload": workload, **({"constraints": constraints} if constraints else {})}


@dataclass(frozen=True, slots=True)
class Tool:
    """One API call offered to agents. Tools without a request schema take `arguments`, which they send in the path and
    the query; `to_request` builds a body from them instead.
    """

    name: str
    title: str
    description: str
    path: str
    default_members: tuple[str, ...]
    render_text: Callable[[Mapping[str, Any]], str]
    request: str | None = None  # schema of the body of a POST
    arguments: Mapping[str, Schema] = field(default_factory=dict)
    required: tuple[str, ...] = ()
    omitted: tuple[str, ...] = ()  # fields or arguments that are accepted but not listed
    elsewhere: tuple[str, ...] = ()  # fields of the request that recommend lists
    to_request: Callable[[Json], dict[str, Any]] | None = None
    short: bool = False  # whether an answer has no further members that an agent would request
    stores_answer: bool = False  # whether the service stores the answer under an id

    @property
    def method(self) -> str:
        return "GET" if self.request is None else "POST"

    def input_schema(self, document: Mapping[str, Any]) -> Schema:
        """JSON schema of the tool's arguments; for requests, derived from the OpenAPI document."""
        if self.request is None or self.to_request is not None:
            listed = {name: schema for name, schema in self.arguments.items() if name not in self.omitted}
            shape: Schema = {"type": "object", "properties": listed}
            if self.required:
                shape["required"] = list(self.required)
        else:
            schemas = document["components"]["schemas"]
            shape = request_schema(self.request, schemas, omitted=self.omitted, elsewhere=self.elsewhere)
        if self.short or self.to_request is not None:
            return shape
        return {**shape, "properties": {**shape["properties"], "parts": PARTS}}

    def output_schema(self, document: Mapping[str, Any]) -> Schema:
        """JSON schema of the structured content: the default members that every answer has."""
        operation = document["paths"].get(self.path, {}).get(self.method.lower())
        always = required_members(operation, document["components"]["schemas"]) if operation else self.default_members
        return {"type": "object", "required": [name for name in self.default_members if name in always]}


FILED = ("label", "reference", "cost_centre", "rejected_limit", "trace", "include", "as_of", "handoff")
RANKED = (
    *("id", "catalog", "as_of", "summary", "warnings", "recommendations", "considered", "rejected_by_code"),
    *("cheaper_if", "maximum", "mixed_fleet"),
)
TOOLS = (
    Tool(
        name="size_hardware",
        title="Size hardware",
        description=(
            "Which hardware, how many, from whom and at which cost, for serving (a load in requests per second, users, "
            "or requests in flight) or for training (training_tokens; with method lora, qlora or full: fine-tuning). "
            f'Returns the best {DEFAULT_LIMIT} options and an id. Example: {{"model": "llama-3.1-70b", '
            '"peak_requests_per_s": 10, "input_tokens": 1000, "output_tokens": 300, "ttft_ms": 1000}'
        ),
        path="/recommend",
        request="RecommendRequest",
        default_members=RANKED,
        render_text=recommendation_text,
        arguments={
            "model": {**TEXT, "description": "Name, such as llama-3.1-70b, or a Hugging Face id."},
            "peak_requests_per_s": NUMBER,
            "users": {**COUNT, "description": f"Each sends {USER_REQUESTS_PER_HOUR} requests per hour."},
            "concurrent_requests": {**COUNT, "description": "Instead of a rate. Default: 1."},
            "input_tokens": {**NUMBER, "description": "Mean per request."},
            "output_tokens": {**NUMBER, "description": "Mean per request."},
            "ttft_ms": {**NUMBER, "description": "Limit of TTFT, p95."},
            "tpot_ms": NUMBER,
            "training_tokens": NUMBER,
            "method": {"enum": ["full", "lora", "qlora"], "description": "Of fine-tuning."},
            "deadline_days": NUMBER,
            "accelerators": {"type": "array", "items": TEXT, "description": "Only these, such as h100* or l40s."},
            "max_usd_per_hour": NUMBER,
        },
        required=("model",),
        omitted=("tpot_ms",),
        to_request=flat_request,
        stores_answer=True,
    ),
    Tool(
        name="recommend",
        title="Recommend hardware",
        description=(
            "Everything that the service takes: traffic classes, hours, inventory, limits on place and power. Returns "
            f"{DEFAULT_LIMIT} options (`limit`), cheaper alternatives, rejections by reason. "
            'Example: {"workload": {"phase": "inference", "model": "llama-3.1-70b", "traffic": {"peak_requests_per_s": '
            '10, "input_tokens": 1024}, "slo": {"ttft_ms": 1000}}}'
        ),
        path="/recommend",
        request="RecommendRequest",
        default_members=RANKED,
        render_text=recommendation_text,
        omitted=FILED,
        stores_answer=True,
    ),
    Tool(
        name="estimate",
        title="Estimate a deployment",
        description=(
            "Whether a workload fits given hardware; its memory, speed, cost, power and bottleneck. Example: "
            '{"workload": {"phase": "fine_tuning", "model": "llama-3.1-70b", "method": "qlora", "training_tokens": '
            '50000000}, "deployment": {"accelerator": "rtx a6000", "total_accelerators": 4}}'
        ),
        path="/estimate",
        request="EstimateRequest",
        default_members=(
            *("fits", "support", "summary", "deployment", "memory", "performance", "bottleneck", "cost"),
            *("confidence", "explanation", "warnings"),
        ),
        render_text=estimate_text,
        omitted=FILED,
        elsewhere=("workload", "economics", "assumptions"),
    ),
    Tool(
        name="compare",
        title="Compare options",
        description=(
            "Options of one workload side by side, each a fixed `deployment` or the best within `constraints`; or one "
            'model in several `phases`. Example: {"workload": {"phase": "inference", "model": "llama-3.1-8b", '
            '"traffic": {"peak_requests_per_s": 5}}, "options": [{"name": "best"}, {"name": "L4", "constraints": '
            '{"accelerators": ["l4"]}}]}'
        ),
        path="/compare",
        request="CompareRequest",
        default_members=("catalog", "as_of", "summary", "options", "table", "differences"),
        render_text=comparison_text,
        omitted=(*FILED, "objective"),
        elsewhere=("workload", "economics", "assumptions", "constraints"),
        stores_answer=True,
    ),
    Tool(
        name="inspect",
        title="Inspect a model",
        description=(
            "A model's parameters, weight size per format, KV cache bytes and FLOPs per token. `model` is a name, "
            '{"huggingface_config": {...}} or a size. Example: {"model": "llama-3.1-70b-instruct"}'
        ),
        path="/catalog/models/inspect",
        request="InspectRequest",
        default_members=(
            *("name", "source", "kind", "family", "parameters", "active_parameters", "kv_cache_bytes_per_token"),
            *("weights_gib", "native", "shape", "flops_per_token", "by_context", "assumed"),
        ),
        render_text=model_text,
    ),
    Tool(
        name="diagnose",
        title="Diagnose",
        description=(
            "Findings from observed figures, metrics or logs of a deployment: cause, change. Example: "
            '{"workload": {"phase": "inference", "model": "llama-3.1-8b", "traffic": {"peak_requests_per_s": 5}}, '
            '"deployment": {"accelerator": "h100 sxm"}, "observed": {"service": {"ttft_p95_ms": 4000}}}'
        ),
        path="/diagnose",
        request="DiagnoseRequest",
        default_members=("summary", "healthy", "findings", "not_judged", "warnings"),
        render_text=diagnosis_text,
        omitted=(*FILED, "maximize", "economics", "assumptions", "constraints"),
        elsewhere=("workload", "deployment"),
    ),
    Tool(
        name="market",
        title="Market prices",
        description=(
            "Lowest, median and highest price per accelerator and hour, in USD, and their trend; grouped by "
            'accelerator unless `by` is set. Example: {"by": "provider", "accelerator": "*h100*"}'
        ),
        path="/catalog/market",
        default_members=("by", "prices_as_of", "items"),
        render_text=market_text,
        short=True,
        arguments={
            "by": {"enum": ["accelerator", "class", "provider", "region", "pricing_model"]},
            "class": {"enum": ["training", "inference"]},
            **dict.fromkeys(("accelerator", "provider", "region", "pricing_model"), TEXT),
        },
    ),
    Tool(
        name="explain",
        title="Explain an answer",
        description=(
            "The reasons for one option of a stored answer, why others were rejected, and what would change it. "
            'Example: {"id": "rec_...", "rank": 1}'
        ),
        path="/recommendations/{id}",
        default_members=("id", "as_of", "summary", "recommendations", "rejected", "sensitivity", "explanation"),
        render_text=explanation_text,
        arguments={"id": TEXT, "rank": RANK},
        required=("id",),
    ),
    Tool(
        name="bill_of_materials",
        title="Bill of materials",
        description='Priced lines of one option. Example: {"id": "rec_..."}',
        path="/recommendations/{id}/bill-of-materials",
        default_members=("option", "currency", "lines", "totals", "to_be_quoted"),
        render_text=bill_text,
        arguments={"id": TEXT, "rank": EXPORTED_RANK, "currency": TEXT, "usd_rate": NUMBER, "rate_date": TEXT},
        required=("id",),
    ),
    Tool(
        name="files",
        title="Files of an option",
        description=(
            "Scripts or manifests for a target: vllm, kubernetes, slurm ... Example: "
            '{"id": "rec_...", "target": "kubernetes"}'
        ),
        path="/recommendations/{id}/deployment",
        default_members=("target", "targets", "rank", "files", "notes"),
        render_text=files_text,
        short=True,
        arguments={"id": TEXT, "rank": EXPORTED_RANK, "target": TEXT},
        required=("id",),
    ),
    Tool(
        name="answers",
        title="Stored answers",
        description='Stored answers, newest first. Example: {"label": "desk", "limit": 5}',
        path="/recommendations",
        default_members=("items", "next_cursor"),
        render_text=stored_text,
        short=True,
        arguments={"label": TEXT, "status": TEXT, "model": TEXT, "limit": COUNT, "cursor": TEXT},
    ),
    Tool(
        name="describe",
        title="Describe fields",
        description=(
            "Fields at a path of a tool's request, with units and limits. Example: "
            '{"tool": "recommend", "path": "workload.inference.traffic"}'
        ),
        path="/openapi.json",
        default_members=("fields",),
        render_text=fields_text,
        short=True,
        arguments={
            "tool": {"enum": ["recommend", "estimate", "compare", "inspect", "diagnose"]},
            "path": {**TEXT, "description": "Empty: the top of the request."},
        },
        required=("tool",),
    ),
)
BY_NAME = {tool.name: tool for tool in TOOLS}
