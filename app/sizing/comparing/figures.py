"""Table of a comparison: one line per quantity, one value per option, and the best option of each line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from app.sizing.columns import GIB
from app.sizing.comparing.outcomes import Outcome
from app.sizing.result import CostSummary, DeviceMemory, Estimate, Percentiles, Performance

Value = float | None


@dataclass(frozen=True, slots=True)
class TableLine:
    """One quantity for every option, in the order of the options."""

    quantity: str  # name of the quantity
    unit: str  # its unit
    values: tuple[Value, ...]  # one per option; None where the option has none
    best: str | None  # name of the best option; None where there is none


def _cost_reader(of: Callable[[CostSummary], Value]) -> Callable[[Estimate], Value]:
    return lambda e: None if e.cost is None else of(e.cost)


def _performance_reader(of: Callable[[Performance], Value]) -> Callable[[Estimate], Value]:
    return lambda e: None if e.performance is None else of(e.performance)


def _memory_reader(of: Callable[[DeviceMemory], Value]) -> Callable[[Estimate], Value]:
    return lambda e: None if e.memory is None else of(e.memory) or None


def _p95_ms(of: Callable[[Performance], Percentiles | None]) -> Callable[[Estimate], Value]:
    def read_p95_ms(e: Estimate) -> Value:
        found = None if e.performance is None else of(e.performance)
        return None if found is None or found.p95_s is None else found.p95_s * 1e3

    return read_p95_ms


def _success_probability(e: Estimate) -> Value:
    a = e.assurance
    return None if a is None else a.meets_slo if a.meets_slo is not None else a.meets_deadline


# (quantity, unit, 1 where less is better, -1 where more is better, 0 where neither, function that reads the value)
QUANTITIES: tuple[tuple[str, str, int, Callable[[Estimate], Value]], ...] = (
    ("usd_per_hour", "USD/h", 1, _cost_reader(lambda c: c.usd_per_hour)),
    ("usd_total", "USD", 1, _cost_reader(lambda c: c.usd_total)),
    ("usd_per_million", "USD", 1, _cost_reader(lambda c: c.usd_per_million)),
    ("purchase_usd", "USD", 1, _cost_reader(lambda c: c.purchase_usd)),
    ("tco_usd", "USD", 1, _cost_reader(lambda c: c.tco_usd)),
    ("power_kw", "kW", 1, _cost_reader(lambda c: c.power_w / 1e3)),
    ("total_accelerators", "accelerators", 0, lambda e: e.deployment.total_accelerators),
    ("ttft_p95_ms", "ms", 1, _p95_ms(lambda p: p.ttft)),
    ("tpot_p95_ms", "ms", 1, _p95_ms(lambda p: p.tpot)),
    ("e2e_p95_ms", "ms", 1, _p95_ms(lambda p: p.e2e)),
    ("requests_per_s_capacity", "requests/s", -1, _performance_reader(lambda p: p.requests_per_s_capacity)),
    ("output_tokens_per_s", "tokens/s", -1, _performance_reader(lambda p: p.output_tokens_per_s)),
    ("samples_per_s", "samples/s", -1, _performance_reader(lambda p: p.samples_per_s)),
    ("days", "days", 1, _performance_reader(lambda p: p.days)),
    ("tokens_per_s", "tokens/s", -1, _performance_reader(lambda p: p.tokens_per_s)),
    ("mfu", "1", -1, _performance_reader(lambda p: p.mfu)),
    ("confidence", "1", -1, _success_probability),
    ("weights_gib", "GiB", 0, _memory_reader(lambda m: m.weights_bytes / GIB)),
    ("gradients_gib", "GiB", 0, _memory_reader(lambda m: m.gradient_bytes / GIB)),
    ("optimizer_gib", "GiB", 0, _memory_reader(lambda m: m.optimizer_bytes / GIB)),
    ("activations_gib", "GiB", 0, _memory_reader(lambda m: m.activation_bytes / GIB)),
    ("kv_cache_gib", "GiB", 0, _memory_reader(lambda m: m.kv_cache_bytes / GIB)),
    ("memory_total_gib", "GiB", 0, _memory_reader(lambda m: m.total_bytes / GIB)),
)


def build_table(outcomes: Sequence[Outcome], *, judged: bool = True) -> tuple[TableLine, ...]:
    """Every quantity that at least one option has.

    With `judged`, each line names the best of the options that meet the requirements. Phases do different work, so
    their lines have no best option.
    """
    lines = []
    for quantity, unit, sign, value in QUANTITIES:
        values = tuple(None if o.estimate is None else value(o.estimate) for o in outcomes)
        if any(v is not None for v in values):
            best = _best_name(outcomes, values, sign) if judged else None
            lines.append(TableLine(quantity, unit, values, best))
    return tuple(lines)


def _best_name(outcomes: Sequence[Outcome], values: Sequence[Value], sign: int) -> str | None:
    """Name of the best option that meets the requirements; None for a tie or fewer than two values."""
    candidates = [
        (sign * v, o.name) for o, v in zip(outcomes, values, strict=True) if v is not None and o.meets_requirements
    ]
    if not sign or len(candidates) < 2:
        return None
    least = min(candidates)[0]
    first = [name for v, name in candidates if v == least]
    return first[0] if len(first) == 1 else None
