"""The baseline's rows, but the documents in a row are independent: one lower triangle of attention a document.

Rows, crops and discards are those of `best_fit_crop`, token for token. Positions restart in every document, and its
first token is no target: only context and boundary targets differ from the baseline.
"""

from loaders import best_fit_crop


def plan(lengths, *, capacity, rows, buffer_size, refill, seed=None):
    """`best_fit_crop.plan` itself. `seed` is not used."""
    return best_fit_crop.plan(lengths, capacity=capacity, rows=rows, buffer_size=buffer_size, refill=refill)


LOADER = best_fit_crop.LOADER._replace(plan=plan, independent=True)
