package drain

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

const kubelet = "/var/lib/kubelet"

func csi(uid, volume, device string) Mount {
	return Mount{kubelet + "/pods/" + uid + "/volumes/kubernetes.io~csi/" + volume + "/mount", "ext4", device}
}

func staged(volume, device string) Mount {
	return Mount{kubelet + "/plugins/kubernetes.io/csi/driver/" + volume + "/globalmount", "ext4", device}
}

func TestHeld(t *testing.T) {
	all := []Mount{
		{"/", "ext4", "8:1"},
		csi("u-a", "v1", "8:16"), staged("v1", "8:16"), csi("u-a", "v2", "8:32"), csi("u-b", "v2", "8:32"), staged("v2", "8:32"),
		{kubelet + "/pods/u-a/volumes/kubernetes.io~nfs/home", "nfs4", "0:50"},
		{kubelet + "/pods/u-a/volumes/kubernetes.io~empty-dir/x", "tmpfs", "0:51"},
		{"/snap" + kubelet + "/pods/u-a/volumes/kubernetes.io~csi/v3/mount", "xfs", "8:48"},
		{"/home", "nfs4", "0:52"},
		{kubelet + "/pods/u-a/volume-subpaths/v1/main/0", "ext4", "8:16"},
	}
	pods := map[string]bool{"u-a": true}
	var got []string
	for _, p := range held(all, pods, volumes(all, pods)) {
		got = append(got, strings.TrimPrefix(p, kubelet))
	}
	want := []string{
		"/pods/u-a/volumes/kubernetes.io~csi/v1/mount", "/plugins/kubernetes.io/csi/driver/v1/globalmount", "/pods/u-a/volumes/kubernetes.io~csi/v2/mount",
		"/pods/u-a/volumes/kubernetes.io~nfs/home", "/snap/var/lib/kubelet/pods/u-a/volumes/kubernetes.io~csi/v3/mount",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// table is a list of mounts that loses those of a pod some time after the pod has ended.
type table struct {
	mu  sync.Mutex
	all []Mount
}

func (m *table) Mounts(context.Context) ([]Mount, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.all), nil
}

func (m *table) drop(uid string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.all = slices.DeleteFunc(m.all, func(m Mount) bool { return strings.Contains(m.Point, uid) })
}

func TestSettleWaitsForTheTiersMounts(t *testing.T) {
	for _, unmounts := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			r := newRuntime(tp("a", "db", asks("10")), tp("kube-system", "dns", asks("10")))
			r.does = map[string]behaviour{"c-db": {after: time.Second}, "c-dns": {after: time.Second}}
			m := &table{all: []Mount{csi("u-db", "v1", "8:16")}}
			if unmounts {
				r.onSignal = func(id string) {
					if id == "c-db" {
						time.AfterFunc(8*time.Second, func() { m.drop("u-db") })
					}
				}
			}
			policy := DefaultPolicy()
			policy.MountWait, policy.Deadline = 30*time.Second, 30*time.Second
			snap, _ := r.Snapshot(t.Context())
			plan, err := New(snap, policy, Selection{All: true})
			if err != nil {
				t.Fatal(err)
			}
			st := NewState(plan, Selection{All: true}, "id", "boot", "test", time.Now(), policy.Deadline)
			e := r.engine(policy)
			e.Mounts = m
			if err := e.Run(t.Context(), st); err != nil {
				t.Fatal(err)
			}
			check(t, r, st)
			after := r.signals["c-dns"][0].Sub(r.signals["c-db"][0])
			left := st.Steps[0].MountsLeft
			switch {
			case unmounts && (after < 8*time.Second || after > 9*time.Second || len(left) != 0):
				t.Errorf("dns is signalled %v after db, %v are left", after, left)
			case !unmounts && (after < 18*time.Second || after > 20*time.Second || len(left) != 1 || len(st.Notes) != 1):
				t.Errorf("dns is signalled %v after db, which leaves it its grace; left %v, notes %q", after, left, st.Notes)
			}
		})
	}
}
