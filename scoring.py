"""The official score of a model and the result of a run: what a change of the model or the loader must leave alone."""

import math

import numpy as np
import torch

import evidence
from evidence import InputError
from loaders import best_fit_crop, rows
from loaders.accounting import plan_sha256
from run_directory import bar, device_name, peak_bytes


def score(device_model, reader, microbatch, byte_tables, ranks, label="scoring"):
    """Return nats, supplied bytes, raw bytes and counted targets of every row: float64 (rows, 4).

    A target counts if its supplied byte length is positive, which excludes specials. Sums within a row are in float64.
    """
    device = device_model.device
    supplied, raw = (torch.from_numpy(table.astype(np.int64)).to(device) for table in byte_tables)
    statistics = torch.zeros(reader.count, 4, dtype=torch.float64, device=device)
    firsts = ranks.deal(range(0, reader.count, microbatch))
    ranges = [(first, min(first + microbatch, reader.count)) for first in firsts]
    stream = bar(rows.stream(reader, ranges, device), label, len(ranges))
    for (first, last), (_, inputs, targets) in zip(ranges, stream, strict=True):
        nats, counted = device_model.nats(inputs, targets).double(), supplied[targets] > 0
        columns = [nats * counted, supplied[targets], raw[targets] * counted, counted]
        statistics[first:last] = torch.stack([column.double().sum(1) for column in columns], dim=1)
    return ranks.sum(statistics).cpu().numpy()


def summarise(statistics):
    """Return the official score of row statistics: bits per byte by both byte tables, cross-entropy, perplexity.

    Nats are summed exactly by fsum; bits per byte = nats / (ln 2 x bytes). Source: recipe facts, paper section 4.
    """
    nats = math.fsum(statistics[:, 0])
    supplied, raw, counted = (int(column.sum()) for column in statistics[:, 1:].astype(np.int64).T)
    if not counted:
        raise InputError("the scored rows have no target with a positive byte length; prepare more validation text")
    return {
        "rows": len(statistics),
        "nats": nats,
        "targets": counted,
        "supplied_bytes": supplied,
        "raw_bytes": raw,
        "bits_per_byte": nats / (math.log(2) * supplied),
        "raw_bits_per_byte": nats / (math.log(2) * raw),
        "cross_entropy": nats / counted,
        "perplexity": math.exp(nats / counted),
    }


def score_run(directory, device_model, ranks):
    """Return (row statistics, plan) of the official score, which every run takes of the same rows."""
    config = directory.config
    scored_rows = config["evaluation"]["targets"] // device_model.model.context
    validation = rows.Split(directory.data, "validation", best_fit_crop.LOADER, config, scored_rows)
    byte_tables = [np.load(directory.data / f"tokenizer/bytes_{name}.npy") for name in ("supplied", "raw")]
    microbatch, label = config["evaluation"]["microbatch"], f"{directory.label}: scoring"
    return score(device_model, validation.reader, microbatch, byte_tables, ranks, label), validation.plan


def result_of(directory, ranks, size, progress, training, statistics, seconds, digests):
    """Return the content of result.json but for the digests of the files that are written with it.

    size: the description of the run by its protocol; training: the training Split; digests: those known to the caller.
    `positions` are those laid out in the rows, `targets` those that counted in the loss.
    """
    config, device = directory.config, directory.device
    size = size | {"positions": training.positions, "targets": progress.effective_targets,
             "total_flops": size["flops_per_token"] * training.positions}
    result = {
        **{key: config[key] for key in ("study", "condition", "seed")},
        **size,
        "score": summarise(statistics),
        **{key: getattr(progress, key) for key in ("effective_targets", "empty_updates", "attempts")},
        "peak_bytes": peak_bytes(device),
        "seconds": seconds,
        "digests": {"config": evidence.sha256_file(directory.path), "code": directory.identity["code"],
                    "inputs": config["data"]["files"], "plan": plan_sha256(training.plan), **digests,
                    **{key: getattr(progress, key) for key in ("rows", "first_microbatch", "last_microbatch")}},
        "environment": {"torch": torch.__version__, "numpy": np.__version__, "ranks": ranks.count,
                        "device": device_name(device)},
    }
    if "edits" in config:
        result["edits"] = training.edits_made
        result["digests"]["edited_plan"] = plan_sha256(training.reader.plan)
    return result


def print_score(result, path):
    """Print the score of a finished run, and warn where the two counts of bytes disagree."""
    found = result["score"]
    supplied, raw = found["supplied_bytes"], found["raw_bytes"]
    if abs(supplied - raw) > raw / 100:
        print(f"warning: the tokenizer's byte lengths count {supplied:,} bytes where the text has {raw:,}; compare "
              "models by raw bits per byte")
    print(f"{found['bits_per_byte']:.6f} bits per byte ({found['raw_bits_per_byte']:.6f} raw) over "
          f"{found['targets']:,} targets, after training on {result['effective_targets']:,} targets: {path}")
