"""Upstream's code is taken only with its SHA-256, and what stands in for its GPU computes what ours computes."""

import pytest
import torch

import train
from evidence import InputError
from research.matched_training import upstream

SOURCE = """
import torch, kernels
from prepare import nothing
LIMIT = 3
started = torch.zeros(LIMIT).cuda()

@torch.compile(dynamic=False)
def twice(x):
    return torch.empty(2, pin_memory=True, device="cuda").fill_(2) * x

print("work begins")
"""


def test_only_the_definitions_of_the_very_file_are_executed(tmp_path, monkeypatch, capsys):
    path = tmp_path / "train.py"
    path.write_text(SOURCE)
    with pytest.raises(InputError, match="train.py: SHA-256 differs"):
        upstream.definitions(tmp_path, "train.py")
    monkeypatch.setattr(upstream, "require_digest", lambda path, digest: None)
    module = upstream.definitions(tmp_path, "train.py", extra=5)
    assert module.twice(torch.tensor([1.0, 3.0])).tolist() == [2.0, 6.0]
    assert (module.LIMIT, module.extra, hasattr(module, "started"), capsys.readouterr().out) == (3, 5, False, "")


def test_every_weight_has_one_name_upstream():
    model = train.Model(layers=4, width=64, heads=2, window_pattern="SSSL", rotary_base=10000, softcap=15,
                        gate_channels=32, vocabulary=300, context=16)
    names = [upstream.renamed(name) for name, _ in model.named_parameters()]
    assert len(set(names)) == len(names)
    assert {"transformer.wte.weight", "transformer.h.3.attn.ve_gate.weight", "transformer.h.0.mlp.c_proj.weight",
            "value_embeds.1.weight", "resid_lambdas", "x0_lambdas", "lm_head.weight"} <= set(names)


@pytest.mark.parametrize("window", [4, 16])
def test_the_attention_that_replaces_flash_attention_is_ours(window):
    query, key, value = torch.randn(3, 2, 16, 2, 8, generator=torch.Generator().manual_seed(1)).unbind()
    ours = train.dense_attention(16, window, torch.device("cpu"))
    expected = ours(*(array.transpose(1, 2) for array in (query, key, value))).transpose(1, 2)
    found = upstream.attention(query, key, value, True, (window, 0))
    assert torch.allclose(found, expected, atol=1e-6)
