// Package amp is the place of mixed precision: autocast, the loss scaler and gradient accumulation. It
// holds nothing yet. Float16 and bfloat16 tensors exist as storage, with exact conversion, in package tensor.
package amp
