"""Does this GPU train as the CPU does, and how fast is it at the paper's shape?

Reads   protocols/climbmix.json; no prepared data, because tokens and document lengths are seeded
Writes  runs/gpu_check/<device>.json; with --freeze, gpu_check_<device>.json beside this script
Needs   torch with CUDA, nvidia-smi and one free GPU that is named; about 25 GiB of its memory, or less in smaller
        microbatches
About   unmeasured on a GPU; a few minutes, most of them for compiling. --limit (450 s) ends the check with the report
        so far and exit code 2

    python research/matched_training/gpu_check.py --gpu 0 [--freeze]
    python research/matched_training/gpu_check.py --device cpu       # a small dry run of the same code; no evidence

The check compares losses and gradients of a small model with the CPU's, and flex attention with dense attention. Then
it times train.py's own loop on the rows of a synthetic corpus. Exit 1: a comparison does not hold.
"""

import contextlib
import os
import re
import sys
import threading
import time
import traceback
import warnings
from pathlib import Path
from types import SimpleNamespace

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from devices import add_device_arguments, reserve_device
from evidence import InputError, freeze_json, input_list, parser, run_script, write_json
from protocols.run_files import shared_files
from protocols.schema import find_protocol
from research.matched_training.gpu_peaks import known_peak

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]

WARM_UP, TIMED, SMALLEST = 3, 10, 8
TINY = {"model": {"layers": 2, "width": 64, "heads": 2, "gate_channels": 8}, "context": 64, "vocabulary": 512,
        "training": {"microbatch": 4, "accumulation": 2, "logit_chunk": 64}}


def speed_config(protocol, dry_run, microbatch):
    """Return the paper's settings for a few updates, in microbatches of `microbatch` rows."""
    config = {**protocol, "condition": "gpu_check", "seed": protocol["seeds"][0],
              "vocabulary": protocol["tokenizer"]["vocabulary"]}
    if dry_run:
        config["model"] = {**config["model"], **TINY["model"]}
        config["packing"] = {**config["packing"], "context": TINY["context"]}
        config["training"], config["vocabulary"] = {**config["training"], **TINY["training"]}, TINY["vocabulary"]
    training = config["training"]
    rows = training["accumulation"] * training["microbatch"]
    config["training"] = {**training, "microbatch": microbatch, "accumulation": rows // microbatch,
                          "updates": WARM_UP + TIMED, "timer_skip": WARM_UP}
    return config


def synthetic_split(config):
    """Return the parts of a Split that train.train uses: the baseline's rows of seeded tokens and skewed lengths."""
    import numpy as np

    from loaders import best_fit_crop, rows
    from loaders.accounting import row_targets

    packing, training, random = config["packing"], config["training"], np.random.default_rng(config["seed"])
    lengths = np.maximum(2, random.lognormal(6.5, 1.1, 4096)).astype(np.int64)
    tokens = random.integers(0, config["vocabulary"] - 1, int(lengths.sum()) - len(lengths)).astype(np.uint16)
    count = training["updates"] * training["accumulation"] * training["microbatch"]
    plan = best_fit_crop.plan(lengths, capacity=packing["context"] + 1, rows=count, buffer_size=packing["buffer_size"],
                              refill=np.full(32, 128))
    reader = rows.RowReader(plan, tokens, lengths, config["vocabulary"] - 1, packing["context"] + 1)
    return SimpleNamespace(reader=reader, targets=row_targets(plan, independent=False), collate=rows.full_rows)


def measured(config, updates, seconds, device, peak_tflops):
    """Return the entry `throughput` of the report after some timed updates."""
    import train
    from run_directory import peak_bytes

    training, context = config["training"], config["packing"]["context"]
    flops = train.describe(config, config["vocabulary"])["flops_per_token"]
    targets = updates * training["accumulation"] * training["microbatch"] * context
    rate = targets / seconds
    return {"updates": updates, "microbatch": training["microbatch"], "accumulation": training["accumulation"],
            "context": context, "targets": targets, "seconds": seconds, "targets_per_second": rate,
            "flops_per_token": flops, "peak_tflops": peak_tflops, "peak_bytes": peak_bytes(device),
            "model_flop_utilisation": flops * rate / (peak_tflops * 1e12) if peak_tflops else None,
            "utilisation_left_out": None if peak_tflops else "peak unknown for this device; --peak-tflops gives it"}


def train_some(config, device, peak_tflops, report):
    """Train with train.py's own loop, and keep the measurement in the report after each timed update."""
    import train
    from checkpoint import Progress

    if device.type == "cuda":
        train.torch.cuda.reset_peak_memory_stats()
    model, _ = train.prepare_model(config, device)
    forward = train.DeviceModel(model, config["training"], device)
    optimizer = train.Optimizer(model, config["optimizer"], config["training"]["precision"])
    progress = Progress()

    def after_update(line, capture):
        timed = progress.update - WARM_UP
        if timed > 0:
            report["throughput"] = measured(config, timed, progress.timed_seconds, device, peak_tflops)

    split = synthetic_split(config)
    train.train(config, forward, optimizer, split, progress, train.Ranks(device), after_update)


def measure_speed(protocol, device, peak_tflops, report):
    """Fill report["throughput"], in smaller microbatches where the memory does not suffice."""
    import torch

    dry_run = report["dry_run"]
    wanted = (TINY if dry_run else protocol)["training"]["microbatch"]
    microbatch = wanted
    while True:
        try:
            train_some(speed_config(protocol, dry_run, microbatch), device, peak_tflops, report)
            break
        except torch.OutOfMemoryError:
            print(f"no memory for microbatches of {microbatch} rows", flush=True)
        microbatch //= 2
        if microbatch < SMALLEST:
            raise InputError(f"not enough GPU memory for microbatches of {SMALLEST} rows; free it or use another GPU")
        torch._dynamo.reset()
        torch.cuda.empty_cache()
    report["throughput"] = {**report["throughput"], "microbatch_wanted": wanted}


def device_facts(device):
    """Return the versions, the name and the memory of the device that the report is of."""
    import torch

    facts = {"torch": torch.__version__, "cuda": torch.version.cuda, "name": "cpu", "memory_bytes": None}
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        facts |= {"name": properties.name, "memory_bytes": properties.total_memory}
    return facts


def end_in_time(limit, report, path):
    """Start and return a timer that writes the report and ends this process, whatever the main thread waits for.

    The main thread only adds to the report and to its list, so copies of the two suffice.
    """
    def expire():
        print(f"gpu_check.py: not finished in {limit} s", file=sys.stderr, flush=True)
        try:
            write_json(path, {**report, "agreement": list(report["agreement"])})
            print(f"what there is: {path}", file=sys.stderr, flush=True)
        except Exception:
            traceback.print_exc()
        finally:
            os._exit(2)

    timer = threading.Timer(limit, expire)
    timer.daemon = True
    timer.start()
    return timer


@contextlib.contextmanager
def eagerly(dry_run):
    """In a dry run, run compiled code uncompiled, because compiling takes a CPU minutes."""
    import torch

    if not dry_run:
        yield
        return
    with torch.compiler.set_stance("force_eager"), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "flex_attention called without torch.compile")
        yield


def make_checks(protocol, device, peak_tflops, report):
    """Fill the report, and print each part as it comes."""
    from research.matched_training.gpu_agreement import kernel_checks, model_checks

    for checks in (kernel_checks(device), model_checks(protocol, device)):
        for entry in checks:
            report["agreement"].append(entry)
            found = "not a number" if entry["difference"] is None else f"{entry['difference']:.2e}"
            print(f"{'ok  ' if entry['holds'] else 'FAIL'} {entry['check']}: {found}, at most {entry['tolerance']:g}",
                  flush=True)
    measure_speed(protocol, device, peak_tflops, report)
    speed = report["throughput"]
    print(f"{speed['targets_per_second']:,.0f} targets a second over {speed['updates']} updates in microbatches of "
          f"{speed['microbatch']} (wanted: {speed['microbatch_wanted']}); model FLOP utilisation "
          f"{speed['utilisation_left_out'] or format(speed['model_flop_utilisation'], '.1%')}; peak memory "
          f"{speed['peak_bytes'] / 2**30:.2f} GiB", flush=True)


def finish(report, out, slug, seconds, freeze):
    """Write the finished report, and freeze it if every comparison holds; return the exit code."""
    report |= {"complete": True, "seconds": seconds}
    write_json(out, report)
    failed = sum(not entry["holds"] for entry in report["agreement"])
    if freeze and not failed:
        freeze_json(HERE / f"gpu_check_{slug}.json", report)
    print(f"{len(report['agreement'])} checks, {failed} failed{', so not frozen' if failed and freeze else ''}: {out}")
    return 1 if failed else 0


def main(argv=None):
    arguments = parser(__doc__)
    add_device_arguments(arguments)
    arguments.add_argument("--peak-tflops", type=float, metavar="N", help="dense bfloat16 peak, if the table lacks it")
    arguments.add_argument("--limit", type=float, default=450, metavar="S", help="seconds in all (default: 450)")
    arguments.add_argument("--out", type=Path, default=ROOT / "runs/gpu_check", metavar="DIR", help="for the report")
    arguments.add_argument("--freeze", action="store_true", help="write the report beside this script")
    options = arguments.parse_args(argv)
    if options.freeze and options.device:
        raise InputError("--freeze: a dry run on the CPU is no evidence of a GPU; name one with --gpu")
    began = time.monotonic()
    reserve_device(options)
    protocol, path = find_protocol("climbmix", ROOT / "protocols")
    report = {"complete": False, "dry_run": bool(options.device), "agreement": [], "throughput": None}
    import torch

    device, dry_run = torch.device("cpu") if options.device else torch.device("cuda", 0), report["dry_run"]
    torch.set_num_threads(1 if dry_run else protocol["training"]["threads"])
    code = [ROOT / name for name in shared_files(ROOT, [ROOT / "loaders/best_fit_crop.py"])]
    code += [HERE / "gpu_check.py", HERE / "gpu_agreement.py", ROOT / "loaders/best_fit_crop.py"]
    report |= {"device": device_facts(device), "inputs": input_list([path, *code], ROOT)}
    name = report["device"]["name"]
    slug = "cpu_dry_run" if dry_run else re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")
    out = options.out / f"{slug}.json"
    print(f"{'dry run on the CPU, no evidence of a GPU' if dry_run else name}, torch {torch.__version__}", flush=True)
    timer = end_in_time(options.limit - (time.monotonic() - began), report, out)
    with eagerly(dry_run):
        make_checks(protocol, device, options.peak_tflops or known_peak(name), report)
    timer.cancel()
    return finish(report, out, slug, time.monotonic() - began, options.freeze)


if __name__ == "__main__":
    sys.exit(run_script(main))
