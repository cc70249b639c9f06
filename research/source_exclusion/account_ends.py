"""The compiled loops over documents at the end of an account."""

from loaders.best_fit_crop import compiled
from research.source_exclusion.account_state import ARRIVED, NOWHERE, entries_of, entry_of, stratum


@compiled
def waiting_tokens(state, capacity):
    """Return the tokens of all entries that have arrived and were never selected."""
    documents, arrived, tokens = len(state.lengths), state.counters[ARRIVED], 0
    for document in range(min(documents, arrived)):
        occurrences = arrived // documents + (1 if document < arrived % documents else 0)
        entries, first = entries_of(state, document), entry_of(state, document, 0, capacity)
        last = state.lengths[document] - (entries - 1) * (capacity - 1)
        for entry in range(first, first + entries - 1):
            tokens += (occurrences - state.selected[entry]) * capacity
        tokens += (occurrences - state.selected[first + entries - 1]) * last
    return tokens


@compiled
def union(seen, slices):
    """Add to `seen`, int32 (documents,), the positions of slices (document, from, to) beyond it; slices are sorted."""
    document, reached = NOWHERE, 0
    for line in range(len(slices)):
        if slices[line, 0] != document:
            document = slices[line, 0]
            reached = seen[document]
        start, end = max(slices[line, 1], reached), slices[line, 2]
        seen[document] += max(end - start, 0)
        reached = max(reached, end)
    return seen


@compiled
def count_documents(documents, shares, lengths, arrived, seen, edges):
    """Add the documents of a corpus to the tables of quantities.Corpus; arrived: bool, seen: int32, (documents,)."""
    for document in range(len(lengths)):
        kind, text, shown = stratum(edges, lengths[document]), lengths[document] - 1, max(seen[document], 0)
        documents[kind, 0] += 1
        documents[kind, 2] += 1 if seen[document] >= 0 else 0
        if not arrived[document]:
            continue
        documents[kind, 1] += 1
        if text == 0 or shown == 0:
            shares[0 if text == 0 else 1] += 1
        elif shown == text:
            shares[6] += 1
        else:
            shares[1 + (4 * shown + text - 1) // text] += 1
