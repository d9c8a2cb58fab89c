"""Input of all checks: the observations, the expected estimate, and estimates of changed deployments.

Times are in seconds, sizes in bytes and shares from 0 to 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from app.errors import Conflict
from app.sizing.assumptions import Assumptions
from app.sizing.estimate import estimate_deployment
from app.sizing.question import Deployment, Question
from app.sizing.result import DeviceMemory, Estimate, Performance
from app.sizing.snapshot import Catalog
from app.sizing.workload import InferenceWorkload, Load
from app.sizing.workload.lengths import Lengths


@dataclass(frozen=True, slots=True)
class LoadObservation:
    """Latencies observed at one load of the whole deployment."""

    requests_per_s: float
    ttft_p50_s: float | None = None
    ttft_p95_s: float | None = None
    ttft_p99_s: float | None = None
    tpot_p50_s: float | None = None
    tpot_p95_s: float | None = None
    tpot_p99_s: float | None = None


@dataclass(frozen=True, slots=True)
class ServiceObservation:
    """Observations of a service. All cover the whole deployment, except `running` and `waiting`, which are per
    replica.
    """

    requests_per_s: float | None = None
    peak_requests_per_s: float | None = None  # rate in the busiest ten seconds
    output_tokens_per_s: float | None = None
    input_tokens_mean: float | None = None
    output_tokens_mean: float | None = None
    ttft_p50_s: float | None = None
    ttft_p95_s: float | None = None
    ttft_p99_s: float | None = None
    tpot_p50_s: float | None = None
    tpot_p95_s: float | None = None
    tpot_p99_s: float | None = None
    inter_token_p50_s: float | None = None
    inter_token_p99_s: float | None = None
    queue_p50_s: float | None = None
    running: float | None = None  # running requests of one replica
    waiting: float | None = None  # waiting requests of one replica
    cache_usage: float | None = None  # share of the KV cache in use
    preemptions_per_request: float | None = None
    preemptions: float | None = None  # preemptions that a log counts, for an unknown number of requests
    prefix_hit_share: float | None = None  # share of prompt tokens found in the prefix cache
    acceptance_rate: float | None = None  # probability that a draft token is accepted
    error_share: float | None = None  # share of requests that fail
    busiest_replica_share: float | None = None  # load of the busiest replica over the mean load
    cache_tokens: float | None = None  # tokens that the KV cache of one replica holds
    cold_start_s: float | None = None
    restarts_per_day: float | None = None
    by_load: tuple[LoadObservation, ...] = ()


@dataclass(frozen=True, slots=True)
class ScalePoint:
    """Speed of a training run on a number of accelerators."""

    accelerators: float
    tokens_per_s: float


@dataclass(frozen=True, slots=True)
class TrainingObservation:
    """Observations of a training run. Parts of a step are in seconds; the rest of the step is unknown."""

    step_time_s: float | None = None
    tokens_per_s: float | None = None
    tokens_per_step: float | None = None  # tokens of one step, padding excluded
    mfu: float | None = None
    compute_s: float | None = None
    communication_s: float | None = None  # communication not overlapped with computation
    input_s: float | None = None  # waiting for data
    synchronisation_s: float | None = None  # waiting for other ranks
    outside_kernels_s: float | None = None  # time in which no kernel runs
    optimizer_s: float | None = None
    bubble_s: float | None = None  # empty pipeline stages
    slowest_rank_s: float | None = None  # step time of the slowest rank, without waiting for others
    median_rank_s: float | None = None
    memory_peak_bytes: float | None = None  # peak use of the fullest accelerator
    allocator_retries_per_step: float | None = None
    checkpoint_s: float | None = None  # time for which a checkpoint stops the run
    checkpoint_interval_s: float | None = None  # time between two checkpoints
    restarts_per_day: float | None = None
    warmup_s: float | None = None  # time at each start until steps reach full speed
    evaluation_share: float | None = None  # share of the time spent on evaluation
    scales: tuple[ScalePoint, ...] = ()


@dataclass(frozen=True, slots=True)
class DevicesObservation:
    """Observations of the accelerators: means, except for counts."""

    utilization: float | None = None  # share of the time in which kernels run
    clock_share: float | None = None  # clock over the rated clock
    temperature_c: float | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    memory_used_bytes: float | None = None  # use of the fullest accelerator
    link_width_share: float | None = None  # PCIe lanes in use over those of the slot
    errors_per_day: float | None = None  # Xid errors and uncorrectable ECC errors
    slowest_clock_share: float | None = None  # clock of the slowest accelerator over the mean clock


@dataclass(frozen=True, slots=True)
class MemoryObservation:
    """Memory of the fullest accelerator as an engine or trainer reports it, in bytes.

    The last eight are from an out-of-memory error: what was needed, and the state at that moment.
    """

    weights_bytes: float | None = None
    cache_bytes: float | None = None
    activation_bytes: float | None = None
    overhead_bytes: float | None = None  # graphs and libraries
    needed_cache_bytes: float | None = None  # KV cache of one sequence with the longest context
    failed_allocation_bytes: float | None = None
    capacity_bytes: float | None = None
    free_bytes: float | None = None
    process_bytes: float | None = None  # memory of this process
    allocated_bytes: float | None = None  # memory of tensors
    unused_bytes: float | None = None  # memory that the allocator holds for later tensors
    failed_host_bytes: float | None = None  # failed allocation of host memory; 0 if its size is unknown


@dataclass(frozen=True, slots=True)
class Observations:
    """All observations of a running deployment."""

    service: ServiceObservation = ServiceObservation()
    training: TrainingObservation = TrainingObservation()
    devices: DevicesObservation = DevicesObservation()
    memory: MemoryObservation = MemoryObservation()


def excess_share(observed: float, expected: float) -> float:
    """Share of the observed value that exceeds the expected value.

    Check: four seconds where three are expected.
        >>> excess_share(4.0, 3.0)
        0.25
    """
    return max(0.0, 1 - expected / observed) if observed > 0 else 0.0


@dataclass(frozen=True, slots=True)
class Case:
    """One diagnosis in progress.

    `planned_question` has the planned load and `question` the observed load. `expected_estimate` is the estimate at
    the observed load.
    """

    planned_question: Question
    question: Question
    requested_deployment: Deployment
    catalog: Catalog
    observed: Observations
    expected_estimate: Estimate
    short_estimate: Estimate | None = None  # the estimate that the observations contradict, if it does not fit
    real_catalog: Catalog | None = None  # the catalog without the memory that `catalog` adds

    @property
    def memory(self) -> MemoryObservation:
        return self.observed.memory

    @property
    def expected_memory(self) -> DeviceMemory | None:
        """Expected memory of the fullest accelerator, on the memory that it has."""
        return (self.short_estimate or self.expected_estimate).memory

    @property
    def ran_out_of_memory(self) -> bool:
        """True if the observations contain an out-of-memory error."""
        m = self.memory
        return m.failed_allocation_bytes is not None or bool(m.needed_cache_bytes) or m.cache_bytes == 0

    @property
    def assumptions(self) -> Assumptions:
        return self.question.assumptions

    @property
    def service(self) -> ServiceObservation:
        return self.observed.service

    @property
    def training(self) -> TrainingObservation:
        return self.observed.training

    @property
    def devices(self) -> DevicesObservation:
        return self.observed.devices

    @property
    def expected_performance(self) -> Performance | None:
        return self.expected_estimate.performance

    @property
    def workload(self) -> InferenceWorkload | None:
        """The observed workload of a service; None for a training run."""
        workload = self.question.workload
        return workload if isinstance(workload, InferenceWorkload) else None

    @property
    def queued_share(self) -> float:
        """Share of the requests at one replica that wait."""
        waiting, running = self.service.waiting or 0.0, self.service.running or 0.0
        return waiting / (waiting + running) if waiting else 0.0

    @property
    def has_standing_queue(self) -> bool:
        """True if there is a standing queue, beyond the short waits of single requests."""
        return self.queued_share >= self.assumptions.diagnosed_least_share

    @property
    def busy_share(self) -> float:
        """Share of the time in which there is work.

        It is 1 for training runs. For a service it follows from the mean number of running requests, which arrive at
        random.
        """
        if self.workload is None or self.has_standing_queue:
            return 1.0
        return 1 - math.exp(-(self.service.running or 0.0))

    @property
    def has_steady_work(self) -> bool:
        """True if there is nearly always work, according to the running requests or the accelerator utilization."""
        return max(self.busy_share, self.devices.utilization or 0.0) >= self.assumptions.diagnosed_full_share

    @property
    def request_s(self) -> float | None:
        """Duration of a whole request in seconds, from the observed latencies or, if they are missing, the expected
        ones.
        """
        p, s, w = self.expected_performance, self.service, self.workload
        if w is None or p is None or p.ttft is None or p.tpot is None:
            return None
        first = s.ttft_p50_s or p.ttft.p50_s
        token = s.tpot_p50_s or s.inter_token_p50_s or p.tpot.p50_s
        if first is None or token is None:
            return None
        return first + token * max(0.0, w.output_tokens.mean - 1)

    def performance_at_observed_batch(self) -> Performance | None:
        """Expected performance with the observed number of requests in flight.

        A slow step makes requests pile up, so the resulting larger batch must not be taken for the cause.
        """
        w, running = self.workload, self.service.running
        if w is None or w.load is not Load.OPEN or w.classes or w.trace is not None or not running:
            return None
        flight = max(1.0, running) * (self.expected_estimate.deployment.replicas or 1)
        closed = replace(w, load=Load.CLOSED, in_flight=flight, peak_per_s=0.0, average_per_s=0.0)
        variant = self.estimate_variant(self.current_deployment(), replace(self.question, workload=closed))
        return None if variant is None else variant.performance

    def share_of_request(self, seconds: float) -> float:
        """Share of a whole request that the given seconds take."""
        return min(1.0, max(0.0, seconds / self.request_s)) if self.request_s else 0.0

    def exceeds_expected(self, observed: float, expected: float, high: float | None = None) -> bool:
        """True if a value exceeds its expectation, and also exceeds the spread of published results of the same
        kind.
        """
        bound = expected * (1 + self.assumptions.diagnosed_slower_share)
        return observed > max(bound, high or 0.0)

    def far_exceeds_expected(self, observed: float, expected: float, high: float | None = None) -> bool:
        """True if a value exceeds twice its expectation, so that it is a finding however little it costs."""
        return self.exceeds_expected(observed, 2 * expected, high)

    def upper_bound(self, quantity: str, statistic: str) -> float | None:
        """Upper end of the interval of an expected value; None if there is no interval."""
        intervals = (
            ()
            if self.expected_performance is None
            else (self.expected_performance.interval, *self.expected_performance.intervals)
        )
        return next((i.high for i in intervals if (i.quantity, i.statistic) == (quantity, statistic)), None)

    def upper_bound_ratio(self, quantity: str) -> float:
        """Ratio of the upper end of the interval of a median latency to its expected value."""
        p = self.expected_performance
        usual = None if p is None else {"ttft_s": p.ttft, "tpot_s": p.tpot}[quantity]
        return (self.upper_bound(quantity, "p50") or usual.p50_s) / usual.p50_s if usual and usual.p50_s else 1.0

    def current_deployment(self, **changed: Any) -> Deployment:
        """The deployment as it runs, with some fields changed. The engine chooses its own settings again."""
        return replace(restore_engine_defaults(self.expected_estimate.deployment, self.requested_deployment), **changed)

    def deployment_without_batch_limit(self) -> Deployment:
        """The same deployment with the batch limit that the engine chooses by default."""
        scheduler = self.requested_deployment.scheduler
        return self.current_deployment(max_batch=None, scheduler=scheduler and replace(scheduler, max_sequences=None))

    def estimate_variant(
        self, deployment: Deployment, question: Question | None = None, catalog: Catalog | None = None
    ) -> Estimate | None:
        """Estimate of a changed deployment, question or catalog; None if that deployment cannot run."""
        try:
            variant = estimate_deployment(question or self.question, deployment, catalog or self.catalog)
        except Conflict:
            return None
        return variant if variant.fits and variant.performance is not None else None

    def estimate_gain(self, deployment: Deployment) -> float:
        """Share of the speed after a change that the change adds, from the estimates before and after."""
        return speed_loss_share(self.estimate_variant(deployment), self.expected_estimate)

    def estimate_loss(self, *, compute: float = 1.0, link: float = 1.0) -> float:
        """Share of the speed that is lost if compute or links run at the given share of their rate, from two
        estimates.
        """
        slower = self.catalog.with_slower_type(
            self.expected_estimate.deployment.accelerator, compute=compute, link=link
        )
        return speed_loss_share(
            self.expected_estimate, self.estimate_variant(self.current_deployment(), catalog=slower)
        )


def throughputs_of(result: Estimate | None) -> tuple[float | None, ...]:
    """Throughput of a deployment per second: first within its limits, then without them."""
    p = None if result is None else result.performance
    if p is None:
        return (None, None)
    return p.requests_per_s_capacity, p.unstable_above_requests_per_s or p.tokens_per_s or p.samples_per_s


def speed_loss_share(fast: Estimate | None, slow: Estimate | None) -> float:
    """Share of the faster speed that the slower estimate lacks. It compares capacities within the limits if both
    have one.
    """
    both = zip(throughputs_of(fast), throughputs_of(slow), strict=True)
    return next((excess_share(more, less) for more, less in both if more and less), 0.0)


def build_case(question: Question, deployment: Deployment, catalog: Catalog, observed: Observations) -> Case:
    """Build a case: lay the deployment out for the planned load, then estimate it at the observed load."""
    assumed = question.assumptions.with_recording()
    question = replace(question, assumptions=assumed)
    workload = question.workload
    observed_question = question
    if isinstance(workload, InferenceWorkload):
        observed_question = replace(question, workload=with_observed_traffic(workload, observed.service))
    real_catalog, short = catalog, None
    deployment = with_reported_formats(question, deployment, catalog, observed)
    planned = estimate_deployment(question, deployment, catalog)
    if planned.performance is None and planned.memory is not None:
        short, catalog = planned, catalog_with_room(catalog, planned)
        planned = estimate_deployment(question, deployment, catalog)
    expected = planned
    if planned.performance is not None and planned.fits:
        laid_out = restore_engine_defaults(planned.deployment, deployment)
        expected = estimate_at_observed_load(observed_question, laid_out, catalog, planned)
        if expected is planned:
            observed_question = question
    return Case(question, observed_question, deployment, catalog, observed, expected, short, real_catalog)


SAME_MEMORY_RATIO = 1.15  # ratio of reported to expected memory up to which a format explains it


def with_reported_formats(
    question: Question, deployment: Deployment, catalog: Catalog, observed: Observations
) -> Deployment:
    """The deployment with the formats that the reported memory shows, where the request leaves them open.

    An engine loads the published format by default, while the estimate chooses the best one.
    """
    weights, tokens, size = observed.memory.weights_bytes, observed.service.cache_tokens, observed.memory.cache_bytes
    if deployment.pools is not None or (not weights and not (tokens and size)):
        return deployment
    model = question.workload.model
    weight_formats = (
        [deployment.weight_format] if deployment.weight_format or not weights else [None, model.native_format]
    )
    kv_formats = [deployment.kv_format] if deployment.kv_format or not (tokens and size) else [None, "bf16", "fp8"]
    best, least = deployment, math.inf
    for weight_format, kv_format in product(weight_formats, kv_formats):
        variant = replace(deployment, weight_format=weight_format, kv_format=kv_format)
        distance = memory_distance(question, variant, catalog, observed)
        if distance < least / SAME_MEMORY_RATIO:
            best, least = variant, distance
    return best


def memory_distance(question: Question, deployment: Deployment, catalog: Catalog, observed: Observations) -> float:
    """Largest ratio between reported and expected weights, or bytes per cached token; infinite if it does not run."""
    try:
        expected = estimate_deployment(question, deployment, catalog).memory
    except Conflict:
        return math.inf
    if expected is None:
        return math.inf
    tokens, size = observed.service.cache_tokens, observed.memory.cache_bytes
    pairs = [(observed.memory.weights_bytes, expected.weights_bytes)]
    if tokens and size and expected.kv_cache_tokens:
        pairs.append((size / tokens, expected.kv_cache_bytes / expected.kv_cache_tokens))
    ratios = [seen / usual for seen, usual in pairs if seen and usual]
    return max((max(ratio, 1 / ratio) for ratio in ratios), default=1.0)


def estimate_at_observed_load(
    question: Question, deployment: Deployment, catalog: Catalog, planned: Estimate
) -> Estimate:
    """Estimate at the observed load and lengths; the planned one if the deployment cannot serve requests that long."""
    try:
        expected = estimate_deployment(question, deployment, catalog)
    except Conflict:
        return planned
    return planned if expected.performance is None else expected


ROOM_FACTOR = 1.25  # memory that a running deployment is given beyond its expected need


def catalog_with_room(catalog: Catalog, short: Estimate) -> Catalog:
    """A catalog in which the accelerators hold what a deployment is expected to need.

    It runs, so the expectation of its memory is wrong, and everything else can still be judged.
    """
    assert short.memory is not None
    factor = max(1.0, short.memory.total_bytes / short.memory.usable_bytes) * ROOM_FACTOR
    return catalog.with_more_memory(short.deployment.accelerator, factor)


def restore_engine_defaults(laid_out: Deployment, requested: Deployment) -> Deployment:
    """The complete deployment, with the scheduler settings that the caller left open left to the engine again."""
    chosen = {
        name: getattr(requested, name) for name in ("max_batch", "max_batched_tokens", "memory_fraction", "scheduler")
    }
    return replace(laid_out, **chosen)


def with_observed_traffic(workload: InferenceWorkload, seen: ServiceObservation) -> InferenceWorkload:
    """The workload with the observed request rate and mean lengths."""
    if workload.load is Load.OPEN and not workload.is_finite and seen.requests_per_s:
        workload = workload.scale_load(seen.requests_per_s / workload.peak_per_s)
    if workload.classes or workload.trace is not None:
        return workload
    return replace(
        workload,
        input_tokens=scale_lengths(workload.input_tokens, seen.input_tokens_mean),
        output_tokens=scale_lengths(workload.output_tokens, seen.output_tokens_mean),
    )


def scale_lengths(lengths: Lengths, mean: float | None) -> Lengths:
    """The length distribution scaled to another mean, with the same relative spread."""
    if mean is None:
        return lengths
    return Lengths(mean, None if lengths.p95 is None else lengths.p95 * mean / lengths.mean)
