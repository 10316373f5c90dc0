"""ml-toolkit on Anyscale: the catalog, the routing, and the Ray/vLLM executor."""
