"""Reserved documents that a sweep has scored: no protocol may be frozen over them.

A sweep scores its candidates on the validation stream of their own context before a study's context is chosen. A short
row draws more documents than the study's own score does, and some of them may be reserved afterwards.
"""

import numpy as np

from evidence import require
from loaders.accounting import ARRIVAL
from protocols.schema import read_sweep
from research.confirmation.reserved import plan_rows


def started_by_sweep(reserved, path):
    """Yield (context, int64 reserved documents) of each context whose candidates the sweep at `path` scored.

    The documents are those of which a candidate's official stream emits at least one token.
    """
    sweep = read_sweep(path)
    require(sweep["base"] == reserved.study, f"{path}: base", f"expected {reserved.study!r}, found {sweep['base']!r}")
    lengths, refill = reserved.lengths("validation"), reserved.refill("validation")
    for context in sorted({candidate["context"] for candidate in sweep["candidates"]}):
        packing = {**reserved.packing, "context": context}
        plan, _ = plan_rows(lengths, refill, packing, sweep["evaluation_targets"])
        started = np.unique(plan[:, ARRIVAL] % len(lengths))
        yield context, started[(started >= reserved.first) & (started < reserved.last)]


def require_no_leakage(reserved):
    """InputError when the study had a sweep and a candidate's official stream starts a reserved document."""
    path = reserved.root / f"protocols/candidates_{reserved.study}.json"
    if not path.exists():
        return
    for context, documents in started_by_sweep(reserved, path):
        require(not len(documents), f"{reserved.evaluation_path}: confirmation.documents",
                f"documents from {reserved.first} on are reserved, but the sweep scored document "
                f"{documents.max(initial=0)} at context {context}; reserve later documents")
