"""The language model behind a trained DEER policy: a small one from a config, or a published one with LoRA."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from costgym.agents.deer.settings import DeerSettings
from costgym.agents.networks import padded, without_adapters
from costgym.simulators.errors import require

IGNORED = -100  # the label of a token that is read but not learnt
_SHARP, _QUIET = 1.5, 0.1
_BATCH = 64  # sequences that are read together
_WRITTEN_TOGETHER = 16
LONGEST_CALL = 96  # tokens of a written call


def small_model(tokens: int, settings: DeerSettings, pad: int, end: int) -> Any:
    """Return a small causal transformer with random weights, made so that it finds equal words.

    To see that a word of the query stands in a tool's description is all it has to learn, and what gradients from one label per
    sample hardly teach. Four choices make it learnable in minutes: the first layer looks only one token back, which binds each
    word of a description to the tool's place; the second starts with equal projections of queries and keys, and a sharp look,
    so that a token attends to its like from the start; embeddings are as large as what attention adds to them, so that neither
    drowns the other; and what else the layers add starts small, so that equal words are still alike in the second.
    """
    torch = require("torch", "train")
    transformers = require("transformers", "train")
    config = transformers.Qwen3Config(
        vocab_size=tokens,
        hidden_size=settings.hidden_size,
        intermediate_size=2 * settings.hidden_size,
        num_hidden_layers=settings.layers,
        num_attention_heads=settings.heads,
        num_key_value_heads=settings.heads,
        head_dim=settings.hidden_size // settings.heads,
        max_position_embeddings=1024,
        initializer_range=settings.hidden_size**-0.5,
        use_sliding_window=True,
        sliding_window=settings.window,
        layer_types=["sliding_attention", *["full_attention"] * (settings.layers - 1)],
        # a long wavelength: far apart, equal words still look alike
        rope_parameters={"rope_type": "default", "rope_theta": 1e8},
        tie_word_embeddings=False,
        use_cache=False,
        pad_token_id=pad,
        eos_token_id=end,
        bos_token_id=None,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        model = transformers.Qwen3ForCausalLM(config)
        with torch.no_grad():
            model.model.embed_tokens.weight.normal_(0.0, 1.0)
            model.lm_head.weight.normal_(0.0, 0.02)
            for layer in model.model.layers[1:2]:
                layer.self_attn.q_proj.weight.copy_(layer.self_attn.k_proj.weight)
                layer.self_attn.q_norm.weight.fill_(_SHARP)
                layer.self_attn.k_norm.weight.fill_(_SHARP)
            for number, layer in enumerate(model.model.layers):
                layer.mlp.down_proj.weight.mul_(_QUIET)
                if number > 1:
                    layer.self_attn.o_proj.weight.mul_(_QUIET)
    return model


def completion_loss(model: Any, input_ids: Any, attention_mask: Any, labels: Any) -> tuple[Any, Any]:
    """Mean cross-entropy of the labels (rows, tokens) that are not `IGNORED`, and the share that is found likeliest."""
    torch = require("torch", "train")
    causal = without_adapters(model)
    hidden = causal.get_decoder()(input_ids=input_ids, attention_mask=attention_mask, use_cache=False).last_hidden_state
    learnt = labels[:, 1:] != IGNORED
    scores = causal.get_output_embeddings()(hidden[:, :-1][learnt])  # (learnt tokens, vocabulary)
    wanted = labels[:, 1:][learnt]
    return torch.nn.functional.cross_entropy(scores.float(), wanted), (scores.argmax(-1) == wanted).float().mean()


def next_scores(
    model: Any, sequences: Sequence[Sequence[int]], tokens: Sequence[Sequence[int]], pad: int
) -> list[np.ndarray[Any, Any]]:
    """Return for each sequence the scores of its `tokens` behind it; rows of like length are read together."""
    torch = require("torch", "train")
    causal = without_adapters(model)
    device = next(causal.parameters()).device
    order = sorted(range(len(sequences)), key=lambda index: len(sequences[index]))
    results: list[Any] = [None] * len(sequences)
    with torch.no_grad():
        for start in range(0, len(order), _BATCH):
            indices = order[start : start + _BATCH]
            ids, mask = padded([sequences[index] for index in indices], pad)
            read = causal.get_decoder()(input_ids=ids.to(device), attention_mask=mask.to(device), use_cache=False)
            hidden = read.last_hidden_state
            last = hidden[torch.arange(len(indices)), torch.tensor([len(sequences[index]) - 1 for index in indices])]
            for index, row in zip(indices, causal.get_output_embeddings()(last).float().cpu().numpy(), strict=True):
                results[index] = row[list(tokens[index])]
    return results


def next_texts(model: Any, sequences: Sequence[Sequence[int]], pad: int, end: int, last: Sequence[int] = ()) -> list[list[int]]:
    """Return the tokens that a model writes behind each sequence, the likeliest at each step, up to its end, or to the first
    token of `last`, which is kept; rows of like length are read together.

    `generate` of transformers would obey the model's own settings, such as a penalty for repeating, and, where a processor
    multiplies in bfloat16, copy the output matrix once a row.
    """
    torch = require("torch", "train")
    causal = without_adapters(model)
    device = next(causal.parameters()).device
    order = sorted(range(len(sequences)), key=lambda index: len(sequences[index]))
    stops = {end, *last}
    written: list[list[int]] = [[] for _ in sequences]
    with torch.inference_mode():
        for start in range(0, len(order), _WRITTEN_TOGETHER):
            open_rows = order[start : start + _WRITTEN_TOGETHER]
            ids, mask = (tensor.flip(1) for tensor in padded([sequences[index][::-1] for index in open_rows], pad))
            ids, mask, cache = ids.to(device), mask.to(device), None
            for _ in range(LONGEST_CALL):
                places = (mask.cumsum(1) - 1).clamp(min=0)[:, -ids.shape[1] :]  # of tokens, without the padding before them
                read = causal.get_decoder()(
                    input_ids=ids, attention_mask=mask, position_ids=places, past_key_values=cache, use_cache=True
                )
                cache = read.past_key_values
                tokens = causal.get_output_embeddings()(read.last_hidden_state[:, -1].contiguous()).argmax(-1)
                likeliest = tokens.tolist()
                for index, token in zip(open_rows, likeliest, strict=True):
                    written[index] += [token] if token != end else []
                going_on = [row for row, token in enumerate(likeliest) if token not in stops]
                if not going_on:
                    break
                if len(going_on) < len(open_rows):
                    open_rows, tokens, mask = [open_rows[row] for row in going_on], tokens[going_on], mask[going_on]
                    cache.batch_select_indices(torch.tensor(going_on, device=device))
                ids, mask = tokens[:, None], torch.cat([mask, mask.new_ones(len(open_rows), 1)], dim=1)
    return written
