"""Estimates the CPU time of an answer from its parsed request, before it is computed.

The figures are CPU seconds of one core, of the machine that measured docs/held.md. The admission queue corrects them
by what answers take on its own machine, so only their ratios matter there. Not in the estimate is whether anything
meets the limits: an answer without a feasible option costs up to three times as much.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.api.schemas.compare import CompareRequest, OptionSpec
from app.api.schemas.requests import EstimateRequest, InferenceSpec, RecommendRequest, WorkloadSpec

# CPU seconds of a search: at least, and further ones if it considers every type of accelerator.
SIMULATED, CLOSED, BATCH, RUN = (0.05, 0.12), (0.02, 0.01), (0.03, 0.03), (0.035, 0.055)
ESTIMATE_S = 0.06  # of one deployment
WHOLE_COMPARE_S = 1.2  # most of a comparison with whole answers
TYPES = 12  # named types that cost as much as all, of which most are rejected early
ON_PREM_SHARE = 0.25  # of the types, where everything is to be on the caller's premises
DEFAULT_LIMIT: int = RecommendRequest.model_fields["limit"].default
PER_OPTION = 1.5 / 45  # cost of a further option of a simulated service, as a share of the search
PER_CLASS = 0.3  # the same for a further class of traffic
WITHOUT_EXTRAS, WITH_TRACE, LIMITED, MAXIMIZED = 0.75, 1.3, 2.0, 3.0  # factors
RESOURCE_LIMITS = ("max_usd_per_hour", "max_purchase_usd", "max_accelerators", "max_power_kw", "max_carbon_kg")


@dataclass(frozen=True, slots=True)
class Scope:
    """What decides how much a search computes, besides its workload."""

    named_types: int = 0
    on_prem: bool = False
    limited: bool = False  # a limit of money, power or accelerators: what misses it is searched again without it
    options: int = DEFAULT_LIMIT
    whole: bool = True  # whether the answer has the parts that `include` may leave out
    trace: bool = False
    maximizes: bool = False

    @staticmethod
    def of(constraints: Mapping[str, Any], **others: Any) -> Scope:
        """The scope under constraints, as a mapping of the fields that are set."""
        named = constraints.get("accelerators") or []
        return Scope(
            named_types=len(named) if isinstance(named, list) else 1,
            on_prem=constraints.get("environments") == ["on_prem"],
            limited=any(constraints.get(name) is not None for name in RESOURCE_LIMITS),
            **others,
        )


def search_cpu_s(workload: WorkloadSpec, scope: Scope) -> float:
    """Estimates the CPU seconds of a recommendation."""
    is_simulated, classes = False, 1
    if not isinstance(workload, InferenceSpec):
        least, every = RUN
    elif workload.traffic.samples_per_s is not None or workload.traffic.output_tokens == 0:
        least, every = CLOSED
    elif workload.traffic.offline or workload.traffic.batch is not None:
        least, every = BATCH
    else:
        (least, every), is_simulated = SIMULATED, True
        classes = len(workload.traffic.classes or (0,))
    share = min(1.0, scope.named_types / TYPES) if scope.named_types else ON_PREM_SHARE if scope.on_prem else 1.0
    further = max(0, scope.options - DEFAULT_LIMIT) if is_simulated else 0
    cpu_s = (least + every * share) * (1 + PER_OPTION * share * further) * (1 + PER_CLASS * (classes - 1))
    cpu_s *= 1.0 if scope.whole else WITHOUT_EXTRAS
    cpu_s *= WITH_TRACE if scope.trace else 1.0
    return cpu_s * (MAXIMIZED if scope.maximizes else LIMITED if scope.limited and scope.whole else 1.0)


def recommend_cpu_s(request: RecommendRequest) -> float:
    """Estimates the CPU seconds of POST /recommend.

    Check:
        >>> from app.api.schemas.requests import RecommendRequest
        >>> workload = {"phase": "inference", "model": "m", "traffic": {"peak_requests_per_s": 1}}
        >>> round(recommend_cpu_s(RecommendRequest.model_validate({"workload": workload})), 2)
        0.17
        >>> round(recommend_cpu_s(RecommendRequest.model_validate({"workload": workload, "limit": 50})), 2)
        0.42
    """
    scope = Scope.of(
        request.constraints.model_dump(exclude_unset=True),
        options=request.limit,
        whole=request.include != [],
        trace=request.shows_trace,
        maximizes=request.maximize is not None,
    )
    return search_cpu_s(request.workload, scope)


def estimate_cpu_s(request: EstimateRequest) -> float:
    """Estimates the CPU seconds of POST /estimate."""
    traffic = getattr(request.workload, "traffic", None)
    return ESTIMATE_S * len((traffic.classes if traffic else None) or (0,)) * (WITH_TRACE if request.trace else 1.0)


def is_compared_briefly(request: CompareRequest) -> bool:
    """Whether a comparison is so expensive that its answers leave out what `include` may leave out."""
    return _compare_cpu_s(request, whole=True) > WHOLE_COMPARE_S


def compare_cpu_s(request: CompareRequest) -> float:
    """Estimates the CPU seconds of POST /compare."""
    return _compare_cpu_s(request, whole=not is_compared_briefly(request))


def _compare_cpu_s(request: CompareRequest, *, whole: bool) -> float:
    shared = request.constraints.model_dump(exclude_unset=True)
    if request.options is None or request.workload is None:
        phases = () if request.phases is None else request.phases.model_fields_set
        return sum(sum(SIMULATED if phase == "inference" else RUN) for phase in phases)

    def option_cpu_s(option: OptionSpec) -> float:
        if option.deployment is not None:
            return ESTIMATE_S
        assert request.workload is not None
        return search_cpu_s(request.workload, Scope.of({**shared, **option.constraints}, whole=whole))

    return sum(map(option_cpu_s, request.options))
