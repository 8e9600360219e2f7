package drain

import (
	"strings"
	"testing"
	"time"

	"quiesce/test/lab"
)

// TestDrain_Mounts drains a pod with a CSI volume, which somebody unmounts 3 s after the pod has ended, and one with a
// volume that nobody unmounts.
func TestDrain_Mounts(t *testing.T) {
	t.Parallel()
	ctx, l, k := setup(t, lab.Options{Name: "drain-mounts", Config: "[drain]\nmountWait = '6s'"})
	db, dns, stuck := Victim("default", "db", 10), Victim("kube-system", "dns", 10), Victim("late", "stuck", 10)
	stuck.Annotations["quiesce.internal/tier"] = "network"
	last := Victim("late", "last", 10)
	last.Annotations["quiesce.internal/tier"] = "static"
	csi := "/var/lib/kubelet/pods/" + db.UID + "/volumes/kubernetes.io~csi/v1/mount"
	global := "/var/lib/kubelet/plugins/kubernetes.io/csi/driver/v1/globalmount"
	left := "/var/lib/kubelet/pods/" + stuck.UID + "/volumes/kubernetes.io~csi/v2/mount"
	sh(ctx, t, l, "mkdir -p "+csi+" "+global+" "+left+" && mount -t tmpfs v1 "+global+" && mount --bind "+global+" "+csi+" && mount -t tmpfs v2 "+left)
	db.Containers[0].Mounts[csi] = "/data"
	check(t, k.Start(ctx, db, dns, stuck, last))
	started(ctx, t, l, "db", "dns", "stuck", "last")
	sh(ctx, t, l, `systemd-run --unit unmount sh -c 'while pgrep -f "evidence/[d]b" >/dev/null; do sleep 0.1; done; sleep 3; umount `+csi+`; umount `+global+`'`)
	_, err := l.Quiesce(ctx, "drain", "--all", "--yes")
	check(t, err)
	table, err := l.Quiesce(ctx, "report")
	check(t, err)
	t.Logf("\n%s", table)
	if d := signals(t, l, "dns")[0].At.Sub(signals(t, l, "db")[0].At); d < 3*time.Second || d > 5900*time.Millisecond {
		t.Errorf("dns was signalled %v after db, whose volume is unmounted 3 s after it", d)
	}
	if d := signals(t, l, "last")[0].At.Sub(signals(t, l, "stuck")[0].At); d < 6*time.Second {
		t.Errorf("last was signalled %v after stuck, whose volume is waited for for 6 s", d)
	}
	if !strings.Contains(table, left) || strings.Contains(table, csi) {
		t.Error("the report names the wrong mounts")
	}
}
