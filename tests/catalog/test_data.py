"""The curated data themselves: ranges, references, dense rates, units, dates."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from app.catalog.files import read_rows
from app.catalog.names import fold_name
from app.catalog.queries import make_support, parse_statements
from app.catalog.seed import (
    accelerator_values,
    measurement_values,
    model_entries,
    offer_values,
    row_values,
    system_values,
)
from app.catalog.tables import CoefficientRow, EngineSupportRow, PriceRow
from app.sizing.columns import GIB, TERA
from app.sizing.hardware.parts import Link, PriceKind, PricingModel
from app.sizing.model.formats import KV_FORMATS, WEIGHT_FORMATS

ACCELERATORS = {r["slug"]: r for r in map(accelerator_values, read_rows("accelerators.csv"))}
SYSTEMS = {r["slug"]: r for r in map(system_values, read_rows("systems.csv"))}
OFFERS = [offer_values(r) for r in read_rows("offers.csv")]
PRICES = [row_values(PriceRow, r) for r in read_rows("price_history.csv")]
SUPPORT = [row_values(EngineSupportRow, r) for r in read_rows("engine_support.csv")]
COEFFICIENTS = [row_values(CoefficientRow, r) for r in read_rows("coefficients.csv")]
MODELS = model_entries()
MEASUREMENTS = [
    measurement_values(kind)(row)
    for kind in ("inference", "training", "kv_cache")
    for row in read_rows(f"measurements_{kind}.csv")
]
DAY = re.compile(r"20\d\d-\d\d-\d\d")


def test_every_file_has_rows_and_every_accelerator_a_machine_or_a_reason() -> None:
    tables = (ACCELERATORS, SYSTEMS, OFFERS, PRICES, SUPPORT, MODELS, COEFFICIENTS)
    assert all(len(rows) > 0 for rows in tables)
    assert {m["kind"] for m in MEASUREMENTS} == {"inference", "training", "kv_cache"}
    sold = {s["accelerator"] for s in SYSTEMS.values()} | {o["accelerator"] for o in OFFERS}
    assert len(sold) > len(ACCELERATORS) / 2


@pytest.mark.parametrize(
    "rows",
    [list(ACCELERATORS.values()), list(SYSTEMS.values()), OFFERS, SUPPORT, COEFFICIENTS],
    ids=["accelerators", "systems", "offers", "support", "coefficients"],
)
def test_every_row_has_a_source_and_a_date(rows: list[dict[str, object]]) -> None:
    for row in rows:
        assert row["source"]
        assert DAY.fullmatch(str(row["as_of"]))


def test_every_price_and_model_has_a_source_and_a_date() -> None:
    for price in PRICES:
        assert price["source"]
        assert DAY.fullmatch(str(price["observed_on"]))
    for model in MODELS:
        assert model["source_ref"]
        assert DAY.fullmatch(model["as_of"])


def test_every_measurement_names_its_source_and_what_was_measured() -> None:
    assert max(Counter(m["id"] for m in MEASUREMENTS).values()) == 1
    for m in MEASUREMENTS:
        assert m["source"]
        assert m["model"] or m["kind"] == "kv_cache"  # two start-up logs do not name theirs
        assert m["accelerator"] is None or m["accelerator"] in ACCELERATORS
        assert m["as_of"] is None or re.fullmatch(r"20\d\d(-\d\d){0,2}", m["as_of"]), m["id"]
        assert all(value != "" for value in m["payload"].values())


def test_no_single_stream_was_measured_faster_than_its_weights_can_be_read() -> None:
    """A slip of units would show: one stream reads every active weight once per token."""
    facts = {entry["hf_id"]: entry for entry in MODELS}
    checked = 0
    for m in MEASUREMENTS:
        said = m["payload"]
        if (
            said.get("load_kind") != "single"
            or "decode_tok_s_per_user" not in said
            or m["model"] not in facts
            or not m["accelerator"]
        ):
            continue
        bandwidth = ACCELERATORS[m["accelerator"]]["memory_bytes_per_s"]
        if bandwidth is None:
            continue
        two_bit_bytes = facts[m["model"]]["active_params"] / 4
        assert float(said["decode_tok_s_per_user"]) * two_bit_bytes <= 1.1 * bandwidth * m["num_accelerators"], m["id"]
        checked += 1
    assert checked > 100


def test_slugs_and_names_are_unique() -> None:
    assert len(ACCELERATORS) == sum(1 for _ in read_rows("accelerators.csv"))
    assert len(SYSTEMS) == sum(1 for _ in read_rows("systems.csv"))
    assert all(re.fullmatch(r"[a-z0-9][a-z0-9.-]*", s) for s in (*ACCELERATORS, *SYSTEMS))
    keys = Counter(
        (o["provider"], o["region"], o["instance_type"], o["accelerator"], o["accelerator_count"], o["pricing_model"])
        for o in OFFERS
    )
    assert max(keys.values()) == 1
    assert max(Counter((s["engine"], s["accelerator_family"], s["phase"]) for s in SUPPORT).values()) == 1
    assert max(Counter(m["hf_id"] for m in MODELS).values()) == 1


def test_every_documented_format_has_the_statement_of_its_source() -> None:
    """A row documents a format only with a quotation that names where it stands; silence of a source is not a yes."""
    for row in SUPPORT:
        formats = {token.partition(":")[0] for token in row["weight_formats"].split("|") if token}
        stated = parse_statements(row["as_published"] or "")
        assert stated.keys() - {"*"} <= formats | {"fp8"}, row
        assert all(10 <= len(text) <= 160 for text in stated.values()), row
        support = make_support(EngineSupportRow(**row))
        for name in formats:
            documented = support.statement((name,)) is not None
            assert documented == (row["confidence"] != "low" and bool({name, "*"} & stated.keys())), (row, name)


def test_a_recalled_row_documents_no_format() -> None:
    """A row marked "recall" was not read again: it quotes nothing and stays tentative."""
    for row in SUPPORT:
        if "recall" in row["source"]:
            assert row["as_published"] is None, row
            assert row["confidence"] == "low", row


def test_int8_is_not_documented_where_a_source_is_silent_or_denies_it() -> None:
    rows = {(r["engine"], r["accelerator_family"], r["phase"]): r for r in SUPPORT}
    blackwell = ("nvidia_blackwell", "nvidia_blackwell_consumer")
    for engine in ("vllm", "sglang", "tensorrt-llm"):
        for family in blackwell:
            row = make_support(EngineSupportRow(**rows[engine, family, "inference"]))
            assert row.statement(("int8",)) is None, (engine, family)
    assert make_support(EngineSupportRow(**rows["vllm", "nvidia_ampere", "inference"])).statement(("int8",)) is not None


def test_references_hold() -> None:
    assert {s["accelerator"] for s in SYSTEMS.values()} <= set(ACCELERATORS)
    assert {o["accelerator"] for o in OFFERS} <= set(ACCELERATORS)
    assert {p["accelerator"] for p in PRICES} <= set(ACCELERATORS)
    assert {o["system"] for o in OFFERS} - {None} <= set(SYSTEMS)
    families = {a["family"] for a in ACCELERATORS.values()}
    assert {s["accelerator_family"] for s in SUPPORT} - families == {"qualcomm_adreno"}
    for o in OFFERS:
        if o["system"] is not None:
            assert SYSTEMS[o["system"]]["accelerator"] == o["accelerator"]
            assert o["accelerator_count"] == 0 or o["accelerator_count"] == pytest.approx(
                SYSTEMS[o["system"]]["accelerator_count"], rel=1e-3
            )


def test_magnitudes_are_plausible() -> None:
    for a in ACCELERATORS.values():
        if a["memory_bytes"] is not None:
            assert 0.2 * GIB <= a["memory_bytes"] <= 520 * GIB
        if a["memory_bytes_per_s"] is not None and a["kind"] != "asic":
            assert 50e9 <= a["memory_bytes_per_s"] <= 25e12
        for rate in ("fp16", "bf16", "fp8", "int8", "fp4"):
            value = a[f"{rate}_flops_per_s"]
            assert value is None or 0.05 * TERA <= value <= 40_000 * TERA
        assert a["power_w"] is None or 5 <= a["power_w"] <= 25_000
        assert 2014 <= a["release_year"] <= 2027
    for s in SYSTEMS.values():
        assert 0 < s["accelerator_count"] <= 10_000
        assert s["network_bytes_per_s"] is None or 1e7 <= s["network_bytes_per_s"] <= 5e13
    for row in (*OFFERS, *PRICES):
        assert 0.001 <= row["usd_per_hour"] <= 5000


def test_rates_are_dense() -> None:
    """FP8 is at most twice BF16 (2:4 sparsity would make it four times), Rubin and the TPU generations apart."""
    for slug, a in ACCELERATORS.items():
        bf16, fp8 = a["bf16_flops_per_s"], a["fp8_flops_per_s"]
        if (
            bf16
            and fp8
            and slug
            not in ("nvidia-rubin-vr200", "aws-trainium3", "tenstorrent-wormhole-n150", "tenstorrent-wormhole-n300")
        ):
            assert fp8 <= 2.05 * bf16, slug
    for slug, tflops in {
        "nvidia-h100-sxm5-80gb": 989.4,
        "nvidia-a100-sxm4-80gb": 312,
        "nvidia-l40s": 362,
        "nvidia-b200-sxm-180gb": 2250,
        "amd-mi300x": 1307.4,
        "nvidia-rtx-4090": 165.2,
    }.items():
        assert ACCELERATORS[slug]["bf16_flops_per_s"] == pytest.approx(tflops * TERA)
    assert ACCELERATORS["nvidia-a100-sxm4-80gb"]["fp8_flops_per_s"] is None


def test_memory_is_what_the_device_reports() -> None:
    for slug, mib in {
        "nvidia-h100-sxm5-80gb": 81559,
        "nvidia-h200-sxm-141gb": 144384,
        "nvidia-b200-sxm-180gb": 183359,
        "nvidia-l4": 22888,
        "nvidia-t4": 15360,
    }.items():
        assert ACCELERATORS[slug]["memory_bytes"] == mib * 2**20
        assert ACCELERATORS[slug]["memory_is_reported"]
    # Labels are read as GiB, never as 10^9 bytes, and never exceeded by a report.
    for row in read_rows("accelerators.csv"):
        if row["reported_memory_mib"]:
            assert 0.9 <= float(row["reported_memory_mib"]) / 1024 / float(row["memory_gb"]) <= 1.03


def test_network_rates_are_bytes() -> None:
    # p5.48xlarge: 3200 Gbit/s
    assert SYSTEMS["aws-p5-48xlarge"]["network_bytes_per_s"] == 400e9


def test_formats_and_pricing_models_are_known() -> None:
    for s in SUPPORT:
        names = {f.split(":")[0] for f in s["weight_formats"].split("|") if f}
        assert names <= {*WEIGHT_FORMATS, "mxfp8"}, s
        assert {k for k in s["kv_formats"].split("|") if k} <= set(KV_FORMATS)
    assert {o["pricing_model"] for o in OFFERS} <= {p.value for p in PricingModel}
    assert {o["tier"] for o in OFFERS} == {"standard", "serverless", "marketplace", "incomplete", "quarantined"}


DATED = re.compile(r"20\d\d(-\d\d(-\d\d)?)?")
CONFIDENCES = {"high", "medium", "low"}


def test_every_price_has_a_kind_a_source_and_a_day_of_its_own() -> None:
    providers = {r["provider"]: r for r in read_rows("providers.csv")}
    assert {o["provider"] for o in OFFERS} | {s["provider"] for s in SYSTEMS.values()} == set(providers)
    assert all(p["what"] and p["name"] and p["source_ref"] for p in providers.values())
    rented = {PriceKind.PROVIDER, PriceKind.RESELLER, PriceKind.BROKER}
    for o in OFFERS:
        assert PriceKind(o["price_kind"]) in rented, o
        assert o["price_kind"] in ("broker", providers[o["provider"]]["kind"]), o
        assert o["confidence"] in CONFIDENCES, o
        assert o["confidence"] != "high" or not o["date_estimated"], o
        paid = o["usd_per_hour"] * 8760 * (3 if o["pricing_model"].endswith("3y") else 1)
        assert o["upfront_usd"] is None or o["upfront_usd"] == pytest.approx(paid, abs=0.01), o
    for s in SYSTEMS.values():
        priced = s["list_price_usd"] is not None
        assert (s["price_kind"] is not None) == priced, s["slug"]
        if priced:
            assert PriceKind(s["price_kind"]) not in {*rented - {PriceKind.RESELLER}, PriceKind.ESTIMATE}, s["slug"]
            assert s["price_source"], s["slug"]
            assert DATED.fullmatch(s["price_observed"]), s["slug"]
            assert s["price_confidence"] in CONFIDENCES, s["slug"]
    for a in ACCELERATORS.values():
        assert (a["price_observed"] is not None) == (a["list_price_usd_high"] is not None), a["slug"]
        assert a["price_observed"] is None or DATED.fullmatch(a["price_observed"]), a["slug"]


def test_goods_sold_in_units_are_priced_by_the_unit() -> None:
    for row in read_rows("offers.csv"):
        unit = re.search(r"sold in units of (\d) GPUs", row["notes"])
        assert unit is None or float(row["accelerator_count"]) == int(unit[1]), row


def test_no_offered_price_is_far_below_all_others() -> None:
    per: dict[tuple[str, str], dict[str, list[float]]] = {}
    for o in OFFERS:
        if o["accelerator_count"] >= 1 and o["tier"] in ("standard", "serverless"):
            per.setdefault((o["accelerator"], o["pricing_model"]), {}).setdefault(o["provider"], []).append(
                o["usd_per_hour"] / o["accelerator_count"]
            )
    for key, providers in per.items():
        medians = sorted(sorted(v)[len(v) // 2] for v in providers.values())
        if len(medians) >= 3:
            assert min(min(v) for v in providers.values()) >= medians[len(medians) // 2] / 6, key


def test_coefficients_lie_in_their_ranges_and_below_physical_bounds() -> None:
    for c in COEFFICIENTS:
        assert c["low"] <= c["value"] <= c["high"]
        if c["name"].endswith("_fraction"):
            assert 0 < c["value"] <= 1
        if c["unit"] == "s":
            assert 0 < c["value"] <= 0.15


def test_every_alias_leads_to_one_model() -> None:
    owners: dict[str, set[str]] = {}
    for m in MODELS:
        for alias in m["aliases"]:
            owners.setdefault(fold_name(alias), set()).add(m["hf_id"])
    ambiguous = {a: o for a, o in owners.items() if len(o) > 1}
    assert len(ambiguous) <= 5, ambiguous


def test_links_are_typed() -> None:
    for slug, a in ACCELERATORS.items():
        assert Link(a["machine_link"]) is not Link.NONE, slug
        assert a["slot_bytes_per_s"] > 0, slug
        if a["machine_link"] == Link.SCALE_UP or a["link_spans_machines"]:
            assert a["scaleup_bytes_per_s"], slug
    for slug, s in SYSTEMS.items():
        several = s["accelerator_count"] > 1
        link, domain = Link(s["link"]), s["scaleup_domain_size"]
        assert (domain is not None) == (link is Link.SCALE_UP), slug
        if link is Link.SCALE_UP:
            assert ACCELERATORS[s["accelerator"]]["scaleup_bytes_per_s"], slug
            assert 1 < domain <= ACCELERATORS[s["accelerator"]]["scaleup_domain_size"], slug
        assert several <= (link is not Link.NONE), slug


def test_a_rack_is_one_machine_of_several_hosts() -> None:
    for slug, s in SYSTEMS.items():
        assert s["hosts"] == 1 or s["accelerator_count"] % s["hosts"] == 0, slug
        assert s["accelerator_count"] / s["hosts"] <= 32, slug  # one system with more has hosts that are not counted
    assert {SYSTEMS[slug]["hosts"] for slug in ("gb200-nvl72", "gb300-nvl72", "aws-u-p6e-gb200x72-ultraserver")} == {18}
    assert (SYSTEMS["gcp-tpu-v6e-8"]["hosts"], SYSTEMS["gcp-tpu-v6e-16"]["hosts"]) == (1, 4)


def test_memory_is_shared_by_what_has_one_chip_for_everything() -> None:
    for slug, a in ACCELERATORS.items():
        assert a["memory_is_shared"] <= a["unified_memory"], slug


def test_a_chip_that_is_its_machine_is_alone_in_it() -> None:
    # Several of them joined by a cable are several machines, each with its memory, its power and its start command.
    counts = {
        slug: machine["accelerator_count"]
        for slug, machine in SYSTEMS.items()
        if ACCELERATORS[machine["accelerator"]]["kind"] == "soc"
    }
    assert len(counts) > 20
    assert {slug for slug, count in counts.items() if count != 1} == set()
