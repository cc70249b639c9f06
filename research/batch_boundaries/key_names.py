"""The names under which tools put things into a batch, and what each name means.

The names are those of transformers, TRL, Axolotl, LLaMA-Factory, Megatron-LM, NeMo, MaxText, T5X, torchtitan,
torchtune, llm-foundry, OLMo-core and nanochat.
"""

KEYS = {
    "inputs": ("input_ids", "inputs", "input", "tokens", "decoder_input_tokens"),
    "labels": ("labels", "targets", "label", "target", "decoder_target_tokens"),
    "loss": ("loss_mask", "loss_weights", "label_mask", "target_mask", "targets_segmentation", "decoder_loss_weights",
             "decoder_target_mask"),
    "mask": ("attention_mask", "mask"),
    "positions": ("position_ids", "positions", "inputs_position", "input_pos", "decoder_positions"),
    "segments": ("segment_ids", "seq_idx", "sequence_id", "sequence_ids", "document_ids", "doc_ids"),
    "segments_from_1": ("inputs_segmentation", "decoder_segment_ids"),
    "lengths": ("seq_lens", "seq_lengths", "sequence_lengths", "doc_lens"),
    "cumulative": ("cu_seq_lens", "cu_seq_lens_q", "cu_seq_lens_k", "cu_seqlens", "cu_seqlens_q", "cu_seqlens_k",
                   "cu_seqlens_kv", "cu_seqlens_padded", "cu_seqlens_q_padded", "cu_seqlens_kv_padded",
                   "cu_seqlens_unpadded"),
    "longest": ("max_length_q", "max_length_k", "max_seqlen", "max_seqlen_q", "max_seqlen_k", "max_seqlen_kv",
                "max_doc_lens"),
    "nothing": ("token_type_ids", "special_tokens_mask", "targets_position", "cu_seqlens_argmin",
                "cu_seqlens_unpadded_argmin", "num_items_in_batch", "return_loss"),
}
KINDS = {key: kind for kind, keys in KEYS.items() for key in keys}

# Of these kinds a model uses one key; a second one with other content leaves open which.
SINGLE = ("inputs", "labels", "positions")
