"""Say what a model's server did that is not the model's play, and what cures it."""

from collections.abc import Mapping
from typing import Any

_CURES = {
    "malformed": "replies that held neither a text nor a call that can be read; see `costgym doctor --model NAME`",
    "unread_calls": "calls that were not read{forms}; add calls=auto to the model's name, or set the server's parser of calls",
    "unknown_functions": "calls of functions that were not on offer",
    "estimated_tokens": "tokens that are estimated, because the server did not report them",
    "provider_errors": "answers in which the server failed, so that it was asked again",
    "truncated": "replies that were cut off; raise max_tokens in the model's name if they are whole thoughts",
}


def server_notices(row: Mapping[str, Any]) -> list[str]:
    """Return a sentence for each thing that the server of a row's model did, with the number of episodes it was seen in.

    >>> server_notices({"agent": "react", "episodes": 24, "unread_calls": 3, "unread_by_form": {"xml": 5}})[0][:70]
    'react: 3 of 24 episodes had calls that were not read, in the form xml;'
    >>> server_notices({"agent": "react", "episodes": 24, "model": "openai:m", "pass_rate": 0.0, "agent_error_rate": 0.1})
    ['react: its calls reached tools, but no answer is right; `costgym show` of an episode says why']
    """
    forms = [form for form in row.get("unread_by_form") or () if form != "unknown"]
    shown = f", in the form {' and '.join(forms)}" if forms else ""
    agent, episodes = row.get("agent"), row.get("episodes")
    notices = [
        f"{agent}: {row[key]} of {episodes} episodes had {cure.replace('{forms}', shown)}"
        for key, cure in _CURES.items()
        if row.get(key)
    ]
    real = bool(row.get("model")) and not str(row["model"]).startswith("simulated")
    if real and not notices and row.get("pass_rate") == 0:
        if row.get("agent_error_rate") is None:
            notices.append(
                f"{agent}: no call reached a tool; `costgym doctor --model NAME` says whether the model calls functions"
            )
        elif row["agent_error_rate"] > 0.9:
            notices.append(f"{agent}: nearly every call was refused as the model's own mistake; an episode shows why")
        else:
            notices.append(f"{agent}: its calls reached tools, but no answer is right; `costgym show` of an episode says why")
    return notices
