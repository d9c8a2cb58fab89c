"""What another question would be answered: relaxed limits, other loads, other prices, other formats.

Each mechanism is a list of changes and a function that puts the outcome of a search into words. The search is an
argument: closed formulas, one accelerator type, or the whole recommendation.
"""
