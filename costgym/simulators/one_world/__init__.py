"""One world for all five papers: queries that need no tool, APIs, vision, or both, over APIs and OpenCATP's tools together."""
