// Package nn holds layers, losses and initialisers.
//
// A layer is a plain struct whose exported fields are parameters or further layers, with a method Forward. Constructors
// (NewLinear, ...) declare parameters without values; [Init] then gives all parameters of a model their state-dict
// names, their first values and memory on a device:
//
//	model := nn.Sequential(nn.NewLinear(784, 256), nn.GELU, nn.NewLinear(256, 10))
//	err := nn.Init(dev, model)
//
// Names, layouts and defaults are those of PyTorch: Linear.Weight is [out in], "0.weight" is the weight of the first
// layer of a sequence. Each parameter draws its values from a stream of its own (seed, name), so a new layer does not
// change the values of the others. Whether a step trains or evaluates is a property of the step, not of the layers.
//
// In processing order: parameter.go declares parameters, init.go has their first values, unreached.go finds those that
// would get none; clone.go copies models; module.go has what a layer is, and sequences; layers.go, embedding_bag.go,
// shape.go, activation.go, conv.go, pool.go, resize.go, norm.go, attention.go, rotary.go, multihead.go and recurrent.go
// the layers, weight_norm.go layers around layers, encoder.go, transformer.go, gpt.go and resnet.go the models made of
// them, option.go what they can be told, recurrence.go what recurrent layers compute; loss.go, loss_likelihood.go,
// loss_margin.go and loss_ctc.go the losses, loss_option.go what they can be told; tree.go the parts of a model as
// text, and summary.go what it computes.
package nn
