package systemd

import (
	"context"
	"fmt"
	"os"

	"github.com/coreos/go-systemd/v22/login1"
)

// InhibitShutdown makes logind refuse to shut the node down, to all but privileged callers, until release is called or
// the process ends. The answer is waited for as long as ctx allows; one that comes later is given back.
func InhibitShutdown(ctx context.Context, why string) (release func() error, err error) {
	type answer struct {
		f   *os.File
		err error
	}
	got := make(chan answer, 1)
	go func() {
		f, err := inhibit(why)
		if f != nil && ctx.Err() != nil {
			err = f.Close()
			f = nil
		}
		got <- answer{f, err}
	}()
	select {
	case a := <-got:
		if a.err != nil {
			return nil, fmt.Errorf("inhibit shutdown: %w", a.err)
		}
		if a.f == nil {
			return nil, fmt.Errorf("inhibit shutdown: %w", context.Cause(ctx))
		}
		return a.f.Close, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("inhibit shutdown: %w", context.Cause(ctx))
	}
}

func inhibit(why string) (*os.File, error) {
	conn, err := login1.New()
	if err != nil {
		return nil, err
	}
	defer conn.Close() // the inhibitor is the descriptor, not the connection
	return conn.Inhibit("shutdown", "quiesce", why, "block")
}
