"""Archives of which the same commit gives the same bytes: sorted, owned by root, with the time of the commit."""

import gzip
import hashlib
import io
import tarfile

from .common import build_time


def tar_entry(name, data, mode=0o644):
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode, entry.mtime = len(data), mode, build_time()
    return entry, io.BytesIO(data)


def write_tar_gz(file, entries):
    """Writes `entries`: a dict of the name in the archive to (bytes, mode)."""
    with open(file, "wb") as raw, gzip.GzipFile(filename="", fileobj=raw, mode="wb", mtime=build_time()) as packed:
        with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as tar:
            for name in sorted(entries):
                tar.addfile(*tar_entry(name, *entries[name]))
    return file


def folder_entries(folder, prefix):
    """The files below a folder, as entries of an archive. Programs stay executable."""
    found = {}
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            name = file.relative_to(folder).as_posix()
            found[f"{prefix}/{name}"] = (file.read_bytes(), 0o755 if file.stat().st_mode & 0o100 else 0o644)
    return found


def sha256(file):
    return hashlib.sha256(file.read_bytes()).hexdigest()


def write_checksums(folder):
    """SHA256SUMS over the folder's files, as `sha256sum --check` reads it."""
    files = sorted(file for file in folder.iterdir() if file.is_file() and file.name != "SHA256SUMS")
    lines = [f"{sha256(file)}  {file.name}\n" for file in files]
    (folder / "SHA256SUMS").write_text("".join(lines))
