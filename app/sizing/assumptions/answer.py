"""Assumptions about warnings, benchmarks, confidence, the cost of owning machines, and thresholds of a diagnosis."""

from __future__ import annotations

from dataclasses import dataclass

from app.sizing.assumptions.chosen import assumption


@dataclass(frozen=True)
class AnswerAssumptions:
    # Warnings
    headroom_utilization: float = assumption(
        0.9,
        low=0.5,
        high=1,
        reason="utilization above which queues grow steeply",
        source="assumed: M/M/1 then waits for 6 service times",
    )
    tail_percentile: float = assumption(
        90,
        low=50,
        high=99.9,
        unit="%",
        reason="percentile below which limits do not cover the tail",
        source="assumed",
    )
    fast_ingest_gb_per_s_per_machine: float = assumption(
        1,
        low=0.05,
        high=100,
        unit="GB/s",
        reason="data rate per machine above which storage needs planning",
        source="assumed: rate of one disk or network share",
    )
    overkill_utilization: float = assumption(
        0.05,
        low=0,
        high=0.5,
        reason="peak utilization below which smaller hardware may suffice",
        source="assumed: 5 % of the paid capacity",
    )
    stale_price_days: float = assumption(
        365,
        low=1,
        high=3650,
        unit="days",
        reason="price age above which to ask for a new quote",
        source="assumed",
    )
    usual_provider_accelerators: float = assumption(
        64,
        low=1,
        high=100_000,
        unit="accelerators",
        reason="accelerators that a provider has free for one buyer",
        source="assumed: quotas without a contract",
    )
    usual_reseller_accelerators: float = assumption(
        32,
        low=1,
        high=100_000,
        unit="accelerators",
        reason="accelerators that a reseller has free for one buyer",
        source="assumed: half as many as a provider",
    )
    usual_broker_accelerators: float = assumption(
        8,
        low=1,
        high=100_000,
        unit="accelerators",
        reason="identical accelerators that a broker has at one time",
        source="assumed: one machine with eight",
    )
    usual_quote_accelerators: float = assumption(
        256,
        low=1,
        high=100_000,
        unit="accelerators",
        reason="largest number of accelerators that one quote covers",
        source="assumed: 32 machines with eight each",
    )
    usual_workstations: float = assumption(
        4,
        low=1,
        high=1000,
        unit="machines",
        reason="workstations that a site runs for one purpose without a rack",
        source="assumed: a shelf of towers",
    )
    usual_list_accelerators: float = assumption(
        16,
        low=1,
        high=100_000,
        unit="accelerators",
        reason="accelerators that a shop sells at list price at one time",
        source="assumed",
    )
    deadline_nearly_used: float = assumption(
        0.9,
        low=0.1,
        high=1,
        reason="share of the deadline above which an answer warns",
        source="assumed",
    )
    memory_nearly_full: float = assumption(
        0.95,
        low=0.5,
        high=1,
        reason="share of usable memory above which an answer warns",
        source="assumed: fragmentation takes a few percent",
    )
    thin_margin: float = assumption(
        0.05,
        low=0,
        high=0.5,
        reason="probability margin below which an answer warns",
        source="assumed",
    )
    thin_margin_growth: float = assumption(
        1.5,
        low=1,
        high=100,
        reason="hardware growth to the next confidence that is a warning",
        source="assumed",
    )
    # Suggested benchmark
    benchmark_window_min: float = assumption(
        10,
        low=1,
        high=240,
        unit="min",
        reason="duration of the steady load of the benchmark",
        source="assumed: covers hundreds of requests",
    )
    served_cache_share: float = assumption(
        0.8,
        low=0.3,
        high=1,
        reason="share of the predicted KV cache that one sequence may fill",
        source="assumed: margin for the error of the predicted memory",
    )
    benchmark_warm_up_min: float = assumption(
        5,
        low=0,
        high=240,
        unit="min",
        reason="warm-up before measuring: compilation, first steps",
        source="assumed",
    )
    benchmark_steps: float = assumption(
        50,
        low=5,
        high=10_000,
        unit="steps",
        reason="training steps until the speed is steady",
        source="assumed",
    )
    # Near ties
    near_tie_share: float = assumption(
        0.05,
        low=0,
        high=0.5,
        reason="cost difference below the prediction error",
        source="assumed: smaller than any prediction spread",
    )
    no_recipe_saving: float = assumption(
        0.25,
        low=0,
        high=1,
        reason="saving that a stack without published recipes needs",
        source="assumed: errors of predictions, work of porting",
    )
    few_recipes: float = assumption(
        10,
        low=0.1,
        high=1000,
        reason="published recipes that halve the saving beyond a near tie",
        source="assumed: what one project publishes for a model family",
    )
    published_use_ratio: float = assumption(
        3,
        low=1,
        high=100,
        reason="ratio of published recipes from which one stack is more used",
        source="assumed: projects count different things",
    )
    # Confidence in a prediction
    same_setting_distance: float = assumption(
        0.2,
        low=0,
        high=2,
        reason="largest distance of a result that counts as the same setup",
        source="assumed: same accelerator type, half a doubling of size",
    )


@dataclass(frozen=True)
class DecisionsAssumptions:
    # Money and energy
    horizon_months: float = assumption(
        36,
        low=1,
        high=240,
        unit="months",
        reason="period over which hardware is paid for",
        source="assumed: 3 years",
    )
    electricity_usd_per_kwh: float = assumption(
        0.12,
        low=0,
        high=10,
        unit="USD/kWh",
        reason="electricity price",
        source="assumed: between US and EU prices",
    )
    pue: float = assumption(
        1.3,
        low=1,
        high=5,
        reason="power usage effectiveness of the data center",
        source="assumed: 1.1 for new sites, 1.56 on average",
        as_of="2024-07",
    )
    rent_decline_per_year: float = assumption(
        0.03,
        low=0,
        high=0.9,
        reason="yearly decline of on-demand prices, in /compare",
        source="mean of 39 price histories, 2022-26",
        as_of="2026-10",
    )
    resale_decline_per_year: float = assumption(
        0.35,
        low=0,
        high=0.99,
        reason="yearly loss of resale value without recorded sales",
        source="assumed: recorded generations lose 29 to 34 % a year",
    )
    # Owned machines
    list_price_position: float = assumption(
        1.0,
        low=0.0,
        high=1.0,
        reason="position of the paid price in the list price range",
        source="assumed: upper end",
    )
    host_power_w: float = assumption(
        150,
        low=20,
        high=1000,
        unit="W",
        reason="smallest host power per accelerator",
        source="assumed: two CPUs for eight accelerators",
    )
    host_power_fraction: float = assumption(
        0.75,
        low=0.1,
        high=1.5,
        reason="host, network and fan power as a share of accelerator power",
        source="median of 25 eight-way servers",
    )
    largest_host_accelerators: float = assumption(
        16,
        low=1,
        high=1024,
        unit="accelerators",
        reason="most accelerators per host if no system is listed",
        source="assumed: the largest PCIe servers",
    )
    socket_power_w: float = assumption(
        350,
        low=50,
        high=800,
        unit="W",
        reason="power of a device without a published figure",
        source="assumed: a server CPU",
    )
    load_power_fraction: float = assumption(
        0.75,
        low=0.2,
        high=1.0,
        reason="mean power draw as a share of rated power",
        source="assumed",
    )
    maintenance_fraction_per_year: float = assumption(
        0.05,
        low=0,
        high=0.3,
        unit="1/year",
        reason="yearly maintenance cost as a share of the purchase price",
        source="assumed: usual contracts",
    )
    facility_usd_per_kw_month: float = assumption(
        184,
        low=0,
        high=600,
        unit="USD/kW/month",
        reason="colocation price without electricity",
        source="CBRE, H2 2024",
        as_of="2025-02",
    )


@dataclass(frozen=True)
class DiagnosisAssumptions:
    diagnosed_slower_share: float = assumption(
        0.25,
        low=0.01,
        high=5,
        reason="slowdown against the prediction that is a finding",
        source="assumed: above the variation between runs of one system",
    )
    diagnosed_least_share: float = assumption(
        0.05,
        low=0.001,
        high=0.9,
        reason="smallest share of time or money that makes a finding",
        source="assumed: smaller shares are hard to measure",
    )
    diagnosed_full_share: float = assumption(
        0.95,
        low=0.5,
        high=1,
        reason="share of a limit at which it counts as reached",
        source="assumed: gauges are read between steps",
    )
    diagnosed_idle_share: float = assumption(
        0.3,
        low=0.05,
        high=0.95,
        reason="unused share of a fleet that makes a finding",
        source="assumed: daily load varies by as much",
    )
    diagnosed_hot_c: float = assumption(
        83,
        low=50,
        high=120,
        unit="C",
        reason="temperature from which accelerators lower their clocks",
        source="assumed: thermal slowdown usually starts at 83 to 90 C",
    )
