"""What runs where, looked up on its own, against what the rules say: both must agree, and say why alike.

A row is one fact with its source; `refused_by` is the layer that forbids: no build for the runtime, the chip, the
work (a phase, a method or a kind of model), the format, or a record of an outright prohibition. `native` says
whether the format is multiplied as it is, where the source says so. What was not opened for this table says
"recalled".
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest

from app.sizing.hardware.engines import ENGINES
from app.sizing.hardware.support.records import PHASES, Verdict, Work
from app.sizing.hardware.support.rules import FORBIDDEN, SupportEvidence, verdict
from app.sizing.model.tasks import ModelTask
from tests.catalogued import accelerators, catalogued, support

Fact = Mapping[str, str]
DOCUMENTS = SupportEvidence(support())
LAYERS = ("forbidden", "runtime", "chip", "work", "format")


@cache
def facts() -> tuple[Fact, ...]:
    with (Path(__file__).parent / "support_facts.csv").open(encoding="utf-8", newline="") as file:
        return tuple(csv.DictReader(file))


def named(fact: Fact) -> str:
    """A fact without its verdict."""
    return " ".join(fact[key] for key in ("accelerator", "engine", "format", "phase", "method", "kind"))


def found(fact: Fact, documents: SupportEvidence = DOCUMENTS) -> Verdict:
    """What Headroom says of it."""
    precision = adapters_in(fact["accelerator"]) if fact["method"] == "qlora" else ""
    work = Work(fact["phase"], fact["method"], ModelTask(fact["kind"]), precision)
    return verdict(catalogued(fact["accelerator"]), fact["engine"], fact["format"], work, documents)


def adapters_in(accelerator: str) -> str:
    """What adapters are trained in: chips without BF16 train them in FP16."""
    return "bf16" if "bf16" in catalogued(accelerator).flops_per_s else "fp16"


def layer(fact: Fact, said: Verdict) -> str:
    name = catalogued(fact["accelerator"]).name
    return "forbidden" if said.rule in {f.text.format(name=name) for f in FORBIDDEN} else LAYERS[said.far]


def outcome(fact: Fact, said: Verdict) -> str:
    """Supported, natively or not where the fact says which, or refused by a layer."""
    if not said.is_supported:
        return f"refused by {layer(fact, said)}"
    return "supported" + (f", native {'yes' if said.native else 'no'}" if fact["native"] else "")


def wanted(fact: Fact) -> str:
    if fact["expected"] == "refused":
        return f"refused by {fact['refused_by']}"
    return "supported" + (f", native {fact['native']}" if fact["native"] else "")


@pytest.mark.parametrize("engine", sorted({fact["engine"] for fact in facts()}))
def test_rules_and_facts_agree(engine: str) -> None:
    wrong = [
        f"{named(fact)}: {wanted(fact)} ({fact['source']}); Headroom: {outcome(fact, said)}, {said.rule}"
        for fact in facts()
        if fact["engine"] == engine
        for said in [found(fact)]
        if outcome(fact, said) != wanted(fact)
    ]
    assert not wrong, "\n".join(wrong)


def test_every_verdict_says_why_and_by_whom() -> None:
    silent = [named(fact) for fact in facts() for said in [found(fact)] if not (said.rule and said.source)]
    assert silent == []


def test_the_table_is_wide_sourced_and_goes_both_ways() -> None:
    table = facts()
    says = Counter(fact["expected"] for fact in table)
    assert len(table) >= 300 and says["supported"] >= 150 and says["refused"] >= 150
    assert len({named(fact) for fact in table}) == len(table)
    assert [named(fact) for fact in table if not fact["source"]] == []
    assert {fact["refused_by"] for fact in table if fact["expected"] == "refused"} == set(LAYERS)
    assert {fact["refused_by"] for fact in table if fact["expected"] == "supported"} == {""}
    assert {fact["phase"] for fact in table} == set(PHASES)
    assert {fact["kind"] for fact in table} == {task.value for task in ModelTask}
    assert {fact["accelerator"] for fact in table} <= accelerators().keys()
    assert {fact["engine"] for fact in table} <= ENGINES.keys()
    assert len({catalogued(fact["accelerator"]).family for fact in table}) >= 25
    assert sum("recalled" in fact["source"] for fact in table) < len(table) / 3


def test_evidence_changes_no_refusal_of_a_rule() -> None:
    # What a chip lacks or a record forbids stays refused with all evidence of the catalogue and with none.
    bare = SupportEvidence()
    hard = [fact for fact in facts() if fact["expected"] == "refused"]
    assert [named(fact) for fact in hard if found(fact, bare).is_supported] == []


ISSUE = (
    ("nvidia-l4", "vllm", "embedding", "supported"),
    ("nvidia-l4", "vllm", "reranker", "supported"),
    ("nvidia-h100-sxm5-80gb", "transformers", "decoder", "supported"),
    ("nvidia-a100-sxm4-80gb", "nemo", "decoder", "supported"),
    ("nvidia-a100-sxm4-80gb", "torchtitan", "decoder", "supported"),
    ("nvidia-h100-sxm5-80gb", "torchtune", "decoder", "supported"),
    ("nvidia-rtx-4090", "mistral.rs", "decoder", "supported"),
    ("nvidia-rtx-4090", "mlc-llm", "decoder", "supported"),
    ("nvidia-rtx-4090", "exllamav3", "decoder", "supported"),
    ("aws-trainium2", "neuronx", "decoder", "supported"),
    ("aws-inferentia1", "neuronx", "decoder", "refused"),
    ("amd-rx-7900-xtx", "vllm", "decoder", "refused"),
    ("google-tpu-v5p", "maxtext", "decoder", "refused"),
)


def test_what_people_tripped_over_is_in_the_table() -> None:
    known = {(fact["accelerator"], fact["engine"], fact["kind"], fact["expected"]) for fact in facts()}
    assert [row for row in ISSUE if row not in known] == []
