"""A slow replay of a repeated corpus on lists of entries, and small corpora for it to check the compiled one on."""

import numpy as np


class SlowReplay:
    """The rule in words, on a list of [tokens left, arrival, begun]; `.passes` has what each pass ended with."""

    def __init__(self, lengths, refill, capacity, buffer_size, passes, policy):
        self.lengths, self.capacity, self.policy = lengths, capacity, policy
        self.buffer, self.arrived, self.space = [], 0, capacity
        self.emitted = self.discarded = 0
        self.first, self.begun, self.passes = [0] * len(lengths), [0] * len(lengths), []
        for _ in range(passes):
            for size in refill:
                for document in range(self.arrived % len(lengths), self.arrived % len(lengths) + size):
                    self.buffer.append([lengths[document], self.arrived, False])
                    self.arrived += 1
                while len(self.buffer) >= buffer_size:
                    self.select()
            self.passes.append((self.emitted, self.discarded, sum(entry[0] for entry in self.buffer), self.state()))

    def select(self):
        fitting = [entry for entry in self.buffer if entry[0] <= self.space]
        entry = min(fitting, key=lambda e: (-e[0], e[1])) if fitting else min(self.buffer, key=lambda e: (e[0], e[1]))
        document, taken = entry[1] % len(self.lengths), min(entry[0], self.space)
        if not entry[2]:
            self.first[document] = self.first[document] or self.arrived
            self.begun[document] += 1
        self.emitted += taken
        self.space = self.space - taken or self.capacity
        entry[0], entry[2] = entry[0] - taken, True
        if entry[0] == 0 or self.policy == "baseline":
            self.discarded += entry[0]
            self.buffer.remove(entry)

    def state(self):
        return self.space, sorted((left, arrival - self.arrived, begun) for left, arrival, begun in self.buffer)


def small_worlds(count):
    """Seeded (lengths, refill, capacity, buffer_size): short corpora, many of them with documents of equal length."""
    random = np.random.Generator(np.random.PCG64(11))
    for _ in range(count):
        documents, batch = int(random.integers(1, 12)), int(random.integers(1, 6))
        lengths = random.integers(1, int(random.choice([4, 12, 40])), documents).tolist()
        sizes = np.diff([*range(0, documents, batch), documents]).tolist()
        yield lengths, sizes, int(random.integers(2, 9)), int(random.integers(1, 15))
