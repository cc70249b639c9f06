"""Train one model from one complete config.json and score it: which bits per byte does a loader lead to?

Reads   config.json (made by generate_runs.py), the prepared data it names, loader.py and loaders/ beside this file
Writes  beside config.json: metrics.jsonl (a line an update), checkpoint.safetensors (resume point), model.safetensors
        (final weights), evaluation_rows.npy (nats, supplied bytes, raw bytes, targets a row), result.json (last of all)
Needs   torch; two minutes on one CPU core for a run of the demo; about 20 on one GPU for the paper's (as it reports)

    python train.py config.json --device cpu
    torchrun --nproc-per-node 2 train.py config.json --device cpu
    python train.py --describe protocols/climbmix.json

The recipe follows karpathy/autoresearch at commit 228791f (MIT) as facts; the code is our own. Under torchrun the
microbatches of an update are dealt to the ranks, so accumulation must be a multiple of the rank count.
"""

import contextlib
import functools
import hashlib
import importlib
import io
import json
import math
import os
import resource
import sys
import time
from pathlib import Path

import numpy as np
import safetensors
import safetensors.torch
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from tqdm import tqdm

import evidence
from evidence import InputError
from loaders import best_fit_crop, rows
from loaders.accounting import plan_sha256, row_targets
from loaders.batches import IGNORED

# -------------------------------------------------------------------------------------------- model


def allowed(query, key, window):
    """Whether a query position may read a key position: causal, and at most `window` positions back."""
    return (key <= query) & (query - key <= window)


def norm(x):
    """Root-mean-square norm over channels, without weights."""
    return F.rms_norm(x, (x.size(-1),))


def rotate(x, cos, sin):
    """Rotary position of x (batch, heads, time, head): channel i of the first half pairs with i of the second."""
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * cos + second * sin, second * cos - first * sin], dim=-1)


class Attention(nn.Module):
    """Causal attention in a window, with normed rotary queries and keys and, where given, gated value embeddings."""

    def __init__(self, width, heads, gate_channels):
        super().__init__()
        self.heads, self.gate_channels = heads, gate_channels
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, width, bias=False)
        self.value = nn.Linear(width, width, bias=False)
        self.output = nn.Linear(width, width, bias=False)
        self.gate = nn.Linear(gate_channels, heads, bias=False) if gate_channels else None

    def forward(self, x, value_embedding, rotary, attend):
        batch, time_, width = x.shape
        q = self.query(x).view(batch, time_, self.heads, -1).transpose(1, 2)
        k = self.key(x).view(batch, time_, self.heads, -1).transpose(1, 2)
        v = self.value(x).view(batch, time_, self.heads, -1)
        if self.gate is not None:
            gate = 2 * torch.sigmoid(self.gate(x[..., : self.gate_channels]))
            v = v + gate.unsqueeze(-1) * value_embedding.view(v.shape)
        q, k = norm(rotate(q, *rotary)).type_as(v), norm(rotate(k, *rotary)).type_as(v)  # autocast may widen norms
        y = attend(q, k, v.transpose(1, 2))
        return self.output(y.transpose(1, 2).reshape(batch, time_, width))


class Feedforward(nn.Module):
    """Four times wider hidden layer with squared ReLU."""

    def __init__(self, width):
        super().__init__()
        self.input = nn.Linear(width, 4 * width, bias=False)
        self.output = nn.Linear(4 * width, width, bias=False)

    def forward(self, x):
        return self.output(F.relu(self.input(x)).square())


class Block(nn.Module):
    def __init__(self, width, heads, gate_channels):
        super().__init__()
        self.attention = Attention(width, heads, gate_channels)
        self.feedforward = Feedforward(width)

    def forward(self, x, value_embedding, rotary, attend):
        x = x + self.attention(norm(x), value_embedding, rotary, attend)
        return x + self.feedforward(norm(x))


class Model(nn.Module):
    """The recipe's decoder. `forward` maps token ids (batch, time) to normed features (batch, time, width)."""

    def __init__(self, layers, width, heads, window_pattern, rotary_base, softcap, gate_channels, vocabulary, context):
        super().__init__()
        self.softcap, self.context = softcap, context
        gated = [i % 2 == (layers - 1) % 2 for i in range(layers)]
        letters = [window_pattern[i % len(window_pattern)] for i in range(layers - 1)] + ["L"]
        self.windows = [context // 2 if letter == "S" else context for letter in letters]
        self.token_embedding = nn.Embedding(vocabulary, width)
        self.value_embeddings = nn.ModuleDict(
            {str(i): nn.Embedding(vocabulary, width) for i in range(layers) if gated[i]})
        self.blocks = nn.ModuleList(Block(width, heads, gate_channels if gated[i] else 0) for i in range(layers))
        self.residual_scales = nn.Parameter(torch.empty(layers))
        self.embedding_scales = nn.Parameter(torch.empty(layers))
        self.head = nn.Linear(width, vocabulary, bias=False)
        head_width = width // heads
        angles = torch.outer(torch.arange(context), rotary_base ** -(torch.arange(0, head_width, 2) / head_width))
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def forward(self, tokens, attends, positions=None):
        x = start = norm(self.token_embedding(tokens))
        rotary = [table[: tokens.size(1)] if positions is None else table[positions].unsqueeze(1)
                  for table in (self.cos, self.sin)]
        for i, block in enumerate(self.blocks):
            table = self.value_embeddings[str(i)] if str(i) in self.value_embeddings else None
            x = self.residual_scales[i] * x + self.embedding_scales[i] * start
            x = block(x, table(tokens) if table else None, rotary, attends[i])
        return norm(x)


def initialise(model, seed):
    """Fill every weight from one CPU generator: the same seed gives the same bytes on every device and condition."""
    generator = torch.Generator().manual_seed(seed)
    width = model.token_embedding.embedding_dim
    bound = math.sqrt(3 / width)
    for name, weight in model.named_parameters():
        if name == "token_embedding.weight":
            nn.init.normal_(weight, 0.0, 1.0, generator=generator)
        elif name == "head.weight":
            nn.init.normal_(weight, 0.0, 0.001, generator=generator)
        elif name == "residual_scales":
            nn.init.constant_(weight, 1.0)
        elif name == "embedding_scales":
            nn.init.constant_(weight, 0.1)
        elif name.endswith(("output.weight", "gate.weight")):
            nn.init.zeros_(weight)
        else:
            nn.init.uniform_(weight, -bound, bound, generator=generator)


def build_model(settings, vocabulary, context):
    """The model of a protocol's `model` section, on torch's current default device, weights unset."""
    return Model(**settings, vocabulary=vocabulary, context=context)


def describe(config, vocabulary):
    """Size and cost of the training run of a protocol or a run's config, by a meta-device model: exact integers.

    FLOPs a token: six times the weights that multiply (all but embeddings and per-layer scales), plus twelve times
    width times window summed over layers. Source: recipe facts; paper sections 4 and 5.3.
    """
    context, training = config["packing"]["context"], config["training"]
    with torch.device("meta"):
        model = build_model(config["model"], vocabulary, context)
    size = {name: weight.numel() for name, weight in model.named_parameters()}
    looked_up = sum(n for name, n in size.items() if "embedding" in name or name == "residual_scales")
    attention = sum(12 * config["model"]["width"] * window for window in model.windows)
    flops = 6 * (sum(size.values()) - looked_up) + attention
    row_count = training["updates"] * training["accumulation"] * training["microbatch"]
    return {
        "parameters": sum(size.values()),
        "flops_per_token": flops,
        "updates": training["updates"],
        "rows": row_count,
        "targets": row_count * context,
        "total_flops": flops * row_count * context,
    }


# ---------------------------------------------------------------------------------- attention kernels


def dense_attention(context, window, device, segments=None):
    """Attention over (batch, heads, time, head) with an explicit mask where causality alone does not decide.

    segments: int64 (batch, time); a query reads its own segment. Padding is one too, so no query is without a key.
    """
    if window >= context and segments is None:
        return lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True)
    position = torch.arange(context, device=device)
    mask = allowed(position[:, None], position[None, :], window)
    if segments is not None:
        mask = (mask & (segments[:, :, None] == segments[:, None, :])).unsqueeze(1)
    return lambda q, k, v: F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def block_attention(context, window, device, segments=None):
    """The same attention by flex_attention, which skips blocks with nothing to read; to be compiled with the model."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    def rule(batch, head, query, key):
        inside = allowed(query, key, window)
        return inside if segments is None else inside & (segments[batch, query] == segments[batch, key])

    batch = None if segments is None else len(segments)
    make = create_block_mask if segments is None else torch.compile(create_block_mask)  # compiled: no full matrix
    mask = make(rule, batch, None, context, context, device=device)
    return lambda q, k, v: flex_attention(q, k, v, block_mask=mask)


def attention_kernels(model, device, segments=None):
    """One attention function a layer; layers of equal window share theirs."""
    make = block_attention if device.type == "cuda" else dense_attention
    context = model.context if segments is None else segments.size(1)
    kernels = {window: make(context, window, device, segments) for window in sorted(set(model.windows))}
    return [kernels[window] for window in model.windows]


# --------------------------------------------------------------------------------------------- loss


def softcap(logits, cap):
    return cap * torch.tanh(logits / cap)


def plain_loss(features, weight, targets, cap):
    """Sum of nats over targets: features (n, width), weight (vocabulary, width), targets int64 (n,)."""
    return F.cross_entropy(softcap(F.linear(features, weight).float(), cap), targets, reduction="sum")


class ChunkedLoss(torch.autograd.Function):
    """`plain_loss` for the CPU: a few positions at a time, so that the logits stay in cache and are never stored.

    The gradients are formed in the forward pass, while the logits are at hand. Softcapped logits are bounded, so their
    exponentials need no maximum taken off.
    """

    @staticmethod
    def forward(ctx, features, weight, targets, cap, chunk):
        features_grad, weight_grad = torch.empty_like(features), torch.zeros_like(weight)
        scaled, total = features / cap, torch.zeros((), dtype=torch.float64)
        for first in range(0, len(features), chunk):
            part, target = scaled[first : first + chunk], targets[first : first + chunk, None]
            tanh = (part @ weight.T).tanh_()
            share = (cap * tanh).exp_()
            mass = share.sum(-1, keepdim=True)
            total += (mass.log() - cap * tanh.gather(1, target)).sum(dtype=torch.float64)
            slope = share.div_(mass).scatter_add_(1, target, torch.full_like(mass, -1.0))
            slope.addcmul_(slope, tanh.square_(), value=-1)
            torch.mm(slope, weight, out=features_grad[first : first + chunk])
            weight_grad.addmm_(slope.T, part, alpha=cap)
        ctx.save_for_backward(features_grad, weight_grad)
        return total.to(features.dtype)

    @staticmethod
    def backward(ctx, scale):
        features_grad, weight_grad = ctx.saved_tensors
        return features_grad * scale, weight_grad * scale, None, None, None


class Forward:
    """The model made ready for one device: `loss` for training, `nats` for scoring, both under the run's precision."""

    def __init__(self, model, settings, device):
        self.model, self.device, self.chunk = model, device, settings["logit_chunk"]
        self.kernels = attention_kernels(model, device)
        self.reduced = settings["precision"] == "bfloat16"
        self.chunked = device.type == "cpu" and not self.reduced
        self.features, self.plain = model, plain_loss
        if settings["compile"]:
            self.features = torch.compile(model, dynamic=False)
            self.plain = torch.compile(plain_loss, dynamic=False)

    def autocast(self):
        return torch.autocast(self.device.type, torch.bfloat16) if self.reduced else contextlib.nullcontext()

    def flat_features(self, inputs, positions=None, segments=None):
        """Features (batch * time, width); with segments (batch, time), every position reads its own segment alone."""
        kernels = self.kernels if segments is None else attention_kernels(self.model, self.device, segments)
        return self.features(inputs, kernels, positions).flatten(0, 1)

    def loss(self, inputs, targets, *documents):
        """Sum of nats over targets that are not IGNORED: int64 (batch, time) each; a scalar that carries gradients.

        documents: nothing for continuous rows, else positions and segments, int64 (batch, time) each.
        """
        with self.autocast():
            features, targets = self.flat_features(inputs, *documents), targets.flatten()
            weight, cap = self.model.head.weight, self.model.softcap
            if not self.chunked:
                return self.plain(features, weight, targets, cap)
            if documents:
                features, targets = features[targets != IGNORED], targets[targets != IGNORED]
            return ChunkedLoss.apply(features, weight, targets, float(cap), self.chunk)

    @torch.no_grad()
    def nats(self, inputs, targets, *documents):
        """Nats of every target, float32 (batch, time), 0 where IGNORED; in chunks, so that logits are never whole."""
        with self.autocast():
            features = self.flat_features(inputs, *documents)
            parts = zip(features.split(self.chunk), targets.flatten().split(self.chunk))
            return torch.cat([self._chunk_nats(*part) for part in parts]).view(targets.shape)

    def _chunk_nats(self, features, targets):
        logits = softcap(F.linear(features, self.model.head.weight).float(), self.model.softcap)
        return F.cross_entropy(logits, targets, reduction="none")


# ---------------------------------------------------------------------------------------- optimizer

POLAR_EXPRESS = (
    (8.156554524902461, -22.48329292557795, 15.878769915207462),
    (4.042929935166739, -2.808917465908714, 0.5000178451051316),
    (3.8916678022926607, -2.772484153217685, 0.5060648178503393),
    (3.285753657755655, -2.3681294933425376, 0.46449024233003106),
    (2.3465413258596377, -1.7097828382687081, 0.42323551169305323),
)


def polar(matrices, dtype):
    """Nearest orthogonal matrices of (n, rows, columns) by five polar-express steps in `dtype`."""
    x = matrices.to(dtype)
    x = x / (1.02 * x.norm(dim=(-2, -1), keepdim=True) + 1e-6)
    tall = x.size(-2) > x.size(-1)
    x = x.mT if tall else x
    for a, b, c in POLAR_EXPRESS:
        gram = x @ x.mT
        x = a * x + (b * gram + c * (gram @ gram)) @ x
    return (x.mT if tall else x).float()


class Muon:
    """Muon with NorMuon's variance reduction and cautious weight decay, over matrices stacked by shape."""

    def __init__(self, named_matrices, settings, dtype):
        self.settings, self.dtype, self.groups = settings, dtype, []
        by_shape = {}
        for name, matrix in named_matrices:
            by_shape.setdefault(tuple(matrix.shape), []).append((name, matrix))
        for shape, members in sorted(by_shape.items()):
            rows_, columns = shape
            second = (rows_, 1) if rows_ >= columns else (1, columns)
            device = members[0][1].device
            self.groups.append({
                "matrices": [matrix for _, matrix in members],
                "momentum": torch.zeros(len(members), *shape, device=device),
                "second_moment": torch.zeros(len(members), *second, device=device),
            })

    def state(self):
        return {f"muon/{i}/{key}": group[key] for i, group in enumerate(self.groups)
                for key in ("momentum", "second_moment")}

    @torch.no_grad()
    def step(self, rate_scale, momentum, decay):
        for group in self.groups:
            weights = torch.stack(group["matrices"])
            gradient = torch.stack([matrix.grad for matrix in group["matrices"]])
            group["momentum"].lerp_(gradient, 1 - momentum)
            update = polar(gradient.lerp_(group["momentum"], momentum), self.dtype)
            update = self._even_out(update, group["second_moment"])
            rate = rate_scale * self.settings["rate"] * max(1.0, weights.size(1) / weights.size(2)) ** 0.5
            agrees = update * weights >= 0
            weights -= rate * update + rate * decay * weights * agrees
            torch._foreach_copy_(group["matrices"], list(weights.unbind()))

    def _even_out(self, update, second_moment):
        side = -1 if update.size(1) >= update.size(2) else -2
        mean_square = update.square().mean(dim=side, keepdim=True)
        second_moment.lerp_(mean_square, 1 - self.settings["second_moment_beta"])
        scale = second_moment.clamp_min(1e-10).rsqrt()
        before = mean_square.sum(dim=(1, 2), keepdim=True).sqrt()
        after = (mean_square * scale.square()).sum(dim=(1, 2), keepdim=True).sqrt()
        return update * scale * (before / after.clamp_min(1e-10))


class Optimizer:
    """AdamW for embeddings, head and per-layer scales; Muon for every matrix of the blocks."""

    def __init__(self, model, settings, precision):
        self.settings = settings
        width_scale = (model.token_embedding.embedding_dim / settings["adam"]["reference_width"]) ** -0.5
        weights = dict(model.named_parameters())
        blocks = [name for name in weights if name.startswith("blocks.")]
        self.names = [name for name in weights if name not in blocks]
        self.weights = [weights[name] for name in self.names]
        groups = []
        for name, weight in zip(self.names, self.weights):
            group = settings["adam"][name.split(".")[0]]
            rate = group["rate"] * (width_scale if group["scale_by_width"] else 1.0)
            groups.append({"params": [weight], "lr": rate, "base_rate": rate, "betas": tuple(group["betas"])})
        self.adam = torch.optim.AdamW(groups, eps=settings["adam"]["epsilon"], weight_decay=0.0, fused=True)
        dtype = torch.bfloat16 if precision == "bfloat16" else torch.float32
        self.muon = Muon([(name, weights[name]) for name in blocks], settings["muon"], dtype)

    def step(self, update, updates):
        """One update. The schedule runs on progress = update / updates: a token clock, not seconds."""
        progress, muon = update / updates, self.settings["muon"]
        rate_scale = min(1.0, (1.0 - progress) / self.settings["cooldown_fraction"])
        warm = min(update / muon["momentum_updates"], 1.0)
        for group in self.adam.param_groups:
            group["lr"] = group["base_rate"] * rate_scale
        self.adam.step()
        momentum = (1 - warm) * muon["momentum_start"] + warm * muon["momentum_end"]
        self.muon.step(rate_scale, momentum, muon["weight_decay"] * (1 - progress))
        return rate_scale

    def state(self):
        """{name: tensor} of every moment, the live tensors themselves; Adam's are made here if no step has run yet."""
        tensors = self.muon.state()
        for name, weight in zip(self.names, self.weights):
            moments = self.adam.state[weight]
            if not moments:
                moments["step"] = torch.zeros((), device=weight.device)
                moments["exp_avg"], moments["exp_avg_sq"] = torch.zeros_like(weight), torch.zeros_like(weight)
            tensors |= {f"adam/{name}/{key}": moments[key] for key in ("step", "exp_avg", "exp_avg_sq")}
        return tensors


# --------------------------------------------------------------------------------------------- data


class Split:
    """One split of a prepared corpus, the plan of its first `row_count` rows by one loader, and their targets."""

    def __init__(self, directory, split, loader, config, row_count):
        packing = config["packing"]
        lengths, refill = np.load(directory / split / "lengths.npy"), np.load(directory / split / "refill.npy")
        capacity, tokens = packing["context"] + 1, np.load(directory / split / "tokens.npy", mmap_mode="r")
        self.plan = loader.plan(lengths, capacity=capacity, rows=row_count, buffer_size=packing["buffer_size"],
                                refill=refill, seed=packing["span_seed"])
        self.reader = rows.RowReader(self.plan, tokens, lengths, config["bos"], capacity)
        independent, fills = loader.independent, loader.fills
        self.targets, self.collate = row_targets(self.plan, independent=independent), rows.full_rows
        if independent or not fills:
            width = capacity if fills or config["training"]["compile"] else None  # compiled code is made for one width
            self.collate = functools.partial(rows.document_rows, independent=independent, width=width)


# --------------------------------------------------------------------------------------- distributed


class Ranks:
    """This process among those that torchrun started; one alone when it was not torchrun."""

    def __init__(self, device):
        self.count, self.rank = int(os.environ.get("WORLD_SIZE", 1)), int(os.environ.get("RANK", 0))
        if self.count > 1 and not dist.is_initialized():
            # Torch imports this one lazily; its functions' default argument is the group of that time, which close()
            # could then not free: gloo's threads would outlive it, and abort the process when Python ends under them.
            importlib.import_module("torch.distributed.nn")
            dist.init_process_group("nccl" if device.type == "cuda" else "gloo")

    def sum(self, tensor):
        """Sum a tensor over ranks, in place."""
        if self.count > 1:
            dist.all_reduce(tensor)
        return tensor

    def deal(self, items):
        """This rank's share of a list: every count-th item."""
        return items[self.rank :: self.count]

    def collect(self, share):
        """The whole list again, in its first order, from the shares of all ranks."""
        if self.count == 1:
            return share
        shares = [None] * self.count
        dist.all_gather_object(shares, share)
        return [shares[i % self.count][i // self.count] for i in range(sum(map(len, shares)))]

    def close(self):
        """End the group and its threads."""
        if self.count > 1:
            dist.destroy_process_group()


# --------------------------------------------------------------------------------- official score


def score(forward, reader, microbatch, byte_tables, ranks, label="scoring"):
    """Nats, supplied bytes, raw bytes and counted targets of every row: float64 (rows, 4).

    A target counts when its supplied byte length is positive; specials do not. Sums within a row are in float64.
    """
    supplied, raw = (torch.from_numpy(table.astype(np.int64)).to(forward.device) for table in byte_tables)
    statistics = torch.zeros(reader.count, 4, dtype=torch.float64, device=forward.device)
    firsts = ranks.deal(range(0, reader.count, microbatch))
    ranges = [(first, min(first + microbatch, reader.count)) for first in firsts]
    stream = rows.stream(reader, ranges, forward.device)
    for (_, inputs, targets), (first, last) in zip(bar(stream, label, len(ranges)), ranges):
        nats, counted = forward.nats(inputs, targets).double(), supplied[targets] > 0
        columns = [nats * counted, supplied[targets], raw[targets] * counted, counted]
        statistics[first:last] = torch.stack([column.double().sum(1) for column in columns], dim=1)
    return ranks.sum(statistics).cpu().numpy()


def summarise(statistics):
    """The official score from row statistics: bits per byte by both byte tables, cross-entropy, perplexity.

    Nats are summed exactly by fsum; bits per byte = nats / (ln 2 x bytes). Source: recipe facts, paper section 4.
    """
    nats = math.fsum(statistics[:, 0])
    supplied, raw, counted = (int(column.sum()) for column in statistics[:, 1:].astype(np.int64).T)
    if not counted:
        raise InputError("the score's stream holds no target with a positive byte length")
    return {
        "rows": len(statistics),
        "targets": counted,
        "nats": nats,
        "supplied_bytes": supplied,
        "raw_bytes": raw,
        "bits_per_byte": nats / (math.log(2) * supplied),
        "raw_bits_per_byte": nats / (math.log(2) * raw),
        "cross_entropy": nats / counted,
        "perplexity": math.exp(nats / counted),
    }


# -------------------------------------------------------------------------------------- checkpoints


def weights_digest(model):
    """SHA-256 over every weight's name and bytes, in name order."""
    digest = hashlib.sha256()
    for name, weight in sorted(model.state_dict().items()):
        digest.update(name.encode() + weight.contiguous().cpu().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def live_tensors(model, optimizer):
    return {f"model/{name}": weight for name, weight in model.state_dict().items()} | optimizer.state()


def save_checkpoint(path, model, optimizer, progress, identity):
    """Everything that the next update depends on, in one file renamed into place."""
    tensors = {name: tensor.contiguous() for name, tensor in live_tensors(model, optimizer).items()}
    metadata = {"state": json.dumps({"progress": progress, "identity": identity}, sort_keys=True)}
    evidence.write_atomic(path, safetensors.torch.save(tensors, metadata))


def load_checkpoint(path, model, optimizer, identity):
    """Restore weights and moments in place; return the saved progress. Another config or code is refused by name."""
    try:
        with safetensors.safe_open(path, "pt") as file:
            state = json.loads(file.metadata()["state"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}
    except (safetensors.SafetensorError, TypeError, KeyError, ValueError) as error:
        raise InputError(f"{path}: not a checkpoint of this trainer ({error}); delete it to start again") from None
    difference = evidence.first_difference(state["identity"], identity)
    if difference:
        raise InputError(f"{path}: saved by another run: {difference}; delete it to start again")
    for name, tensor in live_tensors(model, optimizer).items():
        tensor.copy_(tensors[name])
    return state["progress"]


# --------------------------------------------------------------------------------------------- loop


class Diverged(Exception):
    """The loss is not finite or above the config's limit."""


def bar(items, label, total):
    """Progress over `items`: a bar on a terminal, about ten plain lines elsewhere."""
    if sys.stderr.isatty():
        yield from tqdm(items, label, total, leave=False)
        return
    for done, item in enumerate(items, 1):
        yield item
        if done * 10 // total > (done - 1) * 10 // total:
            print(f"{label}: {done} of {total}", file=sys.stderr, flush=True)


def run_update(forward, batches, targets_per_update, ranks):
    """Gradients of one update from this rank's microbatches; the loss in nats a target, over all ranks.

    targets_per_update: effective targets of all microbatches and ranks, so every target weighs the same.
    """
    forward.model.zero_grad(set_to_none=True)
    nats = torch.zeros((), dtype=torch.float64, device=forward.device)
    digests = []
    for consumed, *batch in batches:
        loss = forward.loss(*batch) / max(targets_per_update, 1)
        loss.backward()
        nats += loss.detach()
        digests.append(rows.digest(consumed))
    for weight in forward.model.parameters():
        ranks.sum(weight.grad)
    return ranks.sum(nats).item(), ranks.collect(digests)


def train(config, forward, optimizer, split, progress, ranks, after_update):
    """The training loop from `progress["update"]` on; `after_update(line of metrics)` is called after every update.

    An update without any target is not made: weights and moments stay as they are.
    """
    settings = config["training"]
    microbatch, accumulation = settings["microbatch"], settings["accumulation"]
    if accumulation % ranks.count:
        raise InputError(f"training.accumulation: {accumulation} microbatches cannot be dealt to {ranks.count} ranks")
    updates = range(progress["update"], settings["updates"])
    first_row, last_row = (update * accumulation * microbatch for update in (updates.start, updates.stop))
    ranges = [(row, row + microbatch) for row in ranks.deal(range(first_row, last_row, microbatch))]
    stream = rows.stream(split.reader, ranges, forward.device, split.collate)
    targets_of = split.targets.reshape(-1, accumulation * microbatch).sum(axis=1).tolist()
    began = time.perf_counter() - progress["loop_seconds"]
    for update in bar(updates, f"{config['condition']}_s{config['seed']}: training", len(updates)):
        started = time.perf_counter()
        batches = (next(stream) for _ in range(accumulation // ranks.count))
        targets = targets_of[update]
        loss, digests = run_update(forward, batches, targets, ranks)
        if not loss <= settings["loss_limit"]:
            raise Diverged(f"update {update}: loss {loss} is not finite or above the limit {settings['loss_limit']}")
        rate_scale = optimizer.step(update, updates.stop) if targets else None
        if forward.device.type == "cuda":
            torch.cuda.synchronize()
        now = time.perf_counter()
        progress["update"] = update + 1
        progress["loop_seconds"] = now - began
        progress["timed_seconds"] += now - started if update >= settings["timer_skip"] else 0.0
        progress["first_microbatch"] = progress["first_microbatch"] or digests[0]
        progress["last_microbatch"] = digests[-1]
        progress["rows"] = rows.chain(progress["rows"], digests)
        progress["effective_targets"] += targets
        progress["empty_updates"] += not targets
        after_update({"loss": loss if targets else None, "rate_scale": rate_scale, "targets": targets})


# --------------------------------------------------------------------------------------------- main

CONFIG_KEYS = (
    "study", "condition", "seed", "loader", "protocol_sha256", "data", "bos", "vocabulary",
    "packing", "model", "optimizer", "training", "evaluation",
)
START = {
    "update": 0, "attempts": 0, "loop_seconds": 0.0, "timed_seconds": 0.0, "run_seconds": 0.0,
    "first_microbatch": None, "last_microbatch": None, "rows": "", "effective_targets": 0, "empty_updates": 0,
}


def code_digests():
    """{file: SHA-256} of this file and all it imports from its own folder."""
    here = Path(__file__).resolve().parent
    files = sorted([*here.glob("*.py"), *here.glob("loaders/*.py")])
    return {file.relative_to(here).as_posix(): evidence.sha256_file(file) for file in files}


def peak_bytes(device):
    """Peak memory: allocated on the GPU, or resident in this process on the CPU (ru_maxrss counts KiB on Linux)."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def prepare_model(config, device):
    """The seeded model on `device` in the run's precision, its forward pass, and the digest of its first weights."""
    model = build_model(config["model"], config["vocabulary"], config["packing"]["context"])
    initialise(model, config["seed"])
    digest = weights_digest(model)
    if config["training"]["precision"] == "bfloat16":
        for part in (model.token_embedding, model.value_embeddings):
            part.bfloat16()
        model.cos, model.sin = model.cos.bfloat16(), model.sin.bfloat16()
    return model.to(device), digest


class RunDirectory:
    """One run directory: its config, the files it writes, and what must be equal for a checkpoint to go on."""

    def __init__(self, config_path, device, ranks):
        self.path, self.directory = Path(config_path), Path(config_path).resolve().parent
        self.config = evidence.read_json(config_path)
        evidence.require_keys(self.config, CONFIG_KEYS, config_path)
        self.data = self.directory / self.config["data"]["directory"]
        for name, digest in sorted(self.config["data"]["files"].items()):
            evidence.require_digest(self.data / name, digest)
        self.identity = {"config": self.config, "code": code_digests(), "device": device.type, "ranks": ranks.count}
        self.writes = ranks.rank == 0
        self.checkpoint, self.metrics = self.directory / "checkpoint.safetensors", self.directory / "metrics.jsonl"

    def resume(self, model, optimizer):
        """Progress from the checkpoint, or from nothing; metrics of updates that must be done again are cut off."""
        progress = dict(START)
        if self.checkpoint.exists():
            progress = load_checkpoint(self.checkpoint, model, optimizer, self.identity)
            print(f"resumed after update {progress['update']} of {self.config['training']['updates']}", file=sys.stderr)
        if self.writes:
            kept = self.metrics.read_bytes().splitlines(True)[: progress["update"]] if self.metrics.exists() else []
            evidence.write_atomic(self.metrics, b"".join(kept))
        return {**progress, "attempts": progress["attempts"] + 1}

    def record(self, model, optimizer, progress, line):
        """After an update: one line of metrics and, when one is due, a checkpoint."""
        if not self.writes:
            return
        line = {"update": progress["update"], **line, "seconds": progress["loop_seconds"]}
        with open(self.metrics, "a", encoding="utf-8") as file:
            file.write(json.dumps(line, allow_nan=False) + "\n")
        settings = self.config["training"]
        if progress["update"] % settings["checkpoint_every"] == 0 or progress["update"] == settings["updates"]:
            save_checkpoint(self.checkpoint, model, optimizer, progress, self.identity)

    def finish(self, model, statistics, result):
        """Weights and row statistics first, result.json last: its presence means that the run is complete."""
        weights = {name: weight.contiguous() for name, weight in model.state_dict().items()}
        array = io.BytesIO()
        np.save(array, statistics)
        files = {"model.safetensors": safetensors.torch.save(weights), "evaluation_rows.npy": array.getvalue()}
        for name, data in files.items():
            evidence.write_atomic(self.directory / name, data)
            result["digests"][name] = evidence.sha256_bytes(data)
        evidence.write_json(self.directory / "result.json", result)


def run(config_path, device):
    """Train, score and write result.json; return it. Goes on from checkpoint.safetensors when there is one."""
    began = time.perf_counter()
    ranks = Ranks(device)
    directory = RunDirectory(config_path, device, ranks)
    config, settings = directory.config, directory.config["training"]
    torch.set_num_threads(settings["threads"])
    torch.use_deterministic_algorithms(device.type == "cpu")
    size = describe(config, config["vocabulary"])
    model, initial_weights = prepare_model(config, device)
    forward, optimizer = Forward(model, settings, device), Optimizer(model, config["optimizer"], settings["precision"])
    training = Split(directory.data, "train", importlib.import_module("loader").LOADER, config, size["rows"])
    progress = directory.resume(model, optimizer)
    began -= progress["run_seconds"]

    def after_update(line):
        progress["run_seconds"] = time.perf_counter() - began
        directory.record(model, optimizer, progress, line)

    train(config, forward, optimizer, training, progress, ranks, after_update)
    scoring_began = time.perf_counter()
    scored_rows = config["evaluation"]["targets"] // model.context
    validation = Split(directory.data, "validation", best_fit_crop.LOADER, config, scored_rows)
    byte_tables = [np.load(directory.data / f"tokenizer/bytes_{name}.npy") for name in ("supplied", "raw")]
    microbatch, label = config["evaluation"]["microbatch"], f"{config['condition']}_s{config['seed']}: scoring"
    statistics = score(forward, validation.reader, microbatch, byte_tables, ranks, label)
    ended = time.perf_counter()
    result = {
        **{key: config[key] for key in ("study", "condition", "seed")},
        **size,
        "score": summarise(statistics),
        **{key: progress[key] for key in ("effective_targets", "empty_updates", "attempts")},
        "peak_bytes": peak_bytes(device),
        "seconds": {"timed": progress["timed_seconds"], "loop": progress["loop_seconds"],
                    "score": ended - scoring_began, "run": ended - began},
        "digests": {"config": evidence.sha256_file(config_path), "code": directory.identity["code"],
                    "inputs": config["data"]["files"],
                    "initial_weights": initial_weights, "weights": weights_digest(model),
                    "plan": plan_sha256(training.plan), "evaluation_plan": plan_sha256(validation.plan),
                    **{key: progress[key] for key in ("rows", "first_microbatch", "last_microbatch")}},
        "environment": {"torch": torch.__version__, "numpy": np.__version__, "ranks": ranks.count,
                        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"},
    }
    if directory.writes:
        directory.finish(model, statistics, result)
    ranks.close()
    return result


def main(argv=None):
    parser = evidence.parser(__doc__)
    parser.add_argument("config", type=Path, nargs="?", help="config.json of a run directory")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--describe", type=Path, metavar="PROTOCOL", help="print a protocol's size and cost as JSON")
    options = parser.parse_args(argv)
    if options.describe:
        protocol = evidence.read_json(options.describe)
        try:
            size = describe(protocol, protocol["tokenizer"]["vocabulary"])
        except (LookupError, TypeError, ValueError, RuntimeError, ArithmeticError) as error:
            raise InputError(f"{options.describe}: not a whole protocol: {type(error).__name__} {error}") from None
        print(evidence.canonical_json(size).decode(), end="")
        return 0
    if not options.config:
        parser.error("a config.json or --describe PROTOCOL is needed")
    index = int(os.environ.get("LOCAL_RANK", 0))
    device = torch.device("cuda", index) if options.device == "cuda" else torch.device("cpu")
    try:
        result = run(options.config, device)
    except Diverged as error:
        print(f"train.py: {options.config}: {error}", file=sys.stderr)
        return 1
    bits, targets = result["score"]["bits_per_byte"], result["score"]["targets"]
    print(f"{bits:.6f} bits per byte over {targets:,} targets: {options.config.parent / 'result.json'}")
    return 0


if __name__ == "__main__":
    sys.exit(evidence.run_script(main))
