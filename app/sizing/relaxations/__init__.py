"""Suggests which limits to relax when no option is feasible, and by how little.

Every search drops the limits on accelerators, money and power. The results are compared with these limits afterwards,
so one search answers for each of them, alone or combined with another change.
"""
