"""The kinds of queries of the one world."""

NO_TOOL, SEARCH, FACTS, VISION, BOTH = KINDS = ("none", "search", "facts", "vision", "both")
"""No tool, one look-up, one to six facts from APIs, an image, and an API about what an image shows."""
