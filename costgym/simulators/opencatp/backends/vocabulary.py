"""Words as numbers, for the tiny back-end's language models."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import takewhile

from costgym.simulators.opencatp.scenes import language
from costgym.simulators.opencatp.scenes.language import Facts

PAD, START, END, UNKNOWN = range(4)
MAX_WORDS = 64  # longer texts are cut, as the published models cut theirs


@dataclass(frozen=True)
class Vocabulary:
    """A fixed list of words; the first four numbers are pad, start, end and unknown."""

    words: tuple[str, ...]

    @cached_property
    def _number(self) -> dict[str, int]:
        return {w: i + 4 for i, w in enumerate(self.words)}

    def __len__(self) -> int:
        return len(self.words) + 4

    def encode(self, text: str) -> list[int]:
        """Word numbers of a text; never empty, at most `MAX_WORDS`."""
        return [self._number.get(w, UNKNOWN) for w in split(text)[:MAX_WORDS]] or [UNKNOWN]

    def decode(self, numbers: Sequence[int]) -> str:
        """The text of word numbers up to the first end; punctuation is set as written."""
        words = takewhile(lambda number: number != END, numbers)
        return " ".join(self.words[number - 4] for number in words if number > UNKNOWN).replace(" ,", ",")


def split(text: str) -> list[str]:
    """Words and punctuation marks."""
    return text.replace(",", " , ").replace(".", " . ").split()


def _all_texts(german: bool) -> list[str]:
    texts = [language.sentiment(w, german) for w in language.WEATHERS]
    kites = [Facts("kite", "plain", landscape, w, (), (0, 0)) for landscape in language.PLACES for w in language.WEATHERS]
    objects = [Facts(k, t, "sea", "sunny", language.THINGS, (0, 0)) for k in language.KINDS for t in language.TEXTURES]
    texts += [facts.caption(german) for facts in (*objects, *kites)]
    reports = [Facts("kite", "plain", "sea", w, ("boat",), (m, m)) for w in language.WEATHERS for m in range(4)]
    texts += [facts.report(german) for facts in reports]
    return [*texts, language.object_list(language.OBJECTS, german)]


@lru_cache(maxsize=2)
def vocabulary(german: bool = False) -> Vocabulary:
    """Every word of the generated language in English or German, sorted."""
    return Vocabulary(tuple(sorted({w for text in _all_texts(german) for w in split(text)})))
