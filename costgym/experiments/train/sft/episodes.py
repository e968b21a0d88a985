"""Episodes to learn from: an agent's conversations about solved tasks, with the tokens that the assistant says marked."""

import itertools
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from costgym.experiments.play.text_episode import ToolEpisode, task_rows
from costgym.simulators.draws import stable_generator
from costgym.simulators.files import write_atomically
from costgym.simulators.scenario import Scenario


class Conversation(NamedTuple):
    """A conversation to learn from."""

    messages: list[dict[str, Any]]  # as a chat template takes them
    tools: list[dict[str, Any]]  # documents of the functions
    begins: int = 0  # messages before the first reply that is learnt; replies among them were given to other prompts


class TokenRow(NamedTuple):
    """An episode in tokens."""

    ids: list[int]  # token ids, prompt included
    learnt_at: list[int]  # positions in `ids` of the tokens that the assistant says, in order; none is the first


def solve(
    episode: Any,
    quotes: Mapping[str, float],
    luck: Callable[[], float],
    say: Callable[[str, dict[str, Any]], None],
    over: Callable[[], bool],
) -> bool:
    """Call tools and give the answer; return whether a result showed all that the answer states.

    For each of the episode's `needs`, tools that serve it are called in a random order that favours cheap ones (by `quotes`,
    and uniform numbers of `luck`) until one shows the fact; `needs`, and which facts are `known`, are read again after every
    call, which `say` makes by the function's name and arguments. An answer that no result showed would teach a model to invent.
    """
    for index, need in enumerate(episode.needs):
        for name in sorted(need.tools, key=lambda tool: quotes.get(tool, math.inf) * (0.3 + luck())):
            if name in quotes and not episode.known[index] and not over():
                say(name, dict(need.arguments))
    shown = all(episode.known)
    if not over():
        say("finish", {"answer": "; ".join(str(need.fact) for need in episode.needs)})
    return shown


Player = Callable[[ToolEpisode, Callable[[], float]], list[Conversation]]
"""Plays an episode with uniform numbers, and returns what may be learnt from it if it passes."""


def passing_episodes(
    play: Player,
    scenario: Scenario,
    split: str,
    budget: dict[str, float] | None,
    documents: str,
    seed: int,
    tasks: Sequence[int] | None = None,
) -> Iterator[list[Conversation]]:
    """Generate what passing episodes teach, in an order and under luck that follow from the seed, turn after turn through the
    tasks.

    Episodes that do not pass within the budget (None for the scenario's), or that teach nothing, are left out. They end only
    after a whole turn, of at least a hundred episodes, in which none passes. `documents` are `full` or `short`; `tasks` are
    their numbers, None for all of the split.
    """
    numbers = [row["task"] for row in task_rows(scenario, split)] if tasks is None else tasks
    in_vain = 0
    for turn in itertools.count():
        for index in stable_generator(seed, "sft", "order", turn).permutation(len(numbers)):
            number = numbers[int(index)]
            luck = stable_generator(seed, "sft", "luck", number, turn)
            world_seed = int(luck.integers(2**31))
            episode = ToolEpisode(number, world_seed, scenario, budget, split=split, documents=documents)
            played = play(episode, luck.random)
            if played and episode.passed:
                in_vain = 0
                yield played
            else:
                in_vain += 1
        if in_vain >= max(len(numbers), 100):
            return  # nor would another turn under other luck bring enough


def gold_episodes(*world: Any) -> Iterator[Conversation]:
    """Generate episodes that are solved as `solve` does, with the prompts of `react`; arguments as for `passing_episodes`."""
    return itertools.chain.from_iterable(passing_episodes(gold, *world))


def gold(episode: ToolEpisode, luck: Callable[[], float]) -> list[Conversation]:
    """Play an episode as `solve` does, a `Player`."""
    messages: list[dict[str, Any]] = [*episode.prompt()]

    def say(name: str, arguments: dict[str, Any]) -> None:
        call = {"type": "function", "function": {"name": name, "arguments": arguments}}
        messages.append({"role": "assistant", "content": "", "tool_calls": [call]})
        messages.append({"role": "tool", "name": name, "content": episode.call(name, arguments).text})

    shown = solve(episode.env.account(), episode.env.quotes(), luck, say, lambda: episode.over)
    if messages[-1].get("name") == "finish":
        messages.append({"role": "assistant", "content": "Done."})  # trainers stop at a reply without a call
    return [Conversation(messages, [function.document() for function in episode.functions])] if shown else []


def tokenize(tokenizer: Any, conversation: Conversation) -> TokenRow:
    """Write a conversation with a chat template, and find what the assistant says in it, from message `asked` on.

    A template must write the beginning of a conversation alike whatever follows it; what an assistant's message adds to the
    prompt before it is what is learnt.
    """
    messages, tools, replies = conversation

    def write(count: int, prompt: bool) -> str:
        shown = messages[:count]
        return str(tokenizer.apply_chat_template(shown, tools=tools or None, tokenize=False, add_generation_prompt=prompt))

    whole = write(len(messages), False)
    spans = []
    for index, message in enumerate(messages):
        if index >= replies and message["role"] == "assistant":
            before, after = write(index, True), write(index + 1, False)
            if whole.startswith(after) and after.startswith(before):
                spans.append((len(before), len(after.rstrip("\n"))))
    tokens = tokenizer(whole, add_special_tokens=False, return_offsets_mapping=True)
    learnt = [
        position
        for position, (start, _) in enumerate(tokens["offset_mapping"])
        if position and any(first <= start < last for first, last in spans)
    ]
    return TokenRow(list(tokens["input_ids"]), learnt)


def token_rows(path: Path, tokenizer: Any, episodes: Iterator[Conversation], count: int, longest: int) -> Sequence[TokenRow]:
    """Tokenize the first `count` conversations of at most `longest` tokens, fewer if most are too long; the file keeps
    them, and is read if it is there."""
    if path.is_file():
        return [TokenRow(*json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]
    rows: list[TokenRow] = []
    for seen, conversation in enumerate(episodes):
        row = tokenize(tokenizer, conversation)
        if row.learnt_at and len(row.ids) <= longest:
            rows.append(row)
        if len(rows) == count or seen >= 4 * count + 100:
            break
    write_atomically(path, "".join(f"{json.dumps(row)}\n" for row in rows))
    return rows
