"""Cards in slots: a request states the slots, peer access, bridges, a power limit, and launches without graphs."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi.testclient import TestClient

from tests.examples import answer_of

WORKLOAD = {
    "phase": "inference",
    "model": "llama-3.1-8b",
    "traffic": {"concurrent_requests": 4, "input_tokens": {"mean": 4000}, "output_tokens": {"mean": 300}},
}


def estimated(client: TestClient, accelerator: str = "rtx 3090", count: int = 4, **assumptions: float) -> Any:
    """Performance of Llama-3.1-8B in BF16 on vLLM, tensor parallel over the cards of one machine."""
    return answered(client, accelerator, count, **assumptions)["performance"]


def answered(client: TestClient, accelerator: str, count: int, **assumptions: float) -> Any:
    """The whole estimate."""
    deployment = {"accelerator": accelerator, "engine": "vllm", "weight_format": "bf16", "nodes": 1}
    layout = {"accelerators_per_replica": count, "tensor_parallel": count, "replicas": 1, "total_accelerators": count}
    body = {"workload": WORKLOAD, "deployment": {**deployment, **layout}, "assumptions": assumptions}
    return answer_of(client.post("/estimate", json=body))


def test_copies_through_host_memory_are_slower_than_peer_access(client: TestClient) -> None:
    through_host, direct = estimated(client), estimated(client, peerless_copies=0)
    assert through_host["prefill_tokens_per_s"] < 0.9 * direct["prefill_tokens_per_s"]


def test_a_workstation_card_reads_its_peers_directly(client: TestClient) -> None:
    assert estimated(client, "rtx 6000 ada") == estimated(client, "rtx 6000 ada", peerless_copies=0)


def test_narrow_slots_slow_every_card(client: TestClient) -> None:
    rates = [estimated(client, "l40s", pcie_slot_gb_per_s=rate)["prefill_tokens_per_s"] for rate in (128, 32, 16, 8, 4)]
    assert rates[0] == rates[1] > rates[2] > rates[3] > rates[4]
    board = [estimated(client, "h100 sxm", pcie_slot_gb_per_s=rate) for rate in (128, 4)]
    assert board[0] == board[1]


def test_cards_without_their_bridge_use_the_slots(client: TestClient) -> None:
    bridged, slots = (estimated(client, "a6000", 2, nvlink_bridges=n)["prefill_tokens_per_s"] for n in (1, 0))
    assert bridged > slots
    board = [estimated(client, "h100 sxm", 2, nvlink_bridges=n) for n in (1, 0)]
    assert board[0] == board[1]


def test_a_power_limit_slows_prompts_and_saves_power(client: TestClient) -> None:
    full, limited = estimated(client, "rtx 4090", 1), estimated(client, "rtx 4090", 1, power_limit_share=0.6)
    assert limited["prefill_tokens_per_s"] / full["prefill_tokens_per_s"] == pytest.approx(0.6**0.33, rel=0.06)
    assert limited["tpot_ms"]["mean"] <= 1.2 * full["tpot_ms"]["mean"]


def test_a_chip_of_half_the_rated_power_reads_prompts_slower_than_its_listed_rate(client: TestClient) -> None:
    listed = 438.9 / 503.8
    cards = (f"nvidia-rtx-pro-6000-blackwell-{edition}" for edition in ("maxq", "ws"))
    slow, fast = (estimated(client, card, 1)["prefill_tokens_per_s"] for card in cards)
    assert listed * 0.75 < slow / fast < listed * 0.92


@pytest.mark.parametrize(("accelerator", "count"), [("rtx 4090", 1), ("h100 sxm", 8), ("dgx spark", 1)])
def test_a_power_limit_lowers_the_power_of_every_machine(client: TestClient, accelerator: str, count: int) -> None:
    full, limited = (answered(client, accelerator, count, power_limit_share=share)["cost"] for share in (1, 0.6))
    assert 0.5 < limited["power_kw"] / full["power_kw"] < 0.85


def test_launches_without_graphs_lengthen_the_steps(client: TestClient) -> None:
    full, eager = estimated(client, "h100 sxm", 1), estimated(client, "h100 sxm", 1, eager_launch=1)
    assert eager["tpot_ms"]["mean"] > 1.5 * full["tpot_ms"]["mean"]
