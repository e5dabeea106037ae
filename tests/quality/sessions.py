#!/usr/bin/env python3
"""Sessions of two kits from PyPI as JSON, for `tests/suite/quality.rs`: what a person says in them, and what must survive."""

import importlib.util
import json
import runpy
import sys
from pathlib import Path

from compaction_kit.corpus import build_random_session
from compaction_kit.generated import build_generated_session
from compaction_kit.canaries import seeded_canaries
from compaction_kit.semantic_corpus import build_semantic_heldout_session, build_semantic_session
from compaction_kit.session import build_seeded_session

# The package itself needs a hundred megabytes of others.
(CONPACT,) = importlib.util.find_spec("conpact").submodule_search_locations
CONSTRAINTS = runpy.run_path(Path(CONPACT) / "constraints.py")

SEEDS = range(1, 13)


def session(kind, seed, made, canaries):
    return {
        "name": f"{kind} {seed}",
        "turns": [[turn.role, turn.text] for turn in made.turns if turn.role in ("user", "assistant")],
        "canaries": [
            {
                "id": canary.id,
                "kind": canary.type.value,
                "required": list(canary.required_tokens),
                "superseded": list(canary.superseded_tokens),
            }
            for canary in canaries
        ],
    }


def sessions():
    yield session("seeded", 0, build_seeded_session(), seeded_canaries())
    for seed in SEEDS:
        yield session("random", seed, *build_random_session(seed))
        yield session("generated", seed, *build_generated_session(seed))
        yield session("semantic", seed, *build_semantic_session(seed)[:2])
        yield session("held-out", seed, *build_semantic_heldout_session(seed)[:2])


def constraints():
    for framing in ((False, False), (True, False), (False, True), (True, True)):
        render = CONSTRAINTS["render_sc"]
        yield [{"said": render(sc["sc"], *framing), "kept": sc["sc"][1:]} for sc in CONSTRAINTS["SCS"]]


json.dump({"sessions": list(sessions()), "constraints": list(constraints())}, sys.stdout)
