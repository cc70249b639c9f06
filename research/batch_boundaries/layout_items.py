"""The items of the checklist that ask for tokens, padding, positions and attention.

Each is a function (traced, declared) -> (status, reason, counts).
"""

from collections import Counter

import numpy as np

from research.batch_boundaries.trace_tokens import runs_of, sort_predictions, times_read, tokens_of
from research.batch_boundaries.verdicts import FAIL, OK, UNAPPLIED, UNKNOWN, listed, verdict

STREAM = "a continuous stream was declared"


def ids_preserved(traced, declared):
    foreign = []
    for row, found, padding in zip(traced.rows, traced.spots, traced.padding):
        unknown = np.array([spot is None for spot in found]) & ~padding
        foreign += row.inputs[unknown].tolist()
    not_integers = traced.returned.not_integers
    counts = {"foreign": len(foreign), "not_integers": not_integers}
    if not_integers:
        return FAIL, f"not integers: {not_integers}", counts
    return verdict(foreign, f"{len(foreign)} inputs are no token of a document and no padding: {foreign[:6]}"
                   if foreign else "every input is a document's token or padding", **counts)


def read_once(traced, declared):
    times, tokens = times_read(traced), tokens_of(traced)
    targets = {target for _, target in traced.predictions if target}
    never = [token for token in tokens if token not in times and token not in targets]
    again = [token for token, count in times.items() if count > 1]
    counts = {"tokens": len(tokens), "never": len(never), "more_than_once": len(again),
              "targets_only": len(targets - set(times))}
    reasons = [f"{what}: {listed(spots)}" for what, spots in (("never read", never), ("read again", again)) if spots]
    return verdict(reasons, "; ".join(reasons) or f"{len(tokens)} tokens, none lost, none twice", **counts)


def padding_by_length(traced, declared):
    """Real tokens with the padding's id must keep mask and label, and the mask must leave out all padding."""
    total = sum(int(padding.sum()) for padding in traced.padding)
    inside = sort_predictions(traced)[0]
    alike = [t for t in sorted(traced.wanted) if traced.documents[t[0]][t[1]] == traced.pad_id]
    masked = unmasked = 0
    for row, found, padding in zip(traced.rows, traced.spots, traced.padding):
        if row.mask is not None:
            masked += sum(bool(spot) and not keep for spot, keep in zip(found, row.mask))
            if not set(row.documents) & {"attention_mask", "mask"}:  # A mask of numbers may number padding as well.
                unmasked += int((row.mask & padding).sum())
    if not total and not masked:
        return UNAPPLIED, "no padding in this batch", {"padding": 0}
    ignored = [t for t in alike if not inside[t] and t not in traced.prompts] if traced.convention else []
    counts = {"padding": total, "real_tokens_masked": masked, "padding_unmasked": unmasked,
              "real_tokens_of_padding_id": len(alike), "of_them_ignored": len(ignored)}
    if masked or unmasked or ignored:
        return FAIL, (f"{masked} real tokens are masked, {unmasked} padding tokens are not; "
                      f"{len(ignored)} of {len(alike)} real tokens with the padding's id are no target"), counts
    if not alike:
        return UNKNOWN, "no real token has the padding's id; try --pad-in-text", counts
    return OK, f"{len(alike)} real tokens with the padding's id are targets, {total} padding tokens are apart", counts


def positions_restart(traced, declared):
    """Every piece must count up from 0 or from its place in the document; relative positions may start anywhere."""
    if declared.semantics == "continuous":
        return UNAPPLIED, STREAM, {}
    given = all(row.positions is not None for row in traced.rows)
    wrong = total = 0
    for row, found in zip(traced.rows, traced.spots):
        runs = runs_of(found)
        positions = row.positions if given else np.arange(len(runs))
        for number in range(runs.max(initial=-1) + 1):
            places = np.flatnonzero(runs == number)
            start, steps = positions[places[0]], positions[places] - np.arange(len(places))
            starts_anew = start in (0, found[places[0]][1]) or declared.position_ids == "relative"
            total += 1
            wrong += not (starts_anew and (steps == start).all())
    counts = {"pieces": total, "wrong": wrong}
    if wrong and not given:
        return UNKNOWN, f"no position ids: if the model counts a row from 0, {wrong} of {total} pieces do not start " \
            "anew", counts
    source = "position ids" if given else "no position ids, and a row counted from 0"
    return verdict(wrong, f"{source}: {wrong} of {total} pieces do not start anew", **counts)


# ---------------------------------------------------------------------------------------- attention


def documents_isolated(traced, declared):
    """Every form in which the batch tells its documents apart must isolate them, under the causal rule and the mask."""
    if declared.semantics == "continuous":
        return UNAPPLIED, STREAM, {}
    if declared.isolation == "model":
        return UNAPPLIED, "the model was declared to find the documents itself", {}
    forms, later, wanted = {}, 0, 0
    for row, found, padding in zip(traced.rows, traced.spots, traced.padding):
        runs, causal = runs_of(found), np.tri(len(found), dtype=bool)
        wanted += int((causal & (runs[:, None] == runs) & (runs >= 0)).sum())
        for key, heads in relations_of(row, causal).items():
            later += leaks(heads & ~causal, found, padding)[0]
            forms[key] = np.add(forms.get(key, (0, 0)), leaks(heads & causal, found, padding))
    counts = {"pairs_inside_documents": wanted} | {key: {"leaked": int(a), "missing": int(b)}
                                                   for key, (a, b) in forms.items()}
    text = [f"{key}: {a} pairs leak, {b} are missing" for key, (a, b) in sorted(forms.items())]
    numbered = padding_in_sequences(traced)
    counts["padding_in_sequences"] = sum(numbered.values())
    problems = wrong_longest(traced) + [f"{key}: a document's sequence contains {n} padding tokens"
                                        for key, n in sorted(numbered.items())]
    reason = f"{'; '.join(text + problems)} (of {wanted} inside documents)"
    if any(map(np.any, forms.values())) or problems:
        if "the causal rule" in forms and not problems:
            return unnamed_documents(traced, declared, reason, counts)
        if not problems and not any(a for a, _ in forms.values()) and reads_windows(traced):
            return UNKNOWN, f"{reason}; only pairs beyond some distance are missing, as in attention windows", counts
        return FAIL, reason, counts
    if later:
        return UNKNOWN, f"{reason}; {later} pairs read ahead, unless the model adds the causal rule", counts
    return OK, reason, counts


def relations_of(row, causal):
    """Return {key: bool (heads, width, width)} of each form in which a row says who reads whom."""
    if row.mask is not None:
        causal = causal & row.mask[None, :]
    found = {key: (causal & (ids[:, None] == ids) & (ids >= 0))[None] for key, ids in row.documents.items()}
    found |= row.relations
    return found or {"the causal rule": causal[None]}


def leaks(heads, found, padding):
    """Return (pairs that a head reads of another document or of padding, pairs of a piece that a head does not read).

    heads: bool (heads, width, width). Only tokens of documents are asked. What they read of ids that are neither a
    document's nor padding, or of another piece of their own document, is not judged.
    """
    runs, documents = runs_of(found), np.array([spot[0] if spot else -1 for spot in found])
    real, causal = documents >= 0, np.tri(len(found), dtype=bool)
    foreign = ~real & ~padding
    forbidden = ~causal | (documents[:, None] != documents) & ~foreign
    wanted = causal & (runs[:, None] == runs)
    return int((heads.any(axis=0) & forbidden)[real].sum()), int((wanted & ~heads.all(axis=0))[real].sum())


def reads_windows(traced):
    """Return whether every head with missing pairs reads all pairs nearer than some distance of two or more."""
    for row, found in zip(traced.rows, traced.spots):
        runs, causal = runs_of(found), np.tri(len(found), dtype=bool)
        wanted = causal & (runs[:, None] == runs) & (runs >= 0)
        distance = np.arange(len(runs))[:, None] - np.arange(len(runs))
        for heads in relations_of(row, causal).values():
            for head in heads:
                farthest = distance[wanted & head].max(initial=0)
                if farthest < 1 or (distance[wanted & ~head] <= farthest).any():
                    return False
    return True


def unnamed_documents(traced, declared, reason, counts):
    """Return the verdict on a batch without any mask, number or length that tells its documents apart."""
    if declared.isolation == "batch":
        return FAIL, reason, counts
    rows = list(zip(traced.rows, traced.spots))
    positioned = all(row.positions is not None for row in traced.rows)
    if positioned and all((np.diff(row.positions)[np.diff(runs_of(found)) > 0] != 1).all() for row, found in rows):
        return UNKNOWN, "only positions restart: whether documents are isolated is up to the model", counts
    masked = any(row.mask is not None and not row.mask[[spot is not None for spot in found]].all()
                 for row, found in rows)
    if masked:
        return FAIL, reason, counts
    return UNKNOWN, ("no key tells the documents apart; if the model does not find them itself, they read each other "
                     "(say --isolation batch or model)"), counts


def padding_in_sequences(traced):
    """Return {key: padding tokens that share the sequence of a real document}, for keys that state lengths."""
    found = Counter()
    for row, spots, padding in zip(traced.rows, traced.spots, traced.padding):
        real = np.array([spot is not None for spot in spots])
        for key in row.sequences:
            numbers = row.documents[key]
            found[key] += int((padding & (numbers >= 0) & np.isin(numbers, numbers[real])).sum())
    return {key: count for key, count in found.items() if count}


def wrong_longest(traced):
    """Return lines that name stated longest lengths which are shorter than a document of the batch."""
    longest = max(int(np.bincount(runs[runs >= 0]).max(initial=0)) for runs in map(runs_of, traced.spots))
    return sorted({f"{key}: {tokens}, but a document has {longest} tokens"
                   for row in traced.rows for key, tokens in row.longest.items() if tokens < longest})
