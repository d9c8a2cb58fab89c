"""Work of models that take samples in place of tokens: images, speech, pictures to paint."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from app.sizing.model.figures import FIGURES


@dataclass(frozen=True, slots=True)
class SampleWork:
    """Work of one sample where tokens are not the unit: an image, a stretch of speech, a picture to paint.

    `flops` is one forward pass over one sample; a sample takes `passes` of them (denoising steps,
    decoded tokens), each reading all weights once per batch. `extra_flops` come once per sample
    (text encoders, image decoder, speech encoder). `training_flops` is one forward of a training step.
    A pass writes and reads `moved_bytes` beside the weights, holds `live_bytes` at its peak, and leaves
    `kept_bytes` for backward in training; all in 16 bit. `pixels` and `audio_s` are what a host reads or
    writes of it.
    """

    flops: float
    passes: float = 1.0
    extra_flops: float = 0.0
    moved_bytes: float = 0.0
    live_bytes: float = 0.0
    kept_bytes: float = 0.0
    layers: int = 1
    convolutional: bool = False
    decodes: bool = False
    unit: str = "sample"
    training_flops: float | None = None
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
        return self.flops if self.training_flops is None else self.training_flops


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
        one = self.flops_fixed + self.flops_per_position * positions + self.flops_per_pair * positions**2
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
            kept_bytes=FIGURES.kept_per_activation * written,
            layers=self.layers,
            convolutional=self.network in (Network.CONVOLUTION, Network.DEPTHWISE),
            decodes=self.decodes,
            unit=self.unit,
            training_flops=one * passes + extra if self.decodes else one,
            pixels=pixels if self.cell_pixels else 0.0,
            audio_s=shape.audio_s or self.audio_s,
        )

    def _written_bytes(self, positions: float, flops: float) -> float:
        """Activations one pass writes: by the width of a transformer's positions, or by its FLOPs."""
        if self.width_of_positions:
            return FIGURES.written_bytes_per_width * self.width_of_positions * self.layers * positions
        return 2 * flops / FLOPS_PER_ACTIVATION[self.network]
