"""The one device a run may use: the CPU, or the one GPU its user named, checked by UUID before anything runs on it.

Refused with the reason, as InputError: no GPU named, more than one, one this machine lacks, one outside the caller's
CUDA_VISIBLE_DEVICES, one in use, and one behind which a child process finds another UUID or several devices.
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
    """Rows of fields that `nvidia-smi --query-<query>=<fields>` prints."""
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
    """[{"kind", "index", "uuid", "name"}, ...] of this machine, and {uuid: share of its memory in use}."""
    gpus, used = [], {}
    for row in _nvidia_smi("gpu", "index,uuid,name,memory.total,memory.used"):
        if len(row) < 5:
            raise InputError(f"nvidia-smi: expected index, uuid, name and two memory sizes, found {', '.join(row)!r}")
        index, uuid, *name, total, in_use = row
        gpus.append({"kind": "gpu", "index": int(index), "uuid": uuid, "name": ", ".join(name)})
        used[uuid] = int(in_use) / int(total) if in_use.isdigit() and total.isdigit() else 0
    return gpus, used


def _find(gpus, name):
    return next((gpu for gpu in gpus if name in (str(gpu["index"]), gpu["uuid"])), None)


def refuse_foreign(gpu, gpus, visible):
    """InputError unless the caller's CUDA_VISIBLE_DEVICES (None: unset) includes the GPU, by index or full UUID."""
    for name in [] if visible is None else visible.split(","):
        if (allowed := _find(gpus, name.strip())) is gpu:
            return
        if allowed is None:  # CUDA ignores whatever follows an unknown entry
            break
    if visible is not None:
        raise InputError(f"--gpu: {gpu['index']} ({gpu['uuid']}) is foreign: CUDA_VISIBLE_DEVICES={visible!r} of the "
                         "caller leaves it out; name a GPU you were given")


def refuse_busy(gpu, share):
    """InputError when processes are seen on the GPU or a tenth of its memory is in use."""
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
    """InputError unless a child process that sees what the runs will see finds the one UUID."""
    done = subprocess.run([sys.executable, "-c", PROBE], env=device_environment(gpu), capture_output=True, text=True)
    if done.returncode:
        raise InputError(f"--gpu: the probe failed: {done.stderr.strip().rpartition(chr(10))[2]}")
    seen = parse_json(done.stdout.encode(), "probe")
    if seen != [gpu["uuid"]]:
        raise InputError(f"--gpu: expected the probe to see {gpu['uuid']} alone, it sees {seen or 'no GPU'}")


def add_device_arguments(parser):
    """--device cpu and --gpu, of which a caller names one."""
    parser.add_argument("--device", choices=["cpu"], help="the CPU")
    parser.add_argument("--gpu", action="append", default=[], metavar="INDEX_OR_UUID",
                        help="the one GPU to use, as nvidia-smi -L shows it")


def reserve_device(options):
    """Return "cpu" or "cuda" for the checked device, the only one that this process and its children see.

    Call it before torch is imported.
    """
    device = choose_device(options.device, options.gpu)
    os.environ["CUDA_VISIBLE_DEVICES"] = device["uuid"] or ""
    return "cuda" if device["uuid"] else "cpu"


def choose_device(device, names):
    """The checked device that --device or the list of --gpu values names; InputError with the reason otherwise."""
    names = [part for name in names for part in re.split(r"[\s,]+", name) if part]
    if bool(names) == bool(device):
        raise InputError("name one device: --gpu <index or UUID>, or --device cpu")
    if device:
        return CPU
    if len(names) > 1:
        raise InputError(f"--gpu: more than one GPU named ({', '.join(names)}); one run uses one")
    gpus, used = list_gpus()
    gpu = _find(gpus, names[0])
    if gpu is None:
        known = "; ".join(f"{g['index']} = {g['uuid']} {g['name']}" for g in gpus)
        raise InputError(f"--gpu: {names[0]} is unknown; this machine has {known or 'none'}")
    refuse_foreign(gpu, gpus, os.environ.get("CUDA_VISIBLE_DEVICES"))
    refuse_busy(gpu, used[gpu["uuid"]])
    refuse_wrong_probe(gpu)
    return gpu


class Stop:
    """SIGINT, SIGTERM and SIGHUP: passed on to the run, and remembered so that nothing starts after them."""

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
        """Know a run's process; a signal that came before is passed on now."""
        self.running[run] = child
        if self.number:
            child.send_signal(self.number)

    def wait(self, run):
        """Exit status of a run's process."""
        status = self.running[run].wait()
        del self.running[run]
        return status
