"""Do documents packed into one row train as they would alone? The acceptance test, on a real trained model.

Documents alone, packed, padded, repeated and replaced go through the trainer's own model; outputs, losses and gradients
are compared. By default a tiny model is trained here first on lines of arithmetic; --run takes model and validation
text of a finished run, in float64. A declared continuous stream is not held to the independence of its documents: those
checks are left out, by name, and the crossing context is shown instead. Where a fault can be made on purpose, its size
is shown.

Reads:   protocols/demo.json; with --run, a finished run directory and the prepared data it names
Writes:  research/batch_boundaries/boundaries.json with --freeze; what is exact in it never changes
Needs:   torch, on the CPU
Takes:   about 10 seconds
Use:     python research/batch_boundaries/check_boundaries.py [--freeze] [--semantics continuous]
         python research/batch_boundaries/check_boundaries.py --run runs/demo/baseline_s43
"""

import argparse
import functools
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from evidence import InputError, first_difference, input_list, read_json, run_script, write_json

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]

FROZEN, PROTOCOL = HERE / "boundaries.json", ROOT / "protocols/demo.json"
BOS, EOS, VOCABULARY, CONTEXT, UPDATES, MICROBATCH = 256, 257, 258, 160, 60, 4
TINY = {"layers": 3, "width": 32, "heads": 2, "gate_channels": 8}


def lines():
    """Documents as bytes between BOS and EOS: sums and products, 900 lines."""
    import numpy as np

    texts = [f"{a} times {b} is {a * b}, and {a} plus {b} is {a + b}." for a in range(2, 32) for b in range(2, 32)]
    return [np.array([BOS, *text.encode(), EOS]) for text in texts]


def forward_of(settings, training, vocabulary, context, seed):
    """`train.Forward` in float32 on the CPU, weights as the recipe sets them."""
    import train

    model = train.build_model(settings, vocabulary, context)
    train.initialise(model, seed)
    return train.Forward(model, {**training, "precision": "float32", "compile": False}, train.torch.device("cpu"))


def randomised(forward):
    """All weights random: the recipe's zeros would hide what attention reads."""
    import torch

    generator = torch.Generator().manual_seed(1)
    for weight in forward.model.parameters():
        torch.nn.init.normal_(weight, 0.0, 0.3, generator=generator)
    return forward


def trained_here(protocol, documents):
    """A tiny model trained for a few seconds on independent documents, by the trainer's own parts."""
    import numpy as np

    import train
    from loaders import document_masked, rows

    forward = forward_of({**protocol["model"], **TINY}, protocol["training"], VOCABULARY, CONTEXT, 43)
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
    targets = train.row_targets(plan, independent=True)
    for update, batch in enumerate(rows.stream(reader, ranges, "cpu", collate)):
        scored = int(targets[update * MICROBATCH : (update + 1) * MICROBATCH].sum())
        loss, _ = train.run_update(forward, [batch], scored, train.Ranks(forward.device))
        optimizer.step(update, UPDATES)
    print(f"trained {UPDATES} updates on lines of arithmetic: last loss {loss:.3f} nats a target")
    return forward


def subject_here():
    """The tiny model trained here, and three lines of arithmetic."""
    from research.batch_boundaries.boundary_probe import Subject

    protocol, documents = read_json(PROTOCOL), lines()
    random = forward_of({**protocol["model"], **TINY}, protocol["training"], VOCABULARY, CONTEXT, 43)
    chosen = [documents[i] for i in (7, 404, 893)]
    return Subject(trained_here(protocol, documents), randomised(random), chosen, BOS, EOS)


def subject_of(run):
    """The trained model of a run directory in float64, and its first three validation documents under a third row."""
    import numpy as np
    import safetensors.torch

    from loaders.rows import text_offsets
    from research.batch_boundaries.boundary_probe import Subject

    config = read_json(run / "config.json")
    if not (run / "model.safetensors").is_file():
        raise InputError(f"{run / 'model.safetensors'}: missing; finish the run with train.py first")
    bos, context, data = config["bos"], config["packing"]["context"], run / config["data"]["directory"] / "validation"
    trained, random = (forward_of(config["model"], config["training"], config["vocabulary"], context, config["seed"])
                       for _ in range(2))
    trained.model.load_state_dict(safetensors.torch.load_file(run / "model.safetensors"))
    for forward in (trained, random):
        forward.model.double()  # rounding grows with a run's size; the bounds do not
    lengths, tokens = np.load(data / "lengths.npy"), np.load(data / "tokens.npy", mmap_mode="r")
    chosen = np.flatnonzero((lengths > 4) & (lengths < context // 3))[:3]
    if len(chosen) < 3:
        raise InputError(f"{data / 'lengths.npy'}: expected three documents of 5..{context // 3 - 1} tokens")
    texts = [tokens[begin:][: lengths[d] - 1] for d, begin in zip(chosen, text_offsets(lengths)[chosen])]
    documents = [np.array([bos, *map(int, text), bos + 1]) for text in texts]
    return Subject(trained, randomised(random), documents, bos, bos + 1)


def check(record, subject, semantics, way=None):
    """Make the checks of one declared semantics; the names of those that are not applied."""
    from research.batch_boundaries import boundary_checks as checks
    from research.batch_boundaries.boundary_probe import STREAM, Way

    continuous = semantics == "continuous"
    applied = (checks.STREAMS if continuous else checks.INDEPENDENCE) + checks.COMMON
    for function in applied:
        function(record, subject, way or (STREAM if continuous else Way()))
    return [function.__name__ for function in checks.INDEPENDENCE] if continuous else []


def lasting(value):
    """Evidence without what may differ between machines: the values that keep to a bound, and the versions."""
    if isinstance(value, dict):
        return {key: lasting(item) for key, item in value.items() if key not in ("value", "environment")}
    return value


def freeze(path, found):
    """Write once; later, InputError unless all that lasts is the same (the bounds themselves were checked)."""
    if not path.exists():
        write_json(path, found)
        return
    difference = first_difference(lasting(read_json(path)), lasting(found))
    if difference:
        raise InputError(f"{path}: frozen, and the new content differs at {difference}")


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", type=Path, help="a finished run directory (default: train a tiny model here)")
    parser.add_argument("--semantics", nargs="+", choices=("independent", "continuous"),
                        default=["independent", "continuous"], help="what the rows are declared to be (default: both)")
    parser.add_argument("--freeze", action="store_true", help=f"write {FROZEN.name}, or compare with it")
    options = parser.parse_args(argv)
    if options.freeze and (options.run or len(options.semantics) < 2):
        parser.error("--freeze is for the default model and both semantics")
    import numpy as np
    import torch

    from research.batch_boundaries.boundary_probe import Record

    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    subject, record, parts = subject_of(options.run) if options.run else subject_here(), Record(), {}
    for semantics in options.semantics:
        print(f"\nrows declared {semantics}:")
        left_out = check(record, subject, semantics)
        if left_out:
            print(f"not applied, since documents read each other on purpose: {', '.join(left_out)}")
        parts[semantics] = {"not_applied": left_out, **record.take()}
    failed = record.close()
    if options.freeze and not failed:
        freeze(FROZEN, {"documents": [len(document) for document in subject.documents], "updates": UPDATES,
                        "inputs": input_list([PROTOCOL], ROOT), "semantics": parts,
                        "environment": {"torch": torch.__version__, "numpy": np.__version__}})
        print(f"frozen: {FROZEN}")
    return failed


if __name__ == "__main__":
    sys.exit(run_script(main))
