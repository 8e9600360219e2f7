package profile

import (
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
)

func files(names ...string) fstest.MapFS {
	root := fstest.MapFS{}
	for _, n := range names {
		name, text, _ := strings.Cut(n, "=")
		root[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return root
}

func TestDetect(t *testing.T) {
	const units, containerd = "usr/lib/systemd/system/", "usr/lib/systemd/system/containerd.service"
	for want, tc := range map[string]struct {
		root fstest.MapFS
		unit string
	}{
		"vanilla":      {files(containerd), "containerd.service"},
		"k3s":          {files("etc/systemd/system/k3s.service", containerd), "k3s.service"},
		"k3s-agent":    {files("etc/systemd/system/k3s-agent.service"), "k3s-agent.service"},
		"rke2-server":  {files("usr/local/lib/systemd/system/rke2-server.service", "usr/local/lib/systemd/system/rke2-agent.service", "etc/systemd/system/multi-user.target.wants/rke2-server.service"), "rke2-server.service"},
		"rke2-agent":   {files("usr/local/lib/systemd/system/rke2-server.service", "usr/local/lib/systemd/system/rke2-agent.service", "etc/systemd/system/multi-user.target.wants/rke2-agent.service"), "rke2-agent.service"},
		"k0s":          {files("etc/systemd/system/k0sworker.service"), "k0sworker.service"},
		"microk8s":     {files("etc/systemd/system/snap.microk8s.daemon-containerd.service"), "snap.microk8s.daemon-containerd.service"},
		"flatcar":      {files(containerd, "usr/lib/os-release=NAME=Flatcar\nID=flatcar\nID_LIKE=coreos\n"), "containerd.service"},
		"eks":          {files(containerd, "usr/bin/nodeadm", "etc/os-release=ID=\"amzn\"\n"), "containerd.service"},
		"aks":          {files(units+"containerd.service", "opt/azure/containers/provision.sh"), "containerd.service"},
		"kops":         {files(containerd, units+"kops-configuration.service"), "containerd.service"},
		"kind":         {files(containerd, "kind/version=v1.34.0"), "containerd.service"},
		"minikube":     {files(containerd, "var/lib/minikube/certs/ca.crt"), "containerd.service"},
		"talos":        {files("etc/os-release=ID=talos\n"), ""},
		"bottlerocket": {files(containerd, "etc/os-release=ID=bottlerocket\n"), ""},
		"gke-cos":      {files(containerd, "etc/os-release=NAME=x\nID=cos\n"), ""},
	} {
		p, err := Detect(tc.root)
		if err != nil {
			t.Fatal(err)
		}
		if p.Name != want || p.Unit(tc.root) != tc.unit || p.Why == "" {
			t.Errorf("%s is taken for %s (%s), unit %q", want, p.Name, p.Why, p.Unit(tc.root))
		}
		if named, err := Named(want); err != nil || named.Socket != p.Socket {
			t.Errorf("by its name: %+v, %v", named, err)
		}
	}
	// On the image of a node one thing may be on top of another.
	p, err := Detect(files("etc/os-release=ID=flatcar", "etc/systemd/system/k3s.service"))
	if err != nil || p.Name != "k3s" {
		t.Errorf("k3s on Flatcar is %s, %v", p.Name, err)
	}
}

func TestProfilesAreWhole(t *testing.T) {
	all, err := All()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		if (p.Refuse == "") != (len(p.Units) > 0 && p.Regenerated != "" && filepath.IsAbs(p.Config) && filepath.IsAbs(p.Socket) && filepath.IsAbs(p.Shims)) {
			t.Errorf("%s says neither how nor why not: %+v", p.Name, p)
		}
		if _, _, err := p.Limits(); err != nil {
			t.Error(err)
		}
		if p.Restart != ByUnit && p.Restart != BySelf {
			t.Errorf("%s: restart %q", p.Name, p.Restart)
		}
	}
	if _, err := Named("nowhere"); err == nil || !strings.Contains(err.Error(), "vanilla") {
		t.Errorf("an unknown name: %v", err)
	}
}

// linked is a MapFS in which a link is only a name, as in /proc.
type linked struct{ fstest.MapFS }

func (l linked) ReadLink(name string) (string, error) {
	b, err := fs.ReadFile(l.MapFS, name)
	return string(b), err
}

func TestFind(t *testing.T) {
	const k0s = "proc/77/cgroup=0::/system.slice/k0sworker.service\n"
	for name, tc := range map[string]struct {
		root    fstest.MapFS
		pid     int
		want    Found
		because string
	}{
		"nothing runs": {
			files("usr/lib/systemd/system/containerd.service"), 0,
			Found{Unit: "containerd.service", Socket: "/run/containerd/containerd.sock", Config: "/etc/containerd/config.toml"},
			"no process is behind",
		},
		"another unit and config": {
			files("proc/77/cgroup=12:cpu:/x\n1:name=systemd:/system.slice/my-containerd.service\n", "proc/77/exe=/opt/bin/containerd (deleted)", "proc/77/cmdline=/opt/bin/containerd\x00--config\x00/opt/c.toml\x00"), 77,
			Found{Unit: "my-containerd.service", Socket: "/run/containerd/containerd.sock", Config: "/opt/c.toml", Program: "/opt/bin/containerd", PID: 77},
			"before an update",
		},
		"two containerds, and the kubelet says which": {
			files("proc/9/comm=kubelet\n", "proc/9/cmdline=/usr/bin/kubelet\x00--container-runtime-endpoint=unix:///run/second/containerd.sock\x00",
				"proc/77/cgroup=0::/system.slice/second.service\n", "proc/77/exe=/usr/bin/containerd", "proc/77/cmdline=containerd\x00-c=/etc/second.toml\x00", "usr/lib/systemd/system/containerd.service"), 77,
			Found{Unit: "second.service", Socket: "/run/second/containerd.sock", Config: "/etc/second.toml", Program: "/usr/bin/containerd", PID: 77},
			"/proc/9/cmdline says so",
		},
		"the kubelet's file says which": {
			files("proc/9/comm=kubelet\n", "proc/9/cmdline=/usr/bin/kubelet\x00--config=/var/lib/k0s/kubelet.yaml\x00", "var/lib/k0s/kubelet.yaml=a: b\ncontainerRuntimeEndpoint: unix:///run/k0s/containerd.sock\n",
				k0s, "etc/systemd/system/k0sworker.service", "proc/77/exe=/var/lib/k0s/bin/containerd", "proc/77/cmdline=/var/lib/k0s/bin/containerd\x00--config=/etc/k0s/containerd.toml\x00"), 77,
			Found{Unit: "k0sworker.service", Socket: "/run/k0s/containerd.sock", Config: "/etc/k0s/containerd.toml", Program: "/var/lib/k0s/bin/containerd", PID: 77},
			"/var/lib/k0s/kubelet.yaml says so",
		},
		"one file that is several programs": {
			files("etc/systemd/system/k3s.service", "proc/77/cgroup=0::/system.slice/k3s.service\n", "proc/77/exe=/k/bin/k3s", "k/bin/containerd", "k/bin/k3s", "proc/77/cmdline=containerd\x00-c\x00/k/config.toml\x00"), 77,
			Found{Unit: "k3s.service", Socket: "/run/k3s/containerd/containerd.sock", Config: "/k/config.toml", Program: "/k/bin/containerd", PID: 77},
			"process 77 runs it",
		},
	} {
		t.Run(name, func(t *testing.T) {
			root := linked{tc.root}
			p, err := Detect(root)
			if err != nil {
				t.Fatal(err)
			}
			f := Find(root, p, func(string) (int, error) {
				if tc.pid == 0 {
					return 0, fs.ErrNotExist
				}
				return tc.pid, nil
			})
			if f.Unit != tc.want.Unit || f.Socket != tc.want.Socket || f.Config != tc.want.Config || f.Program != tc.want.Program || f.PID != tc.want.PID {
				t.Errorf("found %+v", f)
			}
			if why := strings.Join(f.Why, "\n"); !strings.Contains(why, tc.because) {
				t.Errorf("it does not say %q:\n%s", tc.because, why)
			}
		})
	}
}

// TestBehind asks the kernel about a socket of this very process.
func TestBehind(t *testing.T) {
	dir, err := os.MkdirTemp("", "profile")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	socket := filepath.Join(dir, "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if pid, err := Behind(socket); err != nil || pid != os.Getpid() {
		t.Errorf("process %d, %v; want %d", pid, err, os.Getpid())
	}
	if _, err := Behind(filepath.Join(dir, "none")); err == nil {
		t.Error("no error without a socket")
	}
}
