"""One result file of each benchmark, in the shape that the tool writes, with figures of our own."""

from __future__ import annotations

import json
from typing import Any

VLLM: dict[str, Any] = {
    "date": "20261101-101500",
    "endpoint_type": "openai",
    "backend": "vllm",
    "label": None,
    "model_id": "llama-3.1-8b-instruct",
    "tokenizer_id": "llama-3.1-8b-instruct",
    "num_prompts": 96,
    "request_rate": "inf",
    "burstiness": 1.0,
    "max_concurrency": 24,
    "duration": 14.3,
    "completed": 96,
    "failed": 0,
    "total_input_tokens": 98304,
    "total_output_tokens": 24576,
    "request_throughput": 6.71,
    "output_throughput": 1718.0,
    "total_token_throughput": 8590.0,
    "mean_ttft_ms": 460.0,
    "median_ttft_ms": 401.0,
    "p99_ttft_ms": 902.77,
    "mean_tpot_ms": 12.4,
    "median_tpot_ms": 12.3,
    "p99_tpot_ms": 15.01,
    "mean_itl_ms": 12.4,
}
SGLANG = (
    '{"backend":"sglang","dataset_name":"random","request_rate":Infinity,"max_concurrency":24,"random_input_len":1024,'
    '"random_output_len":256,"random_range_ratio":1.0,"duration":58.4,"completed":96,"total_input_tokens":98304,'
    '"total_output_tokens":24576,"request_throughput":1.64,"input_throughput":1683.3,"output_throughput":420.8,'
    '"total_throughput":2104.1,"mean_e2e_latency_ms":13400.1,"median_ttft_ms":250.1,"median_itl_ms":39.0,'
    '"concurrency":22.0,"accept_length":null}\n'
)
SCREEN = """vllm serve llama-3.1-8b-instruct --tensor-parallel-size 2
============ Serving Benchmark Result ============
Successful requests:                     96
Maximum request concurrency:             24
Benchmark duration (s):                  61.20
Total input tokens:                      98304
Total generated tokens:                  24576
Request throughput (req/s):              1.57
Output token throughput (tok/s):         401.57
---------------Time to First Token----------------
Mean TTFT (ms):                          310.20
Median TTFT (ms):                        288.10
P99 TTFT (ms):                           902.77
Mean TPOT (ms):                          41.90
"""
VLLM_LATENCY = {
    "avg_latency": 2.61,
    "std_latency": 0.01,
    "latencies": [2.60, 2.61, 2.62] * 10,
    "percentiles": {"10": 2.60, "25": 2.60, "50": 2.61, "75": 2.62, "90": 2.62, "99": 2.62},
}
VLLM_THROUGHPUT = {
    "elapsed_time": 62.5,
    "num_requests": 1000,
    "total_num_tokens": 640000,
    "requests_per_second": 16.0,
    "tokens_per_second": 10240.0,
}
GUIDELLM: dict[str, Any] = {
    "metadata": {"version": 2, "guidellm_version": "0.8.1"},
    "benchmarks": [
        {
            "config": {"strategy": {"type_": "concurrent", "streams": streams}},
            "scheduler_metrics": {"requests_made": {"successful": 96, "errored": 0, "incomplete": 0, "total": 96}},
            "metrics": {
                "requests_per_second": {"successful": {"mean": 1.6}},
                "output_tokens_per_second": {"successful": {"mean": 409.6}},
                "time_to_first_token_ms": {
                    "successful": {"mean": 301.0, "median": 280.0, "percentiles": {"p99": 900.0}}
                },
                "inter_token_latency_ms": {"successful": {"mean": 41.0}},
                "prompt_token_count": {"successful": {"mean": 1024}},
                "output_token_count": {"successful": {"mean": 256}},
            },
        }
        for streams in (8, 24)
    ],
}
AIPERF: dict[str, Any] = {
    "schema_version": "1.4",
    "aiperf_version": "0.13.0",
    "request_throughput": {"unit": "requests/sec", "avg": 2.0},
    "request_count": {"unit": "requests", "avg": 96},
    "request_latency": {"unit": "ms", "avg": 10790.0},
    "time_to_first_token": {"unit": "ms", "avg": 301.0, "p50": 280.0, "p90": 500.0, "p99": 900.0},
    "inter_token_latency": {"unit": "ms", "avg": 41.0},
    "output_token_throughput": {"unit": "tokens/sec", "avg": 512.0},
    "input_sequence_length": {"unit": "tokens", "avg": 1024},
    "output_sequence_length": {"unit": "tokens", "avg": 256},
    "input_config": {"endpoint": {"model_names": ["llama-3.1-8b-instruct"]}, "loadgen": {"concurrency": 24}},
    "telemetry_data": {"endpoints": {"a": {"gpus": {"0": {"gpu_name": "NVIDIA H100 80GB HBM3"}}}}},
    "was_cancelled": False,
}
GENAI_PERF = {name: value for name, value in AIPERF.items() if name not in ("aiperf_version", "schema_version")}
INFERENCE_PERF: dict[str, Any] = {
    "load_summary": {"count": 79, "requested_rate": 0.4, "achieved_rate": 0.39},
    "successes": {
        "count": 79,
        "latency": {
            "time_to_first_token": {"mean": 0.2, "median": 0.18, "p99": 0.5},
            "time_per_output_token": {"mean": 0.0104},
            "request_latency": {"mean": 4.33},
        },
        "throughput": {"output_tokens_per_sec": 216.1, "requests_per_sec": 0.39},
        "prompt_tokens": {"mean": 1024},
        "output_tokens": {"mean": 546},
    },
    "failures": {"count": 0},
}
REPORT: dict[str, Any] = {
    "version": "0.2",
    "run": {"uid": "run-0001", "time": {"start": "2026-11-01T10:00:00Z", "end": "2026-11-01T10:05:00Z"}},
    "scenario": {
        "stack": [
            {
                "metadata": {"label": "engine-0", "cfg_id": "c1"},
                "standardized": {
                    "kind": "inference_engine",
                    "tool": "vllm",
                    "tool_version": "0.22.0",
                    "role": "replica",
                    "replicas": 1,
                    "model": {"name": "llama-3.1-8b-instruct"},
                    "accelerator": {
                        "model": "H100-80GB",
                        "count": 2,
                        "parallelism": {"tp": 2, "pp": 1, "dp": 1, "dp_local": 1, "workers": 1, "ep": 1},
                    },
                },
                "native": {"args": {"--max-num-seqs": 128}},
            }
        ],
        "load": {
            "metadata": {},
            "standardized": {
                "tool": "inference-perf",
                "input_seq_len": {"distribution": "fixed", "value": 1024},
                "output_seq_len": {"distribution": "fixed", "value": 256},
                "rate_qps": 4,
            },
            "native": {},
        },
    },
    "results": {
        "request_performance": {
            "aggregate": {
                "requests": {"total": 1200, "failures": 3},
                "latency": {
                    "time_to_first_token": {"units": "s", "mean": 0.21, "p50": 0.19, "p99": 0.62},
                    "time_per_output_token": {"units": "s/token", "mean": 0.018, "p99": 0.027},
                },
                "throughput": {
                    "output_token_rate": {"units": "tokens/s", "mean": 1011.0},
                    "request_rate": {"units": "queries/s", "mean": 3.95},
                },
            }
        }
    },
}
LLAMA_BENCH: list[dict[str, Any]] = [
    {
        "build_commit": "abc1234",
        "build_number": 9500,
        "gpu_info": "NVIDIA GeForce RTX 4090",
        "backends": "CUDA",
        "model_type": "llama 8B Q4_K - Medium",
        "n_prompt": prompt,
        "n_gen": output,
        "n_depth": 0,
        "avg_ts": speed,
    }
    for prompt, output, speed in ((512, 0, 9100.5), (0, 128, 140.5))
]
LLAMA_LINES = "\n".join(map(json.dumps, LLAMA_BENCH))
LLAMA_CSV = "\n".join(
    [",".join(LLAMA_BENCH[0]), *(",".join(f'"{value}"' for value in row.values()) for row in LLAMA_BENCH)]
)
# Means over repetitions, as AIPerf 0.13 names them: metric and statistic in one name.
AIPERF_SWEEP = {
    "aiperf_version": "0.13.0",
    "metadata": {"aggregation_type": "sweep"},
    "per_combination_metrics": [
        {
            "parameters": {"concurrency": concurrency},
            "metrics": {
                "request_throughput_avg": {"mean": 1.6, "ci_low": 1.5, "ci_high": 1.7, "unit": "requests/sec"},
                "request_count_avg": {"mean": 96, "unit": "requests"},
                "time_to_first_token_avg": {"mean": 301.0, "unit": "ms"},
                "inter_token_latency_avg": {"mean": 41.0, "unit": "ms"},
                "output_token_throughput_avg": {"mean": 409.6, "unit": "tokens/sec"},
                "input_sequence_length_avg": {"mean": 1024, "unit": "tokens"},
                "output_sequence_length_avg": {"mean": 256, "unit": "tokens"},
            },
        }
        for concurrency in (10, 20)
    ],
}
SGLANG_SCREEN = """============ Serving Benchmark Result ============
Backend:                                 sglang
Traffic request rate:                    inf
Max request concurrency:                 8
Successful requests:                     100
Benchmark duration (s):                  53.81
Total input tokens:                      51200
Total generated tokens:                  12800
Request throughput (req/s):              1.86
Output token throughput (tok/s):         237.89
Concurrency:                             7.73
Mean E2E Latency (ms):                   4161.62
Mean TTFT (ms):                          561.62
"""
LLAMA_TABLE = """| model                  |     size | params | backend | ngl |   test |             t/s |
| ---------------------- | -------: | -----: | ------- | --: | -----: | --------------: |
| llama 8B Q4_K - Medium | 4.58 GiB | 8.03 B | CUDA    |  99 |  pp512 | 9100.50 ± 12.00 |
| llama 8B Q4_K - Medium | 4.58 GiB | 8.03 B | CUDA    |  99 |  tg128 |   140.50 ± 0.10 |

build: abc1234 (9500)
"""
MLPERF = """================================================
MLPerf Results Summary
================================================
SUT name : PySUT
Scenario : Server
Mode     : PerformanceOnly
Scheduled samples per second : 12.50
Completed samples per second    : 12.01
Completed tokens per second: 3400.20
Result is : VALID
Mean First Token latency (ns)   : 800000000
99.00 percentile first token latency (ns)   : 1800000000
Mean Time to Output Token (ns)   : 90000000
min_query_count : 13368
"""
PLAIN: dict[str, Any] = {
    "model": "llama-3.1-8b-instruct",
    "accelerator": "h100-sxm",
    "accelerators": 1,
    "engine": "vllm",
    "engine_version": "0.28",
    "weight_format": "bf16",
    "concurrent_requests": 24,
    "completed_requests": 96,
    "input_tokens": 1024,
    "output_tokens": 256,
    "output_tokens_per_s": 1700,
    "ttft_ms": 460,
    "tpot_ms": 12.4,
}
TRAINER = "".join(
    f"[titan] step: {step}  loss:  3.2  memory: 40.00GiB(50.00%)  tps: 5,000  mfu: 40%\n" for step in range(1, 12)
)
ENGINE = (
    "INFO 11-20 10:00:00 [loggers.py:118] Engine 000: Avg prompt throughput: 3000.0 tokens/s, Avg generation "
    "throughput: 1700.5 tokens/s, Running: 24 reqs, Waiting: 0 reqs, GPU KV cache usage: 10.0%, Prefix cache hit "
    "rate: 0.0%\n"
) * 6
# Tool that is recognized, and its file.
FILES: dict[str, tuple[str, str]] = {
    "vllm": ("vllm-bench-serve", json.dumps(VLLM)),
    "sglang": ("sglang-bench-serving", SGLANG),
    "screen": ("vllm-bench-serve", SCREEN),
    "vllm-latency": ("vllm-bench-latency", json.dumps(VLLM_LATENCY)),
    "vllm-throughput": ("vllm-bench-throughput", json.dumps(VLLM_THROUGHPUT)),
    "guidellm": ("guidellm", json.dumps(GUIDELLM)),
    "aiperf": ("aiperf", json.dumps(AIPERF)),
    "genai-perf": ("genai-perf", json.dumps(GENAI_PERF)),
    "inference-perf": ("inference-perf", json.dumps(INFERENCE_PERF)),
    "report": ("benchmark-report", json.dumps(REPORT)),
    "llama-bench": ("llama-bench", json.dumps(LLAMA_BENCH)),
    "sglang-screen": ("sglang-bench-serving", SGLANG_SCREEN),
    "aiperf-sweep": ("aiperf", json.dumps(AIPERF_SWEEP)),
    "llama-lines": ("llama-bench", LLAMA_LINES),
    "llama-csv": ("llama-bench", LLAMA_CSV),
    "llama-table": ("llama-bench", LLAMA_TABLE),
    "mlperf": ("mlperf", MLPERF),
    "plain": ("headroom", json.dumps(PLAIN)),
    "trainer": ("trainer-log", TRAINER),
    "engine": ("engine-log", ENGINE),
}
