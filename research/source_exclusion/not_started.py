"""The list of the documents that arrived and were not started by the end of the stream."""

import csv
import io

import numpy as np

from evidence import write_atomic

COLUMNS = ("document", "name", "length", "state", "arrivals", "waited_documents")


def not_started(accounts):
    """Yield (document, length, arrivals, documents that arrived after its first arrival) of documents not started.

    accounts: one for each rank; a document that another rank started is left out. Rows are in order of document.
    """
    found = {}
    for account in accounts:
        documents, lengths = account.stream.documents, account.stream.lengths
        numbers = np.flatnonzero((account.state.started == 0) & account.has_arrived())
        for number in numbers.tolist():
            document = number if documents is None else int(documents[number])
            arrivals = -(-(account.arrived - number) // len(lengths))
            _, earlier, waited = found.get(document, (0, 0, 0))
            found[document] = int(lengths[number]), earlier + arrivals, max(waited, account.arrived - 1 - number)
    for document in sorted(found.keys() - _started_by_a_rank(accounts, list(found))):
        yield document, *found[document]


def _started_by_a_rank(accounts, candidates):
    """Return the set of those candidates that some rank has started."""
    if len(accounts) == 1:
        return set()
    started = np.zeros(1 + max(int(account.stream.documents.max()) for account in accounts), bool)
    for account in accounts:
        started[account.stream.documents[account.state.started > 0]] = True
    return {document for document in candidates if started[document]}


def write_not_started(path, accounts, name_of):
    """Write the list as CSV; return how many documents it holds.

    state: `longer_than_a_row` or `fits_a_row`; both kinds wait whole in a buffer.
    """
    capacity, text, count = accounts[0].packing.capacity, io.StringIO(), 0
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for document, length, arrivals, waited in not_started(accounts):
        state = "longer_than_a_row" if length > capacity else "fits_a_row"
        writer.writerow([document, name_of(document), length, state, arrivals, waited])
        count += 1
    write_atomic(path, text.getvalue().encode())
    return count
