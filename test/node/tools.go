package node

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// tool is a set of programs built from a tools module of this repository.
type tool struct {
	name, version string
	module        string   // directory below test/tools
	packages      []string // main packages
	tags, ldflags string
	config        string // embedded template of its configuration file
}

// containerdTool describes how a version of containerd is built.
func containerdTool(version string) (tool, error) {
	const v1, v2 = "github.com/containerd/containerd", "github.com/containerd/containerd/v2"
	releases := map[string]struct{ module, path, config string }{
		"1.7.35": {module: "containerd-1.7", path: v1, config: "containerd-v2.toml.tmpl"},
		"2.2.9":  {module: "containerd-2.2", path: v2, config: "containerd-v3.toml.tmpl"},
		"2.3.7":  {module: "containerd-2.3", path: v2, config: "containerd-v3.toml.tmpl"},
		"2.4.2":  {module: "containerd", path: v2, config: "containerd-v3.toml.tmpl"},
	}
	r, ok := releases[version]
	if !ok {
		return tool{}, fmt.Errorf("find containerd: version %s is not among those that can be built", version)
	}
	return tool{
		name: "containerd", version: version, module: r.module, config: r.config,
		packages: []string{r.path + "/cmd/containerd", r.path + "/cmd/containerd-shim-runc-v2", r.path + "/cmd/ctr"},
		tags:     "no_btrfs no_devmapper no_zfs",
		ldflags:  "-s -w -X " + r.path + "/version.Version=" + version,
	}, nil
}

func crictlTool() tool {
	return tool{
		name: "crictl", version: crictlVersion, module: "crictl", ldflags: "-s -w -X sigs.k8s.io/cri-tools/pkg/version.Version=v" + crictlVersion,
		packages: []string{"sigs.k8s.io/cri-tools/cmd/crictl"},
	}
}

func kubernetesTool() tool {
	const cmd = "k8s.io/kubernetes/cmd/"
	const v = "k8s.io/component-base/version."
	return tool{
		name: "kubernetes", version: kubernetesVersion, module: "kubernetes", tags: "providerless,selinux",
		ldflags:  "-s -w -X " + v + "gitVersion=v" + kubernetesVersion + " -X " + v + "gitMajor=1 -X " + v + "gitMinor=37",
		packages: []string{cmd + "kubelet", cmd + "kube-apiserver", cmd + "kube-controller-manager", cmd + "kube-scheduler", cmd + "kubectl"},
	}
}

// etcdTool is etcd; its main package is named server.
func etcdTool() tool {
	return tool{name: "etcd", version: etcdVersion, module: "etcd", ldflags: "-s -w", packages: []string{"go.etcd.io/etcd/server/v3"}}
}

// programs are the names of the built files.
func (t tool) programs() []string {
	names := make([]string, len(t.packages))
	for i, p := range t.packages {
		if names[i] = path.Base(p); names[i] == "v3" {
			names[i] = path.Base(path.Dir(p))
		}
	}
	return names
}

// dir is where they are in the cache.
func (t tool) dir() string { return path.Join("tools", t.name+"-"+t.version) }

// tool returns the directory of t's programs, built when they are not there.
func (k *Kit) tool(ctx context.Context, t tool) (string, error) {
	return k.cache.artefact(ctx, t.dir(), t.programs(), func(ctx context.Context, dir string) error {
		args := []string{"build", "-trimpath", "-ldflags", t.ldflags, "-tags", t.tags, "-o", dir + "/"}
		cmd := goCommand(ctx, append(args, t.packages...)...)
		cmd.Dir = filepath.Join(k.module, "test", "tools", t.module)
		return run(cmd)
	})
}

// builds are the programs that this process has built.
var builds sync.Map // what builds it → file

// program builds a main package of this repository and returns the file: once a process, so that all its nodes run the same.
func (k *Kit) program(ctx context.Context, pkg string, flags ...string) (string, error) {
	key := strings.Join(append([]string{k.module, pkg}, flags...), " ")
	if file, ok := builds.Load(key); ok {
		return file.(string), nil
	}
	file, err := k.build(ctx, key, pkg, flags)
	if err == nil {
		builds.Store(key, file)
	}
	return file, err
}

// Tags are the build tags of a release, as the Makefile has them: a node runs what is released.
const Tags = "grpcnotrace,urfave_cli_no_template"

// build does it. An up-to-date file is kept by the go command; a new one replaces it by rename, so a node keeps the one it
// was booted with.
func (k *Kit) build(ctx context.Context, name, pkg string, flags []string) (string, error) {
	key := sha256.Sum256([]byte(name))
	place := fmt.Sprintf("programs/%x", key[:6])
	out, tmp := k.cache.path(place, path.Base(pkg)), k.cache.path("tmp")
	for _, dir := range []string{filepath.Dir(out), tmp} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return "", fmt.Errorf("build %s: %w", pkg, err)
		}
	}
	unlock, err := k.cache.lock(ctx, place)
	if err != nil {
		return "", err
	}
	defer unlock()
	cmd := goCommand(ctx, slices.Concat([]string{"build", "-trimpath", "-tags", Tags}, flags, []string{"-o", out, pkg})...)
	cmd.Dir = k.module
	cmd.Env = append(cmd.Env, "GOTMPDIR="+tmp)
	if err := run(cmd); err != nil {
		return "", fmt.Errorf("build %s: %w", pkg, err)
	}
	return out, nil
}

// goCommand is the go command set up for static programs.
func goCommand(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-mod=readonly -buildvcs=false")
	if os.Getenv("HOME") == "" {
		cmd.Env = append(cmd.Env, "HOME=/root")
	}
	return cmd
}

// installPrograms installs what this machine lacks to run nodes.
func installPrograms(ctx context.Context) error {
	var missing []string
	for program, pkg := range map[string]string{"runc": "runc", "debootstrap": "debootstrap", "nsenter": "util-linux", "mkfs.ext4": "e2fsprogs"} {
		if _, err := exec.LookPath(program); err != nil {
			missing = append(missing, pkg)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	slices.Sort(missing)
	list := strings.Join(missing, " ")
	if _, err := exec.LookPath("apt-get"); err != nil {
		return fmt.Errorf("find programs: install the packages %s with this machine's package manager", list)
	}
	install := append([]string{"install", "-y", "--no-install-recommends"}, missing...)
	first := aptGet(ctx, install...)
	if first == nil {
		return nil
	}
	if err := errors.Join(aptGet(ctx, "update"), aptGet(ctx, install...)); err != nil {
		return fmt.Errorf("install %s (apt-get install %s): %w", list, list, err)
	}
	return nil
}

// InstallPackages installs Debian packages on this machine, unless a file of theirs is there.
func InstallPackages(ctx context.Context, file string, packages ...string) error {
	if _, err := os.Stat(file); err == nil {
		return nil
	}
	install := append([]string{"install", "-y", "--no-install-recommends"}, packages...)
	if aptGet(ctx, install...) == nil {
		return nil
	}
	if err := errors.Join(aptGet(ctx, "update"), aptGet(ctx, install...)); err != nil {
		return fmt.Errorf("install %s (apt-get install %s): %w", file, strings.Join(packages, " "), err)
	}
	return nil
}

func aptGet(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, "apt-get", args...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	return run(cmd)
}
