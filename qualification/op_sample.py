"""Draws the fixed list of cases by seed over all of op_db: python -m qualification.op_sample; bless it then."""

from __future__ import annotations

import itertools
import json
import pathlib
import random

from qualification.op_cases import operators, samples, scope

PATH = pathlib.Path(__file__).with_name("samples") / "ops.json"
COUNT, SEED = 1500, 20260701
_MOST = 24  # samples of a group that the draw looks at


def draw() -> list[str]:
    """A case of every operator in f32, then cases of groups drawn alike from the whole scope."""
    chance = random.Random(SEED)
    groups = scope()
    first = [g for g in groups if g.mode == "static" and g.dtype == "f32"]
    chance.shuffle(first)
    names: dict[str, None] = {}
    for group in itertools.chain(first, iter(lambda: chance.choice(groups), None)):
        if len(names) >= COUNT:
            break
        try:
            count = sum(1 for _ in samples(group, 0, min(group.limit, _MOST)))
        except Exception:  # op_db refuses some of what it lists
            continue
        if count:
            names[group.case(chance.randrange(count))] = None
    order = {name: i for i, name in enumerate(operators())}
    return sorted(names, key=lambda n: (order[n.rsplit(":", 3)[0]], n))


if __name__ == "__main__":
    PATH.write_text(json.dumps(dict.fromkeys(draw(), "generated"), indent=0) + "\n")
