package daemon

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/containerd/log"

	"quiesce/plugin/internal/gate"
	"quiesce/plugin/stage"
)

// fault is why the last apply failed. It may pass: a full disk, a read-only file system. What is staged stays, and is
// tried again.
type fault struct {
	why   string
	times int // in a row
	next  time.Time
}

const (
	firstRetry = 5 * time.Second
	lastRetry  = time.Minute
)

// applied notes how an apply ended.
func (d *Daemon) applied(ctx context.Context, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.noted.looked = time.Time{} // the runtime is another process now
	if err == nil {
		d.fault = fault{}
		return
	}
	wait := min(firstRetry<<min(d.fault.times, 10), lastRetry)
	d.fault = fault{why: strings.ReplaceAll(err.Error(), "\n", "; "), times: d.fault.times + 1, next: time.Now().Add(wait)}
	log.G(ctx).WithError(err).WithField("again", wait).Error("apply failed")
}

// waiting is the fault, as long as the next try is not due.
func (d *Daemon) waiting(now time.Time) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if now.Before(d.fault.next) {
		return d.fault.why
	}
	return ""
}

// lastFault is the fault of the last try.
func (d *Daemon) lastFault() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.fault.why
}

// ErrStageReplaced ends the daemon: its supervisor starts one that opens the stage that is there now.
var ErrStageReplaced = errors.New("the stage was replaced by another one")

// noStage is what is known without a stage. The daemon goes on, and says so: it keeps its NRI connection.
func (d *Daemon) noStage(why error) (gate.Input, error) {
	if s, err := stage.Open(d.Store.Dir()); err == nil {
		_, err = s.Pending()
		if err = errors.Join(err, s.Close()); err == nil {
			return gate.Input{}, fmt.Errorf("%w: %w", ErrStageReplaced, why)
		}
		why = err
	}
	return gate.Input{Now: time.Now(), Answers: true, Fault: why.Error()}, nil
}
