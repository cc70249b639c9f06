"""Does the split of an update into microbatches and ranks change what it learns?

It must not: every target of an update weighs the same, so loss = sum of nats / effective targets, both over all
microbatches and ranks. Averaging the microbatches' means is the usual fault. Checked with the trainer's `run_update`:

* worked cases: microbatches of 2 and 8 targets with mean losses 1 and 3 give 2.6, not 2.0; one of 3 targets and 6 nats
  beside one of 9 and 9 gives 1.25, not 1.5; a microbatch without targets changes nothing; of none at all the loss is 0;
* a small model of train.py on documents of unlike lengths, one of them without a target: the gradients of every split
  into consecutive microbatches, and of shuffled ones, against the undivided batch, in float32 and float64;
* the same over two processes (torch.distributed, gloo), also where one of them gets no target;
* planted: the mean of means, and a second division by the ranks, must be told apart by the same measure.

    check_accumulation.py

Reads   nothing
Writes  accumulation.json beside this file, once: the worked cases and what was compared (differences are printed)
Needs   torch, NumPy
About   20 seconds

The difference of two gradients is the largest absolute one over all weights, over the largest absolute gradient.
Source: the note "From Training Chunks to a Batch", section on gradient accumulation; reported faults, cases 19 and 22.
"""

import argparse
import itertools
import os
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np

from evidence import Checks, freeze_json, run_script

HERE = Path(__file__).resolve().parent

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
    """The fault: every microbatch's own mean, averaged; None where one of them has no target to divide by."""
    means = [total / count if count else None for count, total in zip(targets, nats)]
    return None if None in means else sum(means) / len(means)


def trained_loss(targets, nats):
    """(loss, its gradient) by the trainer's `run_update`; a microbatch's nats are a weight of 1 times those given."""
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
    return loss, stub.model.weight.grad.item()


def check_cases(checks):
    for name, case in CASES.items():
        wrong, right = mean_of_means(case["targets"], case["nats"]), case["by_target"]
        found = trained_loss(case["targets"], case["nats"])
        checks.expect(np.allclose(found, right, rtol=1e-15, atol=0) and wrong == case["by_microbatch"],
                      f"{name}: targets {case['targets']}, nats {case['nats']}: by target {right}, the trainer's loss "
                      f"and gradient {found[0]:.15g}, {found[1]:.15g}; the mean of means would be {wrong}")


# ----------------------------------------------------------------------------------- gradients


def documents():
    """The ids of the compared documents, BOS first: int64 arrays of LENGTHS tokens."""
    random = np.random.default_rng(19)
    return [np.array([BOS, *random.integers(1, VOCABULARY, length - 1)]) for length in LENGTHS]


def make_forward(precision):
    from research.batch_boundaries.small_models import small_forward

    return small_forward(MODEL, VOCABULARY, CONTEXT, precision, chunk=7)


def batch(rows):
    """(ids as read, inputs, targets, positions, segment ids) of padded documents, as the trainer's stream gives them.

    Rows are at least two tokens wide, so that a microbatch of BOS alone has a position, though no target.
    """
    import torch

    from loaders.batches import shifted
    from research.batch_boundaries.layouts import pad_documents

    read = [documents()[row] for row in rows]
    arrays = shifted(pad_documents(read, pad=BOS, width=max(2, *map(len, read))))
    return np.array(rows), *(torch.from_numpy(np.ascontiguousarray(array)) for array in arrays)


def gradient(forward, split, ranks=None):
    """The update's gradient over a split (lists of rows) by the trainer, all weights in one flat float64 array."""
    import train

    ranks = ranks or train.Ranks(forward.device)
    train.run_update(forward, [batch(rows) for rows in ranks.deal(split)], sum(LENGTHS) - len(LENGTHS), ranks)
    return flat(forward)


def mean_gradient(forward, split):
    """The planted fault: every microbatch's loss is divided by its own targets and by the number of microbatches."""
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
    """Every split of the rows into consecutive microbatches but the undivided one, and shuffled splits into three."""
    rows, found = list(range(len(LENGTHS))), []
    for cuts in itertools.chain(*(itertools.combinations(rows[1:], count) for count in range(1, len(rows)))):
        edges = [0, *cuts, len(rows)]
        found.append([rows[begin:end] for begin, end in itertools.pairwise(edges)])
    random = np.random.default_rng(22)
    return found + [[part.tolist() for part in np.array_split(random.permutation(rows), 3)] for _ in range(SHUFFLES)]


def rank_splits():
    """Microbatches of a row each; and two, of which the first, one rank's whole share, has no target."""
    empty = LENGTHS.index(1)
    rows = list(range(len(LENGTHS)))
    return [[[row] for row in rows], [[empty], [row for row in rows if row != empty]]]


def run_rank(rank, folder, precision):
    """One of RANKS processes: the gradient of every rank split, written by the first."""
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
    """float64 (splits, weights): the gradients of `rank_splits` over RANKS processes."""
    import torch.multiprocessing

    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(run_rank, (folder, precision), RANKS)
        return np.load(Path(folder) / "gradients.npy")


def check_gradients(checks, precision):
    forward, tolerance = make_forward(precision), TOLERANCES[precision]
    whole = gradient(forward, [list(range(len(LENGTHS)))])
    checks.expect(all(bool(weight.grad.any()) for weight in forward.model.parameters()),
                  f"{precision}: every one of {len(list(forward.model.parameters()))} weight arrays has a gradient")
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
                      f"{precision}: planted second division by {RANKS} ranks is told apart: {twice:.1e}")
    planted = difference(mean_gradient(forward, [[0, 1, 2], [3, 4, 5]]), whole)
    checks.expect(planted > tolerance, f"{precision}: planted mean of means is told apart: {planted:.1e}")


def record():
    """Evidence: the worked cases, and what the gradients were compared over."""
    cases = {name: {**case, "effective_targets": sum(case["targets"])} for name, case in CASES.items()}
    row_targets = [length - 1 for length in LENGTHS]
    compared = {"row_targets": row_targets, "effective_targets": sum(row_targets), "ranks": RANKS,
                "consecutive_splits": len(splits()) - SHUFFLES, "shuffled_splits": SHUFFLES,
                "rank_splits": rank_splits(), "tolerances": TOLERANCES}
    return {"cases": cases, "gradients": compared, "inputs": []}


def main(argv=None):
    """0 when every split teaches the same and the planted faults are seen, 1 when not."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=HERE, help="folder of the frozen file")
    options = parser.parse_args(argv)
    checks = Checks()
    check_cases(checks)
    for precision in TOLERANCES:
        check_gradients(checks, precision)
    code = checks.close()
    if code == 0:
        freeze_json(options.output / "accumulation.json", record())
        print(options.output / "accumulation.json")
    return code


if __name__ == "__main__":
    sys.exit(run_script(main))
