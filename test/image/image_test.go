package image

import (
	"context"
	"debug/elf"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"quiesce/test/lab"
	"quiesce/test/node"
	"quiesce/test/render"
)

const shim = "spin-v2"

// rig is a node without quiesce, and images for it.
type rig struct {
	*testing.T
	ctx context.Context
	*lab.Lab
}

// TestImages: the DaemonSet's image brings quiesce to a node that never saw it, the installer's stages a shim there, the
// waiting Job shows what became of it, and a new version of the DaemonSet replaces the service without touching containerd.
func TestImages(t *testing.T) {
	ctx, cancel := context.WithTimeoutCause(t.Context(), 15*time.Minute, errors.New("the images' fifteen minutes are over"))
	defer cancel()
	b := newBuilder(ctx, t, runtime.GOARCH)
	began := time.Now()
	v1, v2 := b.image("plugin", "localhost/quiesce:v1", "v1", runtime.GOARCH), b.image("plugin", "localhost/quiesce:v2", "v2", runtime.GOARCH)
	inst := b.image("installer", "localhost/quiesce-installer-base:v1", "v1", runtime.GOARCH)
	t.Logf("three images built in %v", time.Since(began).Round(time.Second))
	looksRight(t, v1, runtime.GOARCH, map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[runtime.GOARCH], "quiesce", "quiesce-installer")
	withShim := b.derive()

	l, err := lab.Boot(ctx, lab.Options{Name: "image", NoHost: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Errorf("close node: %v", err)
		}
	})
	r := &rig{t, ctx, l}
	for _, archive := range []string{v1, v2, inst, withShim} {
		r.load(archive)
	}
	if err := l.WriteFile("/etc/quiesce/config.toml", []byte("quietPeriod = '2s'\nverifyTimeout = '8s'\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	before, err := l.Runtime(ctx)
	if err != nil {
		t.Fatal(err)
	}
	ds := find(t, "kustomize", "base", "DaemonSet quiesce")
	first := r.installs(ds, before)
	r.replaced(ds, first)
	r.removes(ds)
}

// installs has the DaemonSet's pod bring quiesce, and Jobs a handler, and one that is rejected.
func (r *rig) installs(ds render.Workload, before lab.Runtime) *node.RunningPod {
	r.Helper()
	first := r.start(podOf(r.T, ds, "quiesce-a", "quiesce", "localhost/quiesce:v1"))
	r.daemon("v1")
	r.job("spin-v2-install", 0)
	r.job("spin-v2-live", 0)
	live, err := r.Runtime(r.ctx)
	if err != nil || live.Restarts != before.Restarts+1 {
		r.Errorf("containerd was restarted %d times for one handler (%v)", live.Restarts-before.Restarts, err)
	}
	// What was rejected shows in the Job that waits.
	r.job("spin-v2-install", 0, "install", "--handler", "bad", "--runtime-type", "io.containerd.runc.v2", "--set", "base_runtime_spec=/nowhere/spec.json")
	r.job("spin-v2-live", 1, "status", "--wait", "--handler", "bad", "--timeout", "2m")
	return first
}

// replaced has a new version take the place of the first.
func (r *rig) replaced(ds render.Workload, first *node.RunningPod) {
	r.Helper()
	live, err := r.Runtime(r.ctx)
	if err != nil {
		r.Fatal(err)
	}
	r.keeps(first)
	if err := first.Stop(r.ctx); err != nil {
		r.Fatal(err)
	}
	second := r.start(podOf(r.T, ds, "quiesce-b", "quiesce", "localhost/quiesce:v2"))
	r.daemon("v2")
	if after, err := r.Runtime(r.ctx); err != nil || after != live {
		r.Errorf("the rollout touched containerd: %+v, was %+v (%v)", after, live, err)
	}
	r.quiet()
	if err := second.Stop(r.ctx); err != nil {
		r.Fatal(err)
	}
	r.daemon("v2") // the service outlives the pod that brought it
}

// removes takes the handler off, and then quiesce, from a pod as docs/usage/upgrade.md says.
func (r *rig) removes(ds render.Workload) {
	r.Helper()
	r.job("spin-v2-install", 0, "uninstall", "--handler", shim)
	err := r.Until(r.ctx, "the handler is removed", func(ctx context.Context) (bool, error) {
		rs, err := r.Results(ctx)
		return rs[shim].Phase == "removed", err
	})
	if err != nil {
		r.Fatal(err)
	}
	p := podOf(r.T, ds, "quiesce-remove", "quiesce", "localhost/quiesce:v2")
	p.Containers, p.InitContainers = p.InitContainers, nil
	p.Containers[0].Args = append(p.Containers[0].Args, "--remove")
	done, err := r.RunPod(r.ctx, p)
	if err != nil {
		r.Fatal(err)
	}
	r.ended(done, 0)
	left, err := r.Exec(r.ctx, "sh", "-c", "ls -d /opt/quiesce /var/lib/quiesce /run/quiesce /usr/local/bin/quiesce* /etc/systemd/system/*/*quiesce* /etc/systemd/system/quiesce* 2>/dev/null || true")
	if err != nil || strings.TrimSpace(left) != "" {
		r.Errorf("left behind (%v):\n%s", err, left)
	}
}

func (r *rig) load(archive string) {
	r.Helper()
	b, err := os.ReadFile(archive)
	if err != nil {
		r.Fatal(err)
	}
	file := "/var/tmp/" + filepath.Base(archive)
	if err := r.WriteFile(file, b, 0o644); err != nil {
		r.Fatal(err)
	}
	if out, err := r.Exec(r.ctx, "ctr", "-n", "k8s.io", "images", "import", file); err != nil {
		r.Fatalf("import: %v\n%s", err, out)
	}
}

func (r *rig) start(p node.Pod) *node.RunningPod {
	r.Helper()
	started, err := r.StartPod(r.ctx, p)
	if err != nil {
		logs, _ := r.Exec(r.ctx, "sh", "-c", "tail -n +1 /var/log/pods/*"+p.Name+"*/*/*.log")
		r.Fatalf("%v\n%s", err, logs)
	}
	return started
}

// daemon waits for the host service in a version, synchronized with containerd.
func (r *rig) daemon(version string) {
	r.Helper()
	err := r.Until(r.ctx, "quiesce "+version+" runs and is synchronized", func(ctx context.Context) (bool, error) {
		out, asked := r.Quiesce(ctx, "status", "--output", "json")
		s, err := r.Status(ctx)
		return asked == nil && strings.Contains(out, `"version": "`+version+`"`) && err == nil && s.NRI.Connected && !s.Runtime.Listed.IsZero(), nil
	})
	if err != nil {
		r.Fatal(err)
	}
}

// job runs a Job of the manifest with an image of ours, and other arguments if there are any.
func (r *rig) job(name string, code int32, args ...string) {
	r.Helper()
	job := name
	if len(args) > 0 {
		job += "-" + args[0]
	}
	p := podOf(r.T, find(r.T, "yaml", "installer-job.yaml", "Job "+name), job, "kube-system", "localhost/quiesce-installer:v1")
	labels := node.JobLabels(job)
	maps.Copy(labels, p.Labels)
	p.Labels = labels
	if len(args) > 0 {
		p.Containers[0].Args = args
	}
	done, err := r.RunPod(r.ctx, p)
	if err != nil {
		r.Fatal(err)
	}
	r.ended(done, code)
}

// ended checks the exit code of a pod's container, and that nobody lost it.
func (r *rig) ended(p *node.RunningPod, code int32) {
	r.Helper()
	for _, c := range p.Pod.Containers {
		s, err := p.Status(r.ctx, c.Name)
		logs, _ := p.Log(c.Name) // for people
		if err != nil || s.GetExitCode() != code || s.GetReason() == "Unknown" {
			r.Errorf("%s: exit code %d, reason %s (%v), want %d\n%s", p.Pod.Name, s.GetExitCode(), s.GetReason(), err, code, logs)
		} else {
			r.Logf("%s: exit code %d\n%s", p.Pod.Name, code, logs)
		}
	}
}

// keeps: what somebody took away comes back when the pod looks again; here, when it is started again.
func (r *rig) keeps(old *node.RunningPod) {
	r.Helper()
	const unit = "/etc/systemd/system/quiesce-drain.service"
	if _, err := r.Exec(r.ctx, "rm", unit); err != nil {
		r.Fatal(err)
	}
	again := old.Pod
	again.Name, again.UID = "quiesce-again", ""
	again.Containers[0].Args = []string{"host", "--root", "/host", "--running", "--keep", "1s"}
	p := r.start(again)
	if _, err := r.Exec(r.ctx, "rm", unit); err != nil { // the init container has put it back
		r.Fatal(err)
	}
	err := r.Until(r.ctx, "the unit is back", func(ctx context.Context) (bool, error) {
		_, err := r.Exec(ctx, "test", "-e", unit)
		return err == nil, nil
	})
	if err != nil {
		r.Fatal(err)
	}
	if err := p.Stop(r.ctx); err != nil {
		r.Fatal(err)
	}
}

// quiet: the DaemonSet's pod, which goes on running, keeps the gate closed for nobody.
func (r *rig) quiet() {
	r.Helper()
	err := r.Until(r.ctx, "nobody is in flight", func(ctx context.Context) (bool, error) {
		s, err := r.Status(ctx)
		return err == nil && len(s.Installers) == 0, nil
	})
	if err != nil {
		r.Error(err)
	}
}

// TestOtherArchitecture: the images are built for another one without its machine.
func TestOtherArchitecture(t *testing.T) {
	ctx, cancel := context.WithTimeoutCause(t.Context(), 15*time.Minute, errors.New("the fifteen minutes are over"))
	defer cancel()
	looksRight(t, newBuilder(ctx, t, "arm64").image("installer", "localhost/quiesce-installer:v1", "v1", "arm64"), "arm64", elf.EM_AARCH64, "quiesce-installer")
}
