"""What may this process use? Cores, memory, ranks, locks and the environment of its children are decided here alone.

Each limit comes with the reason for it, so that a message can say why. The GPU is chosen in devices.py. Standard
library only, because every run directory carries a copy.
"""

import os
from pathlib import Path
from typing import NamedTuple

from files import InputError, naming

RANK_VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE", "ROLE_RANK",
                  "ROLE_WORLD_SIZE", "ROLE_NAME", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID")
CGROUP = Path("/sys/fs/cgroup")


class Limit(NamedTuple):
    """How much of something may be used, and why not more."""

    value: int
    reason: str


class Rank(NamedTuple):
    """This process among those that torchrun started: their number, its place, and its place on this machine."""

    count: int
    rank: int
    local: int


def rank():
    """Return the Rank that torchrun gave this process; a process that torchrun did not start is alone.

    Job operators set WORLD_SIZE and RANK in every pod, so these variables count only beside TORCHELASTIC_RUN_ID, which
    torchrun itself sets. InputError names a variable that cannot be.
    """
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        return Rank(1, 0, 0)
    found = {name: os.environ.get(name, "") for name in ("WORLD_SIZE", "RANK", "LOCAL_RANK")}
    for name, value in found.items():
        if not value.isdecimal():
            raise InputError(f"{name}: expected a natural number from torchrun, found {value!r}")
    count, place, local = map(int, found.values())
    if not place < count or local > place:
        raise InputError(f"RANK: expected less than WORLD_SIZE={count} and at least LOCAL_RANK={local}, found {place}")
    return Rank(count, place, local)


# ------------------------------------------------------------------------------------ cores and memory


def _own_group():
    """Return the path of the process's own cgroup below CGROUP; that of the root group where there is none."""
    try:
        return Path("/proc/self/cgroup").read_text().rpartition("::")[2].strip().lstrip("/")
    except OSError:
        return ""


def _cgroup_values(name):
    """Return the texts of a cgroup file in the process's own group and in each group above it."""
    folder = CGROUP / _own_group()
    files = [path / name for path in (folder, *folder.parents) if path == CGROUP or CGROUP in path.parents]
    return [path.read_text().strip() for path in files if path.is_file()]


def cores():
    """Return the Limit of cores that this process may keep busy: by its affinity and by its group's quota."""
    limits = [Limit(os.cpu_count() or 1, "the cores of this machine")]
    if hasattr(os, "sched_getaffinity"):
        limits.append(Limit(len(os.sched_getaffinity(0)), "the affinity of this process"))
    for text in _cgroup_values("cpu.max"):
        quota, _, period = text.partition(" ")
        if quota.isdecimal() and period.isdecimal():
            limits.append(Limit(max(1, int(quota) // int(period)), f"the cgroup's cpu.max of {text}"))
    return min(limits, key=lambda limit: limit.value)


def workers(tasks, requested=None):
    """Return how many processes to share `tasks` tasks among: at most one a task, and `requested` or one a core."""
    if requested is not None and requested < 1:
        raise InputError(f"--workers: expected 1 or more, found {requested}")
    return max(1, min(tasks, requested or cores().value))


def memory():
    """Return the Limit of bytes that this process may hold: the machine's memory, its group's and its own limit."""
    limits = [Limit(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), "the memory of this machine")]
    limits += [Limit(int(text), f"the cgroup's memory.max of {text}") for text in _cgroup_values("memory.max")
               if text.isdecimal()]
    try:
        import resource

        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        if limit != resource.RLIM_INFINITY:
            limits.append(Limit(limit, "the address space limit (ulimit -v) of this process"))
    except ImportError:
        pass
    return min(limits, key=lambda limit: limit.value)


def require_memory(needed, what):
    """Raise InputError, which says what limits the memory, if the `what` needs more bytes than this process may use."""
    limit = memory()
    if needed > limit.value:
        raise InputError(f"the {what} need {needed / 2**30:,.1f} GiB, more than {limit.reason} allows "
                         f"({limit.value / 2**30:,.1f} GiB); make them smaller, or run where more memory is free")


# ------------------------------------------------------------------------------ children and locks


def child_environment(**changes):
    """Return the environment for a child that this process starts, with `changes` made to it.

    A rank that was meant for this process is no rank of its children, so RANK_VARIABLES are dropped. PYTHONSAFEPATH is
    dropped because a run's train.py imports the files beside it.
    """
    dropped = {"PYTHONSAFEPATH", *RANK_VARIABLES}
    return {name: value for name, value in os.environ.items() if name not in dropped} | changes


def is_alive(pid):
    """Return whether a process of this number exists."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def lock(path):
    """Return the open file `path`, locked by this process; None when another process holds the lock.

    InputError says what to do where the file system cannot lock files at all.
    """
    import fcntl  # which Windows lacks, where a supplement can be checked nevertheless

    with naming(path):
        file = os.fdopen(os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666), "a+", encoding="utf-8")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    except OSError as error:
        file.close()
        raise InputError(f"{path}: this file system cannot lock files ({error.strerror}); keep runs and data on a "
                         "local disk, for example with --runs /tmp/runs or --data /tmp/data") from None
    return file
