"""Serve environments: many sessions in one process, over OpenEnv's HTTP and WebSocket messages and over MCP."""
