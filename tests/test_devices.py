"""A study runs on the one GPU its user named, seen alone and by UUID, or nothing runs and the reason is said. The
runner and its probe are real processes; nvidia-smi and torch are stand-ins that the processes find first."""

import os

import pytest

from tiny import repository as tiny_study
from tiny.repository import RUNS

HERE, OTHER = "GPU-11111111-aaaa-bbbb-cccc-000000000001", "GPU-22222222-aaaa-bbbb-cccc-000000000002"
GPUS = f"0, {OTHER}, Example Card, 81920, 4\n1, {HERE}, Example Card, 80 GB, 81920, 700\n"


@pytest.fixture
def machine(tmp_path):
    """Environment of a machine with two GPUs: nvidia-smi prints gpus.csv and apps.csv, torch sees FAKE_UUIDS."""
    fake = tmp_path / "machine"
    fake.mkdir()
    (fake / "gpus.csv").write_text(GPUS)
    (fake / "apps.csv").write_text(f"{OTHER}, 4242, python train.py\n")
    (fake / "nvidia-smi").write_text(
        f"#!/bin/sh\ncase $1 in\n--query-gpu=*) cat {fake}/gpus.csv ;;\n"
        f"--query-compute-apps=*) cat {fake}/apps.csv ;;\n*) exit 9 ;;\nesac\n"
        f"test ! -e {fake}/broken || {{ echo driver mismatch; exit 18; }}\n")
    (fake / "nvidia-smi").chmod(0o755)
    (fake / "torch.py").write_text(
        "import os\nfrom types import SimpleNamespace as Space\n"
        "order, seen = os.environ['FAKE_ORDER'].split(), []\n"
        "for name in os.environ.get('CUDA_VISIBLE_DEVICES', '0,1').split(','):\n"
        "    found = order[int(name):][:1] if name.isdecimal() else [u for u in order if name and u.startswith(name)]\n"
        "    if len(found) != 1: break  # CUDA ignores whatever follows an unknown entry\n"
        "    seen += found\n"
        "seen = os.environ['FAKE_UUIDS'].split() if 'FAKE_UUIDS' in os.environ else seen\n"
        "assert 'broken' not in seen, 'no driver'\n"
        "cuda = Space(device_count=lambda: len(seen),\n"
        "             get_device_properties=lambda i: Space(uuid=seen[i].removeprefix('GPU-')))\n")
    env = {"PATH": f"{fake}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(fake),
           "FAKE_ORDER": f"{OTHER} {HERE}"}
    return fake, env


def refused(repository, env, reason, *arguments):
    done = tiny_study.run_all(repository, *arguments, env=env)
    assert done.returncode == 2 and reason in done.stderr, (done.returncode, done.stderr)
    assert "Traceback" not in done.stderr and tiny_study.nothing_ran(repository)


FASTEST_FIRST = {"CUDA_VISIBLE_DEVICES": "0", "FAKE_ORDER": f"{HERE} {OTHER}"}


@pytest.mark.parametrize("name, visible", [
    ("1", {}), (HERE, {}), ("GPU-1111", {}), ("1", {"CUDA_VISIBLE_DEVICES": f"0,{HERE}"}),
    (HERE, {"CUDA_VISIBLE_DEVICES": "1"}), ("1", {"CUDA_VISIBLE_DEVICES": "GPU-1111"}), ("1", FASTEST_FIRST)])
def test_the_named_gpu_alone_is_visible_to_every_run(repository, machine, name, visible):
    _, env = machine
    done = tiny_study.run_all(repository, "--gpu", name, env=env | visible)
    assert done.returncode == 0, done.stderr
    for run in RUNS:
        note, = tiny_study.attempts(repository, run)
        assert note["visible"] == HERE and note["arguments"][1:] == ["--device", "cuda"]
    device = {"kind": "gpu", "index": 1, "uuid": HERE, "name": "Example Card, 80 GB"}
    assert [entry["device"] for entry in tiny_study.ledger(repository)] == [device] * 2 * len(RUNS)


@pytest.mark.parametrize("arguments, reason", [
    ((), "name one device"),
    (("--gpu", ""), "name one device"),
    (("--gpu", "1", "--device", "cpu"), "name one device"),
    (("--gpu", "0,1"), "more than one GPU named (0, 1)"),
    (("--gpu", "0 1"), "more than one GPU named (0, 1)"),
    (("--gpu", "0", "--gpu", "1"), "more than one GPU named (0, 1)"),
    (("--gpu", "7"), f"7 is unknown; this machine has 0 = {OTHER}"),
    (("--gpu", "GPU-"), "GPU- is unknown"),
    (("--gpu", "GPU-3"), "GPU-3 is unknown"),
    (("--gpu", "0"), "is busy: used by 4242 python train.py"),
    (("--gpu", OTHER), "is busy: used by 4242 python train.py"),
])
def test_a_device_not_named_once_or_in_use_is_refused(repository, machine, arguments, reason):
    refused(repository, machine[1], reason, *arguments)


@pytest.mark.parametrize("added, reason", [
    ({"CUDA_VISIBLE_DEVICES": "0"}, f"is foreign: CUDA_VISIBLE_DEVICES='0' of the caller lends {OTHER}"),
    ({"CUDA_VISIBLE_DEVICES": "1", "FAKE_ORDER": f"{HERE} {OTHER}"}, f"of the caller lends {OTHER}"),
    ({"CUDA_VISIBLE_DEVICES": OTHER}, "is foreign"),
    ({"CUDA_VISIBLE_DEVICES": ""}, "is foreign"),
    ({"CUDA_VISIBLE_DEVICES": "-1,1"}, "is foreign"),
    ({"FAKE_UUIDS": f"{HERE} {OTHER}"}, f"it sees ['{HERE}', '{OTHER}']"),
    ({"FAKE_UUIDS": OTHER}, f"expected the probe to see {HERE} alone, it sees ['{OTHER}']"),
    ({"FAKE_UUIDS": ""}, "it sees no GPU"),
    ({"FAKE_UUIDS": "broken"}, "the probe failed"),
    ({"PATH": "/nowhere"}, "nvidia-smi: not found"),
])
def test_a_foreign_or_wrongly_seen_gpu_is_refused(repository, machine, added, reason):
    refused(repository, machine[1] | added, reason, "--gpu", "1")


def test_a_gpu_whose_memory_is_full_is_busy_though_no_process_is_listed(repository, machine):
    fake, env = machine
    (fake / "gpus.csv").write_text(GPUS.replace("81920, 700", "81920, 40960"))
    refused(repository, env, "is busy: 50% of its memory", "--gpu", "1")


@pytest.mark.parametrize("change, reason", [
    (lambda fake: (fake / "broken").touch(), "exit 18"),
    (lambda fake: (fake / "gpus.csv").write_text("No devices\n"), "'No devices'"),
    (lambda fake: (fake / "gpus.csv").write_text(""), "has none"),
])
def test_an_nvidia_smi_that_does_not_answer_is_quoted(repository, machine, change, reason):
    change(machine[0])
    refused(repository, machine[1], reason, "--gpu", "1")
