"""Alarms that ring for agents that knew too much, and what an agent's own seed tells."""

from dataclasses import replace

import costgym
from costgym.agents import make_agent
from costgym.agents.seat import begin
from costgym.envs.actions import read_action
from costgym.envs.base import base_env
from costgym.experiments.board.epochs.epoch import seed_of, world_seed_of
from costgym.experiments.board.submissions.alarms import Evidence, alarms, evidence_of, total
from costgym.experiments.play.episodes import play_many
from costgym.simulators.grading import states
from costgym.simulators.grading.values import MAX_CHARACTERS

PLANS, TEXT = "costgym/OpenCATPChat-v0", "costgym/MarketplaceChat-v0"


def test_an_episode_better_than_the_optimum_rings_and_one_that_equals_it_does_not() -> None:
    env = costgym.make("costgym/Marketplace-v0", split="test")
    world = base_env(env)
    ((result, trajectory),) = play_many(env, make_agent("oracle"), "costgym/Marketplace-v0", [0], 0)
    assert trajectory is not None and result.regret is not None and abs(result.regret) < 1e-9
    evidence = evidence_of(world, world.account(), trajectory.actions, result)
    assert evidence.better == 0 and alarms(evidence) == []
    evidence = evidence_of(world, world.account(), trajectory.actions, replace(result, regret=-0.01))
    (alarm,) = alarms(evidence)
    assert alarm.startswith("1 episodes came out better than the optimum of their world allows (")


def test_facts_that_no_observation_held_ring_and_facts_that_a_call_returned_do_not() -> None:
    env = costgym.make(TEXT, split="test")
    world = base_env(env)
    number = world.numbers[0]
    env.reset(seed=0, options={"task": number})
    facts = " ".join(need.fact for need in world.world.tasks[number].needs)
    action = f'{{"name": "finish", "arguments": {{"answer": "{facts}"}}}}'
    env.step(action)
    ((result, _),) = play_many(costgym.make(TEXT, split="test"), make_agent("react"), TEXT, [0], 0)
    evidence = evidence_of(world, world.account(), [action], result)
    assert evidence.unseen == len(world.world.tasks[number].needs) and "nothing that the agent had read" in alarms(evidence)[0]
    honest = costgym.make(TEXT, split="test")
    for result, trajectory in play_many(honest, make_agent("react"), TEXT, range(20), 0):
        assert trajectory is not None
        evidence = evidence_of(base_env(honest), base_env(honest).account(), trajectory.actions, result)
        assert evidence.unseen == 0


def test_a_sum_that_needs_no_tool_rings_no_alarm() -> None:
    env = costgym.make("costgym/MarketplaceChat-v1", split="test", scenario="one-world")
    ((result, trajectory),) = play_many(env, make_agent("react+deer"), "costgym/MarketplaceChat-v1", [8], 0)
    world = base_env(env)
    assert trajectory is not None and result.strict and not world.account().calls
    assert evidence_of(world, world.account(), trajectory.actions, result).unseen == 0


def test_a_fact_behind_a_hundred_thousand_letters_has_been_read() -> None:
    env = costgym.make("costgym/MarketplaceChat-v1", split="test", budget={"price": 60})
    ((result, trajectory),) = play_many(env, make_agent("tot-dfs+ecoact"), "costgym/MarketplaceChat-v1", [135], 0)
    world = base_env(env)
    episode = world.account()
    assert trajectory is not None and sum(len(episode.content(call)) for call in episode.calls) > MAX_CHARACTERS
    answer = read_action(trajectory.actions[-1]).answer or ""
    assert any(states(need, answer) for need in episode.needs)
    assert evidence_of(world, episode, trajectory.actions, result).unseen == 0


def test_tasks_without_a_flaw_ring_where_no_honest_agent_has_so_many() -> None:
    def evidence(tasks: int, flawed: int) -> Evidence:
        names = [str(number) for number in range(tasks)]
        return total(Evidence(tasks=frozenset({n}), flawed=frozenset(names[:flawed]) & {n}) for n in names)

    assert "12 of 12 tasks have no flaw" in alarms(evidence(12, 0), "plans")[0]
    assert alarms(evidence(12, 1), "plans") == [] and alarms(evidence(12, 0), "numbers") == []
    assert "p < 0.003" in alarms(evidence(400, 1), "decisions")[0]
    assert alarms(evidence(400, 2), "decisions") == [] and alarms(evidence(200, 0), "decisions") == []
    # one flaw in one sample is a flaw of the task
    env = costgym.make(PLANS, samples="each", split="test", tasks="nonsequential")
    played = play_many(env, make_agent("few-shot", PLANS), PLANS, range(24), 0)
    shown = total(evidence_of(base_env(env), base_env(env).account(), [], result) for result, _ in played)
    assert len(shown.tasks) == 12 and shown.flawed and alarms(shown, "plans") == []


def test_a_seated_agent_is_not_told_which_sample_it_plans_for() -> None:
    env = costgym.make(PLANS, samples="each", split="test")
    agent = make_agent("few-shot", PLANS)
    heard = []
    agent.reset = lambda seat, observation, info, seed: heard.append(info)  # type: ignore[method-assign]
    observation, info = env.reset(seed=0, options={"task": base_env(env).numbers[0], "sample": 60})
    tell = begin(agent, env, observation, info, 0)
    assert info["sample"] == 60 and "sample" not in heard[0] and "sample" not in tell(info)
    assert heard[0] == {name: value for name, value in info.items() if name != "sample"}


def test_small_numbers_find_a_public_seed_from_the_agents_own_and_not_that_of_an_epoch() -> None:
    env = costgym.make(TEXT, split="test")
    world = base_env(env)

    def guess(seed: int) -> set[int]:
        """Seeds below 10,000 that give an agent the seed that it has in a run of this one."""
        number = world.numbers[0]
        env.reset(seed=seed, options={"task": number})
        seed_of_agent = world.agent_seed(seed)
        return {index for index in range(10_000) if world.agent_seed(index) == seed_of_agent}

    secret = "the same in every run of the tests"
    assert guess(1234) == {1234}  # nothing that is public can be hidden from an agent
    assert guess(seed_of(secret)) == set()
    seeds = [of(f"{secret} {number}") for number in range(200) for of in (seed_of, world_seed_of)]
    assert len(set(seeds)) == 400 and max(seeds).bit_length() == 60 and min(seeds) > 2**40
