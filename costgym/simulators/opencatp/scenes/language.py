"""The small language of the generated scenes: labels, object lists, captions, reports and summaries, in English and German.

Everything a scene says is composed from the words here, so every English text has exactly one German counterpart, and the
language models of the tiny back-end can be trained and checked on it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

KINDS = ("fish", "butterfly", "kite", "umbrella", "ball", "balloon")
TEXTURES = ("plain", "striped", "dotted", "checked")
THINGS = ("boat", "house", "tree", "cloud", "bird", "flower", "fence", "lamp")
PLACES = ("meadow", "sea", "beach", "snow", "desert")
WEATHERS = ("sunny", "rain")
OBJECTS = KINDS + THINGS
SENTIMENTS = ("positive", "negative")

_NOUN_DE = {
    "fish": "Fisch", "butterfly": "Schmetterling", "kite": "Drachen", "umbrella": "Schirm", "ball": "Ball",
    "balloon": "Ballon",
    "boat": "Boot", "house": "Haus", "tree": "Baum", "cloud": "Wolke", "bird": "Vogel", "flower": "Blume",
    "fence": "Zaun", "lamp": "Laterne",
}  # fmt: skip
_FEMININE = frozenset({"cloud", "flower", "lamp"})
_ADJECTIVE_DE = {"plain": "einfarbiger", "striped": "gestreifter", "dotted": "gepunkteter", "checked": "karierter"}
_LANDSCAPE = {
    "meadow": ("on the meadow", "auf der Wiese"),
    "sea": ("over the sea", "über dem Meer"),
    "beach": ("at the beach", "am Strand"),
    "snow": ("in the snow", "im Schnee"),
    "desert": ("in the desert", "in der Wüste"),
}
_WEATHER = {"sunny": ("on a sunny day", "an einem sonnigen Tag"), "rain": ("in the rain", "im Regen")}
_SENTIMENT_DE = {"positive": "positiv", "negative": "negativ"}

# Openings and closings of a report, by mood. Some negate, so that no single word decides the sentiment.
MOODS: dict[str, tuple[tuple[str, str], ...]] = {
    "sunny": (
        ("what a lovely day", "was für ein schöner Tag"),
        ("the weather is not bad at all", "das Wetter ist gar nicht schlecht"),
        ("i have never felt better", "ich habe mich nie besser gefühlt"),
        ("the light is good", "das Licht ist gut"),
    ),
    "rain": (
        ("what an awful day", "was für ein schrecklicher Tag"),
        ("the weather is not good at all", "das Wetter ist gar nicht gut"),
        ("i have never felt worse", "ich habe mich nie schlechter gefühlt"),
        ("the light is bad", "das Licht ist schlecht"),
    ),
}


def listing(words: Sequence[str], conjunction: str) -> str:
    """The words joined by commas, the last one by a conjunction."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {conjunction} {words[-1]}"


def label(kind: str, texture: str, german: bool = False) -> str:
    """The class label of a scene, such as `striped fish`."""
    return f"{_ADJECTIVE_DE[texture]} {_NOUN_DE[kind]}" if german else f"{texture} {kind}"


def object_list(names: Sequence[str], german: bool = False) -> str:
    """Object names joined by commas, in the order of `OBJECTS`."""
    return ", ".join(_NOUN_DE[n] if german else n for n in sorted(names, key=OBJECTS.index))


def sentiment(weather: str, german: bool = False) -> str:
    """`positive` on a sunny day, `negative` in the rain."""
    word = SENTIMENTS[WEATHERS.index(weather)]
    return _SENTIMENT_DE[word] if german else word


@dataclass(frozen=True, slots=True, eq=False)
class Facts:
    """The facts about a scene, in the words above, and the texts that state them."""

    kind: str
    texture: str
    landscape: str
    weather: str
    things: tuple[str, ...]
    moods: tuple[int, int]  # numbers of the two mood sentences that open and close the report

    def label(self, german: bool = False) -> str:
        return label(self.kind, self.texture, german)

    def sentiment(self, german: bool = False) -> str:
        return sentiment(self.weather, german)

    def summary(self, german: bool = False) -> str:
        """Say in the fewest words what a scene is about."""
        return f"{'ein' if german else 'a'} {self.label(german)} {_LANDSCAPE[self.landscape][german]}"

    def caption(self, german: bool = False) -> str:
        """Name everything in a scene in one sentence."""
        core = f"{self.summary(german)} {_WEATHER[self.weather][german]}"
        return f"{core} {self._with_things(german)}" if self.things else core

    def report(self, german: bool = False) -> str:
        """A short text about a scene: an opening, what is there, and a closing."""
        opening, closing = (MOODS[self.weather][mood][german] for mood in self.moods)
        sentences = [opening, f"{'hier ist' if german else 'there is'} {self.summary(german)}"]
        if self.things:
            sentences.append(("ein Bild " if german else "a picture ") + self._with_things(german))
        return " . ".join([*sentences, closing]) + " ."

    def _with_things(self, german: bool) -> str:
        ordered = sorted(self.things, key=THINGS.index)
        if german:
            return "mit " + listing([f"{'einer' if t in _FEMININE else 'einem'} {_NOUN_DE[t]}" for t in ordered], "und")
        return "with " + listing([f"a {t}" for t in ordered], "and")
