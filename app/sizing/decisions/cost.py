"""Cost of a deployment: per hour, month, million tokens, horizon, in energy, and what owned machines need besides."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import (
    GBIT,
    HOURS_PER_DAY,
    HOURS_PER_MONTH,
    HOURS_PER_YEAR,
    LEAST_PER_S,
    LEAST_WORK_PER_S,
    ROUNDING,
    SECONDS_PER_HOUR,
    Codes,
    Column,
    Columns,
    Mask,
)
from app.sizing.decisions.machines import Candidates
from app.sizing.decisions.ownership import horizon_hours, machine_parts_usd, more_memory_usd, owned_usd_per_hour
from app.sizing.decisions.rejections import Rejections, is_at_most
from app.sizing.formula import formula, is_recording, suspend_recording
from app.sizing.hardware.parts import Environment, known_network_bytes_per_s
from app.sizing.question import Constraints, Economics
from app.sizing.result import FilterStage, HostedCost, HostedPrice
from app.sizing.workload import InferenceWorkload


@formula(unit="s", source="definition; read rate and engine start time are assumptions")
def cold_start_s(weights_bytes: Column, nodes_per_replica: Column, assumed: Assumptions) -> Column:
    """Seconds until a new replica answers: its machines read the weights, then the engine starts.

    Parameters:
        weights_bytes: weights of one replica, bytes.
        nodes_per_replica: machines that one replica spans; they read in parallel.
        assumed: assumptions: read rate and engine start time.
    Limits: all replicas start at the same time, and storage serves each at its full rate.
    Check: 70 s at 2 GB/s, and 45 s for the engine.
        >>> cold_start_s(140e9, 1.0, Assumptions())
        115.0
    """
    return weights_bytes / (assumed.model_load_gb_per_s * 1e9) / nodes_per_replica + assumed.engine_start_s


@formula(unit="s")
def run_s(
    volume_requests: float, replicas: Column, capacity_per_s: Column, slo_batch: Column, cold_start_s: Column
) -> Column:
    """Duration of a job: engines start, then each replica processes its share at its full rate.

    Parameters:
        volume_requests: requests of the job.
        replicas: replicas that share them.
        capacity_per_s: capacity of one replica, requests/s.
        slo_batch: largest batch of one replica that meets the SLO, requests.
        cold_start_s: start time of a replica, s.
    Limits: shares are equal; a share smaller than a batch takes as long as a full batch.
    Check: a million requests on four replicas of 25 requests/s, after a start of one minute.
        >>> run_s(1e6, 4.0, 25.0, 256.0, 60.0)
        np.float64(10060.0)
    """
    return cold_start_s + np.maximum(volume_requests / replicas, slo_batch) / np.maximum(capacity_per_s, LEAST_PER_S)


@formula(unit="s")
def min_run_s(capacity_per_s: Column, slo_batch: Column, cold_start_s: Column) -> Column:
    """Shortest duration of a job with any number of replicas: the start and one full batch.

    Parameters:
        capacity_per_s: capacity of one replica, requests/s.
        slo_batch: largest batch of one replica that meets the SLO, requests.
        cold_start_s: start time of a replica, s.
    Limits: a share smaller than a batch takes as long as a full batch.
    Check:
        >>> min_run_s(25.0, 250.0, 60.0)
        np.float64(70.0)
    """
    return cold_start_s + slo_batch / np.maximum(capacity_per_s, LEAST_PER_S)


@formula(unit="replicas")
def replicas_for_deadline(
    volume_requests: float, deadline_s: float, capacity_per_s: Column, cold_start_s: Column
) -> Column:
    """Replicas that process a job between their start and the deadline.

    Parameters:
        volume_requests: requests of the job.
        deadline_s: time until the deadline, start included, s.
        capacity_per_s: capacity of one replica, requests/s.
        cold_start_s: start time of a replica, s.
    Limits: plans that can meet the deadline with some number of replicas.
    Check: two million requests in sixty hours at 5 requests/s per replica.
        >>> float(replicas_for_deadline(2e6, 216_000.0, 5.0, 60.0))
        2.0
    """
    each = capacity_per_s * np.maximum(deadline_s - cold_start_s, 0.0)
    return np.maximum(1.0, np.ceil(volume_requests / np.maximum(each, LEAST_PER_S) - ROUNDING))


@formula(unit="replicas")
def replicas_filling_machines(replicas: Column, replicas_per_node: Column) -> Column:
    """Replicas that fill their machines: whole machines are billed, and more replicas finish the job sooner.

    Parameters:
        replicas: replicas needed.
        replicas_per_node: replicas that one machine holds.
    Limits: offline jobs, which any number of replicas may share.
    Check:
        >>> float(replicas_filling_machines(5.0, 4.0))
        8.0
    """
    return np.ceil(replicas / replicas_per_node) * replicas_per_node


def can_meet_deadline(
    workload: InferenceWorkload, capacity_per_s: Column, slo_batch: Column, cold_start_s: Column
) -> Mask:
    """Plans that meet the deadline with some number of replicas."""
    if workload.deadline_s is None:
        return np.ones(len(capacity_per_s), bool)
    with suspend_recording():
        found: Mask = min_run_s(capacity_per_s, slo_batch, cold_start_s) <= workload.deadline_s
    return found


def replicas_for_volume(
    workload: InferenceWorkload,
    capacity_per_s: Column,
    slo_batch: Column,
    cold_start_s: Column,
    replicas_per_node: Column,
) -> Column:
    """Replicas of the fewest full machines that meet the deadline; those of one replica without a deadline or if
    none can.
    """
    replicas = np.ones_like(capacity_per_s)
    if workload.volume_requests is not None and workload.deadline_s is not None:
        needed = replicas_for_deadline(workload.volume_requests, workload.deadline_s, capacity_per_s, cold_start_s)
        replicas = np.where(can_meet_deadline(workload, capacity_per_s, slo_batch, cold_start_s), needed, replicas)
    return replicas_filling_machines(replicas, replicas_per_node)


HOSTS_SHOWN = 3


@formula(unit="USD", source="definition")
def hosted_usd_per_million(
    usd_per_million_input: float,
    usd_per_million_cached_input: float,
    usd_per_million_output: float,
    input_tokens: float,
    output_tokens: float,
    cached_prefix_fraction: float,
) -> float:
    """Price of a million tokens of a workload at a host that prices input, cached input and output tokens separately.

    Parameters:
        usd_per_million_input: price of a million uncached input tokens, USD.
        usd_per_million_cached_input: price of a million cached input tokens, USD.
        usd_per_million_output: price of a million output tokens, USD.
        input_tokens: mean input tokens of a request.
        output_tokens: mean output tokens of a request.
        cached_prefix_fraction: share of the input tokens that the prefix cache holds.
    Limits: assumes the host's prefix cache hits as often as the buyer's own.
    Check: three input tokens per output token, a third of the input cached.
        >>> round(hosted_usd_per_million(1.0, 0.1, 4.0, 750.0, 250.0, 1 / 3), 3)
        1.525
    """
    fresh = usd_per_million_input * (1 - cached_prefix_fraction)
    prompt = input_tokens * (fresh + usd_per_million_cached_input * cached_prefix_fraction)
    return (prompt + output_tokens * usd_per_million_output) / (input_tokens + output_tokens)


@formula(unit="USD/month", source="definition")
def hosted_usd_per_month(hosted_usd_per_million: float, tokens_per_s: float) -> float:
    """Monthly cost of the traffic at a host.

    Parameters:
        hosted_usd_per_million: price of a million tokens of the workload, USD.
        tokens_per_s: mean input and output tokens per second.
    Limits: mean load in all hours of the month; no volume discount.
    Check: 1,000 tokens/s at 0.5 USD per million.
        >>> hosted_usd_per_month(0.5, 1000.0)
        1314.0
    """
    return hosted_usd_per_million / 1e6 * tokens_per_s * SECONDS_PER_HOUR * HOURS_PER_MONTH


@formula(unit="USD", source="definition")
def hosted_usd_total(hosted_usd_per_million: float, volume_requests: float, tokens_per_request: float) -> float:
    """Cost of a job of known volume at a host.

    Parameters:
        hosted_usd_per_million: price of a million tokens of the workload, USD.
        volume_requests: requests of the job.
        tokens_per_request: mean input and output tokens of a request.
    Limits: no discount for volume or for batch processing.
    Check: a million requests of 2,200 tokens at 0.05 USD per million tokens.
        >>> round(hosted_usd_total(0.05, 1e6, 2200.0), 2)
        110.0
    """
    return hosted_usd_per_million / 1e6 * volume_requests * tokens_per_request


@formula(unit="requests/s", source="definition")
def break_even_rate_per_s(usd_per_hour: float, hosted_usd_per_million: float, tokens_per_request: float) -> float:
    """Mean load above which machines paid by the hour cost less than a host paid by the token.

    Parameters:
        usd_per_hour: hourly cost of the machines, USD/h.
        hosted_usd_per_million: price of a million tokens of the workload at the host, USD.
        tokens_per_request: mean input and output tokens of a request.
    Limits: assumes the same machines at every load, which may exceed their capacity.
    Check: 36 USD/h against 1,000 tokens per request at 1 USD per million.
        >>> round(break_even_rate_per_s(36.0, 1.0, 1000.0), 6)
        10.0
    """
    return (
        usd_per_hour
        / SECONDS_PER_HOUR
        / float(np.maximum(hosted_usd_per_million / 1e6 * tokens_per_request, LEAST_PER_S))
    )


def allows_hosted_api(limits: Constraints) -> bool:
    """Whether the constraints permit a hosted API, whose location is unknown.

    Regions, providers, their jurisdiction and on-premises machines that the request names rule it out.
    """
    own = limits.environments and Environment.CLOUD not in limits.environments
    return not (own or limits.names_places or limits.jurisdictions or limits.providers)


def hosted_costs(
    workload: InferenceWorkload, prices: Iterable[HostedPrice], tokens_per_s: float | None
) -> tuple[HostedCost, ...]:
    """Cost of a workload at the cheapest hosts; per month where the traffic is known."""
    found = [_hosted_cost(workload, price, tokens_per_s) for price in prices]
    return tuple(sorted(found, key=lambda c: (c.usd_per_million_tokens, c.price.provider))[:HOSTS_SHOWN])


def _hosted_cost(workload: InferenceWorkload, price: HostedPrice, tokens_per_s: float | None) -> HostedCost:
    cached = price.usd_per_million_cached_input
    per_million = hosted_usd_per_million(
        price.usd_per_million_input,
        price.usd_per_million_input if cached is None else cached,
        price.usd_per_million_output,
        workload.input_tokens.mean,
        workload.output_tokens.mean,
        workload.cached_prefix_fraction + workload.uncounted_prefix_fraction,
    )
    if workload.volume_requests is not None:
        total = hosted_usd_total(per_million, workload.volume_requests, workload.tokens_per_request)
        return HostedCost(price, per_million, usd_total=total)
    if tokens_per_s is None:
        return HostedCost(price, per_million)
    return HostedCost(price, per_million, usd_per_month=hosted_usd_per_month(per_million, tokens_per_s))


@dataclass(frozen=True, slots=True)
class AncillaryCosts(Columns):
    """Ancillary purchases of a whole deployment, in USD; 0 for rented machines, whose rent includes them."""

    network_usd: Column  # network between the machines, USD
    racks_usd: Column  # racks and power strips, USD
    more_memory_usd: Column  # host memory beyond that of the machines' price, USD


@formula(unit="USD/(Gbit/s)", source="public cost sheet of H100 clusters, August 2024")
def network_usd_per_gbit(linked_nodes: Column, names_network: Mask, assumed: Assumptions) -> Column:
    """Price of the network between machines per Gbit/s: switches, cables and optics by the number of switch tiers, plus
    network cards where the system's data sheet names none.

    Parameters:
        linked_nodes: machines that one network joins.
        names_network: whether the system's data sheet names its network; if not, network cards are added.
        assumed: assumptions: switch ports, prices per Gbit/s and tier factors.
    Limits: full bisection bandwidth, with each port of a machine on a switch of its own rail; Ethernet is 20 to 40 %
    cheaper.
    Check: eight ports of 400 Gbit/s cost 34,000 USD in two tiers.
        >>> round(float(network_usd_per_gbit(128.0, True, Assumptions())) * 3200)
        34141
    """
    ports = assumed.switch_ports
    many = np.where(
        linked_nodes <= ports * ports / 2, assumed.two_tier_network_factor, assumed.three_tier_network_factor
    )
    tiers = np.where(linked_nodes <= ports, 1.0, many)
    return assumed.network_usd_per_gbit * tiers + np.where(names_network, 0.0, assumed.network_card_usd_per_gbit)


@formula(unit="USD")
def network_usd(
    nodes: Column, linked_nodes: Column, node_gbit_per_s: Column, network_usd_per_gbit: Column, owned: Mask
) -> Column:
    """Price of the network between owned machines that work on one job; 0 for rented machines, whose rent includes it.

    Parameters:
        nodes: machines of the deployment.
        linked_nodes: machines that one network joins.
        node_gbit_per_s: network bandwidth of one machine, Gbit/s.
        network_usd_per_gbit: price of the network, USD per Gbit/s.
        owned: whether the machines are bought.
    Limits: excludes the network from users to single machines.
    Check:
        >>> float(network_usd(4.0, 4.0, 3200.0, 4.7, True))
        60160.0
    """
    return np.where(owned & (linked_nodes > 1), nodes * node_gbit_per_s * network_usd_per_gbit, 0.0)


@formula(unit="USD", source="definition; the price is an assumption")
def racks_usd(nodes: Column, rated_w: Column, server: Mask, owned: Mask, assumed: Assumptions) -> Column:
    """Price of racks and power strips for owned servers, by their rated power.

    Parameters:
        nodes: machines of the deployment.
        rated_w: rated power of one machine, W.
        server: whether the machine is a server; a workstation needs no rack.
        owned: whether the machines are bought.
        assumed: assumptions: rack price per kW.
    Limits: liquid cooling outside the machine is part of the floor-space price.
    Check:
        >>> float(racks_usd(2.0, 10_000.0, True, True, Assumptions()))
        4000.0
    """
    return np.where(owned & server, nodes * rated_w / 1e3 * assumed.rack_usd_per_kw, 0.0)


@formula(unit="USD")
def ancillary_usd(network_usd: Column, racks_usd: Column, more_memory_usd: Column) -> Column:
    """Price of all ancillary purchases.

    Parameters:
        network_usd: network between the machines, USD.
        racks_usd: racks and power strips, USD.
        more_memory_usd: extra host memory, USD.
    Limits: excludes storage.
    Check:
        >>> ancillary_usd(60_160.0, 4_000.0, 0.0)
        64160.0
    """
    return network_usd + racks_usd + more_memory_usd


def node_gbit_per_s(found: Candidates, assumed: Assumptions) -> Column:
    """Network bandwidth of a whole machine, Gbit/s."""
    each = known_network_bytes_per_s(found.node.network_bytes_per_s, assumed)
    return found.node.accelerators_per_node * each / GBIT


def network_price(found: Candidates, linked_nodes: Column, assumed: Assumptions) -> Column:
    """Price of the network that joins machines, USD per Gbit/s."""
    return network_usd_per_gbit(linked_nodes, ~np.isnan(found.node.network_bytes_per_s), assumed)


def estimate_ancillary_costs(
    found: Candidates, nodes: Column, linked_nodes: Column, host_bytes: Column | float, assumed: Assumptions
) -> AncillaryCosts:
    """Ancillary purchases for `nodes` machines, joined by networks of `linked_nodes` machines each. Installed machines
    have them already, whatever their own value is.

    `host_bytes` is the host memory that the plan uses on each machine.
    """
    owned, none = ~np.isnan(found.purchase_usd) & ~found.installed, np.zeros(len(found))
    network = none
    if (linked_nodes > 1).any():
        rate, price = node_gbit_per_s(found, assumed), network_price(found, linked_nodes, assumed)
        network = network_usd(nodes, linked_nodes, rate, price, owned)
    memory, needed = none, np.asarray(host_bytes) / assumed.host_memory_share
    if np.any(needed > 0):
        of = found.parts
        memory = nodes * np.nan_to_num(more_memory_usd(needed, of.memory_bytes, of.memory_usd_per_gib))
    return AncillaryCosts(network, racks_usd(nodes, found.rated_w, ~found.node.workstation, owned, assumed), memory)


# Plans that need more accelerators are rejected, whatever limit the request sets.
MAX_ACCELERATORS = 10_000_000


@dataclass(frozen=True, slots=True)
class Cost(Columns):
    """Cost of deployments, in USD, and their power. `purchase_usd` is NaN for rented machines."""

    usd_per_hour: Column  # hourly cost, owning included, USD/h
    purchase_usd: Column  # upfront purchase, USD; NaN for rented machines
    power_w: Column  # mean IT power under load, W
    rated_w: Column  # rated IT power, W
    tco_usd: Column  # total cost of ownership over the horizon, USD
    carbon_kg: Column  # greenhouse gases of a month, or of the run, under load, kg CO2e; NaN where the grid is unknown

    def for_hours(self, hours: Column) -> Cost:
        """The cost with the greenhouse gases of work that ends after some hours, instead of those of a month."""
        return replace(self, carbon_kg=self.carbon_kg * hours / HOURS_PER_MONTH)


@formula(unit="USD")
def purchase_usd(nodes: Column, machine_purchase_usd: Column, ancillary_usd: Column) -> Column:
    """Upfront spend: owned machines and their ancillary purchases.

    Parameters:
        nodes: machines of the deployment.
        machine_purchase_usd: purchase price of one machine, USD.
        ancillary_usd: network, racks and extra memory, USD.
    Limits: owned machines only.
    Check:
        >>> purchase_usd(2.0, 265_000.0, 68_000.0)
        598000.0
    """
    return nodes * machine_purchase_usd + ancillary_usd


@formula(unit="USD/h")
def usd_per_hour(
    nodes: Column, machine_usd_per_hour: Column, ancillary_usd: Column, horizon_hours: float, assumed: Assumptions
) -> Column:
    """Hourly cost of a deployment: its machines, plus ancillary purchases spread over the horizon and their
    maintenance.

    Parameters:
        nodes: machines of the deployment.
        machine_usd_per_hour: rent or hourly cost of owning one machine, USD/h.
        ancillary_usd: network, racks and extra memory, USD.
        horizon_hours: hours over which purchases are spread.
        assumed: assumptions: maintenance per year as a share of the purchase.
    Limits: excludes staff, storage and internet traffic.
    Check:
        >>> round(usd_per_hour(2.0, 55.04, 26_280.0, 26_280.0, Assumptions()), 2)
        111.23
    """
    yearly = ancillary_usd * assumed.maintenance_fraction_per_year
    return nodes * machine_usd_per_hour + ancillary_usd / horizon_hours + yearly / HOURS_PER_YEAR


@formula(unit="W")
def power_w(nodes: Column, draw_w: Column) -> Column:
    """Mean power of a deployment under load.

    Parameters:
        nodes: machines of the deployment.
        draw_w: mean power of one machine under load, W.
    Limits: IT load; the building's overhead (PUE) is part of the cost, not of this figure.
    Check:
        >>> power_w(2.0, 7_500.0)
        15000.0
    """
    return nodes * draw_w


@formula(unit="USD")
def tco_usd(usd_per_hour: Column, horizon_hours: float) -> Column:
    """Total cost of ownership: all payments over the horizon.

    Parameters:
        usd_per_hour: hourly cost of the deployment, USD/h.
        horizon_hours: hours of the horizon.
    Limits: current prices, use in all hours of the horizon.
    Check:
        >>> tco_usd(110.08, 26_280.0)
        2892902.4
    """
    return usd_per_hour * horizon_hours


@formula(unit="USD", source="definition")
def usd_total(usd_per_hour: Column, wall_s: Column) -> Column:
    """Cost of a job that ends: whole machines for its full duration.

    Parameters:
        usd_per_hour: hourly cost of the machines, USD/h.
        wall_s: duration of the job, s.
    Limits: excludes storage, staff and failed runs.
    Check: 100 machines at 20 USD/h for ten days.
        >>> usd_total(2000.0, 864_000.0)
        480000.0
    """
    return usd_per_hour * wall_s / SECONDS_PER_HOUR


@formula(unit="kg", source="GHG Protocol Scope 2 Guidance, location-based method")
def carbon_kg(power_w: Column, hours: Column | float, g_per_kwh: Column | float, economics: Economics) -> Column:
    """Greenhouse gases of the electricity of machines and their building: energy times the intensity of the grid.

    Parameters:
        power_w: mean IT power, W.
        hours: hours in which it is drawn, h.
        g_per_kwh: greenhouse gases of a kWh of the grid, g CO2e.
        economics: economics of the request: PUE.
    Limits: yearly mean intensity of the grid; excludes the manufacture of the machines.
    Check: 10 kW for 100 hours with a PUE of 1.3, at 400 g/kWh.
        >>> carbon_kg(1e4, 100.0, 400.0, Economics(pue=1.3))
        520.0
    """
    return power_w / 1e3 * hours * economics.pue * g_per_kwh / 1e3


@formula(unit="kg")
def carbon_kg_per_million(kwh_per_million: Column, g_per_kwh: Column | float, economics: Economics) -> Column:
    """Greenhouse gases of a million tokens (or samples).

    Parameters:
        kwh_per_million: IT energy of a million tokens or samples, kWh.
        g_per_kwh: greenhouse gases of a kWh of the grid, g CO2e.
        economics: economics of the request: PUE.
    Limits: as those of `carbon_kg`.
    Check:
        >>> round(carbon_kg_per_million(0.5, 400.0, Economics(pue=1.3)), 9)
        0.26
    """
    return kwh_per_million * economics.pue * g_per_kwh / 1e3


def deployment_cost(
    found: Candidates,
    nodes: Column,
    linked_nodes: Column,
    assumed: Assumptions,
    economics: Economics,
    *,
    host_bytes: Column | float = 0.0,
) -> Cost:
    """Cost of `nodes` machines, joined by networks of `linked_nodes` machines each.

    Rent and ownership are comparable: an owned machine costs, per hour, its purchase spread over the horizon,
    maintenance, floor space and power. `host_bytes` is the host memory that the plan uses on each machine.
    """
    owned = ~np.isnan(found.purchase_usd)
    if is_recording():  # the trace shows how the price of an owned machine is derived
        machine_parts_usd(found.parts)
        draw = np.where(owned, found.draw_w, np.nan)
        owned_usd_per_hour(found.purchase_usd, draw, ~found.node.workstation, assumed, economics)
    hours, ancillary = horizon_hours(economics), np.zeros(len(found))
    if owned.any():
        bought = estimate_ancillary_costs(found, nodes, linked_nodes, host_bytes, assumed)
        ancillary = ancillary_usd(bought.network_usd, bought.racks_usd, bought.more_memory_usd)
    hourly, power = usd_per_hour(nodes, found.usd_per_hour, ancillary, hours, assumed), power_w(nodes, found.draw_w)
    with suspend_recording():
        monthly_kg = carbon_kg(power, HOURS_PER_MONTH, found.grid_g_per_kwh, economics)
    return Cost(
        usd_per_hour=hourly,
        purchase_usd=np.where(owned, purchase_usd(nodes, found.purchase_usd, ancillary), np.nan),
        power_w=power,
        rated_w=nodes * found.rated_w,
        tco_usd=tco_usd(hourly, hours),
        carbon_kg=monthly_kg,
    )


@formula(unit="USD")
def rent_saved_usd(usd_per_hour: Column, idle_share: Column) -> Column:
    """Rent saved in a day by releasing machines for a share of their hours.

    Parameters:
        usd_per_hour: hourly cost of the fleet at the peak, USD/h.
        idle_share: share of the machine-hours that are released, from 0 to 1.
    Limits: rented by the hour and billed by the minute; machines are available again when needed.
    Check:
        >>> rent_saved_usd(40.0, 0.25)
        240.0
    """
    return usd_per_hour * HOURS_PER_DAY * idle_share


@formula(unit="USD", source="definition; the power of an idle machine is an assumption")
def energy_saved_usd(power_w: Column, idle_share: Column, assumed: Assumptions, economics: Economics) -> Column:
    """Electricity saved in a day by owned machines that are idle for a share of their hours.

    Parameters:
        power_w: mean power of the fleet under load, W.
        idle_share: share of the machine-hours that are idle, from 0 to 1.
        assumed: assumptions: power of an idle machine as a share of its power under load.
        economics: economics of the request: PUE and the electricity tariff.
    Limits: machines stay switched on.
    Check: 10 kW, a quarter of the hours idle at 40 % of it: 36 kWh, times a PUE of 1.3.
        >>> round(energy_saved_usd(1e4, 0.25, Assumptions(), Economics(electricity_usd_per_kwh=0.1, pue=1.3)), 3)
        4.68
    """
    saved = power_w / 1e3 * idle_share * (1 - assumed.idle_power_share) * HOURS_PER_DAY
    return saved * economics.pue * economics.electricity_usd_per_kwh


def paid_usd_per_hour(
    usd_per_hour: Column,
    power_w: Column,
    idle_share: Column,
    by_the_hour: Mask,
    is_owned: Mask,
    assumed: Assumptions,
    economics: Economics,
) -> Column:
    """Mean hourly cost of a day with idle machines, by pricing model.

    Reserved machines are billed whether they run or not; owned machines save energy only.

    Check: a quarter idle, on demand and reserved.
        >>> rented = np.array([True, False])
        >>> paid_usd_per_hour(40.0, 0.0, 0.25, rented, np.array([False, False]), Assumptions(), Economics()).tolist()
        [30.0, 40.0]
    """
    back = np.where(by_the_hour, rent_saved_usd(usd_per_hour, idle_share), 0.0)
    energy = np.where(is_owned, energy_saved_usd(power_w, idle_share, assumed, economics), 0.0)
    paid: Column = usd_per_hour - (back + energy) / HOURS_PER_DAY
    return paid


def paid_power_w(power_w: Column, idle_share: Column, by_the_hour: Mask, assumed: Assumptions) -> Column:
    """Mean power of a day with idle machines, in W: released machines draw nothing, all others their idle power.

    Check: a quarter idle, on demand and owned, with idle machines at 40 % of their power.
        >>> paid_power_w(1000.0, 0.25, np.array([True, False]), Assumptions()).tolist()
        [750.0, 850.0]
    """
    saved = np.where(by_the_hour, idle_share, idle_share * (1 - assumed.idle_power_share))
    mean: Column = power_w * (1 - saved)
    return mean


def has_measurable_throughput(units_per_s: float) -> bool:
    """Whether the throughput is high enough for a cost per million to be meaningful."""
    return units_per_s > LEAST_WORK_PER_S


@formula(unit="USD")
def usd_per_million(usd_per_hour: Column, units_per_s: Column) -> Column:
    """Cost of a million tokens (or samples).

    Parameters:
        usd_per_hour: hourly cost of the deployment, USD/h.
        units_per_s: mean tokens (or samples) per second.
    Limits: at the mean load of all hours, not at the peak.
    Check:
        >>> round(float(usd_per_million(110.2, 27_000.0)), 3)
        1.134
    """
    return usd_per_hour / SECONDS_PER_HOUR / np.maximum(units_per_s, LEAST_PER_S) * 1e6


@formula(unit="kWh")
def kwh_per_million(power_w: Column, units_per_s: Column) -> Column:
    """IT energy of a million tokens (or samples).

    Parameters:
        power_w: mean power of the deployment under load, W.
        units_per_s: mean tokens (or samples) per second.
    Limits: excludes the building's overhead (PUE).
    Check:
        >>> round(float(kwh_per_million(11_200.0, 27_000.0)), 3)
        0.115
    """
    return power_w / 1e3 / SECONDS_PER_HOUR / np.maximum(units_per_s, LEAST_PER_S) * 1e6


@dataclass(frozen=True, slots=True)
class ResourceLimit:
    """A limit on accelerators, money or power: its name, and what a deployment needs of the resource."""

    name: str  # field of the request
    field: str  # field of the constraints
    code: str  # code of a rejection
    text: str  # sentence of a rejection
    unit: str  # unit of a rejection
    symbol: str  # unit as text; empty for accelerators
    needed: Callable[[Column, Cost], Column]  # need of deployments by accelerators and cost, in units of the request
    per_unit: float = 1.0  # base units per unit of the request

    def requested(self, constraints: Constraints) -> float | None:
        """The limit in units of the request; None where the request sets none."""
        limit: float | None = getattr(constraints, self.field)
        return None if limit is None else limit / self.per_unit


# The only limits on accelerators, money and power.
RESOURCE_LIMITS = (
    ResourceLimit(
        "max_accelerators",
        "max_accelerators",
        "too_many_accelerators",
        "{name} needs {needed} accelerators; the limit is {available}.",
        "accelerators",
        "",
        lambda accelerators, _: accelerators,
    ),
    ResourceLimit(
        "max_usd_per_hour",
        "max_usd_per_hour",
        "over_budget",
        "{name} costs {needed} USD/h for {on}; the budget is {available} USD/h.",
        "usd_per_hour",
        "USD/h",
        lambda _, cost: cost.usd_per_hour,
    ),
    ResourceLimit(
        "max_purchase_usd",
        "max_purchase_usd",
        "over_budget",
        "{name} costs {needed} USD upfront for {on}; the purchase budget is {available} USD.",
        "usd",
        "USD",
        lambda _, cost: np.nan_to_num(cost.purchase_usd, nan=0.0),
    ),
    ResourceLimit(
        "max_power_kw",
        "max_power_w",
        "over_power",
        "{name} draws up to {needed} kW with {on}; the limit is {available} kW.",
        "kw",
        "kW",
        lambda _, cost: cost.rated_w / 1e3,
        1e3,
    ),
    ResourceLimit(
        "max_carbon_kg",
        "max_carbon_kg",
        "over_carbon",
        "{name} causes {needed} kg of CO2e per month or run with {on}; the limit is {available} kg.",
        "kg",
        "kg",
        lambda _, cost: cost.carbon_kg,
    ),
)
MAX_ACCELERATORS_LIMIT, *MONEY_LIMITS, _, _ = RESOURCE_LIMITS


INVENTORY_TOO_SMALL = "inventory_too_small"  # code of a rejection


def accelerators_in_stock(constraints: Constraints, accelerator: Codes) -> Column:
    """Accelerators of each row's type in the inventory; infinite without one."""
    stock = dict(constraints.stock)
    return np.array([float(stock.get(kind, np.inf)) for kind in accelerator.tolist()])


def meets_limits(limits: Sequence[ResourceLimit], constraints: Constraints, accelerators: Column, cost: Cost) -> Mask:
    """Mask of deployments within those of the given limits that the constraints set."""
    within: Mask = np.ones(len(cost), dtype=bool)
    for limit in limits:
        most = limit.requested(constraints)
        if most is not None:
            within &= is_at_most(limit.needed(accelerators, cost), most)
    return within


def within_limits(
    accelerator: Codes, accelerators: Column, cost: Cost, constraints: Constraints, rejections: Rejections
) -> Mask:
    """Rows that exceed no limit on accelerators, money or power; types that lose all rows are rejected with the
    shortfall.
    """
    keep: Mask = np.ones(len(accelerator), dtype=bool)
    if constraints.stock:
        stock = accelerators_in_stock(constraints, accelerator)
        keep = accelerators <= stock
        rejections.reject_with_shortfall(
            accelerator,
            keep,
            code=INVENTORY_TOO_SMALL,
            text="{name} needs {needed} accelerators; your inventory has {available}.",
            needed=accelerators,
            available=stock,
            unit="accelerators",
            count=accelerators,
            reached=FilterStage.LIMITS,
        )
    for limit in RESOURCE_LIMITS:
        available = limit.requested(constraints)
        if available is None and limit is MAX_ACCELERATORS_LIMIT:
            available = MAX_ACCELERATORS
        if available is None:
            continue
        needed = limit.needed(accelerators, cost)
        good = is_at_most(needed, float(available))
        rejections.reject_with_shortfall(
            accelerator[keep],
            good[keep],
            code=limit.code,
            text=limit.text,
            needed=needed[keep],
            available=np.full(int(keep.sum()), float(available)),
            unit=limit.unit,
            count=accelerators[keep],
            reached=FilterStage.LIMITS,
        )
        keep = keep & good
    return keep
