"""Is the recipe that this project trains the one of karpathy/autoresearch? Upstream's own code, run beside ours.

    python research/matched_training/compare_upstream.py CHECKOUT [--root DIR] [--freeze]

CHECKOUT is a folder with upstream's prepare.py and train.py at commit 228791f; both are checked by SHA-256. Four parts:

rows         every row of upstream's loader, training and validation, against ours, on the demo's corpus
score        upstream's bits per byte of a saved model against our official score
float64      losses and weights after six updates in float64, with upstream's model and optimizer from our weights
bfloat16     the same in bfloat16, where rounding differs; the largest distances are stated, not judged

Reads   CHECKOUT; data/demo (make prepare) and runs/demo/baseline_s43 (make demo)
Writes  with --freeze, upstream.json beside this script
Needs   torch; upstream is run on the CPU
About   two minutes, most of it upstream's list-based loader

Exit 1: a part differs by more than its tolerance.
"""

import contextlib
import math
import sys
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np
import torch

import train
from corpora.prepared import Prepared
from evidence import Checks, freeze_json, parser, require, run_script
from loaders import best_fit_crop
from loaders.rows import RowReader
from research.matched_training import upstream
from research.saved_runs import SavedRun

ROOT = Path(__file__).resolve().parents[2]
STUDY, RUN = "demo", "baseline_s43"
ROWS = {"train": 1000, "validation": 256}
# Upstream sums the nats of a microbatch in float32, whose rounding is 6e-8 of the sum; float64 leaves 1e-16.
SCORE_TOLERANCE, LOSS_TOLERANCE, WEIGHT_TOLERANCE = 1e-7, 1e-12, 1e-9
UPDATES, BATCH = 6, 4


def our_rows(prepared, split, count):
    """Return the first `count` rows of our baseline loader."""
    lengths, packing = prepared.lengths(split), prepared.protocol["packing"]
    plan = best_fit_crop.plan(lengths, capacity=prepared.capacity, rows=count, buffer_size=packing["buffer_size"],
                              refill=prepared.refill(split))
    return RowReader(plan, prepared.tokens(split), lengths, prepared.bos, prepared.capacity).rows(0, count)


def compare_rows(checks, prepared, module, tokenizer):
    """Compare every row of both splits; return {split: {"rows", "equal"}}."""
    found = {}
    for split, count in ROWS.items():
        name = "train" if split == "train" else "val"
        theirs = upstream.rows_of(module, tokenizer, name, BATCH, prepared.capacity - 1)
        equal = (upstream.first_rows(theirs, count) == our_rows(prepared, split, count)).all(axis=1)
        found[split] = {"rows": count, "equal": int(equal.sum())}
        checks.expect(equal.all(), f"{split}: {equal.sum()} of {count} rows equal")
    return found


def compare_score(checks, prepared, module, tokenizer, saved):
    """Compare the score of a saved model; return the difference and what was compared."""
    model, official = saved.forward(), saved.result["score"]["bits_per_byte"]
    context, microbatch = prepared.capacity - 1, saved.config["evaluation"]["microbatch"]
    module.MAX_SEQ_LEN, module.EVAL_TOKENS = context, saved.config["evaluation"]["targets"]
    module.get_token_bytes = lambda device: torch.from_numpy(prepared.byte_tables[0].astype(np.int64))
    theirs = module.evaluate_bpb(lambda inputs, targets, reduction: model.nats(inputs, targets), tokenizer, microbatch)
    apart = abs(theirs - official)
    checks.expect(apart <= SCORE_TOLERANCE, f"score of {saved.name}: {official:.9f} bits per byte, upstream's is "
                                            f"{apart:.1e} away")
    return {"run": saved.name, "targets": module.EVAL_TOKENS, "tolerance": SCORE_TOLERANCE,
            "within": apart <= SCORE_TOLERANCE}


def first_batches(prepared):
    """Return the inputs and targets of the first updates, [(int64 (batch, context), int64 (batch, context))]."""
    rows = torch.from_numpy(our_rows(prepared, "train", UPDATES * BATCH).astype(np.int64))
    return [(part[:, :-1].contiguous(), part[:, 1:].contiguous()) for part in rows.split(BATCH)]


def in_float64(muon):
    """Let our Muon keep its moments and orthogonalise in float64."""
    muon.dtype = torch.float64
    for group in muon.groups:
        for key in ("momentum", "second_moment"):
            group[key] = group[key].double()


def train_both(checkout, protocol, batches, precision):
    """Train ours and upstream's model from the same weights; return [(our loss, upstream's)] and both models."""
    double, vocabulary = precision == "float64", protocol["tokenizer"]["vocabulary"]
    settings = {**protocol["training"], "precision": "float32" if double else precision}
    ours = train.build_model(protocol["model"], vocabulary, protocol["packing"]["context"])
    train.initialise(ours, protocol["seeds"][0])
    if double:
        ours.double()
    else:
        for part in (ours.token_embedding, ours.value_embeddings):
            part.bfloat16()
        ours.cos, ours.sin = ours.cos.bfloat16(), ours.sin.bfloat16()
    module = upstream.definitions(checkout, "train.py", double, fa3=mock.Mock(flash_attn_func=upstream.attention))
    theirs = upstream.same_model(module, ours, protocol["model"], vocabulary)
    with contextlib.redirect_stdout(sys.stderr):  # upstream says there how it scales its rates
        their_optimizer = upstream.optimizer_of(theirs, protocol["optimizer"])
    our_optimizer = train.Optimizer(ours, protocol["optimizer"], settings["precision"])
    if double:
        in_float64(our_optimizer.muon)
    device_model = train.DeviceModel(ours, settings, torch.device("cpu"))
    device_model.chunked, losses = False, []
    for update, (inputs, targets) in enumerate(batches):
        ours.zero_grad()
        theirs.zero_grad()
        with device_model.autocast():
            their_loss = theirs(inputs, targets)
        our_loss = device_model.loss(inputs, targets) / targets.numel()
        their_loss.backward()
        our_loss.backward()
        our_optimizer.step(update, protocol["training"]["updates"])
        upstream.step(module, their_optimizer, update, protocol["training"]["updates"],
                      protocol["optimizer"]["muon"]["weight_decay"])
        losses.append((our_loss.item(), their_loss.item()))
    return losses, ours, theirs


def distances(losses, ours, theirs):
    """Return the largest distances of losses and of weights."""
    theirs = dict(theirs.named_parameters())
    weights = [(weight.double() - theirs[upstream.renamed(name)].double()).abs().max().item()
               for name, weight in ours.named_parameters()]
    return max(abs(a - b) for a, b in losses), max(weights)


def _unchanged(tensor):
    """Stand in for a conversion to fewer bits, while everything is computed in float64."""
    return tensor


def compare_training(checks, checkout, protocol, batches):
    """Compare six updates in float64, which is judged, and in bfloat16, which is measured."""
    with mock.patch.object(torch.Tensor, "float", _unchanged), mock.patch.object(torch.Tensor, "bfloat16", _unchanged):
        loss, weight = distances(*train_both(checkout, protocol, batches, "float64"))
    within = loss <= LOSS_TOLERANCE and weight <= WEIGHT_TOLERANCE
    checks.expect(within, f"float64: after {UPDATES} updates, losses are at most {loss:.1e} nats apart, weights "
                          f"{weight:.1e}")
    exact = {"updates": UPDATES, "loss_tolerance": LOSS_TOLERANCE, "weight_tolerance": WEIGHT_TOLERANCE,
             "within": within}
    loss, weight = distances(*train_both(checkout, protocol, batches, "bfloat16"))
    checks.expect(math.isfinite(loss), f"bfloat16 (measured, not judged): losses are at most {loss:.1e} nats apart, "
                                       f"weights {weight:.1e}")
    measured = {"updates": UPDATES, "largest_loss_distance": loss, "largest_weight_distance": weight,
                "torch": torch.__version__}
    return {"float64": exact, "bfloat16_measured": measured}


def main(argv=None):
    arguments = parser(__doc__)
    arguments.add_argument("checkout", type=Path, metavar="CHECKOUT", help="a folder with upstream at commit 228791f")
    arguments.add_argument("--root", type=Path, default=ROOT, metavar="DIR", help="the repository (default: this one)")
    arguments.add_argument("--freeze", action="store_true", help="write upstream.json beside this script")
    options = arguments.parse_args(argv)
    require(options.checkout.is_dir(), options.checkout, "no such folder; name a checkout of karpathy/autoresearch")
    from corpora.tokenizer import make_encoding, read_tokenizer

    prepared, checks = Prepared(options.root, STUDY), Checks()
    encoding = make_encoding(*read_tokenizer(prepared.directory / "tokenizer"))
    module, tokenizer = upstream.loader_module(options.checkout, prepared, encoding)
    content = {"upstream": {"commit": upstream.COMMIT, "files": upstream.FILES}, "study": STUDY,
               "inputs": prepared.inputs(["train/lengths.npy", "train/tokens.npy", "validation/lengths.npy",
                                          "validation/tokens.npy"], [prepared.protocol_path]),
               "rows": compare_rows(checks, prepared, module, tokenizer)}
    content |= compare_training(checks, options.checkout, prepared.protocol, first_batches(prepared))
    saved = SavedRun(options.root / "runs" / STUDY / RUN, "cpu")
    content["score"] = compare_score(checks, prepared, module, tokenizer, saved)
    code = checks.close()
    if options.freeze and not code:
        path = options.root / "research/matched_training/upstream.json"
        freeze_json(path, content)
        print(f"evidence: {path}")
    return code


if __name__ == "__main__":
    sys.exit(run_script(main))
