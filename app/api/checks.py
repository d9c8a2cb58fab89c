"""Rejects requests whose fields contradict each other, the catalog, the phase or the kind of model."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from app.api.naming import list_names
from app.api.schemas.replica import PoolsSpec, RecipeSpec, ReplicaSpec
from app.api.schemas.requests import (
    ConstraintsSpec,
    DeploymentSpec,
    EstimateRequest,
    FineTuningSpec,
    InferenceSpec,
    RecommendRequest,
    TrainingSpec,
)
from app.catalog.snapshot import CatalogIndex
from app.errors import Conflict, Unanswerable
from app.sizing.decisions.places import MAX_PROVIDERS_SHOWN, list_countries, possible_countries, seat_of
from app.sizing.hardware.engines import release_of
from app.sizing.hardware.parts import Environment, PricingModel
from app.sizing.hardware.recipes import ADAPTER_FIELDS
from app.sizing.hardware.recipes.record import GRADIENTS, WEIGHTS
from app.sizing.model.architecture import ModelArchitecture, ModelKind
from app.sizing.words import join_words, provider_name

CLOUD, ON_PREM, OWNED = Environment.CLOUD.value, Environment.ON_PREM.value, PricingModel.OWNED.value


def conflict_at(pointer: str, detail: str) -> Conflict:
    return Conflict(detail, errors=[{"pointer": pointer, "detail": detail}])


def check_constraints(
    c: ConstraintsSpec, written: ConstraintsSpec, by_pattern: tuple[str, ...], catalog_index: CatalogIndex
) -> None:
    """Raises Conflict if constraints contradict each other. `written` are the constraints as the caller wrote them."""
    _check_accelerators(c, written, by_pattern, catalog_index)
    _check_acquisition(c, catalog_index)
    if c.providers and (c.environments == [CLOUD] or _sells_no_machines(c.providers, catalog_index)):
        _check_provider_regions(c, written, catalog_index)
        _check_provider_seats(c, written, catalog_index)


def _check_provider_regions(c: ConstraintsSpec, written: ConstraintsSpec, catalog_index: CatalogIndex) -> None:
    """Raises Conflict if no offer of the named providers is certainly in the requested regions."""
    served = {name: catalog_index.regions_by_provider.get(name, frozenset()) for name in c.providers}
    if not written.regions or not any(served.values()):
        return
    wanted = frozenset[str]().union(*map(catalog_index.find_countries, written.regions))
    asked, texts = list_names(written.regions), []
    for provider, regions in served.items():
        named = sorted(region for region in regions if catalog_index.country_of(region))
        countries = possible_countries(catalog_index.catalog, provider, None)
        unplaced = len(named) < len(regions)
        if not regions.isdisjoint(c.regions) or (unplaced and countries and countries <= wanted):
            return
        name = provider_name(provider)
        if named:
            texts.append(f"{name} has no offers in {asked} with a named region. It has {list_names(named)}.")
        if unplaced and countries and countries.isdisjoint(wanted):
            texts.append(
                f"{name} is not known to have data centers in {asked}, only in {list_names(sorted(countries))}."
            )
        elif unplaced:
            where = f": in {list_countries(countries)}" if countries else ""
            texts.append(f"Where {name} would place its offers without a region is not known{where}.")
            texts += [f"Add {list_names(sorted(countries - wanted))} to accept them."] if countries else []
    raise conflict_at("#/constraints/regions", " ".join(texts[:MAX_PROVIDERS_SHOWN]))


def _check_provider_seats(c: ConstraintsSpec, written: ConstraintsSpec, catalog_index: CatalogIndex) -> None:
    """Raises Conflict if none of the named providers is known to have its seat in a requested country."""
    seats = {name: seat_of(catalog_index.catalog, name) for name in c.providers}
    if not c.provider_jurisdiction or not {*seats.values()}.isdisjoint(c.provider_jurisdiction):
        return
    texts = [
        f"The seat of {provider_name(name)} is not known."
        if seat is None
        else f"{provider_name(name)} has it in {seat}."
        for name, seat in seats.items()
    ]
    asked = list_names(written.provider_jurisdiction)
    detail = f"No named provider is known to have its seat in {asked}. {' '.join(texts[:MAX_PROVIDERS_SHOWN])}"
    raise conflict_at("#/constraints/provider_jurisdiction", detail)


def _check_accelerators(
    c: ConstraintsSpec, written: ConstraintsSpec, by_pattern: tuple[str, ...], catalog_index: CatalogIndex
) -> None:
    outright = [slug for slug in c.accelerators if slug not in by_pattern]
    both = [slug for slug in outright if slug in c.exclude_accelerators]
    if both and (len(both) == len(outright) or not {*written.exclude_accelerators}.isdisjoint(written.accelerators)):
        raise conflict_at(
            "#/constraints/exclude_accelerators",
            f"{list_names(both)} is in both accelerators and exclude_accelerators. Remove it from one of them.",
        )
    if c.accelerators and {*c.accelerators} <= {*c.exclude_accelerators}:
        raise conflict_at(
            "#/constraints/exclude_accelerators",
            "exclude_accelerators excludes every entry of accelerators. Remove at least one of them.",
        )
    segments_of = {a.slug: a.segments for a in catalog_index.catalog.accelerators}
    if c.accelerators and c.segments and all({*c.segments}.isdisjoint(segments_of[slug]) for slug in c.accelerators):
        sold = list_names(sorted({segment for slug in c.accelerators for segment in segments_of[slug]}))
        raise conflict_at(
            "#/constraints/segments",
            f"No accelerator in accelerators is sold in segment {list_names(c.segments)}. Their segments: {sold}.",
        )
    vendor_of = {a.slug: a.vendor.lower() for a in catalog_index.catalog.accelerators}
    others = [slug for slug in outright if c.vendors and vendor_of[slug] not in c.vendors]
    if others:
        raise conflict_at(
            "#/constraints/vendors",
            f"{list_names(others)} is not made by {list_names(c.vendors)}. Add its maker to vendors, or omit vendors.",
        )
    if c.accelerators and c.vendors and all(vendor_of[slug] not in c.vendors for slug in c.accelerators):
        raise conflict_at(
            "#/constraints/vendors",
            f"No accelerator in accelerators is made by {list_names(c.vendors)}. Omit one of the two.",
        )


def _sells_no_machines(providers: list[str], catalog_index: CatalogIndex) -> bool:
    return not any(s.provider in providers for s in catalog_index.catalog.systems.values() if s.environment == ON_PREM)


def _check_acquisition(c: ConstraintsSpec, catalog_index: CatalogIndex) -> None:
    """Checks that environments, pricing models and providers can be combined: cloud or owned, rented or sold."""
    if c.environments == [CLOUD] and c.pricing_models == [OWNED]:
        raise conflict_at(
            "#/constraints/pricing_models",
            "pricing_models owned requires a purchase, but environments cloud only rents. Change one of them.",
        )
    if c.environments == [ON_PREM] and c.pricing_models and OWNED not in c.pricing_models:
        raise conflict_at(
            "#/constraints/pricing_models",
            "environments on_prem requires a purchase. Add owned to pricing_models, or omit pricing_models.",
        )
    if not c.providers:
        return
    rents = any(provider in catalog_index.regions_by_provider for provider in c.providers)
    if c.environments == [CLOUD] and not rents:
        raise conflict_at(
            "#/constraints/providers",
            f"{list_names(c.providers)} does not rent out machines, but environments is cloud. Change one of them.",
        )
    if c.environments == [ON_PREM] and _sells_no_machines(c.providers, catalog_index):
        raise conflict_at(
            "#/constraints/providers",
            f"{list_names(c.providers)} does not sell machines, but environments is on_prem. Change one of them.",
        )


def check_deployment(d: DeploymentSpec, catalog_index: CatalogIndex) -> None:
    """Raises Conflict if a deployment's offer does not match its provider, region or accelerator."""
    offer = d.offer
    if offer is None:
        return
    at, provider = "#/deployment/offer", offer.provider
    owned = offer.pricing_model == OWNED
    if owned and provider is not None and _sells_no_machines([provider], catalog_index):
        raise conflict_at(
            f"{at}/pricing_model",
            f"{provider} does not sell machines. For pricing_model owned, name a seller or omit the provider.",
        )
    if (
        provider is not None
        and provider in catalog_index.regions_by_provider
        and not owned
        and offer.region is not None
    ):
        served = catalog_index.regions_by_provider[provider]
        if offer.region not in (ON_PREM, *served):
            raise conflict_at(
                f"{at}/region",
                f"{provider} has no offers in {offer.region}. Available regions: {list_names(sorted(served))}.",
            )
    if offer.instance_type is not None:
        carried = {o.accelerator for o in catalog_index.catalog.offers if o.instance_type == offer.instance_type}
        if carried and d.accelerator not in carried:
            raise conflict_at(
                f"{at}/instance_type",
                f"{offer.instance_type} contains {list_names(sorted(carried))}, not {d.accelerator}.",
            )


# Deployment fields of one phase, each with the field that replaces it in the other phase.
OF_SERVING = {
    "engine": "framework",
    "engine_version": "framework_version",
    "weight_format": "workload.precision",
    "kv_format": "",
    "max_batch": "micro_batch_sequences",
    "max_batched_tokens": "micro_batch_sequences",
    "scheduler": "",
    "memory_fraction": "",
    "skip_mm_profiling": "",
    "weights_on_host": "optimizer_offload",
    "speculative": "",
    "pools": "",
}
OF_TRAINING = {
    "framework": "engine",
    "zero_stage": "",
    "micro_batch_sequences": "max_batch",
    "activation_checkpointing": "",
    "optimizer_offload": "",
    "activation_offload": "",
    "parameter_offload": "",
    "virtual_pipeline": "",
    "sequence_parallel": "",
    "flash_attention": "",
    "framework_version": "engine_version",
    "recipe": "",
}
CONSTRAINTS_OF_SERVING = {
    "kv_formats": "",
    "prefix_cache_tiers": "",
    "speculative": "",
    "weight_formats": "workload.precision",
}


class FieldError(NamedTuple):
    """One field that does not apply, and the reason."""

    pointer: str
    detail: str


def raise_field_errors(found: Iterable[FieldError]) -> None:
    """Raises Unanswerable with every field that does not apply; returns if there is none."""
    every = list(found)
    if every:
        raise Unanswerable(
            " ".join(dict.fromkeys(one.detail for one in every)),
            errors=[{"pointer": one.pointer, "detail": one.detail} for one in every],
        )


def explicit_fields(spec: Any) -> set[str]:
    """Returns the names of the fields that the request set."""
    return {name for name in spec.model_fields_set if getattr(spec, name) not in (None, [])}


BATCHES = ("global_batch_tokens", "global_batch_sequences", "global_batch_samples")


def _duplicate_fields(workload: TrainingSpec | FineTuningSpec) -> Iterable[FieldError]:
    """Yields fields of a run that state the same quantity twice, so that one would be ignored."""
    names, at = explicit_fields(workload), "#/workload"
    batches = [name for name in BATCHES if name in names]
    if len(batches) > 1:
        yield FieldError(
            f"{at}/{batches[1]}", f"{batches[0]} and {batches[1]} both set the batch size. Omit one of them."
        )
    if not isinstance(workload, FineTuningSpec):
        return
    amount = next((name for name in ("training_tokens", "training_samples") if name in names), None)
    if "examples" in names and amount is not None:
        yield FieldError(f"{at}/examples", f"examples and {amount} both set the run size. Omit one of them.")
    elif "epochs" in names and amount is not None:
        yield FieldError(f"{at}/epochs", f"epochs requires examples. Omit it: {amount} already covers all epochs.")
    if workload.method == "full" and "lora" in names:
        yield FieldError(f"{at}/lora", "lora requires method lora or qlora; method full trains every parameter.")


def check_phase(request: RecommendRequest | EstimateRequest) -> None:
    """Rejects serving fields on a training run and training fields on a service."""
    serving = request.workload.phase == "inference"
    phase = "serving" if serving else "training and fine-tuning"
    errors = [] if isinstance(request.workload, InferenceSpec) else [*_duplicate_fields(request.workload)]
    if isinstance(request, EstimateRequest):
        names = explicit_fields(request.deployment)
        errors += _wrong_phase_fields(names, OF_TRAINING if serving else OF_SERVING, "deployment", phase)
    elif not serving:
        errors += _wrong_phase_fields(
            explicit_fields(request.constraints), CONSTRAINTS_OF_SERVING, "constraints", phase
        )
    raise_field_errors(errors)


def _wrong_phase_fields(names: set[str], others: dict[str, str], at: str, phase: str) -> list[FieldError]:
    return [
        FieldError(
            f"#/{at}/{name}",
            f"{at}.{name} does not apply to {phase}. " + (f"Use {instead} instead." if instead else "Omit it."),
        )
        for name, instead in others.items()
        if name in names
    ]


def check_units(
    workload: InferenceSpec | TrainingSpec | FineTuningSpec,
    model: ModelArchitecture,
    deployment: DeploymentSpec | None = None,
    *,
    at: str = "#/workload",
) -> None:
    """Rejects token fields for models that process samples, and the reverse. `at` is the pointer of the workload."""
    if model.kind is ModelKind.SAMPLES and deployment is not None and deployment.recipe is not None:
        detail = f"recipe applies to models that process tokens; {model.name} processes samples. Omit it."
        raise_field_errors([FieldError("#/deployment/recipe", detail)])
    if model.kind is not ModelKind.DECODER and deployment is not None and deployment.scheduler is not None:
        detail = f"scheduler applies to models that generate tokens; {model.name} answers in one pass. Omit it."
        raise_field_errors([FieldError("#/deployment/scheduler", detail)])
    if isinstance(workload, InferenceSpec):
        raise_field_errors(_serving_unit_errors(workload, model, at))
    else:
        raise_field_errors(_training_unit_errors(workload, model))


def _serving_unit_errors(workload: InferenceSpec, model: ModelArchitecture, place: str) -> Iterable[FieldError]:
    traffic, at = workload.traffic, f"{place}/traffic"
    if model.kind is ModelKind.SAMPLES:
        accepted = "; ".join(
            (
                "Set traffic.samples_per_s or another load in samples",
                f"set their size with sample.{', sample.'.join(model.law.size_fields)}"
                if model.law is not None
                else "",
            )
        ).removesuffix("; ")
        found = [
            f"traffic.{name}"
            for name in ("input_tokens", "output_tokens", "images", "turn_gap_s", "trace")
            if name in explicit_fields(traffic) and _is_positive(getattr(traffic, name))
        ]
        found += ["max_context_tokens"] if workload.max_context_tokens is not None else []
        verb = "does" if len(found) == 1 else "do"
        why = f"{join_words(found)} {verb} not apply: {model.name} processes samples, not tokens. {accepted}."
        for name in found:
            yield FieldError(f"{place}/{name.replace('.', '/')}", why)
    if model.kind is not ModelKind.DECODER and workload.adapters is not None:
        detail = f"adapters apply to models that generate tokens; {model.name} answers in one pass. Omit them."
        yield FieldError(f"{place}/adapters", detail)
    if model.kind is ModelKind.ENCODER and _is_positive(traffic.output_tokens):
        yield FieldError(
            f"{at}/output_tokens",
            f"{model.name} does not generate tokens. Omit traffic.output_tokens or set it to 0.",
        )
    if model.kind is not ModelKind.DECODER and workload.slo is not None:
        for name in ("ttft_ms", "tpot_ms"):
            if getattr(workload.slo, name) is not None:
                why = f"slo.{name} does not apply: {model.name} answers in one pass. Use slo.e2e_ms instead."
                yield FieldError(f"{place}/slo/{name}", why)


def _is_positive(length: Any) -> bool:
    """True if a length is more than zero."""
    return bool(length) if length is None or isinstance(length, int | float) else True


def _training_unit_errors(workload: TrainingSpec | FineTuningSpec, model: ModelArchitecture) -> Iterable[FieldError]:
    names = explicit_fields(workload)
    in_samples = model.kind is ModelKind.SAMPLES
    for name, instead in (
        (("training_tokens", "training_samples"), ("global_batch_tokens", "global_batch_samples"))
        if in_samples
        else (("training_samples", "training_tokens"), ("global_batch_samples", "global_batch_sequences"))
    ):
        if name in names:
            works = "samples, not tokens" if in_samples else "tokens, not samples"
            yield FieldError(f"#/workload/{name}", f"{model.name} processes {works}. Use {instead} instead of {name}.")
    if in_samples and "sequence_length" in names:
        yield FieldError(
            "#/workload/sequence_length", f"sequence_length does not apply: {model.name} processes samples. Omit it."
        )


AT, VERSION_AT = "#/deployment/recipe", "#/deployment/framework_version"
PURE = "bf16-true"  # precision that keeps nothing in 32 bits
OFFLOADED = "offloaded"


def check_recipe(request: EstimateRequest) -> None:
    """Rejects recipe settings that contradict the layout, the method or the precision."""
    d, workload = request.deployment, request.workload
    errors = [*_check_version(d)]
    if d.recipe is not None and not isinstance(workload, InferenceSpec):
        errors += [
            *_check_layout(d, d.recipe),
            *_check_method(d.recipe, workload),
            *_check_precision(d.recipe, workload),
        ]
    raise_field_errors(errors)


def _check_version(d: DeploymentSpec) -> Iterable[FieldError]:
    version = d.framework_version
    if version is None:
        return
    if d.framework is None:
        yield FieldError(VERSION_AT, "framework_version requires framework. Set both.")
    elif release_of(version) is None:
        yield FieldError(
            VERSION_AT,
            f"framework_version {version!r} has no major and minor number. Write it as 0.6 or 0.6.1, or omit it for "
            "the current version.",
        )


def _check_layout(d: DeploymentSpec, recipe: RecipeSpec) -> Iterable[FieldError]:
    checkpointing, implied = d.activation_checkpointing, recipe.to_recipe().recomputation_layout
    if None not in (checkpointing, implied) and checkpointing != implied:
        yield FieldError(
            f"{AT}/recomputation",
            f"recipe.recomputation {recipe.recomputation} means activation_checkpointing {implied}, not "
            f"{checkpointing}. Omit one of them, or make them match.",
        )
    offloaded = recipe.optimizer_implementation == OFFLOADED
    if recipe.optimizer_implementation is not None and d.optimizer_offload not in (None, offloaded):
        yield FieldError(
            f"{AT}/optimizer_implementation",
            f"recipe.optimizer_implementation {recipe.optimizer_implementation} contradicts optimizer_offload "
            f"{str(d.optimizer_offload).lower()}. Omit one of them.",
        )


def _check_method(recipe: RecipeSpec, workload: TrainingSpec | FineTuningSpec) -> Iterable[FieldError]:
    method = workload.method if isinstance(workload, FineTuningSpec) else "full"
    taken = {"full": (), "lora": ADAPTER_FIELDS[:2], "qlora": ADAPTER_FIELDS}[method]
    for name in ADAPTER_FIELDS:
        if getattr(recipe, name) is not None and name not in taken:
            goes = "method qlora" if name == ADAPTER_FIELDS[-1] else "method lora or qlora"
            yield FieldError(f"{AT}/{name}", f"recipe.{name} requires {goes}; this run uses method {method}.")


def _check_precision(recipe: RecipeSpec, workload: TrainingSpec | FineTuningSpec) -> Iterable[FieldError]:
    if workload.precision != PURE:
        return
    for name, goes, words in (("weights", "16bit", WEIGHTS), ("gradients", "as_weights", GRADIENTS)):
        setting = getattr(recipe, name)
        if setting not in (None, goes):
            yield FieldError(
                f"{AT}/{name}",
                f"recipe.{name} {setting} ({words[setting]}) contradicts precision {PURE}, which keeps nothing in "
                "32 bits. Use precision bf16 instead.",
            )


# Scheduler settings and the deployment fields with the same meaning.
SAME_SETTINGS = {"max_sequences": "max_batch", "max_batched_tokens": "max_batched_tokens"}


def check_scheduler(request: EstimateRequest) -> None:
    """Rejects a setting that is given twice with different values, for the deployment and for each pool."""
    d, pools = request.deployment, request.deployment.pools
    errors = [*_duplicate_settings(d, "deployment")]
    for name in () if pools is None else PoolsSpec.model_fields:
        errors += _duplicate_settings(getattr(pools, name), f"deployment.pools.{name}")
    raise_field_errors(errors)


def _duplicate_settings(spec: ReplicaSpec, of: str) -> Iterable[FieldError]:
    for name, other in SAME_SETTINGS.items() if spec.scheduler is not None else ():
        one, two = getattr(spec.scheduler, name), getattr(spec, other)
        if None not in (one, two) and one != two:
            text = f"scheduler.{name} ({one:,}) contradicts {of}.{other} ({two:,}), the same setting. Omit one of them."
            yield FieldError(f"#/{of.replace('.', '/')}/scheduler/{name}", text)
