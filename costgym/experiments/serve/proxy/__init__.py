"""Real tools under the world's luck: a proxy between MCP clients and servers, wrapped functions, and what their logs say."""
