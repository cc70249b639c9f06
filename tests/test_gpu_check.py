"""The GPU check's dry run goes through all of its code; a planted disagreement is found; without a GPU it refuses."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

import evidence
import train
from research.matched_training import gpu_agreement, gpu_check

ROOT = Path(__file__).resolve().parents[1]
SCRIPT = ROOT / "research/matched_training/gpu_check.py"

PROTOCOL = evidence.read_json(ROOT / "protocols/climbmix.json")
CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def undisturbed(monkeypatch):
    """The check names its device to CUDA and sets threads; neither may reach other tests."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def eager():
    with gpu_check.eagerly(True):
        yield


def script(*arguments, **environment):
    """(exit code, stdout, stderr) of the script in a process of its own."""
    done = subprocess.run([sys.executable, str(SCRIPT), *map(str, arguments)], capture_output=True, text=True,
                          timeout=120, env=os.environ | environment)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.slow
def test_a_dry_run_makes_every_check_and_measures_and_says_that_it_is_no_evidence(tmp_path, capsys):
    assert gpu_check.main(["--device", "cpu", "--out", str(tmp_path), "--peak-tflops", "0.1"]) == 0
    printed, report = capsys.readouterr().out, evidence.read_json(tmp_path / "cpu_dry_run.json")
    assert "dry run on the CPU, no evidence of a GPU" in printed and report["dry_run"] and report["complete"]
    assert len(report["agreement"]) == 12 and all(entry["holds"] for entry in report["agreement"])
    speed = report["throughput"]
    assert speed["targets"] == 10 * 2 * 4 * 64 == speed["updates"] * speed["accumulation"] * speed["microbatch"] * 64
    assert speed["targets_per_second"] == speed["targets"] / speed["seconds"] > 0 and speed["peak_bytes"] > 0
    assert speed["model_flop_utilisation"] == speed["flops_per_token"] * speed["targets_per_second"] / 1e11
    assert report["device"]["torch"] == torch.__version__
    files = [SCRIPT, SCRIPT.with_name("gpu_agreement.py"), ROOT / "train.py", ROOT / "protocols/climbmix.json"]
    assert {evidence.sha256_file(path) for path in files} <= {entry["sha256"] for entry in report["inputs"]}


def test_the_speed_of_a_gpu_is_that_of_the_paper_s_shape():
    config = gpu_check.speed_config(PROTOCOL, False, 64)
    assert train.describe(config, config["vocabulary"])["flops_per_token"] == 239_078_400
    for microbatch in (64, 32, 8):
        training = gpu_check.speed_config(PROTOCOL, False, microbatch)["training"]
        assert training["accumulation"] * training["microbatch"] == 256 and training["microbatch"] == microbatch


def test_less_memory_gives_a_smaller_microbatch_and_says_so(monkeypatch):
    tried = []

    def train_some(config, device, peak, report):
        tried.append(config["training"]["microbatch"])
        if len(tried) < 3:
            raise torch.OutOfMemoryError
        report["throughput"] = {"microbatch": tried[-1]}

    monkeypatch.setattr(gpu_check, "train_some", train_some)
    report = {"dry_run": False}
    gpu_check.measure_speed(PROTOCOL, CPU, None, report)
    assert tried == [64, 32, 16] and report["throughput"] == {"microbatch": 16, "microbatch_wanted": 64}
    monkeypatch.setattr(gpu_check, "train_some", lambda *rest: (_ for _ in ()).throw(torch.OutOfMemoryError))
    with pytest.raises(evidence.InputError, match="not enough GPU memory"):
        gpu_check.measure_speed(PROTOCOL, CPU, None, report)


def test_flex_attention_of_another_window_is_found_and_exits_1(monkeypatch, tmp_path, capsys):
    block = train.block_attention
    monkeypatch.setattr(train, "block_attention", lambda context, window, *rest: block(context, window - 1, *rest))
    monkeypatch.setattr(gpu_agreement, "model_checks", lambda *rest: [])
    monkeypatch.setattr(gpu_check, "train_some", lambda config, device, peak, report: report.update(
        throughput=gpu_check.measured(config, 1, 1.0, device, peak)))
    assert gpu_check.main(["--device", "cpu", "--out", str(tmp_path)]) == 1
    printed = capsys.readouterr().out
    assert "FAIL flex against dense attention, continuous rows, window 128" in printed and "2 failed" in printed
    report = evidence.read_json(tmp_path / "cpu_dry_run.json")
    assert [entry["holds"] for entry in report["agreement"]] == [False, False, True, True]  # 256 positions see all


def heavier(model):
    """One weight of a block, two percent larger."""
    model.blocks[0].attention.query.weight.data *= 1.02
    return model


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["weight", "documents"])
def test_a_device_with_other_arithmetic_is_found(monkeypatch, eager, fault):
    """What is compiled is the device's way; the reference is not, and stays sound."""
    sound, busy = gpu_agreement.loss_and_gradients, gpu_agreement.busy_model

    def faulty(config, device, batch):
        planted = config["training"]["compile"]
        with monkeypatch.context() as patch:
            if planted and fault == "weight":
                patch.setattr(gpu_agreement, "busy_model", lambda config: heavier(busy(config)))
            unmasked = [*batch[:3], torch.zeros_like(batch[0])] if batch[3:] else batch
            return sound(config, device, unmasked if planted and fault == "documents" else batch)

    monkeypatch.setattr(gpu_agreement, "ROWS", 3)
    monkeypatch.setattr(gpu_agreement, "CONTEXT", 64)
    monkeypatch.setattr(gpu_agreement, "loss_and_gradients", faulty)
    found = {entry["check"]: entry["holds"] for entry in gpu_agreement.model_checks(PROTOCOL, CPU)}
    assert found["gradients, documents rows, float32"] is False
    assert found["gradients, continuous rows, float32"] is (fault == "documents")
    if fault == "documents":
        assert not found["loss, documents rows, float32"] and not found["gradients, documents rows, bfloat16"]


def test_a_loss_that_is_no_number_is_false_and_can_be_written():
    entry = gpu_agreement.check("loss", float("nan"), 0.1)
    assert entry["holds"] is False and b"NaN" not in evidence.canonical_json(entry)


def test_documents_of_the_check_are_masked_and_padded():
    inputs, targets, positions, segments = gpu_agreement.synthetic_batches()["documents"]
    assert inputs.shape == targets.shape == (gpu_agreement.ROWS, gpu_agreement.CONTEXT)
    assert (targets == train.IGNORED).any() and (segments == -1).any() and int(segments.max()) >= 2
    assert (positions[segments != segments.roll(1, 1)] == 0)[1:].all()


def test_without_a_gpu_it_refuses_with_a_clear_message():
    """On a machine with a GPU, one that it does not have is named."""
    code, _, errors = script("--gpu", "GPU-none", PATH=str(Path(sys.executable).parent))
    assert code == 2 and "nvidia-smi: not found, so no GPU can be named here; use --device cpu" in errors
    assert script("--limit", "5")[0] == 2


def test_a_dry_run_is_not_frozen():
    with pytest.raises(evidence.InputError, match="no evidence of a GPU"):
        gpu_check.main(["--device", "cpu", "--freeze"])
    assert not list(SCRIPT.parent.glob("gpu_check_cpu*.json"))


@pytest.mark.slow
def test_the_limit_ends_it_with_what_there_is(tmp_path):
    began = time.monotonic()
    code, _, errors = script("--device", "cpu", "--out", tmp_path, "--limit", "0.01")
    assert code == 2 and "not finished in" in errors and time.monotonic() - began < 60
    report = evidence.read_json(tmp_path / "cpu_dry_run.json")
    assert not report["complete"] and len(report["agreement"]) < 12


def test_the_limit_writes_a_report_that_changes_while_it_is_copied(tmp_path, monkeypatch, capsys):
    codes, report, path = [], {"complete": False}, tmp_path / "report.json"

    class Agreement(list):
        def __deepcopy__(self, memo):
            report["seconds"] = 1  # as the main thread may, between any two items

    report["agreement"] = Agreement(["an entry"])
    monkeypatch.setattr(gpu_check.os, "_exit", codes.append)
    gpu_check.end_in_time(0, report, path).join(60)
    assert codes == [2] and f"what there is: {path}" in capsys.readouterr().err
    assert evidence.read_json(path) == {"agreement": ["an entry"], "complete": False}


def test_the_limit_says_why_it_could_not_write(tmp_path, monkeypatch, capsys):
    codes = []
    (tmp_path / "file").touch()
    monkeypatch.setattr(gpu_check.os, "_exit", codes.append)
    gpu_check.end_in_time(0, {"agreement": []}, tmp_path / "file/report.json").join(60)
    said = capsys.readouterr().err
    assert codes == [2] and "not finished in 0 s" in said and "file" in said.splitlines()[-1] and "Error" in said


@pytest.mark.parametrize("name, peak", [
    ("NVIDIA H200", 989.4), ("NVIDIA H100 PCIe", 756), ("NVIDIA H100 80GB HBM3", 989.4), ("NVIDIA L40S", 362),
    ("NVIDIA L4", 121), ("NVIDIA A100-SXM4-80GB", 312), ("NVIDIA GeForce RTX 4090", 165.2), ("cpu", None),
    ("NVIDIA A100-SXM4-80GB MIG 1g.10gb", None), ("NVIDIA L40", None),
    ("NVIDIA H200 NVL", 835), ("NVIDIA H100 NVL", 835), ("NVIDIA GH200 480GB", 989.4), ("NVIDIA A100-PCIE-40GB", 312),
    ("NVIDIA A100 80GB PCIe", 312), ("A100-SXM4-40GB", 312), ("NVIDIA GeForce RTX 4090 D", None),
    ("NVIDIA GeForce RTX 4090 Laptop GPU", None), ("NVIDIA GeForce RTX 3090 Ti", None),
    ("NVIDIA GB200", None), ("NVIDIA H20", None)])
def test_the_peak_is_of_the_device_that_is_named(name, peak):
    assert gpu_check.known_peak(name) == peak
