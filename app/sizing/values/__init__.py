"""Parts of an answer as plain values, without dependencies on the code that fills them in."""
