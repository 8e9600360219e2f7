package loss_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"quiesce/test/loss"
)

// asVersion2 runs what follows where no freezer of version 1 is mounted, as on a node with version 2 alone.
const asVersion2 = `umount /sys/fs/cgroup/freezer && exec "$@"`

// TestLoss_CgroupVersion2 moves containers into cgroups of the unified hierarchy and freezes them there.
func TestLoss_CgroupVersion2(t *testing.T) {
	t.Parallel()
	ctx, n := boot(t, "loss-v2")
	w, err := loss.Start(ctx, n, "unified", 5, 20)
	check(t, err)
	for _, id := range w.IDs() {
		_, err := n.Exec(ctx, "sh", "-ec", fmt.Sprintf(`mkdir -p /sys/fs/cgroup/unified/pods/%[1]s
			for p in $(cat $(find /sys/fs/cgroup/freezer -name %[1]s)/cgroup.procs); do echo $p >/sys/fs/cgroup/unified/pods/%[1]s/cgroup.procs; done`, id))
		check(t, err)
	}
	version2 := []string{"unshare", "--mount", "sh", "-c", asVersion2, "sh"}

	end := hang(ctx, t, n, time.Minute, version2...)
	list, err := n.ReadFile(store + "/freeze.json")
	check(t, err)
	if got := strings.Count(string(list), `"version": 2`); got != 20 {
		t.Errorf("%d cgroups of version 2 are on the list, want 20:\n%s", got, list)
	}
	out, err := n.Exec(ctx, "sh", "-c", "cat /sys/fs/cgroup/unified/pods/*/cgroup.events | grep -c 'frozen 1'")
	if err != nil || out != "20\n" {
		t.Errorf("%q cgroups are frozen, %v", out, err)
	}
	end()
	t.Logf("thawed after %v", thawedWithin(ctx, t, n))

	check(t, w.Go(6*time.Second))
	due, restarts := 0, 0
	for range 12 {
		o, err := tryIn(ctx, n, version2)
		check(t, err)
		if o.Early {
			t.Error("something thawed them before the end")
		}
		due, restarts = due+w.Due(o.Frozen, o.Thawed), restarts+1
		wait(ctx, 100*time.Millisecond)
	}
	lost, err := w.Lost(ctx)
	check(t, err)
	t.Logf("version 2: %d restarts, %d due while frozen, %d lost", restarts, due, len(lost))
	if due == 0 || len(lost) > 0 {
		t.Errorf("%d were due while frozen, lost: %q", due, lost)
	}
}
