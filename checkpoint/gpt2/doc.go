// Package gpt2 brings GPT-2 models from Hugging Face's folders, and to them: config.json beside files of weights.
//
//	model, err := gpt2.Load(dev, "gpt2") // an *nn.GPT
//	err = gpt2.Save("mine", model)       // transformers loads it: AutoModelForCausalLM.from_pretrained("mine")
//
// Logits are those of transformers, up to rounding. Models of the same family with other parts than nn.GPT has, such as
// another activation, are refused by name. Tokens are not a part of this package.
//
// gpt2.go has all; names and transposes are the table [checkpoint.GPT2].
package gpt2
