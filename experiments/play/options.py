"""What an option is for, stated where its field is; the command line and the docs read it there."""

from __future__ import annotations

from typing import NamedTuple


class About(NamedTuple):
    """The description of an option, in the annotation of its field.

    Attributes:
        help: A sentence for `--help` and the docs.
        metavar: What stands for its value; "" for the type's name.
        names: Its spellings on the command line; by default that of the field.
    """

    help: str
    metavar: str = ""
    names: tuple[str, ...] = ()
