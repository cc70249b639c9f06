"""Which device may a run use? The CPU, or the one GPU that its user named, checked by UUID before anything runs on it.

InputError gives the reason when no GPU is named, or several are, or one that this machine lacks, that the caller was
not lent, or that is in use, and when a child process finds another UUID or several devices behind the name.

Numbers are those of `nvidia-smi -L`. CUDA itself may count otherwise (the fastest first, unless CUDA_DEVICE_ORDER says
PCI_BUS_ID), so the numbers in a caller's CUDA_VISIBLE_DEVICES are resolved by a child process under that environment.
"""

import os
import re
import signal
import subprocess
import sys
import threading

from evidence import InputError, parse_json
from surroundings import child_environment

CPU = {"kind": "cpu", "index": None, "uuid": None, "name": None}
PROBE = """
import json, torch
uuids = [str(torch.cuda.get_device_properties(i).uuid) for i in range(torch.cuda.device_count())]
print(json.dumps(["GPU-" + uuid.removeprefix("GPU-") for uuid in uuids]))
"""
BUSY_SHARE = 0.1  # inside a container nvidia-smi may list no process, but it still shows the memory in use


def _nvidia_smi(query, fields):
    """Return the rows of fields that `nvidia-smi --query-<query>=<fields>` prints."""
    command = ["nvidia-smi", f"--query-{query}={fields}", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    except FileNotFoundError:
        raise InputError("nvidia-smi: not found, so no GPU can be named here; use --device cpu") from None
    except subprocess.TimeoutExpired:
        raise InputError("nvidia-smi: no answer in 60 seconds") from None
    if done.returncode:
        raise InputError(f"nvidia-smi: exit {done.returncode}: {(done.stderr or done.stdout).strip()}")
    return [line.split(", ") for line in done.stdout.splitlines() if line.strip()]


def list_gpus():
    """Return the GPUs of this machine, {"kind", "index", "uuid", "name"} each, and {uuid: share of memory in use}."""
    gpus, used = [], {}
    for row in _nvidia_smi("gpu", "index,uuid,name,memory.total,memory.used"):
        if len(row) < 5:
            raise InputError(f"nvidia-smi: expected index, uuid, name and two memory sizes, found {', '.join(row)!r}")
        index, uuid, *name, total, in_use = row
        gpus.append({"kind": "gpu", "index": int(index), "uuid": uuid, "name": ", ".join(name)})
        used[uuid] = int(in_use) / int(total) if in_use.isdigit() and total.isdigit() else 0
    return gpus, used


def _find(gpus, name):
    """Return the GPU of an index, a UUID or a beginning of one UUID alone; None when no GPU or several have it."""
    found = [gpu for gpu in gpus if name == str(gpu["index"]) or len(name) > 4 and gpu["uuid"].startswith(name)]
    return found[0] if len(found) == 1 else None


def _probe(environment):
    """Return the UUIDs of the GPUs that a child process sees in an environment, in CUDA's order."""
    done = subprocess.run([sys.executable, "-c", PROBE], env=environment, capture_output=True, text=True)
    if done.returncode:
        raise InputError(f"--gpu: the probe failed: {done.stderr.strip().rpartition(chr(10))[2]}")
    return parse_json(done.stdout.encode(), "probe")


def refuse_foreign(gpu):
    """Raise InputError unless the GPU is among those that the caller's CUDA_VISIBLE_DEVICES, if set, lends it."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return
    lent = _probe(child_environment())
    if gpu["uuid"] not in lent:
        raise InputError(f"--gpu: {gpu['index']} ({gpu['uuid']}) is foreign: CUDA_VISIBLE_DEVICES={visible!r} of the "
                         f"caller lends {' and '.join(lent) or 'no GPU'}; name a GPU that you were lent by its UUID")


def refuse_busy(gpu, share):
    """Raise InputError when a process is seen on the GPU or a tenth of its memory is in use."""
    rows = _nvidia_smi("compute-apps", "gpu_uuid,pid,process_name")
    users = [" ".join(rest) for uuid, *rest in rows if uuid == gpu["uuid"]]
    if not users and share < BUSY_SHARE:
        return
    reason = f"used by {'; '.join(users)}" if users else f"{share:.0%} of its memory is in use by a process not shown"
    raise InputError(f"--gpu: {gpu['index']} ({gpu['uuid']}) is busy: {reason}")


def device_environment(device):
    """Return the environment of a child that sees exactly this device: one UUID, or no GPU at all for the CPU."""
    return child_environment(CUDA_VISIBLE_DEVICES=device["uuid"] or "")


def refuse_wrong_probe(gpu):
    """Raise InputError unless a child process that sees what the runs will see finds the one UUID."""
    seen = _probe(device_environment(gpu))
    if seen != [gpu["uuid"]]:
        raise InputError(f"--gpu: expected the probe to see {gpu['uuid']} alone, it sees {seen or 'no GPU'}")


def add_device_arguments(parser):
    """Add --device cpu and --gpu to a parser; a caller names one of them."""
    parser.add_argument("--device", choices=["cpu"], help="use the CPU (with make: DEVICE=cpu)")
    parser.add_argument("--gpu", action="append", default=[], metavar="INDEX_OR_UUID",
                        help="use this one GPU, as nvidia-smi -L shows it (with make: GPU=...)")


def reserve_device(options):
    """Return "cpu" or "cuda" for the checked device, the only one that this process and its children see.

    Call it before torch is imported.
    """
    device = choose_device(options.device, options.gpu)
    os.environ["CUDA_VISIBLE_DEVICES"] = device["uuid"] or ""
    return "cuda" if device["uuid"] else "cpu"


def choose_device(device, names):
    """Return the checked device that --device or the list of --gpu values names; InputError gives the reason if not."""
    names = [part for name in names for part in re.split(r"[\s,]+", name) if part]
    if bool(names) == bool(device):
        raise InputError("name one device: --gpu <index or UUID>, or --device cpu (with make: GPU=... or DEVICE=cpu)")
    if device:
        return CPU
    if len(names) > 1:
        raise InputError(f"--gpu: more than one GPU named ({', '.join(names)}); one run uses one")
    gpus, used = list_gpus()
    gpu = _find(gpus, names[0])
    if gpu is None:
        known = "; ".join(f"{g['index']} = {g['uuid']} {g['name']}" for g in gpus)
        raise InputError(f"--gpu: {names[0]} is unknown; this machine has {known or 'none'}")
    refuse_foreign(gpu)
    refuse_busy(gpu, used[gpu["uuid"]])
    refuse_wrong_probe(gpu)
    return gpu


class Stop:
    """SIGINT, SIGTERM and SIGHUP are passed on to the runs and remembered, so that nothing starts after them."""

    def __init__(self):
        self.number, self.running, self.starting = 0, {}, threading.Lock()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:  # nohup stays what it is
                signal.signal(number, self._handle)

    def _handle(self, number, frame):
        self.number = number
        for child in list(self.running.values()):
            child.send_signal(number)

    def add(self, run, child):
        """Add a run's process, and pass on to it a signal that came before."""
        self.running[run] = child
        if self.number:
            child.send_signal(self.number)

    def wait(self, run):
        """Wait for a run's process and return its exit status."""
        status = self.running[run].wait()
        del self.running[run]
        return status
