"""Why the speed of training is off, source by source: what the predictions say, and what was found in the sources."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from app.calibration.report import errors_of
from app.sizing.evidence import Compared

ASKED_MEDIAN, ASKED_P90 = 0.12, 0.40
# Read row by row in November 2026; each holds for most of its source's results that are far off.
WHY: Mapping[str, str] = MappingProxyType(
    {
        "aws_neuron_docs": "early releases of Neuron and FP32 runs; no other source of Trainium",
        "aws_awsome_training": "two results of one FSDP recipe without its recomputation",
        "bigscience_a100": "shapes tried on purpose, of which heads of 150 or 450 run a third slower",
        "bigscience_v100": "trials of 2021, by their source up to 40 % apart between runs; ZeRO-3 over 100 Gb/s",
        "colossalai_readme": "recomputation and loss are not published",
        "deepspeed_posts": "small micro-batches wait longer for weights, large ones run faster than elsewhere",
        "flash_attention_training": "kernels of its own for loss, norm and rotation",
        "fsdp_qlora_bench": "consumer cards; nobody else trains adapters there on whole sequences",
        "litgpt_thunder": "one model of 1B by seven compilers",
        "llm_analysis_refs": "ZeRO-3 of 2021 at small batches, two to three times as slow as that of 2022",
        "ml_engineering_upgrade": "states on the host: faster than older runs with them there lead to expect",
        "mlperf_training_v3.0": "five results of one benchmark, slower than later rounds lead to expect",
        "mlperf_training_v3.1": "eight results of one benchmark, faster than other rounds lead to expect",
        "nemo_automodel_perf": "recomputation is not published; mixtures of experts with DeepEP on FSDP",
        "nemo_bridge_skills": "one setting up to 2.4 times apart after a change; tiny batches wait for the host",
        "nemo_docs_longseq": "context parallelism over up to a million tokens; layouts without it are not published",
        "nemo_megatron_bridge_perf": "one setting differs up to 1.6 times between releases, most with experts",
        "nemo_model_verification_cards": "experts in the last release, which is half as fast again",
        "nvidia_dgxc_benchmarking": "runs of Hugging Face's trainer average start-up; experts split by tensors too",
        "nvidia_dle": "TensorFlow and Paddle, which nobody else publishes, on encoders",
        "peft_method_comparison": "batches padded to their longest sample, whose lengths are not published",
        "tinyllama_readme": "one result, with kernels of its own",
        "torchao_bench": "B200 that the source says are limited in power; FP8 gains less than elsewhere",
    }
)


def off(rows: Sequence[Compared]) -> Iterator[list[str]]:
    """Sources of token training beyond what is asked, the most results first: results, errors and bias unseen, the
    median of the fit that saw them, and why.
    """
    found: dict[str, list[Compared]] = defaultdict(list)
    for row in rows:
        if row.kind == "training":
            found[row.source].append(row)
    for source, own in sorted(found.items(), key=lambda item: (-len(item[1]), item[0])):
        measured = [row.measured for row in own]
        unseen, seen = errors_of((r.held_out for r in own), measured), errors_of((r.predicted for r in own), measured)
        if unseen.median > ASKED_MEDIAN or unseen.p90 > ASKED_P90:
            figures = (f"{unseen.median:.0%}", f"{unseen.p90:.0%}", f"{unseen.bias:.2f}", f"{seen.median:.0%}")
            yield [source, str(len(own)), *figures, WHY.get(source, "no cause found")]
