"""Build right batches in the forms that people use, and plant faults in them."""

import numpy as np

from research.batch_boundaries.diagnosis import make_documents, targets_after
from research.batch_boundaries.planted_cells import lay_out, shifted
from research.batch_boundaries.planted_faults import FAULTS
from research.batch_boundaries.planted_forms import write
from research.batch_boundaries.read_batches import as_mapping
from research.batch_boundaries.verdicts import Declared


def documents_of(form):
    """Return the documents that the function of a form is handed, with the specials that it adds itself."""
    return make_documents(list(form.lengths), bos=form.bos, eos=form.eos, pad=form.pad, pad_in_text=False, first_id=10)


def declared_of(form):
    """Return what the user of a form declares to diagnose.py."""
    return Declared(**{"bos": form.bos, "eos": form.eos, "pad": form.pad} | form.declared)


def targets_of(form):
    """Return which tokens the user of a form declares to be targets, or None if the user says nothing."""
    return targets_after(list(form.prompts), documents_of(form)) if form.prompts else None


def build(form, fault=None, prompts=None):
    """Return the batch of a form, right or with the named fault; `prompts` replaces the form's own."""
    planted = FAULTS.get(fault)
    if fault == "the labels follow the other convention":
        form = form._replace(shift="width" if form.shift == "internal" else "internal")
    prompts = prompts or form.prompts or (1,) * len(form.lengths)
    rows = lay_out(form, documents_of(form), prompts, planted.order if planted else None)
    if planted and planted.change:
        rows = planted.change(rows)
    if form.shift in ("row", "width"):
        rows = shifted(rows, form.shift)
    return write(form, rows, fault)


def inapplicable(form, fault):
    """Return why a fault cannot be planted in a form, or None."""
    missing = sorted(FAULTS[fault].needs - form.features)
    if missing:
        return f"the form has no {', no '.join(missing)}"
    if same_arrays(build(form, fault), build(form)):
        return "the fault leaves the batch as it is"
    return None


def same_arrays(one, other):
    """Return whether two batches have the same keys and the same arrays under them."""
    one, other = (as_mapping(batch) for batch in (one, other))
    return one.keys() == other.keys() and all(np.array_equal(one[key], other[key]) for key in one)


def alternative(form, fault):
    """Return a right batch of another convention that the declared options do not exclude, or None.

    The one such convention is a prompt: if nobody says which tokens are prompts, a batch that masks one more token at
    the beginning of a document is right.
    """
    if fault == "the first target of a document is ignored" and not form.prompts:
        return build(form, prompts=(2, 1, 1))
    return None
