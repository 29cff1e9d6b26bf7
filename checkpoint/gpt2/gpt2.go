package gpt2

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/weft-ml/weft/checkpoint"
	"github.com/weft-ml/weft/internal/disk"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/tensor"
)

const (
	configName  = "config.json"
	weightsName = "model.safetensors"
	// maxConfig is the largest config.json in bytes. They have one thousand.
	maxConfig = 1 << 20
	// maxSize is the largest size of anything, with which numbers of weights do not overflow.
	maxSize = 1 << 24
)

// config is config.json, as far as the model depends on it.
type config struct {
	Architectures    []string `json:"architectures"`
	ModelType        string   `json:"model_type"`
	Vocab            int      `json:"vocab_size"`
	Positions        int      `json:"n_positions"`
	Width            int      `json:"n_embd"`
	Heads            int      `json:"n_head"`
	Layers           int      `json:"n_layer"`
	Inner            *int     `json:"n_inner"`
	Activation       string   `json:"activation_function"`
	Eps              float64  `json:"layer_norm_epsilon"`
	Tied             bool     `json:"tie_word_embeddings"`
	ResidualDropout  float64  `json:"resid_pdrop"`
	EmbeddingDropout float64  `json:"embd_pdrop"`
	AttentionDropout float64  `json:"attn_pdrop"`
	ScaleAttention   bool     `json:"scale_attn_weights"`
	ScaleByLayer     bool     `json:"scale_attn_by_inverse_layer_idx"`
	CrossAttention   bool     `json:"add_cross_attention"`
	DType            string   `json:"dtype"`
	Begin            any      `json:"bos_token_id"` // of a text; a number, a list or null, not looked at
	End              any      `json:"eos_token_id"`
}

// defaults are what transformers takes for what config.json does not say.
func defaults() config {
	return config{ModelType: "gpt2", Vocab: 50257, Positions: 1024, Width: 768, Heads: 12, Layers: 12,
		Activation: "gelu_new", Eps: 1e-5, Tied: true, ResidualDropout: 0.1, EmbeddingDropout: 0.1,
		AttentionDropout: 0.1, ScaleAttention: true}
}

// rules are the names of Hugging Face. A head of its own is a layer like any other.
func rules(tied bool) []checkpoint.Rule {
	if tied {
		return checkpoint.GPT2
	}
	return append([]checkpoint.Rule{{File: "lm_head.weight", Model: "head.weight"}}, checkpoint.GPT2...)
}

// Load makes a model from a folder with config.json and weights in any form that [checkpoint.Load] reads, and places it
// on the device, in float32: files of other types need the option [checkpoint.Convert]. Dropout is resid_pdrop, also
// after the embeddings; nn.GPT has none on the weights of attention. A config.json that is no such model, or has more
// weights than the files, is an error; other errors are those of [checkpoint.Load].
func Load(dev *tensor.Device, dir string, options ...checkpoint.Option) (*nn.GPT, error) {
	c, err := readConfig(filepath.Join(dir, configName))
	if err != nil {
		return nil, err
	}
	if err := fits(c, dir); err != nil {
		return nil, err
	}
	var model *nn.GPT
	if err := engine.Try(func() { model = declare(c) }); err != nil {
		return nil, err
	}
	if err := nn.Init(dev, model); err != nil {
		return nil, err
	}
	options = append([]checkpoint.Option{checkpoint.Rename(rules(c.Tied))}, options...)
	if err := checkpoint.Load(model, dir, options...); err != nil {
		return nil, err
	}
	return model, nil
}

// readConfig reads a config.json of a model that nn.GPT is.
func readConfig(path string) (config, error) {
	c := defaults()
	file, err := disk.OS.Open(path)
	if err != nil {
		return c, err
	}
	defer file.Close()
	if file.Size() > maxConfig {
		return c, fmt.Errorf("gpt2: %s: %d bytes, at most %d", path, file.Size(), maxConfig)
	}
	text, err := io.ReadAll(io.NewSectionReader(file, 0, file.Size()))
	if err == nil {
		err = json.Unmarshal(text, &c)
	}
	if err != nil {
		return c, fmt.Errorf("gpt2: %s: %w", path, err)
	}
	bad := func(key string, found, want any) error {
		return fmt.Errorf("gpt2: %s: %s is %v, want %v", path, key, found, want)
	}
	for key, size := range map[string]int{"vocab_size": c.Vocab, "n_positions": c.Positions, "n_embd": c.Width,
		"n_head": c.Heads, "n_layer": c.Layers} {
		if size < 1 || size > maxSize {
			return c, bad(key, size, fmt.Sprintf("1 to %d", maxSize))
		}
	}
	switch {
	case c.ModelType != "gpt2":
		return c, bad("model_type", c.ModelType, "gpt2")
	case c.Activation != "gelu_new" && c.Activation != "gelu_pytorch_tanh":
		return c, bad("activation_function", c.Activation, "gelu_new")
	case c.Inner != nil && *c.Inner != 4*c.Width:
		return c, bad("n_inner", *c.Inner, fmt.Sprintf("4 n_embd = %d", 4*c.Width))
	case !c.ScaleAttention:
		return c, bad("scale_attn_weights", false, true)
	case c.ScaleByLayer:
		return c, bad("scale_attn_by_inverse_layer_idx", true, false)
	case c.CrossAttention:
		return c, bad("add_cross_attention", true, false)
	}
	return c, nil
}

// declare is nn.NewGPT, with the norms' epsilon.
func declare(c config) *nn.GPT {
	model := nn.NewGPT(nn.GPTConfig{Vocab: c.Vocab, Context: c.Positions, Width: c.Width, Heads: c.Heads,
		Layers: c.Layers, Dropout: c.ResidualDropout, TiedHead: c.Tied})
	for _, norm := range norms(model) {
		norm.Eps = c.Eps
	}
	return model
}

// norms are all norms of a model.
func norms(model *nn.GPT) []*nn.LayerNorm {
	all := []*nn.LayerNorm{model.Norm}
	for _, b := range model.Blocks {
		all = append(all, b.LN1, b.LN2)
	}
	return all
}

// fits makes sure that the files have as many weights as the model, before it takes memory.
func fits(c config, dir string) error {
	weights, err := checkpoint.OpenWeights(dir)
	if err != nil {
		return err
	}
	have := 0.0
	for t := range weights.Tensors() {
		have += float64(t.Bytes()) * 8 / float64(t.DType.Bits())
	}
	width := float64(c.Width)
	want := float64(c.Vocab+c.Positions)*width + float64(c.Layers)*(12*width*width+13*width) + 2*width
	if want > have {
		err = fmt.Errorf("gpt2: %s: %s asks for %.0f weights, the files have %.0f", dir, configName, want, have)
	}
	return errors.Join(err, weights.Close())
}

// Save writes config.json and model.safetensors to a folder, which is made if there is none. Files of these names are
// replaced, each as [checkpoint.SaveModel] does it. It is an error if the parts of the model are not those that its
// Config says, or the norms differ in epsilon.
func Save(dir string, model *nn.GPT) error {
	c := defaults()
	g := model.Config
	c.Architectures = []string{"GPT2LMHeadModel"}
	c.Vocab, c.Positions, c.Width, c.Heads, c.Layers = g.Vocab, g.Context, g.Width, g.Heads, g.Layers
	c.Tied = g.TiedHead
	c.ResidualDropout, c.EmbeddingDropout, c.AttentionDropout = g.Dropout, g.Dropout, 0
	c.Eps, c.DType = model.Norm.Eps, model.Tok.Weight.DType().String()
	if end := 50256; g.Vocab > end { // GPT-2's own tokens; transformers warns of any outside the vocabulary
		c.Begin, c.End = end, end
	}
	for _, norm := range norms(model) {
		if norm.Eps != c.Eps {
			return fmt.Errorf("gpt2: norms have epsilon %v and %v, config.json has one", c.Eps, norm.Eps)
		}
	}
	var declared []string
	if err := engine.Try(func() { declared = parts(declare(c)) }); err != nil {
		return err
	}
	if have := parts(model); !slices.Equal(have, declared) {
		return fmt.Errorf("gpt2: the model has the weights %v, its Config says %v", have, declared)
	}
	text, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return fmt.Errorf("gpt2: %w", err)
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	if err := disk.Replace(disk.OS, filepath.Join(dir, configName), func(w io.Writer) error {
		_, err := w.Write(append(text, '\n'))
		return err
	}); err != nil {
		return err
	}
	return checkpoint.SaveModel(filepath.Join(dir, weightsName), model, checkpoint.Rename(rules(c.Tied)))
}

// parts are the names and shapes of a model's weights.
func parts(model *nn.GPT) (all []string) {
	engine.Walk(model, func(name string, t *tensor.Tensor) { all = append(all, fmt.Sprint(name, t.Shape())) })
	return all
}
