"""The checklist of a batch: twelve items, each ok, FAIL, cannot tell or not applied, with its counts and a reason.

After the diagnostic checklist of "From Training Chunks to a Batch". Every item is a function of a Reading and the
options, and returns (status, reason, counts).
"""

import numpy as np

from loaders.batches import IGNORED
from research.batch_boundaries.trace_tokens import (
    boundaries_of,
    leaks,
    runs_of,
    sort_predictions,
    times_read,
    tokens_of,
)

OK, FAIL, UNKNOWN, UNAPPLIED = "ok", "FAIL", "cannot tell", "not applied"


def verdict(bad, reason, **counts):
    return FAIL if bad else OK, reason, counts


def listed(spots, limit=6):
    """'document 0: tokens 3, 4; document 2: token 1' of (document, offset) pairs."""
    shown = {}
    for document, offset in sorted(spots)[:limit]:
        shown.setdefault(document, []).append(str(offset))
    text = "; ".join(f"document {d}: token{'s' * (len(o) > 1)} {', '.join(o)}" for d, o in shown.items())
    return text + (f"; and {len(spots) - limit} more" if len(spots) > limit else "")


# ---------------------------------------------------------------------------------------------- items


def ids_preserved(reading, options):
    free = [np.array([spot is None for spot in found]) & ~padding for found, padding
            in zip(reading.spots, reading.padding)]
    foreign = [int(id) for row, mask in zip(reading.rows, free) for id in row.inputs[mask]]
    counts = {"foreign": len(foreign), "not_integers": reading.not_integers}
    if reading.not_integers:
        return FAIL, f"not integers: {reading.not_integers}", counts
    return verdict(foreign, f"{len(foreign)} inputs are no token of a document and no padding: {foreign[:6]}"
                   if foreign else "every input is a document's token or padding", **counts)


def read_once(reading, options):
    times = times_read(reading)
    targets = {target for _, target in reading.predictions if target}
    never = [token for token in tokens_of(reading) if token not in times and token not in targets]
    again = [token for token, count in times.items() if count > 1]
    counts = {"tokens": len(tokens_of(reading)), "never": len(never), "more_than_once": len(again),
              "targets_only": len(targets - set(times))}
    reason = "; ".join([f"never read: {listed(never)}"] * bool(never) + [f"read again: {listed(again)}"] * bool(again))
    return verdict(never or again, reason or f"{counts['tokens']} tokens, none lost, none twice", **counts)


def scored_once(reading, options):
    if reading.convention is None:
        return no_labels(reading)
    inside = sort_predictions(reading)[0]
    wanted = tokens_of(reading, 1)
    never, again = [t for t in wanted if not inside[t]], [t for t in wanted if inside[t] > 1]
    reason = "; ".join([f"never scored from their own document: {listed(never)}"] * bool(never)
                       + [f"scored again: {listed(again)}"] * bool(again))
    return verdict(never or again, reason or f"{len(wanted)} targets inside documents, each scored once",
                   targets=len(wanted), never=len(never), more_than_once=len(again))


def end_is_target(reading, options):
    ends = [(d, len(ids) - 1) for d, ids in enumerate(reading.documents) if len(ids) > 1 and ids[-1] == options.eos]
    if not ends or reading.convention is None:
        return no_labels(reading) if ends else (UNKNOWN, "no document ends with the id of --eos-id", {})
    inside = sort_predictions(reading)[0]
    missing = [token for token in ends if not inside[token]]
    shared = ", whose id is also the padding's," if options.eos == reading.pad_id else ""
    return verdict(missing, f"the end{shared} is a target in {len(ends) - len(missing)} of {len(ends)} documents",
                   ends=len(ends), missing=len(missing))


def padding_by_length(reading, options):
    """Real tokens of the padding's id keep mask and label; padding is unmasked nowhere."""
    total = sum(int(padding.sum()) for padding in reading.padding)
    if not total:
        return UNAPPLIED, "no padding in this batch", {"padding": 0}
    inside = sort_predictions(reading)[0]
    alike = [t for t in tokens_of(reading, 1) if reading.documents[t[0]][t[1]] == reading.pad_id]
    masked = unmasked = 0
    for row, found, padding in zip(reading.rows, reading.spots, reading.padding):
        if row.mask is not None:
            masked += sum(bool(spot) and not keep for spot, keep in zip(found, row.mask))
            unmasked += int((row.mask & padding).sum())
    ignored = [t for t in alike if not inside[t]] if reading.convention else []
    counts = {"padding": total, "real_tokens_masked": masked, "padding_unmasked": unmasked,
              "real_tokens_of_padding_id": len(alike), "of_them_ignored": len(ignored)}
    if masked or unmasked or ignored:
        return FAIL, (f"{masked} real tokens are masked, {unmasked} padding tokens are not; "
                      f"{len(ignored)} of {len(alike)} real tokens with the padding's id are no target"), counts
    if not alike:
        return UNKNOWN, "no real token has the padding's id; try --pad-in-text", counts
    return OK, f"{len(alike)} real tokens with the padding's id are targets, {total} padding tokens are apart", counts


def padding_ignored(reading, options):
    total = sum(int(padding.sum()) for padding in reading.padding)
    if not total:
        return UNAPPLIED, "no padding in this batch", {"padding": 0}
    if any(row.labels is None for row in reading.rows):
        return no_labels(reading)
    labels = sum(int((row.labels[padding] != IGNORED).sum()) for row, padding in zip(reading.rows, reading.padding))
    scored = sort_predictions(reading)[2]
    return verdict(labels or scored, f"{labels} of {total} padding labels are not ignored; {scored} predictions of or "
                   "from padding", padding=total, labels_kept=labels, predictions=scored)


def one_shift(reading, options):
    found, declared = reading.convention, options.convention
    counts = {"found": found, "declared": declared, "fit_neither": reading.wrong}
    places = {"internal": "labels stand at their own input: the model must shift once",
              "external": "labels stand at the input before: the model must not shift"}
    if any(row.labels is None for row in reading.rows):
        return no_labels(reading)
    if found is None or reading.wrong:
        ahead = reading.ahead.most_common(1)
        text = f"; most stand {ahead[0][0]} ahead of their input" if ahead else ""
        return FAIL, f"{reading.wrong} labels are neither their own input nor the next{text}", counts
    if declared == "auto":
        return UNKNOWN, f"{places[found]}; pass --convention to check that it does", counts
    wrong = "shifted twice" if declared == "internal" else "not shifted at all"
    return verdict(found != declared, places[found] + (f", but {declared} was declared: {wrong}"
                                                       if found != declared else ""), **counts)


def boundary_ignored(reading, options):
    between, across = boundaries_of(reading), len(sort_predictions(reading)[1])
    counts = {"boundaries_in_rows": between, "targets_across_documents": across}
    if options.semantics == "continuous":
        return UNAPPLIED, f"a continuous stream was declared: {across} targets across documents", counts
    if reading.convention is None:
        return no_labels(reading)
    if not between and not across:
        return UNAPPLIED, "no two documents follow each other in a row", counts
    return verdict(across, f"{across} targets across documents at {between} boundaries in rows", **counts)


def positions_restart(reading, options):
    """Every run counts up from 0, or from its place in the document; without position ids a row counts from 0."""
    if options.semantics == "continuous":
        return UNAPPLIED, "a continuous stream was declared", {}
    wrong, total, given = 0, 0, all(row.positions is not None for row in reading.rows)
    for row, found in zip(reading.rows, reading.spots):
        runs = runs_of(found)
        positions = row.positions if given else np.arange(len(runs))
        for number in range(runs.max(initial=-1) + 1):
            places = np.flatnonzero(runs == number)
            start, steps = positions[places[0]], positions[places] - np.arange(len(places))
            total += 1
            wrong += not ((steps == start).all() and start in (0, found[places[0]][1]))
    source = "position ids" if given else "no position ids, and a row counted from 0"
    return verdict(wrong, f"{source}: {wrong} of {total} pieces do not start anew", pieces=total, wrong=wrong)


def documents_isolated(reading, options):
    """Each form in which the batch tells its documents apart isolates them, under the causal rule and the mask."""
    if options.semantics == "continuous":
        return UNAPPLIED, "a continuous stream was declared", {}
    forms, wanted = {}, 0
    for row, found, padding in zip(reading.rows, reading.spots, reading.padding):
        runs, causal = runs_of(found), np.tri(len(found), dtype=bool)
        wanted += int((causal & (runs[:, None] == runs) & (runs >= 0)).sum())
        if row.mask is not None:
            causal = causal & row.mask[None, :]
        relations = {key: causal & (ids[:, None] == ids) & (ids >= 0) for key, ids in row.documents.items()}
        if row.allowed is not None:
            relations["attention_mask"] = row.allowed
        for key, allowed in (relations or {"the causal rule": causal}).items():
            forms[key] = np.add(forms.get(key, (0, 0)), leaks(allowed, found, padding))
    counts = {"pairs_inside_documents": wanted} | {key: {"leaked": int(a), "missing": int(b)}
                                                   for key, (a, b) in forms.items()}
    lengths = wrong_longest(reading)
    text = [f"{key}: {a} pairs leak, {b} are missing" for key, (a, b) in sorted(forms.items())] + lengths
    bad = any(map(np.any, forms.values()))
    if bad and "the causal rule" in forms and only_positions(reading):
        return UNKNOWN, "only positions restart: whether documents are isolated is up to the model", counts
    return verdict(bad or lengths, f"{'; '.join(text)} (of {wanted} inside documents)", **counts)


def only_positions(reading):
    """Whether restarting positions are all that tells documents apart, without a mask that says otherwise."""
    rows = zip(reading.rows, reading.spots)
    return all(row.mask is None and row.positions is not None
               and (np.diff(row.positions)[np.diff(runs_of(found)) > 0] != 1).all() for row, found in rows)


def wrong_longest(reading):
    """Lines naming stated longest lengths that are shorter than a document of the batch."""
    longest = max(int(np.bincount(runs[runs >= 0]).max(initial=0)) for runs in map(runs_of, reading.spots))
    return sorted({f"{key}: {tokens}, but a document has {longest} tokens"
                   for row in reading.rows for key, tokens in row.longest.items() if tokens < longest})


def rows_have_targets(reading, options):
    empty = sum(not any(found) for found in reading.spots)
    if any(row.labels is None for row in reading.rows):
        return verdict(empty, f"{empty} of {len(reading.rows)} rows hold no token", rows=len(reading.rows), empty=empty)
    reach = slice(1, None) if reading.convention == "internal" else slice(None)
    idle = sum(not (row.labels[reach] != IGNORED).any() for row in reading.rows)
    return verdict(empty or idle, f"{len(reading.rows)} rows, {empty} without a token, {idle} without a target",
                   rows=len(reading.rows), empty=empty, idle=idle)


def effective_targets(reading, options):
    """The labels that count are the targets that the documents have; in a continuous stream some more across them."""
    positions = sum(len(row.inputs) for row in reading.rows)
    tokens = sum(spot is not None for found in reading.spots for spot in found)
    share = f"{tokens} of {positions} positions ({tokens / positions:.1%}) are no padding"
    counts = {"positions": positions, "non_padding": tokens}
    if reading.convention is None:
        return UNKNOWN, f"{share}; no readable labels", counts
    inside, across, padding = sort_predictions(reading)
    expected, strange = len(tokens_of(reading, 1)), len(across) * (options.semantics == "independent")
    found = len(reading.predictions) + reading.wrong
    counts |= {"effective_targets": found, "inside": inside.total(), "across": len(across), "expected_inside": expected}
    reason = f"{share}; {found} effective targets, {inside.total()} inside documents ({expected} expected)"
    return verdict(inside.total() != expected or strange or padding or reading.wrong, reason, **counts)


def no_labels(reading):
    missing = any(row.labels is None for row in reading.rows)
    return UNKNOWN, "the batch has no labels" if missing else "the labels fit no convention", {}


ITEMS = {
    "token ids are preserved": ids_preserved,
    "every token is read once": read_once,
    "every target is scored once": scored_once,
    "the real end stays a target": end_is_target,
    "padding is found by length": padding_by_length,
    "padding labels are ignored": padding_ignored,
    "labels are shifted once": one_shift,
    "boundary labels are ignored": boundary_ignored,
    "positions restart": positions_restart,
    "attention isolates documents": documents_isolated,
    "no row is idle": rows_have_targets,
    "effective targets": effective_targets,
}


def check_all(reading, options):
    """[{"item", "status", "reason", "counts"}] of the twelve items. options: semantics, convention, eos."""
    results = []
    for name, item in ITEMS.items():
        status, reason, counts = item(reading, options)
        results.append({"item": name, "status": status, "reason": reason, "counts": counts})
    return results
