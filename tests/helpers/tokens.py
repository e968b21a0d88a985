"""TPL plans from the official token numbers."""

from collections.abc import Iterable

from costgym.envs.tpl import ACTION_TOKENS, MAX_TOKENS, TplState
from costgym.simulators.errors import InvalidPlan
from costgym.simulators.opencatp.tools import SOD, SOP


def push(state: TplState, tokens: Iterable[int]) -> TplState:
    """Append official tokens. SOP at the start and SOD after a tool are there already and may be repeated."""
    for token in tokens:
        if token == state.tokens[-1] and token in (SOP, SOD):
            continue
        if token not in ACTION_TOKENS:
            raise InvalidPlan(f"{token} is no token that may follow")
        state.push(ACTION_TOKENS.index(token))
    return state


def replay(kind: str, tokens: Iterable[int], max_tokens: int = MAX_TOKENS) -> TplState:
    """The state after a sequence of official tokens."""
    return push(TplState(kind, max_tokens), tokens)
