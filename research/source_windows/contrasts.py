"""From retained losses to contrasts with the same-seed baseline, bootstrap intervals and position parts.

A cell is one run, other than a baseline, in one stratum. Its quantities are the differences in bits per byte (a ratio
of sums over the stratum's documents) of beginnings, of tails, and the tails' difference minus the beginnings'.
Replicates draw documents with replacement; every run and both windows of a document share the draw (paper, sections 4
and 5.5).
"""

import math
from typing import NamedTuple

import numpy as np

from research.resampling import bits_per_byte, interval, multiplicities, no_spread, units
from research.source_windows.windows import KINDS, STRATUM, TAIL, name_of

TOLERANCE = 1e-7


class Stratum(NamedTuple):
    """Losses of the documents of one stratum: of beginnings and, where documents are longer than a row, of tails.

    units: int64 (kinds, runs, documents, bins + 1), nats x 2^30 by bin, then of the whole window; bytes: int64 (kinds,
    documents); census: whether every eligible document was drawn.
    """

    name: str
    census: bool
    units: np.ndarray
    bytes: np.ndarray


def by_stratum(strata, windows, counts, nats):
    """Group losses by the strata of a selection: [Stratum]; nats: float64 (runs, windows, bins + 1)."""
    whole, exact, found = counts[:, :, 0].sum(axis=1), units(nats), []
    for number, stratum in enumerate(strata):
        chosen = [np.flatnonzero((windows[:, STRATUM] == number) & (windows[:, TAIL] == tail)) for tail in (0, 1)]
        chosen = chosen if len(chosen[1]) else chosen[:1]
        found.append(Stratum(name_of(stratum), stratum["census"], np.stack([exact[:, rows] for rows in chosen]),
                             np.stack([whole[rows] for rows in chosen])))
    return found


def compared(runs):
    """Pair the index of each other run, (name, condition, seed), with that of its same-seed baseline."""
    baselines = {seed: index for index, (_, condition, seed) in enumerate(runs) if condition == "baseline"}
    return [(index, baselines[seed]) for index, (_, condition, seed) in enumerate(runs) if condition != "baseline"]


def scores_of(stratum, weights):
    """Score the documents, weighted by each row of int64 `weights`: float64 (kinds, runs, replicates)."""
    return bits_per_byte(stratum.units[..., -1] @ weights.T, (stratum.bytes @ weights.T)[:, None])


def score_rows(strata, runs):
    """List {run, stratum, window, documents, bytes, bits_per_byte} of everything that was scored."""
    rows = []
    for stratum in strata:
        documents = stratum.bytes.shape[1]
        scores = scores_of(stratum, np.ones((1, documents), np.int64)) if documents else []
        rows += [{"run": run, "stratum": stratum.name, "window": kind, "documents": documents, "bytes": total,
                  "bits_per_byte": float(value)}
                 for kind, total, values in zip(KINDS, stratum.bytes.sum(axis=1).tolist(), scores)
                 for (run, _, _), (value,) in zip(runs, values)]
    return rows


def degenerate(stratum, run, baseline):
    """Return why the stratum cannot be resampled for a run and its baseline, or None."""
    documents = stratum.bytes.shape[1]
    if documents < 2:
        return "one document: every replicate is the same" if documents else "no document"
    if np.array_equal(stratum.units[:, run], stratum.units[:, baseline]):
        return "the baseline's losses in every window: every replicate is zero"
    return None if stratum.bytes.min() else "a document without bytes: a replicate may have none"


def quantities(scores, run, baseline):
    """Return {quantity: float64 (replicates,)} from the scores that scores_of gives."""
    found = dict(zip(KINDS, scores[:, run] - scores[:, baseline]))
    return {**found, "tail_minus_beginning": found["tail"] - found["beginning"]} if "tail" in found else found


def entries_of(stratum, weights, pair, contrasts):
    """Return {quantity: {"value", "interval_95"}}, with "interval_adjusted" where `contrasts` is not 0.

    weights: int64 (replicates, documents); pair: indices of a run and its baseline. Intervals are null without weights.
    Where all replicates of a quantity agree to rounding, its intervals are null and "reason" says so.
    """
    documents = stratum.bytes.shape[1]
    values = quantities(scores_of(stratum, np.ones((1, documents), np.int64)), *pair)
    drawn = quantities(scores_of(stratum, weights), *pair) if len(weights) else {}
    levels = {"interval_95": 1, "interval_adjusted": contrasts} if contrasts else {"interval_95": 1}
    found = {}
    for name, (value,) in values.items():
        reason = no_spread(drawn[name]) if drawn else None
        bounds = {key: interval(drawn[name], level) if drawn and not reason else None for key, level in levels.items()}
        found[name] = {"value": float(value), **bounds, **({"reason": reason} if reason else {})}
    return found


def cells(strata, runs, chosen, bootstrap):
    """Return the cells of all strata; those of the strata in `chosen` also have an interval for their number."""
    found, pairs = [], compared(runs)
    for number, stratum in enumerate(strata):
        documents, contrast = stratum.bytes.shape[1], stratum.name in chosen
        weights = multiplicities([bootstrap["seed"], number], bootstrap["replicates"], documents)
        for run, baseline in pairs:
            (name, condition, seed), reason = runs[run], degenerate(stratum, run, baseline)
            entries = entries_of(stratum, weights[: 0 if reason else None], (run, baseline),
                                 contrast * len(chosen) * len(pairs)) if documents else {}
            found.append({"run": name, "condition": condition, "seed": seed, "stratum": stratum.name,
                          "sources": documents, "census": stratum.census, "contrast": contrast,
                          "degenerate": reason, "quantities": entries})
    return found


def position_parts(strata, runs):
    """Divide each difference by target position: parts over the whole window's bytes, which add up to the whole.

    The error compares them with the window's loss that was summed separately.
    """
    rows = []
    for stratum in strata:
        sums, sizes = stratum.units.sum(axis=2), stratum.bytes.sum(axis=1)
        for kind, of_runs, size in zip(KINDS, sums, sizes.tolist()):
            for run, baseline in compared(runs) if size else ():
                *parts, whole = bits_per_byte(of_runs[run] - of_runs[baseline], size).tolist()
                rows.append({"run": runs[run][0], "stratum": stratum.name, "window": kind,
                             "documents": stratum.bytes.shape[1], "whole": whole, "parts": parts,
                             "error": abs(math.fsum([*parts, -whole]))})
    return rows
