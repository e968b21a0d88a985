"""The page of `costgym cost`: one table, in US dollars."""

from collections.abc import Sequence

from markupsafe import Markup

from costgym.experiments.pages.html import asset, render


def cost_page(
    title: str, columns: Sequence[str], names: int, cells: Sequence[Sequence[str]], notes: Sequence[str], prices: str
) -> str:
    """A table of costs as a page that works from disk, has no script and asks nothing of the network.

    Args:
        names: how many of the columns name a row.
        prices: whose prices they are, in words.
    """
    values = {"title": title, "columns": columns, "names": names, "cells": cells, "notes": notes, "prices": prices}
    return render("cost.html", css=Markup(asset("page.css")), **values)
