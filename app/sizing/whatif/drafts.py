"""What a published draft of the model would save: the first recommendation with speculative decoding, by formulas."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from app.sizing.columns import one
from app.sizing.decisions.acquisition import describe_sold_machines
from app.sizing.decisions.rejections import NullRejections
from app.sizing.decisions.search import Search
from app.sizing.formula import suspend_recording
from app.sizing.hardware.engines import engine_named
from app.sizing.question import Question
from app.sizing.result import Cheaper
from app.sizing.serving.draft_heads import DraftHead, published_draft
from app.sizing.serving.interfaces import Settings
from app.sizing.serving.options import Options, measures, within_constraints
from app.sizing.serving.plans import with_draft
from app.sizing.serving.search import confidence_margins, feasible_plans, required_replicas, with_replica_count
from app.sizing.snapshot import Catalog
from app.sizing.workload import InferenceWorkload


def cheaper_with_draft(
    question: Question, workload: InferenceWorkload, options: Options, best: int, catalog: Catalog, by_formulas: Options
) -> tuple[Cheaper, ...]:
    """The plan in row `best` with a published draft of its model; empty where it saves no more than a near tie.

    Parameters:
        options: options of the search, of which the finalists are sized by their simulation.
        by_formulas: the same options before any simulation.
    """
    head = None if workload.single_pass or question.constraints.speculative else published_draft(workload.model)
    row = np.array([best])
    first = options.take(row)
    engine = engine_named(catalog.engines[int(first.plans.engine[0])])
    known = engine.drafts if first.plans.pipeline_parallel[0] == 1 else engine.drafts_across_stages
    if head is None or head.method not in known or first.plans.offloads_weights[0]:
        return ()
    with suspend_recording():
        drafting = size_with_draft(question, workload, first, by_formulas.take(row), head, catalog)
        now = one(measures(workload, first).usd)
        then = np.inf if drafting is None else one(measures(workload, drafting).usd)
    if drafting is None or not then < now * (1 - question.assumptions.near_tie_share):
        return ()
    (at_sale,) = describe_sold_machines(catalog, drafting.plans.offered, question.today, question.economics.discounts)
    if at_sale.price is None or at_sale.provider is None:
        return ()
    return (
        Cheaper(
            accepting=f"speculative decoding with {head.name}",
            accelerator=at_sale.accelerator.slug,
            total_accelerators=int(one(drafting.fleet.accelerators)),
            provider=at_sale.provider,
            usd_per_hour=one(drafting.cost.usd_per_hour),
            usd_total=then if workload.is_finite else None,
            saves_share=1 - then / now,
            kind=at_sale.price.terms.kind,
            observed=at_sale.price.terms.observed,
            risk=f"{head.acceptance_note}; sized by formulas, not simulated",
        ),
    )


def size_with_draft(
    question: Question,
    workload: InferenceWorkload,
    first: Options,
    plain: Options,
    head: DraftHead,
    catalog: Catalog,
) -> Options | None:
    """One plan with a draft, sized by formulas; None where it does not fit or exceeds a limit.

    The simulation without a draft corrects the formulas: `first` is the plan as simulated, `plain` by formulas.
    """
    search = Search.start(question, catalog, NullRejections(catalog.accelerators)).of(workload)
    drafting = with_draft(first.plans, workload.model, head.speculative)
    _, _, speed, _ = feasible_plans(search, drafting, confidence_margins(search, drafting), Settings())
    if not len(speed) or not speed.has_capacity.all():
        return None
    gain = speed.planned_capacity_per_s(workload) / plain.capacity_per_s
    batch = np.maximum(1.0, np.floor(first.slo_batch * speed.slo_batch / plain.slo_batch))
    sized = replace(first, plans=drafting, capacity_per_s=first.capacity_per_s * gain, slo_batch=batch)
    replicas = required_replicas(question, workload, drafting, sized.capacity_per_s, batch, Settings())
    sized = with_replica_count(question, workload, sized, replicas)
    return sized if within_constraints(question, sized, search.rejections).all() else None
