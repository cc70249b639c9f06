"""Load the loader, the score, the model and the optimizer of a karpathy/autoresearch checkout, to run them on a CPU.

The checkout's files are named by their SHA-256, and nothing of them is copied. Its two scripts need a GPU and start
work when they are imported, so only their definitions are executed, with a stand-in for the names that mean the GPU.
"""

import ast
import types
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

from evidence import InputError, require_digest

COMMIT = "228791fb499afffb54b46200aca536f79142f117"
FILES = {"prepare.py": "4f2ba9cbb8ba8c4a3d35be405a913e2f3be3af9aea103ed52ef7b2a662058150",
         "train.py": "2954175f4ac42ad65164aef40910ef953789abcd05a5cc886ac9ba5a00814414"}
ABSENT = ("torch", "kernels", "prepare", "requests", "rustbpe")  # set here, needing a GPU, or for its downloads alone


class CpuTorch(types.ModuleType):
    """torch as upstream sees it here: its GPU buffers lie on the CPU, and nothing is compiled.

    double: what upstream computes in float32 or bfloat16 is computed in float64.
    """

    def __init__(self, double=False):
        super().__init__("torch")
        if double:
            self.float32 = torch.float64

    def __getattr__(self, name):
        return getattr(torch, name)

    @staticmethod
    def compile(*_, **__):
        """Return a decorator that leaves a function as it is."""
        return lambda function: function

    @staticmethod
    def empty(*size, pin_memory=False, device=None, **options):
        """Return torch.empty on the CPU, unpinned."""
        return torch.empty(*size, **options)


def attention(query, key, value, causal, window_size):
    """Compute what flash attention computes: (batch, time, heads, head) under a causal window of positions."""
    place = torch.arange(query.size(1))
    back = place[:, None] - place[None, :]
    inside = (back >= 0) & (back <= window_size[0])
    heads_first = (array.transpose(1, 2) for array in (query, key, value))
    return F.scaled_dot_product_attention(*heads_first, attn_mask=inside).transpose(1, 2)


def _wanted(node):
    """Whether a statement of upstream's scripts defines something: an import, a constant, a class or a function."""
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        names = [node.module] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
        return not set(names) & set(ABSENT)
    if isinstance(node, ast.Assign):
        target = node.targets[0]
        return isinstance(target, ast.Name) and (target.id.isupper() or target.id == "polar_express_coeffs")
    return isinstance(node, (ast.ClassDef, ast.FunctionDef))


def definitions(checkout, name, double=False, **names):
    """Return the definitions of an upstream script as a namespace; `names` are set before they are executed.

    InputError unless the file has the SHA-256 of the commit.
    """
    path = Path(checkout) / name
    require_digest(path, FILES[name])
    tree = ast.parse(path.read_bytes(), filename=str(path))
    tree.body = [node for node in tree.body if _wanted(node)]
    module = types.ModuleType(f"upstream_{path.stem}")
    module.__dict__.update({"torch": CpuTorch(double), **names})
    exec(compile(tree, str(path), "exec"), module.__dict__)  # the file's SHA-256 is checked above
    return module


def loader_module(checkout, prepared, encoding):
    """Return upstream's prepare.py over the shards and the tokenizer of a prepared study."""
    module = definitions(checkout, "prepare.py")
    train, (validation,) = prepared.shards("train"), prepared.shards("validation")
    module.VAL_FILENAME, module.DATA_DIR = validation.name, str(validation.parent)
    module.list_parquet_files = lambda: [str(path) for path in (*train, validation)]
    return module, module.Tokenizer(encoding)


def rows_of(module, tokenizer, split, microbatch, context):
    """Yield upstream's rows, int64 (microbatch, context + 1)."""
    for inputs, targets, _ in module.make_dataloader(tokenizer, microbatch, context, split):
        yield torch.cat([inputs, targets[:, -1:]], dim=1).numpy().copy()


def renamed(name):
    """Return upstream's name of one of our weights."""
    pairs = [("token_embedding", "transformer.wte"), ("value_embeddings", "value_embeds"), ("blocks", "transformer.h"),
             ("attention.query", "attn.c_q"), ("attention.key", "attn.c_k"), ("attention.value", "attn.c_v"),
             ("attention.output", "attn.c_proj"), ("attention.gate", "attn.ve_gate"),
             ("feedforward.input", "mlp.c_fc"), ("feedforward.output", "mlp.c_proj"),
             ("residual_scales", "resid_lambdas"), ("embedding_scales", "x0_lambdas"), ("head", "lm_head")]
    for ours, theirs in pairs:
        head, found, rest = name.partition(ours)
        if found and (not head or head.endswith(".")) and (not rest or rest.startswith(".")):
            name = head + theirs + rest
    return name


def same_model(module, ours, settings, vocabulary):
    """Return upstream's model with the weights, types and rotary tables of ours."""
    config = module.GPTConfig(
        sequence_len=ours.context, vocab_size=vocabulary, n_layer=settings["layers"], n_head=settings["heads"],
        n_kv_head=settings["heads"], n_embd=settings["width"], window_pattern=settings["window_pattern"])
    model = module.GPT(config)
    weights = {renamed(name): weight for name, weight in ours.named_parameters()}
    unknown = weights.keys() ^ dict(model.named_parameters()).keys()
    if unknown:
        raise InputError(f"upstream's model and ours differ in their weights: {', '.join(sorted(unknown))}")
    for name, weight in model.named_parameters():
        weight.data = weights[name].data.clone()
    model.cos, model.sin = (table[None, :, None, :].clone() for table in (ours.cos, ours.sin))
    return model


def optimizer_of(model, settings):
    """Return upstream's optimizer with the rates and betas of a protocol's `optimizer` section."""
    adam, muon = settings["adam"], settings["muon"]
    return model.setup_optimizer(
        unembedding_lr=adam["head"]["rate"], embedding_lr=adam["token_embedding"]["rate"], matrix_lr=muon["rate"],
        weight_decay=muon["weight_decay"], adam_betas=tuple(adam["head"]["betas"]),
        scalar_lr=adam["embedding_scales"]["rate"])


def step(module, optimizer, update, updates, weight_decay):
    """Make one update with upstream's own schedule, at the progress of a budget that is counted in updates."""
    progress = update / updates
    for group in optimizer.param_groups:
        group["lr"] = group["initial_lr"] * module.get_lr_multiplier(progress)
        if group["kind"] == "muon":
            group["momentum"] = module.get_muon_momentum(update)
            group["weight_decay"] = weight_decay * (1 - progress)
    optimizer.step()


def first_rows(batches, count):
    """Return the first `count` rows of an iterable of batches, as one array (count, context + 1)."""
    found, rows = [], 0
    for batch in batches:
        found.append(batch)
        rows += len(batch)
        if rows >= count:
            return np.concatenate(found)[:count]
    raise InputError(f"upstream's loader ended after {rows} rows; {count} were asked for")
