"""Token mass, documents started and positions exposed, from the sums of an account.

The first three of the four quantities of the paper's section 6; the fourth, the evaluation population, is the same
account of the validation stream. Counts are exact integers, shares are ratios of two of them.
"""

from typing import NamedTuple

import numpy as np

from loaders.ledger import of_schema_1
from research.source_exclusion.account_state import (
    CROPPED,
    DISCARDED,
    DOCUMENTS,
    EMITTED,
    LONG_ARRIVED,
    LONG_EMITTED,
    LONG_STARTED,
    LONG_TOKENS,
    STARTED,
    SYNTHETIC,
    TOKENS,
    WHOLE,
    WHOLE_TEXT,
)

SCHEMA = 2  # loaders.ledger says in `of_schema_1` how records without a schema number count whole documents
SHARES_SEEN = ("without_text", "nothing", "up_to_a_quarter", "up_to_a_half", "up_to_three_quarters",
               "more_but_not_all", "everything")


class Corpus(NamedTuple):
    """Counts of the distinct documents of a corpus, as one stream or the streams of several ranks read them.

    documents: int64 (strata, 3), documents in the corpus, arrived at least once and started at least once.
    shares: int64 (7,), arrived documents by the share of their text that was emitted, in the order of SHARES_SEEN.
    """

    documents: np.ndarray
    shares: np.ndarray


def share(part, whole):
    """Return part / whole of two integers; None when whole is 0."""
    return part / whole if whole else None


def token_mass(arrived, fates, row_tokens):
    """Return quantity 1 from lines of Sums; row_tokens: tokens that the emitted rows hold."""
    arrived, fates = arrived.reshape(-1, 3).sum(axis=0).tolist(), fates.reshape(-1, 6).sum(axis=0).tolist()
    emitted, discarded = fates[EMITTED], fates[DISCARDED]
    return {"arrived": arrived[TOKENS], "synthetic_bos": arrived[SYNTHETIC], "emitted": emitted, "discarded": discarded,
            "buffered": arrived[TOKENS] + arrived[SYNTHETIC] - emitted - discarded,
            "utilisation": share(emitted, row_tokens)}


def document_counts(arrived, fates, distinct, schema):
    """Return quantity 2 from lines of Sums and of Corpus.documents: occurrences by state, and distinct documents."""
    arrived, fates = arrived.reshape(-1, 3).sum(axis=0).tolist(), fates.reshape(-1, 6).sum(axis=0).tolist()
    corpus, distinct_arrived, distinct_started = distinct.reshape(-1, 3).sum(axis=0).tolist()
    started, whole = fates[STARTED], fates[WHOLE]
    counts = {"corpus": corpus, "distinct_arrived": distinct_arrived, "distinct_started": distinct_started,
              "arrived": arrived[DOCUMENTS], "started": started, "unstarted": arrived[DOCUMENTS] - started,
              "whole": whole, "cropped": fates[CROPPED], "split": started - whole - fates[CROPPED],
              "bos_apart": fates[WHOLE_TEXT] - whole}
    return counts if schema == SCHEMA else of_schema_1(counts)


def over_capacity(sums):
    """Return what became of the documents longer than a row."""
    longer = sums.longer.tolist()
    return {"arrived": longer[LONG_ARRIVED], "started": longer[LONG_STARTED],
            "share_of_arrived_tokens": share(longer[LONG_TOKENS], int(sums.arrived[:, TOKENS].sum())),
            "share_of_emitted_tokens": share(longer[LONG_EMITTED], int(sums.fates[:, EMITTED].sum()))}


def strata(sums, edges, corpus, schema):
    """Return one record a length stratum: (0, edges[0]], (edges[0], edges[1]], ..., over the last edge."""
    records, all_emitted = [], int(sums.fates[:, EMITTED].sum())
    for number, (low, high) in enumerate(zip([0, *edges], [*edges, None], strict=True)):
        tokens = token_mass(sums.arrived[number], sums.fates[number], all_emitted)
        tokens["share_of_emitted"] = tokens.pop("utilisation")
        documents = document_counts(sums.arrived[number], sums.fates[number], corpus.documents[number],
                                    schema)
        records.append({
            "over": low, "up_to": high, "documents": documents, "tokens": tokens,
            "started_share": share(documents["started"], documents["arrived"]),
            "retained_share": share(tokens["emitted"], tokens["arrived"] + tokens["synthetic_bos"]),
        })
    return records


def positions(sums, edges, corpus):
    """Return quantity 3: exposure by relative and absolute position, and how much of each document was seen."""
    bins = zip([0, *edges], [*edges, None], sums.absolute.tolist(), strict=True)
    absolute = [{"from": low, "to": high, "arrived": arrived, "emitted": emitted, "share": share(emitted, arrived)}
                for low, high, (arrived, emitted) in bins]
    fits, longer = sums.relative.tolist()
    return {"relative": {"fits_a_row": fits, "longer_than_a_row": longer}, "absolute": absolute,
            "documents_by_share_seen": dict(zip(SHARES_SEEN, corpus.shares.tolist(), strict=True))}
