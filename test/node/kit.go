package node

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// DefaultContainerd is the version of containerd that a node runs unless its [Config] names another.
const DefaultContainerd = "2.4.2"

// Matrix are the versions of containerd that quiesce is tested with.
func Matrix() []string { return []string{"1.7.35", "2.2.9", "2.3.7", "2.4.2"} }

// Versions of the other programs of a node.
const (
	crictlVersion     = "1.37.0"
	kubernetesVersion = "1.37.2"
	etcdVersion       = "3.7.3"
)

// rootPackages are the Debian packages of a node.
const rootPackages = "systemd,systemd-sysv,dbus,iproute2,iptables,runc,containernetworking-plugins,busybox-static," +
	"procps,util-linux,kmod,conntrack,socat,ethtool,jq"

// debianSuite is the Debian release of a node.
const debianSuite = "bookworm"

// Kit is what all nodes are made of: the cache with tools and a root file system.
type Kit struct {
	cache  cache
	module string
	rootfs string
}

// Prepare fills the cache, as far as it is not filled yet, and removes nodes whose owner is dead.
// The versions of containerd to build default to [DefaultContainerd].
func Prepare(ctx context.Context, versions ...string) (*Kit, error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("prepare node: only root can boot a node, run the tests with sudo")
	}
	if err := installPrograms(ctx); err != nil {
		return nil, fmt.Errorf("prepare node: %w", err)
	}
	c, err := openCache()
	if err != nil {
		return nil, fmt.Errorf("prepare node: %w", err)
	}
	module, err := moduleRoot()
	if err != nil {
		return nil, fmt.Errorf("prepare node: %w", err)
	}
	k := &Kit{cache: c, module: module}
	if len(versions) == 0 {
		versions = []string{DefaultContainerd}
	}
	if err := k.fill(ctx, versions); err != nil {
		return nil, fmt.Errorf("prepare node: %w", err)
	}
	if err := k.sweep(ctx); err != nil {
		return nil, fmt.Errorf("prepare node: %w", err)
	}
	return k, nil
}

// Dir is the directory of the cache.
func (k *Kit) Dir() string { return k.cache.dir }

// Module is the root directory of the Go module under test.
func (k *Kit) Module() string { return k.module }

// Tools is the directory with the programs of a containerd version; it is built when it is not there.
func (k *Kit) Tools(ctx context.Context, version string) (string, error) {
	t, err := containerdTool(version)
	if err != nil {
		return "", err
	}
	return k.tool(ctx, t)
}

// KubernetesTools are the directories of what a node of a cluster runs beside containerd.
type KubernetesTools struct{ Kubernetes, Etcd string }

// Kubernetes returns where Kubernetes' programs and etcd are; they are built when they are not there.
func (k *Kit) Kubernetes(ctx context.Context) (KubernetesTools, error) {
	etcd, err := k.tool(ctx, etcdTool())
	if err != nil {
		return KubernetesTools{}, err
	}
	kubernetes, err := k.tool(ctx, kubernetesTool())
	return KubernetesTools{Kubernetes: kubernetes, Etcd: etcd}, err
}

// Artefact returns the directory rel of the cache, with files in it; build makes it when it is not there.
func (k *Kit) Artefact(ctx context.Context, rel string, files []string, build func(ctx context.Context, dir string) error) (string, error) {
	return k.cache.artefact(ctx, rel, files, build)
}

func (k *Kit) fill(ctx context.Context, versions []string) error {
	for _, v := range versions {
		if _, err := k.Tools(ctx, v); err != nil {
			return err
		}
	}
	if _, err := k.tool(ctx, crictlTool()); err != nil {
		return err
	}
	var err error
	k.rootfs, err = k.bootstrap(ctx)
	return err
}

// bootstrap returns the root file system that nodes share as their lowest layer.
func (k *Kit) bootstrap(ctx context.Context) (string, error) {
	key := sha256.Sum256([]byte(debianSuite + " " + rootPackages))
	rel := fmt.Sprintf("rootfs/%s-%x", debianSuite, key[:6])
	return k.cache.artefact(ctx, rel, []string{"sbin/init", "bin/busybox"}, func(ctx context.Context, dir string) error {
		return run(exec.CommandContext(ctx, "debootstrap", "--variant=minbase", "--include="+rootPackages, debianSuite, dir))
	})
}

// moduleRoot walks up from the working directory to the directory with go.mod.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find module: %w", err)
	}
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("find module: no go.mod above the working directory")
		}
	}
}

// run runs cmd; its error carries the end of what cmd printed. When the context ends or this process dies, cmd
// gets a SIGTERM; the kernel watches the calling thread, which is therefore kept.
func run(cmd *exec.Cmd) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid, cmd.SysProcAttr.Pdeathsig = true, syscall.SIGTERM
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("run %s: %w\n%s", filepath.Base(cmd.Path), err, tail(out.String(), 20))
	}
	return nil
}

// tail is the last n lines of s.
func tail(s string, n int) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
