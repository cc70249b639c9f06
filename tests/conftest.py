import sys

import pytest
from hypothesis import HealthCheck, settings

# Fixtures that several test files use.
pytest_plugins = ["tiny.repository", "tiny.runs", "tiny.server", "tiny.supplement"]

# A busy machine is no failure: benchmarks measure time, tests do not.
settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")

TRAINER = ("train", "run_directory", "checkpoint", "captures", "scoring", "loaders")


def trainer_modules():
    return {name: module for name, module in sys.modules.items() if name.split(".")[0] in TRAINER}


@pytest.fixture(autouse=True, scope="module")
def repository_modules():
    """Tests may import a run directory's own train.py and loaders/; the next file finds the repository's again."""
    before = trainer_modules()
    yield
    if trainer_modules() != before:
        for name in trainer_modules():
            del sys.modules[name]
        sys.modules.update(before)
