"""Every text of every answer: numbers that are numbers, one thing in the singular, nothing instead of itself."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from fastapi.testclient import TestClient

from tests.examples import BODIES, body, body_names

# What no sentence may say.
NEVER = {
    "no number": re.compile(r"\b(nan|inf|infinity|None|True|False)\b"),
    "an exponent": re.compile(r"\d(\.\d+)?e[+-]?\d+\b"),
    "a wrong plural": re.compile(
        r"(?<![\d.,])1 (accelerators|machines|replicas|days|hours|minutes|requests|samples|sequences|zones)\b"
    ),
    "nothing of something": re.compile(r"(?<![\d.,])0 (accelerators|machines|replicas)\b"),
    "itself instead of itself": re.compile(r"(?<![\w.,])([\w.,]*\w) instead of \1(?![\w.,]*\w)"),
    "two spaces": re.compile(r"\S  +\S"),
    "an empty place": re.compile(r"[{}]|\(\)| ,| \."),
}
TEXTS = ("text", "summary", "effect", "change", "decides", "reason")
MODELS = (
    "meta-llama/Llama-3.1-8B-Instruct",
    "meta-llama/Llama-3.1-70B-Instruct",
    "meta-llama/Llama-3.1-405B-Instruct",
    "deepseek-ai/DeepSeek-R1",
    "Qwen/Qwen2.5-32B-Instruct",
)
QUESTIONS = 50


def texts(node: Any) -> Iterator[str]:
    """Every sentence of an answer."""
    if isinstance(node, dict):
        for key, value in node.items():
            if isinstance(value, str) and key in TEXTS:
                yield value
            else:
                yield from texts(value)
    elif isinstance(node, list):
        for value in node:
            yield from texts(value)


def faults(answer: Any) -> list[str]:
    """Texts of an answer that contain a forbidden pattern."""
    return [f"{what}: {text}" for text in texts(answer) for what, pattern in NEVER.items() if pattern.search(text)]


def drawn(random: Random) -> tuple[str, dict[str, Any]]:
    """A question of any kind, half of them with limits that are hard or impossible to keep."""
    if random.random() < 0.3:
        return drawn_run(random)
    traffic: dict[str, Any] = random.choice(
        [
            {"peak_requests_per_s": 10 ** random.uniform(-3, 3)},
            {"concurrent_requests": random.choice([1, 2, 7, 64, 900])},
            {"users": {"count": random.choice([1, 30, 5000]), "requests_per_hour_each": 6}},
            {"batch": random.choice([1, 16])},
            {"offline": True},
        ]
    )
    traffic["input_tokens"] = random.choice([16, 700, {"mean": 1024, "p95": 3000}, 12_000])
    traffic["output_tokens"] = random.choice([1, 40, 256, {"mean": 300, "p95": 900}])
    workload: dict[str, Any] = {"phase": "inference", "model": random.choice(MODELS), "traffic": traffic}
    if random.random() < 0.6 and "offline" not in traffic and "batch" not in traffic:
        workload["slo"] = {"ttft_ms": 10 ** random.uniform(1.5, 4), "tpot_ms": 10 ** random.uniform(0.3, 2.2)}
    if random.random() < 0.4 and "offline" not in traffic:
        workload["availability"] = {"redundancy": random.choice(["none", "n+1", "n+2", "2n"])}
    question: dict[str, Any] = {"workload": workload, "limit": random.choice([1, 5]), "rejected_limit": 200}
    question["objective"] = random.choice(["cost", "latency", "throughput", "energy", "carbon", "balanced"])
    if random.random() < 0.3:
        only = random.choice(["nvidia-l4", "nvidia-h100-sxm5-80gb", "apple-m3-ultra-80c", "nvidia-rtx-4090"])
        return "/estimate", {"workload": workload, "deployment": {"accelerator": only}}
    return "/recommend", {**question, "constraints": limits(random)}


def drawn_run(random: Random) -> tuple[str, dict[str, Any]]:
    """A question of training or fine-tuning."""
    workload: dict[str, Any] = {"model": random.choice(MODELS), "training_tokens": 10 ** random.uniform(6, 12)}
    if random.random() < 0.5:
        workload |= {"phase": "fine_tuning", "method": random.choice(["full", "lora", "qlora"])}
        workload["deadline_hours"] = random.choice([1, 24, 200])
    else:
        workload |= {"phase": "training", "deadline_days": random.choice([1, 30, 365])}
    return "/recommend", {"workload": workload, "constraints": limits(random), "rejected_limit": 200}


def limits(random: Random) -> dict[str, Any]:
    """Some limits, or none."""
    found: dict[str, Any] = {}
    if random.random() < 0.5:
        choices = {
            "max_accelerators": random.choice([1, 2, 8, 64]),
            "max_usd_per_hour": 10 ** random.uniform(-1.5, 2.5),
            "max_purchase_usd": 10 ** random.uniform(3, 6),
            "max_power_kw": 10 ** random.uniform(-1, 2),
            "accelerators": random.choice([["nvidia-l4"], ["nvidia-t4", "nvidia-h100-sxm5-80gb"]]),
            "environments": random.choice([["on_prem"], ["cloud"]]),
        }
        for name in random.sample(sorted(choices), random.choice([1, 2, 3])):
            found[name] = choices[name]
    if random.random() < 0.3:
        found["confidence"] = random.choice([0.5, 0.9])
    return found


@pytest.mark.parametrize("name", sorted(path.stem for path in BODIES.glob("*.json")))
def test_the_words_of_every_worked_answer(client: TestClient, name: str) -> None:
    endpoint = "/recommend" if name.startswith("recommend") else "/estimate"
    assert faults(client.post(endpoint, json=body(name)).json()) == []
    assert body_names("recommend")


@pytest.mark.slow
def test_the_words_of_answers_to_whatever_is_asked(client: TestClient) -> None:
    random, wrong, answered = Random(13), [], 0
    for _ in range(QUESTIONS):
        endpoint, asked = drawn(random)
        response = client.post(endpoint, json=asked)
        assert response.status_code in (200, 409, 422), (response.text, json.dumps(asked))
        if response.status_code == 200:
            answered += 1
            wrong += [f"{fault} <- {json.dumps(asked)}" for fault in faults(response.json())]
    assert answered > QUESTIONS * 0.8
    assert wrong == [], "\n".join(wrong[:20])


def test_the_patterns_find_what_they_are_for() -> None:
    for text in (
        "needs nan GiB",
        "takes 2e+03 ms",
        "1 accelerators",
        "0.30 instead of 0.30 USD",
        "for  two",
        "holds None",
        "costs inf USD",
        "0 machines",
    ):
        assert faults({"text": text}), text
    for text in ("21 accelerators", "1.1 days", "10 machines", "30 instead of 0.30 USD", "0.30 instead of 0.3 USD"):
        assert not faults({"text": text}), text
