"""Published serving results that contradict every other of their engine or model: compared, and not fitted."""

from __future__ import annotations

from dataclasses import dataclass

from app.calibration.case import Stack


@dataclass(frozen=True, slots=True)
class Aside:
    """Results of a source that are compared and reported, not fitted; what is blank is any."""

    why: str
    source: str
    engine: str = ""
    vendor: str = ""
    model: str = ""
    in_flight: float = 0.0

    def holds(self, source: str, stack: Stack, model: str, in_flight: float) -> bool:
        """Whether a result of this stack and model, with so many in flight, is one of them."""
        ran = self.engine in ("", stack.engine) and self.vendor in ("", stack.vendor)
        of = self.model in ("", model) and self.in_flight in (0.0, in_flight)
        return source == self.source and ran and of

    @property
    def name(self) -> str:
        """What they are of."""
        return " ".join(filter(None, (self.source, self.engine, self.vendor, self.model)))


SET_ASIDE = (
    Aside(
        "early SYCL back end: 1 to 3 tokens/s where the memory would allow 100",
        "argonne-llm-inference-bench",
        "llama.cpp",
        vendor="intel",
    ),
    Aside(
        "ran fewer sequences than were in flight, by a setting that is not told",
        "inferencex-aiconfigurator",
        "vllm",
        model="openai/gpt-oss-120b",
        in_flight=512.0,
    ),
    Aside(
        "128 requests ran of 1,024 in flight, by a setting that is not told: throughput times the time of a token",
        "sglang-cookbook",
        "sglang",
        model="deepseek-ai/DeepSeek-V3.2-Exp",
        in_flight=1024.0,
    ),
    Aside(
        "far beyond what it carries, and most requests stopped early",
        "vllm-recipes",
        model="moonshotai/Kimi-K2-Thinking",
    ),
    Aside("early kernels of 4-bit experts: 110 ms a token where the memory would allow 10", "zhilight-docs"),
    Aside(
        "each sequence takes 4 ms of a step: attention runs five times slower than on the same machines elsewhere",
        "sglang-cookbook",
        "sglang",
        model="moonshotai/Kimi-K2.5",
    ),
)


def why_aside(source: str, stack: Stack, model: str, in_flight: float) -> str | None:
    """Why such a result is not fitted; None where it is."""
    return next((aside.why for aside in SET_ASIDE if aside.holds(source, stack, model, in_flight)), None)
