"""Work of models that process samples instead of tokens: image recognition, speech, image generation."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum

from app.sizing.model.figures import FIGURES


@dataclass(frozen=True, slots=True)
class Footprint:
    """One forward pass of training over one sample with 16-bit activations; backward costs twice as much.

    `flops` counts layers that are not trained at one third, because they have no backward. Bytes that norms and
    losses keep in 32 bit under autocast are separate (`kept_wide_bytes`), because they do not double in 32-bit
    training.
    """

    flops: float
    kept_bytes: float  # bytes kept for backward
    matrix_bytes: float  # bytes that convolutions and matrices read and write
    elementwise_bytes: float  # bytes that kernels between them move: norms, activations, sums, pools
    operations: float  # kernels
    kept_wide_bytes: float = 0.0  # bytes kept in 32 bit under autocast
    grouped_bytes: float = 0.0  # bytes that grouped and depthwise convolutions read and write
    tiled_flops: float = 0.0  # FLOPs that matrix units execute, with narrow outputs padded to a tile
    grouped_taps: float = 0.0  # output elements of grouped convolutions times kernel positions
    # Gradient bytes at the peak of backward, in addition to the bytes kept: late layers are small, and early layers
    # reuse the memory that late layers freed.
    working_bytes: float = 0.0
    score_pairs: float = 0.0  # pairs of positions, times heads and layers, whose attention scores are formed

    def scaled_by(self, share: float) -> Footprint:
        """The footprint of a sample that is `share` times as large. All fields except the kernel count grow.

        Check: twice the pixels, the same kernels.
            >>> Footprint(8e9, 44e6, 40e6, 120e6, 228.0).scaled_by(2.0).operations
            228.0
        """
        scaled = {k: getattr(self, k) * share for k in self.__slots__ if k != "operations"}
        return replace(self, **scaled)


@dataclass(frozen=True, slots=True)
class BlockBytes:
    """Training bytes of a transformer block per position and unit of width, with matrices in 16 bit and norms in 32
    bit.
    """

    kept: float  # bytes kept for backward
    kept_wide: float  # bytes of these in 32 bit
    matrix: float  # bytes that matrices move
    elementwise: float  # bytes that kernels between the matrices move
    kernels: float  # kernels per block


# Traced on fake tensors (timm 1.0, diffusers 0.42), in the order of the fields: ViT-S to ViT-H 36.2-36.8, 8, 40.1-40.6
# and 65-67 bytes; joint blocks of image and text in SD3 and FLUX.1: 54 and 64, 24 and 38, 44 and 43, 188 and 175.
PLAIN_BLOCK = BlockBytes(36.3, 8.0, 40.3, 66.0, 12.5)
JOINT_BLOCK = BlockBytes(59.0, 31.0, 43.5, 181.0, 60.0)


@dataclass(frozen=True, slots=True)
class SampleWork:
    """Work of one sample of a model that does not process tokens: an image, a recording of speech, a generated picture.

    `flops` is one forward pass over one sample. A sample takes `passes` of them (denoising steps or decoded tokens),
    and each pass reads all weights once per batch. `extra_flops` run once per sample (text encoders, image decoder,
    speech encoder). A pass reads and writes `moved_bytes` in addition to the weights and holds `live_bytes` at its
    peak, both in 16 bit. `footprint` is the work of training on one sample. `pixels` and `audio_s` are the data that
    the host reads or writes per sample. `size` is width and height, and for a video the number of frames.
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
    size: tuple[int, ...] = ()

    @property
    def total_flops(self) -> float:
        """FLOPs of all passes over one sample, plus the work that runs once.

        Check: thirty steps of a network that is evaluated twice per step, and an encoder.
            >>> SampleWork(flops=2e12, passes=30.0, extra_flops=5e12).total_flops
            65000000000000.0
        """
        return self.flops * self.passes + self.extra_flops

    def as_places(self) -> dict[str, int]:
        """Placeholders of a benchmark that generates such samples."""
        names = ("sample_width", "sample_height", "sample_frames")
        return {"passes": round(self.passes), **dict(zip(names, self.size, strict=False))}

    @property
    def forward_flops(self) -> float:
        """FLOPs of the forward pass of a training step over one sample."""
        return self.flops if self.footprint is None else self.footprint.flops


def estimated_footprint(flops: float, written_bytes: float, layers: float) -> Footprint:
    """Training footprint of one sample, estimated from its FLOPs and the bytes that a pass writes."""
    return Footprint(
        flops=flops,
        kept_bytes=FIGURES.kept_per_activation * written_bytes,
        matrix_bytes=2 * written_bytes,
        elementwise_bytes=FIGURES.elementwise_per_activation * written_bytes,
        operations=FIGURES.kernels_per_layer * layers,
    )


def block_footprint(block: BlockBytes, flops: float, widths: float, layers: float, score_pairs: float) -> Footprint:
    """Training footprint of one sample of a transformer whose MLP is four times as wide as the model.

    Parameters:
        block: training bytes of a block per position and unit of width.
        flops: FLOPs of the forward pass.
        widths: positions times layers times width.
        layers: transformer blocks.
        score_pairs: pairs of positions, times heads and layers, whose attention scores are formed.
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
    """Size of one sample as a request states it. None means the usual size of the model."""

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
    """Work of a sample by its size: a pass over S positions takes `flops_fixed + flops_per_position S + flops_per_pair
    S^2`.

    Positions come from pixels, frames and seconds of audio. A convolutional network has one position per pixel and
    no pairs. If speech is padded to windows (`window_s`), the encoder spends `extra_flops_per_window` on each. Text
    is then decoded (`decodes`), with one pass per token.
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
    cell_pixels: int = 0  # side, in pixels, of the square that makes one position
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
    width_of_positions: int = 0  # hidden size; 0 if the width varies between layers
    read_bytes_per_pass: float = 0.0  # cache bytes that each decoded token reads
    footprint: Footprint | None = None  # training footprint of a sample of the usual size; None if it is estimated
    basis: str = ""  # source of the figures if it is not the configuration

    @property
    def size_fields(self) -> tuple[str, ...]:
        """Fields of `SampleShape` that this law depends on."""
        names: tuple[str, ...] = ("width", "height") if self.cell_pixels else ()
        names += ("frames",) if self.frames > 1 else ()
        names += ("steps",) if self.network is Network.DENOISER else ()
        names += ("audio_s",) if self.audio_s else ()
        return (*names, "text_tokens") if self.decodes else names

    def describe_sample(self, shape: SampleShape) -> str:
        """A description of one sample."""
        width, height = shape.width or self.width, shape.height or self.height
        frames = shape.frames or self.frames
        size = f"{width} x {height} pixels" + (f", {frames} frames" if frames > 1 else "")
        if self.audio_s:
            text = f", {self._text_tokens(shape):g} tokens of text" if self.decodes else ""
            return f"{shape.audio_s or self.audio_s:g} s of speech{text}"
        steps = f", {shape.steps or self.steps} denoising steps" if self.steps > 1 else ""
        return f"one {self.unit} of {size}{steps}{', with guidance (two passes per step)' if self.guidance > 1 else ''}"

    def _text_tokens(self, shape: SampleShape) -> float:
        """Tokens of text in a sample: as stated, or proportional to the length of the audio."""
        if shape.text_tokens is not None:
            return float(shape.text_tokens)
        return self.text_tokens * (shape.audio_s or self.audio_s) / self.audio_s if self.audio_s else 0.0

    def position_count(self, shape: SampleShape) -> float:
        """Positions that one pass processes: cells of pixels times latent frames, seconds of audio, and text tokens.

        Limits: pixels that do not fill a cell are cut off.
        Check: Wan 2.1's clip of 832 x 480 and 81 frames, and 512 tokens of text.
            >>> registered("Wan-AI/Wan2.1-T2V-1.3B-Diffusers").law.position_count(SampleShape())
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

    def sample_work(self, shape: SampleShape) -> SampleWork:
        """The work of one sample of a shape. FLOPs are counted; bytes are estimated with `figures`.

        Limits: nothing is reused between passes.
        Check: ViT-B/16 at 224 pixels has 197 positions and takes 35.1 GFLOP.
            >>> law = registered("google/vit-base-patch16-224").law
            >>> law.position_count(SampleShape()), round(law.sample_work(SampleShape()).flops / 1e9, 1)
            (197.0, 35.1)
        """
        positions = self.position_count(shape)
        pass_flops = self._pass_flops(positions)
        size = (shape.width or self.width, shape.height or self.height, shape.frames or self.frames)
        windows = math.ceil((shape.audio_s or self.audio_s) / self.window_s) if self.window_s else 0
        extra = self.extra_flops_fixed + self.extra_flops_per_pixel * math.prod(size)
        extra += self.extra_flops_per_window * windows
        passes = max(1.0, self._text_tokens(shape)) if self.decodes else float(shape.steps or self.steps)
        written_bytes = self._written_bytes(positions, pass_flops)
        wide = FIGURES.live_bytes_per_width * self.width_of_positions * positions
        live = wide if self.width_of_positions else FIGURES.live_share * written_bytes
        return SampleWork(
            flops=pass_flops * self.guidance,
            passes=passes,
            extra_flops=extra,
            moved_bytes=self.read_bytes_per_pass if self.decodes else 2 * written_bytes,
            live_bytes=live + self.read_bytes_per_pass,
            layers=self.layers,
            convolutional=self.network in (Network.CONVOLUTION, Network.DEPTHWISE),
            decodes=self.decodes,
            unit=self.unit,
            footprint=self._training_footprint(
                shape, written_bytes, pass_flops * passes + extra if self.decodes else pass_flops
            ),
            pixels=float(math.prod(size)) if self.cell_pixels else 0.0,
            audio_s=shape.audio_s or self.audio_s,
            size=(size if self.frames > 1 else size[:2]) if self.cell_pixels else (),
        )

    def _pass_flops(self, positions: float) -> float:
        """FLOPs of one pass over a sample."""
        return self.flops_fixed + self.flops_per_position * positions + self.flops_per_pair * positions**2

    def _training_footprint(self, shape: SampleShape, written_bytes: float, flops: float) -> Footprint:
        """Training footprint of one sample: the counted one, scaled to the sample's size, or an estimate from the bytes
        written.
        """
        if self.footprint is not None:
            usual = self.position_count(SampleShape())
            trained = self.footprint.flops / self._pass_flops(usual)
            scaled = self.footprint.scaled_by(self.position_count(shape) / usual)
            return replace(scaled, flops=trained * self._pass_flops(self.position_count(shape)))
        if self.width_of_positions:
            wide = self.width_of_positions * self.layers * self.position_count(shape)
            pairs = self.flops_per_pair / (4.0 * FIGURES.usual_head_width) * self.position_count(shape) ** 2
            bytes_of = JOINT_BLOCK if self.network is Network.DENOISER else PLAIN_BLOCK
            return block_footprint(bytes_of, flops, wide, float(self.layers), pairs)
        return estimated_footprint(flops, written_bytes, float(self.layers))

    def _written_bytes(self, positions: float, flops: float) -> float:
        """Activation bytes that one pass writes, from the width of a transformer's positions or from its FLOPs."""
        if self.width_of_positions:
            return FIGURES.written_bytes_per_width * self.width_of_positions * self.layers * positions
        return 2 * flops / FLOPS_PER_ACTIVATION[self.network]
