"""Language models of transformers: decoders, encoders, both, mixtures of experts, state spaces; and `generate()`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .entry import Built, Entry, tokens

#: How most configs name their sizes.
SIZES: dict[str, Any] = {
    "vocab_size": 96, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
    "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}
GROUPED = {"num_key_value_heads": 2}
#: How those of the first years name them.
GPT = {"vocab_size": 96, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64, "bos_token_id": 1,
       "eos_token_id": 2}
#: Encoder-decoders.
SEQ2SEQ = {
    "vocab_size": 96, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "max_position_embeddings": 64,
    "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2, "forced_eos_token_id": None,
}
T5 = {"vocab_size": 96, "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4, "pad_token_id": 0,
      "eos_token_id": 1, "decoder_start_token_id": 0}
MAMBA = {"vocab_size": 96, "hidden_size": 32, "num_hidden_layers": 2, "state_size": 8, "pad_token_id": 0,
         "bos_token_id": 1, "eos_token_id": 2}


def make(config: str, model: str, **sizes: Any) -> torch.nn.Module:
    import transformers  # a child process imports what its model needs and no more

    return getattr(transformers, model)(getattr(transformers, config)(**sizes))


def entry(name: str, config: str, model: str, inputs: Callable[[], dict[str, Any]], **sizes: Any) -> Entry:
    return Entry(f"transformers/{name}", "transformers", lambda: Built(make(config, model, **sizes), inputs()))


def labelled() -> dict[str, Any]:
    """Ids, a mask with padding, and labels for the loss."""
    ids = tokens()
    mask = torch.ones_like(ids)
    mask[1, -3:] = 0
    return {"input_ids": ids, "attention_mask": mask, "labels": ids.clone()}


def unpadded() -> dict[str, Any]:
    ids = tokens()
    return {"input_ids": ids, "labels": ids.clone()}


def classified() -> dict[str, Any]:
    return {**labelled(), "labels": torch.tensor([0, 1])}


def masked() -> dict[str, Any]:
    inputs = labelled()
    del inputs["labels"]
    return inputs


def causal(name: str, **sizes: Any) -> Entry:
    """A decoder, under the name that transformers gives its classes."""
    return entry(name.lower(), f"{name}Config", f"{name}ForCausalLM", labelled, **sizes)


def decoders() -> list[Entry]:
    mqa = {**SIZES, **GROUPED}
    return [
        causal("Llama", **mqa, attention_dropout=0.1),
        causal("Mistral", **mqa, sliding_window=6),
        causal("Qwen2", **mqa),
        causal("Qwen3", **mqa, head_dim=8),
        causal("Gemma2", **mqa, head_dim=8, sliding_window=6),
        causal("Phi3", **mqa),
        causal("Cohere", **mqa),
        causal("Falcon", vocab_size=96, hidden_size=32, num_hidden_layers=2, num_attention_heads=4),
        causal("GPTNeoX", **SIZES),
        entry("gpt2", "GPT2Config", "GPT2LMHeadModel", labelled, **GPT),
        entry("gptj", "GPTJConfig", "GPTJForCausalLM", labelled, **GPT, rotary_dim=4),
        causal("Bloom", vocab_size=96, hidden_size=32, n_layer=2, n_head=4),
        causal("OPT", vocab_size=96, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, ffn_dim=64,
               max_position_embeddings=64, word_embed_proj_dim=32, layerdrop=0.5),
    ]


def experts() -> list[Entry]:
    moe = {**SIZES, **GROUPED, "num_experts_per_tok": 2}
    return [
        causal("Mixtral", **moe, num_local_experts=4, output_router_logits=True),
        causal("Qwen3Moe", **moe, head_dim=8, num_experts=4, moe_intermediate_size=16),
        causal("Olmoe", **moe, num_experts=4),
        causal("GptOss", **moe, head_dim=8, num_local_experts=4, sliding_window=6),
        causal("DeepseekV3", **SIZES, num_key_value_heads=4, n_routed_experts=4, num_experts_per_tok=2, n_group=1,
               topk_group=1, moe_intermediate_size=16, q_lora_rank=8, kv_lora_rank=8, qk_rope_head_dim=4,
               qk_nope_head_dim=8, v_head_dim=8, first_k_dense_replace=1),
        entry("switch_transformers", "SwitchTransformersConfig", "SwitchTransformersForConditionalGeneration", labelled,
              **T5, num_sparse_encoder_layers=1, num_sparse_decoder_layers=1, num_experts=4, num_decoder_layers=2),
    ]


def state_spaces() -> list[Entry]:
    return [
        entry("mamba", "MambaConfig", "MambaForCausalLM", unpadded, **MAMBA),
        entry("mamba2", "Mamba2Config", "Mamba2ForCausalLM", unpadded, **MAMBA, num_heads=8, head_dim=8, n_groups=1,
              chunk_size=4),
        causal("Jamba", **SIZES, **GROUPED, attn_layer_offset=1, attn_layer_period=2, expert_layer_offset=1,
               expert_layer_period=2, num_experts=2, num_experts_per_tok=1, mamba_d_state=8, mamba_dt_rank=4,
               use_mamba_kernels=False),
        causal("RecurrentGemma", **SIZES, num_key_value_heads=1, lru_width=32, attention_window_size=8,
               block_types=["recurrent", "attention"]),
    ]


def encoders() -> list[Entry]:
    return [
        entry("bert", "BertConfig", "BertForMaskedLM", labelled, **SIZES),
        entry("roberta", "RobertaConfig", "RobertaForSequenceClassification", classified, **SIZES),
        entry("distilbert", "DistilBertConfig", "DistilBertForSequenceClassification", classified, vocab_size=96,
              dim=32, hidden_dim=64, n_layers=2, n_heads=4, max_position_embeddings=64),
        entry("albert", "AlbertConfig", "AlbertForMaskedLM", labelled, **SIZES, embedding_size=16),
        entry("electra", "ElectraConfig", "ElectraModel", masked, **SIZES, embedding_size=16),
        entry("deberta_v2", "DebertaV2Config", "DebertaV2ForMaskedLM", labelled, **SIZES, relative_attention=True,
              pos_att_type=["p2c", "c2p"], position_buckets=8),
        entry("modernbert", "ModernBertConfig", "ModernBertForMaskedLM", labelled, **SIZES, local_attention=8),
        entry("mpnet", "MPNetConfig", "MPNetForMaskedLM", labelled, **SIZES),
        entry("xlnet", "XLNetConfig", "XLNetLMHeadModel", labelled, vocab_size=96, d_model=32, n_layer=2, n_head=4,
              d_inner=64),
        entry("longformer", "LongformerConfig", "LongformerForMaskedLM", labelled, **SIZES, attention_window=4),
        entry("fnet", "FNetConfig", "FNetForMaskedLM", unpadded, **SIZES),
    ]


def encoder_decoders() -> list[Entry]:
    return [
        entry("t5", "T5Config", "T5ForConditionalGeneration", labelled, **T5),
        entry("bart", "BartConfig", "BartForConditionalGeneration", labelled, **SEQ2SEQ),
        entry("marian", "MarianConfig", "MarianMTModel", labelled, **SEQ2SEQ),
        entry("m2m_100", "M2M100Config", "M2M100ForConditionalGeneration", labelled, **SEQ2SEQ),
        entry("led", "LEDConfig", "LEDForConditionalGeneration", labelled,
              **{k: v for k, v in SEQ2SEQ.items() if k != "max_position_embeddings"}, attention_window=4,
              max_encoder_position_embeddings=64, max_decoder_position_embeddings=64),
    ]


def generating(name: str, config: str, model: str, sizes: dict[str, Any], **how: Any) -> Entry:
    """The model is compiled, and `generate()` calls it for each token."""

    def generate(built: torch.nn.Module, inputs: dict[str, Any]) -> Any:
        generator: Any = built
        return generator.generate(**inputs, do_sample=False, max_new_tokens=12, min_new_tokens=12, **how)

    def build() -> Built:
        return Built(make(config, model, **sizes), {"input_ids": tokens(length=5)}, call=generate)

    return Entry(f"transformers/{name}", "transformers", build, trains=False)


def generators() -> list[Entry]:
    llama = {**SIZES, **GROUPED}
    return [
        generating("generate_llama_static", "LlamaConfig", "LlamaForCausalLM", llama, cache_implementation="static"),
        generating("generate_llama_dynamic", "LlamaConfig", "LlamaForCausalLM", llama),
        generating("generate_t5", "T5Config", "T5ForConditionalGeneration", T5),
    ]


def entries() -> list[Entry]:
    return [*decoders(), *experts(), *state_spaces(), *encoders(), *encoder_decoders(), *generators()]


