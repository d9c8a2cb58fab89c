"""The `headroom` commands: they ask a service, or the API in this process, and print the answer as a table."""
