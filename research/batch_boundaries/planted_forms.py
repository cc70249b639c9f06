"""The forms in which libraries return batches: layout, convention, key names, and what a user would declare.

The names and conventions are facts about transformers, TRL, Axolotl, LLaMA-Factory, Megatron-LM, NeMo, MaxText, T5X,
torchtitan, torchtune, llm-foundry, nanoGPT and nanochat. The batches are written here from those facts.
"""

from typing import NamedTuple

import numpy as np


class Form(NamedTuple):
    """One form of a right batch.

    layout: "padded", "left" (padded at the left), "packed" in one row, "rows" (packed in two) or "spaced" (packed, with
    padding after each document). shift: "internal", or external "row" (the last input goes), "width" (it stays) or
    "document" (each document by itself). keys: what `write` puts under which name. declared: options of diagnose.py.
    prompts: declared prompt tokens of each document, or None. spare: padding at the end of each row. restarts: whether
    the positions of a continuous stream restart. lengths: tokens of each document.
    """

    layout: str
    shift: str
    keys: dict
    declared: dict
    prompts: tuple | None = None
    bos: int | None = 1
    eos: int | None = 2
    pad: int | None = 0
    spare: int = 0
    restarts: bool = False
    lengths: tuple = (4, 3, 7)

    @property
    def features(self):
        """Return the parts that this form has and that a fault may need."""
        continuous = self.declared.get("semantics") == "continuous"
        several = self.layout in ("packed", "rows", "spaced")
        found = {
            "independent": several and not continuous,
            "boundary": self.layout in ("packed", "rows") and self.shift != "document" and not continuous,
            "padding": self.layout in ("padded", "left", "rows", "spaced") or self.spare > 0,
            "positions": "positions" in self.keys and self.declared.get("position_ids") != "relative",
            "isolation": bool({"numbers", "ends", "sizes", "relation"} & set(self.keys)),
            "unnamed": self.declared.get("isolation") == "batch",
            "mask": "mask" in self.keys,
            "longest": "longest" in self.keys,
            "heads": self.keys.get("heads", 1) > 1,
            "prompts": self.prompts is not None and max(self.prompts) > 1,
            "first": self.prompts is None or max(self.prompts) == 1,
            "rows": not {"ends", "sizes"} & set(self.keys),
        }
        return frozenset(name for name, has in found.items() if has)


# ------------------------------------------------------------------------------------------ writing


def write(form, rows, fault):
    """Return rows of cells as the batch of a form; some faults are planted here, by their name."""
    keys = form.keys
    ids, labels, counts, positions, numbers, real = (
        np.array([[getattr(cell, name) for cell in row] for row in rows])
        for name in ("id", "label", "counts", "position", "number", "real"))
    batch = {keys.get("ids", "input_ids"): ids}
    ignore = keys.get("ignore", -100)
    batch[keys.get("labels", "labels")] = labels if ignore is None else np.where(counts, labels, ignore)
    if "loss" in keys:
        batch[keys["loss"]] = counts.astype(float)
    if "positions" in keys:
        batch[keys["positions"]] = np.arange(ids.shape[1])[None] + 0 * ids if form.declared.get(
            "position_ids") == "relative" else positions
    if "mask" in keys:
        batch[keys["mask"]] = real.astype(int)
    if "longest" in keys:
        longest = max(np.bincount(row[row >= 0]).max() for row in numbers)
        batch[keys["longest"]] = int(longest) - (fault == "the longest length is too short")
    if fault != "the key that isolates documents is left out":
        batch |= isolation(keys, numbers, fault)
    if keys.get("pair") == "nested":
        label = keys.get("labels", "labels")
        return {key: value for key, value in batch.items() if key != label}, batch[label]
    return tuple(batch.values()) if keys.get("pair") else batch


def isolation(keys, numbers, fault):
    """Return the keys that tell the documents of a row apart. numbers: int (rows, width), -1 for padding."""
    found = {}
    if "numbers" in keys:
        key, first, pad = keys["numbers"]
        found[key] = np.where(numbers >= 0, numbers + first, pad)
    flat = np.concatenate([row if keys.get("ends_of") != "real" else row[row >= 0] for row in numbers])
    ends = [0, *(np.flatnonzero(np.diff(flat) != 0) + 1), len(flat)]
    padded = keys.get("ends_of") == "without padding" and numbers[-1][-1] < 0
    ends = np.array(ends[:-1] if padded else ends)
    if "ends" in keys:
        for key in keys["ends"]:
            found[key] = np.append(ends, [-1] * keys.get("fill", 0))
    if "sizes" in keys:
        found[keys["sizes"]] = np.diff(ends)
    if "unpadded" in keys:  # Each document is followed by two tokens of padding, which its padded sequence includes.
        documents, starts = np.unique(flat, return_index=True)
        found[keys["ends"][0]] = np.append(starts[documents >= 0], len(flat))
        found[keys["unpadded"]] = np.append(0, np.cumsum(np.bincount(flat[flat >= 0])))
    if "relation" in keys:
        found["attention_mask"] = relation(keys, numbers, fault)
    return found


def relation(keys, numbers, fault):
    """Return an attention mask (rows, heads, width, width) in the form that keys["relation"] names."""
    reads = np.tri(numbers.shape[1], dtype=bool) & (numbers[:, :, None] == numbers[:, None, :])
    reads = np.repeat(reads[:, None], keys.get("heads", 1), axis=1)
    if fault == "one head reads only itself":
        reads[:, 0] &= np.eye(numbers.shape[1], dtype=bool)
    if keys["relation"] == "additive":
        return np.where(reads, 0.0, -3.3895e38)
    return ~reads if keys["relation"] == "True is masked" else reads


# -------------------------------------------------------------------------------------------- forms

INTERNAL, EXTERNAL = {"convention": "internal"}, {"convention": "external"}
BATCH, MODEL, STREAM = {"isolation": "batch"}, {"isolation": "model"}, {"semantics": "continuous"}
PROMPTS = (2, 2, 3)
PAIR = {"ids": "inputs", "labels": "targets", "pair": True}
MEGATRON = {"ids": "tokens", "ignore": None, "loss": "loss_mask", "positions": "position_ids"}
NEMO = MEGATRON | {"ends": ("cu_seqlens",), "longest": "max_seqlen", "fill": 2}
TITAN = {"ids": "input", "positions": "positions", "pair": "nested"}
MAXTEXT = {"ids": "inputs", "labels": "targets", "ignore": None, "loss": "targets_segmentation",
           "positions": "inputs_position", "numbers": ("inputs_segmentation", 1, 0)}
T5X = {"ids": "decoder_input_tokens", "labels": "decoder_target_tokens", "ignore": None, "loss": "decoder_loss_weights",
       "positions": "decoder_positions", "numbers": ("decoder_segment_ids", 1, 0)}
FLASH = {"positions": "position_ids", "ends": ("cu_seq_lens_q", "cu_seq_lens_k"), "longest": "max_length_q"}
MULTIPACK = {"positions": "position_ids", "numbers": ("attention_mask", 1, 0)}

FORMS = {
    "transformers, padded": Form("padded", "internal", {"mask": "attention_mask"}, INTERNAL),
    "transformers, padded, pad is EOS": Form("padded", "internal", {"mask": "attention_mask"}, INTERNAL, pad=2),
    "transformers, padded left": Form(
        "left", "internal", {"mask": "attention_mask", "positions": "position_ids"}, INTERNAL),
    "transformers, padded, with prompts": Form("padded", "internal", {"mask": "attention_mask"}, INTERNAL, PROMPTS),
    "transformers, flattened, sequence ends": Form("packed", "internal", FLASH, INTERNAL | BATCH),
    "transformers, flattened, seq_idx": Form(
        "packed", "internal", {"positions": "position_ids", "numbers": ("seq_idx", 0, -1)}, INTERNAL | BATCH),
    "transformers, padded, ends of unpadded tokens": Form(
        "padded", "internal", {"mask": "attention_mask", "ends": ("cu_seqlens",), "ends_of": "real"}, INTERNAL),
    "additive 4-D mask": Form(
        "packed", "internal", {"positions": "position_ids", "relation": "additive"}, INTERNAL | BATCH, spare=2),
    "boolean 4-D mask of two heads": Form(
        "packed", "internal", {"positions": "position_ids", "relation": "True reads", "heads": 2}, INTERNAL | BATCH),
    "TRL, padding-free": Form("packed", "internal", {"positions": "position_ids"}, INTERNAL | MODEL),
    "TRL, padding-free, with prompts": Form(
        "packed", "internal", {"positions": "position_ids"}, INTERNAL | MODEL, PROMPTS),
    "Axolotl, multipack": Form("packed", "internal", MULTIPACK, INTERNAL | BATCH, PROMPTS, spare=2),
    "LLaMA-Factory, neat packing": Form("rows", "internal", MULTIPACK, INTERNAL | BATCH, (1, 1, 1)),
    "llm-foundry, sequence_id": Form(
        "packed", "internal", {"mask": "attention_mask", "numbers": ("sequence_id", 0, -1)}, INTERNAL | BATCH, spare=3),
    "torchtune, packed": Form(
        "packed", "internal", {"ids": "tokens", "positions": "input_pos", "sizes": "seq_lens"}, INTERNAL | BATCH,
        PROMPTS, spare=2),
    "two rows, numbered from 0": Form(
        "rows", "internal", {"positions": "position_ids", "numbers": ("segment_ids", 0, -1)}, INTERNAL | BATCH),
    "padded, each document shifted": Form("padded", "document", PAIR, EXTERNAL),
    "padded, ignored id is the padding's": Form(
        "padded", "width", PAIR | {"ignore": 0}, EXTERNAL | {"ignore": (0,)}),
    "packed, each document shifted": Form(
        "packed", "document", {"ignore": -1, "numbers": ("segment_ids", 0, -1)}, EXTERNAL | BATCH, spare=2),
    "packed, row shifted, numbered from 1": Form(
        "packed", "width", {"numbers": ("segment_ids", 1, 0), "positions": "position_ids"}, EXTERNAL | BATCH, spare=2),
    "nanoGPT and nanochat, stream": Form("packed", "row", PAIR, EXTERNAL | STREAM),
    "nanochat, conversations": Form("padded", "document", PAIR | {"ignore": -1}, EXTERNAL, PROMPTS, pad=2),
    "Megatron-LM, documents reset": Form(
        "packed", "row", MEGATRON | {"relation": "True is masked"}, EXTERNAL | BATCH, bos=None),
    "Megatron-LM, positions run on": Form(
        "packed", "row", MEGATRON | {"relation": "True is masked"},
        EXTERNAL | BATCH | {"position_ids": "relative"}, bos=None),
    "NeMo, padding as a sequence": Form("packed", "row", NEMO, EXTERNAL | BATCH, PROMPTS, spare=3),
    "NeMo, padding in no sequence": Form(
        "packed", "document", NEMO | {"ends_of": "without padding"}, EXTERNAL | BATCH, PROMPTS, spare=3),
    "NeMo, padding after each document": Form(
        "spaced", "width", NEMO | {"unpadded": "cu_seqlens_unpadded", "fill": 0}, EXTERNAL | BATCH),
    "MaxText, packed": Form("packed", "width", MAXTEXT, EXTERNAL | BATCH, spare=2),
    "T5X, packed": Form("packed", "document", T5X, EXTERNAL | BATCH, spare=2),
    "own key names": Form(
        "packed", "internal", {"ids": "x", "labels": "y", "positions": "p", "numbers": ("doc", 1, 0)},
        INTERNAL | BATCH | {"read_as": {"x": "inputs", "y": "labels", "p": "positions", "doc": "segments"}}, spare=2),
    "torchtitan, stream": Form("packed", "row", TITAN, EXTERNAL | STREAM, restarts=True),
    "torchtitan, conversations": Form("packed", "document", TITAN, EXTERNAL | MODEL, PROMPTS, spare=2),
}
