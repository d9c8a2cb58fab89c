"""The command line for those who size: ask in process or a service, and read the answer as a table."""
