"""A small folder in ToolDEER's format, written for tests."""

import json
from pathlib import Path
from typing import Any

NOUNS = ("star", "price", "flight", "poem", "recipe", "map", "bond", "song", "river", "visa", "moon", "shoe")


def tooldeer_folder(root: Path) -> Path:
    """Write twelve tools with three queries each; valid.json asks one of the first tool's, test.json's candidates are the last
    two tools, of which it asks one query."""
    root.mkdir(parents=True, exist_ok=True)
    tools = [
        {
            "api_name": f"{noun}_finder",
            "description_for_human": f"Finds a {noun}.",
            "api_function": f"{noun}_finder(name: str, most: int = 5)",
            "example": [
                {"query": f"Find the {noun} number {n}.", "call": f"{noun}_finder(name='{noun} {n}')"} for n in range(3)
            ],
        }
        for noun in NOUNS
    ]
    valid = [conversation("Find the star number 0.", tools[:5], "star_finder(name='star 0')"), conversation("Hello?", (), "")]
    test = [conversation("Find the shoe number 1.", tools[-2:], "shoe_finder(name='shoe 1')")]
    for name, records in (("tool", tools), ("valid", valid), ("test", test)):
        (root / f"{name}.json").write_text(json.dumps(records), encoding="utf-8")
    return root


def conversation(query: str, candidates: Any, call: str) -> dict[str, Any]:
    pool = "\n".join(
        repr({"api_name": t["api_name"], "description": t["description_for_human"], "api_function": t["api_function"]})
        for t in candidates
    )
    search = f"#SearchAPI# and the introduction and usage of each API is as follows: \n{pool} #CallAPI# {call} #APIResponse#"
    turns = [("human", query), ("gpt", search if candidates else "#Begin# I answer. #End#")]
    return {"conversations": [{"from": who, "value": value} for who, value in turns]}
