"""A repeated corpus replayed and counted again, for verify_source_exclusion.py: standard library and NumPy.

The buffer is one sorted list of integers (length, number), as in recount.py, but nothing is kept of a selection; bounds
and the protected mass follow from the lengths alone. Key names are serve_repeated.py's.
"""

import hashlib
from bisect import bisect_left, insort

import numpy as np

from research.source_exclusion.recount import NUMBER_BITS, NUMBERS

LISTED, LAST, MORE = 20, 10, 100


class Replay:
    """Passes of a corpus, one after the other.

    keys: the entries held; active: numbers of those begun but not finished; begun, first: lists (documents,), how often
    each document was begun, and how many documents had arrived when it first was (0: never).
    """

    def __init__(self, lengths, refill, capacity, buffer_size, policy):
        self.size, self.capacity, self.buffer_size = len(lengths), capacity, buffer_size
        self.continues = policy == "lossless"
        keys = [length << NUMBER_BITS | document for document, length in enumerate(lengths.tolist())]
        self.batches = [keys[end - size:end] for end, size in zip(np.cumsum(refill).tolist(), refill.tolist())]
        self.keys, self.active, self.space = [], set(), capacity
        self.begun, self.first = [0] * self.size, [0] * self.size
        self.arrived = self.emitted = self.discarded = 0

    def select(self):
        """Selections until fewer than buffer_size entries are held."""
        keys, active, space, size, needed = self.keys, self.active, self.space, self.size, self.buffer_size
        while len(keys) >= needed:
            longer = bisect_left(keys, (space + 1) << NUMBER_BITS)
            key = keys.pop(bisect_left(keys, keys[longer - 1] & ~NUMBERS, 0, longer) if longer else 0)
            length, number = key >> NUMBER_BITS, key & NUMBERS
            if number not in active:
                document = number % size
                self.first[document] = self.first[document] or self.arrived
                self.begun[document] += 1
            if length <= space:
                active.discard(number)
            elif self.continues:
                insort(keys, (length - space) << NUMBER_BITS | number)
                active.add(number)
            else:
                self.discarded += length - space
            count = min(length, space)
            self.emitted += count
            space = space - count or self.capacity
        self.space = space

    def one_pass(self):
        """All documents arrive once; the selections up to where the next pass must begin to arrive."""
        before = self.arrived
        for batch in self.batches:
            self.keys += [key + before for key in batch]
            self.keys.sort()
            self.arrived += len(batch)
            self.select()

    def state(self):
        """(documents waiting unstarted, everything that later passes depend on), numbers counted from this pass."""
        waiting = sorted((key & NUMBERS) % self.size for key in self.keys if key & NUMBERS not in self.active)
        begun = frozenset(number - self.arrived for number in self.active)
        return waiting, (self.space, begun, tuple(key - self.arrived for key in self.keys))


# ------------------------------------------------------------------------------------------- bounds


def moment(arrived, size):
    """A point of the stream as the pass (from 1) and how many documents have arrived; None for 0."""
    return {"pass": -(-arrived // size), "arrived": int(arrived)} if arrived else None


def bounds(lengths, refill, threshold, buffer_size):
    """Documents arrived with the buffer_size-th of at least `threshold` tokens, and at the end of its refill batch."""
    places = np.flatnonzero(lengths >= threshold)
    passed, rank = divmod(buffer_size - 1, len(places))
    ends = np.cumsum(refill)
    return [passed * len(lengths) + int(at) for at in (places[rank] + 1, ends[ends > places[rank]][0])]


def protected_tokens(lengths, capacity, buffer_size, passes):
    """Tokens of the longest min(B - 1, N) arrivals over a row when every document has arrived `passes` times."""
    longest = sorted((length for length in lengths.tolist() if length > capacity), reverse=True)
    whole, rest = divmod(min(buffer_size - 1, passes * len(longest)), passes)
    return passes * sum(longest[:whole]) + (rest * longest[whole] if rest else 0)


# ------------------------------------------------------------------------------------------ records


def pass_records(replay, lengths, edges, passes):
    """(one record a pass, the two states at the end of each)."""
    records, states, classes = [], [], [lengths >= edge for edge in edges]
    before = np.zeros(2 + len(edges), np.int64)
    for number in range(1, passes + 1):
        replay.one_pass()
        begun = np.array(replay.begun)
        now = np.array([replay.emitted, replay.discarded, *(begun[chosen].sum() for chosen in classes)])
        emitted, discarded, *started = (now - before).tolist()
        before = now
        kept = protected_tokens(lengths, replay.capacity, replay.buffer_size, number)
        records.append({"pass": number, "emitted": emitted, "discarded": discarded,
                        "buffered": sum(key >> NUMBER_BITS for key in replay.keys), "protected": kept,
                        **{f"started_from_{edge}": count for edge, count in zip(edges, started)}})
        states.append(replay.state())
    return records, states


def steady(records, states):
    """Since when what waits is the same, the first state that comes back, and the sums of the last passes."""
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


def service_of_class(replay, lengths, refill, edge):
    """What became of the documents of at least `edge` tokens; edge 1 stands for all, which wait for nothing."""
    chosen = np.flatnonzero(lengths >= edge).tolist()
    first, begun = [replay.first[d] for d in chosen], [replay.begun[d] for d in chosen]
    bound = bounds(lengths, refill, edge, replay.buffer_size)[0] if edge > 1 else 0
    earliest, latest = min(filter(None, first), default=0), max(first) if min(first) else 0
    return {"from": edge, "documents": len(chosen), "tokens": int(lengths[chosen].sum()),
            "bound": moment(bound, len(lengths)), "first_begun": moment(earliest, len(lengths)),
            "all_begun": moment(latest, len(lengths)), "never_begun": begun.count(0), "services": sum(begun)}


def class_edges(longest, capacity):
    """1, and above the capacity: capacity + 1, the powers of two, the longest length."""
    powers = [2**power for power in range(longest.bit_length())]
    return [1, *sorted({capacity + 1, *(edge for edge in (*powers, longest) if edge > capacity)})]


def at_the_bound(replay, lengths, reached):
    """Of the lengths over a row, whether the first document of at least each was begun in its bound's refill."""
    first = np.array(replay.first)
    begun = [int(first[(lengths >= length) & (first > 0)].min(initial=2**62)) for length in reached]
    return {"distinct": len(reached), "bound_after_the_replay": begun.count(2**62),
            "first_begun_at_the_bound": sum(end == found for (_, end), found in zip(reached.values(), begun))}


def longest_documents(replay, lengths, reached):
    """The longest documents over a row: bound, first service, services."""
    order, size = np.argsort(-lengths, kind="stable")[:LISTED].tolist(), len(lengths)
    return [{"document": document, "length": int(lengths[document]), "services": replay.begun[document],
             "bound": moment(reached[int(lengths[document])][0], size),
             "first_begun": moment(replay.first[document], size)} for document in order if lengths[document] in reached]


def served(lengths, refill, capacity, buffer_size, policy):
    """The evidence of serve_repeated.py for a policy and its default number of passes, without study and inputs."""
    over = {length for length in lengths.tolist() if length > capacity}
    reached = {length: bounds(lengths, refill, length, buffer_size) for length in over}
    passes = -(-max((end for _, end in reached.values()), default=buffer_size) // len(lengths)) + MORE
    edges, replay = class_edges(int(lengths.max()), capacity), Replay(lengths, refill, capacity, buffer_size, policy)
    records, states = pass_records(replay, lengths, edges, passes)
    classes = [service_of_class(replay, lengths, refill, edge) for edge in edges if edge <= lengths.max()]
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
