"""TPL, the tool planning language: plans as sequences of tokens, and the tokens that may follow.

A plan reads ``SOP, tool, SOD, dependency ..., EOD, tool, SOD, dependency ..., EOD, ..., EOP`` in the official token numbers
(`simulators.opencatp.tools`). :class:`TplState` builds a plan token by token. It allows the tokens after which a valid plan can
still be finished within the tokens left, so no choice leads to a dead end and the mask is never empty.

The masks are those of the paper with three differences. They look ahead: a tool that reads text is allowed only once there is a
text, an output that is still required is not consumed if it could not be replaced, and the end is always within reach. A
dependency is named once. Only the ten tools that occur in the tasks are allowed.

Source: CATP-LLM, section 4.2 (TPL) and its adaptive masking.
"""

from collections.abc import Iterable
from copy import copy
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from costgym.simulators.errors import ConfigError, InvalidPlan, check_known
from costgym.simulators.opencatp.tasks import OpenCATPTask
from costgym.simulators.opencatp.tools import ALIASES, DEPENDENCY_TOKEN, EOD, EOP, SIGNATURES, SOD, SOP, TEXT, TOOL_TOKEN, TOOLS
from costgym.simulators.plan import TASK_INPUT, Plan

_TOOL_OF_TOKEN = {token: tool for tool, token in TOOL_TOKEN.items()}
_DEPENDENCY_OF_TOKEN = {token: name for name, token in DEPENDENCY_TOKEN.items()}

# The choices, numbered without gaps. SOD is none: it always follows a tool.
END, END_DEPENDENCIES, FIRST_TOOL, INPUT, FIRST_DEPENDENCY = 0, 1, 2, 2 + len(TOOLS), 3 + len(TOOLS)
_SOURCES = (TASK_INPUT, *TOOLS)
ACTION_NAMES = ("EOP", "EOD", *TOOLS, *(f"after {source}" for source in _SOURCES))
ACTION_TOKENS = (EOP, EOD, *(TOOL_TOKEN[tool] for tool in TOOLS), *(DEPENDENCY_TOKEN[source] for source in _SOURCES))
N_ACTIONS = len(ACTION_TOKENS)

KINDS = ("image", "text", "image+text", "text+text", "image+text+text")
MAX_TOKENS = 41  # the start and the 40 that the official planner may generate
MIN_TOKENS = 14  # enough for the smallest plan of every kind

_N = len(TOOLS)
_INPUT_BIT = 1 << _N
_IMAGE_MAKERS = sum(1 << i for i, tool in enumerate(TOOLS) if SIGNATURES[tool].gives != TEXT)
_TEXT_MAKERS = sum(1 << i for i, tool in enumerate(TOOLS) if SIGNATURES[tool].gives == TEXT)
_TEXT_TAKERS = sum(1 << i for i, tool in enumerate(TOOLS) if SIGNATURES[tool].takes == TEXT)
_READERS = _TEXT_MAKERS & ~_TEXT_TAKERS
_ALL = (1 << _N) - 1
_TOKENS_PER_TOOL = 4  # tool, SOD, one dependency, EOD


def encode(plan: Plan) -> list[int]:
    """Encode a plan as official tokens; raises InvalidPlan where a tool or a dependency has no token."""
    tokens = [SOP]
    for position, step in enumerate(plan.steps):
        for name, numbers in ((step.tool, TOOL_TOKEN), *((dep, DEPENDENCY_TOKEN) for dep in step.deps)):
            if name not in numbers:
                raise InvalidPlan(f"{name!r} has no token; tools with one: {', '.join(TOOL_TOKEN)}", f"tool {position + 1}")
        tokens += [TOOL_TOKEN[step.tool], SOD, *(DEPENDENCY_TOKEN[dep] for dep in step.deps), EOD]
    return [*tokens, EOP]


def token_items(tokens: Iterable[int]) -> list[Any]:
    """Tokens as a flat list of tools and dependency lists, not checked as a plan; raises InvalidPlan for what is no token."""
    items: list[Any] = []
    for position, token in enumerate(tokens):
        where = f"token {position + 1}"
        if token in (SOP, EOP, SOD, EOD):
            continue
        if token in _TOOL_OF_TOKEN:
            items.append(_TOOL_OF_TOKEN[token])
        elif token not in _DEPENDENCY_OF_TOKEN:
            raise InvalidPlan(f"{token} is no token", where)
        elif not items:
            raise InvalidPlan(f"dependency {_DEPENDENCY_OF_TOKEN[token]} before any tool", where)
        elif isinstance(items[-1], list):
            items[-1].append(_DEPENDENCY_OF_TOKEN[token])
        else:
            items.append([_DEPENDENCY_OF_TOKEN[token]])
    return items


def decode(tokens: Iterable[int]) -> Plan:
    """Decode a sequence of official tokens.

    Raises:
        InvalidPlan: the tokens are not a valid plan; see :func:`token_items` and :class:`Plan`.
    """
    return Plan.from_list(token_items(tokens), aliases=ALIASES)


def kind_of(task: OpenCATPTask) -> str:
    """The kinds of a task's outputs, as one of ``KINDS``."""
    return "+".join(["image"] * task.wanted_images + ["text"] * task.wanted_texts)


class TplState:
    """A plan being written: its official `tokens` so far, and the `legal` choices that may follow, as bits.

    `kind` are the required outputs, one of ``KINDS``. A single output is made by the *last* tool; several need enough sinks of
    each kind. `max_tokens` is the greatest length of the whole sequence, SOP, SOD and EOP included.

    >>> state = TplState("text")
    >>> for action in (FIRST_TOOL + TOOLS.index("image_captioning"), INPUT, END_DEPENDENCIES, END):
    ...     tokens = state.push(action)
    >>> state.plan().to_list()
    ['image_captioning', ['input_of_query']]
    """

    __slots__ = ("_consumed", "_current", "_deps", "_kind", "_last", "_max", "_used", "done", "legal", "tokens")

    def __init__(self, kind: str = "image", max_tokens: int = MAX_TOKENS) -> None:
        check_known("kind of task", kind, KINDS)
        if max_tokens < MIN_TOKENS:
            raise ConfigError(
                "max_tokens", f"expected at least {MIN_TOKENS}, so that a plan of every kind fits, got {max_tokens}"
            )
        self._kind, self._max = KINDS.index(kind), max_tokens
        self.reset()

    def reset(self) -> None:
        """Return to the start of the plan."""
        self._used = self._consumed = self._deps = 0
        self._current = self._last = -1  # the tool whose dependencies are being named; the last one begun
        self.tokens: list[int] = [SOP]
        self.done = False
        self.legal = _legal(self._kind, 0, 0, -1, 0, -1, self._max - 1)

    def copy(self) -> "TplState":
        """Make an independent copy."""
        twin = copy(self)
        twin.tokens = list(self.tokens)
        return twin

    def push(self, action: int) -> int:
        """Append a choice, and the SOD that follows a tool; return the number of tokens appended."""
        if not 0 <= action < N_ACTIONS or not self.legal >> action & 1:
            name = ACTION_NAMES[action] if 0 <= action < N_ACTIONS else action
            allowed = ", ".join(ACTION_NAMES[other] for other in self.actions()) or "nothing, the plan is finished"
            raise InvalidPlan(f"{name} may not follow; allowed: {allowed}", f"token {len(self.tokens) + 1}")
        before = len(self.tokens)
        self.tokens.append(ACTION_TOKENS[action])
        if action == END:
            self.done, self.legal = True, 0
            return 1
        if action == END_DEPENDENCIES:
            self._current, self._deps = -1, 0
        elif action < INPUT:
            self._current = self._last = action - FIRST_TOOL
            self._used |= 1 << self._current
            self.tokens.append(SOD)
        elif action == INPUT:
            self._deps |= _INPUT_BIT
        else:
            bit = 1 << (action - FIRST_DEPENDENCY)
            self._deps |= bit
            self._consumed |= bit
        left = self._max - len(self.tokens)
        self.legal = _legal(self._kind, self._used, self._consumed, self._current, self._deps, self._last, left)
        return len(self.tokens) - before

    def actions(self) -> list[int]:
        """The choices that may follow, as numbers."""
        return list(_numbers(self.legal))

    def mask(self) -> npt.NDArray[np.bool_]:
        """The choices that may follow, as a new array.  # (N_ACTIONS,)"""
        return _mask(self.legal).copy()

    @property
    def choosing_dependencies(self) -> bool:
        """Return whether the next choice names a dependency of the last tool, not the next tool."""
        return self._current >= 0

    def plan(self) -> Plan:
        """The plan, or the complete part of an unfinished one."""
        tokens = self.tokens
        if self._current >= 0:
            tokens = tokens[: len(tokens) - 1 - tokens[::-1].index(TOOL_TOKEN[TOOLS[self._current]])]
        return decode(tokens)


@lru_cache(maxsize=1 << 16)
def _legal(kind: int, used: int, consumed: int, current: int, deps: int, last: int, left: int) -> int:
    """The choices that may follow, as bits.

    Tools as bits: `used` in the plan, `consumed` by others; `current`, whose dependencies are being named, or -1; `deps` so
    far, the task's input the highest; `last` one begun, or -1.
    """
    legal = 0
    if current >= 0:
        takes_text = _TEXT_TAKERS >> current & 1
        if deps:
            legal |= 1 << END_DEPENDENCIES
        elif not takes_text:
            # Naming the input takes nothing away, so whatever could be finished still can.
            legal |= 1 << INPUT
        # two tokens: this dependency and the end of the list
        if deps and not takes_text and not deps & _INPUT_BIT and _fits(kind, used, consumed, last, left - 2):
            legal |= 1 << INPUT
        candidates = used & (_TEXT_MAKERS if takes_text else _IMAGE_MAKERS) & ~deps & ~(1 << current)
        for tool in _numbers(candidates):
            if _fits(kind, used, consumed | 1 << tool, last, left - 2):
                legal |= 1 << (FIRST_DEPENDENCY + tool)
        return legal
    if used and _missing(kind, used, consumed, last) == 0:
        legal |= 1 << END
    offered = (_IMAGE_MAKERS if KINDS[kind] == "image" else _ALL) & ~used
    for tool in _numbers(offered):
        after = consumed
        if _TEXT_TAKERS >> tool & 1:
            texts = used & _TEXT_MAKERS
            if not texts:
                continue
            if not texts & consumed:
                # lowest set bit: which text is read makes no difference to what can still be finished
                after |= texts & -texts  # whichever of the unused texts it reads, one is used up
        if _fits(kind, used | 1 << tool, after, tool, left - _TOKENS_PER_TOOL):
            legal |= 1 << (FIRST_TOOL + tool)
    return legal


def _fits(kind: int, used: int, consumed: int, last: int, left: int) -> bool:
    """Return whether a plan whose dependencies are all named can be finished with `left` tokens."""
    missing = _missing(kind, used, consumed, last)
    return missing is not None and _TOKENS_PER_TOOL * missing + 1 <= left


@lru_cache(maxsize=1 << 16)
def _missing(kind: int, used: int, consumed: int, last: int) -> int | None:
    """The smallest number of further tools that a plan needs before it may end; None if no number is enough."""
    wants = KINDS[kind]
    unused = _ALL & ~used
    if wants == "image":
        return 0 if used else 1
    if wants == "text":
        if last >= 0 and _TEXT_MAKERS >> last & 1:
            return 0
        return 1 if unused & _READERS or (unused & _TEXT_TAKERS and used & _TEXT_MAKERS) else None
    sinks = used & ~consumed
    images = max(0, wants.count("image") - (sinks & _IMAGE_MAKERS).bit_count())
    # a plan that needs more tools of a kind than are left cannot be finished, however long it may be
    if images > (unused & _IMAGE_MAKERS).bit_count():
        return None
    texts = max(0, wants.count("text") - (sinks & _TEXT_MAKERS).bit_count())
    # A reader of the input is one more text at once. A text tool is one only where it reads a text that is used already;
    # the first of several may have to use one up.
    by_readers = min(texts, (unused & _READERS).bit_count())
    by_text_tools = texts - by_readers
    if by_text_tools:
        by_text_tools += not used & consumed & _TEXT_MAKERS
        if by_text_tools > (unused & _TEXT_TAKERS).bit_count():
            return None
    return images + by_readers + by_text_tools


@lru_cache(maxsize=1 << 14)
def _numbers(bits: int) -> list[int]:
    return [number for number in range(bits.bit_length()) if bits >> number & 1]


@lru_cache(maxsize=1 << 14)
def _mask(bits: int) -> npt.NDArray[np.bool_]:
    return np.array([bool(bits >> action & 1) for action in range(N_ACTIONS)], dtype=np.bool_)
