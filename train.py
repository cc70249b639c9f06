"""Train one model from one complete config.json and score it: which bits per byte does a loader lead to?

Reads   config.json, which generate_runs.py writes; the prepared data that it names; loader.py and loaders/ beside this
        file
Writes  beside config.json: metrics, checkpoint, final weights, scored rows, result (see run_directory.py)
Needs   torch
About   two minutes on one CPU core for a run of the demo; 20 on one GPU for a run of the paper, as it reports

    python train.py config.json --device cpu
    torchrun --nproc-per-node 2 train.py config.json --device cpu
    python train.py --describe protocols/climbmix.json

The recipe follows karpathy/autoresearch at commit 228791f (MIT) as facts; the code is our own. No setting has a default
here: every value comes from the protocol, for example protocols/demo.json. Under torchrun the microbatches of an update
are dealt to the ranks, so `accumulation` must be a multiple of their number.
"""

import contextlib
import functools
import gc
import importlib
import math
import re
import sys
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parent))

import evidence
import surroundings
from captures import capture, scalars
from checkpoint import weights_digest
from evidence import InputError
from loaders import rows
from loaders.accounting import plan_sha256
from loaders.batches import IGNORED
from run_directory import Ranks, RunDirectory, bar, own_device
from scoring import print_score, result_of, score_run

# -------------------------------------------------------------------------------------------- model


def allowed(query, key, window):
    """Return whether a query position reads a key position: not a later one, and at most `window` positions back."""
    return (key <= query) & (query - key <= window)


def norm(x):
    """Return x over its root mean square over channels, in the type of x (autocast on a GPU would widen it)."""
    with torch.autocast(x.device.type, enabled=False):
        return F.rms_norm(x, (x.size(-1),))


def rotate(x, cos, sin):
    """Rotate x (batch, heads, time, head) by its position: channel i of the first half pairs with i of the second."""
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * cos + second * sin, second * cos - first * sin], dim=-1)


class Attention(nn.Module):
    """Causal attention in a window; queries and keys are rotated and normed, value embeddings enter through a gate."""

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
        q, k = norm(rotate(q, *rotary)).type_as(v), norm(rotate(k, *rotary)).type_as(v)
        y = attend(q, k, v.transpose(1, 2))
        return self.output(y.transpose(1, 2).reshape(batch, time_, width))


class MLP(nn.Module):
    """A hidden layer of four times the width with squared ReLU."""

    def __init__(self, width):
        super().__init__()
        self.input = nn.Linear(width, 4 * width, bias=False)
        self.output = nn.Linear(4 * width, width, bias=False)

    def forward(self, x):
        return self.output(F.relu(self.input(x)).square())


class Block(nn.Module):
    """One layer: attention and MLP, each on the normed input and added to it."""

    def __init__(self, width, heads, gate_channels):
        super().__init__()
        self.attention = Attention(width, heads, gate_channels)
        self.feedforward = MLP(width)

    def forward(self, x, value_embedding, rotary, attend):
        x = x + self.attention(norm(x), value_embedding, rotary, attend)
        return x + self.feedforward(norm(x))


class Model(nn.Module):
    """The recipe's decoder: `forward` maps token ids (batch, time) to normed features (batch, time, width)."""

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
            value = None if block.attention.gate is None else self.value_embeddings[str(i)](tokens)
            x = self.residual_scales[i] * x + self.embedding_scales[i] * start
            x = block(x, value, rotary, attends[i])
        return norm(x)


def initialise(model, seed):
    """Fill every weight from one CPU generator, so that a seed gives the same bytes on every device and condition.

    InputError names a weight for which no rule, or more than one, says how to fill it.
    """
    generator = torch.Generator().manual_seed(seed)
    bound = math.sqrt(3 / model.token_embedding.embedding_dim)
    rules = {
        r"token_embedding\.weight": lambda w: nn.init.normal_(w, 0.0, 1.0, generator=generator),
        r"head\.weight": lambda w: nn.init.normal_(w, 0.0, 0.001, generator=generator),
        r"value_embeddings\.\d+\.weight": lambda w: nn.init.uniform_(w, -bound, bound, generator=generator),
        r"blocks\.\d+\.(attention\.(query|key|value)|feedforward\.input)\.weight":
            lambda w: nn.init.uniform_(w, -bound, bound, generator=generator),
        r"blocks\.\d+\.(attention|feedforward)\.output\.weight": nn.init.zeros_,
        r"blocks\.\d+\.attention\.gate\.weight": nn.init.zeros_,
        r"residual_scales": nn.init.ones_,
        r"embedding_scales": lambda w: nn.init.constant_(w, 0.1),
    }
    for name, weight in model.named_parameters():
        found = [fill for pattern, fill in rules.items() if re.fullmatch(pattern, name)]
        if len(found) != 1:
            raise InputError(f"train.initialise: {name}: expected one rule that fills it, found {len(found)}")
        found[0](weight)


def build_model(settings, vocabulary, context):
    """Return the Model of a protocol's `model` section on torch's default device; its weights are not set."""
    return Model(**settings, vocabulary=vocabulary, context=context)


def describe(config, vocabulary):
    """Return size and cost of the training run of a protocol or a run's config as exact integers.

    FLOPs a position: six times the weights of linear layers, plus twelve times width times window summed over layers.
    `targets` counts those of full rows; a run with padded or independent documents has fewer. Source: recipe facts;
    paper sections 4 and 5.3.
    """
    context, training = config["packing"]["context"], config["training"]
    with torch.device("meta"):
        model = build_model(config["model"], vocabulary, context)
    multiplied = sum(part.weight.numel() for part in model.modules() if isinstance(part, nn.Linear))
    flops = 6 * multiplied + sum(12 * config["model"]["width"] * window for window in model.windows)
    row_count = training["updates"] * training["accumulation"] * training["microbatch"]
    return {
        "parameters": sum(weight.numel() for weight in model.parameters()),
        "flops_per_token": flops,
        "updates": training["updates"],
        "rows": row_count,
        "targets": row_count * context,
        "total_flops": flops * row_count * context,
    }


# ---------------------------------------------------------------------------------- attention kernels


def dense_attention(context, window, device, segments=None):
    """Return attention over (batch, heads, time, head), with an explicit mask where causality does not suffice.

    segments: int64 (batch, time); a query reads its own segment. Padding is a segment too, so every query has a key.
    """
    if window >= context and segments is None:
        return lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True)
    position = torch.arange(context, device=device)
    mask = allowed(position[:, None], position[None, :], window)
    if segments is not None:
        mask = (mask & (segments[:, :, None] == segments[:, None, :])).unsqueeze(1)
    return lambda q, k, v: F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def block_attention(context, window, device, segments=None):
    """Return the same attention by flex_attention, which skips blocks without a key; compile it with the model."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    def rule(batch, head, query, key):
        inside = allowed(query, key, window)
        return inside if segments is None else inside & (segments[batch, query] == segments[batch, key])

    batch = None if segments is None else len(segments)
    make = create_block_mask
    if segments is not None:
        make = torch.compile(create_block_mask, dynamic=False)  # uncompiled, it would store the full matrix
    mask = make(rule, batch, None, context, context, device=device)
    return lambda q, k, v: flex_attention(q, k, v, block_mask=mask)


def attention_kernels(model, device, segments=None):
    """Return one attention function for each layer; layers of equal window share theirs."""
    make = block_attention if device.type == "cuda" else dense_attention
    context = model.context if segments is None else segments.size(1)
    kernels = {window: make(context, window, device, segments) for window in sorted(set(model.windows))}
    return [kernels[window] for window in model.windows]


# --------------------------------------------------------------------------------------------- loss


def softcap(logits, cap):
    return cap * torch.tanh(logits / cap)


def plain_loss(features, weight, targets, cap):
    """Return the sum of nats over targets: features (n, width), weight (vocabulary, width), targets int64 (n,)."""
    return F.cross_entropy(softcap(F.linear(features, weight).float(), cap), targets, reduction="sum")


class ChunkedLoss(torch.autograd.Function):
    """`plain_loss` for the CPU, a few positions at a time, so that the logits stay in the cache and are never stored.

    The forward pass forms the gradients while it has the logits. Softcapped logits are bounded, so their exponentials
    do not overflow without the usual subtraction of the maximum.
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


class DeviceModel:
    """The model made ready for one device: `loss` for training and `nats` for scoring, in the run's precision."""

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
        """Return the context in which the forward pass runs."""
        return torch.autocast(self.device.type, torch.bfloat16) if self.reduced else contextlib.nullcontext()

    def flat_features(self, inputs, positions=None, segments=None):
        """Return features (batch * time, width); with segments (batch, time), positions read their own segment."""
        kernels = self.kernels if segments is None else attention_kernels(self.model, self.device, segments)
        return self.features(inputs, kernels, positions).flatten(0, 1)

    def loss(self, inputs, targets, *documents):
        """Return the sum of nats over targets that are not IGNORED, a scalar with gradients.

        inputs, targets: int64 (batch, time). documents: nothing for continuous rows, otherwise positions and segments,
        int64 (batch, time) each. In bfloat16 the head's product is bfloat16, as in the recipe.
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
        """Return the nats of every target, float32 (batch, time), 0 where IGNORED.

        The head's product is float32 in every precision, a chunk of positions at a time.
        """
        with self.autocast():
            features = self.flat_features(inputs, *documents)
        parts = zip(features.split(self.chunk), targets.flatten().split(self.chunk), strict=True)
        return torch.cat([self._chunk_nats(*part) for part in parts]).view(targets.shape)

    def _chunk_nats(self, features, targets):
        logits = softcap(F.linear(features.float(), self.model.head.weight.float()), self.model.softcap)
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
    """Return the nearest orthogonal matrices of (n, rows, columns) by five polar-express steps in `dtype`."""
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
        self.lr, self.beta2, self.dtype = settings["rate"], settings["second_moment_beta"], dtype
        by_shape = {}
        for name, matrix in named_matrices.items():
            if matrix.ndim != 2:
                raise InputError(f"train.Muon: {name}: expected a matrix, found shape {tuple(matrix.shape)}; "
                                 "give AdamW a group for it in train.Optimizer")
            by_shape.setdefault(tuple(matrix.shape), []).append(matrix)
        self.groups = [self._group(shape, matrices) for shape, matrices in sorted(by_shape.items())]

    def _group(self, shape, matrices):
        height, width = shape
        second = (height, 1) if height >= width else (1, width)
        device = matrices[0].device
        return {"matrices": matrices, "momentum": torch.zeros(len(matrices), *shape, device=device),
                "second_moment": torch.zeros(len(matrices), *second, device=device)}

    def state(self):
        """Return {name: tensor} of every moment, the live tensors themselves."""
        return {f"muon/{i}/{key}": group[key] for i, group in enumerate(self.groups)
                for key in ("momentum", "second_moment")}

    @torch.no_grad()
    def step(self, lr_scale, momentum, decay):
        """Make one update of all matrices from their gradients."""
        for group in self.groups:
            weights = torch.stack(group["matrices"])
            gradient = torch.stack([matrix.grad for matrix in group["matrices"]])
            group["momentum"].lerp_(gradient, 1 - momentum)
            update = polar(gradient.lerp_(group["momentum"], momentum), self.dtype)
            update = self._even_out(update, group["second_moment"])
            lr = lr_scale * self.lr * max(1.0, weights.size(1) / weights.size(2)) ** 0.5
            agrees = update * weights >= 0
            weights -= lr * update + lr * decay * weights * agrees
            torch._foreach_copy_(group["matrices"], list(weights.unbind()))

    def _even_out(self, update, second_moment):
        side = -1 if update.size(1) >= update.size(2) else -2
        mean_square = update.square().mean(dim=side, keepdim=True)
        second_moment.lerp_(mean_square, 1 - self.beta2)
        scale = second_moment.clamp_min(1e-10).rsqrt()
        before = mean_square.sum(dim=(1, 2), keepdim=True).sqrt()
        after = (mean_square * scale.square()).sum(dim=(1, 2), keepdim=True).sqrt()
        return update * scale * (before / after.clamp_min(1e-10))


class Optimizer:
    """AdamW for embeddings, head and per-layer scales; Muon for every matrix of the blocks.

    InputError names a weight that has no group in the protocol's section `optimizer.adam` and is no matrix of a block.
    """

    def __init__(self, model, settings, precision):
        self.settings, adam = settings, settings["adam"]
        width_scale = (model.token_embedding.embedding_dim / adam["reference_width"]) ** -0.5
        weights = dict(model.named_parameters())
        matrices = {name: weight for name, weight in weights.items() if name.startswith("blocks.")}
        self.others = {name: weight for name, weight in weights.items() if name.split(".")[0] in adam}
        if missing := sorted(weights.keys() - (matrices.keys() | self.others.keys())):
            raise InputError(f"train.Optimizer: {missing[0]}: no group of optimizer.adam and no matrix of a block")
        groups = []
        for name, weight in self.others.items():
            group = adam[name.split(".")[0]]
            lr = group["rate"] * (width_scale if group["scale_by_width"] else 1.0)
            groups.append({"params": [weight], "lr": lr, "base_lr": lr, "betas": tuple(group["betas"])})
        self.adam = torch.optim.AdamW(groups, eps=adam["epsilon"], weight_decay=0.0, fused=True)
        self.muon = Muon(matrices, settings["muon"], torch.bfloat16 if precision == "bfloat16" else torch.float32)

    def schedule(self, update, updates):
        """Return (learning rate scale, momentum of Muon, weight decay of Muon) of an update by its share of all."""
        progress, muon = update / updates, self.settings["muon"]
        warmup = min(update / muon["momentum_updates"], 1.0)
        lr_scale = min(1.0, (1.0 - progress) / self.settings["cooldown_fraction"])
        momentum = (1 - warmup) * muon["momentum_start"] + warmup * muon["momentum_end"]
        return lr_scale, momentum, muon["weight_decay"] * (1 - progress)

    def step(self, update, updates):
        """Make update number `update`, from 0, of `updates`; return its learning rate scale."""
        lr_scale, momentum, decay = self.schedule(update, updates)
        for group in self.adam.param_groups:
            group["lr"] = group["base_lr"] * lr_scale
        self.adam.step()
        self.muon.step(lr_scale, momentum, decay)
        return lr_scale

    def state(self):
        """Return {name: tensor} of every moment, the live tensors themselves; before a step, Adam's are made here."""
        tensors = self.muon.state()
        for name, weight in self.others.items():
            moments = self.adam.state[weight]
            if not moments:
                moments["step"] = torch.zeros((), device=weight.device)
                moments["exp_avg"], moments["exp_avg_sq"] = torch.zeros_like(weight), torch.zeros_like(weight)
            tensors |= {f"adam/{name}/{key}": moments[key] for key in ("step", "exp_avg", "exp_avg_sq")}
        return tensors


# --------------------------------------------------------------------------------------------- loop


class Diverged(Exception):
    """The loss is not finite or exceeds the config's limit."""


def run_update(device_model, batches, targets_per_update, ranks):
    """Form the gradients of one update from this rank's microbatches; return (loss, digests of the microbatches).

    targets_per_update: effective targets of all microbatches and ranks, so that every target weighs the same. The loss
    is a float64 scalar tensor, nats a target over all ranks; to read it waits for the device.
    """
    device_model.model.zero_grad(set_to_none=True)
    nats = torch.zeros((), dtype=torch.float64, device=device_model.device)
    digests = []
    for consumed, *batch in batches:
        loss = device_model.loss(*batch) / max(targets_per_update, 1)
        loss.backward()
        nats += loss.detach()
        digests.append(rows.digest(consumed))
    ranks.sum_gradients(list(device_model.model.parameters()))
    return ranks.sum(nats), ranks.collect(digests)


def train(config, device_model, optimizer, split, progress, ranks, after_update):
    """Make the updates that `progress` lacks; after each, call `after_update(line of metrics, capture or None)`.

    An update without any target is not made: weights and moments stay as they are.
    """
    settings = config["training"]
    microbatch, grad_accum = settings["microbatch"], settings["accumulation"]
    if grad_accum % ranks.count:
        raise InputError(f"training.accumulation: {grad_accum} microbatches cannot be dealt to {ranks.count} ranks")
    updates = range(progress.update, settings["updates"])
    first_row, last_row = (update * grad_accum * microbatch for update in (updates.start, updates.stop))
    ranges = [(row, row + microbatch) for row in ranks.deal(range(first_row, last_row, microbatch))]
    stream = rows.stream(split.reader, ranges, device_model.device, split.collate)
    targets_of = split.targets.reshape(-1, grad_accum * microbatch).sum(axis=1).tolist()
    ended = time.perf_counter()
    for update in bar(updates, f"{config['condition']}_s{config['seed']}: training", len(updates)):
        started = time.perf_counter()
        batches, targets = (next(stream) for _ in range(grad_accum // ranks.count)), targets_of[update]
        before = scalars(device_model.model) if update < config.get("captures", 0) else None
        loss, digests = run_update(device_model, batches, targets, ranks)
        lr_scale = optimizer.step(update, updates.stop) if targets else None
        loss = loss.item()  # the only wait for the device in an update
        if not loss <= settings["loss_limit"]:
            raise Diverged(f"update {update}: loss {loss} is not finite or above the limit {settings['loss_limit']}")
        now = time.perf_counter()
        progress.advance(targets, digests, now - ended, now - started if update >= settings["timer_skip"] else 0.0)
        ended = now
        line = {"loss": loss if targets else None, "rate_scale": lr_scale, "targets": targets}
        after_update(line, capture(device_model.model, before) if before else None)
        if update == updates.start:
            gc.collect()
            gc.freeze()  # what lives on need not be searched again; on a GPU each search delays an update


# --------------------------------------------------------------------------------------------- main


def prepare_model(config, device):
    """Return the seeded model on `device` in the run's precision, and the digest of its first weights."""
    model = build_model(config["model"], config["vocabulary"], config["packing"]["context"])
    initialise(model, config["seed"])
    digest = weights_digest(model)
    if config["training"]["precision"] == "bfloat16":
        for part in (model.token_embedding, model.value_embeddings):
            part.bfloat16()
        model.cos, model.sin = model.cos.bfloat16(), model.sin.bfloat16()
    return model.to(device), digest


def run(config_path, device):
    """Train, score and write result.json; return its content. The run resumes from a checkpoint if there is one."""
    ranks = Ranks(device)
    directory = RunDirectory(config_path, device, ranks)
    config, settings = directory.config, directory.config["training"]
    torch.set_num_threads(settings["threads"])
    torch.use_deterministic_algorithms(device.type == "cpu")
    size = describe(config, config["vocabulary"])
    if device.type == "cpu":
        surroundings.require_memory(16 * size["parameters"], "model's weights, gradients and moments")
    model, initial_weights = prepare_model(config, device)
    device_model = DeviceModel(model, settings, device)
    optimizer = Optimizer(model, config["optimizer"], settings["precision"])
    loader = importlib.import_module("loader").LOADER
    training = rows.Split(directory.data, "train", loader, config, size["rows"], directory.edit)
    progress = directory.resume(model, optimizer)
    record = functools.partial(directory.record, model, optimizer, progress)
    train(config, device_model, optimizer, training, progress, ranks, record)
    directory.finish_writing()
    scoring = time.perf_counter()
    statistics, evaluation_plan = score_run(directory, device_model, ranks)
    seconds = {"timed": progress.timed_seconds, "loop": progress.loop_seconds,
               "score": time.perf_counter() - scoring, "run": directory.seconds()}
    digests = {"initial_weights": initial_weights, "weights": weights_digest(model),
               "evaluation_plan": plan_sha256(evaluation_plan)}
    result = result_of(directory, ranks, size, progress, training, statistics, seconds, digests)
    if directory.writes:
        directory.finish(model, statistics, result)
    ranks.close()
    return result


def print_size(path):
    """Print size and cost of a protocol as canonical JSON."""
    protocol = evidence.read_json(path)
    try:
        size = describe(protocol, protocol["tokenizer"]["vocabulary"])
    except (LookupError, TypeError, ValueError, RuntimeError, ArithmeticError) as error:
        raise InputError(f"{path}: not a whole protocol: {type(error).__name__} {error}") from None
    print(evidence.canonical_json(size).decode(), end="")


def main(argv=None):
    parser = evidence.parser(__doc__)
    parser.add_argument("config", type=Path, nargs="?", help="config.json of a run directory")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda" if torch.cuda.is_available() else "cpu",
                        help="where to train (default: a GPU if there is one)")
    parser.add_argument("--describe", type=Path, metavar="PROTOCOL", help="print a protocol's size and cost as JSON")
    options = parser.parse_args(argv)
    if options.describe:
        print_size(options.describe)
        return 0
    if not options.config:
        parser.error("a config.json or --describe PROTOCOL is needed")
    try:
        result = run(options.config, own_device(options.device))
    except Diverged as error:
        print(f"train.py: {options.config}: {error}", file=sys.stderr)
        return 1
    print_score(result, options.config.parent / "result.json")
    return 0


if __name__ == "__main__":
    sys.exit(evidence.run_script(main))
