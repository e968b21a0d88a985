"""The 87 sequential and 24 non-sequential tasks, generated from their rules, in both numberings.

A task gives a degraded image and wants one or several outputs: the restored image, or a caption, a class label or the names of
the objects in it, in English or German.

Two numberings are in use. The *old* one counts OpenAGI's task list from 0: 0..14 restore the image under degradation
D_0..D_14, 15 + 6·j + k reads the image under D_j (k: caption, label, objects in German, then in English), 200..229 want several
outputs. The *new* one ranks those that OpenCATP kept: 0..86 and 200..223. Its published lists fix which sequential tasks were
kept in all but three places, where several choices agree with everything published (`UNCERTAIN_OLD_IDS`); there the lowest
numbers are kept here.

Source: OpenCATP-LLM, commit a06e1f2, src/config.py (new numbering and splits) and src/catpllm/data (old numbering).
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from costgym.simulators.errors import ConfigError, UnknownName
from costgym.simulators.opencatp.scenes.degrade import COMBINATIONS
from costgym.simulators.opencatp.scenes.language import listing

Kind = Literal["sequential", "nonsequential"]
Split = Literal["train", "test"]
Numbering = Literal["old", "new"]


@dataclass(frozen=True, slots=True)
class Output:
    """An output that a task wants."""

    kind: str  #: ``image``, ``caption``, ``label`` or ``object``
    german: bool = False  #: the text is wanted in German

    @property
    def name(self) -> str:
        """Its name in outcome tables: the kind, with ``_de`` for German."""
        return f"{self.kind}_de" if self.german else self.kind

    @property
    def is_image(self) -> bool:
        """Return whether it is the image, rather than a text about it."""
        return self.kind == "image"


@dataclass(frozen=True, slots=True)
class OpenCATPTask:
    """A task of the OpenCATP world."""

    task_id: int  #: number in the old numbering; the one used throughout
    new_id: int  #: number in the new numbering
    kind: Kind  #: ``sequential`` (one output) or ``nonsequential`` (several)
    split: Split  #: ``train`` or ``test``
    combination: int  #: index in `degrade.COMBINATIONS` of the degradations that the image suffers, 0 to 14
    wants: tuple[Output, ...]  #: the wanted outputs, in the order asked

    @property
    def degradations(self) -> tuple[str, ...]:
        """The degradations of the image."""
        return COMBINATIONS[self.combination]

    @property
    def wanted_images(self) -> int:
        """Number of wanted images, 0 or 1."""
        return sum(want.is_image for want in self.wants)

    @property
    def wanted_texts(self) -> int:
        """Number of wanted texts, 0 to 2."""
        return len(self.wants) - self.wanted_images

    @property
    def description(self) -> str:
        """The task in words."""
        spoilt = listing([_ADJECTIVE[name] for name in self.degradations], "and")
        wanted = listing([_phrase(want) for want in self.wants], "and")
        return f"The given image is {spoilt}. Work out step by step, with the tools at hand, {wanted}."


_ADJECTIVE = {"low-resolutioned": "of low resolution", "noisy": "noisy", "blurry": "blurry", "grayscale": "without colour"}
_TEXT_PHRASE = {
    "caption": "a caption of what it shows",
    "label": "the class it belongs to",
    "object": "the names of the objects in it",
}


def _phrase(want: Output) -> str:
    language = "German" if want.german else "English"
    return "the image as it was before" if want.is_image else f"{_TEXT_PHRASE[want.kind]} in {language}"


_READ = ("caption", "label", "object")
_DROPPED = (2, 3, 11, 15, 17, 28, 42, 58, 61, 78)
UNCERTAIN_OLD_IDS = ((21, 22, 23, 26), (64, 66, 69, 70), (99, 100, 102, 104))  # kept: two, one, one of them
_KEPT_OF_UNCERTAIN = (21, 22, 64, 99)
_SEQUENTIAL_TEST = (0, 8, 10, 16, 18, 27, 29, 39, 45, 49, 55, 62, 75, 76, 84, 89, 93, 96)

# Old id: degradations (L low resolution, N noise, B blur, G grey) and outputs (I image, C caption, L label, O objects; a
# lower-case letter wants German).
_NONSEQUENTIAL = {
    201: ("LNB", "IO"), 202: ("LNB", "IC"), 203: ("BG", "OIC"), 204: ("NB", "OcI"), 205: ("LN", "LI"), 206: ("NBG", "Lc"),
    207: ("NG", "Ic"), 208: ("NB", "Il"), 209: ("B", "Lc"), 211: ("LNBG", "IO"), 212: ("LNBG", "OC"), 213: ("LNG", "LI"),
    215: ("LNG", "IcO"), 217: ("NB", "oC"), 218: ("LN", "Lc"), 219: ("LG", "cO"), 220: ("LG", "IOl"), 222: ("NBG", "IOL"),
    223: ("NG", "OIl"), 224: ("LNB", "lO"), 225: ("LNB", "Io"), 226: ("LN", "CO"), 228: ("LNBG", "CO"), 229: ("LNB", "Cl"),
}  # fmt: skip
_NONSEQUENTIAL_TEST = (201, 203, 204, 205, 206, 208, 211, 215, 219, 223, 224, 226)
_DEGRADATION = {"L": "low-resolutioned", "N": "noisy", "B": "blurry", "G": "grayscale"}
_OUTPUT = {"I": "image", "C": "caption", "L": "label", "O": "object"}


@lru_cache(maxsize=1)
def all_tasks() -> tuple[OpenCATPTask, ...]:
    """All 111 tasks, sequential first, by number."""
    gone = {*_DROPPED, *(i for group in UNCERTAIN_OLD_IDS for i in group if i not in _KEPT_OF_UNCERTAIN)}
    made: list[OpenCATPTask] = []
    for new_id, task_id in enumerate(i for i in range(105) if i not in gone):
        if task_id < 15:
            combination, want = task_id, Output("image")
        else:
            combination, k = divmod(task_id - 15, 6)
            want = Output(_READ[k % 3], german=k < 3)
        split: Split = "test" if task_id in _SEQUENTIAL_TEST else "train"
        made.append(OpenCATPTask(task_id, new_id, "sequential", split, combination, (want,)))
    for new_id, (task_id, (spoilt, outputs)) in enumerate(_NONSEQUENTIAL.items(), start=200):
        combination = COMBINATIONS.index(tuple(_DEGRADATION[letter] for letter in spoilt))
        wants = tuple(Output(_OUTPUT[letter.upper()], german=letter.islower()) for letter in outputs)
        split = "test" if task_id in _NONSEQUENTIAL_TEST else "train"
        made.append(OpenCATPTask(task_id, new_id, "nonsequential", split, combination, wants))
    return tuple(made)


def tasks(kind: str = "all", split: str | None = None) -> tuple[OpenCATPTask, ...]:
    """The tasks of a kind (``sequential``, ``nonsequential`` or ``all``) and a split (``train``, ``test`` or None for both).

    Raises:
        ConfigError: Another kind or split.
    """
    if kind not in ("sequential", "nonsequential", "all"):
        raise ConfigError("tasks", f"expected sequential, nonsequential or all, got {kind!r}")
    if split not in ("train", "test", None):
        raise ConfigError("split", f"expected train or test, got {split!r}")
    return tuple(task for task in all_tasks() if kind in (task.kind, "all") and split in (task.split, None))


@lru_cache(maxsize=2)
def _by_id(numbering: str) -> dict[int, OpenCATPTask]:
    return {task.task_id if numbering == "old" else task.new_id: task for task in all_tasks()}


def task(task_id: int, numbering: Numbering = "old") -> OpenCATPTask:
    """A task by its number; raises UnknownName, which names both numberings, where no task has it."""
    if numbering not in ("old", "new"):
        raise ConfigError("numbering", f"expected old or new, got {numbering!r}")
    task = _by_id(numbering).get(task_id) if isinstance(task_id, int) else None
    if task is None:
        other: Numbering = "new" if numbering == "old" else "old"
        there = isinstance(task_id, int) and task_id in _by_id(other)
        hint = f"the {other} numbering has it" if there else "neither numbering has it"
        raise UnknownName(
            f"OpenCATP task ({numbering} numbering; {hint}; old: 0..104 and 200..229 with gaps, new: 0..86 and 200..223)",
            str(task_id),
            (str(number) for number in _by_id(numbering)),
        )
    return task
