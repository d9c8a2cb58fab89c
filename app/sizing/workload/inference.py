"""Serving workload: how requests arrive, how long they are, and what must survive a failure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from enum import StrEnum

import numpy as np

from app.errors import Unanswerable
from app.sizing.assumptions import Assumed, Assumptions
from app.sizing.columns import LEAST_PER_S, SECONDS_PER_HOUR, Codes, Column, Quantiles, column
from app.sizing.formula import formula
from app.sizing.model.architecture import ModelArchitecture, ModelKind
from app.sizing.model.long_context import describe_extension
from app.sizing.words import percent
from app.sizing.workload.lengths import Lengths
from app.sizing.workload.limits import LIMIT_NAMES, Limits, Load, Slo, build_slo, limit_assumptions
from app.sizing.workload.trace import Trace

HOURS = 24
MAX_POWER = 1e5  # upper bound of the exponent of the day curve
BISECTIONS = 60  # steps of the search for the exponent
MIN_HOUR_SHARE = 1e-9  # lower bound of an hour's share before the exponent, so that a flat day has no empty hour
PEAK_TOLERANCE = 0.01  # relative difference accepted between a given peak and the peak that average and hours imply

Shares = tuple[float, ...]


def normalize_hours(factors: Sequence[float]) -> Shares:
    """Hourly factors scaled so that the busiest hour is 1.

    Check:
        >>> normalize_hours([1.0, 4.0, 2.0])
        (0.25, 1.0, 0.5)
    """
    busiest = max(factors)
    return tuple(factor / busiest for factor in factors)


def mean_share(shares: Shares) -> float:
    """Mean load of a day over its peak load.

    Check:
        >>> mean_share((0.25, 1.0, 0.25))
        0.5
    """
    return sum(shares) / len(shares)


def smooth_day(peak_to_average: float, assumed: Assumptions) -> Shares:
    """Hourly shares of a raised cosine around the busiest hour, to the power that gives the peak-to-average ratio.

    The shape is an assumption.
    Limits: one peak per day; a ratio of at most 24, where one hour has all the load.
    Check:
        >>> day = smooth_day(2.0, Assumptions())
        >>> day.index(1.0), round(day[2], 6), round(1 / mean_share(day), 6)
        (14, 0.0, 2.0)
    """
    hour = np.arange(HOURS) - float(int(assumed.smooth_day_peak_hour))
    wave = np.maximum((1 + np.cos(2 * np.pi * hour / HOURS)) / 2, MIN_HOUR_SHARE)
    low, high = 0.0, MAX_POWER
    for _ in range(BISECTIONS):
        power = (low + high) / 2
        low, high = (power, high) if (wave**power).mean() * peak_to_average > 1 else (low, power)
    return tuple((wave**high).tolist())


def derive_peak_per_s(peak_per_s: float | None, average_per_s: float | None, shares: Shares) -> float:
    """Requests per second in the busiest hour, from the peak rate or from the average rate and the hourly shares.

    Raises Unanswerable if the hourly shares contradict the given peak and average.

    Check:
        >>> derive_peak_per_s(None, 5.0, (0.25, 1.0, 0.25))
        10.0
    """
    if average_per_s is None:
        return peak_per_s or 0.0
    derived_peak = average_per_s / mean_share(shares)
    if peak_per_s is not None and abs(derived_peak / peak_per_s - 1) > PEAK_TOLERANCE:
        raise Unanswerable.at(
            "#/workload/traffic/average_requests_per_s",
            f"The peak and the hourly shares give an average of {mean_share(shares) * peak_per_s:.4g} requests/s, not "
            f"{average_per_s:.4g} requests/s. Omit the average or the peak, or change the hourly shares.",
        )
    return derived_peak if peak_per_s is None else peak_per_s


@dataclass(frozen=True, slots=True)
class PromptImages:
    """Images in each request: `width` and `height` in pixels, and the number of images."""

    width: int
    height: int
    per_request: float = 1.0  # images per request

    @property
    def per_prompt(self) -> int:
        """Images in each prompt of a benchmark."""
        return max(1, round(self.per_request))

    def as_places(self) -> dict[str, int | str]:
        """Placeholders of a benchmark that sends such images."""
        return {"images": self.per_prompt, "image_sizes": f"{{({self.height}, {self.width}, 1): 1.0}}"}


def add_images(
    model: ModelArchitecture, prompt: Lengths, images: PromptImages | None
) -> tuple[ModelArchitecture, Lengths, float]:
    """The model and prompt lengths with the images of a request, and the FLOPs of the image encoder per request.

    Image tokens join the prompt. If layers cross-attend to the images instead, their keys and values are kept for the
    whole sequence. Raises Unanswerable if the model accepts no images.
    """
    if images is None:
        return (model if model.images is None else replace(model, reads_images=False)), prompt, 0.0
    if model.images is None:
        raise Unanswerable.at(
            "#/workload/traffic/images",
            f"{model.name} accepts no images. Omit traffic.images, or name a vision-language model.",
        )
    width, height, count = images.width, images.height, images.per_request
    tokens = count * model.images.token_count(width, height)
    kept = count * model.images.patch_count(width, height) * model.cross_kv_bytes_per_source_token
    one = count == 1
    note = (
        f"{count:g} image{'' if one else 's'} of {width} x {height} pixels add{'s' if one else ''} "
        f"{tokens:,.0f} tokens to each prompt"
    )
    model = replace(
        model, state_bytes_per_sequence=model.state_bytes_per_sequence + kept, assumed=(*model.assumed, note)
    )
    return model, prompt.add_tokens(tokens), count * model.image_flops(width, height)


@dataclass(frozen=True, slots=True)
class Arrivals:
    """How requests arrive. `samples` is true if the rate counts samples."""

    load: Load
    peak_per_s: float = 0.0  # peak rate, requests/s or samples/s
    in_flight: float = 0.0  # requests in flight
    samples: bool = False
    volume_requests: float | None = None  # requests or samples of offline work that ends
    deadline_s: float | None = None  # time within which the volume must be finished
    requests: float | None = None  # requests of a run that ends
    hourly_shares: Shares = ()  # hourly load over that of the busiest hour; empty: not given
    derived: tuple[Assumed, ...] = ()  # values derived from other inputs

    def is_personal(self, assumed: Assumptions) -> bool:
        """True if one person or very few people use the service."""
        return self.load is Load.CLOSED and self.in_flight <= assumed.most_personal_in_flight


@formula(unit="requests/s", source="definition")
def busy_hour_requests_per_s(requests_per_hour: float, assumed: Assumptions) -> float:
    """Request rate in the busiest minute, from the number of requests in an hour.

    Parameters:
        requests_per_hour: requests of all users in an hour.
        assumed: assumptions; `busy_hour_factor` is the rate of the busiest minute over the hourly mean.
    Check: 40 users with 12 requests per hour each.
        >>> busy_hour_requests_per_s(40 * 12, Assumptions())
        0.4
    """
    return requests_per_hour / SECONDS_PER_HOUR * assumed.busy_hour_factor


def arrivals_from_users(count: float, requests_per_hour_each: float, assumed: Assumptions) -> Arrivals:
    """Arrivals from a number of users, with the peak rate from the busy-hour rule."""
    peak = busy_hour_requests_per_s(count * requests_per_hour_each, assumed)
    low, high = Assumptions.allowed_range("busy_hour_factor")
    derived_peak = Assumed(
        "peak_requests_per_s",
        peak,
        "1/s",
        "planned peak load: requests of all users times busy_hour_factor",
        "users",
        (peak * low / assumed.busy_hour_factor, peak * high / assumed.busy_hour_factor),
    )
    return Arrivals(Load.OPEN, peak_per_s=peak, derived=(derived_peak,))


@dataclass(frozen=True, slots=True)
class TrafficClass:
    """One class of requests that a service answers."""

    name: str
    peak_per_s: float
    average_per_s: float
    burstiness: float
    input_tokens: Lengths
    output_tokens: Lengths
    slo: Slo
    max_context_tokens: float
    derived: tuple[Assumed, ...] = ()

    def scale_load(self, times: float) -> TrafficClass:
        """The same class with its load multiplied by `times`."""
        return replace(self, peak_per_s=times * self.peak_per_s, average_per_s=times * self.average_per_s)


# What differs between classes, and has the same name in the workload of a class on a service of its own.
CLASS_FIELDS = tuple(f.name for f in fields(TrafficClass) if f.name != "name")


@dataclass(frozen=True, slots=True)
class Population:
    """Requests with the same length distributions, whatever their class: a simulation cannot distinguish them."""

    share: float
    input_tokens: Lengths
    output_tokens: Lengths

    def contains_class(self, traffic_class: TrafficClass) -> bool:
        """True if requests of the class belong to this population."""
        return (self.input_tokens, self.output_tokens) == (traffic_class.input_tokens, traffic_class.output_tokens)


def group_populations(classes: Sequence[TrafficClass]) -> tuple[Population, ...]:
    """Populations of the classes. Their order does not depend on names, limits or the order of the classes."""
    rates: dict[tuple[Lengths, Lengths], float] = {}
    for each in sorted(classes, key=lambda c: (c.peak_per_s, c.name)):
        lengths = each.input_tokens, each.output_tokens
        rates[lengths] = rates.get(lengths, 0.0) + each.peak_per_s
    total = sum(sorted(rates.values()))
    groups = (Population(rate / total, *lengths) for lengths, rate in rates.items())
    return tuple(sorted(groups, key=lambda p: (p.input_tokens.mean, p.output_tokens.mean, repr(p.input_tokens))))


def draw_population(classes: Sequence[TrafficClass], chances: Column) -> Codes:
    """Index of the population that each request belongs to, from one uniform random number per request."""
    upto = np.cumsum([p.share for p in group_populations(classes)])[:-1]
    return np.searchsorted(column(upto), chances, side="right").astype(np.int64)


def mixed_burstiness(classes: Sequence[TrafficClass]) -> float:
    """Coefficient of variation of the times between arrivals of all classes.

    Squared coefficients add up by share, as for independent arrival streams (Whitt 1982, asymptotic method).
    """
    rates, squares = column([c.peak_per_s for c in classes]), column([c.burstiness for c in classes]) ** 2
    return float(np.sqrt(np.average(squares, weights=rates)))


def common_slo(classes: Sequence[TrafficClass]) -> Slo:
    """The tightest limit of each kind and the highest percentile, for figures of the whole mixture."""

    def smallest(values: Iterable[float | None]) -> float | None:
        return min((value for value in values if value is not None), default=None)

    return Slo(
        smallest(c.slo.ttft_s for c in classes),
        smallest(c.slo.tpot_s for c in classes),
        smallest(c.slo.e2e_s for c in classes),
        max(c.slo.percentile for c in classes),
    )


MAX_SEQUENCE_TOKENS = 1e8  # limit for a model that states no context window


@dataclass(frozen=True, slots=True)
class LongestSequence:
    """Lengths that determine the longest sequence, and whether the request gives their spread."""

    prompt: Lengths
    output: Lengths
    prompt_spread_given: bool
    output_spread_given: bool

    def planned_tokens(self, model: ModelArchitecture, arrivals: Arrivals, assumed: Assumptions) -> float:
        """Tokens of a long prompt with a long answer, as an integer.

        An assumed spread counts only for services with many users, and only up to the context window of the model.
        """

        def long_length(length: Lengths, *, spread_given: bool) -> float:
            return max(length.quantile(assumed.context_percentile), length.mean) if spread_given else length.mean

        generates = model.kind is ModelKind.DECODER
        given_tokens = long_length(self.prompt, spread_given=self.prompt_spread_given) + generates * long_length(
            self.output, spread_given=self.output_spread_given
        )
        if arrivals.load not in (Load.OPEN, Load.CLOSED) or arrivals.is_personal(assumed):
            return round_up_tokens(given_tokens)
        spread = long_length(self.prompt, spread_given=True) + generates * long_length(self.output, spread_given=True)
        return round_up_tokens(max(given_tokens, min(spread, model.max_context_tokens or MAX_SEQUENCE_TOKENS)))


def round_up_tokens(tokens: float) -> float:
    """Round tokens up to an integer; rounding errors do not add a token."""
    return float(math.ceil(round(tokens, 6)))


def longest_context_tokens(
    model: ModelArchitecture,
    arrivals: Arrivals,
    longest: LongestSequence,
    requested: float | None,
    assumed: Assumptions,
) -> float:
    """Maximum tokens of a sequence: as requested, or from the lengths.

    Raises Unanswerable if model, load and lengths contradict one another.
    """
    generates = model.kind is ModelKind.DECODER
    if generates and longest.output.mean < 1:
        raise Unanswerable.at(
            "#/workload/traffic/output_tokens",
            "A model that generates tokens needs output_tokens of at least 1. Only embedding models in the catalog "
            "accept output_tokens 0.",
        )
    if arrivals.samples and model.kind is not ModelKind.SAMPLES:
        raise Unanswerable.at(
            "#/workload/traffic/samples_per_s",
            "samples_per_s applies only to models that process samples. Use peak_requests_per_s for this model.",
        )
    if requested is not None and requested < longest.prompt.mean + (longest.output.mean if generates else 0):
        mean = longest.prompt.mean + (longest.output.mean if generates else 0)
        raise Unanswerable.at(
            "#/workload/max_context_tokens",
            "max_context_tokens is smaller than the sum of mean input and output tokens. Set it to at least "
            f"{math.ceil(mean):,} or omit it.",
        )
    tokens = longest.planned_tokens(model, arrivals, assumed) if requested is None else float(requested)
    if requested is None:
        reject_long_context(model, tokens, "needed for long prompts and answers", "traffic/input_tokens")
    else:
        reject_long_context(model, tokens, "requested", "max_context_tokens")
    return tokens


def reject_long_context(model: ModelArchitecture, tokens: float, origin: str, field: str) -> None:
    """Raises Unanswerable at a field of the workload if a sequence has more tokens than the model takes."""
    if model.max_context_tokens and tokens > model.max_context_tokens and model.sample is None:
        raise Unanswerable.at(
            f"#/workload/{field}",
            f"The context of {tokens:,.0f} tokens {origin} is too long: {model.name} takes at most "
            f"{model.max_context_tokens:,} tokens for prompt and answer together."
            f"{describe_extension(model.name, tokens)}",
        )


REDUNDANCIES = ("none", "n+1", "n+2", "2n")


class FailureDomain(StrEnum):
    """What fails at once. Each domain contains those before it."""

    ACCELERATOR = "accelerator"
    MACHINE = "machine"
    ZONE = "zone"


@dataclass(frozen=True, slots=True)
class Redundancy:
    """Failure domains that can be lost while the rest still carries the peak. 2n doubles the capacity as well.

    With several zones, any one of them can be lost too, whatever the domain. Without redundancy, zones only spread
    the replicas.
    """

    spare: int = 0  # failure domains that can be lost
    double: bool = False  # twice the capacity (2n)
    zones: int = 1  # zones over which the replicas are spread
    domain: FailureDomain = FailureDomain.MACHINE

    @classmethod
    def from_label(cls, label: str, *, zones: int = 1, domain: str | None = None) -> Redundancy:
        """Build from a label: none, n+1, n+2 or 2n of accelerators, machines (the default) or zones.

        Raises Unanswerable if no zone would be left.
        """
        spare = int(label.removeprefix("n+")) if label.startswith("n+") else 0
        failure_domain = FailureDomain(domain or FailureDomain.MACHINE)
        redundancy = cls(spare=spare, double=label == "2n", zones=zones, domain=failure_domain)
        if redundancy.domains_lost and failure_domain is FailureDomain.ZONE and zones <= redundancy.domains_lost:
            raise Unanswerable.at(
                "#/workload/availability/zones",
                f"Redundancy {label} with failure_domain zone leaves no zone of {zones}. Set zones to at least "
                f"{redundancy.domains_lost + 1}, or set failure_domain to machine.",
            )
        return redundancy

    @property
    def label(self) -> str:
        return "2n" if self.double else f"n+{self.spare}" if self.spare else "none"

    @property
    def domains_lost(self) -> int:
        """Failure domains that can be lost at once."""
        return 1 if self.double else self.spare

    @property
    def machines_lost(self) -> int:
        """Machines that can be lost at once."""
        return 0 if self.domain is FailureDomain.ACCELERATOR else self.domains_lost

    @property
    def zones_lost(self) -> int:
        """Zones that can be lost at once: the requested number if zones are the domain, else one if there are
        several.
        """
        if self.domain is FailureDomain.ZONE:
            return self.domains_lost
        return min(1, self.domains_lost) if self.zones > 1 else 0

    def with_spare(self, spare: int) -> Redundancy:
        """The same zones with another number of failure domains to lose; machines are the domain if there are too few
        zones.
        """
        few = self.domain is FailureDomain.ZONE and self.zones <= spare
        return replace(self, spare=spare, double=False, domain=FailureDomain.MACHINE if few else self.domain)


class Router(StrEnum):
    """How a gateway chooses the replica of a request."""

    LEAST_LOADED = "least_loaded"  # the replica with the least work left
    ROUND_ROBIN = "round_robin"  # the replicas in turn
    RANDOM = "random"
    PREFIX_AWARE = "prefix_aware"  # the replica whose cache holds the session's prefix


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
    target_utilization: float  # share of a replica's stable rate that the peak may use
    encoder_flops_per_request: float = 0.0  # FLOPs of the image encoder per request
    images: PromptImages | None = None  # images in each request; None without, or where classes differ
    most_personal_in_flight: float = Assumptions.default_value("most_personal_in_flight")
    volume_requests: float | None = None  # requests or samples of offline work that ends
    deadline_s: float | None = None  # time within which the volume must be finished
    shared_prefix_fraction: float = 0.0  # share of the prompt that all requests have in common
    turn_gap_s: float = 0.0  # time from a session's answer to its next request
    uncounted_prefix_fraction: float = 0.0  # share of the prompt that a session could cache; every prompt computes it
    requests: float | None = None  # requests of a run that starts empty and ends, `in_flight` at a time
    hourly_shares: Shares = ()  # hourly load over that of the busiest hour (`peak_per_s`); empty: not given
    trace: Trace | None = None  # recorded arrivals; `peak_per_s` is the rate of their busiest window
    comes_read: bool = False  # prompts arrive with their KV cache from a prefill pool
    derived: tuple[Assumed, ...] = ()  # values derived from other inputs
    classes: tuple[TrafficClass, ...] = ()  # classes that share the service; the fields above describe their mixture
    router: Router = Router.LEAST_LOADED  # how requests are spread over the replicas

    def with_relaxed_limits(self, times: float) -> InferenceWorkload:
        """The same workload with limits that are a number of times the assumed ones."""
        derived = tuple(a.relaxed(times) if a.name in LIMIT_NAMES else a for a in self.derived)
        return replace(self, slo=self.slo.relaxed(times), derived=derived)

    @property
    def stays_in_step(self) -> bool:
        """True if equal requests follow each other, so that those that start together also end together."""
        alike = self.input_tokens.squared_variation == 0 and self.output_tokens.squared_variation == 0
        return self.load in (Load.CLOSED, Load.OFFLINE) and alike

    @property
    def assumed_times(self) -> float | None:
        """How many times the usual limits those of this service are; None if the request sets limits."""
        return self.slo.assumed_times

    @property
    def balances_load(self) -> bool:
        """True if the router avoids busy replicas, so that their queues act almost as one."""
        return self.router is Router.LEAST_LOADED and self.load is Load.OPEN

    def pool_size(self, rate_per_s: Column) -> Column:
        """Replicas that share the peak if each gets this rate, as the queue formulas count them; at least one."""
        if not self.balances_load:
            return np.ones(len(rate_per_s))
        return np.maximum(self.peak_per_s / np.maximum(rate_per_s, LEAST_PER_S), 1.0)

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

    def draw_lengths(self, prompts: Quantiles, answers: Quantiles, kinds: Column | None = None) -> tuple[Codes, Codes]:
        """Prompt and answer lengths at the given quantiles, cut off at the model's context window.

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
        return replace(self, classes=(), **{name: getattr(traffic_class, name) for name in CLASS_FIELDS})

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
    def uncached_prompt_tokens(self) -> float:
        """Mean prompt without its cached prefix, tokens."""
        return self.input_tokens.mean * (1 - self.cached_prefix_fraction)

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

    @property
    def without_session_hits(self) -> InferenceWorkload | None:
        """The same workload with hits only of what all requests share, behind a router by load unless the request names
        one; None if no session has a prefix of its own to keep.
        """
        own = self.cached_prefix_fraction - self.shared_prefix_fraction
        if own <= 0 or not self.keeps_prefixes:
            return None
        asked = any(a.name == "router" and a.asked for a in self.derived)
        router = self.router if asked else Router.LEAST_LOADED
        derived = tuple(replace(a, value=router.value) if a.name == "router" else a for a in self.derived)
        without = replace(self, uncounted_prefix_fraction=own, router=router, derived=derived)
        if self.shared_prefix_fraction > 0:
            return replace(without, cached_prefix_fraction=self.shared_prefix_fraction)
        return without.without_hits


@dataclass(frozen=True, slots=True)
class PrefixHits:
    """Prefix cache hits of a prompt and how long the cache must keep them. `turn_gap_s` None means the default gap."""

    cached_fraction: float = 0.0  # share of prompt tokens found in the prefix cache
    shared_fraction: float = 0.0  # part of it that all requests have in common, as a share of the prompt
    turn_gap_s: float | None = None

    def behind_router(self, router: Router | None) -> PrefixHits:
        """The hits that remain if the router does not send a session to the replica with its prefix: of what all
        requests share. None is a router that does.
        """
        if router in (None, Router.PREFIX_AWARE) or self.turn_gap_s == 0:
            return self
        return PrefixHits(self.shared_fraction, self.shared_fraction, self.turn_gap_s)

    def usual_router(self, load: Load, assumed: Assumptions) -> Router:
        """The router that finds these hits again: any one finds what all requests share."""
        own = self.cached_fraction > self.shared_fraction and load in (Load.OPEN, Load.CLOSED)
        return Router.PREFIX_AWARE if own and self.gap_s(load, assumed) > 0 else Router.LEAST_LOADED

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
    router: Router | None = None,
) -> InferenceWorkload:
    """Build a complete serving workload from the given parts; None means the default.

    Raises Unanswerable if the parts contradict one another.
    """
    prompt, output = usual_lengths(model, input_tokens, output_tokens, assumed)
    model, prompt, image_flops = add_images(model, prompt, images)
    limits, personal = limits or Limits(), arrivals.is_personal(assumed)
    hits = (hits or PrefixHits()).behind_router(router)
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
        slo=build_slo(limits, model, arrivals.load, prompt.mean, assumed, personal=personal),
        redundancy=redundancy or Redundancy(),
        target_utilization=usual_utilization(arrivals, assumed) if target_utilization is None else target_utilization,
        encoder_flops_per_request=image_flops,
        images=images,
        most_personal_in_flight=assumed.most_personal_in_flight if arrivals.in_flight else 0.0,
        volume_requests=arrivals.volume_requests,
        deadline_s=arrivals.deadline_s,
        requests=arrivals.requests,
        hourly_shares=arrivals.hourly_shares,
        router=router or hits.usual_router(arrivals.load, assumed),
    )
    explicit_names = availability_asked | explicit_fields(input_tokens=input_tokens, output_tokens=output_tokens)
    explicit_names |= explicit_fields(max_context_tokens=max_context_tokens, average_requests_per_s=average_per_s)
    explicit_names |= explicit_fields(turn_gap_s=hits.turn_gap_s, router=router)
    limited = limit_assumptions(limits, workload.slo, personal=personal)
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

    A mean without a spread gets the default spread. No length has an endless tail: it ends at a percentile, or where
    the model's context window ends.
    """
    if prompt is None:
        prompt = 1.0 if model.sample is not None else assumed.default_input_tokens
    if output is None:
        output = assumed.default_output_tokens if model.kind is ModelKind.DECODER else 0.0
    window = model.max_context_tokens or math.inf
    shaped = add_default_spread(prompt, assumed), add_default_spread(output, assumed)
    return shaped[0].cut_at(assumed.longest_percentile, window), shaped[1].cut_at(assumed.longest_percentile, window)


def add_default_spread(length: Lengths | float, assumed: Assumptions) -> Lengths:
    """A length distribution; a mean gets the default spread, alone or with a longest value."""
    if not isinstance(length, Lengths):
        return Lengths(length) if length <= 1 else Lengths(length, length * assumed.length_p95_to_mean)
    if length.longest is not None and length.p95 is None:
        return replace(length, p95=min(length.mean * assumed.length_p95_to_mean, length.longest))
    return length


def explicit_fields(**parts: object) -> frozenset[str]:
    """Names of the arguments that are not None."""
    return frozenset(name for name, value in parts.items() if value is not None)


def traffic_assumptions(w: InferenceWorkload, explicit_names: frozenset[str]) -> tuple[Assumed, ...]:
    """Assumptions about the traffic, as an answer lists them.

    Values in `explicit_names` come from the request; the others are defaults.
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
    if w.load is Load.OPEN and not w.single_pass:
        spread = "how a gateway chooses the replica of a request", "assumed: usual gateways"
        shown.append(Assumed("router", w.router.value, "text", *spread, asked="router" in explicit_names))
    spare = w.redundancy
    kept = "spare capacity for failures"
    shown.append(Assumed("redundancy", spare.label, "text", kept, "assumed", asked="redundancy" in explicit_names))
    if spare.label != "none":
        lost, named = "what can fail at once", "failure_domain"
        shown.append(
            Assumed(named, spare.domain.value, "text", lost, "assumed: usual failure", asked=named in explicit_names)
        )
    return tuple(shown)


@dataclass(frozen=True, slots=True)
class Companion:
    """A model with its own traffic and limits, and the name that the request gives it."""

    name: str
    workload: InferenceWorkload


MIN_CLASS_SHARE = 0.01  # minimum share of a class; a simulation has too few requests of a smaller one for percentiles
# Values that apply to the whole service.
SERVICE_WIDE_NAMES = ("max_context_tokens", "router", "redundancy", "failure_domain")


def build_mixed_workload(parts: Sequence[tuple[str, InferenceWorkload]]) -> InferenceWorkload:
    """One service for several named workloads, sorted by name.

    Raises Unanswerable if they cannot share a service.
    """
    parts = sorted(parts, key=lambda part: part[0])
    first = parts[0][1]
    if first.model.kind is not ModelKind.DECODER:
        raise Unanswerable.at(
            "#/workload/traffic/classes",
            "traffic.classes supports only models that generate tokens. Send one request per class for other models.",
        )
    classes = tuple(to_traffic_class(name, part) for name, part in parts)
    total = sum(c.peak_per_s for c in classes)
    for i, each in enumerate(classes):
        if each.peak_per_s < MIN_CLASS_SHARE * total:
            raise Unanswerable.at(
                f"#/workload/traffic/classes/{i}",
                f"Class {each.name!r} has less than {percent(MIN_CLASS_SHARE)} of the requests, too few to estimate "
                "its latencies. Omit it, or size it separately.",
            )
    return replace(
        first,
        images=None,
        peak_per_s=total,
        average_per_s=sum(c.average_per_s for c in classes),
        burstiness=mixed_burstiness(classes),
        target_utilization=min(part.target_utilization for _, part in parts),
        input_tokens=Lengths.from_mixture([(p.share, p.input_tokens) for p in group_populations(classes)]),
        output_tokens=Lengths.from_mixture([(p.share, p.output_tokens) for p in group_populations(classes)]),
        slo=common_slo(classes),
        max_context_tokens=max(c.max_context_tokens for c in classes),
        derived=merge_derived(parts),
        classes=classes,
    )


def to_traffic_class(name: str, part: InferenceWorkload) -> TrafficClass:
    """The traffic class with the parts of a workload that differ between classes."""
    return TrafficClass(name, **{field: getattr(part, field) for field in CLASS_FIELDS})


def merge_derived(parts: Sequence[tuple[str, InferenceWorkload]]) -> tuple[Assumed, ...]:
    """Defaults of each class, prefixed with its name, and the service-wide values of the class with the longest
    context.
    """
    longest = max((part for _, part in parts), key=lambda part: part.max_context_tokens)
    chosen = (
        replace(a, name=f"{name}: {a.name}")
        for name, part in parts
        for a in part.derived
        if a.name not in SERVICE_WIDE_NAMES and not a.asked
    )
    return (*chosen, *(a for a in longest.derived if a.name in SERVICE_WIDE_NAMES))


def with_class_limit(workload: InferenceWorkload, name: str, limit: str, seconds: float | None) -> InferenceWorkload:
    """The same workload with another limit for one class."""
    classes = tuple(
        replace(c, slo=replace(c.slo, **{limit: seconds})) if c.name == name else c  # type: ignore[arg-type]
        for c in workload.classes
    )
    return replace(workload, classes=classes, slo=common_slo(classes))
