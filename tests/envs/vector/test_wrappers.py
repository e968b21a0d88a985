"""The wrappers for vector environments do to each environment what the scalar ones do."""

import doctest
from typing import Any

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import costgym

pytest.importorskip("numba", reason="needs the extra `train`")

from costgym.envs import wrappers as scalar
from costgym.envs.vector import wrappers as vector
from costgym.simulators.errors import ConfigError
from tests.helpers.lockstep import difference

pytestmark = pytest.mark.native

ENV_ID = "costgym/Marketplace-v0"
WRAPPERS: dict[str, tuple[Any, Any]] = {
    "lagrangian": (lambda env: scalar.LagrangianReward(env, 0.01), lambda env: vector.LagrangianReward(env, 0.01)),
    "flat": (scalar.FlattenObservation, vector.FlattenObservation),
    "mask": (scalar.MaskObservation, vector.MaskObservation),
    "both": (
        lambda env: scalar.MaskObservation(scalar.FlattenObservation(env)),
        lambda env: vector.MaskObservation(vector.FlattenObservation(env)),
    ),
}


@pytest.mark.parametrize("mode", list(AutoresetMode))
@pytest.mark.parametrize("name", WRAPPERS)
def test_a_wrapped_vector_is_a_vector_of_wrapped_environments(name: str, mode: AutoresetMode) -> None:
    one, many = WRAPPERS[name]
    expected = SyncVectorEnv([lambda: one(costgym.make(ENV_ID, max_steps=4))] * 3, autoreset_mode=mode)
    native = many(costgym.make_vec(ENV_ID, 3, max_steps=4, autoreset_mode=mode))
    assert native.single_observation_space == expected.single_observation_space
    first, second = expected.reset(seed=0), native.reset(seed=0)
    assert difference({"": first[0]}, {"": second[0]}) is None
    generator = np.random.default_rng(0)
    for _ in range(30):
        actions = generator.integers(0, 17, 3)
        a, b = expected.step(actions), native.step(actions)
        assert difference({"": a[0]}, {"": b[0]}) is None
        assert all(np.array_equal(x, y) for x, y in zip(a[1:4], b[1:4], strict=True))
        assert native.observation_space.contains(b[0])
        if "final_obs" in a[4]:
            assert difference(a[4]["final_obs"], b[4]["final_obs"]) is None
        ended = a[2] | a[3]
        if mode is AutoresetMode.DISABLED and ended.any():
            first, second = (env.reset(options={"reset_mask": ended.copy()}) for env in (expected, native))
            assert difference({"": first[0]}, {"": second[0]}) is None


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_costs_stand_beside_rewards_and_add_up(mode: AutoresetMode) -> None:
    env = vector.CostTuple(costgym.make_vec(ENV_ID, 2, autoreset_mode=mode))
    env.reset(seed=0)
    finish = env.single_action_space.n - 1  # type: ignore[attr-defined]
    spent = 0.0
    for actions in ([0, 1], [2, 3], [finish, finish]):
        _, _, costs, terminated, _, info = env.step(np.array(actions))
        spent += costs
    last = info["final_info"] if mode is AutoresetMode.SAME_STEP else info
    assert terminated.all() and spent.tolist() == pytest.approx(last["cost_sum"].tolist()) and spent.min() > 0  # type: ignore[attr-defined]


def test_what_cannot_be_wrapped_is_said() -> None:
    with pytest.raises(ConfigError, match="multiplier"):
        vector.LagrangianReward(costgym.make_vec(ENV_ID, 2), -1.0)
    with pytest.raises(ConfigError, match="Dict of boxes"):
        vector.FlattenObservation(vector.FlattenObservation(costgym.make_vec(ENV_ID, 2)))


def test_the_examples_in_the_documentation_run() -> None:
    results = doctest.testmod(vector)
    assert results.attempted > 10 and results.failed == 0


@pytest.mark.parametrize(
    "around", [vector.CostTuple, vector.FlattenObservation, vector.LagrangianReward, vector.MaskObservation]
)
def test_the_cost_tuple_goes_outermost(around: Any) -> None:
    with pytest.raises(ConfigError, match=rf"{around.__name__}: expected five values from step, but CostTuple returns six"):
        around(vector.CostTuple(costgym.make_vec(ENV_ID, 2)))


@pytest.mark.parametrize("env_id", ["costgym/Marketplace-v0", "costgym/MarketplaceSessionEasy-v1"])
@pytest.mark.parametrize("mode", [AutoresetMode.DISABLED, AutoresetMode.SAME_STEP])
def test_torchrl_resets_ended_environments_and_sees_their_last_observations(mode: AutoresetMode, env_id: str) -> None:
    """As the guide says: TorchRL refuses the default, under which a step after the end is none."""
    libs = pytest.importorskip("torchrl.envs", reason="needs the extra `torchrl`")
    torch = pytest.importorskip("torch")

    def made(mode: AutoresetMode) -> Any:
        batch = costgym.make_vec(env_id, 3, max_steps=4, autoreset_mode=mode)
        return libs.GymWrapper(vector.MaskObservation(vector.FlattenObservation(batch)), categorical_action_encoding=True)

    with pytest.raises(RuntimeError, match="SAME_STEP or DISABLED"):
        made(AutoresetMode.NEXT_STEP)
    env = libs.TransformedEnv(made(mode), libs.ActionMask())
    env.set_seed(5)
    torch.manual_seed(0)
    played = env.rollout(30, break_when_any_done=False)
    assert torch.take_along_dim(played["action_mask"], played["action"].unsqueeze(-1), -1).all()
    ended = played["next", "done"].squeeze(-1)
    assert (ended.sum(1) >= 7).all()
    shown, after = played["observations"][:, 1:], played["next", "observations"][:, :-1]
    same = (shown == after).all(-1)
    assert torch.equal(same, ~ended[:, :-1])  # the next observation follows, but for an end, which has its own
    if mode is AutoresetMode.SAME_STEP:
        return  # TorchRL has played some steps before, to learn what `info` holds
    one = scalar.FlattenObservation(costgym.make(env_id, max_steps=4))
    one.reset(seed=5)
    one.reset()  # as TorchRL does after it has set the seed
    for number in range(int(ended[0].nonzero()[0]) + 1):
        last, *_ = one.step(int(played["action"][0, number]))
    assert np.array_equal(played["next", "observations"][0, number].numpy(), last)
