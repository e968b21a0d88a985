"""Language-model agents: a model, a reasoning strategy and tool accesses, played in one session an episode."""

from costgym.agents.llm.session import LlmAgent

__all__ = ["LlmAgent"]
