"""A bar on a terminal while a large tree is sent."""

from __future__ import annotations

import shutil
import sys
import time
from typing import Optional, TextIO

from .types import UploadProgress

LARGE_BYTES = 32 << 20
LARGE_FILES = 5000
INTERVAL = 0.1  # seconds between two drawings


class ProgressBar:
    """Draws how far an upload has come on one line, and removes the line at the end."""

    def __init__(self, label: str, stream: Optional[TextIO] = None) -> None:
        self.label = label
        self.stream = stream or sys.stderr
        self.drawn_at = 0.0
        self.width = 0

    @staticmethod
    def is_wanted(total_files: int, total_bytes: int) -> bool:
        """Whether somebody is there to look, and it lasts long enough to look at."""
        try:
            return (total_bytes >= LARGE_BYTES or total_files >= LARGE_FILES) and sys.stderr.isatty()
        except (AttributeError, ValueError):
            return False

    def __call__(self, progress: UploadProgress) -> None:
        now = time.monotonic()
        if now - self.drawn_at < INTERVAL:
            return
        self.drawn_at = now
        done = progress.bytes / progress.total_bytes if progress.total_bytes else progress.files / max(progress.total_files, 1)
        tail = f" {done:4.0%} {progress.files}/{progress.total_files} files"
        room = max(shutil.get_terminal_size().columns - len(self.label) - len(tail) - 5, 5)
        line = f"{self.label} [{'#' * int(done * room):{room}}]{tail}"
        self.width = len(line)
        self.write(f"\r{line}")

    def close(self) -> None:
        """Takes the bar away."""
        if self.width:
            self.write("\r" + " " * self.width + "\r")
            self.width = 0

    def write(self, text: str) -> None:
        try:
            self.stream.write(text)
            self.stream.flush()
        except (OSError, ValueError):
            pass  # whoever closed the terminal still wants the upload
