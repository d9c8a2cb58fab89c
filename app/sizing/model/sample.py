"""Work of models that take samples in place of tokens: images, speech, pictures to paint."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum

from app.sizing.model.figures import FIGURES
from app.sizing.model.footprint import Footprint


@dataclass(frozen=True, slots=True)
class BlockBytes:
    """Bytes of a transformer's block in training per position and unit of width, matrices in 16 bit and norms in 32:
    kept for backward (`kept_wide` of it in 32 bit), moved by matrices, moved between them; and its kernels.
    """

    kept: float
    kept_wide: float
    matrix: float
    elementwise: float
    kernels: float


# Traced on fake tensors (timm 1.0, diffusers 0.42): ViT-S to ViT-H 36.2-36.8, 8, 40.1-40.6 and 65-67 bytes; blocks of
# image and text that a step modulates, SD3 and FLUX.1: 54 and 64 kept, 24 and 38 of it wide, 44 and 43, 188 and 175.
PLAIN_BLOCK = BlockBytes(36.3, 8.0, 40.3, 66.0, 12.5)
JOINT_BLOCK = BlockBytes(59.0, 31.0, 43.5, 181.0, 60.0)


@dataclass(frozen=True, slots=True)
class SampleWork:
    """Work of one sample where tokens are not the unit: an image, a stretch of speech, a picture to paint.

    `flops` is one forward pass over one sample; a sample takes `passes` of them (denoising steps,
    decoded tokens), each reading all weights once per batch. `extra_flops` come once per sample
    (text encoders, image decoder, speech encoder).
    A pass writes and reads `moved_bytes` beside the weights and holds `live_bytes` at its peak, in 16 bit; what
    training does with a sample is its `footprint`. `pixels` and `audio_s` are what a host reads or writes of it.
    """

    flops: float
    passes: float = 1.0
    extra_flops: float = 0.0
    moved_bytes: float = 0.0
    live_bytes: float = 0.0
    layers: int = 1
    convolutional: bool = False
    decodes: bool = False
    unit: str = "sample"
    footprint: Footprint | None = None
    pixels: float = 0.0
    audio_s: float = 0.0

    @property
    def total_flops(self) -> float:
        """All passes over one sample, and what runs once.

        Source: definition.
        Check: thirty steps of a network evaluated twice, and an encoder.
            >>> SampleWork(flops=2e12, passes=30.0, extra_flops=5e12).total_flops
            65000000000000.0
        """
        return self.flops * self.passes + self.extra_flops

    @property
    def forward_flops(self) -> float:
        """Forward pass of a training step over one sample."""
        return self.flops if self.footprint is None else self.footprint.flops


def estimated_footprint(flops: float, written_bytes: float, layers: float) -> Footprint:
    """Training on one sample where nothing but its FLOPs and what a pass writes is known."""
    return Footprint(
        flops=flops,
        kept_bytes=FIGURES.kept_per_activation * written_bytes,
        matrix_bytes=2 * written_bytes,
        elementwise_bytes=FIGURES.elementwise_per_activation * written_bytes,
        operations=FIGURES.kernels_per_layer * layers,
    )


def block_footprint(block: BlockBytes, flops: float, widths: float, layers: float, score_pairs: float) -> Footprint:
    """Training on one sample of a transformer with an MLP of four times its width: `widths` are positions times
    layers times width.

    Check: ViT-B/16 at 224 keeps 66 MB in mixed precision.
        >>> round(registered("google/vit-base-patch16-224").sample.footprint.kept_bytes / 1e6)
        66
    """
    return Footprint(
        flops=flops,
        kept_bytes=block.kept * widths,
        matrix_bytes=block.matrix * widths,
        elementwise_bytes=block.elementwise * widths,
        operations=block.kernels * layers,
        kept_wide_bytes=block.kept_wide * widths,
        working_bytes=16.0 * widths / layers,
        score_pairs=score_pairs,
    )


@dataclass(frozen=True, slots=True)
class SampleShape:
    """How large one sample is, where a request says so; None is the model's own usual size."""

    width: int | None = None
    height: int | None = None
    frames: int | None = None
    audio_s: float | None = None
    steps: int | None = None
    text_tokens: int | None = None


class Network(StrEnum):
    """Kinds of network that differ in work per element of activation."""

    CONVOLUTION = "convolution"
    TRANSFORMER = "transformer"
    DENOISER = "denoiser"
    DEPTHWISE = "depthwise"
    WINDOWED = "windowed"


FLOPS_PER_ACTIVATION = {
    Network.CONVOLUTION: FIGURES.convolution_flops_per_activation,
    Network.TRANSFORMER: FIGURES.transformer_flops_per_activation,
    Network.DENOISER: FIGURES.denoiser_flops_per_activation,
    Network.DEPTHWISE: FIGURES.depthwise_flops_per_activation,
    Network.WINDOWED: FIGURES.windowed_flops_per_activation,
}


@dataclass(frozen=True, slots=True)
class SampleLaw:
    """Work of a sample by its size: a pass over S positions is `flops_fixed + flops_per_position S + flops_per_pair
    S^2`.

    Positions come from pixels, frames and seconds of audio. A convolutional network has one
    position per pixel and no pairs. Speech that is padded to windows (`window_s`) is read by
    `extra_flops_per_window` each; text is then decoded (`decodes`), a pass for every token.
    """

    unit: str
    width: int = 0
    height: int = 0
    frames: int = 1
    audio_s: float = 0.0
    window_s: float = 0.0
    steps: int = 1
    guidance: float = 1.0
    text_tokens: int = 0
    decodes: bool = False
    fixed_positions: float = 0.0
    cell_pixels: int = 0  # side of the square of pixels that makes a position
    positions_per_second: float = 0.0
    frames_per_position: int = 1
    flops_fixed: float = 0.0
    flops_per_position: float = 0.0
    flops_per_pair: float = 0.0
    extra_flops_fixed: float = 0.0
    extra_flops_per_pixel: float = 0.0
    extra_flops_per_window: float = 0.0
    network: Network = Network.TRANSFORMER
    layers: int = 1
    width_of_positions: int = 0  # hidden size; 0 where the network has no one width
    read_bytes_per_pass: float = 0.0  # what each decoded token looks back at
    footprint: Footprint | None = None  # of training on a sample of the usual size; None where it is estimated
    basis: str = ""  # where the figures come from, if not the configuration

    @property
    def sizes(self) -> tuple[str, ...]:
        """Fields of a sample's shape that this law depends on."""
        taken: tuple[str, ...] = ("width", "height") if self.cell_pixels else ()
        taken += ("frames",) if self.frames > 1 else ()
        taken += ("steps",) if self.network is Network.DENOISER else ()
        taken += ("audio_s",) if self.audio_s else ()
        return (*taken, "text_tokens") if self.decodes else taken

    def described(self, shape: SampleShape) -> str:
        """The sample in words."""
        width, height = shape.width or self.width, shape.height or self.height
        frames = shape.frames or self.frames
        size = f"{width} x {height} pixels" + (f", {frames} frames" if frames > 1 else "")
        if self.audio_s:
            text = f", {self._text_tokens(shape):g} tokens of text" if self.decodes else ""
            return f"{shape.audio_s or self.audio_s:g} s of speech{text}"
        steps = f", {shape.steps or self.steps} denoising steps" if self.steps > 1 else ""
        return f"one {self.unit} of {size}{steps}{', guided (two passes a step)' if self.guidance > 1 else ''}"

    def _text_tokens(self, shape: SampleShape) -> float:
        """Text spoken in proportion to the time, unless stated."""
        if shape.text_tokens is not None:
            return float(shape.text_tokens)
        return self.text_tokens * (shape.audio_s or self.audio_s) / self.audio_s if self.audio_s else 0.0

    def positions(self, shape: SampleShape) -> float:
        """Positions one pass works on.

        Source: definition: cells of pixels times latent frames, seconds of audio, and what stands beside them.
        Limits: what does not fill a cell is cut off.
        Check: Wan 2.1's clip of 832 x 480 and 81 frames, and 512 tokens of text.
            >>> registered("Wan-AI/Wan2.1-T2V-1.3B-Diffusers").law.positions(SampleShape())
            33272.0
        """
        cells = 0
        if self.cell_pixels:
            cells = ((shape.width or self.width) // self.cell_pixels) * (
                (shape.height or self.height) // self.cell_pixels
            )
        latent_frames = ((shape.frames or self.frames) - 1) // self.frames_per_position + 1
        seconds = shape.audio_s or self.audio_s
        seconds = min(seconds, self.window_s) if self.window_s else seconds
        return (
            self.fixed_positions
            + float(max(1, cells) * latent_frames if self.cell_pixels else 0)
            + self.positions_per_second * seconds
        )

    def work(self, shape: SampleShape) -> SampleWork:
        """The work of one sample of a size.

        Source: counted; bytes by `figures`.
        Limits: a pass over a longer sample of the same kind; nothing is reused between passes.
        Check: ViT-B/16 at 224 pixels has 197 positions and takes 35.1 GFLOP.
            >>> law = registered("google/vit-base-patch16-224").law
            >>> law.positions(SampleShape()), round(law.work(SampleShape()).flops / 1e9, 1)
            (197.0, 35.1)
        """
        positions = self.positions(shape)
        one = self._pass_flops(positions)
        pixels = float((shape.width or self.width) * (shape.height or self.height)) * (shape.frames or self.frames)
        windows = math.ceil((shape.audio_s or self.audio_s) / self.window_s) if self.window_s else 0
        extra = self.extra_flops_fixed + self.extra_flops_per_pixel * pixels + self.extra_flops_per_window * windows
        passes = max(1.0, self._text_tokens(shape)) if self.decodes else float(shape.steps or self.steps)
        written = self._written_bytes(positions, one)
        wide = FIGURES.live_bytes_per_width * self.width_of_positions * positions
        live = wide if self.width_of_positions else FIGURES.live_share * written
        return SampleWork(
            flops=one * self.guidance,
            passes=passes,
            extra_flops=extra,
            moved_bytes=self.read_bytes_per_pass if self.decodes else 2 * written,
            live_bytes=live + self.read_bytes_per_pass,
            layers=self.layers,
            convolutional=self.network in (Network.CONVOLUTION, Network.DEPTHWISE),
            decodes=self.decodes,
            unit=self.unit,
            footprint=self._footprint(shape, written, one * passes + extra if self.decodes else one),
            pixels=pixels if self.cell_pixels else 0.0,
            audio_s=shape.audio_s or self.audio_s,
        )

    def _pass_flops(self, positions: float) -> float:
        """FLOPs of one pass over a sample."""
        return self.flops_fixed + self.flops_per_position * positions + self.flops_per_pair * positions**2

    def _footprint(self, shape: SampleShape, written_bytes: float, flops: float) -> Footprint:
        """Of training on one sample: as counted, in proportion to its size; else from what a pass writes."""
        if self.footprint is not None:
            usual = self.positions(SampleShape())
            trained = self.footprint.flops / self._pass_flops(usual)
            grown = self.footprint.times(self.positions(shape) / usual)
            return replace(grown, flops=trained * self._pass_flops(self.positions(shape)))
        if self.width_of_positions:
            wide = self.width_of_positions * self.layers * self.positions(shape)
            pairs = self.flops_per_pair / (4.0 * FIGURES.usual_head_width) * self.positions(shape) ** 2
            bytes_of = JOINT_BLOCK if self.network is Network.DENOISER else PLAIN_BLOCK
            return block_footprint(bytes_of, flops, wide, float(self.layers), pairs)
        return estimated_footprint(flops, written_bytes, float(self.layers))

    def _written_bytes(self, positions: float, flops: float) -> float:
        """Activations one pass writes: by the width of a transformer's positions, or by its FLOPs."""
        if self.width_of_positions:
            return FIGURES.written_bytes_per_width * self.width_of_positions * self.layers * positions
        return 2 * flops / FLOPS_PER_ACTIVATION[self.network]
