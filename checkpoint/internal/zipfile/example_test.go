package zipfile_test

import (
	"archive/zip"
	"bytes"
	"fmt"
	"io"
	"log"

	"github.com/weft-ml/weft/checkpoint/internal/zipfile"
)

func Example() {
	var file bytes.Buffer
	z := zip.NewWriter(&file)
	w, err := z.CreateHeader(&zip.FileHeader{Name: "x/data", Method: zip.Store})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := io.WriteString(w, "as it is"); err != nil {
		log.Fatal(err)
	}
	if err := z.Close(); err != nil {
		log.Fatal(err)
	}
	entries, err := zipfile.Open(bytes.NewReader(file.Bytes()), int64(file.Len()), "example")
	if err != nil {
		log.Fatal(err)
	}
	text, err := io.ReadAll(entries[0].Data)
	fmt.Println(entries[0].Name, string(text), err)
	// Output: x/data as it is <nil>
}
