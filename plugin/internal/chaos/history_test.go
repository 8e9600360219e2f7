package chaos

import (
	"context"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"quiesce/plugin/internal/apply"
	"quiesce/plugin/stage"
)

// names are handlers: of some no runtime starts, of some it starts and does not list them.
var names = []string{"a", "b", "c", "d", "a", "b", "c", "broken", "hidden"}

// history draws what happens.
type history struct {
	*world
	r *rand.Rand
}

// play plays the history of a number, and tells what is wrong at its end.
func play(t *testing.T, d *disks, seed, number uint64, real time.Time, into map[string]int) (wrong []string) {
	if err := d.fresh(); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(*testing.T) {
		pass(time.Until(real)) // files have real times
		h := &history{r: rand.New(rand.NewPCG(seed, number))}
		h.world = &world{
			disks: d, began: time.Now(), rng: rand.New(rand.NewPCG(seed, ^number)), faults: into, pods: map[string]*pod{},
			delay: 300 * time.Millisecond,
		}
		if err := h.startRuntime(); err != nil {
			h.violate("%v", err)
		}
		h.startDaemon(0)
		for range 4 + h.r.IntN(12) {
			pass(time.Duration(h.r.Int64N(int64(h.gap()))))
			h.happen()
		}
		h.rest()
		wrong = h.wrong
	})
	return wrong
}

// gap is how long nothing happens at most: mostly not long.
func (h *history) gap() time.Duration {
	return []time.Duration{300 * time.Millisecond, 300 * time.Millisecond, 2 * time.Second, 20 * time.Second}[h.r.IntN(4)]
}

func (h *history) name() string { return names[h.r.IntN(len(names))] }

func (h *history) some() []string {
	first, second := h.name(), h.name()
	if h.r.IntN(3) > 0 || first == second {
		return []string{first}
	}
	return []string{first, second}
}

// happen is one event.
func (h *history) happen() {
	r, some, lives := h.r, h.some(), time.Duration(1+h.r.Int64N(int64(6*time.Second)))
	events := []struct {
		weight int
		name   string
		do     func()
	}{
		{8, "", func() { h.enqueue(stage.Install, some...) }},
		{4, "", func() { h.enqueue(stage.Remove, some...) }},
		{4, "", func() {
			go h.run(&pod{job: true, installer: true}, lives, func() { h.enqueue(stage.Install, some...) })
		}},
		{2, "", func() { go h.run(&pod{job: true, installer: true}, lives, func() { h.enqueue(stage.Remove, some...) }) }},
		{4, "", func() { go h.run(&pod{job: true}, lives, nil) }},
		{2, "", func() { go h.run(&pod{handler: h.live(r.IntN(9))}, lives, nil) }},
		{3, "", func() { go h.churn(time.Duration(r.Int64N(int64(10 * time.Second)))) }},
		{3, "daemon killed", h.killDaemon},
		{2, "apply killed", h.killApply},
		{3, "containerd killed", h.endRuntime},
		{2, "shim killed", func() { h.killShim(r.IntN(9)) }},
		{2, "dbus away", func() { h.loseBus(time.Duration(r.Int64N(int64(8 * time.Second)))) }},
		{2, "containerd slow", func() { go h.slow(time.Duration(r.Int64N(int64(25*time.Second))), lives) }},
		{2, "power cut", h.cutPower},
		{2, "disk full", func() { go h.spoil(h.disks.fill, parts[r.IntN(3)], lives) }},
		{2, "disk read-only", func() { go h.spoil(h.disks.readOnly, parts[r.IntN(3)], lives) }},
		{2, "clock jump", func() { h.jump(time.Duration(r.Int64N(int64(48*time.Hour))) - 24*time.Hour) }},
		{1, "hold", func() { go h.hold(lives) }},
	}
	total := 0
	for _, e := range events {
		total += e.weight
	}
	at := r.IntN(total)
	for _, e := range events {
		if at -= e.weight; at >= 0 {
			continue
		}
		if e.name != "" {
			h.mu.Lock()
			h.faults[e.name]++
			h.mu.Unlock()
		}
		e.do()
		return
	}
}

// live is a handler that the runtime has; the default one if it is away.
func (h *history) live(i int) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.loaded) == 0 || h.loaded[i%len(h.loaded)] == "runc" {
		return ""
	}
	return h.loaded[i%len(h.loaded)]
}

// churn starts a pod after the other.
func (h *history) churn(lasts time.Duration) {
	for began := time.Now(); time.Since(began) < lasts; pass(h.about(250 * time.Millisecond)) {
		go h.run(&pod{}, 500*time.Millisecond, nil)
	}
}

func (h *history) killShim(i int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, p := range h.pods {
		if i--; i < 0 {
			p.killed = true
			return
		}
	}
}

func (h *history) loseBus(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.noBus = time.Now().Add(d)
}

// slow lets runtimes that are started meanwhile take their time.
func (h *history) slow(d, lasts time.Duration) {
	set := func(d time.Duration) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.delay = d
	}
	set(d)
	pass(lasts)
	set(300 * time.Millisecond)
}

func (h *history) spoil(how func(string), part string, lasts time.Duration) {
	how(part)
	pass(lasts)
	if err := h.disks.heal(); err != nil {
		h.violate("heal: %v", err)
	}
}

func (h *history) hold(lasts time.Duration) {
	s, err := stage.Open(h.path("var/stage"))
	if err != nil {
		return
	}
	defer s.Close()
	_ = s.SetHold("an operator") // the disk may be full
	pass(lasts)
	for s.SetHold("") != nil {
		pass(time.Second)
	}
}

// jump sets the clock: whatever was stamped before is so much younger or older now.
func (h *history) jump(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.skew += d
	for _, p := range h.pods {
		p.stamp -= d
		p.excused = p.excused || !p.started
	}
	_ = filepath.WalkDir(h.disks.dir, func(p string, e fs.DirEntry, err error) error {
		if fi, serr := os.Stat(p); err == nil && serr == nil {
			_ = os.Chtimes(p, time.Time{}, fi.ModTime().Add(-d))
		}
		return nil
	})
}

// cutPower ends everything, and boots: apply before the runtime, and the daemon after it.
func (h *history) cutPower() {
	h.mu.Lock()
	h.epoch++
	epoch := h.epoch
	h.stopped, h.process, h.answers, h.down, h.window, h.looked = true, 0, false, nil, nil, time.Time{}
	clear(h.pods)
	h.mu.Unlock()
	h.killApply()
	h.killDaemon()
	_ = h.disks.heal() // they are mounted anew
	pass(h.about(2 * time.Second))
	<-h.launch(func(ctx context.Context, a *apply.Apply) error { return a.Boot(ctx) }).done
	h.mu.Lock()
	h.stopped = false
	h.mu.Unlock()
	go func() { _ = h.startRuntime() }()
	h.startDaemon(epoch)
}

// rest ends all faults, lets everything come to rest, and looks.
func (h *history) rest() {
	pass(30 * time.Second) // faults and pods end by themselves
	h.mu.Lock()
	h.noBus = time.Time{}
	h.mu.Unlock()
	for began := time.Now(); ; pass(time.Second) {
		why := h.restless()
		if why == nil {
			break
		}
		if time.Since(began) > 30*time.Minute {
			h.violate("no rest: %v", why)
			break
		}
	}
	h.mu.Lock()
	h.over = true
	h.mu.Unlock()
	h.judge()
	h.killApply()
	h.killDaemon()
	h.mu.Lock()
	h.stopped = true
	h.epoch++
	h.mu.Unlock()
	pass(time.Minute)
}

// restless says what is still going on.
func (h *history) restless() error {
	h.mu.Lock()
	pods, busy, up := len(h.pods), h.apply != nil, h.answers
	h.mu.Unlock()
	s, err := stage.Open(h.path("var/stage"))
	if err != nil {
		return err
	}
	defer s.Close()
	pending, err := s.Pending()
	switch {
	case err != nil:
		return err
	case !up:
		return errors.New("containerd is not up")
	case len(pending) > 0 || s.Interrupted() || busy:
		return errors.New("entries are pending: " + strings.Join(ids(pending), " "))
	case pods > 0:
		return errors.New("pods are there")
	}
	return nil
}

func ids(es []stage.Entry) (out []string) {
	for _, e := range es {
		out = append(out, e.ID)
	}
	return out
}

// judge looks at a node at rest.
func (h *history) judge() {
	disk, err := h.onDisk()
	h.mu.Lock()
	loaded, staged, win := slices.Clone(h.loaded), slices.Clone(h.staged), h.window
	h.mu.Unlock()
	if err != nil || !slices.Equal(disk, loaded) {
		h.violate("a mixture: containerd has %v, on disk are %v, %v", loaded, disk, err)
	}
	if win != nil {
		h.violate("containers are frozen")
	}
	s, err := stage.Open(h.path("var/stage"))
	if err != nil {
		h.violate("%v", err)
		return
	}
	defer s.Close()
	current, cerr := s.Current()
	rejected, rerr := s.Rejected()
	j, jerr := s.Journal()
	results, err := stage.Results(h.path("var/stage/results"))
	if err = errors.Join(cerr, rerr, jerr, err); err != nil || j != nil {
		h.violate("journal %+v, %v", j, err)
	}
	want := []string{"runc"}
	for name := range stage.Live(current) {
		want = append(want, name)
	}
	if slices.Sort(want); !slices.Equal(want, disk) {
		h.violate("a mixture: live are %v, on disk are %v", want, disk)
	}
	phase := map[string]stage.Phase{}
	for _, r := range results {
		phase[r.ID] = r.Phase
	}
	for _, id := range staged {
		if !phase[id].Final() {
			h.violate("entry %s is lost: its result says %q", id, phase[id])
		}
	}
	for _, e := range current {
		if phase[e.ID] != e.Phase() {
			h.violate("entry %s is in cur, its result says %q", e.ID, phase[e.ID])
		}
	}
	for _, e := range rejected {
		if phase[e.ID] != stage.Rejected {
			h.violate("entry %s is in bad, its result says %q", e.ID, phase[e.ID])
		}
	}
	h.leftovers()
}

// leftovers are files half written. The daemon writes to two directories at any time.
func (h *history) leftovers() {
	_ = filepath.WalkDir(h.disks.dir, func(p string, e fs.DirEntry, err error) error {
		in := filepath.Dir(p)
		if err == nil && strings.HasPrefix(e.Name(), ".quiesce-") && in != h.path("var/stage/store") && in != h.path("var/stage/results") {
			h.violate("left half written: %s", p)
		}
		return nil
	})
}
