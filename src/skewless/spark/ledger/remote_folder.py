"""A folder on any other filesystem that pyarrow reaches, such as S3, GCS or HDFS.

S3 and GCS show a file when its upload is complete. On other filesystems, the complete file is moved
into place. In both cases, a second writer at the same moment replaces the first. So two tasks that
create the same file must write the same content.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from pyarrow import fs

from skewless.spark.ledger.local_folder import naming_the_folder, unfinished_name

#: These show a file when its upload is complete, and not before.
_SHOWN_WHEN_COMPLETE = ("s3", "gcs")


class RemoteFolder:
    """A folder on any other filesystem that pyarrow reaches."""

    def __init__(self, filesystem: Any, root: str, place: str) -> None:
        """Point to `root` on a pyarrow filesystem; messages call it `place`."""
        self.filesystem = filesystem
        self.root = root.rstrip("/")
        self.place = place

    def read(self, name: str, last: int | None = None) -> bytes | None:
        """See `LocalFolder`."""
        path = self._path(name)
        try:
            if last is not None:
                with self.filesystem.open_input_file(path) as file:
                    n_bytes = min(last, file.size())
                    return bytes(file.read_at(n_bytes, file.size() - n_bytes))
            with self.filesystem.open_input_stream(path) as stream:
                return bytes(stream.read())
        except FileNotFoundError:
            return None
        except OSError:
            if self._is_there(path):
                raise
            return None

    def create(self, name: str, data: bytes) -> bytes:
        """See `LocalFolder`."""
        there = self.read(name)
        if there is not None:
            return there
        self.overwrite(name, data)
        # Another task may have written since; the content that all tasks will read counts.
        there = self.read(name)
        return data if there is None else there

    def overwrite(self, name: str, data: bytes) -> None:
        """See `LocalFolder`."""
        with naming_the_folder(self.place):
            if self.filesystem.type_name in _SHOWN_WHEN_COMPLETE:
                self._upload(name, data)
                return
            unfinished = unfinished_name(name)
            self.filesystem.create_dir(self._path(name).rpartition("/")[0], recursive=True)
            try:
                self._upload(unfinished, data)
                self.filesystem.move(self._path(unfinished), self._path(name))
            except OSError:
                with contextlib.suppress(OSError):
                    self.delete(unfinished)
                raise

    def files(self, under: str) -> list[str]:
        """See `LocalFolder`."""
        return self._list(under, fs.FileType.File)

    def folders(self, under: str) -> list[str]:
        """See `LocalFolder`."""
        return self._list(under, fs.FileType.Directory)

    def delete(self, name: str) -> None:
        """See `LocalFolder`."""
        self._delete(self.filesystem.delete_file, self._path(name))

    def delete_folder(self, name: str) -> None:
        """See `LocalFolder`."""
        self._delete(self.filesystem.delete_dir, self._path(name))

    def _delete(self, delete: Callable[[str], None], path: str) -> None:
        try:
            delete(path)
        except OSError:
            if self._is_there(path):
                raise

    def seconds_since_written(self, name: str) -> float:
        """See `LocalFolder`."""
        written = self.filesystem.get_file_info(self._path(name)).mtime
        return 0.0 if written is None else time.time() - written.timestamp()

    def _path(self, name: str) -> str:
        return f"{self.root}/{name}".rstrip("/")

    def _is_there(self, path: str) -> bool:
        return bool(self.filesystem.get_file_info(path).type != fs.FileType.NotFound)

    def _list(self, under: str, kind: Any) -> list[str]:
        where = fs.FileSelector(self._path(under), allow_not_found=True)
        found = self.filesystem.get_file_info(where)
        names = sorted(one.base_name for one in found if one.type == kind)
        return [f"{under}/{name}".lstrip("/") for name in names]

    def _upload(self, name: str, data: bytes) -> None:
        # No `with`: after a failed write, it would complete a partial upload.
        stream = self.filesystem.open_output_stream(self._path(name), compression=None)
        stream.write(pa.py_buffer(data))
        stream.close()
