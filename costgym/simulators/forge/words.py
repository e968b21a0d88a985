"""Words out of identifiers and summaries, `petId` is "pet ID", and the word lists of the forge: which nouns say nothing, which
names mark an id, which parameters only a machine knows."""

import json
import re
from functools import cache
from pathlib import Path


@cache
def _lists() -> dict[str, tuple[str, ...]]:
    document: dict[str, str] = json.loads((Path(__file__).parent / "lexicon.json").read_text(encoding="utf-8"))
    return {name: tuple(words.split()) for name, words in document.items()}


def listed(name: str) -> tuple[str, ...]:
    """A list of words, in order."""
    return _lists()[name]


def lexicon(name: str) -> frozenset[str]:
    """A list of words, to look words up in."""
    return frozenset(_lists()[name])


def mapped(name: str) -> dict[str, str]:
    """A list of pairs of words, such as "vms:vm", as a mapping."""
    return dict(pair.split(":") for pair in _lists()[name])


JOINED = lexicon("joined")  # words that have a digit in them
LONGEST_WORD = 15  # longer ones are several words that an identifier joins
_PART = re.compile(
    r"(?<![A-Za-z])(?:S3|s3|EC2|Ec2|ec2|K8s|k8s|OAuth2|oauth2|IPv[46]|Ipv[46]|ipv[46]|MD5|md5|SHA1|sha1|SHA256|sha256)(?![a-z0-9])|[A-Z]{2,}s(?![a-z])|[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+"
)
_IRREGULAR = mapped("irregular")
CAPITALS = lexicon("capitals")
_FOREIGN = lexicon("foreign")
_COMMON = lexicon("common")


def split(identifier: str) -> list[str]:
    """The words of an identifier, in small letters."""
    return [part.lower() for part in _PART.findall(identifier.replace("'", "").replace("IoT", "Iot")[:200])]


def written(words: list[str]) -> str:
    """Words as a person writes them, abbreviations in capitals."""
    return " ".join(word.upper() if word in CAPITALS else word for word in words)


def singular(word: str) -> str:
    """The singular of a noun in small letters."""
    if word in _IRREGULAR:
        return _IRREGULAR[word].lower()
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    if word.endswith(("sses", "shes", "ches", "xes", "zes")):
        return word[:-2]
    if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is", "os")):
        return word[:-1]
    return word


def plural(phrase: str) -> str:
    """The plural of a noun phrase."""
    head, _, last = phrase.rpartition(" ")
    if singular(last.lower()) != last.lower() or last.lower() in ("data", "news", "media"):
        made = last
    elif last.endswith("y") and last[-2:-1] not in "aeiou":
        made = last[:-1] + "ies"
    elif last.endswith(("s", "x", "z", "ch", "sh")):
        made = last + "es"
    else:
        made = last + "s"
    return f"{head} {made}" if head else made


def article(phrase: str) -> str:
    """The indefinite article before a noun phrase."""
    first = phrase.split(" ")[0]
    vowel = first[:1].lower() in "aeio" or (first[:1].lower() == "u" and first[:3].lower() not in ("use", "uni", "usa", "uti"))
    if first.isupper() and len(first) > 1:
        vowel = first[0] in "AEFHILMNORSX"
    return "an" if vowel and not first.lower().startswith(("one", "eu")) else "a"


def is_plural(word: str) -> bool:
    """Return whether a noun in small letters is a plural."""
    return singular(word) != word


def is_english(text: str) -> bool:
    """Return whether a text can be English: ASCII letters, and not mostly another language's small words."""
    letters = [c for c in text if c.isalpha()]
    if letters and sum(not c.isascii() for c in letters) > 0.04 * len(letters):
        return False
    words = re.findall(r"[^\W\d_]+", text.lower())
    return sum(word in _FOREIGN for word in words) <= max(1, sum(word in _COMMON for word in words))
