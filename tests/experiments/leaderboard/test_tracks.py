"""Which agents a run has in each of its tracks."""

from __future__ import annotations

from costgym.experiments.leaderboard.run_config import make_run_config


def test_a_real_model_leaves_out_the_agents_that_only_the_simulated_one_can_be_behind() -> None:
    simulated = make_run_config("quick").track("decisions").agents
    real = make_run_config("quick", model="openai:gpt-4o-mini-2024-07-18").track("decisions").agents
    assert [name for name in simulated if name not in real] == ["deer"]
