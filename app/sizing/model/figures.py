"""Assumed values for counting a model. They apply before a request is read, so a request cannot override them."""

from __future__ import annotations

from dataclasses import dataclass

from app.sizing.assumptions import ROW, with_rows


@dataclass(frozen=True, slots=True)
@with_rows
class CountingFigures:
    """Assumed values: the rows of the area `counting`. Their ranges are those of the counted networks."""

    # FLOPs of a network per element that it writes, if its layers are not known
    convolution_flops_per_activation: float = ROW
    transformer_flops_per_activation: float = ROW
    denoiser_flops_per_activation: float = ROW
    depthwise_flops_per_activation: float = ROW
    windowed_flops_per_activation: float = ROW
    kept_per_activation: float = ROW
    usual_head_width: float = ROW
    elementwise_per_activation: float = ROW
    kernels_per_layer: float = ROW
    live_share: float = ROW
    written_bytes_per_width: float = ROW
    live_bytes_per_width: float = ROW
    # Values that registered facts omit
    unstated_image_layers: float = ROW
    operations_per_convolutional_block: float = ROW
    unet_operations: float = ROW
    image_decoder_flops_per_pixel: float = ROW
    usual_audio_s: float = ROW
    spoken_tokens_per_s: float = ROW
    # Models of which only the size is known
    max_vocabulary_share: float = ROW
    max_share_outside_mlp: float = ROW
    tied_below_params: float = ROW
    narrow_below_width: float = ROW
    unstated_context_tokens: float = ROW


FIGURES = CountingFigures()
