"""Builds files that deploy and benchmark a ranked option, from its stored answer only."""
