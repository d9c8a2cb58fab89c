"""What inspection shows of each kind of model."""

from __future__ import annotations

from typing import Any

from starlette.testclient import TestClient


def test_inspection_shows_what_applies_to_each_kind(client: TestClient) -> None:
    def inspected(body: dict[str, Any]) -> dict[str, Any]:
        answer = client.post("/catalog/models/inspect", json=body)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    llama = inspected(
        {"model": "llama-3.1-8b", "context_tokens": [8192], "lora": {"rank": 8, "target_modules": ["q_proj", "v_proj"]}}
    )
    assert llama["by_context"] == [
        {
            "context_tokens": 8192,
            "kv_cache_gib": 1,
            "forward_flops_per_token": 19304300000,
            "training_flops_per_token": 51471200000,
        }
    ]
    assert llama["lora"] == {"rank": 8, "parameters": {"chosen": 3_407_872}}
    assert llama["activation_bytes_per_token_and_layer"] == {"fused": 139392, "eager": 200840}
    assert llama["weights_gib"]["gguf-q4_k_m"] == 4.57549
    deepseek = inspected({"model": "deepseek-v3"})
    assert deepseek["mtp_parameters"] == 11_610_067_968
    assert deepseek["native"] == {"format": "fp8", "checkpoint_gib": 626.92}
    vision = inspected({"model": "qwen2.5-vl-7b", "image": {"width": 1008, "height": 1008}})
    assert vision["image"]["tokens"] == 1296
    assert vision["parts"]["encoder_tower"] == 676_550_144
    t5 = inspected({"model": "t5-small"})
    assert t5["cross_kv_bytes_per_source_token"] == 12288
    assert t5["flops_per_source_token"] == 2 * 18_874_368
    picture = inspected({"model": "flux", "sample": {"width": 512, "height": 512, "steps": 4}})
    assert picture["sample"]["passes"] == 4
    assert picture["sample"]["described"] == "one picture of 512 x 512 pixels, 4 denoising steps"
    assert "by_context" not in picture
    assert "logits" not in inspected({"model": "bge-m3"})
    assert inspected({"model": {"parameters_billion": 13}})["assumed"][0].startswith("the request gives only the size")
