"""The marketplace as text: an action is a JSON tool call, an observation is what the tool says."""

from __future__ import annotations

import json
from typing import Any

from ..simulators.marketplace.schema import check_arguments
from ..simulators.status import Status
from ..simulators.tools import Tool
from ..simulators.world import Call, Episode, Usage, WorldEvent
from .actions import MAX_CALLS, Action, ToolCall, count_tokens, read_action, spoken
from .spaces import UnicodeText
from .tool_world import ToolEnv

MAX_ACTION = 100_000  # characters
MAX_NAME = 80  # characters of an unknown function's name that are repeated
MAX_ESCAPE = 12  # characters that JSON makes of one


class MarketplaceChatEnv(ToolEnv[str, str]):
    """`costgym/MarketplaceChat-v0`: the text view.

    Action: JSON text. A call ``{"name": tool, "arguments": {...}}``, several side by side ``{"calls": [...]}``,
    ``{"name": "wait", "arguments": {"seconds": 5}}``, ``{"name": "think"}`` (charges tokens only), or
    ``{"name": "finish", "arguments": {"answer": "..."}}`` (`"give_up": true` to give up). Each may bring
    ``"usage": {"input_tokens", "output_tokens", "cached_tokens"}``; where it does not, the view counts tokens itself: the
    whole context so far in, the action out. Anything else is answered by an error as an observation.
    Observation: the query first; then the text that a call returned, or
    ``{"results": [{"name", "content"}, ...], "news": [...]}`` where there were several calls or news. A text longer than
    `max_observation` is cut, and says so.
    Reward: as in the numeric view.
    Info: beside the keys of `ToolEnv`, ``results`` (for each call of the step a dict with its ``tool``, its ``status`` label
    and the ``text`` that it returned) and ``news`` (the events since the last look, in words), both [] where there are none;
    ``status`` (number of the last call's status) and ``statuses`` (labels of all, comma-separated).

    Args:
        max_observation: Longest text of one result, in characters.
        level: instruction granularity of the query: statement, category, tool, api or hybrid; None takes the task's own query.
        others: see `ToolEnv`.
    """

    def __init__(self, max_observation: int = 2048, level: str | None = None, **settings: Any) -> None:
        super().__init__(**settings)
        self.max_observation, self.level = max_observation, level
        self.observation_space = UnicodeText(20_000 + MAX_CALLS * MAX_ESCAPE * max_observation)
        self.action_space = UnicodeText(MAX_ACTION)
        self._documents: dict[int, int] = {}  # tokens of each task's documentation

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        episode = self._begin(seed, options)
        self._slot_of = {slot.name: slot.index for slot in episode.candidates}
        self._results: list[tuple[str, Status, str]] = []  # tool, status and text of each call of the last step
        self._news: list[str] = []
        text = self.query
        self._context = count_tokens(text)  # the documentation is counted where an action brings no usage
        return text, self._chat_info(episode)

    # -- what an agent may read ------------------------------------------------------------------------------------------

    @property
    def query(self) -> str:
        """What the user asks, at the chosen granularity."""
        task = self.task
        if self.level is None:
            return task.query
        return task.instructions.get(self.level, task.query)

    @property
    def candidates(self) -> list[Tool]:
        """The tools on offer, in slot order."""
        return [self.world.catalog[slot.number] for slot in self._playing().candidates]

    def documentation(self) -> list[dict[str, Any]]:
        """The candidates' function schemas, as chat models take them."""
        return [tool.documentation() for tool in self.candidates]

    def quotes(self) -> dict[str, float]:
        """What a call of each candidate costs now."""
        episode = self._playing()
        return {slot.name: episode.quote(slot.index) for slot in episode.candidates}

    def _document_tokens(self, number: int) -> int:
        found = self._documents.get(number)
        if found is None:
            found = self._documents[number] = count_tokens(json.dumps(self.documentation()))
        return found

    # -- playing ---------------------------------------------------------------------------------------------------------

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        episode = self._playing()
        self._results, self._news = [], []
        over = episode.over
        if over:
            return "", 0.0, True, False, self._chat_info(episode)
        self._steps += 1
        parsed = read_action(action)
        usage = parsed.usage
        if usage is None:
            spoken = count_tokens(action) if isinstance(action, str) else 0
            usage = Usage(self._document_tokens(episode.number) + self._context, spoken)
            self._context += spoken
        episode.think(usage)
        observation = "" if episode.over else self._act(episode, parsed)
        self._context += count_tokens(observation)
        reward, over, truncated = self._outcome(episode)
        return observation, reward, over, truncated, self._chat_info(episode)

    def _act(self, episode: Episode, action: Action) -> str:
        if action.kind == "finish":
            episode.finish(action.answer, action.gave_up)
            return ""
        if action.kind == "think":
            return ""
        if action.kind == "wait":
            return self._wait(episode, action.seconds)
        submitted = []
        for call in action.calls:
            if not episode.over:
                submitted.append(self._submit(episode, call))
        for running in submitted:
            episode.settle(running)
        self._results = [
            (call.tool or asked.name[:MAX_NAME], call.status, self._cut(episode.content(call)))
            for call, asked in zip(submitted, action.calls, strict=False)
        ]
        self._news = self._read_news(episode)
        if len(self._results) == 1 and not self._news:
            return self._results[0][2]
        answers = [{"name": tool, "content": text} for tool, _, text in self._results]
        return json.dumps({"results": answers, "news": self._news} if self._news else {"results": answers})

    def _cut(self, text: str) -> str:
        if len(text) <= self.max_observation:
            return text
        return f"{text[: self.max_observation]}... [cut: {self.max_observation:,} of {len(text):,} characters]"

    def _submit(self, episode: Episode, call: ToolCall) -> Call:
        slot = self._slot_of.get(call.name, -1)
        if call.status is not None:
            return episode.submit(slot, None, call.status, call.problem)
        if slot < 0:
            return episode.submit(-1, None, Status.UNKNOWN_TOOL, f"there is no function named {call.name[:MAX_NAME]!r}")
        problem = check_arguments(self.world.catalog[episode.candidates[slot].number], call.arguments)
        if problem is not None:
            return episode.submit(slot, None, Status.INVALID_ARGUMENTS, problem[:240])
        return episode.submit(slot, call.arguments)

    def _wait(self, episode: Episode, seconds: float) -> str:
        if seconds > 0:
            episode.advance(seconds)
        self._news = self._read_news(episode)
        return json.dumps({"news": self._news} if self._news else {"waited_s": seconds})

    def _read_news(self, episode: Episode) -> list[str]:
        """Visible events since the last look, in words."""
        return [] if episode.over else [self._cut(self._say(episode, event)) for event in episode.notices()]

    def _say(self, episode: Episode, event: WorldEvent) -> str:
        names = ", ".join(episode.candidates[slot].name for slot in event.slots)
        if event.kind == "price_change":
            return f"prices of {names} changed by a factor of {event.factor:g}"
        if event.kind == "preference_change":
            return f"the user changes their mind: {episode.needs[event.need].wish}"
        return f"{names}: {'not available at present' if event.kind == 'ban' else 'available again'}"

    def action_text(self, action: str) -> str:
        return spoken(action)

    def _chat_info(self, episode: Episode) -> dict[str, Any]:
        info = self._info()
        info["results"] = [{"tool": tool, "status": status.label, "text": text} for tool, status, text in self._results]
        info["news"] = list(self._news)
        info["status"] = int(self._results[-1][1]) if self._results else 0
        info["statuses"] = ",".join(status.label for _, status, _ in self._results)
        return info
