// Command supervisor stands in for a program that runs containerd as its child, in a node of the tests: k3s, which renders
// containerd's config from a template at each start, or k0s, which watches a directory of drop-ins and restarts containerd
// after anything that happens there.
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

func main() {
	runtime.LockOSThread() // the child's death signal is this thread's
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	var err error
	switch kind := os.Args[len(os.Args)-1]; kind {
	case "server":
		err = k3s(ctx)
	case "worker":
		err = k0s(ctx)
	default:
		err = fmt.Errorf("there is no %s", kind)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "supervisor:", err)
		os.Exit(1) //nolint:gocritic // nothing is deferred that matters
	}
}

// start starts containerd. It ends when this program ends (k3s pkg/agent/containerd, addDeathSig).
func start(argv ...string) (*exec.Cmd, error) {
	cmd := exec.Command("/usr/local/bin/containerd", argv...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	return cmd, cmd.Start()
}

// ready tells systemd as soon as somebody listens.
func ready(ctx context.Context, socket string) error {
	for ctx.Err() == nil {
		if conn, err := net.Dial("unix", socket); err == nil {
			_, err = daemon.SdNotify(false, daemon.SdNotifyReady)
			return errors.Join(err, conn.Close())
		}
		pause(ctx, 20*time.Millisecond)
	}
	return context.Cause(ctx)
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
