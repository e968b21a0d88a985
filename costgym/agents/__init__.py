"""Agents: language models composed with reasoning strategies and tool access, and the plain policies beside them."""

from typing import TYPE_CHECKING, Any

from costgym.agents.base import Agent

if TYPE_CHECKING:
    from costgym.agents.llm.session import LlmAgent
    from costgym.agents.registry import agent_names, agents, make_agent

__all__ = ["Agent", "LlmAgent", "agent_names", "agents", "make_agent"]


def __getattr__(name: str) -> Any:
    """Import what a name stands for on its first use, since a module of one agent needs neither the table nor the others."""
    if name in __all__:
        from importlib import import_module

        return getattr(import_module(f"costgym.agents.{'llm.session' if name == 'LlmAgent' else 'registry'}"), name)
    raise AttributeError(f"module 'costgym.agents' has no attribute {name!r}")
