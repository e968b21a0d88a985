"""Conversations of strategies: an agent plays with a model that makes no errors, and every reply is kept with its prompt."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from costgym.agents.base import TEXT
from costgym.agents.btp.experience import Experience
from costgym.agents.models.base import ACT, ASSISTANT, Function, Message, Reply
from costgym.agents.models.local import template_messages
from costgym.agents.models.reading import Context
from costgym.agents.models.simulated import SimulatedRates
from costgym.agents.registry import find_agent, make_agent
from costgym.agents.toolplanner.simulated import SimulatedToolPlanner
from costgym.experiments.play.experience import past_uses
from costgym.experiments.play.text_episode import ToolEpisode
from costgym.experiments.train.sft.episodes import Conversation, Player, gold, passing_episodes
from costgym.simulators.scenario import Scenario

GOLD = "react"  # the agent whose prompts the gold episodes have


@dataclass(slots=True)
class _Talk:
    """A conversation under way."""

    messages: list[Message]
    functions: list[Function]
    begins: int  # messages before its first reply


class Teacher(SimulatedToolPlanner):
    """The simulated model with every error rate at zero. It gives up where a fact is missing, and says as little as it can: no
    thought beside a call unless one is asked for, and the facts alone as the answer, as gold episodes have it."""

    def __init__(self) -> None:
        super().__init__(replace(SimulatedRates.perfect(), thought=0.0, give_up=1.0, give_up_empty=1.0), heed=1.0)
        self._talks: list[_Talk] = []

    def complete(self, messages: Sequence[Message], functions: Sequence[Function], purpose: str = ACT) -> Reply:
        answer, prompt, offered = super().complete(messages, functions, purpose), [*messages], [*functions]
        for talk in self._talks:
            known = len(talk.messages)
            same = talk.functions == offered and prompt[:known] == talk.messages
            # since its last reply nothing but results and requests
            if same and not any(message.role == ASSISTANT for message in prompt[known:]):
                talk.messages = [*prompt, answer.message]
                return answer
        self._talks.append(_Talk([*prompt, answer.message], offered, len(prompt)))
        return answer

    def _answer(self, context: Context) -> str:
        return "; ".join(context.needs[need].fact for need in context.known)

    def conversations(self) -> list[Conversation]:
        """Return the conversations since this was last called, in which every reply is learnt once, under its own prompt."""
        talks, self._talks = self._talks, []
        conversations = []
        for talk in talks:
            *before, reply = talk.messages
            # the last reply is written apart: where it calls, no result would follow
            messages = [*template_messages(before), template_messages([reply])[0]]
            conversations.append(Conversation(messages, [function.document() for function in talk.functions], talk.begins))
        return conversations


def taught_episodes(
    scenario: Scenario, agents: Sequence[str], split: str, budget: dict[str, float] | None, documents: str, seed: int
) -> Iterator[Conversation]:
    """Generate what passing episodes of agents teach, an episode of each in turn; those of `react` are gold episodes.

    The other agents play with a `Teacher`; arguments as for `passing_episodes`. It ends with the first agent that does.
    """
    world = scenario, split, budget, documents, seed
    streams = [passing_episodes(gold if name == GOLD else _player(scenario, name), *world) for name in agents]
    for episodes in zip(*streams, strict=False):
        for conversations in episodes:
            yield from conversations


def _player(scenario: Scenario, name: str) -> Player:
    teacher = Teacher()
    experience = Experience.from_jsonl(past_uses(scenario)) if find_agent(name, TEXT).needs_experience else None
    agent = make_agent(name, TEXT, model=teacher, experience=experience)

    def play(episode: ToolEpisode, luck: Callable[[], float]) -> list[Conversation]:
        episode.play(agent)
        return teacher.conversations()

    return play
