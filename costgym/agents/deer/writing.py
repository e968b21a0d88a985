"""Decisions as text: what a language model reads, what it may answer, and the tokenizer of a small one.

Two rows come of a sample that needs a tool, as DEER has it: whether to search, and, with the candidates in view, which to call,
if any. A published model reads sentences and the functions' signatures, and writes the call with its arguments; a small one
reads control tokens and the telling words of each description (a compact encoding), and answers with the candidate's place.

Source: DEER (arXiv 2402.16696), Section 3.1 and Figure 14; the wording is ours.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from zlib import crc32

from costgym.simulators.decision.samples import Example
from costgym.simulators.decision.toolsets import what_it_does
from costgym.simulators.tools import Tool, ToolText

PAD, UNKNOWN, END = "<pad>", "<unk>", "<end>"
QUERY, DECIDE, TOOLS, SEARCH, ANSWER, NONE = "<query>", "<decide>", "<tools>", "<search>", "<answer>", "<none>"
NO_CALL = " no tool fits"  # what a published model writes instead of a call
CONTROL = (PAD, UNKNOWN, END, QUERY, DECIDE, TOOLS, SEARCH, ANSWER, NONE)
SPARE = 256
"""Tokens for words that the tokenizer does not know: a word always gets the same one, so that it is still found again."""
COMMON_SHARE = 0.05  # a word of more than this share of the descriptions does not tell tools apart
_WORD = re.compile(r"[^\W_]+")


class Row(NamedTuple):
    """A prompt and the answer that the model shall give; only the answer is learnt."""

    prompt: str
    completion: str


def slot(index: int) -> str:
    """Return the token of a candidate's slot."""
    return f"<{index + 1}>"


@dataclass(frozen=True, slots=True)
class Writing:
    """A wording of decisions."""

    compact: bool  # write for a small model
    common: frozenset[str] = frozenset()  # words that a compact description leaves out

    @property
    def search_choices(self) -> tuple[str, str]:
        """Return the choices of the first decision: to search, or to answer."""
        return (SEARCH, ANSWER) if self.compact else (" yes", " no")

    def search_prompt(self, query: str) -> str:
        """Write the prompt of the first decision."""
        if self.compact:
            return f"{QUERY} {query} {DECIDE}"
        return f"Query: {query}\nIs a tool from outside needed to answer it?"

    def call_choices(self, candidates: Sequence[ToolText]) -> list[str]:
        """Return the choices of a small model's second decision: that none fits, or each candidate, in order."""
        return [NONE, *(slot(index) for index in range(len(candidates)))]

    def call_prompt(self, query: str, candidates: Sequence[ToolText]) -> str:
        """Write the prompt of the second decision. The tools come first: a causal model then reads the query knowing them."""
        if self.compact:
            return f"{self.index_prompt(candidates)} {query} {DECIDE}"
        listed = "".join(f"- {signature(tool)}: {what_it_does(tool)}\n" for tool in candidates)
        return f"Tools:\n{listed}Query: {query}\nCall:"

    def index_prompt(self, candidates: Sequence[ToolText]) -> str:
        """Return the candidates, and the mark behind which a query would stand. A tool's place stands before each of its
        words."""
        listed = " ".join(
            f"{slot(index)} {word}" for index, tool in enumerate(candidates) for word in self.telling(tool) or [""]
        )
        return f"{TOOLS} {listed} {QUERY}"

    def telling(self, tool: ToolText) -> list[str]:
        """Return the words of a description that are not common; all of them where none is left."""
        tool_words = words(what_it_does(tool))
        return [word for word in tool_words if word not in self.common] or tool_words

    def rows(self, example: Example) -> tuple[Row, Row | None]:
        """Return a sample's decisions: whether to search, and, where a tool is needed, what to call."""
        needed = example.kind != "NoSearch"
        first = Row(self.search_prompt(example.query), self.search_choices[0 if needed else 1])
        if not needed:
            return first, None
        prompt = self.call_prompt(example.query, example.candidates)
        if self.compact:
            right = 0 if example.gold is None else 1 + example.gold
            return first, Row(prompt, self.call_choices(example.candidates)[right])
        if example.gold is None:
            return first, Row(prompt, NO_CALL)
        return first, Row(prompt, f" {written_call(example.candidates[example.gold], example.task.needs[0].arguments or {})}")


def signature(tool: ToolText) -> str:
    """Return a function as a published model reads it: its name and parameters."""
    parameters = tool.parameters.get("properties", {})
    return f"{tool.name}({', '.join(parameters)})"


def written_call(tool: ToolText, arguments: Mapping[str, Any]) -> str:
    """Return a call as a published model writes it."""
    return f"{tool.name}({', '.join(f'{name}={value!r}' for name, value in arguments.items())})"


def read_call(text: str, candidates: Sequence[ToolText]) -> int | None:
    """Return which candidate a written call is of; None where it names none.

    As in the published code, a candidate is meant whose name is part of what stands before the arguments; of several, the one
    with the longest name.
    """
    function = text.split("(", 1)[0] if "(" in text else ""
    named = [index for index, tool in enumerate(candidates) if tool.name and tool.name in function]
    return max(named, key=lambda index: len(candidates[index].name), default=None)


def words(text: str) -> list[str]:
    """Return the words in lower case; what holds a digit is a name or a number and tells no tool apart."""
    return [word for word in _WORD.findall(text.lower()) if not any(letter.isdigit() for letter in word)]


def common_words(tools: Iterable[Tool]) -> tuple[str, ...]:
    """Return the words that more than `COMMON_SHARE` of the distinct descriptions have, sorted."""
    texts = sorted({what_it_does(tool) for tool in tools})
    counts = Counter(word for text in texts for word in sorted(set(words(text))))
    return tuple(sorted(word for word, count in counts.items() if count > COMMON_SHARE * len(texts)))


def spare(word: str) -> str:
    """Return the spare token of a word."""
    return f"<spare{crc32(word.casefold().encode()) % SPARE}>"


def small_tokenizer(texts: Iterable[str], slots: int, most: int = 4000) -> Any:
    """Return a tokenizer of whole words, the most frequent of some texts; `prompt_ids` gives other words their spare tokens.

    Numbers and names with digits become one token: what matters of them is that they are there.
    """
    import tokenizers
    import transformers

    normal = tokenizers.normalizers
    normalizer = normal.Sequence(
        [
            normal.BertNormalizer(lowercase=True, strip_accents=True, handle_chinese_chars=False),
            normal.Replace(tokenizers.Regex(r"\w*\d\w*"), "#"),
            normal.Replace(tokenizers.Regex(r"[',\-_]"), " "),
        ]
    )
    splitter = tokenizers.pre_tokenizers.BertPreTokenizer()
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(word for word, _ in splitter.pre_tokenize_str(normalizer.normalize_str(text)))
    control = [*CONTROL, *(slot(index) for index in range(slots))]
    spares = [f"<spare{number}>" for number in range(SPARE)]
    frequent = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:most]
    entries = [*control, *sorted(word for word, _ in frequent), *spares]
    vocabulary = {entry: number for number, entry in enumerate(dict.fromkeys(entries))}
    model = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token=UNKNOWN))
    model.normalizer, model.pre_tokenizer = normalizer, splitter
    model.add_special_tokens([tokenizers.AddedToken(token, special=True, normalized=False) for token in control])
    return transformers.PreTrainedTokenizerFast(tokenizer_object=model, unk_token=UNKNOWN, pad_token=PAD, eos_token=END)


def prompt_ids(tokenizer: Any, text: str) -> list[int]:
    """Return the tokens of what is read; unknown words of a small tokenizer become spare ones."""
    if tokenizer.unk_token != UNKNOWN:
        published: list[int] = tokenizer(text)["input_ids"]
        return published
    read = tokenizer(text, return_offsets_mapping=True)
    return [
        tokenizer.convert_tokens_to_ids(spare(text[start:end])) if token == tokenizer.unk_token_id else token
        for token, (start, end) in zip(read["input_ids"], read["offset_mapping"], strict=True)
    ]


def completion_ids(tokenizer: Any, text: str) -> list[int]:
    """Return the tokens of an answer, with the end."""
    tokens: list[int] = tokenizer(text, add_special_tokens=False)["input_ids"]
    return [*tokens, tokenizer.eos_token_id]
