"""Scripts of engines: flags of the list, degrees that come to the accelerators, pools, ranks and several machines."""

from __future__ import annotations

import base64
import io
import json
import math
import re
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from fastapi.testclient import TestClient
from PIL import Image

from app.errors import Unanswerable
from app.export.handoff.engines import (
    BY_ENGINE,
    CONFIG,
    LAUNCHES,
    REVISION_FLAG,
    UnknownFlag,
    command_flags,
    config_text,
)
from app.export.handoff.load import input_lines
from app.export.handoff.option import File, Handoff, Option
from app.export.handoff.serving import ReplicaLaunch, plan_launches
from app.export.handoff.targets import CannotStart, build_handoff
from app.sizing.hardware.benchmarks import ADAPTED_MODULES, BENCHMARKS, SERVERS
from app.sizing.hardware.engines import engine_named
from tests.export.handoff.emitted import check_scripts
from tests.export.handoff.stored import USED, option, pooled, served, start

ENGINES = tuple(BY_ENGINE)
DEGREES = {
    "vllm": ("--tensor-parallel-size", "--pipeline-parallel-size", "--data-parallel-size"),
    "sglang": ("--tp-size", "--pp-size"),
    "tensorrt-llm": ("--tp_size", "--pp_size"),
}
SPANNING: dict[str, Any] = {"pipeline": 2, "accelerators": 16, "machines": 2, "stage_machines": 2}
RANKS: dict[str, Any] = {
    "tensor": 2,
    "stage": 16,
    "data": 8,
    "ranks_here": 4,
    "experts": 16,
    "with_experts": "",
    "accelerators": 16,
    "machines": 2,
}
LAYOUTS: tuple[dict[str, Any], ...] = ({}, {"tensor": 4, "stage": 4, "pipeline": 2}, SPANNING, RANKS)


def first(option: Option, version: str | None = None) -> ReplicaLaunch:
    return plan_launches(option, version)[0]


def text_of(made: Handoff, name: str) -> str:
    return next(file.text for file in made.files if file.name == name)


def said(tokens: list[str], flag: str) -> int:
    return int(tokens[tokens.index(flag) + 1]) if flag in tokens else 1


@pytest.mark.parametrize("engine", DEGREES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_degrees_come_to_the_accelerators(engine: str, layout: dict[str, Any]) -> None:
    part = first(served(engine, **layout))
    assert math.prod(said(part.command_tokens, flag) for flag in DEGREES[engine]) == part.group.accelerators


@pytest.mark.parametrize("launch", LAUNCHES, ids=lambda launch: launch.engine)
def test_weights_come_at_a_revision_that_the_user_may_pin(launch: Any) -> None:
    has_flag = REVISION_FLAG in launch.flags
    assert has_flag is (launch.engine not in ("llama.cpp", "ollama", "mlx"))  # their servers read no revision
    handoff = build_handoff(served(launch.engine), launch.engine, None)
    assert ("--revision ${REVISION:-main}" in text_of(handoff, "serve.sh")) is has_flag
    assert any("Set REVISION" in note for note in handoff.notes) is has_flag
    if not launch.creates_model:
        assert REVISION_FLAG not in first(served(launch.engine, model="./converted")).command_tokens


def test_a_version_without_the_flag_of_a_revision_starts_without_it() -> None:
    assert REVISION_FLAG not in first(served("tensorrt-llm"), "1.1.0").command_tokens


DRAFTS: dict[str, dict[str, Any]] = {
    "mtp": {"draft_steps": 3},
    "eagle": {"draft_steps": 3, "draft": "org/head", "draft_gguf": "./draft.gguf"},
    "draft_model": {"draft_steps": 3, "draft": "./draft", "draft_gguf": "./draft.gguf"},
    "ngram": {"lookup_tokens": 3},
}


def drafting(engine: str, method: str) -> dict[str, Any]:
    """Places of speculative decoding."""
    name = SERVERS[engine].drafting.get(method)
    return {"draft_method": method, "drafting": name, "draft_tokens": 3, "verified_tokens": 4, **DRAFTS[method]}


@pytest.mark.parametrize("method", DRAFTS)
@pytest.mark.parametrize("launch", [x for x in LAUNCHES if x.server.drafting], ids=lambda launch: launch.engine)
def test_a_draft_takes_flags_of_the_list_or_the_configuration(launch: Any, method: str) -> None:
    plain, option = served(launch.engine), served(launch.engine, **drafting(launch.engine, method))
    if method not in launch.server.drafting:
        with pytest.raises(Unanswerable, match="draft tokens"):
            first(option)
        return
    part, before = first(option), first(plain).command_tokens
    tokens = part.command_tokens
    assert set(command_flags(tokens)) <= set(launch.flags)
    if launch.engine == "tensorrt-llm":
        settings = yaml.safe_load(config_text(part.group, launch))["speculative_config"]
        assert settings["decoding_type"] == launch.server.drafting[method]
        assert settings["num_nextn_predict_layers" if method == "mtp" else "max_draft_len"] == 3
        assert settings.get("speculative_model_dir") == DRAFTS[method].get("draft")
        assert "printf" not in " ".join(tokens)
    else:
        assert len(tokens) > len(before)
    made = build_handoff(option, launch.engine, None)
    assert any("PROMPTS_FILE" in note for note in made.notes)
    assert "aiperf" not in text_of(made, "benchmark.sh")


def test_every_engine_that_drafts_by_its_record_and_starts_here_has_flags() -> None:
    for launch in LAUNCHES:
        assert {*launch.server.drafting} == {*engine_named(launch.engine).drafts}


@pytest.mark.parametrize("engine", ENGINES)
def test_every_script_is_one_that_a_shell_reads(engine: str, tmp_path: Path) -> None:
    options = [served(engine)]
    if not BY_ENGINE[engine].single_machine:
        options += [pooled(engine), *(served(engine, **places) for places in LAYOUTS)]
    made = [file for option in options for file in build_handoff(option, engine, None).files]
    check_scripts(tmp_path, *(file.text for file in made if file.media_type == "application/x-sh"))


def test_a_name_is_not_read_by_a_shell() -> None:
    tokens = first(served(model="./it's $(x) `y`")).command_tokens
    assert tokens[2] == "./it's $(x) `y`"
    line = text_of(build_handoff(served(model="./it's $(x)"), "vllm", None), "serve.sh").split("exec ")[1]
    assert shlex.split(line.replace("\\\n", " "))[2] == "./it's $(x)"


def test_machines_of_a_replica_get_their_rank() -> None:
    text = text_of(build_handoff(served(**SPANNING), "vllm", None), "serve.sh")
    assert "${NODE_RANK:?" in text
    assert "${MASTER_ADDR:?" in text
    assert "--node-rank $NODE_RANK" in text
    assert "set -- --headless" in text
    ranks = text_of(build_handoff(served(**RANKS), "vllm", None), "serve.sh")
    assert "--data-parallel-start-rank $((NODE_RANK*4))" in ranks
    assert "--nnodes" not in ranks


def test_ranks_that_machines_do_not_share_evenly_are_refused() -> None:
    with pytest.raises(Unanswerable, match="must be divisible"):
        build_handoff(served(machines=2, data=3, accelerators=12), "vllm", None)


def test_sglang_gets_totals_over_all_ranks_and_other_engines_values_per_rank() -> None:
    places: dict[str, Any] = {"data": 8, "sequences": 16, "all_sequences": 128, "batched": 1024, "all_batched": 8192}
    assert said(first(served("sglang", **places)).command_tokens, "--max-running-requests") == 128
    assert said(first(served("vllm", **places)).command_tokens, "--max-num-seqs") == 16


def test_a_version_that_lacks_a_flag_is_refused_and_said_which_has_it() -> None:
    spread = served(**SPANNING)
    with pytest.raises(UnknownFlag, match=r"0\.11 has no --nnodes.*0\.12"):
        build_handoff(spread, "vllm", "0.11")
    assert build_handoff(spread, "vllm", "v0.12.0").files
    assert "vllm-openai:v0.12.0" in first(spread, "v0.12.0").image


def test_tensorrt_llm_reads_what_has_no_flag_from_a_file() -> None:
    text = text_of(build_handoff(served("tensorrt-llm", data=2, cache="fp8"), "tensorrt-llm", None), "serve.sh")
    config = yaml.safe_load(text.split("<<'EOF'\n")[1].split("EOF\n")[0])
    assert config == {"enable_attention_dp": True, "kv_cache_config": {"dtype": "fp8"}}
    assert f"--config {CONFIG}" in text and f"cat > {CONFIG}" in text


def test_pools_are_started_apart_with_a_router() -> None:
    made = build_handoff(pooled("vllm"), "vllm", None)
    for role in ("prefill", "decode"):
        tokens = shlex.split(text_of(made, f"{role}.sh").split("exec ")[1].replace("\\\n", " "))
        transfer = json.loads(tokens[tokens.index("--kv-transfer-config") + 1])
        assert transfer["kv_connector"] == "NixlConnector"
        assert "export VLLM_NIXL_SIDE_CHANNEL_HOST=" in text_of(made, f"{role}.sh")
    assert "NIXL" not in text_of(build_handoff(served(), "vllm", None), "serve.sh")
    assert any("router" in note for note in made.notes)
    sglang = build_handoff(pooled("sglang"), "sglang", None)
    assert "--disaggregation-mode decode" in text_of(sglang, "decode.sh")
    assert "--pd-disaggregation" in text_of(sglang, "router.sh")
    router = yaml.safe_load(text_of(build_handoff(pooled("tensorrt-llm"), "tensorrt-llm", None), "router.yaml"))
    assert router["context_servers"]["num_instances"] == len(router["context_servers"]["urls"]) == 3


def test_prefill_stages_of_vllm_write_into_decode_replicas_without_stages() -> None:
    stages = {"tensor": 4, "stage": 4, "pipeline": 2}
    prefill, decode = (start("vllm", USED["vllm"], role, **stages) for role in ("prefill", "decode"))
    made = build_handoff(option(prefill, start("vllm", USED["vllm"], "decode")), "vllm", None)
    for role in ("prefill", "decode"):
        assert '"kv_connector": "NixlPushConnector"' in text_of(made, f"{role}.sh")
    with pytest.raises(Unanswerable, match="decode replicas with pipeline stages"):
        plan_launches(option(prefill, decode), None)


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_pools_of_different_weights_serve_one_name(engine: str) -> None:
    places = {"prefill": {"model": "maker/Model-70B-FP8"}, "decode": {}}
    mixed = option(*(start(engine, USED[engine], role, **own) for role, own in places.items()))
    made = build_handoff(mixed, engine, None)
    for role in places:
        tokens = shlex.split(text_of(made, f"{role}.sh").split("exec ")[1].replace("\\\n", " "))
        assert tokens[tokens.index("--served-model-name") + 1] == "org/Model-70B"
        if engine == "vllm":  # which otherwise refuses the KV cache of another checkpoint
            transfer = json.loads(tokens[tokens.index("--kv-transfer-config") + 1])
            assert transfer["kv_connector_extra_config"] == {"enforce_handshake_compat": False}
    assert "--model org/Model-70B" in text_of(made, "benchmark.sh")
    assert any("maker/Model-70B-FP8 and org/Model-70B" in note for note in made.notes)
    assert "--served-model-name" not in text_of(build_handoff(pooled(engine), engine, None), "decode.sh")
    with pytest.raises(CannotStart, match="Targets that can start it"):
        build_handoff(mixed, "llm-d", None)


def test_llama_cpp_holds_the_cache_that_was_found_for_all_its_slots() -> None:
    part = first(served("llama.cpp"))
    assert said(part.command_tokens, "-c") == 300_000
    assert said(part.command_tokens, "-np") == 64
    assert part.command_tokens[part.command_tokens.index("-m") + 1] == "./Model-70B-q4_k_m.gguf"


def test_the_benchmark_has_the_lengths_and_the_load_of_the_answer() -> None:
    text = text_of(build_handoff(served(), "vllm", None), "benchmark.sh")
    assert "--random-input-len 1024" in text
    assert "--request-rate 4" in text
    assert "--isl 1024" in text
    assert "--osl-stddev 74" in text  # 256 * 0.5 / sqrt(3)
    assert "prompt_tokens=1024,output_tokens=256" in text
    assert text.count("2400") == 3
    for name in ("own)", "aiperf)", "guidellm)"):
        assert name in text
    assert text.rstrip().endswith("| tee benchmark.log")


def test_generators_read_the_tokenizer_of_the_model_where_its_weights_have_none() -> None:
    own = "org/Model-70B"
    gguf: dict[str, Any] = {"model": "b/M-GGUF", "gguf_repository": "b/M-GGUF:Q4_K_M", "gguf_file": None}
    text = text_of(build_handoff(served("llama.cpp", tokenizer=own, **gguf), "shell", None), "benchmark.sh")
    assert text.count("--model b/M-GGUF") == 2
    assert text.count(f"--tokenizer {own}") == 2
    assert f"--tokenizer kind=huggingface_auto,model={own}" in text


@pytest.mark.parametrize(("engine", "flag"), [("vllm", "--max-loras"), ("sglang", "--max-loras-per-batch")])
def test_adapters_that_stay_loaded_have_their_room(engine: str, flag: str) -> None:
    tokens = first(served(engine, adapters=8, adapter_rank=16)).command_tokens
    assert said(tokens, flag) == 8
    assert said(tokens, "--max-lora-rank") == 16
    assert set(command_flags(tokens)) <= set(BY_ENGINE[engine].flags)


def test_tensorrt_llm_loads_adapters_by_its_configuration() -> None:
    part = first(served("tensorrt-llm", adapters=8, adapter_rank=16, adapter_config="c.yaml", adapted_modules="[]"))
    settings = yaml.safe_load(config_text(part.group, part.launch))["lora_config"]
    assert settings["lora_target_modules"] == list(ADAPTED_MODULES)  # the server refuses an empty list without adapters
    assert {**settings, "lora_target_modules": 0} == {
        "max_lora_rank": 16,
        "max_loras": 8,
        "max_cpu_loras": 8,
        "lora_target_modules": 0,
    }
    assert "printf" not in " ".join(part.command_tokens)
    made = build_handoff(part.option, None, None)
    assert {"shell", "docker", "kubernetes"} <= set(made.targets)
    assert any("lora_request" in note for note in made.notes)


@pytest.mark.parametrize("engine", [name for name in ENGINES if "{adapters}" not in SERVERS[name].command])
def test_a_start_command_without_adapters_is_refused(engine: str) -> None:
    with pytest.raises(Unanswerable, match="adapters"):
        build_handoff(served(engine, adapters=8, adapter_rank=16), engine, None)
    with pytest.raises(CannotStart, match="adapters"):
        build_handoff(served(engine, adapters=8, adapter_rank=16), None, None)


NEURON_LACKS: tuple[dict[str, Any], ...] = (
    {"tensor": 4, "stage": 4, "pipeline": 2},
    SPANNING,
    {"conversion": "fp8"},
    {"adapters": 8, "adapter_rank": 16},
    {"contexts": 2},
    {"host_cache_gib": 700},
)


@pytest.mark.parametrize("places", NEURON_LACKS)
def test_vllm_on_neuron_is_not_started_with_flags_that_its_plugin_lacks(places: dict[str, Any]) -> None:
    with pytest.raises(CannotStart, match=r"its plugin for Neuron .* No target can start it"):
        build_handoff(served(maker="AWS", **places), None, None)


def test_tgi_on_neuron_needs_an_exported_model() -> None:
    with pytest.raises(CannotStart, match=r"optimum-neuron has exported .* No target can start it"):
        build_handoff(served("tgi", maker="AWS"), None, None)


def test_vllm_on_neuron_reads_prompts_in_segments() -> None:
    words = first(served(maker="AWS", batched=2048)).command_tokens
    assert said(words, "--max-num-batched-tokens") == 2048


@pytest.mark.parametrize("layout", [SPANNING, RANKS])
def test_vllm_on_tpus_does_not_span_machines_without_ray(layout: dict[str, Any]) -> None:
    with pytest.raises(CannotStart, match="spans machines only with Ray"):
        build_handoff(served(maker="Google", **layout), None, None)
    assert build_handoff(served(maker="Google"), None, None).files


def test_only_targets_that_start_the_layout_are_named() -> None:
    with pytest.raises(CannotStart) as refused:
        build_handoff(served("tensorrt-llm", **SPANNING), "kubernetes", None)
    assert "only with Slurm. Targets that can start it: shell, slurm." in str(refused.value)


def test_other_targets_are_named_where_one_does_not_start_it() -> None:
    with pytest.raises(
        CannotStart, match="Targets that can start it: shell, docker, docker-compose, kubernetes, kserve"
    ):
        build_handoff(served(), "sglang", None)
    with pytest.raises(CannotStart, match="is served with vLLM"):
        build_handoff(served(), "torchrun", None)


def test_every_file_says_what_it_is_of() -> None:
    for target in ("vllm", "kubernetes", "kserve", "skypilot", "dstack", "docker-compose"):
        files: tuple[File, ...] = build_handoff(served(), target, None).files
        for file in files:
            assert "rec_0123456789abcdef0123456789ab, rank 1" in file.text
            assert "not a guarantee" in file.text
            assert "/" not in file.name


def test_embeddings_are_measured_by_their_own_load_alone() -> None:
    embeds = served("text-embeddings-inference", batch_tokens=23_100)
    made = build_handoff(embeds, "text-embeddings-inference", None)
    assert "exec text-embeddings-router" in text_of(made, "serve.sh")
    assert said(first(embeds).command_tokens, "--max-batch-tokens") == 23_100
    assert "--max-client-batch-size (32 inputs in a request)" in " ".join(made.notes)
    text = text_of(made, "benchmark.sh")
    assert "--endpoint /v1/embeddings" in text
    assert "--request-rate 4" in text  # all at once, the server would refuse most
    assert "guidellm" not in text


def test_a_reranker_is_measured_with_pairs_of_texts() -> None:
    pairs: dict[str, Any] = {"query": 512, "passage": 512, "embeds": ""}
    sent = {
        "text-embeddings-inference": "--endpoint-type hf_tei_rankings",  # POST /rerank with query and texts
        "vllm": "--endpoint /v1/rerank",
        "sglang": "--endpoint /v1/rerank",
    }
    for engine, line in sent.items():
        own = engine_named(engine).one_pass or BENCHMARKS["embeddings"]
        reranks = option(start(engine, replace(own, load=own.reranks), **pairs))
        text = text_of(build_handoff(reranks, "shell", None), "benchmark.sh")
        assert line in text and "embeddings" not in text and "(default: own, the generator of the engine): own." in text


def test_tgi_keeps_more_requests_waiting_than_it_runs() -> None:
    tokens = first(served("tgi")).command_tokens
    assert said(tokens, "--max-batch-size") == 64
    assert "--max-concurrent-requests" not in tokens  # beyond which it refuses
    assert any("refuses" in note for note in build_handoff(served("tgi"), "tgi", None).notes)


def test_an_image_is_prepared_as_its_own_entry_point_does() -> None:
    tgi = first(served("tgi"))
    assert tgi.image == "ghcr.io/huggingface/text-generation-inference:3.3.7"
    assert "activate" in tgi.container_lines()[0]
    assert "activate" not in "".join(tgi.script_lines())
    embeds = first(served("text-embeddings-inference"))
    assert embeds.image.endswith("inference:cuda-1.9")
    spark = replace(embeds, group=replace(embeds.group, sku="nvidia-gb10-dgx-spark"))
    assert spark.image.endswith("inference:121-1.9")
    arm = replace(embeds, group=replace(embeds.group, sku="nvidia-gh200-96gb"))
    with pytest.raises(Unanswerable, match="No container image"):
        assert arm.image


def test_a_server_without_a_container_is_started_by_its_script() -> None:
    assert "mlx_lm.server" in text_of(build_handoff(served("mlx", maker="Apple"), "mlx", None), "serve.sh")
    with pytest.raises(Unanswerable, match="Targets that can start it: shell"):
        build_handoff(served("mlx", maker="Apple"), "kubernetes", None)
    with pytest.raises(Unanswerable, match="publishes no images"):
        assert first(served("mlx", maker="Apple")).image


@pytest.mark.parametrize(
    ("engine", "kind"), [("ctranslate2", "speech"), ("diffusers", "pictures"), ("pytorch", "passes")]
)
def test_a_library_is_served_by_a_script_for_its_own_work_alone(engine: str, kind: str) -> None:
    text = text_of(build_handoff(served(engine), "shell", None), "serve.sh")
    script, command = text.split("<<'EOF'\n")[1].split("\nEOF\n")
    compile(script, "serve_samples.py", "exec")
    assert f"serve_samples.py {kind} " in command
    flags = set(command_flags(shlex.split(command.replace("\\\n", " "))))
    assert all(f'"{flag}"' in script for flag in flags)
    for refused in (option(start(engine, BENCHMARKS["vllm"])), served(engine, stored=None)):
        with pytest.raises(Unanswerable, match="no server for this model and format"):
            build_handoff(refused, "shell", None)


class Made(dict[str, Any]):
    """An output of Diffusers: its fields are also attributes."""

    __getattr__ = dict.__getitem__


class Pipeline:
    """A pipeline of Diffusers: it makes videos where it is asked for frames, else pictures."""

    from_pretrained = classmethod(lambda cls, *_, **__: cls())

    def to(self, _device: str) -> Pipeline:
        return self

    def __call__(
        self,
        prompts: list[str],
        *,
        num_inference_steps: int,
        width: int,
        height: int,
        num_frames: int | None = None,
        output_type: str = "pil",
    ) -> Made:
        assert (num_inference_steps, width, height, output_type) == (4, 64, 32, "pil")
        if num_frames is None:
            return Made(images=[Image.new("RGB", (width, height)) for _ in prompts])
        frames = [Image.new("RGB", (width, height), (50 * shade, 0, 0)) for shade in range(num_frames)]
        return Made(frames=[frames for _ in prompts])


@pytest.mark.parametrize(("frames", "kind"), [(None, "PNG"), (5, "WEBP")])
def test_diffusers_serves_and_measures_pictures_and_videos(
    frames: int | None, kind: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cuda = SimpleNamespace(is_available=lambda: False)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(bfloat16=None, float16=None, cuda=cuda))
    monkeypatch.setitem(sys.modules, "diffusers", SimpleNamespace(DiffusionPipeline=Pipeline))
    sized = served("diffusers", passes=4, rounds=2, sample_width=64, sample_height=32, sample_frames=frames)
    made = build_handoff(sized, "shell", None)
    script, command = text_of(made, "serve.sh").split("<<'EOF'\n")[1].split("\nEOF\n")
    names: dict[str, Any] = {"__name__": "serve_samples"}
    exec(script, names)
    apps: list[Any] = []
    monkeypatch.setattr("uvicorn.run", lambda app, **_: apps.append(app))
    words = shlex.split(command.replace("\\\n", " ").replace("${REVISION:-main}", "main"))
    monkeypatch.setattr(sys, "argv", words[words.index("/tmp/serve_samples.py") :])
    names["main"]()
    answer = TestClient(apps[0]).post("/v1/images/generations", json={"prompt": "a house", "n": 2}).json()
    pictures = [Image.open(io.BytesIO(base64.b64decode(each["b64_json"]))) for each in answer["data"]]
    assert [(each.format, getattr(each, "n_frames", 1)) for each in pictures] == [(kind, frames or 1)] * 2
    load = next(line for line in text_of(made, "benchmark.sh").splitlines() if "import DiffusionPipeline" in line)
    _, _, code, *arguments = shlex.split(load)
    monkeypatch.setattr(sys, "argv", ["-c", *arguments])
    exec(code, {})
    assert "samples/s" in capsys.readouterr().out


@pytest.mark.parametrize("engine", [name for name in ENGINES if not BY_ENGINE[name].script])
def test_the_benchmark_sends_to_the_port_of_its_engine(engine: str) -> None:
    text = text_of(build_handoff(served(engine), engine, None), "benchmark.sh")
    assert set(re.findall(r"localhost:(\d+)", text)) == {str(SERVERS[engine].port)}


def test_vllm_loads_the_weights_of_bitsandbytes_with_a_plugin() -> None:
    four_bits = served(format="nf4", conversion="bitsandbytes")
    assert first(four_bits).setup_line == "pip install vllm-bnb-plugin==0.0.3"
    assert not first(four_bits, "0.27.1").setup_line and not first(served()).setup_line
    assert any("vllm-bnb-plugin==0.0.3" in note for note in build_handoff(four_bits, "shell", None).notes)
    assert "ray" not in build_handoff(four_bits, "shell", None).targets


def test_a_note_says_that_neuron_counts_cores() -> None:
    trainium = served(tensor=16, maker="AWS")
    assert any(
        "counts NeuronCores: 16 on 8 accelerators" in note for note in build_handoff(trainium, "shell", None).notes
    )
    assert not any("NeuronCores" in note for note in build_handoff(served(), "shell", None).notes)


def test_vllm_reads_recordings_with_its_audio_packages() -> None:
    speech = option(start("vllm", BENCHMARKS["vllm-speech"], served=None, served_limit=None, refused_share=None))
    assert first(speech).setup_line == "pip install 'vllm[audio]==0.33.0'"
    assert any("vllm[audio]==0.33.0" in note for note in build_handoff(speech, "shell", None).notes)
    text = text_of(build_handoff(speech, "docker", None), "benchmark.sh")
    assert "localhost:8000/v1/audio/transcriptions" in text and "transformers" not in text


def test_notes_state_the_served_context_and_the_share_that_is_refused() -> None:
    whole = build_handoff(served(served=131_072), "vllm", None)
    assert said(first(served(served=131_072)).command_tokens, "--max-model-len") == 131_072
    assert any("up to 131,072 tokens" in note and "No request" in note for note in whole.notes)
    short = build_handoff(served(served=2600, served_limit="requested", refused_share=0.029), "vllm", None)
    assert any("as requested. 2.9 % of this workload's requests are longer" in note for note in short.notes)
    assert not any("accepts up to" in note for note in build_handoff(served("mlx"), "mlx", None).notes)


def test_tensorrt_llm_reads_prompts_beyond_a_step_in_chunks() -> None:
    assert "--enable_chunked_prefill" not in first(served("tensorrt-llm", chunked=None)).command_tokens
    assert "--enable_chunked_prefill" in first(served("tensorrt-llm", chunked="")).command_tokens


HOST_CACHE: dict[str, Any] = {"host_cache_gib": 700, "host_cache_rank_gb": 90, "host_cache_rank_bytes": 90_000_000_000}


def test_host_memory_for_prefixes_is_a_flag_or_a_setting() -> None:
    vllm, sglang, trtllm = (first(served(engine, **HOST_CACHE)) for engine in ("vllm", "sglang", "tensorrt-llm"))
    assert said(vllm.command_tokens, "--kv-offloading-size") == 700  # GiB of all ranks
    assert said(sglang.command_tokens, "--hicache-size") == 90  # GB of a rank
    settings = yaml.safe_load(config_text(trtllm.group, BY_ENGINE["tensorrt-llm"]))
    assert settings["kv_cache_config"]["host_cache_size"] == 90_000_000_000  # bytes of a rank


def test_llama_cpp_reserves_no_cache_that_its_slots_cannot_fill() -> None:
    assert said(first(served("llama.cpp", sequences=1, window=131_072)).command_tokens, "-c") == 131_072
    assert said(first(served("llama.cpp", sequences=4, window=131_072)).command_tokens, "-c") == 300_000


def test_work_in_single_passes_is_measured_at_its_server_or_in_its_library() -> None:
    places: dict[str, Any] = {"served": None, "served_limit": None, "refused_share": None, "embeds": ""}
    for engine, port in (("vllm", 8000), ("sglang", 30000)):
        embeds = option(start(engine, BENCHMARKS["embeddings"], **places))
        text = text_of(build_handoff(embeds, "shell", None), "benchmark.sh")
        assert f"--base-url http://localhost:{port}" in text and "--backend openai-embeddings" in text
        assert "aiperf" not in text  # which sends prompts to be continued
        served_text = text_of(build_handoff(embeds, "shell", None), "serve.sh")
        assert "--max-model-len" not in served_text and "--context-length" not in served_text
        assert ("--is-embedding" in served_text) is (engine == "sglang")
    speech = option(start("vllm", BENCHMARKS["passes"], **places))
    text = text_of(build_handoff(speech, "shell", None), "benchmark.sh")
    assert "transformers" in text and "random-input-len" not in text
    assert ': "${SAMPLE_FILE:?set it to a sample' in text


def test_every_variable_of_a_benchmark_has_a_sentence() -> None:
    for name, benchmark in BENCHMARKS.items():
        for command in (benchmark.load, benchmark.own_prompts, benchmark.reranks):
            assert all(line.startswith(': "${') for line in input_lines(command)), name
