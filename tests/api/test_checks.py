"""A training recipe on the wire: taken, refused where it contradicts, complete and at home in answers."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi.testclient import TestClient

from app.sizing.hardware.recipes import VOCABULARIES
from tests.examples import answer_of

H100 = "nvidia-h100-sxm5-80gb"
TUNE: dict[str, Any] = {
    "phase": "fine_tuning",
    "model": "meta-llama/Llama-3.1-8B",
    "method": "lora",
    "training_tokens": 5e7,
    "sequence_length": 4096,
    "global_batch_sequences": 16,
    "deadline_hours": 200,
}
FULL = TUNE | {"method": "full"}
SERVE = {"phase": "inference", "model": TUNE["model"], "traffic": {"concurrent_requests": 4}}


def asked(client: TestClient, workload: dict[str, Any] = TUNE, **deployment: Any) -> Any:
    body = {"workload": workload, "deployment": {"accelerator": H100, **deployment}}
    return client.post("/estimate", json=body)


def test_an_answers_recipe_is_complete_and_gives_the_same_numbers_back(client: TestClient) -> None:
    first = asked(client, framework="torchtune", recipe={"loss": "chunked", "recomputation": "full"}).json()
    recipe = first["deployment"]["recipe"]
    assert {*VOCABULARIES} - {"selective"} <= {*recipe}
    assert (recipe["loss"], recipe["recomputation"]) == ("chunked", "full")
    assert first["deployment"]["activation_checkpointing"] == "full"
    again = asked(client, **{k: v for k, v in first["deployment"].items() if k != "accelerator"}).json()
    assert again["deployment"] == first["deployment"]
    assert again["memory"] == first["memory"]
    assert again["performance"]["step_time_s"] == first["performance"]["step_time_s"]


@pytest.mark.parametrize("framework", ["maxtext", "deepspeed", "axolotl"])
def test_where_nothing_is_kept_in_32_bit_the_recipe_says_so_and_comes_back(client: TestClient, framework: str) -> None:
    pure = FULL | {"precision": "bf16-true"}
    first = asked(client, pure, framework=framework).json()
    assert [first["deployment"]["recipe"][name] for name in ("weights", "gradients")] == ["16bit", "as_weights"]
    again = asked(client, pure, **{k: v for k, v in first["deployment"].items() if k != "accelerator"}).json()
    assert again["memory"] == first["memory"]


@pytest.mark.parametrize("framework", ["megatron", "nemo"])
def test_what_keeps_a_32_bit_copy_does_not_train_in_16_bit_alone(client: TestClient, framework: str) -> None:
    refused = asked(client, FULL | {"precision": "bf16-true"}, framework=framework).json()
    assert not refused["fits"]
    assert "use precision bf16, not bf16-true" in refused["rule"]


def test_a_loss_that_holds_fewer_logits_needs_less_memory(client: TestClient) -> None:
    layout: dict[str, Any] = {
        "framework": "fsdp",
        "micro_batch_sequences": 4,
        "activation_checkpointing": "full",
        "zero_stage": 0,
    }
    held = [
        asked(client, recipe={"loss": loss}, total_accelerators=1, **layout).json()["memory"]["per_accelerator_gib"]
        for loss in ("shifted", "fused")
    ]
    assert held[0]["total"] > held[1]["total"]


def test_what_memory_was_counted_by_is_said_in_a_sentence(client: TestClient) -> None:
    found = asked(client, framework="torchtitan", workload=FULL).json()
    (said,) = [r["text"] for r in found["explanation"] if r["code"] == "recipe"]
    assert said.startswith("Memory follows the recipe of TorchTitan")


@pytest.mark.parametrize(
    ("workload", "deployment", "pointer", "words"),
    [
        (TUNE, {"recipe": {"loss": "liger"}}, "recipe/loss", "Accepted values: shifted, held, upcast"),
        (
            TUNE,
            {"recipe": {"recomputation": "attention"}, "activation_checkpointing": "full"},
            "recipe/recomputation",
            "activation_checkpointing selective, not full",
        ),
        (
            FULL,
            {"recipe": {"optimizer_implementation": "fused"}, "optimizer_offload": True},
            "recipe/optimizer_implementation",
            "contradicts optimizer_offload true",
        ),
        (FULL, {"recipe": {"adapter_precision": "fp32"}}, "recipe/adapter_precision", "requires method lora or qlora"),
        (TUNE, {"recipe": {"kbit_widening": True}}, "recipe/kbit_widening", "requires method qlora"),
        (FULL | {"precision": "bf16-true"}, {"recipe": {"weights": "master"}}, "recipe/weights", "Use precision bf16"),
        (
            FULL | {"precision": "bf16-true"},
            {"recipe": {"gradients": "32bit"}},
            "recipe/gradients",
            "nothing in 32 bits",
        ),
        (SERVE, {"recipe": {"loss": "held"}}, "recipe", "does not apply to serving"),
        (SERVE, {"framework_version": "1.0"}, "framework_version", "Use engine_version"),
        (
            {"phase": "training", "model": "resnet50", "training_samples": 1e6},
            {"recipe": {"kernels": "fused"}},
            "recipe",
            "processes samples",
        ),
        (TUNE, {"framework_version": "0.6"}, "framework_version", "requires framework"),
        (TUNE, {"framework": "fsdp", "framework_version": "banana"}, "framework_version", "Write it as 0.6"),
    ],
)
def test_a_recipe_that_contradicts_is_refused_with_what_does_not(
    client: TestClient, workload: dict[str, Any], deployment: dict[str, Any], pointer: str, words: str
) -> None:
    (error,) = answer_of(asked(client, workload, **deployment), 422)["errors"]
    assert error["pointer"] == f"#/deployment/{pointer}"
    assert words in error["detail"]


def test_the_catalogue_lists_every_frameworks_recipes_with_where_they_were_read(client: TestClient) -> None:
    listed = {f["framework"]: f["recipes"] for f in client.get("/catalog/frameworks?limit=1000").json()["items"]}
    assert all(recipes and all(r["source"] and r["as_of"] for r in recipes) for recipes in listed.values())
    assert [r["since"] for r in listed["torchtune"]] == [None, "0.3", "0.4"]
    assert listed["primus"] != listed["megatron"]


def test_a_recipe_of_what_does_not_run_there_is_echoed_as_it_was_asked(client: TestClient) -> None:
    found = asked(client, TUNE | {"method": "qlora"}, framework="fsdp", recipe={"loss": "fused"}).json()
    assert (found["fits"], found["deployment"]["recipe"]) == (False, {"loss": "fused"})


def test_a_version_has_the_recipe_of_its_day(client: TestClient) -> None:
    made = {
        version: asked(client, framework="torchtune", framework_version=version).json()["deployment"]
        for version in (None, "0.2.1")
    }
    assert (made[None]["recipe"]["name"], made[None]["recipe"]["loss"]) == ("torchtune 0.6", "chunked_eager")
    assert (made["0.2.1"]["recipe"]["name"], made["0.2.1"]["recipe"]["loss"]) == ("torchtune 0.2", "held")
    assert made["0.2.1"]["framework_version"] == "0.2.1"


def test_unsloth_of_july_2024_held_all_logits_of_a_large_vocabulary(client: TestClient) -> None:
    # unslothai/unsloth issue 824: "around 20g" on an RTX 4090; the gradients of its 2.1e9 logits are in place
    tuned = TUNE | {"method": "qlora", "sequence_length": 16384, "global_batch_sequences": 1}
    of_2024, today = (
        asked(
            client, tuned, framework="unsloth", framework_version=version, micro_batch_sequences=1, total_accelerators=1
        ).json()["memory"]
        for version in ("2024.7", None)
    )
    assert of_2024["per_accelerator_gib"]["total"] == pytest.approx(20e9 / 2**30, rel=0.2)
    assert of_2024["peak_moment"] == "loss"
    assert today["per_accelerator_gib"]["total"] < 15


def test_selective_recomputation_is_refused_where_a_framework_has_no_way_of_it(client: TestClient) -> None:
    refused = answer_of(asked(client, framework="deepspeed", activation_checkpointing="selective", workload=FULL), 422)
    assert "Use none or full" in refused["detail"]
