"""What agents ask: the API's own calls as tools of the Model Context Protocol, over HTTP and on standard input."""
