"""Answer trees of StableToolBench and ToolBench, which have statuses and no times."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from costgym.experiments.play.call_logs.statuses import bare_error, failure_in_words
from costgym.simulators.errors import DataError
from costgym.simulators.files import read_json
from costgym.simulators.status import Status

TREE_CODES = {
    0: Status.OK, 1: Status.UNKNOWN_TOOL, 2: Status.INVALID_ARGUMENTS, 5: Status.TIMEOUT, 6: Status.NOT_FOUND,
    7: Status.UNAUTHORIZED, 8: Status.UNAUTHORIZED, 9: Status.RATE_LIMITED, 10: Status.RATE_LIMITED,
    11: Status.SERVER_ERROR, 12: Status.SERVER_ERROR,
}  # fmt: skip
"""What an answer tree's `observation_code` means; 3 and 4 end the conversation. Source: ToolBench, answer generation."""


def read_trees(folder: Path) -> Iterator[tuple[str, int, str, Status]]:
    """The calls of the answer trees below a folder, as episode, number, tool and status; a tree is an episode, and its calls'
    order stands for their times."""
    for path in sorted(folder.rglob("*.json")):
        try:
            document = read_json(path)
        except DataError as error:
            if "answer" in path.parts:
                raise DataError(path, f"cannot be read ({error})") from error
            continue
        if isinstance(document, dict) and isinstance(document.get("tree"), dict):
            episode = str(path.relative_to(folder))
            for number, (tool, status) in enumerate(_nodes(document["tree"].get("tree"))):
                yield episode, number, tool, status


def _nodes(root: Any) -> Iterator[tuple[str, Status]]:
    """A tree's calls, in the order of the search: a node that names the tool, then one with its input and the observation."""
    stack = [(root, "")]
    while stack:
        node, tool = stack.pop()
        if not isinstance(node, dict):
            continue
        if node.get("node_type") == "Action":
            tool = str(node.get("description", ""))
        code = node.get("observation_code")
        status = TREE_CODES.get(code) if isinstance(code, int) and node.get("node_type") == "Action Input" else None
        if status is not None and tool and tool != "Finish":
            yield tool, _observed(status, node.get("observation"))
        children = node.get("children")
        if isinstance(children, list):
            stack += [(child, tool) for child in reversed(children)]


def _observed(status: Status, observation: Any) -> Status:
    """The status of a call, from its content; the envelope may report an error as success and the reverse."""
    if status not in (Status.OK, Status.SERVER_ERROR):
        return status
    try:
        envelope = json.loads(observation) if isinstance(observation, str) else observation
    except (ValueError, RecursionError):
        return status  # cut off at 1,024 characters: content all the same
    if not isinstance(envelope, dict):
        return status
    error, response = str(envelope.get("error") or ""), envelope.get("response")
    if error and not error.startswith("Message error"):
        return failure_in_words(error)
    if response in ("", None, [], {}):
        return Status.EMPTY
    says = bare_error(response)
    return Status.OK if says is None else failure_in_words(says)
