"""A repeated corpus packed again for verify_source_exclusion.py: when each of its documents is first started.

The reference packer makes the selections. Bounds and the protected mass follow from the lengths alone. Key names are
those of serve_repeated.py. Standard library and NumPy.
"""

import hashlib

import numpy as np

from research.reference_packer import ReferencePacker

LISTED, LAST, MORE = 20, 10, 100


class ReferenceReplay:
    """Passes of a corpus, one after the other.

    started, first: lists (documents,), how often each document was started, and how many documents had arrived when it
    first was (0: not yet). `passed` is what each pass ended with, and the state that its end leaves.
    """

    def __init__(self, lengths, refill, capacity, buffer_size, policy):
        self.packer = ReferencePacker(lengths.tolist(), refill.tolist(), capacity=capacity, buffer_size=buffer_size,
                                      lossless=policy == "lossless")
        self.size = len(lengths)
        self.started, self.first = [0] * self.size, [0] * self.size
        self.emitted = self.discarded = 0

    def one_pass(self):
        """Let all documents arrive once, and make the selections before the next pass must arrive."""
        packer, size, first, started = self.packer, self.size, self.first, self.started
        emitted = discarded = 0
        for _ in packer.batches:
            packer.arrive()
            while len(packer.keys) >= packer.buffer_size:
                _, arrival, bos, _, count, rest = packer.select()
                emitted += bos + count
                discarded += rest
                if bos:
                    started[arrival % size] += 1
                    if not first[arrival % size]:
                        first[arrival % size] = packer.arrived
        self.emitted += emitted
        self.discarded += 0 if packer.lossless else discarded

    def buffered(self):
        """Return (tokens that are buffered, documents that wait unstarted, in order)."""
        entries = self.packer.buffered()
        waiting = sorted(arrival % self.size for arrival, _, _, started in entries if not started)
        return sum(tokens for _, _, tokens, _ in entries), waiting


# ------------------------------------------------------------------------------------------- bounds


def moment(arrived, size):
    """Return a point of the stream as the pass, from 1, and how many documents have arrived; None for 0."""
    return {"pass": -(-arrived // size), "arrived": int(arrived)} if arrived else None


def bounds(lengths, refill, threshold, buffer_size):
    """Return how many documents have arrived with the buffer_size-th of at least `threshold` tokens, and at the end of
    its refill batch."""
    places = np.flatnonzero(lengths >= threshold)
    passed, rank = divmod(buffer_size - 1, len(places))
    ends = np.cumsum(refill)
    return [passed * len(lengths) + int(at) for at in (places[rank] + 1, ends[ends > places[rank]][0])]


def protected_tokens(lengths, capacity, buffer_size, passes):
    """Return the tokens of the longest min(B - 1, N) arrivals over a row after `passes` whole passes."""
    longest = sorted((length for length in lengths.tolist() if length > capacity), reverse=True)
    whole, rest = divmod(min(buffer_size - 1, passes * len(longest)), passes)
    return passes * sum(longest[:whole]) + (rest * longest[whole] if rest else 0)


def steps(capacity, longest):
    """Return the lengths over a row from which up documents are counted: capacity + 1, powers of two, the longest."""
    powers = [2**power for power in range(longest.bit_length())]
    return [step for step in sorted({capacity + 1, *powers, longest}) if capacity < step <= longest]


# ------------------------------------------------------------------------------------------ records


def pass_records(replay, lengths, edges, passes):
    """Return (one record a pass, [(documents that wait, state)] at the end of each)."""
    records, states, classes = [], [], [lengths >= edge for edge in edges]
    before = np.zeros(2 + len(edges), np.int64)
    for number in range(1, passes + 1):
        replay.one_pass()
        started = np.array(replay.started)
        now = np.array([replay.emitted, replay.discarded, *(started[chosen].sum() for chosen in classes)])
        emitted, discarded, *counts = (now - before).tolist()
        before = now
        buffered, waiting = replay.buffered()
        kept = protected_tokens(lengths, replay.packer.capacity, replay.packer.buffer_size, number)
        records.append({"pass": number, "emitted": emitted, "discarded": discarded, "buffered": buffered,
                        "protected": kept,
                        **{f"started_from_{edge}": count for edge, count in zip(edges, counts, strict=True)}})
        states.append((waiting, replay.packer.state()))
    return records, states


def steady(records, states):
    """Return since when the same documents wait, the first state that comes back, and the sums of the last passes."""
    unchanged = len(states)
    while unchanged > 1 and states[unchanged - 2][0] == states[-1][0]:
        unchanged -= 1
    seen, repeats = {}, None
    for number, (_, state) in enumerate(states, 1):
        if seen.setdefault(state, number) != number:
            repeats = {"pass": number, "equals_pass": seen[state], "period": number - seen[state]}
            break
    last = records[-LAST:]
    summed = [key for key in last[0] if key not in ("pass", "buffered", "protected")]
    return {"waiting_unchanged_from_pass": unchanged if unchanged < len(states) else None, "state_repeats": repeats,
            "last_passes": {"passes": len(last), **{key: sum(record[key] for record in last) for key in summed}}}


def class_record(replay, lengths, refill, edge):
    """Return what became of the documents of at least `edge` tokens; edge 1 stands for all and has no bound."""
    chosen, size = np.flatnonzero(lengths >= edge).tolist(), len(lengths)
    first, started = [replay.first[d] for d in chosen], [replay.started[d] for d in chosen]
    bound = bounds(lengths, refill, edge, replay.packer.buffer_size)[0] if edge > 1 else 0
    earliest, latest = min(filter(None, first), default=0), max(first) if min(first) else 0
    return {"from": edge, "documents": len(chosen), "tokens": int(lengths[chosen].sum()), "bound": moment(bound, size),
            "first_begun": moment(earliest, size), "all_begun": moment(latest, size), "never_begun": started.count(0),
            "services": sum(started)}


def at_the_bound(replay, lengths, reached):
    """Return for how many lengths over a row the first such document started in the refill that its bound predicts."""
    first = np.array(replay.first)
    found = [int(first[(lengths >= length) & (first > 0)].min(initial=2**62)) for length in reached]
    met = sum(end == start for (_, end), start in zip(reached.values(), found, strict=True))
    return {"distinct": len(reached), "bound_after_the_replay": found.count(2**62), "first_begun_at_the_bound": met}


def longest_documents(replay, lengths, reached):
    """Return the longest documents over a row: their bound, first service and number of services."""
    order, size = np.argsort(-lengths, kind="stable")[:LISTED].tolist(), len(lengths)
    return [{"document": document, "length": int(lengths[document]), "services": replay.started[document],
             "bound": moment(reached[int(lengths[document])][0], size),
             "first_begun": moment(replay.first[document], size)} for document in order if lengths[document] in reached]


def served(lengths, refill, capacity, buffer_size, policy):
    """Return the evidence of serve_repeated.py for a policy and its default passes, without study and inputs."""
    over = {length for length in lengths.tolist() if length > capacity}
    reached = {length: bounds(lengths, refill, length, buffer_size) for length in over}
    passes = -(-max((end for _, end in reached.values()), default=buffer_size) // len(lengths)) + MORE
    longest, replay = int(lengths.max()), ReferenceReplay(lengths, refill, capacity, buffer_size, policy)
    edges = [1, *(steps(capacity, longest) or [capacity + 1])]
    records, states = pass_records(replay, lengths, edges, passes)
    classes = [class_record(replay, lengths, refill, edge) for edge in edges if edge <= longest]
    shown = {2**power for power in range(passes.bit_length())} | {passes}
    shown |= {c["bound"]["pass"] - back for c in classes if c["bound"] for back in (0, 1)}
    table = [list(records[0]), *(list(record.values()) for record in records)]
    lines = "".join(",".join(map(str, line)) + "\n" for line in table)
    return {
        "policy": policy, "capacity": capacity, "buffer_size": buffer_size, "documents": len(lengths),
        "tokens": int(lengths.sum()), "replayed": passes, "classes": classes, "steady": steady(records, states),
        "lengths_over_a_row": at_the_bound(replay, lengths, reached),
        "longest": longest_documents(replay, lengths, reached),
        "passes": [records[number - 1] for number in sorted(shown) if 1 <= number <= passes],
        "all_passes_sha256": hashlib.sha256(lines.encode()).hexdigest(),
    }
