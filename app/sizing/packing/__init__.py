"""Packs several models onto one fleet of cards.

A model with a share of a card's time runs that much slower, so it is judged as a busier load with tighter limits on a
card of its own (`shares.slow_down_workload`); its engine takes a share of the memory. `shares` finds the shares in
which each model meets its limits, `cards` places shares on cards, `apart` prices each model on its own machines, and
`together` builds the answer. A model meets its limits in its share however busy the other models are.
"""
