"""Several models on one fleet.

A model that has a share of a card's time does everything that much slower, so it is judged as a busier load with
tighter limits on a card of its own (`shares.slowed`); its engine takes a share of the memory. `shares` finds what each
model can live in, `cards` fills cards with such shares, `apart` prices each model by itself, `together` puts the
answer together. What a model is promised in its share holds however busy the others are.
"""
