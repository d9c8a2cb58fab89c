"""From a configuration file to the counts of a model; `read.py` is the way in."""
