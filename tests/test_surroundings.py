"""What a process may use follows from affinity, cgroup, limits and launcher, and each limit says why."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import surroundings
from evidence import InputError

ROOT = Path(__file__).resolve().parents[1]
TORCHRUN = {"TORCHELASTIC_RUN_ID": "x", "WORLD_SIZE": "4", "RANK": "2", "LOCAL_RANK": "1"}


def within(monkeypatch, variables):
    for name in surroundings.RANK_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)


def test_the_rank_is_torchruns(monkeypatch):
    within(monkeypatch, TORCHRUN)
    assert surroundings.rank() == (4, 2, 1)


def test_a_process_that_torchrun_did_not_start_is_alone_whatever_a_pod_sets(monkeypatch):
    within(monkeypatch, {name: value for name, value in TORCHRUN.items() if name != "TORCHELASTIC_RUN_ID"})
    assert surroundings.rank() == (1, 0, 0)


@pytest.mark.parametrize("name, value", [("RANK", "4"), ("RANK", "-1"), ("RANK", ""), ("WORLD_SIZE", "two"),
                                         ("WORLD_SIZE", "0"), ("LOCAL_RANK", "3")])
def test_a_rank_that_cannot_be_is_refused_by_variable(monkeypatch, name, value):
    within(monkeypatch, TORCHRUN | {name: value})
    with pytest.raises(InputError, match="WORLD_SIZE|RANK"):
        surroundings.rank()


def test_children_get_no_rank_of_their_parent(monkeypatch):
    within(monkeypatch, TORCHRUN)
    found = surroundings.child_environment(ADDED="1")
    assert found["ADDED"] == "1" and not set(found) & set(surroundings.RANK_VARIABLES)


# ------------------------------------------------------------------------------------ cores and memory


@pytest.fixture
def cgroup(tmp_path, monkeypatch):
    """A folder in the place of /sys/fs/cgroup whose root group is the process's own."""
    monkeypatch.setattr(surroundings, "CGROUP", tmp_path)
    monkeypatch.setattr(surroundings, "_own_group", lambda: "")
    return tmp_path


def test_a_quota_bounds_the_cores_and_is_named(cgroup):
    (cgroup / "cpu.max").write_text("150000 100000\n")
    found = surroundings.cores()
    assert found.value == 1 and "cpu.max of 150000 100000" in found.reason
    (cgroup / "cpu.max").write_text("max 100000\n")
    assert "cpu.max" not in surroundings.cores().reason


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system has no affinity")
def test_affinity_bounds_the_cores_of_a_real_process():
    code = ("import os, surroundings; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}); "
            "print(*surroundings.cores())")
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("1 ")


@pytest.mark.parametrize("tasks, requested, expected", [(3, 8, 3), (8, 3, 3), (1, None, 1), (0, None, 1)])
def test_there_is_at_most_one_worker_for_a_task(tasks, requested, expected):
    assert surroundings.workers(tasks, requested) == expected


def test_no_worker_is_refused_by_option():
    with pytest.raises(InputError, match="--workers"):
        surroundings.workers(4, 0)


def test_the_smallest_limit_of_memory_counts_and_is_named(cgroup):
    (cgroup / "memory.max").write_text("1000000\n")
    with pytest.raises(InputError, match="the weights need 0.0 GiB, more than the cgroup's memory.max of 1000000"):
        surroundings.require_memory(1_000_001, "weights")
    surroundings.require_memory(1_000_000, "weights")


def test_a_real_limit_of_the_address_space_is_seen():
    code = ("import resource, surroundings; resource.setrlimit(resource.RLIMIT_AS, (1 << 28, 1 << 28)); "
            "print(*surroundings.memory())")
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"{1 << 28} ") and "ulimit -v" in done.stdout


# ----------------------------------------------------------------------------------------------- caches


def test_loaders_work_where_no_cache_can_be_written(tmp_path):
    """numba finds no writable folder: the checkout's __pycache__ and the home folder are files."""
    for name in ("accounting", "best_fit_crop", "__init__"):
        (tmp_path / "loaders").mkdir(exist_ok=True)
        (tmp_path / f"loaders/{name}.py").write_bytes((ROOT / f"loaders/{name}.py").read_bytes())
    (tmp_path / "loaders/__pycache__").write_text("")
    code = ("from loaders import best_fit_crop as b; "
            "print(len(b.plan([3, 4], capacity=4, rows=2, buffer_size=1, refill=[2])))")
    (tmp_path / "home").write_text("")
    environment = {**os.environ, "HOME": str(tmp_path / "home"), "XDG_CACHE_HOME": str(tmp_path / "home/cache")}
    environment.pop("NUMBA_CACHE_DIR", None)
    done = subprocess.run([sys.executable, "-B", "-c", code], cwd=tmp_path, env=environment, capture_output=True,
                          text=True)
    assert done.returncode == 0 and done.stdout == "3\n", done.stderr
