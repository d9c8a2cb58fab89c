"""Errors of training speed by source, with the causes that were found in the sources."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from app.sizing.accuracy import errors_of
from app.sizing.evidence import Compared
from app.sizing.words import percent

ASKED_MEDIAN, ASKED_P90 = 0.12, 0.40
# Causes from a review of all rows in November 2026; each applies to most of its source's results with large errors.
WHY: Mapping[str, str] = MappingProxyType(
    {
        "aws_neuron_docs": "early releases of Neuron and FP32 runs; no other source of Trainium",
        "aws_awsome_training": "two results of one FSDP recipe without its recomputation",
        "bigscience_a100": "deliberately unusual shapes: heads of 150 or 450 run a third slower",
        "bigscience_v100": "trials of 2021 that differ by up to 40 % between runs; ZeRO-3 over 100 Gb/s",
        "colossalai_readme": "recomputation and loss are not published",
        "deepspeed_posts": "small micro-batches wait longer for weights, large ones run faster than elsewhere",
        "flash_attention_training": "custom kernels for loss, norm and rotary embedding",
        "fsdp_qlora_bench": "consumer cards; no other source trains adapters on them with full sequences",
        "litgpt_thunder": "one model of 1B by seven compilers",
        "llm_analysis_refs": "ZeRO-3 of 2021 at small batches, two to three times as slow as that of 2022",
        "ml_engineering_upgrade": "optimizer states on the host: faster than older runs with this offload suggest",
        "mlperf_training_v3.0": "five results of one benchmark, slower than later rounds suggest",
        "mlperf_training_v3.1": "eight results of one benchmark, faster than other rounds suggest",
        "nemo_automodel_perf": "recomputation is not published; mixtures of experts with DeepEP on FSDP",
        "nemo_bridge_skills": "one setting differs by up to 2.4 times after a change; tiny batches wait for the host",
        "nemo_docs_longseq": "context parallelism over up to a million tokens; layouts without it are not published",
        "nemo_megatron_bridge_perf": "one setting differs by up to 1.6 times between releases, mostly with experts",
        "nemo_model_verification_cards": "experts in the last release, which is 50 % faster",
        "nvidia_dgxc_benchmarking": "averages of Hugging Face's trainer include start-up; expert tensor parallelism",
        "nvidia_dle": "encoders on TensorFlow and Paddle, which no other source publishes",
        "peft_method_comparison": "batches padded to their longest sample, whose lengths are not published",
        "tinyllama_readme": "one result, with custom kernels",
        "torchao_bench": "B200 with a power limit, according to the source; FP8 gains less than elsewhere",
    }
)


def inaccurate_sources(rows: Sequence[Compared]) -> Iterator[list[str]]:
    """Table rows of token-training sources that miss the target, largest first.

    The columns are results, errors and bias without the source, the median error in sample, and the cause.
    """
    found: dict[str, list[Compared]] = defaultdict(list)
    for row in rows:
        if row.kind == "training":
            found[row.source].append(row)
    for source, own in sorted(found.items(), key=lambda item: (-len(item[1]), item[0])):
        measured = [row.measured for row in own]
        unseen, seen = errors_of((r.held_out for r in own), measured), errors_of((r.predicted for r in own), measured)
        if unseen.median > ASKED_MEDIAN or unseen.p90 > ASKED_P90:
            figures = (percent(unseen.median), percent(unseen.p90), f"{unseen.bias:.2f}", percent(seen.median))
            yield [source, str(len(own)), *figures, WHY.get(source, "no cause found")]
