"""Small pictures in all formats for data, and their pixels as Pillow has them.

    data/testdata/pictures/CLASS/NAME.EXT   files of Pillow
    data/testdata/pictures.json             by file: width, height, RGB in base64; and one picture in other sizes

Run: python3 scripts/goldens/pictures.py, with Pillow 13.0 and NumPy 2.4
"""

import base64
import json
import os

import numpy as np
from PIL import Image

DIR = os.path.join(os.path.dirname(__file__), "../../data/testdata")
WIDTH, HEIGHT = 13, 9


def smooth(w, h):
    """A picture without edges, so that what is lost in compression is little."""
    y, x = np.mgrid[0:h, 0:w]
    return np.stack([20 + 200 * x / w, 40 + 150 * y / h, 128 + 100 * np.sin(x / 5.0) * np.cos(y / 4.0)], -1).astype(np.uint8)


def pixels(image):
    image = image.convert("RGB")
    return {"width": image.width, "height": image.height, "rgb": base64.b64encode(image.tobytes()).decode()}


def main():
    rng = np.random.default_rng(1)
    rgb = Image.fromarray(rng.integers(0, 256, (HEIGHT, WIDTH, 3), dtype=np.uint8))
    alpha = Image.fromarray(rng.integers(1, 256, (HEIGHT, WIDTH, 4), dtype=np.uint8))
    grey = rgb.convert("L")
    palette = rgb.quantize(16)
    files = {
        "exact/rgb.png": (rgb, {}), "exact/alpha.png": (alpha, {}), "exact/grey.png": (grey, {}),
        "exact/palette.png": (palette, {}), "exact/bits.png": (rgb.convert("1"), {}),
        "exact/palette.gif": (palette, {}), "exact/rgb.bmp": (rgb, {}), "exact/grey.bmp": (grey, {}),
        "exact/rgb.tiff": (rgb, {}), "exact/deflate.tif": (rgb, {"compression": "tiff_deflate"}),
        "exact/lzw.tif": (grey, {"compression": "tiff_lzw"}), "exact/rgb.webp": (rgb, {"lossless": True}),
        "exact/alpha.webp": (alpha, {"lossless": True, "exact": True}),
        "lossy/full.jpg": (Image.fromarray(smooth(WIDTH, HEIGHT)), {"quality": 95, "subsampling": 0}),
        "lossy/half.JPEG": (Image.fromarray(smooth(40, 24)), {"quality": 95}),
        "lossy/progressive.jpg": (Image.fromarray(smooth(40, 24)), {"quality": 95, "progressive": True}),
        "lossy/grey.jpg": (Image.fromarray(smooth(40, 24)).convert("L"), {"quality": 95}),
        "lossy/cmyk.jpg": (Image.fromarray(smooth(40, 24)).convert("CMYK"), {"quality": 95}),
        "lossy/lossy.webp": (Image.fromarray(smooth(40, 24)), {"quality": 95}),
    }
    want = {}
    for name, (image, options) in files.items():
        path = os.path.join(DIR, "pictures", name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        image.save(path, **options)
        want[name] = pixels(Image.open(path))
    base = Image.fromarray(rng.integers(0, 256, (23, 37, 3), dtype=np.uint8))
    sizes = [(37, 23), (5, 7), (12, 23), (37, 4), (80, 61), (1, 1), (36, 24), (100, 3), (18, 11), (36, 10), (20, 3)]
    resized = [pixels(base.resize(size, Image.Resampling.BILINEAR)) for size in sizes]
    # Pillow resizes the rows of this one first, though there is more than half of its width left.
    square = Image.fromarray(rng.integers(0, 256, (64, 64, 3), dtype=np.uint8))
    with open(os.path.join(DIR, "pictures.json"), "w") as f:
        json.dump({"files": want, "base": pixels(base), "resized": resized, "grey": pixels(base.convert("L")),
                   "square": pixels(square), "flat": pixels(square.resize((36, 3), Image.Resampling.BILINEAR))}, f, indent=0)
        f.write("\n")


main()
