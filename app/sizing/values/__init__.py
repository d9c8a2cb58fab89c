"""Parts of an answer as plain values, below everything that fills them in."""
