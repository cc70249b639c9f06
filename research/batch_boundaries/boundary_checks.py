"""The boundary checks: each is a function (record, probe, pipeline) that is named after what it checks."""

import copy

import numpy as np
import torch

from loaders.batches import IGNORED, PADDING, Batch
from research.batch_boundaries.boundary_probe import (
    ROUNDING,
    VISIBLE,
    fed,
    gradients,
    largest,
    logits,
    others_logits,
    packed,
    relative,
    replaced_first,
    spans,
    update,
    without_segments,
)
from research.batch_boundaries.layouts import effective_targets, pad_documents, require_unshifted

# ----------------------------------------------------------------- checks of independent documents


def alone_equals_packed(record, probe, pipeline):
    """Compare logits and losses of every effective target alone and packed, in float64 as well."""
    row, name, exact = packed(pipeline, probe.documents), "alone_equals_packed", copy.deepcopy(probe.trained)
    exact.model.double()

    def difference(outputs):
        together = outputs(row)[0]
        return max(largest(together[span.start : span.stop - 1] - outputs(packed(pipeline, [document]))[0])
                   for document, span in zip(probe.documents, spans(probe.documents)))

    record.at_most(name, "logits differ by", difference(lambda batch: logits(probe.trained, pipeline, batch)))
    record.at_most(name, "losses differ by", difference(lambda batch: probe.trained.nats(*pipeline.fed(batch))))
    rounding = difference(lambda batch: logits(exact, pipeline, batch))
    record.expect(rounding <= ROUNDING, f"{name}: in float64 logits differ by: {rounding:.3g}, at most {ROUNDING:g}")
    bare = logits(probe.trained, without_segments(pipeline), row) - logits(probe.trained, pipeline, row)
    record.at_least(name, "without the mask logits differ by", largest(bare))


def others_unchanged(record, probe, pipeline):
    """Replace every token of the first document: the others' logits must not change in one bit."""
    changed, name = replaced_first(probe), "others_unchanged"
    before, after = (others_logits(probe.trained, pipeline, documents)
                     for documents in (probe.documents, changed))
    record.equal(name, "logits of other documents that changed", int(torch.count_nonzero(before != after)), 0)
    own = [logits(probe.trained, pipeline, packed(pipeline, documents))[0, 0]
           for documents in (probe.documents, changed)]
    record.at_least(name, "logits of the replaced document change by", largest(own[0] - own[1]))


def gradient_isolated(record, probe, pipeline):
    """Take the gradient of the second document's loss towards the embeddings of the first document and its own."""
    model, found = probe.trained.model, []

    def keep(module, arguments, output):
        output.retain_grad()
        found.append(output)

    hooks = [table.register_forward_hook(keep) for table in (model.token_embedding, *model.value_embeddings.values())]
    inputs, targets, *documents = pipeline.fed(packed(pipeline, probe.documents))
    first, second = spans(probe.documents)[:2]
    only = torch.full_like(targets, IGNORED)
    only[:, second.start : second.stop - 1] = targets[:, second.start : second.stop - 1]
    probe.trained.loss(inputs, only, *documents).backward()
    for hook in hooks:
        hook.remove()
    size = torch.cat([output.grad for output in found], dim=-1).abs()
    record.equal("gradient_isolated", "nonzero gradients towards the first document's embeddings",
                 int(torch.count_nonzero(size[:, first])), 0)
    record.at_least("gradient_isolated", "largest gradient towards its own", size[:, second].max().item())


def repeated_document(record, probe, pipeline):
    """Put one document into a row twice: the second copy must not be easier, with random or trained weights."""
    copies = [probe.documents[0]] * 2
    one, two = (slice(span.start, span.stop - 1) for span in spans(copies))
    for state, forward in (("random", probe.random), ("trained", probe.trained)):
        nats = forward.nats(*pipeline.fed(packed(pipeline, copies)))[0]
        bare = forward.nats(*without_segments(pipeline).fed(packed(pipeline, copies)))[0]
        record.at_most("repeated_document", f"{state}: losses of the copies differ by", largest(nats[one] - nats[two]))
        record.at_least("repeated_document", f"{state}: without the mask by", largest(bare[one] - bare[two]))


def boundary_target_ignored(record, probe, pipeline):
    """The first token of a document must not be a target, and all others must be."""
    labels = packed(pipeline, probe.documents).labels[0]
    firsts = [int(labels[span.start]) for span in spans(probe.documents)]
    record.equal("boundary_target_ignored", "labels of first tokens", firsts, [IGNORED] * len(firsts))
    record.equal("boundary_target_ignored", "effective targets", int((labels[1:] != IGNORED).sum()),
                 sum(len(document) - 1 for document in probe.documents))


def positions_restart(record, probe, pipeline):
    """Every document must count from 0. Only this check can tell, because rotary positions are relative."""
    row = packed(pipeline, probe.documents)
    wrong = sum(int((row.positions[0, span] != np.arange(span.stop - span.start)).sum())
                for span in spans(probe.documents))
    record.equal("positions_restart", "positions that are not the document's own", wrong, 0)
    running_on = np.arange(row.inputs.shape[1])[None]
    running = pipeline._replace(fed=lambda batch: pipeline.fed(batch._replace(positions=running_on)))
    record.at_most("positions_restart", "running on would change relative positions' logits by", largest(
        logits(probe.trained, running, row) - logits(probe.trained, pipeline, row)), VISIBLE)


# ------------------------------------------------------------------------------ checks of a stream


def stream_targets(record, probe, pipeline):
    """Every token of a continuous row but the first must be a target, including the next document's BOS."""
    labels = packed(pipeline, probe.documents).labels[0]
    record.equal("stream_targets", "tokens that are no target", int((labels == IGNORED).sum()), 1)
    boundaries = [int(labels[span.start]) for span in spans(probe.documents)[1:]]
    record.equal("stream_targets", "labels of later first tokens", boundaries, [probe.bos] * len(boundaries))


def stream_context(record, probe, pipeline):
    """Replace the first document: the later ones must change, because they read it on purpose."""
    before, after = (others_logits(probe.trained, pipeline, documents)
                     for documents in (probe.documents, replaced_first(probe)))
    record.at_least("stream_context", "logits of other documents change by", largest(before - after))


# ---------------------------------------------------------------------------------- checks of both


def single_shift(record, probe, pipeline):
    """Labels must equal their own inputs, and after the one shift every target must be the next input."""
    row, name = packed(pipeline, probe.documents), "single_shift"
    try:
        require_unshifted(row)
        found = "unshifted"
    except ValueError as error:
        found = str(error)
    record.equal(name, "labels as the batch has them", found, "unshifted")
    targets, following = pipeline.fed(row)[1][0].numpy(), np.concatenate(probe.documents)[1:]
    wrong = (targets != IGNORED) & (targets != following)
    record.equal(name, "targets that are not the next token", int(wrong.sum()), 0)


def padding_finite(record, probe, pipeline):
    """Padding at the end of a row and a row of padding must leave all numbers finite, and change neither loss nor
    gradients."""
    row, model, name = packed(pipeline, probe.documents, spare=9), probe.trained.model, "padding_finite"
    nothing = (0, IGNORED, 0, PADDING)
    empty = Batch(*(np.vstack([array, np.full_like(array, value)]) for array, value in zip(row, nothing)))
    found = []
    for batch in (empty, packed(pipeline, probe.documents)):
        model.zero_grad()
        loss = probe.trained.loss(*pipeline.fed(batch))
        loss.backward()
        found.append((loss.item(), gradients(model)))
    values = [logits(probe.trained, pipeline, empty), found[0][1], torch.tensor(found[0][0])]
    record.equal(name, "numbers that are not finite", sum(int((~value.isfinite()).sum()) for value in values), 0)
    (loss, gradient), (expected, expected_gradient) = found
    record.at_most(name, "relative difference of the loss", abs(loss - expected) / expected)
    record.at_most(name, "relative difference of gradients", relative(gradient, expected_gradient))


def pad_is_not_eos(record, probe, pipeline):
    """If padding has the id of the end marker, every real end marker must stay a target and no padding become one."""
    documents = [probe.documents[0], probe.documents[1][: len(probe.documents[1]) // 2], probe.documents[2]]
    ended = [np.append(document[document != probe.eos], probe.eos) for document in documents]
    labels = pipeline.pad(ended, pad=probe.eos).labels
    record.equal("pad_is_not_eos", "end markers that are targets", int((labels == probe.eos).sum()), len(ended))
    record.equal("pad_is_not_eos", "effective targets", int((labels[:, 1:] != IGNORED).sum()),
                 sum(len(document) - 1 for document in ended))


def targets_weighted_equally(record, probe, pipeline):
    """An update of unequal microbatches, one without a target, must equal the update of all of them at once."""
    short, *rest = probe.documents
    forward, name = probe.trained, "targets_weighted_equally"
    parts = [[short[:3]], rest, [short[:1]]]
    microbatches = [pad_documents(part, pad=0, width=2 if part is parts[-1] else None) for part in parts]
    loss, gradient = pipeline.update(forward, microbatches), gradients(forward.model)
    whole, whole_gradient = update(forward, [pad_documents(sum(parts, []), pad=0)]), gradients(forward.model)
    record.at_most(name, "loss differs from the undivided batch by", abs(loss - whole))
    record.at_most(name, "relative difference of gradients", relative(gradient, whole_gradient))
    means = [forward.nats(*fed(batch)).sum().item() / effective_targets(batch) for batch in microbatches[:2]]
    record.at_least(name, "a mean of means would differ by", abs(sum(means) / 2 - whole))


def batch_size_invariant(record, probe, pipeline):
    """Nats and targets of a document must not depend on its batch, and a real 0 must count if padding is 0."""
    documents = [np.array([4, 0, 7]), np.array([9, 8, 7, 6, 5, 4]), *probe.documents]
    targets, nats = {}, {}
    for size in (1, 2, len(documents)):
        for order in (sorted(range(len(documents)), key=lambda d: len(documents[d])), range(len(documents))[::-1]):
            for part in (order[i : i + size] for i in range(0, len(order), size)):
                inputs, wanted, *rest = fed(pipeline.pad([documents[d] for d in part], pad=0))
                for d, row, line in zip(part, wanted, probe.trained.nats(inputs, wanted, *rest).double().sum(1)):
                    targets.setdefault(d, set()).add(int((row != IGNORED).sum()))
                    nats.setdefault(d, []).append(line.item())
    counts = [sorted(targets[d]) for d in range(len(documents))]
    record.equal("batch_size_invariant", "targets of each document", counts, [[len(d) - 1] for d in documents])
    record.at_most("batch_size_invariant", "relative difference of a document's nats",
                   max((max(values) - min(values)) / max(values) for values in nats.values()))


INDEPENDENCE = (alone_equals_packed, others_unchanged, gradient_isolated, repeated_document, boundary_target_ignored,
                positions_restart)
COMMON = (single_shift, padding_finite, pad_is_not_eos, targets_weighted_equally, batch_size_invariant)
STREAMS = (stream_targets, stream_context)
