"""Make worlds from sources that a user names: files, folders, archives of packages, and running MCP servers."""
