"""Does the split of an update into microbatches and ranks change what the update learns?

It must not. Every target of an update has the same weight, so the loss is the sum of nats over the number of effective
targets, both summed over all microbatches and ranks. Averaging the means of the microbatches is the usual fault. The
script checks the trainer's `run_update`:

* in worked cases: microbatches of 2 and 8 targets with mean losses 1 and 3 give 2.6, not 2.0; a microbatch without
  targets changes nothing; without any target the loss is 0;
* with a small model of train.py on documents of unlike lengths: the gradients of every split into microbatches equal
  those of the undivided batch, in float32 and float64;
* over two processes (torch.distributed, gloo), also where one of them gets no target;
* with two planted faults, a mean of means and a second division by the ranks, which the same measure must show.

    python research/batch_boundaries/measure_accumulation.py

Reads   nothing
Writes  nothing, or the worked cases and what was compared with --json FILE; differences are only printed
Needs   torch and NumPy
About   20 seconds

The difference of two gradients is the largest absolute difference of a weight, divided by the largest gradient. The
first worked case is that of the note "From Training Chunks to a Batch".
"""

import itertools
import os
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np

from evidence import Checks, freeze_json, parser, run_script

CASES = {
    "note": {"targets": [2, 8], "nats": [2, 24], "by_target": 2.6, "by_microbatch": 2.0},
    "unequal": {"targets": [3, 9], "nats": [6, 9], "by_target": 1.25, "by_microbatch": 1.5},
    "one_empty": {"targets": [0, 6], "nats": [0, 9], "by_target": 1.5, "by_microbatch": None},
    "all_empty": {"targets": [0, 0], "nats": [0, 0], "by_target": 0.0, "by_microbatch": None},
}
TOLERANCES = {"float32": 1e-6, "float64": 1e-12}
LENGTHS = (2, 19, 1, 7, 24, 4)
CONTEXT, VOCABULARY, BOS, SHUFFLES, RANKS = 24, 50, 0, 8, 2
MODEL = {"layers": 3, "width": 32, "heads": 2, "window_pattern": "SL", "rotary_base": 10000, "softcap": 15,
         "gate_channels": 8}


# ------------------------------------------------------------------------------- worked cases


def mean_of_means(targets, nats):
    """Return the faulty loss, the mean of the microbatches' means; None if a microbatch has no target."""
    means = [total / count if count else None for count, total in zip(targets, nats)]
    return None if None in means else sum(means) / len(means)


def trained_loss(targets, nats):
    """Return the loss and gradient that `run_update` gives a model whose loss is one weight of 1 times the nats."""
    import torch

    import train

    class Stub:
        device, model = torch.device("cpu"), torch.nn.Linear(1, 1, bias=False, dtype=torch.float64)

        def loss(self, total):
            return self.model.weight.sum() * total

    stub = Stub()
    torch.nn.init.ones_(stub.model.weight)
    batches = [(np.zeros((1, 1), np.int64), total) for total in nats]
    loss, _ = train.run_update(stub, batches, sum(targets), train.Ranks(stub.device))
    return float(loss), stub.model.weight.grad.item()


def measure_cases(checks):
    for name, case in CASES.items():
        wrong, right = mean_of_means(case["targets"], case["nats"]), case["by_target"]
        found = trained_loss(case["targets"], case["nats"])
        checks.expect(np.allclose(found, right, rtol=1e-15, atol=0) and wrong == case["by_microbatch"],
                      f"{name}: targets {case['targets']}, nats {case['nats']}: by target {right}, the trainer's loss "
                      f"and gradient {found[0]:.15g}, {found[1]:.15g}; the mean of means would be {wrong}")


# ----------------------------------------------------------------------------------- gradients


def documents():
    """Return the compared documents: int64 id arrays of LENGTHS tokens that begin with BOS."""
    random = np.random.default_rng(19)
    return [np.array([BOS, *random.integers(1, VOCABULARY, length - 1)]) for length in LENGTHS]


def make_forward(precision):
    from research.batch_boundaries.small_models import busy_model

    return busy_model(MODEL, VOCABULARY, CONTEXT, precision=precision, chunk=7)


def batch(rows):
    """Return a microbatch of padded documents as the trainer's stream gives it.

    The parts are ids, inputs, targets, positions and segment ids.

    Rows are at least two tokens wide, so that a microbatch of BOS alone has a position, but no target.
    """
    import torch

    from loaders.batches import shifted
    from research.batch_boundaries.layouts import pad_documents

    read = [documents()[row] for row in rows]
    arrays = shifted(pad_documents(read, pad=BOS, width=max(2, *map(len, read))))
    return np.array(rows), *(torch.from_numpy(np.ascontiguousarray(array)) for array in arrays)


def gradient(forward, split, ranks=None):
    """Return the trainer's gradient over a split (lists of rows), all weights in one flat float64 array."""
    import train

    ranks = ranks or train.Ranks(forward.device)
    train.run_update(forward, [batch(rows) for rows in ranks.deal(split)], sum(LENGTHS) - len(LENGTHS), ranks)
    return flat(forward)


def mean_gradient(forward, split):
    """Return the gradient of the planted fault: each microbatch's mean loss, averaged over the microbatches."""
    forward.model.zero_grad()
    for rows in split:
        targets = sum(LENGTHS[row] - 1 for row in rows)
        (forward.loss(*batch(rows)[1:]) / (targets * len(split))).backward()
    return flat(forward)


def flat(forward):
    return np.concatenate([weight.grad.double().flatten().numpy() for weight in forward.model.parameters()])


def difference(found, reference):
    return float(np.abs(found - reference).max() / np.abs(reference).max())


def splits():
    """Return every split of the rows into consecutive microbatches, and shuffled splits into three."""
    rows, found = list(range(len(LENGTHS))), []
    for cuts in itertools.chain(*(itertools.combinations(rows[1:], count) for count in range(1, len(rows)))):
        edges = [0, *cuts, len(rows)]
        found.append([rows[begin:end] for begin, end in itertools.pairwise(edges)])
    random = np.random.default_rng(22)
    return found + [[part.tolist() for part in np.array_split(random.permutation(rows), 3)] for _ in range(SHUFFLES)]


def rank_splits():
    """Return two splits for the ranks: one row a microbatch, and two microbatches of which one has no target."""
    empty = LENGTHS.index(1)
    rows = list(range(len(LENGTHS)))
    return [[[row] for row in rows], [[empty], [row for row in rows if row != empty]]]


def run_rank(rank, folder, precision):
    """Compute the gradient of every rank split in one of RANKS processes; the first process writes them."""
    import torch.distributed

    import train

    os.environ.update(WORLD_SIZE=str(RANKS), RANK=str(rank))
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=RANKS)
    forward = make_forward(precision)
    ranks = train.Ranks(forward.device)
    found = [gradient(forward, split, ranks) for split in rank_splits()]
    if rank == 0:
        np.save(Path(folder) / "gradients.npy", found)
    ranks.close()


def gradients_of_ranks(precision):
    """Return the gradients of `rank_splits` over RANKS processes, float64 (splits, weights)."""
    import torch.multiprocessing

    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(run_rank, (folder, precision), RANKS)
        return np.load(Path(folder) / "gradients.npy")


def measure_gradients(checks, precision):
    forward, tolerance = make_forward(precision), TOLERANCES[precision]
    whole = gradient(forward, [list(range(len(LENGTHS)))])
    checks.expect(all(bool(weight.grad.any()) for weight in forward.model.parameters()),
                  f"{precision}: all {len(list(forward.model.parameters()))} weight arrays have a gradient")
    worst = max(difference(gradient(forward, split), whole) for split in splits())
    checks.expect(worst <= tolerance, f"{precision}: {len(splits())} splits differ from the undivided batch by at most "
                                      f"{worst:.1e} (limit {tolerance:g})")
    for split, found in zip(rank_splits(), gradients_of_ranks(precision)):
        shares = [sum(LENGTHS[row] - 1 for rows in split[rank::RANKS] for row in rows) for rank in range(RANKS)]
        apart = difference(found, whole)
        checks.expect(apart <= tolerance, f"{precision}: {RANKS} ranks with {shares} targets differ by {apart:.1e} "
                                          f"(limit {tolerance:g})")
        twice = difference(found / RANKS, whole)
        checks.expect(twice > tolerance,
                      f"{precision}: a planted second division by {RANKS} ranks shows: {twice:.1e}")
    planted = difference(mean_gradient(forward, [[0, 1, 2], [3, 4, 5]]), whole)
    checks.expect(planted > tolerance, f"{precision}: a planted mean of means shows: {planted:.1e}")


def record():
    """Return the evidence: the worked cases, and the splits over which gradients were compared."""
    cases = {name: {**case, "effective_targets": sum(case["targets"])} for name, case in CASES.items()}
    row_targets = [length - 1 for length in LENGTHS]
    compared = {"row_targets": row_targets, "effective_targets": sum(row_targets), "ranks": RANKS,
                "consecutive_splits": len(splits()) - SHUFFLES, "shuffled_splits": SHUFFLES,
                "rank_splits": rank_splits(), "tolerances": TOLERANCES}
    return {"cases": cases, "gradients": compared, "inputs": []}


def main(argv=None):
    arguments = parser(__doc__)
    arguments.add_argument("--json", type=Path, metavar="FILE",
                           help="write the record to FILE; if FILE exists, its content must be the same")
    options = arguments.parse_args(argv)
    checks = Checks()
    measure_cases(checks)
    for precision in TOLERANCES:
        measure_gradients(checks, precision)
    code = checks.close()
    if options.json and code == 0:
        freeze_json(options.json, record())
        print(f"written: {options.json}")
    return code


if __name__ == "__main__":
    sys.exit(run_script(main))
