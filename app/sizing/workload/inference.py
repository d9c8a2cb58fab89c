"""Serving: how requests arrive, how long they are, what their users may be kept waiting."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from app.errors import Unanswerable
from app.sizing.assumptions import Assumed, Assumptions
from app.sizing.formula import formula
from app.sizing.model.architecture import ModelArchitecture, ModelKind
from app.sizing.units import SECONDS_PER_HOUR
from app.sizing.workload.lengths import Lengths
from app.sizing.workload.redundancy import Redundancy


class Load(StrEnum):
    """How requests arrive."""

    OPEN = "open"  # a rate, whatever the service does
    CLOSED = "closed"  # a fixed number in flight
    BATCH = "batch"  # a static batch that starts together
    OFFLINE = "offline"  # everything queued at once


@dataclass(frozen=True, slots=True)
class Slo:
    """Limits in seconds that `percentile` of requests must meet; None: no limit."""

    ttft_s: float | None
    tpot_s: float | None
    e2e_s: float | None
    percentile: float


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
    def tokens_per_request(self) -> float:
        return self.input_tokens.mean + self.output_tokens.mean


@dataclass(frozen=True, slots=True)
class Arrivals:
    """How requests arrive. `samples`: they were counted in samples."""

    load: Load
    peak_per_s: float = 0.0
    in_flight: float = 0.0
    samples: bool = False
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
    told = Assumed("peak_requests_per_s", peak, "1/s", "load that is planned for: users times busy_hour_factor")
    return Arrivals(Load.OPEN, peak_per_s=peak, derived=(told,))


@dataclass(frozen=True, slots=True)
class Limits:
    """What was asked for of an Slo; None is chosen, or no limit where another is given."""

    ttft_s: float | None = None
    tpot_s: float | None = None
    e2e_s: float | None = None
    percentile: float | None = None


@dataclass(frozen=True, slots=True)
class PromptImages:
    """Images that come with every request, in pixels."""

    width: int
    height: int
    per_request: float = 1.0


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
    cached_prefix_fraction: float = 0.0,
    limits: Limits | None = None,
    max_context_tokens: float | None = None,
    redundancy: Redundancy | None = None,
    target_utilization: float | None = None,
) -> InferenceWorkload:
    """A complete workload from what was said of it; None is chosen. Raises Unanswerable where the parts contradict."""
    in_samples = model.sample is not None
    prompt = input_tokens or Lengths(1.0 if in_samples else assumed.default_input_tokens)
    output = output_tokens or Lengths(0.0 if in_samples else assumed.default_output_tokens)
    model, prompt, image_flops = with_images(model, prompt, images)
    if average_per_s is None:
        average_per_s = arrivals.peak_per_s * assumed.average_to_peak if arrivals.load is Load.OPEN else 0.0
    if target_utilization is None:
        target_utilization = assumed.target_utilization if arrivals.load is Load.OPEN else 1.0
    return InferenceWorkload(
        model=model,
        load=arrivals.load,
        peak_per_s=arrivals.peak_per_s,
        average_per_s=average_per_s,
        in_flight=arrivals.in_flight,
        burstiness=burstiness,
        input_tokens=prompt,
        output_tokens=output,
        cached_prefix_fraction=cached_prefix_fraction,
        max_context_tokens=context_tokens(model, arrivals, prompt, output, max_context_tokens, assumed),
        slo=slo_of(limits or Limits(), model, arrivals.load, assumed),
        redundancy=redundancy or Redundancy(),
        target_utilization=target_utilization,
        encoder_flops_per_request=image_flops,
        most_personal_in_flight=assumed.most_personal_in_flight if arrivals.in_flight else 0.0,
        derived=arrivals.derived,
    )


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


def slo_of(asked: Limits, model: ModelArchitecture, load: Load, assumed: Assumptions) -> Slo:
    """The limits asked for, or the usual ones of an open service; offline and batch work has none."""
    percentile = assumed.default_percentile if asked.percentile is None else asked.percentile
    if asked.ttft_s or asked.tpot_s or asked.e2e_s:
        return Slo(asked.ttft_s, asked.tpot_s, asked.e2e_s, percentile)
    if load is not Load.OPEN:
        return Slo(None, None, None, percentile)
    if model.kind is not ModelKind.DECODER:
        return Slo(None, None, assumed.default_e2e_ms / 1e3, percentile)
    return Slo(assumed.default_ttft_ms / 1e3, assumed.default_tpot_ms / 1e3, None, percentile)


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
