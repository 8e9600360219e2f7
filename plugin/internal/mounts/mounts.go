// Package mounts lists the node's mounts, and never touches what is mounted.
package mounts

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/moby/sys/mountinfo"

	"quiesce/plugin/internal/drain"
)

// Host reads the mounts of PID 1's namespace. The zero value is ready.
type Host struct {
	mu  sync.Mutex
	now chan answer // of the read that is on
}

type answer struct {
	all []drain.Mount
	err error
}

// limit is how long one read may take: an unmount that hangs may hold the kernel's lock on the list.
const limit = 2 * time.Second

// Mounts is part of drain.Mounts. Of reads that hang there is one at most.
func (h *Host) Mounts(ctx context.Context) ([]drain.Mount, error) {
	h.mu.Lock()
	if h.now == nil {
		h.now = make(chan answer, 1)
		go func(to chan<- answer) {
			all, err := read()
			to <- answer{all, err}
		}(h.now)
	}
	now := h.now
	h.mu.Unlock()
	end := time.NewTimer(limit)
	defer end.Stop()
	select {
	case a := <-now:
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.now == now {
			h.now = nil
		}
		return a.all, a.err
	case <-end.C:
		return nil, errors.New("list mounts: the kernel does not answer")
	case <-ctx.Done():
		return nil, fmt.Errorf("list mounts: %w", context.Cause(ctx))
	}
}

func read() ([]drain.Mount, error) {
	f, err := os.Open("/proc/1/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("list mounts: %w", err)
	}
	defer f.Close()
	infos, err := mountinfo.GetMountsFromReader(f, nil)
	if err != nil {
		return nil, fmt.Errorf("list mounts: %w", err)
	}
	all := make([]drain.Mount, 0, len(infos))
	for _, i := range infos {
		all = append(all, drain.Mount{Point: i.Mountpoint, Type: i.FSType, Device: fmt.Sprintf("%d:%d", i.Major, i.Minor)})
	}
	return all, nil
}
