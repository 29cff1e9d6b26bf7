"""Small random models of GPT-2 as transformers saves them, and their logits, for checkpoint/gpt2.

    checkpoint/gpt2/testdata/one      one file of safetensors, tied head
    checkpoint/gpt2/testdata/shards   several, head of its own
    checkpoint/gpt2/testdata/bin      pytorch_model.bin in shards, as before safetensors, with the causal masks of old files
    each with logits.json: tokens [2 T] and logits [2 T vocab], float32

Run: python3 scripts/goldens/gpt2.py, with transformers 5. With a folder as argument, it prints the logits that transformers
computes from that folder for the tokens in its tokens.json: the other way round.
"""

import json
import os
import sys

import torch
import transformers

import golden

FOLDER = os.path.join(golden.ROOT, "checkpoint/gpt2/testdata")


def logits(model, tokens):
    with torch.no_grad():
        return model.eval()(torch.tensor(tokens)).logits.tolist()


def make(name, **config):
    torch.manual_seed(len(name))
    config = transformers.GPT2Config(n_layer=2, n_head=4, vocab_size=61, n_positions=12, bos_token_id=0, eos_token_id=0,
                                     **config)
    model = transformers.GPT2LMHeadModel(config)
    for p in model.parameters():  # norms and biases begin with equal values; here all differ
        torch.nn.init.normal_(p, std=0.3)
    folder = f"{FOLDER}/{name}"
    tokens = torch.randint(61, (2, 9)).tolist()
    return model, folder, tokens


def save(folder, model, tokens, **options):
    model.save_pretrained(folder, **options)
    os.remove(f"{folder}/generation_config.json")
    with open(f"{folder}/logits.json", "w") as file:
        json.dump({"tokens": tokens, "logits": logits(model, tokens)}, file)
        file.write("\n")


def main():
    model, folder, tokens = make("one", n_embd=32)
    save(folder, model, tokens)
    model, folder, tokens = make("shards", n_embd=8, tie_word_embeddings=False, layer_norm_epsilon=1e-3)
    save(folder, model, tokens, max_shard_size="4KB")
    model, folder, tokens = make("bin", n_embd=8)
    save(folder, model, tokens)
    os.remove(f"{folder}/model.safetensors")
    state = {k.removeprefix("transformer."): v for k, v in model.state_dict().items() if k != "lm_head.weight"}
    for i in range(2):
        state[f"h.{i}.attn.bias"] = torch.ones(12, 12, dtype=torch.uint8).tril().view(1, 1, 12, 12)
    names = sorted(state)
    shards = {"pytorch_model-00001-of-00002.bin": names[:9], "pytorch_model-00002-of-00002.bin": names[9:]}
    for file, part in shards.items():
        torch.save({k: state[k] for k in part}, f"{folder}/{file}")
    with open(f"{folder}/pytorch_model.bin.index.json", "w") as file:
        json.dump({"metadata": {}, "weight_map": {k: f for f, part in shards.items() for k in part}}, file, indent=1)


if len(sys.argv) > 1:
    with open(f"{sys.argv[1]}/tokens.json") as file:
        tokens = json.load(file)
    loaded, info = transformers.AutoModelForCausalLM.from_pretrained(sys.argv[1], output_loading_info=True)
    if any(info[k] for k in ("missing_keys", "unexpected_keys", "mismatched_keys")):
        sys.exit(f"transformers: {info}")
    json.dump(logits(loaded, tokens), sys.stdout)
else:
    main()
