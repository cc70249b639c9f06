"""The inductive step is proved for arbitrary lengths, can be refuted when it should be, and says when z3 is missing."""

import subprocess
import sys

import pytest

from research.theorem import prove_retention


def need_z3():
    """z3, or a skip that says what to install."""
    return pytest.importorskip("z3", reason="z3 is an optional extra: pip install -r requirements-extra.txt")


@pytest.mark.extra
def test_the_step_is_proved_and_every_hypothesis_is_needed(capsys):
    """Exit 0 for B = 1..5; both policies and the arrival; each hypothesis dropped once."""
    need_z3()
    assert prove_retention.main(["--largest-buffer", "5"]) == 0
    out = capsys.readouterr().out
    assert "FAIL" not in out and out.splitlines()[-1] == "46 checks, 0 failed"
    for kind in ("arrival", "selection, crop", "selection, lossless"):
        assert f"B = 5, {kind}: negation unsatisfiable" in out and f"{kind}: breaks without" in out


@pytest.mark.extra
@pytest.mark.parametrize("buffer_size", [2, 3])
def test_one_more_protected_document_is_refuted_and_one_less_is_not(buffer_size):
    """B - 1 is exact: with B protected a finite counterexample exists, with B - 1 none does."""
    z3 = need_z3()
    for limit, broken in ((buffer_size, True), (buffer_size - 1, False)):
        for kind, cases in prove_retention.steps(z3, buffer_size, limit, universe=buffer_size + 2).items():
            if kind != "arrival":
                assert prove_retention.find_break(z3, cases, None) is broken


@pytest.mark.extra
def test_an_unproved_step_fails_the_run(monkeypatch, capsys):
    """A solver that decides nothing is not a proof: exit 1."""
    need_z3()
    monkeypatch.setattr(prove_retention, "verdict", lambda *arguments: "unknown")
    assert prove_retention.main(["--largest-buffer", "2"]) == 1
    assert "FAIL B = 2, arrival" in capsys.readouterr().out


def test_without_z3_the_script_exits_2_and_names_the_command():
    """The import is refused as if z3 were not installed."""
    script = prove_retention.__file__
    hide = f"import sys, runpy; sys.modules['z3'] = None; runpy.run_path({script!r}, run_name='__main__')"
    done = subprocess.run([sys.executable, "-c", hide], capture_output=True, text=True)
    assert done.returncode == 2 and "pip install -r requirements-extra.txt" in done.stderr
    assert "Traceback" not in done.stderr and not done.stdout


def test_help_needs_no_z3():
    """--help works with nothing prepared."""
    done = subprocess.run([sys.executable, prove_retention.__file__, "--help"], capture_output=True, text=True)
    assert done.returncode == 0 and "--largest-buffer" in done.stdout
