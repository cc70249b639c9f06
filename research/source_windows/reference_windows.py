"""The verifier's own arithmetic for window evidence, from the retained losses.

Documents are picked one by one, and sums are integers in units of 2^-30 of a nat; percentiles are interpolated between
order statistics. It shares nothing with the code that made the evidence.
"""

import itertools
import math

import numpy as np

WINDOW_KINDS = ("beginning", "tail")
NO_SPREAD = "all replicates agree to rounding: resampling shows no spread"


def stratum_name(stratum):
    """Name a stratum by its lengths."""
    return f"{stratum['over'] + 1}-{stratum['up_to']}" if stratum["up_to"] else f"over {stratum['over']}"


def score(unit_sum, byte_sum):
    """Return the bits per byte of integer sums, or of int64 arrays of them."""
    return unit_sum / 2**30 / (math.log(2) * byte_sum)


def percentiles(values, contrasts):
    """Return the bounds of the central 1 - 0.05 / contrasts of the values."""
    ordered, parts, bounds = sorted(values.tolist()), 40 * contrasts, []
    for numerator in (1, parts - 1):
        place, rest = divmod((len(ordered) - 1) * numerator, parts)
        above = ordered[min(place + 1, len(ordered) - 1)]
        bounds.append(ordered[place] + (above - ordered[place]) * (rest / parts))
    return bounds


class ReferenceWindows:
    """Derives scores, cells and position parts of one evidence file from its arrays."""

    def __init__(self, found, windows, counts, nats):
        self.found, self.windows = found, windows
        self.units, self.bytes = np.rint(nats * 2.0**30).astype(np.int64), counts[:, :, 0].sum(axis=1)
        self.runs = [run["run"] for run in found["runs"]]
        base = {run["seed"]: place for place, run in enumerate(found["runs"]) if run["condition"] == "baseline"}
        self.pairs = [(place, base[run["seed"]]) for place, run in enumerate(found["runs"])
                      if run["condition"] != "baseline"]

    def members(self, stratum):
        """Return [(kind, window numbers)] of a stratum's documents."""
        kinds = [np.flatnonzero((self.windows[:, 2] == stratum) & (self.windows[:, 3] == tail)) for tail in (0, 1)]
        return [(kind, numbers) for kind, numbers in zip(WINDOW_KINDS, kinds) if len(numbers)]

    def scores(self):
        """Return the score of every run, stratum and kind of window."""
        rows = []
        for number, stratum in enumerate(self.found["strata"]):
            for kind, members in self.members(number):
                size = int(self.bytes[members].sum())
                rows += [{"run": run, "stratum": stratum_name(stratum), "window": kind, "documents": len(members),
                          "bytes": size, "bits_per_byte": score(sum(self.units[place, members, -1].tolist()), size)}
                         for place, run in enumerate(self.runs)]
        return rows

    def resampled(self, stratum):
        """Resample the documents, alike for all runs and kinds: {kind: float64 (runs, replicates)}."""
        replicates, seed = self.found["bootstrap"]["replicates"], self.found["bootstrap"]["seed"]
        picked = {}
        for kind, members in self.members(stratum):
            size = len(members)
            raw = np.random.PCG64([seed, stratum]).random_raw(replicates * size).reshape(replicates, size)
            places = members[((raw // np.uint64(2**32)) * np.uint64(size) // np.uint64(2**32)).astype(np.int64)]
            sizes = self.bytes[places].sum(axis=1)
            picked[kind] = np.stack([score(of_run[places].sum(axis=1), sizes) for of_run in self.units[:, :, -1]])
        return picked

    def reason(self, stratum, run, base):
        """Return why the stratum's documents cannot be resampled, or None."""
        members = self.members(stratum)
        documents = len(members[0][1]) if members else 0
        if documents < 2:
            return "one document: every replicate is the same" if documents else "no document"
        if all(np.array_equal(self.units[run, numbers], self.units[base, numbers]) for _, numbers in members):
            return "the baseline's losses in every window: every replicate is zero"
        without = any((self.bytes[numbers] == 0).any() for _, numbers in members)
        return "a document without bytes: a replicate may have none" if without else None

    def quantities(self, deltas, contrasts, degenerate):
        """Give each (value, replicates) its intervals; `contrasts` is 0 where only the ordinary one is due."""
        levels, found = {"interval_95": 1}, {}
        if contrasts:
            levels["interval_adjusted"] = contrasts
        for key, (value, values) in deltas.items():
            flat = not degenerate and max(values) - min(values) <= 1e-13
            found[key] = {"value": value, **{level: None if degenerate or flat else percentiles(values, number)
                                             for level, number in levels.items()}}
            if flat:
                found[key]["reason"] = NO_SPREAD
        return found

    def cells(self):
        """Return the cell of every stratum and every run other than a baseline."""
        chosen, rows = self.found["contrast_strata"], []
        points = {(row["run"], row["stratum"], row["window"]): row["bits_per_byte"] for row in self.scores()}
        for number, stratum in enumerate(self.found["strata"]):
            name, drawn = stratum_name(stratum), self.resampled(number)
            for run, base in self.pairs:
                reason = self.reason(number, run, base)
                deltas = {kind: (points[self.runs[run], name, kind] - points[self.runs[base], name, kind],
                                 drawn[kind][run] - drawn[kind][base]) for kind, _ in self.members(number)}
                if "tail" in deltas:
                    pairs = zip(deltas["tail"], deltas["beginning"])
                    deltas["tail_minus_beginning"] = tuple(tail - beginning for tail, beginning in pairs)
                contrasts = len(chosen) * len(self.pairs) if name in chosen else 0
                quantities = self.quantities(deltas, contrasts, reason)
                rows.append({**self.found["runs"][run], "stratum": name, "sources": stratum["sources"],
                             "census": stratum["census"], "contrast": name in chosen, "degenerate": reason,
                             "quantities": quantities})
        return rows

    def position_parts(self):
        """Return every difference by position, and how far its parts miss the whole."""
        rows = []
        for number, stratum in enumerate(self.found["strata"]):
            for (kind, members), (run, base) in itertools.product(self.members(number), self.pairs):
                change = (self.units[run, members] - self.units[base, members]).sum(axis=0).tolist()
                *parts, whole = [score(part, int(self.bytes[members].sum())) for part in change]
                rows.append({"run": self.runs[run], "stratum": stratum_name(stratum), "window": kind,
                             "documents": len(members), "whole": whole, "parts": parts,
                             "error": abs(math.fsum([*parts, -whole]))})
        return rows
