"""Do documents that are packed into one row train as they would alone?

The script is an acceptance test on a trained model. It puts documents through the trainer's model alone, packed,
padded, repeated and replaced, and compares outputs, losses and gradients. By default it first trains a tiny model on
lines of arithmetic. With --run it takes the model and the validation text of a finished run, in float64. Rows that are
declared a continuous stream are not held to the independence of their documents: the script names the checks that it
leaves out and shows that context crosses documents. Where a fault can be made on purpose, its size is shown.

    python research/batch_boundaries/audit_boundaries.py [--freeze] [--semantics continuous]
    python research/batch_boundaries/audit_boundaries.py --run runs/demo/baseline_s43

Reads   protocols/demo.json; with --run, a finished run directory and the prepared data that it names
Writes  nothing; research/batch_boundaries/boundaries.json with --freeze, whose exact facts never change
Needs   torch, on the CPU
About   10 seconds
"""

import functools
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from evidence import InputError, first_difference, input_list, parser, read_json, require, run_script, write_json

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]

FROZEN, PROTOCOL = HERE / "boundaries.json", ROOT / "protocols/demo.json"
BOS, EOS, VOCABULARY, CONTEXT, UPDATES, MICROBATCH = 256, 257, 258, 160, 60, 4
TINY = {"layers": 3, "width": 32, "heads": 2, "gate_channels": 8}


def lines():
    """Return 900 documents: sums and products as bytes between BOS and EOS."""
    import numpy as np

    texts = [f"{a} times {b} is {a * b}, and {a} plus {b} is {a + b}." for a in range(2, 32) for b in range(2, 32)]
    return [np.array([BOS, *text.encode(), EOS]) for text in texts]


def trained_here(protocol, documents):
    """Train a tiny model for a few seconds on independent documents, with the trainer's own functions."""
    import numpy as np

    import train
    from loaders import document_masked, rows
    from loaders.accounting import row_targets
    from research.batch_boundaries.small_models import initial_model

    forward = initial_model({**protocol["model"], **TINY}, VOCABULARY, CONTEXT, seed=43, training=protocol["training"])
    optimizer = train.Optimizer(forward.model, protocol["optimizer"], "float32")
    order = np.random.Generator(np.random.PCG64(5)).permutation(len(documents))
    shuffled = [documents[i] for i in order]
    lengths = np.array([len(document) for document in shuffled])
    plan = document_masked.plan(lengths, capacity=CONTEXT + 1, rows=UPDATES * MICROBATCH, buffer_size=20,
                                refill=[len(lengths)])
    text = np.concatenate([document[1:] for document in shuffled]).astype(np.uint16)
    reader = rows.RowReader(plan, text, lengths, BOS, CONTEXT + 1)
    collate = functools.partial(rows.document_rows, independent=True, width=CONTEXT + 1)
    ranges = [(row, row + MICROBATCH) for row in range(0, UPDATES * MICROBATCH, MICROBATCH)]
    targets = row_targets(plan, independent=True)
    for update, batch in enumerate(rows.stream(reader, ranges, "cpu", collate)):
        scored = int(targets[update * MICROBATCH : (update + 1) * MICROBATCH].sum())
        loss, _ = train.run_update(forward, [batch], scored, train.Ranks(forward.device))
        optimizer.step(update, UPDATES)
    print(f"trained {UPDATES} updates on lines of arithmetic: last loss {loss:.3f} nats a target")
    return forward


def probe_here():
    """Return a Probe of a tiny model that is trained here, and of three lines of arithmetic."""
    from research.batch_boundaries.boundary_probe import Probe
    from research.batch_boundaries.small_models import random_model

    protocol, documents = read_json(PROTOCOL), lines()
    random = random_model({**protocol["model"], **TINY}, VOCABULARY, CONTEXT, training=protocol["training"])
    chosen = [documents[i] for i in (7, 404, 893)]
    return Probe(trained_here(protocol, documents), random, chosen, BOS, EOS)


def probe_of(run):
    """Return a Probe of a run's model in float64, and of its first three validation documents under a third row."""
    import numpy as np
    import safetensors.torch

    from loaders.rows import text_offsets
    from research.batch_boundaries.boundary_probe import Probe
    from research.batch_boundaries.small_models import initial_model, random_model

    config = read_json(run / "config.json")
    weights = run / "model.safetensors"
    require(weights.is_file(), weights, "missing; finish the run with train.py first")
    bos, context, data = config["bos"], config["packing"]["context"], run / config["data"]["directory"] / "validation"
    shape, training = (config["model"], config["vocabulary"], context), config["training"]
    trained = initial_model(*shape, seed=config["seed"], training=training)
    random = random_model(*shape, training=training)
    trained.model.load_state_dict(safetensors.torch.load_file(weights))
    for forward in (trained, random):
        forward.model.double()  # in float32, rounding grows with the size of the model and would pass the bounds
    lengths, tokens = np.load(data / "lengths.npy"), np.load(data / "tokens.npy", mmap_mode="r")
    chosen = np.flatnonzero((lengths > 4) & (lengths < context // 3))[:3]
    require(len(chosen) == 3, data / "lengths.npy", f"expected three documents of 5..{context // 3 - 1} tokens")
    texts = [tokens[begin:][: lengths[d] - 1] for d, begin in zip(chosen, text_offsets(lengths)[chosen])]
    documents = [np.array([bos, *map(int, text), bos + 1]) for text in texts]
    return Probe(trained, random, documents, bos, bos + 1)


def audit(record, probe, semantics, pipeline=None):
    """Make the checks of one declared semantics; return the names of those that are not applied."""
    from research.batch_boundaries import boundary_checks as checks
    from research.batch_boundaries.boundary_probe import STREAM, Pipeline

    continuous = semantics == "continuous"
    applied = (checks.STREAMS if continuous else checks.INDEPENDENCE) + checks.COMMON
    for function in applied:
        function(record, probe, pipeline or (STREAM if continuous else Pipeline()))
    return [function.__name__ for function in checks.INDEPENDENCE] if continuous else []


def lasting(value):
    """Return evidence without what may differ between machines: measured values, and versions."""
    if isinstance(value, dict):
        return {key: lasting(item) for key, item in value.items() if key not in ("value", "environment")}
    return value


def freeze(path, found):
    """Write the evidence once; later, raise InputError unless everything but measured values is the same."""
    if not path.exists():
        write_json(path, found)
        return
    difference = first_difference(lasting(read_json(path)), lasting(found))
    if difference:
        raise InputError(f"{path}: frozen, and the new content differs at {difference}")


def main(argv=None):
    arguments = parser(__doc__)
    arguments.add_argument("--run", type=Path, help="a finished run directory (default: train a tiny model here)")
    arguments.add_argument("--semantics", nargs="+", choices=("independent", "continuous"),
                           default=["independent", "continuous"], help="what the rows are declared as (default: both)")
    arguments.add_argument("--freeze", action="store_true", help=f"write {FROZEN.name}, or compare with it")
    options = arguments.parse_args(argv)
    if options.freeze and (options.run or len(options.semantics) < 2):
        arguments.error("--freeze is for the default model and both semantics")
    import numpy as np
    import torch

    from research.batch_boundaries.boundary_probe import Record

    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    probe = probe_of(options.run) if options.run else probe_here()
    record, parts = Record(), {}
    for semantics in options.semantics:
        print(f"\nrows declared {semantics}:")
        left_out = audit(record, probe, semantics)
        if left_out:
            print(f"not applied, because documents read each other on purpose: {', '.join(left_out)}")
        parts[semantics] = {"not_applied": left_out, **record.take()}
    failed = record.close()
    if options.freeze and not failed:
        freeze(FROZEN, {"documents": [len(document) for document in probe.documents], "updates": UPDATES,
                        "inputs": input_list([PROTOCOL], ROOT), "semantics": parts,
                        "environment": {"torch": torch.__version__, "numpy": np.__version__}})
        print(f"frozen: {FROZEN}")
    return failed


if __name__ == "__main__":
    sys.exit(run_script(main))
