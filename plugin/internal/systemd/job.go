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
	done       chan string
}

const (
	lookEvery = time.Second     // at a job whose end was not told
	askFor    = 2 * time.Second // one question to systemd, which may be reloading
	tries     = 5               // of beginning a job, with a systemd that goes away meanwhile
)

// begin queues a job. systemd may be executing itself anew (daemon-reexec, every upgrade of its package): its private
// socket is gone for a moment and its connections end.
func begin(ctx context.Context, verb, unit string, call func(*sd.Conn, chan<- string) (int, error)) (*job, error) {
	for try := 1; ; try++ {
		conn, err := connect(ctx)
		if err != nil {
			return nil, err
		}
		j := &job{verb: verb, unit: unit, conn: conn, done: make(chan string, 1)}
		if j.id, err = call(conn, j.done); err == nil {
			return j, nil
		}
		conn.Close()
		_, answered := errors.AsType[dbus.Error](err)
		if answered || ctx.Err() != nil || try == tries {
			return nil, fmt.Errorf("%s unit %s: %w", verb, unit, err)
		}
	}
}

// end waits for the job's end. The result of one whose connection was lost is not told any more: such a job is judged by
// what the unit is once systemd no longer has the job.
func (j *job) end(ctx context.Context, good func(Process) bool) error {
	defer j.conn.Close()
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

// wait gives the job's result; none if systemd has forgotten the job and nothing was told.
func (j *job) wait(ctx context.Context) (string, error) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for gone := 0; gone < 2; { // one that was told late is told by the second look
		select {
		case result := <-j.done:
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
