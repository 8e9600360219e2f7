package host

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestStopsWith: on MicroK8s the drain unit is a part of kubelite's, on a running node and in an image, and nothing of that is left.
func TestStopsWith(t *testing.T) {
	for _, live := range []bool{true, false} {
		f := newNode(t)
		f.write(t, unitDir+"/snap.microk8s.daemon-containerd.service", "[Service]\n")
		before := f.tree(t)
		check(t, f.install(t, live))
		for name, want := range map[string]string{
			"quiesce-drain.service.d/50-stops-with.conf":                          "PartOf=snap.microk8s.daemon-kubelite.service\nAfter=snap.microk8s.daemon-kubelite.service\n",
			"snap.microk8s.daemon-kubelite.service.d/50-quiesce.conf":             "Wants=quiesce-drain.service\n",
			"snap.microk8s.daemon-containerd.service.wants/quiesce-drain.service": "WantedBy=snap.microk8s.daemon-containerd.service\n",
		} {
			if text, err := os.ReadFile(filepath.Join(f.root, unitDir, name)); err == nil && !strings.HasSuffix(string(text), want) {
				t.Errorf("%s says\n%s", name, text)
			} else if _, lerr := os.Lstat(filepath.Join(f.root, unitDir, name)); lerr != nil {
				t.Error(lerr)
			}
		}
		first := f.tree(t)
		check(t, f.install(t, live))
		if diff := cmp.Diff(first, f.tree(t)); diff != "" {
			t.Errorf("changed the second time: %s", diff)
		}
		check(t, f.remove(t, live))
		if diff := cmp.Diff(before, f.tree(t)); diff != "" {
			t.Errorf("left behind: %s", diff)
		}
	}
}
