"""Measure the executed vision tools of the OpenCATP world: every figure the world rests on.

    python benchmarks/opencatp/tools.py [--weights DIR] [--table FILE] [--scenes N]

Restoration in dB and colour difference, readers before and after the matching tool, the spread of image scores, the
effect of the order of restoration, and, from the outcome table, what the informed optimum does about prices.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from costgym.simulators.opencatp import OpenCATPTask, tasks
from costgym.simulators.opencatp.backends.base import READERS, RESTORERS, run_images, run_texts
from costgym.simulators.opencatp.backends.tiny import WEIGHTS, TinyBackend
from costgym.simulators.opencatp.profile import v100
from costgym.simulators.opencatp.scenes import degrade
from costgym.simulators.opencatp.scenes import scene as scenes
from costgym.simulators.opencatp.scoring import similarity
from costgym.simulators.opencatp.scoring.evaluation import split_samples
from costgym.simulators.opencatp.scoring.table import CHAINS, OUTPUTS, OutcomeTable
from costgym.simulators.opencatp.tools import READER_OF
from costgym.simulators.quality import quality_of_plan

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.helpers.vision import REPAIRS, delta_e, psnr, run_chain

Images = NDArray[np.uint8]


def tools(weights: Path, count: int) -> None:
    """Restoration and reading on held-out scenes."""
    backend = TinyBackend(weights)
    world = scenes.make_scenes(scenes.HELD_OUT_SEED, range(count))
    clean = np.stack([s.image for s in world])
    features = similarity.image_features(clean)

    def faulty(d: int) -> Images:
        return np.stack([degrade.degrade(c, d, scenes.HELD_OUT_SEED, i) for i, c in enumerate(clean)])

    def image_score(images: Images) -> float:
        return float((similarity.image_features(images) * features).sum(1).mean())

    def read(images: Images) -> str:
        labels = run_texts(backend, READERS[0], images)
        right = np.mean([a == s.label() for a, s in zip(labels, world, strict=True)])
        truths = ([s.label() for s in world], [s.object_names() for s in world], [s.caption() for s in world])
        scores = [
            np.mean([similarity.text_score(a, b) for a, b in zip(run_texts(backend, reader, images), truth, strict=True)])
            for reader, truth in zip(READERS, truths, strict=True)
        ]
        return f"accuracy {right:6.1%}   scores: label {scores[0]:.3f}  objects {scores[1]:.3f}  caption {scores[2]:.3f}"

    print(f"clean images                      {read(clean)}")
    for d in (13, 11, 14, 7):
        kind = degrade.COMBINATIONS[d][0]
        before, tool = faulty(d), REPAIRS[kind]
        after = run_images(backend, tool, before)
        a, b = psnr(before, clean).mean(), psnr(after, clean).mean()
        e, f = delta_e(before, clean).mean(), delta_e(after, clean).mean()
        print(f"\n{kind}, {tool}: PSNR {a:.2f} -> {b:.2f} dB ({b - a:+.2f}), ΔE {e:.2f} -> {f:.2f} ({f / e - 1:+.0%}),", end="")
        print(f" image score {image_score(before):.3f} -> {image_score(after):.3f}")
        print(f"  before  {read(before)}\n  after   {read(after)}")
        harm = run_images(backend, tool, clean)
        print(f"  on clean images: {psnr(harm, clean).mean():.1f} dB, image score {image_score(harm):.3f}")
    print("\nimage score, degraded -> restored in the camera's reverse order (restored in the worst order)")
    for d, name in enumerate(degrade.NAMES):
        chain = [t for t in RESTORERS if t in [REPAIRS[k] for k in degrade.COMBINATIONS[d]]]
        images = faulty(d)
        orders = [c for c in CHAINS if sorted(c) == sorted(chain)]
        worst = min(image_score(run_chain(backend, c, images)) for c in orders)
        print(f"  {name:42s} {image_score(images):.3f} -> {image_score(run_chain(backend, chain, images)):.3f} ({worst:.3f})")
    gram = features @ features.T
    unrelated = gram[~np.eye(count, dtype=bool)]
    print(f"\nimage score of the same image {np.diag(gram).mean():.4f}, ", end="")
    print(f"of unrelated pairs {unrelated.mean():+.4f} ± {unrelated.std():.3f}")

    def exact(tool: str, texts: list[str], wanted: list[str]) -> float:
        return float(np.mean([a == b for a, b in zip(run_texts(backend, tool, texts), wanted, strict=True)]))

    reports = [s.report() for s in world]
    translated = exact("machine_translation", [s.caption() for s in world], [s.caption(True) for s in world])
    summaries = exact("text_summarization", reports, [s.summary() for s in world])
    moods = exact("sentiment_analysis", reports, [s.sentiment() for s in world])
    print(f"exact: captions in German {translated:.1%}, summaries of reports {summaries:.1%}, moods of reports {moods:.1%}")


# -- the trade-off ----------------------------------------------------------------------------------------------------

Tree = dict[str, tuple[str, ...]]  # tool -> the chain that ends in it


def trees() -> Iterator[Tree]:
    """Every way to hang some of the four restorers, each once, below the input or each other."""
    parents = [None, "", *RESTORERS]  # None: not used
    for choice in product(parents, repeat=4):
        parent = dict(zip(RESTORERS, choice, strict=True))
        chains: Tree = {}
        for tool in RESTORERS:
            chain: list[str] = []
            at: str | None = tool
            while at and at not in chain and parent[at] is not None:
                chain.insert(0, at)
                at = parent[at]
            if parent[tool] is not None:
                if at != "":
                    break  # a circle, or below a tool that is not used
                chains[tool] = tuple(chain)
        else:
            yield chains


def best_plans(table: OutcomeTable) -> list[tuple[OpenCATPTask, int, float, str, frozenset[str]]]:
    """The best fixed plan of every task and size level on the train samples: QoP, the plan in words, and its restorers."""
    mean = table.scores[:, :, list(split_samples(table.samples, "train"))].mean(2)  # (7, 15, 65)
    profile, number = v100(), {c: i for i, c in enumerate(CHAINS)}
    forest = list(trees())
    found = []
    for task in tasks():
        wants = [w.kind + ("_de" if w.german else "") for w in task.wants]
        rows = {w: mean[OUTPUTS.index(w), task.combination] for w in wants}
        for level in range(4):
            price = {t: profile.price(t, level) for t in profile.tools}
            fixed = sum(price[READER_OF[w.removesuffix("_de")]] for w in wants if w != "image")
            fixed += price["machine_translation"] * any(w.endswith("_de") for w in wants)
            best: tuple[float, str, frozenset[str]] = (-9.0, "", frozenset())
            for tree in forest:
                chains = [(), *tree.values()]
                leaves = [c for c in tree.values() if not any(len(o) == len(c) + 1 and o[:-1] == c for o in chains)]
                for sink in leaves if "image" in wants else [None]:
                    free = [c for c in chains if c != sink]  # a node that is read from is no sink any more
                    ends = [sink if w == "image" else max(free, key=lambda c, w=w: rows[w][number[c]]) for w in wants]
                    score = float(np.mean([rows[w][number[e]] for w, e in zip(wants, ends, strict=True)]))
                    qop = quality_of_plan(score, fixed + sum(price[t] for t in tree))
                    words = "; ".join(f"{' > '.join(e) or 'input'} > {w}" for w, e in zip(wants, ends, strict=True))
                    if qop > best[0]:
                        best = (qop, words, frozenset(tree))
            found.append((task, level, *best))
    return found


def trade_off(path: Path | None) -> None:
    """Report what the best fixed plans contain and leave out, by size level and by kind of task."""
    plans = best_plans(OutcomeTable.load(path))
    suggested = {k: REPAIRS[k] for k in degrade.KINDS}

    def share(levels: tuple[int, ...], test: object) -> float:
        return float(np.mean([test(t, r) for t, level, _, _, r in plans if level in levels]))  # type: ignore[operator]

    def text_only(levels: tuple[int, ...]) -> float:
        return float(np.mean([bool(r) for t, level, _, _, r in plans if level in levels and not t.wanted_images]))

    restores = share((0, 1), lambda t, r: bool(r))
    leaves_out = share((2, 3), lambda t, r: any(suggested[k] not in r for k in t.degradations))
    print(f"\nbest fixed plans: with a restorer at size levels 0 and 1: {restores:.1%}", end="")
    print(f" (tasks without an image output {text_only((0, 1)):.1%})")
    print(f"without one that the description suggests at levels 2 and 3: {leaves_out:.1%}")
    for level in range(4):
        cells = [p for p in plans if p[1] == level]
        sizes = Counter(len(p[4]) for p in cells)
        used = Counter(t for p in cells for t in p[4])
        print(f"  level {level}: mean QoP {np.mean([p[2] for p in cells]):+.3f}; ", end="")
        print(f"restorers per plan {dict(sorted(sizes.items()))}; {dict(used)}")
    kinds: dict[str, Counter[str]] = {}
    coarse: dict[str, Counter[str]] = {}
    for task, _, _, words, _ in plans:
        name = "nonsequential" if len(task.wants) > 1 else f"{task.wants[0].kind}{' in German' * task.wants[0].german}"
        kinds.setdefault(name, Counter())[words] += 1
        coarse.setdefault(task.kind, Counter())[words] += 1
    for name, counts in {**kinds, **coarse}.items():
        words, count = counts.most_common(1)[0]
        print(f"  {name}: most frequent best plan in {count / counts.total():.0%} of {counts.total()} cells: {words}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weights", type=Path, default=WEIGHTS)
    parser.add_argument("--table", type=Path, default=None)
    parser.add_argument("--scenes", type=int, default=200)
    parser.add_argument("--only", choices=("tools", "trade-off"), default=None)
    arguments = parser.parse_args()
    if arguments.only != "trade-off":
        tools(arguments.weights, arguments.scenes)
    if arguments.only != "tools":
        trade_off(arguments.table)


if __name__ == "__main__":
    main()
