"""The three text tools by one causal language model, which is asked in words and answers in one line."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from costgym.simulators.errors import DataError, require
from costgym.simulators.opencatp.scenes.language import SENTIMENTS

REQUESTS = {
    "machine_translation": "Translate this English text into German. Write the German text only.",
    "text_summarization": "Summarise this text in one short sentence. Write the sentence only.",
    "sentiment_analysis": f"Is the mood of this text {' or '.join(SENTIMENTS)}? Write one word only.",
}
MAX_NEW_TOKENS, LONGEST = 48, 512


class TextWriter:
    """A causal language model of a folder; nothing is downloaded. The likelier of two words is the mood of a text.

    Raises MissingExtra without transformers, DataError where the folder holds no such model.
    """

    def __init__(self, folder: Path | str, device: str = "cpu", batch_size: int = 8) -> None:
        self._torch, transformers = require("torch", "packaged"), require("transformers", "packaged")
        self.folder, self.device, self.batch_size = Path(folder), device, batch_size
        try:
            of_folder = {"pretrained_model_name_or_path": str(folder), "local_files_only": True}
            self._tokenizer = transformers.AutoTokenizer.from_pretrained(padding_side="left", **of_folder)
            network = transformers.AutoModelForCausalLM.from_pretrained(use_safetensors=True, **of_folder)  # never a pickle
            self._network = network.float().eval().to(device)
        except (OSError, ValueError, KeyError) as error:
            reason = str(error).splitlines()[0][:200]
            raise DataError(folder, f"no causal language model that can be loaded ({reason}); name a model's folder") from error
        if self._tokenizer.pad_token is None:
            self._tokenizer.pad_token = self._tokenizer.eos_token

    def write(self, tool: str, texts: Sequence[str]) -> list[str]:
        """The outputs of a text tool, one line for each text."""
        parts = [texts[at : at + self.batch_size] for at in range(0, len(texts), self.batch_size)]
        with self._torch.inference_mode():
            step = self._moods if tool == "sentiment_analysis" else self._answers
            return [text for part in parts for text in step(self._read([self.prompt(tool, text) for text in part]))]

    def prompt(self, tool: str, text: str) -> str:
        """The request as the model reads it: by its chat template, where it has one."""
        request = f"{REQUESTS[tool]}\n\n{text}"
        if self._tokenizer.chat_template is None:
            return f"{request}\n\nAnswer:"
        messages = [{"role": "user", "content": request}]
        return str(self._tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True))

    def _read(self, prompts: list[str]) -> Any:
        read = self._tokenizer(prompts, return_tensors="pt", padding=True, truncation=True, max_length=LONGEST)
        return {name: read[name].to(self.device) for name in ("input_ids", "attention_mask")}

    def _answers(self, read: Any) -> list[str]:
        limits = {"max_new_tokens": MAX_NEW_TOKENS, "do_sample": False, "pad_token_id": self._tokenizer.pad_token_id}
        made = self._network.generate(**read, **limits)[:, read["input_ids"].shape[1] :]
        texts = self._tokenizer.batch_decode(made, skip_special_tokens=True)
        lines = [[line for line in text.splitlines() if line.strip()] for text in texts]
        return [" ".join(written[0].split()) if written else "" for written in lines]  # a table holds one line a text

    def _moods(self, read: Any) -> list[str]:
        scores = self._network(**read).logits[:, -1]
        first = [self._tokenizer(word, add_special_tokens=False)["input_ids"][0] for word in SENTIMENTS]
        return [SENTIMENTS[choice] for choice in scores[:, first].argmax(1).tolist()]

    def weights_hash(self) -> str:
        """Hash of the weights and the prompts."""
        state = hashlib.sha256(repr(sorted(REQUESTS.items())).encode())
        for path in sorted(self.folder.glob("*.safetensors")):
            with path.open("rb") as file:
                state.update(hashlib.file_digest(file, "sha256").digest())
        return state.hexdigest()
