package drain

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// callLog runs hooks in memory: /fail fails, /hang takes all of its time.
type callLog struct {
	mu    sync.Mutex
	calls []string
	limit map[string]time.Duration
	on    func(c HookCall) // nil: nothing
}

func (l *callLog) Call(_ context.Context, c HookCall) (string, error) {
	l.mu.Lock()
	l.calls = append(l.calls, strings.TrimSpace(fmt.Sprintf("%s %s %s", c.Hook.When, c.Hook.Path, c.Tier)))
	if l.limit == nil {
		l.limit = map[string]time.Duration{}
	}
	l.limit[c.Hook.Path] = c.Limit
	l.mu.Unlock()
	if l.on != nil {
		l.on(c)
	}
	switch c.Hook.Path {
	case "/fail":
		return "no\nway\n", errors.New("exit code 1")
	case "/hang":
		<-time.After(c.Limit)
		return "", errors.New("killed at its time limit")
	}
	return "", nil
}

func hookAt(when Moment, path, tier string) NodeHook {
	return NodeHook{When: when, Path: path, Tier: tier, Timeout: 5 * time.Second, OnFailure: Ignore}
}

func (r *runtime) drainHooked(ctx context.Context, policy Policy, l *callLog, binding bool) (*State, error) {
	snap, err := r.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	plan, err := New(snap, policy, Selection{All: true})
	if err != nil {
		return nil, err
	}
	st := NewState(plan, Selection{All: true}, "id", "boot", "test", time.Now(), policy.Deadline)
	st.Binding = binding
	e := r.engine(policy)
	e.NodeHooks = l
	return st, e.Run(ctx, st)
}

func TestNodeHooksInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRuntime(tp("a", "web"), tp("a", "db", annotate(annAfter, "app=web")), tp("kube-system", "dns"))
		policy := DefaultPolicy()
		policy.Hooks = []NodeHook{
			hookAt(PostDrain, "/z", ""), hookAt(PreDrain, "/a", ""), hookAt(PreTier, "/b", ""), hookAt(PreTier, "/c", KubeSystem),
			hookAt(PostTier, "/d", "10"), hookAt(PreDrain, "/fail", ""), hookAt(PostStart, "/s", ""), hookAt(PreTier, "/n", Network),
		}
		l := &callLog{}
		st, err := r.drainHooked(t.Context(), policy, l, false)
		if err != nil {
			t.Fatal(err)
		}
		check(t, r, st)
		want := []string{
			"pre-drain /a", "pre-drain /fail", "pre-tier /b workloads", "post-tier /d workloads", "pre-tier /b kube-system", "pre-tier /c kube-system", "post-drain /z",
		}
		if !slices.Equal(l.calls, want) {
			t.Errorf("calls %q\nwant  %q", l.calls, want)
		}
		if h := st.Hooks[1]; h.Error != "exit code 1" || h.Output != "no\nway\n" || h.Ended.IsZero() {
			t.Errorf("record %+v", h)
		}
		if e := r.engine(policy); true { // a process that goes on repeats none
			e.NodeHooks, st.Current = l, 0
			if err := e.Run(t.Context(), st); err != nil || len(l.calls) != len(want) {
				t.Errorf("again: %v, %q", err, l.calls)
			}
		}
		if !st.AfterStart(t.Context(), policy, l) || l.calls[len(want)] != "post-start /s" || st.AfterStart(t.Context(), policy, l) {
			t.Errorf("after the start: %q", l.calls)
		}
	})
}

func TestNodeHookAborts(t *testing.T) {
	for _, binding := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r := newRuntime(tp("a", "web"), tp("kube-system", "dns"))
			policy := DefaultPolicy()
			fail := hookAt(PreTier, "/fail", KubeSystem)
			fail.OnFailure = Abort
			policy.Hooks = []NodeHook{fail, hookAt(PostDrain, "/z", "")}
			l := &callLog{}
			st, err := r.drainHooked(t.Context(), policy, l, binding)
			if binding {
				if err != nil || st.Phase != Drained || len(r.signals) != 2 || len(st.Notes) != 1 {
					t.Errorf("a shutdown: %v, %+v", err, st)
				}
				return
			}
			if !errors.Is(err, ErrAborted) || st.Phase != Ended || len(r.signals["c-dns"]) != 0 || len(r.signals["c-web"]) != 1 || len(l.calls) != 1 {
				t.Errorf("%v, phase %s, signals %v, calls %v", err, st.Phase, r.signals, l.calls)
			}
		})
	}
}

// TestNodeHookTakesTime: hooks count against the deadline, and none makes the drain longer by more than its floor.
func TestNodeHookTakesTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRuntime(tp("a", "web"))
		policy := DefaultPolicy()
		policy.Deadline = 20 * time.Second
		hang := hookAt(PreTier, "/hang", "")
		hang.Timeout = time.Hour
		policy.Hooks = []NodeHook{hang}
		began := time.Now()
		l := &callLog{}
		st, err := r.drainHooked(t.Context(), policy, l, false)
		if err != nil || l.limit["/hang"] != 20*time.Second || st.Hooks[0].Error == "" || time.Since(began) > 25*time.Second {
			t.Errorf("%v after %v, limit %v", err, time.Since(began), l.limit)
		}
		check(t, r, st)
	})
}

func TestNodeHookValid(t *testing.T) {
	p := DefaultPolicy()
	for want, h := range map[string]NodeHook{
		"when":         {When: "never", Path: "/a"},
		"absolute":     {When: PreDrain, Path: "a"},
		"without dots": {When: PreDrain, Path: "/a/../b"},
		"has none":     {When: PreDrain, Path: "/a", Tier: Network},
		"none of the":  {When: PreTier, Path: "/a", Tier: "nowhere"},
		"onFailure":    {When: PreTier, Path: "/a", OnFailure: "panic"},
		"abort":        {When: PostDrain, Path: "/a", OnFailure: Abort},
	} {
		h.Timeout = time.Second
		if h.OnFailure == "" {
			h.OnFailure = Ignore
		}
		if err := p.validHook(h); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", h, err, want)
		}
	}
}

// A kubelet that lives on makes sandboxes anew while the last hooks run: they are stopped as well.
func TestNothingOfADrainedPodStaysBehindTheLastHook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRuntime(tp("a", "web"))
		policy := DefaultPolicy()
		policy.Hooks = []NodeHook{hookAt(PostDrain, "/z", "")}
		l := &callLog{on: func(HookCall) {
			r.mu.Lock()
			defer r.mu.Unlock()
			again := *r.pods[0]
			again.ID, again.Ready, again.Containers = "again", true, nil
			r.pods = append(r.pods, &again)
		}}
		if _, err := r.drainHooked(t.Context(), policy, l, false); err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(r.stopped, "again") {
			t.Errorf("stopped: %q", r.stopped)
		}
	})
}
