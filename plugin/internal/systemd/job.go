package systemd

import (
	"context"
	"errors"
	"fmt"
	"time"

	sd "github.com/coreos/go-systemd/v22/dbus"
	"github.com/godbus/dbus/v5"
)

// job is one of systemd's jobs that was begun here.
type job struct {
	id         int
	verb, unit string
	conn       *sd.Conn
	bus        context.CancelFunc // ends conn, if it is over the bus, where anyone may send signals
	done       chan string
}

func (j *job) close() {
	j.conn.Close()
	if j.bus != nil {
		j.bus()
	}
}

const (
	lookEvery = time.Second     // at a job whose end was not told
	askFor    = 2 * time.Second // one question to systemd, which may be reloading
	tries     = 5               // of beginning a job, with a systemd that goes away meanwhile
)

// begin queues a job. systemd may be executing itself anew (daemon-reexec, every upgrade of its package): its private
// socket is gone for a moment and its connections end.
func begin(ctx context.Context, verb, unit string, call func(*sd.Conn, chan<- string) (int, error)) (*job, error) {
	return beginOver(ctx, func(ctx context.Context) (*sd.Conn, context.CancelFunc, error) {
		conn, err := connect(ctx)
		return conn, nil, err
	}, verb, unit, call)
}

// dial connects to systemd; over the bus what it gives besides ends the connection.
type dial func(context.Context) (*sd.Conn, context.CancelFunc, error)

func beginOver(ctx context.Context, dial dial, verb, unit string, call func(*sd.Conn, chan<- string) (int, error)) (*job, error) {
	for try := 1; ; try++ {
		conn, bus, err := dial(ctx)
		if err != nil {
			return nil, err
		}
		j := &job{verb: verb, unit: unit, conn: conn, bus: bus, done: make(chan string, 1)}
		if j.id, err = call(conn, j.done); err == nil {
			return j, nil
		}
		j.close()
		_, answered := errors.AsType[dbus.Error](err)
		if answered || ctx.Err() != nil || try == tries {
			return nil, fmt.Errorf("%s unit %s: %w", verb, unit, err)
		}
	}
}

// end waits for the job's end. The result of one whose connection was lost is not told any more: such a job is judged by
// what the unit is once systemd no longer has the job.
func (j *job) end(ctx context.Context, good func(Process) bool) error {
	defer j.close()
	result, err := j.wait(ctx)
	if err != nil {
		return err
	}
	switch result {
	case "done":
		return nil
	case "":
		p, err := Unit{j.unit}.Process(ctx)
		if errors.Is(err, errUnknown) {
			err = nil
		}
		if err == nil && !good(p) {
			err = fmt.Errorf("%s unit %s: the result of systemd's job was lost, and the unit is %s (%s)", j.verb, j.unit, p.Active, p.Result)
		}
		return err
	default:
		return fmt.Errorf("%s unit %s: systemd's job ended %q", j.verb, j.unit, result)
	}
}

// wait gives the job's result; none if systemd has forgotten the job and nothing was told. A signal over
// the bus that tells the end of a job that systemd still has is forged.
func (j *job) wait(ctx context.Context) (string, error) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for gone := 0; gone < 2; { // one that was told late is told by the second look
		select {
		case result := <-j.done:
			if j.bus == nil {
				return result, nil
			}
			if there, err := j.queued(ctx); err == nil && there {
				continue
			}
			return result, nil
		case <-ctx.Done():
			return "", fmt.Errorf("%s unit %s: %w", j.verb, j.unit, context.Cause(ctx))
		case <-tick.C:
		}
		switch there, err := j.queued(ctx); {
		case err != nil: // systemd is busy with itself
		case there:
			gone = 0
		default:
			gone++
		}
	}
	return "", nil
}

// queued asks systemd, over a connection of its own, whether it has the job. Jobs keep their numbers over a reexec.
func (j *job) queued(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	conn, err := connect(ctx)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	jobs, err := conn.ListJobsContext(ctx)
	if err != nil {
		return false, fmt.Errorf("list systemd's jobs: %w", err)
	}
	for _, other := range jobs {
		if int(other.Id) == j.id {
			return true, nil
		}
	}
	return false, nil
}

func stopped(p Process) bool { return p.Active == "inactive" || p.Active == "failed" }

func running(p Process) bool { return p.Active == "active" }
