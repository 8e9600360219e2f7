package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"time"
)

// peer is a program of another project. It is built from its public source for the measurement only, in the cache: from a
// commit of a repository, or from a released module by a tools module of this repository.
type peer struct {
	name, version string
	program       string // name of the built file
	repository    string // with a commit, or
	commit, dir   string
	tools, pkg    string // a tools module below test/tools, with a package
	cgo           bool
	ldflags       string
}

func nriLogger() peer {
	return peer{
		name: "NRI's sample plugin logger", version: "8ec8b28", program: "logger", repository: "https://github.com/containerd/nri",
		commit: "8ec8b285eae3ef5d2dbab8e679aad47f5ac58da9", dir: "plugins/logger", pkg: ".",
	}
}

// nriUlimits stands in for the logger where its repository cannot be reached: the one sample plugin that is in a released module.
func nriUlimits() peer {
	return peer{
		name: "NRI's sample plugin ulimit-adjuster", version: "0.4.0", program: "ulimit-adjuster", tools: "nri-plugin",
		pkg: "github.com/containerd/nri/plugins/ulimit-adjuster",
	}
}

func runtimeClassManager() peer {
	return peer{
		name: "runtime-class-manager's node-installer", version: "25903b3", program: "node-installer",
		repository: "https://github.com/spinframework/runtime-class-manager", commit: "25903b3ad3d4d735e4987d13c23a3df31cd5950b",
		dir: ".", pkg: "./cmd/node-installer",
	}
}

// nvidiaToolkit needs cgo for a library that it loads when a GPU is there.
func nvidiaToolkit() peer {
	return peer{
		name: "NVIDIA's nvidia-ctk", version: "1.20.2", program: "nvidia-ctk", tools: "nvidia-toolkit",
		pkg: "github.com/NVIDIA/nvidia-container-toolkit/cmd/nvidia-ctk", cgo: true, ldflags: " -extldflags=-Wl,-z,lazy",
	}
}

// String is the name with the version.
func (p peer) String() string { return p.name + " " + p.version }

// cloning is how long a repository may take to be fetched.
const cloning = 3 * time.Minute

// build returns the program's file.
func (b *bench) build(ctx context.Context, p peer) (string, error) {
	rel := path.Join("peers", p.program+"-"+p.version)
	dir, err := b.kit.Artefact(ctx, rel, []string{p.program}, func(ctx context.Context, out string) error {
		from := filepath.Join(b.kit.Module(), "test", "tools", p.tools)
		if p.tools == "" {
			source, err := os.MkdirTemp("", "peer")
			if err != nil {
				return fmt.Errorf("make directory: %w", err)
			}
			defer func() { _ = os.RemoveAll(source) }()
			if err := p.clone(ctx, source); err != nil {
				return err
			}
			from = filepath.Join(source, p.dir)
		}
		return p.compile(ctx, from, filepath.Join(out, p.program))
	})
	if err != nil {
		return "", fmt.Errorf("build %s: %w", p, err)
	}
	return filepath.Join(dir, p.program), nil
}

func (p peer) clone(ctx context.Context, dir string) error {
	ctx, cancel := context.WithTimeout(ctx, cloning)
	defer cancel()
	for _, args := range [][]string{{"clone", "--quiet", "--no-checkout", p.repository, dir}, {"-C", dir, "checkout", "--quiet", p.commit}} {
		cmd := exec.CommandContext(ctx, "git", args...)
		cmd.Env = append(os.Environ(), "GIT_TERMINAL_PROMPT=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("run git %s: %w: %s", args[0], err, strings.TrimSpace(string(out)))
		}
	}
	return nil
}

func (p peer) compile(ctx context.Context, dir, out string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w"+p.ldflags, "-o", out, p.pkg)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=readonly -buildvcs=false", "CGO_ENABLED=0")
	if p.cgo {
		cmd.Env = append(cmd.Env, "CGO_ENABLED=1")
	}
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("run go build: %w\n%s", err, text)
	}
	return nil
}

// nriPeer is the NRI plugin that ours is measured against.
func (b *bench) nriPeer(ctx context.Context) (peer, string, error) {
	p := nriLogger()
	program, err := b.build(ctx, p)
	if err != nil {
		fmt.Printf("\n   %v; using another one", err)
		p = nriUlimits()
		program, err = b.build(ctx, p)
	}
	return p, program, err
}
