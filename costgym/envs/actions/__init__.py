"""Actions in words: one call, several, or a plan of calls."""

from costgym.envs.actions.text import (
    FINISH,
    MAX_CALLS,
    MAX_SECONDS,
    MAX_TOKENS_REPORTED,
    RESERVED,
    SEARCH,
    THINK,
    WAIT,
    Action,
    ToolCall,
    count_tokens,
    encode_action,
    json_or_text,
    read_action,
    read_usage,
    spoken,
)

__all__ = [
    "FINISH",
    "MAX_CALLS",
    "MAX_SECONDS",
    "MAX_TOKENS_REPORTED",
    "RESERVED",
    "SEARCH",
    "THINK",
    "WAIT",
    "Action",
    "ToolCall",
    "count_tokens",
    "encode_action",
    "json_or_text",
    "read_action",
    "read_usage",
    "spoken",
]
