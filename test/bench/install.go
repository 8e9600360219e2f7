package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"quiesce/test/bench/measure"
	"quiesce/test/lab"
	"quiesce/test/node"
)

// shimSize is the size of the shim that is installed.
const shimSize = 40 << 20

// Paths in the node.
const (
	shimDir  = "/root/assets"
	bigShim  = shimDir + "/containerd-shim-big-v1"
	peerRoot = "/root/peer" // the host's root, as a peer is told
	tryRoot  = "/root/try"
	scripts  = "/root/scripts"
)

// documented does by hand what runtime-class-manager's node-installer documents that it does, where the program cannot be built.
const documented = `set -e
mkdir -p ` + peerRoot + `/opt/rcm/bin
cp ` + bigShim + ` ` + peerRoot + `/opt/rcm/bin/
sha256sum ` + peerRoot + `/opt/rcm/bin/containerd-shim-big-v1 >` + peerRoot + `/opt/rcm/rcm-lock.json
printf '\n[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.big]\nruntime_type = "/opt/rcm/bin/containerd-shim-big-v1"\n' >>` + peerRoot + `/etc/containerd/config.toml`

// install measures bringing a shim and its config onto a node.
func install(ctx context.Context, b *bench) (lines []measure.Line, err error) {
	in := installer{b: b}
	if err := in.boot(ctx); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, in.l.Close()) }()
	staging, err := in.staging(ctx)
	if err != nil {
		return nil, err
	}
	editing, err := in.editing(ctx)
	return append(staging, editing), err
}

type installer struct {
	b      *bench
	l      *lab.Lab
	rcm    string // name of the peer
	steps  string // command of the peer
	nvidia bool
}

// boot makes a node with a shim, a large config, and the peers.
func (in *installer) boot(ctx context.Context) error {
	tools, err := in.b.kit.Tools(ctx, node.DefaultContainerd)
	if err != nil {
		return err
	}
	config, err := largestConfig(ctx, in.b.kit.Module(), filepath.Join(tools, "containerd"))
	if err != nil {
		return err
	}
	files := map[string]node.File{
		"/root/largest.toml": {Content: config},
		// What the node-installer runs on the host is its restart of containerd, which is not what is measured.
		scripts + "/nsenter": {Content: "#!/bin/sh\nexit 0\n", Mode: 0o755},
	}
	in.peers(ctx, files)
	in.l, err = in.b.boot(ctx, lab.Options{Name: "install", Node: node.Config{
		Files: files, Programs: map[string]string{"./plugin/internal/containerd/config/try": scripts + "/try"},
	}})
	if err != nil {
		return err
	}
	if err = in.shim(ctx); err == nil {
		_, err = in.l.Quiesce(ctx, "hold", "measuring")
	}
	if err != nil {
		return errors.Join(err, in.l.Close())
	}
	return nil
}

// peers adds the peers' programs, as far as they can be had.
func (in *installer) peers(ctx context.Context, files map[string]node.File) {
	rcm := runtimeClassManager()
	program, err := in.b.build(ctx, rcm)
	if err == nil {
		files[scripts+"/node-installer"] = node.File{Host: program, Mode: 0o755}
		in.rcm = rcm.String() + ", without its restart of containerd"
		in.steps = "PATH=" + scripts + ":$PATH " + scripts + "/node-installer install -H " + peerRoot + " -a " + shimDir
	} else {
		fmt.Printf("\n   %v; using its documented steps", err)
		in.rcm, in.steps = "scripted equivalent of the documented steps of "+rcm.name, documented
	}
	if program, err = in.b.build(ctx, nvidiaToolkit()); err == nil {
		files[scripts+"/nvidia-ctk"] = node.File{Host: program, Mode: 0o755}
		in.nvidia = true
		return
	}
	fmt.Printf("\n   %v; leaving it out", err)
}

// shim makes a large shim of a real one: what follows a program is no part of it.
func (in *installer) shim(ctx context.Context) error {
	_, err := in.l.Exec(ctx, "sh", "-c", fmt.Sprintf("mkdir -p %s && cp /usr/local/bin/containerd-shim-runc-v2 %s && head -c %d /dev/urandom >>%s && truncate -s %d %s && sync",
		shimDir, bigShim, shimSize, bigShim, shimSize, bigShim))
	return err
}

// timed runs a script and tells how long it took by the node's clock, in milliseconds. prepare is run before, and then all
// that waits for the disk is written.
func (in *installer) timed(prepare, script string) measure.Probe {
	return func(ctx context.Context) (float64, error) {
		if _, err := in.l.Exec(ctx, "sh", "-c", prepare+" && sync"); err != nil {
			return 0, err
		}
		out, err := in.l.Exec(ctx, "sh", "-c", "date +%s%N; { "+script+"\n} >/tmp/out 2>&1 || { cat /tmp/out >&2; exit 1; }; date +%s%N")
		if err != nil {
			return 0, err
		}
		f := strings.Fields(out)
		if len(f) != 2 {
			return 0, fmt.Errorf("time %q: it printed %q", script, out)
		}
		began, err := strconv.ParseInt(f[0], 10, 64)
		if err != nil {
			return 0, fmt.Errorf("time %q: %w", script, err)
		}
		ended, err := strconv.ParseInt(f[1], 10, 64)
		return float64(ended-began) / 1e6, err
	}
}

func (in *installer) staging(ctx context.Context) ([]measure.Line, error) {
	fresh := "rm -rf " + peerRoot + " && mkdir -p " + peerRoot + "/etc/containerd && cp /root/largest.toml " + peerRoot + "/etc/containerd/config.toml"
	got, err := measure.Interleave(ctx, in.b.rounds,
		in.timed("rm -rf "+lab.Inbox+"/new/*", "/root/quiesce/quiesce-installer install --handler big --shim "+bigShim),
		in.timed("rm -rf /root/copy", "cp "+bigShim+" /root/copy && sync /root/copy"),
		in.timed(fresh, in.steps),
		in.timed(fresh, in.steps+" && sync -f "+peerRoot))
	if err != nil {
		return nil, err
	}
	return []measure.Line{
		{
			Name: "stage a shim of 40 MiB (floor: cp and sync)", Unit: "ms", Ours: got[0], Floor: got[1], Peer: got[3], PeerName: in.rcm + ", and sync",
			Goal: measure.Goal{Base: measure.ToFloor, Limit: 1.5},
		},
		{
			Name: "stage a shim of 40 MiB, against a peer that syncs nothing", Unit: "ms", Ours: got[0], Floor: got[1], Peer: got[2], PeerName: in.rcm,
			Goal: measure.Goal{Base: measure.Informal},
		},
	}, nil
}

func (in *installer) editing(ctx context.Context) (measure.Line, error) {
	fresh := "rm -rf " + tryRoot + " /etc/containerd/conf.d/* && mkdir -p " + tryRoot + " && cp /root/largest.toml " + tryRoot + "/config.toml"
	config := tryRoot + "/config.toml"
	probes := []measure.Probe{in.timed(fresh, scripts+"/try -config "+config), in.timed(fresh, "cp "+config+" "+config+".new && sync "+config+".new && mv "+config+".new "+config)}
	l := measure.Line{Name: "edit the largest config (floor: cp, sync, mv)", Unit: "ms", Goal: measure.Goal{Base: measure.Informal}}
	if in.nvidia {
		l.PeerName = nvidiaToolkit().String() + " runtime configure"
		probes = append(probes, in.timed(fresh, scripts+"/nvidia-ctk runtime configure --runtime=containerd --config="+config+" --drop-in-config="+tryRoot+"/conf.d/99-nvidia.toml"))
	}
	got, err := measure.Interleave(ctx, in.b.rounds, probes...)
	if err != nil {
		return l, err
	}
	l.Ours, l.Floor = got[0], got[1]
	if in.nvidia {
		l.Peer = got[2]
	}
	return l, nil
}

// largestConfig is the largest config file of the tests' corpus, or what containerd prints as its default if that is larger.
func largestConfig(ctx context.Context, module, containerd string) (string, error) {
	out, err := exec.CommandContext(ctx, containerd, "config", "default").Output()
	if err != nil {
		return "", fmt.Errorf("ask containerd for its default config: %w", err)
	}
	largest := string(out)
	err = filepath.WalkDir(filepath.Join(module, "plugin", "internal", "containerd", "config", "testdata"), func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".toml" {
			return err
		}
		text, err := os.ReadFile(path)
		if len(text) > len(largest) {
			largest = string(text)
		}
		return err
	})
	return largest, err
}
