"""Packs the node tests of ONNX: internal/testing/onnx/testdata/node.tar.gz.

They come from Debian 12's package libonnx-testdata (ONNX 1.12, Expat licence):

    apt-get download libonnx-testdata && dpkg-deb -x libonnx-testdata_*.deb build/onnx
    python3 scripts/goldens/onnx.py build/onnx

Files with the same bytes are stored once, as hard links.
"""

import gzip
import hashlib
import io
import os
import sys
import tarfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def main():
    folder = os.path.join(sys.argv[1], "usr/share/libonnx-testdata/data/node")
    paths = sorted(
        os.path.relpath(os.path.join(at, name), folder) for at, _, names in os.walk(folder) for name in names
    )
    first = {}
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for path in paths:
            with open(os.path.join(folder, path), "rb") as f:
                data = f.read()
            info = tarfile.TarInfo(path)
            original = first.setdefault(hashlib.sha256(data).digest(), path)
            if original == path:
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))
            else:
                info.type, info.linkname = tarfile.LNKTYPE, original
                archive.addfile(info)
    target = os.path.join(ROOT, "internal/testing/onnx/testdata/node.tar.gz")
    with open(target, "wb") as f, gzip.GzipFile(fileobj=f, mode="wb", compresslevel=9, mtime=0, filename="") as z:
        z.write(out.getvalue())
    print(f"{len(paths)} files, {len(first)} different, {os.path.getsize(target)} bytes")


if __name__ == "__main__":
    main()
