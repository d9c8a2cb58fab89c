"""Serves speech recognition with CTranslate2, pictures and videos with Diffusers, or any pipeline of Transformers that
takes a recording or a picture. Requests that wait together are one batch.

The paths are those of the OpenAI API: /v1/audio/transcriptions and /v1/images/generations, which returns a video as
an animated WebP; /v1/predictions takes a picture.
"""

import argparse
import asyncio
import base64
import concurrent.futures
import io
import os
import queue
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import uvicorn
from fastapi import FastAPI, Form, HTTPException, UploadFile
from fastapi.encoders import jsonable_encoder
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

WINDOW_S, SAMPLES_PER_S = 30, 16_000
FRAME_MS = 42  # of a video: 24 frames per second


class Batcher:
    """Runs what waits in its queue in batches, in a thread of its own."""

    def __init__(self, run: Callable[[list], list], batch: int) -> None:
        self.run, self.batch, self.waiting = run, batch, queue.SimpleQueue()
        threading.Thread(target=self.loop, daemon=True).start()

    def loop(self) -> None:
        while True:
            pairs = [self.waiting.get()]
            while len(pairs) < self.batch and not self.waiting.empty():
                pairs.append(self.waiting.get())
            try:
                results = self.run([value for value, _ in pairs])
                for (_, future), result in zip(pairs, results, strict=True):
                    future.set_result(result)
            except Exception as failure:
                for _, future in pairs:
                    future.set_exception(failure)

    async def results(self, values: list) -> list:
        """Results of values that may share batches with those of other requests."""
        futures = [concurrent.futures.Future() for _ in values]
        for pair in zip(values, futures, strict=True):
            self.waiting.put(pair)
        return await asyncio.gather(*(asyncio.wrap_future(future) for future in futures))


def convert_speech(options: argparse.Namespace) -> Path:
    """Folder of the model in the format of CTranslate2, converted once."""
    cache = Path(os.environ.get("HF_HOME", Path.home() / ".cache/huggingface")) / "ctranslate2"
    folder = cache / f"{options.model.replace('/', '--')}-{options.revision or 'main'}-{options.compute_type}"
    if not (folder / "model.bin").exists():
        words = ["ct2-transformers-converter", "--model", options.model, "--output_dir", str(folder), "--force"]
        words += ["--copy_files", "tokenizer.json", "preprocessor_config.json", "--quantization", options.compute_type]
        subprocess.run([*words, *(["--revision", options.revision] if options.revision else [])], check=True)
    return folder


def serve_speech(options: argparse.Namespace, app: FastAPI) -> None:
    """Adds the transcription of recordings, in windows of 30 s."""
    import ctranslate2
    import numpy as np
    from faster_whisper import WhisperModel
    from faster_whisper.audio import pad_or_trim
    from faster_whisper.tokenizer import Tokenizer

    whisper = WhisperModel(str(convert_speech(options)), compute_type=options.compute_type)

    def run(windows: list[tuple[Any, str]]) -> list[str]:
        features = np.stack([pad_or_trim(whisper.feature_extractor(sound)) for sound, _ in windows])
        view = ctranslate2.StorageView.from_array(np.ascontiguousarray(features))
        several = whisper.model.is_multilingual
        found = whisper.model.detect_language(view) if several else [[("<|en|>", 1.0)]] * len(windows)
        known = [language or best[0][0].strip("<|>") for (_, language), best in zip(windows, found, strict=True)]
        readers = [Tokenizer(whisper.hf_tokenizer, several, task="transcribe", language=language) for language in known]
        prompts = [[*reader.sot_sequence, reader.no_timestamps] for reader in readers]
        results = whisper.model.generate(view, prompts, beam_size=options.beams, max_length=whisper.max_length)
        return [reader.decode(each.sequences_ids[0]) for reader, each in zip(readers, results, strict=True)]

    add_transcriptions(app, Batcher(run, options.batch))


def add_transcriptions(app: FastAPI, batcher: Batcher) -> None:
    """Adds the path that transcribes a recording in windows, each with the language of the request or none."""
    from faster_whisper.audio import decode_audio

    length = WINDOW_S * SAMPLES_PER_S

    @app.post("/v1/audio/transcriptions")
    async def transcribe(file: UploadFile, language: Annotated[str, Form()] = "") -> dict[str, str]:
        try:
            sound = await asyncio.to_thread(decode_audio, io.BytesIO(await file.read()))
        except Exception as failure:
            raise HTTPException(400, f"The file is no recording that can be read: {failure}") from failure
        starts = range(0, max(1, len(sound)), length)
        texts = await batcher.results([(sound[start : start + length], language) for start in starts])
        return {"text": " ".join(text.strip() for text in texts)}


class Picture(BaseModel):
    """Body of a request for pictures or videos."""

    prompt: str
    n: int = Field(1, ge=1, le=10)


def serve_pictures(options: argparse.Namespace, app: FastAPI) -> None:
    """Adds the generation of pictures or videos."""
    import torch
    from diffusers import DiffusionPipeline

    device = "cuda" if torch.cuda.is_available() else "cpu"
    dtype = getattr(torch, options.format)
    pipeline = DiffusionPipeline.from_pretrained(options.model, revision=options.revision, torch_dtype=dtype).to(device)

    sizes = {"width": options.width, "height": options.height, "num_frames": options.frames}
    size = {name: value for name, value in sizes.items() if value}

    def run(prompts: list[str]) -> list[str]:
        made = pipeline(prompts, num_inference_steps=options.steps, output_type="pil", **size)
        return [encode_picture(each) for each in (made.images if "images" in made else made.frames)]

    batcher = Batcher(run, options.batch)

    @app.post("/v1/images/generations")
    async def generate(picture: Picture) -> dict[str, list[dict[str, str]]]:
        return {"data": [{"b64_json": text} for text in await batcher.results([picture.prompt] * picture.n)]}


def serve_passes(options: argparse.Namespace, app: FastAPI) -> None:
    """Adds a pipeline of Transformers: transcriptions, or predictions about a picture."""
    import torch
    from PIL import Image
    from transformers import pipeline

    device = "cuda" if torch.cuda.is_available() else "cpu"
    named = {"task": options.task, "model": options.model, "revision": options.revision}
    model = pipeline(**named, dtype=options.format, device=device, batch_size=options.batch)

    def transcribe(windows: list[tuple[Any, str]]) -> list[str]:
        texts = {}
        for language in {language for _, language in windows}:  # a batch has one language
            places = [place for place, (_, own) in enumerate(windows) if own == language]
            inputs = [{"raw": windows[place][0], "sampling_rate": SAMPLES_PER_S} for place in places]
            asked = {"generate_kwargs": {"language": language}} if language else {}
            texts |= {place: each["text"] for place, each in zip(places, model(inputs, **asked), strict=True)}
        return [texts[place] for place in range(len(windows))]

    if model.task == "automatic-speech-recognition":
        add_transcriptions(app, Batcher(transcribe, options.batch))
        return
    batcher = Batcher(lambda pictures: list(model(pictures)), options.batch)
    encoders = {Image.Image: encode_picture, torch.Tensor: torch.Tensor.tolist}

    @app.post("/v1/predictions")
    async def predict(file: UploadFile) -> Any:
        try:
            picture = Image.open(io.BytesIO(await file.read())).convert("RGB")
        except OSError as failure:
            raise HTTPException(400, f"The file is no picture that can be read: {failure}") from failure
        (found,) = await batcher.results([picture])
        return JSONResponse(jsonable_encoder(found, custom_encoder=encoders))


def encode_picture(picture: Any) -> str:
    """A picture as PNG, or the frames of a video as animated WebP, in base64."""
    data = io.BytesIO()
    if isinstance(picture, list):
        picture[0].save(data, "WEBP", save_all=True, append_images=picture[1:], duration=FRAME_MS, loop=0)
    else:
        picture.save(data, "PNG")
    return base64.b64encode(data.getvalue()).decode()


def main() -> None:
    """Loads the model and serves it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=["speech", "pictures", "passes"])
    parser.add_argument("--model", required=True, help="repository of the Hugging Face hub, or a folder")
    parser.add_argument("--revision", help="branch, tag or commit of the repository")
    parser.add_argument("--batch", type=int, required=True, help="most samples of a batch")
    parser.add_argument("--compute-type", default="float16", help="speech: format of CTranslate2")
    parser.add_argument("--beams", type=int, default=5, help="speech: beams of the search")
    formats = ["bfloat16", "float16", "float32"]
    parser.add_argument("--format", default="bfloat16", choices=formats, help="pictures, passes: number format")
    parser.add_argument("--task", help="passes: task of the pipeline, which a repository states and a folder does not")
    parser.add_argument("--steps", type=int, default=30, help="pictures: denoising steps")
    parser.add_argument("--width", type=int, help="pictures: pixels; default: that of the pipeline")
    parser.add_argument("--height", type=int, help="pictures: pixels; default: that of the pipeline")
    parser.add_argument("--frames", type=int, help="pictures: frames of a video; default: those of the pipeline")
    parser.add_argument("--port", type=int, default=8000)
    options = parser.parse_args()
    app = FastAPI()
    {"speech": serve_speech, "pictures": serve_pictures, "passes": serve_passes}[options.kind](options, app)
    app.add_api_route("/health", lambda: {"status": "ready"})
    app.add_api_route("/v1/models", lambda: {"object": "list", "data": [{"id": options.model, "object": "model"}]})
    uvicorn.run(app, host="0.0.0.0", port=options.port)


if __name__ == "__main__":
    main()
