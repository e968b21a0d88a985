"""The policy's mathematics: losses, gradients, and that training sees what decoding sees."""

from dataclasses import replace

import numpy as np
import pytest

from tests.helpers.catp_scores import ShapedScores
from tests.helpers.training import one_thread

torch = pytest.importorskip("torch", reason="the train extra is not installed")
pytest.importorskip("transformers", reason="the train extra is not installed")

from costgym.agents.catp.decoding import episode_logs, step_logs, write_plans  # noqa: E402
from costgym.agents.catp.planner import price_table, ready_policy  # noqa: E402
from costgym.agents.catp.policy import choice_loss  # noqa: E402
from costgym.agents.catp.sequences import Batch, batch_of, importance, rewards_of  # noqa: E402
from costgym.agents.catp.settings import CatpConfig, CatpSettings  # noqa: E402
from costgym.agents.networks import trained_weights  # noqa: E402
from costgym.envs.tpl import END, FIRST_TOOL, INPUT, N_ACTIONS, TplState, kind_of  # noqa: E402
from costgym.experiments.train.catp.dataset import collect, records_of  # noqa: E402
from costgym.experiments.train.catp.learning import OfflineLearner, gradient_loss  # noqa: E402
from costgym.simulators.opencatp import task, tasks  # noqa: E402
from costgym.simulators.opencatp.scoring.evaluation import Evaluator  # noqa: E402
from costgym.simulators.quality import MAX_PRICE_USD  # noqa: E402

TINY = {"hidden_size": 32, "layers": 1, "heads": 2, "batch_size": 8, "walks": 3, "best": 1, "near": 1, "spread": 1}


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    with one_thread():
        yield


@pytest.fixture(scope="module")
def evaluator() -> Evaluator:
    return Evaluator(ShapedScores())


def episodes(evaluator, settings, *numbers):
    return records_of(collect([task(number) for number in numbers], evaluator, settings), settings)[0]


def by_hand(allowed, choice, counts) -> Batch:
    nothing = np.zeros((1, 1), np.int64)
    return Batch(
        nothing, ("",), nothing[0], nothing, nothing, nothing.astype(np.float32), nothing, nothing,
        np.array(choice), np.array(allowed), np.array(counts),
    )  # fmt: skip


def test_the_loss_is_the_cross_entropy_over_the_steps_that_leave_a_choice():
    # Probabilities 0.2 and 0.5 of what was chosen; the third step has one legal choice, the fourth is none at all.
    logs = torch.log(torch.tensor([[[0.2, 0.8, 0.0], [0.25, 0.25, 0.5], [0.0, 1.0, 0.0], [0.9, 0.1, 0.0]]]))
    allowed = [[[True, True, False], [True, True, True], [False, True, False], [True, True, False]]]
    loss = choice_loss(logs, by_hand(allowed, [[0, 2, 1, 0]], [[True, True, True, False]]))
    assert float(loss) == pytest.approx(-(np.log(0.2) + np.log(0.5)) / 2)


def test_the_policy_gradient_weighs_each_plans_likelihood_by_what_it_gained():
    logs = torch.log(torch.tensor([[[0.5, 0.5], [0.25, 0.75]], [[0.1, 0.9], [0.6, 0.4]]]))
    batch = by_hand(np.ones((2, 2, 2), bool), [[0, 1], [1, 0]], [[True, True], [True, False]])
    expected = -(2.0 * (np.log(0.5) + np.log(0.75)) + -1.0 * np.log(0.9)) / 2
    assert float(gradient_loss(logs, batch, np.array([2.0, -1.0]))) == pytest.approx(expected)


def test_forbidden_choices_have_no_probability_and_no_gradient(evaluator):
    settings = CatpSettings(**TINY)
    policy = ready_policy(settings, "cpu")
    record = episodes(evaluator, settings, 24)[0]
    batch = batch_of([record], [(0, 0)], settings)
    logs = policy.log_probabilities(batch)
    assert torch.exp(logs)[0, 0][~torch.from_numpy(batch.allowed[0, 0])].abs().max() == 0
    choice_loss(logs, batch).backward()
    forbidden = [i for i, choice in enumerate((END, *range(FIRST_TOOL, INPUT))) if not batch.allowed[0, 0, choice]]
    assert forbidden
    assert policy.tool_head.bias.grad[forbidden].abs().max() == 0
    assert policy.tool_head.bias.grad.abs().max() > 0


@pytest.mark.parametrize("model", ["llama", pytest.param("gpt2", marks=pytest.mark.slow)])
@pytest.mark.parametrize("method", ["catp", "ift"])
def test_teacher_forcing_equals_step_by_step_decoding(evaluator, model, method):
    settings = CatpSettings(**TINY, model=model, method=method, window=4)
    policy = ready_policy(settings, "cpu")
    requests = [(task(24), 0), (task(215), 3)]
    written = write_plans(policy, requests, price_table(evaluator), 0.0, np.random.default_rng(1))
    records = [plan.record for plan in written]
    assert max(len(record.choices) for record in records) > settings.window
    for record in records:
        last = len(record.choices) - 1
        for first in range(max(1, last - settings.window + 2)):
            forced = batch_of([record], [(first, min(last, first + settings.window - 1))], settings)
            with torch.no_grad():
                at_once = policy(forced)[0]
                for step in range(at_once.shape[0]):
                    alone = batch_of([record], [(first, first + step)], settings)
                    torch.testing.assert_close(policy(alone)[0, -1], at_once[step], rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_a_plan_does_not_depend_on_what_is_written_beside_it(evaluator):
    policy = ready_policy(CatpSettings(**TINY), "cpu")
    requests = [(task, level) for task in tasks("all", "test")[::6] for level in range(4)]
    together = [plan.plan for plan in write_plans(policy, requests, price_table(evaluator))]
    alone = [write_plans(policy, [pair], price_table(evaluator))[0].plan for pair in requests]
    assert together == alone


@pytest.mark.parametrize("seed", range(3))
def test_masks_are_never_violated_whatever_the_weights_say(evaluator, seed):
    policy = ready_policy(CatpSettings(**TINY, seed=seed), "cpu")
    with torch.no_grad():
        policy.tool_head.weight.mul_(50)
        policy.dependency_head.weight.mul_(50)
    requests = [(task, seed) for task in tasks("all")[seed::6]]
    for chance in (None, np.random.default_rng(seed)):
        for (plan_task, _), written in zip(
            requests, write_plans(policy, requests, price_table(evaluator), chance=chance), strict=True
        ):
            state = TplState(kind_of(plan_task))
            for choice in written.record.choices:
                state.push(choice)
            assert state.done
            assert evaluator.evaluate(written.plan, plan_task, 0).price > 0


def test_without_masks_an_untrained_policy_writes_invalid_plans(evaluator):
    policy = ready_policy(CatpSettings(**TINY, mask=False), "cpu")
    requests = [(task, 0) for task in tasks("all", "train")]
    written = write_plans(policy, requests, price_table(evaluator), chance=np.random.default_rng(0))
    assert any(plan.plan is None for plan in written)


@pytest.mark.parametrize("feedback", [True, False])
def test_the_return_asked_for_is_updated_by_what_tools_cost(evaluator, feedback):
    policy = ready_policy(CatpSettings(**TINY, intermediate_feedback=feedback), "cpu")
    prices = price_table(evaluator)
    record = write_plans(policy, [(task(202), 1)], prices, 0.25)[0].record
    expected = [0.25]
    for choice in record.choices[:-1]:
        charged = prices[1][choice - FIRST_TOOL] if FIRST_TOOL <= choice < INPUT else 0.0
        expected.append(expected[-1] + (0.5 * charged / MAX_PRICE_USD if feedback else 0.0))
    assert record.returns == pytest.approx(expected)
    assert (len({round(value, 6) for value in record.returns}) > 1) == feedback


def test_the_authors_code_asks_for_the_same_return_at_every_token(evaluator):
    policy = ready_policy(CatpSettings(**{**TINY, **CatpSettings.preset("code", "sequential")}), "cpu")
    assert (policy.settings.gamma, policy.settings.sampled) == (0.9, True)
    record = write_plans(policy, [(task(202), 1)], price_table(evaluator), 0.25)[0].record
    assert set(record.returns) == {0.25} and CatpSettings.preset("code", "nonsequential")["gamma"] == 1.0


def test_with_the_papers_charge_the_return_asked_for_follows_it_and_the_discount(evaluator):
    policy = ready_policy(CatpSettings(**{**TINY, **CatpSettings.preset("paper"), "gamma": 0.9}), "cpu")
    prices = price_table(evaluator)
    record = write_plans(policy, [(task(202), 1)], prices, 0.25)[0].record
    rewards = rewards_of(record.choices, prices[1], 0.0, 0.5, True, cumulative=True)
    expected = [0.25]
    for reward in rewards[:-1]:
        expected.append((expected[-1] - reward) / 0.9)
    assert record.returns == pytest.approx(expected)


def test_context_augmentation_is_the_attention_over_four_weighed_prices_and_the_tool():
    policy = ready_policy(CatpSettings(**TINY), "cpu")
    encoder = policy.encoder
    table = encoder(policy.prices)
    tool, level = 4, 2
    token_row = encoder.plain()[2 + FIRST_TOOL + tool]
    items = [
        layer.weight[:, 0] * policy.prices[tool, i] + layer.bias + float(importance(level)[i])
        for i, layer in enumerate(encoder.costs)
    ]
    items = torch.stack([*items, token_row])[None]
    fused, _ = encoder.fusion(items[:, -1:], items, items)
    torch.testing.assert_close(table[level, 2 + FIRST_TOOL + tool], token_row + fused[0, 0], rtol=1e-4, atol=1e-5)
    structure = [0, 1, 2 + END, *range(2 + INPUT, 2 + N_ACTIONS)]
    assert torch.equal(table[0, structure], table[3, structure])


def test_the_published_augmentation_shares_one_layer_and_adds_nothing():
    policy = ready_policy(CatpSettings(**TINY, fusion="published"), "cpu")
    encoder, tool, level = policy.encoder, 4, 2
    assert len(encoder.costs) == 1
    token_row = encoder.plain()[2 + FIRST_TOOL + tool]
    layer = encoder.costs[0]
    prices = [layer(policy.prices[tool, i : i + 1]) + float(importance(level)[i]) for i in range(4)]
    items = torch.stack([*prices, token_row])[None]
    causal = torch.ones(5, 5).triu(1).bool()
    fused, _ = encoder.fusion(items, items, items, attn_mask=causal)
    torch.testing.assert_close(encoder(policy.prices)[level, 2 + FIRST_TOOL + tool], fused[0, -1], rtol=1e-4, atol=1e-5)


def test_without_context_augmentation_a_policy_reads_the_size_in_words_and_the_mean_price(evaluator):
    settings = CatpSettings(**TINY, context=False)
    policy = ready_policy(settings, "cpu")
    record = episodes(evaluator, settings, 24)[0]
    batch = batch_of([record], [(0, 2)], settings)
    before = policy(batch)
    assert torch.equal(policy(batch._replace(level=np.array([3]))), before)
    larger = [replace(record, level=level) for level in range(4)]
    windows = [batch_of([one], [(0, 2)], settings)[0] for one in larger]
    assert len({tuple(words[0].tolist()) for words in windows}) == 4
    policy.prices.copy_(policy.prices.flip(1))
    torch.testing.assert_close(policy(batch), before)
    policy.prices.mul_(2.0)
    assert not torch.allclose(policy(batch), before)


def test_a_run_from_before_the_prompt_could_be_chosen_reads_the_short_one_without_costs(evaluator):
    older = CatpSettings().model_dump(exclude={"prompt"}) | {**TINY, "context": False, "size_words": False}
    settings = CatpConfig(trainer="catp", settings=older).settings
    policy = ready_policy(settings, "cpu")
    record = episodes(evaluator, settings, 24)[0]
    batch = batch_of([record], [(0, 2)], settings)
    before = policy(batch)
    policy.prices.mul_(2.0)
    assert torch.equal(policy(batch), before)


def test_sampling_follows_the_probabilities(evaluator):
    policy = ready_policy(CatpSettings(**TINY), "cpu")
    requests = [(task(24), 0)] * 150
    written = write_plans(policy, requests, price_table(evaluator), chance=np.random.default_rng(3))
    first = np.bincount([plan.record.choices[0] for plan in written], minlength=N_ACTIONS) / len(requests)
    with torch.no_grad():
        expected = torch.exp(policy.log_probabilities(batch_of([written[0].record], [(0, 0)], policy.settings)))[0, 0].numpy()
    assert np.abs(first - expected).max() < 0.12
    assert not first[expected == 0].any()


def test_every_end_is_learnt(evaluator):
    settings = CatpSettings(**TINY, window=3)
    records = episodes(evaluator, settings, 24, 202)
    learner = OfflineLearner(ready_policy(settings, "cpu"), records, evaluator, settings, 0.0)
    ends = 0
    for step in range(30):
        batch = learner.batch(step)
        ends += int((batch.counts & (batch.choice == END)).sum())
    assert ends > 10


def test_a_share_of_each_batch_comes_from_plans_near_the_best(evaluator):
    settings = CatpSettings(**{**TINY, "walks": 20, "batch_size": 20, "elite": 0.5, "balance": 0.4})
    records = episodes(evaluator, settings, 24, 202)
    learner = OfflineLearner(ready_policy(settings, "cpu"), records, evaluator, settings, 0.0)
    near = sum(record.regret <= 0.03 for record in records) / len(records)
    returns = []
    for step in range(20):
        batch = learner.batch(step)
        assert sum(text.count("Work out") for text in batch.texts) == 20
        returns += batch.value[:, 0].tolist()
    # Returns are told less the best one, so a plan near the best is told a return near zero at its first state.
    share = sum(value >= -0.03 for value in returns) / len(returns)
    assert share == pytest.approx(0.5 + 0.5 * near, abs=0.15)
    assert near < 0.4


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """A small model on disk, as a published one lies there."""
    transformers = pytest.importorskip("transformers")
    tokenizers = pytest.importorskip("tokenizers")
    pytest.importorskip("peft", reason="the train extra is not installed")
    folder = tmp_path_factory.mktemp("model")
    words = {"[UNK]": 0, "image": 1, "noisy": 2, "caption": 3, "Plan": 4}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="[UNK]").save_pretrained(folder)
    config = transformers.LlamaConfig(
        vocab_size=8, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        max_position_embeddings=320, bos_token_id=None, eos_token_id=None,
    )  # fmt: skip
    transformers.AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    return str(folder)


def test_beside_a_published_model_only_adapters_encoder_and_heads_learn(evaluator, published):
    settings = CatpSettings(**{**TINY, "model": published, "lora_rank": 4})
    policy = ready_policy(settings, "cpu")
    learner = OfflineLearner(policy, episodes(evaluator, settings, 24), evaluator, settings, 0.0)
    before = {name: weight.detach().clone() for name, weight in policy.named_parameters()}
    optimizer = torch.optim.AdamW(trained_weights(policy).values(), lr=1e-2)
    for step in range(2):
        loss, _ = learner.loss(step)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    learnt = {name for name, weight in policy.named_parameters() if not torch.equal(weight, before[name])}
    inside = {name for name in learnt if name.startswith("model.")}
    assert inside and all("lora_" in name for name in inside)
    assert {"tool_head.weight", "dependency_head.weight", "return_in.weight", "encoder.tools.weight"} <= learnt
    frozen = [name for name in before if name.startswith("model.") and "lora_" not in name]
    assert frozen and all(policy.get_parameter(name).grad is None for name in frozen)


def test_a_published_model_reads_the_task_in_words(evaluator, published):
    settings = CatpSettings(**{**TINY, "model": published, "lora_rank": 4})
    policy = ready_policy(settings, "cpu").eval()
    batches = [batch_of(episodes(evaluator, settings, number)[:1], [(0, 0)], settings) for number in (16, 24)]
    assert batches[0].texts != batches[1].texts
    with torch.no_grad():
        assert not torch.equal(policy(batches[0]), policy(batches[0]._replace(texts=batches[1].texts)))


def test_a_published_model_reads_a_shared_prompt_once_and_makes_the_same_of_each_plan(evaluator, published):
    settings = CatpSettings(**{**TINY, "model": published, "lora_rank": 4, "bf16": False})
    policy = ready_policy(settings, "cpu").eval()
    records = [*episodes(evaluator, settings, 24)[:3], *episodes(evaluator, settings, 16)[:2]]
    windows = [(0, len(record.choices) - 1) for record in records]
    read = []
    inner = policy.model.get_base_model()
    watch = inner.register_forward_pre_hook(
        lambda _, args, options: read.append(len(options["inputs_embeds"])), with_kwargs=True
    )
    with torch.no_grad():
        together = policy.log_probabilities(batch_of(records, windows, settings))
        watch.remove()
        levels = {(record.task.task_id, record.level) for record in records}
        assert read == [1, len(levels), 5] and len(levels) < 5
        for row, (record, window) in enumerate(zip(records, windows, strict=True)):
            alone = policy.log_probabilities(batch_of([record], [window], settings))[0]
            torch.testing.assert_close(together[row, : len(alone)], alone, atol=1e-5, rtol=1e-5)


def test_the_beginning_that_prompts_share_teaches_what_it_teaches_in_each_of_them(evaluator, published, monkeypatch):
    settings = CatpSettings(**{**TINY, "model": published, "lora_rank": 4, "bf16": False})
    policy = ready_policy(settings, "cpu").eval()  # no dropout, whose draws would differ
    records = [*episodes(evaluator, settings, 24)[:3], *episodes(evaluator, settings, 16)[:2]]
    batch = batch_of(records, [(0, len(record.choices) - 1) for record in records], settings)

    def learnt():
        policy.zero_grad()
        logs = policy.log_probabilities(batch)
        choice_loss(logs, batch).backward()
        return logs.detach(), {name: weight.grad.clone() for name, weight in trained_weights(policy).items()}

    (logs, gradients), whole = learnt(), policy._prompt
    monkeypatch.setattr(policy, "_prompt", lambda *given: (*whole(*given)[:2], 0))
    each_logs, each_gradients = learnt()
    torch.testing.assert_close(logs, each_logs, atol=1e-5, rtol=1e-5)
    assert gradients.keys() == each_gradients.keys()
    for name, gradient in gradients.items():
        torch.testing.assert_close(gradient, each_gradients[name], atol=1e-5, rtol=1e-3)


@pytest.mark.parametrize("window", [2, 5, 40])
def test_all_steps_of_an_episode_are_read_as_each_alone(evaluator, window):
    settings = CatpSettings(**{**TINY, "window": window})
    policy = ready_policy(settings, "cpu").eval()
    records = [*episodes(evaluator, settings, 24)[:14], *episodes(evaluator, settings, 1)[:6]]
    for record, logs in zip(records, episode_logs(policy, records), strict=True):
        steps = range(len(record.choices))
        alone = step_logs(policy, [record] * len(steps), steps)
        torch.testing.assert_close(logs, alone, atol=1e-5, rtol=1e-5)
