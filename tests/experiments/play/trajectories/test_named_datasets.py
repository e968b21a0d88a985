"""Named datasets: what they hold, and that they are what their names say."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import costgym
from costgym.agents.seat import begin
from costgym.agents.sessions.soft import SoftAgent
from costgym.agents.stages.policy import StageAgent, drawn, run_of
from costgym.experiments.play.export.datasets import check_dataset
from costgym.experiments.play.export.transitions import transitions
from costgym.experiments.play.named import build as building
from costgym.experiments.play.named.build import Reference, build, evaluation_environment, load, measure, references, summarise
from costgym.experiments.play.named.catalogue import FAMILIES, SHARE, dataset_names, family_of, recipe_of

minari = pytest.importorskip("minari")
WORLDS = [family.name for family in FAMILIES]
TRAINED = [family.name for family in FAMILIES if not family.rules]
FEW = 4  # episodes behind reference scores
PARTS = 3  # of a mixed dataset


def episodes_of(world: str) -> int:
    """Number of episodes in a small dataset; a session is a hundred times as long as another episode."""
    return 6 if "sessions" in world else 12


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Small datasets of every world, with reference scores of few episodes."""
    folder = tmp_path_factory.mktemp("named")
    patch = pytest.MonkeyPatch()
    patch.setattr(building, "measure", lambda env, agent, _: measure(env, agent, FEW))
    references.cache_clear()
    for world in WORLDS:
        build(f"costgym/{world}/mixed-v0", folder, episodes=episodes_of(world))
        build(f"costgym/{world}/mixed-flat-v0", folder, episodes=episodes_of(world))
    yield folder
    patch.undo()
    references.cache_clear()


def test_every_world_has_every_kind_of_dataset() -> None:
    names = dataset_names()
    assert len(names) == len(set(names)) == sum(len(family.kinds) for family in FAMILIES)
    for name in (*names, *dataset_names(flat=True)):
        recipe = recipe_of(name)
        assert sum(part.episodes for part in recipe.parts) == recipe.family.episodes
        assert len({part.make().name for part in recipe.parts}) == len(recipe.parts)


@pytest.mark.parametrize("world", WORLDS)
def test_the_evaluation_environment_plays_tasks_that_are_not_in_the_data(world: str, root: Path) -> None:
    dataset = load(f"costgym/{world}/mixed-v0", root)
    train, test = (dataset.recover_environment(eval_env=evaluating).unwrapped for evaluating in (False, True))
    assert (train.split, test.split) == ("train", "test")
    played = {int(about["options"]["task"]) for about in dataset.storage.get_episode_metadata(range(dataset.total_episodes))}
    assert played <= set(train.numbers) and not played & set(test.numbers)


@pytest.mark.parametrize("world", WORLDS)
def test_random_actions_score_0_and_the_expert_100(world: str, root: Path) -> None:
    dataset = load(f"costgym/{world}/mixed-v0", root)
    random, expert = (recipe_of(f"costgym/{world}/{kind}-v0").parts[0].make() for kind in ("random", "expert"))
    for agent, wanted in ((random, 0.0), (expert, 100.0)):
        score = measure(dataset.recover_environment(eval_env=True), agent, FEW).score
        assert 100 * minari.get_normalized_score(dataset, np.array(score)) == pytest.approx(wanted, abs=1e-9)


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("flat", ["", "-flat"])
def test_costs_masks_and_probabilities_belong_to_the_actions(world: str, flat: str, root: Path) -> None:
    dataset = load(f"costgym/{world}/mixed{flat}-v0", root)
    env = dataset.recover_environment()
    makers = [part.make() for part in recipe_of(f"costgym/{world}/mixed-v0").parts]
    for index, (about, episode) in enumerate(
        zip(dataset.storage.get_episode_metadata(range(episodes_of(world))), dataset.iterate_episodes(), strict=True)
    ):
        options = {name: int(value) for name, value in about["options"].items()}
        observation, info = env.reset(seed=int(about["seed"]), options=options)
        plain = costgym.make(env.spec.id, **env.spec.kwargs)
        agent = makers[index * PARTS // episodes_of(world)]
        behaviour = getattr(agent, "probabilities", None)
        seen, plain_info = plain.reset(seed=int(about["seed"]), options=options)
        begin(agent, plain, seen, plain_info, 0)
        for step, action in enumerate(episode.actions):
            if flat:
                assert np.array_equal(observation, episode.observations[step])
            chance = 1.0 if behaviour is None else behaviour(seen, plain_info)[action]
            assert episode.infos["log_probabilities"][step] == pytest.approx(np.log(chance), abs=1e-12)
            assert episode.infos["action_mask"][step].tolist() == info["action_mask"].tolist() and info["action_mask"][action]
            if isinstance(agent, SoftAgent):
                agent.took(int(action))
            observation, reward, terminated, truncated, info = env.step(action)
            seen, _, _, _, plain_info = plain.step(action)
            assert (reward, info["cost"]) == (episode.rewards[step], episode.infos["costs"][step])
            assert info["cost_seconds"] == episode.infos["costs_seconds"][step]
        assert (terminated, truncated) == (episode.terminations[-1], episode.truncations[-1])
        assert len(episode.infos["costs"]) == len(episode.actions) + 1 and episode.infos["costs"][-1] == 0


def test_sessions_under_budget_keep_a_reserve(root: Path) -> None:
    build("costgym/sessions-v1/under-budget-v0", root, episodes=3)
    for episode in load("costgym/sessions-v1/under-budget-v0", root):
        calls, reserve = episode.actions < 24, np.zeros(len(episode.actions), np.bool_)
        for name in ("budget_remaining_price", "budget_remaining_seconds"):
            left = episode.infos[name]
            reserve |= left[:-1] <= (1.0 - SHARE) * left[0]
        assert reserve.any() and calls.any() and not (calls & reserve).any()
        assert episode.infos["budget_remaining_price"][-1] > 0.0
        assert np.exp(episode.infos["log_probabilities"]).min() > 0.0 and episode.terminations[-1]


def test_every_dataset_replays(root: Path) -> None:
    for world in WORLDS:
        for flat in ("", "-flat"):
            assert check_dataset(root / "costgym" / world / f"mixed{flat}-v0") == []


def test_a_changed_cost_is_found(root: Path, tmp_path: Path) -> None:
    import shutil

    import h5py

    folder = tmp_path / "mixed-v0"
    shutil.copytree(root / "costgym" / "marketplace" / "mixed-v0", folder)
    with h5py.File(folder / "data" / "main_data.hdf5", "a") as file:
        file["episode_3/infos/costs"][0] = 77.0
    assert check_dataset(folder) == ["episode 3: costs differ from the replay's"]


def test_transitions_have_the_names_of_dsrl(root: Path) -> None:
    flat, nested = (transitions(load(f"costgym/marketplace/mixed{end}-v0", root)) for end in ("-flat", ""))
    for name, array in flat.items():
        assert np.array_equal(array, nested[name]), name
    assert set(flat) == {
        "observations", "next_observations", "actions", "rewards", "costs", "terminals", "timeouts",
        "action_masks", "next_action_masks", "log_probabilities",
    }  # fmt: skip
    count = len(flat["rewards"])
    assert all(len(array) == count for array in flat.values()) and flat["observations"].shape == (count, 282)
    assert flat["terminals"].sum() + flat["timeouts"].sum() == episodes_of("marketplace")
    assert flat["action_masks"][np.arange(count), flat["actions"]].all()
    same = ~(flat["terminals"] | flat["timeouts"])[:-1]
    assert np.array_equal(flat["next_observations"][:-1][same], flat["observations"][1:][same])
    # a reward is the price's share of the Quality of Plan, and 0.5 for success
    gained = flat["rewards"] + 0.005 * flat["costs"]
    assert np.all(np.isclose(gained, 0.0, atol=1e-6) | np.isclose(gained, 0.5, atol=1e-6))


def test_metadata_are_complete(root: Path) -> None:
    for world in WORLDS:
        about = json.loads((root / "costgym" / world / "mixed-v0" / "data" / "metadata.json").read_text())
        for name in (
            "author", "code_permalink", "license", "algorithm_name", "description", "requirements", "env_spec", "eval_env_spec",
            "ref_min_score", "ref_max_score", "num_episodes_average_score",
        ):  # fmt: skip
            assert about[name], name
        assert ("cost_limit" in about) == (family_of(world).cost_limit is not None)


def test_a_summary_counts_what_is_there(root: Path) -> None:
    dataset = load("costgym/marketplace/mixed-v0", root)
    row = summarise("costgym/marketplace/mixed-v0", root)
    returns = [float(np.sum(episode.rewards)) for episode in dataset]
    assert (row["episodes"], row["steps"]) == (episodes_of("marketplace"), dataset.total_steps)
    assert row["mean_return"] == pytest.approx(np.mean(returns))
    assert row["normalised_score"] == pytest.approx(np.mean(100 * minari.get_normalized_score(dataset, np.array(returns))))


@pytest.mark.slow
def test_the_same_seed_builds_the_same_bytes(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from costgym.experiments.play.named import build as b;"
        "b.references = lambda world: (b.Reference(0.1, 9.0, 0.3), b.Reference(0.4, 9.0, 0.9));"
        "[b.build(name, sys.argv[1], episodes=12) for name in sys.argv[2:]]"
    )
    names = ["costgym/marketplace/mixed-v0", "costgym/opencatp-calls/replay-flat-v0"]
    hashes = []
    for hash_seed in ("1", "2"):
        folder = tmp_path / hash_seed
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        subprocess.run([sys.executable, "-c", script, str(folder), *names], env=environment, check=True)
        files = sorted(file for file in folder.rglob("*") if file.is_file())
        hashes.append({str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files})
    assert hashes[0] == hashes[1] and len(hashes[0]) >= 4


def test_flat_and_nested_variants_hold_the_same_episodes(root: Path) -> None:
    for one, other in zip(
        load("costgym/opencatp-calls/mixed-v0", root), load("costgym/opencatp-calls/mixed-flat-v0", root), strict=True
    ):
        assert np.array_equal(one.actions, other.actions) and np.array_equal(one.rewards, other.rewards)


def test_what_exists_is_not_overwritten_and_names_are_checked(root: Path) -> None:
    with pytest.raises(costgym.ConfigError, match=r"already; `minari delete costgym/marketplace/mixed-v0` removes it"):
        build("costgym/marketplace/mixed-v0", root)
    with pytest.raises(costgym.UnknownName, match="expert-v0"):
        build("costgym/marketplace/experts-v0", root)
    with pytest.raises(costgym.ConfigError, match="from 3 to 2400"):
        build("costgym/marketplace-constrained/mixed-v0", root / "new", episodes=2)


def test_the_expert_of_the_constrained_world_keeps_the_limit() -> None:
    family = family_of("marketplace-constrained")
    measured: Reference = measure(evaluation_environment(family), family.expert(), 200)
    assert family.cost_limit is not None and 0.8 * family.cost_limit < measured.cost <= family.cost_limit


# -- stages of training ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("world", TRAINED)
def test_a_stage_draws_from_the_probabilities_that_it_tells(world: str) -> None:
    family = family_of(world)
    env = costgym.make(family.env_id, **family.arguments)
    observation, info = env.reset(seed=1)
    agent = StageAgent(world, 2)
    chances = agent.probabilities(observation, info)
    assert chances.sum() == pytest.approx(1.0) and not chances[~info["action_mask"]].any()
    generator = np.random.default_rng(0)
    counts = np.bincount([drawn(chances, generator) for _ in range(4000)], minlength=len(chances))
    assert np.abs(counts / 4000 - chances).max() < 0.04


@pytest.mark.parametrize("world", TRAINED)
def test_later_stages_are_better(world: str) -> None:
    family = family_of(world)
    last = len(run_of(world)["steps"]) - 1
    first, final = (measure(evaluation_environment(family), StageAgent(world, stage), 50).score for stage in (0, last))
    assert final > first + 0.05


def test_a_stage_plays_the_network_of_the_run() -> None:
    torch = pytest.importorskip("torch")
    agent: Any = StageAgent("marketplace", 3)
    x = np.random.default_rng(0).random((1, 282))
    layers: list[Any] = []
    for weight, bias in agent._layers:
        layer = torch.nn.Linear(*weight.shape, dtype=torch.float64)
        layer.load_state_dict({"weight": torch.from_numpy(weight.T.copy()), "bias": torch.from_numpy(bias.copy())})
        layers += [layer, torch.nn.Tanh()]
    wanted = torch.softmax(torch.nn.Sequential(*layers[:-1])(torch.from_numpy(x))[0], -1).detach().numpy()
    probabilities = agent.probabilities({"all": x[0]}, {"action_mask": np.ones(17, bool)})
    assert probabilities == pytest.approx(wanted, abs=1e-12)
    with pytest.raises(costgym.ConfigError, match="from 0 to 5"):
        StageAgent("marketplace", 6)
