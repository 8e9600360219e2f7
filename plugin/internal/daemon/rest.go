package daemon

import (
	"time"

	"quiesce/plugin/internal/gate"
	"quiesce/plugin/stage"
)

const (
	lookEvery = 30 * time.Second // between looks at everything on a node that rests
	restList  = 2 * time.Minute  // between its lists, while NRI tells of every pod; else idleList
	grain     = time.Second      // no file system dates changes more roughly
)

// rest is what the daemon does most of the time: nothing waits and nothing changes. It only watches for changes then. Only
// Run uses it.
type rest struct {
	seen  seen
	sure  bool      // a change after seen is dated otherwise
	found bool      // nothing that waits, by the last look
	until time.Time // the next look, whatever is seen
}

// seen is what a look depends on, but for time and what State signals.
type seen struct {
	stage stage.Mark
	drain time.Time // when its state was written last
	nri   time.Time // since when the connection is as it is
}

// rests tells whether a look would find what the last one found. If not, a look has to follow, and then settle.
func (d *Daemon) rests(now time.Time) bool {
	mark, changed := d.Store.Mark()
	s := seen{stage: mark, drain: d.Drains.store.Changed(), nri: d.NRI().Since}
	same := d.rest.found && s == d.rest.seen && now.Before(d.rest.until)
	d.rest.seen, d.rest.sure = s, now.Sub(changed) > grain && now.Sub(s.drain) > grain
	return same
}

// settle notes what the look found, and whether the readers of the results know it.
func (d *Daemon) settle(in gate.Input, dec gate.Decision, busy bool) {
	told := d.Found == nil || !d.noted.written.Before(in.Now)
	d.rest.found = d.rest.sure && told && !busy && dec.Phase == gate.Idle && len(dec.Blockers) == 0 && len(in.Installers) == 0
	d.rest.until = in.Now.Add(lookEvery)
}

// listDue tells whether a list of all pods is due while nothing is pending. After a restart the runtime may not tell how its
// old pods end.
func (d *Daemon) listDue(listed, now time.Time) bool {
	every, s := idleList, d.NRI()
	switch {
	case s.Connected && listed.Before(s.Since):
		return true
	case s.Connected && d.rest.found:
		every = restList
	}
	return now.Sub(listed) > every
}
