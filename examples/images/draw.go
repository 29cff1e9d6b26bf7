package main

import (
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"
)

// shapes tell whether a point is inside a shape around (0, 0) that is about one unit large.
var shapes = map[string]func(x, y float64) bool{
	"cross": func(x, y float64) bool {
		return max(x, -x) < 0.3 && max(y, -y) < 1 || max(y, -y) < 0.3 && max(x, -x) < 1
	},
	"disc":     func(x, y float64) bool { return float64(x*x)+float64(y*y) < 1 },
	"square":   func(x, y float64) bool { return max(x, -x, y, -y) < 0.85 },
	"triangle": func(x, y float64) bool { return y < 0.8 && max(x, -x) < float64((y+1)*0.55) },
}

// draw writes a folder of pictures with one shape each, of any colour, size and place, on a darker, noisy ground, and
// returns its path. The files are dated, so that a resumed run takes them for those it had.
func draw(dir string, size int, seed uint64) (string, error) {
	folder := filepath.Join(dir, "shapes")
	day := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, name := range []string{"cross", "disc", "square", "triangle"} {
		if err := os.MkdirAll(filepath.Join(folder, name), 0o777); err != nil {
			return "", err
		}
		r := rand.New(rand.NewPCG(seed, uint64(name[0])))
		for i := range 125 {
			path := filepath.Join(folder, name, fmt.Sprintf("%03d.png", i))
			file, err := os.Create(path)
			if err != nil {
				return "", err
			}
			err = png.Encode(file, picture(r, size, shapes[name]))
			if err = errors.Join(err, file.Close(), os.Chtimes(path, day, day)); err != nil {
				return "", err
			}
		}
	}
	return folder, nil
}

// picture is one with a shape.
func picture(r *rand.Rand, size int, inside func(x, y float64) bool) image.Image {
	img := image.NewRGBA(image.Rect(0, 0, size, size))
	half := float64(size) / 2
	radius := float64(half * (0.45 + float64(0.35*r.Float64())))
	cx, cy := half+float64((r.Float64()-0.5)*(half-radius)), half+float64((r.Float64()-0.5)*(half-radius))
	var ground, front [3]int
	for c := range ground {
		ground[c] = r.IntN(90)
		front[c] = ground[c] + 80 + r.IntN(80)
	}
	for y := range size {
		for x := range size {
			p := ground
			if inside((float64(x)+0.5-cx)/radius, (float64(y)+0.5-cy)/radius) {
				p = front
			}
			level := func(c int) uint8 { return uint8(min(max(p[c]+r.IntN(41)-20, 0), 255)) }
			img.SetRGBA(x, y, color.RGBA{level(0), level(1), level(2), 255})
		}
	}
	return img
}
