"""What a training step does with one sample grows with it, all but the kernels. Work of a sample by its size:
positions, passes, and what runs once.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.sizing.model.sample import (
    FLOPS_PER_ACTIVATION,
    JOINT_BLOCK,
    PLAIN_BLOCK,
    Footprint,
    Network,
    SampleLaw,
    SampleShape,
    SampleWork,
    estimated_footprint,
)


def test_everything_but_the_kernels_grows_with_a_sample() -> None:
    one = Footprint(
        flops=2.0,
        kept_bytes=3.0,
        matrix_bytes=4.0,
        elementwise_bytes=5.0,
        operations=6.0,
        kept_wide_bytes=7.0,
        grouped_bytes=8.0,
        tiled_flops=9.0,
        grouped_taps=10.0,
        working_bytes=11.0,
        score_pairs=12.0,
    )
    double = one.scaled_by(2.0)
    assert {k: getattr(double, k) / getattr(one, k) for k in one.__slots__} == {
        k: 1 if k == "operations" else 2 for k in one.__slots__
    }


PICTURE = SampleLaw(
    "image", width=160, height=80, cell_pixels=16, fixed_positions=1.0, flops_per_position=1e6, flops_per_pair=10.0
)
SPEECH = SampleLaw(
    "speech",
    audio_s=30.0,
    window_s=30.0,
    positions_per_second=50.0,
    flops_per_position=1e6,
    extra_flops_per_window=7e9,
    decodes=True,
    text_tokens=60,
    read_bytes_per_pass=5e6,
)
USUAL = SampleShape()


@pytest.mark.parametrize(
    ("shape", "positions"),
    [(USUAL, 1 + 10 * 5), (SampleShape(width=320), 1 + 20 * 5), (SampleShape(width=175), 1 + 10 * 5)],
)
def test_cells_of_pixels_are_positions_and_what_does_not_fill_one_is_cut(shape: SampleShape, positions: float) -> None:
    assert PICTURE.position_count(shape) == positions
    assert PICTURE.sample_work(shape).flops == pytest.approx(1e6 * positions + 10 * positions**2)


def test_frames_are_latent_frames() -> None:
    film = replace(PICTURE, frames=81, frames_per_position=4)
    assert film.position_count(USUAL) == 1 + 50 * 21


def test_denoising_is_a_pass_a_step_twice_where_it_is_guided() -> None:
    painted = replace(PICTURE, network=Network.DENOISER, steps=30, guidance=2.0, extra_flops_fixed=5e9)
    work = painted.sample_work(USUAL)
    once = PICTURE.sample_work(USUAL).flops
    assert [work.passes, work.flops] == pytest.approx([30, 2 * once])
    assert work.total_flops == pytest.approx(60 * once + 5e9)
    # training sees one noise level, unguided
    assert work.forward_flops == pytest.approx(once)
    assert painted.sample_work(SampleShape(steps=10)).passes == 10


@pytest.mark.parametrize(("seconds", "windows", "tokens"), [(30.0, 1, 60), (31.0, 2, 62), (90.0, 3, 180)])
def test_speech_is_read_by_windows_and_its_text_grows_with_it(seconds: float, windows: int, tokens: float) -> None:
    work = SPEECH.sample_work(SampleShape(audio_s=seconds))
    assert (work.extra_flops, work.passes) == (windows * 7e9, tokens)
    assert (work.moved_bytes, work.decodes) == (5e6, True)
    assert SPEECH.sample_work(SampleShape(audio_s=seconds, text_tokens=10)).passes == 10


def test_a_network_without_one_width_writes_by_its_flops() -> None:
    work = replace(PICTURE, network=Network.CONVOLUTION).sample_work(USUAL)
    assert work.moved_bytes == pytest.approx(2 * 2 * work.flops / FLOPS_PER_ACTIVATION[Network.CONVOLUTION])
    assert (work.convolutional, PICTURE.sample_work(USUAL).convolutional) == (True, False)


def test_a_forward_of_training_is_a_pass_unless_it_is_counted_apart() -> None:
    assert SampleWork(2e9, passes=10, extra_flops=1e9).forward_flops == 2e9
    assert SampleWork(2e9, footprint=Footprint(3e9, 0.0, 0.0, 0.0, 1.0)).forward_flops == 3e9


def test_a_law_names_the_sizes_it_depends_on_and_tells_its_sample() -> None:
    assert PICTURE.size_fields == ("width", "height")
    assert SPEECH.size_fields == ("audio_s", "text_tokens")
    assert PICTURE.describe_sample(SampleShape(width=320)) == "one image of 320 x 80 pixels"
    assert SPEECH.describe_sample(USUAL) == "30 s of speech, 60 tokens of text"


def test_training_on_a_larger_sample_keeps_and_moves_in_proportion() -> None:
    counted = Footprint(2e9, kept_bytes=5e6, matrix_bytes=3e6, elementwise_bytes=7e6, operations=40.0)
    law = replace(PICTURE, footprint=counted, fixed_positions=0.0, flops_fixed=0.0, flops_per_pair=0.0)
    double = law.sample_work(SampleShape(width=2 * law.width)).footprint
    assert double is not None
    assert (double.kept_bytes, double.operations) == (1e7, 40)
    assert double.flops == pytest.approx(4e9)


def test_a_transformer_keeps_by_its_width_and_a_joint_one_more() -> None:
    plain, joint = (
        replace(PICTURE, width_of_positions=64, layers=3, network=network).sample_work(USUAL).footprint
        for network in (Network.TRANSFORMER, Network.DENOISER)
    )
    assert plain is not None and joint is not None
    widths = 64 * 3 * PICTURE.position_count(USUAL)
    assert plain.kept_bytes == pytest.approx(PLAIN_BLOCK.kept * widths)
    assert joint.kept_bytes == pytest.approx(JOINT_BLOCK.kept * widths)
    assert plain.score_pairs == pytest.approx(PICTURE.flops_per_pair / 4 / 64 * PICTURE.position_count(USUAL) ** 2)


def test_a_network_of_unknown_layers_is_estimated_from_what_it_writes() -> None:
    found = estimated_footprint(8e9, 1e6, 10.0)
    assert (found.kept_bytes, found.matrix_bytes, found.elementwise_bytes) == (2.5e6, 2e6, 5.5e6)
    assert (found.flops, found.operations) == (8e9, 40)


def test_every_kind_of_network_has_its_work_per_activation() -> None:
    assert set(FLOPS_PER_ACTIVATION) == set(Network)
