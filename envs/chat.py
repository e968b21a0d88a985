"""The marketplace as text: an action is a JSON tool call, an observation is what the tool says."""

from __future__ import annotations

import json
from typing import Any

from ..simulators.marketplace.schema import check_arguments
from ..simulators.status import Status
from ..simulators.tools import Tool
from ..simulators.world import Call, Episode, Usage, WorldEvent
from .actions import Action, ToolCall, count_tokens, read_action, spoken
from .spaces import UnicodeText
from .tool_world import ToolEnv

MAX_ACTION = 100_000


class MarketplaceChatEnv(ToolEnv[str, str]):
    """`costgym/MarketplaceChat-v0`: the text view.

    Action: JSON text. A call ``{"name": tool, "arguments": {...}}``, several side by side ``{"calls": [...]}``,
    ``{"name": "wait", "arguments": {"seconds": 5}}``, ``{"name": "think"}`` (charges tokens only), or
    ``{"name": "finish", "arguments": {"answer": "..."}}`` (`"give_up": true` to give up). Each may bring
    ``"usage": {"input_tokens", "output_tokens", "cached_tokens"}``; where it does not, the view counts tokens itself: the
    whole context so far in, the action out. Anything else is answered by an error as an observation.
    Observation: the query first, then what each call returned, cut at `max_observation` characters.
    Reward: as in the numeric view.

    Args:
        max_observation: characters of an observation.
        level: instruction granularity of the query: statement, category, tool, api or hybrid; None takes the task's own query.
        others: see `ToolEnv`.
    """

    def __init__(self, max_observation: int = 2048, level: str | None = None, **settings: Any) -> None:
        super().__init__(**settings)
        self.max_observation, self.level = max_observation, level
        self.observation_space = UnicodeText(max(max_observation, 20_000))
        self.action_space = UnicodeText(MAX_ACTION)
        self._documents: dict[int, int] = {}  # tokens of each task's documentation

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        episode = self._begin(seed, options)
        self._slot_of = {slot.name: slot.index for slot in episode.candidates}
        self._last: tuple[Status, ...] = ()
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
        observation = observation[: self.max_observation]
        self._context += count_tokens(observation)
        reward, over, truncated = self._outcome(episode)
        return observation, reward, over, truncated, self._chat_info(episode)

    def _act(self, episode: Episode, action: Action) -> str:
        self._last = ()
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
        self._last = tuple(call.status for call in submitted)
        texts = [episode.content(call) for call in submitted]
        news = [] if episode.over else self._news(episode)
        if len(texts) == 1 and not news:
            return texts[0]
        answers = [
            {"name": call.tool or asked.name, "content": text}
            for call, asked, text in zip(submitted, action.calls, texts, strict=False)
        ]
        return json.dumps({"results": answers, "news": news} if news else {"results": answers})

    def _submit(self, episode: Episode, call: ToolCall) -> Call:
        slot = self._slot_of.get(call.name, -1)
        if call.status is not None:
            return episode.submit(slot, None, call.status, call.problem)
        if slot < 0:
            return episode.submit(-1, None, Status.UNKNOWN_TOOL, f"there is no function named {call.name[:80]!r}")
        problem = check_arguments(self.world.catalog[episode.candidates[slot].number], call.arguments)
        if problem is not None:
            return episode.submit(slot, None, Status.INVALID_ARGUMENTS, problem[:240])
        return episode.submit(slot, call.arguments)

    def _wait(self, episode: Episode, seconds: float) -> str:
        if seconds > 0:
            episode.advance(seconds)
        news = [] if episode.over else self._news(episode)
        return json.dumps({"news": news} if news else {"waited_s": seconds})

    def _news(self, episode: Episode) -> list[str]:
        """Visible events since the last look, in words."""
        return [self._say(episode, notice) for notice in episode.notices()]

    def _say(self, episode: Episode, notice: WorldEvent) -> str:
        names = ", ".join(episode.candidates[slot].name for slot in notice.slots)
        if notice.kind == "price_change":
            return f"prices of {names} changed by a factor of {notice.factor:g}"
        if notice.kind == "preference_change":
            return f"the user changes their mind: {episode.needs[notice.need].wish}"
        return f"{names}: {'not available at present' if notice.kind == 'ban' else 'available again'}"

    def action_text(self, action: str) -> str:
        return spoken(action)

    def _chat_info(self, episode: Episode) -> dict[str, Any]:
        info = self._info()
        info["status"] = int(self._last[-1]) if self._last else 0
        info["statuses"] = ",".join(status.label for status in self._last)
        return info
