"""Safety margins of serving predictions: how much worse than predicted a plan may turn out at a confidence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import TINY, Column, Columns, Mask
from app.sizing.formula import formula
from app.sizing.hardware.tables import Stacks
from app.sizing.serving.plans import MeasuredStackColumns, Plans
from app.sizing.uncertainty import EvidenceIndex, Neighborhood, Shape, Spreads
from app.sizing.workload import InferenceWorkload, Load

# Correlation of the error of each latency with that of the rate, in runs of sources left out that report both:
# 0.44 for TTFT (244 runs of 7 sources), 0.78 for TPOT (242 runs of 6 sources), each source weighted by its root.
RATE_CORRELATIONS: Mapping[str, float] = MappingProxyType({"ttft": 0.44, "tpot": 0.75, "e2e": 0.75})


@dataclass(frozen=True, slots=True)
class Margins(Columns):
    """Multipliers at a confidence, one row per plan; 1 is the median prediction."""

    rate: Column  # factor that divides a predicted rate
    tpot: Column  # factor on TPOT
    ttft: Column  # factor on TTFT
    memory_share: Column  # share of device memory needed in addition to the prediction

    @classmethod
    def without_margin(cls, count: int) -> Margins:
        """No margin: the median prediction for `count` plans."""
        ones = np.ones(count)
        return cls(ones, ones, ones, np.zeros(count))

    def request_s(self, first_token_s: Column, whole_s: Column) -> Column:
        """End-to-end latency with margins: the first token and the later tokens by their own factors, s."""
        later = np.subtract(whole_s, first_token_s, out=whole_s.copy(), where=np.isfinite(whole_s))
        return first_token_s * self.ttft + later * self.tpot

    def restrict_to(self, rows: Mask) -> Margins:
        """These margins in the given rows, none in the others."""
        rate, tpot, ttft = (np.where(rows, factor, 1.0) for factor in (self.rate, self.tpot, self.ttft))
        return Margins(rate, tpot, ttft, np.where(rows, self.memory_share, 0.0))


@formula(
    unit="requests/s", source="first-order reliability method (Hasofer and Lind 1974); correlation of held-out errors"
)
def jointly_confident_per_s(
    expected_per_s: Column, late_per_s: Column, rate_margin: Column, correlation: Column | float
) -> Column:
    """Rate within a limit at a confidence: the errors of latency and of speed together, not one after the other.

    Each error alone would lower the rate by some factor, in logarithms `late` and `slow`. Together they lower it by
    sqrt(late^2 + slow^2 + 2 r late slow), where r is the correlation of the errors: by both in full only for r = 1.

    Parameters:
        expected_per_s: rate within the limit, as the median prediction, requests/s.
        late_per_s: the same if only latency is worse than predicted, at the confidence, requests/s.
        rate_margin: factor by which the rate may be lower than predicted, at the confidence.
        correlation: correlation of the errors.
    Limits: errors that are normal in logarithms, and a rate that is a power of each.
    Check:
        >>> round(one(jointly_confident_per_s(col(2.0), col(1.5), col(1.25), col(0.5))), 3)  # 1.2 with r = 1
        1.283
    """
    late = np.log(np.maximum(expected_per_s, TINY) / np.maximum(late_per_s, TINY))
    slow = np.log(rate_margin)
    joint = np.sqrt(np.maximum(late**2 + slow**2 + 2 * correlation * late * slow, 0.0))
    lowered = np.where(late * slow < 0, late + slow, np.where(late + slow < 0, -joint, joint))
    return np.where(late_per_s > 0, expected_per_s * np.exp(-lowered), 0.0)


def plan_neighbourhoods(
    workload: InferenceWorkload, plans: Plans, evidence_index: EvidenceIndex, assumed: Assumptions
) -> Neighborhood:
    """Published evidence near every plan; none is known for weights in host memory."""
    neighbourhood = stack_neighbourhoods(workload, plans.stacks.table, evidence_index, assumed)
    if plans.measured is None:
        neighbourhood = neighbourhood.take(plans.stacks.rows)
    else:
        neighbourhood = with_measured_effect(neighbourhood, plans.measured.table).take(plans.measured.rows)
    if plans.on_host is None:
        return neighbourhood
    widened = np.where(
        plans.offloads_weights,
        np.maximum(neighbourhood.prior_width, assumed.expected_support_widening),
        neighbourhood.prior_width,
    )
    return replace(
        neighbourhood, sources=np.where(plans.offloads_weights, 0.0, neighbourhood.sources), prior_width=widened
    )


def stack_neighbourhoods(
    workload: InferenceWorkload, stacks: Stacks, evidence_index: EvidenceIndex, assumed: Assumptions
) -> Neighborhood:
    """Published evidence near every software stack."""
    shape = Shape(float(workload.model.total_params), workload.input_tokens.mean, workload.output_tokens.mean)
    neighbourhood = evidence_index.neighborhood(shape).take(stacks.evidence_stack)
    return replace(neighbourhood, prior_width=np.where(stacks.expected, assumed.expected_support_widening, 1.0))


def with_measured_effect(neighbourhood: Neighborhood, measured: MeasuredStackColumns) -> Neighborhood:
    """Published evidence near every measured stack, from that near all stacks, with the user's own measurements."""
    return replace(neighbourhood.take(measured.stack), measured=measured.effect)


def spread_names(workload: InferenceWorkload) -> tuple[str, str, str]:
    """Names of the error distributions that apply to the rate, TPOT and TTFT of a workload."""
    if workload.single_pass:
        return "samples", "sample_latency", "sample_latency"
    if workload.load is Load.CLOSED and workload.in_flight <= 1:
        return "single_stream", "single_stream", "ttft"
    return "throughput", "tpot", "ttft"


def margins_at(
    z: Column | float, workload: InferenceWorkload, neighbourhood: Neighborhood, spreads: Spreads, assumed: Assumptions
) -> Margins:
    """Multipliers at a z-score; z = 0 is the median prediction."""
    names = spread_names(workload)
    chosen = {name: spreads.get_spread(name) for name in names}
    factors = {
        name: np.exp(spread.relative_spread(neighbourhood) * spread.error_quantile(z))
        for name, spread in chosen.items()
    }
    rate, tpot, ttft = (factors[name] for name in names)
    return Margins(rate, tpot, ttft, np.full(len(neighbourhood), assumed.memory_deviation) * z)
