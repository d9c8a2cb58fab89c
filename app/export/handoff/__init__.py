"""Files that start a ranked option and measure it, from its stored answer alone."""
