"""The checks themselves: each is a function (record, subject, way), named as what it checks."""

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


def alone_equals_packed(record, subject, way):
    """Logits and losses of every effective target, alone and packed; in float64 as well, where rounding is far off."""
    row, name, exact = packed(way, subject.documents), "alone_equals_packed", copy.deepcopy(subject.trained)
    exact.model.double()

    def difference(outputs):
        together = outputs(row)[0]
        return max(largest(together[span.start : span.stop - 1] - outputs(packed(way, [document]))[0])
                   for document, span in zip(subject.documents, spans(subject.documents)))

    record.at_most(name, "logits differ by", difference(lambda batch: logits(subject.trained, way, batch)))
    record.at_most(name, "losses differ by", difference(lambda batch: subject.trained.nats(*way.fed(batch))))
    rounding = difference(lambda batch: logits(exact, way, batch))
    record.expect(rounding <= ROUNDING, f"{name}: in float64 logits differ by: {rounding:.3g}, at most {ROUNDING:g}")
    bare = logits(subject.trained, without_segments(way), row) - logits(subject.trained, way, row)
    record.at_least(name, "without the mask logits differ by", largest(bare))


def others_unchanged(record, subject, way):
    """Replace every token of the first document: the others' logits keep their bits, its own do not."""
    changed, name = replaced_first(subject), "others_unchanged"
    before, after = (others_logits(subject.trained, way, documents) for documents in (subject.documents, changed))
    record.equal(name, "logits of other documents that changed", int(torch.count_nonzero(before != after)), 0)
    own = [logits(subject.trained, way, packed(way, documents))[0, 0] for documents in (subject.documents, changed)]
    record.at_least(name, "logits of the replaced document change by", largest(own[0] - own[1]))


def gradient_isolated(record, subject, way):
    """Gradient of the second document's loss towards every embedding looked up by the first, and by itself."""
    model, found = subject.trained.model, []

    def keep(module, arguments, output):
        output.retain_grad()
        found.append(output)

    hooks = [table.register_forward_hook(keep) for table in (model.token_embedding, *model.value_embeddings.values())]
    inputs, targets, *documents = way.fed(packed(way, subject.documents))
    first, second = spans(subject.documents)[:2]
    only = torch.full_like(targets, IGNORED)
    only[:, second.start : second.stop - 1] = targets[:, second.start : second.stop - 1]
    subject.trained.loss(inputs, only, *documents).backward()
    for hook in hooks:
        hook.remove()
    size = torch.cat([output.grad for output in found], dim=-1).abs()
    record.equal("gradient_isolated", "nonzero gradients towards the first document's embeddings",
                 int(torch.count_nonzero(size[:, first])), 0)
    record.at_least("gradient_isolated", "largest gradient towards its own", size[:, second].max().item())


def repeated_document(record, subject, way):
    """One document twice in a row: the second copy is no easier, with random weights and with trained ones."""
    copies = [subject.documents[0]] * 2
    one, two = (slice(span.start, span.stop - 1) for span in spans(copies))
    for state, forward in (("random", subject.random), ("trained", subject.trained)):
        nats = forward.nats(*way.fed(packed(way, copies)))[0]
        bare = forward.nats(*without_segments(way).fed(packed(way, copies)))[0]
        record.at_most("repeated_document", f"{state}: losses of the copies differ by", largest(nats[one] - nats[two]))
        record.at_least("repeated_document", f"{state}: without the mask by", largest(bare[one] - bare[two]))


def boundary_target_ignored(record, subject, way):
    """No document's first token is a target, all others are."""
    labels = packed(way, subject.documents).labels[0]
    firsts = [int(labels[span.start]) for span in spans(subject.documents)]
    record.equal("boundary_target_ignored", "labels of first tokens", firsts, [IGNORED] * len(firsts))
    record.equal("boundary_target_ignored", "effective targets", int((labels[1:] != IGNORED).sum()),
                 sum(len(document) - 1 for document in subject.documents))


def positions_restart(record, subject, way):
    """Every document counts from 0. (This model's rotary positions are relative: only this check can see it.)"""
    row = packed(way, subject.documents)
    wrong = sum(int((row.positions[0, span] != np.arange(span.stop - span.start)).sum())
                for span in spans(subject.documents))
    record.equal("positions_restart", "positions that are not the document's own", wrong, 0)
    running = way._replace(fed=lambda batch: way.fed(batch._replace(positions=np.arange(row.inputs.shape[1])[None])))
    record.at_most("positions_restart", "running on would change relative positions' logits by", largest(
        logits(subject.trained, running, row) - logits(subject.trained, way, row)), VISIBLE)


# ------------------------------------------------------------------------------ checks of a stream


def stream_targets(record, subject, way):
    """Every token of a continuous row but the first is a target, the next document's BOS as well."""
    labels = packed(way, subject.documents).labels[0]
    record.equal("stream_targets", "tokens that are no target", int((labels == IGNORED).sum()), 1)
    boundaries = [int(labels[span.start]) for span in spans(subject.documents)[1:]]
    record.equal("stream_targets", "labels of later first tokens", boundaries, [subject.bos] * len(boundaries))


def stream_context(record, subject, way):
    """Replace the first document: the later ones read it, on purpose."""
    before, after = (others_logits(subject.trained, way, documents)
                     for documents in (subject.documents, replaced_first(subject)))
    record.at_least("stream_context", "logits of other documents change by", largest(before - after))


# ---------------------------------------------------------------------------------- checks of both


def single_shift(record, subject, way):
    """Labels lie on their own inputs, and after the one shift every target is the input that follows."""
    row, name = packed(way, subject.documents), "single_shift"
    try:
        require_unshifted(row)
        found = "unshifted"
    except ValueError as error:
        found = str(error)
    record.equal(name, "labels as the batch has them", found, "unshifted")
    targets, following = way.fed(row)[1][0].numpy(), np.concatenate(subject.documents)[1:]
    wrong = (targets != IGNORED) & (targets != following)
    record.equal(name, "targets that are not the next token", int(wrong.sum()), 0)


def padding_finite(record, subject, way):
    """Padding at a row's end and a row of padding alone: all finite, and loss and gradients those without padding."""
    row, model, name = packed(way, subject.documents, spare=9), subject.trained.model, "padding_finite"
    nothing = (0, IGNORED, 0, PADDING)
    empty = Batch(*(np.vstack([array, np.full_like(array, value)]) for array, value in zip(row, nothing)))
    found = []
    for batch in (empty, packed(way, subject.documents)):
        model.zero_grad()
        loss = subject.trained.loss(*way.fed(batch))
        loss.backward()
        found.append((loss.item(), gradients(model)))
    values = [logits(subject.trained, way, empty), found[0][1], torch.tensor(found[0][0])]
    record.equal(name, "numbers that are not finite", sum(int((~value.isfinite()).sum()) for value in values), 0)
    (loss, gradient), (expected, expected_gradient) = found
    record.at_most(name, "relative difference of the loss", abs(loss - expected) / expected)
    record.at_most(name, "relative difference of gradients", relative(gradient, expected_gradient))


def pad_is_not_eos(record, subject, way):
    """With the end marker's id as padding, every real end marker stays a target and no padding becomes one."""
    documents = [subject.documents[0], subject.documents[1][: len(subject.documents[1]) // 2], subject.documents[2]]
    ended = [np.append(document[document != subject.eos], subject.eos) for document in documents]
    labels = way.pad(ended, pad=subject.eos).labels
    record.equal("pad_is_not_eos", "end markers that are targets", int((labels == subject.eos).sum()), len(ended))
    record.equal("pad_is_not_eos", "effective targets", int((labels[:, 1:] != IGNORED).sum()),
                 sum(len(document) - 1 for document in ended))


def targets_weighted_equally(record, subject, way):
    """An update of unequal microbatches, one of them without a target, is the update of all of them at once."""
    short, *rest = subject.documents
    forward, name = subject.trained, "targets_weighted_equally"
    parts = [[short[:3]], rest, [short[:1]]]
    microbatches = [pad_documents(part, pad=0, width=2 if part is parts[-1] else None) for part in parts]
    loss, gradient = way.update(forward, microbatches), gradients(forward.model)
    whole, whole_gradient = update(forward, [pad_documents(sum(parts, []), pad=0)]), gradients(forward.model)
    record.at_most(name, "loss differs from the undivided batch by", abs(loss - whole))
    record.at_most(name, "relative difference of gradients", relative(gradient, whole_gradient))
    means = [forward.nats(*fed(batch)).sum().item() / effective_targets(batch) for batch in microbatches[:2]]
    record.at_least(name, "a mean of means would differ by", abs(sum(means) / 2 - whole))


def batch_size_invariant(record, subject, way):
    """Nats and targets of each document do not depend on its batch, and a real 0 counts when padding is 0."""
    documents = [np.array([4, 0, 7]), np.array([9, 8, 7, 6, 5, 4]), *subject.documents]
    targets, nats = {}, {}
    for size in (1, 2, len(documents)):
        for order in (sorted(range(len(documents)), key=lambda d: len(documents[d])), range(len(documents))[::-1]):
            for part in (order[i : i + size] for i in range(0, len(order), size)):
                inputs, wanted, *rest = fed(way.pad([documents[d] for d in part], pad=0))
                for d, row, line in zip(part, wanted, subject.trained.nats(inputs, wanted, *rest).double().sum(1)):
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
