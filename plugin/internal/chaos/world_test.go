package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"quiesce/plugin/internal/containerd/config"
)

// Limits of the imitated node.
const (
	verify      = 15 * time.Second
	freezeLimit = 10 * time.Second
	quiet       = time.Second
)

// world is a node. mu is never held while something waits.
type world struct {
	disks *disks
	began time.Time

	mu     sync.Mutex
	rng    *rand.Rand // of how long things take
	wrong  []string
	faults map[string]int
	over   bool // nothing new begins
	epoch  int  // of boots

	process int // the runtime's; 0: none
	last    int
	answers bool
	since   time.Time // of answering
	loaded  []string
	delay   time.Duration // until a runtime that was started answers
	noBus   time.Time     // until when systemd cannot be asked

	pods   map[string]*pod
	count  int
	window *window

	down    *downtime // of a restart that apply asked for
	looked  time.Time // when the list of apply's last look was begun; zero: it did not look
	listed  time.Time
	excused bool // freezing was refused, and has to be gone without

	staged  []string
	skew    time.Duration // of the clock, in what is stamped from now on
	daemon  *daemonProcess
	apply   *applyProcess
	stopped bool // the power is off
}

func (w *world) path(p string) string { return filepath.Join(w.disks.dir, p) }

// violate notes what is wrong.
func (w *world) violate(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.violateLocked(format, args...)
}

func (w *world) violateLocked(format string, args ...any) {
	s := fmt.Sprintf("after %v: ", time.Since(w.began).Round(time.Millisecond)) + strings.ReplaceAll(fmt.Sprintf(format, args...), w.disks.dir, "")
	if len(w.wrong) < 5 {
		w.wrong = append(w.wrong, s)
	}
}

// about is a time around d, never twice the same.
func (w *world) about(d time.Duration) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return d/2 + time.Duration(w.rng.Int64N(int64(d)))
}

// pass lets simulated time pass.
func pass(d time.Duration) { <-time.After(d) }

func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// onDisk is what a runtime would load that starts now.
func (w *world) onDisk() ([]string, error) {
	c, err := config.Read(config.Place{Root: w.path("etc/config.toml")})
	if err != nil {
		return nil, err
	}
	hs, err := c.Handlers()
	names := []string{"runc"}
	for _, h := range hs {
		names = append(names, h.Name)
		if fi, serr := os.Stat(h.Type); filepath.IsAbs(h.Type) && (serr != nil || !fi.Mode().IsRegular()) {
			err = errors.Join(err, fmt.Errorf("handler %s has no shim: %w", h.Name, serr))
		}
	}
	slices.Sort(names)
	return names, err
}

// startRuntime starts a runtime, which reads its configuration first, and returns when it answers, as Type=notify does.
// One that cannot start is started again each second.
func (w *world) startRuntime() error {
	names, err := w.onDisk()
	if err != nil {
		w.violate("containerd finds its files neither old nor new: %v", err)
	}
	w.mu.Lock()
	if w.stopped {
		w.mu.Unlock()
		return errors.New("the power is off")
	}
	w.last++
	me, delay, epoch := w.last, w.delay, w.epoch
	w.process, w.loaded, w.answers = me, names, false
	broken := slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, "broken") })
	if broken {
		w.process = 0
		go w.startAgain(epoch)
	}
	w.mu.Unlock()
	if broken {
		return errors.New("job failed")
	}
	pass(delay)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.process != me {
		return errors.New("job canceled")
	}
	w.answers, w.since = true, time.Now()
	w.judgeDowntime()
	return nil
}

// startAgain is Restart=always.
func (w *world) startAgain(epoch int) {
	pass(w.about(time.Second))
	w.mu.Lock()
	again := w.process == 0 && w.epoch == epoch && !w.stopped && (w.down == nil || w.down.started)
	w.mu.Unlock()
	if again {
		_ = w.startRuntime() // it says so itself
	}
}

// endRuntime is a runtime that dies.
func (w *world) endRuntime() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.process != 0 {
		w.process, w.answers = 0, false
		go w.startAgain(w.epoch)
	}
}

// bus waits for systemd as long as quiesce does.
func (w *world) bus(ctx context.Context) error {
	w.mu.Lock()
	left := time.Until(w.noBus)
	w.mu.Unlock()
	if left <= 0 {
		return nil
	}
	if left > 5*time.Second {
		return errors.Join(wait(ctx, 5*time.Second), errors.New("connect to systemd: refused"))
	}
	return wait(ctx, left)
}

// downtime is while the runtime is away because apply has it restarted.
type downtime struct {
	began   time.Time
	started bool
	died    bool // apply, meanwhile
	lost    []string
}

// judgeDowntime looks at a downtime that is over. Needs mu.
func (w *world) judgeDowntime() {
	d := w.down
	w.down = nil
	if d != nil && !d.died && time.Since(d.began) < min(verify, freezeLimit)-time.Second && len(d.lost) > 0 {
		w.violateLocked("exit codes lost that were promised: %v", d.lost)
	}
}
