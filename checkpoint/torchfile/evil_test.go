package torchfile

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/weft-ml/weft/checkpoint/safetensors"
)

// zipped is a file with a pickle, and pairs of names and contents of other entries.
func zipped(pickle string, more ...string) []byte {
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	entries := append([]string{"a/data.pkl", pickle, "a/data/0", "12345678"}, more...)
	for i := 0; i < len(entries); i += 2 {
		w, err := z.CreateRaw(&zip.FileHeader{Name: entries[i], CompressedSize64: uint64(len(entries[i+1])),
			UncompressedSize64: uint64(len(entries[i+1]))})
		if err == nil {
			_, err = io.WriteString(w, entries[i+1])
		}
		if err != nil {
			panic(err)
		}
	}
	if err := z.Close(); err != nil {
		panic(err)
	}
	return out.Bytes()
}

// Pieces of pickles.
const (
	begin = "\x80\x02"
	size2 = "K\x02\x85" // (2,)
	size1 = "K\x01\x85"
	// refStorage pushes a storage of two float32.
	refStorage = "(" + storageText + "ctorch\nFloatStorage\n" + "X\x01\x00\x00\x000" + cpuText + "K\x02tQ"
	// tensorName pushes the function that makes tensors.
	tensorName  = "ctorch._utils\n_rebuild_tensor_v2\n"
	storageText = "X\x07\x00\x00\x00storage"
	cpuText     = "X\x03\x00\x00\x00cpu"
	newDict     = "ccollections\nOrderedDict\n)R"
)

// tensorOf is a tensor of an offset, sizes and strides, given as instructions.
func tensorOf(storage, offset, sizes, strides string) string {
	return tensorName + "(" + storage + offset + sizes + strides + "\x89" + newDict + "tR"
}

// long8 pushes a number of eight bytes.
func long8(n int64) string {
	return "\x8a\x08" + string(binary.LittleEndian.AppendUint64(nil, uint64(n)))
}

// evilPickles says what is found in pickles that are wrong in one way each.
var evilPickles = map[string]struct{ pickle, found string }{
	"os.system":           {"cos\nsystem\nX\x04\x00\x00\x00exit\x85R.", `"os.system"`},
	"os.system, stacked":  {"\x8c\x02os\x8c\x06system\x93\x8c\x04exit\x85R.", `"os.system"`},
	"posix.system":        {"cposix\nsystem\n.", `"posix.system"`},
	"builtins.eval":       {"cbuiltins\neval\n.", `"builtins.eval"`},
	"__builtin__.getattr": {"c__builtin__\ngetattr\n.", `"__builtin__.getattr"`},
	"torch.load":          {"ctorch\nload\n.", `"torch.load"`},
	"runpy":               {"crunpy\n_run_code\n.", `"runpy._run_code"`},
	"a dotted name":       {"\x8c\x05torch\x8c\x0cSize.__new__\x93.", `"torch.Size.__new__"`},
	"a method":            {"ccollections\nOrderedDict.fromkeys\n.", `"collections.OrderedDict.fromkeys"`},
	"a quantised tensor":  {"ctorch._utils\n_rebuild_qtensor\n.", `"torch._utils._rebuild_qtensor"`},
	"a complex storage":   {"ctorch\nComplexDoubleStorage\n.", `"torch.ComplexDoubleStorage"`},
	"a long name":         {"c" + strings.Repeat("a", 1000) + "\nb\n.", "aaaa"},
	"a name without end":  {"cos", "its end"},
	"a name of numbers":   {"K\x01K\x02\x93.", "a number"},

	"NEWOBJ":              {newDict + ")\x81.", "the instruction NEWOBJ"},
	"INST":                {"(ios\nsystem\n.", "the instruction INST"},
	"OBJ":                 {"(o.", "the instruction OBJ"},
	"EXT1":                {"\x82\x01.", "the instruction EXT1"},
	"PERSID":              {"P0\n.", "the instruction PERSID"},
	"an unknown":          {"\xff.", "the instruction 0xff"},
	"protocol 1":          {"\x80\x01.", "protocol 1"},
	"protocol 6":          {"\x80\x06.", "protocol 6"},
	"no end":              {"N", "its end"},
	"nothing":             {"", "its end"},
	"no result":           {".", "0 objects on the stack"},
	"more after the end":  {"N.N", "1 bytes after its end"},
	"a cut number":        {"J\x01\x02", "its end"},
	"a long number":       {"\x8a\x09123456789.", "a number of 9 bytes"},
	"a text past the end": {"X\xff\xff\xff\xffabc.", "a text of 4294967295 bytes"},
	"a wrong text":        {"X\x02\x00\x00\x00\xc3\x28.", "the text"},
	"pop past a mark":     {"N(\x85.", "0 objects on the stack"},
	"no mark":             {"Nt.", "no mark on the stack"},
	"a memo of nothing":   {"q\x00.", "0 objects on the stack"},
	"an unknown memo":     {"h\x07.", "the memo 7"},

	"itself":              {"]q\x00h\x00a.", "containers that hold themselves"},
	"itself, by key":      {"}q\x00K\x01h\x00s.", "containers that hold themselves"},
	"deep":                {strings.Repeat("]", 70) + strings.Repeat("a", 69) + ".", "containers that hold themselves"},
	"a key twice":         {"}(K\x01NX\x01\x00\x00\x001Nu.", `"1" for a second time`},
	"a name twice":        {"}(\x8c\x03a.bK\x01\x8c\x01a}\x8c\x01bK\x02su.", `"a.b" for a second`},
	"a key of None":       {"}NNs.", "None"},
	"a key without value": {"}(Nu.", "1 objects"},
	"items of a list":     {"](NNu.", "a list"},
	"append to a dict":    {"}Na.", "a dictionary"},
	"attributes":          {newDict + "Nb.", "None"},
	"attributes of text":  {"X\x01\x00\x00\x00a}b.", `"a"`},
	"a negated tensor": {tensorName + "(" + refStorage + "K\x00))\x89" + newDict +
		"}\x8c\x03neg\x88stR.", "negated or conjugated"},
	"a function":     {"ctorch\nSize\n.", "a function"},
	"a lone storage": {refStorage + ".", "a storage"},

	"a call of a text":    {"X\x01\x00\x00\x00a)R.", `"a"`},
	"a call of a storage": {"ctorch\nFloatStorage\n)R.", "0 arguments"},
	"arguments in a list": {"ctorch\nSize\n]R.", "a list"},
	"a size of a number":  {"ctorch\nSize\nK\x01\x85R.", "a number"},
	"a filled dict":       {"ccollections\nOrderedDict\nN\x85R.", "1 arguments"},
	"a parameter of None": {"ctorch._utils\n_rebuild_parameter\nN\x89N\x87R.", "None"},
	"a tensor of nothing": {tensorName + ")R.", "0 arguments"},
	"a tensor of None":    {tensorOf("N", "K\x00", size2, size1) + ".", "None"},

	"past its storage":     {tensorOf(refStorage, "K\x01", size2, size1) + ".", "element 2 of a storage of 2"},
	"a far offset":         {tensorOf(refStorage, long8(1<<62), size2, size1) + ".", "element 4611686018427387905"},
	"a negative offset":    {tensorOf(refStorage, "J\xff\xff\xff\xff", size2, size1) + ".", "-1"},
	"a negative size":      {tensorOf(refStorage, "K\x00", "J\xff\xff\xff\xff\x85", size1) + ".", "-1"},
	"a negative stride":    {tensorOf(refStorage, "K\x00", size2, "J\xff\xff\xff\xff\x85") + ".", "-1"},
	"a far stride":         {tensorOf(refStorage, "K\x00", size2, long8(1<<62)+"\x85") + ".", "element 46116860184"},
	"a product of strides": {tensorOf(refStorage, "K\x00", "K\x09\x85", long8(1<<61)+"\x85") + ".", "up to 2^64"},
	"a sum of strides": {tensorOf(refStorage, "K\x00", "K\x03K\x03K\x03\x87",
		strings.Repeat(long8(1<<62), 3)+"\x87") + ".", "strides up to 2^64"},
	"a product of sizes": {tensorOf(refStorage, "K\x00", long8(1<<32)+long8(1<<32)+"\x86", "K\x00K\x00\x86") + ".",
		"no tensor of type F32"},
	"an expanded bomb": {tensorOf(refStorage, "K\x00", long8(1<<40)+"\x85", "K\x00\x85") + ".", "4398046511104 bytes"},
	"fewer strides":    {tensorOf(refStorage, "K\x00", size2, ")") + ".", "0 strides for 1 axes"},
	"a size of text":   {tensorOf(refStorage, "K\x00", "X\x01\x00\x00\x00a\x85", size1) + ".", `"a"`},
	"sizes of None":    {tensorOf(refStorage, "K\x00", "N", size1) + ".", "None"},
	"many axes":        {tensorOf(refStorage, "K\x00", "("+strings.Repeat("K\x01", 65)+"t", "(t") + ".", "65 axes"},

	"an id of None":     {"NQ.", "None"},
	"a short id":        {"(" + storageText + "tQ.", "1 objects"},
	"an id of a module": {"(X\x06\x00\x00\x00moduleNNNNtQ.", "5 objects"},
	"a type of text":    {"(" + storageText + "X\x01\x00\x00\x00aNNNtQ.", `"a"`},
	"no type":           {"(" + storageText + "ctorch\nSize\nX\x01\x00\x00\x000" + cpuText + "K\x02tQ.", "torch.Size"},
	"no such storage": {"(" + storageText + "ctorch\nFloatStorage\nX\x01\x00\x00\x001" + cpuText + "K\x02tQ.",
		`the key "1"`},
	"a longer storage": {"(" + storageText + "ctorch\nFloatStorage\nX\x01\x00\x00\x000" + cpuText + "K\x03tQ.",
		"3 elements of F32"},
	"a storage of 2^62": {"(" + storageText + "ctorch\nFloatStorage\n\x8c\x010" + cpuText + long8(1<<62) + "tQ.",
		"4611686018427387904 elements"},
	"a negative storage": {"(" + storageText + "ctorch\nFloatStorage\nX\x01\x00\x00\x000" + cpuText + long8(-2) + "tQ.",
		"-2"},
}

// refuses opens a file and compares the error.
func refuses(t *testing.T, name string, file []byte, found string) {
	t.Helper()
	f, err := Open(bytes.NewReader(file), int64(len(file)))
	var format *safetensors.FormatError
	if !errors.As(err, &format) || f != nil || !strings.Contains(format.Found, found) || format.Want == "" {
		t.Errorf("%s: error %v, want one that found %s", name, err, found)
	} else if len(err.Error()) > 400 || strings.Contains(err.Error(), "\n") {
		t.Errorf("%s: the message is %q", name, err)
	}
}

// TestEvilPickles runs pickles that are wrong in one way each, and one that is right.
func TestEvilPickles(t *testing.T) {
	for name, c := range evilPickles {
		refuses(t, name, zipped(begin+c.pickle), c.found)
	}
	right := zipped(begin + tensorOf(refStorage, "K\x00", size2, size1) + ".")
	if f, err := Open(bytes.NewReader(right), int64(len(right))); err != nil || f.Len() != 1 {
		t.Errorf("a right one: error %v", err)
	}
	t.Logf("%d pickles refused", len(evilPickles))
}

// TestEvilFiles opens containers that are wrong.
func TestEvilFiles(t *testing.T) {
	right := zipped(begin + "N.")
	patched := func(at int, with ...byte) []byte {
		file := bytes.Clone(right)
		copy(file[at:], with)
		return file
	}
	directory := bytes.Index(right, []byte("PK\x01\x02"))
	second := directory + 1 + bytes.Index(right[directory+1:], []byte("PK\x01\x02"))
	end := bytes.Index(right, []byte("PK\x05\x06"))
	tar := append(make([]byte, 257), "ustar\x0000"+strings.Repeat("\x00", 300)...)
	for name, c := range map[string]struct {
		file  []byte
		found string
	}{
		"empty":                 {nil, "no directory of a zip file at its end"},
		"eight bytes":           {[]byte("PK\x03\x04PK\x05\x06"), "no directory of a zip file at its end"},
		"cut":                   {right[:len(right)-1], "no directory of a zip file at its end"},
		"tar":                   {tar, "a tar file"},
		"a pickle":              {[]byte(begin + "N."), "a pickle without a container"},
		"another name":          {bytes.ReplaceAll(right, []byte("data."), []byte("date.")), "no FOLDER/data.pkl"},
		"two folders":           {zipped(begin+"N.", "b/x", ""), `"b/x"`},
		"a name twice":          {zipped(begin+"N.", "a/data/0", ""), `"a/data/0" for a second time`},
		"big-endian":            {zipped(begin+"N.", "a/byteorder", "big"), `"big"`},
		"no order":              {zipped(begin+"N.", "a/byteorder", ""), `""`},
		"compressed":            {patched(directory+10, 8), "compressed"},
		"encrypted":             {patched(directory+8, 1), "compressed or encrypted"},
		"past the end":          {patched(directory+20, 255, 255, 255, 0, 255, 255, 255, 0), "16777215 bytes"},
		"unpacks to more":       {patched(directory+24, 255, 255, 255), "16777215 bytes"},
		"overlap":               {patched(second+42, 0, 0, 0, 0), "overlaps with another"},
		"a header elsewhere":    {patched(second+42, 1, 0, 0, 0), "zip: not a valid zip file"},
		"many entries":          {patched(end+8, 255, 255, 255, 255), "unexpected EOF"},
		"a directory elsewhere": {patched(end+16, 255, 255, 255, 127), "zip: not a valid zip file"},
	} {
		refuses(t, name, c.file, c.found)
	}
	var format *safetensors.FormatError
	if _, err := Open(bytes.NewReader(right), -1); !errors.As(err, &format) {
		t.Errorf("a negative size: error %v", err)
	}
}

// TestMemory opens files that are made to fill the memory. In all they may take twice their size and 64 MiB, even if
// nothing of it were given back.
func TestMemory(t *testing.T) {
	const size = 1 << 20
	repeat := func(s string) string { return begin + strings.Repeat(s, size/len(s)) + "." }
	numbered := func(item func(i int) string) string {
		var out strings.Builder
		for i := 0; out.Len() < size; i++ {
			out.WriteString(item(i))
		}
		return out.String()
	}
	key := func(i int) string { return fmt.Sprintf("J%s", binary.LittleEndian.AppendUint32(nil, uint32(i))) }
	tensor := tensorOf(refStorage, "K\x00", size2, size1)
	longKey := "}X\x00\x04\x00\x00" + strings.Repeat("a", 1024)
	laughs := begin + "]" // each list has the one before it twice
	for i := range 30 {
		laughs += fmt.Sprintf("q%c]h%ch%c\x86a", i, i, i)
	}
	for name, file := range map[string][]byte{
		"None":            zipped(repeat("N")),
		"lists":           zipped(repeat("]")),
		"dictionaries":    zipped(repeat("}")),
		"OrderedDicts":    zipped(repeat(newDict)),
		"filled dicts":    zipped(repeat("}NNs")),
		"small dicts":     zipped(repeat("}K\x01Ns")),
		"marks":           zipped(repeat("(")),
		"tuples":          zipped(repeat(")\x85")),
		"numbers":         zipped(repeat("M\xff\xff")),
		"memos":           zipped(begin + "N" + strings.Repeat("\x94", size) + "."),
		"numbered memos":  zipped(begin + "N" + numbered(func(i int) string { return "r" + key(i)[1:] }) + "."),
		"texts":           zipped(repeat("\x8c\x00")),
		"long texts":      zipped(repeat("X\x00\x00\x01\x00" + strings.Repeat("a", 1<<16))),
		"a dictionary":    zipped(begin + "}(" + numbered(func(i int) string { return key(i) + "N" }) + "u."),
		"names":           zipped(begin + "]" + strings.Repeat("(", 1) + strings.Repeat("\x88", size) + "e."),
		"tensors":         zipped(begin + "](" + tensor + "q\x00" + strings.Repeat("h\x00", size/2) + "e."),
		"more tensors":    zipped(begin + "](" + strings.Repeat(tensor, size/len(tensor)) + "e."),
		"storages":        zipped(repeat(refStorage)),
		"laughs":          zipped(laughs + "."),
		"long path":       zipped(begin + strings.Repeat(longKey, 60) + "K\x01" + strings.Repeat("s", 60) + "."),
		"a lot of lists":  zipped(begin + strings.Repeat("]q\x00", 1) + "(" + strings.Repeat("h\x00", size/2) + "e."),
		"long keys below": zipped(begin + longKey + "](" + strings.Repeat("\x88", size) + "es."),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := Open(bytes.NewReader(file), int64(len(file)))
		runtime.ReadMemStats(&after)
		var format *safetensors.FormatError
		if err != nil && !errors.As(err, &format) {
			t.Errorf("%s: error %v", name, err)
		}
		taken := int(after.TotalAlloc - before.TotalAlloc)
		t.Logf("%-16s %6.2f MB for a file of %.2f: %v", name, float64(taken)/1e6, float64(len(file))/1e6, err)
		if taken > 2*len(file)+64<<20 {
			t.Errorf("%s: %d MB of memory for a file of %d", name, taken>>20, len(file)>>20)
		}
	}
}

// TestFailingReader holds that errors of reading are passed on, wherever they come, and that a file that has been cut
// since is one.
func TestFailingReader(t *testing.T) {
	file, err := os.ReadFile("testdata/2.15/views.pt")
	if err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	calls := 0
	for fail := 1; ; fail++ {
		calls = 0
		_, err := Open(readerAt(func(p []byte, off int64) (int, error) {
			if calls++; calls == fail {
				return 0, broken
			}
			return bytes.NewReader(file).ReadAt(p, off)
		}), int64(len(file)))
		if calls < fail {
			break
		}
		if !errors.Is(err, broken) {
			t.Errorf("call %d fails: error %v", fail, err)
		}
	}
	if calls < 10 {
		t.Errorf("%d calls", calls)
	}
	cut := file
	f, err := Open(readerAt(func(p []byte, off int64) (int, error) { return bytes.NewReader(cut).ReadAt(p, off) }),
		int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	cut = cut[:100]
	for x := range f.Tensors() {
		if _, err := x.WriteTo(io.Discard); x.Bytes() > 0 && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%s of a cut file: error %v", x.Name, err)
		}
	}
}

type readerAt func(p []byte, off int64) (int, error)

func (f readerAt) ReadAt(p []byte, off int64) (int, error) { return f(p, off) }

// FuzzFile opens whatever comes, and reads what is accepted.
func FuzzFile(f *testing.F) {
	paths, err := filepath.Glob("testdata/*/*.pt")
	if err != nil || len(paths) == 0 {
		f.Fatal(err)
	}
	for _, path := range paths {
		file, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(file)
	}
	f.Fuzz(func(t *testing.T, file []byte) { readAll(t, file) })
}

// FuzzPickle runs pickles.
func FuzzPickle(f *testing.F) {
	for _, c := range evilPickles {
		f.Add([]byte(begin + c.pickle))
	}
	f.Add([]byte(begin + tensorOf(refStorage, "K\x00", size2, size1) + "."))
	for _, name := range []string{"1.13/adamw.pt", "2.15/protocol4.pt", "2.15/views.pt"} {
		r, err := zip.OpenReader("testdata/" + name)
		if err != nil {
			f.Fatal(err)
		}
		for _, entry := range r.File {
			if strings.HasSuffix(entry.Name, "data.pkl") {
				file, err := entry.Open()
				if err != nil {
					f.Fatal(err)
				}
				pickle, err := io.ReadAll(file)
				if err != nil {
					f.Fatal(err)
				}
				f.Add(pickle)
			}
		}
		r.Close()
	}
	f.Fuzz(func(t *testing.T, pickle []byte) {
		readAll(t, zipped(string(pickle), "a/data/1", "1234567890abcdef", "a/data/2", ""))
	})
}

// readAll opens a file and reads what it has, if it is accepted.
func readAll(t *testing.T, file []byte) {
	x, err := Open(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		var format *safetensors.FormatError
		if !errors.As(err, &format) || len(err.Error()) > 1000 {
			t.Fatalf("error %v", err)
		}
		return
	}
	names := map[string]bool{}
	for tensor := range x.Tensors() {
		for _, name := range append([]string{tensor.Name}, tensor.Aliases...) {
			if names[name] {
				t.Fatalf("%q for a second time", name)
			}
			names[name] = true
		}
		if n, err := io.CopyN(io.Discard, tensor.Data(), 1<<16); n != min(1<<16, tensor.Bytes()) {
			t.Fatalf("%d bytes of %d, error %v", n, tensor.Bytes(), err)
		}
	}
	for name := range x.Values() {
		if names[name] {
			t.Fatalf("%q for a second time", name)
		}
	}
}
