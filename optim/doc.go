// Package optim updates parameters.
//
// An optimizer is a rule, such as [AdamW]: its hyperparameters and one expression, or, for rules such as [LAMB] that
// need norms or products of whole tensors, one function of a parameter. One engine, [Optimizer], runs any rule inside
// the step that computed the gradients:
//
//	opt := optim.New(optim.AdamW(1e-3), model)
//	err := dev.Step(func(s *tensor.Scope) error {
//		autograd.Backward(loss(s))
//		return opt.Step(s)
//	})
//
// The update is written when the function of the step has returned nil, so a step that fails changes nothing.
//
// Schedules, such as [WarmupCosine] and [OneCycleLR], are functions of the step that give the rate:
// opt.LR.Set(schedule(i)) before step i. [Group] gives a part of the model a rate of its own. [LBFGS], which evaluates
// a loss several times, is no rule.
//
// Parameters, gradients and moments are in flat arenas, so a step is one or two passes over memory however
// many parameters there are. The engine uses up the gradients: what it has applied is cleared, and gradients
// of parameters that no optimizer owns stay and add up. [EMA] averages parameters over steps.
//
// [Optimizer.State] is what a checkpoint saves, by parameter name, and [Optimizer.Restore] takes it.
package optim
