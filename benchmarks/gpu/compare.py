"""`python -m benchmarks.gpu.compare`: compares the points that `measure.py` took on one H100 with predictions, and
writes the tables of docs/measured.md. With files of JSON lines as arguments, prints their rows.

The points are no published result: no fit sees them, and no coefficient was changed after them. A whole pass is
compared with the pass that the serving formulas predict for the nearest engine, a training step with /estimate, and a
kernel with the rates of the data sheet.
"""

from __future__ import annotations

import csv
import json
import re
import statistics
import sys
import textwrap
import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TextIO

import numpy as np

from app.catalog.snapshot import CatalogStore
from app.sizing.assumptions import Assumptions
from app.sizing.columns import Column
from app.sizing.estimate import estimate_deployment
from app.sizing.hardware.achieved import Achieved
from app.sizing.model.architecture import ModelArchitecture
from app.sizing.question import Deployment, Question
from app.sizing.serving.collectives import link_use
from app.sizing.serving.plans import Plans
from app.sizing.serving.prefill import prefill_terms, prefill_work, seconds_per_prompt
from app.sizing.serving.step import forward_pass_s, step_terms, step_work
from app.sizing.snapshot import Catalog
from app.sizing.words import percent
from app.sizing.workload import TrainingWorkload
from app.sizing.workload.training import Method
from calibration.calibrate import seeded_catalog
from calibration.serving.cases import ServingCases
from calibration.training.cases import UNLIMITED

ROOT = Path(__file__).resolve().parents[2]
SOURCE = "own_h100_2026-11-26"
POINTS = Path(__file__).with_name(f"{SOURCE}.csv")
MACHINE = Path(__file__).with_name(f"{SOURCE}.toml")
FILES = (POINTS, MACHINE)
PAGE = ROOT / "docs" / "measured.md"
BEGIN, END = "<!-- tables: python -m benchmarks.gpu.compare -->\n", "<!-- end of tables -->"
ACCELERATOR = "nvidia-h100-sxm5-80gb"
KERNELS = {"flash": "FlashAttention-2", "cudnn": "cuDNN"}
LLAMA_8B, LAYERS = "meta-llama/Llama-3.1-8B", 32
# Engines of the catalog whose passes are compared with those of a measured stack.
ENGINES = {"transformers": ("transformers",), "plain, eager": ("pytorch",), "plain, graph": ("gpt-fast", "vllm")}
FRAMEWORK, FRAMEWORK_VERSION = "transformers", "5.17"
PRECISIONS = {"full": "bf16-true", "lora": "bf16"}
METHODS = {"full": Method.FULL, "lora": Method.LORA}
FURTHEST = 12

Row = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Point:
    """One measured point: the median of its repeats, and their spread (largest over smallest)."""

    key: str
    row: Row
    seconds: float
    spread: float
    runs: int

    def number(self, name: str) -> float:
        return float(self.row[name])


@dataclass(frozen=True, slots=True)
class Compared:
    """One measured figure with its prediction, both in `unit`."""

    kind: str
    name: str
    measured: float
    predicted: float
    unit: str

    @property
    def ratio(self) -> float:
        """Predicted over measured."""
        return self.predicted / self.measured


def read_rows() -> list[dict[str, str]]:
    with POINTS.open(newline="") as file:
        return list(csv.DictReader(file))


def format_cell(value: object) -> str:
    """A value of a point as a cell: five significant digits, empty if unknown."""
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e16 else f"{value:.5g}"
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def write_rows(lines: Iterable[str], columns: Sequence[str], out: TextIO) -> None:
    """Writes the JSON lines of `measure.py` as rows, without the machine, checks and failed points."""
    writer = csv.DictWriter(out, columns, lineterminator="\n")
    writer.writeheader()
    for point in map(json.loads, lines):
        if "error" not in point and point["section"] not in ("machine", "check"):
            writer.writerow({name: format_cell(point.get(name)) for name in columns})


def read_machine() -> dict[str, str]:
    """The card and the software that were measured."""
    return {k: str(v) for k, v in tomllib.loads(MACHINE.read_text()).items()}


def read_points() -> list[Point]:
    """Points with a time, in the order of the file."""
    by_key: dict[str, list[Row]] = defaultdict(list)
    for row in read_rows():
        by_key[row["key"]].append(row)
    return [
        Point(key, rows[0], statistics.median(times), max(times) / min(times), len(times))
        for key, rows in by_key.items()
        if (times := [float(r["seconds"]) for r in rows if r["seconds"]])
    ]


class Predictor:
    """Predictions for the points, against one catalog."""

    def __init__(self, catalog: Catalog, model_named: Callable[[str], ModelArchitecture]) -> None:
        self.catalog = catalog
        self.model_named = cache(model_named)
        self.builder = ServingCases(catalog, self.model_named)
        self.plans = cache(self._plans)

    def _plans(self, model: str, engine: str, weights: str = "bf16") -> Plans:
        deployment = Deployment(
            ACCELERATOR,
            accelerators_per_replica=1,
            tensor_parallel=1,
            pipeline_parallel=1,
            replicas=1,
            spare_replicas=0,
            engine=engine,
            weight_format=weights,
            kv_format="bf16",
        )
        return self.builder.choose_plan(self.model_named(model), deployment)

    def coefficients(self, model: str, engine: str, weights: str) -> dict[str, float]:
        """The fitted coefficients of serving speed of one stack."""
        rates = self.plans(model, engine, weights).achieved_rates
        return {name: first(getattr(rates, name)) for name in Achieved.__slots__}

    def decode_s(self, model: str, engine: str, batch: float, context: float) -> float:
        """Seconds of one pass that adds one token to each of `batch` sequences of `context` tokens."""
        plans = self.plans(model, engine)
        work = step_work(self.model_named(model), plans, link_use(plans, Assumptions()), context_tokens=context)
        return first(forward_pass_s(step_terms(work, plans.achieved_rates, served=0.0), np.array([batch])))

    def prefill_s(self, model: str, engine: str, prompts: float, tokens: float) -> float:
        """Seconds of `prompts` prompts of `tokens` tokens in one pass, without what the engine adds to a request."""
        plans = self.plans(model, engine)
        work = prefill_work(self.model_named(model), plans, link_use(plans, Assumptions()), prompt_tokens=tokens)
        terms = prefill_terms(work, plans.achieved_rates, served=0.0)
        return prompts * first(seconds_per_prompt(terms, np.array([prompts * tokens]), prompts))

    def pass_s(self, point: Point, engine: str) -> float:
        """Seconds of a measured prompt, decode step or generation."""
        model, batch, context = point.row["model"], point.number("batch"), point.number("context")
        if point.row["phase"] == "decode":
            return self.decode_s(model, engine, batch, context)
        if point.row["phase"] == "prefill":
            return self.prefill_s(model, engine, batch, context)
        output = point.number("output")
        step = self.decode_s(model, engine, batch, context + output / 2)
        return self.prefill_s(model, engine, batch, context) + (output - 1) * step

    def training_question(
        self, model: str, method: str, micro: int, length: float, recomputed: bool
    ) -> tuple[Question, Deployment]:
        """One training setting as /estimate takes it."""
        workload = TrainingWorkload(
            self.model_named(model),
            "fine_tuning",
            METHODS[method],
            UNLIMITED,
            length,
            micro,
            PRECISIONS[method],
            "adamw",
            UNLIMITED,
            0.0,
            None,
            None,
            False,
            16,
            "all-linear",
        )
        deployment = Deployment(
            ACCELERATOR,
            total_accelerators=1,
            micro_batch_sequences=micro,
            activation_checkpointing="full" if recomputed else "none",
            framework=FRAMEWORK,
            framework_version=FRAMEWORK_VERSION,
            optimizer_offload=False,
            activation_offload=False,
            parameter_offload=False,
        )
        return Question(workload), deployment

    def compare_training(self, rows: Sequence[Row]) -> list[Compared]:
        """Step time and memory of one training setting; if it ran out of memory, usable and predicted memory."""
        row, method = rows[0], rows[0]["method"]
        micro, length = int(row["micro_batch"]), float(row["sequence"])
        recomputed = row["recomputed"] == "true"
        question, deployment = self.training_question(row["model"], method, micro, length, recomputed)
        answer = estimate_deployment(question, deployment, self.catalog)
        assert answer.memory is not None
        name = (
            f"{row['model'].partition('/')[2]}, {method}, {micro} × {length:,.0f}{', recomputed' if recomputed else ''}"
        )
        total, held = answer.memory.total_bytes, answer.memory.total_bytes - answer.memory.overhead_bytes
        if row["out_of_memory"]:
            return [Compared("out of memory", name, answer.memory.usable_bytes / 1e9, total / 1e9, "GB")]
        assert answer.performance is not None
        assert answer.performance.tokens_per_s is not None
        used = statistics.median(float(r["reserved_bytes"]) + float(r["non_torch_bytes"]) for r in rows)
        tensors = statistics.median(float(r["allocated_bytes"]) for r in rows)
        seconds = statistics.median(float(r["seconds"]) for r in rows)
        return [
            Compared(
                f"training step, {method}",
                name,
                1e3 * seconds,
                1e3 * micro * length / answer.performance.tokens_per_s,
                "ms",
            ),
            Compared("memory of tensors", name, tensors / 1e9, held / 1e9, "GB"),
            Compared("memory on the device", name, used / 1e9, total / 1e9, "GB"),
        ]


def first(found: Column) -> float:
    return float(found[0])


def compare_passes(points: Iterable[Point], predictor: Predictor) -> list[Compared]:
    """Every whole pass with the prediction for each engine of its stack."""
    return [
        Compared(
            f"{p.row['phase']}, {p.row['stack']} | {engine}",
            f"{p.row['phase']}, {p.row['stack']}, {p.row['model'].partition('/')[2]}, {shape_of(p.row)}, as {engine}",
            1e3 * p.seconds,
            1e3 * predictor.pass_s(p, engine),
            "ms",
        )
        for p in points
        if p.row["phase"] in ("prefill", "decode", "generate") and p.row["stack"]
        for engine in ENGINES[p.row["stack"]]
    ]


def shape_of(row: Row) -> str:
    """Batch, context and output of a pass in words."""
    return f"{row['batch']} × {int(row['context']):,}" + (f" + {row['output']}" if row["output"] else "")


def compare_training(predictor: Predictor) -> list[Compared]:
    by_key: dict[str, list[Row]] = defaultdict(list)
    for row in read_rows():
        if row["phase"] == "training":
            by_key[row["key"]].append(row)
    return [compared for rows in by_key.values() for compared in predictor.compare_training(rows)]


# Tables.


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "|".join([" --- "] + [" ---: "] * (len(head) - 1)) + "|"]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def three(value: float) -> str:
    """Three significant digits, with separated thousands."""
    digits = max(0, 2 - int(np.floor(np.log10(abs(value)))))
    rounded = float(f"{value:.3g}")
    return f"{rounded:,.{digits}f}"


def summary_table(compared: Iterable[Compared]) -> str:
    """Errors by kind: points, median and largest error, and bias."""
    by_kind: dict[str, list[Compared]] = defaultdict(list)
    for c in compared:
        by_kind[c.kind].append(c)
    rows = []
    for kind, found in by_kind.items():
        ratios = [c.ratio for c in found]
        errors = [abs(r - 1) for r in ratios]
        what, _, engine = kind.partition(" | ")
        rows.append(
            (
                what,
                engine or FRAMEWORK,
                str(len(found)),
                percent(statistics.median(errors)),
                percent(max(errors)),
                f"{statistics.median(ratios):.2f}",
            )
        )
    return table(("figure", "predicted for", "points", "median error", "largest", "predicted / measured"), rows)


def further(c: Compared) -> float:
    return float(abs(np.log(c.ratio)))


def miss_table(compared: Iterable[Compared]) -> str:
    """The point with the largest miss of each kind, furthest first."""
    worst: dict[str, Compared] = {}
    for c in compared:
        if c.kind not in worst or further(c) > further(worst[c.kind]):
            worst[c.kind] = c
    rows = [
        (
            c.name if "|" in c.kind else f"{c.kind.partition(',')[0]}, {c.name}",
            f"{three(c.measured)} {c.unit}",
            f"{three(c.predicted)} {c.unit}",
            f"{c.ratio:.2f}",
        )
        for c in sorted(worst.values(), key=further, reverse=True)
    ]
    return table(("point", "measured", "predicted", "predicted / measured"), rows[:FURTHEST])


def training_table(compared: Sequence[Compared]) -> str:
    """Step time and device memory of every training setting."""
    by_name: dict[str, dict[str, Compared]] = defaultdict(dict)
    for c in compared:
        by_name[c.name][c.kind.partition(",")[0]] = c
    rows = []
    for name, found in by_name.items():
        over = found.get("out of memory")
        if over is not None:
            rows.append((name, "-", "-", "out of memory", three(over.predicted), "-"))
            continue
        step, used, held = found["training step"], found["memory on the device"], found["memory of tensors"]
        rows.append(
            (
                name,
                three(step.measured),
                three(step.predicted),
                three(used.measured),
                three(used.predicted),
                f"{held.ratio:.2f}",
            )
        )
    head = ("setting", "step, ms", "predicted", "device memory, GB", "predicted", "tensors, predicted / measured")
    return table(head, rows)


def memory_note(compared: Iterable[Compared]) -> str:
    """What the settings that ran out of memory show."""
    over = [c for c in compared if c.kind == "out of memory"]
    usable = over[0].measured
    assert all(c.predicted > usable for c in over)
    assert all(c.predicted < usable for c in compared if c.kind == "memory on the device")
    return wrap(
        f"Headroom counts {three(usable)} GB of this device as usable, so it reports the {len(over)} "
        "settings that ran out of memory as not fitting, and all others as fitting."
    ).replace("\n  ", "\n")


def kernel_table(points: Sequence[Point], predictor: Predictor) -> str:
    """Share of data-sheet rates that kernels reach, and the share that the coefficients of vLLM state."""
    device = predictor.catalog.accelerators[predictor.catalog.accelerator_index[ACCELERATOR]]
    memory, rates = device.memory_bytes_per_s, device.flops_per_s
    assert memory is not None

    def read_share(p: Point) -> float:
        return p.number("bytes") / p.seconds / memory

    def flops_share(p: Point) -> float:
        return p.number("flops") / p.seconds / rates[p.row["dtype"] or "bf16"]

    def rows_of(kind: str, **where: str) -> list[Point]:
        return [p for p in points if p.key.startswith(kind) and all(p.row[k] == v for k, v in where.items())]

    groups: list[tuple[str, str, list[float], float | None]] = []
    groups.append(("copy of 0.1 to 8 GB", "memory bandwidth", [read_share(p) for p in rows_of("copy")], None))
    for dtype in ("bf16", "fp8"):
        fitted = predictor.coefficients(LLAMA_8B, "vllm", dtype)
        for tokens in ("1", "16", "64"):
            found = [read_share(p) for p in rows_of("gemm", dtype=dtype, m=tokens)]
            name = f"{dtype.upper()} matrices, {tokens} token{'s' if tokens != '1' else ''}"
            groups.append((name, "memory bandwidth", found, fitted["linear_memory_fraction"]))
        large = fitted["linear_compute_fraction"]
        for tokens, share in (("1024", large), ("8192", large * fitted["prefill_compute_fraction"])):
            found = [flops_share(p) for p in rows_of("gemm", dtype=dtype, m=tokens)]
            groups.append((f"{dtype.upper()} matrices, {int(tokens):,} tokens", "matrix rate", found, share))
    fitted = predictor.coefficients(LLAMA_8B, "vllm", "bf16")
    for kernel, words in KERNELS.items():
        for tokens in ("2048", "8192", "32768", "102400"):
            found = [flops_share(p) for p in rows_of("attention", phase="prefill", kernel=kernel, context=tokens)]
            length = float(tokens)
            share = fitted["attention_compute_fraction"] * length / (length + fitted["attention_half_length_tokens"])
            groups.append((f"attention of a prompt of {int(length):,} tokens, {words}", "matrix rate", found, share))
    for low, high in ((1, 4), (16, 64)):
        decode = rows_of("attention", phase="decode", kernel="flash")
        found = [read_share(p) for p in decode if low <= p.number("batch") <= high]
        name = f"attention of a decode step, {low} to {high} sequences, {KERNELS['flash']}"
        groups.append((name, "memory bandwidth", found, fitted["attention_memory_fraction"]))
    rows = [
        (
            name,
            of,
            percent(statistics.median(found)),
            f"{percent(min(found))} – {percent(max(found))}" if len(found) > 1 else "-",
            str(len(found)),
            "-" if share is None else percent(share),
        )
        for name, of, found, share in groups
    ]
    return table(("kernel", "share of", "median", "range", "points", "fitted for vLLM"), rows)


def power_table() -> str:
    """Mean power and clock of each kind of work, from the energy counter of the card."""
    found: dict[str, list[Row]] = defaultdict(list)
    for row in read_rows():
        if not row["power_w"]:
            continue
        if row["power"] == "idle":
            found["idle, with a CUDA context"].append(row)
        elif row["key"] == "clock under copy":
            found["copy"].append(row)
        elif row["power"]:
            tokens = f"{row['batch']} × {int(row['context']):,}"
            found[f"{row['power']}, Llama-3.1-8B as a graph, {tokens}"].append(row)
        elif row["phase"] == "training":
            found[f"training, {row['method']}"].append(row)
    rows = []
    for name, group in found.items():
        watts = [float(r["power_w"]) for r in group]
        clock = statistics.median(float(r["sm_mhz"]) for r in group)
        spread = f"{min(watts):.0f} – {max(watts):.0f}"
        rows.append((name, f"{statistics.median(watts):.0f}", spread, f"{clock:,.0f}"))
    return table(("work", "median, W", "range, W", "SM clock, MHz"), rows)


def noise_line(points: Iterable[Point]) -> str:
    """How far the runs of one point differ, by kind."""
    kinds: dict[str, list[float]] = defaultdict(list)
    for p in points:
        if p.runs > 1:
            stack, phase = p.row["stack"] or "kernels", p.row["phase"]
            kinds[f"{stack} ({phase})" if stack == "transformers" else stack].append(p.spread - 1)
    parts = "; ".join(f"{kind} {100 * statistics.median(found):.1f} %" for kind, found in kinds.items())
    return f"Difference between two runs of a point, in the median: {parts}."


@dataclass(frozen=True)
class Findings:
    """The compared figures, and how the text quotes them."""

    points: Mapping[str, Point]
    compared: Sequence[Compared]
    predictor: Predictor

    def ms(self, key: str) -> str:
        """Measured time of a point."""
        return f"{three(1e3 * self.points[key].seconds)} ms"

    def ratios(self, kind: str, *words: str) -> list[float]:
        """Predicted over measured, of all figures of a kind whose names have these words."""
        return [c.ratio for c in self.compared if c.kind == kind and all(w in c.name for w in words)]

    def most(self, kind: str) -> float:
        """Largest error of a kind."""
        return max(abs(r - 1) for r in self.ratios(kind))

    def span(self, kind: str, *words: str) -> str:
        """Smallest and largest ratio."""
        found = self.ratios(kind, *words)
        return f"{min(found):.2f} to {max(found):.2f} times"

    def fitted(self, engine: str, name: str) -> float:
        """A coefficient of an engine, for an 8B model in BF16."""
        return self.predictor.coefficients(LLAMA_8B, engine, "bf16")[name]

    def layer_overhead(self, engine: str) -> str:
        return f"{three(1e6 * self.fitted(engine, 'layer_overhead_s'))} µs"


def causes(at: Findings) -> str:
    """What each large miss means, with the figures that show it."""
    return "\n".join(f"- {wrap(text)}" for text in (*host_causes(at), *graph_causes(at), *training_causes(at)))


def host_causes(at: Findings) -> tuple[str, ...]:
    """Passes whose kernels the host launches one by one."""
    rate = at.fitted("transformers", "linear_compute_fraction")
    step = f"step transformers {LLAMA_8B}, cache: "
    return (
        f"**Prompts on Transformers: predicted {at.span('prefill, transformers | transformers')} the measured "
        "time.** The coefficients of this engine are fitted to published runs of whole generations, most of which are "
        f"decode. They give its matrices {percent(rate)} of the matrix rate. A prompt uses the same matrix kernels as "
        "every other stack.",
        f"**Decode on Transformers: predicted {at.span('decode, transformers | transformers')} the measured "
        "time.** On this card, PyTorch chooses cuDNN attention for a step with a cache, as a profile of the step "
        f"showed. A step of one sequence takes {at.ms(f'decode transformers {LLAMA_8B} 1x512')} at cache lengths that "
        f"the process has not seen, and {at.ms(step + 'dynamic')} at lengths that it has seen. The likely cause is "
        "that cuDNN prepares a plan for each new shape; a run with FlashAttention alone was not measured. A step "
        f"without a cache takes {at.ms(step + 'none')}.",
        f"**Decode of the plain model without graphs: predicted {at.span('decode, plain, eager | pytorch')} the "
        "measured time.** The host launches each kernel, which takes "
        f"{at.ms(f'decode plain, eager {LLAMA_8B} 1x512')} at batch 1 and "
        f"{at.ms(f'decode plain, eager {LLAMA_8B} 64x512')} at batch 64. The prediction for `pytorch` has "
        f"{at.layer_overhead('pytorch')} per layer instead, and too low a matrix rate for large batches.",
    )


def graph_causes(at: Findings) -> tuple[str, ...]:
    """Passes as a CUDA graph."""
    bandwidth = at.fitted("vllm", "linear_memory_fraction")
    longer = [
        r for n in ("2,048", "8,192", "32,768") for r in at.ratios("prefill, plain, graph | gpt-fast", f"1 × {n},")
    ]
    flash, cudnn = (at.points[f"attention prefill {kernel}1x32768"].seconds for kernel in ("", "cudnn "))
    long_s = at.points[f"prefill plain, graph {LLAMA_8B} 1x32768"].seconds - LAYERS * (flash - cudnn)
    as_vllm = at.predictor.prefill_s(LLAMA_8B, "vllm", 1.0, 32768.0) / long_s
    return (
        f"**Short prompts as a graph: predicted {at.span('prefill, plain, graph | vllm', '1 × 128,')} the "
        "measured time for vLLM at 128 tokens.** The prediction includes the launches of an engine; a graph has none. "
        "This is a difference of the stacks. From 2,048 tokens on, the median error for gpt-fast is "
        f"{percent(statistics.median(abs(r - 1) for r in longer))}.",
        f"**Long prompts as a graph: predicted {at.span('prefill, plain, graph | vllm', '1 × 32,768,')} the "
        "measured time for vLLM at 32,768 tokens.** The plain model uses FlashAttention-2, vLLM a faster kernel for "
        f"this card. With the measured time of cuDNN attention in its place, the ratio of Llama-3.1-8B is "
        f"{as_vllm:.2f}. The plain model also does not fuse norms and rotary embedding.",
        f"**Decode as a graph: predicted {at.span('decode, plain, graph | vllm')} the measured time for vLLM.** "
        f"The fitted bandwidth of matrices ({percent(bandwidth)}) is more than any measured matrix reaches; the fitted "
        f"overhead per layer ({at.layer_overhead('vllm')}) makes up for it. The sum of a step is right, but not its "
        "parts.",
    )


def training_causes(at: Findings) -> tuple[str, ...]:
    """Training steps, their memory, and power."""
    recomputed = [r for r in read_rows() if r["recomputed"] == "true"]
    reserved = max(float(r["reserved_bytes"]) / float(r["allocated_bytes"]) for r in recomputed)
    return (
        f"**Full fine-tuning: predicted {at.span('training step, full')} the measured time; LoRA: "
        f"{at.span('training step, lora')}.** The miss of full fine-tuning is largest at the smallest "
        "micro-batch: this stack launches faster than the fitted ones. The likely cause for LoRA is PEFT, which casts "
        "the weights and the input of every adapter under autocast in every step.",
        f"**Memory: tensors are predicted within {percent(at.most('memory of tensors'))}, device memory within "
        f"{percent(at.most('memory on the device'))}.** The rest is the allocator. With recomputed layers it reserves "
        f"up to {percent(reserved - 1)} more than tensors use; likely, the large blocks of the loss do not fit into "
        "the gaps of other blocks.",
        f"**Power: Headroom assumes {percent(Assumptions().load_power_fraction)} of the rated power under load.** "
        "Training, prompts and large decode batches draw nearly all of it, and the card lowers its clock; decode at "
        "batch 1 draws less.",
    )


def wrap(text: str) -> str:
    """Lines of an item of a list; a number stays on one line with its unit."""
    kept = re.sub(r"(?<=\d) (?=(%|ms|µs|GB|tokens|times)\b|%)", "\N{NO-BREAK SPACE}", text)
    lines = textwrap.wrap(kept, 116, break_long_words=False, break_on_hyphens=False)
    return "\n  ".join(lines).replace("\N{NO-BREAK SPACE}", " ")


def tables(catalog: Catalog, model_named: Callable[[str], ModelArchitecture]) -> str:
    """The tables of docs/measured.md."""
    points, predictor = read_points(), Predictor(catalog, model_named)
    passes, training = compare_passes(points, predictor), compare_training(predictor)
    fitted = [c for c in training if c.kind != "out of memory"]
    machine = read_machine()
    about = wrap(
        f"Source `{SOURCE}`: {len(read_rows())} rows of one {machine['gpu']} ({machine['power_limit_w']} W, "
        f"{machine['max_sm_mhz']} MHz) in {machine['host']}, driver {machine['driver']}, PyTorch {machine['torch']}, "
        f"transformers {machine['transformers']}, PEFT {machine['peft']}. {noise_line(points)}"
    ).replace("\n  ", "\n")
    return f"""## Errors by kind

{about}

{summary_table([*passes, *fitted])}

### Largest miss of each kind

{miss_table([*passes, *fitted])}

### What the large misses mean

{causes(Findings({p.key: p for p in points}, [*passes, *fitted], predictor))}

## Training

{training_table(training)}

{memory_note(training)}

## Kernels

{kernel_table(points, predictor)}

The copy is no ceiling: it is a copy node of a CUDA graph, and kernels that only read reach more.

## Power

{power_table()}
"""


def replace_tables(text: str, fresh: str) -> str:
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{fresh}\n{END}{after}"


def shown_tables(text: str) -> str:
    """The tables that the page shows."""
    return text.partition(BEGIN)[2].partition(END)[0].strip() + "\n"


def write() -> None:
    """Refreshes the tables of docs/measured.md against a freshly seeded catalog."""
    with seeded_catalog() as sessions:
        store = CatalogStore(sessions, check_s=3600)
        fresh = tables(store.catalog(), store.find_model)
    PAGE.write_text(replace_tables(PAGE.read_text(), fresh))


def main() -> None:
    """Refreshes the page, or prints the rows of the files given."""
    if files := sys.argv[1:]:
        write_rows(
            (line for name in files for line in Path(name).read_text().splitlines()), list(read_rows()[0]), sys.stdout
        )
    else:
        write()


if __name__ == "__main__":
    main()
