"""Compiled: the outputs that a plan makes of the task's image, and their scores.

An output of a tool is a node: the chain of restorers behind it and, for a text, the route of a reader and text tools after it
(``chain * ROUTES + route``). Scores that are not known are noted as missing; `scorer.PlanScorer` looks them up, and the
kernel is called again.
"""

# mypy: disable-error-code="misc,untyped-decorator,no-any-return"

from __future__ import annotations

from itertools import permutations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...batch.rng import compiled, inlined
from ..backends.base import READERS, TEXT_TOOLS
from ..scoring.table import CHAINS, OUTPUTS
from ..tools import ALL_TOKEN_TOOLS, IMAGE_TOOLS, OUTPUT_OF_READER, READER_TOOLS, TOOLS
from ..tools import TEXT_TOOLS as TEXT_READING_TOOLS

ROUTE_LIST: tuple[tuple[str, ...], ...] = (
    (),
    *((reader, *rest) for reader in READERS for n in range(len(TEXT_TOOLS) + 1) for rest in permutations(TEXT_TOOLS, n)),
)
"""The routes from an image to a text; the first is empty."""
ROUTES, N_TOOLS, GIVEN = len(ROUTE_LIST), len(TOOLS), -1
KINDS_OF_OUTPUT = ("image", "caption", "label", "object")
WANTS = 3
"""Most outputs that a task wants."""

TEXT_TAKERS = sum(1 << number for number, tool in enumerate(TOOLS) if tool in TEXT_READING_TOOLS)
IMAGE_MAKERS = sum(1 << number for number, tool in enumerate(TOOLS) if tool in IMAGE_TOOLS)
_ONE = np.uint64(1)
_TEXTS = 1 << 31
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)

EMPTY, NO_TOKEN, NO_TOOL_YET, NO_DEPENDENCY, TWICE, NOT_BEFORE, UNKNOWN_TOOL, WRONG_KIND = range(1, 9)
"""The reasons why a sequence of tokens is not a plan of this world."""


def _numbers_of_tokens() -> NDArray[np.int8]:
    """The tool number of each token in the official list; `N_TOOLS` for the input, and one more for an unknown token."""
    numbers = [TOOLS.index(tool) if tool in TOOLS else N_TOOLS + 1 for tool in ALL_TOKEN_TOOLS]
    return np.array([*numbers, N_TOOLS], np.int8)


TOKEN_NUMBERS = _numbers_of_tokens()
_LISTED = len(ALL_TOKEN_TOOLS)


def next_nodes() -> NDArray[np.int16]:
    """The node that each tool makes of each node; -1 where it cannot read it.  # (chains * ROUTES, 10)"""
    chains, routes = {chain: k for k, chain in enumerate(CHAINS)}, {route: k for k, route in enumerate(ROUTE_LIST)}
    after = np.full((len(CHAINS) * ROUTES, N_TOOLS), -1, np.int16)
    for number, tool in enumerate(TOOLS):
        for chain, c in chains.items():
            if tool in IMAGE_TOOLS:
                after[c * ROUTES, number] = chains.get((*chain, tool), -1) * ROUTES if tool not in chain else -1
            elif tool in READER_TOOLS:
                after[c * ROUTES, number] = c * ROUTES + routes[(tool,)]
            else:
                for route, r in routes.items():
                    if route and (*route, tool) in routes:
                        after[c * ROUTES + r, number] = c * ROUTES + routes[(*route, tool)]
    return after


class PlanTables(NamedTuple):
    """Tables for scoring plans: arrays over tasks (T, all of them), levels (4), tools (10, as in `TOOLS`) and samples (S).

    Attributes:
        price, seconds: (4, 10) price in USD, and seconds, of a tool at a level.
        after: (nodes, 10) from `next_nodes`.
        route_kind: (ROUTES,) kind of output that a route reads, as in `KINDS_OF_OUTPUT`.
        route_tools: (ROUTES, 4) its reader and text tools, numbered as the outcome table does; -1 where it has ended.
        straight: (7,) the route by which the table scores each output straight.
        task_id, combination, want_count: (T,).
        any_text: (T,) whether any text answers the task.
        want_kind, want_output: (T, 3) as in `KINDS_OF_OUTPUT` and `OUTPUTS`.
        from_table: Scores come from an outcome table: the next four are its arrays; else they are empty.
        scores, reader, tool, wanted: (7, 15, S, 65), (3, 15, S, 65), (3, texts), (6, S).
        samples, alpha, max_price: The evaluator's number of samples, weight of the score, and largest price.
        compensated: Prices are summed as Python does from 3.12 on.
    """

    price: NDArray[np.float64]
    seconds: NDArray[np.float64]
    after: NDArray[np.int16]
    route_kind: NDArray[np.int8]
    route_tools: NDArray[np.int8]
    straight: NDArray[np.int8]
    task_id: NDArray[np.int64]
    combination: NDArray[np.int64]
    want_count: NDArray[np.int64]
    any_text: NDArray[np.bool_]
    want_kind: NDArray[np.int8]
    want_output: NDArray[np.int8]
    from_table: bool
    scores: NDArray[np.float32]
    reader: NDArray[np.uint32]
    tool: NDArray[np.int32]
    wanted: NDArray[np.uint32]
    samples: int
    alpha: float
    max_price: float
    compensated: bool


class ScoreCache(NamedTuple):
    """Scores looked up so far, in an open hash table, and the keys that a kernel missed.

    Attributes:
        keys: (2**bits,) int64, -1 where free.
        values: (2**bits,).
        missing: (2, M) the keys that a kernel missed, and the places by which `scorer.PlanScorer` looks them up.
        lacking: (1,) number of missing keys. On a GPU (N,), one for each thread, which notes its keys from ``WANTS * i`` on.
    """

    keys: NDArray[np.int64]
    values: NDArray[np.float64]
    missing: NDArray[np.int64]
    lacking: NDArray[np.int64]


@inlined
def _place(keys: Any, key: int) -> Any:
    """The place of a key in the table, or the free place for it."""
    mask = np.uint64(keys.size - 1)
    mixed = np.uint64(key) * _GOLDEN
    place = (mixed ^ (mixed >> np.uint64(29))) & mask
    while keys[place] != -1 and keys[place] != key:
        place = (place + _ONE) & mask
    return np.int64(place)


@compiled
def insert(store: Any, keys: Any, values: Any) -> None:
    """Put scores into a cache that has room for them."""
    for k in range(keys.size):
        place = _place(store.keys, keys[k])
        store.keys[place], store.values[place] = keys[k], values[k]


@inlined
def answer(tables: Any, row: int, want: int, order: Any, node: Any, i: int, count: int, sinks: int) -> Any:
    """The node that answers a wanted output: the last sink of its kind in the order written; -1 where there is none.

    Args:
        order: (n, 10) plan i's tools in the order written, the first `count` of them.
        node: (n, 10) the node that each tool made.
        sinks: Bits of the tools that nothing depends on.
    """
    kind = tables.want_kind[row, want]
    any_text = tables.any_text[row] and kind != 0
    for k in range(count - 1, -1, -1):
        tool = order[i, k]
        if (sinks >> tool) & 1:
            found = tables.route_kind[node[i, tool] % ROUTES]
            if (any_text and found != 0) or (not any_text and found == kind):
                return np.int64(node[i, tool])
    return -1


@compiled
def score(
    tables: Any, store: Any, row: int, sample: int, order: Any, node: Any, i: int, count: int, sinks: int, line: int
) -> tuple[float, int]:
    """Task score of a plan, and the number of scores that it lacks. The cache lists them, and the score is then not valid.

    Args:
        line: The place in `ScoreCache.lacking` that counts them; 0 where no other thread notes its own.
    """
    total, lacking = 0.0, 0
    wants = tables.want_count[row]
    for want in range(wants):
        made = answer(tables, row, want, order, node, i, count, sinks)
        if made < 0:
            continue
        output, combination = np.int64(tables.want_output[row, want]), tables.combination[row]
        chain, route = made // ROUTES, made % ROUTES
        if tables.from_table and route == tables.straight[output]:
            total += np.float64(tables.scores[output, combination, sample, chain])
            continue
        place = (((combination * tables.samples + sample) * 65 + chain) * ROUTES + route) * 8 + output
        key = place
        if tables.from_table:
            text = np.int64(tables.reader[tables.route_tools[route, 0], combination, sample, chain])
            for k in range(1, 4):
                if tables.route_tools[route, k] < 0 or text < 0:
                    break
                text = np.int64(tables.tool[tables.route_tools[route, k], text])
            # A missing text has no key, so it is looked up, and the table raises the error.
            key = text * _TEXTS + np.int64(tables.wanted[output - 1, sample]) if text >= 0 else -2
        found = _place(store.keys, key)
        if store.keys[found] == key:
            total += store.values[found]
        else:
            at = WANTS * line + store.lacking[line]
            store.missing[0, at], store.missing[1, at] = key, place
            store.lacking[line] += 1
            lacking += 1
    return total / wants, lacking


@inlined
def _number(token: int, first: int, listed: int) -> Any:
    """The number of an official token's tool or dependency, or -1 where the token is of another kind."""
    place = token - first
    return np.int64(TOKEN_NUMBERS[place]) if 0 <= place < listed else -1


@compiled
def read_plan(tables: Any, tokens: Any, begin: int, end: int, level: int, order: Any, node: Any, ends: Any) -> Any:
    """Read one plan in official tokens, up to the first token that is not above zero.

    Args:
        tokens: (L,) tokens of all plans; this plan's are ``begin .. end``.
        order, node, ends: (1, 10) outputs; `ends` holds the time at which each tool ends, seconds.

    Returns:
        (error, its place, number of tools, sinks as bits, price, seconds). The error is 0 or one of the reasons above.
    """
    used, consumed, count, current, deps, k = 0, 0, 0, -1, 0, begin
    price, rest, seconds, start = 0.0, 0.0, 0.0, 0.0
    source = np.int64(GIVEN)
    while k <= end:
        # the end of the tokens closes the last tool, as another tool would
        token = np.int64(tokens[k]) if k < end else np.int64(0)
        over = token <= 0
        tool = _number(token, 80002, _LISTED)
        if over or tool >= 0:
            if current >= 0:
                if not deps:
                    return NO_DEPENDENCY, k - begin, 0, 0, 0.0, 0.0
                node[0, current] = tables.after[0 if source < 0 else node[0, source], current]
                ends[0, current] = start + tables.seconds[level, current]
                seconds = max(seconds, ends[0, current])
            if over:
                break
            if tool >= N_TOOLS:
                return UNKNOWN_TOOL, k - begin, 0, 0, 0.0, 0.0
            if (used >> tool) & 1:
                return TWICE, k - begin, 0, 0, 0.0, 0.0
            used |= 1 << tool
            order[0, count] = tool
            count += 1
            current, deps, start, source = tool, 0, 0.0, np.int64(GIVEN)
            cost = tables.price[level, tool]
            if tables.compensated and count > 1:
                total = price + cost
                rest += (price - total) + cost if abs(price) >= abs(cost) else (cost - total) + price
                price = total
            else:
                price += cost
        else:
            dep = _number(token, 90002, _LISTED + 1)
            if dep >= 0:
                if current < 0:
                    return NO_TOOL_YET, k - begin, 0, 0, 0.0, 0.0
                takes_text = (TEXT_TAKERS >> current) & 1
                if dep == N_TOOLS:
                    if takes_text:
                        return WRONG_KIND, k - begin, 0, 0, 0.0, 0.0
                    source = np.int64(GIVEN)
                else:
                    if dep > N_TOOLS or dep == current or not (used >> dep) & 1:
                        return NOT_BEFORE, k - begin, 0, 0, 0.0, 0.0
                    if takes_text == (IMAGE_MAKERS >> dep) & 1:
                        return WRONG_KIND, k - begin, 0, 0, 0.0, 0.0
                    consumed |= 1 << dep
                    start = max(start, ends[0, dep])
                    source = dep
                deps += 1
            elif token != 80000 and token != 80001 and token != 90000 and token != 90001:
                return NO_TOKEN, k - begin, 0, 0, 0.0, 0.0
        k += 1
    if not count:
        return EMPTY, 0, 0, 0, 0.0, 0.0
    return 0, 0, count, used & ~consumed, price + rest if rest != 0.0 else price, seconds


@compiled
def score_all(
    tables: Any, store: Any, tokens: Any, bounds: Any, rows: Any, samples: Any, levels: Any, scratch: Any, out: Any, todo: Any
) -> int:
    """Score plans; returns the number of plans that lack a score. Those stay marked in `todo`; the others are done.

    Args:
        bounds: (P + 1,) index in `tokens` at which each plan begins.
        rows, samples, levels: (P,) the task's row, the sample, the size level.
        scratch: Three arrays (1, 10): order, nodes, ends.
        out: Score, price, seconds, quality (4, P), error and its place (2, P).
        todo: (P,) bool.
    """
    order, node, ends = scratch
    figures, errors = out
    store.lacking[0] = 0
    left = 0
    for p in range(rows.size):
        if not todo[p]:
            continue
        if store.lacking[0] + WANTS > store.missing.shape[1]:
            left += 1
            continue
        level = levels[p]
        error, place, count, sinks, price, seconds = read_plan(
            tables, tokens, bounds[p], bounds[p + 1], level, order, node, ends
        )
        errors[0, p], errors[1, p] = error, place
        if error:
            figures[0, p] = figures[1, p] = figures[2, p] = figures[3, p] = np.nan
            todo[p] = False
            continue
        worth, lacking = score(tables, store, rows[p], samples[p], order, node, 0, count, sinks, 0)
        if lacking:
            left += 1
            continue
        figures[0, p], figures[1, p], figures[2, p] = worth, price, seconds
        figures[3, p] = tables.alpha * worth - (1.0 - tables.alpha) * price / tables.max_price
        todo[p] = False
    return left


def route_tables() -> tuple[NDArray[np.int8], NDArray[np.int8], NDArray[np.int8]]:
    """`PlanTables.route_kind`, `PlanTables.route_tools` and `PlanTables.straight`."""
    kind = np.zeros(ROUTES, np.int8)
    tools = np.full((ROUTES, 4), -1, np.int8)
    for number, route in enumerate(ROUTE_LIST):
        if route:
            kind[number] = KINDS_OF_OUTPUT.index(OUTPUT_OF_READER[route[0]])
            tools[number, : len(route)] = [READERS.index(route[0]), *(TEXT_TOOLS.index(tool) for tool in route[1:])]
    reader = {output: name for name, output in OUTPUT_OF_READER.items()}
    straight = [
        ROUTE_LIST.index(
            ()
            if output == "image"
            else (reader[output.removesuffix("_de")], *(["machine_translation"] * output.endswith("_de")))
        )
        for output in OUTPUTS
    ]
    return kind, tools, np.array(straight, np.int8)
