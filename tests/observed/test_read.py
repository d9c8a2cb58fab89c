"""What the DCGM exporter says. Every engine's metrics by their names, and text that is none."""

from __future__ import annotations

import doctest
import json
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.observed import exposition, read, service
from app.observed.figures import RunContext, UnreadableText
from app.observed.read import ENGINES, read_metrics
from tests.observed.written import STARTED_S, TOKEN_BUCKETS, vllm, written

LABELS = 'gpu="{gpu}",UUID="GPU-{gpu}",device="nvidia{gpu}",modelName="NVIDIA H100 80GB HBM3",Hostname="n1"'


def text(busy: tuple[float, ...], *, xid: int = 0, rows: int = 0, clock: int = 1485) -> str:
    """An exporter's text of some accelerators."""
    lines = ["# TYPE DCGM_FI_DEV_GPU_UTIL gauge"]
    for gpu, used in enumerate(busy):
        labels = "{" + LABELS.format(gpu=gpu) + "}"
        lines += [
            f"DCGM_FI_DEV_GPU_UTIL{labels} {used}",
            f"DCGM_FI_DEV_SM_CLOCK{labels} {clock if gpu else 1485}",
            f"DCGM_FI_DEV_PCIE_LINK_WIDTH{labels} {16 if gpu else 8}",
            f"DCGM_FI_DEV_PCIE_MAX_LINK_WIDTH{labels} 16",
            f"DCGM_FI_DEV_GPU_TEMP{labels} {60 + gpu}",
            f"DCGM_FI_DEV_POWER_USAGE{labels} 650.5",
            f"DCGM_FI_DEV_FB_USED{labels} {70000 - gpu}",
            f"DCGM_FI_DEV_XID_ERRORS{labels} {xid}",
            f"DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS{labels} {rows}",
        ]
    return "\n".join(lines)


def test_accelerators_are_reported_by_the_mean_and_the_least_busy_one() -> None:
    found = read_metrics([(text((90, 90, 30), clock=1980), None)], RunContext(accelerators=3))
    assert {f.quantity: f.value for f in found.figures} == pytest.approx(
        {
            "utilization": 0.7,
            "slowest_clock_share": 1485 * 3 / (1485 + 2 * 1980),
            "link_width_share": 0.5,
            "temperature_c": 61,
            "power_w": 650.5,
            "memory_used_bytes": 70000 * 2**20,
        }
    )
    assert any("1815 MHz" in note for note in found.notes) and found.to_observations().devices.utilization is not None


@pytest.mark.parametrize(
    ("labels", "metrics"),
    [
        (
            'uuid="GPU-{gpu}"',
            ("nvidia_smi_utilization_gpu_ratio", "nvidia_smi_power_draw_watts", "nvidia_smi_memory_used_bytes", 1),
        ),
        ('gpu_uuid="GPU-{gpu}"', ("nv_gpu_utilization", "nv_gpu_power_usage", "nv_gpu_memory_used_bytes", 1)),
        ('device="{gpu}"', ("habanalabs_utilization", "habanalabs_power_mW", "habanalabs_memory_used_bytes", 100)),
    ],
)
def test_other_exporters_report_accelerators_in_their_own_units(
    labels: str, metrics: tuple[str, str, str, int]
) -> None:
    busy, power, memory, percent = metrics
    lines = [
        f"{name}{{{labels.format(gpu=gpu)}}} {value}"
        for gpu, used in enumerate((0.9, 0.5))
        for name, value in ((busy, used * percent), (power, 650 * (1000 if percent > 1 else 1)), (memory, 7e10 + gpu))
    ]
    found = read_metrics([("\n".join(lines), None)], RunContext(accelerators=2))
    values = {f.quantity: f.value for f in found.figures}
    assert values == pytest.approx({"utilization": 0.7, "power_w": 650, "memory_used_bytes": 7e10 + 1})


def test_two_exporters_of_the_same_accelerators_report_them_once() -> None:
    triton = "\n".join(f'nv_gpu_memory_used_bytes{{gpu_uuid="GPU-{gpu}"}} 1e9' for gpu in range(2))
    found = read_metrics([(f"{text((90, 90))}\n{triton}", None)], RunContext(accelerators=2))
    assert [f.value for f in found.figures if f.quantity == "memory_used_bytes"] == [70000 * 2**20]
    assert not any("accelerators;" in note for note in found.notes)


def test_a_clock_is_a_share_where_the_most_is_exported_too() -> None:
    most = text((90,)).replace("DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_MAX_SM_CLOCK").replace("650.5", "1980")
    found = read_metrics([(most, None)], RunContext())
    assert {f.quantity: f.value for f in found.figures}["clock_share"] == 0.75


def test_errors_are_counted_between_scrapes_an_hour_apart_and_an_xid_is_reported() -> None:
    day = 86400.0
    found = read_metrics([(text((90,)), 0.0), (text((90,), xid=79, rows=2), day)], RunContext())
    assert {f.quantity: f.value for f in found.figures}["errors_per_day"] == 2
    assert any("Xid" in note for note in found.notes)
    soon = read_metrics([(text((90,)), 0.0), (text((90,), rows=2), 60.0)], RunContext())
    assert "errors_per_day" not in {f.quantity for f in soon.figures}


def test_another_number_of_accelerators_is_reported() -> None:
    assert any(
        "of 2 accelerators; the deployment has 8" in n
        for n in read_metrics([(text((9, 9)), None)], RunContext(accelerators=8)).notes
    )


def test_amd_metrics_are_read_with_and_without_the_prefix() -> None:
    text = "\n".join(
        f'gpu_{name}{{gpu_id="{gpu}"}} {value}'
        for gpu in (0, 1)
        for name, value in (
            ("gfx_activity", 90 + gpu),
            ("used_vram", 180211 - gpu),
            ("junction_temperature", 71 - 2 * gpu),
            ("package_power", 650),
        )
    )
    expected = {
        "utilization": 0.905,
        "memory_used_bytes": 180211 * 2**20,
        "temperature_c": 70,
        "power_w": 650,
    }
    for exported in (text, text.replace("gpu_", "amd_gpu_").replace("amd_gpu_id", "gpu_id")):
        found = read_metrics([(exported, None)], RunContext(accelerators=2))
        assert {f.quantity: f.value for f in found.figures} == pytest.approx(expected) and not found.notes


CARD = 'gpu="{}",UUID="G{}",modelName="{}"'
A100 = CARD.format(0, 0, "NVIDIA A100 80GB PCIe")
SLICES = "\n".join(
    f'DCGM_FI_PROF_GR_ENGINE_ACTIVE{{{A100},GPU_I_ID="{i}",GPU_I_PROFILE="1g.10gb"}} 0.9' for i in (8, 9)
)
POWER = f"DCGM_FI_DEV_POWER_USAGE{{{A100}}} 120.5"


def test_a_mig_slice_is_not_an_accelerator() -> None:
    found = read_metrics([(f"{SLICES}\n{POWER}", None)], RunContext(accelerator="nvidia-a100-pcie-80gb"))
    assert {f.quantity: f.value for f in found.figures} == {"power_w": 120.5}
    assert ["MIG" in note for note in found.notes] == [True]


@pytest.mark.parametrize("other", ["NVIDIA RTX 2000 Ada Generation", "Tesla T4", "NVIDIA H100 80GB HBM3"])
def test_another_accelerator_of_the_machine_is_left_out(other: str) -> None:
    text = f"{POWER}\nDCGM_FI_DEV_POWER_USAGE{{{CARD.format(1, 1, other)}}} 20"
    found = read_metrics([(text, None)], RunContext(accelerator="nvidia-a100-pcie-80gb"))
    assert {f.quantity: f.value for f in found.figures} == {"power_w": 120.5}
    assert [other in note for note in found.notes] == [True]
    unknown = read_metrics([(text, None)], RunContext(accelerators=2, accelerator="amd-mi300x"))
    assert unknown.figures[0].value == pytest.approx(70.25) and not unknown.notes


SGLANG = written(
    {"sglang:num_requests": 600, "sglang:prompt_tokens": 6e5, "sglang:generation_tokens": 6e4},
    {"sglang:num_running_reqs": 5, "sglang:num_queue_reqs": 2, "sglang:token_usage": 0.28},
    {
        "sglang:time_to_first_token_seconds": ((0.1, 0.2, 0.4), [0.3] * 600),
        "sglang:inter_token_latency_seconds": (TOKEN_BUCKETS, [0.02] * 5000),
        "sglang:queue_time_seconds": ((0.1, 0.2), [0.05] * 600),
    },
)
TGI = """\
# TYPE tgi_request_success counter
tgi_request_success 600
# TYPE tgi_request_queue_duration histogram
tgi_request_queue_duration_bucket{le="0.1"} 600
tgi_request_queue_duration_bucket{le="+Inf"} 600
tgi_request_queue_duration_sum 30
tgi_request_queue_duration_count 600
tgi_batch_inference_duration_bucket{method="prefill",le="0.5"} 400
tgi_batch_inference_duration_bucket{method="prefill",le="+Inf"} 400
tgi_batch_inference_duration_sum{method="prefill"} 100
tgi_batch_inference_duration_count{method="prefill"} 400
tgi_batch_inference_duration_bucket{method="decode",le="0.05"} 40000
tgi_batch_inference_duration_bucket{method="decode",le="+Inf"} 40000
tgi_batch_inference_duration_sum{method="decode"} 800
tgi_batch_inference_duration_count{method="decode"} 40000
tgi_request_generated_tokens_bucket{le="+Inf"} 600
tgi_request_generated_tokens_bucket{le="200"} 600
tgi_request_generated_tokens_sum 60000
tgi_request_generated_tokens_count 600
tgi_request_failure{err="overloaded"} 60
tgi_batch_current_size 5
tgi_queue_size 2
process_start_time_seconds 1790000000
"""
TRTLLM = written(
    {"trtllm_request_success": 600, "trtllm_prompt_tokens": 6e5, "trtllm_generation_tokens": 6e4},
    {"trtllm_num_requests_running": 5, "trtllm_num_requests_waiting": 2, "trtllm_kv_cache_utilization": 0.28},
    {
        "trtllm_time_to_first_token_seconds": ((0.1, 0.2, 0.4), [0.3] * 600),
        "trtllm_time_per_output_token_seconds": (TOKEN_BUCKETS, [0.02] * 600),
        "trtllm_request_queue_time_seconds": ((0.1, 0.2), [0.05] * 600),
    },
)
DYNAMO = TRTLLM.replace("trtllm_", "trtllm:")
TRITON = """\
nv_inference_request_success{model="ensemble",version="1"} 600
nv_inference_request_success{model="tensorrt_llm",version="1"} 600
nv_inference_first_response_histogram_ms_bucket{model="tensorrt_llm",version="1",le="500"} 600
nv_inference_first_response_histogram_ms_bucket{model="tensorrt_llm",version="1",le="+Inf"} 600
nv_inference_first_response_histogram_ms_sum{model="tensorrt_llm",version="1"} 180000
nv_inference_first_response_histogram_ms_count{model="tensorrt_llm",version="1"} 600
nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="scheduled",version="1"} 5
nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="waiting",version="1"} 2
nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="max",version="1"} 512
nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="fraction",model="tensorrt_llm",version="1"} 0.28
process_start_time_seconds 1790000000
"""


LMDEPLOY = SGLANG.replace("sglang:", "lmdeploy:")
for theirs, ours in (
    ("num_requests_total", "request_success_total"),
    ("num_running_reqs", "num_requests_running"),
    ("num_queue_reqs", "num_requests_waiting"),
    ("token_usage", "gpu_cache_usage_perc"),
    ("inter_token_latency_seconds", "iter_token_latency"),
    (":queue_time_seconds", ":request_queue_time_seconds"),
):
    LMDEPLOY = LMDEPLOY.replace(theirs, ours)


@pytest.mark.parametrize(
    "text",
    [SGLANG, TGI, TRTLLM, DYNAMO, TRITON, LMDEPLOY],
    ids=["sglang", "tgi", "trtllm", "dynamo", "triton", "lmdeploy"],
)
def test_an_engine_is_read_by_its_names(text: str) -> None:
    reading = read_metrics([(text, STARTED_S + 300)], RunContext())
    found = {f.quantity: f.value for f in reading.figures}
    assert reading.to_observations().service.requests_per_s == found["requests_per_s"]
    usual = {"requests_per_s": 2.0, "ttft_p50_s": 0.3, "running": 5, "waiting": 2}
    assert {name: found[name] for name in usual} == pytest.approx(usual, rel=0.2)
    if text is not TRITON:
        assert found["tpot_p50_s"] == pytest.approx(0.02, rel=0.2) and found["output_tokens_mean"] == 100
        assert found["queue_p50_s"] == pytest.approx(0.05, rel=0.2)


FRONTEND = written(
    {"dynamo_frontend_requests": 600},
    {"dynamo_frontend_inflight_requests": 14, "dynamo_frontend_queued_requests": 6},
    {"dynamo_frontend_time_to_first_token_seconds": ((0.1, 0.2, 0.4), [0.3] * 600)},
)


def test_a_frontend_counts_the_requests_of_all_replicas_and_the_queued_ones_among_those_in_flight() -> None:
    found = read_metrics([(FRONTEND, STARTED_S + 300)], RunContext(replicas=2))
    assert {f.quantity: f.value for f in found.figures if f.quantity in ("requests_per_s", "running", "waiting")} == {
        "requests_per_s": 2.0,
        "running": 4,
        "waiting": 3,
    }


def test_llama_cpp_counts_the_seconds_of_its_tokens() -> None:
    text = written(
        {"llamacpp:tokens_predicted": 6e4, "llamacpp:tokens_predicted_seconds": 1200, "llamacpp:prompt_tokens": 6e5},
        {"llamacpp:requests_processing": 5, "llamacpp:requests_deferred": 2},
    )
    found = {f.quantity: f.value for f in read_metrics([(text, STARTED_S + 300)], RunContext()).figures}
    assert found == {"output_tokens_per_s": 200, "tpot_p50_s": 0.02, "running": 5, "waiting": 2}


def test_the_mean_time_of_whole_requests_is_the_last_choice() -> None:
    whole = "".join(
        f"tgi_request_mean_time_per_token_duration{end} {value}\n"
        for end, value in (('_bucket{le="+Inf"}', 50), ("_sum", 1.6), ("_count", 50))
    ).replace('{le="+Inf"} 50', '{le="0.05"} 45\ntgi_request_mean_time_per_token_duration_bucket{le="+Inf"} 50')
    alone = {f.quantity: f for f in read_metrics([(whole, None)], RunContext()).figures}
    assert alone["tpot_p50_s"].value == pytest.approx(0.032) and "prefill" in alone["tpot_p50_s"].source
    both = {f.quantity: f.value for f in read_metrics([(TGI + whole, None)], RunContext()).figures}
    assert both["tpot_p50_s"] == pytest.approx(0.02)


INFO = 'vllm:cache_config_info{{block_size="16",cache_dtype="auto",engine="{}",num_gpu_blocks="1000"}} 1.0\n'


@pytest.mark.parametrize(
    ("text", "replicas", "tokens"),
    [
        (INFO.format(0), 1, 16000),
        (INFO.format(0) + INFO.format(1), 1, 32000),
        (INFO.format(0) + INFO.format(1), 2, 16000),
        (INFO.format(0).replace('"1000"', '"None"') + "sglang:max_total_num_tokens 500\n", 1, 500),
        (
            'dynamo_frontend_model_total_kv_blocks{model="m"} 10\n'
            'dynamo_frontend_model_kv_cache_block_size{model="m"} 64\n',
            4,
            640,
        ),
    ],
)
def test_the_size_of_the_cache_is_read_per_replica(text: str, replicas: float, tokens: float) -> None:
    found = {f.quantity: f.value for f in read_metrics([(text, None)], RunContext(replicas=replicas)).figures}
    assert found["cache_tokens"] == tokens


def queried(values: dict[str, list[float]], times: list[float], result: str = "matrix") -> str:
    """Answer of Prometheus' HTTP API, one series per metric of one engine."""
    pairs = {name: [[t, str(v)] for t, v in zip(times, seen, strict=True)] for name, seen in values.items()}
    rows = [
        {"metric": {"__name__": name, "engine": "0"}, **({"values": v} if result == "matrix" else {"value": v[-1]})}
        for name, v in pairs.items()
    ]
    return json.dumps({"status": "success", "data": {"resultType": result, "result": rows}})


def test_answers_of_the_prometheus_api_are_read_like_the_text_of_the_engine() -> None:
    counted = {"vllm:request_success_total": [100.0, 400.0, 700.0], "vllm:num_requests_running": [5.0, 5.0, 8.0]}
    found = read_metrics([(queried(counted, [0, 150, 300]), None)], RunContext())
    assert {f.quantity: f.value for f in found.figures} == {"requests_per_s": 2.0, "running": 6.0}
    now = read_metrics([(queried(counted, [0, 150, 300], "vector"), None)], RunContext())
    assert {f.quantity: f.value for f in now.figures} == {"running": 8.0}
    nameless = json.loads(queried(counted, [0, 150, 300]))
    nameless["data"]["result"][1]["metric"] = {}
    some = read_metrics([(json.dumps(nameless), None)], RunContext())
    assert {f.quantity for f in some.figures} == {"requests_per_s"}
    assert some.unread.metrics == ("a result without a metric name",)


@pytest.mark.parametrize("text", ["{}", "[]", "[1]", '{"data": {"result": [{"metric": {}}]}}', '{"data": 1}', "[" * 99])
def test_json_without_metrics_is_refused(text: str) -> None:
    with pytest.raises(UnreadableText):
        read_metrics([(text, None)], RunContext())


@pytest.mark.parametrize("module", [exposition, service, read])
def test_examples_in_docstrings_hold(module: ModuleType) -> None:
    tried = doctest.testmod(module)
    assert tried.attempted and not tried.failed


def test_no_two_engines_share_a_metric() -> None:
    names = [{metric.name for metric in engine.all_metrics} for engine in ENGINES]
    assert sum(map(len, names)) == len(set().union(*names))


@pytest.mark.parametrize("text", ["", "   ", "hello world", "up 1", "\x00\x01", "{", "vllm:num_requests_running"])
def test_text_with_nothing_known_is_refused_with_the_names_that_are_read(text: str) -> None:
    with pytest.raises(UnreadableText, match="vLLM, SGLang, TGI"):
        read_metrics([(text, None)], RunContext())


@given(st.integers(0, len(vllm(3))), st.text(max_size=20), st.sampled_from([None, 0.0, STARTED_S + 1]))
def test_text_that_was_cut_or_garbled_is_read_or_refused(cut: int, garbage: str, at_s: float | None) -> None:
    text = vllm(3)
    try:
        found = read_metrics([(text[:cut] + garbage + text[cut + 5 :], at_s), (text, at_s)], RunContext(replicas=2))
    except UnreadableText:
        return
    assert all(f.value >= 0 for f in found.figures)
    assert len(found.unread.first) <= 5
