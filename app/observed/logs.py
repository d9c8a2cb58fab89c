"""Figures from pasted logs of trainers and engines: patterns per trainer, medians after the warm-up.

Groups: `step` is the number of the step and `of` the number of steps. Step times are `seconds`, `milliseconds`,
`rate` (steps per second), `samples` (per second) or `device_tokens` (per second and accelerator). `step_tokens` and
`step_sequences` are the size of a step; `mfu` is in percent; `memory_gib`, `memory_gb` and `memory_bytes` are per
accelerator; `watts` is power per accelerator. `all_tokens` is the number of tokens since the start. Parts of a step are
`optimizer_ms`, `communication_ms` and `input_ms`. `saving` and `saved` mark the beginning and end of a checkpoint;
`saved_s` and `saved_ms` are its duration. `evaluated_s` and `evaluated_ms` are evaluation time. `ran_s` is the
duration of the run and `run_rate` its steps per second.
`retries` counts allocator retries; `begun` marks a start.
Limits: no pattern searches for one item after another across a line, so matching is fast on any text.

Patterns for DeepSpeed logs.

Source: deepspeedai/DeepSpeed of 2026-08-22, deepspeed/utils/timer.py, runtime/pipe/engine.py and
runtime/checkpoint_engine/torch_checkpoint_engine.py, read 2026-11-23. Samples are sequences of all ranks, and 1 GB
is 2^30 bytes. Logs contain the parts of a step with wall_clock_breakdown.

Patterns for logs of the Hugging Face Trainer and tools based on it: TRL, axolotl, LLaMA-Factory, Swift and Unsloth.

Source: huggingface/transformers, src/transformers/trainer_utils.py (speed_metrics), trainer_callback.py; numbers are
quoted since 5.0; read 2026-11-23. The progress bar is that of tqdm and shows a mean over the last steps. axolotl,
utils/bench.py of 2023 and 2024: allocated memory, and what the allocator has reserved beyond it, in 2^30 bytes.

Patterns for PyTorch Lightning logs, which show progress bars.

Source: Lightning-AI/pytorch-lightning 2.6, callbacks/progress/tqdm_progress.py and docs/source-pytorch/visualize,
read 2026-11-23. Progress bars for training steps begin with the number of the epoch.

Patterns for MaxText logs.

Source: AI-Hypercomputer/maxtext of 2026-08-22, src/maxtext/common/metric_logger.py and common/checkpointing.py, read
2026-11-23. MaxText dispatches the first steps asynchronously, so their times are meaningless.

Patterns for logs of Megatron-LM, Megatron Bridge and NeMo.

Source: NVIDIA/Megatron-LM of 2026-08-22, megatron/training/training.py, megatron/training/checkpointing.py and
megatron/core/timers.py; NVIDIA-NeMo/Megatron-Bridge, training/utils/train_utils.py; the progress printer of NeMo 2,
as its performance scripts show it; read 2026-11-23. Timers are the means per step of the slowest rank. Logs contain
them with --timing-log-level 1 and above.

Patterns for torchtitan logs.

Source: pytorch/torchtitan, torchtitan/components/metrics.py, trainer.py and components/checkpointer/dcp.py (0.2 and
main of 2026-08-21), read 2026-11-23. tps is per accelerator. An asynchronous checkpoint reports the time for which
it stops the run.

Patterns for OLMo-core logs.

Source: allenai/OLMo-core, src/olmo_core/train/callbacks/speed_monitor.py, gpu_memory_monitor.py and
console_logger.py; excerpts of the metric names seen 2026-11-26, the layout of a line recalled. TPS is per
accelerator; "actual avg" covers the whole run with its stops.

Patterns for verl logs.

Source: volcengine/verl, verl/trainer/ppo/metric_utils.py and utils/tracking.py; excerpts seen 2026-11-26. The step
that is compared with a training step is the update of the actor; a step of verl also generates answers.

Patterns for the logs of Composer, whose throughput is per accelerator, and of mlx-lm, whose memory is in 10^9 bytes.

Source: mosaicml/composer, callbacks/speed_monitor.py; ml-explore/mlx-lm, tuner/trainer.py; Unsloth's notebooks print
the peak of the allocator in 2^30 bytes; read 2026-11-27.

Patterns for torchtune and NeMo AutoModel logs, whose throughput is in tokens per second and accelerator.

Source: pytorch/torchtune, torchtune/training/metric_logging.py and recipes/full_finetune_distributed.py;
NVIDIA-NeMo/Automodel, nemo_automodel/recipes/llm/train_ft.py; read 2026-11-27.

Source: vllm-project/vllm, vllm/v1/metrics/loggers.py (0.8 on) and vllm/engine/metrics.py (before: pending is
waiting); sgl-project/sglang, its decode batches and docs on hyperparameter tuning (0.4 on); read 2026-11-23.
Limits: these logs contain no latencies. Lines of an idle engine are ignored.

Preemptions: WARNING lines of vLLM's first engine (core/scheduler.py, a cumulative count) and SGLang's retractions
(managers/scheduler.py; "Decode out of memory happened" before 0.5), excerpts in public issues, 2026-11-28.

Source: ggml-org/llama.cpp, tools/server (timings of a request) and tools/llama-bench; ollama run --verbose;
huggingface/text-generation-inference, router/src/server.rs; excerpts in public issues, 2026-11-27. The time of a prompt
is the TTFT of a request that does not wait.
"""

from __future__ import annotations

import math
import re
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from statistics import median

from app.observed.figures import (
    MAX_UNREAD_SHOWN,
    Figure,
    Reading,
    RunContext,
    UnreadableText,
    UnreadContent,
    printable_excerpt,
)
from app.observed.lines import LineIndex, split_lines
from app.observed.run import Line, run_figures, run_notes
from app.observed.startup import read_startup
from app.work import check_each

# Greedy, not possessive: before 3.11.4 Python loses groups with possessive quantifiers.
NUMBER = r"(?<![\d.,])\d+(?:,\d{3})*(?:\.\d+)?(?:[eE][-+]?\d+)?"
Patterns = tuple[re.Pattern[str], ...]


@dataclass(frozen=True, slots=True)
class Trainer:
    """Patterns of a trainer's lines: `steps` identify it, `fields` are read from step lines, `others` from all."""

    name: str
    title: str
    steps: Patterns
    fields: Patterns = ()
    others: Patterns = ()

    def step_lines(self, index: LineIndex) -> set[int]:
        """Numbers of the lines that identify the trainer."""
        return {number for pattern in self.steps for number in index.matches(pattern)}

    def parse_lines(self, index: LineIndex) -> dict[int, dict[str, float]]:
        """All values of each line that has any, by its number. A word without a number has the value 1."""
        values: dict[int, dict[str, float]] = {}
        steps = self.step_lines(index)
        for pattern in (*self.steps, *(self.fields if steps else ()), *self.others):
            anywhere = pattern not in self.fields
            for number, found in index.matches(pattern).items():
                if anywhere or number in steps:
                    for name, text in found.groupdict().items():
                        if text is not None and 0 <= (value := parse_number(text)) < 1e15:
                            values.setdefault(number, {})[name] = value
        return dict(sorted(values.items()))


def parse_number(text: str) -> float:
    """A number as logs write it; 1 for a word."""
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return 1.0


def compile_patterns(*texts: str) -> Patterns:
    """Compile patterns in which <name> stands for a number in a group of that name."""
    return tuple(
        re.compile(re.sub(r"(?<!P)<(\w+)>", lambda found: f"(?P<{found[1]}>{NUMBER})", text)) for text in texts
    )


DEEPSPEED = Trainer(
    "deepspeed",
    "DeepSpeed",
    steps=compile_patterns(
        r"[=/]<step>, RunningAvgSamplesPerSec=", r"(?<!\w)steps: <step> loss:", r"\bMax_MA <memory_gib> GB"
    ),
    fields=compile_patterns(
        r"CurrSamplesPerSec=<samples>",
        r"MaxMemAllocated=<memory_gib>GB",
        r"iter time \(s\): <seconds> samples/sec:",
    ),
    others=compile_patterns(
        r"\| bwd_allreduce: <communication_ms> \| step: <optimizer_ms>",
        r"(?P<saving>Checkpoint \S+ is about to be saved)",
        r"(?P<saved>Checkpoint \S+ is ready now)",
    ),
)


BAR = (
    r"<step>/<of> \[[\d:]+<[^,\]]*, *<seconds>s/it",
    r"<step>/<of> \[[\d:]+<[^,\]]*, *<rate>it/s",
)
HUGGINGFACE = Trainer(
    "huggingface",
    "the Hugging Face Trainer",
    steps=compile_patterns(
        *BAR,
        r"[\"']?train_steps_per_second[\"']? *[:=] *[\"']?<run_rate>",
        r"[\"']tokens(?:_per_second_per_gpu|/train_per_sec_per_gpu)[\"']: *[\"']?<device_tokens>",
        r"[\"']train_speed\(iter/s\)[\"']: *[\"']?<rate>",
        r"[\"']train_speed\(s/it\)[\"']: *[\"']?<seconds>",
        r"Peak reserved memory = <memory_gib> GB",
        r"GPU memory usage while training: <allocated_gib>GB \(\+<cached_gib>GB cache",
    ),
    fields=compile_patterns(r"[\"']global_step/max_steps[\"']: *[\"']?<step>/"),
    others=compile_patterns(
        r"[\"']train_runtime[\"']: *[\"']?<ran_s>",
        r"[\"']eval_runtime[\"']: *[\"']?<evaluated_s>",
        r"[\"']memory/max_(?:mem_)?(?:active|allocated) ?\((?i:GiB)\)[\"']: *[\"']?<memory_gib>",
        r"[\"']memory\(GiB\)[\"']: *[\"']?<memory_gib>",
        r"(?P<saving>Saving model checkpoint) to",
        r"[\"'](?P<known>loss)[\"']:",
        r"[\"']num_(?:tokens|input_tokens_seen)[\"']: *[\"']?<all_tokens>",
        r"Total train batch size \([^)]*\) = <step_sequences>",
    ),
)


LIGHTNING = Trainer(
    "lightning",
    "PyTorch Lightning",
    steps=compile_patterns(r"^.{0,40}Epoch \d++: "),
    fields=compile_patterns(*BAR),
)


MAXTEXT = Trainer(
    "maxtext",
    "MaxText",
    steps=compile_patterns(r"completed step: <step>, seconds: <seconds>"),
    fields=compile_patterns(r"Tokens/s/device: <device_tokens>"),
    others=compile_patterns(r"(?P<saved>Saved a checkpoint) at step"),
)


MEGATRON = Trainer(
    "megatron",
    "Megatron-LM",
    steps=compile_patterns(r"iteration +<step>/ *\d+ \|"),
    fields=compile_patterns(
        r"elapsed time per iteration \(ms\): <milliseconds>",
        r"power per GPU \(W/GPU\): <watts>",
        r"global batch size: *<step_sequences>",
    ),
    others=compile_patterns(
        r"(?P<saving>saving checkpoint at iteration)",
        r"successfully (?P<saved>saved) ?checkpoint (?:from|at) iteration",
        r"save-checkpoint \.*: \(?(?:[\d.]+, )?<saved_ms>",
        r"(?<![\w-])optimizer \.*: \(?(?:[\d.]+, )?<optimizer_ms>",
        r"batch-generator \.*: \(?(?:[\d.]+, )?<input_ms>",
        r"all-grads-sync \.*: \(?(?:[\d.]+, )?<communication_ms>",
        r"evaluate \.*: \(?(?:[\d.]+, )?<evaluated_ms>",
        r"(?P<begun>training \.\.\.)",
    ),
)
NEMO = Trainer(
    "nemo",
    "NeMo",
    steps=compile_patterns(r"Training epoch \d+, iteration \d+/\d+ \|"),
    fields=compile_patterns(
        r"global_batch_size: <step_sequences>",
        r"global_step: <step>",
        r"max_memory_reserved: <memory_bytes>",
        r"train_step_timing in s: <seconds>",
    ),
)


TORCHTITAN = Trainer(
    "torchtitan",
    "torchtitan",
    steps=compile_patterns(r"(?<!validate )step: *<step> +loss:"),
    fields=compile_patterns(r"memory: *<memory_gib>GiB", r"tps: <device_tokens>", r"mfu: <mfu>%"),
    others=compile_patterns(
        r"<step_tokens> tokens per train step",
        r"global batch size <step_sequences>, gradient accumulation",
        r"Finished (?:saving|staging) the checkpoint(?: \(or staging[\w ]*\))? ?in <saved_s> seconds",
        r"<retries> \w+ memory allocation retries",
        r"(?P<begun>Training starts) at step",
    ),
)

OLMO_CORE = Trainer(
    "olmo-core",
    "OLMo-core",
    steps=compile_patterns(r"throughput/device/TPS=<device_tokens>", r"\[step=<step>/"),
    others=compile_patterns(
        r"throughput/device/MFU=<mfu_percent>",
        r"system/GPU (?:reserved|active) mem \(GiB\)=<memory_gib>",
        r"(?P<known>throughput|optim|train|system)/[^=]{1,80}=",
        r"(?P<saving>Saving checkpoint for step)",
        r"(?P<saved>Checkpoint saved)",
    ),
)


VERL = Trainer(
    "verl",
    "verl",
    steps=compile_patterns(r"(?<!\w)step:<step> - "),
    fields=compile_patterns(
        r"timing_s/update_actor:<seconds>",
        r"train/time\(s\):<seconds>",
        r"perf/total_num_tokens:<step_tokens>",
        r"perf/mfu/actor:<mfu_share>",
        r"perf/max_memory_allocated_gb:<memory_gib>",
    ),
)


TORCHTUNE = Trainer(
    "torchtune",
    "torchtune",
    steps=compile_patterns(r"(?<!\w)Step <step> \| .{0,80}loss:"),
    fields=compile_patterns(r"tokens_per_second_per_gpu:<device_tokens>", r"peak_memory_reserved:<memory_gib>"),
)


AUTOMODEL = Trainer(
    "automodel",
    "NeMo AutoModel",
    steps=compile_patterns(r"(?<!\w)step <step> \| epoch \d+ \| .{0,200}\| tps [\d.]+\(<device_tokens>/gpu\)"),
    fields=compile_patterns(r"\| mem <memory_gib> GiB"),
)


COMPOSER = Trainer(
    "composer",
    "Composer",
    steps=compile_patterns(r"throughput/device/tokens_per_sec: <device_tokens>"),
    others=compile_patterns(r"throughput/device/mfu: <mfu_share>", r"\[batch=<step>/"),
)


MLX_LM = Trainer(
    "mlx-lm",
    "mlx-lm",
    steps=compile_patterns(r"Iter <step>: Train loss .{0,80}It/sec <rate>"),
    fields=compile_patterns(r"Tokens/sec <device_tokens>", r"Peak mem <memory_gb> GB"),
)


VLLM_LOG = Trainer(
    "vllm",
    "vLLM",
    steps=compile_patterns(r"Running: <running> reqs"),
    fields=compile_patterns(
        r"Avg generation throughput: <written> tokens/s",
        r"(?:Waiting|Pending): <waiting> reqs",
        r"GPU KV cache usage: <cache_percent>%",
        r"Prefix cache hit rate: (?:GPU: )?<hit_percent>%",
        r"Engine <engine>:",
    ),
    others=compile_patterns(r"is preempted by PreemptionMode.{0,300}total_num_cumulative_preemption=<all_preempted>"),
)
SGLANG_LOG = Trainer(
    "sglang",
    "SGLang",
    steps=compile_patterns(r"Decode batch[^#]*#running-req: <running>"),
    fields=compile_patterns(
        r"gen throughput \(token/s\): <written>",
        r"#queue-req: <waiting>",
        r"token usage: <cache_share>",
        r" DP<engine>[ \]]",
    ),
    others=compile_patterns(r"#retracted_reqs: <preempted>"),
)
LLAMA_CPP_LOG = Trainer(
    "llama.cpp",
    "llama.cpp and Ollama",
    steps=compile_patterns(
        r"prompt eval time = *<prompt_ms> ms /",
        r"(?<!prompt )eval time = .{0,40}\( *<token_ms> ms per token",
        r"prompt eval duration: +(?:<prompt_ms>ms|<prompt_s>s)",
        r"(?<!prompt )eval rate: +<token_rate> tokens/s",
        r"\| +tg\d+[^|]{0,20}\| +<token_rate> ±",
    ),
)
TGI_LOG = Trainer(
    "tgi",
    "TGI",
    steps=compile_patterns(r"time_per_token=\"(?:<token_ms>ms|<token_s>s)"),
)
ENGINE_LOGS = (VLLM_LOG, SGLANG_LOG, LLAMA_CPP_LOG, TGI_LOG)
LOG_QUANTITIES = {
    "output_tokens_per_s": ("written", 1.0),
    "running": ("running", 1.0),
    "waiting": ("waiting", 1.0),
    "cache_usage": ("cache_percent", 0.01),
    "prefix_hit_share": ("hit_percent", 0.01),
}

LOG_LATENCIES = {"ttft_p50_s": {"prompt_ms": 1e-3, "prompt_s": 1.0}, "tpot_p50_s": {"token_ms": 1e-3, "token_s": 1.0}}


def read_engine_log(index: LineIndex, runs: RunContext, name: str | None = None) -> Reading:
    """Figures from an engine log, each the mean of its lines.

    Raises UnreadableText if no line is a status line.
    """
    by_engine = [(e, e.parse_lines(index)) for e in ENGINE_LOGS if name in (None, e.name)]
    engine, parsed = max(by_engine, key=lambda each: len(each[1]))
    if not parsed:
        first = f" The text begins with {printable_excerpt(index.lines[0])!r}." if index.lines else ""
        raise UnreadableText(f"The text has no status line of {engine.title}.{first}")
    parsed_lines = list(parsed.values())
    engines = float(len({line.get("engine", 0.0) for line in parsed_lines}))
    seen = runs.of_replicas or engines
    covers_all_replicas = runs.of_replicas is not None or runs.replicas <= seen
    note = f"The log covers {seen:g} of {runs.replicas:g} replicas. Throughput is scaled to all replicas."
    figures = tuple(_log_figures(engine, parsed_lines, engines * max(1.0, runs.replicas / seen)))
    return Reading(
        figures,
        unread_lines(index, parsed),
        () if covers_all_replicas else (note,),
    )


def _log_figures(engine: Trainer, parsed_lines: Sequence[dict[str, float]], engines: float) -> Iterator[Figure]:
    """Means over the lines. `engines` is the number of engines in the deployment."""
    busy = [line for line in parsed_lines if line.get("running") or line.get("waiting")] or parsed_lines
    for quantity, (name, unit) in LOG_QUANTITIES.items():
        values = [line[name] * unit for line in busy if name in line]
        if quantity == "cache_usage" and not values:
            values = [line["cache_share"] for line in busy if "cache_share" in line]
        if values:
            mean = math.fsum(values) / len(values)
            times = engines if quantity == "output_tokens_per_s" else 1.0
            yield Figure("service", quantity, mean * times, f"{engine.title} log, mean of {len(values)} lines")
    preempted = math.fsum(line.get("preempted", 0.0) for line in parsed_lines)
    preempted += max((line.get("all_preempted", 0.0) for line in parsed_lines), default=0.0)
    if preempted:
        yield Figure("service", "preemptions", preempted, f"{engine.title} log")
    for quantity, names in LOG_LATENCIES.items():
        seconds = [line[name] * unit for line in busy for name, unit in names.items() if name in line]
        if quantity == "tpot_p50_s":
            seconds += [1 / line["token_rate"] for line in busy if line.get("token_rate")]
        if seconds:
            yield Figure("service", quantity, median(seconds), f"{engine.title} log, median of {len(seconds)} requests")


# Most specific first: NeMo lines have iterations like Megatron-LM lines, and Lightning also shows tqdm bars.
TRAINERS: tuple[Trainer, ...] = (
    TORCHTITAN,
    NEMO,
    MEGATRON,
    MAXTEXT,
    OLMO_CORE,
    VERL,
    TORCHTUNE,
    AUTOMODEL,
    COMPOSER,
    MLX_LM,
    DEEPSPEED,
    LIGHTNING,
    HUGGINGFACE,
)
ENGINE_LOG_NAMES = tuple(e.name for e in ENGINE_LOGS)
STARTUP = "startup"
FORMATS = (*(t.name for t in TRAINERS), *ENGINE_LOG_NAMES, STARTUP)
TIMESTAMP = re.compile(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(?:[.,](\d{1,6}))?")
TIMESTAMP_WITHIN = 80  # a timestamp starts within this many characters


def read_log(text: str, runs: RunContext, name: str | None = None) -> Reading:
    """Figures from the log of a trainer or an engine, and memory figures from start-up lines and errors.

    Raises UnreadableText for any other text.
    """
    startup, others = read_startup(LineIndex(split_lines(text)))
    if name != STARTUP and (others or not startup.figures):
        try:
            return read_progress(LineIndex(others), runs, name) + startup
        except UnreadableText:
            if name is not None or not startup.figures:
                raise
    if not startup.figures:
        raise UnreadableText(nothing_read_message(others, None))
    unread = tuple(f"line: {printable_excerpt(line)}" for line in others[:MAX_UNREAD_SHOWN])
    return replace(startup, unread=UnreadContent((), len(others), unread))


def read_progress(index: LineIndex, runs: RunContext, name: str | None) -> Reading:
    """Figures from the steps of a trainer or the status lines of an engine."""
    if name in ENGINE_LOG_NAMES:
        return read_engine_log(index, runs, name)
    try:
        return read_trainer_log(index, runs, name)
    except UnreadableText:
        if name is None and any(e.parse_lines(index) for e in ENGINE_LOGS):
            return read_engine_log(index, runs)
        raise


def read_trainer_log(index: LineIndex, runs: RunContext, name: str | None = None) -> Reading:
    """Figures from a trainer log. Raises UnreadableText if it has no training step."""
    trainer = next((t for t in TRAINERS if t.name == name), None) or likeliest_trainer(index)
    if trainer is None or not trainer.step_lines(index):
        raise UnreadableText(nothing_read_message(index.lines, trainer))
    parsed = trainer.parse_lines(index)
    known = [Line(values, line_timestamp(index.lines[number])) for number, values in check_each(parsed.items())]
    run_values = tuple(run_figures(known, runs, trainer.title))
    return Reading(run_values, unread_lines(index, parsed), tuple(run_notes(known, runs)))


def unread_lines(index: LineIndex, parsed: Container[int]) -> UnreadContent:
    """The lines that gave no value."""
    unread = [number for number in range(len(index.lines)) if number not in parsed]
    first = tuple(f"line {n + 1}: {printable_excerpt(index.lines[n])}" for n in unread[:MAX_UNREAD_SHOWN])
    return UnreadContent((), len(unread), first)


def likeliest_trainer(index: LineIndex) -> Trainer | None:
    """The first trainer whose patterns match at least half as many lines as those of any other trainer."""
    counts = [len(t.step_lines(index)) for t in TRAINERS]
    return next((t for t, count in zip(TRAINERS, counts, strict=True) if 0 < count >= max(counts) / 2), None)


def line_timestamp(line: str) -> float | None:
    """Unix time in seconds at the beginning of a line. Time zones are ignored, because only differences count."""
    stamp = TIMESTAMP.search(line[:TIMESTAMP_WITHIN])
    if stamp is None:
        return None
    try:
        at = datetime.fromisoformat(f"{stamp[1]}T{stamp[2]}").replace(tzinfo=UTC)
    except ValueError:
        return None
    return at.timestamp() + (float(f"0.{stamp[3]}") if stamp[3] else 0.0)


def nothing_read_message(every: Sequence[str], trainer: Trainer | None) -> str:
    """Error message for a log in which nothing was found."""
    seen = f" The text begins with {printable_excerpt(every[0])!r}." if every else " The text is empty."
    which = trainer.title if trainer is not None else ", ".join(t.title for t in (*TRAINERS, *ENGINE_LOGS))
    return (
        f"The text has no training step, status line or memory figure.{seen} Supported logs: {which}, and start-up "
        "lines and out-of-memory errors."
    )
