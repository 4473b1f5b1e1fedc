"""Models of transformers that see and hear, and some that read as well."""

from __future__ import annotations

from typing import Any

import torch

from .entry import Entry, image, tokens
from .transformers_text import GROUPED, SEQ2SEQ, SIZES, entry

#: Of the transformers among them.
VISION: dict[str, Any] = {
    "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "image_size": 32,
    "patch_size": 8,
}
TEXT = {**SIZES, "projection_dim": 16}
#: Two convolutions in place of seven.
WAVES: dict[str, Any] = {
    "vocab_size": 32, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
    "conv_dim": (16, 16), "conv_kernel": (10, 3), "conv_stride": (5, 2), "num_feat_extract_layers": 2,
    "num_conv_pos_embeddings": 8, "num_conv_pos_embedding_groups": 2, "mask_time_length": 2, "mask_time_prob": 0.0,
    "ctc_loss_reduction": "mean",
}


def labelled_image() -> dict[str, Any]:
    return {"pixel_values": image(32), "labels": torch.tensor([0, 1])}


def only_image() -> dict[str, Any]:
    return {"pixel_values": image(32)}


def image_and_text() -> dict[str, Any]:
    return {"pixel_values": image(32), "input_ids": tokens(), "return_loss": True}


def video() -> dict[str, Any]:
    return {"pixel_values": torch.randn(1, 4, 3, 32, 32), "labels": torch.tensor([1])}


def waveform() -> dict[str, Any]:
    return {"input_values": torch.randn(2, 400), "labels": torch.randint(1, 30, (2, 5))}


def spectrogram() -> dict[str, Any]:
    return {"input_values": torch.randn(2, 32, 16), "labels": torch.tensor([0, 1])}


def speech_to_text() -> dict[str, Any]:
    return {"input_features": torch.randn(2, 16, 24), "labels": tokens(length=6)}


def shown_and_told() -> dict[str, Any]:
    """Sixteen places for the patches of the image, then text."""
    ids = torch.cat([torch.full((1, 16), 95), tokens(90, 6, 1)], dim=1)
    return {"pixel_values": image(32, batch=1), "input_ids": ids, "labels": ids.clone()}


def pictures() -> list[Entry]:
    stages: dict[str, Any] = {
        "embed_dim": 16, "depths": [1, 1], "num_heads": [2, 2], "window_size": 4, "image_size": 32}
    return [
        entry("vit", "ViTConfig", "ViTForImageClassification", labelled_image, **VISION),
        entry("beit", "BeitConfig", "BeitForImageClassification", labelled_image, **VISION, vocab_size=32,
              use_relative_position_bias=True, drop_path_rate=0.2),
        entry("dinov2", "Dinov2Config", "Dinov2ForImageClassification", labelled_image,
              **{**VISION, "mlp_ratio": 2, "drop_path_rate": 0.2}),
        entry("swin", "SwinConfig", "SwinForImageClassification", labelled_image, **stages),
        entry("swinv2", "Swinv2Config", "Swinv2ForImageClassification", labelled_image, **stages),
        entry("convnext", "ConvNextConfig", "ConvNextForImageClassification", labelled_image,
              hidden_sizes=[16, 16, 32, 32], depths=[1, 1, 1, 1]),
        entry("resnet", "ResNetConfig", "ResNetForImageClassification", labelled_image, embedding_size=16,
              hidden_sizes=[16, 16, 32, 32], depths=[1, 1, 1, 1]),
        entry("segformer", "SegformerConfig", "SegformerForImageClassification", labelled_image,
              hidden_sizes=[16, 16, 32, 32], depths=[1, 1, 1, 1], num_attention_heads=[1, 1, 2, 2],
              decoder_hidden_size=16),
        entry("vit_mae", "ViTMAEConfig", "ViTMAEForPreTraining", only_image, **VISION, decoder_hidden_size=16,
              decoder_num_hidden_layers=1, decoder_num_attention_heads=2, decoder_intermediate_size=32),
        entry("videomae", "VideoMAEConfig", "VideoMAEForVideoClassification", video, **VISION, num_frames=4),
        entry("yolos", "YolosConfig", "YolosForObjectDetection", only_image, **{**VISION, "image_size": [32, 32]},
              num_detection_tokens=4),
    ]


def pictures_and_text() -> list[Entry]:
    both = {"text_config": TEXT, "vision_config": {**VISION, "projection_dim": 16}, "projection_dim": 16}
    llama = {"model_type": "llama", **SIZES, **GROUPED}
    seen = {"model_type": "clip_vision_model", **VISION}
    return [
        entry("clip", "CLIPConfig", "CLIPModel", image_and_text, **both),
        entry("siglip", "SiglipConfig", "SiglipModel", image_and_text, text_config={**SIZES}, vision_config=VISION),
        entry("llava", "LlavaConfig", "LlavaForConditionalGeneration", shown_and_told, text_config=llama,
              vision_config=seen, image_token_index=95, vision_feature_layer=-1),
    ]


def sounds() -> list[Entry]:
    heard = {**SEQ2SEQ, "num_mel_bins": 16, "max_source_positions": 12, "max_target_positions": 32}
    del heard["max_position_embeddings"]
    return [
        entry("wav2vec2", "Wav2Vec2Config", "Wav2Vec2ForCTC", waveform, **WAVES),
        entry("hubert", "HubertConfig", "HubertForCTC", waveform, **WAVES),
        entry("wavlm", "WavLMConfig", "WavLMForCTC", waveform, **WAVES),
        entry("whisper", "WhisperConfig", "WhisperForConditionalGeneration", speech_to_text, **heard),
        entry("audio_spectrogram", "ASTConfig", "ASTForAudioClassification", spectrogram,
              **{k: v for k, v in VISION.items() if k != "image_size"}, max_length=32, num_mel_bins=16,
              frequency_stride=8, time_stride=8),
    ]


def entries() -> list[Entry]:
    return [*pictures(), *pictures_and_text(), *sounds()]
