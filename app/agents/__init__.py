"""API calls as tools of the Model Context Protocol (MCP), over HTTP and on standard input."""
