"""What is on sale, what it comes to, where it stands, what wins, and what is turned down and why.

Rent is the offer's price for whole machines. Owning costs purchase over the horizon, upkeep, floor space, and power
times PUE times tariff per hour; the purchase is the system's list price, or its accelerators' and a stated host's.
Tokens are priced at the average load. One best plan stands for each accelerator type, by cost, end-to-end latency,
throughput per accelerator, energy per unit, or their geometric mean; ties go by the other measures, then by a stable
key. What is turned down carries its shortfall: what was needed, what there was, in which unit.
"""
