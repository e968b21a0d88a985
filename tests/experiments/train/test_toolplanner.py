"""ToolPlanner learns: its losses by hand, its decoding, its runs resumed, stopped and damaged."""

import json
import math
import shutil
import sys
from pathlib import Path

import pytest

import costgym
from costgym.agents import make_agent
from costgym.simulators.errors import ConfigError, DataError, InfrastructureError, MissingExtra, UnknownName
from tests.helpers.toolplanner_world import TINY, WORLD
from tests.helpers.training import files, one_thread

torch = pytest.importorskip("torch", reason="the train extra is not installed")
pytest.importorskip("transformers", reason="the train extra is not installed")
pytest.importorskip("safetensors", reason="the train extra is not installed")

from costgym.agents.checkpoints import POLICY, newest, read_state  # noqa: E402
from costgym.agents.models.base import VOTE, Message  # noqa: E402
from costgym.agents.toolplanner.language_model import (  # noqa: E402
    PlannerModel,
    Tokens,
    ranking_loss,
    sequence_scores,
    sft_loss,
    small_tokenizer,
)
from costgym.agents.toolplanner.learnt import LearntPlanner, load_planner  # noqa: E402
from costgym.agents.toolplanner.settings import LearntSettings  # noqa: E402
from costgym.agents.toolplanner.words import END, FINISH, GIVE_UP, MARKERS, Step, episode_pieces, written_tool  # noqa: E402
from costgym.experiments.papers.toolplanner import follow  # noqa: E402
from costgym.experiments.train.toolplanner import train as toolplanner_training  # noqa: E402
from costgym.experiments.train.toolplanner.data import demonstrations, ranked_pairs, read_trees, training_scenario  # noqa: E402
from costgym.experiments.train.toolplanner.train import train_toolplanner  # noqa: E402

TEXT = episode_pieces(
    "Tell me the price. Please call get_price.",
    [" get_price of Kappa Shop", " get_stock of Kappa Shop"],
    [" get_price of Kappa Shop"],
    [Step(" get_price of Kappa Shop", " found, 0 left"), Step(" finish with the answer")],
)


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    with one_thread():
        yield


@pytest.fixture(scope="module")
def model() -> PlannerModel:
    tokenizer = small_tokenizer(["".join(piece.text for piece in TEXT)] * 3, 320)
    return PlannerModel(LearntSettings(hidden_size=16, heads=2, layers=2), tokenizer, "cpu")


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished") / "run"
    train_toolplanner(folder, WORLD, save_every=2, **TINY)
    return folder


@pytest.fixture
def run(tmp_path, finished):
    """A short finished run, to be spoilt."""
    return Path(shutil.copytree(finished, tmp_path / "run"))


# -- the arithmetic ----------------------------------------------------------------------------------------------------------


def test_the_ranking_loss_is_the_mean_of_what_stands_in_the_wrong_order():
    better = torch.tensor([-1.0, -2.0, -0.25], requires_grad=True)
    worse = torch.tensor([-0.5, -3.0, -0.25], requires_grad=True)
    loss = ranking_loss(better, worse)  # (0.5 + 0 + 0) / 3
    assert float(loss.detach()) == pytest.approx(0.5 / 3)
    loss.backward()
    assert better.grad[:2].tolist() == pytest.approx([-1 / 3, 0.0])
    assert worse.grad[:2].tolist() == pytest.approx([1 / 3, 0.0])
    # with a margin of 1.5: (2 + 0.5 + 1.5) / 3
    assert float(ranking_loss(better, worse, 1.5).detach()) == pytest.approx(4 / 3)


def test_a_score_is_the_mean_over_real_tokens_and_padding_changes_nothing():
    logs = torch.tensor([[-1.0, -2.0, -3.0, -9.0], [-4.0, -9.0, -9.0, -9.0]])
    counts = torch.tensor([[False, True, True, False], [True, False, False, False]])
    assert sequence_scores(logs, counts).tolist() == [-2.5, -4.0]
    wider = torch.nn.functional.pad(logs, (0, 5), value=-7.0), torch.nn.functional.pad(counts, (0, 5), value=False)
    assert sequence_scores(*wider).tolist() == [-2.5, -4.0]
    assert float(sft_loss(logs, counts)) == pytest.approx((2.0 + 3.0 + 4.0) / 3)
    assert float(sft_loss(*wider)) == pytest.approx(3.0)


def test_nothing_to_learn_is_no_division_by_zero():
    nothing = torch.zeros(2, 3, dtype=torch.bool)
    assert float(sft_loss(torch.zeros(2, 3), nothing)) == 0.0
    assert sequence_scores(torch.zeros(2, 3), nothing).tolist() == [0.0, 0.0]


def test_log_probabilities_are_those_of_each_text_alone(model):
    whole = model.sequence(TEXT)
    short = Tokens(whole.tokens[:9], [False] * 5 + [True] * 4)
    logs, counts = model.log_probabilities([whole, short])
    assert counts[0].tolist() == whole.learnt[1:]
    assert counts[1].tolist() == [False] * 4 + [True] * 4 + [False] * (len(whole.tokens) - 9)
    for row, text in enumerate((whole, short)):
        logits = model.network(torch.tensor([text.tokens])).logits[0]
        for index, token in enumerate(text.tokens[1:]):
            wanted = float(torch.log_softmax(logits[index], -1)[token]) if text.learnt[index + 1] else 0.0
            assert float(logs[row, index].detach()) == pytest.approx(wanted, abs=1e-5)
    assert float(logs[1, 8:].abs().sum()) == 0.0


@pytest.mark.parametrize("kind", ["llama", "gpt2"])
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_of_two_endings_each_has_the_log_probabilities_that_it_has_alone(model, kind, attention):
    model = PlannerModel(LearntSettings(model=kind, hidden_size=16, heads=2, layers=2), model.tokenizer, "cpu")
    model.network.set_attn_implementation(attention)
    before = model.sequence(TEXT[:3]).tokens
    better, worse = model.option(" get_price of Kappa Shop"), model.option(" get_stock of a Shop and more")
    middle = len(before) + len(better)
    both = Tokens([*before, *better, *worse], [False] * len(before) + [True] * len([*better, *worse]), (len(before), middle))
    whole = model.sequence(TEXT)
    logs, counts = model.log_probabilities([whole, both])
    alone = model.log_probabilities([whole])[0][0]
    assert torch.allclose(logs[0, : len(alone)], alone, atol=1e-5)
    for ending, start in ((better, len(before)), (worse, middle)):
        wanted = model.log_probabilities([Tokens([*before, *ending], [False] * len(before) + [True] * len(ending))])[0][0]
        assert torch.allclose(logs[1, start - 1 : start - 1 + len(ending)], wanted[len(before) - 1 :], atol=1e-5)
    assert counts[1].sum() == len([*better, *worse])


def test_teacher_forcing_equals_step_by_step_decoding(model):
    model.network.eval()
    context = model.sequence(TEXT[:3]).tokens
    options = [model.option(text) for text in (" get_price of Kappa Shop", " finish", "", " get_stock of a Shop and more")]
    together = model.option_scores(context, options, [])
    for option, score in zip(options, together, strict=True):
        forced, counts = model.log_probabilities([Tokens([*context, *option], [False] * len(context) + [True] * len(option))])
        steps = 0.0
        for index, token in enumerate(option):
            logits = model.network(torch.tensor([[*context, *option[:index]]])).logits[0, -1]
            steps += float(torch.log_softmax(logits, -1)[token])
        assert score == pytest.approx(steps, abs=1e-4)
        assert float((forced * counts).sum()) == pytest.approx(steps, abs=1e-4)


def test_a_context_that_begins_with_one_that_was_read_has_the_scores_of_a_fresh_one(model):
    model.network.eval()
    known = []
    options = [model.option(text) for text in (" get_price of Kappa Shop", " finish")]
    for length in (2, 4, 3, 4, 1):
        context = model.sequence(TEXT[:length]).tokens
        assert model.option_scores(context, options, known) == pytest.approx(
            model.option_scores(context, options, []), abs=1e-4
        )
    assert [len(one.tokens) for one in known] == [len(model.sequence(TEXT[:length]).tokens) for length in (2, 4, 3, 1)]


def test_where_the_best_alone_counts_it_is_the_one_of_all(model, monkeypatch):
    model.network.eval()
    read, total = [], 0
    after = PlannerModel._after
    monkeypatch.setattr(PlannerModel, "_after", lambda *given: read.append(len(given[2])) or after(*given))
    words = ("get_price", "finish", "Kappa Shop", "stock", "the", "of a", "price", "call", "Tell me")
    options = [*(model.option(f"{first} {second}") for first in words for second in words), model.option("")]
    for length in range(1, len(TEXT)):
        context = model.sequence(TEXT[:length]).tokens
        scores = model.option_scores(context, options, [])
        read.clear()
        best = model.option_scores(context, options, [], best_alone=True)
        found = best.index(max(best))
        assert best[found] == pytest.approx(scores[found], abs=1e-4) and scores[found] >= max(scores) - 1e-4
        assert sum(read) == len([score for score in best if score > -math.inf]) <= len(options)
        total += sum(read)
    assert total < 0.9 * len(options) * (len(TEXT) - 1)


def test_case_and_underscores_do_not_matter_to_the_tokenizer_and_marks_are_one_token(model):
    assert model.numbers(" get_price of Kappa Shop") == model.numbers(" Get price of kappa shop")
    assert [len(model.numbers(marker)) for marker in MARKERS] == [1] * len(MARKERS)
    assert model.option(" get_price")[-1:] == model.numbers(END)


def test_of_an_episode_the_tags_the_path_and_the_actions_are_learnt_and_nothing_else():
    written = [piece.text for piece in TEXT if piece.written and piece.text != END]
    tool = " get_price of Kappa Shop"
    assert written == [tool, " get_stock of Kappa Shop", tool, tool, " finish with the answer"]
    assert [piece.text for piece in TEXT if not piece.written and piece.text not in MARKERS] == [
        " Tell me the price. Please call get_price.",
        " found, 0 left",
    ]


def test_tools_on_offer_share_what_the_endings_leave(model, monkeypatch):
    planner = LearntPlanner(model, "sharing")
    monkeypatch.setattr(PlannerModel, "option_scores", lambda *_: [math.log(share) for share in (0.1, 0.3, 0.2)])
    # 0.4 went to tools that are not on offer
    assert [math.exp(score) for score in planner._scores(TEXT, ["a", "b"], ["end"])] == pytest.approx([0.2, 0.6, 0.2])
    assert [math.exp(score) for score in planner._scores(TEXT, ["a", "b", "c"], [])] == pytest.approx([0.1, 0.3, 0.2])


def test_gradients_are_only_in_the_adapters_of_a_published_model(tmp_path, model):
    folder = tmp_path / "published"
    model.network.save_pretrained(folder)
    model.tokenizer.save_pretrained(folder)
    adapted = PlannerModel(LearntSettings(model=str(folder), lora_rank=2), model.tokenizer, "cpu")
    assert adapted.weights() and all("lora_" in name for name in adapted.weights())
    sft_loss(*adapted.log_probabilities([adapted.sequence(TEXT)])).backward()
    touched = {name for name, weight in adapted.network.named_parameters() if weight.grad is not None}
    assert touched == set(adapted.weights())
    whole = PlannerModel(LearntSettings(model=str(folder), lora_rank=0), model.tokenizer, "cpu")
    assert len(whole.weights()) == len(model.weights())


def test_a_published_model_that_is_not_there_is_named(tmp_path, model):
    with pytest.raises(InfrastructureError, match="cannot be loaded"):
        PlannerModel(LearntSettings(model=str(tmp_path / "none")), model.tokenizer, "cpu")


# -- data ----------------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_what_a_pair_is_follows_from_the_feedback(finished):
    trees = read_trees(finished / "sft" / "trees-6-1.jsonl")
    assert len(trees) == 6
    catalog = training_scenario(WORLD, LearntSettings(**TINY)).build().catalog
    made = {}
    for name, parts in (("both", {}), ("no following", {"following": False}), ("no completion", {"completion": False})):
        pairs = ranked_pairs(trees, catalog, LearntSettings(**TINY, **parts))
        made[name] = {pair.made for pair in pairs}
        assert all(pair.better != pair.worse and pair.before[-1].text == "\nRound:" for pair in pairs)
        assert all(pair.better != GIVE_UP for pair in pairs)
    assert all(made.values())
    assert made["no following"] <= {"", "give_up"}
    assert "give_up" not in made["no completion"]


def test_a_guided_planner_goes_on_with_the_first_tool_of_its_path_that_was_not_called(model):
    planner = LearntPlanner(model, "guided", guided=True)
    planner._guide = first, second = tuple(WORLD.build().catalog)[:2]
    one, other = map(written_tool, (first, second))
    assert planner._planned([], [other, FINISH, one]) == 2
    failed, brought = " error, 2 left", " found, 1 left"
    assert planner._planned([Step(one, failed)], [one, other, FINISH]) == 1
    assert planner._planned([Step(one, brought), Step(other, failed)], [one, other, GIVE_UP, FINISH]) == 3
    assert planner._planned([Step(one, brought)], [one, GIVE_UP]) is None


def test_a_guided_planner_calls_its_path_again_where_it_found_nothing(model):
    planner = LearntPlanner(model, "guided", guided=True)
    planner._guide = first, second = tuple(WORLD.build().catalog)[:2]
    one, other = map(written_tool, (first, second))
    failed = " error, 2 left"
    assert planner._planned([Step(one, failed), Step(other, failed)], [one, other, FINISH]) == 0
    assert planner._planned([Step(one, failed), Step(one, failed), Step(other, failed)], [one, other, FINISH]) == 1
    assert planner._planned([Step(one, failed), Step(other, failed)], [FINISH, GIVE_UP]) == 0


def test_in_the_first_tree_to_learn_from_the_second_round_of_a_place_goes_on_with_the_path(finished):
    seen = []

    def visit(siblings, called, path):
        if len(siblings) == 2:
            first, second = (step.action for step in siblings)
            left = [tool for tool in path if tool not in called and tool != first]
            # a path that was called and found nothing is called again
            wanted = left[:1] or [FINISH, *path]
            if not {first, second} & {GIVE_UP} and [first] != [FINISH] * (not left):
                seen.append((second, wanted))
        for step in siblings:
            visit(step.children, {*called, step.action}, path)

    for tree in read_trees(finished / "sft" / "trees-6-1.jsonl"):
        if tree.path:
            visit(tree.roots[0].children, {tree.roots[0].action}, tree.path)
    assert [(second, wanted) for second, wanted in seen if second not in wanted] == []
    assert len(seen) > 5 and any(wanted[0] != FINISH for _, wanted in seen)


# -- runs ----------------------------------------------------------------------------------------------------------------------


def test_a_trained_planner_is_an_agent_by_its_path(run):
    agent = make_agent(f"toolplanner:{run}")
    assert (agent.name, agent.model, agent.env_id) == (f"toolplanner:{run}", f"toolplanner:{run}", "costgym/MarketplaceChat-v0")
    env = costgym.make("costgym/MarketplaceChat-v0", scenario=WORLD, split="test", level="hybrid")
    first, second = (costgym.rollout(env, make_agent(f"toolplanner:{run}"), episodes=4, seed=3) for _ in range(2))
    assert first == second
    assert len(costgym.rollout(env, make_agent(f"toolplanner:{run / 'sft'}"), episodes=2)) == 2


def test_it_is_measured_as_the_others_are(run):
    rows = follow(f"toolplanner:{run}", "tool", 4, scenario=WORLD)
    assert all(row.result.model == f"toolplanner:{run}" and row.tags is not None for row in rows)


@pytest.mark.slow
def test_ablations_leave_their_question_out(tmp_path):
    # without tags and paths the model needs longer until one of its trees solves a task
    train_toolplanner(tmp_path / "run", WORLD, **{**TINY, "tags": False, "path": False, "steps": 80})
    rows = follow(f"toolplanner:{tmp_path / 'run'}", "tool", 2, scenario=WORLD)
    assert all(row.tags is None for row in rows)


def test_a_killed_run_goes_on_and_grows_the_trees_that_are_missing(tmp_path, finished):
    killed = tmp_path / "killed"
    shutil.copytree(finished / "sft", killed / "sft")
    shutil.copy(finished / "config.json", killed / "config.json")
    trees = killed / "sft" / "trees-6-1.jsonl"
    trees.write_bytes(trees.read_bytes()[:-40])  # the last line was cut short
    with (killed / "sft" / "curve.jsonl").open("a") as curve:
        curve.write('{"step": 9, "lo')
    train_toolplanner(killed, WORLD, save_every=2, **TINY)
    assert trees.read_bytes() == (finished / "sft" / "trees-6-1.jsonl").read_bytes()
    assert (newest(killed) / POLICY).read_bytes() == (newest(finished) / POLICY).read_bytes()


def test_a_run_holds_config_seed_and_metrics(finished):
    state = read_state(newest(finished))
    assert state["step"] == 4 and state["loss"] > 0
    config = json.loads((finished / "config.json").read_text())
    assert (config["stage"], config["settings"]["seed"], config["settings"]["rank_steps"]) == (2, 0, 4)
    metrics = json.loads((finished / "metrics.json").read_text())
    assert {"train_match", "train_pass", "loss"} <= set(metrics)
    curve = [json.loads(line) for line in (finished / "curve.jsonl").read_text().splitlines()]
    assert [line["step"] for line in curve] == [1, 2, 3, 4]
    assert all(line["loss"] == pytest.approx(line["sft"] + line["ranking"] + 3 * line["rehearsal"]) for line in curve)


@pytest.mark.slow
def test_an_ablation_may_start_from_the_same_first_stage(tmp_path, finished):
    before = files(finished / "sft")
    train_toolplanner(tmp_path / "other", WORLD, sft=finished / "sft", **{**TINY, "following": False})
    assert files(finished / "sft") == before
    assert not (tmp_path / "other" / "sft").exists()
    with pytest.raises(ConfigError, match="steps 40 there, 41 asked"):
        train_toolplanner(tmp_path / "another", WORLD, sft=finished / "sft", **{**TINY, "steps": 41})
    assert not (tmp_path / "another").exists()


def test_stage_two_may_learn_from_the_trees_of_another_stage_one_and_from_paths_that_are_known(tmp_path, finished, monkeypatch):
    known = demonstrations(WORLD, LearntSettings(**TINY))
    monkeypatch.delattr(toolplanner_training, "demonstrations")  # no teacher plays
    train_toolplanner(tmp_path / "other", WORLD, sft=finished / "sft", trees=finished / "sft", shown=lambda: known, **TINY)
    assert (newest(tmp_path / "other") / POLICY).read_bytes() == (newest(finished) / POLICY).read_bytes()
    (name,) = json.loads((tmp_path / "other" / "config.json").read_text())["data"]
    assert name.startswith("trees-6-1.jsonl ") and len(name.split()[1]) == 32
    for changed, problem in (
        ({"rank_tasks": 5}, r"trees-5-1\.jsonl.*missing"),
        ({"scenario": "marketplace-small"}, "another scenario"),
        ({"tags": False}, "other parts"),
    ):
        options = {"scenario": WORLD, **TINY, **changed}
        with pytest.raises(DataError, match=problem):
            train_toolplanner(tmp_path / "none", trees=finished / "sft", **options)
        assert not (tmp_path / "none").exists()


def test_trees_with_a_tool_that_the_world_lacks_are_refused(tmp_path, finished):
    shutil.copytree(finished / "sft", tmp_path / "sft")
    path = tmp_path / "sft" / "trees-6-1.jsonl"
    for place in ("gold", "called"):
        tree = read_trees(finished / "sft" / path.name)[0]
        name = tree.gold[0] if place == "gold" else next(iter(tree.called()))
        path.write_text((finished / "sft" / path.name).read_text().replace(f'"{name}"', '"no_such_tool"'))
        with pytest.raises(DataError, match=r"trees-6-1\.jsonl.*lacks, 'no_such_tool'"):
            train_toolplanner(tmp_path / "none", WORLD, trees=tmp_path / "sft", **TINY)
    assert not (tmp_path / "none").exists()


def test_damaged_files_are_refused_by_name(run):
    (newest(run) / POLICY).write_bytes(b"\x00" * 64)
    with pytest.raises(DataError, match=r"policy\.safetensors.*cannot be read as weights"):
        make_agent(f"toolplanner:{run}")
    (run / "tokenizer" / "tokenizer.json").write_text("{")
    with pytest.raises(DataError, match=r"tokenizer\.json.*missing or damaged"):
        make_agent(f"toolplanner:{run}")
    shutil.rmtree(run / "checkpoints")
    with pytest.raises(DataError, match="no checkpoint"):
        make_agent(f"toolplanner:{run}")
    with pytest.raises(DataError, match="no training run"):
        make_agent("toolplanner:nowhere")


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("steps", 0, ConfigError),
        ("beta", float("nan"), ConfigError),
        ("tags", 1, ConfigError),
        ("levels", ("wish",), UnknownName),
        ("hidden_size", 10, ConfigError),
        ("learning_rate", -1.0, ConfigError),
    ],
)
def test_settings_that_make_no_sense_are_refused(tmp_path, name, value, error):
    with pytest.raises(error, match=name if error is ConfigError else "wish"):
        train_toolplanner(tmp_path / "run", WORLD, **{**TINY, name: value})
    assert not (tmp_path / "run").exists()


def test_trees_without_a_positive_round_are_said_to_be_so(tmp_path, finished, monkeypatch):
    monkeypatch.setattr(toolplanner_training, "ranked_pairs", lambda *_: [])
    with pytest.raises(ConfigError, match="no round of 6 solution trees is a positive example"):
        train_toolplanner(tmp_path / "run", WORLD, sft=finished / "sft", **TINY)


def test_playing_needs_the_extra(finished, monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(MissingExtra, match=r'pip install "costgym\[train\]"'):
        make_agent(f"toolplanner:{finished}")


def test_it_does_what_it_was_trained_for_and_nothing_else(finished):
    planner = load_planner(finished)
    with pytest.raises(ConfigError, match="asked to vote"):
        planner.complete([Message("user", "A or B?")], (), VOTE)
