"""Agents: language models composed with reasoning strategies and tool access, and the plain policies beside them."""

from costgym.agents.base import Agent
from costgym.agents.llm.session import LlmAgent
from costgym.agents.registry import agent_names, agents, make_agent

__all__ = ["Agent", "LlmAgent", "agent_names", "agents", "make_agent"]
