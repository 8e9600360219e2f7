package apply

import (
	"context"
	"testing"

	"quiesce/plugin/internal/systemd"
	"quiesce/plugin/stage"
)

// deaf is a unit whose first restart is done, says systemd, while its process is the old one.
type deaf struct {
	*machine
	left int
}

func (d *deaf) Restart(ctx context.Context) (before, after systemd.Process, err error) {
	if d.left > 0 {
		d.left--
		p, err := d.Process(ctx)
		return p, p, err
	}
	return d.machine.Restart(ctx)
}

func TestDoneWithTheOldProcessIsNotDone(t *testing.T) {
	m := newMachine(t)
	m.stage(manifest(stage.Install, "i", "a"))
	a, done := m.apply()
	defer done()
	a.Unit = &deaf{m, 1}
	check(t, a.Run(context.Background(), Ticket{Ready: []string{"i"}}))
	m.wantPhase("i", stage.Rejected, "its process is the old one")
	m.want([]string{"runc"}, 1)
	m.wantOriginal()
}
