package data

import (
	"errors"
	"reflect"

	"github.com/weft-ml/weft/tensor"
)

// On uploads batches to a device with memory of its own: the host tensors in a batch, which are fields, elements and
// what pointers lead to, become tensors there. While steps use one batch, a goroutine collates and uploads the next,
// into one of two slots on the device, so that no step waits for it.
//
// A batch is good until the loop asks for the next one, or the iterator is closed; a use after that is an error of kind
// [tensor.ErrStep]. [tensor.Tensor.Keep] makes a copy that lasts. On a device that computes on the host's memory, such
// as the CPU, nothing is copied; tensors that functions of this package make for a batch take the memory of those
// before, which the caches have. Others last, such as those that a source holds.
func On(dev *tensor.Device) BatchOption {
	return BatchOption{func(c *config) { c.on, c.device = true, dev }}
}

// errEnded is why batches end where nothing says that there are no more.
var errEnded = errors.New("data: a function has ended the goroutine (runtime.Goexit, or FailNow of a test)")

// delivery hands the batches of an iteration to the loop, by way of a device if there is one.
type delivery[B any] struct {
	*ordered[result[B]]
	slots interface{ Close() }
	made  chan delivered[B] // those that are uploaded; nil without a device with memory of its own
	end   func()            // of the use of the present batch; nil without one
	ends  bool              // batches end although they are not uploaded
}

// delivered is a batch in its slot on a device.
type delivered[B any] struct {
	result[B]
	begin, end func()
}

// deliver hands out results; dev may be nil.
func deliver[B any](dev *tensor.Device, from *ordered[result[B]]) (*delivery[B], error) {
	d := &delivery[B]{ordered: from}
	if dev == nil {
		return d, nil
	}
	slots, err := engine.NewSlots(dev)
	if d.ends = err == nil && slots == nil; err != nil || d.ends {
		return d, err
	}
	w := from.crew
	d.slots, d.made = slots, make(chan delivered[B], cap(slots.Free()))
	w.all.Go(func() {
		ended := true
		defer close(d.made)
		defer func() {
			if ended {
				w.cancel(errEnded)
			}
		}()
		for {
			r, ok := from.Next()
			if !ok {
				break
			}
			select {
			case slot := <-slots.Free():
				if r.err == nil {
					r.err = upload(&r.batch, slot.Upload)
				}
				d.made <- delivered[B]{r, slot.Begin, slot.End}
			case <-w.ctx.Done():
			}
			if r.err != nil {
				break
			}
		}
		ended = false
	})
	return d, nil
}

// upload replaces the host tensors in a batch by what put makes of them.
func upload[B any](batch *B, put func([]*tensor.Tensor) ([]*tensor.Tensor, error)) error {
	var host []*tensor.Tensor
	var set []func(*tensor.Tensor)
	hostTensors(reflect.ValueOf(batch).Elem(), 0, func(t *tensor.Tensor, f func(*tensor.Tensor)) {
		host, set = append(host, t), append(set, f)
	})
	there, err := put(host)
	for i, t := range there {
		set[i](t)
	}
	return err
}

// hostTensors calls visit for the host tensors that v leads to, with what replaces each, and reports whether there are
// any. Pointers, slices and maps on the way become copies: a source, a cache or later batches may hold them, too, and
// keep their tensors.
func hostTensors(v reflect.Value, depth int, visit func(t *tensor.Tensor, set func(*tensor.Tensor))) (found bool) {
	if depth > deepMeasured || sizes(v.Type()) {
		return false
	}
	switch v.Kind() {
	case reflect.Pointer:
		if t, ok := reflect.TypeAssert[*tensor.Tensor](v); ok {
			if found = t != nil && t.Scope() == nil && t.Origin() == nil && t.Device() == nil; found {
				visit(t, func(t *tensor.Tensor) { v.Set(reflect.ValueOf(t)) })
			}
		} else if !v.IsNil() {
			c := reflect.New(v.Type().Elem())
			c.Elem().Set(v.Elem())
			if found = hostTensors(c.Elem(), depth+1, visit); found {
				v.Set(c.Convert(v.Type()))
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				found = hostTensors(v.Field(i), depth+1, visit) || found
			}
		}
	case reflect.Array:
		for i := range v.Len() {
			found = hostTensors(v.Index(i), depth+1, visit) || found
		}
	case reflect.Slice:
		c := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		reflect.Copy(c, v)
		for i := range c.Len() {
			found = hostTensors(c.Index(i), depth+1, visit) || found
		}
		if found {
			v.Set(c)
		}
	case reflect.Map:
		c := reflect.MakeMapWithSize(v.Type(), v.Len())
		for _, key := range v.MapKeys() {
			x := reflect.New(v.Type().Elem()).Elem() // elements of maps cannot be set
			x.Set(v.MapIndex(key))
			found = hostTensors(x, depth+1, func(t *tensor.Tensor, set func(*tensor.Tensor)) {
				visit(t, func(t *tensor.Tensor) { set(t); c.SetMapIndex(key, x) })
			}) || found
			c.SetMapIndex(key, x)
		}
		if found {
			v.Set(c)
		}
	}
	return found
}

// Next is the next batch, in its slot on the device. Those before it are not used any more.
func (d *delivery[B]) Next() (r result[B], ok bool) {
	d.over()
	if d.made == nil {
		if r, ok = d.ordered.Next(); ok && d.ends && r.err == nil {
			d.end = func() {
				hostTensors(reflect.ValueOf(&r.batch).Elem(), 0, func(t *tensor.Tensor, _ func(*tensor.Tensor)) {
					engine.Recycle(t, r.since)
				})
			}
		}
		return r, ok
	}
	select {
	case next, ok := <-d.made:
		if !ok {
			return r, false
		}
		if d.end = next.end; next.err == nil {
			next.begin()
		}
		return next.result, d.crew.ctx.Err() == nil
	case <-d.crew.ctx.Done():
		return r, false
	}
}

// ready is how many batches are made that Next has not returned.
func (d *delivery[B]) ready() int { return d.ordered.ready() + len(d.made) }

// over ends the use of the present batch.
func (d *delivery[B]) over() {
	if d.end != nil {
		d.end()
		d.end = nil
	}
}

// close ends the iteration and gives back what it has of the device.
func (d *delivery[B]) close() {
	d.crew.Close()
	d.over()
	if d.slots != nil {
		d.slots.Close()
		d.slots = nil
	}
}
