"""Published serving results that contradict all other results of their engine or model: compared, but not fitted."""

from __future__ import annotations

from dataclasses import dataclass

from app.calibration.case import Stack


@dataclass(frozen=True, slots=True)
class ExcludedResults:
    """Results of one source that are compared and reported, but not fitted; a blank field matches any value."""

    why: str
    source: str
    engine: str = ""
    vendor: str = ""
    model: str = ""
    in_flight: float = 0.0

    def matches_result(self, source: str, stack: Stack, model: str, in_flight: float) -> bool:
        """Whether a result of this stack and model, with this many requests in flight, is one of them."""
        ran = self.engine in ("", stack.engine) and self.vendor in ("", stack.vendor)
        of = self.model in ("", model) and self.in_flight in (0.0, in_flight)
        return source == self.source and ran and of

    @property
    def name(self) -> str:
        """Source, engine, vendor and model as one label."""
        return " ".join(filter(None, (self.source, self.engine, self.vendor, self.model)))


EXCLUDED_RESULTS = (
    ExcludedResults(
        "early SYCL back end: 1 to 3 tokens/s, although the memory bandwidth allows 100",
        "argonne-llm-inference-bench",
        "llama.cpp",
        vendor="intel",
    ),
    ExcludedResults(
        "an unpublished setting ran fewer sequences than were in flight",
        "inferencex-aiconfigurator",
        "vllm",
        model="openai/gpt-oss-120b",
        in_flight=512.0,
    ),
    ExcludedResults(
        "an unpublished setting ran 128 of 1,024 requests in flight, as throughput times TPOT shows",
        "sglang-cookbook",
        "sglang",
        model="deepseek-ai/DeepSeek-V3.2-Exp",
        in_flight=1024.0,
    ),
    ExcludedResults(
        "load far above capacity, and most requests stopped early",
        "vllm-recipes",
        model="moonshotai/Kimi-K2-Thinking",
    ),
    ExcludedResults(
        "early kernels of 4-bit experts: 110 ms per token, although the memory bandwidth allows 10 ms",
        "zhilight-docs",
    ),
    ExcludedResults(
        "each sequence adds 4 ms to a step: attention is five times slower than in other results of these machines",
        "sglang-cookbook",
        "sglang",
        model="moonshotai/Kimi-K2.5",
    ),
)


def find_exclusion_reason(source: str, stack: Stack, model: str, in_flight: float) -> str | None:
    """Why such a result is not fitted; None if it is fitted."""
    return next(
        (results.why for results in EXCLUDED_RESULTS if results.matches_result(source, stack, model, in_flight)), None
    )
