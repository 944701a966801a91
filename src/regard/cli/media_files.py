"""Read picture files and moving pictures, as the input of a model."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from regard.errors import InputError, import_extra
from regard.tracing.media.picture_file import pictures_in_file


def media_arguments(images: Sequence[Path], video: Path | None, audio: Path | None) -> dict[str, Any]:
    """Return pictures, a video or a recording as arguments of `regard.trace`; `audio` stays a path to a WAV file."""
    if sum(map(bool, (images, video, audio))) > 1:
        raise InputError("--image, --video and --audio cannot be read together; give one of them.")
    if images:
        return {"images": [read_picture(path) for path in images]}
    if video is not None:
        return {"video": read_frames(video), "fps": frames_per_second(video)}
    return {} if audio is None else {"audio": audio}


def read_picture(path: Path) -> Any:
    return pictures_in_file(path, n_most=1)[0]


def read_frames(path: Path) -> list[Any]:
    """Return the frames of a moving picture (GIF, WebP or APNG) as images of Pillow."""
    advice = "write a video as frames with: ffmpeg -i FILE -vf fps=2 clip.gif"
    try:
        frames = pictures_in_file(path)
    except InputError as error:
        raise InputError(f"{str(error).removesuffix('.')}; {advice}.") from error
    if len(frames) < 2:
        raise InputError(f"{path} is a picture without movement; give it with --image, or {advice}.")
    return frames


def frames_per_second(path: Path) -> float | None:
    """Return the frames per second of a moving picture; None if the frames have different or unknown durations."""
    pillow, sequence = import_extra("PIL.Image", "huggingface"), import_extra("PIL.ImageSequence", "huggingface")
    with pillow.open(path) as picture:
        durations = set[float]()
        for frame in sequence.Iterator(picture):
            frame.load()  # a frame of a WebP file has its duration only afterwards
            durations.add(frame.info.get("duration", 0))
    if len(durations) > 1:
        return None
    milliseconds = durations.pop()
    return 1000 / milliseconds if milliseconds else None
