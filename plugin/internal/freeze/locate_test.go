package freeze

import (
	"strings"
	"testing"
)

const (
	id     = "0123456789abcdef"
	pure2  = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
	hybrid = "36 31 0:33 / /sys/fs/cgroup/freezer rw,relatime - cgroup cgroup rw,freezer\n" +
		"41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n"
	bound = "36 31 0:33 /outer /sys/fs/cgroup/cpu,freezer rw master:1 - cgroup cgroup rw,cpu,freezer\n"
)

func TestFind(t *testing.T) {
	for name, c := range map[string]struct {
		cgroups, mounts string
		want            place
		err             string
	}{
		"version 2": {cgroups: "0::/kubepods.slice/cri-containerd-" + id + ".scope\n", mounts: pure2, want: place{"/sys/fs/cgroup/kubepods.slice/cri-containerd-" + id + ".scope", 2}},
		"an init that moved": {
			cgroups: "0::/kubepods/" + id + "/init.scope\n", mounts: pure2, want: place{"/sys/fs/cgroup/kubepods/" + id, 2},
		},
		"hybrid":         {cgroups: "6:freezer:/pod/" + id + "\n0::/pod/" + id + "\n", mounts: hybrid, want: place{"/sys/fs/cgroup/freezer/pod/" + id, 1}},
		"joined":         {cgroups: "6:cpu,freezer:/outer/pod/" + id + "\n0::/\n", mounts: bound, want: place{"/sys/fs/cgroup/cpu,freezer/pod/" + id, 1}},
		"not mounted":    {cgroups: "6:freezer:/pod/" + id + "\n0::/x/" + id + "\n", mounts: pure2, want: place{"/sys/fs/cgroup/x/" + id, 2}},
		"another's":      {cgroups: "0::/kubepods/pod\n", mounts: pure2, err: "not named after"},
		"outside":        {cgroups: "0::/../../" + id + "\n", mounts: pure2, err: "not named after"},
		"not visible":    {cgroups: "6:freezer:/other/" + id + "\n", mounts: bound, err: "no mount of version 1"},
		"no hierarchy":   {cgroups: "0::/" + id + "\n", err: "none that freezes"},
		"the root's own": {cgroups: "0::/\n", mounts: pure2, err: "not named after"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := find(c.cgroups, c.mounts, id)
			if got != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("got %v, %v; want %v, %q", got, err, c.want, c.err)
			}
		})
	}
}

// FuzzFind looks for a path that leads out of the mount point.
func FuzzFind(f *testing.F) {
	f.Add("0::/a/"+id, pure2)
	f.Add("6:freezer:/../"+id, hybrid)
	f.Fuzz(func(t *testing.T, cgroups, mounts string) {
		p, err := find(cgroups, mounts, id)
		if err == nil && (!strings.Contains(p.Path, id) || p.Version == 0) {
			t.Errorf("%q, %q: %v", cgroups, mounts, p)
		}
	})
}
