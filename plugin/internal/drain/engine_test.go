package drain

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"quiesce/plugin/internal/node"
)

func outcomes(st *State) map[string]Outcome {
	out := map[string]Outcome{}
	for _, p := range st.Pods {
		for _, c := range p.Containers {
			out[c.ID] = c.Outcome
		}
	}
	return out
}

func find(t *testing.T, st *State, id string) (*PodRecord, *ContainerRecord) {
	t.Helper()
	for _, p := range st.Pods {
		for _, c := range p.Containers {
			if c.ID == id {
				return p, c
			}
		}
	}
	t.Fatalf("no container %s", id)
	return nil, nil
}

// check holds for every drain: tiers in order, one signal each, nobody killed before his time.
func check(t *testing.T, r *runtime, st *State) {
	t.Helper()
	for id, at := range r.signals {
		if len(at) != 1 {
			t.Errorf("%s got %d signals", id, len(at))
		}
		p, _ := find(t, st, id)
		for other, x := range r.exits {
			q, _ := find(t, st, other)
			if q.Step < p.Step && at[0].Before(x.At) {
				t.Errorf("%s was signalled before %s had ended", id, other)
			}
		}
	}
	for id, at := range r.kills {
		p, c := find(t, st, id)
		if at.Sub(p.Began) < p.Given || at.Before(c.Deadline) {
			t.Errorf("%s was killed %v after its pod's turn, given were %v", id, at.Sub(p.Began), p.Given)
		}
	}
	for id, o := range outcomes(st) {
		if o == "" {
			t.Errorf("%s has no outcome", id)
		}
	}
}

func TestOrderAndGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRuntime(
			tp("a", "quick", asks("10")), tp("a", "deaf", asks("5")), tp("a", "long", asks("40")),
			tp("kube-system", "dns"), tp("kube-system", "etcd", annotate(source, "file")))
		r.does = map[string]behaviour{"c-quick": {after: time.Second}, "c-deaf": {after: -1}, "c-long": {after: 39 * time.Second, code: 3}}
		began := time.Now()
		st, err := r.drain(t.Context(), DefaultPolicy())
		if err != nil {
			t.Fatal(err)
		}
		check(t, r, st)
		if took := time.Since(began); took > 40*time.Second {
			t.Errorf("took %v", took)
		}
		want := map[string]Outcome{"c-quick": Exited, "c-deaf": Killed, "c-long": Exited, "c-dns": Exited, "c-etcd": Exited}
		if got := outcomes(st); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("outcomes %v", got)
		}
		if len(r.stopped) != 5 || st.Phase != Drained {
			t.Errorf("sandboxes %v, phase %s", r.stopped, st.Phase)
		}
		if _, c := find(t, st, "c-long"); *c.Code != 3 {
			t.Errorf("code %d", *c.Code)
		}
	})
}

// Where the runtime is slow, a signal arrives late: the grace is counted from then on.
func TestSlowRuntime(t *testing.T) {
	for _, slow := range []time.Duration{0, 300 * time.Millisecond, 2 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			r := newRuntime(tp("a", "uses-it", asks("3")), tp("a", "deaf", asks("3")))
			r.slow = slow
			r.does = map[string]behaviour{"c-uses-it": {after: 2900 * time.Millisecond}, "c-deaf": {after: -1}}
			st, err := r.drain(t.Context(), DefaultPolicy())
			if err != nil {
				t.Fatal(err)
			}
			check(t, r, st)
			if got := outcomes(st)["c-uses-it"]; got != Exited {
				t.Errorf("outcome %q, signalled %v, killed %v", got, r.signals, r.kills)
			}
			lived := r.kills["c-deaf"].Sub(r.signals["c-deaf"][0])
			if lived < 3*time.Second || lived > 3*time.Second+sent+2*leasePer {
				t.Errorf("with answers after %v it was killed %v after its signal", slow, lived)
			}
		})
	}
}

// What sandboxes took so far is left of the deadline for the last ones.
func TestReserve(t *testing.T) {
	at := func(s float64) time.Time { return time.Unix(0, 0).Add(time.Duration(s * float64(time.Second))) }
	pod := func(exit, stopped float64) *PodRecord {
		p := &PodRecord{Containers: []*ContainerRecord{{Exit: at(exit)}}}
		if stopped > 0 {
			p.Stopped = at(stopped)
		}
		return p
	}
	for _, c := range []struct {
		pods []*PodRecord
		want time.Duration
	}{
		{nil, reserveLeast},
		{[]*PodRecord{pod(1, 1.1), pod(1, 0), {}}, reserveLeast},
		{[]*PodRecord{pod(1, 1.1), pod(2, 4.5)}, 2500 * time.Millisecond},
		{[]*PodRecord{pod(1, 16)}, reserveMost},
	} {
		s := &State{Pods: c.pods}
		if got := s.reserve(); got != c.want {
			t.Errorf("%d pods: %v, want %v", len(c.pods), got, c.want)
		}
	}
}

// One cannot be killed, one hangs in its hook, one ignores its signal: the drain ends in time and names them.
func TestDeadlineHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hook := func(text string) func(*node.Pod) {
			return func(p *node.Pod) { p.Containers[0].Annotations[lifecycle] = text }
		}
		r := newRuntime(
			tp("a", "zombie", asks("3")), tp("a", "hook", asks("4"), hook(`{"exec":{"command":["hang"]}}`)), tp("a", "deaf", asks("600")),
			tp("kube-system", "dns", asks("600")))
		r.does = map[string]behaviour{"c-zombie": {after: -1, unkillable: true}, "c-deaf": {after: -1}, "c-dns": {after: -1}}
		policy := DefaultPolicy()
		policy.Deadline = 40 * time.Second
		began := time.Now()
		st, err := r.drain(t.Context(), policy)
		if err != nil {
			t.Fatal(err)
		}
		check(t, r, st)
		if took := time.Since(began); took > 40*time.Second {
			t.Errorf("took %v", took)
		}
		want := map[string]Outcome{"c-zombie": Unkillable, "c-hook": Exited, "c-deaf": Killed, "c-dns": Killed}
		if got := outcomes(st); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("outcomes %v", got)
		}
		p, c := find(t, st, "c-hook")
		if !strings.Contains(c.HookError, "cut off") || c.HookEnded.Sub(p.Began) != 4*time.Second {
			t.Errorf("hook: %+v", c)
		}
		if lines := st.Lines(); !lines[0].Container.Outcome.Hard() || !lines[2].Container.Outcome.Hard() {
			t.Error("hard kills do not come first")
		}
		if p, _ := find(t, st, "c-zombie"); !p.Stopped.IsZero() || p.Error == "" {
			t.Error("the sandbox of an unkillable container was stopped")
		}
	})
}

func TestCarryOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRuntime(tp("a", "x", asks("60")), tp("kube-system", "y", asks("60")))
		r.does = map[string]behaviour{"c-x": {after: time.Second}, "c-y": {after: -1}}
		policy := DefaultPolicy()
		policy.Deadline = 40 * time.Second
		st, err := r.drain(t.Context(), policy)
		if err != nil {
			t.Fatal(err)
		}
		x, _ := find(t, st, "c-x")
		y, _ := find(t, st, "c-y")
		if x.Given > 20*time.Second || x.Given < 15*time.Second {
			t.Errorf("the first is given %v, want about half", x.Given)
		}
		if y.Given < 35*time.Second {
			t.Errorf("the second is given %v, want nearly all that the first left", y.Given)
		}
	})
}

func TestSidecarsOutliveMains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := tp("a", "x", annotate(annSidecars, "proxy,log"))
		for _, n := range []string{"proxy", "log"} {
			p.Containers = append(p.Containers, node.Container{ID: "c-" + n, Name: n, State: node.Running})
		}
		r := newRuntime(p)
		r.does = map[string]behaviour{"c-x": {after: 3 * time.Second}}
		st, err := r.drain(t.Context(), DefaultPolicy())
		if err != nil {
			t.Fatal(err)
		}
		check(t, r, st)
		if r.signals["c-log"][0].Before(r.exits["c-x"].At) || r.signals["c-proxy"][0].Before(r.exits["c-log"].At) {
			t.Errorf("signals %v, exits %v", r.signals, r.exits)
		}
	})
}

// A drain that is cut off at any save and begun again from it sends no second signal, and ends.
func TestGoesOn(t *testing.T) {
	run := func(t *testing.T, cut int) (saves int) {
		synctest.Test(t, func(t *testing.T) {
			r := newRuntime(tp("a", "x", asks("5")), tp("a", "deaf", asks("3")), tp("kube-system", "y"))
			r.does = map[string]behaviour{"c-x": {after: 2 * time.Second}, "c-deaf": {after: -1}}
			ctx, cancel := context.WithCancel(t.Context())
			cutter := &cutJournal{runtime: r, at: cut, cut: cancel}
			snap, _ := r.Snapshot(ctx)
			plan, _ := New(snap, DefaultPolicy(), Selection{All: true})
			e := r.engine(DefaultPolicy())
			e.Journal = cutter
			err := e.Run(ctx, NewState(plan, Selection{All: true}, "id", "boot", "test", time.Now(), time.Minute))
			saves = cutter.n
			if cut == 0 {
				check(t, r, cutter.last)
				return
			}
			if err == nil {
				return // cut at the very end
			}
			st := cutter.last
			if err := r.engine(DefaultPolicy()).Run(t.Context(), st); err != nil {
				t.Fatal(err)
			}
			check(t, r, st)
			if st.Phase != Drained {
				t.Errorf("phase %s", st.Phase)
			}
		})
		return saves
	}
	n := run(t, 0)
	if n < 5 {
		t.Fatalf("%d saves", n)
	}
	for cut := 1; cut <= n; cut++ {
		t.Run(fmt.Sprint(cut), func(t *testing.T) { run(t, cut) })
	}
}

// cutJournal is what a crash leaves: the State of the last save before it.
type cutJournal struct {
	runtime *runtime
	n, at   int
	cut     func()
	last    *State
}

func (j *cutJournal) Save(st *State) error {
	if j.at > 0 && j.n >= j.at {
		return errors.New("dead")
	}
	j.n++
	b, err := json.Marshal(st)
	if err != nil {
		return err
	}
	j.last = &State{}
	if err := json.Unmarshal(b, j.last); err != nil {
		return err
	}
	if j.n == j.at {
		j.cut()
	}
	return nil
}

// A runtime that is away for a while gets its stop calls when it is back, one signal each.
func TestRuntimeAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRuntime(tp("a", "x"), tp("kube-system", "y"))
		r.does = map[string]behaviour{"c-x": {after: 5 * time.Second}}
		r.onSignal = func(string) {
			r.mu.Lock()
			r.down = true
			r.mu.Unlock()
			time.AfterFunc(4*time.Second, func() {
				r.mu.Lock()
				r.down = false
				r.mu.Unlock()
			})
		}
		st, err := r.drain(t.Context(), DefaultPolicy())
		if err != nil {
			t.Fatal(err)
		}
		check(t, r, st)
		if got := outcomes(st); got["c-x"] != Exited || got["c-y"] != Exited {
			t.Errorf("outcomes %v", got)
		}
	})
}

// What a kubelet makes anew behind the drain's back is stopped, too.
func TestStragglers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRuntime(tp("a", "x"), tp("kube-system", "y"))
		r.does = map[string]behaviour{"c-x": {after: time.Second}}
		once := true
		r.onSignal = func(id string) {
			r.mu.Lock()
			defer r.mu.Unlock()
			if id == "c-x" && once {
				once = false
				r.pods[0].Containers = append(r.pods[0].Containers, node.Container{ID: "c-again", Name: "main", State: node.Running})
			}
		}
		st, err := r.drain(t.Context(), DefaultPolicy())
		if err != nil {
			t.Fatal(err)
		}
		check(t, r, st)
		if got := outcomes(st); got["c-again"] != Exited {
			t.Errorf("outcomes %v", got)
		}
	})
}

func TestFence(t *testing.T) {
	p := DefaultPolicy()
	web, dns, etcd := tp("a", "web"), tp("kube-system", "dns"), tp("kube-system", "etcd", annotate(source, "file"))
	plan, _ := New(node.Snapshot{Pods: []*node.Pod{web, dns, etcd}}, p, Selection{All: true})
	st := NewState(plan, Selection{All: true}, "id", "boot", "test", time.Now(), time.Minute)
	refused := func(boot string) (names []string) {
		f := NewFence(st, boot, p)
		fresh := tp("b", "fresh")
		for _, pod := range []*node.Pod{web, dns, etcd, fresh, tp("b", "ok", annotate(annAllow, "true")), tp("b", "skip", annotate(annSkip, "true"))} {
			if f.Refuse(pod) != nil {
				names = append(names, pod.Name)
			}
		}
		return names
	}
	for _, tc := range []struct {
		phase   Phase
		current int
		boot    string
		want    []string
	}{
		{Draining, 0, "boot", []string{"web", "fresh"}},
		{Draining, 1, "boot", []string{"web", "dns", "fresh"}},
		{Interrupted, 1, "boot", []string{"web", "dns", "fresh"}},
		{Drained, 2, "boot", []string{"web", "dns", "etcd", "fresh"}},
		{Drained, 2, "next boot", nil},
		{Ended, 2, "boot", nil},
	} {
		st.Phase, st.Current, st.Whole = tc.phase, tc.current, tc.phase == Drained
		if got := refused(tc.boot); !slices.Equal(got, tc.want) {
			t.Errorf("%s at %d in %s: %v, want %v", tc.phase, tc.current, tc.boot, got, tc.want)
		}
	}
}

// What slipped through while the fence was down is stopped when it is seen, and is in the same report.
func TestExtend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRuntime(tp("a", "x"), tp("kube-system", "y"))
		st, err := r.drain(t.Context(), DefaultPolicy())
		if err != nil {
			t.Fatal(err)
		}
		plan := func() Plan {
			s, _ := r.Snapshot(t.Context())
			p, _ := New(s, DefaultPolicy(), Selection{All: true})
			return p
		}
		if st.Extend(plan(), time.Now(), time.Minute) {
			t.Error("extended by nothing")
		}
		r.pods = append(r.pods, tp("b", "late"))
		if !st.Extend(plan(), time.Now(), time.Minute) || st.Phase != Draining || NewFence(st, "boot", DefaultPolicy()).Refuse(r.pods[1]) == nil {
			t.Errorf("not extended, or the fence came down: %+v", st)
		}
		if err := r.engine(DefaultPolicy()).Run(t.Context(), st); err != nil {
			t.Fatal(err)
		}
		if got := outcomes(st); len(got) != 3 || got["c-late"] != Exited || st.Phase != Drained {
			t.Errorf("outcomes %v", got)
		}
	})
}

func TestStore(t *testing.T) {
	s, err := OpenStore(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if st, err := s.Load(); st != nil || err != nil || !s.Changed().IsZero() {
		t.Errorf("fresh: %v, %v", st, err)
	}
	code := 3
	want := &State{Schema: Schema, ID: "x", Phase: Drained, Steps: []*StepRecord{{Name: "a"}}, Pods: []*PodRecord{
		{Name: "p", Containers: []*ContainerRecord{{ID: "c", Code: &code, Hook: &Hook{Exec: []string{"x"}}}}},
	}}
	if err := s.Save(want); err != nil {
		t.Fatal(err)
	}
	got, err := s.Load()
	if err != nil || *got.Pods[0].Containers[0].Code != 3 || got.Pods[0].Containers[0].Hook.Exec[0] != "x" || s.Changed().IsZero() {
		t.Errorf("loaded %+v, %v", got, err)
	}
	half := filepath.Join(s.dir, room, ".quiesce-half")
	if err := os.WriteFile(half, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	unlock, err := s.Lock()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(half); err == nil {
		t.Error("what a drain that died was writing is still there")
	}
	if _, err := s.Lock(); !errors.Is(err, ErrLocked) {
		t.Errorf("second lock: %v", err)
	}
	if err := unlock(); err != nil {
		t.Error(err)
	}
	if err := s.Rotate(); err != nil {
		t.Error(err)
	}
	if st, err := s.Load(); st != nil || err != nil {
		t.Errorf("rotated: %v, %v", st, err)
	}
}

func TestPictureAndTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRuntime()
		for i := range 100 {
			p := tp("ns", fmt.Sprintf("pod-<%d>", i), asks(fmt.Sprint(5+i%30)), annotate(annTier, fmt.Sprint(10*(1+i%6))))
			r.pods = append(r.pods, p)
			r.does[p.Containers[0].ID] = behaviour{after: time.Duration(i%20) * time.Second}
		}
		st, err := r.drain(t.Context(), DefaultPolicy())
		if err != nil {
			t.Fatal(err)
		}
		check(t, r, st)
		var svg, table bytes.Buffer
		if err := errors.Join(st.SVG(&svg, time.Now()), st.Print(&table, time.Now())); err != nil {
			t.Fatal(err)
		}
		for d := xml.NewDecoder(bytes.NewReader(svg.Bytes())); ; {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
		}
		for text, want := range map[string]int{"<title>": 100, "✕ killed at deadline": st.Summary()[Killed], `fill="` + tierTime + `"`: 7, ">17 containers<": 4} {
			if n := strings.Count(svg.String(), text); n != want {
				t.Errorf("%s is %d times in the picture, want %d", text, n, want)
			}
		}
		if n := strings.Count(table.String(), "\n"); n != 102 {
			t.Errorf("%d lines:\n%s", n, table.String())
		}
	})
}
