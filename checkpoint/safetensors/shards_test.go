package safetensors

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// abc are three tensors of four bytes, and their data.
func abc() ([]Tensor, map[string]string) {
	return []Tensor{{Name: "c", DType: U8, Shape: []int{4}, Aliases: []string{"z"}},
			{Name: "a", DType: F16, Shape: []int{2}}, {Name: "b", DType: F32, Shape: []int{1}}},
		map[string]string{"a": "aaaa", "b": "bbbb", "c": "cccc"}
}

// writeShards writes tensors to a new folder.
func writeShards(t *testing.T, limit int64, tensors []Tensor, data map[string]string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	create := func(name string) (io.WriteCloser, error) { return os.Create(filepath.Join(dir, name)) }
	err := WriteShards(create, limit, tensors, map[string]string{"made": "here"}, func(w io.Writer, x Tensor) error {
		_, err := io.WriteString(w, data[x.Name])
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func list(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// TestShards writes a model with several limits, and reads it by folder, index and file.
func TestShards(t *testing.T) {
	two := []string{"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors", indexName}
	three := []string{"model-00001-of-00003.safetensors", "model-00002-of-00003.safetensors",
		"model-00003-of-00003.safetensors", indexName}
	for _, c := range []struct {
		limit int64
		files []string
	}{
		{1000, []string{modelName}},
		{12, []string{modelName}},
		{11, two},
		{8, two},
		{7, three},
		{1, three},
	} {
		tensors, data := abc()
		dir := writeShards(t, c.limit, tensors, data)
		if got := list(t, dir); !slices.Equal(got, c.files) {
			t.Errorf("limit %d: files %q, want %q", c.limit, got, c.files)
		}
		for _, path := range []string{dir, filepath.Join(dir, c.files[len(c.files)-1])} {
			m, err := OpenPath(path)
			if err != nil {
				t.Errorf("limit %d: %v", c.limit, err)
				continue
			}
			for _, x := range tensors {
				check(t, m, x, data[x.Name])
			}
			if _, ok := m.Lookup("nothing"); ok || m.Len() != 3 || len(slices.Collect(m.Tensors())) != 3 {
				t.Errorf("limit %d: %d tensors, a tensor of no name: %v", c.limit, m.Len(), ok)
			}
			files := 0
			for name, f := range m.Files() {
				files++
				meta := f.Metadata()
				if !slices.Contains(c.files, name) || meta["made"] != "here" || meta["format"] != "pt" {
					t.Errorf("limit %d: file %s with metadata %v", c.limit, name, meta)
				}
			}
			if want := max(1, len(c.files)-1); files != want {
				t.Errorf("limit %d: %d files, want %d", c.limit, files, want)
			}
			for range m.Tensors() {
				break
			}
			for range m.Files() {
				break
			}
			if err := m.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestNameBeforeAlias looks up a name that one shard has and another has for an alias.
func TestNameBeforeAlias(t *testing.T) {
	dir := t.TempDir()
	for name, file := range map[string]string{
		"1":       `{"__metadata__":{"b":"a"},"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}`,
		"2":       `{"b":{"dtype":"I8","shape":[0],"data_offsets":[0,0]}}`,
		"3":       `{"__metadata__":{"b":"c"},"c":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}`,
		indexName: `{"weight_map":{"a":"1","b":"2","c":"3"}}`,
	} {
		if name != indexName {
			file = string(fileOf(file, ""))
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(file), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	m, err := OpenPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	check(t, m, Tensor{Name: "b", DType: I8, Shape: []int{0}}, "")
}

// TestIndex holds the text of an index.
func TestIndex(t *testing.T) {
	tensors, data := abc()
	got, err := os.ReadFile(filepath.Join(writeShards(t, 8, tensors, data), indexName))
	const want = `{
  "metadata": {
    "total_size": 12
  },
  "weight_map": {
    "a": "model-00001-of-00002.safetensors",
    "b": "model-00002-of-00002.safetensors",
    "c": "model-00001-of-00002.safetensors"
  }
}
`
	if err != nil || string(got) != want {
		t.Errorf("error %v, got %s, want %s", err, got, want)
	}
}

// TestEvilIndex opens models whose index is wrong, or does not agree with the shards.
func TestEvilIndex(t *testing.T) {
	const right = `{"metadata":{"total_size":-1.5e3,"x":[null,true,{"y":"z"},[]]},` +
		`"weight_map":{"a":"1","b":"2","c":"1"}}`
	for _, c := range []struct{ name, old, new, what, found string }{
		{"nothing", "", "", "", ""},
		{"folder above", `"c":"1"`, `"c":"../1"`, "shard", `"../1"`},
		{"absolute", `"c":"1"`, `"c":"/1"`, "shard", `"/1"`},
		{"folder", `"c":"1"`, `"c":"x/1"`, "shard", `"x/1"`},
		{"Windows", `"c":"1"`, `"c":"..\\1"`, "shard", `"..\\1"`},
		{"drive", `"c":"1"`, `"c":"C:1"`, "shard", `"C:1"`},
		{"this folder", `"c":"1"`, `"c":"."`, "shard", `"."`},
		{"folder above alone", `"c":"1"`, `"c":".."`, "shard", `".."`},
		{"no name", `"c":"1"`, `"c":""`, "shard", `""`},
		{"end of C strings", `"c":"1"`, `"c":"1\u0000"`, "shard", `"1\x00"`},
		{"other shard", `"c":"1"`, `"c":"2"`, "weight_map", `"c" in "2"`},
		{"not in a shard", `"c":"1"`, `"c":"1","d":"1"`, "weight_map", `"d" in "1"`},
		{"in two shards", `"b":"2"`, `"b":"3"`, "weight_map", `one shard for "b", which is in "4" and "3"`},
		{"not in the index", `,"c":"1"`, ``, "weight_map", `nothing of "c", which is in "1"`},
		{"name twice", `"c":"1"`, `"c":"1","c":"1"`, "weight_map", `"c" for a second time`},
		{"name twice for one", `"c":"1"`, `"a":"1"`, "weight_map", `"a" for a second time`},
		{"shard no text", `"c":"1"`, `"c":1`, "weight_map", `'1'`},
		{"no map", `weight_map`, `weightmap`, "index", "0 keys"},
		{"two maps", `"metadata":`, `"weight_map":{},"metadata":`, "index", "2 keys"},
		{"no object", right, `[]`, "index", `'['`},
		{"more text", `}}`, `}}}`, "index", `'}' after`},
		{"no value", `-1.5e3`, `-`, "index", `"-"`},
		{"no UTF-8", `"x"`, "\"\xff\"", "text", "0xff"},
		{"deep", `null`, strings.Repeat("[", 100), "index", "brackets"},
		{"evil shard", `"b":"2"`, `"b":"evil"`, "header size", "4294967296"},
		{"folder as a shard", `"b":"2"`, `"b":"dir"`, "kind of file", "d"},
	} {
		dir := t.TempDir()
		entry := func(name string, at int) string {
			return fmt.Sprintf(`"%s":{"dtype":"U8","shape":[],"data_offsets":[%d,%d]}`, name, at, at+1)
		}
		index := strings.Replace(right, c.old, c.new, 1)
		if c.name == "in two shards" {
			index = strings.Replace(index, `"c":"1"`, `"c":"1","d":"4"`, 1)
		}
		for name, file := range map[string][]byte{
			"1": fileOf("{"+entry("a", 0)+","+entry("c", 1)+"}", "ac"), "2": fileOf("{"+entry("b", 0)+"}", "b"),
			"3": fileOf("{"+entry("b", 0)+"}", "b"), "4": fileOf("{"+entry("b", 0)+","+entry("d", 1)+"}", "bd"),
			"evil": {0, 0, 0, 0, 1, 0, 0, 0}, indexName: []byte(index),
		} {
			if err := os.WriteFile(filepath.Join(dir, name), file, 0o666); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Mkdir(filepath.Join(dir, "dir"), 0o777); err != nil {
			t.Fatal(err)
		}
		m, err := OpenPath(dir)
		if c.what == "" {
			if err != nil || m.Len() != 3 {
				t.Errorf("%s: error %v", c.name, err)
			}
			continue
		}
		var got *FormatError
		if !errors.As(err, &got) || got.What != c.what || !strings.Contains(got.Found, c.found) ||
			!strings.HasPrefix(err.Error(), dir) {
			t.Errorf("%s: error %v, want %q, %q", c.name, err, c.what, c.found)
		}
	}
}

// FuzzIndex reads whatever comes as an index. What is accepted is JSON for encoding/json, too, with the same names.
func FuzzIndex(f *testing.F) {
	f.Add(`{"metadata":{"total_size":-1.5e3,"x":[null,true,{"y":"z"},[]]},"weight_map":{"a":"1","\u0062":"2"}}`)
	f.Fuzz(func(t *testing.T, text string) {
		got := map[string]string{}
		n := 0
		err := eachWeight(text, func(_ *scanner, _ int, name, shard string) { got[name], n = shard, n+1 })
		if err != nil {
			var format *FormatError
			if !errors.As(err, &format) || format.Offset > int64(len(text)) {
				t.Fatalf("error %v", err)
			}
			return
		}
		var want map[string]any
		if err := json.Unmarshal([]byte(text), &want); err != nil {
			t.Fatalf("encoding/json refuses it: %v", err)
		}
		weights, ok := want["weight_map"].(map[string]any)
		if !ok || len(weights) != len(got) || n < len(got) {
			t.Fatalf("got %v, want %v", got, want)
		}
		for name, shard := range weights {
			if got[name] != shard {
				t.Fatalf("%q: got %q, want %q", name, got[name], shard)
			}
		}
	})
}

// TestMissing holds what is said of files that are not there, or are no files.
func TestMissing(t *testing.T) {
	tensors, data := abc()
	dir := writeShards(t, 8, tensors, data)
	if err := os.Remove(filepath.Join(dir, "model-00002-of-00002.safetensors")); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, filepath.Join(dir, indexName), filepath.Join(dir, "no"), t.TempDir()} {
		if _, err := OpenPath(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: error %v", path, err)
		}
	}
	wide := filepath.Join(dir, "wide.json")
	if err := os.Truncate(filepath.Join(dir, indexName), maxHeader+1); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(dir, indexName), wide); err != nil {
		t.Fatal(err)
	}
	var format *FormatError
	if _, err := OpenPath(wide); !errors.As(err, &format) || format.What != "file size" {
		t.Errorf("an index of 100 MB: error %v", err)
	}
}

// TestShardErrors lets each file fail to be made, written and closed.
func TestShardErrors(t *testing.T) {
	tensors, data := abc()
	text := func(w io.Writer, x Tensor) error { _, err := io.WriteString(w, data[x.Name]); return err }
	closed := 0
	for n := range 3 {
		for _, how := range []string{"create", "write", "close"} {
			files := -1
			create := func(name string) (io.WriteCloser, error) {
				if files++; files == n {
					if how == "create" {
						return nil, errTest
					}
					return &faulty{how, &closed}, nil
				}
				return &faulty{"", &closed}, nil
			}
			closed = 0
			if err := WriteShards(create, 8, tensors, nil, text); !errors.Is(err, errTest) {
				t.Errorf("%s of file %d fails: error %v", how, n, err)
			}
			if want := n + 1; closed != want && how != "create" {
				t.Errorf("%s of file %d fails: %d files closed, want %d", how, n, closed, want)
			}
		}
	}
	none := func(string) (io.WriteCloser, error) { t.Error("a file is made"); return nil, errTest }
	if err := WriteShards(none, 0, tensors, nil, text); err == nil {
		t.Error("a limit of 0 bytes: no error")
	}
	if err := WriteShards(none, 1, append(tensors, tensors[0]), nil, text); err == nil {
		t.Error("a name twice: no error")
	}
	if err := WriteShards(none, 1, make([]Tensor, 0), map[string]string{"\xff": ""}, text); err == nil {
		t.Error("metadata no UTF-8: no error")
	}
	many := make([]Tensor, maxShards+1)
	for i := range many {
		many[i] = Tensor{Name: fmt.Sprint(i), DType: U8}
	}
	if err := WriteShards(none, 1, many, nil, text); err == nil {
		t.Error("100,000 shards: no error")
	}
}

// faulty is a file that fails at something.
type faulty struct {
	how    string
	closed *int
}

func (f *faulty) Write(p []byte) (int, error) {
	if f.how == "write" {
		return 0, errTest
	}
	return len(p), nil
}

func (f *faulty) Close() error {
	*f.closed++
	if f.how == "close" {
		return errTest
	}
	return nil
}

// TestImports holds that the package needs the standard library alone.
func TestImports(t *testing.T) {
	paths, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	imports := map[string]bool{}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range file.Imports {
			imports[strings.Trim(i.Path.Value, `"`)] = true
		}
	}
	if len(imports) < 5 {
		t.Errorf("%d imports were found", len(imports))
	}
	for _, path := range slices.Sorted(maps.Keys(imports)) {
		if first, _, _ := strings.Cut(path, "/"); strings.Contains(first, ".") || path == "C" || path == "unsafe" {
			t.Errorf("import of %s", path)
		}
	}
}
