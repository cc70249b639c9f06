"""The baseline's rows with independent documents: each token reads its own document alone.

Rows, crops and discards are those of `best_fit_crop`, token for token. Positions restart in every document, and its
first token is no target. Only context and boundary targets differ from the baseline.
"""

from loaders import best_fit_crop


def plan(lengths, *, capacity, rows, buffer_size, refill, seed=None):
    """Return `best_fit_crop.plan` itself. `seed` is not used."""
    return best_fit_crop.plan(lengths, capacity=capacity, rows=rows, buffer_size=buffer_size, refill=refill)


LOADER = best_fit_crop.LOADER._replace(plan=plan, independent=True)
