"""Agents: language models composed with reasoning strategies and tool access, and the plain policies beside them."""

from .base import Agent
from .llm.session import LlmAgent
from .registry import agent_names, agents, make_agent

__all__ = ["Agent", "LlmAgent", "agent_names", "agents", "make_agent"]
