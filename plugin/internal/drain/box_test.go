package drain

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"quiesce/plugin/internal/node"
)

// stuck takes its time for each sandbox, and never tells states.
type stuck struct {
	*runtime
	sandbox time.Duration
	mute    bool
}

func (s stuck) StopPod(ctx context.Context, id string) error {
	wait(ctx, nil, s.sandbox)
	return s.runtime.StopPod(ctx, id)
}

func (s stuck) States(ctx context.Context) (map[string]node.ContainerState, error) {
	if s.mute {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return s.runtime.States(ctx)
}

func (s stuck) run(t *testing.T, change func(*Engine)) *State {
	t.Helper()
	snap, err := s.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	plan, err := New(snap, DefaultPolicy(), Selection{All: true})
	if err != nil {
		t.Fatal(err)
	}
	st := NewState(plan, Selection{All: true}, "id", "boot", "test", time.Now(), time.Minute)
	e := s.engine(DefaultPolicy())
	e.Stopper, e.Observer = s, s
	change(e)
	if err := e.Run(t.Context(), st); err != nil {
		t.Fatal(err)
	}
	check(t, s.runtime, st)
	return st
}

// Sandboxes are stopped beside the next tier, but before pods on the node's network, which may be the network.
func TestSandboxesBesideTheNextTier(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := func(p *node.Pod) { p.HostNetwork = true }
		r := newRuntime(tp("a", "web"), tp("kube-system", "dns"), tp("kube-system", "cni", host, annotate(source, "file")))
		st := stuck{r, 10 * time.Second, false}.run(t, func(*Engine) {})
		web, _ := find(t, st, "c-web")
		dns, _ := find(t, st, "c-dns")
		cni, _ := find(t, st, "c-cni")
		if !dns.Began.Before(web.Stopped) || cni.Began.Before(web.Stopped) || cni.Began.Before(dns.Stopped) {
			t.Errorf("web's sandbox %v, dns begins %v and its sandbox %v, cni begins %v", web.Stopped, dns.Began, dns.Stopped, cni.Began)
		}
		if len(r.stopped) != 3 || cni.Stopped.After(st.Finished) {
			t.Errorf("sandboxes %v, the last %v, finished %v", r.stopped, cni.Stopped, st.Finished)
		}
	})
}

// A drain that goes on finds the sandboxes of the tiers before.
func TestSandboxesOfTheTiersBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRuntime(tp("a", "web"), tp("kube-system", "dns"))
		st, err := r.drain(t.Context(), DefaultPolicy())
		if err != nil {
			t.Fatal(err)
		}
		st = st.Clone()
		for _, p := range st.Pods {
			p.boxed, p.Stopped = false, time.Time{}
		}
		st.Current, st.Phase, r.stopped = 1, Draining, nil
		if err := r.engine(DefaultPolicy()).Run(t.Context(), st); err != nil || len(r.stopped) != 2 {
			t.Errorf("stopped %v, %v", r.stopped, err)
		}
	})
}

// The end of a process is enough to look, where the list of all containers is slow.
func TestTheEndOfAProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRuntime(tp("a", "web"))
		r.does["c-web"] = behaviour{after: 3 * time.Second}
		st := stuck{r, 0, true}.run(t, func(e *Engine) {
			e.Reacher = known{"c-web": {PID: 1, Runc: true}}
			e.Ended = func(ctx context.Context, _ Reach) bool {
				for !r.ended("c-web") && ctx.Err() == nil {
					wait(ctx, nil, time.Millisecond)
				}
				return ctx.Err() == nil
			}
		})
		if _, c := find(t, st, "c-web"); c.Outcome != Exited || st.Finished.Sub(c.Exit) > 50*time.Millisecond {
			t.Errorf("%+v, finished %v", c, st.Finished)
		}
	})
}

// What follows does not wait until the runtime has noted the end; the code is in the report all the same.
func TestATierEndsWithItsProcesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRuntime(tp("a", "web"), tp("kube-system", "dns"))
		r.late = time.Second
		r.does["c-web"], r.does["c-dns"] = behaviour{after: 3 * time.Second, code: 7}, behaviour{after: time.Second}
		began := time.Now()
		st := stuck{r, 0, false}.run(t, func(e *Engine) {
			e.Reacher = known{"c-web": {PID: 1, Runc: true}, "c-dns": {PID: 2, Runc: true}}
			e.Ended = func(ctx context.Context, at Reach) bool {
				wait(ctx, nil, []time.Duration{0, 3 * time.Second, time.Second}[at.PID])
				return ctx.Err() == nil
			}
		})
		_, web := find(t, st, "c-web")
		dns, last := find(t, st, "c-dns")
		if web.Code == nil || *web.Code != 7 || web.Outcome != Exited || last.Outcome != Exited {
			t.Errorf("%+v, %+v", web, last)
		}
		if web.Exit.After(last.Signal) { // or the report would tell of an order that was not kept
			t.Errorf("web ended at %v, dns had its signal at %v", web.Exit, last.Signal)
		}
		if turn := dns.Began.Sub(began); turn > 3100*time.Millisecond || st.Finished.Sub(began) < 5*time.Second {
			t.Errorf("dns has its turn after %v, all is over after %v", turn, st.Finished.Sub(began))
		}
	})
}

type known map[string]Reach

func (k known) Reach(context.Context) (map[string]Reach, error) { return k, nil }
