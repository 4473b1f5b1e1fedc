"""Models of torchvision: classification, segmentation, detection, video, optical flow."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from .entry import Built, Entry, image


def entry(name: str, size: int = 32, **options: Any) -> Entry:
    """One that torchvision makes by name and that takes a batch of images."""

    def build() -> Built:
        from torchvision import models  # a child process imports what its model needs and no more

        return Built(models.get_model(name, weights=None, **options), {"args": (image(size),)})

    return Entry(f"torchvision/{name}", "torchvision", build)


def built_by(name: str, build: Callable[[], Built]) -> Entry:
    return Entry(f"torchvision/{name}", "torchvision", build)


def vision_transformer() -> Built:
    from torchvision.models import VisionTransformer

    return Built(VisionTransformer(32, 8, num_layers=2, num_heads=2, hidden_dim=32, mlp_dim=64, dropout=0.1,
                                   num_classes=10), {"args": (image(32),)})


def swin() -> Built:
    from torchvision.models import SwinTransformer

    return Built(SwinTransformer([4, 4], 16, [2, 2], [2, 2], [4, 4], num_classes=10), {"args": (image(32),)})


def maxvit() -> Built:
    from torchvision.models import MaxVit

    return Built(MaxVit((32, 32), 16, 2, [16, 16], [1, 1], 8, 0.2, num_classes=10), {"args": (image(32),)})


def detector(name: str, **options: Any) -> Built:
    """In training it takes targets and returns losses."""
    from torchvision.models import detection

    model = detection.__dict__[name](weights=None, weights_backbone=None, num_classes=4, **options)
    images = [torch.rand(3, 64, 64), torch.rand(3, 48, 64)]
    boxes = torch.tensor([[4.0, 4.0, 40.0, 40.0], [10.0, 8.0, 30.0, 44.0]])
    targets = [{"boxes": boxes.clone(), "labels": torch.tensor([1, 2])} for _ in images]
    return Built(model, {"args": (images,)}, {"args": (images, targets)})


def video() -> Built:
    from torchvision.models.video import r3d_18

    return Built(r3d_18(weights=None, num_classes=10), {"args": (torch.randn(1, 3, 4, 32, 32),)})


def optical_flow() -> Built:
    from torchvision.models.optical_flow import raft_small

    return Built(raft_small(weights=None), {"args": (image(128, batch=1), image(128, batch=1)), "num_flow_updates": 2})


def entries() -> list[Entry]:
    segmented = {"weights_backbone": None, "num_classes": 4}
    return [
        entry("resnet18", num_classes=10),
        entry("mobilenet_v2", num_classes=10, width_mult=0.25),
        entry("mobilenet_v3_small", num_classes=10),
        entry("shufflenet_v2_x0_5", num_classes=10),
        entry("squeezenet1_1", num_classes=10),
        entry("mnasnet0_5", num_classes=10),
        entry("efficientnet_b0", num_classes=10),
        entry("regnet_y_400mf", num_classes=10),
        entry("googlenet", num_classes=10, aux_logits=False, init_weights=False),
        entry("vgg11_bn", num_classes=10, init_weights=False),
        entry("deeplabv3_mobilenet_v3_large", 64, **segmented),
        entry("lraspp_mobilenet_v3_large", 64, **segmented),
        built_by("vision_transformer", vision_transformer),
        built_by("swin_transformer", swin),
        built_by("maxvit", maxvit),
        built_by("r3d_18", video),
        built_by("raft_small", optical_flow),
        built_by("retinanet_resnet50_fpn", partial(detector, "retinanet_resnet50_fpn", min_size=64, max_size=64)),
        built_by("fasterrcnn_mobilenet_v3", partial(detector, "fasterrcnn_mobilenet_v3_large_320_fpn", min_size=64,
                                                    max_size=64)),
    ]
