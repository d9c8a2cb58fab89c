"""Serving: how requests arrive, how long they are, what their users may be kept waiting."""

from __future__ import annotations

from dataclasses import dataclass, replace

from app.errors import Unanswerable
from app.sizing.assumptions import Assumed, Assumptions
from app.sizing.formula import formula
from app.sizing.model.architecture import ModelArchitecture, ModelKind
from app.sizing.units import SECONDS_PER_HOUR
from app.sizing.workload.lengths import Lengths
from app.sizing.workload.limits import Limits, Load, Slo, limits_told, slo_of
from app.sizing.workload.redundancy import Redundancy

MOST_TOKENS = 1e8  # of a sequence, where a model says nothing
LONGEST_TURN_GAP_S = 604_800.0  # a week


@dataclass(frozen=True, slots=True)
class InferenceWorkload:
    """Traffic on one model. `peak_per_s` holds requests (or samples) per second for open load."""

    model: ModelArchitecture
    load: Load
    peak_per_s: float
    average_per_s: float
    in_flight: float
    burstiness: float
    input_tokens: Lengths
    output_tokens: Lengths
    cached_prefix_fraction: float
    slo: Slo
    max_context_tokens: float
    redundancy: Redundancy
    target_utilization: float
    encoder_flops_per_request: float = 0.0  # of the images that come with a prompt
    most_personal_in_flight: float = Assumptions.usual("most_personal_in_flight")
    volume_requests: float | None = None  # of offline work that ends, requests or samples
    deadline_s: float | None = None  # by which a volume is to be done
    shared_prefix_fraction: float = 0.0  # of the prompt, what every request begins with
    turn_gap_s: float = 0.0  # from a session's answer to its next request
    derived: tuple[Assumed, ...] = ()  # figures reckoned from what was said otherwise

    @property
    def single_pass(self) -> bool:
        """Whether a request is one unit of work rather than a stream of tokens."""
        return self.model.sample is not None or self.model.kind.value == "encoder"

    @property
    def personal(self) -> bool:
        """Use by one person or very few: a fixed handful of requests in flight."""
        return self.load in (Load.CLOSED, Load.BATCH) and self.in_flight <= self.most_personal_in_flight

    @property
    def serves_many(self) -> bool:
        """A service that people or programs wait for, more than a handful of them."""
        return self.load in (Load.OPEN, Load.CLOSED) and not self.personal

    @property
    def ends(self) -> bool:
        """Whether the work is done some day, and its machines are given back."""
        return self.volume_requests is not None

    @property
    def tokens_per_request(self) -> float:
        return self.input_tokens.mean + self.output_tokens.mean

    @property
    def keeps_prefixes(self) -> bool:
        """Whether hits are counted on what sessions left in the cache some time ago."""
        return (
            self.cached_prefix_fraction > 0
            and self.turn_gap_s > 0
            and self.load in (Load.OPEN, Load.CLOSED)
            and not self.single_pass
        )

    @property
    def without_hits(self) -> InferenceWorkload:
        """The same where nothing of a prompt is found in the cache."""
        return replace(self, cached_prefix_fraction=0.0, shared_prefix_fraction=0.0, turn_gap_s=0.0)


@dataclass(frozen=True, slots=True)
class Arrivals:
    """How requests arrive. `samples`: they were counted in samples."""

    load: Load
    peak_per_s: float = 0.0
    in_flight: float = 0.0
    samples: bool = False
    volume_requests: float | None = None
    deadline_s: float | None = None
    derived: tuple[Assumed, ...] = ()


@formula(unit="requests/s", source="definition")
def busy_hour_requests_per_s(requests_per_hour: float, assumed: Assumptions) -> float:
    """Requests per second in the busiest minute, from what users ask in an hour.

    Check:
        >>> busy_hour_requests_per_s(40 * 12, Assumptions())
        0.4
    """
    return requests_per_hour / SECONDS_PER_HOUR * assumed.busy_hour_factor


def arrivals_of_users(count: float, requests_per_hour_each: float, assumed: Assumptions) -> Arrivals:
    """People rather than a rate, by the busy-hour rule."""
    peak = busy_hour_requests_per_s(count * requests_per_hour_each, assumed)
    low, high = Assumptions.bounds("busy_hour_factor")
    told = Assumed(
        "peak_requests_per_s",
        peak,
        "1/s",
        "load that is planned for: users times busy_hour_factor",
        "users",
        (peak * low / assumed.busy_hour_factor, peak * high / assumed.busy_hour_factor),
    )
    return Arrivals(Load.OPEN, peak_per_s=peak, derived=(told,))


@dataclass(frozen=True, slots=True)
class PromptImages:
    """Images that come with every request, in pixels."""

    width: int
    height: int
    per_request: float = 1.0


@dataclass(frozen=True, slots=True)
class Hits:
    """What of a prompt is found in the cache, and how long it must wait there; None: the usual gap."""

    cached_fraction: float = 0.0
    shared_fraction: float = 0.0  # of which every request begins with
    turn_gap_s: float | None = None

    def gap_s(self, load: Load, assumed: Assumptions) -> float:
        """From a session's answer to its next request; none where nothing is cached for one."""
        if self.turn_gap_s is not None:
            return self.turn_gap_s
        return assumed.session_turn_gap_s if self.cached_fraction > 0 and load in (Load.OPEN, Load.CLOSED) else 0.0


def inference_workload(
    model: ModelArchitecture,
    arrivals: Arrivals,
    assumed: Assumptions,
    *,
    input_tokens: Lengths | None = None,
    output_tokens: Lengths | None = None,
    images: PromptImages | None = None,
    average_per_s: float | None = None,
    burstiness: float = 1.0,
    hits: Hits | None = None,
    limits: Limits | None = None,
    max_context_tokens: float | None = None,
    redundancy: Redundancy | None = None,
    availability_asked: frozenset[str] = frozenset(),
    target_utilization: float | None = None,
) -> InferenceWorkload:
    """A complete workload from what was said of it; None is chosen. Raises Unanswerable where the parts contradict."""
    prompt, output = usual_lengths(model, input_tokens, output_tokens, assumed)
    model, prompt, image_flops = with_images(model, prompt, images)
    asked, hits = limits or Limits(), hits or Hits()
    personal = arrivals.load is Load.CLOSED and arrivals.in_flight <= assumed.most_personal_in_flight
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
        max_context_tokens=context_tokens(model, arrivals, prompt, output, max_context_tokens, assumed),
        slo=slo_of(asked, model, arrivals.load, prompt.mean, assumed, personal=personal),
        redundancy=redundancy or Redundancy(),
        target_utilization=usual_utilization(arrivals, assumed) if target_utilization is None else target_utilization,
        encoder_flops_per_request=image_flops,
        most_personal_in_flight=assumed.most_personal_in_flight if arrivals.in_flight else 0.0,
        volume_requests=arrivals.volume_requests,
        deadline_s=arrivals.deadline_s,
    )
    lengths = said(input_tokens=input_tokens, output_tokens=output_tokens, max_context_tokens=max_context_tokens)
    given = availability_asked | lengths | said(average_requests_per_s=average_per_s, turn_gap_s=hits.turn_gap_s)
    limited = limits_told(asked, workload.slo, personal=personal)
    return replace(workload, derived=(*arrivals.derived, *told(workload, given), *limited))


def usual_average_per_s(arrivals: Arrivals, assumed: Assumptions) -> float:
    """Requests per second over a day where nobody says; of a rate only."""
    return arrivals.peak_per_s * assumed.average_to_peak if arrivals.load is Load.OPEN else 0.0


def usual_utilization(arrivals: Arrivals, assumed: Assumptions) -> float:
    """Share of its capacity that a replica carries where nobody says: all of it where nobody comes unforeseen."""
    return assumed.target_utilization if arrivals.load is Load.OPEN else 1.0


def usual_lengths(
    model: ModelArchitecture, prompt: Lengths | None, output: Lengths | None, assumed: Assumptions
) -> tuple[Lengths, Lengths]:
    """Prompt and answer as given, or the usual ones of what the model is."""
    tokens = assumed.default_output_tokens if output is None and model.kind is ModelKind.DECODER else 0.0
    if prompt is None:
        prompt = Lengths(1.0 if model.sample is not None else assumed.default_input_tokens)
    return prompt, output or Lengths(tokens)


def said(**parts: object) -> frozenset[str]:
    """The names of what is not None."""
    return frozenset(name for name, value in parts.items() if value is not None)


def told(w: InferenceWorkload, given: frozenset[str]) -> tuple[Assumed, ...]:
    """What the traffic rests on as an answer shows it; `given` was said, the rest chosen."""

    def figure(name: str, value: float, unit: str, reason: str, source: str, bounds: tuple[float, float]) -> Assumed:
        return Assumed(name, value, unit, reason, source, bounds, asked=name in given)

    prompt, output, longest = w.input_tokens.mean, w.output_tokens.mean, w.model.max_context_tokens or MOST_TOKENS
    shown: list[Assumed] = []
    if w.load is Load.OPEN:
        prices = "load that prices tokens", "average_to_peak"
        shown.append(figure("average_requests_per_s", w.average_per_s, "1/s", *prices, (0.0, w.peak_per_s)))
    if w.model.kind is not ModelKind.SAMPLES:
        shown.append(figure("input_tokens", prompt, "tokens", "mean prompt", "default_input_tokens", (1.0, longest)))
    if w.model.kind is ModelKind.DECODER:
        shown.append(figure("output_tokens", output, "tokens", "mean answer", "default_output_tokens", (1.0, longest)))
        longer = "of the longest sequence", "context_percentile"
        bounds = (prompt + output, max(longest, prompt + output))
        shown.append(figure("max_context_tokens", w.max_context_tokens, "tokens", *longer, bounds))
    if w.cached_prefix_fraction > 0 and w.load in (Load.OPEN, Load.CLOSED) and not w.single_pass:
        between = "from an answer to the session's next request", "session_turn_gap_s"
        shown.append(figure("turn_gap_s", w.turn_gap_s, "s", *between, (0.0, LONGEST_TURN_GAP_S)))
    spare = w.redundancy
    shown.append(Assumed("redundancy", spare.label, "text", "spare replicas", "chosen", asked="redundancy" in given))
    if spare.label != "none":
        lost, named = "what may be lost at once", "failure_domain"
        shown.append(Assumed(named, spare.domain.value, "text", lost, "chosen: the usual loss", asked=named in given))
    return tuple(shown)


def context_tokens(
    model: ModelArchitecture,
    arrivals: Arrivals,
    prompt: Lengths,
    output: Lengths,
    asked: float | None,
    assumed: Assumptions,
) -> float:
    """Tokens the longest sequence may have: as asked, or a long prompt with a long answer.

    Raises Unanswerable where model, load and lengths contradict one another.
    """
    generates = model.kind is ModelKind.DECODER
    if generates and output.mean < 1:
        raise Unanswerable(
            "A model that generates tokens needs output_tokens of at least 1; an embedding model of the catalogue "
            "takes output_tokens 0."
        )
    if arrivals.samples and model.kind is not ModelKind.SAMPLES:
        raise Unanswerable("samples_per_s is for models that work on samples; this one takes peak_requests_per_s.")
    if asked is None:
        asked = prompt.mean + output.mean
        if prompt.sigma > 0 or output.sigma > 0:
            share = assumed.context_percentile
            longest = prompt.quantile(share) + output.quantile(share) if generates else prompt.quantile(share)
            asked = max(longest, asked)
    if model.max_context_tokens and asked > model.max_context_tokens and model.sample is None:
        raise Unanswerable(
            f"A context of {asked:,.0f} tokens was asked for; {model.name} takes at most {model.max_context_tokens:,}."
        )
    if asked < prompt.mean + (output.mean if generates else 0):
        raise Unanswerable("max_context_tokens is smaller than the mean input and output together.")
    return float(asked)


def with_images(
    model: ModelArchitecture, prompt: Lengths, images: PromptImages | None
) -> tuple[ModelArchitecture, Lengths, float]:
    """The model and prompt with the images of a request, and the FLOPs of reading them.

    Tokens of the images join the prompt; where layers cross to the image instead, its keys and values are kept
    for the whole sequence. Raises Unanswerable for a model that takes no images.
    """
    if images is None:
        return model, prompt, 0.0
    if model.images is None:
        raise Unanswerable(f"{model.name} takes no images; traffic.images is for vision-language models.")
    width, height, count = images.width, images.height, images.per_request
    tokens = count * model.images.tokens(width, height)
    kept = count * model.images.patches(width, height) * model.cross_kv_bytes_per_source_token
    one = count == 1
    note = (
        f"{count:g} image{'' if one else 's'} of {width} x {height} pixels add{'s' if one else ''} "
        f"{tokens:,.0f} tokens to a prompt"
    )
    model = replace(
        model, state_bytes_per_sequence=model.state_bytes_per_sequence + kept, assumed=(*model.assumed, note)
    )
    longer = Lengths(prompt.mean + tokens, None if prompt.p95 is None else prompt.p95 + tokens)
    return model, longer, count * model.image_flops(width, height)
