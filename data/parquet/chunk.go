package parquet

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"sort"
	"sync"
	"sync/atomic"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go/format"
	"github.com/pierrec/lz4/v4"
)

const (
	maxValues = 1 << 22  // of a page
	maxPage   = 96 << 20 // bytes of a page, unpacked, beside its size in the file
	maxHeader = 1 << 20  // bytes of the header of a page

	plainDictionary format.Encoding = 2 // older writers' name of Plain in dictionaries, RLEDictionary in other pages
)

// chunk is the values of a column in a row group.
type chunk struct {
	*file
	leaf     *leaf
	codec    format.CompressionCodec
	from, to int64 // bytes in the file
	values   int64
	rows     int

	lock   sync.Mutex // while pages are looked for and read
	pages  atomic.Pointer[[]page]
	dictAt int64 // of the dictionary's page in the file; 0: there is none

	dict  *values // of the pages that are kept; the cache's lock guards it
	users int     // how many of these there are
}

// page is a page, or those of a column of lists which no row begins or ends between.
type page struct {
	from, to int64 // bytes in the file
	first    int   // row of the row group
	rows     int
	kept     atomic.Pointer[block]
}

// block is an unpacked page.
type block struct {
	first int          // row of the row group
	start []int32      // value with which each row begins, and the number of values; nil: each row has one
	holes map[int]bool // rows with a list in which values are missing
	parts []part
	dict  *values
	bytes int64
	used  atomic.Bool // since the cache looked for one to drop
}

// part is the values of a page, of which the first one has a number.
type part struct {
	first int
	*values
}

// at is the block that a row is in.
func (c *chunk) at(row int) (*block, error) {
	pages := c.pages.Load()
	if pages == nil {
		c.lock.Lock()
		err := c.find()
		c.lock.Unlock()
		if err != nil {
			return nil, err
		}
		pages = c.pages.Load()
	}
	all := *pages
	p := &all[sort.Search(len(all), func(i int) bool { return all[i].first+all[i].rows > row })]
	b := p.kept.Load()
	if b == nil {
		c.lock.Lock()
		defer c.lock.Unlock()
		if b = p.kept.Load(); b == nil { // nobody else was quicker
			var err error
			if b, err = c.unpack(p); err != nil {
				return nil, err
			}
			c.cache.keep(c, p, b)
		}
	}
	if !b.used.Load() {
		b.used.Store(true)
	}
	return b, nil
}

// header reads the header of the page at an offset, and tells where its bytes are.
func (c *chunk) header(at int64) (h format.PageHeader, from, to int64, err error) {
	for n := int64(256); ; n *= 8 {
		buf := make([]byte, min(n, c.to-at))
		if err := c.read(buf, at, c.what()); err != nil {
			return h, 0, 0, err
		}
		budget := int64(maxHeader)
		used, err := decode(buf, &h, &budget)
		if errors.Is(err, io.ErrUnexpectedEOF) && n < maxHeader && n < c.to-at {
			continue
		}
		if err != nil {
			return h, 0, 0, c.damage(at, "the header of a page", err)
		}
		from, to = at+int64(used), at+int64(used)+int64(h.CompressedPageSize)
		unpacked := int64(h.UncompressedPageSize)
		if to < from || to > c.to || unpacked < 0 || unpacked > to-from+maxPage {
			return h, 0, 0, c.damage(at, "a size of the page that fits the file and the limit of 96 MiB",
				fmt.Errorf("%d bytes, %d unpacked, where %d are left", h.CompressedPageSize, unpacked, c.to-from))
		}
		return h, from, to, nil
	}
}

func (c *chunk) what() string { return fmt.Sprintf("column %.60q", c.leaf.path) }

// damage is the error of a page.
func (c *chunk) damage(at int64, want string, err error) error {
	return c.bad(at, c.what(), "damage", want, err)
}

// find notes all pages.
func (c *chunk) find() error {
	if c.pages.Load() != nil {
		return nil
	}
	pages := []page{}
	values, row, dictAt := int64(0), 0, int64(0)
	for at := c.from; at < c.to && values < c.values; {
		h, from, to, err := c.header(at)
		if err != nil {
			return err
		}
		n := 0 // values
		switch h.Type {
		case format.DictionaryPage:
			if dictAt != 0 {
				return c.damage(at, "one dictionary", nil)
			}
			dictAt = at
		case format.DataPage:
			n = int(h.DataPageHeader.V.NumValues)
		case format.DataPageV2:
			n = int(h.DataPageHeaderV2.V.NumValues)
		}
		if n < 0 || n > maxValues || int64(n) > c.values-values {
			return c.damage(at, fmt.Sprintf("at most %d values, %d in a page", c.values-values, maxValues),
				fmt.Errorf("a page of %d", n))
		}
		if n > 0 {
			rows, begins := n, true
			if c.leaf.maxRep > 0 {
				d, err := c.data(at, h, from, to, true)
				if err != nil {
					return err
				}
				rows, begins = 0, d.rep[0] == 0
				for _, r := range d.rep {
					if r == 0 {
						rows++
					}
				}
			}
			switch last := len(pages) - 1; {
			case begins:
				pages = append(pages, page{from: at, first: row})
			case last < 0:
				return c.damage(at, "the beginning of a row", nil)
			}
			p := &pages[len(pages)-1]
			p.to, p.rows = to, p.rows+rows
			row += rows
		}
		values += int64(n)
		at = to
	}
	if values != c.values || row != c.rows {
		return c.damage(c.from, fmt.Sprintf("%d values in %d rows", c.values, c.rows),
			fmt.Errorf("%d values in %d rows", values, row))
	}
	c.dictAt = dictAt
	c.pages.Store(&pages)
	return nil
}

// content is a page, unpacked.
type content struct {
	n        int // values, and places where there is none
	rep, def []uint8
	data     []byte // of the values
	encoding format.Encoding
}

// data unpacks a data page. If only the repetition levels are asked for, it may leave out the rest.
func (c *chunk) data(at int64, h format.PageHeader, from, to int64, repOnly bool) (d content, err error) {
	packed := make([]byte, to-from)
	if err := c.read(packed, from, c.what()); err != nil {
		return d, err
	}
	fail := func(err error) (content, error) { return d, c.damage(at, "a page", err) }
	if h.CRC != 0 && uint32(h.CRC) != crc32.ChecksumIEEE(packed) {
		return fail(errors.New("another checksum"))
	}
	if h.Type == format.DataPageV2 {
		v := h.DataPageHeaderV2.V
		d.n, d.encoding = int(v.NumValues), v.Encoding
		rep, def := int(v.RepetitionLevelsByteLength), int(v.DefinitionLevelsByteLength)
		if rep < 0 || def < 0 || rep > len(packed) || def > len(packed)-rep || int(h.UncompressedPageSize) < rep+def {
			return fail(fmt.Errorf("levels of %d and %d bytes", rep, def))
		}
		if d.rep, err = levels(packed[:rep], c.leaf.maxRep, d.n); err != nil {
			return fail(err)
		}
		if repOnly {
			return d, nil
		}
		if def > 0 || v.NumNulls > 0 || c.leaf.maxRep > 0 { // else nothing is missing
			if d.def, err = levels(packed[rep:rep+def], c.leaf.maxDef, d.n); err != nil {
				return fail(err)
			}
		}
		d.data = packed[rep+def:]
		if !v.IsCompressed.Valid || v.IsCompressed.V {
			if d.data, err = unpack(c.codec, d.data, int(h.UncompressedPageSize)-rep-def); err != nil {
				return fail(err)
			}
		}
		return d, nil
	}
	v := h.DataPageHeader.V
	d.n, d.encoding = int(v.NumValues), v.Encoding
	if d.data, err = unpack(c.codec, packed, int(h.UncompressedPageSize)); err != nil {
		return fail(err)
	}
	for _, l := range []struct {
		to       *[]uint8
		most     int
		encoding format.Encoding
	}{{&d.rep, c.leaf.maxRep, v.RepetitionLevelEncoding}, {&d.def, c.leaf.maxDef, v.DefinitionLevelEncoding}} {
		if l.most == 0 {
			continue
		}
		if l.encoding != format.RLE {
			return fail(fmt.Errorf("levels by %v", l.encoding))
		}
		var b []byte
		if b, d.data, err = prefixed(d.data); err != nil {
			return fail(err)
		}
		if *l.to, err = levels(b, l.most, d.n); err != nil {
			return fail(err)
		}
	}
	return d, nil
}

// unpack unpacks a page and what it refers to. The lock is held.
func (c *chunk) unpack(p *page) (*block, error) {
	b := &block{first: p.first, holes: map[int]bool{}}
	count, row := 0, -1
	for at := p.from; at < p.to; {
		h, from, to, err := c.header(at)
		if err != nil {
			return nil, err
		}
		if h.Type != format.DataPage && h.Type != format.DataPageV2 {
			at = to
			continue
		}
		d, err := c.data(at, h, from, to, false)
		if err != nil {
			return nil, err
		}
		n := d.n
		if d.def != nil {
			n = 0
			for _, level := range d.def {
				if int(level) == c.leaf.maxDef {
					n++
				}
			}
		}
		if n < d.n || c.leaf.maxRep > 0 {
			b.start = slices.Grow(b.start, d.n+1)
			k := count
			for i := range d.n {
				if c.leaf.maxRep == 0 || d.rep[i] == 0 {
					b.start = append(b.start, int32(k))
					row++
				}
				if level := int(d.def[i]); level == c.leaf.maxDef {
					k++
				} else if c.leaf.maxRep > 0 && level >= c.leaf.listDef {
					b.holes[row] = true
				}
			}
		}
		v, err := c.decode(at, d, n)
		if err != nil {
			return nil, err
		}
		if v.dict != nil {
			b.dict = v.dict
		}
		b.parts = append(b.parts, part{count, v})
		b.bytes += v.bytes()
		count += n
		at = to
	}
	if b.start != nil {
		b.start = append(b.start, int32(count))
		b.bytes += int64(4 * cap(b.start))
	}
	return b, nil
}

// decode reads the values of a page, its dictionary before, if it has one.
func (c *chunk) decode(at int64, d content, n int) (*values, error) {
	if d.encoding != plainDictionary && d.encoding != format.RLEDictionary {
		v, err := decodeValues(c.leaf, d.encoding, d.data, n)
		if err != nil {
			return nil, c.damage(at, fmt.Sprintf("%d values of type %v by %v", n, c.leaf.kind, d.encoding), err)
		}
		return v, nil
	}
	c.cache.lock.Lock()
	dict := c.dict
	c.cache.lock.Unlock()
	if dict == nil {
		var err error
		if dict, err = c.dictionary(at); err != nil {
			return nil, err
		}
	}
	if len(d.data) == 0 {
		if n > 0 {
			return nil, c.damage(at, "a page", io.ErrUnexpectedEOF)
		}
		return &values{dict: dict, index: []int32{}}, nil
	}
	index, err := hybrid[int32](d.data[1:], int(d.data[0]), n)
	if err != nil {
		return nil, c.damage(at, "numbers of values in the dictionary", err)
	}
	for _, i := range index {
		if uint32(i) >= uint32(dict.n) {
			return nil, c.damage(at, fmt.Sprintf("a value below %d of the dictionary", dict.n),
				fmt.Errorf("value %d", i))
		}
	}
	return &values{n: n, index: index, dict: dict}, nil
}

// dictionary reads the dictionary, for a page at an offset.
func (c *chunk) dictionary(page int64) (*values, error) {
	if c.dictAt == 0 {
		return nil, c.damage(page, "a dictionary", errors.New("there is none"))
	}
	h, from, to, err := c.header(c.dictAt)
	if err != nil {
		return nil, err
	}
	n, encoding := int(h.DictionaryPageHeader.V.NumValues), h.DictionaryPageHeader.V.Encoding
	if h.Type != format.DictionaryPage || n < 0 || n > maxValues ||
		encoding != format.Plain && encoding != plainDictionary {
		return nil, c.damage(c.dictAt, fmt.Sprintf("a dictionary of at most %d values", maxValues),
			fmt.Errorf("%d by %v", n, encoding))
	}
	packed := make([]byte, to-from)
	if err := c.read(packed, from, c.what()); err != nil {
		return nil, err
	}
	if h.CRC != 0 && uint32(h.CRC) != crc32.ChecksumIEEE(packed) {
		return nil, c.damage(c.dictAt, "a page", errors.New("another checksum"))
	}
	content, err := unpack(c.codec, packed, int(h.UncompressedPageSize))
	if err != nil {
		return nil, c.damage(c.dictAt, "a page", err)
	}
	v, err := decodeValues(c.leaf, format.Plain, content, n)
	if err != nil {
		return nil, c.damage(c.dictAt, fmt.Sprintf("%d values of type %v", n, c.leaf.kind), err)
	}
	return v, nil
}

// zstdDecoder unpacks in the goroutine that calls it.
var zstdDecoder = sync.OnceValue(func() *zstd.Decoder {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecodeAllCapLimit(true))
	if err != nil {
		panic(err)
	}
	return d
})

// unpack unpacks what becomes n bytes.
func unpack(codec format.CompressionCodec, packed []byte, n int) (out []byte, err error) {
	defer damaged(&err) // the decompressors are not ours
	switch codec {
	case format.Uncompressed:
		out = packed
	case format.Snappy:
		var size int
		if size, err = snappy.DecodedLen(packed); err == nil && size == n { // it takes as much memory as the data say
			out, err = snappy.Decode(make([]byte, n), packed)
		}
	case format.Zstd:
		out, err = zstdDecoder().DecodeAll(packed, make([]byte, 0, n))
	case format.Gzip:
		var r io.Reader
		if r, err = gzip.NewReader(bytes.NewReader(packed)); err == nil {
			out, err = exactly(r, n)
		}
	case format.Brotli:
		out, err = exactly(brotli.NewReader(bytes.NewReader(packed)), n)
	case format.Lz4Raw:
		out = make([]byte, n)
		var got int
		if got, err = lz4.UncompressBlock(packed, out); err == nil {
			out = out[:got]
		}
	default:
		return nil, fmt.Errorf("compression %v", codec)
	}
	if err == nil && len(out) != n {
		err = fmt.Errorf("%d bytes, want %d", len(out), n)
	}
	return out, err
}

// exactly reads n bytes, with which r ends.
func exactly(r io.Reader, n int) ([]byte, error) {
	out := make([]byte, n)
	if _, err := io.ReadFull(r, out); err != nil {
		return nil, err
	}
	if more, err := r.Read(make([]byte, 1)); more > 0 || err != io.EOF {
		return nil, errors.Join(fmt.Errorf("more than %d bytes", n), err)
	}
	return out, nil
}

// cache is the pages that are kept.
type cache struct {
	lock        sync.Mutex
	limit, used int64 // bytes
	pages       []kept
	next        int // to look at
}

type kept struct {
	*chunk
	*page
}

// keep keeps a block, and drops others that were not used for a while.
func (m *cache) keep(c *chunk, p *page, b *block) {
	m.lock.Lock()
	defer m.lock.Unlock()
	if b.dict != nil {
		if c.users++; c.users == 1 {
			c.dict = b.dict
			m.used += c.dict.bytes()
		}
	}
	m.used += b.bytes
	p.kept.Store(b)
	for m.used > m.limit && len(m.pages) > 0 {
		m.next %= len(m.pages)
		k := m.pages[m.next]
		old := k.kept.Load()
		if old.used.Swap(false) {
			m.next++
			continue
		}
		m.pages[m.next] = m.pages[len(m.pages)-1]
		m.pages = m.pages[:len(m.pages)-1]
		k.kept.Store(nil)
		m.used -= old.bytes
		if old.dict != nil {
			if k.users--; k.users == 0 {
				m.used -= k.dict.bytes()
				k.dict = nil
			}
		}
	}
	m.pages = append(m.pages, kept{c, p})
}
