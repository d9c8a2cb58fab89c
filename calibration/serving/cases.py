"""Published serving results as cases: stack, work on one device, and measured figures.

A row becomes a case if it names model, accelerator, count and lengths. Every other row is counted with the reason. The
work is what the engine itself counts for /estimate.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from app.catalog.names import engine_slug
from app.errors import AppError
from app.sizing.assumptions import Assumptions
from app.sizing.columns import Indexed
from app.sizing.decisions.machines import Candidates, find_candidates, unpriced_machine
from app.sizing.decisions.prices import UNINTERRUPTIBLE
from app.sizing.decisions.rejections import Rejections
from app.sizing.evidence import Setting
from app.sizing.hardware.achieved import format_class
from app.sizing.hardware.engines import engine_named
from app.sizing.hardware.engines.record import Scheduler
from app.sizing.hardware.parts import KINDS
from app.sizing.hardware.tables import MemoryRules, scheduler_at
from app.sizing.model.architecture import ModelArchitecture, ModelKind
from app.sizing.question import Constraints, Deployment, Economics
from app.sizing.serving.choice import fixed_deployment_plans
from app.sizing.serving.collectives import link_use
from app.sizing.serving.interfaces import Settings
from app.sizing.serving.memory import serving_memory
from app.sizing.serving.plans import Plans
from app.sizing.serving.prefill import PrefillWork, prefill_work
from app.sizing.serving.simulation.tables import ReplicaWork, replica_work
from app.sizing.serving.step import StepWork, step_work
from app.sizing.snapshot import Catalog
from app.sizing.workload import Lengths, Load
from calibration.case import NotCompared, Stack, collect_cases, parse_number
from calibration.serving.aside import find_exclusion_reason
from calibration.serving.measured import measured_figures
from calibration.serving.published import cached_and_prompt_tokens, engine_version, kv_format, weight_format
from calibration.serving.runs import Run, Start, run_of

UNFITTED_EXCHANGE = "data-parallel ranks that exchange tokens: the exchange is not fitted"
UNFITTED_ACROSS_MACHINES = "tensor-parallel ranks across machines: their all-reduces are not fitted"
# Requests in flight of an offline run: more than any memory holds.
UNLIMITED_IN_FLIGHT = 1e9


@dataclass(frozen=True, slots=True)
class ServingCase:
    """One published serving result."""

    id: str
    source: str
    reference: str
    stack: Stack
    load: Load
    accelerator: str
    model: str
    model_params: float
    replicas: float
    wanted: float  # requests in flight per replica
    rate_per_s: float  # arrival rate per replica, requests/s; 0 for other loads
    most: float  # most sequences that run at once
    input_tokens: float
    output_tokens: float
    prompts: Lengths
    outputs: Lengths
    step: StepWork
    prefill: PrefillWork
    run: Run
    replica: ReplicaWork
    scheduler: Scheduler
    pool_bytes: float
    measured: Mapping[str, float]
    taken: Mapping[str, float]  # simulated over closed-form value by metric; 1 if absent

    @property
    def requests_per_replica(self) -> int | None:
        """Requests of one replica; None if not published."""
        return None if self.run.requests is None else max(1, round(self.run.requests / self.replicas))

    @property
    def ranks(self) -> float:
        """Data-parallel attention ranks of one replica."""
        return float(self.step.data_parallel[0])

    @property
    def chunk_tokens(self) -> float:
        """Token budget of one engine step."""
        return self.scheduler.max_batched_tokens

    @property
    def exclusion_reason(self) -> str | None:
        """Why this case is compared but not fitted; None for all others."""
        why = find_exclusion_reason(self.source, self.stack, self.model, self.wanted)
        across = bool(self.step.tensor_parallel[0] > self.step.link.linked_ranks[0])
        return why or (UNFITTED_EXCHANGE if self.ranks > 1 else UNFITTED_ACROSS_MACHINES if across else None)

    @property
    def group(self) -> Start:
        return self.run.start

    @property
    def setting(self) -> Setting:
        stage = float(self.step.tensor_parallel[0] * self.step.pipeline_parallel[0])
        devices = stage * self.ranks * self.replicas
        return Setting(
            engine=self.stack.engine,
            family=self.stack.family,
            format_class=self.stack.format_class,
            accelerator=self.accelerator,
            load=self.load.value,
            params=self.model_params,
            devices=devices,
            in_flight=min(self.wanted, self.most * self.ranks) * self.replicas,
            input_tokens=self.input_tokens,
            output_tokens=self.output_tokens,
        )


@dataclass(frozen=True, slots=True)
class RowQuestion:
    """A row as a question to the engine, with the measured figures."""

    model: ModelArchitecture
    deployment: Deployment
    run: Run
    wanted: float  # requests in flight per replica
    rate_per_s: float  # arrival rate per replica, requests/s; 0 for other loads
    prompts: Lengths
    outputs: Lengths
    measured: Mapping[str, float]


class ServingCases:
    """Builds cases from rows against one catalog."""

    def __init__(self, catalog: Catalog, model_named: Callable[[str], ModelArchitecture]) -> None:
        self.catalog = catalog
        self.model_named = cache(model_named)
        self.machines = cache(self._find_machines)
        self.replicas: dict[Any, ReplicaWork] = {}

    def _find_machines(self, accelerator: str) -> Candidates:
        return find_candidates(
            self.catalog,
            Constraints(accelerators=(accelerator,), pricing_models=UNINTERRUPTIBLE, price_kinds=KINDS),
            Economics(),
            Assumptions(),
            Rejections(self.catalog.accelerators),
            fixed=Deployment(accelerator),
        )

    def read_deployment(self, row: Mapping[str, Any], model: ModelArchitecture) -> Deployment:
        """The deployment that the row describes, as /estimate takes it."""
        engine = engine_slug(row["engine"])
        if engine not in self.catalog.engines:
            raise NotCompared(f"engine {row['engine']} is not in the catalog")
        total = int(float(row["num_accelerators"]))
        split = engine_named(engine).splits_layers
        pipeline = total if split else int(parse_number(row.get("pp")) or 1)
        tensor = 1 if split else int(parse_number(row.get("tp")) or max(1, total // pipeline))
        if engine == "neuronx":
            tensor = min(tensor, total)  # published in cores; a chip has several
        weights = weight_format(engine, row.get("weight_precision") or "") or model.native_format
        data, tensor = ranks_of(row, model, total, tensor)
        each = tensor * pipeline * data
        return Deployment(
            accelerator=row["accelerator"],
            accelerators_per_replica=each,
            tensor_parallel=tensor,
            pipeline_parallel=pipeline,
            data_parallel=data if data > 1 else None,
            replicas=max(1, total // each),
            spare_replicas=0,
            engine=engine,
            engine_version=engine_version(engine, row.get("engine_version") or "", row.get("source_date") or ""),
            weight_format=weights,
            kv_format=kv_format(engine, weights, row.get("kv_precision") or "", row.get("source_key") or ""),
        )

    def choose_plan(self, model: ModelArchitecture, deployment: Deployment) -> Plans:
        """The row's machine, stack and layout, on the cheapest machine that fits.

        Data-parallel ranks that exchange tokens use as few machines as possible.
        """
        found, rejections = self.machines(deployment.accelerator), Rejections(self.catalog.accelerators)
        machines = found if len(found) else unpriced_machine(self.catalog, deployment, Assumptions())
        plans = fixed_deployment_plans(
            model,
            self.catalog,
            machines,
            Constraints(),
            rejections,
            deployment,
            Assumptions(),
            phase="inference",
            personal=True,
        )
        if not len(plans):
            raise NotCompared(f"declined: {rejections.closest_first()[0].code}")
        spread = np.where(plans.data_parallel > 1, plans.nodes_per_replica, 0.0)
        return plans.take(np.lexsort((plans.stacks.rows, np.nan_to_num(plans.offered.usd_per_hour), spread))[:1])

    def read_question(self, row: Mapping[str, Any]) -> RowQuestion:
        """A row as /estimate takes it; raises NotCompared if the row states too little."""
        if not row.get("accelerator") or not row.get("num_accelerators"):
            raise NotCompared("accelerator is not in the catalog")
        inputs, outputs = parse_number(row.get("input_len")), parse_number(row.get("output_len"))
        if inputs is None or outputs is None:
            raise NotCompared("lengths are not given")
        model, run = self.model_of(row), run_of(row)
        alone = run.start is Start.SINGLE
        measured = dict(measured_figures(row, alone=alone))
        if not measured:
            raise NotCompared("no speed is given")
        deployment = self.read_deployment(row, model)
        said, replicas = (1.0 if alone else parse_number(row.get("load_value")) or 1.0), float(deployment.replicas or 1)
        at_a_rate = run.load_kind is Load.OPEN
        wanted = (
            UNLIMITED_IN_FLIGHT
            if run.load_kind is Load.OFFLINE
            else 1.0
            if at_a_rate
            else float(np.ceil(said / replicas))
        )
        rate, about = said / replicas if at_a_rate else 0.0, run.spread.lengths_around
        return RowQuestion(model, deployment, run, wanted, rate, about(inputs), about(outputs), measured)

    def model_of(self, row: Mapping[str, Any]) -> ModelArchitecture:
        """The model by name; raises NotCompared if it does not generate tokens."""
        try:
            model = self.model_named(row.get("model") or "")
        except AppError:
            raise NotCompared("model is not in the catalog under that name") from None
        if model.kind is not ModelKind.DECODER:
            raise NotCompared("not a token stream")
        return model

    def read_stack(self, plans: Plans, deployment: Deployment, row: Mapping[str, Any]) -> Stack:
        """The engine, generation, family and format class of a row."""
        stack, catalog = plans.stacks.materialize(), self.catalog
        engine = catalog.engines[int(stack.engine[0])]
        return Stack(
            engine,
            engine_named(engine).generation_at(deployment.engine_version, row.get("source_date") or ""),
            catalog.families[int(stack.family[0])],
            format_class(catalog.formats[int(stack.weight_format[0])], bool(stack.native[0])),
        )

    def build_case(self, row: Mapping[str, Any]) -> ServingCase:
        """The case of one row; raises NotCompared if it states too little or cannot run."""
        asked = self.read_question(row)
        model, run, inputs, outputs = asked.model, asked.run, asked.prompts.mean, asked.outputs.mean
        plans = self.choose_plan(model, asked.deployment)
        memory = serving_memory(
            model,
            with_newest_memory_rules(plans, asked.deployment.engine or ""),
            Assumptions(),
            final_tokens=inputs + outputs,
            longest_tokens=inputs + outputs,
            output_tokens=outputs,
            offline=not run.served,
            settings=launch_settings(run),
        )
        if not memory.fits[0]:
            raise NotCompared("declined: out_of_memory")
        link, sizes = link_use(plans, Assumptions()), (memory.max_batched_tokens[0], memory.max_sequences[0])
        scheduler = scheduler_at(plans.scheduling_rules, 0, *map(float, sizes)).with_settings(run.settings)
        cached, prompt = cached_and_prompt_tokens(row, max(1.0, inputs))
        prefill = prefill_work(model, plans, link, prompt_tokens=prompt, cached_tokens=cached)
        if run.graph_tokens is not None:
            scheduler = replace(scheduler, graph_tokens=run.graph_tokens)
            prefill = replace(prefill, graph_tokens=np.full(1, float(run.graph_tokens)))
        key = (model.name, replace(asked.deployment, engine_version=None, replicas=None))
        if key not in self.replicas:
            (self.replicas[key],) = replica_work(model, plans, link)
        return ServingCase(
            id=row["id"],
            source=row["source_key"],
            reference=row["source_ref"],
            stack=self.read_stack(plans, asked.deployment, row),
            load=run.load_kind,
            accelerator=row["accelerator"],
            model=model.name,
            model_params=float(model.total_params),
            replicas=float(asked.deployment.replicas or 1),
            wanted=asked.wanted,
            rate_per_s=asked.rate_per_s,
            most=float(memory.sequences[0]),
            input_tokens=max(1.0, inputs),
            output_tokens=max(1.0, outputs),
            step=step_work(model, plans, link, context_tokens=inputs + outputs / 2),
            prefill=prefill,
            prompts=asked.prompts,
            outputs=asked.outputs,
            run=run,
            replica=self.replicas[key],
            scheduler=scheduler,
            pool_bytes=float(memory.kv_pool_bytes[0]),
            measured=asked.measured,
            taken={},
        )


def ranks_of(row: Mapping[str, Any], model: ModelArchitecture, total: int, tensor: int) -> tuple[int, int]:
    """(data-parallel ranks of one replica, tensor-parallel degree of each); ranks without shared experts are replicas.

    Some engines count all accelerators of a stage as tensor parallel.
    """
    data, experts = int(parse_number(row.get("dp")) or 1), parse_number(row.get("ep")) or 1
    counted_whole = data * tensor > total and tensor % data == 0
    if data == 1 or not model.is_moe or not (experts > 1 or counted_whole):
        return 1, tensor
    return data, tensor // data if counted_whole else tensor


def read_cases(
    rows: Sequence[Mapping[str, Any]], catalog: Catalog, model_named: Callable[[str], ModelArchitecture]
) -> tuple[list[ServingCase], Counter[str]]:
    """Cases of all rows, and the number of other rows by reason."""
    builder = ServingCases(catalog, model_named)
    return collect_cases(rows, lambda row: [builder.build_case(row)])


def launch_settings(run: Run) -> Settings:
    """Memory and step settings of the launch command, as the memory formulas take them."""
    given = (run.settings.max_sequences, run.settings.max_batched_tokens, run.memory_fraction)
    return Settings(*(None if value is None else np.full(1, float(value)) for value in given))


def with_newest_memory_rules(plans: Plans, engine: str) -> Plans:
    """Plans of one engine with the memory rules of its newest version."""
    stacks = plans.stacks.table
    rules = MemoryRules.from_rules([engine_named(engine).memory] * len(stacks))
    return replace(plans, stacks=Indexed(replace(stacks, memory=rules), plans.stacks.rows))
