"""Cost, availability, placement, ranking and rejection of candidate machines.

Rent is the offer's price for whole machines. Owning costs, per hour, the purchase spread over the horizon, maintenance,
floor space, and power times PUE times the electricity tariff. The purchase price is the list price of the system, or
the price of its accelerators plus an assumed host. Tokens are priced at the average load. Each accelerator type is
represented by its best plan by cost, end-to-end latency, throughput per accelerator, energy or carbon per unit, or
the geometric mean of cost, latency and energy. Ties are broken by the other measures, then by a stable key. A
rejection carries its shortfall: the needed value, the available value and the unit.
"""
