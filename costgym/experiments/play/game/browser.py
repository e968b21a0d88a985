"""An episode that a page plays: moves and what they bring, as JSON. Pyodide runs this code in a browser."""

import json
from collections.abc import Callable, Mapping
from functools import partial
from math import isfinite
from pathlib import Path
from typing import Any

from costgym.envs.actions import FINISH, SEARCH, WAIT, encode_action
from costgym.envs.base import base_env
from costgym.envs.why import why
from costgym.experiments.play.game.human import (
    GIVE_UP,
    MAX_WAIT_S,
    Human,
    PlayerView,
    ToolRow,
    counted,
    line_to_copy,
    scores,
    shortened,
    typed,
)  # fmt: skip
from costgym.experiments.play.trajectories.format import Header, parse_header
from costgym.experiments.play.trajectories.record import record
from costgym.simulators.errors import ConfigError

RULE = ("greedy",)  # plays the same episode in a browser, where there is no PyTorch for a learnt policy


class BrowserGame:
    """An episode of a person who plays in a page.

    Args:
        header: first line of a trajectory file, which says what world is played.
        index: number of the task within the split; beyond the last one it starts again.
        seed: of the world.
        again: command that plays this world, to which the task is added.
    """

    def __init__(self, header: str, index: int, seed: int = 0, again: str = "costgym play") -> None:
        self._header: Header = parse_header(header, Path("header"))
        self._env = self._header.make()
        world: Any = base_env(self._env)
        self._world = world
        self._index = index % len(self._world.numbers)
        self._task, self._seed, _ = self._world.instance(self._index, seed)
        self._again = f"{again} --task {self._index}" + (f" --seed {seed}" if seed else "")
        query, info = self._env.reset(seed=self._seed, options={"task": self._task})
        shown = self._world.visible_info(info)
        seat: Any = self._world.seat(self._header.env)
        self._view = PlayerView(self._world, query, list(seat.tools), shown)
        self._actions: list[str] = []
        self._over = self._truncated = False

    def move(self, wish: str) -> str:
        """Do what a JSON object wishes: `tool` with `arguments` as texts, `answer`, `search`, `wait` or `give_up`.

        Returns:
            The state as JSON, with `problem` where the wish was no action; nothing has happened then.
        """
        try:
            action = counted(self._action(json.loads(wish)))
        except ConfigError as error:
            return self.state(f"{error}.")
        if not self._over:
            self._actions.append(action)
            _, _, terminated, self._truncated, info = self._env.step(action)
            self._view.observe(self._world.visible_info(info))
            self._over = terminated or self._truncated
            if self._truncated:
                self._world.give_up()
        return self.state()

    def _action(self, wish: Mapping[str, Any]) -> str:
        match wish:
            case {"tool": name, "arguments": texts}:
                card = next(card for card in self._view.cards if card.name == name)
                required, properties = card.parameters.get("required", ()), card.parameters.get("properties", {})
                for argument in required:
                    if not texts.get(argument, "").strip():
                        raise ConfigError(argument, "expected a value, since the tool needs it")
                arguments = {key: typed(text.strip(), properties[key], key) for key, text in texts.items() if text.strip()}
                return encode_action(card.name, arguments)
            case {"answer": text}:
                return encode_action(FINISH, {"answer": text})
            case {"search": words}:
                return encode_action(SEARCH, {"query": words})
            case {"wait": seconds} if isfinite(seconds) and 0 < seconds <= MAX_WAIT_S:
                return encode_action(WAIT, {"seconds": seconds})
            case {"give_up": True}:
                return GIVE_UP
        raise ConfigError("move", f"expected a tool, an answer, or above 0 and at most {MAX_WAIT_S:,.0f} seconds to wait")

    def state(self, problem: str = "") -> str:
        """What the page shows, as JSON."""
        view = self._view
        return json.dumps(
            {
                "problem": problem,
                "query": view.query,
                "task": self._world.account().task.id,
                "index": self._index,
                "currency": view.currency,
                "seconds": self._world.account().now_s,
                "left": [left._asdict() for left in view.left()],
                "can_search": view.can_search,
                "tools": [_tool(row) for row in view.tools()],
                "log": [{"title": title, "text": shortened(text), "whole": text} for title, text in view.log],
                "result": self._result() if self._over else None,
            }
        )

    def _result(self) -> dict[str, Any]:
        rows = scores(self._world, self._header, RULE)
        return {
            "verdict": self._world.chart().verdict,
            "why": why(self._world, self._truncated),
            "scores": [row._asdict() for row in rows],
            "line": line_to_copy(self._world, rows, self._again),
            "record": self.record(),
        }

    def record(self) -> str:
        """The trajectory file of the episode, as `costgym play` writes it: it is played again from its actions."""
        env = self._header.make()
        world: Any = base_env(env)
        recorded, _ = record(env, Human(world, Replay(partial(next, iter(self._actions)))), self._task, self._seed)
        return f"{self._header.to_json()}\n{recorded.sealed_json(self._header)}\n"


class Replay:
    """A screen that shows nothing and chooses the actions of an episode again."""

    def __init__(self, choose: Callable[[], str]) -> None:
        self.choose = choose

    def begin(self, view: PlayerView) -> None: ...

    def show(self, over: bool) -> None: ...


def _tool(row: ToolRow) -> dict[str, Any]:
    card, required = row.card, row.card.parameters.get("required", ())
    arguments = [
        {
            "name": name,
            "about": schema.get("description") or str(schema.get("type", "text")),
            "required": name in required,
            "choices": [str(choice) for choice in schema.get("enum") or ()],
        }
        for name, schema in card.parameters.get("properties", {}).items()
    ]
    shown = {"number": row.number, "price": row.price, "success": row.success, "calls": row.calls}
    return {**shown, "name": card.name, "about": card.description, "provider": card.provider, "arguments": arguments}
