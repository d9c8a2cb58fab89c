"""Serving workload: how requests arrive, how long they are and which latency limits apply."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from app.sizing.assumptions import Assumed, Assumptions
from app.sizing.columns import Codes, Column
from app.sizing.model.architecture import ModelArchitecture, ModelKind
from app.sizing.workload.arrivals import Arrivals
from app.sizing.workload.classes import TrafficClass, draw_population, group_populations
from app.sizing.workload.day import Shares, mean_share
from app.sizing.workload.images import PromptImages, add_images
from app.sizing.workload.lengths import Lengths
from app.sizing.workload.limits import Limits, Load, Slo, build_slo, limit_assumptions
from app.sizing.workload.longest import MAX_SEQUENCE_TOKENS, LongestSequence, longest_context_tokens
from app.sizing.workload.redundancy import Redundancy
from app.sizing.workload.trace import Trace

MAX_TURN_GAP_S = 604_800.0  # one week


@dataclass(frozen=True, slots=True)
class InferenceWorkload:
    """Traffic on one model. `peak_per_s` is the peak rate in requests (or samples) per second for open load."""

    model: ModelArchitecture
    load: Load
    peak_per_s: float
    average_per_s: float  # mean rate over a day, requests/s or samples/s
    in_flight: float  # requests in flight of closed, batch and offline load
    burstiness: float  # coefficient of variation of the times between arrivals
    input_tokens: Lengths
    output_tokens: Lengths
    cached_prefix_fraction: float  # share of prompt tokens found in the prefix cache
    slo: Slo
    max_context_tokens: float  # tokens of the longest sequence
    redundancy: Redundancy
    target_utilization: float  # share of a replica's capacity that the peak may use
    encoder_flops_per_request: float = 0.0  # FLOPs of the image encoder per request
    most_personal_in_flight: float = Assumptions.default_value("most_personal_in_flight")
    volume_requests: float | None = None  # requests or samples of offline work that ends
    deadline_s: float | None = None  # time within which the volume must be finished
    shared_prefix_fraction: float = 0.0  # share of the prompt that all requests have in common
    turn_gap_s: float = 0.0  # time from a session's answer to its next request
    requests: float | None = None  # requests of a run that starts empty and ends, `in_flight` at a time
    hourly_shares: Shares = ()  # hourly load over that of the busiest hour (`peak_per_s`); empty: not given
    trace: Trace | None = None  # recorded arrivals; `peak_per_s` is the rate of their busiest window
    comes_read: bool = False  # prompts arrive with their KV cache from a prefill pool
    derived: tuple[Assumed, ...] = ()  # values derived from other inputs
    classes: tuple[TrafficClass, ...] = ()  # classes that share the service; the fields above describe their mixture

    @property
    def single_pass(self) -> bool:
        """True if a request is one unit of work instead of a stream of tokens."""
        return self.model.sample is not None or self.model.kind.value == "encoder"

    @property
    def is_personal(self) -> bool:
        """True if one person or very few people use the service: a small fixed number of requests in flight."""
        return self.load in (Load.CLOSED, Load.BATCH) and self.in_flight <= self.most_personal_in_flight

    @property
    def serves_many(self) -> bool:
        """True for an interactive service with more than a few users."""
        return self.load in (Load.OPEN, Load.CLOSED) and not self.is_personal

    @property
    def is_finite(self) -> bool:
        """True for work that ends, after which its machines are released."""
        return self.volume_requests is not None

    @property
    def tokens_per_request(self) -> float:
        return self.input_tokens.mean + self.output_tokens.mean

    def long_prompt(self, percentile: float) -> float:
        """Tokens of a prompt at a percentile, at most the maximum context."""
        return min(self.input_tokens.quantile(percentile), self.max_context_tokens)

    def long_answer(self, percentile: float) -> float:
        """Tokens of an answer at a percentile, at most the maximum context."""
        return min(self.output_tokens.quantile(percentile), self.max_context_tokens)

    def draw_lengths(self, prompts: Column, answers: Column, kinds: Column | None = None) -> tuple[Codes, Codes]:
        """Prompt and answer lengths at the given quantiles (0 to 1), cut off at the model's context window.

        With several classes, `kinds` holds one uniform random number per request, which selects its class.
        """
        window = int(self.model.max_context_tokens or MAX_SEQUENCE_TOKENS)
        read, written = self.input_tokens.draw_lengths(prompts), self.output_tokens.draw_lengths(answers)
        if self.classes and kinds is not None:
            which, parts = draw_population(self.classes, kinds), group_populations(self.classes)
            read = np.choose(which, [part.input_tokens.draw_lengths(prompts) for part in parts])
            written = np.choose(which, [part.output_tokens.draw_lengths(answers) for part in parts])
        read = np.minimum(read, window - 1)
        return read, np.minimum(written, window - read)

    def single_class_workload(self, traffic_class: TrafficClass) -> InferenceWorkload:
        """Workload of one class on a service of its own."""
        return replace(
            self,
            peak_per_s=traffic_class.peak_per_s,
            average_per_s=traffic_class.average_per_s,
            burstiness=traffic_class.burstiness,
            input_tokens=traffic_class.input_tokens,
            output_tokens=traffic_class.output_tokens,
            slo=traffic_class.slo,
            max_context_tokens=traffic_class.max_context_tokens,
            derived=traffic_class.derived,
            classes=(),
        )

    def scale_load(self, times: float) -> InferenceWorkload:
        """The same workload with its load multiplied by `times`."""
        return replace(
            self,
            peak_per_s=times * self.peak_per_s,
            average_per_s=times * self.average_per_s,
            in_flight=times * self.in_flight,
            requests=None if self.requests is None else times * self.requests,
            trace=None if self.trace is None else self.trace.scale_rate(times),
            classes=tuple(c.scale_load(times) for c in self.classes),
        )

    @property
    def keeps_prefixes(self) -> bool:
        """True if prefix cache hits require that the cache keeps the prefixes of sessions between turns."""
        return (
            self.cached_prefix_fraction > 0
            and self.turn_gap_s > 0
            and self.load in (Load.OPEN, Load.CLOSED)
            and not self.single_pass
        )

    @property
    def without_hits(self) -> InferenceWorkload:
        """The same workload without prefix cache hits."""
        trace = None if self.trace is None else self.trace.without_hits()
        return replace(self, cached_prefix_fraction=0.0, shared_prefix_fraction=0.0, turn_gap_s=0.0, trace=trace)


@dataclass(frozen=True, slots=True)
class PrefixHits:
    """Prefix cache hits of a prompt and how long the cache must keep them. `turn_gap_s` None means the default gap."""

    cached_fraction: float = 0.0  # share of prompt tokens found in the prefix cache
    shared_fraction: float = 0.0  # part of it that all requests have in common, as a share of the prompt
    turn_gap_s: float | None = None

    def gap_s(self, load: Load, assumed: Assumptions) -> float:
        """Time from a session's answer to its next request, in seconds; 0 if sessions keep nothing in the cache."""
        if self.turn_gap_s is not None:
            return self.turn_gap_s
        return assumed.session_turn_gap_s if self.cached_fraction > 0 and load in (Load.OPEN, Load.CLOSED) else 0.0


def build_inference_workload(
    model: ModelArchitecture,
    arrivals: Arrivals,
    assumed: Assumptions,
    *,
    input_tokens: Lengths | float | None = None,
    output_tokens: Lengths | float | None = None,
    images: PromptImages | None = None,
    average_per_s: float | None = None,
    burstiness: float = 1.0,
    hits: PrefixHits | None = None,
    limits: Limits | None = None,
    max_context_tokens: float | None = None,
    redundancy: Redundancy | None = None,
    availability_asked: frozenset[str] = frozenset(),
    target_utilization: float | None = None,
) -> InferenceWorkload:
    """Build a complete serving workload from the given parts; None means the default.

    Raises Unanswerable if the parts contradict one another.
    """
    prompt, output = usual_lengths(model, input_tokens, output_tokens, assumed)
    model, prompt, image_flops = add_images(model, prompt, images)
    requested_limits, hits, personal = limits or Limits(), hits or PrefixHits(), arrivals.is_personal(assumed)
    longest = LongestSequence(prompt, output, isinstance(input_tokens, Lengths), isinstance(output_tokens, Lengths))
    workload = InferenceWorkload(
        model=model,
        load=arrivals.load,
        peak_per_s=arrivals.peak_per_s,
        average_per_s=usual_average_per_s(arrivals, assumed) if average_per_s is None else average_per_s,
        in_flight=arrivals.in_flight,
        burstiness=burstiness,
        input_tokens=prompt,
        output_tokens=output,
        cached_prefix_fraction=hits.cached_fraction,
        shared_prefix_fraction=hits.shared_fraction,
        turn_gap_s=hits.gap_s(arrivals.load, assumed),
        max_context_tokens=longest_context_tokens(model, arrivals, longest, max_context_tokens, assumed),
        slo=build_slo(requested_limits, model, arrivals.load, prompt.mean, assumed, personal=personal),
        redundancy=redundancy or Redundancy(),
        target_utilization=usual_utilization(arrivals, assumed) if target_utilization is None else target_utilization,
        encoder_flops_per_request=image_flops,
        most_personal_in_flight=assumed.most_personal_in_flight if arrivals.in_flight else 0.0,
        volume_requests=arrivals.volume_requests,
        deadline_s=arrivals.deadline_s,
        requests=arrivals.requests,
        hourly_shares=arrivals.hourly_shares,
    )
    lengths = explicit_fields(
        input_tokens=input_tokens, output_tokens=output_tokens, max_context_tokens=max_context_tokens
    )
    explicit_names = (
        availability_asked | lengths | explicit_fields(average_requests_per_s=average_per_s, turn_gap_s=hits.turn_gap_s)
    )
    limited = limit_assumptions(requested_limits, workload.slo, personal=personal)
    return replace(workload, derived=(*arrivals.derived, *traffic_assumptions(workload, explicit_names), *limited))


def usual_average_per_s(arrivals: Arrivals, assumed: Assumptions) -> float:
    """Default mean rate over a day, from the hourly shares or the usual share of the peak; 0 unless the load is
    open.
    """
    if arrivals.hourly_shares:
        return arrivals.peak_per_s * mean_share(arrivals.hourly_shares)
    return arrivals.peak_per_s * assumed.average_to_peak if arrivals.load is Load.OPEN else 0.0


def usual_utilization(arrivals: Arrivals, assumed: Assumptions) -> float:
    """Default target utilization of a replica; 1 for loads without unexpected requests."""
    return assumed.target_utilization if arrivals.load is Load.OPEN else 1.0


def usual_lengths(
    model: ModelArchitecture, prompt: Lengths | float | None, output: Lengths | float | None, assumed: Assumptions
) -> tuple[Lengths, Lengths]:
    """Prompt and answer lengths as given, or the defaults for the kind of model.

    A mean without a spread gets the default spread.
    """
    if prompt is None:
        prompt = 1.0 if model.sample is not None else assumed.default_input_tokens
    if output is None:
        output = assumed.default_output_tokens if model.kind is ModelKind.DECODER else 0.0
    return add_default_spread(prompt, assumed), add_default_spread(output, assumed)


def add_default_spread(length: Lengths | float, assumed: Assumptions) -> Lengths:
    """A length distribution; a mean alone gets the default spread."""
    if isinstance(length, Lengths):
        return length
    return Lengths(length) if length <= 1 else Lengths(length, length * assumed.length_p95_to_mean)


def explicit_fields(**parts: object) -> frozenset[str]:
    """Names of the arguments that are not None."""
    return frozenset(name for name, value in parts.items() if value is not None)


def traffic_assumptions(w: InferenceWorkload, explicit_names: frozenset[str]) -> tuple[Assumed, ...]:
    """Assumptions about the traffic, as an answer lists them.

    Names in `given` come from the request; the other values are defaults.
    """

    def numeric_assumption(
        name: str, value: float, unit: str, reason: str, source: str, bounds: tuple[float, float]
    ) -> Assumed:
        return Assumed(name, value, unit, reason, source, bounds, asked=name in explicit_names)

    prompt, output, longest = (
        w.input_tokens.mean,
        w.output_tokens.mean,
        w.model.max_context_tokens or MAX_SEQUENCE_TOKENS,
    )
    shown: list[Assumed] = []
    if w.load is Load.OPEN:
        prices = "mean load, used for the price per token", "hourly shares" if w.hourly_shares else "average_to_peak"
        shown.append(numeric_assumption("average_requests_per_s", w.average_per_s, "1/s", *prices, (0.0, w.peak_per_s)))
    if w.model.kind is not ModelKind.SAMPLES:
        mean = f"mean prompt length; p95 {min(w.input_tokens.quantile(95), longest):,.0f}", "default_input_tokens"
        shown.append(numeric_assumption("input_tokens", prompt, "tokens", *mean, (1.0, longest)))
    if w.model.kind is ModelKind.DECODER:
        mean = f"mean answer length; p95 {min(w.output_tokens.quantile(95), longest):,.0f}", "default_output_tokens"
        shown.append(numeric_assumption("output_tokens", output, "tokens", *mean, (1.0, longest)))
        longer = "tokens of the longest sequence", "context_percentile"
        bounds = (prompt + output, max(longest, prompt + output))
        shown.append(numeric_assumption("max_context_tokens", w.max_context_tokens, "tokens", *longer, bounds))
    if w.cached_prefix_fraction > 0 and w.load in (Load.OPEN, Load.CLOSED) and not w.single_pass:
        between = "time from an answer to the session's next request", "session_turn_gap_s"
        shown.append(numeric_assumption("turn_gap_s", w.turn_gap_s, "s", *between, (0.0, MAX_TURN_GAP_S)))
    spare = w.redundancy
    kept = "spare capacity for failures"
    shown.append(Assumed("redundancy", spare.label, "text", kept, "assumed", asked="redundancy" in explicit_names))
    if spare.label != "none":
        lost, named = "what can fail at once", "failure_domain"
        shown.append(
            Assumed(named, spare.domain.value, "text", lost, "assumed: usual failure", asked=named in explicit_names)
        )
    return tuple(shown)
