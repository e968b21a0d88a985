"""A decision transformer for sessions: actions follow from the return to come, and from what was seen and done.

Source: Chen et al. 2021, Decision Transformer: reinforcement learning via sequence modeling; the trunk is the model of
transformers. The network of sessions reads each observation, and scores the tools in the context that the trunk returns.
"""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from transformers import DecisionTransformerConfig, DecisionTransformerModel

from costgym.agents.base import SESSION_1
from costgym.envs.wrappers import DictLayout
from costgym.experiments.baselines.methods import Act, open_env
from costgym.experiments.baselines.recorded import NEVER, REWARD_UNIT, SessionScores, Transitions, best
from costgym.simulators.sessions.rules import SessionRules

LEARNING_RATE = 1e-3
STEPS = 10  # decisions that are looked back at
BATCH, LAYERS, HEADS = 64, 2, 2
LONGEST = 10  # decisions of a session by query, at most
BEST = 0.1  # share of the recorded episodes, the best ones, whose mean return is asked for in play


class DecisionTransformer(nn.Module):  # type: ignore[misc, unused-ignore]
    """Flat observations (B, K, features), actions taken (B, K), returns to go (B, K), numbers of the steps (B, K) and whether
    there was such a step (B, K), to scores of the actions (B, K, actions)."""

    def __init__(self, rules: SessionRules) -> None:
        super().__init__()
        self.reader = SessionScores(rules)
        hidden = self.reader.network.hidden
        self.trunk = DecisionTransformerModel(
            DecisionTransformerConfig(
                state_dim=hidden, act_dim=self.reader.actions, hidden_size=hidden, max_ep_len=LONGEST * rules.queries + 1,
                n_layer=LAYERS, n_head=HEADS, n_positions=3 * STEPS, action_tanh=False, bos_token_id=None, eos_token_id=None,
            )
        )  # fmt: skip

    def read(self, seen: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """What the network of sessions reads (B, k, H) of each tool, their slots (B, k), and the context (B, H)."""
        return self.reader.network.read(self.reader.observation(seen), None)[:3]

    def contexts(self, states: Tensor, actions: Tensor, to_go: Tensor, steps: Tensor, present: Tensor) -> Tensor:
        """The contexts of so many steps (B, K, H), with what the trunk adds from the steps before."""
        done = nn.functional.one_hot(actions, self.reader.actions).float()
        hidden = self.trunk(
            states=states, actions=done, returns_to_go=to_go[..., None], timesteps=steps, attention_mask=present.long()
        ).last_hidden_state  # (B, 3 K, H): return, state and action of each step in turn
        return states + hidden[:, 1::3]

    def score(self, h: Tensor, rows: Tensor, context: Tensor) -> Tensor:
        return self.reader.network.score(h, rows, context, self.reader.actions)

    def forward(self, seen: Tensor, actions: Tensor, to_go: Tensor, steps: Tensor, present: Tensor) -> Tensor:
        h, rows, context = self.read(seen.flatten(0, 1))
        contexts = self.contexts(context.unflatten(0, actions.shape), actions, to_go, steps, present)
        return self.score(h, rows, contexts.flatten(0, 1)).unflatten(0, actions.shape)


def windows(data: Transitions, drawn: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.int64]]:
    """The decisions (B, K) that end with the drawn ones, in their episodes, whether there was each, and its number (B, K)."""
    starts = np.concatenate([[0], np.flatnonzero(data.ended)[:-1] + 1])
    first = starts[np.searchsorted(starts, drawn, "right") - 1][:, None]
    index = drawn[:, None] + np.arange(1 - STEPS, 1)
    present = index >= first
    index = np.where(present, index, first)
    return index, present, index - first


def returns_to_go(data: Transitions) -> NDArray[np.float32]:
    """The rewards (n,) from each decision to the end of its episode."""
    ends = np.flatnonzero(data.ended)
    sums = np.cumsum(data.rewards, dtype=np.float64)
    until = sums[ends[np.searchsorted(ends, np.arange(len(sums)))]]
    return (until - sums + data.rewards).astype(np.float32)


def train(data: Transitions, chance: np.random.Generator, updates: int) -> Act:
    """Train on sessions of version 1; the policy asks for the mean return of the best tenth of the episodes."""
    assert data.rules is not None
    to_go = returns_to_go(data)
    begins = np.concatenate([[True], data.ended[:-1]])
    totals = np.sort(to_go[begins])
    # where nothing was earned there is nothing to scale by
    scale, target = float(totals.max()) or 1.0, float(totals[-max(1, round(BEST * len(totals))) :].mean())
    model = DecisionTransformer(data.rules)
    optimiser = torch.optim.Adam(model.parameters(), LEARNING_RATE)
    for _ in range(updates):
        index, present, steps = windows(data, chance.integers(0, len(data.actions), BATCH))
        parts = (data.seen[index], data.actions[index], to_go[index] / scale, steps, present)
        scores = model(*(torch.from_numpy(part) for part in parts))
        scores = scores.masked_fill(~torch.from_numpy(data.masks[index]), NEVER).log_softmax(-1)
        likelihood = scores.gather(-1, torch.from_numpy(data.actions[index])[..., None])[..., 0]
        loss = -likelihood[torch.from_numpy(present)].mean()
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
    return _Player(model.eval(), data.rules, target, scale)


class _Player:
    """Plays N sessions at a time, and remembers the last steps of each."""

    def __init__(self, model: DecisionTransformer, rules: SessionRules, target: float, scale: float) -> None:
        self._model, self._rules, self._target, self._scale = model, rules, target, scale
        self._layout = DictLayout(open_env(SESSION_1, "", "train").observation_space)
        self._step = np.zeros(0, np.int64)

    def __call__(self, observation: Any, info: Any, begins: NDArray[np.bool_]) -> NDArray[np.int64]:
        seen = self._layout.flat(observation)
        if len(self._step) != len(seen):
            count = len(seen)
            self._states = np.zeros((count, STEPS, self._model.reader.network.hidden), np.float32)
            self._actions, self._to_go = np.zeros((count, STEPS), np.int64), np.zeros((count, STEPS), np.float32)
            self._step = np.zeros(count, np.int64)
        self._step = np.where(begins, 0, self._step + 1)
        for array in (self._states, self._actions, self._to_go):
            array[:, :-1] = array[:, 1:].copy()
        to_go = self._target - np.asarray(info["value"], np.float64) / REWARD_UNIT
        self._to_go[:, -1], self._actions[:, -1] = to_go / self._scale, 0
        steps = self._step[:, None] + np.arange(1 - STEPS, 1)
        present, last = steps >= 0, LONGEST * self._rules.queries
        with torch.inference_mode():
            h, rows, context = self._model.read(torch.from_numpy(seen))
            self._states[:, -1] = context.numpy()
            parts = (self._states, self._actions, self._to_go, steps.clip(0, last), present)
            contexts = self._model.contexts(*(torch.from_numpy(part) for part in parts))[:, -1]
            scores = self._model.score(h, rows, contexts).numpy()
        chosen = best(scores, observation, info["action_mask"], self._rules)
        self._actions[:, -1] = chosen
        return chosen
