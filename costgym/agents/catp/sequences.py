"""Episodes as the policy sees them: which numbers stand where, without torch.

An episode of T choices is read as return, state, choice, return, state, choice and so on. A state is the plan written so far;
within a window only what is new since the state before it is written out again, the first state of the window in full, so
that a sequence grows with the plan and not with its square. A choice is predicted at the last token of its state.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from costgym.agents.catp.settings import CatpSettings
from costgym.envs.tpl import END, END_DEPENDENCIES, FIRST_TOOL, INPUT, N_ACTIONS, TplState
from costgym.simulators.opencatp.profile import Profile
from costgym.simulators.opencatp.tasks import OpenCATPTask
from costgym.simulators.opencatp.tools import IMAGE_SIZES, LEVELS, TOOLS
from costgym.simulators.quality import MAX_PRICE_USD, returns_to_go

RETURN, STATE, CHOICE, NOTHING = 0, 1, 2, 3
SOP_TOKEN, SOD_TOKEN, FIRST_CHOICE_TOKEN = 0, 1, 2
N_TOKENS = FIRST_CHOICE_TOKEN + N_ACTIONS
MAX_STEPS = 64

DEGRADATION_WORDS = ("low-resolutioned", "noisy", "blurry", "grayscale")
OUTPUT_WORDS = ("image", "caption", "caption in German", "label", "label in German", "object", "object in German")
WORDS = ("", "one output", "several outputs", *DEGRADATION_WORDS, *OUTPUT_WORDS, *(f"size {level}" for level in range(LEVELS)))
"""Words of the small models' prompt; the first stands for no word."""
MAX_WORDS = 10

TOOL_CHOICES = (END, *range(FIRST_TOOL, INPUT))
DEPENDENCY_CHOICES = (END_DEPENDENCIES, *range(INPUT, N_ACTIONS))
TOOL_BITS: int = sum(1 << choice for choice in TOOL_CHOICES)
DEPENDENCY_BITS: int = sum(1 << choice for choice in DEPENDENCY_CHOICES)
_BIT = np.array([1 << choice for choice in range(N_ACTIONS)], dtype=np.int64)


def importance(level: int) -> NDArray[np.float64]:
    """Weights (levels,) of the prices at each size level for an input of one; CATP-LLM, Eq. 2: cos(pi (i - l) / 2k)."""
    return np.array([math.cos(math.pi * (i - level) / (2 * LEVELS)) for i in range(LEVELS)])


def price_features(profile: Profile, max_price: float = MAX_PRICE_USD) -> NDArray[np.float32]:
    """Return the prices of the tools by size level, on a scale on which both the cheapest and the dearest can be told apart.
    # (10, 4)"""
    prices = np.array([[profile.price(tool, level) for level in range(LEVELS)] for tool in TOOLS])
    return np.log1p(100.0 * prices / max_price).astype(np.float32)


def words_of(task: OpenCATPTask, level: int, size_words: bool = False) -> tuple[int, ...]:
    """Return a task as words of the small models' vocabulary.  # (MAX_WORDS,), padded with 0"""
    words = ["one output" if len(task.wants) == 1 else "several outputs"]
    words += [word for word in DEGRADATION_WORDS if word in task.degradations]
    wanted = [want.kind + (" in German" if want.german else "") for want in task.wants]
    words += [word for word in OUTPUT_WORDS if word in wanted]
    if size_words:
        words.append(f"size {level}")
    numbers = [WORDS.index(word) for word in words]
    return (*numbers, *[0] * (MAX_WORDS - len(numbers)))


INSTRUCTIONS = (
    "Instructions: you are the policy that plans tools. Choose tools for the task and the order in which they run, one after "
    "the other or side by side. A good plan solves the task well and costs little.\nTools, as vectors:",
    "\nWhat a run of each tool costs, which depends on the size of its input, as vectors:",
)
"""The prompt of published models, before the vectors of the tools and between them and those of their costs."""


def text_of(task: OpenCATPTask, level: int, size_words: bool, prompt: str) -> str:
    """Return a task as text, for published models.

    Source: CATP-LLM, Appendix A, for what it says: the task, and the attributes of its input; the wording is ours. Of an image
    the size of its level stands there.
    """
    if prompt == "short":
        size = f" Its size level is {level} of 0 to {LEVELS - 1}." if size_words else ""
        return f"Write a plan of tools that solves the task well at a low price. {task.description}{size} Plan:"
    size = f", image_size: {IMAGE_SIZES[level]}" if size_words else ""
    attributes = f"has_image: true{size}, has_text: false, text_length: none"
    return f"\nTask: {task.description}\nInput: {attributes}\nPlan:"


@dataclass(slots=True)
class Record:
    """An episode, finished or being written."""

    # task, level: the task, and the size level of its input
    task: OpenCATPTask
    level: int
    tokens: list[int]  # the plan's tokens as `TplState` writes them, numbered for the policy
    lengths: list[int]  # number of tokens of each state
    choices: list[int]  # the choice made at each state
    allowed: list[int]  # the choices that were legal there, as bits
    naming: list[bool]  # whether a dependency was chosen there (rather than a tool)
    returns: list[float]  # the return still to come that is told at each state
    regret: float = 0.0  # distance of the plan's return below the best one known for its task and level


def begin(task: OpenCATPTask, level: int, state: TplState, wanted_return: float) -> Record:
    """Return the record of an episode before its first choice."""
    return Record(task, level, [SOP_TOKEN], [1], [], [state.legal], [False], [wanted_return])


def extend(record: Record, choice: int, state: TplState, wanted_return: float) -> None:
    """Add a choice and the state it led to (`state` already includes it); the end of a plan has no further state."""
    record.choices.append(choice)
    if choice == END:
        return
    record.tokens.append(FIRST_CHOICE_TOKEN + choice)
    if FIRST_TOOL <= choice < INPUT:
        record.tokens.append(SOD_TOKEN)
    record.lengths.append(len(record.tokens))
    record.allowed.append(state.legal)
    record.naming.append(state.choosing_dependencies)
    record.returns.append(wanted_return)


def rewards_of(
    choices: Sequence[int], prices: Sequence[float], score: float, alpha: float, feedback: bool, cumulative: bool = False
) -> list[float]:
    """The reward of each choice of a finished plan, EOP the last.

    With `feedback` a tool's price (USD, by its number in `TOOLS`) is charged when it is written, else all of it with EOP; with
    `cumulative` every token is charged the price of all tools so far (CATP-LLM, Eq. 4); without, they add up to the Quality of
    Plan.
    """
    rewards = [0.0] * len(choices)
    so_far = 0.0
    for step, choice in enumerate(choices):
        charge = charge_of(choice, prices, alpha)
        so_far += charge
        rewards[step if feedback else -1] -= so_far if feedback and cumulative else charge
    rewards[-1] += alpha * score
    return rewards


def charge_of(choice: int, prices: Sequence[float], alpha: float) -> float:
    """Return the charge that a choice adds to a plan: a tool's weighted price, and 0 for other choices."""
    return (1.0 - alpha) * prices[choice - FIRST_TOOL] / MAX_PRICE_USD if FIRST_TOOL <= choice < INPUT else 0.0


def returns_of(rewards: Sequence[float], baseline: float, gamma: float = 1.0) -> list[float]:
    """Return still to come at each state, less a baseline that grows as the discount shrinks what is left.

    So the return at a state follows from the one before it and the reward between them, whatever the baseline is:
    ``(return - reward) / gamma``.
    """
    return [value - baseline / gamma**step for step, value in enumerate(returns_to_go(rewards, gamma))]


class Batch(NamedTuple):
    """Windows of episodes as arrays."""

    words: NDArray[np.int64]  # the prompt of small models, (B, MAX_WORDS)
    texts: tuple[str, ...]  # the prompt of published ones
    level: NDArray[np.int64]  # size levels, (B,)
    kind: NDArray[np.int64]  # kind of each position: RETURN, STATE, CHOICE or NOTHING, (B, L)
    number: NDArray[np.int64]  # token or choice there, (B, L)
    value: NDArray[np.float32]  # return there, (B, L)
    step: NDArray[np.int64]  # step that each position belongs to, (B, L)
    choice_position: NDArray[np.int64]  # position at which each choice is predicted, (B, W)
    choice: NDArray[np.int64]  # the choice made; 0 where there is nothing to learn, (B, W)
    allowed: NDArray[np.bool_]  # choices that may be made, (B, W, N_ACTIONS)
    counts: NDArray[np.bool_]  # whether there is a choice at all, (B, W)


def allowed_bits(record: Record, step: int, mask: bool) -> int:
    """Return the choices considered at a step: the legal ones, or without masks all of the head that is asked."""
    if mask:
        return record.allowed[step]
    return DEPENDENCY_BITS if record.naming[step] else TOOL_BITS


def batch_of(records: Sequence[Record], windows: Sequence[tuple[int, int]], settings: CatpSettings) -> Batch:
    """Windows (first and last step) of episodes side by side; without `mask` all choices count as allowed."""
    rows = [_row(record, first, last, settings.conditioned) for record, (first, last) in zip(records, windows, strict=True)]
    count, length = len(rows), max(len(positions) for positions, _ in rows)
    steps = max(last - first + 1 for first, last in windows)
    kind = np.full((count, length), NOTHING, np.int64)
    number, step = np.zeros((count, length), np.int64), np.zeros((count, length), np.int64)
    value = np.zeros((count, length), np.float32)
    position, choice = np.zeros((count, steps), np.int64), np.zeros((count, steps), np.int64)
    bits = np.full((count, steps), 1, np.int64)
    counts = np.zeros((count, steps), np.bool_)
    for i, (record, (first, last), (positions, choice_positions)) in enumerate(zip(records, windows, rows, strict=True)):
        size, choices = len(positions), last - first + 1
        kind[i, :size], number[i, :size], value[i, :size], step[i, :size] = zip(*positions, strict=True)
        position[i, :choices] = choice_positions
        bits[i, :choices] = [allowed_bits(record, t, settings.mask) for t in range(first, last + 1)]
        known = record.choices[first : last + 1]
        choice[i, : len(known)] = known
        counts[i, :choices] = True
    return Batch(
        np.array([words_of(record.task, record.level, settings.size_words) for record in records], dtype=np.int64),
        tuple(text_of(record.task, record.level, settings.size_words, settings.prompt) for record in records),
        np.array([record.level for record in records], dtype=np.int64),
        kind, number, value, step, position, choice, (bits[:, :, None] & _BIT) != 0, counts,
    )  # fmt: skip


def _row(record: Record, first: int, last: int, conditioned: bool) -> tuple[list[tuple[int, int, float, int]], list[int]]:
    """Kind, number, value and step of each position of a window, and the positions at which its choices are predicted."""
    positions: list[tuple[int, int, float, int]] = []
    choice_positions: list[int] = []
    for step in range(first, last + 1):
        at = min(step, MAX_STEPS - 1)
        if conditioned:
            positions.append((RETURN, 0, record.returns[step], at))
        # the first state of a window in full, later ones only as far as they are new
        new = record.tokens[0 if step == first else record.lengths[step - 1] : record.lengths[step]]
        positions += [(STATE, token, 0.0, at) for token in new]
        choice_positions.append(len(positions) - 1)
        if step < last:
            positions.append((CHOICE, record.choices[step], 0.0, at))
    return positions, choice_positions
