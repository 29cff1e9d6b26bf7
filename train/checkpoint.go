package train

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"time"

	"github.com/weft-ml/weft/checkpoint"
)

// keptCheckpoints is how many are kept beside the one with the lowest loss.
const keptCheckpoints = 3

// saving is what -checkpoint, -resume and -save-every ask for.
type saving struct {
	dir    string
	resume bool
	every  time.Duration

	manager *checkpoint.Manager // nil without -checkpoint
	state   *checkpoint.State
	saved   time.Time
	request chan os.Signal // to save now
}

func (c *saving) flags(f *flag.FlagSet) {
	f.StringVar(&c.dir, "checkpoint", "", "folder to save the run in, so that it can be stopped and resumed")
	f.BoolVar(&c.resume, "resume", false, "go on with the newest checkpoint of -checkpoint, if there is one")
	f.DurationVar(&c.every, "save-every", 30*time.Second, "how often to save; 0: after each step")
}

func (c *saving) check() error {
	switch {
	case c.resume && c.dir == "":
		return errors.New("-resume needs -checkpoint")
	case c.every < 0:
		return errors.New("-save-every cannot be negative")
	}
	return nil
}

// Resume is called once all of the run's state is made, before the first step. Without -checkpoint it does nothing and
// returns 0. With it, [Run.Step] saves st from now on, as often as -save-every says and at a SIGUSR1, and keeps the
// three newest checkpoints and the one of the lowest loss. With -resume it first gives st the state of the newest
// checkpoint, as [checkpoint.Manager.Resume] does, and returns its step: that many steps of the loop are done. Without
// -resume a folder that has checkpoints is an error.
func (r *Run) Resume(st *checkpoint.State) (step int, err error) {
	c := &r.saving
	if c.dir == "" {
		return 0, nil
	}
	manager, err := checkpoint.Open(c.dir, checkpoint.Keep(keptCheckpoints), checkpoint.Best("loss"))
	if err != nil {
		return 0, err
	}
	if all, err := manager.Steps(); err != nil {
		return 0, err
	} else if len(all) > 0 && !c.resume {
		return 0, fmt.Errorf("%s has %d checkpoints: -resume goes on with them", c.dir, len(all))
	}
	if step, err = manager.Resume(st); err != nil {
		return 0, err
	}
	for _, why := range manager.Stats().Passed {
		r.Printf("passed over: %v", why)
	}
	if step > 0 {
		r.Printf("resumed after step %d", step)
	}
	c.manager, c.state, c.saved, c.request = manager, st, r.now(), make(chan os.Signal, 1)
	if saveSignal != nil {
		signal.Notify(c.request, saveSignal)
	}
	r.at, r.first = step, step
	return step, nil
}

// save saves if that is due. What goes wrong does not end the run, as older checkpoints stay: it is told, and the run
// ends with it.
func (r *Run) save(loss float64) {
	c := &r.saving
	if c.manager == nil {
		return
	}
	due := r.now().Sub(c.saved) >= c.every
	select {
	case <-c.request:
		due = true
	default:
	}
	if !due {
		return
	}
	c.saved = r.now()
	if err := c.manager.Save(r.at, c.state, map[string]float64{"loss": loss}); err != nil {
		r.Printf("step %d: a checkpoint is not saved: %v", r.at, err)
	}
}

// SaveLast is called after the training loop, also after one that Ctrl-C has ended. With -checkpoint it saves the last
// step, waits until that is on the disk, and returns the first error that a save has had.
func (r *Run) SaveLast() error {
	c := &r.saving
	if c.manager == nil {
		return nil
	}
	signal.Stop(c.request)
	if r.at > r.first {
		c.manager.Save(r.at, c.state, map[string]float64{"loss": r.loss}) // Close has its error
	}
	return c.manager.Close()
}
