package nri

import (
	"sync/atomic"
	"time"
)

// bounds of the histogram of callbacks: the runtime drops a plugin after two seconds by default, and every pod of the node
// waits meanwhile.
var bounds = [...]time.Duration{
	10 * time.Microsecond, 50 * time.Microsecond, 100 * time.Microsecond, 500 * time.Microsecond,
	time.Millisecond, 10 * time.Millisecond, 100 * time.Millisecond, time.Second,
}

// Latency is how long callbacks took.
type Latency struct {
	Count   uint64                   `json:"count"`
	Sum     time.Duration            `json:"sum_ns"`
	Buckets map[time.Duration]uint64 `json:"buckets,omitempty"` // how many took at most that long
}

// clock counts callbacks without a lock or an allocation.
type clock struct {
	sum    atomic.Int64
	counts [len(bounds) + 1]atomic.Uint64 // by the first bound that is not exceeded
}

// done counts a callback that began then.
func (c *clock) done(began time.Time) {
	took := time.Since(began)
	i := 0
	for i < len(bounds) && took > bounds[i] {
		i++
	}
	c.counts[i].Add(1)
	c.sum.Add(int64(took))
}

// read is the histogram so far.
func (c *clock) read() Latency {
	l := Latency{Sum: time.Duration(c.sum.Load()), Buckets: map[time.Duration]uint64{}}
	for i := range c.counts {
		l.Count += c.counts[i].Load()
		if i < len(bounds) {
			l.Buckets[bounds[i]] = l.Count
		}
	}
	return l
}
