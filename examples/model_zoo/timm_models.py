"""Models of timm, with few layers and on the smallest images that they accept."""

from __future__ import annotations

from typing import Any

from .entry import Built, Entry, image


def entry(name: str, size: int = 32, **options: Any) -> Entry:
    def build() -> Built:
        import timm  # a child process imports what its model needs and no more

        return Built(timm.create_model(name, pretrained=False, num_classes=10, **options), {"args": (image(size),)})

    return Entry(f"timm/{name}", "timm", build)


def entries() -> list[Entry]:
    two = {"depth": 2, "embed_dim": 32}
    vit = {"img_size": 32, "patch_size": 8, "num_heads": 2, **two}
    stages: dict[str, Any] = {"depths": (1, 1, 1, 1), "dims": (16, 16, 32, 32)}
    return [
        entry("vit_tiny_patch16_224", **vit),
        entry("deit_tiny_distilled_patch16_224", **vit),
        entry("beit_base_patch16_224", **vit),
        entry("eva02_tiny_patch14_224", **vit),
        entry("swin_tiny_patch4_window7_224", img_size=32, window_size=4, embed_dim=16, depths=(2, 2),
              num_heads=(2, 2)),
        entry("convnext_atto", **stages),
        entry("convnextv2_atto", **stages),
        entry("resnet18", layers=(1, 1, 1, 1)),
        entry("resnext50_32x4d", layers=(1, 1, 1, 1)),
        entry("seresnet18", layers=(1, 1, 1, 1)),
        entry("res2net50_26w_4s", layers=(1, 1, 1, 1)),
        entry("resnest14d"),
        entry("regnety_002"),
        entry("mixnet_s"),
        entry("mobilenetv3_small_050"),
        entry("gmixer_12_224", img_size=32),
        entry("resmlp_12_224", img_size=32),
        entry("maxvit_rmlp_pico_rw_256", size=64, img_size=64, embed_dim=(32, 32, 32, 32),
              depths=(1, 1, 1, 1), stem_width=16),
        entry("densenet121", block_config=(2, 2), growth_rate=8),
        entry("dla34", channels=(16, 16, 16, 32, 32, 32)),
        entry("hrnet_w18_small", size=64),
        entry("pit_ti_224", size=64, img_size=64, base_dims=(16, 16, 16), depth=(1, 1, 1), heads=(1, 2, 2)),
        entry("levit_128s", size=64, img_size=64, embed_dim=(32, 32, 32), depth=(1, 1, 1), key_dim=8,
              num_heads=(2, 2, 2)),
        entry("xcit_nano_12_p16_224", img_size=32, **two, num_heads=2),
        entry("poolformer_s12"),
        entry("mobilevit_xxs", size=64),
        entry("edgenext_xx_small", size=64, depths=(1, 1, 1, 1), dims=(16, 16, 32, 32)),
        entry("ghostnet_050"),
        entry("repvgg_a0"),
        entry("nf_resnet26"),
        entry("sequencer2d_s", layers=(1, 1, 1, 1), embed_dims=(16, 16, 16, 16), hidden_sizes=(8, 8, 8, 8)),
        entry("fastvit_t8", size=64, layers=(1, 1, 1, 1), embed_dims=(16, 16, 32, 32)),
    ]
