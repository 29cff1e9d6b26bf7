package pool

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/weft-ml/weft/kernels"
)

// outOfMemory counts and describes a failed request.
func (p *Pool) outOfMemory(n, released int, cause error) error {
	p.mu.Lock()
	p.stats.OOMs++
	s := p.stats
	holders := p.largest(5)
	p.mu.Unlock()
	var text strings.Builder
	fmt.Fprintf(&text, "%s requested; %s live, of which %s kept; %s reserved, of which %s cached", inBytes(n),
		inBytes(s.Allocated), inBytes(s.Kept), inBytes(s.Reserved), inBytes(s.Inactive))
	if s.Limit > 0 {
		fmt.Fprintf(&text, "; limit %s", inBytes(s.Limit))
	}
	if d, ok := p.src.(kernels.Sizer); ok && !p.frozen.Load() {
		fmt.Fprintf(&text, "; the device has %s free", Bytes(d.FreeMemory()))
	}
	if released > 0 {
		fmt.Fprintf(&text, "; %s of cache given back did not help", inBytes(released))
	}
	if errors.Is(cause, errFrozen) {
		fmt.Fprintf(&text, "; %v", cause)
	} else if cause != nil && !errors.Is(cause, errLimit) {
		fmt.Fprintf(&text, "; the device says: %v", cause)
	}
	if len(holders) > 0 {
		fmt.Fprintf(&text, "; largest: %s", strings.Join(holders, ", "))
	}
	return kernels.Errorf(kernels.ErrMemory, "alloc", "%s", text.String())
}

// largest describes the largest live blocks, those that are alike together. mu is held.
func (p *Pool) largest(n int) (holders []string) {
	type like struct {
		size int
		use  kernels.MemoryCategory
		what string
	}
	count := map[like]int{}
	for b := range p.live() {
		count[like{b.size, b.owner.Use, b.owner.String()}]++
	}
	all := slices.SortedFunc(maps.Keys(count), func(a, b like) int {
		return cmp.Or(cmp.Compare(b.size*count[b], a.size*count[a]), cmp.Compare(a.what, b.what), int(a.use)-int(b.use))
	})
	for _, x := range all[:min(n, len(all))] {
		times := ""
		if c := count[x]; c > 1 {
			times = fmt.Sprintf("%d x ", c)
		}
		text := fmt.Sprintf("%s%s of %v %s", times, Bytes(x.size), x.use, x.what)
		holders = append(holders, strings.TrimSpace(text))
	}
	return holders
}

// String says what a block is: "float32[16 64] gelu at main.go:23 in blocks.0/mlp".
func (o Owner) String() string {
	text := o.Op
	if o.What != nil {
		text = strings.TrimSpace(o.What.String() + " " + text)
	}
	if o.Site != "" {
		text += " at " + o.Site
	}
	if layer := o.layer(); layer != "" {
		text += " in " + layer
	}
	return text
}

func (o Owner) layer() string {
	if o.Layer == nil {
		return ""
	}
	return o.Layer.String()
}

// live are the blocks that tensors have. mu is held.
func (p *Pool) live() iter.Seq[*Block] {
	return func(yield func(*Block) bool) {
		for _, c := range p.caches {
			for _, s := range c.segments {
				for b := s.first; b != nil; b = b.after {
					if (b.state == live || b.state == kept) && !yield(b) {
						return
					}
				}
			}
		}
	}
}

// inBytes is Bytes with the exact number: "1.50 GiB (1610612736 bytes)".
func inBytes(n int) string {
	if n < 1024 {
		return Bytes(n)
	}
	return fmt.Sprintf("%s (%d bytes)", Bytes(n), n)
}

// Bytes formats a number of bytes for people: "1.50 GiB".
func Bytes(n int) string {
	const units = "KMGTPE"
	if n < 1024 {
		return fmt.Sprintf("%d bytes", n)
	}
	v, u := float64(n)/1024, 0
	for v >= 1024 && u < len(units)-1 {
		v /= 1024
		u++
	}
	return fmt.Sprintf("%.2f %ciB", v, units[u])
}
