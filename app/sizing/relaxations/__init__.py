"""Where nothing is feasible: what would have to give, and by how little.

Every search leaves out the limits of number, money and power: they are held against what it finds, so that one search
answers for all of them, alone and beside another change.
"""
