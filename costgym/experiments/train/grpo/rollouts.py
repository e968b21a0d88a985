"""Rollouts for GRPO, where the model in training plays a step's episodes side by side, and TRL's trainer for such episodes."""

from collections.abc import Sequence
from typing import Any

import torch
import trl

from costgym.agents.models.call_forms import read_calls
from costgym.agents.models.decoding import Decoder
from costgym.experiments.play.text_episode import ToolEpisode
from costgym.experiments.train.grpo.settings import GrpoSettings
from costgym.experiments.train.grpo.world import LOGGED, GrpoWorld
from costgym.simulators.draws import stable_integer
from costgym.simulators.errors import ConfigError


class Rollouts:
    """The `rollout_func` of TRL's trainer."""

    def __init__(self, world: GrpoWorld, settings: GrpoSettings) -> None:
        self.world, self.settings = world, settings

    def __call__(self, prompts: Sequence[str], trainer: Any) -> dict[str, list[Any]]:
        """Play the episodes that the prompts name, with tokens drawn from the present model by the seed and the step alone.
        Returns for each the tokens of its prompt and completion, `env_mask`, which is 1 for those that the model said, and what
        `episode_quality` takes."""
        model, settings = trainer.accelerator.unwrap_model(trainer.model), self.settings
        luck = torch.Generator(model.device).manual_seed(
            stable_integer(settings.seed, "rollouts", int(trainer.state.global_step)) % 2**63
        )
        played = [_Played(self.world.episode(prompt), trainer.processing_class, settings) for prompt in prompts]
        training = model.training
        model.eval()

        def choose(logits: Any) -> list[int]:
            shares = torch.softmax(logits.float() / settings.temperature, dim=-1)
            drawn: list[int] = torch.multinomial(shares, 1, generator=luck)[:, 0].tolist()
            return drawn

        try:
            end = trainer.processing_class.eos_token_id
            decoder = Decoder(model, end, len(played), settings.max_reply_length, choose)
            for seat, episode in enumerate(played):
                decoder.begin(seat, episode.ids)
            playing = set(range(len(played)))
            while playing:
                for seat, tokens in decoder.step().items():
                    if played[seat].hear(tokens):
                        decoder.begin(seat, played[seat].ids)
                    else:
                        playing.remove(seat)
        finally:
            model.train(training)
        scores = [episode.episode.score() for episode in played]
        return {
            "prompt_ids": [episode.ids[: episode.prompt] for episode in played],
            "completion_ids": [episode.ids[episode.prompt :] for episode in played],
            "env_mask": [episode.mask for episode in played],
            "logprobs": None,  # type: ignore[dict-item]  # of use only where another engine says the tokens
            **{name: [score[name] for score in scores] for name in ("quality", *LOGGED)},
        }


class _Played:
    """An episode and its tokens: a prompt, then what the model said and what it was told."""

    def __init__(self, episode: ToolEpisode, tokenizer: Any, settings: GrpoSettings) -> None:
        self.episode, self._tokenizer, self._settings = episode, tokenizer, settings
        self._messages: list[dict[str, Any]] = [*episode.prompt()]
        self._tools = [function.document() for function in episode.functions]
        self.ids = self._tokens(self._write(True))
        self.prompt, self.mask = len(self.ids), list[int]()

    def hear(self, tokens: Sequence[int]) -> bool:
        """Play a reply; return whether the episode goes on."""
        text, calls, _ = read_calls(str(self._tokenizer.decode(tokens, skip_special_tokens=True)), lenient=True)
        self._add(tokens, 1)
        if not calls:
            self.episode.finish(text)  # as the agent `react` takes it
            return False
        answers = self.episode.say(text, calls)
        functions = [{"name": str(call.name), "arguments": call.read() or {}} for call in calls]
        tool_calls = [{"type": "function", "function": function} for function in functions]
        self._messages.append({"role": "assistant", "content": text, "tool_calls": tool_calls})
        before = self._write(False).rstrip("\n")
        self._messages += answers
        after = self._write(True)
        if not after.startswith(before):
            raise ConfigError("model", "its chat template changes the beginning of a conversation as it goes on")
        added = self._tokens(after[len(before) :])
        if tokens[-1] != self._tokenizer.eos_token_id:
            added = [self._tokenizer.eos_token_id, *added]  # the reply was cut off
        room = self._settings.max_completion_length - len(self.mask) - len(added)
        if self.episode.over or room < self._settings.max_reply_length:
            return False
        self._add(added, 0)
        return True

    def _add(self, tokens: Sequence[int], mark: int) -> None:
        self.ids += tokens
        self.mask += [mark] * len(tokens)

    def _write(self, prompt: bool) -> str:
        return str(
            self._tokenizer.apply_chat_template(self._messages, tools=self._tools, tokenize=False, add_generation_prompt=prompt)
        )

    def _tokens(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer(text, add_special_tokens=False)["input_ids"]
        return ids


class GrpoTrainer(trl.GRPOTrainer):  # type: ignore[misc]
    """Works out the probabilities of what the model said, a row at a time; the loss is TRL's.

    TRL alone does so for every token where there is no Triton: prompts, results of tools and padding included, each with logits
    of the whole vocabulary, which takes longer than all the rest of a step.
    """

    _marks: Any = None

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> Any:
        self._marks = inputs.get("tool_mask")
        try:
            return super()._compute_loss(model, inputs)
        finally:
            self._marks = None

    def _get_per_token_logps_and_entropies(
        self, model: Any, input_ids: Any, attention_mask: Any, logits_to_keep: int, *_: Any, **__: Any
    ) -> tuple[Any, Any, None]:
        """Log-probabilities and entropies, (rows, logits_to_keep); zero where the model said nothing."""
        shown = attention_mask[:, -logits_to_keep:]
        marks = shown if self._marks is None else shown * self._marks
        caches = [
            self._row(model, ids[present.bool()], int(present[:-logits_to_keep].sum()), mark)
            for ids, present, mark in zip(input_ids, attention_mask, marks, strict=True)
        ]
        logps, entropies = (torch.stack(parts) for parts in zip(*caches, strict=True))
        return logps, entropies, None

    def _row(self, model: Any, ids: Any, prompt: int, mark: Any) -> tuple[Any, Any]:
        # logits of the positions before the model's own tokens alone: the vocabulary's matrix is most of the work
        positions = mark.nonzero()[:, 0]
        with self.accelerator.autocast():
            logits = model(input_ids=ids[None], logits_to_keep=prompt + positions - 1, use_cache=False).logits[0]
        shares = torch.log_softmax(logits.float() / self.temperature, dim=-1)
        logps = shares.new_zeros(mark.shape).index_put((positions,), shares.gather(-1, ids[prompt + positions][:, None])[:, 0])
        with torch.no_grad():
            entropies = shares.new_zeros(mark.shape).index_put((positions,), -(shares.exp() * shares).sum(-1))
        return logps, entropies
