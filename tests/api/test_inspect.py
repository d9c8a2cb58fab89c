"""What inspection shows of each kind of model."""

from __future__ import annotations

import json
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.examples import LLAMA_8B_CONFIG, answer_of


def test_inspection_shows_what_applies_to_each_kind(client: TestClient) -> None:
    def inspected(body: dict[str, Any]) -> dict[str, Any]:
        return answer_of(client.post("/catalog/models/inspect", json=body))

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


MAMBA2 = (
    '{"model_type":"mamba2","architectures":["Mamba2ForCausalLM"],"hidden_size":2560,"num_hidden_layers":64,'
    '"num_heads":80,"head_dim":64,"state_size":128,"n_groups":1,"conv_kernel":4,"expand":2,"vocab_size":50288,'
    '"tie_word_embeddings":true%s}'
)


def inspect_text(client: TestClient, config: str) -> Any:
    text = f'{{"model":{{"huggingface_config":{config}}}}}'
    return client.post("/catalog/models/inspect", content=text, headers={"content-type": "application/json"})


@pytest.mark.parametrize("literal", ["Infinity", "-Infinity", "NaN"])
def test_configurations_are_read_with_the_literals_of_python(client: TestClient, literal: str) -> None:
    plain = inspect_text(client, MAMBA2 % "")
    answer = inspect_text(client, MAMBA2 % f',"time_step_limit":[0.0,{literal}]')
    assert answer.status_code == 200
    assert answer.json() == plain.json()


def test_other_fields_do_not_take_those_literals(client: TestClient) -> None:
    text = '{"model":"llama-3.1-8b","lora":{"rank":Infinity}}'
    answer = client.post("/catalog/models/inspect", content=text, headers={"content-type": "application/json"})
    assert answer.status_code == 400


def test_a_configuration_may_list_every_module(client: TestClient) -> None:
    modules = [f"model.layers.{i}.mlp.experts.{j}.down_proj" for i in range(60) for j in range(256)]
    config = {**LLAMA_8B_CONFIG, "quantization_config": {"quant_method": "fp8", "ignore": modules}}
    answer = inspect_text(client, json.dumps(config))
    assert len(json.dumps(config)) > 500_000
    assert answer.json()["native"]["format"] == "fp8"


def test_a_name_that_states_a_format_means_a_checkpoint_in_it(client: TestClient) -> None:
    shown = client.post("/catalog/models/inspect", json={"model": "zai-org/GLM-4.5-Air-FP8"}).json()
    assert shown["native"]["format"] == "fp8"
    assert shown["native"]["checkpoint_gib"] == pytest.approx(shown["weights_gib"]["fp8"], rel=1e-3)


def test_a_pasted_checkpoint_is_sized_in_its_own_format(client: TestClient) -> None:
    config = {**LLAMA_8B_CONFIG, "quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": 128}}
    body: dict[str, Any] = {
        "workload": {
            "phase": "inference",
            "model": {"huggingface_config": config},
            "traffic": {"concurrent_requests": 8, "input_tokens": 1000, "output_tokens": 200},
        },
        "deployment": {"accelerator": "h100 sxm", "total_accelerators": 1},
    }
    shown = client.post("/estimate", json=body).json()
    assert shown["deployment"]["weight_format"] == "int4-gptq"
    wide = client.post("/estimate", json={**body, "deployment": {**body["deployment"], "weight_format": "bf16"}}).json()
    assert wide["deployment"]["weight_format"] == "bf16"
