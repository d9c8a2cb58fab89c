"""Planted mutants: plausible wrong engines, each a wrong expression that a person could have written."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.mutants.operators import Mutant, functions_of


@dataclass(frozen=True)
class Planted:
    """One wrong expression; `before` stands exactly once in the function as `ast.unparse` prints it."""

    file: str  # below app/
    where: str  # function, or class and function
    before: str
    after: str
    wrong: str  # what such an engine does


PLANTED = (
    # Two pools.
    Planted(
        "sizing/pools/parts.py",
        "estimate_transfer",
        "count * one(plan.data_parallel)",
        "count",
        "ignores the data-parallel ranks that share the transfer",
    ),
    Planted(
        "sizing/pools/estimate.py",
        "choose_pools",
        "found.prefill.fits and found.decode.fits",
        "found.prefill.fits",
        "accepts an engine that fits the prefill pool only",
    ),
    Planted(
        "sizing/pools/estimate.py",
        "estimate_pools",
        "first.prefill.fits and first.decode.fits",
        "first.prefill.fits",
        "sizes two pools although only the prefill pool fits",
    ),
    Planted(
        "sizing/pools/joined.py",
        "combined_intervals",
        "added_s, later = (first_s - read_s, ",
        "added_s, later = (0.0, ",
        "shows TTFT intervals without the transfer",
    ),
    Planted(
        "sizing/pools/joined.py",
        "tighter_memory",
        "(memory.total_bytes - memory.kv_cache_bytes)",
        "memory.total_bytes",
        "compares the memory of pools with their KV cache, which fills the rest",
    ),
    Planted(
        "sizing/pools/joined.py",
        "combined_capacity_per_s",
        "(split.prefill, split.decode, split.transfer)",
        "(split.prefill, split.decode)",
        "ignores the transfer in the capacity of two pools",
    ),
    Planted(
        "sizing/pools/joined.py",
        "combined_waits",
        "waits.append(writes.simulation.queue)",
        "pass",
        "leaves the decode pool's queue out of TTFT",
    ),
    Planted(
        "sizing/pools/search.py",
        "better_split",
        "simulated_score * (1 - near_tie)",
        "simulated_score * (1 - 2 * near_tie)",
        "requires twice the margin from a split",
    ),
    # Finalists, assurance and margins of serving.
    Planted(
        "sizing/serving/finalists.py",
        "size_fleet",
        "runs.completed_per_s(loads) / margins.rate",
        "runs.completed_per_s(loads)",
        "shows the simulated rate without its margin",
    ),
    Planted(
        "sizing/serving/finalists.py",
        "SimulatedReplicas.capacity_at_confidence",
        "rate / self.margins.rate",
        "rate",
        "shows the closed-loop rate without its margin",
    ),
    Planted(
        "sizing/serving/assurance.py",
        "log_slack",
        "each > 1",
        "each > 0",
        "judges a single request in flight by the batch",
    ),
    Planted(
        "sizing/serving/finalists.py",
        "apply_simulation_ratio",
        "min(1.0, float(np.median(simulated / getattr(options, name)[rows])))",
        "float(np.median(simulated / getattr(options, name)[rows]))",
        "raises formula results where simulations are faster",
    ),
    Planted(
        "sizing/serving/finalists.py",
        "with_carrying_replicas",
        "np.clip(np.maximum(replicas, runs.pooled), 1.0, np.floor(MAX_ACCELERATORS / each))",
        "np.maximum(replicas, 1.0)",
        "sizes a fleet without the guard of the largest one",
    ),
    Planted(
        "sizing/serving/load_curves.py",
        "Curve.load_at_limit",
        "np.where(over[:, 0], 0.0",
        "np.where(over[:, 0] < 0, 0.0",
        "keeps capacity beyond a limit that is missed at the lightest load",
    ),
    # Steps, loops, memory and limits of serving.
    Planted(
        "sizing/serving/step.py",
        "step_work",
        "model.num_sublayers - exchange.expert_layers",
        "float(model.num_sublayers)",
        "counts an all-reduce that the exchange of experts replaces",
    ),
    Planted(
        "sizing/serving/prefill.py",
        "prefill_work",
        "model.num_sublayers - exchange.expert_layers",
        "float(model.num_sublayers)",
        "counts an all-reduce of prompts that the exchange of experts replaces",
    ),
    Planted(
        "sizing/serving/continuous_batching.py",
        "prompt_service_s",
        "np.maximum(step.pipeline_parallel, 1.0)",
        "np.where(prefill_first, 1.0, np.maximum(step.pipeline_parallel, 1.0))",
        "ignores pipeline stages while prompts have steps of their own",
    ),
    Planted(
        "sizing/serving/steady_state.py",
        "closed_loop_iteration",
        "closed_entry_s(stream.entry_s, cadence.mean_step_s, cadence.scheduler_delay_s)",
        "closed_entry_s(stream.entry_s, cadence.mean_step_s, 0.0 * cadence.scheduler_delay_s)",
        "leaves the scheduler's delay out of a closed loop",
    ),
    Planted(
        "sizing/serving/steady_state.py",
        "open_loop",
        "open_entry_s(stream.entry_s, cadence.mean_step_s, cadence.scheduler_delay_s)",
        "open_entry_s(stream.entry_s, cadence.mean_step_s, 0.0 * cadence.scheduler_delay_s)",
        "leaves the scheduler's delay out of an open loop",
    ),
    Planted(
        "sizing/serving/steady_state.py",
        "open_overlap_share",
        "-batch - rate_per_s * unloaded_ttft_s",
        "-batch",
        "lets a request meet only sequences that decode",
    ),
    Planted(
        "sizing/serving/margins.py",
        "Margins.request_s",
        "first_token_s * self.ttft",
        "first_token_s * self.tpot",
        "judges a whole request by the margin of its later tokens",
    ),
    Planted(
        "sizing/serving/interfaces.py",
        "prediction_limits",
        "unloaded_ttft_s * margins.ttft",
        "unloaded_ttft_s * margins.tpot",
        "reserves the first token of an end-to-end limit by the margin of later tokens",
    ),
    Planted(
        "sizing/serving/memory.py",
        "overhead_bytes",
        "(stage_accelerators > 1) & ~small_engine",
        "stage_accelerators > 1",
        "gives small engines communication buffers",
    ),
    Planted(
        "sizing/serving/memory.py",
        "serving_memory",
        "unforeseen_share * capacity",
        "unforeseen_share * capacity * share",
        "multiplies the memory margin by the engine's share of the device",
    ),
    # Decisions.
    Planted(
        "sizing/decisions/ranking.py",
        "find_runners_up",
        "own * (1 + share)",
        "own * (1 + 2 * share)",
        "calls twice the difference a near tie",
    ),
    Planted(
        "sizing/decisions/rejections.py",
        "Rejections.merge_alternative",
        "(-reason.stage, reason.shortfall_ratio) < (-own.stage, own.shortfall_ratio)",
        "(-reason.stage, reason.shortfall_ratio) > (-own.stage, own.shortfall_ratio)",
        "keeps the rejection that is farther from the limit",
    ),
    # Diagnosis.
    Planted(
        "sizing/diagnosis/service.py",
        "find_bursts",
        "math.sqrt(usual / PEAK_WINDOW_S)",
        "math.sqrt(usual)",
        "sets the threshold of bursts 3.2 times too high",
    ),
    Planted(
        "sizing/diagnosis/service.py",
        "find_bursts",
        "case.exceeds_expected(peak, usual, by_chance)",
        "case.exceeds_expected(peak, usual)",
        "calls a peak by chance a burst",
    ),
    Planted(
        "sizing/diagnosis/service.py",
        "find_preemptions",
        "excess / (1 + excess)",
        "excess",
        "charges a preemption as if no request were answered",
    ),
    Planted(
        "sizing/diagnosis/service.py",
        "prefix_miss_loss",
        "w.shared_prefix_fraction * seen / planned",
        "w.shared_prefix_fraction",
        "keeps the shared prefix although it is missed",
    ),
    # Export.
    Planted(
        "export/lines.py",
        "_discount_note",
        "usd / (1 - off)",
        "usd * (1 + off)",
        "computes the price before a discount as price times (1 + discount)",
    ),
)


def planted_of(path: Path, root: Path) -> Iterator[Mutant]:
    functions = {f"{o}.{f.name}" if o else f.name: f for o, f in functions_of(ast.parse(path.read_text()))}
    for planted in PLANTED:
        if root / "app" / planted.file == path:
            yield mutant_of(planted, functions[planted.where])


def mutant_of(planted: Planted, function: ast.FunctionDef) -> Mutant:
    """The function with the planted expression; fails if the right one does not stand there exactly once."""
    text = ast.unparse(function)
    assert text.count(planted.before) == 1, f"{planted.where}: {planted.before}"
    (changed,) = ast.parse(text.replace(planted.before, planted.after)).body
    assert isinstance(changed, ast.FunctionDef)
    changed.decorator_list = function.decorator_list
    return Mutant(
        path=f"app/{planted.file}",
        where=planted.where,
        line=function.lineno,
        before=planted.before,
        after=planted.after,
        tree=function,
        statement=function,
        changed=changed,
        wrong=planted.wrong,
    )
