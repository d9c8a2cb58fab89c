"""Service figures from the metrics of vLLM, SGLang, TensorRT-LLM and Text Generation Inference, newest names first.

Metrics of SGLang.

Source: sgl-project/sglang, python/sglang/srt/observability/metrics_collector.py (0.5, before srt/metrics/collector.py,
0.4 on), docs/references/production_metrics.md, read 2026-11-23. Names: time_per_output_token_seconds counts gaps
between tokens; it became inter_token_latency_seconds with 0.4.6. num_retracted_requests_total exists since 0.5.
cache_hit_rate covers only the last prefill and is the last choice.

Metrics of TensorRT-LLM, served by trtllm-serve, Dynamo or Triton.

Source: NVIDIA/TensorRT-LLM, tensorrt_llm/metrics/collector.py (1.1 on; five of them in 1.1, the rest since 1.3), and
triton_backend's metrics reporter with Triton's own user_guide/metrics (24.05 on), read 2026-11-23. Dynamo before 0.8
writes trtllm: instead of trtllm_.
Limits: Triton counts a request once per model of an ensemble; only the model tensorrt_llm is read.

Metrics of Text Generation Inference.

Source: huggingface/text-generation-inference at 3.3.7, router/src/server.rs, router/src/infer/mod.rs,
backends/v3/src/backend.rs and queue.rs, read 2026-11-23; the same names since 1.0.
Limits: TGI has no TTFT metric; queue time plus prefill time is used. Its mean time per token includes the prefill;
the time of a decode step of the batch is used instead if the text contains it.

Metrics of vLLM.

Source: vllm-project/vllm, vllm/v1/metrics/loggers.py, vllm/v1/spec_decode/metrics.py (0.8 on) and
vllm/engine/metrics.py (0.4 to 0.10), read 2026-11-23; docs.vllm.ai/en/v0.32.0/usage/metrics. Names: with 0.9
gpu_cache_usage_perc became kv_cache_usage_perc and gpu_prefix_cache_* became prefix_cache_*.
time_per_output_token_seconds counts gaps between tokens; with 0.11 it became inter_token_latency_seconds, and
request_time_per_output_token_seconds was added (pull request 24015).

Metrics of LMDeploy.

Source: InternLM/lmdeploy, lmdeploy/metrics/loggers.py, read 2026-11-26. time_per_output_token_seconds is observed once
per engine step, so its count decides whether it is a gap or a request.

Metrics of the llama.cpp server.

Source: ggml-org/llama.cpp, tools/server; metric names seen in tools that read them, 2026-11-26. The server has no
histograms; seconds of generation over generated tokens give the mean time per token of a request.

Metrics of the Dynamo frontend.

Source: ai-dynamo/dynamo, its guide to metrics, read 2026-11-26; dynamo_component_gpu_cache_usage_percent is recalled.
inflight_requests includes queued_requests, and the frontend covers all workers of a model.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace

from app.observed.exposition import Histogram, Metric, Series, Source, canonical_name
from app.observed.figures import Figure, Reading, RunContext
from app.sizing.columns import SECONDS_PER_DAY, SECONDS_PER_HOUR
from app.sizing.diagnosis.case import LoadObservation

Names = tuple[Metric, ...]


@dataclass(frozen=True, slots=True)
class Engine:
    """Metrics of an engine by their canonical names.

    `prefix`: metric prefix as the engine writes it. `token_times`: histograms per request or per token; their counts
    show which. `first_token_parts`: durations that add up to the TTFT, for engines without a TTFT metric.
    `mean_token_times`: histograms of a mean time per token that includes the prefill, the last choice.
    `token_seconds`: counters of the time in which answer tokens are generated. `in_flight`: running and waiting
    requests together. `covers_fleet`: one text covers all replicas.
    """

    name: str
    prefix: str
    requests: Names
    prompt_tokens: Names = ()
    answer_tokens: Names = ()
    prompt_lengths: Names = ()
    answer_lengths: Names = ()
    first_token: Names = ()
    first_token_parts: Names = ()
    token_times: Names = ()
    queue: Names = ()
    running: Names = ()
    waiting: Names = ()
    cache_usage: Names = ()
    preemptions: Names = ()
    cache_hits: Names = ()
    cache_queries: Names = ()
    hit_rate: Names = ()
    drafted: Names = ()
    accepted: Names = ()
    accepted_share: Names = ()
    errors: Names = ()
    start_s: Names = ()
    mean_token_times: Names = ()
    token_seconds: Names = ()
    in_flight: Names = ()
    covers_fleet: bool = False

    @property
    def all_metrics(self) -> tuple[Metric, ...]:
        values = (getattr(self, f.name) for f in fields(self))
        return tuple(m for names in values if isinstance(names, tuple) for m in names)


SGLANG = Engine(
    name="SGLang",
    prefix="sglang:",
    requests=(Metric("sglang_num_requests_total"), Metric("sglang_e2e_request_latency_seconds_count")),
    prompt_tokens=(Metric("sglang_prompt_tokens_total"),),
    answer_tokens=(Metric("sglang_generation_tokens_total"),),
    prompt_lengths=(Metric("sglang_prompt_tokens_histogram"),),
    answer_lengths=(Metric("sglang_generation_tokens_histogram"),),
    first_token=(Metric("sglang_time_to_first_token_seconds"),),
    token_times=(
        Metric("sglang_inter_token_latency_seconds"),
        Metric("sglang_time_per_output_token_seconds"),
    ),
    queue=(Metric("sglang_queue_time_seconds"),),
    running=(Metric("sglang_num_running_reqs"),),
    waiting=(Metric("sglang_num_queue_reqs"),),
    cache_usage=(Metric("sglang_token_usage"),),
    preemptions=(Metric("sglang_num_retracted_requests_total"),),
    cache_hits=(Metric("sglang_cached_tokens_total"),),
    cache_queries=(Metric("sglang_prompt_tokens_total"),),
    hit_rate=(Metric("sglang_cache_hit_rate"),),
    accepted_share=(Metric("sglang_spec_accept_rate"),),
    errors=(Metric("sglang_num_aborted_requests_total"),),
    start_s=(Metric("sglang_startup_time_seconds", "phase", "tokenizer_e2e"), Metric("sglang_engine_startup_time")),
)


BLOCKS = "nv_trt_llm_kv_cache_block_metrics"
REQUESTS = "nv_trt_llm_request_metrics"

TRTLLM = Engine(
    name="TensorRT-LLM",
    prefix="trtllm_",
    requests=(Metric("trtllm_request_success_total"), Metric("trtllm_num_requests_completed_total")),
    prompt_tokens=(Metric("trtllm_prompt_tokens_total"),),
    answer_tokens=(Metric("trtllm_generation_tokens_total"),),
    first_token=(Metric("trtllm_time_to_first_token_seconds"),),
    token_times=(Metric("trtllm_time_per_output_token_seconds"),),
    queue=(Metric("trtllm_request_queue_time_seconds"),),
    running=(Metric("trtllm_num_requests_running"),),
    waiting=(Metric("trtllm_num_requests_waiting"),),
    cache_usage=(Metric("trtllm_kv_cache_utilization"),),
    cache_hits=(Metric("trtllm_prompt_cached_tokens_total"),),
    cache_queries=(Metric("trtllm_prompt_tokens_total"),),
    hit_rate=(Metric("trtllm_kv_cache_hit_rate"),),
    drafted=(Metric("trtllm_spec_decode_num_draft_tokens_total"),),
    accepted=(Metric("trtllm_spec_decode_num_accepted_tokens_total"),),
    errors=(Metric("trtllm_request_error_total"),),
)
TRITON = Engine(
    name="Triton with TensorRT-LLM",
    prefix="nv_",
    requests=(Metric("nv_inference_request_success", "model", "tensorrt_llm"),),
    prompt_lengths=(Metric("nv_llm_input_token_len", "model", "tensorrt_llm"),),
    answer_lengths=(Metric("nv_llm_output_token_len", "model", "tensorrt_llm"),),
    first_token=(Metric("nv_inference_first_response_histogram_ms", "model", "tensorrt_llm", unit=1e-3),),
    running=(Metric(REQUESTS, "request_type", "scheduled"), Metric(REQUESTS, "request_type", "active")),
    waiting=(Metric(REQUESTS, "request_type", "waiting"),),
    cache_usage=(Metric(BLOCKS, "kv_cache_block_type", "fraction"),),
    errors=(Metric("nv_inference_request_failure", "model", "tensorrt_llm"),),
)


TGI = Engine(
    name="TGI",
    prefix="tgi_",
    requests=(Metric("tgi_request_success"), Metric("tgi_request_duration_count")),
    prompt_lengths=(Metric("tgi_request_input_length"),),
    answer_lengths=(Metric("tgi_request_generated_tokens"),),
    first_token_parts=(
        Metric("tgi_request_queue_duration"),
        Metric("tgi_batch_inference_duration", "method", "prefill"),
    ),
    token_times=(Metric("tgi_batch_inference_duration", "method", "decode"),),
    queue=(Metric("tgi_request_queue_duration"),),
    running=(Metric("tgi_batch_current_size"),),
    waiting=(Metric("tgi_queue_size"),),
    errors=(Metric("tgi_request_failure"),),
    mean_token_times=(Metric("tgi_request_mean_time_per_token_duration"),),
)


VLLM = Engine(
    name="vLLM",
    prefix="vllm:",
    requests=(Metric("vllm_request_success_total"),),
    prompt_tokens=(Metric("vllm_prompt_tokens_total"),),
    answer_tokens=(Metric("vllm_generation_tokens_total"),),
    prompt_lengths=(Metric("vllm_request_prompt_tokens"),),
    answer_lengths=(Metric("vllm_request_generation_tokens"),),
    first_token=(Metric("vllm_time_to_first_token_seconds"),),
    token_times=(
        Metric("vllm_request_time_per_output_token_seconds"),
        Metric("vllm_inter_token_latency_seconds"),
        Metric("vllm_time_per_output_token_seconds"),
    ),
    queue=(Metric("vllm_request_queue_time_seconds"),),
    running=(Metric("vllm_num_requests_running"),),
    waiting=(Metric("vllm_num_requests_waiting"),),
    cache_usage=(Metric("vllm_kv_cache_usage_perc"), Metric("vllm_gpu_cache_usage_perc")),
    preemptions=(Metric("vllm_num_preemptions_total"),),
    cache_hits=(Metric("vllm_prefix_cache_hits_total"), Metric("vllm_gpu_prefix_cache_hits_total")),
    cache_queries=(Metric("vllm_prefix_cache_queries_total"), Metric("vllm_gpu_prefix_cache_queries_total")),
    drafted=(Metric("vllm_spec_decode_num_draft_tokens_total"),),
    accepted=(Metric("vllm_spec_decode_num_accepted_tokens_total"),),
    errors=(Metric("vllm_request_success_total", "finished_reason", "error"),),
)


LMDEPLOY = Engine(
    name="LMDeploy",
    prefix="lmdeploy:",
    requests=(Metric("lmdeploy_request_success_total"),),
    prompt_tokens=(Metric("lmdeploy_prompt_tokens_total"),),
    answer_tokens=(Metric("lmdeploy_generation_tokens_total"),),
    prompt_lengths=(Metric("lmdeploy_request_prompt_tokens"),),
    answer_lengths=(Metric("lmdeploy_request_generation_tokens"),),
    first_token=(Metric("lmdeploy_time_to_first_token_seconds"),),
    token_times=(Metric("lmdeploy_time_per_output_token_seconds"), Metric("lmdeploy_iter_token_latency")),
    queue=(Metric("lmdeploy_request_queue_time_seconds"),),
    running=(Metric("lmdeploy_num_requests_running"),),
    waiting=(Metric("lmdeploy_num_requests_waiting"),),
    cache_usage=(Metric("lmdeploy_gpu_cache_usage_perc"),),
    drafted=(Metric("lmdeploy_spec_decode_num_draft_tokens_total"),),
    accepted=(Metric("lmdeploy_spec_decode_num_accepted_tokens_total"),),
)
LLAMA_CPP = Engine(
    name="llama.cpp",
    prefix="llamacpp:",
    requests=(),
    prompt_tokens=(Metric("llamacpp_prompt_tokens_total"),),
    answer_tokens=(Metric("llamacpp_tokens_predicted_total"),),
    running=(Metric("llamacpp_requests_processing"),),
    waiting=(Metric("llamacpp_requests_deferred"),),
    cache_usage=(Metric("llamacpp_kv_cache_usage_ratio"),),
    cache_hits=(Metric("llamacpp_prompt_tokens_cached_total"),),
    cache_queries=(Metric("llamacpp_prompt_tokens_total"),),
    drafted=(Metric("llamacpp_spec_decode_num_draft_tokens_total"),),
    accepted=(Metric("llamacpp_spec_decode_num_accepted_tokens_total"),),
    token_seconds=(Metric("llamacpp_tokens_predicted_seconds_total"),),
)
DYNAMO = Engine(
    name="the Dynamo frontend",
    prefix="dynamo_",
    requests=(Metric("dynamo_frontend_requests_total"),),
    prompt_lengths=(Metric("dynamo_frontend_input_sequence_tokens"),),
    answer_lengths=(Metric("dynamo_frontend_output_sequence_tokens"),),
    answer_tokens=(Metric("dynamo_frontend_output_tokens_total"),),
    first_token=(Metric("dynamo_frontend_time_to_first_token_seconds"),),
    token_times=(Metric("dynamo_frontend_inter_token_latency_seconds"),),
    waiting=(Metric("dynamo_frontend_queued_requests"),),
    cache_usage=(
        Metric("dynamo_component_kvstats_gpu_cache_usage_percent"),
        Metric("dynamo_component_gpu_cache_usage_percent"),
    ),
    hit_rate=(Metric("dynamo_component_kvstats_gpu_prefix_cache_hit_rate"),),
    errors=(Metric("dynamo_frontend_requests_total", "status", "error"),),
    in_flight=(Metric("dynamo_frontend_inflight_requests"),),
    covers_fleet=True,
)


DISTINCT_LOAD_RATIO = 1.2  # ratio of rates from which loads count as different
MAX_LOADS = 12  # maximum number of loads compared
LOAD_FIELDS = {f.name for f in fields(LoadObservation)}
MAX_OBSERVATIONS_PER_REQUEST = 1.5  # a histogram with more observations per request counts tokens, not requests


class Service:
    """Metrics of an engine over some scrapes."""

    def __init__(self, engine: Engine, series: Series, runs: RunContext) -> None:
        self.engine, self.series, self.runs = engine, series, runs
        sources = runs.replicas if engine.covers_fleet else float(len(series.sources) or 1)
        self.seen = sources if runs.of_replicas is None else runs.of_replicas

    @property
    def replica_factor(self) -> float:
        """Replicas of the deployment over the replicas that the text covers.

        It is at least 1, because several ranks of one replica can report separately.
        """
        return max(1.0, self.runs.replicas / self.seen)

    def first_counter(self, names: Names) -> tuple[Metric, float] | None:
        """The first counter that exists, with its total increase."""
        for metric in names:
            found = self.series.counter_increase(metric)
            if found:
                return metric, math.fsum(found.values())
        return None

    def first_gauge(self, names: Names) -> tuple[Metric, dict[Source, float]] | None:
        """The first gauge that exists, with its mean per engine."""
        return next(((m, found) for m in names if (found := self.series.mean_gauge(m))), None)

    def first_histogram(self, names: Names) -> Histogram | None:
        return next((found for m in names if (found := self.series.merged_histogram(m)) is not None), None)

    def read_all(self) -> Reading:
        """All figures, open points and latencies by load."""
        figures = (
            *self.rate_figures(),
            *self.length_figures(),
            *self.latency_figures(),
            *self.token_gap_figures(),
            *self.state_figures(),
            *self.share_figures(),
        )
        written = self.engine.prefix
        named = (replace(f, source=f.source.replace(canonical_name(written), written)) for f in figures)
        return Reading(tuple(named), notes=tuple(self.open_points()), by_load=self.latencies_by_load())

    def rate_figures(self) -> Iterator[Figure]:
        """Requests, output tokens and restarts per unit of time, scaled to all replicas."""
        window = self.series.window_s
        if not window:
            return
        for quantity, names in (
            ("requests_per_s", self.engine.requests),
            ("output_tokens_per_s", self.engine.answer_tokens),
        ):
            found = self.first_counter(names)
            if found is not None and found[1] > 0:
                yield service_figure(quantity, found[1] / window * self.replica_factor, found[0].name)
        if self.series.restart_count and window >= SECONDS_PER_HOUR:
            often = self.series.restart_count / self.seen * SECONDS_PER_DAY / window
            yield service_figure("restarts_per_day", often, "process_start_time_seconds")

    def latencies_by_load(self) -> tuple[LoadObservation, ...]:
        """Latencies between consecutive scrapes, if the load differs between them."""
        points = []
        for pair in self.series.consecutive_pairs if len(self.series.moments) > 2 else ():
            between = {
                f.quantity: f.value
                for f in (
                    *self.for_series(pair).rate_figures(),
                    *self.for_series(pair).latency_figures(),
                    *self.for_series(pair).token_gap_figures(),
                )
            }
            if between.get("requests_per_s"):
                points.append(
                    LoadObservation(**{name: value for name, value in between.items() if name in LOAD_FIELDS})
                )
        rates = [point.requests_per_s for point in points]
        points = points[:: math.ceil(len(points) / MAX_LOADS) or 1]
        return tuple(points) if rates and max(rates) > DISTINCT_LOAD_RATIO * min(rates) else ()

    def for_series(self, series: Series) -> Service:
        """The same engine over other scrapes."""
        return Service(self.engine, series, replace(self.runs, of_replicas=self.seen))

    def length_figures(self) -> Iterator[Figure]:
        """Mean number of tokens per prompt and per answer."""
        requests = self.first_counter(self.engine.requests)
        for quantity, histograms, counters in (
            ("input_tokens_mean", self.engine.prompt_lengths, self.engine.prompt_tokens),
            ("output_tokens_mean", self.engine.answer_lengths, self.engine.answer_tokens),
        ):
            found, total = self.first_histogram(histograms), self.first_counter(counters)
            if found is not None:
                yield service_figure(quantity, found.mean, found.metric.name)
            elif total is not None and requests is not None and requests[1] > 0 and total[1] > 0:
                yield service_figure(quantity, total[1] / requests[1], f"{total[0].name} / {requests[0].name}")

    def latency_figures(self) -> Iterator[Figure]:
        """Quantiles of TTFT and of queue time."""
        first = self.first_histogram(self.engine.first_token)
        parts = [h for m in self.engine.first_token_parts if (h := self.series.merged_histogram(m)) is not None]
        if first is not None:
            yield quantile_figure("ttft_p50_s", first, 0.5)
            yield quantile_figure("ttft_p95_s", first, 0.95)
            yield quantile_figure("ttft_p99_s", first, 0.99)
        elif parts and len(parts) == len(self.engine.first_token_parts):
            names = " + ".join(h.metric.name for h in parts)
            yield service_figure("ttft_p50_s", math.fsum(h.quantile(0.5) for h in parts), names)
        queue = self.first_histogram(self.engine.queue)
        if queue is not None:
            yield quantile_figure("queue_p50_s", queue, 0.5)

    def token_gap_figures(self) -> Iterator[Figure]:
        """TPOT per request, if the engine counts it, and inter-token latency."""
        first = self.first_histogram((*self.engine.first_token, *self.engine.answer_lengths))
        every = [h for m in self.engine.token_times if (h := self.series.merged_histogram(m)) is not None]
        most = math.inf if first is None else MAX_OBSERVATIONS_PER_REQUEST * first.count
        of_requests = next((h for h in every if h.count <= most), None)
        of_tokens = next((h for h in every if h.count > most), None)
        if of_requests is not None:
            yield quantile_figure("tpot_p50_s", of_requests, 0.5)
            yield quantile_figure("tpot_p95_s", of_requests, 0.95)
            yield quantile_figure("tpot_p99_s", of_requests, 0.99)
        else:
            yield from self.mean_token_figure(of_tokens)
        if of_tokens is not None:
            yield quantile_figure("inter_token_p50_s", of_tokens, 0.5)
            yield quantile_figure("inter_token_p99_s", of_tokens, 0.99)

    def mean_token_figure(self, of_tokens: Histogram | None) -> Iterator[Figure]:
        """TPOT as a mean: of gaps between tokens, of generation time over tokens, or of whole requests."""
        whole = self.first_histogram(self.engine.mean_token_times)
        spent, tokens = self.first_counter(self.engine.token_seconds), self.first_counter(self.engine.answer_tokens)
        if of_tokens is not None:
            yield service_figure("tpot_p50_s", of_tokens.mean, f"{of_tokens.metric.name}, mean")
        elif spent is not None and tokens is not None and spent[1] > 0 and tokens[1] > 0:
            yield service_figure("tpot_p50_s", spent[1] / tokens[1], f"{spent[0].name} / {tokens[0].name}")
        elif whole is not None:
            yield service_figure("tpot_p50_s", whole.mean, f"{whole.metric.name}, mean, prefill included")

    def state_figures(self) -> Iterator[Figure]:
        """State of one replica: running and waiting requests, KV cache usage and start time."""
        each = max(1.0, min(self.seen, self.runs.replicas))
        for quantity, names in (("running", self.engine.running), ("waiting", self.engine.waiting)):
            found = self.first_gauge(names)
            if found is not None:
                yield service_figure(quantity, math.fsum(found[1].values()) / each, found[0].name)
        yield from self.in_flight_figure(each)
        for quantity, names in (("cache_usage", self.engine.cache_usage), ("cold_start_s", self.engine.start_s)):
            found = self.first_gauge(names)
            if found is not None:
                value = math.fsum(found[1].values()) / len(found[1])
                if quantity == "cold_start_s" or value <= 1:
                    yield service_figure(quantity, value, found[0].name)

    def in_flight_figure(self, replicas: float) -> Iterator[Figure]:
        """Running requests of one replica, from a gauge that includes the waiting ones."""
        together, waiting = self.first_gauge(self.engine.in_flight), self.first_gauge(self.engine.waiting)
        if together is not None:
            queued = 0.0 if waiting is None else math.fsum(waiting[1].values())
            source = together[0].name if waiting is None else f"{together[0].name} - {waiting[0].name}"
            running = max(0.0, math.fsum(together[1].values()) - queued)
            yield service_figure("running", running / replicas, source)

    def share_figures(self) -> Iterator[Figure]:
        """Preemptions, errors and prefix cache hits per request or token, and the load of the busiest replica."""
        requests, preempted = self.first_counter(self.engine.requests), self.first_counter(self.engine.preemptions)
        if requests is not None and requests[1] > 0:
            if preempted is not None:
                source = f"{preempted[0].name} / {requests[0].name}"
                yield service_figure("preemptions_per_request", preempted[1] / requests[1], source)
            failed = self.first_counter(self.engine.errors)
            if failed is not None:
                inside = failed[0].name == requests[0].name
                every = requests[1] if inside else requests[1] + failed[1]
                yield service_figure("error_share", failed[1] / every, failed[0].name)
            yield from self.busiest_replica_figure(requests[0])
        hits, queries = self.first_counter(self.engine.cache_hits), self.first_counter(self.engine.cache_queries)
        rate = self.first_gauge(self.engine.hit_rate)
        if hits is not None and queries is not None and hits[1] <= queries[1] and queries[1] > 0:
            yield service_figure("prefix_hit_share", hits[1] / queries[1], f"{hits[0].name} / {queries[0].name}")
        elif rate is not None and all(value <= 1 for value in rate[1].values()):
            yield service_figure("prefix_hit_share", math.fsum(rate[1].values()) / len(rate[1]), rate[0].name)
        yield from self.acceptance_figure()

    def busiest_replica_figure(self, requests: Metric) -> Iterator[Figure]:
        """Load of the busiest replica over the mean load, if the text covers several."""
        loads = tuple(self.series.counter_increase(requests).values())
        if len(loads) > 1 and math.fsum(loads) > 0:
            yield service_figure("busiest_replica_share", max(loads) * len(loads) / math.fsum(loads), requests.name)

    def acceptance_figure(self) -> Iterator[Figure]:
        """Acceptance rate of draft tokens, if the number of draft tokens per step is known."""
        drafted, accepted = self.first_counter(self.engine.drafted), self.first_counter(self.engine.accepted)
        share = self.first_gauge(self.engine.accepted_share)
        if self.runs.draft_tokens is None:
            return
        if drafted is not None and accepted is not None and 0 < accepted[1] < drafted[1]:
            of_all, source = accepted[1] / drafted[1], f"{accepted[0].name} / {drafted[0].name}"
        elif share is not None:
            of_all, source = math.fsum(share[1].values()) / len(share[1]), share[0].name
        else:
            return
        if 0 < of_all < 1:
            yield service_figure("acceptance_rate", acceptance_rate(of_all, self.runs.draft_tokens), source)

    def open_points(self) -> Iterator[str]:
        """Open points: missing times, several models and replicas that the text does not cover."""
        if not self.series.window_s and self.first_counter(self.engine.requests) is not None:
            yield (
                "One scrape without its time gives no rates. Set at_s in Unix seconds and include "
                "process_start_time_seconds in the text, or send a second scrape."
            )
        if len(self.series.model_names) > 1:
            yield f"The metrics cover {len(self.series.model_names)} models. All models are combined."
        if self.runs.of_replicas is None and self.replica_factor > 1:
            yield (
                f"The labels of the text name {self.seen:g} of {self.runs.replicas:g} replicas. Rates are multiplied "
                f"by {self.replica_factor:.3g}. Set of_replicas if the text covers more replicas."
            )


def service_figure(quantity: str, value: float, source: str) -> Figure:
    return Figure("service", quantity, value, source)


def quantile_figure(quantity: str, histogram: Histogram, share: float) -> Figure:
    """A quantile in the service group, with the bounds of its bucket."""
    low, high = histogram.bucket_bounds(share)
    return Figure(
        "service", quantity, histogram.quantile(share), histogram.metric.name, low, None if math.isinf(high) else high
    )


def acceptance_rate(of_all: float, drafted: int) -> float:
    """Probability that a draft token is accepted, from the accepted share of all draft tokens.

    The engine does not examine draft tokens after the first rejected one, so the share is lower than the
    probability.

    Source: Leviathan et al. 2023 (arXiv:2211.17192).
    Check: with three draft tokens at 0.8 each, (0.8 + 0.64 + 0.512) / 3 are accepted.
        >>> round(acceptance_rate((0.8 + 0.64 + 0.512) / 3, 3), 6)
        0.8
    """
    low, high = 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        mean = math.fsum(middle**i for i in range(1, drafted + 1)) / drafted
        low, high = (middle, high) if mean < of_all else (low, middle)
    return (low + high) / 2
