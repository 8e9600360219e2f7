package systemd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	sd "github.com/coreos/go-systemd/v22/dbus"
	"github.com/godbus/dbus/v5"
)

// Program is run once, as a service of its own: in a cgroup of its own, with systemd's environment, and not in the
// sandbox of whoever has it run.
type Program struct {
	Unit        string // a name that is free
	Description string
	Argv        []string
	Env         []string // NAME=value
	Limit       time.Duration
}

// late is how long after its limit a program's end is waited for.
const late = 10 * time.Second

// ErrLimit says that a program was killed, with all that it had started, because its time was over.
var ErrLimit = errors.New("killed at its time limit")

// Run returns when nothing of the program runs any more. What it writes goes to out, which must not block. An exit code
// other than 0 is an error. It may be run while the system shuts down.
func (p Program) Run(ctx context.Context, out io.Writer) error {
	r, w, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("run %s: %w", p.Argv[0], err)
	}
	defer r.Close()
	copied := make(chan error, 1)
	go func() {
		_, err := io.Copy(out, r)
		copied <- err
	}()
	err = p.run(ctx, w)
	_ = r.SetReadDeadline(time.Now().Add(time.Second)) // systemd drops its end a moment after the unit has ended
	if cerr := <-copied; cerr != nil && !errors.Is(cerr, os.ErrDeadlineExceeded) {
		err = errors.Join(err, fmt.Errorf("read output: %w", cerr))
	}
	return err
}

func (p Program) run(ctx context.Context, out *os.File) error {
	ctx, cancel := context.WithTimeoutCause(ctx, p.Limit+late, ErrLimit)
	defer cancel()
	j, err := begin(ctx, "start", p.Unit, func(conn *sd.Conn, done chan<- string) (int, error) {
		return conn.StartTransientUnitContext(ctx, p.Unit, "fail", p.properties(out), done)
	})
	if cerr := out.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	err = j.end(ctx, gone)
	if err == nil {
		return nil
	}
	after, cancel := context.WithTimeout(context.WithoutCancel(ctx), late)
	defer cancel()
	return errors.Join(p.verdict(after, err), context.Cause(ctx))
}

func (p Program) properties(out *os.File) []sd.Property {
	property := func(name string, v any) sd.Property { return sd.Property{Name: name, Value: dbus.MakeVariant(v)} }
	micros := func(d time.Duration) uint64 { return uint64(max0(d).Microseconds()) } //nolint:gosec // not negative
	fd := dbus.UnixFD(out.Fd())                                                      //nolint:gosec // a descriptor is small
	return []sd.Property{
		sd.PropDescription(p.Description),
		sd.PropType("oneshot"),
		property("ExecStart", []command{{p.Argv[0], p.Argv, false}}),
		property("Environment", p.Env),
		property("StandardOutputFileDescriptor", fd),
		property("StandardErrorFileDescriptor", fd),
		property("DefaultDependencies", false), // a shutdown neither forbids nor stops it
		property("KillMode", "control-group"),
		property("KillSignal", int32(9)),
		property("TimeoutStartUSec", micros(p.Limit)),
		property("TimeoutStopUSec", micros(late/2)),
	}
}

// verdict says how a program ended that did not end well, and has systemd forget it.
func (p Program) verdict(ctx context.Context, err error) error {
	var props map[string]any
	aerr := ask(ctx, func(conn *sd.Conn) (err error) {
		props, err = conn.GetAllPropertiesContext(ctx, p.Unit)
		return err
	})
	if active, _ := props["ActiveState"].(string); aerr == nil && active != "failed" && active != "inactive" {
		err = errors.Join(err, end(ctx, p.Unit))
	}
	result, _ := props["Result"].(string)
	status, _ := props["ExecMainStatus"].(int32)
	switch {
	case aerr != nil:
		err = errors.Join(err, aerr)
	case result == "timeout":
		err = ErrLimit
	case result == "exit-code":
		err = fmt.Errorf("exit code %d", status)
	case result == "signal" || result == "core-dump":
		err = fmt.Errorf("ended by signal %d", status)
	}
	_ = ask(ctx, func(conn *sd.Conn) error { return conn.ResetFailedUnitContext(ctx, p.Unit) }) // it may be gone
	return err
}
