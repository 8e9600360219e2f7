package fault_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"quiesce/test/lab"
	"quiesce/test/node"
)

// TestLoss_g_TwentyInstallersAtOnce: ten add a handler each, ten remove what the others add. What is live is what some
// order of them gives, everybody agrees on it, and each quiet period costs one restart at most.
func TestLoss_g_TwentyInstallersAtOnce(t *testing.T) {
	t.Parallel()
	twentyAtOnce(t, lab.Options{Name: "fault-g"})
}

// TestConfig_f is the same where all handlers go into one file, which is edited in place.
func TestConfig_f_TwentyInstallersInPlace(t *testing.T) {
	t.Parallel()
	twentyAtOnce(t, lab.Options{Name: "config-f", Node: node.Config{Containerd: legacy}})
}

func twentyAtOnce(t *testing.T, o lab.Options) {
	t.Helper()
	const quiet = time.Second
	o.Quiet = quiet
	ctx, l := lab.New(t, o)
	for round := range 3 {
		var all sync.WaitGroup
		for i := range 10 {
			h := fmt.Sprintf("many-%d", i)
			all.Go(func() {
				if _, err := l.Installer(ctx, "install", "--handler", h, "--runtime-type", "io.containerd.runc.v2", "--option", fmt.Sprintf("Root=/run/r%d", round)); err != nil {
					t.Errorf("install: %v", err)
				}
			})
			all.Go(func() {
				if _, err := l.Installer(ctx, "uninstall", "--handler", h); err != nil {
					t.Errorf("uninstall: %v", err)
				}
			})
		}
		all.Wait()
		check(t, l.Until(ctx, "nothing is pending", func(ctx context.Context) (bool, error) {
			s, err := l.Status(ctx)
			left, lerr := l.Exec(ctx, "sh", "-c", "ls /var/lib/quiesce/inbox/new /var/lib/quiesce/store/act | grep many || true")
			return err == nil && lerr == nil && left == "" && len(s.Pending) == 0 && s.Gate.Phase == "idle", errors.Join(err, lerr)
		}))
		agree(ctx, t, l)
	}
	starts, err := l.Starts(ctx)
	check(t, err)
	if len(starts)-1 > 2*3 {
		t.Errorf("%d restarts in 3 rounds", len(starts)-1)
	}
	for i := 2; i < len(starts); i++ {
		if gap := starts[i].Sub(starts[i-1]); gap < quiet {
			t.Errorf("restarts %v apart, the quiet period is %v", gap, quiet)
		}
	}
	out := sh(ctx, t, l, "ls /var/lib/quiesce/store/bad /var/lib/quiesce/inbox/new /var/lib/quiesce/inbox/tmp /var/lib/quiesce/store/act")
	if strings.Contains(out, "many") {
		t.Errorf("left: %s", out)
	}
}

// agree compares the store, containerd's files and containerd, and the results of those who wait.
func agree(ctx context.Context, t *testing.T, l *lab.Lab) {
	t.Helper()
	var want []string
	for name, r := range resultsBySeq(ctx, t, l) {
		if r == "install" {
			want = append(want, name)
		}
	}
	slices.Sort(want)
	onDisk := strings.Fields(sh(ctx, t, l, "grep -rhoE 'runtimes.many-[0-9]+' /etc/containerd | sort -u | sed 's/runtimes.//'"))
	var info struct {
		Config struct {
			Containerd struct{ Runtimes map[string]any }
		}
	}
	check(t, json.Unmarshal([]byte(sh(ctx, t, l, "crictl info")), &info))
	var loaded []string
	for name := range info.Config.Containerd.Runtimes {
		if strings.HasPrefix(name, "many-") {
			loaded = append(loaded, name)
		}
	}
	slices.Sort(loaded)
	if !slices.Equal(onDisk, want) || !slices.Equal(loaded, want) {
		t.Errorf("the store says %v, the files %v, containerd %v", want, onDisk, loaded)
	}
}

// resultsBySeq is what the last entry of each handler in cur does.
func resultsBySeq(ctx context.Context, t *testing.T, l *lab.Lab) map[string]string {
	t.Helper()
	last, ops := map[string]int64{}, map[string]string{}
	for id := range strings.FieldsSeq(sh(ctx, t, l, "ls /var/lib/quiesce/store/cur")) {
		var m struct {
			Op       string
			Handlers []struct{ Name string }
		}
		var st struct{ Seq int64 }
		for name, v := range map[string]any{"manifest.json": &m, "state.json": &st} {
			b, err := l.ReadFile("/var/lib/quiesce/store/cur/" + id + "/" + name)
			check(t, err)
			check(t, json.Unmarshal(b, v))
		}
		for _, h := range m.Handlers {
			if st.Seq > last[h.Name] {
				last[h.Name], ops[h.Name] = st.Seq, m.Op
			}
		}
		if r, err := l.ReadFile(lab.Results + "/" + id + ".json"); err != nil || !strings.Contains(string(r), `"phase": "live"`) && !strings.Contains(string(r), `"phase": "removed"`) {
			t.Errorf("the result of %s is %s, %v", id, r, err)
		}
	}
	return ops
}
